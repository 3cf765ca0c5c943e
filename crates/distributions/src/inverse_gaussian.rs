//! The inverse Gaussian distribution.
//!
//! Role: defines the type and its constructors. The macros of `distribution` write the functions at
//! an `x` and the quantiles; the submodules contain moments, sampling and generating functions.

mod distribution;
mod moments;
mod sampling;
mod transforms;

use crate::distribution::{functions, moments, quantiles, traits};
use crate::error::{self, Error};
use crate::special::wide::Wide;

/// The name of the distribution in errors.
pub(crate) const NAME: &str = "inverse Gaussian";

/// The inverse Gaussian (Wald) distribution with mean `μ` and shape `λ`.
///
/// Density `f(x) = sqrt(λ / (2π x³)) exp(-λ (x - μ)² / (2 μ² x))` for `x > 0`. Distribution
/// function `F(x) = Φ(w) + exp(2λ/μ) Φ(-v)` with `w = sqrt(λ/x) (x - μ)/μ` and `v = sqrt(λ/x) (x +
/// μ)/μ`, computed as `exp(-w²/2) (erfcx(-w/√2) + erfcx(v/√2))/2`, which never overflows. The time
/// at which a Brownian motion with drift first reaches a level has this distribution
/// ([`crate::FirstPassage`]).
///
/// Every function is accurate on the whole plane of parameters, `μ/λ` from 1e-14 to 1e8 at scales
/// from 1e-150 to 1e150, in both tails. Golden points have logarithms of probabilities down to -1e8
/// on the whole plane, and down to -1e25 for means from 1e-137 to 1e133; the [front page](crate)
/// has the measured errors. Outside that plane, functions at an `x`, quantiles and draws stay
/// inside their range and are never NaN, but their accuracy is not specified. Logarithms of
/// probabilities below -8.9e307, half the least f64, are rounded to this number or to -∞. The
/// functions of a slice and of a single number return the same bits.
///
/// # Parameters of other libraries
/// | library | parameters | here |
/// |---|---|---|
/// | SciPy `invgauss` | `mu`, `scale` | `new(mu * scale, scale)` |
/// | SciPy `invgauss` with `loc` | `mu`, `loc`, `scale` | [`ShiftedInverseGaussian::new`](crate::ShiftedInverseGaussian::new)`(loc, mu * scale, scale)` |
/// | NumPy `wald` | `mean`, `scale` | `new(mean, scale)` |
/// | R statmod `dinvgauss` | `mean`, `shape` | `new(mean, shape)` |
/// | R statmod, generalized linear models | `mean`, `dispersion` | [`Self::from_mean_dispersion`]`(mean, dispersion)` |
/// | Boost `inverse_gaussian_distribution` | `mean`, `scale` | `new(mean, scale)` |
/// | Matlab `InverseGaussianDistribution` | `mu`, `lambda` | `new(mu, lambda)` |
/// | Distributions.jl `InverseGaussian` | `μ`, `λ` | `new(μ, λ)` |
/// | moments of a sample | mean, variance | [`Self::from_mean_variance`]`(mean, variance)` |
///
/// ```
/// use distributions::InverseGaussian;
///
/// // scipy.stats.invgauss(mu=0.5, scale=3): `mu` is μ/λ, not the mean.
/// let (mu, scale) = (0.5_f64, 3.0);
/// let distribution = InverseGaussian::new(mu * scale, scale)?;
/// assert_eq!(distribution.mean(), 1.5);
/// assert!((distribution.variance() - mu.powi(3) * scale * scale).abs() < 1e-15);
/// # Ok::<(), distributions::Error>(())
/// ```
///
/// # Examples
/// ```
/// use distributions::InverseGaussian;
///
/// let distribution = InverseGaussian::new(1.0, 2.0)?;
/// // Far in the tail, where 1 - cdf is 0.
/// assert_eq!(1.0 - distribution.cdf(60.0), 0.0);
/// assert!((distribution.sf(60.0) / 7.541_145_423_090_157e-29 - 1.0).abs() < 1e-12);
/// assert!((distribution.inverse_sf(distribution.sf(60.0)) / 60.0 - 1.0).abs() < 1e-15);
/// # Ok::<(), distributions::Error>(())
/// ```
///
/// # Source
/// Chhikara and Folks 1989, "The inverse Gaussian distribution: theory, methodology and
/// applications". The identity `v² - w² = 4λ/μ` behind the form of `F`: Giner and Smyth 2016,
/// "statmod: Probability calculations for the inverse Gaussian distribution".
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Parameters"))]
pub struct InverseGaussian {
    mean: f64,
    shape: f64,
}

