//! Maximum likelihood for the inverse Gaussian with a shift.
//!
//! Method: for a given shift `θ`, the estimates of the other two parameters are the [`Fit`] of `x -
//! θ`, so the profile likelihood is a function of `θ` alone. The profile likelihood is computed on
//! a grid that is uniform in `ln(min x - θ)`, and its largest value is refined by golden section.
//! Limits: the profile may have several maxima; a maximum that is narrower than the grid's step may
//! be missed.
//! Source: Cheng and Amin 1981, "Maximum likelihood estimation of parameters in the inverse
//! Gaussian distribution, with unknown origin".

use super::fit::Fit;
use super::sufficient::SufficientStatistic;
use crate::ShiftedInverseGaussian;
use crate::error::{self, Error};

const OPERATION: &str = "ShiftedFit::of";
/// Step of the grid in `ln(min x - θ)`.
const STEP: f64 = 0.35;
/// The least distance of the shift from the smallest observation, as a fraction of the distance of
/// the mean.
const RESOLUTION: f64 = 1e-9;
/// Golden section stops at this width in `ln(min x - θ)`; the profile is flat in f64 within it.
const WIDTH: f64 = 1e-8;
/// `(sqrt(5) - 1)/2`.
const GOLDEN: f64 = 0.618_033_988_749_894_8;
/// Number of parameters of the distribution.
const N_PARAMETERS: f64 = 3.0;

/// The shifted inverse Gaussian with the largest likelihood for a sample, among shifts from a given
/// one to the smallest observation.
///
/// The bound is part of the model, because the likelihood alone does not always have a maximum:
/// - Where a third or more of the observations equal the smallest, it has no upper bound as the
///   shift approaches them. This is an error, and it includes every sample of 3 or fewer.
/// - For a sample whose skewness is not positive, it grows without a maximum as the shift falls,
///   towards that of a normal distribution. The fit then is at the bound, and [`Self::is_at_bound`]
///   is true.
/// - Between these cases it is often flat: very different shifts may have nearly the same
///   likelihood. Compare [`Self::ln_likelihood`] with the value of a fit without a shift before the
///   shift is interpreted.
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
/// // A reaction time has no negative part.
/// let fit = ShiftedFit::of(&times, 0.0)?;
/// assert!((fit.law().shift() - 0.2).abs() < 0.02);
/// assert!(fit.aic() < Fit::of(&times)?.aic());
/// # Ok::<(), distributions::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShiftedFit {
    law: ShiftedInverseGaussian,
    above: Fit,
    is_at_bound: bool,
}

impl ShiftedFit {
    /// Returns the fit with a shift of at least `least_shift`.
    ///
    /// Accuracy: the shift to about 1e-8 of its distance from the smallest observation, which is
    /// the square root of an epsilon and the limit of what differences of likelihoods show. Cost:
    /// some 150 to 200 passes over the sample, more for a bound that is more than 1e10 times the
    /// sample's spread away.
    ///
    /// # Errors
    /// - [`Error::ObservationInvalid`]: an observation is infinite or NaN.
    /// - [`Error::TooFewObservations`]: the sample is empty.
    /// - [`Error::ParameterInvalid`]: `least_shift` is infinite, NaN, or not below all
    ///   observations.
    /// - [`Error::LikelihoodUnbounded`]: a third or more of the observations equal the smallest, or
    ///   are too near to it.
    /// - [`Error::ShapeInvalid`], [`Error::StatisticInvalid`]: a result leaves f64's range.
    pub fn of(xs: &[f64], least_shift: f64) -> Result<Self, Error> {
        let profile = Profile::new(xs, least_shift)?;
        let (gap, is_at_bound) = profile.best_gap()?;
        let shift = if is_at_bound {
            least_shift
        } else {
            profile.smallest - gap
        };
        let above = profile.fit(shift)?;
        let (mean, shape) = (above.law().mean(), above.law().shape());
        Ok(Self {
            law: ShiftedInverseGaussian::new(shift, mean, shape)?,
            above,
            is_at_bound,
        })
    }

    /// Returns the distribution with the largest likelihood.
    #[must_use]
    pub fn law(&self) -> ShiftedInverseGaussian {
        self.law
    }

    /// Returns the fit of `x - θ`, whose intervals are exact if `θ` is known and too narrow if it
    /// is estimated.
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
    fn new(xs: &'a [f64], least_shift: f64) -> Result<Self, Error> {
        for (index, &value) in (0..).zip(xs) {
            if !value.is_finite() {
                return Err(Error::ObservationInvalid {
                    operation: OPERATION,
                    index,
                    value,
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
        let spread = xs.iter().map(|x| x - smallest).sum::<f64>() / xs.len() as f64;
        // A shift next to the smallest observation has rounding errors of the size of their
        // distance.
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

    /// Returns the fit of the sample less a shift.
    fn fit(&self, shift: f64) -> Result<Fit, Error> {
        let mut statistic = SufficientStatistic::new();
        self.xs.iter().try_for_each(|x| statistic.push(x - shift))?;
        statistic.fit()
    }

    /// Returns the logarithm of the likelihood at `ln(min x - θ)`.
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
        // From the bound towards the smallest observation.
        let at_step = |i: f64| high - (high - low) * (i / n_steps);
        let (mut best, mut best_step, mut i) = (self.at(high)?, 0.0, 0.0);
        while i < n_steps {
            i += 1.0;
            let found = self.at(at_step(i))?;
            if found > best {
                (best, best_step) = (found, i);
            }
        }
        if best_step == n_steps {
            return Err(self.unbounded());
        }
        let ends = [
            at_step(best_step + 1.0),
            at_step((best_step - 1.0).max(0.0)),
        ];
        let (ln_gap, refined) = self.golden_section(ends)?;
        let is_at_bound = best_step == 0.0 && refined <= self.at(high)?;
        Ok((ln_gap.exp(), is_at_bound))
    }

    /// Returns the position and the value of a maximum between two ends.
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

    fn unbounded(&self) -> Error {
        Error::LikelihoodUnbounded {
            operation: OPERATION,
            smallest: self.smallest,
            n_equal: self.n_smallest(),
            n_observations: self.xs.len(),
        }
    }
}
