//! Large constants in payoffs, which change no equilibrium: NashConv and its rounding error against
//! fractions.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests stand outside of test functions"
)]

use crate::support::fractions::{exact, nash_conv_of_game, nash_conv_of_tree};
use games::extensive::{CompiledGame, Sequences, Tree, TreeBuilder};
use games::ndarray::{Array3, ArrayD, Axis, array};
use games::{
    Batch, Bimatrix, MatrixGame, NormalForm, Profile, Rational, SolverConfig, StopReason,
    StrategicGame, best_response, solve,
};
use num_traits::{One, ToPrimitive, Zero};
use tensor_core::rng::Philox;

/// The offsets in the first report of the error: NashConv was computed as 0 at each of these
/// offsets, although the true value was positive.
const OFFSETS: [f64; 4] = [1e9, 1e12, 1e14, 1e16];

/// Returns random numbers between `offset` and `offset + 8`, each rounded to the nearest float.
fn around(random: &Philox, first: u64, shape: Vec<usize>, offset: f64) -> ArrayD<f64> {
    let mut at = first;
    ArrayD::from_shape_simple_fn(shape, || {
        at += 1;
        offset + 8.0 * random.uniform_f64(at)
    })
}

fn random_strategy(random: &Philox, first: u64, n_actions: usize) -> Vec<f64> {
    let draws: Vec<f64> = (0..n_actions as u64)
        .map(|action| (random.uniform_f64(first + action) - 0.3).max(0.0))
        .collect();
    let total: f64 = draws.iter().sum();
    if total == 0.0 {
        return vec![1.0 / n_actions as f64; n_actions];
    }
    draws.iter().map(|draw| draw / total).collect()
}

/// Checks that NashConv of a profile is within its rounding error of the truth.
fn assert_within(found: f64, rounding: f64, truth: &Rational, what: &str) {
    let off = exact(found) - truth;
    let off = if off < Rational::zero() { -off } else { off };
    assert!(
        off <= exact(rounding),
        "{what}: {found} ± {rounding}, true {truth}"
    );
}

#[test]
fn a_run_at_its_target_is_at_its_target_in_fractions() {
    for offset in OFFSETS {
        let gains = array![[offset, offset + 4.0], [offset + 2.0, offset]];
        let game = MatrixGame::zero_sum(gains.clone()).unwrap();
        let target = 1e-9;
        for config in [
            SolverConfig::default(),
            SolverConfig::default().without_polish(),
        ] {
            let config = config.tolerance(target).iterations(100_000);
            let found = solve(&game, &config).unwrap();
            let truth = nash_conv_of_game(&game, &found.strategies);
            assert!(
                found.stopped == StopReason::AtTarget,
                "{offset:e} {found:?}"
            );
            assert!(truth <= exact(target), "{offset:e} {truth}");
            assert!((found.value - (offset + 4.0 / 3.0)).abs() <= 1e-15 * offset);
        }
    }
}

#[test]
fn a_general_game_reaches_its_target_whatever_its_constants_are() {
    let target = 1e-4;
    let config = SolverConfig::default()
        .tolerance(target)
        .iterations(100_000);
    for offset in OFFSETS {
        // The only equilibrium is mixed, so that it depends on each difference of payoffs.
        let rows = array![[offset, offset + 4.0], [offset + 2.0, offset]];
        let cols = array![[3.0 - offset, 1.0 - offset], [-offset, 2.0 - offset]];
        let game = Bimatrix::new(rows, cols).unwrap();
        let found = solve(&game, &config).unwrap();
        assert_eq!(found.stopped, StopReason::AtTarget, "{offset:e}");
        let truth = nash_conv_of_game(&game, &found.strategies);
        assert!(truth <= exact(target), "{offset:e} {truth}");
    }
}

#[test]
fn payoffs_of_one_player_on_two_scales_reach_no_target_below_their_rounding_error() {
    let config = SolverConfig::default().tolerance(1e-9).iterations(100_000);
    for offset in OFFSETS {
        // The range of the second player's payoffs is the offset, and no constant makes the payoffs
        // small.
        let rows = array![[offset, offset + 4.0], [offset + 2.0, offset]];
        let cols = array![[3.0, 1.0], [offset, offset + 2.0]];
        let game = Bimatrix::new(rows, cols).unwrap();
        let found = solve(&game, &config).unwrap();
        let truth = nash_conv_of_game(&game, &found.strategies);
        assert_within(found.nash_conv, found.rounding, &truth, "two scales");
        let StopReason::AtRounding { bound } = found.stopped else {
            panic!("{offset:e} {found:?}");
        };
        assert!(bound > 1e-9 && truth <= exact(bound), "{offset:e} {truth}");
    }
}

