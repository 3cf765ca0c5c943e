//! Twins of the functions in `wgsl/shared/float.wgsl`: `exp`, `ln`, `pow` and other functions as
//! defined for tensor programs.
//!
//! Role: the same functions with the same order of operations. The text used by kernels is
//! [`crate::source::FLOAT`].
//! Method: reduction to a short interval, then a polynomial, with additions, multiplications and
//! bit operations only. Where one f32 is not precise enough, a number is the sum of two. The head
//! has 12 bits, cut off by a mask, so that products of two heads are exact, fused or not, and no
//! compiler can cancel the tail.
//! Accuracy: [`EXP_ULPS`] and the other constants, in units in the last place of the f64 result.
//! The bounds also hold if the compiler fuses products and sums, and if a quotient has an error of
//! 2.5 units, as WGSL allows. All other functions are exact.
//! Source: every polynomial is a minimax fit, in f64, of the function in the comment above it, by
//! linear programming on 1500 Chebyshev points of the interval. Each coefficient is rounded to f32,
//! from the lowest power on, before the remaining coefficients are fitted again. Reduction of large
//! angles: Payne and Hanek 1983, "Radian reduction for trigonometric functions".
//! Limits: results below the smallest normal number are accurate to one unit of 2^-149, and zero
//! on a device that flushes them. A compiler that reassociates products may make the largest
//! results of `exp` and `pow` infinite, and one that factors `k * a + k * b` loses the low part of
//! reduced arguments; the tests of `gpu-wgsl` detect both on an adapter.

use std::f32::consts::{FRAC_2_PI, LN_2, LOG2_E};

/// Maximum error of [`exp`].
pub const EXP_ULPS: f64 = 1.1;
/// Maximum error of [`ln`].
pub const LN_ULPS: f64 = 1.0;
/// Maximum error of [`sin`] and [`cos`].
pub const SIN_COS_ULPS: f64 = 1.7;
/// Maximum error of [`tanh`].
pub const TANH_ULPS: f64 = 1.5;
/// Maximum error of [`sigmoid`].
pub const SIGMOID_ULPS: f64 = 2.0;
/// Maximum error of [`erf`].
pub const ERF_ULPS: f64 = 1.3;
/// Maximum error of [`erfc`].
pub const ERFC_ULPS: f64 = 4.0;
/// Maximum error of [`pow`].
pub const POW_ULPS: f64 = 1.5;
/// Maximum error of [`floor_div`]. Quotients below 2^24 are exact.
pub const FLOOR_DIV_ULPS: f64 = 1.1;

