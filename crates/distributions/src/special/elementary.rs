//! Exponential and logarithms with an argument or a result in two parts.
//!
//! Role: a tail probability is `exp(-E)` times a factor, where `E` is a sum of two numbers. Its
//! logarithm is `-E` plus the logarithm of the factor. [`exp`] therefore takes a sum, and
//! [`ln_parts`] returns the multiple of `ln 2` separately, so that the sum with `-E` is rounded
//! only once.
//! Method: the argument is reduced by multiples of `ln 2`, which is stored in two parts; the rest
//! is a polynomial (`coefficients.py`).
//! Accuracy: within 2 epsilons of the standard library's functions if the result is normal; the
//! tests measure the difference.
//! Source: the form of the series of the logarithm, `ln(1 + f) = f - f²/2 + s (f²/2 + R)` with
//! `s = f/(2 + f)`: Sun Microsystems 1993, fdlibm, `e_log.c`.

use super::coefficients::{EXP, LN};
use super::short_polynomial;
use std::f64::consts::{LOG2_E, SQRT_2};

/// The upper 32 bits of `ln 2`, so that its product with an exponent is exact.
const LN2_HIGH: f64 = 0.693_147_180_369_123_8;
/// The remainder `ln 2 - LN2_HIGH`.
const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
/// `1.5 * 2^52`. At this size the spacing of f64 is 1, so adding it to a number of a size below
/// 2^51 rounds the number to an integer. The low bits of the sum are that integer; subtracting the
/// constant again returns it as an f64.
const ROUNDER: f64 = 6_755_399_441_055_744.0;
/// The number of fraction bits of an f64, which are below the exponent.
const FRACTION_BITS: u32 = 52;
/// The biased exponent of the number 1.
const ONE_EXPONENT: u64 = 1023;
/// The size of the argument of `exp` up to which both scales of the result are normal numbers.
/// Larger arguments are clamped to it; their results are 0 or infinite anyway.
const EXP_RANGE: f64 = 1410.0;

/// A non-negative number as the product of a significand and two scales; the product can be outside
/// f64's range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scaled {
    /// Between 0.7 and 2, or 0.
    pub(crate) significand: f64,
    /// Two powers of two, about equal, each a normal number.
    pub(crate) scales: [f64; 2],
}

impl Scaled {
    /// Creates the number `significand * 2^exponent`, where `exponent` is an integer of at most
    /// 2034 in size.
    #[inline(always)]
    pub(crate) fn new(significand: f64, exponent: f64) -> Self {
        // Two scales, because `2^exponent` alone may be outside f64's range.
        let half = (exponent * 0.5 + ROUNDER) - ROUNDER;
        Self {
            significand,
            scales: [power_of_two(half), power_of_two(exponent - half)],
        }
    }

    /// Returns the number as an f64, rounded only if the result is subnormal; 0 or ∞ outside f64's
    /// range.
    #[inline(always)]
    pub(crate) fn value(self) -> f64 {
        self.significand * self.scales[0] * self.scales[1]
    }

    /// Returns the product with a factor. The product may be in f64's range although the number is
    /// not.
    #[inline(always)]
    pub(crate) fn times(self, factor: f64) -> f64 {
        (self.significand * factor) * self.scales[0] * self.scales[1]
    }
}

/// Returns `exp(high + low)`, where `low` must be small compared with 1; NaN for NaN.
#[inline(always)]
pub(crate) fn exp(high: f64, low: f64) -> Scaled {
    // Both comparisons are false for NaN, which therefore stays NaN.
    let inside = if high < -EXP_RANGE { -EXP_RANGE } else { high };
    let inside = if inside > EXP_RANGE {
        EXP_RANGE
    } else {
        inside
    };
    let low = if inside == high { low } else { 0.0 };
    // exp(x) = 2^n exp(r) with r = x - n ln 2. The product n LN2_HIGH is exact, so the large terms
    // cancel without a rounding error.
    let n = (inside * LOG2_E + ROUNDER) - ROUNDER;
    let r = n.mul_add(-LN2_LOW, n.mul_add(-LN2_HIGH, inside) + low);
    let q = short_polynomial(&EXP, r);
    // exp(r) = 1 + (r + r² q(r)), small terms first.
    let significand = 1.0 + (r * r).mul_add(q, r);
    Scaled::new(if high < -EXP_RANGE { 0.0 } else { significand }, n)
}

