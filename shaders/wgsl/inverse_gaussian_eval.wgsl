// A function of the inverse Gaussian distribution at many numbers: density, distribution function,
// survival function, or the logarithm of one of these.
// Shapes: xs [n] -> ys [n]. An invocation computes one element.
// Twin: twin::inverse_gaussian_eval, whose header describes method, accuracy and limits.

struct InverseGaussianEvalParams {
    n: u32,
    function: u32,
    // The nearest f32, and the remainder.
    mean: vec2<f32>,
    // The next three: the leading 12 bits, and the remainder. `rate` is shape / mean^2.
    inverse_mean: vec2<f32>,
    shape: vec2<f32>,
    rate: vec2<f32>,
    // 2 shape / mean.
    twice_ratio: f32,
    // Must be zero.
    pad0: u32,
}

@group(0) @binding(0) var<uniform> params: InverseGaussianEvalParams;
@group(0) @binding(1) var<storage, read> xs: array<f32>;
@group(0) @binding(2) var<storage, read_write> ys: array<f32>;

const GROUP: u32 = 256u;

const PDF: u32 = 0u;
const LN_PDF: u32 = 1u;
const CDF: u32 = 2u;
const SF: u32 = 3u;
const LN_CDF: u32 = 4u;
const LN_SF: u32 = 5u;

const SMALLEST_NORMAL: u32 = 0x00800000u;
// Bits of 2^124, the threshold from which the exponent counts as infinite.
const FAR: u32 = 0x7d800000u;
// Threshold from which numbers are scaled by 1/16, so that their inverse is normal.
const LARGE: f32 = 1.0e30;
// Threshold of the exponent beyond which every density is zero.
const NOTHING_FROM: f32 = 173.0;
// Threshold of `w/sqrt(2)` above which the upper tail is computed.
const UPPER_FROM: f32 = -0.47;
const INV_SQRT_2PI: f32 = 0.3989423;
const INV_SQRT_2: f32 = 0.70710677;

@compute @workgroup_size(GROUP)
fn inverse_gaussian_eval(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) n_workgroups: vec3<u32>,
    @builtin(local_invocation_id) lid: vec3<u32>,
) {
    let at = grid_workgroup(wid, n_workgroups) * GROUP + lid.x;
    if (at < params.n) {
        ys[at] = value_at(xs[at]);
    }
}

fn value_at(x: f32) -> f32 {
    let bits = bitcast<u32>(x);
    let magnitude = bits & FLOAT_MAGNITUDE;
    if (magnitude > FLOAT_INFINITY) {
        return x;
    }
    if (bits != magnitude || magnitude < SMALLEST_NORMAL) {
        return value_at_end(false);
    }
    if (magnitude == FLOAT_INFINITY) {
        return value_at_end(true);
    }
    let point = point_at(x);
    if (point.is_far) {
        return value_at_end(x > params.mean.x);
    }
    switch params.function {
        case PDF: { return density(point); }
        case LN_PDF: { return ln_density(point); }
        case CDF: { return probability(point, false); }
        case SF: { return probability(point, true); }
        case LN_CDF: { return ln_probability(point, false); }
        default: { return ln_probability(point, true); }
    }
}

// The limit of the function left of the support, or at plus infinity.
fn value_at_end(is_right: bool) -> f32 {
    // WGSL rejects infinite constant expressions, so a parameter that is zero is included.
    let minus_infinity = bitcast<f32>(FLOAT_SIGN | FLOAT_INFINITY | params.pad0);
    switch params.function {
        case PDF: { return 0.0; }
        case LN_PDF: { return minus_infinity; }
        case CDF: { return select(0.0, 1.0, is_right); }
        case SF: { return select(1.0, 0.0, is_right); }
        case LN_CDF: { return select(minus_infinity, 0.0, is_right); }
        default: { return select(0.0, minus_infinity, is_right); }
    }
}

struct Point {
    // `x 2^-lift` and its inverse.
    x: f32,
    inverse: FloatSum,
    lift: i32,
    // `sqrt(shape / x)`.
    s: f32,
    // `w/sqrt(2)` and `v/sqrt(2)`.
    a: f32,
    b: f32,
    exponent: FloatSum,
    is_far: bool,
}

