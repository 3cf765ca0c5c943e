//! The functions of f32.
//!
//! Method: `exp` splits `x = n ln 2 + r`, approximates `e^r` by a polynomial, and multiplies by
//! 2^n. `ln` splits `x = 2^k (1 + f)` with `1 + f` near 1, approximates `ln(1 + f)` by a rational
//! function, and adds `k ln 2`. In both, ln 2 is split into two parts, so that the products with
//! the first part are exact (Cody and Waite). `tanh` and `erf` are polynomials below 1, and
//! computed by the exponential from 1. `pow`, `sin` and `cos` share their steps with f64 (modules
//! `math::pow` and `math::trig`). Every other function is computed in f64 (module `wide`), with an
//! error that is negligible compared with the final rounding to f32.

use super::{CHUNK, Chunks, Math, wide};

mod pow {
    //! Powers.

    use super::{LN_2_HIGH, LN_2_LOW, exp_tail, factors, horner, lift, nearest_exponent, split};
    use crate::math::pow::powers;

    type Bits = u32;
    /// The magnitude from which an exponent yields 0, 1 or infinity: the logarithm of a float other
    /// than 1 is at least 2^-24.
    const LARGEST_EXPONENT: f32 = 4_294_967_296.0;
    /// A logarithm of which the power is 0.
    const LEAST_LN: f32 = -104.0;
    /// A logarithm of which the power is infinite.
    const LARGEST_LN: f32 = 89.0;

    powers! { f32 }

    /// The remainder 2/3 − `TWO_THIRDS`.
    const TWO_THIRDS_LOW: f32 = -1.9868216e-8;

    /// Returns (2 atanh(s) / s − 2 − 2/3 s² − 2/5 s⁴) / s⁶ for z = s² and |s| ≤ 0.1716.
    #[inline(always)]
    fn ln_tail(z: f32) -> f32 {
        /// The coefficients, with a relative error of the logarithm below 2^-35.2.
        const C: [f32; 2] = [0.28560442, 0.2313733];
        horner(C, z)
    }
}

mod trig {
    //! Sine and cosine.

    use super::{horner, rounded, wide};
    use crate::math::trig::sines;

    type Bits = u32;
    /// The magnitude from which arguments are computed in f64.
    const LARGE_ANGLE: f32 = 131_072.0;
    /// Adding and subtracting this constant rounds to a whole number. The low bits of the sum
    /// contain that number.
    const ROUND: f32 = 12_582_912.0;
    /// The bits of π/2 in groups of 24.
    const HALF_PI: [f32; 3] = [13_176_794.0 / 8_388_608.0, 7.5497894e-8, 5.3903025e-15];

    sines! { f32 }

    /// Returns the sine of any number.
    #[inline(always)]
    pub(super) fn sin_of_any(x: f32) -> f32 {
        let far = rounded(wide::sin(x.into()));
        if is_usual(x) { sin_of_usual(x) } else { far }
    }

    /// Returns the cosine of any number.
    #[inline(always)]
    pub(super) fn cos_of_any(x: f32) -> f32 {
        let far = rounded(wide::cos(x.into()));
        if is_usual(x) { cos_of_usual(x) } else { far }
    }

    /// Returns (sin(r) / r − 1) / r² for z = r² and |r| ≤ 0.788.
    #[inline(always)]
    fn sin_tail(z: f32) -> f32 {
        /// The coefficients, with a relative error of the sine below 2^-27.8.
        const C: [f32; 3] = [-0.16666654, 0.008332106, -0.00019507896];
        horner(C, z)
    }

    /// Returns (cos(r) − 1 + r² / 2) / r⁴ for z = r² and |r| ≤ 0.788.
    #[inline(always)]
    fn cos_tail(z: f32) -> f32 {
        /// The coefficients, with an error of the cosine below 2^-33.
        const C: [f32; 3] = [0.041666646, -0.0013887301, 2.443067e-5];
        horner(C, z)
    }
}

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
        let size = x.abs();
        let result = if size < 1.0 {
            erf_near_zero(size)
        } else {
            erf_from_one(size)
        };
        result.copysign(x)
    }

    #[inline(always)]
    fn erfc(x: Self) -> Self {
        rounded(wide::erfc(x.into()))
    }

    #[inline(always)]
    fn sin(x: Self) -> Self {
        trig::sin_of_any(x)
    }

    #[inline(always)]
    fn cos(x: Self) -> Self {
        trig::cos_of_any(x)
    }

    #[inline(always)]
    fn pow(x: Self, y: Self) -> Self {
        pow::of_any(x, y)
    }
}

chunks! { f32 }

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
    let [first, second] = factors(exponent);
    excess.mul_add(first, first) * second
}

