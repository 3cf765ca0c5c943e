//! Maximum likelihood for the inverse Gaussian with a shift.
//!
//! Method: for a given shift `θ`, the estimates of the other two parameters are the [`Fit`] of `x -
//! θ`. The profile likelihood, the largest likelihood for a given shift, is therefore a function of
//! `θ` alone. It is computed on a grid that is uniform in `ln(min x - θ)`; a golden-section search
//! refines the largest value on the grid.
//! Limits: the profile may have several maxima; a maximum narrower than a step of the grid may be
//! missed.
//! Source: Cheng and Amin 1981, "Maximum likelihood estimation of parameters in the inverse
//! Gaussian distribution, with unknown origin".

use super::fit::Fit;
use super::sufficient::SufficientStatistic;
use crate::ShiftedInverseGaussian;
use crate::error::{self, Error};

/// The name of the operation in errors.
const OPERATION: &str = "ShiftedFit::from_sample";
/// Step of the grid in `ln(min x - θ)`.
const STEP: f64 = 0.35;
/// The least distance of the shift from the smallest observation, relative to the distance of the
/// mean from the smallest observation.
const RESOLUTION: f64 = 1e-9;
/// Width of the bracket in `ln(min x - θ)` at which the golden-section search ends. Within such a
/// bracket the profile is constant in f64.
const WIDTH: f64 = 1e-8;
/// The golden section `(sqrt(5) - 1)/2`.
const GOLDEN: f64 = 0.618_033_988_749_894_8;
/// Number of parameters of the distribution, used in Akaike's criterion.
const N_PARAMETERS: f64 = 3.0;

/// The shifted inverse Gaussian with the largest likelihood for a sample, among shifts between a
/// given lower bound and the smallest observation.
///
/// The lower bound is part of the model, because the likelihood does not always have a maximum:
/// - If a third or more of the observations equal the smallest observation, the likelihood grows
///   without limit as the shift approaches these observations. The fit returns an error. This
///   includes every sample of at most 3 observations.
/// - If the skewness of the sample is not positive, the likelihood increases with a decreasing
///   shift, towards the likelihood of a normal distribution. The fitted shift is then the lower
///   bound, and [`Self::is_at_bound`] returns true.
/// - For other samples the likelihood is often flat: very different shifts may have nearly the same
///   likelihood. Before you interpret the shift, compare [`Self::ln_likelihood`] with the value of
///   a fit without a shift.
///
/// # Examples
/// ```
/// use distributions::ShiftedInverseGaussian;
/// use distributions::estimate::{Fit, ShiftedFit};
/// use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};
///
/// let truth = ShiftedInverseGaussian::new(0.2, 0.4, 0.8)?;
/// let mut times = vec![0.0; 500];
/// truth.sample_into(&mut Xoshiro256PlusPlus::seed_from_u64(1), &mut times);
/// // A reaction time cannot have a negative shift.
/// let fit = ShiftedFit::from_sample(&times, 0.0)?;
/// assert!((fit.distribution().shift() - 0.2).abs() < 0.02);
/// assert!(fit.aic() < Fit::from_sample(&times)?.aic());
/// # Ok::<(), distributions::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShiftedFit {
    distribution: ShiftedInverseGaussian,
    above: Fit,
    is_at_bound: bool,
}

impl ShiftedFit {
    /// Computes the fit with a shift of at least `least_shift`.
    ///
    /// Accuracy: the error of the shift is about 1e-8 of the distance between the shift and the
    /// smallest observation. A search by values of the likelihood cannot be more accurate, because
    /// its error is the square root of an epsilon. Cost: 150 to 200 passes over the sample, and
    /// more if the lower bound is further away than 1e10 times the spread of the sample.
    ///
    /// # Errors
    /// - [`Error::ObservationInvalid`]: an observation is infinite or NaN.
    /// - [`Error::TooFewObservations`]: the sample is empty.
    /// - [`Error::ParameterInvalid`]: `least_shift` is infinite, NaN, or not below all
    ///   observations.
    /// - [`Error::LikelihoodUnbounded`]: a third or more of the observations are equal to the
    ///   smallest observation, or too close to it for f64; or the likelihood increases up to the
    ///   smallest observation.
    /// - [`Error::ShapeInvalid`], [`Error::StatisticInvalid`]: a result leaves f64's range.
    pub fn from_sample(xs: &[f64], least_shift: f64) -> Result<Self, Error> {
        let profile = Profile::new(xs, least_shift)?;
        let (gap, is_at_bound) = profile.best_gap()?;
        let shift = if is_at_bound {
            least_shift
        } else {
            profile.smallest - gap
        };
        let above = profile.fit(shift)?;
        let (mean, shape) = (above.distribution().mean(), above.distribution().shape());
        Ok(Self {
            distribution: ShiftedInverseGaussian::new(shift, mean, shape)?,
            above,
            is_at_bound,
        })
    }

    /// Returns the distribution with the largest likelihood.
    #[must_use]
    pub fn distribution(&self) -> ShiftedInverseGaussian {
        self.distribution
    }

    /// Returns the fit of the observations minus the fitted shift `θ`.
    ///
    /// Its confidence intervals are exact for a known shift `θ`. For an estimated shift they are
    /// too narrow.
    #[must_use]
    pub fn above_shift(&self) -> Fit {
        self.above
    }

    /// Returns the logarithm of the likelihood at the estimates.
    #[must_use]
    pub fn ln_likelihood(&self) -> f64 {
        self.above.ln_likelihood()
    }

