// Functions of f32 as defined for tensor programs. WGSL's own functions are less accurate, or
// undefined in some cases.
// Twin: `twin::float`, whose header describes the method, the origin of the coefficients and the
// error bounds.
// `&` and `|` join conditions here: `&&` and `||` become branches, which cost registers and time in
// loops, and a driver may need minutes and gigabytes to compile a kernel with hundreds of them.

const FLOAT_INFINITY: u32 = 0x7f800000u;
const FLOAT_NAN: u32 = 0x7fc00000u;
const FLOAT_ONE: u32 = 0x3f800000u;
const FLOAT_SIGN: u32 = 0x80000000u;
const FLOAT_MAGNITUDE: u32 = 0x7fffffffu;
// Bits of the square root of 1/2.
const FLOAT_SQRT_HALF: i32 = 0x3f3504f3;
const FLOAT_LOG2_E: f32 = 1.44269504;
const FLOAT_2_OVER_PI: f32 = 0.636619772;
// The logarithm of 2: a head of 14 bits, so that products with an exponent are exact, and the
// remainder.
const FLOAT_LN2_0: f32 = 0.693115234375;
const FLOAT_LN2_1: f32 = 3.1946183e-5;
// pi/2 in four parts: three of 12 bits, and the remainder. The last constant is pi/2 without its
// leading 12 bits, as one number.
const FLOAT_QUARTER_0: f32 = 1.5703125;
const FLOAT_QUARTER_1: f32 = 4.837513e-4;
const FLOAT_QUARTER_2: f32 = 7.5495336e-8;
const FLOAT_QUARTER_3: f32 = 2.563344e-12;
const FLOAT_QUARTER_TAIL: f32 = 4.838268e-4;
// Threshold from which angles are reduced with integers.
const FLOAT_FAR: f32 = 2048.0;
// 2 / (3 ln 2): the leading 12 bits, and the remainder.
const FLOAT_LOG2_SCALE_0: f32 = 0.961669921875;
const FLOAT_LOG2_SCALE_1: f32 = 1.2677205e-4;

fn float_is_nan(x: f32) -> bool {
    return (bitcast<u32>(x) & FLOAT_MAGNITUDE) > FLOAT_INFINITY;
}

fn float_maximum(a: f32, b: f32) -> f32 {
    return select(b, a, float_is_nan(a) | (a > b));
}

fn float_minimum(a: f32, b: f32) -> f32 {
    return select(b, a, float_is_nan(a) | (a < b));
}

fn float_to_i32(x: f32) -> i32 {
    // The largest f32 below 2^31 is not the largest i32.
    let largest = 2147483520.0;
    let inside = i32(clamp(x, -2147483648.0, largest));
    return select(select(inside, 0x7fffffff, x > largest), 0, float_is_nan(x));
}

fn float_to_u32(x: f32) -> u32 {
    let largest = 4294967040.0;
    let inside = u32(clamp(x, 0.0, largest));
    return select(select(inside, 0xffffffffu, x > largest), 0u, float_is_nan(x));
}

fn float_exp(x: f32) -> f32 {
    // The result is 0 or infinite beyond these limits.
    let power = float_exp_of_sum(clamp(x, -104.0, 89.0), 0.0);
    let value = float_scaled(power.significand, power.exponent);
    return select(value, x, float_is_nan(x));
}

struct FloatPower {
    significand: f32,
    exponent: i32,
}

// `e^(x + rest)` as `significand 2^exponent` with a significand near 1. Requires |x| <= 250 and a
// small `rest`.
fn float_exp_of_sum(x: f32, rest: f32) -> FloatPower {
    let k = floor(x * FLOAT_LOG2_E + 0.5);
    let r = ((x - k * FLOAT_LN2_0) - k * FLOAT_LN2_1) + rest;
    // Minimax polynomial of (e^r - 1 - r) / r^2 for |r| <= 0.35; error weight r^2 / e^r.
    let q2 = 0.008369248 + r * 0.0013820744;
    let q = 0.49999994 + r * (0.16666517 + r * (0.04166828 + r * q2));
    return FloatPower(1.0 + (r + r * r * q), i32(k));
}

