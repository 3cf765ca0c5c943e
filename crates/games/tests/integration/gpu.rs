//! Tests of batches on the adapters of this machine against the CPU.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests stand outside of test functions"
)]

use crate::support::fractions::exact;
use crate::support::{random_gains, random_game};
use games::extensive::{CompiledGame, ExtensiveGame, Kuhn, Leduc, LiarsDice, Turn};
use games::gpu::{Games, Learner, solve_variants};
use games::ndarray::{Array3, Axis, s};
use games::{
    Batch, BatchSolution, Error, MatrixGame, Run, SolverConfig, Updates, nash_conv, solve,
};
use gpu_wgsl::check::{adapter_of_the_day, every_adapter, on_adapters_in_turn};
use tensor_core::compare::{Tolerance, assert_close};

fn assert_same(found: &BatchSolution, truth: &BatchSolution, tolerance: f64) {
    let bound = Tolerance::exact().or_absolute(tolerance);
    assert_close(
        found.rows.as_slice().unwrap(),
        truth.rows.as_slice().unwrap(),
        bound.clone(),
    );
    assert_close(
        found.cols.as_slice().unwrap(),
        truth.cols.as_slice().unwrap(),
        bound.clone(),
    );
    assert_close(&found.values, &truth.values, bound.clone());
    assert_close(&found.nash_conv, &truth.nash_conv, bound);
}

#[test]
fn a_device_learns_what_the_cpu_does() {
    let rules = [
        SolverConfig::default(),
        SolverConfig::regret_matching().updates(Updates::Simultaneous),
        SolverConfig::discounted(1.5, 0.0, 2.0),
    ];
    let shapes = [
        [130, 3, 3],
        [7, 1, 1],
        [7, 2, 3],
        [65, 4, 3],
        [7, 5, 2],
        [9, 16, 16],
        [9, 6, 11],
    ];
    for (gpu, (key, shape)) in on_adapters_in_turn(shapes.into_iter().enumerate()) {
        let batch = Batch::zero_sum(random_gains(shape, key as u64)).unwrap();
        let games = Games::upload(gpu, &batch).unwrap();
        for config in rules.map(|rule| rule.iterations(10)) {
            let truth = batch.solve(&config).unwrap();
            assert_same(&games.solve(&config).unwrap(), &truth, 1e-4);
        }
    }
}

#[test]
fn five_hundred_iterations_stay_with_the_cpu_in_most_games() {
    const N_GAMES: usize = 2000;
    let batch = Batch::zero_sum(random_gains([N_GAMES, 3, 3], 5)).unwrap();
    for gpu in every_adapter() {
        for config in [
            SolverConfig::default(),
            SolverConfig::regret_matching().updates(Updates::Simultaneous),
        ] {
            let config = config.iterations(500);
            let truth = batch.solve(&config).unwrap();
            let found = batch.solve_on(gpu, &config).unwrap();
            // NaN is far from every number.
            let is_near = |game: usize| {
                let row = found.rows.row(game).into_iter().zip(truth.rows.row(game));
                let col = found.cols.row(game).into_iter().zip(truth.cols.row(game));
                row.chain(col).all(|(p, q)| (p - q).abs() <= 1e-5)
            };
            let n_far = (0..N_GAMES).filter(|&game| !is_near(game)).count();
            let pairs = found.nash_conv.iter().zip(&truth.nash_conv);
            let is_as_good = |(a, b): &(&f64, &f64)| (*a - *b).abs() <= 1e-4;
            let n_worse = N_GAMES - pairs.filter(is_as_good).count();
            let name = &gpu.adapter().name;
            eprintln!(
                "{name}: of {N_GAMES} games {n_far} beyond 1e-5, NashConv of {n_worse} beyond 1e-4"
            );
            assert!(n_far < N_GAMES / 10, "{n_far}");
            assert!(n_worse < N_GAMES / 100, "{n_worse}");
        }
    }
}

