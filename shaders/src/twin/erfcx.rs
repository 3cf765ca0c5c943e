//! Twin of `wgsl/shared/erfcx.wgsl`: `erfcx(t) = exp(t^2) erfc(t)` for `t >= -1/2`, and differences
//! of its values.
//!
//! Method: as in `distributions`, `special::erfcx`: `erfcx(t) = P(y) / (t + 5/2)` with `y = (t -
//! 3/2) / (t + 5/2)` and one polynomial `P`. The difference of two values is computed from the
//! divided difference of `P`, which Horner's scheme yields together with the value. All terms are
//! positive, so there is no cancellation.
//! Accuracy: [`AT_EPSILONS`] and [`SLOPE_EPSILONS`], relative, against f64.
//! Source: `P` is a minimax fit of the relative error of `erfcx(t) (t + 5/2)`, in f64, by linear
//! programming on 1500 Chebyshev points of `-1 <= y <= 1`. Each coefficient is rounded to f32, from
//! the lowest power on, before the remaining coefficients are fitted again. The center 3/2 has the
//! smallest rounding errors of 1, 3/2, 2 and so on to 7/2. The f64 version uses 7/2, because it
//! needs more terms.

use super::split;

/// Maximum relative error of [`at`], in epsilons of f32.
pub const AT_EPSILONS: usize = 4;
/// Maximum relative error of [`slope`], in epsilons of f32.
pub const SLOPE_EPSILONS: usize = 6;

/// Coefficients of the polynomial `P` of the [module](self), in ascending powers of `y`.
const COEFFICIENTS: [f32; 14] = [
    1.286_341_7,
    -1.331_625,
    0.924_074_7,
    -0.376_871_26,
    0.033_626_77,
    0.044_204_31,
    -0.011_373_08,
    -0.007_344_101,
    0.002_023_536_7,
    0.001_717_806_6,
    -2.519_608e-4,
    -4.070_788_6e-4,
    1.364_540_9e-5,
    5.960_513_2e-5,
];

/// Returns `erfcx(t)` for `t >= -1/2`.
#[must_use]
pub fn at(t: f32) -> f32 {
    let (u, y) = place(t);
    polynomials(y, y).0 * u
}

/// Returns `(erfcx(a) - erfcx(b)) / (b - a)` for `b >= a >= -1/2`; for `b = a`, minus the
/// derivative.
#[must_use]
pub fn slope(a: f32, b: f32) -> f32 {
    let (u_a, y_a) = place(a);
    let (u_b, y_b) = place(b);
    let (value, divided) = polynomials(y_b, y_a);
    u_a * u_b * (value - 4.0 * u_a * divided)
}

/// Returns `1 / (t + 5/2)`, and the variable of the polynomial.
fn place(t: f32) -> (f32, f32) {
    let u = split::inverse(t + 2.5).value();
    (u, 1.0 - 4.0 * u)
}

/// Returns the polynomial at `y`, and its divided difference between `y` and `other`.
fn polynomials(y: f32, other: f32) -> (f32, f32) {
    let mut coefficients = COEFFICIENTS.into_iter().rev();
    let first = coefficients.next().unwrap_or_default();
    coefficients.fold((first, 0.0), |(value, divided), c| {
        (value * y + c, divided * other + value)
    })
}
