//! Elementary functions that a loop over a slice can run many lanes at a time.
//!
//! Role: what the CPU executor calls for every transcendental node, and nothing else does.
//! Method: the functions of f32 have no branch, no table and no call, so the compiler turns a plain loop over them into
//! SIMD code for whatever instructions the loop may use. `exp`, `ln` and `sigmoid` are computed in f32, the fastest way;
//! the others in f64, rounded once. The functions of f64 are the standard library's, one element at a time, but for
//! `sigmoid`, which is built from its `exp`. Dispatch such a loop by `pulp::Arch::dispatch` as a struct that implements
//! `pulp::NullaryFnOnce` with an `#[inline(always)]` method: a closure of that size is not always inlined, and then it
//! runs without the instructions it was dispatched for, ten times slower.
//! Accuracy: of f32, stated at each function as the worst case over all arguments, found by trying all 2^32 of them
//! (for `pow`, of two arguments, by a sample). A unit in the last place (ulp) is the distance of neighbouring numbers
//! around the exact result, and 2^-149 where that is subnormal: nothing is flushed to zero. Products are fused
//! with sums where `mul_add` says so and nowhere else, so all instruction sets give the same bits in f32; a CPU without that
//! instruction takes much longer for `exp` and `sigmoid`. Functions of f64 are as exact as the platform's library.
//! Source: the reductions are those of Cody and Waite 1980, "Software Manual for the Elementary Functions", and of Payne
//! and Hanek 1983, "Radian reduction for trigonometric functions", SIGNUM Newsletter 18; the rest follows Muller et al.
//! 2018, "Handbook of Floating-Point Arithmetic", 2nd edition. The coefficients are our own, by Remez's exchange
//! (Remez 1934) in 60 digits; each set says what it approximates, where, and how well.
//! Limits: the flags of IEEE arithmetic and the payload of a NaN carry no meaning.

use crate::Float;

mod double;
mod single;
mod wide;

#[cfg(test)]
mod verify;

/// The elementary functions of `f32` and `f64`.
///
/// They are functions and not methods so that a concrete float cannot reach the standard library's of the same name by
/// mistake: write `Math::exp(x)`. Special values are those of C99, annex F, unless a function says more; NaN gives NaN.
///
/// # Examples
/// ```
/// use tensor_core::math::Math;
///
/// assert_eq!(Math::exp(0.0_f32), 1.0);
/// assert_eq!(Math::tanh(f32::INFINITY), 1.0);
/// assert!(Math::sigmoid(-100.0_f32) > 0.0);
/// assert_eq!([1.0_f32, 4.0].map(|x| Math::pow(x, 0.5)), [1.0, 2.0]);
/// ```
pub trait Math: Float {
    /// e to the power of `x`. Past the largest number it is infinite; of −∞ it is 0.
    ///
    /// Accuracy: f32 within 1.02 ulp.
    #[must_use]
    fn exp(x: Self) -> Self;

    /// `exp(x) − 1` without the cancellation near 0; it keeps the sign of a zero.
    ///
    /// Accuracy: f32 within 0.505 ulp.
    #[must_use]
    fn exp_m1(x: Self) -> Self;

    /// The natural logarithm: −∞ of either zero, NaN below.
    ///
    /// Accuracy: f32 within 0.92 ulp.
    #[must_use]
    fn ln(x: Self) -> Self;

    /// `ln(1 + x)` without the rounding of that sum; it keeps the sign of a zero.
    ///
    /// Accuracy: f32 within 0.501 ulp.
    #[must_use]
    fn ln_1p(x: Self) -> Self;

    /// The hyperbolic tangent, an odd function to the last bit in f32.
    ///
    /// Accuracy: f32 within 0.504 ulp.
    #[must_use]
    fn tanh(x: Self) -> Self;

    /// The logistic function `1 / (1 + exp(−x))`, with every digit that the type can hold where it nears 0.
    ///
    /// Accuracy: f32 within 1.66 ulp.
    #[must_use]
    fn sigmoid(x: Self) -> Self;

    /// The sine of `x` radians, NaN of an infinity.
    ///
    /// Accuracy: f32 within 0.501 ulp, at any size of `x`.
    #[must_use]
    fn sin(x: Self) -> Self;

    /// The cosine of `x` radians, NaN of an infinity.
    ///
    /// Accuracy: f32 within 0.501 ulp, at any size of `x`.
    #[must_use]
    fn cos(x: Self) -> Self;

    /// `x` to the power of `y`: 1 where `y` is 0 or `x` is 1, even beside a NaN.
    ///
    /// Accuracy: f32 within 0.502 ulp.
    #[must_use]
    fn pow(x: Self, y: Self) -> Self;
}
