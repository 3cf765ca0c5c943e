//! Fits: optimal errors of distributions, published steps, degenerate data.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use proptest::prelude::*;
use quant::{Error, MovingBasis, Normal, Population, Qem, RectifiedNormal, Sample, lloyd_max};
use tensor_core::compare::{Tolerance, assert_close};
use tensor_core::{DType, Host, Tensor, jit};

/// Checks numbers that are known to some decimal places.
#[track_caller]
fn assert_near(found: &[f64], expected: &[f64], tolerance: f64) {
    assert_close(
        found.to_vec(),
        expected.to_vec(),
        Tolerance::exact().or_absolute(tolerance),
    );
}

#[test]
fn the_best_bases_of_the_normal_distribution_are_found() {
    for (bits, error, basis) in [
        (1, 0.363_380_23, &[0.797_885][..]),
        (2, 0.117_481_85, &[0.528_819, 0.981_599]),
        (3, 0.035_267_13, &[0.451_032, 0.748_154, 0.988_252]),
        (
            4,
            0.009_889_99,
            &[0.295_994, 0.556_691, 0.708_759, 1.128_553],
        ),
    ] {
        let fit = Qem::signs(bits).unwrap().fit(&Normal::STANDARD).unwrap();
        assert!(fit.has_converged, "{bits} bits");
        assert_near(&[fit.mean_square_error / error], &[1.0], 1e-6);
        assert_near(&fit.basis, basis, 1e-5);
        // A scaled distribution has a scaled basis.
        let wide = Normal::new(0.0, 3.0).unwrap();
        let scaled = Qem::signs(bits).unwrap().fit(&wide).unwrap();
        assert_near(&[scaled.mean_square_error / (9.0 * error)], &[1.0], 1e-6);
    }
}

#[test]
fn an_offset_lowers_the_error_of_activations() {
    for (bits, error) in [(1, 0.087_118_56), (2, 0.022_950_18), (3, 0.006_408_72)] {
        let fit = Qem::bits(bits)
            .unwrap()
            .affine()
            .fit(&RectifiedNormal)
            .unwrap();
        assert_near(&[fit.mean_square_error / error], &[1.0], 1e-6);
    }
    for (bits, error) in [(1, 0.095_087_02), (2, 0.023_429_49), (3, 0.006_443_12)] {
        let fit = Qem::bits(bits).unwrap().fit(&RectifiedNormal).unwrap();
        assert_near(&[fit.mean_square_error / error], &[1.0], 1e-6);
    }
}

#[test]
fn the_published_start_ends_in_a_worse_fixed_point() {
    let upper_quartile = 0.674_489_750_196_081_7;
    for (bits, error, basis) in [
        (2, 0.117_481_85, &[0.528_819, 0.981_599][..]),
        (3, 0.036_942_62, &[0.301_040, 0.606_946, 1.157_846]),
        (
            4,
            0.011_442_48,
            &[0.203_740, 0.370_194, 0.745_036, 1.232_339],
        ),
    ] {
        let first = upper_quartile / f64::from(1 << (bits - 1));
        let start: Vec<f64> = (0..bits).map(|j| first * f64::from(1 << j)).collect();
        let qem = Qem::signs(start.len()).unwrap().max_iterations(20_000);
        let fit = qem.fit_from(&Normal::STANDARD, &start, 0.0).unwrap();
        assert_near(&[fit.mean_square_error], &[error], 6e-9);
        assert_near(&fit.basis, basis, 1e-6);
    }
}

#[test]
fn lloyd_max_is_the_lower_bound() {
    for (bits, error) in [
        (1, 0.363_380_23),
        (2, 0.117_481_85),
        (3, 0.034_547_76),
        (4, 0.009_501_01),
    ] {
        let n = 1 << bits;
        let start: Vec<f64> = (0..n)
            .map(|i| (4 * i + 2) as f64 / n as f64 - 2.0)
            .collect();
        let best = lloyd_max(&Normal::STANDARD, &start).unwrap();
        assert_near(&[best.mean_square_error], &[error], 6e-9);
        let fit = Qem::signs(bits).unwrap().fit(&Normal::STANDARD).unwrap();
        assert!(best.mean_square_error <= fit.mean_square_error + 1e-12);
    }
    let symmetric = lloyd_max(&Normal::STANDARD, &[-1.0, 0.0, 1.0]).unwrap();
    assert_near(&symmetric.levels, &[-1.224_006, 0.0, 1.224_006], 1e-6);
    assert_near(&[symmetric.mean_square_error], &[0.190_174_04], 6e-9);
    assert!(matches!(
        lloyd_max(&Normal::STANDARD, &[]),
        Err(Error::Empty { .. })
    ));
    assert!(lloyd_max(&Normal::STANDARD, &[f64::NAN]).is_err());
}

