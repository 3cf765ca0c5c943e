//! The exponential integral, scaled.
//!
//! Role: the entropy of an inverse Gaussian and its divergence from the normal distribution contain
//! a multiple of `exp(x) E1(x)`.

use std::f64::consts::{EULER_GAMMA, LN_2};

/// The largest `x` for which the power series is used; for larger `x` the continued fraction is
/// used.
const SERIES_END: f64 = 1.0;
/// Number of terms of the continued fraction, sufficient at `SERIES_END`, where it converges most
/// slowly.
const FRACTION_TERMS: u32 = 120;

/// Returns `exp(x) E1(x)` for `x >= 0`, with `E1(x) = ∫_x^∞ exp(-t)/t dt`; 0 for ∞.
///
/// `ln_x` is the logarithm of `x`. It is a parameter of its own because it is finite even if `x`
/// underflows to 0.
///
/// Accuracy: 5 epsilons; the tests measure it.
///
/// # Source
/// Abramowitz and Stegun 1964, 5.1.11 and 5.1.22.
pub(crate) fn scaled_e1(x: f64, ln_x: f64) -> f64 {
    if x <= SERIES_END {
        // E1(x) = -γ - ln x - Σ (-x)^n/(n n!).
        let (mut term, mut sum, mut n) = (1.0, 0.0, 1.0);
        while f64::abs(term) > f64::EPSILON * LN_2 * 1e-3 {
            term *= -x / n;
            sum -= term / n;
            n += 1.0;
        }
        return x.exp() * (sum - EULER_GAMMA - ln_x);
    }
    // 1/(x + 1 - 1²/(x + 3 - 2²/(x + 5 - …))), evaluated from the last term to the first.
    let mut below = x + f64::from(2 * FRACTION_TERMS + 1);
    for n in (1..=FRACTION_TERMS).rev() {
        let n = f64::from(n);
        below = x + (2.0 * n - 1.0) - n * n / below;
    }
    1.0 / below
}

#[cfg(test)]
mod tests {
    use super::scaled_e1;
    use tensor_core::compare::{Tolerance, assert_close};

    #[test]
    fn values_are_the_golden_ones() {
        // mpmath 1.3.0, 40 digits: exp(x) * e1(x).
        let golden = [
            (1e-08, 17.843465267485485),
            (0.001, 6.337874070325488),
            (0.1, 2.0146425447084515),
            (0.5, 0.9229106324837305),
            (0.9, 0.6399492266392998),
            (0.999999, 0.5963477659761299),
            (1.000001, 0.5963469586708546),
            (1.125, 0.550135130314249),
            (1.5, 0.448256669291583),
            (2.0, 0.3613286168882226),
            (5.0, 0.1704221762847322),
            (20.0, 0.04771854549596084),
            (1000.0, 0.0009990019940238808),
            (100000000.0, 9.999999900000002e-09),
        ];
        for (x, truth) in golden {
            assert_close([scaled_e1(x, x.ln())], [truth], Tolerance::relative(5));
        }
        let at_infinity = scaled_e1(f64::INFINITY, f64::INFINITY);
        assert_close([at_infinity], [0.0], Tolerance::exact());
        // mpmath 1.3.0: e1(1e-400), whose argument is 0 in f64.
        let ln_x = -400.0 * 10.0_f64.ln();
        assert_close(
            [scaled_e1(0.0, ln_x)],
            [920.456_821_532_716_7],
            Tolerance::relative(5),
        );
    }
}