/// A function of one argument: name, as in `float_<name>`, twin, and maximum error.
pub type UnaryFunction = (&'static str, fn(f32) -> f32, f64);
/// The functions of one argument, for the tests of twins and of devices.
pub const UNARY: [UnaryFunction; 8] = [
    ("exp", exp, EXP_ULPS),
    ("ln", ln, LN_ULPS),
    ("sin", sin, SIN_COS_ULPS),
    ("cos", cos, SIN_COS_ULPS),
    ("tanh", tanh, TANH_ULPS),
    ("sigmoid", sigmoid, SIGMOID_ULPS),
    ("erf", erf, ERF_ULPS),
    ("erfc", erfc, ERFC_ULPS),
];

pub(super) const INFINITY: u32 = 0x7f80_0000;
const NAN: u32 = 0x7fc0_0000;
const ONE: u32 = 0x3f80_0000;
pub(super) const SIGN: u32 = 0x8000_0000;
const MAGNITUDE: u32 = 0x7fff_ffff;
/// Bits of the square root of 1/2.
const SQRT_HALF: i32 = 0x3f35_04f3;
/// The logarithm of 2: a head of 14 bits, so that products with an exponent are exact, and the
/// remainder.
pub(super) const LN2: [f32; 2] = [22_712.0 / 32_768.0, 3.194_618_3e-5];
/// π/2 in four parts: three of 12 bits, and the remainder.
const QUARTER: [f32; 4] = [1.570_312_5, 4.837_513e-4, 7.549_533_6e-8, 2.563_344e-12];
/// π/2 without its leading 12 bits, as one number.
const QUARTER_TAIL: f32 = 4.838_268e-4;
/// Threshold from which angles are reduced with integer arithmetic.
const FAR: f32 = 2048.0;
/// Factor 2 / (3 ln 2) of the series in [`log2`]: the leading 12 bits, and the remainder.
const LOG2_SCALE: [f32; 2] = [3_939.0 / 4_096.0, 1.267_720_5e-4];

/// Returns whether `x` is NaN, from its bits.
#[must_use]
pub fn is_nan(x: f32) -> bool {
    (x.to_bits() & MAGNITUDE) > INFINITY
}

/// Returns the larger number; NaN if either is NaN.
#[must_use]
pub fn maximum(a: f32, b: f32) -> f32 {
    if is_nan(a) || a > b { a } else { b }
}

/// Returns the smaller number; NaN if either is NaN.
#[must_use]
pub fn minimum(a: f32, b: f32) -> f32 {
    if is_nan(a) || a < b { a } else { b }
}

/// Truncates to an integer; saturates, and NaN becomes 0.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    reason = "the conversion of `as` is intended"
)]
pub fn to_i32(x: f32) -> i32 {
    x as i32
}

/// Truncates to an integer; saturates, also below 0, and NaN becomes 0.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the conversion of `as` is intended"
)]
pub fn to_u32(x: f32) -> u32 {
    x as u32
}

/// Returns `e^x`.
#[must_use]
pub fn exp(x: f32) -> f32 {
    // The result is 0 or infinite beyond these limits.
    let (significand, exponent) = exp_of_sum(x.clamp(-104.0, 89.0), 0.0);
    let value = scaled(significand, exponent);
    if is_nan(x) { x } else { value }
}

/// Returns `e^(x + rest)` as a significand near 1 and the exponent of a power of 2. Requires |x| ≤
/// 250 and a small `rest`.
pub(super) fn exp_of_sum(x: f32, rest: f32) -> (f32, i32) {
    let k = (x * LOG2_E + 0.5).floor();
    let r = ((x - k * LN2[0]) - k * LN2[1]) + rest;
    // Minimax polynomial of (e^r - 1 - r) / r^2 for |r| <= 0.35; error weight r^2 / e^r.
    let q = 0.008_369_248 + r * 0.001_382_074_4;
    let q = 0.499_999_94 + r * (0.166_665_17 + r * (0.041_668_28 + r * q));
    (1.0 + (r + r * r * q), to_i32(k))
}

/// Returns the natural logarithm: minus infinity at zero, NaN for negative numbers.
#[must_use]
pub fn ln(x: f32) -> f32 {
    let bits = x.to_bits();
    let (exponent, m) = binade(bits);
    let f = m - 1.0;
    // Minimax polynomial of (ln(1 + f) - f + f^2 / 2) / f^3
    // for sqrt(1/2) <= 1 + f <= sqrt(2); error weight f^3 / ln(1 + f).
    let q = 0.118_835_49 + f * (-0.116_701_15 + f * 0.067_492_99);
    let q = -0.166_679_89 + f * (0.142_203_58 + f * (-0.124_062_33 + f * q));
    let q = 0.333_333_13 + f * (-0.250_000_1 + f * (0.200_020_72 + f * q));
    let tail = f * f * (f * q - 0.5) + exponent * LN2[1];
    let value = exponent * LN2[0] + (f + tail);
    let magnitude = bits & MAGNITUDE;
    if magnitude == 0 {
        f32::from_bits(SIGN | INFINITY | magnitude)
    } else if bits > SIGN {
        f32::from_bits(NAN | bits)
    } else if magnitude >= INFINITY {
        x
    } else {
        value
    }
}

