//! What every function of a law shares at one `x`, and the tails.
//!
//! Role: the mathematics of `pdf`, `cdf`, `sf`, their logarithms and the hazard, once, for single numbers and for lanes,
//! for the inverse Gaussian and its relatives: a law says what `(x - μ)/μ` and `λ/x` are, the rest is here. A law of
//! reciprocals has the same points with the tails exchanged, since `x f(x)` is the same for both.
//! Method: with `s = sqrt(λ/x)`, the signed root `w = s (x - μ)/μ`, `v = s (x + μ)/μ` and `E = w²/2`, the identity
//! `v² - w² = 4 λ/μ` turns both tails into `exp(-E)` times something tame:
//! `cdf = exp(-E) (erfcx(-w/√2) + erfcx(v/√2)) / 2` and `sf = exp(-E) (erfcx(w/√2) - erfcx(v/√2)) / 2`, so nothing of the
//! size of `exp(2 λ/μ)` is ever formed. Two things would still lose digits. An error of `E` is a relative error of the
//! tail, so `E` is computed in two parts from `x - μ`, which is exact near the mean. And the difference of `erfcx`
//! cancels where `v` is near `w`, far right of a small mean; `special::erfcx::slope` computes it without.
//! The form of the smaller tail is taken, as far as the roots tell, and the other is 1 minus it.
//! Source: the identity: Giner and Smyth 2016, "statmod: Probability calculations for the inverse Gaussian distribution",
//! where it serves logarithms; scaled by `erfcx` and the rest: our derivation.

use crate::special::elementary::{Scaled, binade, exp, ln_1p, ln_parts, two_sum};
use crate::special::erfcx::{erfcx, slope};
use std::f64::consts::FRAC_1_SQRT_2;

/// `1 / sqrt(2π)`.
pub(crate) const INV_SQRT_2PI: f64 = 0.398_942_280_401_432_7;
/// `1 / sqrt(π)`.
const INV_SQRT_PI: f64 = 0.564_189_583_547_756_3;
/// The root of the largest f64.
const LARGEST_ROOT: f64 = 1.340_780_792_994_259_6e154;
/// Right of `a (b + MEDIAN_SHIFT) = MEDIAN_AREA` the upper tail is computed. That is near the median for all laws, from `a = 0`
/// for small `μ/λ` to `a = -b = -0.477` for large: so the computed tail is at most about 1/2, and 1 minus it and its
/// logarithm do not magnify its error.
const MEDIAN_SHIFT: f64 = 0.571;
const MEDIAN_AREA: f64 = -0.5;

/// The exponent and the scaled roots at one `x`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    x: f64,
    /// `sqrt(λ/x)`.
    s: f64,
    /// `w/√2`.
    a: f64,
    /// `v/√2`.
    b: f64,
    exponent: Exponent,
    /// Whether the law is that of a reciprocal, so that the roots fall where `x` grows.
    is_reciprocal: bool,
}

/// What the roots of a point are made of, each ratio in two parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ratios {
    /// `(x - μ)/μ`, at least -1.
    pub(crate) offset: [f64; 2],
    /// `λ/x`.
    pub(crate) decay: [f64; 2],
    /// `2 λ/μ`.
    pub(crate) gap: f64,
}

/// The negative logarithm of a factor of a probability, as a sum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Exponent {
    pub(crate) high: f64,
    pub(crate) low: f64,
}

/// A tail of the law: its probability is `exp(-E) * factor`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tail {
    pub(crate) is_upper: bool,
    factor: f64,
    /// What of the factor is left without `s`, where it is the right tail.
    slope: f64,
    exponent: Exponent,
}

