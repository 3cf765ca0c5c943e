//! The functions of f64.
//!
//! Method: `exp`, `ln`, `pow`, `sin` and `cos` have the steps of the functions of f32, with more
//! coefficients; `exp` adds the rounding error of its largest sum, as powers do. `tanh` is the
//! quotient of two sums of two floats. `erf` and `erfc` are those of `libm`. `exp_m1`, `ln_1p`, and
//! the sine and cosine of large arguments are those of the standard library.

use super::{CHUNK, Chunks, Math};

mod pow {
    //! Powers.

    use super::{LN_2_HIGH, LN_2_LOW, by_parity, exp_tail, factors, lift, nearest_exponent, split};
    use crate::math::pow::powers;

    type Bits = u64;
    /// The magnitude from which an exponent yields 0, 1 or infinity: the logarithm of a float other
    /// than 1 is at least 2^-53.
    const LARGEST_EXPONENT: f64 = 18_446_744_073_709_551_616.0;
    /// A logarithm of which the power is 0.
    const LEAST_LN: f64 = -746.0;
    /// A logarithm of which the power is infinite.
    const LARGEST_LN: f64 = 710.0;

    powers! { f64 }

    /// The remainder 2/3 − `TWO_THIRDS`.
    const TWO_THIRDS_LOW: f64 = 3.700743415417188e-17;

    /// Returns (2 atanh(s) / s − 2 − 2/3 s² − 2/5 s⁴) / s⁶ for z = s² and |s| ≤ 0.1716.
    #[inline(always)]
    fn ln_tail(z: f64) -> f64 {
        /// The coefficients, with a relative error of the logarithm below 2^-72.5.
        const C: [f64; 7] = [
            0.28571428571431895,
            0.22222222220288185,
            0.181818185748033,
            0.1538457480898577,
            0.13335695438100892,
            0.11686315668764602,
            0.1190107923741006,
        ];
        by_parity(C, z)
    }
}

mod trig {
    //! Sine and cosine.

    use super::horner;
    use crate::math::trig::sines;

    type Bits = u64;
    /// The magnitude from which arguments are left to the standard library.
    const LARGE_ANGLE: f64 = 1_073_741_824.0;
    /// Adding and subtracting this constant rounds to a whole number. The low bits of the sum
    /// contain that number.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    /// The bits of π/2 in groups of 53.
    const HALF_PI: [f64; 3] = [
        std::f64::consts::FRAC_PI_2,
        6.123233995736765e-17,
        1.0828566739219139e-32,
    ];

    sines! { f64 }

    /// Returns the sine of any number.
    #[inline(always)]
    pub(super) fn sin_of_any(x: f64) -> f64 {
        if is_usual(x) {
            sin_of_usual(x)
        } else {
            x.sin()
        }
    }

    /// Returns the cosine of any number.
    #[inline(always)]
    pub(super) fn cos_of_any(x: f64) -> f64 {
        if is_usual(x) {
            cos_of_usual(x)
        } else {
            x.cos()
        }
    }

    /// Returns (sin(r) / r − 1) / r² for z = r² and |r| ≤ π/4 (1 + 2^-20).
    #[inline(always)]
    fn sin_tail(z: f64) -> f64 {
        /// The coefficients, with a relative error of the sine below 2^-56.3.
        const C: [f64; 6] = [
            -0.1666666666666663,
            0.008333333333322118,
            -0.0001984126982958911,
            2.7557313621246318e-6,
            -2.5050747742381798e-8,
            1.5896229036939604e-10,
        ];
        horner(C, z)
    }

    /// Returns (cos(r) − 1 + r² / 2) / r⁴ for z = r² and |r| ≤ π/4 (1 + 2^-20).
    #[inline(always)]
    fn cos_tail(z: f64) -> f64 {
        /// The coefficients, with an error of the cosine below 2^-59.9.
        const C: [f64; 6] = [
            0.0416666666666666,
            -0.0013888888888874138,
            2.480158728949173e-5,
            -2.7557314355211295e-7,
            2.0875723680110885e-9,
            -1.1359669636639081e-11,
        ];
        horner(C, z)
    }
}

