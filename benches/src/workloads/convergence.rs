//! Convergence figures: NashConv by iterations and by time.

use anyhow::Result;
use charts::{Figure, Panel, Series};
use games::{Checkpoint, Game, Solution, SolverConfig, solve};

/// Minimum ratio of the iteration numbers of two adjacent points of a line.
const GROWTH: f64 = 1.1;

/// Runs each solver configuration for `iterations`, and draws NashConv of the average strategies
/// over iterations and over time.
///
/// # Errors
/// A configuration is not valid for this game.
pub(super) fn figure<G: Game>(
    game: &G,
    caption: impl Into<String>,
    iterations: u64,
    config: &[(&str, SolverConfig)],
) -> Result<Figure> {
    let learnt = |(name, config): &(&str, SolverConfig)| {
        let solution = solve(game, &config.iterations(iterations))?;
        Ok(((*name).to_owned(), solution))
    };
    let learnt: Vec<(String, Solution)> = config.iter().map(learnt).collect::<Result<_>>()?;
    let panel = |x: &str, at: fn(&Checkpoint) -> f64| Panel {
        x: x.to_owned(),
        y: "NashConv".to_owned(),
        is_log: true,
        lines: learnt
            .iter()
            .map(|(name, solution)| {
                let points = thinned(&solution.trace).map(|look| (at(look), look.nash_conv));
                Series::through(name.clone(), points)
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
        ..Figure::default()
    })
}

/// Drops checkpoints that would coincide with the previous one in a logarithmic plot.
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
