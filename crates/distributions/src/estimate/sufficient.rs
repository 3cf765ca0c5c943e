//! What a sample says about the parameters, in four numbers that can be added up.
//!
//! Method: as Welford's for the variance. Two parts with weights `W`, means `m` and dispersions `S` merge to
//! `S_a + S_b + W_a W_b (m_a - m_b)² / (m_a m_b (W_a m_a + W_b m_b))`, a sum of positive terms; an observation is a part
//! with `S = 0`. The merged mean starts from the heavier part, so that it never cancels. Where `μ/λ` is 1e-14 an
//! observation differs from the mean in its eighth digit, so the mean is kept to twice f64's digits, as are the sums.
//! Accuracy: mean and dispersion to 1e-14 relative for a thousand observations in any order and split; the bound is some
//! ten roundings and grows with the logarithm of their number. The tests measure it.
//! Source: Welford 1962, "Note on a method for calculating corrected sums of squares and products"; the formula for
//! `1/x`: our derivation.

use super::fit::Fit;
use super::sum::Sum;
use crate::error::{self, Error};

/// The sufficient statistic of an inverse Gaussian sample: weight `W`, mean `m` and dispersion `S = Σ w (1/x - 1/m)`.
///
/// It takes observations one at a time, with weights if wanted, and merges with that of another part of the sample:
/// any split and any order give the same numbers to rounding. Weights are frequencies: an observation of weight 3 counts
/// as three equal ones, and the total weight is the sample size `n` of every formula of [`Fit`]. Weights need not be
/// whole numbers.
///
/// With the feature `serde` it is stored whole; a format that does not keep the last bit of f64, as `serde_json` without
/// its feature `float_roundtrip`, costs digits of a dispersion that grows on, where `μ/λ` is tiny.
///
/// # Examples
/// ```
/// use distributions::estimate::SufficientStatistic;
///
/// let mut morning = SufficientStatistic::of(&[0.7, 1.2])?;
/// let evening = SufficientStatistic::of_weighted(&[(0.9, 2.0), (2.4, 1.0)])?;
/// morning.merge(&evening)?;
/// assert_eq!(morning.weight(), 5.0);
/// assert!((morning.mean() - 6.1 / 5.0).abs() < 1e-15);
/// # Ok::<(), distributions::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Parts"))]
pub struct SufficientStatistic {
    count: u64,
    weight: Sum,
    mean: Sum,
    dispersion: Sum,
    /// Mean of `ln x`: no estimate needs it, the likelihood does.
    ln_mean: Sum,
}

/// What is read before it is checked.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Parts {
    count: u64,
    weight: Sum,
    mean: Sum,
    dispersion: Sum,
    ln_mean: Sum,
}

#[cfg(feature = "serde")]
impl TryFrom<Parts> for SufficientStatistic {
    type Error = Error;

    fn try_from(parts: Parts) -> Result<Self, Error> {
        let statistic = Self {
            count: parts.count,
            weight: parts.weight,
            mean: parts.mean,
            dispersion: parts.dispersion,
            ln_mean: parts.ln_mean,
        };
        if statistic == Self::default() {
            Ok(statistic)
        } else {
            statistic.checked("deserialize")
        }
    }
}

