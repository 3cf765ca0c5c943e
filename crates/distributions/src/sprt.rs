//! Wald's sequential probability ratio test of a normal mean.
//!
//! Role: decisions of the test, and its expected duration and error probabilities at any true mean.
//! Method: the logarithm of the likelihood ratio is a random walk, approximated by the Brownian
//! motion with the same drift and volatility. All formulas are exact for the Brownian motion. For
//! the random walk they neglect the overshoot of the last step over a boundary; the real test
//! therefore errs less often and takes slightly longer.
//! Accuracy: 4e-15 relative to the formulas, times 1 plus the absolute logarithm of the result; a
//! test measures it.
//! Limits: for the duration of the two-sided test only the mean and the Laplace transform are
//! available, because its distribution is an infinite series. For the one-sided tests the full
//! distribution of the duration is available, as a first passage.
//! Source: Wald 1947, "Sequential analysis".

use crate::FirstPassage;
use crate::error::{self, Error};
use std::f64::consts::SQRT_2;

/// Name of the test in error messages.
const NAME: &str = "sequential probability ratio test";
/// Product of drift and width up to which the expected time is summed as a series.
const SERIES_END: f64 = 1.0;
/// Number of terms of the series; the next term is below 1e-17 of the sum.
const SERIES_TERMS: u32 = 18;

/// The sequential test of the mean `θ0` against `θ1`, for independent normal observations with
/// known standard deviation.
///
/// The test sums [`Self::increment`] of each observation, and stops when the sum leaves the range
/// from [`Self::lower`] to [`Self::upper`].
///
/// In all methods, sample sizes are real numbers and `mean` is the true mean, independent of the
/// hypotheses. An infinite `mean` yields the limit, in which the test stops at once at the boundary
/// on that side. NaN yields NaN.
///
/// # Examples
/// ```
/// use distributions::{Decision, Sprt};
///
/// let test = Sprt::new(0.0, 0.5, 1.0, 0.05, 0.1)?;
/// assert!((test.power(0.0) - 0.05).abs() < 1e-15);
/// assert!((test.power(0.5) - 0.9).abs() < 1e-15);
/// // A test with fixed sample size and the same error probabilities takes 35 observations.
/// assert!(test.expected_sample_size(0.5) < 20.0);
///
/// let observations = [0.9, 1.2, -0.3, 1.1, 1.6, 0.8, 1.4, 0.2, 1.3, 1.0];
/// let ratio: f64 = observations.iter().map(|&x| test.increment(x)).sum();
/// assert_eq!(test.decision(ratio), Decision::AcceptAlternative);
/// # Ok::<(), distributions::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Parameters"))]
pub struct Sprt {
    null: f64,
    alternative: f64,
    std_dev: f64,
    alpha: f64,
    beta: f64,
}

/// The deserialized fields before validation.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Parameters {
    null: f64,
    alternative: f64,
    std_dev: f64,
    alpha: f64,
    beta: f64,
}

#[cfg(feature = "serde")]
impl TryFrom<Parameters> for Sprt {
    type Error = Error;

    fn try_from(given: Parameters) -> Result<Self, Error> {
        Self::new(
            given.null,
            given.alternative,
            given.std_dev,
            given.alpha,
            given.beta,
        )
    }
}

/// The decision of a sequential test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Decision {
    /// Further observations are needed for a decision.
    Continue,
    /// The null hypothesis is accepted.
    AcceptNull,
    /// The alternative hypothesis is accepted.
    AcceptAlternative,
}

impl Sprt {
    /// Creates the test of the mean `null` against `alternative`, with probability `alpha` of
    /// rejecting a true null hypothesis and probability `beta` of accepting a false null
    /// hypothesis.
    ///
    /// # Errors
    /// [`Error::ParameterInvalid`]: a mean is not finite, the standard deviation is not positive
    /// and finite, the difference of the means or its ratio to the standard deviation is 0,
    /// subnormal or infinite, or the probabilities are not positive with a sum below 1.
    pub fn new(
        null: f64,
        alternative: f64,
        std_dev: f64,
        alpha: f64,
        beta: f64,
    ) -> Result<Self, Error> {
        let that = |is_good, parameter, value, must| {
            error::parameter_that(is_good, (NAME, parameter), value, must)
        };
        error::finite(NAME, "null mean", null)?;
        error::finite(NAME, "alternative mean", alternative)?;
        error::positive(NAME, "standard deviation", std_dev)?;
        // All results are quotients by the difference of the means or by its ratio to `std_dev`, so
        // neither may be 0, subnormal or infinite.
        let difference = alternative - null;
        that(
            difference.is_normal() && (difference / std_dev).is_normal(),
            "alternative mean",
            alternative,
            "different from the null mean by a normal number of standard deviations",
        )?;
        let sum = "positive, with a sum of both error probabilities below 1";
        that(alpha > 0.0 && alpha + beta < 1.0, "alpha", alpha, sum)?;
        that(beta > 0.0 && alpha + beta < 1.0, "beta", beta, sum)?;
        Ok(Self {
            null,
            alternative,
            std_dev,
            alpha,
            beta,
        })
    }