fn float_ln(x: f32) -> f32 {
    let bits = bitcast<u32>(x);
    let parts = float_binade(bits);
    let f = parts.significand - 1.0;
    // Minimax polynomial of (ln(1 + f) - f + f^2 / 2) / f^3
    // for sqrt(1/2) <= 1 + f <= sqrt(2); error weight f^3 / ln(1 + f).
    let q6 = 0.118835486 + f * (-0.11670115 + f * 0.06749299);
    let q3 = -0.16667989 + f * (0.14220358 + f * (-0.12406233 + f * q6));
    let q = 0.33333313 + f * (-0.2500001 + f * (0.20002072 + f * q3));
    let tail = f * f * (f * q - 0.5) + parts.exponent * FLOAT_LN2_1;
    let value = parts.exponent * FLOAT_LN2_0 + (f + tail);
    let magnitude = bits & FLOAT_MAGNITUDE;
    let special = select(x, bitcast<f32>(FLOAT_NAN | bits), bits > FLOAT_SIGN);
    let finite = select(value, special, bits >= FLOAT_INFINITY);
    return select(finite, bitcast<f32>(FLOAT_SIGN | FLOAT_INFINITY | magnitude), magnitude == 0u);
}

fn float_sigmoid(x: f32) -> f32 {
    let e = float_exp(-abs(x));
    let above = float_inverse_of_one_plus(e);
    return select(above, e * above, x < 0.0);
}

fn float_tanh(x: f32) -> f32 {
    let magnitude = abs(x);
    let z = x * x;
    // Minimax polynomial of (tanh(x) / x - 1) / x^2
    // for |x| <= 0.625, in z = x^2; error weight x^3 / tanh(x).
    let p2 = -0.053736515 + z * (0.020628167 + z * -0.0056922967);
    let p = -0.3333328 + z * (0.13331406 + z * p2);
    let near = magnitude + magnitude * (z * p);
    let e = float_exp(-2.0 * magnitude);
    let far = 1.0 - 2.0 * (e * float_inverse_of_one_plus(e));
    let value = select(far, near, magnitude < 0.625);
    return bitcast<f32>(bitcast<u32>(value) | (bitcast<u32>(x) & FLOAT_SIGN));
}

fn float_erf(x: f32) -> f32 {
    let magnitude = abs(x);
    // Above the limit the complement is at most 0.21, so the subtraction reduces its error.
    let value = select(1.0 - float_erfc_far(magnitude), float_erf_near(magnitude), magnitude < 0.9);
    let signed = bitcast<f32>(bitcast<u32>(value) | (bitcast<u32>(x) & FLOAT_SIGN));
    return select(signed, x, float_is_nan(x));
}

fn float_erfc(x: f32) -> f32 {
    let magnitude = abs(x);
    let far = float_erfc_far(magnitude);
    let near = float_erf_near(magnitude);
    // Below the limit erf is at most 1/2, so the subtraction does not magnify its error.
    let is_near = magnitude < 0.46875;
    let above = select(far, 1.0 - near, is_near);
    let below = select(2.0 - far, 1.0 + near, is_near);
    return select(select(above, below, x < 0.0), x, float_is_nan(x));
}

// The error function for x from 0 to 0.9.
fn float_erf_near(x: f32) -> f32 {
    let z = x * x;
    // Minimax polynomial of erf(x) / x - 1 for |x| <= 0.9, in z = x^2; error weight x / erf(x).
    let p4 = 0.005191765 + z * (-8.039978e-4 + z * 7.9444784e-5);
    let p = 0.12837917 + z * (-0.3761263 + z * (0.11283624 + z * (-0.026855562 + z * p4)));
    return x + x * p;
}

