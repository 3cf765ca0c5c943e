//! Special functions of f64, as loops that compilers turn into vector code.
//!
//! Role: what `inverse_gaussian` is made of. Each function is `#[inline(always)]` and free of branches and calls, so a
//! loop over it under `pulp`'s dispatch becomes SIMD code; a single call and a loop do the same operations in the same
//! order, so both give the same bits on every CPU.
//! Why not a library: those of stable Rust compute one number at a time, and none has `erfcx` in lanes.

mod coefficients;
pub(crate) mod elementary;
pub(crate) mod erfcx;
pub(crate) mod exponential_integral;

/// Gives the value at `x` of a polynomial with coefficients in ascending powers.
#[inline(always)]
fn polynomial<const N: usize>(coefficients: &[f64; N], x: f64) -> f64 {
    let mut value = coefficients[N - 1];
    for &c in coefficients[..N - 1].iter().rev() {
        value = value.mul_add(x, c);
    }
    value
}