#[test]
fn one_step_is_the_published_one() {
    let data = [-3.0, -1.5, -0.5, 0.25, 1.0, 1.25, 2.5, 4.0];
    let sample = Sample::new(&data).unwrap();
    let qem = Qem::signs(2).unwrap();
    let plain = qem.clone().ridge(0.0).unwrap();
    let (basis, _) = plain.step(&sample, &[1.0, 2.0], 0.0).unwrap();
    assert_near(&basis, &[17.0 / 15.0, 61.0 / 30.0], 1e-14);
    assert_near(
        &[plain.error(&sample, &[1.0, 2.0], 0.0).unwrap()],
        &[0.296_875],
        1e-15,
    );
    // The error of the new basis with the old codes is 0.2802; with its own codes it is at most
    // that.
    assert!(plain.error(&sample, &basis, 0.0).unwrap() <= 0.280_208_34);
    let (basis, _) = qem.step(&sample, &[1.0, 2.0], 0.0).unwrap();
    assert_near(&basis, &[1.133_331_444, 2.033_332_444], 1e-9);
}

#[test]
fn averages_are_plain_or_without_bias() {
    let mut plain = MovingBasis::plain(&[1.0, 2.0], 0.9).unwrap();
    assert_near(plain.update(&[2.0, 3.0]).unwrap(), &[1.1, 2.1], 1e-15);
    assert_near(plain.update(&[3.0, 4.0]).unwrap(), &[1.29, 2.29], 1e-15);
    let mut debiased = MovingBasis::debiased(&[1.0, 2.0], 0.9).unwrap();
    assert_near(debiased.update(&[2.0, 3.0]).unwrap(), &[2.0, 3.0], 1e-14);
    let expected = [2.526_315_789, 3.526_315_789];
    assert_near(debiased.update(&[3.0, 4.0]).unwrap(), &expected, 1e-9);
    assert!(debiased.update(&[1.0]).is_err());
    assert!(MovingBasis::plain(&[1.0], 1.0).is_err());
    assert!(MovingBasis::debiased(&[1.0], f64::NAN).is_err());
}

#[test]
fn data_in_one_cell_moves_the_basis_as_little_as_possible() {
    let sample = Sample::new(&[2.5, 3.0, 3.5, 4.0]).unwrap();
    let qem = Qem::signs(2).unwrap();
    let (basis, _) = qem.step(&sample, &[1.0, 2.0], 0.0).unwrap();
    assert_near(&basis, &[1.124_998_438, 2.124_998_438], 1e-9);
    let plain = qem.ridge(0.0).unwrap();
    assert_eq!(
        plain
            .step(&sample, &[1.0, 2.0], 0.0)
            .unwrap_err()
            .to_string(),
        "Qem::step: the least squares of 2 unknowns have no unique solution (number of cells that contain data: 1)"
    );
    // With an offset.
    let sample = Sample::new(&[0.0, 0.5, 0.5, 1.0, 1.5, 2.0, 3.0, 4.5]).unwrap();
    let affine = Qem::signs(2).unwrap().affine().ridge(0.0).unwrap();
    let (basis, offset) = affine.step(&sample, &[0.5, 1.0], 1.5).unwrap();
    assert_near(
        &[basis[0], basis[1], offset],
        &[0.607_142_857, 1.071_428_571, 1.892_857_143],
        1e-9,
    );
    assert_near(
        &[affine.error(&sample, &[0.5, 1.0], 1.5).unwrap()],
        &[0.375],
        1e-15,
    );
}

