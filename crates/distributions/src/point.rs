//! The quantities at one `x` from which density, tails and hazard are computed.
//!
//! Role: contains the formulas of `pdf`, `cdf`, `sf`, their logarithms and the hazard for the
//! inverse Gaussian and its relatives, for single numbers and SIMD lanes. Each distribution
//! computes the ratios `(x - μ)/μ` and `λ/x` at its `x`; everything else is computed here. The
//! distribution of a reciprocal has the same points with exchanged tails, because `x f(x)` is the
//! same for both.
//! Method: with `s = sqrt(λ/x)`, the signed root `w = s (x - μ)/μ`, `v = s (x + μ)/μ` and `E =
//! w²/2`, the identity `v² - w² = 4 λ/μ` turns both tails into `exp(-E)` times a bounded factor:
//! `cdf = exp(-E) (erfcx(-w/√2) + erfcx(v/√2)) / 2` and `sf = exp(-E) (erfcx(w/√2) - erfcx(v/√2)) /
//! 2`, so no number of the size of `exp(2 λ/μ)` occurs. Two steps need extra precision. An absolute
//! error of `E` is a relative error of the tail, so `E` is computed in two parts from `x - μ`,
//! which is exact near the mean. The difference of `erfcx` cancels where `v` is close to `w`, far
//! to the right of a small mean; `special::erfcx::slope` computes the difference without
//! cancellation. Only the smaller tail is computed, selected by the roots; the larger tail is 1
//! minus the smaller.
//! Source: the identity: Giner and Smyth 2016, "statmod: Probability calculations for the inverse
//! Gaussian distribution", where it is used for logarithms. The scaling by `erfcx` and the other
//! steps: our derivation.

use crate::special::elementary::{Scaled, binade, exp, ln_1p, ln_parts, two_sum};
use crate::special::erfcx::{erfcx, slope};
use std::f64::consts::FRAC_1_SQRT_2;

/// `1 / sqrt(2π)`.
pub(crate) const INV_SQRT_2PI: f64 = 0.398_942_280_401_432_7;
/// `1 / sqrt(π)`.
const INV_SQRT_PI: f64 = 0.564_189_583_547_756_3;
/// The square root of the largest f64.
const LARGEST_ROOT: f64 = 1.340_780_792_994_259_6e154;
/// The shift in the test `a (b + MEDIAN_SHIFT) > MEDIAN_AREA`, which selects the right tail.
///
/// The boundary of the test is close to the median of every distribution, from `a = 0` for small
/// `μ/λ` to `a = -b = -0.477` for large `μ/λ`. The computed tail is thus at most about 1/2, and
/// neither 1 minus the tail nor its logarithm magnifies the error.
const MEDIAN_SHIFT: f64 = 0.571;
/// The limit in the same test as [`MEDIAN_SHIFT`].
const MEDIAN_AREA: f64 = -0.5;

/// The values of a distribution's functions at one `x` within the support.
///
/// Implementors mark the methods `#[inline(always)]`, like those of
/// [`Distribution`](crate::distribution::Distribution).
pub(crate) trait Evaluation {
    /// Returns the density.
    fn density(&self) -> f64;

    /// Returns the logarithm of the density.
    fn ln_density(&self) -> f64;

    /// Returns `P(X > x)` if `of_upper`, otherwise `P(X <= x)`.
    fn probability(&self, of_upper: bool) -> f64;

    /// Returns the logarithm of [`Self::probability`].
    fn ln_probability(&self, of_upper: bool) -> f64;

    /// Returns the density divided by the probability of the upper tail.
    fn hazard(&self) -> f64;
}

/// The exponent and the scaled roots at one `x`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    /// The argument of the density.
    x: f64,
    /// `sqrt(λ/x)`.
    s: f64,
    /// `w/√2`.
    a: f64,
    /// `v/√2`.
    b: f64,
    /// `E = w²/2`, the negative logarithm of the common factor of density and tails.
    exponent: Exponent,
    /// Whether the distribution is of a reciprocal, so that the roots decrease with `x`.
    is_reciprocal: bool,
}

