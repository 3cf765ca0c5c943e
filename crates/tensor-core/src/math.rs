//! Elementary functions that the compiler can vectorize in a loop over a slice.
//!
//! Role: the implementation of every transcendental operation of the CPU executor, which is the
//! only user.
//! Method: the functions contain no branch, table or call, so the compiler turns a plain loop over
//! them into SIMD code for the enabled instruction set. `exp`, `ln`, `tanh`, `sigmoid`, `sin`,
//! `cos`, `pow`, and `erf` of f32, are computed in their own precision, the fastest way. `exp_m1`,
//! `ln_1p` and `erfc` of f32, and the sine and cosine of f32 from 2^17 on, are computed in f64 and
//! rounded once. In f64, some functions are calls of a library, one element at a time: `exp_m1`,
//! `ln_1p`, and the sine and cosine from 2^30 on, of the standard library, and `erf` and `erfc` of
//! `libm`.
//!
//! Dispatch a loop by `pulp::Arch::dispatch`, as a struct that implements `pulp::NullaryFnOnce`
//! with an `#[inline(always)]` method, or as a closure with that attribute, and write the loop as
//! `for`. The compiler does not always inline a closure of that size otherwise, nor the closure of
//! `for_each`; the loop then runs without the instructions for which it was dispatched, ten times
//! slower. `sin`, `cos` and `pow` have additional operations for rare arguments. The executor skips
//! these in chunks of lanes without rare arguments.
//! Accuracy: the documentation of each function states a bound on its error: for f32 the worst
//! error of all 2^32 arguments (for `pow`, which has two arguments, of a sample), for f64 that of
//! 10^8 arguments of all magnitudes, compared with sums of two floats. A unit in the last place
//! (ulp) is the distance between adjacent numbers around the exact result, and the smallest number
//! where that is subnormal: nothing is flushed to zero. Products and sums are fused only where the
//! code uses `mul_add`, so all instruction sets return the same bits. The results of the standard
//! library differ between platforms. On a CPU without fused products the functions that are
//! computed in their own precision are much slower, except `ln` of f32.
//! Source: the argument reductions are those of Cody and Waite 1980, "Software Manual for the
//! Elementary Functions", and of Payne and Hanek 1983, "Radian reduction for trigonometric
//! functions", SIGNUM Newsletter 18; the sums of two floats those of Dekker 1971, "A floating-point
//! technique for extending the available precision", Numerische Mathematik 18; the scaling of
//! `erfc` that of Shepherd and Laframboise 1981, "Chebyshev approximation of (1 + 2x) exp(x²)
//! erfc x", Mathematics of Computation 36; the rest follows Muller et al. 2018, "Handbook of
//! Floating-Point Arithmetic", 2nd edition. The coefficients were computed for this crate by
//! Remez's exchange algorithm (Remez 1934) in 60 digits; each set is documented with its function,
//! interval and error.
//! Limits: IEEE status flags and the payload of a NaN are unspecified.

use crate::Float;

/// Computes a function of each lane of one or two chunks. This is a macro, because the compiler
/// does not inline a function that is passed by its name.
macro_rules! for_each_lane {
    ($function:path, $x:ident, $y:ident) => {
        for (y, &x) in $y.iter_mut().zip($x) {
            *y = $function(x);
        }
    };
    ($function:path, $x:ident, $y:ident, $z:ident) => {
        for ((z, &x), &y) in $z.iter_mut().zip($x).zip($y) {
            *z = $function(x, y);
        }
    };
}

/// Implements [`Chunks`] for a float type, with the modules `pow` and `trig` of the module where
/// the macro is called.
macro_rules! chunks {
    ($float:ident) => {
        impl Chunks for $float {
            #[inline(always)]
            fn sin_chunk(x: &[Self; CHUNK], sines: &mut [Self; CHUNK]) {
                if x.iter().fold(true, |all, &x| all & trig::is_usual(x)) {
                    for_each_lane!(trig::sin_of_usual, x, sines);
                } else {
                    for_each_lane!(trig::sin_of_any, x, sines);
                }
            }

            #[inline(always)]
            fn cos_chunk(x: &[Self; CHUNK], cosines: &mut [Self; CHUNK]) {
                if x.iter().fold(true, |all, &x| all & trig::is_usual(x)) {
                    for_each_lane!(trig::cos_of_usual, x, cosines);
                } else {
                    for_each_lane!(trig::cos_of_any, x, cosines);
                }
            }

            #[inline(always)]
            fn pow_chunk(x: &[Self; CHUNK], y: &[Self; CHUNK], powers: &mut [Self; CHUNK]) {
                let lanes = x.iter().zip(y);
                if lanes.fold(true, |all, (&x, &y)| all & pow::is_usual(x, y)) {
                    for_each_lane!(pow::of_usual, x, y, powers);
                } else {
                    for_each_lane!(pow::of_any, x, y, powers);
                }
            }
        }
    };
}