#[test]
fn nash_conv_of_random_games_is_within_its_rounding_error() {
    for seed in 0..60 {
        let random = Philox::new(seed);
        let n_players = 2 + (random.word(0) % 2) as usize;
        let shape: Vec<usize> = (0..n_players as u64)
            .map(|player| 1 + (random.word(1 + player) % 4) as usize)
            .collect();
        let offset = |player: u64| {
            let size = 10_f64.powi((random.word(10 + player) % 21) as i32 - 2);
            if random.word(20 + player).is_multiple_of(2) {
                size
            } else {
                -size
            }
        };
        let profile: Profile = shape
            .iter()
            .zip(0..)
            .map(|(&n_actions, player)| random_strategy(&random, 100 * (player + 1), n_actions))
            .collect();
        let floats: Vec<ArrayD<f64>> = (0..n_players as u64)
            .map(|player| around(&random, 1000 * (player + 1), shape.clone(), offset(player)))
            .collect();
        // The same offsets and thirds of small integers, which no float represents; then an
        // offset with more digits than a float.
        let huge = exact(1e30) * exact(1e10);
        let fractions = floats.iter().map(|payoffs| {
            payoffs.mapv(|payoff| {
                let small = exact((payoff * 7.0) % 16.0) / exact(3.0);
                small
                    + if seed % 2 == 0 {
                        huge.clone()
                    } else {
                        exact(payoff)
                    }
            })
        });
        let fractions: Vec<ArrayD<Rational>> = fractions.collect();
        let games = [
            NormalForm::new(n_players, floats).unwrap(),
            NormalForm::new(n_players, fractions).unwrap(),
        ];
        for game in games {
            let answers = best_response(&game, &profile).unwrap();
            let truth = nash_conv_of_game(&game, &profile);
            let what = format!("seed {seed}, {shape:?}");
            assert_within(answers.nash_conv(), answers.rounding, &truth, &what);
            let range = (0..n_players)
                .map(|player| game.payoff_range(player))
                .fold(0.0, f64::max);
            assert!(
                answers.rounding <= 1e-13 * range,
                "{what}: {}",
                answers.rounding
            );
            if n_players == 2 {
                let game = Bimatrix::try_from(game).unwrap();
                let answers = best_response(&game, &profile).unwrap();
                assert_within(answers.nash_conv(), answers.rounding, &truth, &what);
            }
        }
    }
}

/// Returns a random tree with hidden information in which chance moves, then both players. The
/// payoffs of each player are random numbers near an offset.
fn random_tree(random: &Philox, offsets: [f64; 2]) -> Tree {
    let names = |n: usize| vec![String::new(); n];
    let mut builder = TreeBuilder::new(String::new(), names(2));
    let n_outcomes = 1 + (random.word(1) % 3) as usize;
    let weights: Vec<i64> = (0..n_outcomes as u64)
        .map(|at| 1 + i64::from(random.word(2 + at) % 5))
        .collect();
    let sets: Vec<u32> = (0..n_outcomes)
        .map(|_| builder.information_set(0, "", names(2)).unwrap())
        .collect();
    let answer = builder.information_set(1, "", names(3)).unwrap();
    builder.chance(&weights, || names(n_outcomes)).unwrap();
    let mut at = 50;
    for set in sets {
        let after = builder.information_set(0, "", names(2)).unwrap();
        builder.decision(set, 2).unwrap();
        for _ in 0..2 {
            builder.decision(answer, 3).unwrap();
            for reply in 0..3 {
                // The first player moves again after one reply to its first action.
                at += 1;
                let n_ends = if reply == 0 && at % 6 == 3 { 2 } else { 1 };
                if n_ends == 2 {
                    builder.decision(after, 2).unwrap();
                }
                for _ in 0..n_ends {
                    at += 6;
                    let payoff =
                        |offset: f64, player: u64| offset + 8.0 * random.uniform_f64(at + player);
                    builder
                        .terminal(&[payoff(offsets[0], 0), payoff(offsets[1], 1)])
                        .unwrap();
                }
            }
        }
    }
    builder.finish().unwrap()
}