#[test]
fn gains_may_be_moved_and_scaled() {
    let gains = random_gains([50, 3, 4], 8);
    let config = SolverConfig::default().iterations(20);
    for gpu in every_adapter() {
        let solve = |gains: Array3<f64>| {
            Batch::zero_sum(gains)
                .unwrap()
                .solve_on(gpu, &config)
                .unwrap()
        };
        let plain = solve(gains.clone());
        for (factor, summand) in [(2_f64.powi(400), 0.0), (2_f64.powi(-400), 0.0), (1.0, 1e6)] {
            let other = solve(gains.mapv(|gain| factor * gain + summand));
            let bound = Tolerance::exact().or_absolute(1e-4);
            assert_close(
                other.rows.as_slice().unwrap(),
                plain.rows.as_slice().unwrap(),
                bound.clone(),
            );
            assert_close(
                other.cols.as_slice().unwrap(),
                plain.cols.as_slice().unwrap(),
                bound,
            );
        }
        let still = solve(Array3::from_elem((2, 3, 3), 7.0));
        assert_close(
            still.rows.as_slice().unwrap(),
            [1.0 / 3.0; 6],
            Tolerance::exact().or_absolute(1e-7),
        );
        assert_close(
            &still.values,
            [7.0; 2],
            Tolerance::exact().or_absolute(1e-12),
        );
    }
}

#[test]
fn games_beyond_one_buffer_go_in_parts_that_join() {
    let n_games = (1 << 22) / 16 + 3;
    let one = random_gains([1, 4, 4], 9);
    let gains = Array3::from_shape_fn((n_games, 4, 4), |(game, row, col)| {
        one[[0, (row + game) % 4, col]]
    });
    let config = SolverConfig::regret_matching().iterations(2);
    let ends = gains.slice(s![n_games - 5.., .., ..]).to_owned();
    let batch = Batch::zero_sum(gains).unwrap();
    for gpu in every_adapter() {
        let whole = batch.solve_on(gpu, &config).unwrap();
        let last = Batch::zero_sum(ends.clone())
            .unwrap()
            .solve_on(gpu, &config)
            .unwrap();
        for game in 0..5 {
            let rows = whole.rows.row(n_games - 5 + game);
            assert_close(rows, last.rows.index_axis(Axis(0), game), Tolerance::bits());
        }
        assert_eq!(whole.nash_conv[n_games - 5..], last.nash_conv);
    }
}

#[test]
fn without_iterations_strategies_are_the_first_ones() {
    for gpu in every_adapter() {
        let none = Batch::zero_sum(Array3::<f64>::zeros((0, 3, 3))).unwrap();
        let solution = none.solve_on(gpu, &SolverConfig::default()).unwrap();
        assert_eq!(solution.rows.dim(), (0, 3));
        let batch = Batch::zero_sum(random_gains([3, 2, 2], 1)).unwrap();
        let config = SolverConfig::default().iterations(0);
        let found = batch.solve_on(gpu, &config).unwrap();
        assert_eq!(found, batch.solve(&config).unwrap());
        let error = Games::upload(gpu, &batch)
            .unwrap()
            .learn(&config)
            .unwrap_err();
        assert!(matches!(error, Error::ParameterInvalid { .. }), "{error}");
    }
}

#[test]
fn what_devices_cannot_do_is_rejected_by_name() {
    let batch = Batch::zero_sum(random_gains([3, 2, 2], 1)).unwrap();
    let large = Batch::zero_sum(random_gains([1, 2, 17], 1)).unwrap();
    for gpu in every_adapter() {
        for config in [
            SolverConfig::hedge(),
            SolverConfig::fictitious_play(),
            SolverConfig::replicator(0.1),
        ] {
            let error = batch.solve_on(gpu, &config).unwrap_err();
            assert!(matches!(error, Error::RuleNotOnDevice { .. }), "{error}");
        }
        let error = batch
            .solve_on(gpu, &SolverConfig::default().average(f64::NAN))
            .unwrap_err();
        assert!(matches!(error, Error::ParameterInvalid { .. }), "{error}");
        for (batch, iterations) in [(&large, 1), (&batch, (1 << 23) + 1)] {
            let config = SolverConfig::default().iterations(iterations);
            let error = batch.solve_on(gpu, &config).unwrap_err();
            assert!(matches!(error, Error::TooLarge { .. }), "{error}");
        }
        let lost = gpu.reopen().unwrap();
        lost.destroy();
        let error = batch.solve_on(&lost, &SolverConfig::default()).unwrap_err();
        let is_loss = matches!(&error, Error::Device(fault) if matches!(**fault, gpu_wgsl::Error::Lost { .. }));
        assert!(is_loss, "{error}");
    }
}