mod double;
mod pow;
mod single;
mod trig;
mod wide;

#[cfg(test)]
pub(crate) mod verify;

/// The elementary functions of `f32` and `f64`.
///
/// The functions take no `self`, so that a call on a concrete float cannot select the method of the
/// standard library by mistake: write `Math::exp(x)`. Special values follow C99, annex F, unless
/// stated otherwise. A NaN argument returns NaN.
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
    /// Returns e to the power of `x`: infinity on overflow, 0 for −∞.
    ///
    /// Accuracy: f32 within 1.02 ulp, f64 within 0.78 ulp.
    #[must_use]
    fn exp(x: Self) -> Self;

    /// Returns `exp(x) − 1` without cancellation near 0; the sign of a zero is kept.
    ///
    /// Accuracy: f32 within 0.505 ulp; f64 has the accuracy of the standard library.
    #[must_use]
    fn exp_m1(x: Self) -> Self;

    /// Returns the natural logarithm: −∞ for 0.0 and -0.0, NaN below zero.
    ///
    /// Accuracy: f32 within 0.92 ulp, f64 within 0.82 ulp.
    #[must_use]
    fn ln(x: Self) -> Self;

    /// Returns `ln(1 + x)` without the rounding of the sum; the sign of a zero is kept.
    ///
    /// Accuracy: f32 within 0.501 ulp; f64 has the accuracy of the standard library.
    #[must_use]
    fn ln_1p(x: Self) -> Self;

    /// Returns the hyperbolic tangent. `tanh(-x)` has exactly the bits of `-tanh(x)`.
    ///
    /// Accuracy: f32 within 0.93 ulp, f64 within 0.93 ulp.
    #[must_use]
    fn tanh(x: Self) -> Self;

    /// Returns the logistic function `1 / (1 + exp(−x))`, with full relative accuracy where the
    /// result is close to 0.
    ///
    /// Accuracy: f32 within 1.66 ulp, f64 within 1.50 ulp.
    #[must_use]
    fn sigmoid(x: Self) -> Self;

    /// Returns the error function `2/√π ∫₀ˣ exp(−t²) dt`; the sign of a zero is kept.
    ///
    /// Accuracy: f32 within 1.15 ulp; f64 has the accuracy of the crate `libm`.
    #[must_use]
    fn erf(x: Self) -> Self;

    /// Returns the complementary error function `1 − erf(x)`, without cancellation where the result
    /// is close to 0.
    ///
    /// Accuracy: f32 within 0.502 ulp; f64 has the accuracy of the crate `libm`.
    #[must_use]
    fn erfc(x: Self) -> Self;

    /// Returns the sine of `x` radians; NaN for an infinity.
    ///
    /// Accuracy: f32 within 0.88 ulp, for `x` of any magnitude; f64 within 0.90 ulp for
    /// |x| < 2^30, and with the accuracy of the standard library beyond.
    #[must_use]
    fn sin(x: Self) -> Self;

    /// Returns the cosine of `x` radians; NaN for an infinity.
    ///
    /// Accuracy: f32 within 0.88 ulp, for `x` of any magnitude; f64 within 0.90 ulp for
    /// |x| < 2^30, and with the accuracy of the standard library beyond.
    #[must_use]
    fn cos(x: Self) -> Self;

    /// Returns `x` to the power of `y`; 1 if `y` is 0 or `x` is 1, even if the other argument is
    /// NaN.
    ///
    /// Accuracy: f32 within 0.80 ulp, f64 within 0.95 ulp.
    #[must_use]
    fn pow(x: Self, y: Self) -> Self;
}

/// The number of lanes that [`Chunks`] computes at a time.
pub(crate) const CHUNK: usize = 32;

/// The functions with additional operations for rare arguments, on chunks of lanes.
///
/// Rare arguments are for example the negative bases of powers. A chunk without rare arguments is
/// computed without the additional operations. The bits of a result depend on its own arguments
/// alone, not on the rest of the chunk.
pub(crate) trait Chunks: Math {
    /// Computes [`Math::sin`] of each lane.
    fn sin_chunk(x: &[Self; CHUNK], sines: &mut [Self; CHUNK]);

    /// Computes [`Math::cos`] of each lane.
    fn cos_chunk(x: &[Self; CHUNK], cosines: &mut [Self; CHUNK]);

    /// Computes [`Math::pow`] of each lane.
    fn pow_chunk(x: &[Self; CHUNK], y: &[Self; CHUNK], powers: &mut [Self; CHUNK]);
}
