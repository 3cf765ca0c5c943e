//! The twins of the kernels of matrix games against batches in f64; no GPU is needed.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests stand outside of test functions"
)]
#![allow(
    clippy::cast_possible_truncation,
    reason = "gains and weights are rounded to f32, as for a device"
)]

use games::ndarray::{Array2, Array3};
use games::{Batch, BatchSolution, Rule, SolverConfig, Updates};
use shaders::params::{MatchingKeep, MatrixGamesParams};
use shaders::{Kernel, layout, twin};
use tensor_core::compare::{Tolerance, assert_close};
use tensor_core::rng::Philox;

type Twin = fn(&Kernel, &MatrixGamesParams, [&[f32]; 2], [&mut [f32]; 2]);

/// Number of games of each learning rule whose deviations are counted.
const N_GAMES: usize = 2000;

/// Returns games with payoffs between -1 and 1 that f32 represents exactly.
fn random(shape: [usize; 3], key: u64) -> Array3<f64> {
    let random = Philox::new(key);
    let gains = (0..shape.iter().product::<usize>() as u64)
        .map(|i| f64::from(2.0 * random.uniform_f32(i) - 1.0));
    Array3::from_shape_vec(shape, gains.collect()).unwrap()
}

/// Runs regret matching with the CPU twin of a kernel; `side_by_side` selects interleaved games
/// instead of games stored one after another.
fn learn(
    (kernel, solve, side_by_side): (&Kernel, Twin, bool),
    batch: &Batch,
    config: &SolverConfig,
) -> [Array2<f64>; 2] {
    let (n_games, n_rows, n_cols) = batch.row_payoffs().dim();
    let n = |count: usize| u32::try_from(count).unwrap();
    let Rule::RegretMatching {
        discount,
        predictive,
    } = config.rule
    else {
        panic!("the kernels support only regret matching");
    };
    let iterations = i32::try_from(config.stop.iterations).unwrap();
    let weight = |t: i32| f64::from(t).powf(config.average);
    let total: f64 = (1..=iterations).map(weight).sum();
    let (keep, [alpha, beta]) = match discount {
        games::Discount::None => (MatchingKeep::All, [0.0; 2]),
        games::Discount::Clip => (MatchingKeep::Positive, [0.0; 2]),
        games::Discount::Powers { alpha, beta } => (MatchingKeep::Shares, [alpha, beta]),
    };
    let share = |t: i32, power: f64| 1.0 / (1.0 + f64::from(t).powf(-power));
    let ticks: Vec<f32> = (1..=iterations)
        .flat_map(|t| [weight(t) / total, share(t, alpha), share(t, beta), 0.0])
        .map(|x| x as f32)
        .collect();
    let params = MatrixGamesParams {
        games: n(n_games),
        rows: n(n_rows),
        cols: n(n_cols),
        iterations: n(ticks.len() / 4),
        keep: keep as u32,
        alternating: u32::from(config.updates == Updates::Alternating),
        predictive: f32::from(u8::from(predictive)),
        ..MatrixGamesParams::default()
    };
    let order: Vec<usize> = if side_by_side {
        vec![1, 2, 0]
    } else {
        vec![0, 1, 2]
    };
    let gains = batch
        .row_payoffs()
        .view()
        .permuted_axes([order[0], order[1], order[2]]);
    let gains: Vec<f32> = gains.iter().map(|&gain| gain as f32).collect();
    let n_actions = n_rows + n_cols;
    let mut state = vec![f32::NAN; 2 * n_games * n_actions];
    let mut averages = vec![f32::NAN; n_games * n_actions];
    solve(
        kernel,
        &params,
        [&ticks, &gains],
        [&mut state, &mut averages],
    );
    let average = |game: usize, action: usize| {
        f64::from(
            averages[if side_by_side {
                action * n_games + game
            } else {
                game * n_actions + action
            }],
        )
    };
    [
        Array2::from_shape_fn((n_games, n_rows), |(game, row)| average(game, row)),
        Array2::from_shape_fn((n_games, n_cols), |(game, col)| average(game, n_rows + col)),
    ]
}

