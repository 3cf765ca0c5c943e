//! Learning rules in strategic games, unusual games, and rejected parameters.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests stand outside of test functions"
)]

use crate::support::random_game;
use games::ndarray::{Array2, ArrayD, array};
use games::{
    Bimatrix, Error, MatrixGame, NormalForm, Number, Rational, Run, SolverConfig, StrategicGame,
    Updates, best_response, exploitability, nash_conv, solve,
};
use tensor_core::compare::{Tolerance, assert_close};
use tensor_core::rng::Philox;

#[test]
fn every_rule_learns_to_play() {
    // NashConv after 4000 iterations, over the range of 2.
    let sure = [
        (SolverConfig::regret_matching(), 0.03),
        (SolverConfig::regret_matching_plus(), 0.01),
        (SolverConfig::predictive_regret_matching(), 0.01),
        (SolverConfig::predictive_regret_matching_plus(), 0.01),
        (SolverConfig::discounted(1.5, 0.0, 2.0), 0.01),
        (SolverConfig::linear(), 0.02),
        (SolverConfig::hedge(), 0.06),
        (SolverConfig::fictitious_play(), 0.1),
        (SolverConfig::replicator(0.05), 0.05),
    ];
    for (key, (n_rows, n_cols)) in [(3, 3), (5, 8), (20, 7)].into_iter().enumerate() {
        let game = random_game([n_rows, n_cols], key as u64);
        for (config, bound) in sure {
            let solution = solve(&game, &config.iterations(4000)).unwrap();
            if let Some(regrets) = solution.regret_nash_conv {
                let bound = Tolerance::exact().or_absolute(1e-12);
                assert_close([regrets], [solution.nash_conv], bound);
            }
            assert!(
                solution.nash_conv <= bound,
                "{config:?}: {}",
                solution.nash_conv
            );
            assert_eq!(
                solution.nash_conv,
                nash_conv(&game, &solution.strategies).unwrap()
            );
            assert_eq!(2.0 * solution.exploitability, solution.nash_conv);
            let last = solution.trace.last().unwrap();
            assert_eq!((last.iteration, last.nash_conv), (4000, solution.nash_conv));
        }
    }
}

#[test]
fn hedge_plays_in_proportion_to_exponentials() {
    let game = MatrixGame::zero_sum(array![[1.0, 0.0], [0.0, 0.0]]).unwrap();
    let config = SolverConfig {
        rule: games::Rule::Hedge { rate: Some(2.0) },
        ..SolverConfig::hedge()
    };
    let mut run = Run::new(&game, &config).unwrap();
    run.advance(2);
    // The value of the first action was 1/2 larger to the row player. The average is over the
    // uniform strategy and the second strategy.
    let second = 1.0 / (1.0 + (-1.0_f64).exp());
    assert_close(
        [run.average()[0][0]],
        [f64::midpoint(0.5, second)],
        Tolerance::relative(4),
    );
}

#[test]
fn hedge_learns_in_payoffs_of_any_size() {
    for size in [5e-324, 1e-310, 1e-300, 1.0, 1e150] {
        for n_actions in [1, 2, 3] {
            let at = |(row, col)| if row == col { size } else { 0.0 };
            let game = MatrixGame::zero_sum(Array2::from_shape_fn((n_actions, n_actions), at));
            let solution = solve(&game.unwrap(), &SolverConfig::hedge().iterations(20)).unwrap();
            let even = vec![1.0 / n_actions as f64; n_actions];
            for strategy in solution.strategies {
                assert_close(strategy, &even, Tolerance::relative(64));
            }
        }
    }
}

/// Returns both players' payoffs in a game of two by three actions. The payoffs have a range of 4
/// for the row player and of 10 for the column player.
fn uneven() -> [Array2<f64>; 2] {
    [
        array![[3.0, -1.0, 0.5], [-0.5, 2.0, 1.0]],
        array![[-4.0, 6.0, 1.0], [2.5, -3.0, 0.0]],
    ]
}