// The complementary error function for x from 0.46 on: the scale e^(-x^2), with x^2 as the sum of
// an exact square and a rest, times a slowly varying function.
fn float_erfc_far(x: f32) -> f32 {
    // The result is 0 beyond this limit.
    let size = min(x, 10.2);
    let head = float_head(size);
    let square = -(head * head);
    let rest = -((size - head) * (size + head));
    // The leading 20 bits of the sum; the remainder follows. The mask works on bits, so a compiler
    // cannot cancel the subtraction.
    let exponent = bitcast<f32>(bitcast<u32>(square + rest) & 0xfffffff0u);
    let power = float_exp_of_sum(exponent, (square - exponent) + rest);
    let t = 1.0 - 2.0 * float_inverse_of_one_plus(0.5 * size);
    // Minimax polynomial of (1 + 2 x) e^(x^2) erfc(x) - 1.25
    // for 0.46 <= x <= 10.2, in t = (x - 2) / (x + 2); error weight 1 / (value + 1.25).
    let p6 = 0.008649173 + t * (0.0011640292 + t * (-0.0012505627 + t * -2.501429e-4));
    let p3 = 0.1640491 + t * (-0.05420921 + t * (-0.008009789 + t * p6));
    let p = 0.026978387 + t * (-0.092763774 + t * (-0.16603096 + t * p3));
    let scaled = (1.25 + p) * float_inverse_of_one_plus(2.0 * size);
    return float_scaled(scaled * power.significand, power.exponent);
}

fn float_sin(x: f32) -> f32 {
    let bits = bitcast<u32>(x);
    let angle = float_reduced(abs(x));
    let value = float_on_quadrant(angle.quadrant, angle.rest);
    let finite = bitcast<f32>(bitcast<u32>(value) ^ (bits & FLOAT_SIGN));
    return select(finite, bitcast<f32>(FLOAT_NAN | bits), (bits & FLOAT_MAGNITUDE) >= FLOAT_INFINITY);
}

fn float_cos(x: f32) -> f32 {
    let bits = bitcast<u32>(x);
    let angle = float_reduced(abs(x));
    let value = float_on_quadrant(angle.quadrant + 1u, angle.rest);
    return select(value, bitcast<f32>(FLOAT_NAN | bits), (bits & FLOAT_MAGNITUDE) >= FLOAT_INFINITY);
}

fn float_pow(a: f32, b: f32) -> f32 {
    let a_bits = bitcast<u32>(a);
    let magnitude = a_bits & FLOAT_MAGNITUDE;
    let logarithm = float_log2(magnitude);
    // For exponents beyond +-2^33 every power except that of 1 is 0 or infinite.
    let y = clamp(b, -8589934592.0, 8589934592.0);
    let y_head = float_head(y);
    let product = y_head * logarithm.head;
    let rest = (y - y_head) * logarithm.head + y * logarithm.tail;
    let is_extreme = (magnitude == 0u) | (magnitude == FLOAT_INFINITY);
    let far = select(-200.0, 200.0, (magnitude > FLOAT_ONE) == (b > 0.0));
    let total = select(product + rest, far, is_extreme);
    let inside = clamp(total, -160.0, 160.0);
    let k = floor(inside + 0.5);
    let r = select(0.0, (product - k) + rest, inside == total);
    // Minimax polynomial of (2^r - 1) / r for |r| <= 0.503; error weight r / 2^r.
    let q3 = 0.009618505 + r * (0.0013391458 + r * 1.5327813e-4);
    let q = 0.6931472 + r * (0.24022648 + r * (0.055503588 + r * q3));
    let value = float_scaled(1.0 + r * q, i32(k));

    let is_whole = floor(b) == b;
    // From 2^24 on every f32 is even.
    let last_bit = i32(clamp(b, -16777216.0, 16777216.0)) & 1;
    let is_odd = is_whole & (abs(b) < 16777216.0) & (last_bit == 1);
    let signed = bitcast<f32>(bitcast<u32>(value) | select(0u, a_bits & FLOAT_SIGN, is_odd));
    let has_none = (a_bits > FLOAT_SIGN) & !is_extreme & !is_whole;
    let is_nan = float_is_nan(a) | float_is_nan(b) | has_none;
    let is_one = (b == 0.0) | (a_bits == FLOAT_ONE);
    return select(select(signed, bitcast<f32>(FLOAT_NAN | a_bits), is_nan), 1.0, is_one);
}

fn float_rem(a: f32, b: f32) -> f32 {
    let rem = float_long_division(a, b).rem;
    let sign = (bitcast<u32>(a) ^ bitcast<u32>(b)) & FLOAT_SIGN;
    let signed = bitcast<f32>(bitcast<u32>(rem) | (bitcast<u32>(b) & FLOAT_SIGN));
    return select(signed, float_rest(b, rem), (sign != 0u) & (bitcast<u32>(rem) != 0u));
}

