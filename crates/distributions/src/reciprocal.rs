//! The distribution of the reciprocal of an inverse Gaussian random variable.
//!
//! Method: the point at `y` is that of the inverse Gaussian at `1/y`, with exchanged tails. `1/y`
//! itself is never rounded: the ratios of the point are computed from `y` as `λ y` and
//! `(1 - μ y)/(μ y)`. The product `μ y` is exact in two parts (a fused multiply-add), so `1 - μ y`
//! keeps its digits near the mean. Moments are computed from the ratio of the parameters that is at
//! most 1, because the other one can overflow.

use crate::InverseGaussian;
use crate::distribution::quantile_solver::{QuantileArgument, Target, solve};
use crate::distribution::{Distribution, functions, moments, quantiles, traits};
use crate::error::Error;
use crate::point::{Point, Ratios, product, quotient};
use crate::special::elementary::two_sum;
use crate::special::exponential_integral::scaled_e1;
use rand::Rng;
use std::f64::consts::{E, LN_2, PI};

/// The reciprocal inverse Gaussian distribution, the distribution of `1/X` for an inverse Gaussian
/// `X` of mean `μ` and shape `λ`.
///
/// Density `f(y) = sqrt(λ / (2π y)) exp(-λ (1 - μ y)² / (2 μ² y))` for `y > 0`. Distribution
/// function `P(Y <= y) = P(X >= 1/y)`. `Y` has the same distribution as the sum of two independent
/// numbers: an inverse Gaussian number of mean `1/μ` and shape `λ/μ²`, and the square of a standard
/// normal number divided by `λ`.
///
/// Every function is as accurate as the corresponding function of [`InverseGaussian`], for the same
/// range of parameters.
///
/// # Examples
/// ```
/// use distributions::{InverseGaussian, ReciprocalInverseGaussian};
///
/// let distribution = InverseGaussian::new(2.0, 3.0)?;
/// let reciprocal = ReciprocalInverseGaussian::new(2.0, 3.0)?;
/// assert_eq!(distribution.reciprocal(), reciprocal);
/// assert!((reciprocal.sf(4.0) / distribution.cdf(0.25) - 1.0).abs() < 1e-15);
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

impl InverseGaussian {
    /// Returns the distribution of `1/X`.
    #[must_use]
    pub fn reciprocal(&self) -> ReciprocalInverseGaussian {
        ReciprocalInverseGaussian::from_reciprocal(*self)
    }
}

impl ReciprocalInverseGaussian {
    /// Creates the distribution of `1/X` from the mean and the shape of `X`.
    ///
    /// # Errors
    /// As [`InverseGaussian::new`].
    pub fn new(mean: f64, shape: f64) -> Result<Self, Error> {
        InverseGaussian::new(mean, shape).map(Self::from_reciprocal)
    }

    /// Creates the distribution of `1/X` from the distribution of `X`.
    pub(crate) fn from_reciprocal(reciprocal: InverseGaussian) -> Self {
        Self { reciprocal }
    }

