//! What a law says of itself, and what it gets for that: every public function, for numbers and for slices.
//!
//! Role: the inverse Gaussian and its relatives differ in the ratios that make a [`Point`], in their ends and in where
//! the search of a quantile starts. [`Law`] is that difference; the macros beside it are the public functions of all,
//! `functions` at an `x`, `quantiles` from a probability, `traits` for the users of statrs and rand.

mod functions;
mod quantiles;
mod traits;

use crate::lanes::Lane;
use crate::point::Point;
use crate::quantile::{Asked, Target, solve};
pub(crate) use functions::functions;
pub(crate) use quantiles::{expect, quantiles, quantiles_into};
pub(crate) use traits::{moments, traits};

/// A law of numbers above an end, which is 0 for all but one.
///
/// Implementors mark the methods `#[inline(always)]`, free of branches and calls: lanes are made of them.
pub(crate) trait Law: Copy + Sync {
    /// Gives the point of an `x` within the support.
    fn point(&self, x: f64) -> Point;

    /// Gives the lower end of the support.
    #[inline(always)]
    fn low(&self) -> f64 {
        0.0
    }

    /// Gives a number in the midst of the law, at which lanes outside the support are computed and then replaced.
    fn inside(&self) -> f64;

    /// Gives the limit of the hazard at ∞.
    fn hazard_at_infinity(&self) -> f64;

    /// Gives a first guess of a quantile.
    fn start(&self, target: Target) -> f64;

    /// Gives the density within the support.
    #[inline(always)]
    fn density(&self, x: f64) -> f64 {
        self.point(x).density()
    }

    /// Gives the logarithm of that.
    #[inline(always)]
    fn ln_density(&self, x: f64) -> f64 {
        self.point(x).ln_density()
    }

    /// Gives the probability of what is above an `x` within the support, or of the rest.
    #[inline(always)]
    fn probability(&self, x: f64, of_upper: bool) -> f64 {
        self.point(x).tail().probability(of_upper)
    }

    /// Gives the logarithm of that.
    #[inline(always)]
    fn ln_probability(&self, x: f64, of_upper: bool) -> f64 {
        self.point(x).tail().ln_probability(of_upper)
    }

    /// Gives the hazard within the support.
    #[inline(always)]
    fn hazard(&self, x: f64) -> f64 {
        self.point(x).hazard()
    }

    /// Gives the probability of ∞ itself, or of the finite numbers.
    #[inline(always)]
    fn probability_at_infinity(&self, of_upper: bool) -> f64 {
        if of_upper { 0.0 } else { 1.0 }
    }

    /// Gives the logarithm of that.
    #[inline(always)]
    fn ln_probability_at_infinity(&self, of_upper: bool) -> f64 {
        if of_upper { f64::NEG_INFINITY } else { 0.0 }
    }

    /// Gives quantiles, each with the bits that it has alone.
    fn quantiles<const N: usize>(&self, ps: &[f64; N], asked: Asked) -> [f64; N] {
        solve(self, ps, asked).map(|quantile| quantile.x)
    }

    /// Gives what to solve for a probability of the upper tail or of the lower one.
    #[inline(always)]
    fn target(&self, p: f64, is_upper: bool) -> Target {
        Target::of_probability(p, is_upper)
    }

    /// Gives what to solve for the logarithm of such a probability.
    #[inline(always)]
    fn ln_target(&self, ln_p: f64, is_upper: bool) -> Target {
        Target::of_ln_probability(ln_p, is_upper)
    }
}

macro_rules! lanes {
    ($($name:ident: |$law:ident, $x:ident| $inside:expr, at low $zero:expr, at infinity $infinity:expr;)+) => {$(
        #[derive(Clone, Copy)]
        pub(crate) struct $name<L>(pub(crate) L);

        impl<L: Law> Lane for $name<L> {
            #[inline(always)]
            fn at(&self, x: f64) -> f64 {
                let $law = &self.0;
                let $x = if x > $law.low() && x <= f64::MAX { x } else { $law.inside() };
                let inside = $inside;
                let value = if x <= $law.low() { $zero } else { inside };
                let value = if x == f64::INFINITY { $infinity } else { value };
                if x.is_nan() { x } else { value }
            }
        }
    )+};
}

lanes! {
    Pdf: |law, x| law.density(x), at low 0.0, at infinity 0.0;
    LnPdf: |law, x| law.ln_density(x), at low f64::NEG_INFINITY, at infinity f64::NEG_INFINITY;
    Cdf: |law, x| law.probability(x, false), at low 0.0, at infinity law.probability_at_infinity(false);
    Sf: |law, x| law.probability(x, true), at low 1.0, at infinity law.probability_at_infinity(true);
    LnCdf: |law, x| law.ln_probability(x, false),
        at low f64::NEG_INFINITY, at infinity law.ln_probability_at_infinity(false);
    LnSf: |law, x| law.ln_probability(x, true), at low 0.0, at infinity law.ln_probability_at_infinity(true);
    Hazard: |law, x| law.hazard(x), at low 0.0, at infinity law.hazard_at_infinity();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{InverseGaussian, lanes};

    #[test]
    fn bits_do_not_depend_on_the_instructions_that_the_cpu_has() {
        // Called here, a lane is compiled for the least CPU of the target, whose fused multiplications are calls.
        fn check(name: &str, lane: impl Lane, x: f64) {
            let (plain, dispatched) = (lane.at(x), lanes::one(lane, x));
            assert_eq!(plain.to_bits(), dispatched.to_bits(), "{name} at {x}");
        }
        for phi in [1e-12, 1e-3, 0.5, 1e3, 1e7] {
            let law = InverseGaussian::new(1.0, 1.0 / phi).expect("a law");
            for x in (-40..=40).map(|i| (f64::from(i) / 10.0).exp()) {
                check("pdf", Pdf(law), x);
                check("ln_pdf", LnPdf(law), x);
                check("cdf", Cdf(law), x);
                check("sf", Sf(law), x);
                check("ln_cdf", LnCdf(law), x);
                check("ln_sf", LnSf(law), x);
                check("hazard", Hazard(law), x);
            }
        }
    }
}
