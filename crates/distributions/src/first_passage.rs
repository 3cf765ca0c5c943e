//! The time at which a Brownian motion with drift first reaches a level.
//!
//! Role: the inverse Gaussian distribution in terms of the parameters of the motion, extended to
//! drifts of 0 and away from the level.
//! Method: given that the level is reached, the time has the distribution for the drift `|ν|`: an
//! inverse Gaussian with mean `A/|ν|` and shape `A²/σ²`, or a Lévy distribution for `ν = 0`. The
//! ratios of a point are computed in two parts from level, drift and volatility, so no rounded mean
//! or shape affects the result. For a drift away from the level, density and tails are multiplied
//! by the hitting probability `exp(2νA/σ²)`. Its exponent is added to the exponents of density and
//! tails before the exponential is computed, so that no factor underflows on its own.
//! Source: Chhikara and Folks 1989, "The inverse Gaussian distribution: theory, methodology and
//! applications", 11.

use crate::distribution::quantile_solver::{QuantileArgument, Target, solve};
use crate::distribution::{Distribution, functions, moments, quantiles, traits};
use crate::error::{self, Error};
use crate::point::{Evaluation, Exponent, Point, Ratios, product, quotient};
use crate::special::elementary::{exp, ln_1p, ln_parts, two_sum};
use crate::special::wide::Wide;
use crate::{InverseGaussian, Levy};
use rand::{Rng, RngExt};
use std::f64::consts::LN_2;

/// The name of the distribution in errors.
const NAME: &str = "first passage";

/// The distribution of the time `T` at which a Brownian motion with drift `ν` and volatility `σ`
/// first reaches a level `A > 0`.
///
/// The motion is `ν t + σ W(t)` and starts at 0. Density `f(t) = A / (σ sqrt(2π t³)) exp(-(A - νt)²
/// / (2σ² t))`. Distribution function `F(t) = Φ((νt - A)/(σ√t)) + exp(2νA/σ²) Φ(-(νt + A)/(σ√t))`,
/// computed like that of [`InverseGaussian`] and multiplied by the hitting probability.
///
/// For `ν < 0` the distribution is defective: the level is reached only with the hitting
/// probability `exp(2νA/σ²)`, and otherwise `T` is ∞. In this case `cdf` tends to the hitting
/// probability, and `inverse_cdf` returns ∞ for larger probabilities.
///
/// Every function is as accurate as the corresponding function of [`InverseGaussian`], relative to
/// the exact distribution for the given parameters, even if `P(T < ∞)` or `P(T = ∞)` is small. A
/// `P(T = ∞)` below the smallest normal f64 counts as 0.
///
/// # Examples
/// ```
/// use distributions::FirstPassage;
///
/// let away = FirstPassage::new(3.0, -1.0, 2.0)?;
/// assert!((away.hitting_probability() / (-1.5_f64).exp() - 1.0).abs() < 1e-15);
/// assert_eq!(away.cdf(f64::INFINITY), away.hitting_probability());
/// assert_eq!(away.inverse_cdf(0.5), f64::INFINITY);
/// // Given that the level is reached, the time has the distribution for the opposite drift.
/// let towards = FirstPassage::new(3.0, 1.0, 2.0)?;
/// assert_eq!(away.given_hit(), towards);
/// assert_eq!(towards.mean(), 3.0);
/// # Ok::<(), distributions::Error>(())
/// ```
///
/// # Source
/// Chhikara and Folks 1989, "The inverse Gaussian distribution: theory, methodology and
/// applications", 11.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Parameters", into = "Parameters"))]
pub struct FirstPassage {
    level: f64,
    drift: f64,
    volatility: f64,
    /// `A/σ` in two parts, the second of which is the rounding error of the first.
    distance: [f64; 2],
    /// `2|ν|A/σ²`.
    gap: f64,
    /// `-ln P(T < ∞)`; 0 unless the drift is negative.
    thinning: Exponent,
    /// `P(T = ∞)`; 0 if it is below the smallest normal number.
    never: f64,
}

/// The parameters, before validation.
#[cfg(feature = "serde")]
#[derive(serde::Serialize, serde::Deserialize)]
struct Parameters {
    level: f64,
    drift: f64,
    volatility: f64,
}

#[cfg(feature = "serde")]
impl TryFrom<Parameters> for FirstPassage {
    type Error = Error;

