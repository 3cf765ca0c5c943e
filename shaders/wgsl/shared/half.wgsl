// Numbers of 16 bits, in the low half of a word, by integer operations on their bits. Twin: `twin::half`.

// To nearest, ties to even; a NaN keeps its leading bits and is quiet.
fn half_bits(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let sign = (bits >> 16u) & 0x8000u;
    let magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return sign | 0x7e00u | ((magnitude >> 13u) & 0x03ffu);
    }
    // From 65520 on, half a unit above the largest number.
    if (magnitude >= 0x477ff000u) {
        return sign | 0x7c00u;
    }
    // Below 2^-14 the last place stays at 2^-24, and from 25 places on nothing is left.
    let is_subnormal = magnitude < 0x38800000u;
    let places = select(13u, min(126u - (magnitude >> 23u), 25u), is_subnormal);
    let whole = select(magnitude - 0x38000000u, (magnitude & 0x007fffffu) | 0x00800000u, is_subnormal);
    let is_odd = (whole >> places) & 1u;
    return sign | ((whole + (1u << (places - 1u)) - 1u + is_odd) >> places);
}

fn half_round(x: f32) -> f32 {
    return half_value(half_bits(x));
}

fn half_value(bits: u32) -> f32 {
    let sign = (bits & 0x8000u) << 16u;
    let magnitude = bits & 0x7fffu;
    // A subnormal number is a whole number of 2^-24.
    let subnormal = bitcast<u32>(f32(magnitude) * (1.0 / 16777216.0));
    let normal = (magnitude << 13u) + select(0x38000000u, 0x70000000u, magnitude >= 0x7c00u);
    return bitcast<f32>(sign | select(normal, subnormal, magnitude < 0x0400u));
}