impl Point {
    /// Gives the point of an inverse Gaussian at `0 < x < ∞`.
    #[inline(always)]
    pub(crate) fn of(x: f64, ratios: Ratios) -> Self {
        let Ratios {
            offset,
            decay: [g, g_low],
            gap,
        } = ratios;
        // An infinite quotient would be infinity times 0 at the mean.
        let g = g.min(f64::MAX);
        // 2 E = (q g) q: in this order nothing leaves f64's range unless E does.
        let [e, e_low] = product(product(offset, [g, g_low]), offset);
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
            a: exponent.high.sqrt().copysign(offset[0]),
            b: (exponent.high + gap).sqrt(),
            exponent,
            is_reciprocal: false,
        }
    }

    /// Gives the point at `x` of the law of `1/X`, from the ratios of `X` at `1/x`.
    #[inline(always)]
    pub(crate) fn of_reciprocal(x: f64, ratios: Ratios) -> Self {
        Self {
            is_reciprocal: true,
            ..Self::of(x, ratios)
        }
    }

    /// Gives the point of a law whose densities and tails are smaller by a factor.
    #[inline(always)]
    pub(crate) fn thinned(self, by: Exponent) -> Self {
        Self {
            exponent: self.exponent.plus(by),
            ..self
        }
    }

    /// Gives the point with another `sqrt(λ/x)`, for laws at which the quotient may underflow where its root does not.
    #[inline(always)]
    pub(crate) fn rooted(self, s: f64) -> Self {
        // As the root of a quotient that is capped.
        Self {
            s: s.min(LARGEST_ROOT),
            ..self
        }
    }

    /// Gives `v/√2`.
    #[inline(always)]
    pub(crate) fn b(&self) -> f64 {
        self.b
    }

    /// Gives the tail that is small here, or about 1/2 at most.
    #[inline(always)]
    pub(crate) fn tail(&self) -> Tail {
        let is_right = self.a * (self.b + MEDIAN_SHIFT) > MEDIAN_AREA;
        // Both forms are computed, the one that does not hold at a root where it is defined.
        let mirrored = if is_right { 0.0 } else { -self.a };
        let root = if is_right { self.a } else { 0.0 };
        let lower = 0.5 * (erfcx(mirrored) + erfcx(self.b));
        // The difference is the slope times b - a, which is √2 s.
        let slope = slope(root, self.b);
        let upper = FRAC_1_SQRT_2 * self.s * slope;
        Tail {
            is_upper: is_right != self.is_reciprocal,
            factor: if is_right { upper } else { lower },
            slope,
            exponent: self.exponent,
        }
    }

    /// Gives the density.
    #[inline(always)]
    pub(crate) fn density(&self) -> f64 {
        let decay = self.exponent.decay();
        // Each factor takes its half of the scale, since s/x alone may overflow where the density does not.
        let [first, second] = decay.scales;
        (INV_SQRT_2PI * decay.significand) * (self.s * first) * (second / self.x).min(f64::MAX)
    }

    /// Gives the logarithm of the density.
    #[inline(always)]
    pub(crate) fn ln_density(&self) -> f64 {
        let (significand, exponent) = binade(self.x);
        ln_parts(INV_SQRT_2PI * self.s / significand)
            .shifted(-exponent)
            .plus(-self.exponent.high, -self.exponent.low)
    }

    /// Gives the density divided by the probability of the upper tail.
    #[inline(always)]
    pub(crate) fn hazard(&self) -> f64 {
        let tail = self.tail();
        if tail.is_upper {
            let rate = if self.is_reciprocal {
                self.rate(&tail, true)
            } else {
                // Where s is 0 nothing but the slope is left of both.
                INV_SQRT_PI / tail.slope
            };
            rate / self.x
        } else {
            self.density() / (1.0 - tail.value())
        }
    }

    /// Gives the density times `x`, divided by the probability of a side.
    ///
    /// No exponential is left where that side is the computed tail.
    #[inline(always)]
    pub(crate) fn rate(&self, tail: &Tail, of_upper: bool) -> f64 {
        let flow = INV_SQRT_2PI * self.s;
        if tail.is_upper == of_upper {
            flow / tail.factor
        } else {
            self.exponent.decay().times(flow) / (1.0 - tail.value())
        }
    }

    /// Gives the first and second derivative of `ln(x f(x))` by `ln x`, `-1/2 - w v/2` and `-(w² + v²)/4`; the first of
    /// a reciprocal is its negative.
    #[inline(always)]
    pub(crate) fn ln_rate_slopes(&self) -> (f64, f64) {
        let Self { a, b, .. } = *self;
        let slope = -0.5 - a * b;
        let curvature = -0.5 * (a * a + b * b);
        if self.is_reciprocal {
            (-slope, curvature)
        } else {
            (slope, curvature)
        }
    }
}

impl Exponent {
    /// Gives `exp(-E)`.
    #[inline(always)]
    pub(crate) fn decay(self) -> Scaled {
        exp(-self.high, -self.low)
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        let (high, error) = two_sum(self.high, other.high);
        // An infinite sum has no error to speak of, and its formula gives NaN.
        let low = if high <= f64::MAX {
            error + (self.low + other.low)
        } else {
            0.0
        };
        Self { high, low }
    }
}

impl Tail {
    /// Gives the probability of this tail.
    #[inline(always)]
    pub(crate) fn value(&self) -> f64 {
        self.exponent.decay().times(self.factor)
    }

    /// Gives the probability of the upper tail, or of the lower one.
    #[inline(always)]
    pub(crate) fn probability(&self, of_upper: bool) -> f64 {
        if self.is_upper == of_upper {
            self.value()
        } else {
            1.0 - self.value()
        }
    }

    /// Gives the logarithm of that.
    #[inline(always)]
    pub(crate) fn ln_probability(&self, of_upper: bool) -> f64 {
        if self.is_upper == of_upper {
            ln_parts(self.factor).plus(-self.exponent.high, -self.exponent.low)
        } else {
            ln_1p(-self.value())
        }
    }
}

/// Gives the product of two numbers in two parts each, to about twice f64's digits.
#[inline(always)]
pub(crate) fn product([a, a_low]: [f64; 2], [b, b_low]: [f64; 2]) -> [f64; 2] {
    let high = a * b;
    [high, a.mul_add(b, -high) + (a * b_low + a_low * b)]
}

/// Gives the quotient of a number in two parts by a number, to about twice f64's digits.
#[inline(always)]
pub(crate) fn quotient([a, a_low]: [f64; 2], b: f64) -> [f64; 2] {
    let high = a / b;
    [high, ((-high).mul_add(b, a) + a_low) / b]
}
