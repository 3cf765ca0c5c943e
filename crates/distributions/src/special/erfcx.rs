//! `erfcx(t) = exp(t^2) erfc(t)` for `t >= -1/2`, and differences of it without cancellation.
//!
//! Role: both tails of an inverse Gaussian are `exp(-E)` times a sum or a difference of two values
//! of `erfcx`.
//! Method: `erfcx(t) = P(y) / (t + 9/2)` with `y = (t - 7/2) / (t + 9/2)` in `[-1, 1)` and one
//! polynomial `P`. The difference of two values is then, with `u = 1 / (t + 9/2)`, `erfcx(a) -
//! erfcx(a + h) = h u_a u_b (P(y_b) - 8 u_a P[y_a, y_b])`, where the divided difference `P[y_a,
//! y_b]` comes out of the same Horner scheme and is negative: every term is positive, so nothing
//! cancels, for any `h` from 0 on. The usual way, a series or a quadrature where `h` is small,
//! needs a branch and many times the work.
//! Accuracy: `erfcx` within 7 epsilons of puruspe's; the difference within 8 of the larger value,
//! its limit at `h = 0` within 9 of itself. The tests measure it.
//! Source: the substitution is that of Shepherd and Laframboise 1981, "Chebyshev approximation of
//! (1 + 2x) exp(x^2) erfc x"; the difference is our derivation. Coefficients: `coefficients.py`.

use super::coefficients::ERFCX;
use super::polynomial;

/// The polynomial is valid for `t >= -LEFT`.
const LEFT: f64 = 0.5;
/// The variable `y` of the polynomial is 0 at `t = MIDDLE - LEFT`.
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

/// Returns `erfcx(t)` for `t >= -1/2`.
#[inline(always)]
pub(crate) fn erfcx(t: f64) -> f64 {
    let place = Place::of(t);
    polynomial(&ERFCX, place.y) * place.u
}

/// Returns `(erfcx(a) - erfcx(a + h)) / h` for `a >= -1/2` and `h >= 0`; at `h = 0` minus the
/// derivative.
///
/// `b` is `a + h`, which callers compute more accurately.
#[inline(always)]
pub(crate) fn slope(a: f64, b: f64) -> f64 {
    let (at_a, at_b) = (Place::of(a), Place::of(b));
    let mut value = ERFCX[ERFCX.len() - 1];
    let mut divided = 0.0_f64;
    // Horner's scheme at `a` gives the coefficients of the quotient by `y - y_a`, whose value at
    // `b` is the divided difference.
    for &c in ERFCX[..ERFCX.len() - 1].iter().rev() {
        divided = divided.mul_add(at_b.y, value);
        value = value.mul_add(at_a.y, c);
    }
    let at_b_value = polynomial(&ERFCX, at_b.y);
    at_a.u * at_b.u * (-2.0 * MIDDLE * at_a.u).mul_add(divided, at_b_value)
}

#[cfg(test)]
mod tests {
    use super::{erfcx, slope};
    use puruspe::error::erfcx as oracle;
    use tensor_core::compare::{Tolerance, assert_close};

    /// Points from -1/2 on, dense where the function bends.
    fn points() -> Vec<f64> {
        (0..4000)
            .map(|i| (f64::from(i) / 400.0).exp_m1() - 0.5)
            .collect()
    }

    #[test]
    fn values_are_those_of_the_library() {
        let found: Vec<f64> = points().into_iter().map(erfcx).collect();
        let truth: Vec<f64> = points().into_iter().map(oracle).collect();
        // The tolerance includes the error of the library.
        assert_close(found, truth, Tolerance::relative(7));
        assert_close([erfcx(f64::INFINITY)], [0.0], Tolerance::exact());
        assert_close(
            [erfcx(1e200) * 1e200],
            [0.564_189_583_547_756_3],
            Tolerance::relative(4),
        );
    }

    #[test]
    fn the_slope_is_the_difference_where_that_does_not_cancel() {
        for h in [0.75, 2.0, 40.0, 1e5] {
            let starts = points().into_iter().filter(|a| *a < h);
            let (mut found, mut truth, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
            for a in starts {
                let (low, high) = (oracle(a), oracle(a + h));
                found.push(slope(a, a + h) * h);
                truth.push(low - high);
                sizes.push(low);
            }
            assert_close(found, truth, Tolerance::relative(8).scaled_by(sizes));
        }
    }

    #[test]
    fn the_slope_of_a_point_is_the_derivative() {
        // 2/√π - 2t erfcx(t), without its cancellation: values of 40 digits.
        let golden = [
            (-0.5, 3.0807396562780696),
            (0.0, std::f64::consts::FRAC_2_SQRT_PI),
            (0.3, 0.6876195663549195),
            (1.0, 0.27321201478389856),
            (5.0, 0.02133278976482631),
            (100.0, 5.6410497625993184e-05),
            (1000000.0, 5.6418958354691e-13),
        ];
        for (t, truth) in golden {
            assert_close([slope(t, t)], [truth], Tolerance::relative(9));
        }
    }
}