#[test]
fn a_learner_of_a_large_game_learns_what_the_cpu_does() {
    let rules = [
        SolverConfig::default(),
        SolverConfig::regret_matching().updates(Updates::Simultaneous),
        SolverConfig::discounted(1.5, 0.0, 2.0),
    ];
    for gpu in every_adapter() {
        for (key, shape) in [[1, 1], [30, 300], [257, 64]].into_iter().enumerate() {
            let game = random_game(shape, key as u64);
            for config in rules {
                let mut learner = Learner::new(gpu, &game, &config).unwrap();
                let mut run = Run::new(&game, &config).unwrap();
                for n_iterations in [0, 1, 9] {
                    learner.advance(n_iterations).unwrap();
                    run.advance(n_iterations);
                    let pairs = learner.average().unwrap().into_iter().zip(run.average());
                    for (found, truth) in pairs {
                        assert_close(found, truth, Tolerance::exact().or_absolute(1e-5));
                    }
                }
                assert_eq!(learner.iteration(), 10);
            }
        }
    }
}

#[test]
fn a_learner_learns_the_same_with_a_large_constant_in_fractions() {
    let gains = random_gains([1, 20, 30], 6).index_axis_move(Axis(0), 0);
    let plain = MatrixGame::zero_sum(gains.clone()).unwrap();
    // No float near the constant can represent the differences of the payoffs.
    let constant = exact(1e40);
    let moved = MatrixGame::zero_sum(gains.mapv(|gain| &constant + exact(gain))).unwrap();
    let config = SolverConfig::default();
    for gpu in every_adapter() {
        let average = |game: &MatrixGame| {
            let mut learner = Learner::new(gpu, game, &config).unwrap();
            learner.advance(10).unwrap();
            learner.average().unwrap()
        };
        for (found, truth) in average(&moved).into_iter().zip(average(&plain)) {
            assert_close(found, truth, Tolerance::exact().or_absolute(1e-5));
        }
    }
}

#[test]
fn a_large_game_comes_to_an_equilibrium_in_f32() {
    let game = random_game([100, 120], 4);
    if let Some(gpu) = adapter_of_the_day() {
        let mut learner = Learner::new(gpu, &game, &SolverConfig::default()).unwrap();
        learner.advance(300).unwrap();
        let found = nash_conv(&game, &learner.average().unwrap()).unwrap();
        eprintln!("{}: {found:e}", gpu.adapter().name);
        assert!(found < 1e-3, "{found}");
        let rejected = Learner::new(gpu, &game, &SolverConfig::hedge()).unwrap_err();
        assert!(
            matches!(rejected, Error::RuleNotOnDevice { .. }),
            "{rejected}"
        );
    }
}

/// Compares NashConv of a GPU run with that of the CPU, with a relative tolerance.
fn assert_follows(
    gpu: &gpu_wgsl::Gpu,
    compiled: &CompiledGame,
    config: &SolverConfig,
    tolerance: f64,
) {
    let games = [compiled.clone(), compiled.clone()];
    let profiles = solve_variants(gpu, &games, config).unwrap();
    assert_eq!(profiles[0], profiles[1]);
    let found = nash_conv(compiled, &profiles[0]).unwrap();
    let truth = solve(compiled, config).unwrap().nash_conv;
    eprintln!("{config:?}: {:e}", (found / truth - 1.0).abs());
    assert_close(
        [found / truth],
        [1.0],
        Tolerance::exact().or_absolute(tolerance),
    );
}

#[test]
fn extensive_games_follow_the_cpu_as_far_as_f32_can() {
    let compiled_games = [
        CompiledGame::new(&Kuhn).unwrap(),
        CompiledGame::new(&Leduc::new()).unwrap(),
        CompiledGame::new(&LiarsDice::new(3, 1).unwrap()).unwrap(),
    ];
    let rules = [
        SolverConfig::regret_matching(),
        SolverConfig::regret_matching().updates(Updates::Simultaneous),
        SolverConfig::regret_matching_plus(),
    ];
    for gpu in every_adapter() {
        for compiled in &compiled_games {
            for rule in rules {
                assert_follows(gpu, compiled, &rule.iterations(0), 1e-12);
                assert_follows(gpu, compiled, &rule.iterations(10), 1e-5);
                assert_follows(gpu, compiled, &rule.iterations(20), 1e-5);
                assert_follows(gpu, compiled, &rule.iterations(100), 5e-3);
            }
        }
    }
}