    fn try_from(parameters: Parameters) -> Result<Self, Error> {
        Self::new(parameters.level, parameters.drift, parameters.volatility)
    }
}

#[cfg(feature = "serde")]
impl From<FirstPassage> for Parameters {
    fn from(distribution: FirstPassage) -> Self {
        Self {
            level: distribution.level,
            drift: distribution.drift,
            volatility: distribution.volatility,
        }
    }
}

impl FirstPassage {
    /// Creates the distribution from a level `A`, a drift `ν` and a volatility `σ`.
    ///
    /// # Errors
    /// [`Error::ParameterInvalid`]: the level or the volatility is not positive and finite, or the
    /// drift is not finite.
    pub fn new(level: f64, drift: f64, volatility: f64) -> Result<Self, Error> {
        let level = error::positive(NAME, "level", level)?;
        let drift = error::finite(NAME, "drift", drift)?;
        let volatility = error::positive(NAME, "volatility", volatility)?;
        let distance = quotient([level, 0.0], volatility);
        let speed = quotient([2.0 * drift.abs(), 0.0], volatility);
        // Without drift the gap is 0 even if the distance overflows.
        let [gap, gap_low] = if drift == 0.0 {
            [0.0, 0.0]
        } else {
            product(speed, distance)
        };
        // For an infinite product the formula of the low part yields NaN.
        let gap_low = if gap <= f64::MAX { gap_low } else { 0.0 };
        let is_away = drift < 0.0;
        // P(T = ∞) = 1 - exp(-(gap + gap_low)), to first order in gap_low.
        let never = gap_low.mul_add((-gap).exp(), -(-gap).exp_m1());
        Ok(Self {
            level,
            drift,
            volatility,
            distance,
            gap,
            thinning: Exponent {
                high: if is_away { gap } else { 0.0 },
                low: if is_away { gap_low } else { 0.0 },
            },
            never: if is_away && never >= f64::MIN_POSITIVE {
                never
            } else {
                0.0
            },
        })
    }

    /// Returns the level `A`.
    #[must_use]
    pub fn level(&self) -> f64 {
        self.level
    }

    /// Returns the drift `ν`.
    #[must_use]
    pub fn drift(&self) -> f64 {
        self.drift
    }

    /// Returns the volatility `σ`.
    #[must_use]
    pub fn volatility(&self) -> f64 {
        self.volatility
    }

    /// Returns the probability that the level is ever reached: `exp(2νA/σ²)` for `ν < 0`, otherwise
    /// 1.
    #[must_use]
    pub fn hitting_probability(&self) -> f64 {
        self.thinning.decay().value()
    }

    /// Returns the logarithm of the hitting probability, which is finite even if the probability
    /// underflows.
    #[must_use]
    pub fn ln_hitting_probability(&self) -> f64 {
        // Not `-high`, which would be -0 for a hitting probability of 1.
        0.0 - self.thinning.high
    }

    /// Returns the distribution of the time given that the level is reached. The result has drift
    /// `|ν|`.
    #[must_use]
    pub fn given_hit(&self) -> Self {
        Self {
            drift: self.drift.abs(),
            thinning: Exponent {
                high: 0.0,
                low: 0.0,
            },
            never: 0.0,
            ..*self
        }
    }

