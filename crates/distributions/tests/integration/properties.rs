//! Identities of the inverse Gaussian for random parameters.

use distributions::{InverseGaussian, Real};
use proptest::prelude::*;
use tensor_core::compare::{Tolerance, compare};

/// Twice the tolerance of each function, in epsilons; the tolerance is 4e-15.
const TWO_GATES: usize = 36;

/// Generates a distribution in the supported range of parameters, and an `x` with a signed root
/// from -30 to 30.
fn distribution_and_point() -> impl Strategy<Value = (InverseGaussian, f64)> {
    (-14.0..8.0, -20.0..20.0, -30.0..30.0).prop_map(|(phi, scale, w): (f64, f64, f64)| {
        let (phi, mean) = (10_f64.powf(phi), 10_f64.powf(scale));
        let distribution =
            InverseGaussian::new(mean, mean / phi).expect("the parameters are valid");
        (distribution, mean * ratio(w * phi.sqrt() / 2.0))
    })
}

/// Returns `x/μ` for `t = w sqrt(μ/λ)/2`, where `w` is the signed root.
fn ratio(t: f64) -> f64 {
    let root = t.abs() + t.hypot(1.0);
    if t < 0.0 { root.powi(-2) } else { root.powi(2) }
}

/// Panics if two numbers differ by more than the tolerance.
#[track_caller]
fn close(actual: f64, expected: f64, bound: Tolerance) {
    if let Err(mismatch) = compare([actual], [expected], &bound) {
        panic!("{mismatch}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn both_tails_make_one((distribution, x) in distribution_and_point()) {
        close(distribution.cdf(x) + distribution.sf(x), 1.0, Tolerance::relative(2));
        let (lower, upper) = (distribution.ln_cdf(x), distribution.ln_sf(x));
        close(lower.exp() + upper.exp(), 1.0, Tolerance::relative(8));
    }

    #[test]
    fn both_sides_of_the_mean_mirror_each_other(
        phi in -14.0..8.0_f64, scale in -400..400_i32, power in 1..40_i32,
    ) {
        // At μ²/x the root w has the opposite sign, while v and E are unchanged. Powers of two make
        // μ²/x exact.
        let (mean, step) = (2_f64.powi(scale), 2_f64.powi(power));
        let distribution = InverseGaussian::new(mean, mean / 10_f64.powf(phi)).unwrap();
        let (x, mirrored) = (mean * step, mean / step);
        // x^(3/2) f(x) is a constant times exp(-E).
        let shift = 3.0 * step.ln();
        let [far, near] = [distribution.ln_pdf(x) + shift, distribution.ln_pdf(mirrored)];
        let size = 1.0 + near.abs() + far.abs() + shift;
        close(far, near, Tolerance::relative(TWO_GATES).scaled_by([size]));
        // F(μ²/x) - P(X > x) = exp(-E) erfcx(v/√2).
        let exponent = 0.5 * distribution.shape() / mean * (step - 1.0).powi(2) / step;
        let v = (exponent + 2.0 * (distribution.shape() / mean)).sqrt();
        let (tail, difference) = (distribution.cdf(mirrored), (-exponent).exp() * puruspe::error::erfcx(v));
        let bound = Tolerance::relative(TWO_GATES).scaled_by([(1.0 + exponent).min(1e3) * tail]);
        close(tail - distribution.sf(x), difference, bound.or_absolute(f64::MIN_POSITIVE));
    }

    #[test]
    fn logarithms_are_those_of_the_functions((distribution, x) in distribution_and_point()) {
        // The exponential multiplies a relative error of the logarithm by its size, at most 500
        // here.
        let bound = || Tolerance::relative(2000).or_absolute(f64::MIN_POSITIVE);
        close(distribution.ln_pdf(x).exp(), distribution.pdf(x), bound());
        close(distribution.ln_cdf(x).exp(), distribution.cdf(x), bound());
        close(distribution.ln_sf(x).exp(), distribution.sf(x), bound());
        close(distribution.ln_pdf(x) - distribution.ln_sf(x), distribution.hazard(x).ln(),
            Tolerance::relative(TWO_GATES).scaled_by([distribution.ln_pdf(x).abs().max(1.0)]));
    }

    #[test]
    fn functions_are_monotone((distribution, x) in distribution_and_point(), step in 1e-12..0.5_f64) {
        let beyond = x * (1.0 + step);
        let slack = 1.0 + 1e-14;
        prop_assert!(distribution.cdf(x) <= distribution.cdf(beyond) * slack);
        prop_assert!(distribution.sf(beyond) <= distribution.sf(x) * slack);
        prop_assert!(distribution.ln_cdf(x) * slack <= distribution.ln_cdf(beyond));
        prop_assert!(distribution.ln_sf(beyond) * slack <= distribution.ln_sf(x));
    }

    #[test]
    fn quantiles_lead_back((distribution, x) in distribution_and_point()) {
        // The relative change of x per relative change of ln P.
        let condition = |ln_p: f64| ln_p.abs() * (ln_p - distribution.ln_pdf(x)).exp() / x;
        let lower = distribution.ln_cdf(x);
        if lower < -1e-12 {
            close(distribution.inverse_ln_cdf(lower), x,
                Tolerance::relative(TWO_GATES).scaled_by([x * (1.0 + condition(lower))]));
        }
        let upper = distribution.ln_sf(x);
        if upper < -1e-12 {
            close(distribution.inverse_ln_sf(upper), x,
                Tolerance::relative(TWO_GATES).scaled_by([x * (1.0 + condition(upper))]));
        }
    }

    #[test]
    fn the_distribution_scales((distribution, x) in distribution_and_point(), power in -300_i32..300) {
        // Scaling by a power of two is exact, so all digits agree.
        let c = 2_f64.powi(power);
        let scaled = InverseGaussian::new(distribution.mean() * c, distribution.shape() * c).unwrap();
        prop_assert_eq!(scaled.cdf(x * c), distribution.cdf(x));
        prop_assert_eq!(scaled.ln_sf(x * c), distribution.ln_sf(x));
        // A subnormal density has fewer digits, and scaling magnifies its error.
        let floor = f64::max(1e-290, 1e-323 * c);
        close(scaled.pdf(x * c) * c, distribution.pdf(x), Tolerance::relative(2).or_absolute(floor));
        let median = scaled.median() / c;
        close(median, distribution.median(), Tolerance::relative(8));
    }

    #[test]
    fn the_distribution_of_a_sum_has_the_product_of_the_characteristic_functions(
        mean in 0.1..10.0_f64, shape in 0.1..10.0_f64, n in 2..6_i32, t in -5.0..5.0_f64,
    ) {
        let one = InverseGaussian::new(mean, shape).unwrap();
        let n = f64::from(n);
        let sum = InverseGaussian::new(n * mean, n * n * shape).unwrap();
        let (whole, part) = (sum.ln_characteristic_function(t), one.ln_characteristic_function(t));
        let size = whole.norm().max(1e-300);
        close(whole.re, n * part.re, Tolerance::relative(20).scaled_by([size]));
        close(whole.im, n * part.im, Tolerance::relative(20).scaled_by([size]));
        close(sum.variance(), n * one.variance(), Tolerance::relative(8));
    }

    #[test]
    fn slices_have_the_bits_of_single_numbers((distribution, x) in distribution_and_point(), len in 0..40_usize) {
        let xs: Vec<f64> = (0..len).map(|i| x * (0.5 + i as f64 / 16.0)).collect();
        let mut out = vec![f64::NAN; len];
        distribution.cdf_into(&xs, &mut out).unwrap();
        prop_assert!(out.iter().zip(&xs).all(|(y, &x)| y.to_bits() == distribution.cdf(x).to_bits()));
        distribution.ln_sf_into(&xs, &mut out).unwrap();
        prop_assert!(out.iter().zip(&xs).all(|(y, &x)| y.to_bits() == distribution.ln_sf(x).to_bits()));
        distribution.pdf_into(&xs, &mut out).unwrap();
        prop_assert!(out.iter().zip(&xs).all(|(y, &x)| y.to_bits() == distribution.pdf(x).to_bits()));
        distribution.hazard_into(&xs, &mut out).unwrap();
        prop_assert!(out.iter().zip(&xs).all(|(y, &x)| y.to_bits() == distribution.hazard(x).to_bits()));
    }

    #[test]
    fn single_precision_is_the_rounded_double((distribution, x) in distribution_and_point()) {
        let xs = [f32::narrowed(x), 0.0, f32::INFINITY];
        let mut out = [0.0_f32; 3];
        distribution.cdf_into(&xs, &mut out).unwrap();
        prop_assert_eq!(out, xs.map(|x| f32::narrowed(distribution.cdf(f64::from(x)))));
    }

    #[test]
    fn gradients_are_the_slopes_of_the_quantile(phi in -3.0..3.0_f64, p in 0.01..0.99_f64) {
        const STEP: f64 = 1e-4;
        let distribution = |mean: f64, shape: f64| InverseGaussian::new(mean, shape).unwrap();
        let (mean, shape) = (1.0, 10_f64.powf(-phi));
        let [by_mean, by_shape] = distribution(mean, shape).sample_gradient(distribution(mean, shape).inverse_cdf(p));
        let slope = |f: &dyn Fn(f64) -> f64| (f(1.0 + STEP) - f(1.0 - STEP)) / (2.0 * STEP);
        let in_mean = slope(&|c| distribution(mean * c, shape).inverse_cdf(p));
        let in_shape = slope(&|c| distribution(mean, shape * c).inverse_cdf(p));
        let x = distribution(mean, shape).inverse_cdf(p);
        // The relative error of a central difference is about the square of the step.
        let bound = || Tolerance::relative(1).or_absolute(1e-6 * x.max(by_mean));
        close(by_mean * mean, in_mean, bound());
        close(by_shape * shape, in_shape, bound());
    }
}

#[test]
fn slices_of_different_lengths_are_rejected_and_left_alone() {
    let distribution = InverseGaussian::new(1.0, 1.0).unwrap();
    let mut out = [7.0; 2];
    let error = distribution.cdf_into(&[1.0; 3], &mut out).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cdf_into: lengths differ (input 3, output 2)"
    );
    distribution
        .inverse_cdf_into(&[0.5, 1.5], &mut out)
        .unwrap_err();
    assert_eq!(out, [7.0; 2]);
}

#[cfg(feature = "rayon")]
#[test]
fn results_of_many_threads_have_the_bits_of_one() {
    let distribution = InverseGaussian::new(0.5, 1.0).unwrap();
    let xs: Vec<f64> = (0..10_001).map(|i| f64::from(i) / 1000.0).collect();
    let (mut one, mut all) = (vec![0.0; xs.len()], vec![1.0; xs.len()]);
    distribution.sf_into(&xs, &mut one).unwrap();
    distribution.par_sf_into(&xs, &mut all).unwrap();
    assert_eq!(one, all);
    let ps: Vec<f64> = xs.iter().map(|x| x / 11.0).collect();
    distribution.inverse_cdf_into(&ps, &mut one).unwrap();
    distribution.par_inverse_cdf_into(&ps, &mut all).unwrap();
    assert_eq!(one, all);
}
