//! Functions of f32 arguments computed in f64, with a relative error of 2^-30 or better, which
//! suffices for the final rounding to f32.
//!
//! Method: arguments are values of f32, so no intermediate result is subnormal and every reduction
//! is far from the limits of f64. Numbers are rounded to whole numbers by adding and subtracting a
//! large constant, and the whole number is read from the low bits of the sum: all SIMD instruction
//! sets support this, whereas few can convert f64 to integers.

use std::f64::consts::{LN_2, LOG2_E};

/// Adding and subtracting this constant rounds numbers up to 2^51 to whole numbers. The low bits of
/// the sum contain the whole number.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// Returns e to the power of `x`, for |x| ≤ 700 or NaN.
#[inline(always)]
fn exp(x: f64) -> f64 {
    let (scale, excess) = exp_parts(x);
    scale + scale * excess
}

/// Returns `exp(x) − 1` for |x| ≤ 700 or NaN. The relative error is small near 0 as well, but the
/// sign of a zero is lost.
#[inline(always)]
pub(super) fn exp_m1(x: f64) -> f64 {
    let (scale, excess) = exp_parts(x);
    scale * excess + (scale - 1.0)
}

/// Returns 2^n and e^r − 1, where `x = n ln 2 + r` and |r| is smallest.
#[inline(always)]
fn exp_parts(x: f64) -> (f64, f64) {
    /// As `ROUND`, but the low bits of the sum are the biased exponent of 2^n.
    const ROUND_TO_EXPONENT: f64 = ROUND + 1023.0;
    /// The coefficients of (e^r − 1) / r on |r| ≤ ln 2 / 2, with a relative error below 2^-31.9.
    const C: [f64; 7] = [
        1.0000000000312215,
        0.5000000046680061,
        0.16666666249375117,
        0.041666354325039644,
        0.008333402925726567,
        0.0013941015339655773,
        0.00019841251601891775,
    ];

    let shifted = x * LOG2_E + ROUND_TO_EXPONENT;
    let r = x - (shifted - ROUND_TO_EXPONENT) * LN_2;
    let r2 = r * r;
    // Combine pairs of terms first, which shortens the chain of dependent operations (Estrin's
    // scheme).
    let (low, high) = (
        (C[0] + C[1] * r) + r2 * (C[2] + C[3] * r),
        (C[4] + C[5] * r) + r2 * C[6],
    );
    let scale = f64::from_bits(shifted.to_bits() << 52);
    (scale, r * (low + r2 * r2 * high))
}

/// Returns `ln(1 + x)` for finite x > −1.
#[inline(always)]
pub(super) fn ln_1p(x: f64) -> f64 {
    let (k, m) = super::double::split(1.0 + x, std::f64::consts::FRAC_1_SQRT_2);
    // Near 0 the sum rounds x, but there no reduction is needed, so use x itself.
    ln_of_parts(k, if k == 0.0 { x } else { m - 1.0 })
}

/// Returns `k ln 2 + ln(1 + f)` for 1 + f in [√½, √2).
#[inline(always)]
fn ln_of_parts(k: f64, f: f64) -> f64 {
    /// The coefficients of ln((1 + s) / (1 − s)) / s in powers of s² on |s| ≤ 0.1716, with a
    /// relative error below 2^-45.
    const C: [f64; 6] = [
        1.9999999999999467,
        0.6666666667966467,
        0.3999999486799574,
        0.2857216847176088,
        0.2217415735465616,
        0.19609383792459312,
    ];

    let s = f / (2.0 + f);
    k * LN_2 + s * polynomial(C, s * s)
}

/// Returns the complementary error function of `x`, a value of f32.
#[inline(always)]
pub(super) fn erfc(x: f64) -> f64 {
    /// The argument from which the result rounds to 0 in f32.
    const LARGEST: f64 = 10.2;
    /// The coefficients of (1 + 2x) exp(x²) erfc(x) in powers of (x − 3) / (x + 3) on
    /// [0, `LARGEST`], with a relative error below 2^-34.7.
    const C: [f64; 13] = [
        1.2530080582663952,
        -0.1356211069036649,
        -0.04756229390336708,
        0.12964520133543075,
        -0.1192736529965518,
        0.06830736472631628,
        -0.02377105596689171,
        0.0025335512057177516,
        0.0018942908670111335,
        -0.0007900109356509552,
        -0.00012674670796563702,
        0.00012670261754219964,
        3.310245264185405e-05,
    ];

    // The product has the scale of e^(−x²), whose exponent is exact: x has 24 bits.
    let size = x.abs().clamp(0.0, LARGEST);
    let scaled = horner(C, (size - 3.0) / (size + 3.0));
    let tail = exp(-size * size) * scaled / (1.0 + 2.0 * size);
    if x < 0.0 { 2.0 - tail } else { tail }
}