// `(|b| - rem)` with the sign of `b`. A device may take a subnormal operand as 0, so for a small `b`
// the difference is computed at 2^64 times its size.
fn float_rest(b: f32, rem: f32) -> f32 {
    let magnitude = abs(b);
    let bits = bitcast<u32>(rem);
    // A subnormal number is an integer multiple of 2^-149.
    let raised = select(rem * 0x1p64f, f32(bits) * 0x1p-85f, bits < 0x00800000u);
    let small = (magnitude * 0x1p64f - raised) * 0x1p-64f;
    let rest = select(magnitude - rem, small, magnitude < 0x1p-60f);
    return bitcast<f32>(bitcast<u32>(rest) | (bitcast<u32>(b) & FLOAT_SIGN));
}

fn float_floor_div(a: f32, b: f32) -> f32 {
    let division = float_long_division(a, b);
    let sign = (bitcast<u32>(a) ^ bitcast<u32>(b)) & FLOAT_SIGN;
    let below = select(0.0, 1.0, (sign != 0u) & (bitcast<u32>(division.rem) != 0u));
    return bitcast<f32>(bitcast<u32>(division.quotient + below) | sign);
}

// The number with only its leading 12 bits.
fn float_head(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) & 0xfffff000u);
}

// `x 2^k` for |k| <= 250, in two steps, because 2^k itself may be out of range.
fn float_scaled(x: f32, k: i32) -> f32 {
    let half = k >> 1u;
    return x * bitcast<f32>((half + 127) << 23u) * bitcast<f32>((k - half + 127) << 23u);
}

struct FloatBinade {
    exponent: f32,
    significand: f32,
}

// `x = m 2^e` with m from sqrt(1/2) to sqrt(2), for positive finite `x`, given as bits.
fn float_binade(bits: u32) -> FloatBinade {
    let is_subnormal = bits < 0x00800000u;
    // A subnormal number is an integer multiple of 2^-149.
    let normal = bitcast<i32>(select(bits, bitcast<u32>(f32(bits)), is_subnormal));
    let exponent = (normal - FLOAT_SQRT_HALF) >> 23u;
    let significand = bitcast<f32>(normal - (exponent << 23u));
    return FloatBinade(f32(exponent - select(0, 149, is_subnormal)), significand);
}

// `1 / (1 + e)` for e from 0 to 32, with an error slightly above half a unit: a quotient of 12
// bits, corrected by its residual.
fn float_inverse_of_one_plus(e: f32) -> f32 {
    let e_head = float_head(e);
    let q = float_head(1.0 / (1.0 + e));
    let left = ((1.0 - q) - q * e_head) - q * (e - e_head);
    return q + q * (left + left * left);
}

struct FloatAngle {
    quadrant: u32,
    rest: f32,
}

// The quadrant of a nonnegative angle, and the remaining angle, at most pi/4 in magnitude.
fn float_reduced(x: f32) -> FloatAngle {
    if (x >= FLOAT_FAR) {
        return float_reduced_far(bitcast<u32>(x));
    }
    let k = floor(x * FLOAT_2_OVER_PI + 0.5);
    // The first two differences are exact. The third is rounded; its rounding error is added to the
    // remainder.
    let exact = (x - k * FLOAT_QUARTER_0) - k * FLOAT_QUARTER_1;
    let r = exact - k * FLOAT_QUARTER_2;
    let lost = (exact - r) - k * FLOAT_QUARTER_2;
    return FloatAngle(u32(k), r + (lost - k * FLOAT_QUARTER_3));
}