/// The ratios from which the roots of a point are computed; `offset` and `decay` in two parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ratios {
    /// `(x - μ)/μ`, at least -1.
    pub(crate) offset: [f64; 2],
    /// `λ/x`.
    pub(crate) decay: [f64; 2],
    /// `2 λ/μ`.
    pub(crate) gap: f64,
}

/// The negative logarithm of a factor of a probability, as a sum of two numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Exponent {
    /// The rounded sum.
    pub(crate) high: f64,
    /// The remainder, about the rounding error of `high`.
    pub(crate) low: f64,
}

/// A tail of a distribution, with the probability `exp(-E) * factor`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tail {
    /// Whether the probability is `P(X > x)`; otherwise it is `P(X <= x)`.
    pub(crate) is_upper: bool,
    /// The mean of two values of `erfcx`, or half their difference.
    factor: f64,
    /// The factor divided by `s/√2`; only valid if the right tail of the inverse Gaussian was
    /// computed.
    slope: f64,
    exponent: Exponent,
}

impl Point {
    /// Creates the point of an inverse Gaussian distribution at `0 < x < ∞`.
    #[inline(always)]
    pub(crate) fn new(x: f64, ratios: Ratios) -> Self {
        let Ratios {
            offset,
            decay: [g, g_low],
            gap,
        } = ratios;
        // λ/x may overflow. At the mean it is multiplied by 0, and ∞ times 0 would be NaN.
        let g = g.min(f64::MAX);
        // 2 E = (q g) q: in this order the first product is inside f64's range if E is.
        let [e, e_low] = product(product(offset, [g, g_low]), offset);
        // Far outside the supported plane of parameters, factors can be 0 or infinite. E is then
        // set to infinity, or its second part to 0, to avoid NaN.
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
            // w has the sign of x - μ.
            a: exponent.high.sqrt().copysign(offset[0]),
            // v² = w² + 4 λ/μ, a sum of positive terms.
            b: (exponent.high + gap).sqrt(),
            exponent,
            is_reciprocal: false,
        }
    }

    /// Creates the point at `x` of the distribution of `1/X`, from the ratios of `X` at `1/x`.
    #[inline(always)]
    pub(crate) fn of_reciprocal(x: f64, ratios: Ratios) -> Self {
        Self {
            is_reciprocal: true,
            ..Self::new(x, ratios)
        }
    }

    /// Returns the point whose density and tails are those of `self` multiplied by `exp(-by)`.
    #[inline(always)]
    pub(crate) fn scaled_by_exp(self, by: Exponent) -> Self {
        Self {
            exponent: self.exponent.plus(by),
            ..self
        }
    }

    /// Returns the point with `s` as the value of `sqrt(λ/x)`, for distributions for which `λ/x`
    /// can underflow although its root does not.
    #[inline(always)]
    pub(crate) fn with_root(self, s: f64) -> Self {
        // The square root of the largest value of `λ/x` that `new` allows.
        Self {
            s: s.min(LARGEST_ROOT),
            ..self
        }
    }

    /// Returns `v/√2`.
    #[inline(always)]
    pub(crate) fn b(&self) -> f64 {
        self.b
    }

    /// Returns the smaller tail, whose probability is at most about 1/2.
    #[inline(always)]
    pub(crate) fn tail(&self) -> Tail {
        let is_right = self.a * (self.b + MEDIAN_SHIFT) > MEDIAN_AREA;
        // Both forms are computed, because a branch would prevent vectorization. The unused form is
        // evaluated at 0, where it is defined.
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

    /// Returns `x f(x) / P(X > x)` if `of_upper`, otherwise `x f(x) / P(X <= x)`.
    ///
    /// If the denominator is the computed tail, the factor `exp(-E)` of density and tail cancels
    /// and is not computed, so that the quotient is accurate even if both underflow.
    #[inline(always)]
    pub(crate) fn rate(&self, tail: &Tail, of_upper: bool) -> f64 {
        let flow = INV_SQRT_2PI * self.s;
        if tail.is_upper == of_upper {
            flow / tail.factor
        } else {
            self.exponent.decay().times(flow) / (1.0 - tail.value())
        }
    }

    /// Returns the first and the second derivative of `ln(x f(x))` with respect to `ln x`: `-1/2 -
    /// w v/2` and `-(w² + v²)/4`. For a reciprocal the first derivative has the opposite sign.
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

impl Evaluation for Point {
    #[inline(always)]
    fn density(&self) -> f64 {
        let decay = self.exponent.decay();
        // The density is exp(-E) s / (sqrt(2π) x). Each factor is multiplied by one of the two
        // scales, because s/x alone can overflow although the density does not.
        let [first, second] = decay.scales;
        (INV_SQRT_2PI * decay.significand) * (self.s * first) * (second / self.x).min(f64::MAX)
    }

    #[inline(always)]
    fn ln_density(&self) -> f64 {
        // Divide by the significand of x and subtract the exponent from the logarithm, because s/x
        // may leave f64's range.
        let (significand, exponent) = binade(self.x);
        ln_parts(INV_SQRT_2PI * self.s / significand)
            .shifted(-exponent)
            .plus(-self.exponent.high, -self.exponent.low)
    }

    #[inline(always)]
    fn probability(&self, of_upper: bool) -> f64 {
        self.tail().probability(of_upper)
    }

    #[inline(always)]
    fn ln_probability(&self, of_upper: bool) -> f64 {
        self.tail().ln_probability(of_upper)
    }

    #[inline(always)]
    fn hazard(&self) -> f64 {
        let tail = self.tail();
        if tail.is_upper {
            let rate = if self.is_reciprocal {
                self.rate(&tail, true)
            } else {
                // Density and tail are both proportional to s, which can be 0; the quotient uses
                // the slope alone.
                INV_SQRT_PI / tail.slope
            };
            rate / self.x
        } else {
            self.density() / (1.0 - tail.value())
        }
    }
}

impl Exponent {
    /// Returns `exp(-E)`.
    #[inline(always)]
    pub(crate) fn decay(self) -> Scaled {
        exp(-self.high, -self.low)
    }

    /// Returns the sum of two exponents, with the rounding error of the high parts in the low part.
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        let (high, error) = two_sum(self.high, other.high);
        // For an infinite sum the formula of the rounding error yields NaN.
        let low = if high <= f64::MAX {
            error + (self.low + other.low)
        } else {
            0.0
        };
        Self { high, low }
    }
}