/// Returns `1 / (1 + e^-x)`.
#[must_use]
pub fn sigmoid(x: f32) -> f32 {
    let e = exp(-x.abs());
    let above = inverse_of_one_plus(e);
    if x < 0.0 { e * above } else { above }
}

/// Returns the hyperbolic tangent.
#[must_use]
pub fn tanh(x: f32) -> f32 {
    let magnitude = x.abs();
    let z = x * x;
    // Minimax polynomial of (tanh(x) / x - 1) / x^2
    // for |x| <= 0.625, in z = x^2; error weight x^3 / tanh(x).
    let p = -0.053_736_515 + z * (0.020_628_167 + z * -0.005_692_296_7);
    let p = -0.333_332_8 + z * (0.133_314_06 + z * p);
    let near = magnitude + magnitude * (z * p);
    let e = exp(-2.0 * magnitude);
    let far = 1.0 - 2.0 * (e * inverse_of_one_plus(e));
    let value = if magnitude < 0.625 { near } else { far };
    f32::from_bits(value.to_bits() | (x.to_bits() & SIGN))
}

/// Returns the error function.
#[must_use]
pub fn erf(x: f32) -> f32 {
    let magnitude = x.abs();
    // Above the limit the complement is at most 0.21, so the subtraction reduces its error.
    let value = if magnitude < 0.9 {
        erf_near(magnitude)
    } else {
        1.0 - erfc_far(magnitude)
    };
    if is_nan(x) {
        x
    } else {
        f32::from_bits(value.to_bits() | (x.to_bits() & SIGN))
    }
}

/// Returns the complementary error function.
#[must_use]
pub fn erfc(x: f32) -> f32 {
    let magnitude = x.abs();
    let far = erfc_far(magnitude);
    let near = erf_near(magnitude);
    // Below the limit erf is at most 1/2, so the subtraction does not magnify its error.
    let is_near = magnitude < 0.46875;
    let above = if is_near { 1.0 - near } else { far };
    let below = if is_near { 1.0 + near } else { 2.0 - far };
    if is_nan(x) {
        x
    } else if x < 0.0 {
        below
    } else {
        above
    }
}

/// Returns the error function for `x` from 0 to 0.9.
fn erf_near(x: f32) -> f32 {
    let z = x * x;
    // Minimax polynomial of erf(x) / x - 1 for |x| <= 0.9, in z = x^2; error weight x / erf(x).
    let p = 0.005_191_765 + z * (-8.039_978e-4 + z * 7.944_478_4e-5);
    let p = 0.112_836_24 + z * (-0.026_855_562 + z * p);
    let p = 0.128_379_17 + z * (-0.376_126_3 + z * p);
    x + x * p
}

/// Returns the complementary error function for `x` from 0.46 on: the scale e^(-x²), with x² as the
/// sum of an exact square and a rest, times a slowly varying function.
fn erfc_far(x: f32) -> f32 {
    // The result is 0 beyond this limit.
    let size = x.min(10.2);
    let high = head(size);
    let square = -(high * high);
    let rest = -((size - high) * (size + high));
    // Split the sum into its leading 20 bits and a remainder. The mask works on bits, so a compiler
    // cannot cancel the subtraction below.
    let sum = f32::from_bits((square + rest).to_bits() & 0xffff_fff0);
    let (significand, exponent) = exp_of_sum(sum, (square - sum) + rest);
    let t = 1.0 - 2.0 * inverse_of_one_plus(0.5 * size);
    // Minimax polynomial of (1 + 2 x) e^(x^2) erfc(x) - 1.25
    // for 0.46 <= x <= 10.2, in t = (x - 2) / (x + 2); error weight 1 / (value + 1.25).
    let p = 0.008_649_173 + t * (0.001_164_029_2 + t * (-0.001_250_562_7 + t * -2.501_429e-4));
    let p = 0.164_049_1 + t * (-0.054_209_21 + t * (-0.008_009_789 + t * p));
    let p = 0.026_978_387 + t * (-0.092_763_774 + t * (-0.166_030_96 + t * p));
    let product = (1.25 + p) * inverse_of_one_plus(2.0 * size);
    scaled(product * significand, exponent)
}

