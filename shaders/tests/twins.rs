//! Twins, compared with f64 or independent oracles on the CPU.

use shaders::params::{
    BufferCopyParams, ExtensiveGamesParams, FmaPeakParams, InverseGaussianEvalParams,
    InverseGaussianFunction, InverseGaussianSampleParams, MatchingKeep, MatmulParams,
    MatrixGameUpdateParams, MatrixGameValueParams, MatrixGamesParams, PhiloxFillParams,
    PopcountPeakParams,
};
use shaders::twin::extensive_games_solve::ExtensiveGamesTree;
use shaders::twin::inverse_gaussian_eval::max_epsilons;
use shaders::twin::inverse_gaussian_sample::DRAW_EPSILONS;
use shaders::{Kernel, layout, twin};
use tensor_core::compare::{Tolerance, assert_close};
use tensor_core::gemm::oracle;
use tensor_core::rng::Philox;

type MatmulTwin = fn(&Kernel, &MatmulParams, &[f32], &[f32], &mut [f32]);

fn check_matmul(kernel: &Kernel, matmul: MatmulTwin) {
    for [rows, inner, cols] in [
        [1, 1, 1],
        [5, 784, 10],
        [15, 16, 17],
        [16, 16, 16],
        [33, 7, 49],
        [1, 37, 1],
        [3, 0, 2],
        [0, 4, 4],
    ] {
        let random = Philox::new(11);
        let normal = |n: u32, stream: u64| -> Vec<f32> {
            (0..u64::from(n))
                .map(|i| random.stream(stream).uniform_f32(i) - 0.5)
                .collect()
        };
        let a = normal(rows * inner, 0);
        let b = normal(inner * cols, 1);
        let mut c = vec![f32::MAX; (rows * cols) as usize];
        let params = MatmulParams::new(rows, inner, cols);
        matmul(kernel, &params, &a, &b, &mut c);
        let truth = oracle(&a, &b, params.shape()).expect("the slices match the shape");
        let bound = Tolerance::relative(inner as usize / 2 + 1)
            .scaled_by(truth.magnitudes)
            .allow_empty();
        assert_close(&c, &truth.product, bound);
    }
}

#[test]
fn naive_twin_matches_the_f64_product() {
    check_matmul(&layout::MATMUL_NAIVE, twin::matmul_naive);
}

#[test]
fn tile_twin_matches_the_f64_product() {
    check_matmul(&layout::MATMUL_TILE, twin::matmul_tile);
}

#[test]
fn philox_twin_gives_the_words_of_the_generator() {
    for (key, stream, n_words) in [
        (0, 0, 4096),
        (0xDEAD_BEEF_0123_4567, 3, 1),
        (7, u64::MAX, 1021),
    ] {
        let mut words = vec![0; n_words as usize];
        twin::philox_fill(
            &layout::PHILOX_FILL,
            &PhiloxFillParams::new(key, stream, n_words),
            &mut words,
        );
        let generator = Philox::new(key).stream(stream);
        let expected: Vec<u32> = (0..u64::from(n_words)).map(|i| generator.word(i)).collect();
        assert_close(&words, &expected, Tolerance::exact());
    }
}

#[test]
fn fma_chains_reach_their_limit() {
    // x -> x / 2 + 1 converges to 2 from any start, and the kernel sums 8 chains.
    let mut y = vec![0.0; 4 * 130];
    twin::fma_peak(&layout::FMA_PEAK, &FmaPeakParams::new(130, 8), &mut y);
    assert_close(&y, vec![16.0_f64; 4 * 130], Tolerance::relative(1));
}

#[test]
fn popcount_chains_are_the_known_sequence() {
    // With a mask of 0, each number is the one before it and the number of its ones. From 1 on,
    // these are 2 3 5 7 10 12 14 17 19 22 25 28 31 36 38 41 44 47 52 55 (OEIS A010062).
    let n_rounds = 1;
    let params = PopcountPeakParams::new(1, n_rounds, 0);
    let mut y = vec![0; 4];
    twin::popcount_peak(&layout::POPCOUNT_PEAK, &params, &mut y);
    // The chains of the first lane start with 0, 4, 8, ..., 28.
    let after_eight = [0, 22, 28, 36, 38, 44, 47, 55];
    assert_eq!(y[0], after_eight.iter().sum::<u32>());
}

#[test]
fn copy_twin_moves_whole_vectors_and_leaves_the_rest() {
    let x: Vec<f32> = (0..1030_u16).map(f32::from).collect();
    let mut y = vec![-1.0; 1030];
    twin::buffer_copy(
        &layout::BUFFER_COPY,
        &BufferCopyParams::new(257),
        &x,
        &mut y,
    );
    assert_close(&y[..1028], &x[..1028], Tolerance::exact());
    assert_close(&y[1028..], [-1.0_f32; 2], Tolerance::exact());
}

