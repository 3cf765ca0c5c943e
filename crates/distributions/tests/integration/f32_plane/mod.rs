//! Random distributions and arguments in the range that f32 supports, and the comparison of f32
//! results with f64 functions.

use crate::support;
use distributions::InverseGaussian;
use shaders::params::InverseGaussianFunction as Function;
use shaders::twin::inverse_gaussian_eval::max_epsilons;
use tensor_core::compare::{Tolerance, compare};
use tensor_core::rng::Philox;

/// Largest absolute value of the base-10 logarithm of `μ/λ`.
const RATIO_DECADES: f64 = 12.0;
/// Largest absolute value of the base-10 logarithms of `μ`, `λ` and `λ/μ²`.
const DECADES: f64 = 30.0;
/// Largest absolute value of the signed root of arguments in the body and the tails. Beyond it
/// every probability is below f32's range.
const MOST_ROOT: f64 = 14.0;

/// Returns `n` random distributions, uniform in the logarithms of `μ/λ` and `μ`, and the
/// distributions at the corners of the range; distributions outside the range are left out.
pub(crate) fn distributions(n: u64) -> Vec<InverseGaussian> {
    let random = Philox::new(6);
    let uniform = |i| 2.0 * random.uniform_f64(i) - 1.0;
    let drawn = (0..n).map(|i| (RATIO_DECADES * uniform(2 * i), DECADES * uniform(2 * i + 1)));
    let (ratio, rest, mean) = (
        0.999 * RATIO_DECADES,
        DECADES - RATIO_DECADES,
        0.999 * DECADES,
    );
    let corners = [
        (ratio, 0.0),
        (-ratio, 0.0),
        (ratio, -rest),
        (-ratio, rest),
        (0.0, mean),
        (0.0, -mean),
    ];
    let is_held = |(ratio, mean): &(f64, f64)| {
        let (shape, rate): (f64, f64) = (mean - ratio, -mean - ratio);
        shape.abs() <= DECADES && rate.abs() <= DECADES
    };
    let distribution = |(ratio, mean): (f64, f64)| {
        InverseGaussian::new(10_f64.powf(mean), 10_f64.powf(mean - ratio))
            .expect("positive parameters are valid")
    };
    drawn
        .chain(corners)
        .filter(is_held)
        .map(distribution)
        .collect()
}

/// Returns arguments in the body of a distribution, in its tails, next to its mean, and anywhere.
pub(crate) fn points(distribution: &InverseGaussian) -> Vec<f32> {
    let mean = distribution.mean();
    let random = Philox::new(distribution.shape().to_bits());
    let uniform = |i| 2.0 * random.uniform_f64(i) - 1.0;
    // The x at which the signed root is w.
    let at_root = |w: f64| {
        let t = 0.5 * w * (mean / distribution.shape()).sqrt();
        let root = t.abs() + t.hypot(1.0);
        mean * root.powi(if t < 0.0 { -2 } else { 2 })
    };
    let roots = (0..24).map(|i| at_root(MOST_ROOT * uniform(i)));
    let anywhere = (24..32).map(|i| 10_f64.powf(38.0 * uniform(i)));
    let near = narrowed(mean);
    roots
        .chain(anywhere)
        .map(narrowed)
        .chain([near, near.next_up(), near.next_down()])
        .filter(|x| x.is_normal() && is_promised(distribution, (*x).into()))
        .collect()
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "rounding to f32 is the purpose"
)]
fn narrowed(x: f64) -> f32 {
    x as f32
}

/// Returns whether the accuracy of the f64 functions is guaranteed at an argument.
fn is_promised(distribution: &InverseGaussian, x: f64) -> bool {
    distribution.ln_cdf(x).min(distribution.ln_sf(x)) > -1e25
}

/// Compares f32 values with the f64 function at the documented tolerance, and returns the largest
/// error as a fraction of the tolerance.
pub(crate) fn share_of_bound(function: Function, values: &[(InverseGaussian, f32, f32)]) -> f64 {
    let truth: Vec<f64> = values
        .iter()
        .map(|(distribution, x, _)| in_f64(function, distribution, (*x).into()))
        .collect();
    let least = if function == Function::LnPdf {
        1.0
    } else {
        0.0
    };
    let bound = Tolerance::relative(max_epsilons(function))
        .scaled_by(truth.iter().map(|y| y.abs().max(least)))
        .or_absolute(f32::MIN_POSITIVE.into());
    let actual: Vec<f32> = values.iter().map(|(.., y)| *y).collect();
    let summary = compare(&actual, &truth, &bound)
        .unwrap_or_else(|mismatch| panic!("{function:?}: {mismatch}"));
    summary.max_share
}

/// Returns the value of the f64 function at `x`.
fn in_f64(function: Function, distribution: &InverseGaussian, x: f64) -> f64 {
    match function {
        Function::Pdf => distribution.pdf(x),
        Function::LnPdf => distribution.ln_pdf(x),
        Function::Cdf => distribution.cdf(x),
        Function::Sf => distribution.sf(x),
        Function::LnCdf => distribution.ln_cdf(x),
        Function::LnSf => distribution.ln_sf(x),
    }
}

/// Returns the Kolmogorov statistic of draws, times the square root of the number of draws. The
/// result exceeds 2.3 by chance once in 20,000 runs.
pub(crate) fn kolmogorov(distribution: &InverseGaussian, draws: Vec<f32>) -> f64 {
    let draws = draws.into_iter().map(f64::from).collect();
    support::kolmogorov(draws, |x| distribution.cdf(x))
}
