//! Wald's sequential probability ratio test of a normal mean.
//!
//! Role: how the test decides, how long it takes and how often it errs, at any true mean.
//! Method: the logarithm of the likelihood ratio is a random walk, taken for the Brownian motion of the same drift and
//! volatility. For that motion every formula is exact; for the walk they leave out by how much the last step overshoots a
//! boundary, which makes the real test err less often and take a little longer.
//! Accuracy: 4e-15 relative to the formulas, times 1 plus the size of the result's logarithm; a test measures it.
//! Limits: of the time of the two-sided test there are the mean and the Laplace transform only, its law being a series
//! without end; the one-sided tests have the whole law of theirs, a first passage.
//! Source: Wald 1947, "Sequential analysis".

use crate::FirstPassage;
use crate::error::{self, Error};
use std::f64::consts::SQRT_2;

/// Name of the test in errors.
const NAME: &str = "sequential probability ratio test";
/// Up to this product of drift and width the expected time is summed as a series.
const SERIES_END: f64 = 1.0;
/// Terms of that series, the next being below 1e-17 of it.
const SERIES_TERMS: u32 = 18;

/// The sequential test of the mean `θ0` against `θ1`, of independent normal observations with known deviation.
///
/// It adds [`Self::increment`] of each observation, and stops when the sum leaves the range from [`Self::lower`] to
/// [`Self::upper`]. Below, sample sizes are real numbers and `mean` is the true mean, whatever the hypotheses are. An
/// infinite `mean` gives the limit: the test stops at once, at the boundary on that side. NaN gives NaN.
///
/// # Examples
/// ```
/// use distributions::{Decision, Sprt};
///
/// let test = Sprt::new(0.0, 0.5, 1.0, 0.05, 0.1)?;
/// assert!((test.power(0.0) - 0.05).abs() < 1e-15);
/// assert!((test.power(0.5) - 0.9).abs() < 1e-15);
/// // A test of the same errors with a fixed size takes 35 observations.
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

/// What is read before it is checked.
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

/// What a test says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Decision {
    /// One more observation is needed.
    Continue,
    /// The mean is taken to be that of the null hypothesis.
    AcceptNull,
    /// The mean is taken to be that of the alternative.
    AcceptAlternative,
}

impl Sprt {
    /// Gives the test of the mean `null` against `alternative`, with probabilities `alpha` to reject a true null hypothesis
    /// and `beta` to accept a false one.
    ///
    /// # Errors
    /// [`Error::ParameterInvalid`]: a mean is not finite, the standard deviation is not positive and
    /// finite, the difference of the means or its ratio to the standard deviation is 0, subnormal or
    /// infinite, or the probabilities are not positive with a sum below 1.
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
        // Everything else is a quotient by the difference or by the step.
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

    /// Gives the boundary at which the null hypothesis is accepted, `ln(β/(1 - α))`, below 0.
    #[must_use]
    pub fn lower(&self) -> f64 {
        self.beta.ln() - (-self.alpha).ln_1p()
    }

    /// Gives the boundary at which the alternative is accepted, `ln((1 - β)/α)`, above 0.
    #[must_use]
    pub fn upper(&self) -> f64 {
        (-self.beta).ln_1p() - self.alpha.ln()
    }

    /// Gives the logarithm of the likelihood ratio of one observation, `(θ1 - θ0)(x - (θ0 + θ1)/2)/σ²`.
    #[must_use]
    pub fn increment(&self, x: f64) -> f64 {
        self.step() * (self.tilt(x) * (0.5 * self.step()))
    }

    /// Gives what the test says at a sum of increments; NaN continues.
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

    /// Gives the drift of the sum per observation, the mean of an increment.
    #[must_use]
    pub fn drift(&self, mean: f64) -> f64 {
        self.increment(mean)
    }

    /// Gives the volatility of the sum, the standard deviation of an increment: `|θ1 - θ0|/σ`.
    #[must_use]
    pub fn volatility(&self) -> f64 {
        self.step().abs()
    }

    /// Gives the operating characteristic: the probability that the null hypothesis is accepted.
    ///
    /// `(A^h - 1)/(A^h - B^h)` with the boundaries `ln A` and `ln B` and `h = (θ0 + θ1 - 2θ)/(θ1 - θ0)`: `1 - α` at `θ0` and
    /// `β` at `θ1`.
    #[must_use]
    pub fn acceptance_probability(&self, mean: f64) -> f64 {
        self.corridor(mean).mirrored().exit()
    }

    /// Gives the probability that the alternative is accepted, accurate where it is small: `α` at `θ0` and `1 - β` at `θ1`.
    #[must_use]
    pub fn power(&self, mean: f64) -> f64 {
        self.corridor(mean).exit()
    }

    /// Gives the expected number of observations, by Wald's equation.
    ///
    /// `(P(lower) ln B + P(upper) ln A)` divided by the drift; without drift `-ln A ln B` divided by the squared volatility.
    #[must_use]
    pub fn expected_sample_size(&self, mean: f64) -> f64 {
        self.corridor(mean).time() / self.step() / self.step()
    }