    /// Returns the boundary at which the null hypothesis is accepted, `ln(β/(1 - α))`, below 0.
    #[must_use]
    pub fn lower(&self) -> f64 {
        self.beta.ln() - (-self.alpha).ln_1p()
    }

    /// Returns the boundary at which the alternative is accepted, `ln((1 - β)/α)`, above 0.
    #[must_use]
    pub fn upper(&self) -> f64 {
        (-self.beta).ln_1p() - self.alpha.ln()
    }

    /// Returns the logarithm of the likelihood ratio of one observation, `(θ1 - θ0)(x - (θ0 +
    /// θ1)/2)/σ²`.
    #[must_use]
    pub fn increment(&self, x: f64) -> f64 {
        self.step() * (self.tilt(x) * (0.5 * self.step()))
    }

    /// Returns the decision at a sum of increments; NaN yields [`Decision::Continue`].
    #[must_use]
    pub fn decision(&self, ratio: f64) -> Decision {
        if ratio >= self.upper() {
            Decision::AcceptAlternative
        } else if ratio <= self.lower() {
            Decision::AcceptNull
        } else {
            Decision::Continue
        }
    }

    /// Returns the drift of the sum per observation, which is the mean of an increment.
    #[must_use]
    pub fn drift(&self, mean: f64) -> f64 {
        self.increment(mean)
    }

    /// Returns the volatility of the sum, which is the standard deviation of an increment: `|θ1 -
    /// θ0|/σ`.
    #[must_use]
    pub fn volatility(&self) -> f64 {
        self.step().abs()
    }

    /// Returns the operating characteristic, the probability of accepting the null hypothesis.
    ///
    /// The formula is `(A^h - 1)/(A^h - B^h)` with the true mean `θ`, the boundaries `ln A` and `ln
    /// B`, and `h = (θ0 + θ1 - 2θ)/(θ1 - θ0)`. The result is `1 - α` at `θ0` and `β` at `θ1`.
    #[must_use]
    pub fn acceptance_probability(&self, mean: f64) -> f64 {
        self.corridor(mean).mirrored().exit()
    }

    /// Returns the probability of accepting the alternative, without cancellation where it is
    /// small. The result is `α` at `θ0` and `1 - β` at `θ1`.
    #[must_use]
    pub fn power(&self, mean: f64) -> f64 {
        self.corridor(mean).exit()
    }

    /// Returns the expected number of observations, by Wald's equation.
    ///
    /// The result is `(P(lower) ln B + P(upper) ln A)` divided by the drift; for zero drift it is
    /// `-ln A ln B` divided by the squared volatility.
    #[must_use]
    pub fn expected_sample_size(&self, mean: f64) -> f64 {
        self.corridor(mean).time() / self.step() / self.step()
    }

    /// Returns the Laplace transform `E exp(-u N)` of the number of observations `N`, for `u >= 0`.
    /// For `u = ∞` and a finite mean the result is 0; for negative `u` or NaN it is NaN.
    ///
    /// Let the boundaries be `a` and `-b`, and let `ρ` be the drift and `v` be `u`, both divided by
    /// the squared volatility. The transform is `(exp(ρ a) sinh(κ b) + exp(-ρ b) sinh(κ a)) /
    /// sinh(κ (a + b))` with `κ² = ρ² + 2v`.
    ///
    /// # Source
    /// Darling and Siegert 1953, "The first passage problem for a continuous Markov process".
    #[must_use]
    pub fn laplace_transform(&self, mean: f64, u: f64) -> f64 {
        if u >= 0.0 {
            // If the scaled `u` overflows, the transform is 0 anyway.
            let scaled = (u / self.step() / self.step()).min(f64::MAX);
            self.corridor(mean).transform(scaled)
        } else {
            f64::NAN
        }
    }

    /// Returns the distribution of the number of observations until the sum reaches the upper
    /// boundary, for a test without lower boundary, which never accepts the null hypothesis. It is
    /// an inverse Gaussian distribution if the drift is positive.
    ///
    /// # Errors
    /// [`Error::ParameterInvalid`]: the mean is not finite, or so large that the drift is not
    /// finite.
    ///
    /// # Examples
    /// ```
    /// use distributions::Sprt;
    ///
    /// let test = Sprt::new(0.0, 0.5, 1.0, 0.05, 0.1)?;
    /// // Under the null hypothesis the test may never stop. Wald's bound on the error is exact.
    /// let stop = test.passage_to_upper(0.0)?;
    /// assert!((stop.hitting_probability() - 0.05 / 0.9).abs() < 1e-15);
    /// # Ok::<(), distributions::Error>(())
    /// ```
    pub fn passage_to_upper(&self, mean: f64) -> Result<FirstPassage, Error> {
        FirstPassage::new(self.upper(), self.drift(mean), self.volatility())
    }

