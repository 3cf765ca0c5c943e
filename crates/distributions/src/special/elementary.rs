//! Exponential and logarithms whose argument or result may come in two parts.
//!
//! Role: a tail probability is `exp(-E)` times a factor, with `E` known beyond f64; its logarithm is `-E` plus that of
//! the factor. So `exp` takes a sum, and [`ln_parts`] hands the multiple of `ln 2` out before it is rounded into the rest.
//! Method: reduction by multiples of `ln 2` in two parts and polynomials (`coefficients.py`).
//! Accuracy: below 1 ulp where the result is normal; the tests measure it.

use super::coefficients::{EXP, LN};
use super::polynomial;
use std::f64::consts::{LOG2_E, SQRT_2};

/// The upper 32 bits of `ln 2`, so that a multiple by an exponent is exact; and what they leave.
const LN2_HIGH: f64 = 0.693_147_180_369_123_8;
const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
/// Added to a number below 2^51 in size, it leaves the nearest integer in the low bits of the sum.
const ROUNDER: f64 = 6_755_399_441_055_744.0;
/// Bits below the exponent of an f64, and the exponent of 1.
const FRACTION_BITS: u32 = 52;
const ONE_EXPONENT: u64 = 1023;
/// Beyond this in size `exp` is 0 or infinite, even times the square of the largest f64.
const EXP_RANGE: f64 = 1410.0;

/// A positive number as `significand * scale * scale_2`, whose product may lie beyond f64's range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scaled {
    /// Between 0.7 and 1.42.
    pub(crate) significand: f64,
    /// Two powers of two, about equal, each a normal number.
    pub(crate) scales: [f64; 2],
}

impl Scaled {
    /// Gives the number, rounded once more only where it is subnormal.
    #[inline(always)]
    pub(crate) fn value(self) -> f64 {
        self.significand * self.scales[0] * self.scales[1]
    }

    /// Gives its product with a factor.
    #[inline(always)]
    pub(crate) fn times(self, factor: f64) -> f64 {
        (self.significand * factor) * self.scales[0] * self.scales[1]
    }
}

/// Gives `exp(high + low)`, `low` being small beside 1. NaN gives NaN.
#[inline(always)]
pub(crate) fn exp(high: f64, low: f64) -> Scaled {
    let inside = if high < -EXP_RANGE { -EXP_RANGE } else { high };
    let inside = if inside > EXP_RANGE {
        EXP_RANGE
    } else {
        inside
    };
    let n = (inside * LOG2_E + ROUNDER) - ROUNDER;
    let r = n.mul_add(-LN2_LOW, n.mul_add(-LN2_HIGH, inside) + low);
    let q = polynomial(&EXP, r);
    let half = (n * 0.5 + ROUNDER) - ROUNDER;
    Scaled {
        significand: 1.0 + (r * r).mul_add(q, r),
        scales: [power_of_two(half), power_of_two(n - half)],
    }
}

/// Gives `2^n` of an integer below 1023 in size.
#[inline(always)]
fn power_of_two(n: f64) -> f64 {
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
    /// Gives the logarithm of `2^n` times the number.
    #[inline(always)]
    pub(crate) fn shifted(self, n: f64) -> Self {
        Self {
            exponent: self.exponent + n,
            ..self
        }
    }

    /// Gives the logarithm plus `high + low`, rounded once where `high` dominates.
    #[inline(always)]
    pub(crate) fn plus(self, high: f64, low: f64) -> f64 {
        let (sum, error) = two_sum(self.exponent * LN2_HIGH, high);
        // An infinite sum has no error to speak of, and its formula gives NaN.
        let error = if sum.abs() <= f64::MAX { error } else { 0.0 };
        sum + (error + (self.exponent.mul_add(LN2_LOW, low) + self.rest))
    }
}

/// Splits a positive normal number into a significand in `[1, 2)` and the exponent of a power of two.
#[inline(always)]
pub(crate) fn binade(x: f64) -> (f64, f64) {
    let bits = x.to_bits();
    // The exponent becomes the fraction of a number near 2^52, which is subtracted: no conversion of 64-bit integers.
    let shifted = (bits >> FRACTION_BITS) | 0x4330_0000_0000_0000;
    let exponent = f64::from_bits(shifted) - (4_503_599_627_370_496.0 + 1023.0);
    let significand = f64::from_bits((bits & 0x000f_ffff_ffff_ffff) | 0x3ff0_0000_0000_0000);
    (significand, exponent)
}

/// Gives the logarithm of a positive normal number.
#[inline(always)]
pub(crate) fn ln_parts(x: f64) -> Logarithm {
    ln_parts_of(x, 0.0)
}

/// Gives the logarithm of `x (1 + correction)` for a positive normal `x`, the correction being below an ulp of 1.
#[inline(always)]
fn ln_parts_of(x: f64, correction: f64) -> Logarithm {
    let (significand, exponent) = binade(x);
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
    // ln(1 + f) = f - f^2/2 + s (f^2/2 + z R(z)), whose large terms are exact.
    let tail = s * (half_square + z * polynomial(&LN, z));
    Logarithm {
        exponent,
        rest: f - (half_square - (tail + correction)),
    }
}

/// Gives `ln(1 + z)` for `z > -1`, accurate where `z` is small.
#[inline(always)]
pub(crate) fn ln_1p(z: f64) -> f64 {
    let u = 1.0 + z;
    let lost = z - (u - 1.0);
    ln_parts_of(u, lost / u).plus(0.0, 0.0)
}

/// Gives the sum of two numbers and its rounding error, whichever is larger.
#[inline(always)]
pub(crate) fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let b_part = sum - a;
    (sum, (a - (sum - b_part)) + (b - b_part))
}
