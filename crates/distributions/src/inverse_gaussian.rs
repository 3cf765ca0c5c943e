//! The inverse Gaussian law.
//!
//! Role: the type; its functions at an `x` and its quantiles are those of every `law`, the rest is in the parts of this
//! module.

mod law;
mod moments;
mod sampling;
mod transforms;

use crate::error::{self, Error};
use crate::law::{functions, moments, quantiles, traits};
use crate::{ReciprocalInverseGaussian, Standardized};

/// Name of the law in errors.
pub(crate) const NAME: &str = "inverse Gaussian";

/// The inverse Gaussian (Wald) law with mean `μ` and shape `λ`.
///
/// Density `f(x) = sqrt(λ / (2π x³)) exp(-λ (x - μ)² / (2 μ² x))` for `x > 0`. Distribution function
/// `F(x) = Φ(w) + exp(2λ/μ) Φ(-v)` with `w = sqrt(λ/x) (x - μ)/μ` and `v = sqrt(λ/x) (x + μ)/μ`, computed as
/// `exp(-w²/2) (erfcx(-w/√2) + erfcx(v/√2))/2`, which overflows nowhere. It is the law of the time at which a Brownian
/// motion with drift first reaches a level ([`crate::FirstPassage`]), and of every sum of such times.
///
/// Every function is accurate on the whole plane of parameters, `μ/λ` from 1e-14 to 1e8 at scales from 1e-140 to 1e140,
/// in both tails, down to probabilities whose logarithm is -1e25; the [front page](crate) has the measured errors.
/// Beyond that plane functions at an `x`, quantiles and draws stay inside their range and are never NaN, but no accuracy
/// is promised. A single number and a slice give the same bits.
///
/// # Examples
/// ```
/// use distributions::InverseGaussian;
///
/// let law = InverseGaussian::new(1.0, 2.0)?;
/// // Far in the tail, where 1 - cdf is 0.
/// assert_eq!(1.0 - law.cdf(60.0), 0.0);
/// assert!((law.sf(60.0) / 7.541_145_423_090_157e-29 - 1.0).abs() < 1e-12);
/// assert!((law.inverse_sf(law.sf(60.0)) / 60.0 - 1.0).abs() < 1e-15);
/// # Ok::<(), distributions::Error>(())
/// ```
///
/// # Source
/// Chhikara and Folks 1989, "The inverse Gaussian distribution: theory, methodology and applications". The identity
/// `v² - w² = 4λ/μ` behind the form of `F`: Giner and Smyth 2016, "statmod: Probability calculations for the inverse Gaussian
/// distribution".
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Parameters"))]
pub struct InverseGaussian {
    mean: f64,
    shape: f64,
}

/// What is read before it is checked.
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
    /// Gives the law of a mean and a shape.
    ///
    /// # Errors
    /// - [`Error::MeanInvalid`]: the mean is zero, negative, infinite or NaN.
    /// - [`Error::ShapeInvalid`]: the same of the shape.
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

    /// Gives the law of parameters that were not checked, where only a start is asked.
    #[inline(always)]
    pub(crate) fn of(mean: f64, shape: f64) -> Self {
        Self { mean, shape }
    }

    /// Gives the law of `(X - E X)/sqrt(Var X)`.
    #[must_use]
    pub fn standardized(&self) -> Standardized {
        let ratio = self.shape / self.mean;
        // Far outside the plane the quotient overflows where its root does not.
        Standardized::of(if ratio.is_normal() {
            ratio.sqrt()
        } else {
            self.shape.sqrt() / self.mean.sqrt()
        })
    }

    /// Gives the law of `1/X`.
    #[must_use]
    pub fn reciprocal(&self) -> ReciprocalInverseGaussian {
        ReciprocalInverseGaussian::of(*self)
    }

    /// Gives the shape `λ`.
    #[must_use]
    pub fn shape(&self) -> f64 {
        self.shape
    }
}

functions!(InverseGaussian, at infinity: "1", "0", "`λ/(2μ²)`");
quantiles!(InverseGaussian);
traits!(InverseGaussian);
moments!(InverseGaussian);
