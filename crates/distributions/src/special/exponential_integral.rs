//! The exponential integral, scaled.
//!
//! Role: the entropy of an inverse Gaussian and its divergence from the normal are multiples of it.

use std::f64::consts::LN_2;

/// Euler's constant. Source: OEIS A001620.
const EULER_GAMMA: f64 = 0.577_215_664_901_532_9;
/// Up to here the power series is used, beyond it the continued fraction.
const SERIES_END: f64 = 1.0;
/// Terms of the fraction: enough at its beginning, where it converges slowest.
const FRACTION_TERMS: u32 = 120;

/// Gives `exp(x) E1(x)` for `x > 0`, with `E1(x) = ∫_x^∞ exp(-t)/t dt`; 0 at ∞.
///
/// Accuracy: 1e-15 relative; the tests measure it.
///
/// # Source
/// Abramowitz and Stegun 1964, 5.1.11 and 5.1.22.
pub(crate) fn scaled_e1(x: f64) -> f64 {
    if x <= SERIES_END {
        let (mut term, mut sum, mut n) = (1.0, 0.0, 1.0);
        while f64::abs(term) > f64::EPSILON * LN_2 * 1e-3 {
            term *= -x / n;
            sum -= term / n;
            n += 1.0;
        }
        return x.exp() * (sum - EULER_GAMMA - x.ln());
    }
    // x + 1 - 1²/(x + 3 - 2²/(x + 5 - ...)), from the end.
    let mut below = x + f64::from(2 * FRACTION_TERMS + 1);
    for n in (1..=FRACTION_TERMS).rev() {
        let n = f64::from(n);
        below = x + (2.0 * n - 1.0) - n * n / below;
    }
    1.0 / below
}