/// Returns the values of each player's actions, summed cell by cell.
fn action_values([rows, cols]: &[Array2<f64>; 2], [x, y]: &[Vec<f64>; 2]) -> [Vec<f64>; 2] {
    let mut values = [vec![0.0; x.len()], vec![0.0; y.len()]];
    for ((row, col), payoff) in rows.indexed_iter() {
        values[0][row] += payoff * y[col];
        values[1][col] += cols[(row, col)] * x[row];
    }
    values
}

/// Checks 12 iterations of a run against a reference in which `next` computes each player's next
/// strategy from the action values. Compares the strategies and their average.
fn follows(config: SolverConfig, mut next: impl FnMut(usize, &mut [f64], &[f64], u64)) {
    let payoffs = uneven();
    let [rows, cols] = payoffs.clone();
    let game = Bimatrix::new(rows, cols).unwrap();
    let mut run = Run::new(&game, &config).unwrap();
    let mut played = [vec![1.0 / 2.0; 2], vec![1.0 / 3.0; 3]];
    let mut sums = [vec![0.0; 2], vec![0.0; 3]];
    let bound = Tolerance::relative(0).or_absolute(1e-13);
    for t in 1..=12 {
        run.advance(1);
        let values = action_values(&payoffs, &played);
        for player in 0..2 {
            for (sum, p) in sums[player].iter_mut().zip(&played[player]) {
                *sum += p;
            }
            next(player, &mut played[player], &values[player], t);
            let average = sums[player].iter().map(|sum| sum / t as f64);
            let average: Vec<f64> = average.collect();
            assert_close(&run.average()[player], average, bound.clone());
            assert_close(&run.playing()[player], &played[player], bound.clone());
        }
    }
}

#[test]
fn hedge_without_a_rate_has_that_of_the_actions_the_time_and_the_range() {
    let mut totals = [vec![0.0; 2], vec![0.0; 3]];
    follows(SolverConfig::hedge(), |player, played, values, t| {
        let range = [4.0, 10.0][player];
        let rate = (8.0 * (played.len() as f64).ln() / (t + 1) as f64).sqrt() / range;
        for (total, value) in totals[player].iter_mut().zip(values) {
            *total += value;
        }
        let shares: Vec<f64> = totals[player].iter().map(|u| (rate * u).exp()).collect();
        let all: f64 = shares.iter().sum();
        for (p, share) in played.iter_mut().zip(shares) {
            *p = share / all;
        }
    });
}

#[test]
fn replicators_grow_by_what_they_get_above_the_mean() {
    const STEP: f64 = 0.07;
    follows(SolverConfig::replicator(STEP), |_, played, values, _| {
        let mean: f64 = played.iter().zip(values).map(|(p, value)| p * value).sum();
        for (p, value) in played.iter_mut().zip(values) {
            *p += STEP * *p * (value - mean);
        }
    });
}

#[test]
fn fictitious_play_counts_answers_to_counts() {
    // Rock-paper-scissors from rock: paper answers rock until paper has lost its lead, then
    // scissors.
    let game = MatrixGame::zero_sum(array![[0, -1, 1], [1, 0, -1], [-1, 1, 0]]).unwrap();
    let mut run = Run::new(&game, &SolverConfig::fictitious_play()).unwrap();
    run.advance(4);
    assert_eq!(run.average()[0], [0.25, 0.75, 0.0]);
}

#[test]
fn fictitious_play_cycles_in_the_game_of_shapley() {
    let rows = array![[0, 1, 0], [0, 0, 1], [1, 0, 0]];
    let cols = array![[0, 0, 1], [1, 0, 0], [0, 1, 0]];
    let game = Bimatrix::new(rows, cols).unwrap();
    // Alternating updates: with simultaneous updates from the same action, both players would
    // always play the same action, and their average would be the equilibrium.
    let config = SolverConfig::fictitious_play()
        .updates(Updates::Alternating)
        .iterations(20_000);
    let solution = solve(&game, &config).unwrap();
    assert!(solution.nash_conv > 0.2, "{}", solution.nash_conv);
}