#[test]
fn nash_conv_of_random_trees_is_within_its_rounding_error() {
    for seed in 0..60 {
        let random = Philox::new(seed).stream(3);
        let offset = |player: u64| 10_f64.powi((random.word(10 + player) % 21) as i32 - 2);
        let tree = random_tree(&random, [offset(0), -offset(1)]);
        let compiled = CompiledGame::from_tree(&tree).unwrap();
        let form = Sequences::new(&tree).unwrap();
        let strategy = |player: usize| {
            let decisions = form.decisions(player).iter().zip(1..);
            let strategies = decisions.map(|(decision, at)| {
                random_strategy(
                    &random,
                    400 * at + 7 * player as u64,
                    decision.n_actions as usize,
                )
            });
            strategies.flatten().collect()
        };
        let profile: Profile = vec![strategy(0), strategy(1)];
        let answers = best_response(&compiled, &profile).unwrap();
        let truth = nash_conv_of_tree(&form, &profile);
        let what = format!("seed {seed}");
        assert_within(answers.nash_conv(), answers.rounding, &truth, &what);
        assert!(answers.rounding <= 1e-12, "{what}: {}", answers.rounding);

        let config = SolverConfig::default().tolerance(1e-6).iterations(20_000);
        let found = solve(&compiled, &config).unwrap();
        assert_eq!(found.stopped, StopReason::AtTarget, "{what}");
        assert!(
            nash_conv_of_tree(&form, &found.strategies) <= exact(1e-6),
            "{what}"
        );
    }
}

#[test]
fn a_batch_with_offsets_is_the_batch_without_them() {
    let small = array![[[0.0, 4.0], [2.0, 0.0]], [[1.0, -3.0], [-2.0, 5.0]]];
    let offsets = [1e14, -1e15];
    let large = Array3::from_shape_fn((2, 2, 2), |at| small[[at.0, at.1, at.2]] + offsets[at.0]);
    let config = SolverConfig::default().iterations(2000);
    let small = Batch::zero_sum(small).unwrap().solve(&config).unwrap();
    let batch = Batch::zero_sum(large).unwrap();
    let found = batch.solve(&config).unwrap();
    for (game, offset) in offsets.into_iter().enumerate() {
        assert!(found.nash_conv[game] <= 1e-5, "{}", found.nash_conv[game]);
        assert!(0.0 < found.rounding[game] && found.rounding[game] < 1e-13);
        assert!((found.values[game] - offset - small.values[game]).abs() <= 0.25);
        let gains = batch.row_payoffs().index_axis(Axis(0), game).to_owned();
        let alone = MatrixGame::zero_sum(gains).unwrap();
        let profile = vec![found.rows.row(game).to_vec(), found.cols.row(game).to_vec()];
        let truth = nash_conv_of_game(&alone, &profile);
        assert_within(found.nash_conv[game], found.rounding[game], &truth, "batch");
    }
}

#[test]
fn a_target_below_the_rounding_error_ends_the_run_and_is_not_reached() {
    let pure = MatrixGame::zero_sum(array![[1.0, 2.0], [0.0, 3.0]]).unwrap();
    let mixed = MatrixGame::zero_sum(array![[0.1, -0.7], [-0.3, 0.4]]).unwrap();
    for game in [pure, mixed] {
        let found = solve(
            &game,
            &SolverConfig::default().tolerance(1e-18).iterations(1000),
        )
        .unwrap();
        let StopReason::AtRounding { bound } = found.stopped else {
            panic!("{found:?}");
        };
        assert!(1e-18 < bound && bound < 1e-14 && bound == found.rounding);
        let truth = nash_conv_of_game(&game, &found.strategies);
        assert_within(found.nash_conv, found.rounding, &truth, "at rounding");
    }
    // If all payoffs are equal, there is no rounding error.
    let constant = MatrixGame::zero_sum(array![[1e16, 1e16]]).unwrap();
    let found = solve(&constant, &SolverConfig::default().tolerance(1e-300)).unwrap();
    assert_eq!((found.stopped, found.rounding), (StopReason::AtTarget, 0.0));
}

#[test]
fn a_player_of_one_action_gains_nothing() {
    let game = NormalForm::new(1, vec![array![Rational::one()].into_dyn()]).unwrap();
    let answers = best_response(&game, &[vec![1.0]]).unwrap();
    assert_eq!((answers.nash_conv(), answers.rounding), (0.0, 0.0));
}