#[test]
fn constants_and_zeros_have_a_fit() {
    for data in [[0.0; 6], [2.5; 6], [-1e-30; 6], [1e30; 6]] {
        let sample = Sample::new(&data).unwrap();
        for bits in 1..=4 {
            for qem in [Qem::signs(bits), Qem::bits(bits).map(Qem::affine)] {
                let fit = qem.unwrap().fit(&sample).unwrap();
                let scale = f64::from(data[0]).powi(2);
                assert!(
                    fit.mean_square_error <= 1e-3 * scale,
                    "{data:?}, {bits} bits: {fit:?}"
                );
                assert!(fit.basis.iter().all(|number| number.is_finite()));
            }
        }
    }
    assert!(matches!(Sample::new(&[]), Err(Error::Empty { .. })));
    assert!(matches!(
        Sample::new(&[1.0, f32::NAN]),
        Err(Error::NotANumber { index: 1, .. })
    ));
    assert!(matches!(
        Sample::new(&[f32::INFINITY]),
        Err(Error::InvalidNumber { .. })
    ));
    assert!(matches!(Qem::signs(0), Err(Error::BitCount { .. })));
    assert!(matches!(Qem::bits(9), Err(Error::BitCount { .. })));
    assert!(Qem::signs(2).unwrap().ridge(f64::NAN).is_err());
    let sample = Sample::new(&[1.0]).unwrap();
    assert!(matches!(
        Qem::signs(2).unwrap().fit_from(&sample, &[1.0], 0.0),
        Err(Error::LengthMismatch { .. })
    ));
    assert!(
        Qem::signs(1)
            .unwrap()
            .fit_from(&sample, &[f64::NAN], 0.0)
            .is_err()
    );
    assert_eq!(
        Qem::signs(1)
            .unwrap()
            .step(&sample, &[1.0], 0.5)
            .unwrap_err()
            .to_string(),
        "Qem::step: offset is 0.5 (expected 0 unless the fit is affine)"
    );
}

#[test]
fn cells_of_distributions_add_up() {
    let ends = [f64::NEG_INFINITY, -2.0, -0.0, 0.0, 0.3, 5.0, f64::INFINITY];
    let check = |population: &dyn Fn(f64, f64) -> quant::Cell, mean: f64| {
        let cells: Vec<_> = ends
            .windows(2)
            .map(|pair| population(pair[0], pair[1]))
            .collect();
        let mass: f64 = cells.iter().map(|cell| cell.mass).sum();
        let sum: f64 = cells.iter().map(|cell| cell.sum).sum();
        assert_near(&[mass, sum], &[1.0, mean], 1e-15);
    };
    check(&|a, b| Normal::STANDARD.cell(a, b), 0.0);
    check(&|a, b| Normal::new(0.7, 2.0).unwrap().cell(a, b), 0.7);
    check(&|a, b| RectifiedNormal.cell(a, b), 0.398_942_280_401_432_7);
    // A probability far from 0 does not cancel: that of 20 to 21 standard deviations.
    let far = Normal::STANDARD.cell(20.0, 21.0);
    assert_near(&[far.mass * 1e89], &[2.753_624_115_326_956_6], 1e-12);
    assert_near(
        &[far.mass],
        &[Normal::STANDARD.cell(-21.0, -20.0).mass],
        0.0,
    );
}

/// Returns data of all kinds: random, with duplicates, or constant.
fn data() -> impl Strategy<Value = Vec<f32>> {
    prop_oneof![
        prop::collection::vec(-4.0_f32..4.0, 1..60),
        prop::collection::vec(
            prop::sample::select(vec![-2.0_f32, -0.5, 0.0, 0.75, 3.0]),
            1..60
        ),
        (-4.0_f32..4.0, 1_usize..60).prop_map(|(x, n)| vec![x; n]),
    ]
}

/// The kind of levels that a configuration fits: `[has_signs, is_affine, is_uniform]`.
type Kind = [bool; 3];

/// Returns a configuration: with signs or bits, affine or not, uniform or not.
fn configuration(bits: usize, [has_signs, is_affine, is_uniform]: Kind) -> Qem {
    let qem = if has_signs {
        Qem::signs(bits)
    } else {
        Qem::bits(bits)
    };
    let qem = qem.unwrap();
    let qem = if is_affine { qem.affine() } else { qem };
    if is_uniform { qem.uniform() } else { qem }
}

/// Returns the part of a basis and an offset that a configuration of this kind has.
fn start_of(basis: &[f64], offset: f64, [_, is_affine, is_uniform]: Kind) -> (Vec<f64>, f64) {
    let n_numbers = if is_uniform { 1 } else { basis.len() };
    let offset = if is_affine { offset } else { 0.0 };
    (basis[..n_numbers].to_vec(), offset)
}

fn scaled(numbers: &[f64], scale: f64) -> Vec<f64> {
    numbers.iter().map(|x| x * scale).collect()
}

