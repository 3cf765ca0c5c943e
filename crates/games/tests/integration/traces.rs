//! Learning in matrix games against the reference's traces of rock-paper-scissors with crash.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests stand outside of test functions"
)]

use crate::support;
use games::ndarray::{Array2, array};
use games::{MatrixGame, Profile, Run, SolverConfig, StopReason, Updates, nash_conv};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use tensor_core::compare::{Tolerance, assert_close};

fn game() -> MatrixGame {
    MatrixGame::zero_sum(array![[0, -1, 2], [1, 0, -1], [-2, 1, 0]]).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|number| number.as_f64().unwrap())
        .collect()
}

/// Compares a profile and its NashConv with a row of a trace.
fn check(game: &MatrixGame, profile: &Profile, row: &Value) {
    let bound = Tolerance::exact().or_absolute(1e-13);
    assert_close(&profile[0], numbers(&row["row"]), bound.clone());
    assert_close(&profile[1], numbers(&row["col"]), bound.clone());
    let found = nash_conv(game, profile).unwrap();
    assert_close([found], [row["nash_conv"].as_f64().unwrap()], bound);
}

#[test]
fn every_trace_of_the_reference_is_followed() {
    let (reference, game) = (support::reference(), game());
    let uniform = |config: SolverConfig| config.average(0.0);
    let mut skipped = vec![];
    for trace in reference["rps_crash_traces"].as_array().unwrap() {
        let rows = trace["trace"].as_array().unwrap();
        let config = match trace["variant"].as_str().unwrap() {
            // The order of updates of a published snippet, which no configuration has.
            name @ "seed_order_rm_uniform_average" => {
                skipped.push(name);
                continue;
            }
            "textbook_rm_simultaneous_uniform" => {
                SolverConfig::regret_matching().updates(Updates::Simultaneous)
            }
            "rm_alternating_uniform" => uniform(SolverConfig::regret_matching()),
            "rm+_alternating_linear" => SolverConfig::regret_matching_plus(),
            "predictive_rm+_alternating_quadratic" => SolverConfig::default(),
            "predictive_rm_alternating_quadratic" => SolverConfig::predictive_regret_matching(),
            other => panic!("unknown variant in the reference: {other}"),
        };
        for row in rows {
            let iteration = row["iteration"].as_u64().unwrap();
            let mut run = Run::new(&game, &config).unwrap();
            run.advance(iteration);
            check(&game, &run.average(), row);
        }
    }
    assert_eq!(skipped, ["seed_order_rm_uniform_average"]);
}

#[test]
fn a_target_in_a_matrix_game_is_reached_by_linear_algebra() {
    let game = game();
    let solution = games::solve(&game, &SolverConfig::default().tolerance(1e-14)).unwrap();
    assert!(solution.polished && solution.nash_conv <= 1e-14 && solution.iterations < 10);
    assert_close(
        &solution.strategies[0],
        [0.25, 0.5, 0.25],
        Tolerance::relative(8),
    );
    let average = games::solve(
        &game,
        &SolverConfig::default().tolerance(1e-6).without_polish(),
    )
    .unwrap();
    // The first iteration with at most 1e-6 is 354; checkpoints are a 32nd apart.
    assert!(!average.polished && (354..=365).contains(&average.iterations));
}

#[test]
fn a_solution_of_linear_algebra_that_misses_the_target_is_not_lost() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut n_better = 0;
    for _ in 0..40 {
        let payoffs =
            Array2::from_shape_fn((10, 11), |_| (8.0 * (random.random::<f64>() - 0.5)).round());
        let game = MatrixGame::zero_sum(payoffs).unwrap();
        // No profile reaches the target, and rounding errors end only some of the runs earlier.
        let config = SolverConfig::default().tolerance(1e-300).iterations(5);
        let solution = games::solve(&game, &config).unwrap();
        let average = games::solve(&game, &config.without_polish()).unwrap();
        assert!(solution.nash_conv <= average.nash_conv);
        if solution.stopped == StopReason::AfterIterations {
            n_better += usize::from(solution.polished && solution.nash_conv < 1e-12);
        }
        let again = nash_conv(&game, &solution.strategies).unwrap();
        assert_close([again], [solution.nash_conv], Tolerance::exact());
    }
    assert!(n_better > 0);
}

#[test]
fn regrets_are_nash_conv_in_the_textbook_order_alone() {
    let game = game();
    let textbook = SolverConfig::regret_matching()
        .updates(Updates::Simultaneous)
        .iterations(500);
    let solution = games::solve(&game, &textbook).unwrap();
    assert_close(
        [solution.regret_nash_conv.unwrap()],
        [solution.nash_conv],
        Tolerance::exact().or_absolute(1e-14),
    );
    assert_close(
        [solution.nash_conv],
        [0.067_650_054_381_51],
        Tolerance::exact().or_absolute(1e-14),
    );
    let alternating = games::solve(&game, &SolverConfig::regret_matching()).unwrap();
    assert_eq!(alternating.regret_nash_conv, None);
}