fn point_at(x: f32) -> Point {
    let is_large = x > LARGE;
    let scale = select(1.0, 0.0625, is_large);
    let inverse = split_inverse(x * scale);
    let d = split_difference(x, params.mean);
    // 2 E = g p^2, with p = (x - mean) / max(x, mean) and the other factors in g. Neither factor
    // leaves the range unless E does.
    let is_right = x > params.mean.x;
    let d_scaled = FloatSum(d.head * scale, d.tail * scale);
    let inverse_mean = FloatSum(params.inverse_mean.x, params.inverse_mean.y);
    let rate = FloatSum(params.rate.x, params.rate.y);
    let shape = FloatSum(params.shape.x, params.shape.y);
    let x_head = float_head(x);
    var p = split_product(d, inverse_mean);
    var g = split_product(shape, inverse);
    if (is_right) {
        p = split_product(d_scaled, inverse);
        g = split_product(rate, FloatSum(x_head, x - x_head));
    }
    let twice = split_product(split_product(g, p), p);
    let exponent = FloatSum(0.5 * twice.head, 0.5 * twice.tail);
    let e = exponent.head + exponent.tail;
    let root = split_sqrt(e);
    let s = split_sqrt(((shape.head + shape.tail) * scale) * (inverse.head + inverse.tail));
    return Point(
        x * scale,
        inverse,
        select(0, 4, is_large),
        s,
        select(root, -root, d.head < 0.0),
        split_sqrt(e + params.twice_ratio),
        exponent,
        (bitcast<u32>(g.head) & FLOAT_MAGNITUDE) >= FAR,
    );
}

fn density(point: Point) -> f32 {
    let decay = decay_of(point.exponent);
    // Each factor takes half of the power, because s / x alone may be out of range where the
    // density is not.
    let half = decay.exponent >> 1u;
    let first = float_scaled(point.s, half);
    let inverse = point.inverse.head + point.inverse.tail;
    let second = float_scaled(inverse, decay.exponent - half - point.lift);
    let value = (INV_SQRT_2PI * decay.significand) * first * second;
    return select(value, 0.0, point.exponent.head > NOTHING_FROM);
}

fn ln_density(point: Point) -> f32 {
    let binade = float_binade(bitcast<u32>(point.x));
    let exponent = i32(binade.exponent);
    let inverse = float_scaled(point.inverse.head + point.inverse.tail, exponent);
    return ln_scaled(INV_SQRT_2PI * point.s * inverse, -exponent - point.lift, point.exponent);
}

// A tail of the distribution: its probability is `exp(-E) factor`.
struct Tail {
    is_upper: bool,
    factor: f32,
}

// The smaller tail; near the median possibly the larger tail, with a probability of at most 0.76.
fn tail_of(point: Point) -> Tail {
    if (point.a > UPPER_FROM) {
        return Tail(true, INV_SQRT_2 * point.s * erfcx_slope(point.a, point.b));
    }
    return Tail(false, 0.5 * (erfcx_at(-point.a) + erfcx_at(point.b)));
}

fn tail_value(point: Point, tail: Tail) -> f32 {
    let decay = decay_of(point.exponent);
    let value = float_scaled(decay.significand * tail.factor, decay.exponent);
    return select(value, 0.0, point.exponent.head > NOTHING_FROM);
}

fn probability(point: Point, of_upper: bool) -> f32 {
    let tail = tail_of(point);
    let value = tail_value(point, tail);
    return select(1.0 - value, value, tail.is_upper == of_upper);
}

fn ln_probability(point: Point, of_upper: bool) -> f32 {
    let tail = tail_of(point);
    if (tail.is_upper == of_upper) {
        return ln_scaled(tail.factor, 0, point.exponent);
    }
    return split_ln_of_complement(tail_value(point, tail));
}

// `exp(-E)`.
fn decay_of(exponent: FloatSum) -> FloatPower {
    return float_exp_of_sum(max(-exponent.head, -NOTHING_FROM), -exponent.tail);
}

// `ln(factor 2^shift) - E`. The multiple of ln 2 and the head of E have few bits, so their
// difference is exact as a sum of two parts.
fn ln_scaled(factor: f32, shift: i32, exponent: FloatSum) -> f32 {
    let binade = float_binade(bitcast<u32>(factor));
    let n = binade.exponent + f32(shift);
    let low = (n * FLOAT_LN2_1 - exponent.tail) + float_ln(binade.significand);
    let high = float_head(n * FLOAT_LN2_0 - exponent.head);
    let rest = (n * FLOAT_LN2_0 - high) - exponent.head;
    return high + (rest + low);
}