    /// Gives the Laplace transform `E exp(-u N)` of the number of observations for `u >= 0`, 0 at ∞ for a finite mean; NaN
    /// for `u < 0` and NaN.
    ///
    /// With the upper boundary `a`, the lower one `-b` and, both divided by the squared volatility, the drift `θ` and `u`, it
    /// is `(exp(θ a) sinh(κ b) + exp(-θ b) sinh(κ a)) / sinh(κ (a + b))`, `κ² = θ² + 2u`.
    ///
    /// # Source
    /// Darling and Siegert 1953, "The first passage problem for a continuous Markov process".
    #[must_use]
    pub fn laplace_transform(&self, mean: f64, u: f64) -> f64 {
        if u >= 0.0 {
            // Beyond f64's range the transform has long been 0.
            let scaled = (u / self.step() / self.step()).min(f64::MAX);
            self.corridor(mean).transform(scaled)
        } else {
            f64::NAN
        }
    }

    /// Gives the law of the number of observations up to the upper boundary where there is no lower one, a test that
    /// never accepts the null hypothesis: an inverse Gaussian law if the drift is positive.
    ///
    /// # Errors
    /// [`Error::ParameterInvalid`]: the mean is not finite, or so large that the drift is not.
    ///
    /// # Examples
    /// ```
    /// use distributions::Sprt;
    ///
    /// let test = Sprt::new(0.0, 0.5, 1.0, 0.05, 0.1)?;
    /// // Under the null hypothesis it may never stop: Wald's bound on the error is exact here.
    /// let stop = test.passage_to_upper(0.0)?;
    /// assert!((stop.hitting_probability() - 0.05 / 0.9).abs() < 1e-15);
    /// # Ok::<(), distributions::Error>(())
    /// ```
    pub fn passage_to_upper(&self, mean: f64) -> Result<FirstPassage, Error> {
        FirstPassage::new(self.upper(), self.drift(mean), self.volatility())
    }

    /// Gives the same of the lower boundary where there is no upper one.
    ///
    /// # Errors
    /// As [`Self::passage_to_upper`].
    pub fn passage_to_lower(&self, mean: f64) -> Result<FirstPassage, Error> {
        FirstPassage::new(-self.lower(), -self.drift(mean), self.volatility())
    }

    /// Gives `(θ1 - θ0)/σ`.
    fn step(&self) -> f64 {
        (self.alternative - self.null) / self.std_dev
    }

    /// Gives `-h`, twice the drift divided by the squared volatility: -1 at `θ0`, 1 at `θ1`.
    fn tilt(&self, mean: f64) -> f64 {
        ((mean - self.null) + (mean - self.alternative)) / (self.alternative - self.null)
    }

    fn corridor(&self, mean: f64) -> Corridor {
        Corridor {
            up: self.upper(),
            down: -self.lower(),
            tilt: self.tilt(mean),
        }
    }
}

/// A Brownian motion of volatility 1 and drift `tilt/2` from 0, until it is `up` above or `down` below.
#[derive(Clone, Copy, Debug)]
struct Corridor {
    up: f64,
    down: f64,
    tilt: f64,
}

impl Corridor {
    /// Gives the same upside down.
    fn mirrored(self) -> Self {
        Self {
            up: self.down,
            down: self.up,
            tilt: -self.tilt,
        }
    }

    fn width(self) -> f64 {
        self.up + self.down
    }

    /// Gives the probability to leave above.
    fn exit(self) -> f64 {
        let Self { up, down, tilt } = self;
        // Decay is free of overflow on either side.
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

    /// Gives the expected time.
    fn time(self) -> f64 {
        // Upwards, with no loss.
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
        // Drift times time is up P(up) - down P(down); written with the smaller distance less is subtracted.
        let upwards = Self { up, down, tilt };
        let net = if up < down {
            up - width * upwards.mirrored().exit()
        } else {
            width * upwards.exit() - down
        };
        2.0 * (net / tilt)
    }

    /// Gives the expectation of `exp(-u time)`.
    fn transform(self, u: f64) -> f64 {
        self.transform_above(u) + self.mirrored().transform_above(u)
    }

    /// Gives the part of it that leaves above: `exp(tilt up/2) sinh(κ down)/sinh(κ width)`, `κ² = tilt²/4 + 2u`.
    fn transform_above(self, u: f64) -> f64 {
        let half = 0.5 * self.tilt;
        // 2u itself may overflow.
        let root_2u = SQRT_2 * u.sqrt();
        let root = half.hypot(root_2u);
        // κ - tilt/2, without cancellation.
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

/// Gives `(1 - exp(-z))/z`, the mean of `exp(-t)` over `t` from 0 to `z`.
fn mean_decay(z: f64) -> f64 {
    if z == 0.0 { 1.0 } else { -(-z).exp_m1() / z }
}

/// Gives minus its divided difference at `0 <= y <= z <= 1`, by the powers of both.
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
