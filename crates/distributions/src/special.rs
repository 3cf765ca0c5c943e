//! Special functions of f64 that the compiler can vectorize.
//!
//! Role: the functions from which the distributions are computed.
//! Method: the functions of `elementary` and `erfcx` are `#[inline(always)]` and free of branches
//! and calls, so the compiler turns a loop over them into SIMD code under `pulp`'s dispatch. A
//! single call and a loop do the same operations in the same order, so the results have the same
//! bits on every CPU. `exponential_integral` and `wide` are not used in loops over slices and have
//! branches. Libraries for stable Rust compute one number at a time, and none has a vectorized
//! `erfcx`.

mod coefficients;
pub(crate) mod elementary;
pub(crate) mod erfcx;
pub(crate) mod exponential_integral;
pub(crate) mod wide;

/// Returns the value at `x` of a polynomial with an even number of coefficients in ascending
/// powers.
///
/// Runs Horner's scheme on the even and on the odd powers in parallel, which halves the latency at
/// the cost of one more product.
#[inline(always)]
fn short_polynomial<const N: usize>(coefficients: &[f64; N], x: f64) -> f64 {
    let square = x * x;
    let (mut even, mut odd) = (coefficients[N - 2], coefficients[N - 1]);
    for at in (0..N - 2).step_by(2).rev() {
        even = even.mul_add(square, coefficients[at]);
        odd = odd.mul_add(square, coefficients[at + 1]);
    }
    odd.mul_add(x, even)
}

/// Returns the value at `x` of a polynomial with coefficients in ascending powers, by Horner's
/// scheme.
#[inline(always)]
fn polynomial<const N: usize>(coefficients: &[f64; N], x: f64) -> f64 {
    let mut value = coefficients[N - 1];
    for &c in coefficients[..N - 1].iter().rev() {
        value = value.mul_add(x, c);
    }
    value
}
