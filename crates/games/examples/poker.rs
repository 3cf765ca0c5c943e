//! Learns an equilibrium of Leduc poker and prints how the error falls.
//!
//! Run it with `cargo run --release -p games --example poker`.
#![allow(clippy::print_stdout, reason = "the program prints its results")]

use games::extensive::{CompiledGame, Leduc};
use games::{Run, SolverConfig, exploitability};
use std::error::Error;
use std::ops::ControlFlow;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let poker = CompiledGame::new(&Leduc::new())?;
    let config = SolverConfig::discounted(1.5, 0.0, 2.0)
        .iterations(200)
        .time_limit(Duration::from_secs(20));

    // A run can be paused, stored (feature `serde`) and resumed with the same result.
    let mut run = Run::new(&poker, &config)?;
    run.advance(50);
    let state = run.state().clone();
    let run = Run::resume(&poker, &config, state)?;
    let solution = run.finish(|checkpoint| {
        if checkpoint.iteration.is_power_of_two() {
            println!(
                "iteration {:4}: NashConv {:.4}",
                checkpoint.iteration, checkpoint.nash_conv
            );
        }
        ControlFlow::Continue(())
    });
    println!(
        "value {:.4} for the first player, exploitability {:.4}, stopped by {:?}",
        solution.value, solution.exploitability, solution.stopped
    );
    // The evaluation by best responses is independent of the solver.
    let evaluated = exploitability(&poker, &solution.strategies)?;
    assert!((evaluated - solution.exploitability).abs() < 1e-12 && evaluated < 0.05);
    Ok(())
}
