//! The inverse Gaussian of mean 0 and variance 1.

use crate::InverseGaussian;
use crate::error::{self, Error};
use statrs::distribution::{Continuous, ContinuousCDF, InverseCdfError};
use statrs::statistics::{Max, Min};

/// The law of `(X - E X)/sqrt(Var X)` for an inverse Gaussian `X` with `k = sqrt(λ/μ)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standardized {
    law: InverseGaussian,
}

impl Standardized {
    /// Gives the law.
    ///
    /// # Errors
    /// [`Error::RatioInvalid`]: `k` is zero, negative, infinite or NaN.
    pub fn new(k: f64) -> Result<Self, Error> {
        let k = error::ratio("Standardized::new", k)?;
        InverseGaussian::new(k, k * k * k).map(|law| Self { law })
    }
    /// Gives the density.
    #[must_use]
    pub fn pdf(&self, y: f64) -> f64 {
        self.law.pdf(y + self.law.mean())
    }
}

impl Min<f64> for Standardized {
    fn min(&self) -> f64 {
        -self.law.mean()
    }
}
impl Max<f64> for Standardized {
    fn max(&self) -> f64 {
        f64::INFINITY
    }
}
impl Continuous<f64, f64> for Standardized {
    fn pdf(&self, x: f64) -> f64 {
        self.law.pdf(x + self.law.mean())
    }
    fn ln_pdf(&self, x: f64) -> f64 {
        self.law.ln_pdf(x + self.law.mean())
    }
}
impl ContinuousCDF<f64, f64> for Standardized {
    fn cdf(&self, x: f64) -> f64 {
        self.law.cdf(x + self.law.mean())
    }
    fn sf(&self, x: f64) -> f64 {
        self.law.sf(x + self.law.mean())
    }
    fn inverse_cdf(&self, p: f64) -> f64 {
        self.law.inverse_cdf(p) - self.law.mean()
    }
    fn try_inverse_cdf(&self, p: f64) -> Result<f64, InverseCdfError> {
        Ok(self.inverse_cdf(p))
    }
}
