//! The functions of f32.
//!
//! Method: `exp` splits `x = n ln 2 + r`, approximates `e^r` by a polynomial, and multiplies by
//! 2^n. `ln` splits `x = 2^k (1 + f)` with `1 + f` near 1, approximates `ln(1 + f)` by a rational
//! function, and adds `k ln 2`. In both, ln 2 is split into two parts, so that the products with
//! the first part are exact (Cody and Waite). `tanh` is a polynomial below 1, and computed by the
//! exponential from 1. Every other function is computed in f64 (module `wide`), with an error that
//! is negligible compared with the final rounding to f32.

use super::{Math, wide};

/// The first 16 bits of ln 2. Its product with a number of up to 8 bits is exact in f32.
const LN_2_HIGH: f32 = 45_426.0 / 65_536.0;
/// The remainder ln 2 − `LN_2_HIGH`.
const LN_2_LOW: f32 = 1.4286068e-6;

impl Math for f32 {
    #[inline(always)]
    fn exp(x: Self) -> Self {
        // At these limits the result already is infinite or 0. `clamp` returns NaN for NaN.
        exp_within(x.clamp(-104.0, 89.0))
    }

    #[inline(always)]
    fn exp_m1(x: Self) -> Self {
        rounded(wide::exp_m1(Self::clamp(x, -104.0, 89.0).into())).copysign(x)
    }

    #[inline(always)]
    fn ln(x: Self) -> Self {
        if x < Self::INFINITY {
            if x > 0.0 {
                ln_of_positive(x)
            } else if x == 0.0 {
                Self::NEG_INFINITY
            } else {
                Self::NAN
            }
        } else {
            // Infinity or NaN.
            x
        }
    }

    #[inline(always)]
    fn ln_1p(x: Self) -> Self {
        if x < Self::INFINITY {
            if x > -1.0 {
                rounded(wide::ln_1p(x.into())).copysign(x)
            } else if x == -1.0 {
                Self::NEG_INFINITY
            } else {
                Self::NAN
            }
        } else {
            // Infinity or NaN.
            x
        }
    }

    #[inline(always)]
    fn tanh(x: Self) -> Self {
        let size = x.abs();
        let result = if size < 1.0 {
            tanh_near_zero(size)
        } else {
            tanh_from_one(size)
        };
        result.copysign(x)
    }

    #[inline(always)]
    fn sigmoid(x: Self) -> Self {
        // The exponential of −|x| is at most 1, so it does not overflow, and small results keep
        // their accuracy. The result is computed as a difference from 1 or from e, which reduces
        // the effect of the rounding error of the quotient; e / (1 + e) itself would have an error
        // above 2 ulp.
        let size = -x.abs();
        let e = exp_within(if size < -104.0 { -104.0 } else { size });
        let base = if x < 0.0 { e } else { 1.0 };
        (e / (1.0 + e)).mul_add(-base, base)
    }

    #[inline(always)]
    fn erf(x: Self) -> Self {
        rounded(wide::erf(x.into()))
    }

    #[inline(always)]
    fn erfc(x: Self) -> Self {
        rounded(wide::erfc(x.into()))
    }

    #[inline(always)]
    fn sin(x: Self) -> Self {
        rounded(wide::sin(x.into()))
    }

    #[inline(always)]
    fn cos(x: Self) -> Self {
        rounded(wide::cos(x.into()))
    }

    #[inline(always)]
    fn pow(x: Self, y: Self) -> Self {
        rounded(wide::pow(x.into(), y.into()))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the purpose of this function is to round to f32"
)]
#[inline(always)]
fn rounded(x: f64) -> f32 {
    x as f32
}

/// Returns e to the power of `x`, which must be in [−104, 89] or NaN.
#[inline(always)]
fn exp_within(x: f32) -> f32 {
    let (exponent, excess) = exp_parts(x);
    // Multiply by 2^n in two factors, each a normal number: n + 254 is the sum of their biased
    // exponents. The shift discards the other bits of `exponent`. The first product is exact, so a
    // subnormal result is rounded only once.
    let half = exponent >> 1;
    let first = f32::from_bits(half << 23);
    excess.mul_add(first, first) * f32::from_bits((exponent - half) << 23)
}