#[test]
fn products_of_three_players_are_sums_over_all_cells() {
    let shape = [2, 3, 4];
    let mut uniform = vec![0.0; 3 * 24];
    Philox::new(9).fill_uniform_f64(0, &mut uniform);
    let payoffs: Vec<ArrayD<f64>> = uniform
        .chunks(24)
        .map(|payoffs| ArrayD::from_shape_vec(shape.to_vec(), payoffs.to_vec()).unwrap())
        .collect();
    let game = NormalForm::new(3, payoffs.clone()).unwrap();
    let profile = vec![
        vec![0.3, 0.7],
        vec![0.2, 0.5, 0.3],
        vec![0.1, 0.2, 0.3, 0.4],
    ];
    for (player, payoffs) in payoffs.iter().enumerate() {
        let mut expected = vec![0.0; shape[player]];
        for (cell, payoff) in payoffs.indexed_iter() {
            let others = (0..3).filter(|&other| other != player);
            let p: f64 = others.map(|other| profile[other][cell[other]]).product();
            expected[cell[player]] += p * payoff;
        }
        let mut values = vec![0.0; shape[player]];
        game.action_values(player, &profile, &mut values);
        assert_close(values, expected, Tolerance::relative(64));
    }
    let solution = solve(&game, &SolverConfig::regret_matching().iterations(2000)).unwrap();
    assert_eq!(solution.values.len(), 3);
    assert_eq!(
        3.0 * exploitability(&game, &solution.strategies).unwrap(),
        solution.nash_conv
    );
}

#[test]
fn one_pass_has_the_bits_of_two() {
    for (n_rows, n_cols) in [(1, 1), (3, 3), (4, 9), (5, 64), (33, 31), (70, 129)] {
        let game = random_game([n_rows, n_cols], 4);
        let strategy = |n: usize| vec![1.0 / n as f64; n];
        let profile = vec![strategy(n_rows), strategy(n_cols)];
        let mut together = profile.clone();
        game.all_action_values(&profile, &mut together);
        let mut apart = profile.clone();
        for (player, values) in apart.iter_mut().enumerate() {
            game.action_values(player, &profile, values);
        }
        assert_eq!(together, apart);
        let by_hand: Vec<f64> = game
            .row_payoffs()
            .chunks(n_cols)
            .map(|row| row.iter().sum::<f64>() / n_cols as f64)
            .collect();
        assert_close(&together[0], by_hand, Tolerance::exact().or_absolute(1e-14));
    }
}

#[test]
fn fractions_and_large_integers_are_kept_as_they_are() {
    let third = Rational::new(1.into(), 3.into());
    let game = MatrixGame::zero_sum(array![[third.clone(), -third.clone()]]).unwrap();
    assert_eq!(game.payoff(0, &[0, 0]), third);
    assert_eq!(game.payoff(1, &[0, 1]), third);
    let large = (1_i64 << 60) + 1;
    let game = MatrixGame::zero_sum(array![[large]]).unwrap();
    assert_eq!(
        game.payoff(0, &[0, 0]),
        Rational::from_integer(large.into())
    );
    let bimatrix = Bimatrix::from(game.clone());
    assert_eq!(MatrixGame::try_from(bimatrix).unwrap(), game);
    for number in [i128::MAX, i128::MIN, i128::from(i64::MAX)] {
        let kept = number.exact().unwrap();
        assert_eq!(number.is_float(), kept.is_float(), "{number}");
    }
}

