//! The functions of f32 computed in f64, to 2^-30 or better: enough for the one rounding to f32 that follows.
//!
//! Method: arguments are values of f32, so nothing here is subnormal and every reduction stays far from the limits of
//! f64. Whole numbers are made by adding a large constant and taking it away again, and are read from the low bits of
//! the sum: all SIMD instruction sets can do that, few can turn f64 into integers.

use std::f64::consts::{LN_2, LOG2_E};

/// Added and taken away again, rounds numbers up to 2^51 to whole ones; the low bits of the sum hold the number.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// e to the power of `x`, for |x| ≤ 700 or NaN.
#[inline(always)]
fn exp(x: f64) -> f64 {
    let (scale, excess) = exp_parts(x);
    scale + scale * excess
}

/// `exp(x) − 1` for |x| ≤ 700 or NaN; relatively exact also near 0, but the sign of a zero is lost.
#[inline(always)]
pub(super) fn exp_m1(x: f64) -> f64 {
    let (scale, excess) = exp_parts(x);
    scale * excess + (scale - 1.0)
}

/// Gives 2^n and e^r − 1, where `x = n ln 2 + r` and |r| is smallest.
#[inline(always)]
fn exp_parts(x: f64) -> (f64, f64) {
    /// The low bits of the sum are the biased exponent of 2^n.
    const ROUND_TO_EXPONENT: f64 = ROUND + 1023.0;
    /// (e^r − 1) / r on |r| ≤ ln 2 / 2, with a relative error below 2^-31.9.
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
    // Pairs of terms first, which shortens the chain of operations that wait for each other (Estrin).
    let (low, high) = (
        (C[0] + C[1] * r) + r2 * (C[2] + C[3] * r),
        (C[4] + C[5] * r) + r2 * C[6],
    );
    let scale = f64::from_bits(shifted.to_bits() << 52);
    (scale, r * (low + r2 * r2 * high))
}

/// The natural logarithm of a positive normal number.
#[inline(always)]
fn ln(x: f64) -> f64 {
    let (k, m) = exponent_and_mantissa(x);
    ln_of_parts(k, m - 1.0)
}

/// `ln(1 + x)` for finite x > −1.
#[inline(always)]
pub(super) fn ln_1p(x: f64) -> f64 {
    let (k, m) = exponent_and_mantissa(1.0 + x);
    // Near 0 the sum loses digits of x, but there it needs no reduction.
    ln_of_parts(k, if k == 0.0 { x } else { m - 1.0 })
}

/// Writes a positive normal number as `2^k m` with m in [√½, √2).
#[inline(always)]
fn exponent_and_mantissa(x: f64) -> (f64, f64) {
    const MANTISSA: u64 = (1 << 52) - 1;
    const ROOT_HALF: u64 = std::f64::consts::FRAC_1_SQRT_2.to_bits();
    /// The bias of the exponents, 1023, in the place of an exponent.
    const BIAS: u64 = 1023 << 52;
    /// A whole number below 2^52 in the mantissa of this number adds itself to it.
    const TWO_52: f64 = 4_503_599_627_370_496.0;

    // Counted from √½ instead of 1, the bits above the mantissa are k + 1023, positive.
    let bits = x.to_bits().wrapping_add(BIAS - ROOT_HALF);
    let k = f64::from_bits(TWO_52.to_bits() | (bits >> 52)) - (TWO_52 + 1023.0);
    (k, f64::from_bits((bits & MANTISSA) + ROOT_HALF))
}

