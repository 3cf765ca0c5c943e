//! The trait [`Distribution`] of a distribution, and the macros that define the public functions.
//!
//! Role: the inverse Gaussian and its relatives differ in the ratios from which a
//! [`Point`](crate::point::Point) is computed, in the ends of the support and in the first guess of
//! a quantile. [`crate::Custom`] has a point of its own. Each distribution implements these
//! differences as [`Distribution`]. The macros define the public functions that all distributions
//! have: `functions` those of an `x`, `quantiles` those of a probability, `traits` and `moments`
//! the traits of `statrs` and `rand`.

mod functions;
pub(crate) mod quantile_solver;
mod quantiles;
mod traits;

use crate::lanes::LaneFunction;
use crate::point::Evaluation;
pub(crate) use functions::functions;
use quantile_solver::{QuantileArgument, Target};
pub(crate) use quantiles::{expect, quantiles, quantiles_into};
pub(crate) use traits::{moments, traits};

/// A continuous distribution on `low < x < high`, by default from 0 to ∞.
///
/// Implementors mark the methods `#[inline(always)]` and avoid branches and calls that are not
/// inlined, because the compiler vectorizes loops over these methods.
pub(crate) trait Distribution: Copy + Sync {
    /// The values from which the functions at one `x` are computed.
    type Point: Evaluation;

    /// Returns the point at an `x` within the support.
    fn point(&self, x: f64) -> Self::Point;

    /// Returns the lower end of the support.
    #[inline(always)]
    fn low(&self) -> f64 {
        0.0
    }

    /// Returns the upper end of the support.
    #[inline(always)]
    fn high(&self) -> f64 {
        f64::INFINITY
    }

    /// Returns a number well inside the support. A SIMD lane whose `x` is outside the support
    /// computes the function there; its result is then replaced by the limit.
    fn inside(&self) -> f64;

    /// Returns the limit of the hazard at the upper end of the support.
    fn hazard_at_high(&self) -> f64;

    /// Returns a first guess of a quantile.
    fn start(&self, target: Target) -> f64;

    /// Returns the density at an `x` within the support.
    #[inline(always)]
    fn density(&self, x: f64) -> f64 {
        self.point(x).density()
    }

    /// Returns the logarithm of the density at an `x` within the support.
    #[inline(always)]
    fn ln_density(&self, x: f64) -> f64 {
        self.point(x).ln_density()
    }

    /// Returns `P(X > x)` if `of_upper`, otherwise `P(X <= x)`, at an `x` within the support.
    #[inline(always)]
    fn probability(&self, x: f64, of_upper: bool) -> f64 {
        self.point(x).probability(of_upper)
    }

    /// Returns the logarithm of [`Self::probability`].
    #[inline(always)]
    fn ln_probability(&self, x: f64, of_upper: bool) -> f64 {
        self.point(x).ln_probability(of_upper)
    }

    /// Returns the hazard at an `x` within the support.
    #[inline(always)]
    fn hazard(&self, x: f64) -> f64 {
        self.point(x).hazard()
    }

    /// Returns the limit of [`Self::probability`] at the upper end of the support; `P(X = ∞)` if
    /// `of_upper` and the end is ∞.
    #[inline(always)]
    fn probability_at_high(&self, of_upper: bool) -> f64 {
        if of_upper { 0.0 } else { 1.0 }
    }

    /// Returns the logarithm of [`Self::probability_at_high`].
    #[inline(always)]
    fn ln_probability_at_high(&self, of_upper: bool) -> f64 {
        if of_upper { f64::NEG_INFINITY } else { 0.0 }
    }

    /// Returns the quantiles of `ps`. Each result has the same bits as if it were computed alone.
    fn quantiles<const N: usize>(&self, ps: &[f64; N], argument: QuantileArgument) -> [f64; N];

    /// Returns the equation to solve for a probability of the upper or the lower tail.
    #[inline(always)]
    fn target(&self, p: f64, is_upper: bool) -> Target {
        Target::of_probability(p, is_upper)
    }

    /// Returns the equation to solve for the logarithm of a tail probability.
    #[inline(always)]
    fn ln_target(&self, ln_p: f64, is_upper: bool) -> Target {
        Target::of_ln_probability(ln_p, is_upper)
    }
}

/// Defines a [`LaneFunction`] for each function of a distribution: the value inside the support,
/// and the limits at both ends of the support. NaN returns NaN.
macro_rules! lanes {
    ($($name:ident: |$distribution:ident, $x:ident| $inside:expr, at low $zero:expr, at high $end:expr;)+) => {$(
        #[derive(Clone, Copy)]
        pub(crate) struct $name<L>(pub(crate) L);

        impl<L: Distribution> LaneFunction for $name<L> {
            #[inline(always)]
            fn at(&self, x: f64) -> f64 {
                let $distribution = &self.0;
                // The function is computed in every lane and the limits are selected afterwards,
                // because branches would prevent vectorization. A lane outside the support computes
                // the function at a number inside, and the result is discarded. The comparison with
                // the number below the upper end makes some loops 10 % faster than `x < ∞`.
                let $x = if x > $distribution.low() && x <= $distribution.high().next_down() { x } else { $distribution.inside() };
                let inside = $inside;
                let value = if x <= $distribution.low() { $zero } else { inside };
                let value = if x >= $distribution.high() { $end } else { value };
                if x.is_nan() { x } else { value }
            }
        }
    )+};
}

lanes! {
    Pdf: |distribution, x| distribution.density(x), at low 0.0, at high 0.0;
    LnPdf: |distribution, x| distribution.ln_density(x), at low f64::NEG_INFINITY, at high f64::NEG_INFINITY;
    Cdf: |distribution, x| distribution.probability(x, false), at low 0.0, at high distribution.probability_at_high(false);
    Sf: |distribution, x| distribution.probability(x, true), at low 1.0, at high distribution.probability_at_high(true);
    LnCdf: |distribution, x| distribution.ln_probability(x, false),
        at low f64::NEG_INFINITY, at high distribution.ln_probability_at_high(false);
    LnSf: |distribution, x| distribution.ln_probability(x, true), at low 0.0, at high distribution.ln_probability_at_high(true);
    Hazard: |distribution, x| distribution.hazard(x), at low 0.0, at high distribution.hazard_at_high();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{InverseGaussian, lanes};

    #[test]
    fn bits_do_not_depend_on_the_instructions_that_the_cpu_has() {
        // A lane that is called here directly is compiled for the target's baseline CPU, where a
        // fused multiply-add can be a library call.
        fn check(name: &str, lane: impl LaneFunction, x: f64) {
            let (plain, dispatched) = (lane.at(x), lanes::eval(lane, x));
            assert_eq!(plain.to_bits(), dispatched.to_bits(), "{name} at {x}");
        }
        for phi in [1e-12, 1e-3, 0.5, 1e3, 1e7] {
            let distribution =
                InverseGaussian::new(1.0, 1.0 / phi).expect("the parameters are valid");
            for x in (-40..=40).map(|i| (f64::from(i) / 10.0).exp()) {
                check("pdf", Pdf(distribution), x);
                check("ln_pdf", LnPdf(distribution), x);
                check("cdf", Cdf(distribution), x);
                check("sf", Sf(distribution), x);
                check("ln_cdf", LnCdf(distribution), x);
                check("ln_sf", LnSf(distribution), x);
                check("hazard", Hazard(distribution), x);
            }
        }
    }
}