// The same result for any finite number from 1 on, given as bits, by the method of Payne and Hanek.
// Of the product of the 24-bit significand with 2 / pi, only the 96 bits below the multiples of 4
// quarter turns are computed.
fn float_reduced_far(bits: u32) -> FloatAngle {
    let whole = (bits & 0x007fffffu) | 0x00800000u;
    // First relevant bit of 2 / pi in the words of `float_turn_word`.
    let first = (bits >> 23u) - 120u;
    let at = first >> 5u;
    let places = first & 31u;
    let turn_1 = float_turn_word(at + 1u);
    let turn_2 = float_turn_word(at + 2u);
    let word_0 = float_shifted_pair(float_turn_word(at), turn_1, places);
    let word_1 = float_shifted_pair(turn_1, turn_2, places);
    let word_2 = float_shifted_pair(turn_2, float_turn_word(at + 3u), places);
    let low = whole * word_2;
    let low_carry = float_product_high(whole, word_2);
    let mid = whole * word_1 + low_carry;
    let mid_carry = float_product_high(whole, word_1) + select(0u, 1u, mid < low_carry);
    let top = whole * word_0 + mid_carry;
    // The two leading bits are the quadrant, rounded to nearest. The remainder is taken as a
    // magnitude.
    let quadrant = (top + 0x20000000u) >> 30u;
    let is_below = (top & 0x20000000u) != 0u;
    let flip = select(0u, 0xffffffffu, is_below);
    let rest_0 = (top ^ flip) & 0x3fffffffu;
    let rest_1 = mid ^ flip;
    let rest_2 = low ^ flip;
    // Shift until the leading bit is one. Close to a multiple of a quarter turn there are about 30
    // leading zeros.
    let skips = rest_0 == 0u;
    let pair_0 = select(rest_0, rest_1, skips);
    let pair_1 = select(rest_1, rest_2, skips);
    let zeros = countLeadingZeros(pair_0);
    let leading = float_shifted_pair(pair_0, pair_1, zeros);
    let high = f32(leading >> 20u);
    let tail = f32(leading & 0x000fffffu) * (1.0 / 1048576.0);
    let r = high * FLOAT_QUARTER_0 + (high * FLOAT_QUARTER_TAIL + tail * (FLOAT_QUARTER_0 + FLOAT_QUARTER_TAIL));
    // The unit of `high` is 2^-12 of 4 quarter turns, reduced by the number of shifted bits.
    let size = r * bitcast<f32>((127u - 10u - zeros - select(0u, 32u, skips)) << 23u);
    return FloatAngle(quadrant, select(size, -size, is_below));
}

// A word of the binary fraction of 2 / pi; word 0 is zero.
fn float_turn_word(at: u32) -> u32 {
    switch at {
        case 0u: { return 0u; }
        case 1u: { return 0xa2f9836eu; }
        case 2u: { return 0x4e441529u; }
        case 3u: { return 0xfc2757d1u; }
        case 4u: { return 0xf534ddc0u; }
        case 5u: { return 0xdb629599u; }
        case 6u: { return 0x3c439041u; }
        default: { return 0xfe5163abu; }
    }
}

// The high word of two words shifted left by less than 32 bits.
fn float_shifted_pair(first: u32, second: u32, places: u32) -> u32 {
    return (first << places) | ((second >> 1u) >> (31u - places));
}

// The high word of a 64-bit product, computed from 16-bit halves.
fn float_product_high(a: u32, b: u32) -> u32 {
    let a_low = a & 0xffffu;
    let a_high = a >> 16u;
    let b_low = b & 0xffffu;
    let b_high = b >> 16u;
    let mid = a_high * b_low + ((a_low * b_low) >> 16u);
    let carry = a_low * b_high + (mid & 0xffffu);
    return a_high * b_high + (mid >> 16u) + (carry >> 16u);
}

// The sine of `quadrant` quarter turns plus `r`, for |r| <= pi/4.
fn float_on_quadrant(quadrant: u32, r: f32) -> f32 {
    let z = r * r;
    // Minimax polynomial of (sin(r) / r - 1) / r^2
    // for |r| <= 0.794, in z = r^2; error weight r^3 / sin(r).
    let p = -0.16666654 + z * (0.008332106 + z * -1.9507883e-4);
    let sine = r + r * (z * p);
    // Minimax polynomial of (cos(r) - 1 + r^2 / 2) / r^4, in z as well; error weight r^4 / cos(r).
    let q = 0.041666646 + z * (-0.0013887298 + z * 2.4430085e-5);
    let cosine = 1.0 + (z * z * q - 0.5 * z);
    let value = select(sine, cosine, (quadrant & 1u) == 1u);
    return bitcast<f32>(bitcast<u32>(value) ^ ((quadrant & 2u) << 30u));
}

struct FloatSum {
    head: f32,
    tail: f32,
}

