//! The figure of the workload: learning paths in the note's example.

use super::textbook::Textbook;
use super::{CRASH, N, STEPS};
use anyhow::{Context, Result};
use charts::{Figure, Panel, Point, Series};
use games::ndarray::arr2;
use games::{MatrixGame, Run, SolverConfig};
use harness::workload::{Output, OutputElement};

/// Draws the learning paths in the note's example, and its average strategies.
pub(super) fn figure(result: &Output) -> Result<Figure> {
    let average = match result {
        Output::F32(result) => result.first_chunk::<N>().map(|rows| rows.map(f64::from)),
        result => f64::from_output(result)?.first_chunk::<N>().copied(),
    };
    let average = average.context("the result has less than one game")?;
    let mut learning = Textbook::new(CRASH);
    let game = MatrixGame::zero_sum(arr2(&CRASH))?;
    let config = SolverConfig::default();
    let mut run = Run::new(&game, &config)?;
    let [mut played, mut averaged] = [0, 1].map(|_| [vec![], vec![]]);
    let (mut last, mut total) = (vec![0.0; N], 0.0);
    for step in 1..=STEPS {
        played[0].push(on_simplex(&learning.strategies[0]));
        learning.advance(1);
        averaged[0].push(on_simplex(&learning.average()[0]));
        run.advance(1);
        let average = &run.average()[0];
        averaged[1].push(on_simplex(average));
        // The strategy played is the increase of the weighted sum, divided by its weight.
        let weight = (step as f64).powf(config.average);
        let pairs = average.iter().zip(&last);
        let strategy = pairs.map(|(now, last)| now + total * (now - last) / weight);
        played[1].push(on_simplex(&strategy.collect::<Vec<_>>()));
        (last, total) = (average.clone(), total + weight);
    }
    let panel = |title: &str, paths: [Vec<(f64, f64)>; 2]| {
        let names = ["regret matching", "predictive RM+, alternating, t²"];
        let lines = names.into_iter().zip(paths);
        let lines = lines.map(|(name, path)| Series::through(name, path));
        Panel {
            x: title.to_owned(),
            is_map: true,
            points: places(),
            lines: lines.chain([edges()]).collect(),
            ..Panel::default()
        }
    };
    Ok(Figure {
        caption: format!(
            "Rock-paper-scissors with crash, {STEPS} iterations: strategies of the row player as points of a triangle whose \
             corners are the actions; the dot inside is the equilibrium. Left: the strategies played; right: their averages. \
             The average of regret matching ends at {:.3}, {:.3}, {:.3}.",
            average[0], average[1], average[2]
        ),
        panels: vec![
            panel("strategies played", played),
            panel("average strategies", averaged),
        ],
        ..Figure::default()
    })
}

/// Returns the position of a strategy in a triangle with sides of length 1.
fn on_simplex(strategy: &[f64]) -> (f64, f64) {
    let height = 0.75_f64.sqrt();
    (strategy[2] + 0.5 * strategy[1], height * strategy[1])
}

fn places() -> Vec<Point> {
    let named = [
        ("rock", [1.0, 0.0, 0.0]),
        ("paper", [0.0, 1.0, 0.0]),
        ("scissors", [0.0, 0.0, 1.0]),
        ("", [0.25, 0.5, 0.25]),
    ];
    named
        .map(|(name, strategy)| Point::new(name, on_simplex(&strategy)))
        .into()
}

fn edges() -> Series {
    let corners = [
        [1.0, 0.0, 0.0],
        [0.0, 1.0, 0.0],
        [0.0, 0.0, 1.0],
        [1.0, 0.0, 0.0],
    ];
    Series::through("", corners.map(|corner| on_simplex(&corner))).as_reference()
}
