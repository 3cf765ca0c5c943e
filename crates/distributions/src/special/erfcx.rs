//! The scaled complementary error function `erfcx(t) = exp(t²) erfc(t)` for `t >= -1/2`, and its
//! differences without cancellation.
//!
//! Role: both tails of an inverse Gaussian are `exp(-E)` times a sum or a difference of two values
//! of `erfcx`.
//! Method: `erfcx(t) = P(y) / (t + 9/2)` with `y = (t - 7/2) / (t + 9/2)` in `[-1, 1)` and one
//! polynomial `P`. With `u = 1 / (t + 9/2)` and `b = a + h`, the difference of two values is
//! `erfcx(a) - erfcx(b) = h u_a u_b (P(y_b) - 8 u_a P[y_a, y_b])`. The divided difference `P[y_a,
//! y_b]` results from the same Horner scheme as `P`. It is negative, so both terms in parentheses
//! are positive and nothing cancels, for every `h >= 0`. The usual alternative for small `h`, a
//! series or a quadrature, needs a branch and many times the operations.
//! Accuracy: `erfcx` is within 7 epsilons of the crate `puruspe`. The difference is within 8
//! epsilons of the larger value, and the slope at `h = 0` is within 9 epsilons of itself. The tests
//! measure these errors.
//! Source: the substitution is that of Shepherd and Laframboise 1981, "Chebyshev approximation of
//! (1 + 2x) exp(x^2) erfc x"; the difference is our derivation. Coefficients: `coefficients.py`.

use super::coefficients::ERFCX;
use super::polynomial;

/// The range of `t` below 0 in which the polynomial is valid: `t >= -LEFT`.
const LEFT: f64 = 0.5;
/// The variable `y` of the polynomial is 0 at `t = MIDDLE - LEFT`, so that half of the polynomial's
/// range is used for `t < 3.5`, where `erfcx` bends most.
const MIDDLE: f64 = 4.0;

/// A point at which `erfcx` is evaluated.
#[derive(Clone, Copy, Debug)]
struct Evaluation {
    /// `1 / (t + 9/2)`.
    u: f64,
    /// The variable of the polynomial, `1 - 8 u`.
    y: f64,
}

impl Evaluation {
    #[inline(always)]
    fn new(t: f64) -> Self {
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
    let place = Evaluation::new(t);
    polynomial(&ERFCX, place.y) * place.u
}

/// Returns `(erfcx(a) - erfcx(b)) / (b - a)` for `b >= a >= -1/2`; for `b = a` it is the negative
/// derivative.
///
/// The function takes `b` instead of `b - a`, because callers can compute `b` more accurately than
/// by adding the difference to `a`.
#[inline(always)]
pub(crate) fn slope(a: f64, b: f64) -> f64 {
    let (at_a, at_b) = (Evaluation::new(a), Evaluation::new(b));
    let mut value = ERFCX[ERFCX.len() - 1];
    let mut divided = 0.0_f64;
    // The intermediate values of Horner's scheme at y_a are the coefficients of the quotient
    // polynomial (P(y) - P(y_a)) / (y - y_a). A second Horner scheme evaluates the quotient at y_b,
    // where it is the divided difference.
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

    /// Returns points from -1/2 upwards, dense where the function bends.
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
        // 2/√π - 2t erfcx(t), computed with 40 digits because the difference cancels.
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