    /// Returns the mean: `A/ν`, rounded once, for `ν > 0`, otherwise ∞.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.drift > 0.0 {
            self.level / self.drift
        } else {
            f64::INFINITY
        }
    }

    /// Returns the variance: `Aσ²/ν³` for `ν > 0`, otherwise ∞.
    ///
    /// Accuracy: 4 epsilons.
    #[must_use]
    pub fn variance(&self) -> f64 {
        self.wide_variance().map_or(f64::INFINITY, Wide::value)
    }

    /// Returns the standard deviation: `sqrt(Aσ²/ν³)` for `ν > 0`, otherwise ∞.
    ///
    /// Accuracy: 4 epsilons.
    #[must_use]
    pub fn std_dev(&self) -> f64 {
        let variance = self.wide_variance();
        variance.map_or(f64::INFINITY, |variance| variance.sqrt().value())
    }

    /// Returns the variance if it is finite. Its factors may be outside of f64's range although the
    /// variance or its root is inside.
    fn wide_variance(&self) -> Option<Wide> {
        if self.drift <= 0.0 {
            return None;
        }
        let [level, drift, volatility] = [self.level, self.drift, self.volatility].map(Wide::new);
        let spread = volatility.over(drift);
        Some(level.over(drift).times(spread).times(spread))
    }

    /// Returns the mode of the density, `A / (q + sqrt(q² + ν²))` with `q = 3σ²/(2A)`. It does not
    /// depend on the sign of the drift.
    ///
    /// Accuracy: 6 epsilons.
    #[must_use]
    pub fn mode(&self) -> f64 {
        let level = Wide::new(self.level);
        let volatility = Wide::new(self.volatility);
        let speed = Wide::new(self.drift.abs());
        let q = Wide::new(1.5)
            .times(volatility)
            .times(volatility)
            .over(level);
        let root = q.times(q).plus(speed.times(speed)).sqrt();
        level.over(q.plus(root)).value()
    }

    /// Returns the median, which is ∞ if the hitting probability is 1/2 or less.
    #[must_use]
    pub fn median(&self) -> f64 {
        self.inverse_cdf(0.5)
    }

    /// Draws a time: a positive number, or ∞ if the level is never reached.
    ///
    /// Cost: one draw of the inverse Gaussian or Lévy distribution, and one uniform number if
    /// `P(T = ∞)` is positive.
    #[must_use]
    pub fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        if self.never > 0.0 && rng.random::<f64>() < self.never {
            return f64::INFINITY;
        }
        let shape = self.scale().clamp(f64::MIN_POSITIVE, f64::MAX);
        let mean = self.level / self.drift.abs();
        if mean == 0.0 {
            // The mean underflows. By Markov's inequality, a time is above the smallest normal
            // number with a probability below an epsilon.
            f64::MIN_POSITIVE
        } else if mean.is_finite() {
            InverseGaussian::new_unchecked(mean, shape).sample(rng)
        } else {
            // The drift is 0, or so small that the mean overflows.
            Levy::new_unchecked(shape).sample(rng)
        }
    }

    /// Returns `A²/σ²`, the shape or scale of the distribution given that the level is reached.
    #[inline(always)]
    fn scale(&self) -> f64 {
        self.distance[0] * self.distance[0]
    }

    /// Converts a probability of reaching the level into the probability given that the level is
    /// reached, by dividing it by the hitting probability.
    #[inline(always)]
    fn share(&self, p: f64) -> f64 {
        let Exponent { high, low } = self.thinning;
        exp(high, low).times(p).clamp(0.0, 1.0)
    }
}

impl Distribution for FirstPassage {
    type Point = Point;

    /// Returns the point of the distribution given that the level is reached.
    #[inline(always)]
    fn point(&self, t: f64) -> Point {
        let [way, way_low] = product([self.drift.abs(), 0.0], [t, 0.0]);
        let (d, d_low) = two_sum(way, -self.level);
        // Near the mean the difference is as small as `way_low`, so renormalize the sum of both.
        let (d, d_low) = two_sum(d, d_low + way_low);
        let ratios = Ratios {
            offset: quotient([d, d_low], self.level),
            // A²/(σ² t): in this order no intermediate result overflows or underflows unless the
            // ratio does.
            decay: product(quotient(self.distance, t), self.distance),
            gap: self.gap,
        };
        // The ratio may underflow although its root does not.
        Point::new(t, ratios).with_root(self.distance[0] / t.sqrt())
    }

    #[inline(always)]
    fn inside(&self) -> f64 {
        self.scale()
    }

    #[inline(always)]
    fn hazard_at_high(&self) -> f64 {
        let speed = self.drift / self.volatility;
        if self.drift > 0.0 {
            0.5 * speed * speed
        } else {
            0.0
        }
    }

    #[inline(always)]
    fn start(&self, target: Target) -> f64 {
        let shape = self.scale();
        // A drift towards the level shortens the time, so the quantile for drift 0 is an upper
        // bound. For a drift of 0 it is the guess itself.
        let latest = Levy::new_unchecked(shape).start(target);
        InverseGaussian::new_unchecked(self.level / self.drift.abs(), shape)
            .start(target)
            .min(latest)
    }

    fn quantiles<const N: usize>(&self, ps: &[f64; N], argument: QuantileArgument) -> [f64; N] {
        solve(self, ps, argument).map(|quantile| quantile.x)
    }