/// Returns the numbers of a golden file, row by row.
fn golden<T: std::str::FromStr<Err: std::fmt::Debug>>(name: &str) -> Vec<Vec<T>> {
    let path = format!("{}/testdata/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("the crate contains its golden data");
    let rows = text.lines().skip(1);
    rows.map(|row| {
        row.split(',')
            .map(|x| x.parse().expect("golden data are numbers"))
            .collect()
    })
    .collect()
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the number is exactly representable in f32"
)]
fn of_f32(x: f64) -> f32 {
    x as f32
}

#[test]
fn inverse_gaussian_twin_meets_its_bounds_on_golden_points() {
    let rows = golden::<f64>("inverse_gaussian.csv");
    for (column, function) in (3..).zip(InverseGaussianFunction::ALL) {
        let eval = |row: &Vec<f64>| {
            let params = InverseGaussianEvalParams::new(function, row[0], row[1], 1);
            let mut y = [f32::MAX];
            let kernel = &layout::INVERSE_GAUSSIAN_EVAL;
            twin::inverse_gaussian_eval(kernel, &params, &[of_f32(row[2])], &mut y);
            y[0]
        };
        let actual: Vec<f32> = rows.iter().map(eval).collect();
        let truth: Vec<f64> = rows.iter().map(|row| row[column]).collect();
        let is_ln_pdf = function == InverseGaussianFunction::LnPdf;
        let least = if is_ln_pdf { 1.0 } else { 0.0 };
        let bound = Tolerance::relative(max_epsilons(function))
            .scaled_by(truth.iter().map(|x| x.abs().max(least)))
            .or_absolute(f32::MIN_POSITIVE.into());
        assert_close(actual, &truth, bound);
    }
}

#[test]
fn inverse_gaussian_draws_of_fixed_keys_are_the_golden_ones() {
    let words = golden::<String>("inverse_gaussian_draws.csv");
    let (mut actual, mut expected) = (Vec::new(), Vec::new());
    for row in words {
        let [key, stream] = [2, 3].map(|column: usize| row[column].parse::<u64>().unwrap());
        let number: u32 = row[4].parse().unwrap();
        let [mean, shape, draw] =
            [0, 1, 5].map(|column: usize| row[column].parse::<f64>().unwrap());
        let range = number..number + 1;
        let params = InverseGaussianSampleParams::new(mean, shape, key, stream, range);
        let mut drawn = [f32::MAX];
        twin::inverse_gaussian_sample(&layout::INVERSE_GAUSSIAN_SAMPLE, &params, &mut drawn);
        actual.push(drawn[0]);
        expected.push(draw);
    }
    assert_close(actual, expected, Tolerance::relative(DRAW_EPSILONS));
}

type MatrixGamesTwin = fn(&Kernel, &MatrixGamesParams, [&[f32]; 2], [&mut [f32]; 2]);

/// Returns the kernels' buffer `ticks` (the weight and the factors of each iteration) with weights
/// proportional to t² and factors of 1.
fn squares(iterations: u16) -> Vec<f32> {
    let total: f32 = (1..=iterations).map(|t| f32::from(t) * f32::from(t)).sum();
    let weight = |t| f32::from(t) * f32::from(t) / total;
    (1..=iterations)
        .flat_map(|t| [weight(t), 1.0, 1.0, 0.0])
        .collect()
}

/// Solves a variant of rock-paper-scissors, in which a win of rock against scissors counts double,
/// by predictive regret matching with clipped sums and weights t². Returns the average strategies.
fn crash(kernel: &Kernel, solve: MatrixGamesTwin, iterations: u16) -> Vec<f32> {
    let ticks = squares(iterations);
    let params = MatrixGamesParams {
        games: 1,
        rows: 3,
        cols: 3,
        iterations: iterations.into(),
        keep: MatchingKeep::Positive as u32,
        alternating: 1,
        predictive: 1.0,
        ..MatrixGamesParams::default()
    };
    let gains = [0.0, -0.5, 1.0, 0.5, 0.0, -0.5, -1.0, 0.5, 0.0];
    let (mut state, mut averages) = ([f32::MAX; 12], [f32::MAX; 6]);
    solve(
        kernel,
        &params,
        [&ticks, &gains],
        [&mut state, &mut averages],
    );
    averages.to_vec()
}