/// Returns the sine of an angle in radians; NaN for infinity.
#[must_use]
pub fn sin(x: f32) -> f32 {
    let bits = x.to_bits();
    let (quadrant, r) = reduced(x.abs());
    let value = on_quadrant(quadrant, r);
    if (bits & MAGNITUDE) >= INFINITY {
        f32::from_bits(NAN | bits)
    } else {
        f32::from_bits(value.to_bits() ^ (bits & SIGN))
    }
}

/// Returns the cosine of an angle in radians; NaN for infinity.
#[must_use]
pub fn cos(x: f32) -> f32 {
    let bits = x.to_bits();
    let (quadrant, r) = reduced(x.abs());
    let value = on_quadrant(quadrant + 1, r);
    if (bits & MAGNITUDE) >= INFINITY {
        f32::from_bits(NAN | bits)
    } else {
        value
    }
}

/// Returns `a^b`, with the special cases of C: `x^0 = 1^y = 1` even for NaN.
#[must_use]
pub fn pow(a: f32, b: f32) -> f32 {
    let a_bits = a.to_bits();
    let magnitude = a_bits & MAGNITUDE;
    let (high, low) = log2(magnitude);
    // For exponents beyond ±2^33 every power except that of 1 is 0 or infinite.
    let y = b.clamp(-8_589_934_592.0, 8_589_934_592.0);
    let y_head = head(y);
    let product = y_head * high;
    let rest = (y - y_head) * high + y * low;
    let is_extreme = magnitude == 0 || magnitude == INFINITY;
    let far = if (magnitude > ONE) == (b > 0.0) {
        200.0
    } else {
        -200.0
    };
    let total = if is_extreme { far } else { product + rest };
    let inside = total.clamp(-160.0, 160.0);
    let k = (inside + 0.5).floor();
    let r = if inside == total {
        (product - k) + rest
    } else {
        0.0
    };
    // Minimax polynomial of (2^r - 1) / r for |r| <= 0.503; error weight r / 2^r.
    let q = 0.009_618_505 + r * (0.001_339_145_8 + r * 1.532_781_3e-4);
    let q = LN_2 + r * (0.240_226_48 + r * (0.055_503_59 + r * q));
    let value = scaled(1.0 + r * q, to_i32(k));

    let is_whole = b.floor() == b;
    // From 2^24 on every f32 is even.
    let is_odd = is_whole && b.abs() < 16_777_216.0 && (to_i32(b) & 1) == 1;
    let signed = if is_odd {
        f32::from_bits(value.to_bits() | (a_bits & SIGN))
    } else {
        value
    };
    let has_none = a_bits > SIGN && !is_extreme && !is_whole;
    if b == 0.0 || a_bits == ONE {
        1.0
    } else if is_nan(a) || is_nan(b) || has_none {
        f32::from_bits(NAN | a_bits)
    } else {
        signed
    }
}

/// Returns `a - b * floor(a / b)`, with the sign of `b`, rounded once.
#[must_use]
pub fn rem(a: f32, b: f32) -> f32 {
    let (_, rem) = long_division(a, b);
    let sign = (a.to_bits() ^ b.to_bits()) & SIGN;
    let signed = f32::from_bits(rem.to_bits() | (b.to_bits() & SIGN));
    if sign != 0 && rem != 0.0 {
        rest(b, rem)
    } else {
        signed
    }
}