/// Returns `2^n` for an integer `n` of a size below 1023.
#[inline(always)]
fn power_of_two(n: f64) -> f64 {
    // The low bits of the sum are the integer n; the shift moves n + 1023 into the exponent field
    // and all higher bits out.
    let biased = (n + ROUNDER).to_bits().wrapping_add(ONE_EXPONENT);
    f64::from_bits(biased << FRACTION_BITS)
}

/// A logarithm as `exponent * ln 2 + rest`, not yet summed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Logarithm {
    exponent: f64,
    rest: f64,
}

impl Logarithm {
    /// Returns the logarithm of the number multiplied by `2^n`.
    #[inline(always)]
    pub(crate) fn shifted(self, n: f64) -> Self {
        Self {
            exponent: self.exponent + n,
            ..self
        }
    }

    /// Returns the logarithm plus `high + low`. The sum has the error of a single rounding if
    /// `high` or the exponent is its largest term by far.
    #[inline(always)]
    pub(crate) fn plus(self, high: f64, low: f64) -> f64 {
        // Add the two large terms exactly and the small terms to the rounding error.
        let (sum, error) = two_sum(self.exponent * LN2_HIGH, high);
        // For an infinite sum the formula of the rounding error yields NaN.
        let error = if sum.abs() <= f64::MAX { error } else { 0.0 };
        sum + (error + (self.exponent.mul_add(LN2_LOW, low) + self.rest))
    }
}

/// Splits a positive normal number into a significand in `[1, 2)` and the exponent of a power of
/// two.
#[inline(always)]
pub(crate) fn binade(x: f64) -> (f64, f64) {
    let bits = x.to_bits();
    // Convert the exponent to f64 by a bit trick, because AVX2 has no conversion of 64-bit
    // integers: put it into the low bits of 2^52, whose spacing is 1, and subtract 2^52 and the
    // bias.
    let shifted = (bits >> FRACTION_BITS) | 0x4330_0000_0000_0000;
    let exponent = f64::from_bits(shifted) - (4_503_599_627_370_496.0 + 1023.0);
    let significand = f64::from_bits((bits & 0x000f_ffff_ffff_ffff) | 0x3ff0_0000_0000_0000);
    (significand, exponent)
}

/// Returns the logarithm of `x >= 0`, which is -∞ for 0.
#[inline(always)]
pub(crate) fn ln(x: f64) -> f64 {
    // 2^54, which makes every subnormal number normal.
    const UP: f64 = 18_014_398_509_481_984.0;
    let is_small = x < f64::MIN_POSITIVE;
    let lifted = if is_small { x * UP } else { x };
    let shift = if is_small { -54.0 } else { 0.0 };
    let value = ln_parts(lifted).shifted(shift).plus(0.0, 0.0);
    if x == 0.0 { f64::NEG_INFINITY } else { value }
}

/// Returns the logarithm of a positive normal number as a sum that is not yet rounded.
#[inline(always)]
pub(crate) fn ln_parts(x: f64) -> Logarithm {
    ln_parts_of(x, 0.0)
}

/// Returns the logarithm of `x (1 + correction)` for a positive normal `x` and a correction below
/// an ulp of 1, for which `ln(1 + correction)` is `correction`.
#[inline(always)]
fn ln_parts_of(x: f64, correction: f64) -> Logarithm {
    let (significand, exponent) = binade(x);
    // Move the significand from [1, 2) to the range from √2/2 to √2. The series is then short, and
    // the logarithm of a number just below 1 does not cancel against -ln 2.
    let is_large = significand > SQRT_2;
    let significand = if is_large {
        significand * 0.5
    } else {
        significand
    };
    let exponent = if is_large { exponent + 1.0 } else { exponent };
    let f = significand - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let half_square = 0.5 * f * f;
    // ln(1 + f) = f - f²/2 + s (f²/2 + z R(z)). The largest term, f, is exact; the others are
    // smaller by at least a factor of f/2, and so are their rounding errors.
    let tail = s * (half_square + z * short_polynomial(&LN, z));
    Logarithm {
        exponent,
        rest: f - (half_square - (tail + correction)),
    }
}