/// Splits `x = n ln 2 + r` with the smallest |r|. Returns a word whose low bits are n + 254, and
/// e^r − 1. `x` must be in [−104, 89] or NaN.
#[inline(always)]
fn exp_parts(x: f32) -> (u32, f32) {
    let (exponent, n) = nearest_exponent(x);
    let r = n.mul_add(-LN_2_LOW, n.mul_add(-LN_2_HIGH, x));
    (exponent, (r * r).mul_add(exp_tail(r), r))
}

/// Returns the whole number n next to `x / ln 2`: a word whose low bits are n + 254, and n itself.
#[inline(always)]
fn nearest_exponent(x: f32) -> (u32, f32) {
    /// Adding and subtracting this constant rounds to a whole number. The low bits of the sum
    /// contain that number plus 254.
    const ROUND: f32 = 12_582_912.0 + 254.0;
    let shifted = x.mul_add(std::f32::consts::LOG2_E, ROUND);
    (shifted.to_bits(), shifted - ROUND)
}

/// Returns two normal numbers whose product is 2^n, for a word whose low bits are n + 254: the sum
/// of the biased exponents of both. The product of the first with a number near 1 is exact, so that
/// a subnormal result is rounded only once, in the second product.
#[inline(always)]
fn factors(exponent: u32) -> [f32; 2] {
    // The shifts discard the other bits of the word.
    let half = exponent >> 1;
    [half, exponent - half].map(|biased| f32::from_bits(biased << 23))
}

/// Returns (e^r − 1 − r) / r² for |r| ≤ ln 2 / 2.
#[inline(always)]
fn exp_tail(r: f32) -> f32 {
    /// The coefficients, with a relative error of e^r below 2^-28.2.
    const C: [f32; 5] = [
        0.49999994,
        0.16666521,
        0.04166839,
        0.008368717,
        0.0013814599,
    ];

    let r2 = r * r;
    // Combine pairs of terms first, which shortens the chain of dependent operations (Estrin's
    // scheme).
    r2.mul_add(C[4], r.mul_add(C[3], C[2]))
        .mul_add(r2, r.mul_add(C[1], C[0]))
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

/// Returns the error function of a number in [0, 1].
#[inline(always)]
fn erf_near_zero(x: f32) -> f32 {
    /// The coefficients of erf(x) / x − 1 in powers of x² on [0, 1], with a relative error of
    /// erf(x) below 2^-29.6.
    const C: [f32; 7] = [
        0.12837917,
        -0.37612626,
        0.112835854,
        -0.026853813,
        0.0051883277,
        -0.0008010194,
        7.853861e-5,
    ];

    // The polynomial adds at most a sixth of x, so its rounding errors are small next to x.
    x.mul_add(horner(C, x * x), x)
}

/// Returns the error function of a number from 1, or of NaN.
#[inline(always)]
fn erf_from_one(x: f32) -> f32 {
    /// An argument whose result rounds to 1, which is that of all larger ones.
    const LARGEST: f32 = 4.0;
    /// The coefficients of ln(erfc(x)) in powers of x on [1, 4], with a relative error of erf(x)
    /// below 2^-29.8.
    const C: [f32; 7] = [
        -0.000341524,
        -1.1270891,
        -0.63814485,
        -0.10310675,
        0.02183806,
        -0.0029476576,
        0.00018637911,
    ];

    // 1 − erf(x) is at most 0.16, so the errors of the exponential are small next to 1.
    1.0 - exp_within(horner(C, if x > LARGEST { LARGEST } else { x }))
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
    const LEAST: f32 = 0.6875;

    let (x, lifted) = lift(x);
    let (k, m) = split(x, LEAST);
    let (k, f) = (k - lifted, m - 1.0);
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

/// Returns a positive normal number and its exponent: `x` and 0, or, if `x` is subnormal, its
/// product with 2^23 and 23.
#[inline(always)]
fn lift(x: f32) -> (f32, f32) {
    if x < f32::MIN_POSITIVE {
        (x * 8_388_608.0, 23.0)
    } else {
        (x, 0.0)
    }
}

/// Splits a positive normal number into `2^k m` with m in [least, 2 least); returns k and m.
#[inline(always)]
fn split(x: f32, least: f32) -> (f32, f32) {
    /// The bits of the mantissa of an `f32`.
    const MANTISSA: u32 = (1 << 23) - 1;
    // After subtracting the bits of the smallest m, the bits above the mantissa are k.
    let bits = x.to_bits().wrapping_sub(least.to_bits());
    let k = (bits.cast_signed() >> 23) as f32;
    (k, f32::from_bits((bits & MANTISSA) + least.to_bits()))
}
