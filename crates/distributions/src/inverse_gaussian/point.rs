//! What every function of the law shares at one `x`, and the tails.
//!
//! Role: the mathematics of `pdf`, `cdf`, `sf`, their logarithms and the hazard, once, for single numbers and for lanes.
//! Method: with `s = sqrt(λ/x)`, the signed root `w = s (x - μ)/μ`, `v = s (x + μ)/μ` and `E = w²/2`, the identity
//! `v² - w² = 4 λ/μ` turns both tails into `exp(-E)` times something tame:
//! `cdf = exp(-E) (erfcx(-w/√2) + erfcx(v/√2)) / 2` and `sf = exp(-E) (erfcx(w/√2) - erfcx(v/√2)) / 2`, so nothing of the
//! size of `exp(2 λ/μ)` is ever formed. Two things would still lose digits. An error of `E` is a relative error of the
//! tail, so `E` is computed in two parts from `x - μ`, which is exact near the mean. And the difference of `erfcx`
//! cancels where `v` is near `w`, far right of a small mean; `special::erfcx::slope` computes it without.
//! Which form holds is decided by `w`: the tail that is computed is never above 0.76, the other is 1 minus it.
//! Source: the identity: Giner and Smyth 2016, "statmod: Probability calculations for the inverse Gaussian distribution",
//! where it serves logarithms; scaled by `erfcx` and the rest: our derivation.

use super::InverseGaussian;
use crate::special::elementary::{Scaled, binade, exp, ln_1p, ln_parts, two_sum};
use crate::special::erfcx::{erfcx, slope};
use std::f64::consts::FRAC_1_SQRT_2;

/// `1 / sqrt(2π)`.
const INV_SQRT_2PI: f64 = 0.398_942_280_401_432_7;
/// `1 / sqrt(π)`.
const INV_SQRT_PI: f64 = 0.564_189_583_547_756_3;
/// Right of this `w/√2` the upper tail is computed: in the limit of large means, here is the median.
const UPPER_FROM: f64 = -0.47;

/// The exponent and the scaled roots at one `x`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    x: f64,
    /// `sqrt(λ/x)`.
    s: f64,
    /// `w/√2`.
    a: f64,
    /// `v/√2`.
    b: f64,
    exponent: Exponent,
}

/// `E` as a sum.
#[derive(Clone, Copy, Debug)]
struct Exponent {
    high: f64,
    low: f64,
}

/// A tail of the law: its probability is `exp(-E) * factor`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tail {
    pub(super) is_upper: bool,
    factor: f64,
    /// What of the factor is left without `s`, where it is the upper tail.
    slope: f64,
    exponent: Exponent,
}

impl Point {
    /// Gives the point of `0 < x < ∞`.
    #[inline(always)]
    pub(super) fn of(law: &InverseGaussian, x: f64) -> Self {
        let InverseGaussian { mean, shape } = *law;
        let (d, d_low) = two_sum(x, -mean);
        // q + q_low = (x - μ)/μ and g + g_low = λ/x.
        let q = d / mean;
        let q_low = ((-q).mul_add(mean, d) + d_low) / mean;
        // An infinite quotient would be infinity times 0 at the mean.
        let g = (shape / x).min(f64::MAX);
        let g_low = (-g).mul_add(x, shape) / x;
        // 2 E = (q g) q: in this order nothing leaves f64's range unless E does.
        let (m, m_low) = product([q, q_low], [g, g_low]);
        let (e, e_low) = product([m, m_low], [q, q_low]);
        // Far outside the plane of parameters that is promised, factors may be 0 and infinite: there E is infinite, or its
        // second part none.
        let is_tame = e <= f64::MAX;
        let exponent = Exponent {
            high: if is_tame { 0.5 * e } else { f64::INFINITY },
            low: if is_tame && e_low.abs() <= e {
                0.5 * e_low
            } else {
                0.0
            },
        };
        Self {
            x,
            s: g.sqrt(),
            a: exponent.high.sqrt().copysign(d),
            b: (exponent.high + 2.0 * (shape / mean)).sqrt(),
            exponent,
        }
    }

