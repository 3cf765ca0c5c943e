//! The inverse Gaussian with a shift, also called the three-parameter inverse Gaussian or shifted
//! Wald distribution.
//!
//! Role: the distribution of times that contain a constant part, such as reaction times.
//! Method: the distribution is that of `θ + X` for an inverse Gaussian `X`. The ratios of a point
//! come from `x - θ` in two parts, so the subtraction costs no digits. A quantile is the quantile
//! of `X` plus `θ`, rounded once.

use crate::InverseGaussian;
use crate::distribution::quantile_solver::{QuantileArgument, Target};
use crate::distribution::{Distribution, functions, moments, quantiles, traits};
use crate::error::{self, Error};
use crate::point::{Point, Ratios, quotient};
use crate::special::elementary::two_sum;
use rand::Rng;

/// Name of the distribution in errors.
const NAME: &str = "shifted inverse Gaussian";

/// The distribution of `θ + X` for an inverse Gaussian `X`: shift `θ`, and mean `μ` and shape `λ`
/// of `X`, on `x > θ`.
///
/// Density `f(x) = sqrt(λ / (2π y³)) exp(-λ (y - μ)² / (2 μ² y))` with `y = x - θ`. Distribution
/// function as for [`InverseGaussian`] at `y`.
///
/// The functions at an `x` are as accurate as the functions of [`InverseGaussian`], relative to the
/// exact distribution of the given parameters: `x - θ` is not rounded. The sum of `θ` and a
/// quantile of `X` is rounded: where `μ` is far below `|θ|`, few numbers of f64 are left for
/// quantiles and draws. The [front page](crate) has the measured errors.
///
/// [`crate::estimate::ShiftedFit`] estimates the three parameters from a sample.
///
/// # Examples
/// ```
/// use distributions::ShiftedInverseGaussian;
///
/// // Reaction times in seconds: 0.25 s for perception and movement, 0.5 s for the decision.
/// let distribution = ShiftedInverseGaussian::new(0.25, 0.5, 1.5)?;
/// assert_eq!(distribution.cdf(0.25), 0.0);
/// assert_eq!(distribution.mean(), 0.75);
/// assert_eq!(distribution.pdf(1.0), distribution.unshifted().pdf(0.75));
/// assert!((distribution.sf(distribution.inverse_sf(1e-12)) / 1e-12 - 1.0).abs() < 1e-13);
/// # Ok::<(), distributions::Error>(())
/// ```
///
/// # Source
/// Chhikara and Folks 1989, "The inverse Gaussian distribution: theory, methodology and
/// applications", 6.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Parameters", into = "Parameters"))]
pub struct ShiftedInverseGaussian {
    shift: f64,
    unshifted: InverseGaussian,
}

/// The three parameters, before validation.
#[cfg(feature = "serde")]
#[derive(serde::Serialize, serde::Deserialize)]
struct Parameters {
    shift: f64,
    mean: f64,
    shape: f64,
}

#[cfg(feature = "serde")]
impl TryFrom<Parameters> for ShiftedInverseGaussian {
    type Error = Error;

    fn try_from(given: Parameters) -> Result<Self, Error> {
        Self::new(given.shift, given.mean, given.shape)
    }
}

#[cfg(feature = "serde")]
impl From<ShiftedInverseGaussian> for Parameters {
    fn from(distribution: ShiftedInverseGaussian) -> Self {
        Self {
            shift: distribution.shift,
            mean: distribution.unshifted.mean(),
            shape: distribution.unshifted.shape(),
        }
    }
}

impl ShiftedInverseGaussian {
    /// Creates the distribution of a shift, and of the mean and the shape of the part above the
    /// shift.
    ///
    /// # Errors
    /// - [`Error::ParameterInvalid`]: the shift is infinite or NaN.
    /// - [`Error::MeanInvalid`], [`Error::ShapeInvalid`]: as [`InverseGaussian::new`].
    pub fn new(shift: f64, mean: f64, shape: f64) -> Result<Self, Error> {
        Ok(Self {
            shift: error::finite(NAME, "shift", shift)?,
            unshifted: InverseGaussian::new(mean, shape)?,
        })
    }

