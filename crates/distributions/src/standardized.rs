//! The inverse Gaussian shifted and scaled to mean 0 and variance 1.
//!
//! Role: the distribution whose distance from the normal distribution [`crate::normality`] computes
//! in closed form.
//! Method: `Y = k (X - 1)` for an `X` of mean 1 and shape `k²`. The ratio `(x - μ)/μ` of a point is
//! `y/k`, computed from `y` without a rounding of `x`, so no digits are lost near 0 for large `k`.
//! A quantile is computed as `k (x - 1)` from the quantile `x` of `X`; Newton steps then restore
//! the digits that the subtraction loses.

use crate::InverseGaussian;
use crate::distribution::quantile_solver::{QuantileArgument, Target};
use crate::distribution::{Distribution, functions, moments, quantiles, traits};
use crate::error::{self, Error};
use crate::point::{Point, Ratios, product, quotient};
use crate::special::elementary::two_sum;
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;

/// The number of Newton steps that correct a quantile, sufficient up to `k = 1e12`.
const REFINEMENT_STEPS: u32 = 2;

/// The distribution of `(X - E X)/sqrt(Var X)` for an inverse Gaussian `X`; its parameter is `k =
/// sqrt(λ/μ)`, its support is `y > -k`.
///
/// Density `f(y) = (2π)^(-1/2) (1 + y/k)^(-3/2) exp(-y² / (2 (1 + y/k)))`. Distribution function
/// `F(y) = Φ(w) + exp(2k²) Φ(-v)` with `w = y/sqrt(1 + y/k)` and `v = (2k + y)/sqrt(1 + y/k)`,
/// computed like that of [`InverseGaussian`]. For growing `k` it tends to the standard normal
/// distribution.
///
/// The relative error of every function is below 4e-15; the error of `ln_pdf` is relative to the
/// larger of 1 and its size. For `k` up to 1e12, the logarithm of the probability at a computed
/// quantile differs from the requested logarithm by at most 40 epsilons of the sum of two numbers:
/// the size of the logarithm, and its change per relative change of the quantile. The tests measure
/// both errors.
///
/// # Examples
/// ```
/// use distributions::{InverseGaussian, Standardized};
///
/// let distribution = Standardized::new(1e6)?;
/// assert_eq!(distribution, InverseGaussian::new(1.0, 1e12)?.standardized());
/// // At 0 the density is the normal one for every k.
/// assert!((distribution.pdf(0.0) - 0.398_942_280_401_432_7).abs() < 1e-16);
/// assert!((distribution.inverse_cdf(distribution.cdf(-2.0)) + 2.0).abs() < 1e-14);
/// # Ok::<(), distributions::Error>(())
/// ```
///
/// # Source
/// Chhikara and Folks 1989, "The inverse Gaussian distribution: theory, methodology and
/// applications", shifted and scaled.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Parameter"))]
pub struct Standardized {
    k: f64,
}

/// The deserialized parameter before validation.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Parameter {
    k: f64,
}

#[cfg(feature = "serde")]
impl TryFrom<Parameter> for Standardized {
    type Error = Error;

    fn try_from(Parameter { k }: Parameter) -> Result<Self, Error> {
        Self::new(k)
    }
}

impl InverseGaussian {
    /// Returns the distribution of `(X - E X)/sqrt(Var X)`.
    #[must_use]
    pub fn standardized(&self) -> Standardized {
        let ratio = self.shape() / self.mean();
        // Far outside the supported plane the quotient can overflow although its root does not.
        Standardized::new_unchecked(if ratio.is_normal() {
            ratio.sqrt()
        } else {
            self.shape().sqrt() / self.mean().sqrt()
        })
    }
}

impl Standardized {
    /// Creates the distribution from `k = sqrt(λ/μ)`.
    ///
    /// # Errors
    /// [`Error::RatioInvalid`]: `k` is zero, negative, infinite or NaN.
    pub fn new(k: f64) -> Result<Self, Error> {
        error::ratio("Standardized::new", k).map(Self::new_unchecked)
    }

    /// Creates the distribution without validating `k`.
    pub(crate) fn new_unchecked(k: f64) -> Self {
        Self { k }
    }

    /// Returns the parameter `k`.
    #[must_use]
    pub fn k(&self) -> f64 {
        self.k
    }

    /// Returns the mean, 0.
    #[must_use]
    pub fn mean(&self) -> f64 {
        0.0
    }

    /// Returns the variance, 1.
    #[must_use]
    pub fn variance(&self) -> f64 {
        1.0
    }

    /// Returns the standard deviation, 1.
    #[must_use]
    pub fn std_dev(&self) -> f64 {
        1.0
    }

    /// Returns the skewness `3/k`, rounded once.
    #[must_use]
    pub fn skewness(&self) -> f64 {
        3.0 / self.k
    }

    /// Returns the excess kurtosis `15/k²`, rounded twice.
    #[must_use]
    pub fn excess_kurtosis(&self) -> f64 {
        15.0 / self.k / self.k
    }