impl SufficientStatistic {
    /// Gives the statistic of no observations.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives the statistic of a sample.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn of(xs: &[f64]) -> Result<Self, Error> {
        let mut statistic = Self::new();
        xs.iter().try_for_each(|&x| statistic.push(x))?;
        Ok(statistic)
    }

    /// Gives the statistic of pairs of an observation and its weight.
    ///
    /// # Errors
    /// As [`Self::push_weighted`].
    pub fn of_weighted(pairs: &[(f64, f64)]) -> Result<Self, Error> {
        let mut statistic = Self::new();
        let mut pairs = pairs.iter();
        pairs.try_for_each(|&(x, weight)| statistic.push_weighted(x, weight))?;
        Ok(statistic)
    }

    /// Adds an observation of weight 1. Where that is an error, nothing changes.
    ///
    /// # Errors
    /// As [`Self::push_weighted`].
    pub fn push(&mut self, x: f64) -> Result<(), Error> {
        self.push_weighted(x, 1.0)
    }

    /// Adds an observation that counts as `weight` equal ones. Where that is an error, nothing changes.
    ///
    /// # Errors
    /// - [`Error::ObservationInvalid`]: `x` is zero, negative, infinite or NaN; its index is [`Self::count`].
    /// - [`Error::WeightInvalid`]: the same of the weight.
    /// - [`Error::StatisticInvalid`]: a sum leaves f64's range.
    pub fn push_weighted(&mut self, x: f64, weight: f64) -> Result<(), Error> {
        const OPERATION: &str = "push";
        self.merge(&Self {
            count: 1,
            mean: error::observation(OPERATION, self.count, x)?.into(),
            ln_mean: x.ln().into(),
            weight: error::weight(OPERATION, self.count, weight)?.into(),
            dispersion: Sum::default(),
        })
    }

    /// Adds the observations of another part of the sample. Where that is an error, nothing changes.
    ///
    /// # Errors
    /// [`Error::StatisticInvalid`]: a sum leaves f64's range.
    pub fn merge(&mut self, other: &Self) -> Result<(), Error> {
        let (heavy, light) = if self.weight() >= other.weight() {
            (*self, other)
        } else {
            (*other, &*self)
        };
        if light.count > 0 {
            *self = heavy.joined(light).checked("merge")?;
        } else {
            *self = heavy;
        }
        Ok(())
    }

    /// Gives the number of observations, whatever their weights.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Gives the total weight `W`, which plays the role of the sample size.
    #[must_use]
    pub fn weight(&self) -> f64 {
        self.weight.value()
    }

    /// Gives the mean; 0 without observations.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.mean.value()
    }

    /// Gives the dispersion `S = Σ w (1/x - 1/m)`, not negative: 0 where all observations are equal.
    #[must_use]
    pub fn dispersion(&self) -> f64 {
        self.dispersion.value()
    }

    /// Returns the mean of `ln x`, the logarithm of the geometric mean; 0 without observations.
    #[must_use]
    pub fn ln_geometric_mean(&self) -> f64 {
        self.ln_mean.value()
    }

    /// Gives the estimates that follow.
    ///
    /// # Errors
    /// As [`Fit::of`], whose observations have been checked here.
    pub fn fit(&self) -> Result<Fit, Error> {
        Fit::from_statistic(*self)
    }

    /// Gives the statistic of both; `light`, which is not empty, has at most half of the weight.
    fn joined(self, light: &Self) -> Self {
        let weight = self.weight.plus_sum(light.weight);
        let share = light.weight() / weight.value();
        let distance = light.mean.minus(self.mean);
        let mean = self.mean.plus(share * distance);
        let (small, large) = if distance < 0.0 {
            (light.mean(), self.mean())
        } else {
            (self.mean(), light.mean())
        };
        // In this order every factor but the last quotient is at most a weight: nothing leaves f64's range unless the
        // result does.
        let between =
            (self.weight() * share * (distance / mean.value())) * (distance / large) / small;
        Self {
            count: self.count.saturating_add(light.count),
            weight,
            mean,
            dispersion: self.dispersion.plus_sum(light.dispersion).plus(between),
            ln_mean: self.ln_mean.plus(share * light.ln_mean.minus(self.ln_mean)),
        }
    }

    /// Gives the statistic back if observations can have it, and f64 hold it.
    fn checked(self, operation: &'static str) -> Result<Self, Error> {
        let (weight, mean, dispersion) = (self.weight(), self.mean(), self.dispersion());
        let mut sums = [self.weight, self.mean, self.dispersion, self.ln_mean].into_iter();
        let is_sound = self.count > 0
            && sums.all(Sum::is_sound)
            && error::is_positive(weight)
            && error::is_positive(mean)
            && self.ln_geometric_mean().is_finite()
            && (0.0..=f64::MAX).contains(&dispersion);
        if is_sound {
            Ok(self)
        } else {
            Err(Error::StatisticInvalid {
                operation,
                count: self.count,
                weight,
                mean,
                dispersion,
            })
        }
    }
}
