//! First link of the chain: every twin against an f64 or independent oracle, on the CPU alone.

use shaders::params::{
    BufferCopyParams, FmaPeakParams, InverseGaussianEvalParams, InverseGaussianFunction,
    InverseGaussianSampleParams, MatmulParams, PhiloxFillParams,
};
use shaders::twin::inverse_gaussian_eval::max_epsilons;
use shaders::twin::inverse_gaussian_sample::DRAW_EPSILONS;
use shaders::{Kernel, layout, twin};
use tensor_core::compare::{Bound, assert_close};
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
        let truth = oracle(&a, &b, params.shape()).expect("the slices have the shape's length");
        let bound = Bound::relative(inner as usize / 2 + 1)
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
        assert_close(&words, &expected, Bound::exact());
    }
}

#[test]
fn fma_chains_reach_their_limit() {
    // x -> x / 2 + 1 tends to 2 from anywhere, and 8 chains of it are summed.
    let mut y = vec![0.0; 4 * 130];
    twin::fma_peak(&layout::FMA_PEAK, &FmaPeakParams::new(130, 8), &mut y);
    assert_close(&y, vec![16.0_f64; 4 * 130], Bound::relative(1));
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
    assert_close(&y[..1028], &x[..1028], Bound::exact());
    assert_close(&y[1028..], [-1.0_f32; 2], Bound::exact());
}

/// The numbers of a golden file, row by row.
fn golden<T: std::str::FromStr<Err: std::fmt::Debug>>(name: &str) -> Vec<Vec<T>> {
    let path = format!("{}/testdata/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("golden data is in the crate");
    let rows = text.lines().skip(1);
    rows.map(|row| {
        row.split(',')
            .map(|x| x.parse().expect("a number"))
            .collect()
    })
    .collect()
}

#[expect(clippy::cast_possible_truncation, reason = "the number is one of f32")]
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
        let bound = Bound::relative(max_epsilons(function))
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
    assert_close(actual, expected, Bound::relative(DRAW_EPSILONS));
}
