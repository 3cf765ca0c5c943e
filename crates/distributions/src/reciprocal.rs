//! The distribution of the reciprocal of an inverse Gaussian random variable.
//!
//! Method: at `y` it has the point of the inverse Gaussian at `1/y`, tails exchanged. `1/y` is
//! never rounded: the ratios that make a point are `λ y` and `(1 - μ y)/(μ y)`, whose numerator a
//! fused multiplication gives exactly.

use crate::InverseGaussian;
use crate::error::Error;
use crate::law::{Law, functions, moments, quantiles, traits};
use crate::point::{Point, Ratios, product, quotient};
use crate::quantile::Target;
use crate::special::elementary::two_sum;
use crate::special::exponential_integral::scaled_e1;
use rand::Rng;
use std::f64::consts::{E, LN_2, PI};

/// The reciprocal inverse Gaussian distribution, the distribution of `1/X` for an inverse Gaussian
/// `X` of mean `μ` and shape `λ`.
///
/// Density `f(y) = sqrt(λ / (2π y)) exp(-λ (1 - μ y)² / (2 μ² y))` for `y > 0`. Distribution
/// function `P(Y <= y) = P(X >= 1/y)`. It is also the distribution of the sum of an inverse
/// Gaussian number of mean `1/μ` and shape `λ/μ²` and of a squared normal number divided by `λ`.
///
/// Every function is as accurate as those of [`InverseGaussian`], on the same plane of parameters.
///
/// # Examples
/// ```
/// use distributions::{InverseGaussian, ReciprocalInverseGaussian};
///
/// let (law, reciprocal) = (InverseGaussian::new(2.0, 3.0)?, ReciprocalInverseGaussian::new(2.0, 3.0)?);
/// assert_eq!(law.reciprocal(), reciprocal);
/// assert!((reciprocal.sf(4.0) / law.cdf(0.25) - 1.0).abs() < 1e-15);
/// assert_eq!(reciprocal.mean(), 1.0 / 2.0 + 1.0 / 3.0);
/// # Ok::<(), distributions::Error>(())
/// ```
///
/// # Source
/// Tweedie 1957, "Statistical properties of inverse Gaussian distributions I".
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct ReciprocalInverseGaussian {
    reciprocal: InverseGaussian,
}

impl ReciprocalInverseGaussian {
    /// Creates the distribution of `1/X` from mean and shape of `X`.
    ///
    /// # Errors
    /// Those of [`InverseGaussian::new`].
    pub fn new(mean: f64, shape: f64) -> Result<Self, Error> {
        InverseGaussian::new(mean, shape).map(Self::of)
    }

    pub(crate) fn of(reciprocal: InverseGaussian) -> Self {
        Self { reciprocal }
    }

    /// Returns the inverse Gaussian distribution of `1/Y`.
    #[must_use]
    pub fn reciprocal(&self) -> InverseGaussian {
        self.reciprocal
    }

    /// Returns the mean `1/μ + 1/λ`.
    ///
    /// Accuracy: 8 epsilons.
    #[must_use]
    pub fn mean(&self) -> f64 {
        1.0 / self.reciprocal.mean() + 1.0 / self.reciprocal.shape()
    }

    /// Returns the variance `1/(λ μ) + 2/λ²`.
    ///
    /// Accuracy: 8 epsilons.
    #[must_use]
    pub fn variance(&self) -> f64 {
        self.std_dev() * self.std_dev()
    }

    /// Returns the standard deviation `sqrt(1/(λ μ) + 2/λ²)`.
    ///
    /// Accuracy: 8 epsilons.
    #[must_use]
    pub fn std_dev(&self) -> f64 {
        (self.theta() + 2.0).sqrt() / self.reciprocal.shape()
    }

    /// Returns the skewness `(3 θ + 8) / (θ + 2)^(3/2)` with `θ = λ/μ`.
    ///
    /// Accuracy: 8 epsilons.
    #[must_use]
    pub fn skewness(&self) -> f64 {
        let theta = self.theta();
        (3.0 * theta + 8.0) / (theta + 2.0) / (theta + 2.0).sqrt()
    }

