//! Quantiles of χ² and of Student's distribution, used for confidence intervals.
//!
//! Role: `statrs` provides the tails of both distributions, but its quantile functions take `1 -
//! p`, which cannot represent the small tail probabilities of high confidence levels. Here both
//! quantiles are computed from the logarithm of a tail.
//! Method: up to [`MANY`] degrees of freedom, Newton's method on `ln P` as a function of `ln x`.
//! For all these tails `ln P` is concave in `ln x`, so the iterates cross the root at most once and
//! then approach it from one side. Above [`MANY`] degrees of freedom the tails of `statrs` lose
//! digits. There the result is a Cornish–Fisher expansion, whose neglected terms are small for many
//! degrees of freedom.
//! Accuracy: 2e-11 relative up to 25,000 degrees of freedom, and better above; the tests measure
//! the error.
//! Source: `statrs` for the tails; Goldberg and Levine 1946, "Approximate formulas for the
//! percentage points and normalization of t and χ²", for the expansions.

use statrs::function::beta::{beta_reg, ln_beta};
use statrs::function::gamma::{gamma_lr, gamma_ur, ln_gamma};
use std::f64::consts::SQRT_2;

/// Degrees of freedom above which the result is the Cornish–Fisher expansion, without a Newton
/// step.
const MANY: f64 = 10_000.0;
/// Degrees of freedom above which Newton's method starts at the Cornish–Fisher expansion.
const SOME: f64 = 500.0;
/// Maximum number of Newton steps, more than any input needs.
const MAX_STEPS: u32 = 100;
/// Size of a step in `ln x` up to which this step is the last step: convergence is quadratic, so
/// the next step would be smaller than rounding errors.
const LAST_STEP: f64 = 1e-9;
/// Largest step towards larger `x`, because the tail may underflow to 0 after a longer step.
const LONGEST_STEP: f64 = 1.0;

/// Returns the `x` that a χ² variable with `freedom` degrees of freedom exceeds (`is_upper`) or
/// falls below (otherwise) with probability `p`.
///
/// For `p = 0` the result is ∞ if `is_upper`, and 0 otherwise. `freedom` must be positive, `p` from
/// 0 to 1.
pub(super) fn chi_squared(freedom: f64, p: f64, is_upper: bool) -> f64 {
    match (p, is_upper) {
        (0.0, true) | (1.0, false) => return f64::INFINITY,
        (0.0, false) | (1.0, true) => return 0.0,
        _ => (),
    }
    // x/2 has a gamma distribution with the shape a.
    let a = 0.5 * freedom;
    let mut start = a;
    if freedom > SOME {
        // The normal quantile of p, as the root of the two-sided quantile of χ²(1).
        let z = chi_squared(1.0, 2.0 * p.min(1.0 - p), true).sqrt();
        let is_right = is_upper == (p <= 0.5);
        let near = chi_squared_of_many(freedom, if is_right { z } else { -z });
        if freedom > MANY {
            return near;
        }
        start = 0.5 * near;
    }
    let ln_gamma = ln_gamma(a);
    let half = newton(start, p.ln(), |x| {
        let tail = if is_upper {
            gamma_ur(a, x)
        } else {
            gamma_lr(a, x)
        };
        // The density times x, the derivative of the lower tail with respect to ln x.
        let flow = (a * x.ln() - x - ln_gamma).exp();
        (tail, if is_upper { -flow } else { flow })
    });
    2.0 * half
}

/// Returns the `t` that the absolute value of a Student variable with `freedom` degrees of freedom
/// exceeds with probability `p`.
///
/// For `p = 0` the result is ∞. `freedom` must be positive, `p` from 0 to 1.
pub(super) fn student(freedom: f64, p: f64) -> f64 {
    if p == 0.0 || p == 1.0 {
        return if p == 0.0 { f64::INFINITY } else { 0.0 };
    }
    let a = 0.5 * freedom;
    let ln_beta = ln_beta(a, 0.5);
    // With y = ν/(ν + t²), p is the integral of u^(a-1) (1-u)^(-1/2)/B from 0 to y. Without the
    // factor (1-u)^(-1/2) the integral is y^a/(aB), which yields this first guess.
    let y = ((p.ln() + a.ln() + ln_beta) / a).exp().min(1.0);
    let mut start = (freedom * (1.0 - y) / y).sqrt().max(1.0);
    if freedom > SOME {
        start = student_of_many(freedom, chi_squared(1.0, p, true).sqrt());
    }
    if freedom > MANY {
        return start;
    }
    newton(start, p.ln(), |t| {
        let ratio = t * t / freedom;
        let y = 1.0 / (1.0 + ratio);
        let flow = 2.0 * (-a * ratio.ln_1p() - ln_beta).exp() * (ratio * y).sqrt();
        (beta_reg(a, 0.5, y), -flow)
    })
}

