//! The inverse Gaussian law: its functions at a point and its quantiles.
//!
//! Role: the type and its public functions; the mathematics of a point is in `point`, that of a quantile in `quantile`.

mod moments;
mod point;
mod quantile;
mod sampling;
mod slices;
mod traits;
mod transforms;

use crate::error::{self, Error};
use crate::lanes::{self, Lane};
use point::Point;
use quantile::{Target, solve};

/// Name of the law in errors.
const NAME: &str = "inverse Gaussian";

/// The inverse Gaussian (Wald) law with mean `μ` and shape `λ`.
///
/// Density `f(x) = sqrt(λ / (2π x³)) exp(-λ (x - μ)² / (2 μ² x))` for `x > 0`. It is the law of the time at which a
/// Brownian motion with drift first reaches a level ([`crate::FirstPassage`]), and of every sum of such times.
///
/// Every function is accurate on the whole plane of parameters, `μ/λ` from 1e-14 to 1e8 at scales from 1e-140 to 1e140,
/// in both tails, down to probabilities whose logarithm is -1e25; the [front page](crate) has the measured errors.
/// Beyond that plane results stay inside their range and are never NaN, but no accuracy is promised. A single number
/// and a slice give the same bits.
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
/// Chhikara and Folks 1989, "The inverse Gaussian distribution: theory, methodology and applications".
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

macro_rules! lanes {
    ($($name:ident: |$law:ident, $x:ident| $inside:expr, at 0 $zero:expr, at infinity $infinity:expr;)+) => {$(
        #[derive(Clone, Copy)]
        struct $name(InverseGaussian);

        impl Lane for $name {
            #[inline(always)]
            fn at(&self, x: f64) -> f64 {
                let $law = &self.0;
                // Lanes outside the support are computed at the mean, and replaced.
                let $x = if x > 0.0 && x <= f64::MAX { x } else { $law.mean };
                let inside = $inside;
                let value = if x <= 0.0 { $zero } else { inside };
                let value = if x == f64::INFINITY { $infinity } else { value };
                if x.is_nan() { x } else { value }
            }
        }
    )+};
}