/// `k ln 2 + ln(1 + f)` for 1 + f in [√½, √2).
#[inline(always)]
fn ln_of_parts(k: f64, f: f64) -> f64 {
    /// ln((1 + s) / (1 − s)) / s in powers of s² on |s| ≤ 0.1716, with a relative error below 2^-45.
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

/// The sine of `x`, a value of f32.
#[inline(always)]
pub(super) fn sin(x: f64) -> f64 {
    // Negative zero is the number that changes no other when added, not even itself.
    sin_ahead(x, -0.0)
}

/// The cosine of `x`, a value of f32.
#[inline(always)]
pub(super) fn cos(x: f64) -> f64 {
    sin_ahead(x, 0.5)
}

/// The sine of `x + lead π`, where `x` is a value of f32 and |lead| ≤ 1/2; of infinity NaN.
///
/// Half turns are counted: the product of x and 1/π is taken in three parts. The first two have factors of 26 bits
/// beside the 24 of x and are exact; the third has all bits of f64 and starts where the second ends. As x grows, the
/// first bits of 1/π only make whole turns, so it is three later parts that count (Payne and Hanek). All sizes of x
/// take the same path.
#[inline(always)]
fn sin_ahead(x: f64, lead: f64) -> f64 {
    const BITS_26: f64 = 1.0 / 67_108_864.0;
    const BITS_78: f64 = BITS_26 * BITS_26 * BITS_26;
    /// 1/π in steps of 26 bits: `floor(2^26(i + 1) / π) mod 2^26`, at its place.
    const STEPS: [f64; 5] = [
        21_361_414.0 * BITS_26,
        57_831_968.0 * BITS_26 * BITS_26,
        44_384_132.0 * BITS_78,
        61_597_946.0 * BITS_78 * BITS_26,
        40_483_713.0 * BITS_78 * BITS_26 * BITS_26,
    ];
    /// What of 1/π remains after two, three, four and five steps.
    const TAILS: [f64; 4] = [
        1.46854777018591e-16,
        3.037013244824923e-24,
        2.9742735481906476e-32,
        5.245247224065451e-40,
    ];
    /// From here on the first step makes whole turns only: 2^50 in f32 is a multiple of 2^27.
    const FROM: f64 = 1_125_899_906_842_624.0;
    /// sin(π s) / s in powers of s² on |s| ≤ 1/2, with a relative error below 2^-35.4.
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

    // Exact, but for x below 1/16, where no rounding of it matters.
    let (n_first, rest) = split(first + lead);
    let (n_second, rest) = split(rest + second);
    let (n_third, s) = split(rest + third);
    let size = s * polynomial(C, s * s);
    // Every half turn changes the sign.
    let half_turns = n_first.wrapping_add(n_second).wrapping_add(n_third);
    f64::from_bits(size.to_bits() ^ (half_turns << 63))
}

/// Splits a number up to 2^51 into a whole number, of which the low bits count, and a rest of at most one half.
#[inline(always)]
fn split(x: f64) -> (u64, f64) {
    let shifted = x + ROUND;
    (shifted.to_bits(), x - (shifted - ROUND))
}

/// The sum of `c[i] x^i`, pairs of terms first, which shortens the chain of operations that wait for each other (Estrin).
#[inline(always)]
fn polynomial(c: [f64; 6], x: f64) -> f64 {
    let x2 = x * x;
    (c[0] + c[1] * x) + x2 * ((c[2] + c[3] * x) + x2 * (c[4] + c[5] * x))
}

/// `x` to the power of `y`, both values of f32; exact enough where the result is one.
///
/// The conditions are joined by `&` and `|`, which evaluate both sides: no branch remains.
#[inline(always)]
pub(super) fn pow(x: f64, y: f64) -> f64 {
    /// All numbers of f32 from here on are even.
    const EVEN: f64 = 33_554_432.0;
    let is_whole = |y: f64| (y + ROUND) - ROUND == y;

    let size = x.abs();
    let log = if size < f64::INFINITY { ln(size) } else { size };
    let log = if size == 0.0 { f64::NEG_INFINITY } else { log };
    // Everything beyond these bounds overflows or vanishes in f32.
    let power = exp((y * log).clamp(-104.0, 89.0));
    // Here 0 · ∞ and 0 · NaN gave NaN.
    let is_one = (y == 0.0) | (x == 1.0) | ((x == -1.0) & (y.abs() == f64::INFINITY));
    let power = if is_one { 1.0 } else { power };

    // Of a negative number only whole powers exist, and the odd ones are negative; but all powers of −0 and −∞ exist.
    let steps = y.abs();
    let steps = if steps < EVEN { steps } else { EVEN };
    let is_even = is_whole(0.5 * steps);
    let is_odd = is_whole(steps) & !is_even;
    let exists = (x >= 0.0) | is_odd | is_even | (size == 0.0) | (size == f64::INFINITY) | is_one;
    let power = if exists { power } else { f64::NAN };
    if is_odd & x.is_sign_negative() {
        -power
    } else {
        power
    }
}