    /// Returns the distribution of the number of observations until the sum reaches the lower
    /// boundary, for a test without upper boundary, which never accepts the alternative.
    ///
    /// # Errors
    /// As [`Self::passage_to_upper`].
    pub fn passage_to_lower(&self, mean: f64) -> Result<FirstPassage, Error> {
        FirstPassage::new(-self.lower(), -self.drift(mean), self.volatility())
    }

    /// Returns the difference of the means in standard deviations, `(θ1 - θ0)/σ`.
    fn step(&self) -> f64 {
        (self.alternative - self.null) / self.std_dev
    }

    /// Returns twice the drift divided by the squared volatility: -1 at `θ0`, 1 at `θ1`. This is
    /// `-h` of [`Self::acceptance_probability`].
    fn tilt(&self, mean: f64) -> f64 {
        ((mean - self.null) + (mean - self.alternative)) / (self.alternative - self.null)
    }

    /// Returns the Brownian motion between the boundaries, scaled to volatility 1.
    fn corridor(&self, mean: f64) -> BoundedMotion {
        BoundedMotion {
            up: self.upper(),
            down: -self.lower(),
            tilt: self.tilt(mean),
        }
    }
}

/// A Brownian motion of volatility 1 and drift `tilt/2` that starts at 0 and stops at `up` or
/// `-down`.
#[derive(Clone, Copy, Debug)]
struct BoundedMotion {
    up: f64,
    down: f64,
    tilt: f64,
}

impl BoundedMotion {
    /// Returns the corridor with its boundaries and the sign of the drift exchanged.
    fn mirrored(self) -> Self {
        Self {
            up: self.down,
            down: self.up,
            tilt: -self.tilt,
        }
    }

    /// Returns the distance between the boundaries.
    fn width(self) -> f64 {
        self.up + self.down
    }

    /// Returns the probability of leaving at the upper boundary.
    fn exit(self) -> f64 {
        let Self { up, down, tilt } = self;
        // Exponents are at most 0, so that `exp` cannot overflow for either sign of the drift.
        let decay = -tilt.abs();
        let towards = (decay * down).exp_m1() / (decay * self.width()).exp_m1();
        if decay == 0.0 {
            down / self.width()
        } else if tilt > 0.0 {
            towards
        } else {
            (decay * up).exp() * towards
        }
    }

    /// Returns the expected time until the motion reaches a boundary.
    fn time(self) -> f64 {
        // By symmetry it suffices to treat drifts of at least 0.
        let Self { up, down, tilt } = if self.tilt < 0.0 {
            self.mirrored()
        } else {
            self
        };
        let width = up + down;
        if tilt * width <= SERIES_END {
            return 2.0 * up * down * mean_decay_slope(tilt * down, tilt * width)
                / mean_decay(tilt * width);
        }
        // Drift times expected time is up P(up) - down P(down). Starting from the smaller of the
        // two distances leaves less to cancel.
        let upwards = Self { up, down, tilt };
        let net = if up < down {
            up - width * upwards.mirrored().exit()
        } else {
            width * upwards.exit() - down
        };
        2.0 * (net / tilt)
    }

    /// Returns the expectation of `exp(-u time)`.
    fn transform(self, u: f64) -> f64 {
        self.transform_above(u) + self.mirrored().transform_above(u)
    }

    /// Returns the contribution of paths that leave at the upper boundary to the transform:
    /// `exp(tilt up/2) sinh(κ down)/sinh(κ width)`, with `κ² = tilt²/4 + 2u`.
    fn transform_above(self, u: f64) -> f64 {
        let half = 0.5 * self.tilt;
        // Take the root first, because 2u may overflow.
        let root_2u = SQRT_2 * u.sqrt();
        let root = half.hypot(root_2u);
        // Compute κ - tilt/2 without cancellation.
        let loss = if half > 0.0 {
            root_2u * (root_2u / (root + half))
        } else {
            root - half
        };
        let tilted = Self {
            tilt: 2.0 * root,
            ..self
        };
        (-loss * self.up).exp() * tilted.exit()
    }
}

/// Returns `(1 - exp(-z))/z`, the mean of `exp(-t)` over `t` from 0 to `z`; 1 for `z = 0`.
fn mean_decay(z: f64) -> f64 {
    if z == 0.0 { 1.0 } else { -(-z).exp_m1() / z }
}

/// Returns the negated divided difference of [`mean_decay`] between `y` and `z`, for `0 <= y <= z
/// <= 1`, by a power series in both.
fn mean_decay_slope(y: f64, z: f64) -> f64 {
    // Term n is ±(y^n + y^(n-1) z + … + z^n)/(n + 2)!.
    let (mut sum, mut factor, mut y_power, mut powers) = (0.5, 0.5, 1.0, 1.0);
    for n in 1..SERIES_TERMS {
        y_power *= y;
        powers = powers * z + y_power;
        factor /= -f64::from(n + 2);
        sum += factor * powers;
    }
    sum
}