/// Returns `|b| - rem` with the sign of `b`. A device may take a subnormal operand as 0, so for a
/// small `b` the difference is computed at 2^64 times its size.
fn rest(b: f32, rem: f32) -> f32 {
    let power = |k: i32| f32::from_bits(((k + 127) << 23).cast_unsigned());
    let magnitude = b.abs();
    let rest = if magnitude < power(-60) {
        // A subnormal number is an integer multiple of 2^-149.
        let raised = match rem.to_bits() {
            bits if bits < 0x0080_0000 => bits as f32 * power(-85),
            _ => rem * power(64),
        };
        (magnitude * power(64) - raised) * power(-64)
    } else {
        magnitude - rem
    };
    f32::from_bits(rest.to_bits() | (b.to_bits() & SIGN))
}

/// Returns `a / b`, rounded down.
#[must_use]
pub fn floor_div(a: f32, b: f32) -> f32 {
    let (quotient, rem) = long_division(a, b);
    let sign = (a.to_bits() ^ b.to_bits()) & SIGN;
    let below = if sign != 0 && rem != 0.0 { 1.0 } else { 0.0 };
    f32::from_bits((quotient + below).to_bits() | sign)
}

/// Returns the number with only its leading 12 bits.
pub(super) fn head(x: f32) -> f32 {
    f32::from_bits(x.to_bits() & 0xffff_f000)
}

/// Returns `x 2^k` for |k| ≤ 250, in two steps, because 2^k itself may be out of range.
pub(super) fn scaled(x: f32, k: i32) -> f32 {
    let half = k >> 1;
    let power = |k: i32| f32::from_bits(((k + 127) << 23).cast_unsigned());
    x * power(half) * power(k - half)
}

/// Splits positive finite `x`, given as bits, into `x = m 2^e` with m from sqrt(1/2) to sqrt(2).
/// Returns (e, m).
pub(super) fn binade(bits: u32) -> (f32, f32) {
    let is_subnormal = bits < 0x0080_0000;
    // A subnormal number is an integer multiple of 2^-149.
    let normal = if is_subnormal {
        (bits as f32).to_bits()
    } else {
        bits
    };
    let exponent = normal.cast_signed().wrapping_sub(SQRT_HALF) >> 23;
    let m = f32::from_bits(normal.wrapping_sub((exponent << 23).cast_unsigned()));
    ((exponent - if is_subnormal { 149 } else { 0 }) as f32, m)
}

/// Returns `1 / (1 + e)` for e from 0 to 32, with an error slightly above half a unit: a quotient
/// of 12 bits, corrected by its residual.
fn inverse_of_one_plus(e: f32) -> f32 {
    let e_head = head(e);
    let q = head(1.0 / (1.0 + e));
    let left = ((1.0 - q) - q * e_head) - q * (e - e_head);
    q + q * (left + left * left)
}

/// Returns the quadrant of a nonnegative angle, and the remaining angle, at most π/4 in magnitude.
fn reduced(x: f32) -> (u32, f32) {
    if x >= FAR {
        return reduced_far(x.to_bits());
    }
    let k = (x * FRAC_2_PI + 0.5).floor();
    // The first two differences are exact. The third is rounded; its rounding error is added to the
    // remainder.
    let exact = (x - k * QUARTER[0]) - k * QUARTER[1];
    let r = exact - k * QUARTER[2];
    let lost = (exact - r) - k * QUARTER[2];
    (to_u32(k), r + (lost - k * QUARTER[3]))
}