    /// Gives `v/√2`.
    #[inline(always)]
    pub(super) fn b(&self) -> f64 {
        self.b
    }

    /// Gives the tail that is small here, or at most 0.76.
    #[inline(always)]
    pub(super) fn tail(&self) -> Tail {
        let is_upper = self.a > UPPER_FROM;
        // Both forms are computed, the one that does not hold at a root where it is defined.
        let mirrored = if is_upper { 0.0 } else { -self.a };
        let root = if is_upper { self.a } else { 0.0 };
        let lower = 0.5 * (erfcx(mirrored) + erfcx(self.b));
        // The difference is the slope times b - a, which is √2 s.
        let slope = slope(root, self.b);
        let upper = FRAC_1_SQRT_2 * self.s * slope;
        Tail {
            is_upper,
            factor: if is_upper { upper } else { lower },
            slope,
            exponent: self.exponent,
        }
    }

    /// Gives the density.
    #[inline(always)]
    pub(super) fn density(&self) -> f64 {
        let decay = self.exponent.decay();
        // Each factor takes its half of the scale, since s/x alone may overflow where the density does not.
        let [first, second] = decay.scales;
        (INV_SQRT_2PI * decay.significand) * (self.s * first) * (second / self.x)
    }

    /// Gives the logarithm of the density.
    #[inline(always)]
    pub(super) fn ln_density(&self) -> f64 {
        let (significand, exponent) = binade(self.x);
        ln_parts(INV_SQRT_2PI * self.s / significand)
            .shifted(-exponent)
            .plus(-self.exponent.high, -self.exponent.low)
    }

    /// Gives the density divided by the probability of the upper tail.
    #[inline(always)]
    pub(super) fn hazard(&self) -> f64 {
        let tail = self.tail();
        if tail.is_upper {
            // Where s is 0 nothing but the slope is left of both.
            INV_SQRT_PI / tail.slope / self.x
        } else {
            self.density() / (1.0 - tail.value())
        }
    }

    /// Gives the density times `x`, divided by the probability of a side.
    ///
    /// No exponential is left where that side is the computed tail.
    #[inline(always)]
    pub(super) fn rate(&self, tail: &Tail, of_upper: bool) -> f64 {
        let flow = INV_SQRT_2PI * self.s;
        if tail.is_upper == of_upper {
            flow / tail.factor
        } else {
            self.exponent.decay().times(flow) / (1.0 - tail.value())
        }
    }

    /// Gives the first and second derivative of `ln(x f(x))` by `ln x`, `-1/2 - w v/2` and `-(w² + v²)/4`.
    #[inline(always)]
    pub(super) fn ln_rate_slopes(&self) -> (f64, f64) {
        let Self { a, b, .. } = *self;
        (-0.5 - a * b, -0.5 * (a * a + b * b))
    }
}

impl Exponent {
    /// Gives `exp(-E)`.
    #[inline(always)]
    fn decay(self) -> Scaled {
        exp(-self.high, -self.low)
    }
}

impl Tail {
    /// Gives the probability of this tail.
    #[inline(always)]
    pub(super) fn value(&self) -> f64 {
        self.exponent.decay().times(self.factor)
    }

    /// Gives the probability of the upper tail, or of the lower one.
    #[inline(always)]
    pub(super) fn probability(&self, of_upper: bool) -> f64 {
        if self.is_upper == of_upper {
            self.value()
        } else {
            1.0 - self.value()
        }
    }

    /// Gives the logarithm of that.
    #[inline(always)]
    pub(super) fn ln_probability(&self, of_upper: bool) -> f64 {
        if self.is_upper == of_upper {
            ln_parts(self.factor).plus(-self.exponent.high, -self.exponent.low)
        } else {
            ln_1p(-self.value())
        }
    }
}

/// Gives the product of two numbers in two parts each, to about twice f64's digits.
#[inline(always)]
fn product([a, a_low]: [f64; 2], [b, b_low]: [f64; 2]) -> (f64, f64) {
    let high = a * b;
    (high, a.mul_add(b, -high) + (a * b_low + a_low * b))
}
