//! Twins of the functions in `wgsl/shared/int.wgsl`: operations on integers that WGSL leaves open in part.
//!
//! Role: the same functions in the same order of operations; the text that kernels join is [`crate::source::INT`].

/// `a / b` rounded down, 0 for `b = 0`; wraps for the smallest number and -1.
#[must_use]
pub fn floor_div_i32(a: i32, b: i32) -> i32 {
    let overflows = b == -1 && a == i32::MIN;
    let safe = if b == 0 || overflows { 1 } else { b };
    let quotient = a / safe;
    let is_below = a % safe != 0 && (a < 0) != (b < 0);
    if b == 0 {
        0
    } else {
        quotient - i32::from(is_below)
    }
}

/// `a / b` rounded down, 0 for `b = 0`.
#[must_use]
pub fn floor_div_u32(a: u32, b: u32) -> u32 {
    let quotient = a / b.max(1);
    if b == 0 { 0 } else { quotient }
}

/// What `b` times the quotient rounded down leaves of `a`, with the sign of `b`; 0 for `b = 0`.
#[must_use]
pub fn rem_i32(a: i32, b: i32) -> i32 {
    let safe = if b == 0 || b == -1 { 1 } else { b };
    let rem = a % safe;
    rem + if rem != 0 && (rem < 0) != (b < 0) {
        b
    } else {
        0
    }
}

/// What is left of `a`; 0 for `b = 0`.
#[must_use]
pub fn rem_u32(a: u32, b: u32) -> u32 {
    let rem = a % b.max(1);
    if b == 0 { 0 } else { rem }
}

/// Bits moved up by `b`; 0 for `b` of 32 or more, or negative.
#[must_use]
pub fn shl_i32(a: i32, b: i32) -> i32 {
    let places = b.cast_unsigned();
    let moved = a << (places & 31);
    if places < 32 { moved } else { 0 }
}

/// Bits moved up by `b`; 0 for `b` of 32 or more.
#[must_use]
pub fn shl_u32(a: u32, b: u32) -> u32 {
    let moved = a << (b & 31);
    if b < 32 { moved } else { 0 }
}

/// Bits moved down by `b`, with copies of the sign; a negative `b` counts as 31.
#[must_use]
pub fn shr_i32(a: i32, b: i32) -> i32 {
    a >> b.cast_unsigned().min(31)
}

/// Bits moved down by `b`; 0 for `b` of 32 or more.
#[must_use]
pub fn shr_u32(a: u32, b: u32) -> u32 {
    let moved = a >> (b & 31);
    if b < 32 { moved } else { 0 }
}