    /// Returns the distribution of `1/Y`, an inverse Gaussian.
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
        let (mean, shape) = (self.reciprocal.mean(), self.reciprocal.shape());
        let theta = self.theta();
        if theta < 1.0 {
            (theta + 2.0).sqrt() / shape
        } else {
            // One division at a time: the product of the parameters can overflow or underflow.
            (1.0 + 2.0 * self.reciprocal.phi()).sqrt() / shape.sqrt() / mean.sqrt()
        }
    }

    /// Returns the skewness `(3 θ + 8) / (θ + 2)^(3/2)` with `θ = λ/μ`.
    ///
    /// Accuracy: 8 epsilons.
    #[must_use]
    pub fn skewness(&self) -> f64 {
        let theta = self.theta();
        if theta < 1.0 {
            return (3.0 * theta + 8.0) / (theta + 2.0) / (theta + 2.0).sqrt();
        }
        let (phi, root) = (self.reciprocal.phi(), self.reciprocal.root_phi());
        let denominator = 1.0 + 2.0 * phi;
        (3.0 + 8.0 * phi) / denominator / denominator.sqrt() * root
    }

    /// Returns the excess kurtosis `(15 θ + 48) / (θ + 2)²` with `θ = λ/μ`.
    ///
    /// Accuracy: 8 epsilons.
    #[must_use]
    pub fn excess_kurtosis(&self) -> f64 {
        let theta = self.theta();
        if theta < 1.0 {
            return (15.0 * theta + 48.0) / (theta + 2.0) / (theta + 2.0);
        }
        let (phi, root) = (self.reciprocal.phi(), self.reciprocal.root_phi());
        let denominator = 1.0 + 2.0 * phi;
        // `φ` may be subnormal although the result is not, so its root is multiplied twice.
        (15.0 + 48.0 * phi) / denominator / denominator * root * root
    }

    /// Returns the raw moment `E Y^n`; `n` may be negative.
    ///
    /// The result is the moment of order `-n` of `1/Y` and has the accuracy of
    /// [`InverseGaussian::raw_moment`].
    #[must_use]
    pub fn raw_moment(&self, n: i32) -> f64 {
        self.reciprocal.raw_moment_of(n.unsigned_abs(), n < 0)
    }

    /// Returns the differential entropy in nats, `ln(2πe/(μλ))/2 + exp(2λ/μ) E1(2λ/μ)/2`.
    ///
    /// `E1` is the exponential integral.
    ///
    /// Accuracy: 4 epsilons of `1 + |ln μ| + |ln λ|`.
    ///
    /// # Source
    /// Our derivation: the entropy of `Y = 1/X` is the entropy of `X` minus `2 E ln X`.
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
        if phi >= 1.0 / f64::EPSILON {
            // `φ + sqrt(φ² + 4)` is `2φ` to all digits of f64, and may overflow.
            return self.reciprocal.inverse_growth().value();
        }
        2.0 / (phi + phi.hypot(2.0)) / self.reciprocal.mean()
    }

    /// Draws a random number, which is positive and finite for all parameters.
    ///
    /// Cost: one draw of `X` and one division.
    #[must_use]
    pub fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        (1.0 / self.reciprocal.sample(rng)).max(f64::MIN_POSITIVE)
    }

    /// Returns `λ/μ`.
    fn theta(&self) -> f64 {
        self.reciprocal.shape() / self.reciprocal.mean()
    }
}

impl Distribution for ReciprocalInverseGaussian {
    type Point = Point;

    #[inline(always)]
    fn point(&self, y: f64) -> Point {
        let (mean, shape) = (self.reciprocal.mean(), self.reciprocal.shape());
        let [p, p_low] = product([mean, 0.0], [y, 0.0]);
        // If μ y overflows, any large product will do: the offset (1 - μ y)/(μ y) is -1 in f64.
        let is_tame = p < f64::MAX;
        let (p, p_low) = if is_tame { (p, p_low) } else { (f64::MAX, 0.0) };
        let (d, d_low) = two_sum(1.0, -p);
        // Near the mean 1 - p is as small as p_low, so renormalize the sum of both.
        let (d, d_low) = two_sum(d, d_low - p_low);
        let [q, q_low] = quotient([d, d_low], p);
        let ratios = Ratios {
            // The divisor is p (1 + p_low/p), so correct the quotient by its first-order effect.
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
    fn hazard_at_high(&self) -> f64 {
        0.5 * self.reciprocal.shape()
    }

    #[inline(always)]
    fn start(&self, target: Target) -> f64 {
        // `Y` is above its quantile where `X` is below the reciprocal, so exchange the tails.
        let mirrored = Target {
            is_upper: !target.is_upper,
            ..target
        };
        1.0 / self.reciprocal.start(mirrored)
    }

    fn quantiles<const N: usize>(&self, ps: &[f64; N], argument: QuantileArgument) -> [f64; N] {
        solve(self, ps, argument).map(|quantile| quantile.x)
    }
}

functions!(ReciprocalInverseGaussian, at infinity: "1", "0", "`λ/2`");
quantiles!(ReciprocalInverseGaussian);
traits!(ReciprocalInverseGaussian);
moments!(ReciprocalInverseGaussian);
