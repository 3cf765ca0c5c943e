//! The little numerics that oracles and claims need, written to be read.

/// Pieces of Simpson's rule.
const PIECES: u32 = 20_000;

/// Gives the integral of a smooth function by Simpson's rule.
#[must_use]
pub fn simpson(low: f64, high: f64, f: impl Fn(f64) -> f64) -> f64 {
    let width = (high - low) / f64::from(PIECES);
    let inner = (1..PIECES).map(|i| f64::from(2 + 2 * (i % 2)) * f(low + width * f64::from(i)));
    width / 3.0 * (f(low) + inner.sum::<f64>() + f(high))
}

/// Gives the standard normal density.
#[must_use]
pub fn normal_pdf(x: f64) -> f64 {
    (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

/// Gives where `f` changes its sign between two points, by bisection to the last bit.
#[must_use]
pub fn bisected(mut one: f64, mut other: f64, f: impl Fn(f64) -> f64) -> f64 {
    const HALVINGS: u32 = 100;
    let is_above = f(other) > 0.0;
    for _ in 0..HALVINGS {
        let middle = 0.5 * (one + other);
        if (f(middle) > 0.0) == is_above {
            other = middle;
        } else {
            one = middle;
        }
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensor_core::compare::{Bound, assert_close};

    #[test]
    fn integrals_and_roots_are_those_of_formulas() {
        // The rule is exact to rounding here, and its sum takes a rounding a piece.
        let bound = || Bound::relative(PIECES as usize);
        assert_close([simpson(-9.0, 9.0, normal_pdf)], [1.0], bound());
        assert_close(
            [simpson(1.0, 2.0, f64::ln)],
            [2.0 * 2_f64.ln() - 1.0],
            bound(),
        );
        assert_close(
            [bisected(0.0, 2.0, |x| x * x - 2.0)],
            [2_f64.sqrt()],
            Bound::relative(2),
        );
    }
}