/// Some software drivers end all loops of a shader after 65 535 passes without an error, so a run
/// of so many passes is divided into several dispatches.
#[test]
fn long_runs_are_whole_on_every_driver() {
    let batches = [(3, 65_535), (4, 65_535), (16, 30_000)].map(|(n_actions, iterations)| {
        let gains = random_gains([1, n_actions, n_actions], 7);
        (Batch::zero_sum(gains).unwrap(), n_actions, iterations)
    });
    let kuhn = CompiledGame::new(&Kuhn).unwrap();
    let long = SolverConfig::regret_matching_plus().iterations(5000);
    let truth = solve(&kuhn, &long).unwrap().nash_conv;
    for gpu in every_adapter() {
        for (batch, n_actions, iterations) in &batches {
            let config = SolverConfig::default().iterations(*iterations);
            let games = Games::upload(gpu, batch).unwrap();
            // The weights of all iterations have the sum 1.
            let averages = games.learn(&config).unwrap();
            let averages = gpu.read(&averages[0]).unwrap();
            for player in averages.chunks(*n_actions) {
                let sum: f32 = player.iter().sum();
                let bound = Tolerance::exact().or_absolute(1e-2);
                assert_close([sum], [1.0_f32], bound);
            }
            let found = games.solve(&config).unwrap().nash_conv[0];
            assert!(found < 1e-3, "{n_actions}: {found}");
        }
        let profiles = solve_variants(gpu, std::slice::from_ref(&kuhn), &long).unwrap();
        let found = nash_conv(&kuhn, &profiles[0]).unwrap();
        eprintln!("{}: {found:e}, CPU {truth:e}", gpu.adapter().driver);
        assert!(found < 2.0 * truth + 1e-5, "{found}");
    }
}

/// Kuhn poker in which payoffs beyond the ante are multiplied by a factor.
struct Stakes(f64);

impl ExtensiveGame for Stakes {
    type State = Vec<usize>;

    fn title(&self) -> String {
        format!("Kuhn poker, bets times {}", self.0)
    }

    fn root(&self) -> Vec<usize> {
        Kuhn.root()
    }

    fn turn(&self, moves: &Vec<usize>) -> Turn {
        match Kuhn.turn(moves) {
            Turn::Terminal(gains) if gains[0].abs() > 1.0 => {
                Turn::Terminal(gains.iter().map(|gain| gain * self.0).collect())
            }
            turn => turn,
        }
    }

    fn play(&self, moves: &Vec<usize>, action: usize) -> Vec<usize> {
        Kuhn.play(moves, action)
    }
}

#[test]
fn games_of_other_payoffs_are_learnt_in_one_batch_as_if_alone() {
    let compiled_games: Vec<CompiledGame> = (1..=40)
        .map(|stake| CompiledGame::new(&Stakes(f64::from(stake).sqrt())).unwrap())
        .collect();
    // Regrets tie in the second iteration. In most of these games, rounding decides the later
    // strategies, in f64 as well.
    let config = SolverConfig::regret_matching().iterations(2);
    for gpu in every_adapter() {
        let together = solve_variants(gpu, &compiled_games, &config).unwrap();
        assert_eq!(together.len(), compiled_games.len());
        for (compiled, profile) in compiled_games.iter().zip(together) {
            let alone = solve_variants(gpu, std::slice::from_ref(compiled), &config).unwrap();
            assert_eq!(alone[0], profile);
            let found = nash_conv(compiled, &profile).unwrap();
            let truth = solve(compiled, &config).unwrap().nash_conv;
            assert_close([found], [truth], Tolerance::exact().or_absolute(1e-5));
        }
    }
}

#[test]
fn what_devices_cannot_do_in_extensive_games_is_rejected_by_name() {
    let kuhn = CompiledGame::new(&Kuhn).unwrap();
    let dice = CompiledGame::new(&LiarsDice::new(2, 1).unwrap()).unwrap();
    let config = SolverConfig::default().iterations(3);
    for gpu in every_adapter() {
        assert!(solve_variants(gpu, &[], &config).unwrap().is_empty());
        let games = [kuhn.clone(), dice.clone()];
        let error = solve_variants(gpu, &games, &config).unwrap_err();
        assert!(
            matches!(error, Error::TreesDiffer { game: 1, .. }),
            "{error}"
        );
        let error = solve_variants(gpu, &games, &SolverConfig::hedge()).unwrap_err();
        assert!(matches!(error, Error::RuleNotOnDevice { .. }), "{error}");
        let long = config.iterations((1 << 23) + 1);
        let error = solve_variants(gpu, &games, &long).unwrap_err();
        assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    }
}
