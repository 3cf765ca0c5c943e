//! The CPU twins of the GPU kernels against the f64 functions of this crate, for the whole range of
//! parameters. No GPU is needed.

use crate::f32_plane::{distributions, kolmogorov, points, share_of_bound};
use distributions::InverseGaussian;
use puruspe::error::erfcx;
use shaders::params::{
    InverseGaussianEvalParams, InverseGaussianFunction as Function, InverseGaussianSampleParams,
};
use shaders::{layout, twin};
use tensor_core::compare::{Tolerance, assert_close, compare};
use tensor_core::rng::Philox;

/// Number of random distributions.
const N_DISTRIBUTIONS: u64 = 6000;
/// Number of draws from each distribution.
const N_DRAWS: u32 = 100_000;
/// Means and shapes at the edges and in the middle of the parameter plane.
const PARAMETERS: [[f64; 2]; 7] = [
    [1.0, 2.0],
    [1.0, 1e12],
    [1.0, 1e-12],
    [1e-18, 1e-30],
    [1e18, 1e30],
    [1e30, 1e30],
    [1e-30, 1e-30],
];

/// Computes a function of a distribution by the twin of the kernel.
fn eval(function: Function, distribution: &InverseGaussian, xs: &[f32]) -> Vec<f32> {
    let n = u32::try_from(xs.len()).expect("a few numbers");
    let params =
        InverseGaussianEvalParams::new(function, distribution.mean(), distribution.shape(), n);
    let mut ys = vec![f32::MAX; xs.len()];
    twin::inverse_gaussian_eval(&layout::INVERSE_GAUSSIAN_EVAL, &params, xs, &mut ys);
    ys
}

/// Draws `N_DRAWS` numbers by the twin of the kernel.
fn sample([mean, shape]: [f64; 2], key: u64) -> Vec<f32> {
    let params = InverseGaussianSampleParams::new(mean, shape, key, 0, 0..N_DRAWS);
    let mut draws = vec![f32::NAN; N_DRAWS as usize];
    twin::inverse_gaussian_sample(&layout::INVERSE_GAUSSIAN_SAMPLE, &params, &mut draws);
    draws
}

#[test]
fn every_function_keeps_its_bound_over_the_plane_and_comes_near_it() {
    let distributions = distributions(N_DISTRIBUTIONS);
    for function in Function::ALL {
        let mut values = Vec::new();
        for distribution in &distributions {
            let xs = points(distribution);
            let ys = eval(function, distribution, &xs);
            values.extend(xs.into_iter().zip(ys).map(|(x, y)| (*distribution, x, y)));
        }
        let share = share_of_bound(function, &values);
        eprintln!(
            "{function:?}: largest error is {share:.2} of the tolerance at {} points",
            values.len()
        );
        assert!(share > 0.4, "{function:?}: tolerance is too wide ({share})");
    }
}

#[test]
fn functions_outside_the_support_have_the_values_of_its_ends() {
    const LEFT: [f32; 5] = [0.0, -0.0, -1.0, f32::NEG_INFINITY, 1e-40];
    let infinity = f32::INFINITY;
    let ends = [
        (Function::Pdf, 0.0, 0.0),
        (Function::LnPdf, -infinity, -infinity),
        (Function::Cdf, 0.0, 1.0),
        (Function::Sf, 1.0, 0.0),
        (Function::LnCdf, -infinity, 0.0),
        (Function::LnSf, 0.0, -infinity),
    ];
    for [mean, shape] in PARAMETERS {
        let distribution = InverseGaussian::new(mean, shape).unwrap();
        for (function, left, right) in ends {
            assert_close(
                eval(function, &distribution, &LEFT),
                [left; 5],
                Tolerance::bits(),
            );
            let ys = eval(function, &distribution, &[infinity, f32::NAN]);
            assert_close(&ys[..1], [right], Tolerance::bits());
            assert!(ys[1].is_nan(), "{function:?}");
        }
    }
}

#[test]
fn functions_of_the_largest_and_smallest_numbers_are_probabilities() {
    let xs = [f32::MIN_POSITIVE, 1e-30, 1e30, 1e31, f32::MAX];
    for [mean, shape] in PARAMETERS {
        let distribution = InverseGaussian::new(mean, shape).unwrap();
        let [cdf, sf] =
            [Function::Cdf, Function::Sf].map(|function| eval(function, &distribution, &xs));
        let sums = cdf.iter().zip(&sf).map(|(p, q)| p + q);
        assert_close(
            sums.collect::<Vec<_>>(),
            [1.0_f32; 5],
            Tolerance::relative(1),
        );
        assert!(
            cdf.is_sorted() && cdf[0] >= 0.0,
            "{distribution:?}: {cdf:?}"
        );
        for function in [Function::LnCdf, Function::LnSf] {
            let ys = eval(function, &distribution, &xs);
            assert!(
                ys.iter().all(|y| *y <= 0.0),
                "{distribution:?} {function:?}: {ys:?}"
            );
        }
    }
}