// The logarithm to base 2 of positive finite `x`, given as bits, as the sum of a head of 12 bits
// and a tail. Relative error about 2^-33.
fn float_log2(bits: u32) -> FloatSum {
    // ln(m) = 2 atanh(s), s = (m - 1) / (m + 1). s has a head of 12 bits, and a tail computed from
    // the residual of the quotient.
    let parts = float_binade(bits);
    let m = parts.significand;
    let f = m - 1.0;
    let d_head = float_head(m + 1.0);
    let inverse = 1.0 / (m + 1.0);
    let s_head = float_head(f * inverse);
    let s_tail = ((f - s_head * d_head) - s_head * (m - (d_head - 1.0))) * inverse;
    let s = s_head + s_tail;
    // Minimax polynomial of (3 atanh(s) / s - 3 - s^2) / s^4
    // for |s| <= 0.1717, in z = s^2; error weight s^4 / 3.
    let z = s * s;
    let p = 0.6000023 + z * (0.42820632 + z * 0.35129592);
    let r = z * z * p + s_tail * (s_head + s);
    let square = s_head * s_head;
    let t_head = float_head(3.0 + square + r);
    let t_tail = r - ((t_head - 3.0) - square);
    let u = s_head * t_head;
    let v = s_tail * t_head + t_tail * s;
    let p_head = float_head(u + v);
    let p_tail = v - (p_head - u);
    let high = FLOAT_LOG2_SCALE_0 * p_head;
    let low = FLOAT_LOG2_SCALE_1 * p_head + p_tail * (FLOAT_LOG2_SCALE_0 + FLOAT_LOG2_SCALE_1);
    let sum = float_head((high + low) + parts.exponent);
    return FloatSum(sum, low - ((sum - parts.exponent) - high));
}

struct FloatDivision {
    quotient: f32,
    rem: f32,
}

// The integer part of `|a| / |b|`, and the remainder, which is exact. Long division of the
// significands, eight bits per step. One step is enough if the exponents differ by less than 9.
fn float_long_division(a: f32, b: f32) -> FloatDivision {
    let a_bits = bitcast<u32>(a) & FLOAT_MAGNITUDE;
    let b_bits = bitcast<u32>(b) & FLOAT_MAGNITUDE;
    if ((a_bits >= FLOAT_INFINITY) | (b_bits > FLOAT_INFINITY) | (b_bits == 0u)) {
        let is_infinite = (b_bits == 0u) & (a_bits != 0u) & (a_bits <= FLOAT_INFINITY);
        let nan = FLOAT_NAN | a_bits;
        return FloatDivision(bitcast<f32>(select(nan, FLOAT_INFINITY | b_bits, is_infinite)), bitcast<f32>(nan));
    }
    if (a_bits < b_bits) {
        return FloatDivision(0.0, bitcast<f32>(a_bits));
    }
    let divisor = float_whole(b_bits);
    // Subnormal numbers have the exponent of the smallest normal number.
    let exponent = max(b_bits >> 23u, 1u);
    var places = max(a_bits >> 23u, 1u) - exponent;
    var left = float_whole(a_bits);
    var quotient = 0.0;
    loop {
        let step = min(places, 8u);
        let shifted = left << step;
        let digits = shifted / divisor;
        left = shifted - digits * divisor;
        quotient = quotient * f32(1u << step) + f32(digits);
        places -= step;
        if (places == 0u) {
            break;
        }
    }
    return FloatDivision(quotient, float_assembled(left, exponent));
}

// The significand of a magnitude as an integer.
fn float_whole(bits: u32) -> u32 {
    return (bits & 0x007fffffu) | select(0u, 0x00800000u, bits >= 0x00800000u);
}

// `whole 2^(exponent - 150)`, exactly. `whole` has at most 24 bits.
fn float_assembled(whole: u32, exponent: u32) -> f32 {
    // Shift up to the 24th bit, but not further than the exponent allows.
    let places = min(countLeadingZeros(max(whole, 1u)) - 8u, exponent - 1u);
    // The leading bit adds one to the exponent. A subnormal number has no leading bit.
    let bits = (whole << places) + ((exponent - places - 1u) << 23u);
    return bitcast<f32>(select(bits, 0u, whole == 0u));
}