/// Splits `x = n ln 2 + r` with the smallest |r|. Returns a word whose low bits are n + 254, and
/// e^r − 1. `x` must be in [−104, 89] or NaN.
#[inline(always)]
fn exp_parts(x: f32) -> (u32, f32) {
    /// Adding and subtracting this constant rounds to a whole number. The low bits of the sum
    /// contain that number plus 254.
    const ROUND: f32 = 12_582_912.0 + 254.0;
    /// The coefficients of (e^r − 1 − r) / r² on |r| ≤ ln 2 / 2, with a relative error of e^r below
    /// 2^-28.2.
    const C: [f32; 5] = [
        0.49999994,
        0.16666521,
        0.04166839,
        0.008368717,
        0.0013814599,
    ];

    let shifted = x.mul_add(std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = n.mul_add(-LN_2_LOW, n.mul_add(-LN_2_HIGH, x));
    let r2 = r * r;
    // Combine pairs of terms first, which shortens the chain of dependent operations (Estrin's
    // scheme).
    let tail = r2
        .mul_add(C[4], r.mul_add(C[3], C[2]))
        .mul_add(r2, r.mul_add(C[1], C[0]));
    (shifted.to_bits(), r2.mul_add(tail, r))
}

/// Returns the hyperbolic tangent of a number in [0, 1].
#[inline(always)]
fn tanh_near_zero(x: f32) -> f32 {
    /// The coefficients of (tanh(x) / x − 1) / x² in powers of x² on [0, 1], with a relative error
    /// of tanh(x) below 2^-27.6.
    const C: [f32; 7] = [
        -0.33333296,
        0.13332346,
        -0.053879846,
        0.021486672,
        -0.007945992,
        0.0023011954,
        -0.00035838148,
    ];

    let z = x * x;
    // The polynomial adds at most a third of x, so its rounding errors are small next to x.
    (x * z).mul_add(horner(C, z), x)
}

/// Returns the hyperbolic tangent of a number from 1, or of NaN.
#[inline(always)]
fn tanh_from_one(x: f32) -> f32 {
    /// An argument whose result rounds to 1, which is that of all larger ones.
    const LARGEST: f32 = 10.0;

    // tanh x = 1 − 2 / (e^2x + 1), and e^2x = 2^n + 2^n (e^r − 1). The sum of 2^n and 1 is exact
    // unless 1 is negligible. The quotient is at most 0.24, so its errors are small next to 1.
    let (exponent, excess) = exp_parts(2.0 * if x > LARGEST { LARGEST } else { x });
    let scale = f32::from_bits(exponent.wrapping_sub(127) << 23);
    1.0 - 2.0 / scale.mul_add(excess, scale + 1.0)
}

/// Evaluates `Σ c[i] x^i` by Horner's rule.
#[inline(always)]
fn horner<const N: usize>(c: [f32; N], x: f32) -> f32 {
    let terms = c.into_iter().rev();
    terms.reduce(|sum, c| sum.mul_add(x, c)).unwrap_or(0.0)
}

/// Returns the natural logarithm of a positive finite number.
#[inline(always)]
fn ln_of_positive(x: f32) -> f32 {
    /// The coefficients of (ln((1 + s) / (1 − s)) / s − 2) / s² in powers of s² on |s| ≤ 5/27, with
    /// a relative error of the logarithm below 2^-29.2.
    const C: [f32; 3] = [0.6666684, 0.39969334, 0.30093905];
    /// The smallest 1 + f. With 11/16 the small term `less` is below 1/16 at both ends of the
    /// interval; with the usual √½ it is not.
    const LEAST: u32 = 0.6875_f32.to_bits();
    /// The bits of the mantissa of an `f32`.
    const MANTISSA: u32 = (1 << 23) - 1;

    let (x, lifted) = if x < f32::MIN_POSITIVE {
        (x * 8_388_608.0, 23.0)
    } else {
        (x, 0.0)
    };
    // After subtracting the bits of the smallest 1 + f, the bits above the mantissa are the
    // exponent k for which x / 2^k is in [11/16, 11/8).
    let bits = x.to_bits().wrapping_sub(LEAST);
    let k = (bits.cast_signed() >> 23) as f32 - lifted;
    let f = f32::from_bits((bits & MANTISSA) + LEAST) - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    // Since 2 s = f − s f, ln(1 + f) = f − s (f − z C(z)): the exact f, less a small term whose
    // rounding error is small as well.
    let less = s * (f - z * (C[0] + z * (C[1] + z * C[2])));
    // The rounding error of the sum of the two large terms is computed exactly and added back
    // (Dekker 1971).
    let high = k * LN_2_HIGH;
    let sum = high + f;
    let lost = f - (sum - high);
    sum + (lost + (k * LN_2_LOW - less))
}
