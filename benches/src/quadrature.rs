//! Numerical integration for oracles and claims, by Simpson's rule.

/// Number of subintervals of Simpson's rule; even.
const PIECES: u32 = 20_000;

/// Returns the integral of a smooth function `f` over `[low, high]` by Simpson's rule.
#[must_use]
pub fn simpson(low: f64, high: f64, f: impl Fn(f64) -> f64) -> f64 {
    let width = (high - low) / f64::from(PIECES);
    let inner = (1..PIECES).map(|i| f64::from(2 + 2 * (i % 2)) * f(low + width * f64::from(i)));
    width / 3.0 * (f(low) + inner.sum::<f64>() + f(high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensor_core::compare::{Tolerance, assert_close};

    #[test]
    fn integrals_are_those_of_formulas() {
        // Here the rule is exact up to rounding; its sum adds one rounding per subinterval.
        let bound = || Tolerance::relative(PIECES as usize);
        assert_close([simpson(0.0, 1.0, f64::exp)], [1_f64.exp_m1()], bound());
        assert_close(
            [simpson(1.0, 2.0, f64::ln)],
            [2.0 * 2_f64.ln() - 1.0],
            bound(),
        );
    }
}
