//! Maximum-likelihood estimates of the parameters, standard errors and exact confidence intervals.
//!
//! Method: the mean `m` and the dispersion `S` are independent, `m` is inverse Gaussian with
//! parameters `μ` and `nλ`, and `λS` is `χ²(n - 1)`; every formula here follows from these facts.
//! Accuracy: 1e-14 relative for estimates. Ends of intervals: 2e-11 relative, the error of the
//! quantiles of χ² and of Student's distribution. For the upper end of an interval of the mean,
//! this error is multiplied by the condition number `c/(1 - c)`, with `c` as in
//! [`Fit::mean_interval`]. The tests measure both.
//! Source: Tweedie 1957, "Statistical properties of inverse Gaussian distributions I"; the
//! intervals of the mean: Chhikara and Folks 1976, "Optimum test procedures for the mean of first
//! passage time distribution in Brownian motion with positive drift".

use super::quantiles::{chi_squared, student};
use super::sufficient::SufficientStatistic;
use crate::InverseGaussian;
use crate::error::{self, Error};
use crate::inverse_gaussian::NAME;
use std::f64::consts::PI;

/// Number of parameters of the distribution, used in Akaike's criterion.
const N_PARAMETERS: f64 = 2.0;

/// The maximum-likelihood inverse Gaussian of a sample, with standard errors and confidence
/// intervals.
///
/// In the formulas `n` is the total weight of the sample. Without weights, the total weight is the
/// number of observations.
///
/// # Examples
/// ```
/// use distributions::estimate::Fit;
///
/// let fit = Fit::from_sample(&[1.0, 2.0, 4.0, 5.0])?;
/// assert_eq!(fit.distribution().mean(), 3.0);
/// // n/λ = Σ (1/x - 1/m) = 1.95 - 4/3.
/// assert!((4.0 / fit.distribution().shape() - (1.95 - 4.0 / 3.0)).abs() < 1e-15);
/// assert_eq!(fit.unbiased_shape()?, fit.distribution().shape() / 4.0);
/// # Ok::<(), distributions::Error>(())
/// ```
///
/// With the feature `serde` a fit is serialized as its [`SufficientStatistic`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(
    feature = "serde",
    serde(try_from = "SufficientStatistic", into = "SufficientStatistic")
)]
pub struct Fit {
    statistic: SufficientStatistic,
    distribution: InverseGaussian,
}

#[cfg(feature = "serde")]
impl TryFrom<SufficientStatistic> for Fit {
    type Error = Error;

    fn try_from(statistic: SufficientStatistic) -> Result<Self, Error> {
        Self::from_statistic(statistic)
    }
}

#[cfg(feature = "serde")]
impl From<Fit> for SufficientStatistic {
    fn from(fit: Fit) -> Self {
        fit.statistic
    }
}

/// The ends of a confidence interval.
///
/// With the feature `serde` the ends are serialized as plain numbers. A format without infinity,
/// such as JSON, loses an infinite upper end.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Interval {
    /// The lower end, not negative.
    pub lower: f64,
    /// The upper end, which may be `f64::INFINITY`.
    pub upper: f64,
}

impl Fit {
    /// Computes the fit to a sample.
    ///
    /// # Errors
    /// - [`Error::ObservationInvalid`]: an observation is zero, negative, infinite or NaN.
    /// - [`Error::TooFewObservations`]: the sample has fewer than 2 observations.
    /// - [`Error::ObservationsEqual`]: all observations are equal, so the likelihood grows with the
    ///   shape without limit.
    /// - [`Error::ShapeInvalid`], [`Error::StatisticInvalid`]: a result leaves f64's range.
    pub fn from_sample(xs: &[f64]) -> Result<Self, Error> {
        SufficientStatistic::from_sample(xs)?.fit()
    }