/// Returns the results of [`reduced`] for any finite number of at least 1, given as bits, by the
/// method of Payne and Hanek. The product of the 24-bit significand and 2 / π counts quarter turns.
/// Only 96 of its bits are computed: multiples of 4 quarter turns are left out, because they do not
/// change the angle.
fn reduced_far(bits: u32) -> (u32, f32) {
    let whole = (bits & 0x007f_ffff) | 0x0080_0000;
    // Index of the first relevant bit of 2 / π in the words of `turn_word`. For x from 2^9 to 2^10
    // it is 16, and it grows by one per power of 2.
    let first = (bits >> 23) - 120;
    let at = first >> 5;
    let window = |at: u32| shifted_pair(turn_word(at), turn_word(at + 1), first & 31);
    let words = [window(at), window(at + 1), window(at + 2)];
    let (low, carry) = (whole.wrapping_mul(words[2]), product_high(whole, words[2]));
    let mid = whole.wrapping_mul(words[1]).wrapping_add(carry);
    let carry = product_high(whole, words[1]) + u32::from(mid < carry);
    let top = whole.wrapping_mul(words[0]).wrapping_add(carry);
    // The two leading bits are the quadrant, rounded to nearest. The remainder is taken as a
    // magnitude.
    let quadrant = top.wrapping_add(0x2000_0000) >> 30;
    let is_below = (top & 0x2000_0000) != 0;
    let flip = if is_below { u32::MAX } else { 0 };
    let rest = [(top ^ flip) & 0x3fff_ffff, mid ^ flip, low ^ flip];
    // Shift until the leading bit is one. Close to a multiple of a quarter turn there are about 30
    // leading zeros.
    let skipped = rest[0] == 0;
    let pair = if skipped {
        [rest[1], rest[2]]
    } else {
        [rest[0], rest[1]]
    };
    let zeros = pair[0].leading_zeros();
    let leading = shifted_pair(pair[0], pair[1], zeros);
    let places = zeros.cast_signed() + if skipped { 32 } else { 0 };
    let high = (leading >> 20) as f32;
    let low = (leading & 0x000f_ffff) as f32 * (1.0 / 1_048_576.0);
    let r = high * QUARTER[0] + (high * QUARTER_TAIL + low * (QUARTER[0] + QUARTER_TAIL));
    // The unit of `high` is 2^-12 · 2^-places of 4 quarter turns.
    let r = r * f32::from_bits((127 - 10 - places).cast_unsigned() << 23);
    (quadrant, if is_below { -r } else { r })
}

/// Returns a word of the binary fraction of 2 / π; word 0 is zero.
fn turn_word(at: u32) -> u32 {
    match at {
        0 => 0,
        1 => 0xa2f9_836e,
        2 => 0x4e44_1529,
        3 => 0xfc27_57d1,
        4 => 0xf534_ddc0,
        5 => 0xdb62_9599,
        6 => 0x3c43_9041,
        _ => 0xfe51_63ab,
    }
}

/// Returns the high word of two words shifted left by less than 32 bits.
fn shifted_pair(first: u32, second: u32, places: u32) -> u32 {
    (first << places) | ((second >> 1) >> (31 - places))
}

/// Returns the high word of a 64-bit product, computed from 16-bit halves.
fn product_high(a: u32, b: u32) -> u32 {
    let [a_low, a_high] = [a & 0xffff, a >> 16];
    let [b_low, b_high] = [b & 0xffff, b >> 16];
    let mid = a_high * b_low + ((a_low * b_low) >> 16);
    let carry = a_low * b_high + (mid & 0xffff);
    a_high * b_high + (mid >> 16) + (carry >> 16)
}

/// Returns the sine of `quadrant` quarter turns plus `r`, for |r| ≤ π/4.
fn on_quadrant(quadrant: u32, r: f32) -> f32 {
    let z = r * r;
    // Minimax polynomial of (sin(r) / r - 1) / r^2
    // for |r| <= 0.794, in z = r^2; error weight r^3 / sin(r).
    let p = -0.166_666_54 + z * (0.008_332_106 + z * -1.950_788_3e-4);
    let sine = r + r * (z * p);
    // Minimax polynomial of (cos(r) - 1 + r^2 / 2) / r^4, in z as well; error weight r^4 / cos(r).
    let p = 0.041_666_646 + z * (-0.001_388_729_8 + z * 2.443_008_5e-5);
    let cosine = 1.0 + (z * z * p - 0.5 * z);
    let value = if (quadrant & 1) == 1 { cosine } else { sine };
    f32::from_bits(value.to_bits() ^ ((quadrant & 2) << 30))
}