#[test]
fn odd_games_are_solved() {
    let cases = [
        (MatrixGame::zero_sum(array![[7.0]]).unwrap(), 7.0),
        (MatrixGame::zero_sum(array![[1, 5, -2]]).unwrap(), -2.0),
        (MatrixGame::zero_sum(array![[1], [5], [-2]]).unwrap(), 5.0),
        (
            MatrixGame::zero_sum(array![[0.0, 0.0], [0.0, 0.0]]).unwrap(),
            0.0,
        ),
        (
            MatrixGame::zero_sum(array![[1e150, -1e150], [-1e150, 1e150]]).unwrap(),
            0.0,
        ),
        (
            MatrixGame::zero_sum(array![[1e-300, -1e-300], [-1e-300, 1e-300]]).unwrap(),
            0.0,
        ),
        (
            MatrixGame::zero_sum(array![[2.0_f32, -1.0], [-1.0, 1.0]]).unwrap(),
            0.2,
        ),
    ];
    for (game, value) in cases {
        for rule in [
            SolverConfig::default(),
            SolverConfig::hedge(),
            SolverConfig::regret_matching(),
            SolverConfig::fictitious_play(),
        ] {
            let range = game.payoff_range(0);
            let solution = solve(&game, &rule.iterations(2000)).unwrap();
            let error = (solution.value - value).abs();
            assert!(
                error <= solution.nash_conv + solution.rounding
                    && error <= 0.05 * range.max(f64::MIN_POSITIVE),
                "{rule:?} {game:?} {error}"
            );
        }
        let target = 1e-9 * game.payoff_range(0).max(1e-300);
        let exact = solve(&game, &SolverConfig::default().tolerance(target)).unwrap();
        assert!(exact.nash_conv <= target, "{game:?} {}", exact.nash_conv);
    }
}

#[test]
fn bad_games_are_rejected_by_name() {
    let faults = [
        MatrixGame::zero_sum(Array2::<f64>::zeros((0, 3))).unwrap_err(),
        MatrixGame::zero_sum(array![[0.0, f64::NAN]]).unwrap_err(),
        MatrixGame::zero_sum(array![[f64::INFINITY]]).unwrap_err(),
        MatrixGame::zero_sum(array![[1e151]]).unwrap_err(),
        Bimatrix::new(array![[1, 2]], array![[1], [2]]).unwrap_err(),
        NormalForm::new(2, vec![ArrayD::<f64>::zeros(vec![2, 2])]).unwrap_err(),
        NormalForm::new(1, vec![ArrayD::<f64>::zeros(vec![2, 2])]).unwrap_err(),
        NormalForm::new::<f64>(0, vec![]).unwrap_err(),
        MatrixGame::try_from(Bimatrix::new(array![[1, 2]], array![[1, 1]]).unwrap()).unwrap_err(),
    ];
    let cell = MatrixGame::zero_sum(array![[0.0, 1.0], [f64::NAN, 0.0]]).unwrap_err();
    assert!(
        matches!(&cell, Error::PayoffInvalid { cell, .. } if cell == &[1, 0]),
        "{cell}"
    );
    for fault in faults {
        assert!(fault.to_string().contains("::"), "{fault}");
    }
}

#[test]
fn bad_dynamics_and_profiles_are_rejected() {
    let game = random_game([3, 4], 1);
    let bad = [
        SolverConfig::default().average(-1.0),
        SolverConfig::default().average(f64::NAN),
        SolverConfig::default().tolerance(-1.0),
        SolverConfig::default().tolerance(f64::NAN),
        SolverConfig::discounted(f64::NAN, 0.0, 2.0),
        SolverConfig::replicator(0.0),
        SolverConfig::replicator(10.0),
    ];
    for config in bad {
        assert!(
            matches!(
                solve(&game, &config),
                Err(Error::ParameterInvalid {
                    operation: "solve",
                    ..
                })
            ),
            "{config:?}"
        );
    }
    let bad = [
        vec![vec![0.5, 0.5, 0.0]],
        vec![vec![0.5, 0.5, 0.0], vec![1.0; 3]],
        vec![vec![0.5, 0.6, 0.0], vec![0.25; 4]],
        vec![vec![1.5, -0.5, 0.0], vec![0.25; 4]],
        vec![vec![f64::NAN, 0.5, 0.5], vec![0.25; 4]],
        vec![vec![0.5, 0.5, 0.0], vec![0.25; 4], vec![1.0]],
    ];
    for profile in bad {
        assert!(
            matches!(
                best_response(&game, &profile),
                Err(Error::ProfileInvalid { .. })
            ),
            "{profile:?}"
        );
    }
    let state = Run::new(&random_game([2, 4], 1), &SolverConfig::default())
        .unwrap()
        .state()
        .clone();
    let fault = Run::resume(&game, &SolverConfig::default(), state).unwrap_err();
    assert!(matches!(fault, Error::StateInvalid { .. }), "{fault}");
}