#[test]
fn erfcx_and_its_slope_keep_their_bounds() {
    use shaders::twin::erfcx::{AT_EPSILONS, SLOPE_EPSILONS, at, slope};
    let random = Philox::new(3);
    let starts: Vec<f32> = (0..100_000)
        .map(|i| 10_f32.powf(8.0 * random.uniform_f32(i) - 4.0) - 0.5)
        .collect();
    let actual: Vec<f32> = starts.iter().map(|&t| at(t)).collect();
    let truth: Vec<f64> = starts.iter().map(|&t| erfcx(t.into())).collect();
    let summary = compare(&actual, &truth, &Tolerance::relative(AT_EPSILONS)).unwrap();
    assert!(summary.max_share > 0.5, "{summary:?}");

    // The steps are so wide that the difference of two f64 values has ten correct digits.
    let step = |(i, t): (u64, &f32)| {
        (t + 0.5) * 10_f32.powf(4.0 * random.stream(1).uniform_f32(i) - 1.0) + 0.01
    };
    let ends: Vec<f32> = (0..).zip(&starts).map(|(i, t)| t + step((i, t))).collect();
    let pairs = || starts.iter().zip(&ends).map(|(a, b)| (*a, *b));
    let actual: Vec<f32> = pairs().map(|(a, b)| slope(a, b)).collect();
    let truth: Vec<f64> = pairs()
        .map(|(a, b)| (f64::from(a), f64::from(b)))
        .map(|(a, b)| (erfcx(a) - erfcx(b)) / (b - a))
        .collect();
    let summary = compare(&actual, &truth, &Tolerance::relative(SLOPE_EPSILONS)).unwrap();
    assert!(summary.max_share > 0.5, "{summary:?}");
}

#[test]
fn draws_have_the_distribution_and_none_is_bad_at_the_edges_of_the_plane() {
    for (key, [mean, shape]) in (0..).zip(PARAMETERS) {
        let distribution = InverseGaussian::new(mean, shape).unwrap();
        let draws = sample([mean, shape], key);
        assert!(
            draws.iter().all(|x| x.is_normal() && *x > 0.0),
            "{distribution:?}"
        );
        // A distribution that is only a few f32 spacings wide is discrete in f32, and the statistic
        // does not apply.
        if shape / mean < 1e9 {
            let statistic = kolmogorov(&distribution, draws);
            assert!(statistic < 2.3, "{distribution:?}: {statistic}");
        }
    }
}

#[test]
fn moments_of_draws_are_those_of_the_distribution() {
    let n = f64::from(N_DRAWS);
    for (key, [mean, shape]) in (10..).zip([[1.0, 2.0], [3e-9, 1e-7], [7e11, 2e14]]) {
        let draws = sample([mean, shape], key);
        let ratio = mean / shape;
        let average = |power| {
            let sum: f64 = draws
                .iter()
                .map(|x| (f64::from(*x) / mean).powi(power))
                .sum();
            sum / n
        };
        // With φ = μ/λ, the expectations of X/μ and μ/X are 1 and 1 + φ, the variances φ and φ + 2
        // φ².
        let five_errors =
            |variance: f64| Tolerance::exact().or_absolute(5.0 * (variance / n).sqrt());
        assert_close([average(1)], [1.0], five_errors(ratio));
        assert_close(
            [average(-1)],
            [1.0 + ratio],
            five_errors(ratio + 2.0 * ratio * ratio),
        );
    }
}

#[test]
fn large_draws_are_as_rare_as_they_must_be() {
    // For this ratio a few rare draws determine the mean, so compare tail probabilities instead.
    let [mean, shape] = [1.0, 1e-6];
    let draws = sample([mean, shape], 21);
    let distribution = InverseGaussian::new(mean, shape).unwrap();
    for limit in [1e-4, 1e-2] {
        let n = f64::from(N_DRAWS);
        let beyond = draws.iter().filter(|x| f64::from(**x) > limit).count() as f64 / n;
        let expected = distribution.sf(limit);
        let error = 5.0 * (expected / n).sqrt();
        assert_close([beyond], [expected], Tolerance::exact().or_absolute(error));
    }
}