    /// Returns the differential entropy in nats: `ln(2πe)/2 - (3/2) exp(2k²) E1(2k²)` with the
    /// exponential integral `E1`.
    #[must_use]
    pub fn entropy(&self) -> f64 {
        self.unstandardized().entropy() + self.k.ln()
    }

    /// Returns the median, between -0.344 and 0.
    #[must_use]
    pub fn median(&self) -> f64 {
        self.inverse_cdf(0.5)
    }

    /// Returns the mode, `-2kκ/(1 + κ + sqrt(1 + κ²))` with `κ = 3/(2k²)`.
    #[must_use]
    pub fn mode(&self) -> f64 {
        // The mode of X is sqrt(1 + κ²) - κ. The fraction below is k times this mode minus 1,
        // computed without cancellation. For an infinite κ the fraction would be NaN; the mode is
        // then at the end of the support.
        let kappa = 1.5 / self.k / self.k;
        if kappa <= f64::MAX {
            -2.0 * (self.k * kappa) / (1.0 + kappa + kappa.hypot(1.0))
        } else {
            -self.k
        }
    }

    /// Draws a random number, which is finite and at least `-k`.
    ///
    /// Cost: a normal number, a uniform number and a square root.
    #[must_use]
    pub fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        let z: f64 = rng.sample(StandardNormal);
        let u: f64 = rng.random();
        // As for the inverse Gaussian, the draw of X is q or 1/q. With q - 1 = 2t sqrt(q) the draw
        // k (X - 1) is |z| sqrt(q) or -|z|/sqrt(q), without the subtraction of 1.
        let t = 0.5 * z.abs() / self.k;
        let root_q = t + t.hypot(1.0);
        if u * (1.0 + root_q * root_q) < 1.0 {
            (z.abs() * root_q).min(f64::MAX)
        } else {
            (-z.abs() / root_q).max(-self.k)
        }
    }

    /// Returns the distribution of `X = 1 + Y/k`.
    fn unstandardized(&self) -> InverseGaussian {
        InverseGaussian::new_unchecked(1.0, (self.k * self.k).clamp(f64::MIN_POSITIVE, f64::MAX))
    }
}

impl Distribution for Standardized {
    type Point = Point;

    #[inline(always)]
    fn point(&self, y: f64) -> Point {
        let k = self.k;
        let offset = quotient([y, 0.0], k);
        // 1 + y/k = (k + y)/k, so λ/x is k³/(k + y).
        let (x, x_low) = two_sum(k, y);
        // If the sum overflows, its rounding error is not finite; otherwise the error is far below
        // the sum.
        let (x, x_low) = (x.min(f64::MAX), if x_low.abs() <= x { x_low } else { 0.0 });
        let [g, g_low] = quotient([k, 0.0], x);
        // The divisor is x (1 + x_low/x), so correct the quotient by its first-order effect.
        let g_low = g_low - g * (x_low / x);
        let [square, square_low] = product([k, 0.0], [k, 0.0]);
        let ratios = Ratios {
            offset,
            decay: product([square, square_low], [g, g_low]),
            gap: 2.0 * square,
        };
        Point::new(x, ratios)
    }

    #[inline(always)]
    fn low(&self) -> f64 {
        -self.k
    }

    #[inline(always)]
    fn inside(&self) -> f64 {
        0.0
    }

    #[inline(always)]
    fn hazard_at_high(&self) -> f64 {
        0.5 * self.k
    }

    /// Returns the first guess of the quantile of `1 + Y/k`, transformed to `Y`.
    #[inline(always)]
    fn start(&self, target: Target) -> f64 {
        self.k * (self.unstandardized().start(target) - 1.0)
    }

    fn quantiles<const N: usize>(&self, ps: &[f64; N], argument: QuantileArgument) -> [f64; N] {
        let unstandardized = self.unstandardized().quantiles(ps, argument);
        let refined = |i: usize| {
            self.refined(
                self.k * (unstandardized[i] - 1.0),
                argument.target(self, ps[i]),
            )
        };
        std::array::from_fn(refined)
    }
}

impl Standardized {
    /// Returns the quantile `y` after Newton steps that restore the digits lost by the subtraction
    /// of 1.
    fn refined(&self, mut y: f64, target: Target) -> f64 {
        for _ in 0..REFINEMENT_STEPS {
            if !(y > -self.k && y <= f64::MAX) {
                return y.max(-self.k);
            }
            let point = self.point(y);
            let tail = point.tail();
            let miss = tail.ln_probability(target.is_upper) - target.ln_p;
            let rate = point.rate(&tail, target.is_upper) / (self.k + y);
            let step = if target.is_upper { miss } else { -miss } / rate;
            // A step corrects the rounding error of `k (x - 1)`, a few epsilons of k. A larger step
            // would come from the error of the tail itself.
            let most = 4.0 * f64::EPSILON * self.k;
            y += step.clamp(-most, most);
        }
        y
    }
}

functions!(Standardized, at infinity: "1", "0", "`k/2`");
quantiles!(Standardized);
traits!(Standardized);
moments!(Standardized);