/// Evaluates `Σ c[i] x^i` by Horner's rule.
#[inline(always)]
fn horner<const N: usize>(c: [f64; N], x: f64) -> f64 {
    c.into_iter().rev().fold(0.0, |sum, c| sum * x + c)
}

/// Returns the sine of `x`, a value of f32.
#[inline(always)]
pub(super) fn sin(x: f64) -> f64 {
    // Adding −0.0 leaves every number unchanged, including −0.0 itself; adding 0.0 would not.
    sin_ahead(x, -0.0)
}

/// Returns the cosine of `x`, a value of f32.
#[inline(always)]
pub(super) fn cos(x: f64) -> f64 {
    sin_ahead(x, 0.5)
}

/// Returns the sine of `x + lead π`, where `x` is a value of f32 and |lead| ≤ 1/2; NaN for an
/// infinity.
///
/// The function counts half turns: it computes the product of x and 1/π in three parts. The first
/// two use factors of 26 bits, whose products with the 24 bits of x are exact; the third uses a
/// factor with all bits of f64, which starts where the second ends. For large x the first bits of
/// 1/π only contribute whole turns, so three later parts are used (Payne and Hanek). Every
/// magnitude of x takes the same path, without branches:
/// ```text
/// |x| below       first     second    third
/// FROM            STEPS[0]  STEPS[1]  TAILS[0]
/// FROM · 2^26     STEPS[1]  STEPS[2]  TAILS[1]
/// FROM · 2^52     STEPS[2]  STEPS[3]  TAILS[2]
/// ∞               STEPS[3]  STEPS[4]  TAILS[3]
/// ```
#[inline(always)]
fn sin_ahead(x: f64, lead: f64) -> f64 {
    const BITS_26: f64 = 1.0 / 67_108_864.0;
    const BITS_78: f64 = BITS_26 * BITS_26 * BITS_26;
    /// The bits of 1/π in groups of 26: `floor(2^26(i + 1) / π) mod 2^26`, each scaled to its
    /// position.
    const STEPS: [f64; 5] = [
        21_361_414.0 * BITS_26,
        57_831_968.0 * BITS_26 * BITS_26,
        44_384_132.0 * BITS_78,
        61_597_946.0 * BITS_78 * BITS_26,
        40_483_713.0 * BITS_78 * BITS_26 * BITS_26,
    ];
    /// The remainder of 1/π after two, three, four and five groups.
    const TAILS: [f64; 4] = [
        1.46854777018591e-16,
        3.037013244824923e-24,
        2.9742735481906476e-32,
        5.245247224065451e-40,
    ];
    /// The magnitude from which the first group contributes only whole turns: values of f32 from
    /// 2^50 are multiples of 2^27.
    const FROM: f64 = 1_125_899_906_842_624.0;
    /// The coefficients of sin(π s) / s in powers of s² on |s| ≤ 1/2, with a relative error below
    /// 2^-35.4.
    const C: [f64; 6] = [
        3.1415926535233436,
        -5.167712762115387,
        2.5501632403035446,
        -0.5992513299349861,
        0.08204647798068249,
        -0.007022162059633158,
    ];

    let size = x.abs();
    let choose = |part: [f64; 4]| {
        let low = if size < FROM { part[0] } else { part[1] };
        let high = if size < FROM / BITS_26 / BITS_26 {
            part[2]
        } else {
            part[3]
        };
        if size < FROM / BITS_26 { low } else { high }
    };
    let first = x * choose([STEPS[0], STEPS[1], STEPS[2], STEPS[3]]);
    let second = x * choose([STEPS[1], STEPS[2], STEPS[3], STEPS[4]]);
    let third = x * choose(TAILS);

    // These sums are exact, except for x below 1/16, where their rounding does not matter.
    let (n_first, rest) = split(first + lead);
    let (n_second, rest) = split(rest + second);
    let (n_third, s) = split(rest + third);
    let size = s * polynomial(C, s * s);
    // Each half turn changes the sign, so the parity of their number becomes the sign bit.
    let half_turns = n_first.wrapping_add(n_second).wrapping_add(n_third);
    f64::from_bits(size.to_bits() ^ (half_turns << 63))
}

/// Splits a number up to 2^51 into a whole number, of which only the low bits are valid, and a
/// remainder of at most one half in magnitude.
#[inline(always)]
fn split(x: f64) -> (u64, f64) {
    let shifted = x + ROUND;
    (shifted.to_bits(), x - (shifted - ROUND))
}

/// Evaluates `Σ c[i] x^i`. Pairs of terms are combined first, which shortens the chain of dependent
/// operations (Estrin's scheme).
#[inline(always)]
fn polynomial(c: [f64; 6], x: f64) -> f64 {
    let x2 = x * x;
    (c[0] + c[1] * x) + x2 * ((c[2] + c[3] * x) + x2 * (c[4] + c[5] * x))
}