/// Returns the `x` at which the logarithm of a tail is `ln_p`; 0 or ∞ if `x` is outside f64's
/// range.
///
/// `tail` returns the tail at its argument and the derivative of the tail with respect to `ln x`.
fn newton(start: f64, ln_p: f64, tail: impl Fn(f64) -> (f64, f64)) -> f64 {
    let mut x = start;
    for _ in 0..MAX_STEPS {
        let (tail, flow) = tail(x);
        // d ln P / d ln x is flow / tail.
        let step = ((ln_p - tail.ln()) * tail / flow).min(LONGEST_STEP);
        let goes_on = tail > 0.0 && step.abs() > LAST_STEP;
        if tail > 0.0 {
            x *= step.exp();
        }
        if !goes_on || x == 0.0 || x == f64::INFINITY {
            break;
        }
    }
    x
}

/// Returns the quantile of χ² for large `freedom`, from the normal quantile `z`.
fn chi_squared_of_many(freedom: f64, z: f64) -> f64 {
    let y = z * z;
    let root = freedom.sqrt();
    let terms = [
        freedom,
        SQRT_2 * z,
        2.0 / 3.0 * (y - 1.0),
        SQRT_2 * z * (y - 7.0) / 18.0,
        -((6.0 * y + 14.0) * y - 32.0) / 405.0,
        SQRT_2 * z * ((9.0 * y + 256.0) * y - 433.0) / 9720.0,
        (((12.0 * y - 243.0) * y - 923.0) * y + 1472.0) / 25_515.0,
        -SQRT_2 * z * (((3753.0 * y + 4353.0) * y - 289_517.0) * y - 289_717.0) / 18_370_800.0,
    ];
    // Term i has the factor root^(2 - i). Sum the terms after the first by Horner's rule in 1/root;
    // their common factor is root.
    let corrections = terms[1..].iter().rev();
    terms[0] + root * corrections.fold(0.0, |sum, term| sum / root + term)
}

/// Returns the quantile of Student's distribution for large `freedom`, from the normal quantile
/// `z`.
fn student_of_many(freedom: f64, z: f64) -> f64 {
    let y = z * z;
    let terms = [
        1.0,
        (y + 1.0) / 4.0,
        ((5.0 * y + 16.0) * y + 3.0) / 96.0,
        (((3.0 * y + 19.0) * y + 17.0) * y - 15.0) / 384.0,
        ((((79.0 * y + 776.0) * y + 1482.0) * y - 1920.0) * y - 945.0) / 92_160.0,
    ];
    z * terms
        .iter()
        .rev()
        .fold(0.0, |sum, term| sum / freedom + term)
}

#[cfg(test)]
mod tests {
    use super::{chi_squared, student};
    use tensor_core::compare::{Tolerance, assert_close};

    /// The tolerance 2e-11, in epsilons.
    const BOUND: usize = 90_072;

    #[test]
    fn quantiles_meet_their_golden_values() {
        let golden = include_str!("../../testdata/estimate-quantiles.csv");
        let (mut found, mut expected) = (Vec::new(), Vec::new());
        for line in golden.lines().skip(1) {
            let fields: Vec<&str> = line.split(',').collect();
            let number = |at: usize| fields[at].parse::<f64>().unwrap();
            let (freedom, p) = (number(1), number(2));
            found.push(match fields[0] {
                "student" => student(freedom, p),
                side => chi_squared(freedom, p, side == "upper"),
            });
            expected.push(number(3));
        }
        assert_close(&found, &expected, Tolerance::relative(BOUND));
    }

    #[test]
    fn quantiles_end_where_the_distributions_end() {
        for freedom in [0.25, 1.0, 40.0, 1e5] {
            assert_eq!(chi_squared(freedom, 0.0, true), f64::INFINITY);
            assert_eq!(chi_squared(freedom, 1.0, true), 0.0);
            assert_eq!(chi_squared(freedom, 0.0, false), 0.0);
            assert_eq!(chi_squared(freedom, 1.0, false), f64::INFINITY);
            assert_eq!(student(freedom, 0.0), f64::INFINITY);
            assert_eq!(student(freedom, 1.0), 0.0);
        }
    }

    #[test]
    fn no_quantile_is_nan_or_negative() {
        let freedoms = (-208..=200).map(|n| f64::from(n) * 0.25).map(f64::exp2);
        for freedom in freedoms {
            for p in [
                5e-17,
                1e-12,
                1e-3,
                0.3,
                0.5,
                0.7,
                0.999,
                1.0 - 1e-12,
                1.0 - 1e-16,
            ] {
                let [lower, upper] = [false, true].map(|side| chi_squared(freedom, p, side));
                let t = student(freedom, p);
                assert!(
                    lower >= 0.0 && upper >= 0.0 && t >= 0.0,
                    "{freedom} {p} {lower} {upper} {t}"
                );
            }
        }
    }
}