#[test]
fn a_state_of_too_many_iterations_is_invalid() {
    let game = random_game([3, 3], 1);
    let config = SolverConfig::regret_matching().average(16.0);
    let mut run = Run::new(&game, &config).unwrap();
    run.advance(5);
    let most = 1 << 53;
    let at = |iteration: u64| {
        let mut state = run.state().clone();
        state.iteration = iteration;
        Run::resume(&game, &config, state)
    };
    let mut late = at(most).unwrap();
    late.advance(5);
    assert!(late.average().concat().iter().all(|p| p.is_finite()));
    for iteration in [most + 1, u64::MAX] {
        let fault = at(iteration).unwrap_err();
        assert!(matches!(fault, Error::StateInvalid { .. }), "{fault}");
    }
}

#[test]
fn time_and_callers_stop_a_run() {
    let game = random_game([30, 30], 3);
    let endless = SolverConfig::regret_matching().iterations(u64::MAX);
    let in_time = solve(
        &game,
        &endless.time_limit(std::time::Duration::from_millis(20)),
    )
    .unwrap();
    assert_eq!(in_time.stopped, games::StopReason::AfterTime);
    let broken = games::solve_with(&game, &endless, |look| {
        if look.iteration < 10 {
            std::ops::ControlFlow::Continue(())
        } else {
            std::ops::ControlFlow::Break(())
        }
    });
    let broken = broken.unwrap();
    assert_eq!(
        (broken.stopped, broken.iterations),
        (games::StopReason::ByCaller, 10)
    );
}

#[cfg(feature = "serde")]
#[test]
fn a_state_that_was_written_and_read_goes_on_with_the_same_bits() {
    let game = random_game([9, 5], 6);
    let config = SolverConfig::default().iterations(200);
    let mut run = Run::new(&game, &config).unwrap();
    run.advance(77);
    let text = serde_json::to_string(&(run.state(), config)).unwrap();
    let (state, read): (games::SolverState, SolverConfig) = serde_json::from_str(&text).unwrap();
    assert_eq!(read, config);
    let resumed = Run::resume(&game, &read, state)
        .unwrap()
        .finish(|_| std::ops::ControlFlow::Continue(()));
    let text = serde_json::to_string(&resumed).unwrap();
    assert_eq!(
        serde_json::from_str::<games::Solution>(&text).unwrap(),
        resumed
    );
    assert_eq!(
        resumed.strategies,
        solve(&game, &config).unwrap().strategies
    );
    let mut broken = serde_json::to_value(run.state()).unwrap();
    broken["players"][1]["strategy"][2] = (-0.5).into();
    let is_rejected = |value: serde_json::Value| {
        let state: games::SolverState = serde_json::from_value(value).unwrap();
        Run::resume(&game, &config, state).is_err()
    };
    assert!(is_rejected(broken));
    let mut broken = serde_json::to_value(run.state()).unwrap();
    broken["players"][1]["strategy"] = vec![5.0; 5].into();
    assert!(is_rejected(broken));
    let mut broken = serde_json::to_value(run.state()).unwrap();
    broken["players"][0]["sum"] = vec![1.7e308; 9].into();
    assert!(is_rejected(broken));
}