    /// Returns Akaike's information criterion, `6 - 2 ln L` for three parameters.
    #[must_use]
    pub fn aic(&self) -> f64 {
        2.0 * (N_PARAMETERS - self.ln_likelihood())
    }

    /// Returns whether the fitted shift is the smallest allowed shift, so that a smaller shift may
    /// have a larger likelihood.
    #[must_use]
    pub fn is_at_bound(&self) -> bool {
        self.is_at_bound
    }
}

/// The likelihood as a function of the shift.
struct Profile<'a> {
    xs: &'a [f64],
    smallest: f64,
    least_shift: f64,
    /// The least distance of the shift from the smallest observation.
    least_gap: f64,
}

impl<'a> Profile<'a> {
    /// Validates the sample and the lower bound of the shift.
    fn new(xs: &'a [f64], least_shift: f64) -> Result<Self, Error> {
        for (index, &value) in (0..).zip(xs) {
            if !value.is_finite() {
                return Err(Error::ObservationInvalid {
                    operation: OPERATION,
                    index,
                    value,
                    must: "finite",
                });
            }
        }
        if xs.is_empty() {
            return Err(Error::TooFewObservations {
                operation: OPERATION,
                weight: 0.0,
                above: 0.0,
            });
        }
        let smallest = xs.iter().copied().fold(f64::INFINITY, f64::min);
        let is_bound = least_shift < smallest && (smallest - least_shift).is_finite();
        error::parameter_that(
            is_bound,
            (OPERATION, "least shift"),
            least_shift,
            "finite and below all observations",
        )?;
        // The mean distance of the observations from the smallest observation.
        let spread = xs.iter().map(|x| x - smallest).sum::<f64>() / xs.len() as f64;
        // If the shift is very close to the smallest observation, the rounding error of the shift
        // is a large fraction of their distance.
        let rounding = smallest.abs() * f64::EPSILON / RESOLUTION.sqrt();
        let profile = Self {
            xs,
            smallest,
            least_shift,
            least_gap: (RESOLUTION * spread).max(rounding).max(f64::MIN_POSITIVE),
        };
        if profile.n_smallest() * 3 < xs.len() {
            Ok(profile)
        } else {
            Err(profile.unbounded())
        }
    }

    /// Returns the fit of the observations minus a shift.
    fn fit(&self, shift: f64) -> Result<Fit, Error> {
        let mut statistic = SufficientStatistic::new();
        self.xs.iter().try_for_each(|x| statistic.push(x - shift))?;
        statistic.fit()
    }

    /// Returns the logarithm of the likelihood for the shift `θ` with `ln(min x - θ) = ln_gap`.
    fn at(&self, ln_gap: f64) -> Result<f64, Error> {
        let shift = (self.smallest - ln_gap.exp()).max(self.least_shift);
        Ok(self.fit(shift)?.ln_likelihood())
    }

    /// Returns the distance of the best shift from the smallest observation, and whether that shift
    /// is the lower bound.
    fn best_gap(&self) -> Result<(f64, bool), Error> {
        let (low, high) = (self.least_gap.ln(), (self.smallest - self.least_shift).ln());
        if low >= high {
            return Err(self.unbounded());
        }
        let n_steps = ((high - low) / STEP).ceil();
        // Step 0 is the lower bound of the shift; the last step is next to the smallest
        // observation.
        let at_step = |i: f64| high - (high - low) * (i / n_steps);
        let (mut best, mut best_step, mut i) = (self.at(high)?, 0.0, 0.0);
        while i < n_steps {
            i += 1.0;
            let found = self.at(at_step(i))?;
            if found > best {
                (best, best_step) = (found, i);
            }
        }
        // The likelihood still grows next to the smallest observation.
        if best_step == n_steps {
            return Err(self.unbounded());
        }
        // A maximum next to the best step is between the steps on both sides of it.
        let ends = [
            at_step(best_step + 1.0),
            at_step((best_step - 1.0).max(0.0)),
        ];
        let (ln_gap, refined) = self.golden_section(ends)?;
        // At step 0 the maximum may be just inside; it counts only if it exceeds the value at the
        // bound.
        let is_at_bound = best_step == 0.0 && refined <= self.at(high)?;
        Ok((ln_gap.exp(), is_at_bound))
    }

    /// Returns the position and the value of a maximum between two ends.
    ///
    /// Each step keeps the inner point with the larger value and reuses this value, so it costs one
    /// evaluation.
    fn golden_section(&self, [mut low, mut high]: [f64; 2]) -> Result<(f64, f64), Error> {
        let mut inner = [high - GOLDEN * (high - low), low + GOLDEN * (high - low)];
        let mut values = [self.at(inner[0])?, self.at(inner[1])?];
        while high - low > WIDTH {
            if values[0] > values[1] {
                high = inner[1];
                inner = [high - GOLDEN * (high - low), inner[0]];
                values = [self.at(inner[0])?, values[0]];
            } else {
                low = inner[0];
                inner = [inner[1], low + GOLDEN * (high - low)];
                values = [values[1], self.at(inner[1])?];
            }
        }
        let best = usize::from(values[1] > values[0]);
        Ok((inner[best], values[best]))
    }

    /// Returns the number of observations within `least_gap` of the smallest observation.
    fn n_smallest(&self) -> usize {
        let is_near = |x: &&f64| **x - self.smallest <= self.least_gap;
        self.xs.iter().filter(is_near).count()
    }

    /// Returns the error of a likelihood without a maximum.
    fn unbounded(&self) -> Error {
        Error::LikelihoodUnbounded {
            operation: OPERATION,
            smallest: self.smallest,
            n_equal: self.n_smallest(),
            n_observations: self.xs.len(),
        }
    }
}