proptest! {
    #[test]
    fn a_step_never_raises_the_error(
        data in data(),
        start in prop::collection::vec(-2.0_f64..2.0, 1..=8),
        offset in -1.0_f64..1.0,
        exponent in -60..60_i32,
        kind in any::<Kind>(),
    ) {
        let scale = 2.0_f32.powi(exponent);
        let data: Vec<f32> = data.iter().map(|x| x * scale).collect();
        let sample = Sample::new(&data).unwrap();
        let qem = configuration(start.len(), kind);
        let start = scaled(&start, scale.into());
        let (mut basis, mut offset) = start_of(&start, offset * f64::from(scale), kind);
        // The error is a difference of mean squares of elements and levels.
        let reach = start.iter().fold(offset.abs(), |sum, v| sum + v.abs());
        let rounding = 1e-12 * (sample.sum_of_squares() / data.len() as f64 + reach * reach);
        let mut error = qem.error(&sample, &basis, offset).unwrap();
        for _ in 0..5 {
            (basis, offset) = qem.step(&sample, &basis, offset).unwrap();
            let next = qem.error(&sample, &basis, offset).unwrap();
            prop_assert!(next <= error + rounding, "{error} -> {next}");
            error = next;
        }
    }

    #[test]
    fn the_error_of_a_fit_is_that_of_its_levels(
        data in data(),
        bits in 1..=4_usize,
        kind in any::<Kind>(),
    ) {
        let sample = Sample::new(&data).unwrap();
        let fit = configuration(bits, kind).fit(&sample).unwrap();
        let levels = fit.level_set().unwrap();
        let restored = levels.dequantize(&levels.quantize(&data).0).unwrap();
        let squares = data.iter().zip(&restored).map(|(x, q)| f64::from(x - q).powi(2));
        let found = squares.sum::<f64>() / data.len() as f64;
        prop_assert!((found - fit.mean_square_error).abs() <= 1e-5 * (1.0 + found), "{found} {fit:?}");
    }

    #[test]
    fn a_power_of_two_scales_steps_and_fits_exactly(
        data in data(),
        start in prop::collection::vec(-2.0_f64..2.0, 1..=4),
        offset in -1.0_f64..1.0,
        exponent in -60..60_i32,
        kind in any::<Kind>(),
    ) {
        let scale = f64::from(exponent).exp2();
        let times: Vec<f32> = data.iter().map(|x| x * 2.0_f32.powi(exponent)).collect();
        let [sample, times] = [data, times].map(|data| Sample::new(&data).unwrap());
        let qem = configuration(start.len(), kind).max_iterations(20);
        let (start, offset) = start_of(&start, offset, kind);
        let (basis, new_offset) = qem.step(&sample, &start, offset).unwrap();
        let step = qem.step(&times, &scaled(&start, scale), offset * scale).unwrap();
        prop_assert_eq!(step, (scaled(&basis, scale), new_offset * scale));
        let [fit, times] = [sample, times].map(|sample| qem.fit(&sample).unwrap());
        prop_assert_eq!(times.basis, scaled(&fit.basis, scale));
        prop_assert_eq!(times.mean_square_error, fit.mean_square_error * scale * scale);
    }
}

/// The upper quartile of the standard normal distribution, as rounded in the published code.
const PUBLISHED: f64 = 0.6745;

/// Returns the quantiles of the standard normal distribution at `(i + 1/2) / n`, by bisection of
/// its distribution function.
fn quantiles(n: u32) -> Vec<f32> {
    (0..n)
        .map(|i| {
            let p = (f64::from(i) + 0.5) / f64::from(n);
            let (mut low, mut high) = (-10.0, 10.0);
            while high - low > 1e-9 {
                let middle = (low + high) / 2.0;
                let below = Normal::STANDARD.cell(f64::NEG_INFINITY, middle).mass;
                (low, high) = if below < p {
                    (middle, high)
                } else {
                    (low, middle)
                };
            }
            #[allow(clippy::cast_possible_truncation, reason = "the sample is in f32")]
            let quantile = ((low + high) / 2.0) as f32;
            quantile
        })
        .collect()
}

/// An iteration from a start with published errors.
struct Iteration {
    qem: Qem,
    data: Vec<f32>,
    start: Vec<f64>,
    /// The mean square error before step t.
    errors: Vec<(usize, f64)>,
    /// The basis at the end.
    end: Vec<f64>,
}