    /// Computes the fit from a sufficient statistic.
    ///
    /// # Errors
    /// As [`SufficientStatistic::fit`].
    pub(super) fn from_statistic(statistic: SufficientStatistic) -> Result<Self, Error> {
        let (mean, dispersion) = (statistic.mean(), statistic.dispersion());
        let weight = heavier("fit", statistic.weight(), 1.0)?;
        // The shape would be infinite.
        if dispersion == 0.0 {
            return Err(Error::ObservationsEqual {
                operation: "fit",
                value: mean,
            });
        }
        Ok(Self {
            statistic,
            distribution: InverseGaussian::new(mean, weight / dispersion)?,
        })
    }

    /// Returns the distribution with the largest likelihood: `μ^ = m`, `λ^ = n/S`.
    #[must_use]
    pub fn distribution(&self) -> InverseGaussian {
        self.distribution
    }

    /// Returns the sufficient statistic from which the fit was computed.
    #[must_use]
    pub fn statistic(&self) -> SufficientStatistic {
        self.statistic
    }

    /// Returns the logarithm of the likelihood at the estimates, the weighted sum of `ln f(x)`:
    /// `n/2 (ln(λ^/(2π)) - 1) - 3/2 Σ w ln x`.
    ///
    /// Accuracy: 4 epsilons of `n (1 + |ln λ^| + mean |ln x|)`.
    ///
    /// # Examples
    /// ```
    /// use distributions::estimate::Fit;
    ///
    /// let xs = [1.0, 2.0, 4.0, 5.0];
    /// let fit = Fit::from_sample(&xs)?;
    /// let sum: f64 = xs.iter().map(|&x| fit.distribution().ln_pdf(x)).sum();
    /// assert!((fit.ln_likelihood() - sum).abs() < 1e-14);
    /// # Ok::<(), distributions::Error>(())
    /// ```
    #[must_use]
    pub fn ln_likelihood(&self) -> f64 {
        let by_shape = 0.5 * (self.distribution.shape().ln() - (2.0 * PI).ln() - 1.0);
        self.statistic.weight() * (by_shape - 1.5 * self.statistic.ln_geometric_mean())
    }

    /// Returns Akaike's information criterion, `4 - 2 ln L` for two parameters; of two models, the
    /// model with the smaller criterion describes the sample better.
    #[must_use]
    pub fn aic(&self) -> f64 {
        2.0 * (N_PARAMETERS - self.ln_likelihood())
    }

    /// Returns the unbiased estimate of the shape, `(n - 3)/n λ^`.
    ///
    /// # Errors
    /// [`Error::TooFewObservations`]: `n` is at most 3, where the expectation of `λ^` is infinite.
    pub fn unbiased_shape(&self) -> Result<f64, Error> {
        let n = heavier("unbiased_shape", self.statistic.weight(), 3.0)?;
        Ok((n - 3.0) / n * self.distribution.shape())
    }

    /// Returns the minimum-variance unbiased estimate of `1/λ`, `S/(n - 1)`.
    #[must_use]
    pub fn unbiased_inverse_shape(&self) -> f64 {
        self.statistic.dispersion() / self.freedom()
    }

    /// Returns the estimated standard error of the mean, `sqrt(μ^³/(n λ^))`.
    #[must_use]
    pub fn mean_standard_error(&self) -> f64 {
        self.distribution.std_dev() / self.statistic.weight().sqrt()
    }

    /// Returns the estimated standard error of the shape for large samples, `λ^ sqrt(2/n)`.
    #[must_use]
    pub fn shape_standard_error(&self) -> f64 {
        self.distribution.shape() * (2.0 / self.statistic.weight()).sqrt()
    }