#[test]
fn the_second_player_of_a_constant_sum_keeps_payoffs_that_are_small_next_to_the_sum() {
    // Payoffs of the second player; the first player's payoffs are a constant sum minus these.
    let small = [
        array![[0.3, 0.3], [0.3, 0.3]],
        array![[0.3, -2.7], [-1.2, 0.8]],
        array![[1e-3, 2e-3], [3e-3, 1e-3]],
    ];
    for others in small {
        for sum in [1.0, 1e9, 1e16, -1e16] {
            let others = others.mapv(|payoff: f64| exact(payoff));
            let gains = others.mapv(|payoff| exact(sum) - payoff);
            let bimatrix = Bimatrix::new(gains, others).unwrap();
            let game = MatrixGame::try_from(bimatrix.clone()).unwrap();
            let profile = vec![vec![0.25, 0.75], vec![0.5, 0.5]];
            let expected = best_response(&bimatrix, &profile).unwrap();
            assert_eq!(best_response(&game, &profile).unwrap(), expected, "{sum:e}");
            let mut values = [[0.0; 2]; 2];
            game.action_values(1, &profile, &mut values[0]);
            bimatrix.action_values(1, &profile, &mut values[1]);
            assert_eq!(values[0], values[1], "{sum:e}");
            let mut truth = Rational::zero();
            for cell in [[0, 0], [0, 1], [1, 0], [1, 1]] {
                let p = profile[0][cell[0]] * profile[1][cell[1]];
                truth += exact(p) * game.payoff(1, &cell);
            }
            let truth = truth.to_f64().unwrap();
            assert!((expected.values[1] - truth).abs() <= 1e-15, "{sum:e}");
            let found = solve(&game, &SolverConfig::default().iterations(10)).unwrap();
            let judged = best_response(&game, &found.strategies).unwrap();
            assert_eq!(found.values, judged.values, "{sum:e}");
            // The same game again after a conversion.
            assert_eq!(Bimatrix::from(game), bimatrix, "{sum:e}");
        }
    }
}

#[test]
fn the_value_of_a_small_payoff_is_not_lost_next_to_large_ones() {
    let first = vec![vec![1.0, 0.0]; 2];
    for sign in [1.0, -1.0] {
        let gains = array![[1e-3, 1e20], [1e20, 1e20]].mapv(|gain: f64| sign * gain);
        let matrix = MatrixGame::zero_sum(gains.clone()).unwrap();
        let bimatrix = Bimatrix::new(gains.mapv(exact), gains.mapv(|gain| -gain)).unwrap();
        let form = NormalForm::from(bimatrix.clone());
        let names = |n: usize| vec![String::new(); n];
        let mut builder = TreeBuilder::new(String::new(), names(2));
        let [one, other] = [0, 1].map(|player| builder.information_set(player, "", names(2)));
        let (one, other) = (one.unwrap(), other.unwrap());
        builder.decision(one, 2).unwrap();
        for row in gains.rows() {
            builder.decision(other, 2).unwrap();
            for &gain in row {
                builder.terminal(&[gain, -gain]).unwrap();
            }
        }
        let compiled = CompiledGame::from_tree(&builder.finish().unwrap()).unwrap();
        let all = [
            best_response(&matrix, &first).unwrap(),
            best_response(&bimatrix, &first).unwrap(),
            best_response(&form, &first).unwrap(),
            best_response(&compiled, &first).unwrap(),
        ];
        for (number, answers) in all.into_iter().enumerate() {
            let values = [sign * 1e-3, -sign * 1e-3];
            assert_eq!(answers.values, values, "{number}");
        }
        // Whichever cell is played, its payoff is the value.
        let batch = Batch::zero_sum(gains.clone().insert_axis(Axis(0))).unwrap();
        let found = batch
            .solve(&SolverConfig::default().iterations(50))
            .unwrap();
        let profile = [found.rows.row(0), found.cols.row(0)];
        let mut truth = Rational::zero();
        for (cell, &gain) in gains.indexed_iter() {
            truth += exact(profile[0][cell.0] * profile[1][cell.1]) * exact(gain);
        }
        let truth = truth.to_f64().unwrap();
        assert!((found.values[0] - truth).abs() <= 1e-14 * truth.abs());
    }
}