fn published_iterations() -> [Iteration; 4] {
    let data = quantiles(4096);
    // Rectified, with bits 0 and 1.
    let rectified: Vec<f32> = data.iter().map(|x| x.max(0.0)).collect();
    // The published first basis for a standard deviation of 1.
    let first = |bits: i32| -> Vec<f64> {
        let scale = PUBLISHED / f64::from(1 << (bits - 1));
        (0..bits).map(|j| scale * f64::from(1 << j)).collect()
    };
    let scale = 2.0 * PUBLISHED / 3.0;
    [
        Iteration {
            qem: Qem::signs(2).unwrap(),
            data: data.clone(),
            start: first(2),
            errors: vec![
                (0, 0.172_913_5),
                (1, 0.130_329_62),
                (5, 0.117_470_62),
                (40, 0.117_281_62),
            ],
            end: vec![0.528_606, 0.981_102],
        },
        Iteration {
            qem: Qem::signs(3).unwrap(),
            data: data.clone(),
            start: first(3),
            errors: vec![
                (0, 0.106_999_15),
                (1, 0.064_983_6),
                (5, 0.041_180_03),
                (400, 0.036_786_73),
            ],
            end: vec![0.300_706, 0.606_246, 1.156_199],
        },
        Iteration {
            qem: Qem::signs(3).unwrap(),
            data,
            start: vec![0.45, 0.75, 0.99],
            errors: vec![(400, 0.035_121_15)],
            end: vec![0.451_292, 0.748_863, 0.989_089],
        },
        Iteration {
            // The published errors are without a ridge; a program needs a small one.
            qem: Qem::bits(2).unwrap().ridge(1e-30).unwrap(),
            data: rectified,
            start: vec![scale, 2.0 * scale],
            errors: vec![
                (0, 0.040_224_26),
                (1, 0.030_899_44),
                (5, 0.023_909_98),
                (400, 0.023_347_02),
            ],
            end: vec![0.651_531, 1.298_421],
        },
    ]
}

#[test]
fn errors_of_a_quantile_sample_fall_as_published() {
    let iterations = published_iterations();
    let sample = Sample::new(&iterations[0].data).unwrap();
    let mean_square = sample.sum_of_squares() / 4096.0;
    assert_near(&[mean_square], &[0.999_679_447_677_8], 1e-6);
    for iteration in iterations {
        let sample = Sample::new(&iteration.data).unwrap();
        let (qem, mut basis, mut t) = (iteration.qem, iteration.start, 0);
        for (at, error) in iteration.errors {
            while t < at {
                basis = qem.step(&sample, &basis, 0.0).unwrap().0;
                t += 1;
            }
            let found = qem.error(&sample, &basis, 0.0).unwrap();
            assert_near(&[found], &[error], 2e-7);
        }
        assert_near(&basis, &iteration.end, 2e-5);
    }
}

#[test]
fn programs_in_f32_reach_the_published_bases() {
    let host = Host::new();
    for iteration in published_iterations() {
        let x = Tensor::from_vec(&[1, 4096], iteration.data);
        let step = jit(|args| {
            let step = iteration.qem.step_of(&args[0], &args[1], None).unwrap();
            Ok(vec![step.basis, step.mean_square_error])
        });
        let n = iteration.start.len();
        let start = Tensor::from_vec(&[1, n], iteration.start).cast(DType::F32);
        let (mut basis, mut t) = (start.realize(&host).unwrap(), 0);
        for (at, error) in iteration.errors {
            loop {
                let outputs = step.call(&host, &[&x, &basis]).unwrap();
                if t == at {
                    let found = outputs[1].to_host::<f32>().unwrap();
                    assert_near(&[found[[0]].into()], &[error], 1e-6);
                    break;
                }
                basis = outputs[0].clone();
                t += 1;
            }
        }
        let basis = basis.to_host::<f32>().unwrap();
        let basis: Vec<f64> = basis.into_iter().map(f64::from).collect();
        assert_near(&basis, &iteration.end, 2e-5);
    }
}

#[test]
fn numbers_that_overflow_are_no_small_errors() {
    let sample = Sample::new(&[1.0, 2.0]).unwrap();
    let qem = Qem::signs(2).unwrap();
    assert_eq!(
        qem.error(&sample, &[1e308, 1e308], 0.0).unwrap(),
        f64::INFINITY
    );
    let huge_ridge = qem.ridge(1e308).unwrap();
    assert!(matches!(
        huge_ridge.fit_from(&sample, &[4.0, 8.0], 0.0),
        Err(Error::InvalidNumber { .. })
    ));
    assert!(matches!(
        lloyd_max(&sample, &[0.0, f64::INFINITY]),
        Err(Error::InvalidNumber { .. })
    ));
}
