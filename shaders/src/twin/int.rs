//! Twins of the functions in `wgsl/shared/int.wgsl`: integer operations that WGSL defines only in
//! part.
//!
//! Role: the same functions with the same order of operations. The text used by kernels is
//! [`crate::source::INT`].

/// Returns `a / b` rounded down; 0 for `b = 0`. The quotient of the smallest number and -1 wraps.
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

/// Returns `a / b` rounded down; 0 for `b = 0`.
#[must_use]
pub fn floor_div_u32(a: u32, b: u32) -> u32 {
    let quotient = a / b.max(1);
    if b == 0 { 0 } else { quotient }
}

/// Returns the remainder of division rounded down, with the sign of `b`; 0 for `b = 0`.
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

/// Returns the remainder; 0 for `b = 0`.
#[must_use]
pub fn rem_u32(a: u32, b: u32) -> u32 {
    let rem = a % b.max(1);
    if b == 0 { 0 } else { rem }
}

/// Returns `a` shifted left by `b` bits; 0 if `b` is 32 or more, or negative.
#[must_use]
pub fn shl_i32(a: i32, b: i32) -> i32 {
    let places = b.cast_unsigned();
    let moved = a << (places & 31);
    if places < 32 { moved } else { 0 }
}

/// Returns `a` shifted left by `b` bits; 0 if `b` is 32 or more.
#[must_use]
pub fn shl_u32(a: u32, b: u32) -> u32 {
    let moved = a << (b & 31);
    if b < 32 { moved } else { 0 }
}

/// Returns `a` shifted right by `b` bits, with copies of the sign. A negative `b` counts as 31.
#[must_use]
pub fn shr_i32(a: i32, b: i32) -> i32 {
    a >> b.cast_unsigned().min(31)
}

/// Returns `a` shifted right by `b` bits; 0 if `b` is 32 or more.
#[must_use]
pub fn shr_u32(a: u32, b: u32) -> u32 {
    let moved = a >> (b & 31);
    if b < 32 { moved } else { 0 }
}
