// 16-bit floats in the low half of a word, with integer operations on their bits. Twin:
// `twin::half`.

// Rounds to nearest, ties to even. A NaN keeps its leading bits and becomes quiet.
fn half_bits(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let sign = (bits >> 16u) & 0x8000u;
    let magnitude = bits & 0x7fffffffu;
    let nan = 0x7e00u | ((magnitude >> 13u) & 0x03ffu);
    // From 65520 on, half a unit above the largest finite number, the result is infinite.
    let special = select(0x7c00u, nan, magnitude > 0x7f800000u);
    // Below 2^-14 the last bit is worth 2^-24. With 25 or more shifted bits the result is zero.
    let is_subnormal = magnitude < 0x38800000u;
    let places = select(13u, min(126u - (magnitude >> 23u), 25u), is_subnormal);
    let whole = select(magnitude - 0x38000000u, (magnitude & 0x007fffffu) | 0x00800000u, is_subnormal);
    let is_odd = (whole >> places) & 1u;
    let finite = (whole + (1u << (places - 1u)) - 1u + is_odd) >> places;
    return sign | select(finite, special, magnitude >= 0x477ff000u);
}

fn half_round(x: f32) -> f32 {
    return half_value(half_bits(x));
}

fn half_value(bits: u32) -> f32 {
    let sign = (bits & 0x8000u) << 16u;
    let magnitude = bits & 0x7fffu;
    // A subnormal number is an integer multiple of 2^-24.
    let subnormal = bitcast<u32>(f32(magnitude) * (1.0 / 16777216.0));
    let normal = (magnitude << 13u) + select(0x38000000u, 0x70000000u, magnitude >= 0x7c00u);
    return bitcast<f32>(sign | select(normal, subnormal, magnitude < 0x0400u));
}