    /// Returns the shift `θ`, the lower end of the support.
    #[must_use]
    pub fn shift(&self) -> f64 {
        self.shift
    }

    /// Returns the inverse Gaussian distribution of `X`, the part above the shift.
    #[must_use]
    pub fn unshifted(&self) -> InverseGaussian {
        self.unshifted
    }

    /// Returns the mean `θ + μ`.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.shift + self.unshifted.mean()
    }

    /// Returns the variance `μ³/λ`.
    #[must_use]
    pub fn variance(&self) -> f64 {
        self.unshifted.variance()
    }

    /// Returns the standard deviation `μ sqrt(μ/λ)`.
    #[must_use]
    pub fn std_dev(&self) -> f64 {
        self.unshifted.std_dev()
    }

    /// Returns the skewness `3 sqrt(μ/λ)`.
    #[must_use]
    pub fn skewness(&self) -> f64 {
        self.unshifted.skewness()
    }

    /// Returns the excess kurtosis `15 μ/λ`.
    #[must_use]
    pub fn excess_kurtosis(&self) -> f64 {
        self.unshifted.excess_kurtosis()
    }

    /// Returns the differential entropy in nats, which does not depend on the shift.
    #[must_use]
    pub fn entropy(&self) -> f64 {
        self.unshifted.entropy()
    }

    /// Returns the median.
    #[must_use]
    pub fn median(&self) -> f64 {
        self.inverse_cdf(0.5)
    }

    /// Returns the mode.
    #[must_use]
    pub fn mode(&self) -> f64 {
        self.shift + self.unshifted.mode()
    }

    /// Draws a number: finite, not below the shift.
    ///
    /// Cost: as [`InverseGaussian::sample`].
    #[must_use]
    pub fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        (self.shift + self.unshifted.sample(rng)).min(f64::MAX)
    }

    /// Fills a slice with independent draws, the same as one call of [`Self::sample`] per element.
    pub fn sample_into<R: Rng + ?Sized>(&self, rng: &mut R, out: &mut [f64]) {
        self.unshifted.sample_into(rng, out);
        for x in out {
            *x = (self.shift + *x).min(f64::MAX);
        }
    }
}

impl Distribution for ShiftedInverseGaussian {
    type Point = Point;

    #[inline(always)]
    fn point(&self, x: f64) -> Point {
        let (mean, shape) = (self.unshifted.mean(), self.unshifted.shape());
        let (y, y_low) = two_sum(x, -self.shift);
        // At the ends of f64's range the difference has no second part.
        let (y, y_low) = (y.min(f64::MAX), if y_low.abs() <= y { y_low } else { 0.0 });
        let (d, d_low) = two_sum(y, -mean);
        // Near the mean the rounding error of `x - θ` is no longer small next to `d`: a point's
        // roots use the first part alone.
        let (d, d_low) = two_sum(d, d_low + y_low);
        let [g, g_low] = quotient([shape, 0.0], y);
        let ratios = Ratios {
            offset: quotient([d, d_low], mean),
            decay: [g, g_low - g * (y_low / y)],
            gap: 2.0 * (shape / mean),
        };
        Point::new(y, ratios)
    }

    #[inline(always)]
    fn low(&self) -> f64 {
        self.shift
    }

    #[inline(always)]
    fn inside(&self) -> f64 {
        self.mean()
    }

    #[inline(always)]
    fn hazard_at_high(&self) -> f64 {
        self.unshifted.mgf_end()
    }

    #[inline(always)]
    fn start(&self, target: Target) -> f64 {
        self.shift + self.unshifted.start(target)
    }

    fn quantiles<const N: usize>(&self, ps: &[f64; N], argument: QuantileArgument) -> [f64; N] {
        let unshifted = self.unshifted.quantiles(ps, argument);
        unshifted.map(|y| self.shift + y)
    }
}

functions!(ShiftedInverseGaussian, at infinity: "1", "0", "`λ/(2μ²)`");
quantiles!(ShiftedInverseGaussian);
traits!(ShiftedInverseGaussian);
moments!(ShiftedInverseGaussian);
