//! Twins of the functions in `wgsl/shared/half.wgsl`: 16-bit floats, with integer operations on
//! their bits.
//!
//! Role: the same functions with the same order of operations. The text used by kernels is
//! [`crate::source::HALF`].
//! Accuracy: exact, or rounded once to nearest, ties to even, including subnormal 16-bit floats.

/// Returns the bits of the 16-bit float nearest to `x`, ties to even. A NaN keeps its leading bits
/// and becomes quiet.
#[must_use]
pub fn bits(x: f32) -> u32 {
    let bits = x.to_bits();
    let sign = (bits >> 16) & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    if magnitude > 0x7f80_0000 {
        return sign | 0x7e00 | ((magnitude >> 13) & 0x03ff);
    }
    // From 65520 on, half a unit above the largest finite number, the result is infinite.
    if magnitude >= 0x477f_f000 {
        return sign | 0x7c00;
    }
    // Below 2^-14 the last bit is worth 2^-24. With 25 or more shifted bits the result is zero.
    let (places, whole) = if magnitude < 0x3880_0000 {
        let whole = (magnitude & 0x007f_ffff) | 0x0080_0000;
        ((126 - (magnitude >> 23)).min(25), whole)
    } else {
        (13, magnitude - 0x3800_0000)
    };
    let is_odd = (whole >> places) & 1;
    sign | ((whole + (1 << (places - 1)) - 1 + is_odd) >> places)
}

/// Returns the 16-bit float nearest to `x`, as f32.
#[must_use]
pub fn round(x: f32) -> f32 {
    value(bits(x))
}

/// Returns the value of the 16-bit float in the low half of a word.
#[must_use]
pub fn value(bits: u32) -> f32 {
    let sign = (bits & 0x8000) << 16;
    let magnitude = bits & 0x7fff;
    // A subnormal number is an integer multiple of 2^-24.
    let subnormal = (magnitude as f32 * (1.0 / 16_777_216.0)).to_bits();
    let bias = if magnitude >= 0x7c00 {
        0x7000_0000
    } else {
        0x3800_0000
    };
    let normal = (magnitude << 13) + bias;
    f32::from_bits(
        sign | if magnitude < 0x0400 {
            subnormal
        } else {
            normal
        },
    )
}