/// Returns the logarithm to base 2 of positive finite `x`, given as bits, as the sum of a head of
/// 12 bits and a tail. Relative error about 2^-33.
fn log2(bits: u32) -> (f32, f32) {
    // ln(m) = 2 atanh(s) with s = (m - 1) / (m + 1). s has a head of 12 bits, and a tail computed
    // from the residual of the quotient.
    let (exponent, m) = binade(bits);
    let f = m - 1.0;
    let d_head = head(m + 1.0);
    let inverse = 1.0 / (m + 1.0);
    let s_head = head(f * inverse);
    let s_tail = ((f - s_head * d_head) - s_head * (m - (d_head - 1.0))) * inverse;
    let s = s_head + s_tail;
    // Minimax polynomial of (3 atanh(s) / s - 3 - s^2) / s^4
    // for |s| <= 0.1717, in z = s^2; error weight s^4 / 3.
    let z = s * s;
    let p = 0.600_002_3 + z * (0.428_206_32 + z * 0.351_295_92);
    let r = z * z * p + s_tail * (s_head + s);
    let square = s_head * s_head;
    let t_head = head(3.0 + square + r);
    let t_tail = r - ((t_head - 3.0) - square);
    let u = s_head * t_head;
    let v = s_tail * t_head + t_tail * s;
    let p_head = head(u + v);
    let p_tail = v - (p_head - u);
    let high = LOG2_SCALE[0] * p_head;
    let low = LOG2_SCALE[1] * p_head + p_tail * (LOG2_SCALE[0] + LOG2_SCALE[1]);
    let sum = head((high + low) + exponent);
    (sum, low - ((sum - exponent) - high))
}

/// Returns the integer part of `|a| / |b|`, and the remainder, which is exact.
///
/// Long division of the significands, eight bits per step. One step is enough if the exponents
/// differ by less than 9.
fn long_division(a: f32, b: f32) -> (f32, f32) {
    let [a_bits, b_bits] = [a, b].map(|x| x.to_bits() & MAGNITUDE);
    if a_bits >= INFINITY || b_bits > INFINITY || b_bits == 0 {
        let is_infinite = b_bits == 0 && a_bits != 0 && a_bits <= INFINITY;
        let nan = NAN | a_bits;
        let quotient = if is_infinite { INFINITY | b_bits } else { nan };
        return (f32::from_bits(quotient), f32::from_bits(nan));
    }
    if a_bits < b_bits {
        return (0.0, f32::from_bits(a_bits));
    }
    let divisor = whole(b_bits);
    // Subnormal numbers have the exponent of the smallest normal number.
    let exponent = (b_bits >> 23).max(1);
    let mut places = (a_bits >> 23).max(1) - exponent;
    let mut left = whole(a_bits);
    let mut quotient = 0.0;
    loop {
        let step = places.min(8);
        let shifted = left << step;
        let digits = shifted / divisor;
        left = shifted - digits * divisor;
        quotient = quotient * (1_u32 << step) as f32 + digits as f32;
        places -= step;
        if places == 0 {
            return (quotient, assembled(left, exponent));
        }
    }
}

/// Returns the significand of a magnitude as an integer.
fn whole(bits: u32) -> u32 {
    let leading = if bits >= 0x0080_0000 { 0x0080_0000 } else { 0 };
    (bits & 0x007f_ffff) | leading
}

/// Returns `whole 2^(exponent - 150)`, exactly. `whole` has at most 24 bits.
fn assembled(whole: u32, exponent: u32) -> f32 {
    // Shift up to the 24th bit, but not further than the exponent allows.
    let places = (whole.max(1).leading_zeros() - 8).min(exponent - 1);
    // The leading bit adds one to the exponent. A subnormal number has no leading bit.
    let bits = (whole << places) + ((exponent - places - 1) << 23);
    f32::from_bits(if whole == 0 { 0 } else { bits })
}