lanes! {
    Pdf: |law, x| Point::of(law, x).density(),
        at 0 0.0, at infinity 0.0;
    LnPdf: |law, x| Point::of(law, x).ln_density(),
        at 0 f64::NEG_INFINITY, at infinity f64::NEG_INFINITY;
    Cdf: |law, x| Point::of(law, x).tail().probability(false),
        at 0 0.0, at infinity 1.0;
    Sf: |law, x| Point::of(law, x).tail().probability(true),
        at 0 1.0, at infinity 0.0;
    LnCdf: |law, x| Point::of(law, x).tail().ln_probability(false),
        at 0 f64::NEG_INFINITY, at infinity 0.0;
    LnSf: |law, x| Point::of(law, x).tail().ln_probability(true),
        at 0 0.0, at infinity f64::NEG_INFINITY;
    Hazard: |law, x| Point::of(law, x).hazard(),
        at 0 0.0, at infinity 0.5 * (law.shape / law.mean) / law.mean;
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

    /// Gives the shape `λ`.
    #[must_use]
    pub fn shape(&self) -> f64 {
        self.shape
    }

    /// Gives the density at `x`: 0 outside the support, NaN for NaN.
    #[must_use]
    pub fn pdf(&self, x: f64) -> f64 {
        lanes::one(Pdf(*self), x)
    }

    /// Gives the logarithm of the density at `x`: -∞ outside the support, NaN for NaN.
    #[must_use]
    pub fn ln_pdf(&self, x: f64) -> f64 {
        lanes::one(LnPdf(*self), x)
    }

    /// Gives `P(X <= x)`: 0 for `x <= 0`, 1 at ∞, NaN for NaN.
    #[must_use]
    pub fn cdf(&self, x: f64) -> f64 {
        lanes::one(Cdf(*self), x)
    }

    /// Gives the survival function `P(X > x)`, accurate where it is small: 1 for `x <= 0`, 0 at ∞, NaN for NaN.
    #[must_use]
    pub fn sf(&self, x: f64) -> f64 {
        lanes::one(Sf(*self), x)
    }

    /// Gives `ln P(X <= x)`, finite where `cdf` is below f64's range: -∞ for `x <= 0`, 0 at ∞, NaN for NaN.
    #[must_use]
    pub fn ln_cdf(&self, x: f64) -> f64 {
        lanes::one(LnCdf(*self), x)
    }

    /// Gives `ln P(X > x)`, finite where `sf` is below f64's range: 0 for `x <= 0`, -∞ at ∞, NaN for NaN.
    #[must_use]
    pub fn ln_sf(&self, x: f64) -> f64 {
        lanes::one(LnSf(*self), x)
    }

    /// Gives the hazard rate `f(x) / P(X > x)`: 0 for `x <= 0`, `λ/(2μ²)` at ∞, NaN for NaN.
    ///
    /// In the upper tail no exponential is left in it, so it is accurate where both parts are below f64's range.
    #[must_use]
    pub fn hazard(&self, x: f64) -> f64 {
        lanes::one(Hazard(*self), x)
    }

    /// Gives the `x` with `P(X <= x) = p`.
    ///
    /// Cost: one to four evaluations of the tail, never more than 8 on the plane that is promised.
    ///
    /// # Panics
    /// If `p` is outside [0, 1] or NaN, as statrs does; [`Self::try_inverse_cdf`] does not.
    ///
    /// # Examples
    /// ```
    /// use distributions::InverseGaussian;
    ///
    /// let law = InverseGaussian::new(1.0, 100.0)?;
    /// assert!((law.inverse_cdf(9e-6) / 0.650_547_588_4 - 1.0).abs() < 1e-9);
    /// # Ok::<(), distributions::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn inverse_cdf(&self, p: f64) -> f64 {
        expect(self.try_inverse_cdf(p))
    }

    /// Gives the `x` with `P(X > x) = p`, accurate where `p` is small.
    ///
    /// # Panics
    /// If `p` is outside [0, 1] or NaN; [`Self::try_inverse_sf`] does not.
    #[must_use]
    #[track_caller]
    pub fn inverse_sf(&self, p: f64) -> f64 {
        expect(self.try_inverse_sf(p))
    }

    /// Gives the `x` with `ln P(X <= x) = ln_p`.
    ///
    /// # Panics
    /// If `ln_p` is above 0 or NaN; [`Self::try_inverse_ln_cdf`] does not.
    #[must_use]
    #[track_caller]
    pub fn inverse_ln_cdf(&self, ln_p: f64) -> f64 {
        expect(self.try_inverse_ln_cdf(ln_p))
    }

    /// Gives the `x` with `ln P(X > x) = ln_p`.
    ///
    /// # Panics
    /// If `ln_p` is above 0 or NaN; [`Self::try_inverse_ln_sf`] does not.
    #[must_use]
    #[track_caller]
    pub fn inverse_ln_sf(&self, ln_p: f64) -> f64 {
        expect(self.try_inverse_ln_sf(ln_p))
    }

    /// Gives what [`Self::inverse_cdf`] gives.
    ///
    /// # Errors
    /// [`Error::ProbabilityInvalid`]: `p` is outside [0, 1] or NaN.
    pub fn try_inverse_cdf(&self, p: f64) -> Result<f64, Error> {
        let p = error::probability("inverse_cdf", p)?;
        Ok(self.quantile(Target::of_probability(p, false)))
    }

    /// Gives what [`Self::inverse_sf`] gives.
    ///
    /// # Errors
    /// [`Error::ProbabilityInvalid`]: `p` is outside [0, 1] or NaN.
    pub fn try_inverse_sf(&self, p: f64) -> Result<f64, Error> {
        let p = error::probability("inverse_sf", p)?;
        Ok(self.quantile(Target::of_probability(p, true)))
    }

    /// Gives what [`Self::inverse_ln_cdf`] gives.
    ///
    /// # Errors
    /// [`Error::LnProbabilityInvalid`]: `ln_p` is above 0 or NaN.
    pub fn try_inverse_ln_cdf(&self, ln_p: f64) -> Result<f64, Error> {
        let ln_p = error::ln_probability("inverse_ln_cdf", ln_p)?;
        Ok(self.quantile(Target::of_ln_probability(ln_p, false)))
    }

    /// Gives what [`Self::inverse_ln_sf`] gives.
    ///
    /// # Errors
    /// [`Error::LnProbabilityInvalid`]: `ln_p` is above 0 or NaN.
    pub fn try_inverse_ln_sf(&self, ln_p: f64) -> Result<f64, Error> {
        let ln_p = error::ln_probability("inverse_ln_sf", ln_p)?;
        Ok(self.quantile(Target::of_ln_probability(ln_p, true)))
    }

    fn quantile(&self, target: Target) -> f64 {
        solve(self, target).x
    }
}

/// Gives the quantile, or panics as statrs' functions do.
#[track_caller]
#[expect(
    clippy::panic,
    reason = "the documented contract of statrs' inverse functions"
)]
fn expect(quantile: Result<f64, Error>) -> f64 {
    match quantile {
        Ok(x) => x,
        Err(error) => panic!("{error}"),
    }
}