    #[inline(always)]
    fn density(&self, t: f64) -> f64 {
        self.point(t).scaled_by_exp(self.thinning).density()
    }

    #[inline(always)]
    fn ln_density(&self, t: f64) -> f64 {
        self.point(t).scaled_by_exp(self.thinning).ln_density()
    }

    #[inline(always)]
    fn probability(&self, t: f64, of_upper: bool) -> f64 {
        // With h the hitting probability: P(T <= t) = h P(T <= t | hit), and P(T > t) is P(T = ∞) +
        // h P(T > t | hit). Only the smaller conditional tail is computed; `tail` is this tail
        // times h, and the other tail follows from 1 minus it.
        let point = self.point(t);
        let (given_hit, tail) = (point.tail(), point.scaled_by_exp(self.thinning).tail());
        let reached = if tail.is_upper {
            self.thinning.decay().times(1.0 - given_hit.value())
        } else {
            tail.value()
        };
        let not_yet = if tail.is_upper {
            self.never + tail.value()
        } else {
            1.0 - tail.value()
        };
        if of_upper { not_yet } else { reached }
    }

    #[inline(always)]
    fn ln_probability(&self, t: f64, of_upper: bool) -> f64 {
        let point = self.point(t);
        let (given_hit, tail) = (point.tail(), point.scaled_by_exp(self.thinning).tail());
        if !of_upper {
            return if tail.is_upper {
                given_hit.ln_probability(false) - self.thinning.high
            } else {
                tail.ln_probability(false)
            };
        }
        // If P(T > t) is above 1/2, `ln_1p` of the small P(T <= t) has the smaller error.
        let reached = self.probability(t, false);
        let not_yet = self.probability(t, true);
        let with_never = if reached < 0.5 {
            ln_1p(-reached)
        } else {
            ln_parts(not_yet).plus(0.0, 0.0)
        };
        if self.never > 0.0 {
            with_never
        } else {
            given_hit.ln_probability(true)
        }
    }

    #[inline(always)]
    fn hazard(&self, t: f64) -> f64 {
        let with_never = self.density(t) / self.probability(t, true);
        if self.never > 0.0 {
            with_never
        } else {
            self.point(t).hazard()
        }
    }

    #[inline(always)]
    fn probability_at_high(&self, of_upper: bool) -> f64 {
        if of_upper {
            self.never
        } else {
            self.thinning.decay().value()
        }
    }

    #[inline(always)]
    fn ln_probability_at_high(&self, of_upper: bool) -> f64 {
        let never = if self.never < 0.5 {
            ln_parts(self.never).plus(0.0, 0.0)
        } else {
            ln_1p(self.never - 1.0)
        };
        match (of_upper, self.never > 0.0) {
            (false, _) => 0.0 - self.thinning.high,
            (true, false) => f64::NEG_INFINITY,
            (true, true) => never,
        }
    }

    #[inline(always)]
    fn target(&self, p: f64, is_upper: bool) -> Target {
        // P(T > t) = p has P(T = ∞) subtracted below. For p > 1/2 solve P(T <= t) = 1 - p instead,
        // where 1 - p is exact and nothing is subtracted.
        let is_turned = self.never > 0.0 && is_upper && p > 0.5;
        let (p, is_upper) = (if is_turned { 1.0 - p } else { p }, is_upper && !is_turned);
        let hit = if is_upper { p - self.never } else { p };
        Target::of_probability(self.share(hit), is_upper)
    }

    #[inline(always)]
    fn ln_target(&self, ln_p: f64, is_upper: bool) -> Target {
        if self.never == 0.0 || !is_upper {
            Target::of_ln_probability((ln_p + self.thinning.high).min(0.0), is_upper)
        } else if ln_p > -LN_2 {
            self.target(-ln_p.exp_m1(), false)
        } else {
            self.target(ln_p.exp(), true)
        }
    }
}

functions!(FirstPassage, at infinity:
    "[`Self::hitting_probability`]", "`P(T = ∞)`", "`ν²/(2σ²)` for `ν > 0`, otherwise 0,");
quantiles!(FirstPassage);
traits!(FirstPassage);

// The traits of `statrs` are implemented without skewness and entropy, because `T` can be ∞.
moments!(FirstPassage: mean variance std_dev);
