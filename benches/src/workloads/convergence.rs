//! Pictures of learning: how NashConv falls, by iterations and by time.

use crate::figure::{Figure, Line, Panel};
use anyhow::Result;
use games::{Checkpoint, Dynamics, Game, Solution, solve};

/// From one point of a line to the next the iterations grow by so much at least.
const GROWTH: f64 = 1.1;

/// Learns by each of the dynamics for so many iterations, and draws NashConv of the averages.
///
/// # Errors
/// The dynamics are not for this game.
pub(super) fn figure<G: Game>(
    game: &G,
    caption: impl Into<String>,
    iterations: u64,
    dynamics: &[(&str, Dynamics)],
) -> Result<Figure> {
    let learnt = |(name, dynamics): &(&str, Dynamics)| {
        let solution = solve(game, &dynamics.iterations(iterations))?;
        Ok(((*name).to_owned(), solution))
    };
    let learnt: Vec<(String, Solution)> = dynamics.iter().map(learnt).collect::<Result<_>>()?;
    let panel = |x: &str, at: fn(&Checkpoint) -> f64| Panel {
        x: x.to_owned(),
        y: "NashConv".to_owned(),
        is_log: true,
        lines: learnt
            .iter()
            .map(|(name, solution)| {
                let points = thinned(&solution.trace).map(|look| (at(look), look.nash_conv));
                Line::through(name.clone(), points)
            })
            .collect(),
        ..Panel::default()
    };
    Ok(Figure {
        caption: caption.into(),
        panels: vec![
            panel("iterations", |look| look.iteration as f64),
            panel("seconds", |look| look.seconds),
        ],
    })
}

/// Leaves out what would lie on its neighbour in a picture.
fn thinned(trace: &[Checkpoint]) -> impl Iterator<Item = &Checkpoint> {
    let mut next = 0.0;
    trace.iter().filter(move |look| {
        let iteration = look.iteration as f64;
        let is_kept = iteration >= next;
        if is_kept {
            next = GROWTH * iteration;
        }
        is_kept
    })
}