/// Returns `ln(1 + z)` for `z > -1`, with a small relative error even if `z` is small.
#[inline(always)]
pub(crate) fn ln_1p(z: f64) -> f64 {
    let u = 1.0 + z;
    // The rounding error of u, so that 1 + z = u (1 + lost/u).
    let lost = z - (u - 1.0);
    ln_parts_of(u, lost / u).plus(0.0, 0.0)
}

/// Returns the rounded sum of two numbers and its exact rounding error. Either number may be the
/// larger.
///
/// Source: Knuth, "The art of computer programming", volume 2, section 4.2.2.
#[inline(always)]
pub(crate) fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let b_part = sum - a;
    (sum, (a - (sum - b_part)) + (b - b_part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensor_core::compare::{Tolerance, assert_close};

    /// Returns numbers from `low` to `high`, evenly spaced on a logarithmic scale.
    fn spread(low: f64, high: f64) -> Vec<f64> {
        const N: u32 = 20_000;
        let ratio = (high.ln() - low.ln()) / f64::from(N);
        (0..=N)
            .map(|i| (low.ln() + ratio * f64::from(i)).exp())
            .collect()
    }

    #[test]
    fn exponentials_are_those_of_the_library() {
        let xs: Vec<f64> = spread(1e-20, 708.0)
            .into_iter()
            .flat_map(|x| [x, -x])
            .collect();
        let found: Vec<f64> = xs.iter().map(|&x| exp(x, 0.0).value()).collect();
        let truth: Vec<f64> = xs.iter().map(|x| x.exp()).collect();
        assert_close(found, truth, Tolerance::relative(2));
        let ends = [f64::NEG_INFINITY, -746.0, 710.0, f64::INFINITY].map(|x| exp(x, 0.0).value());
        assert_close(
            ends,
            [0.0, 0.0, f64::INFINITY, f64::INFINITY],
            Tolerance::exact(),
        );
        assert!(exp(f64::NAN, 0.0).value().is_nan());
        // A subnormal result, and a second part that changes the result.
        assert_close(
            [exp(-740.0, 0.0).value()],
            [(-740_f64).exp()],
            Tolerance::exact().or_absolute(1e-323),
        );
        assert_close(
            [exp(3.0, 1e-10).value()],
            [(3.0 + 1e-10_f64).exp()],
            Tolerance::relative(4),
        );
        assert_close(
            [exp(-1000.0, 0.0).times(1e200)],
            [5.075958897549457e-235],
            Tolerance::relative(2),
        );
    }

    #[test]
    fn logarithms_are_those_of_the_library() {
        let xs = spread(1e-300, 1e300);
        let found: Vec<f64> = xs.iter().map(|&x| ln_parts(x).plus(0.0, 0.0)).collect();
        let truth: Vec<f64> = xs.iter().map(|x| x.ln()).collect();
        assert_close(found, truth, Tolerance::relative(2));
        let found = [0.0, 5e-324, 1e-310].map(ln);
        assert_close(
            found,
            [
                f64::NEG_INFINITY,
                -744.440_071_921_381_2,
                -713.801_378_828_154_2,
            ],
            Tolerance::relative(2),
        );
        let zs: Vec<f64> = spread(1e-300, 0.9)
            .into_iter()
            .flat_map(|z| [z, -z])
            .collect();
        let found: Vec<f64> = zs.iter().map(|&z| ln_1p(z)).collect();
        let truth: Vec<f64> = zs.iter().map(|z| z.ln_1p()).collect();
        assert_close(found, truth, Tolerance::relative(2));
    }

    #[test]
    fn a_sum_keeps_the_digits_of_both_of_its_parts() {
        // ln(1e300) = 690.77… minus its f64 value leaves the digits that f64 cannot represent.
        let found = ln_parts(1e300).plus(-690.775_527_898_213_7, 0.0);
        assert_close(
            [found],
            [2.3747660028800243e-14],
            Tolerance::relative(1).or_absolute(5.6e-17),
        );
    }
}