    /// Returns the excess kurtosis `(15 θ + 48) / (θ + 2)²` with `θ = λ/μ`.
    ///
    /// Accuracy: 8 epsilons.
    #[must_use]
    pub fn excess_kurtosis(&self) -> f64 {
        let theta = self.theta();
        (15.0 * theta + 48.0) / (theta + 2.0) / (theta + 2.0)
    }

    /// Returns `E Y^n`, of a negative order as well: the moment of order `-n` of `1/Y`, and as
    /// accurate as [`InverseGaussian::raw_moment`].
    #[must_use]
    pub fn raw_moment(&self, n: i32) -> f64 {
        self.reciprocal.raw_moment_of(n.unsigned_abs(), n < 0)
    }

    /// Returns the differential entropy in nats, `ln(2πe/(μλ))/2 + exp(2λ/μ) E1(2λ/μ)/2`.
    ///
    /// Accuracy: 4 epsilons of `1 + |ln μ| + |ln λ|`.
    ///
    /// # Source
    /// The entropy of `X` minus `2 E ln X`.
    #[must_use]
    pub fn entropy(&self) -> f64 {
        let (mean, shape) = (self.reciprocal.mean(), self.reciprocal.shape());
        let ln_theta = shape.ln() - mean.ln();
        let e1 = scaled_e1(2.0 * self.theta(), LN_2 + ln_theta);
        0.5 * ((2.0 * PI * E).ln() - mean.ln() - shape.ln() + e1)
    }

    /// Returns the median, the reciprocal of the median of `X`.
    #[must_use]
    pub fn median(&self) -> f64 {
        self.inverse_cdf(0.5)
    }

    /// Returns the mode `2 / (μ (φ + sqrt(φ² + 4)))` with `φ = μ/λ`.
    #[must_use]
    pub fn mode(&self) -> f64 {
        let phi = self.reciprocal.phi();
        2.0 / (phi + phi.hypot(2.0)) / self.reciprocal.mean()
    }

    /// Draws a number: positive and finite, whatever the parameters.
    ///
    /// Cost: a draw of `X` and a quotient.
    #[must_use]
    pub fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        (1.0 / self.reciprocal.sample(rng)).max(f64::MIN_POSITIVE)
    }

    /// Returns `λ/μ`.
    fn theta(&self) -> f64 {
        self.reciprocal.shape() / self.reciprocal.mean()
    }
}

impl Law for ReciprocalInverseGaussian {
    #[inline(always)]
    fn point(&self, y: f64) -> Point {
        let (mean, shape) = (self.reciprocal.mean(), self.reciprocal.shape());
        let [p, p_low] = product([mean, 0.0], [y, 0.0]);
        // Where μ y is beyond f64's range, the quotient is -1 with any large number.
        let is_tame = p < f64::MAX;
        let (p, p_low) = if is_tame { (p, p_low) } else { (f64::MAX, 0.0) };
        let (d, d_low) = two_sum(1.0, -p);
        // Near the mean the low part of the product is not small compared with the difference.
        let (d, d_low) = two_sum(d, d_low - p_low);
        let [q, q_low] = quotient([d, d_low], p);
        let ratios = Ratios {
            // The divisor, too, has a low part.
            offset: [q, q_low - q * (p_low / p)],
            decay: product([shape, 0.0], [y, 0.0]),
            gap: 2.0 * (shape / mean),
        };
        Point::of_reciprocal(y, ratios)
    }

    #[inline(always)]
    fn inside(&self) -> f64 {
        1.0 / self.reciprocal.mean()
    }

    #[inline(always)]
    fn hazard_at_infinity(&self) -> f64 {
        0.5 * self.reciprocal.shape()
    }

    #[inline(always)]
    fn start(&self, target: Target) -> f64 {
        let mirrored = Target {
            is_upper: !target.is_upper,
            ..target
        };
        1.0 / self.reciprocal.start(mirrored)
    }
}

functions!(ReciprocalInverseGaussian, at infinity: "1", "0", "`λ/2`");
quantiles!(ReciprocalInverseGaussian);
traits!(ReciprocalInverseGaussian);
moments!(ReciprocalInverseGaussian);
