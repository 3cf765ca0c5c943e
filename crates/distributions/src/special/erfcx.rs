//! `erfcx(t) = exp(t^2) erfc(t)` for `t >= -1/2`, and differences of it without cancellation.
//!
//! Role: both tails of an inverse Gaussian are `exp(-E)` times a sum or a difference of two values of `erfcx`.
//! Method: `erfcx(t) = P(y) / (t + 9/2)` with `y = (t - 7/2) / (t + 9/2)` in `[-1, 1)` and one polynomial `P`. The
//! difference of two values is then, with `u = 1 / (t + 9/2)`,
//! `erfcx(a) - erfcx(a + h) = h u_a u_b (P(y_b) - 8 u_a P[y_a, y_b])`, where the divided difference `P[y_a, y_b]` comes
//! out of the same Horner scheme and is negative: every term is positive, so nothing cancels, for any `h` from 0 on.
//! The usual way, a series or a quadrature where `h` is small, needs a branch and many times the work.
//! Accuracy: `erfcx` below 1e-15 relative, the drop below 2e-15; the tests measure it.
//! Source: the substitution is that of Shepherd and Laframboise 1981, "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x";
//! the difference is our derivation. Coefficients: `coefficients.py`.

use super::coefficients::ERFCX;
use super::polynomial;

/// From here on the polynomial holds.
const LEFT: f64 = 0.5;
/// The variable is 0 so far beyond that.
const MIDDLE: f64 = 4.0;

/// A point at which `erfcx` is taken: `1 / (t + 9/2)`, and the polynomial's variable.
#[derive(Clone, Copy, Debug)]
struct Place {
    u: f64,
    y: f64,
}

impl Place {
    #[inline(always)]
    fn of(t: f64) -> Self {
        let u = 1.0 / (t + (LEFT + MIDDLE));
        Self {
            u,
            y: (-2.0 * MIDDLE).mul_add(u, 1.0),
        }
    }
}

/// Gives `erfcx(t)` for `t >= -1/2`.
#[inline(always)]
pub(crate) fn erfcx(t: f64) -> f64 {
    let place = Place::of(t);
    polynomial(&ERFCX, place.y) * place.u
}

/// Gives `(erfcx(a) - erfcx(a + h)) / h` for `a >= -1/2` and `h >= 0`; at `h = 0` minus the derivative.
///
/// `b` is `a + h`, which callers know more exactly.
#[inline(always)]
pub(crate) fn slope(a: f64, b: f64) -> f64 {
    let (at_a, at_b) = (Place::of(a), Place::of(b));
    let mut value = ERFCX[ERFCX.len() - 1];
    let mut divided = 0.0_f64;
    // Horner's scheme at `a` gives the coefficients of the quotient by `y - y_a`, whose value at `b` is the divided difference.
    for &c in ERFCX[..ERFCX.len() - 1].iter().rev() {
        divided = divided.mul_add(at_b.y, value);
        value = value.mul_add(at_a.y, c);
    }
    let at_b_value = polynomial(&ERFCX, at_b.y);
    at_a.u * at_b.u * (-2.0 * MIDDLE * at_a.u).mul_add(divided, at_b_value)
}