impl Tail {
    /// Returns the probability of this tail.
    #[inline(always)]
    pub(crate) fn value(&self) -> f64 {
        self.exponent.decay().times(self.factor)
    }

    /// Returns `P(X > x)` if `of_upper`, otherwise `P(X <= x)`.
    #[inline(always)]
    pub(crate) fn probability(&self, of_upper: bool) -> f64 {
        if self.is_upper == of_upper {
            self.value()
        } else {
            1.0 - self.value()
        }
    }

    /// Returns the logarithm of [`Self::probability`].
    #[inline(always)]
    pub(crate) fn ln_probability(&self, of_upper: bool) -> f64 {
        if self.is_upper == of_upper {
            ln_parts(self.factor).plus(-self.exponent.high, -self.exponent.low)
        } else {
            // The computed tail is at most about 1/2, so 1 minus the tail is far from 0.
            ln_1p(-self.value())
        }
    }
}

/// Returns the product of two numbers, each in two parts, with about twice the digits of f64.
#[inline(always)]
pub(crate) fn product([a, a_low]: [f64; 2], [b, b_low]: [f64; 2]) -> [f64; 2] {
    // The fused multiply-add computes the exact rounding error of `high`.
    let high = a * b;
    [high, a.mul_add(b, -high) + (a * b_low + a_low * b)]
}

/// Returns the quotient of a number in two parts by a single number, with about twice the digits of
/// f64.
#[inline(always)]
pub(crate) fn quotient([a, a_low]: [f64; 2], b: f64) -> [f64; 2] {
    // The fused multiply-add computes the exact remainder of the division.
    let high = a / b;
    [high, ((-high).mul_add(b, a) + a_low) / b]
}