    /// Returns the equal-tailed confidence interval of the shape at confidence `level`.
    ///
    /// The interval is exact, because `λS` has the distribution `χ²(n - 1)`. At level 1 the
    /// interval is `[0, ∞]`. At level 0 both ends are equal except for rounding, and their value is
    /// a median-unbiased estimate of the shape.
    ///
    /// # Errors
    /// [`Error::ProbabilityInvalid`]: `level` is outside [0, 1] or NaN.
    pub fn shape_interval(&self, level: f64) -> Result<Interval, Error> {
        let outside = 1.0 - error::probability("shape_interval", level)?;
        // A large quantile of λS belongs to a large λ, so the upper end uses the upper quantile.
        let end = |is_upper| {
            chi_squared(self.freedom(), 0.5 * outside, is_upper) / self.statistic.dispersion()
        };
        let upper = end(true);
        Ok(Interval {
            // At level 0 the lower end may be rounded to a larger number than the upper end.
            lower: end(false).min(upper),
            upper,
        })
    }

    /// Returns the confidence interval of the mean at confidence `level`, for an unknown shape.
    ///
    /// The interval is `[m/(1 + c), m/(1 - c)]` with `c = t sqrt(m S/(n (n - 1)))`, where `t` is
    /// the two-sided quantile of Student's distribution with `n - 1` degrees of freedom. The
    /// interval is exact. For `c >= 1` no large mean can be excluded, and the upper end is
    /// `f64::INFINITY`.
    ///
    /// # Errors
    /// [`Error::ProbabilityInvalid`]: `level` is outside [0, 1] or NaN.
    ///
    /// # Examples
    /// ```
    /// use distributions::estimate::Fit;
    ///
    /// let fit = Fit::from_sample(&[0.1, 3.0])?;
    /// assert!(fit.mean_interval(0.1)?.upper < 5.0);
    /// assert_eq!(fit.mean_interval(0.95)?.upper, f64::INFINITY);
    /// # Ok::<(), distributions::Error>(())
    /// ```
    pub fn mean_interval(&self, level: f64) -> Result<Interval, Error> {
        let outside = 1.0 - error::probability("mean_interval", level)?;
        let freedom = self.freedom();
        Ok(self.around_mean(
            student(freedom, outside) / freedom.sqrt(),
            self.distribution.shape(),
        ))
    }

    /// Returns the confidence interval of the mean at confidence `level`, for a known shape.
    ///
    /// As [`Self::mean_interval`] with `c = z sqrt(m/(n λ))`, where `z` is the two-sided quantile
    /// of the normal distribution. The interval is exact, because `n λ (m - μ)²/(μ² m)` has the
    /// distribution `χ²(1)`.
    ///
    /// # Errors
    /// - [`Error::ProbabilityInvalid`]: `level` is outside [0, 1] or NaN.
    /// - [`Error::ShapeInvalid`]: `shape` is zero, negative, infinite or NaN.
    pub fn mean_interval_given_shape(&self, level: f64, shape: f64) -> Result<Interval, Error> {
        let outside = 1.0 - error::probability("mean_interval_given_shape", level)?;
        let shape = error::shape(NAME, shape)?;
        let z = chi_squared(1.0, outside, true).sqrt();
        Ok(self.around_mean(z / self.statistic.weight().sqrt(), shape))
    }

    /// Returns the range of means `μ` with `|m/μ - 1| <= scale sqrt(m/λ)`, where `m` is the mean of
    /// the sample.
    fn around_mean(&self, scale: f64, shape: f64) -> Interval {
        let mean = self.distribution.mean();
        // Take the roots before the quotient: `mean / shape` may underflow to 0, and 0 times an
        // infinite `scale` is NaN.
        let c = scale * (mean.sqrt() / shape.sqrt());
        Interval {
            lower: mean / (1.0 + c),
            upper: if c < 1.0 {
                mean / (1.0 - c)
            } else {
                f64::INFINITY
            },
        }
    }

    /// Returns the degrees of freedom of the dispersion, `n - 1`.
    fn freedom(&self) -> f64 {
        self.statistic.weight() - 1.0
    }
}

/// Returns the total weight if it exceeds `above`, and an error otherwise.
fn heavier(operation: &'static str, weight: f64, above: f64) -> Result<f64, Error> {
    if weight > above {
        Ok(weight)
    } else {
        Err(Error::TooFewObservations {
            operation,
            weight,
            above,
        })
    }
}