const THREE: (&Kernel, Twin, bool) = (
    &layout::MATRIX_GAMES_SOLVE_3,
    twin::matrix_games_solve_3,
    true,
);
const FOUR: (&Kernel, Twin, bool) = (
    &layout::MATRIX_GAMES_SOLVE_4,
    twin::matrix_games_solve_4,
    true,
);
const SIXTEEN: (&Kernel, Twin, bool) = (
    &layout::MATRIX_GAMES_SOLVE_16,
    twin::matrix_games_solve_16,
    false,
);

#[test]
fn few_iterations_are_those_of_f64_by_every_rule() {
    let rules = [
        SolverConfig::default(),
        SolverConfig::regret_matching(),
        SolverConfig::regret_matching().updates(Updates::Simultaneous),
        SolverConfig::regret_matching_plus().updates(Updates::Simultaneous),
        SolverConfig::predictive_regret_matching(),
        SolverConfig::discounted(1.5, 0.0, 2.0),
        SolverConfig::linear().updates(Updates::Simultaneous),
        SolverConfig::discounted(f64::INFINITY, f64::NEG_INFINITY, 0.5),
    ];
    let shapes = [
        ([9, 3, 3], vec![THREE, FOUR, SIXTEEN]),
        ([9, 1, 3], vec![THREE, FOUR, SIXTEEN]),
        ([9, 2, 1], vec![THREE, FOUR, SIXTEEN]),
        ([9, 4, 2], vec![FOUR, SIXTEEN]),
        ([9, 5, 7], vec![SIXTEEN]),
        ([9, 16, 15], vec![SIXTEEN]),
    ];
    for (key, (shape, twins)) in shapes.into_iter().enumerate() {
        let batch = Batch::zero_sum(random(shape, key as u64)).unwrap();
        for config in rules.map(|rule| rule.iterations(12)) {
            let truth = batch.solve(&config).unwrap();
            for &twin in &twins {
                let [rows, cols] = learn(twin, &batch, &config);
                let bound = Tolerance::exact().or_absolute(2e-5);
                assert_close(
                    rows.flatten().as_slice().unwrap(),
                    truth.rows.as_slice().unwrap(),
                    bound.clone(),
                );
                assert_close(
                    cols.flatten().as_slice().unwrap(),
                    truth.cols.as_slice().unwrap(),
                    bound,
                );
            }
        }
    }
}

/// Counts the games whose average strategies deviate by more than 1e-5, 1e-4 and 1e-3, or are NaN.
fn deviating([rows, cols]: &[Array2<f64>; 2], truth: &BatchSolution) -> [usize; 3] {
    let is_near = |game: usize, bound: f64| {
        let row = rows.row(game).into_iter().zip(truth.rows.row(game));
        let col = cols.row(game).into_iter().zip(truth.cols.row(game));
        row.chain(col).all(|(p, q)| (p - q).abs() <= bound)
    };
    let n_far = |bound| {
        (0..rows.nrows())
            .filter(|&game| !is_near(game, bound))
            .count()
    };
    [1e-5, 1e-4, 1e-3].map(n_far)
}

#[test]
fn five_hundred_iterations_stay_with_f64_in_most_games() {
    let batch = Batch::zero_sum(random([N_GAMES, 3, 3], 77)).unwrap();
    for config in [
        SolverConfig::default(),
        SolverConfig::regret_matching().updates(Updates::Simultaneous),
    ] {
        let config = config.iterations(500);
        let truth = batch.solve(&config).unwrap();
        let found = deviating(&learn(THREE, &batch, &config), &truth);
        eprintln!("{config:?}: of {N_GAMES} games beyond 1e-5, 1e-4, 1e-3: {found:?}");
        assert!(
            found[0] < N_GAMES / 10 && found[2] < N_GAMES / 100,
            "{found:?}"
        );
    }
}