/// The parameters, before validation.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Parameters {
    mean: f64,
    shape: f64,
}

#[cfg(feature = "serde")]
impl TryFrom<Parameters> for InverseGaussian {
    type Error = Error;

    fn try_from(Parameters { mean, shape }: Parameters) -> Result<Self, Error> {
        Self::new(mean, shape)
    }
}

impl InverseGaussian {
    /// Creates the distribution with mean `μ` and shape `λ`.
    ///
    /// # Errors
    /// - [`Error::MeanInvalid`]: the mean is zero, negative, infinite or NaN.
    /// - [`Error::ShapeInvalid`]: the shape is zero, negative, infinite or NaN.
    ///
    /// # Examples
    /// ```
    /// use distributions::{Error, InverseGaussian};
    ///
    /// assert!(InverseGaussian::new(1.0, 3.0).is_ok());
    /// assert!(matches!(InverseGaussian::new(0.0, 3.0), Err(Error::MeanInvalid { .. })));
    /// assert!(matches!(InverseGaussian::new(1.0, f64::NAN), Err(Error::ShapeInvalid { .. })));
    /// ```
    pub fn new(mean: f64, shape: f64) -> Result<Self, Error> {
        Ok(Self {
            mean: error::mean(NAME, mean)?,
            shape: error::shape(NAME, shape)?,
        })
    }

    /// Creates the distribution of a mean `μ` and a dispersion `φ = 1/λ`, the parameters of statmod
    /// and of generalized linear models.
    ///
    /// # Errors
    /// - [`Error::MeanInvalid`]: the mean is zero, negative, infinite or NaN.
    /// - [`Error::ParameterInvalid`]: the dispersion is zero, negative, infinite or NaN.
    /// - [`Error::ShapeInvalid`]: the shape is outside f64's range.
    ///
    /// # Examples
    /// ```
    /// use distributions::InverseGaussian;
    ///
    /// let distribution = InverseGaussian::from_mean_dispersion(2.0, 0.25)?;
    /// assert_eq!(distribution, InverseGaussian::new(2.0, 4.0)?);
    /// # Ok::<(), distributions::Error>(())
    /// ```
    pub fn from_mean_dispersion(mean: f64, dispersion: f64) -> Result<Self, Error> {
        let mean = error::mean(NAME, mean)?;
        Self::new(mean, 1.0 / error::positive(NAME, "dispersion", dispersion)?)
    }

    /// Creates the distribution of a mean `μ` and a variance, with shape `μ³/variance`, rounded
    /// three times.
    ///
    /// # Errors
    /// - [`Error::MeanInvalid`]: the mean is zero, negative, infinite or NaN.
    /// - [`Error::ParameterInvalid`]: the variance is zero, negative, infinite or NaN.
    /// - [`Error::ShapeInvalid`]: the shape is outside f64's range.
    ///
    /// # Examples
    /// ```
    /// use distributions::InverseGaussian;
    ///
    /// let distribution = InverseGaussian::from_mean_variance(2.0, 16.0)?;
    /// assert_eq!(distribution, InverseGaussian::new(2.0, 0.5)?);
    /// assert_eq!(distribution.variance(), 16.0);
    /// # Ok::<(), distributions::Error>(())
    /// ```
    pub fn from_mean_variance(mean: f64, variance: f64) -> Result<Self, Error> {
        let wide = Wide::new(error::mean(NAME, mean)?);
        let variance = Wide::new(error::positive(NAME, "variance", variance)?);
        // The cube can be outside f64's range although the shape is inside.
        Self::new(mean, wide.times(wide).times(wide).over(variance).value())
    }

    /// Creates the distribution without validating its parameters; used for first guesses of
    /// quantiles and for parameters that are valid by construction.
    #[inline(always)]
    pub(crate) fn new_unchecked(mean: f64, shape: f64) -> Self {
        Self { mean, shape }
    }

    /// Returns the shape `λ`.
    #[must_use]
    pub fn shape(&self) -> f64 {
        self.shape
    }
}

functions!(InverseGaussian, at infinity: "1", "0", "`λ/(2μ²)`");
quantiles!(InverseGaussian);
traits!(InverseGaussian);
moments!(InverseGaussian);