/// The first 40 bits of ln 2. Its product with a number of up to 13 bits is exact in f64.
const LN_2_HIGH: f64 = 762_123_384_785.0 / 1_099_511_627_776.0;
/// The remainder ln 2 − `LN_2_HIGH`.
const LN_2_LOW: f64 = 7.371002565167799e-13;

impl Math for f64 {
    #[inline(always)]
    fn exp(x: Self) -> Self {
        // At these limits the result already is infinite or 0. `clamp` returns NaN for NaN.
        let x = x.clamp(-746.0, 710.0);
        let (exponent, n) = nearest_exponent(x);
        pow::exp_of_sum(exponent, n.mul_add(-LN_2_HIGH, x), n * -LN_2_LOW)
    }

    #[inline(always)]
    fn exp_m1(x: Self) -> Self {
        x.exp_m1()
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
        x.ln_1p()
    }

    #[inline(always)]
    fn tanh(x: Self) -> Self {
        /// An argument whose result rounds to 1, which is that of all larger ones.
        const LARGEST: f64 = 20.0;

        let size = x.abs();
        let size = if size > LARGEST { LARGEST } else { size };
        tanh_of_positive(size).copysign(x)
    }

    #[inline(always)]
    fn sigmoid(x: Self) -> Self {
        // As in f32.
        let e = Math::exp(-x.abs());
        let base = if x < 0.0 { e } else { 1.0 };
        (e / (1.0 + e)).mul_add(-base, base)
    }

    #[inline(always)]
    fn erf(x: Self) -> Self {
        libm::erf(x)
    }

