//! The law as statrs' and rand's users know laws.

use super::InverseGaussian;
use crate::Error;
use rand::Rng;
use rand::distr;
use statrs::distribution::{Continuous, ContinuousCDF, InverseCdfError};
use statrs::statistics::{Distribution, Max, Median, Min, Mode};

impl Continuous<f64, f64> for InverseGaussian {
    fn pdf(&self, x: f64) -> f64 {
        self.pdf(x)
    }

    fn ln_pdf(&self, x: f64) -> f64 {
        self.ln_pdf(x)
    }
}

impl ContinuousCDF<f64, f64> for InverseGaussian {
    fn cdf(&self, x: f64) -> f64 {
        self.cdf(x)
    }

    fn sf(&self, x: f64) -> f64 {
        self.sf(x)
    }

    fn inverse_cdf(&self, p: f64) -> f64 {
        self.inverse_cdf(p)
    }

    fn try_inverse_cdf(&self, p: f64) -> Result<f64, InverseCdfError> {
        self.try_inverse_cdf(p)
            .map_err(|_: Error| InverseCdfError::ArgumentOutOfRange)
    }
}

impl Min<f64> for InverseGaussian {
    fn min(&self) -> f64 {
        0.0
    }
}

impl Max<f64> for InverseGaussian {
    fn max(&self) -> f64 {
        f64::INFINITY
    }
}

impl Distribution<f64> for InverseGaussian {
    fn mean(&self) -> Option<f64> {
        Some(self.mean())
    }

    fn variance(&self) -> Option<f64> {
        Some(self.variance())
    }

    fn std_dev(&self) -> Option<f64> {
        Some(self.std_dev())
    }

    fn entropy(&self) -> Option<f64> {
        Some(self.entropy())
    }

    fn skewness(&self) -> Option<f64> {
        Some(self.skewness())
    }
}

impl Median<f64> for InverseGaussian {
    fn median(&self) -> f64 {
        self.median()
    }
}

impl Mode<Option<f64>> for InverseGaussian {
    fn mode(&self) -> Option<f64> {
        Some(self.mode())
    }
}

impl distr::Distribution<f64> for InverseGaussian {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        self.sample(rng)
    }
}