#[test]
fn matrix_game_twins_find_a_known_equilibrium_and_added_actions_change_no_bit() {
    let three = crash(
        &layout::MATRIX_GAMES_SOLVE_3,
        twin::matrix_games_solve_3,
        500,
    );
    let four = crash(
        &layout::MATRIX_GAMES_SOLVE_4,
        twin::matrix_games_solve_4,
        500,
    );
    let sixteen = crash(
        &layout::MATRIX_GAMES_SOLVE_16,
        twin::matrix_games_solve_16,
        500,
    );
    let equilibrium = [0.25, 0.5, 0.25, 0.25, 0.5, 0.25];
    assert_close(&three, equilibrium, Tolerance::exact().or_absolute(1e-5));
    assert_close(&four, &three, Tolerance::bits());
    assert_close(&sixteen, &three, Tolerance::bits());
}

/// Solves the same game as [`crash`] step by step.
fn crash_in_steps(iterations: u16) -> Vec<f32> {
    let gains = [0.0, -0.5, 1.0, 0.5, 0.0, -0.5, -1.0, 0.5, 0.0];
    let mut learners = [[[1.0 / 3.0; 3], [0.0; 3], [1.0 / 3.0; 3]]; 2];
    let mut total = 0.0;
    for t in 1..=iterations {
        let weight = f32::from(t) * f32::from(t);
        total += weight;
        for player in 0..2 {
            let params = MatrixGameValueParams {
                actions: 3,
                others: 3,
                ..MatrixGameValueParams::default()
            };
            let mut values = [0.0; 3];
            // The matrix equals minus its transpose, so both players have the same payoffs.
            let other = learners[1 - player][0];
            twin::matrix_game_value(&params, &gains, &other, &mut values);
            let params = MatrixGameUpdateParams {
                actions: 3,
                keep: MatchingKeep::Positive as u32,
                predictive: 1.0,
                share: weight / total,
                ..MatrixGameUpdateParams::default()
            };
            let learnt = learners[player].each_mut().map(|numbers| &mut numbers[..]);
            twin::matrix_game_update(&params, &values, learnt);
        }
    }
    learners.map(|[_, _, average]| average).concat()
}

#[test]
fn large_game_twins_find_what_those_of_small_games_find() {
    let together = crash(
        &layout::MATRIX_GAMES_SOLVE_3,
        twin::matrix_games_solve_3,
        50,
    );
    assert_close(
        crash_in_steps(50),
        together,
        Tolerance::exact().or_absolute(1e-5),
    );
    let equilibrium = [0.25, 0.5, 0.25, 0.25, 0.5, 0.25];
    assert_close(
        crash_in_steps(500),
        equilibrium,
        Tolerance::exact().or_absolute(1e-5),
    );
}

#[test]
fn the_twin_of_extensive_games_learns_a_matrix_as_that_of_matrices_does() {
    // Sequences 0 and 4 are empty; neither player observes the other's choice.
    let of_sequence = |i: u32| match i {
        0 => [0, 0, 0, 1],
        4 => [0, 0, 1, 2],
        _ if i < 4 => [3 * (i - 1), 3 * i, 0, 0],
        _ => [3 * (i - 2), 3 * (i - 1), 0, 0],
    };
    let sequences: Vec<u32> = (0..8).flat_map(of_sequence).collect();
    let others: Vec<u32> = (0..6)
        .flat_map(|own| if own < 3 { [5, 6, 7] } else { [1, 2, 3] })
        .collect();
    let tree = ExtensiveGamesTree {
        sequences: &sequences,
        decisions: &[0, 1, 3, 0, 4, 5, 3, 0],
        levels: &[0, 1, 2],
        others: &others,
    };
    let iterations = 50;
    let params = ExtensiveGamesParams {
        games: 1,
        first_sequences: 4,
        sequences: 8,
        decisions: 2,
        depths: 1,
        pairs: 18,
        iterations: iterations.into(),
        keep: MatchingKeep::Positive as u32,
        alternating: 1,
        predictive: 1.0,
        ..ExtensiveGamesParams::default()
    };
    let gains = [0.0, -0.5, 1.0, 0.5, 0.0, -0.5, -1.0, 0.5, 0.0];
    let inputs = [&squares(iterations)[..], &[gains, gains].concat()];
    let (mut state, mut averages) = ([f32::MAX; 34], [f32::MAX; 8]);
    let kernel = &layout::EXTENSIVE_GAMES_SOLVE;
    twin::extensive_games_solve(kernel, &params, tree, inputs, [&mut state, &mut averages]);
    let found = [&averages[1..4], &averages[5..8]].concat();
    let matrix = crash(
        &layout::MATRIX_GAMES_SOLVE_3,
        twin::matrix_games_solve_3,
        iterations,
    );
    assert_close(found, matrix, Tolerance::bits());
}