    #[inline(always)]
    fn erfc(x: Self) -> Self {
        libm::erfc(x)
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

chunks! { f64 }

/// Returns the whole number n next to `x / ln 2`: a word whose low bits are n + 2046, and n itself.
#[inline(always)]
fn nearest_exponent(x: f64) -> (u64, f64) {
    /// Adding and subtracting this constant rounds to a whole number. The low bits of the sum
    /// contain that number plus 2046.
    const ROUND: f64 = 6_755_399_441_055_744.0 + 2046.0;
    let shifted = x.mul_add(std::f64::consts::LOG2_E, ROUND);
    (shifted.to_bits(), shifted - ROUND)
}

/// Returns two normal numbers whose product is 2^n, for a word whose low bits are n + 2046: the sum
/// of the biased exponents of both. The product of the first with a number near 1 is exact, so that
/// a subnormal result is rounded only once, in the second product.
#[inline(always)]
fn factors(exponent: u64) -> [f64; 2] {
    // The shifts discard the other bits of the word.
    let half = exponent >> 1;
    [half, exponent - half].map(|biased| f64::from_bits(biased << 52))
}

/// Returns (e^r − 1 − r) / r² for |r| ≤ ln 2 / 2 (1 + 2^-10).
#[inline(always)]
fn exp_tail(r: f64) -> f64 {
    /// The coefficients, with a relative error of e^r below 2^-56.5.
    const C: [f64; 10] = [
        0.5000000000000011,
        0.1666666666666641,
        0.04166666666652921,
        0.00833333333349561,
        0.0013888888943915038,
        0.00019841269504777964,
        2.4801492771536702e-5,
        2.7557587347679217e-6,
        2.763037523115668e-7,
        2.499995811089259e-8,
    ];
    by_parity(C, r)
}

/// Returns the hyperbolic tangent of a number in [0, 20], or of NaN.
#[inline(always)]
fn tanh_of_positive(x: f64) -> f64 {
    // tanh x = E / (E + 2) for E = e^2x − 1 = 2^n e^r − 1, where 2x = n ln 2 + r. All terms are
    // sums of two floats.
    let (exponent, n) = nearest_exponent(2.0 * x);
    let r_high = n.mul_add(-LN_2_HIGH, 2.0 * x);
    let r = n.mul_add(-LN_2_LOW, r_high);
    let r_low = n.mul_add(-LN_2_LOW, r_high - r);
    let tail = (r * r).mul_add(exp_tail(r), r_low);
    let excess = r + tail;
    let excess_low = tail - (excess - r);
    let scale = f64::from_bits(exponent.wrapping_sub(1023) << 52);
    let base = scale - 1.0;
    let e = scale.mul_add(excess, base);
    let e_low = scale.mul_add(excess_low, scale.mul_add(excess, base - e));
    let (larger, smaller) = if e > 2.0 { (e, 2.0) } else { (2.0, e) };
    let sum = larger + smaller;
    let sum_low = (smaller - (sum - larger)) + e_low;
    // The quotient of the first terms, and a correction by its remainder.
    let reciprocal = 1.0 / sum;
    let quotient = e * reciprocal;
    let rest = quotient.mul_add(-sum, e) + quotient.mul_add(-sum_low, e_low);
    rest.mul_add(reciprocal, quotient)
}

/// Returns the natural logarithm of a positive finite number.
#[inline(always)]
fn ln_of_positive(x: f64) -> f64 {
    /// The coefficients of (ln((1 + s) / (1 − s)) / s − 2) / s² in powers of s² on |s| ≤ 5/27, with
    /// a relative error of the logarithm below 2^-57.4.
    const C: [f64; 7] = [
        0.6666666666666867,
        0.39999999998509134,
        0.2857142894496788,
        0.22222177903852816,
        0.1818462385516619,
        0.15287465566267505,
        0.15055746130358325,
    ];
    /// The smallest 1 + f. With 11/16 the small term `less` is below 1/16 at both ends of the
    /// interval; with the usual √½ it is not.
    const LEAST: f64 = 0.6875;

    let (x, lifted) = lift(x);
    let (k, m) = split(x, LEAST);
    let (k, f) = (k - lifted, m - 1.0);
    let s = f / (2.0 + f);
    let z = s * s;
    // Since 2 s = f − s f, ln(1 + f) = f − s (f − z C(z)): the exact f, less a small term whose
    // rounding error is small as well.
    let less = s * z.mul_add(-by_parity(C, z), f);
    // The rounding error of the sum of the two large terms is computed exactly and added back
    // (Dekker 1971).
    let high = k * LN_2_HIGH;
    let sum = high + f;
    let lost = f - (sum - high);
    sum + (lost + k.mul_add(LN_2_LOW, -less))
}

/// Returns a positive normal number and its exponent: `x` and 0, or, if `x` is subnormal, its
/// product with 2^52 and 52.
#[inline(always)]
fn lift(x: f64) -> (f64, f64) {
    if x < f64::MIN_POSITIVE {
        (x * 4_503_599_627_370_496.0, 52.0)
    } else {
        (x, 0.0)
    }
}

/// Splits a positive normal number into `2^k m` with m in [least, 2 least), for `least` below 1;
/// returns k and m.
#[inline(always)]
pub(super) fn split(x: f64, least: f64) -> (f64, f64) {
    /// The bits of the mantissa of an `f64`.
    const MANTISSA: u64 = (1 << 52) - 1;
    /// The exponent bias 1023, shifted to the exponent field.
    const BIAS: u64 = 1023 << 52;
    /// The number 2^52. With a whole number below 2^52 in its mantissa field, it represents the sum
    /// of both.
    const TWO_52: f64 = 4_503_599_627_370_496.0;

    // After replacing the offset 1 by the smallest m, the bits above the mantissa are k + 1023,
    // which is positive.
    let bits = x.to_bits().wrapping_add(BIAS - least.to_bits());
    let k = f64::from_bits(TWO_52.to_bits() | (bits >> 52)) - (TWO_52 + 1023.0);
    (k, f64::from_bits((bits & MANTISSA) + least.to_bits()))
}

/// Evaluates `Σ c[i] x^i` by Horner's rule.
#[inline(always)]
fn horner<const N: usize>(c: [f64; N], x: f64) -> f64 {
    let terms = c.into_iter().rev();
    terms.reduce(|sum, c| sum.mul_add(x, c)).unwrap_or(0.0)
}

/// Evaluates `Σ c[i] x^i` by Horner's rule for the even and for the odd terms, which halves the
/// chain of dependent operations.
#[inline(always)]
fn by_parity<const N: usize>(c: [f64; N], x: f64) -> f64 {
    let x2 = x * x;
    let mut sums = [0.0_f64; 2];
    for i in (0..N).rev() {
        let sum = &mut sums[i % 2];
        *sum = if i + 2 < N {
            sum.mul_add(x2, c[i])
        } else {
            c[i]
        };
    }
    let [even, odd] = sums;
    odd.mul_add(x, even)
}
