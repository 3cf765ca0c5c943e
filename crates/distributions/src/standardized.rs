//! The inverse Gaussian moved and scaled to mean 0 and variance 1.
//!
//! Role: [`crate::normality`] computes its distance from the normal distribution in closed form.
//! Method: `Y = k (X - 1)` for `X` of mean 1 and shape `k²`, so the ratio of a point is `y/k`
//! itself: nothing is rounded between `y` and it, and large `k` lose no digits near 0. A quantile
//! is that of `X`, moved by Newton steps, which take back what the subtraction of 1 loses.

use crate::InverseGaussian;
use crate::error::{self, Error};
use crate::law::{Law, functions, moments, quantiles, traits};
use crate::point::{Point, Ratios, product, quotient};
use crate::quantile::{Asked, Target};
use crate::special::elementary::two_sum;
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;

/// The number of Newton steps that correct a quantile, sufficient up to `k = 1e12`.
const MENDING_STEPS: u32 = 2;

/// The distribution of `(X - E X)/sqrt(Var X)` for an inverse Gaussian `X` with `k = sqrt(λ/μ)`, on
/// `y > -k`.
///
/// Density `f(y) = (2π)^(-1/2) (1 + y/k)^(-3/2) exp(-y² / (2 (1 + y/k)))`. Distribution function
/// `F(y) = Φ(w) + exp(2k²) Φ(-v)` with `w = y/sqrt(1 + y/k)` and `v = (2k + y)/sqrt(1 + y/k)`,
/// computed as that of [`InverseGaussian`]. It tends to the normal distribution as `k` grows.
///
/// Every function is accurate to 4e-15, relative to its size, and `ln_pdf` to the larger of that
/// and 1. For `k` up to 1e12 a quantile leads back to the logarithm of its probability to 40
/// epsilons, of the size of that and of what an epsilon of the quantile changes. The tests measure
/// both.
///
/// # Examples
/// ```
/// use distributions::{InverseGaussian, Standardized};
///
/// let law = Standardized::new(1e6)?;
/// assert_eq!(law, InverseGaussian::new(1.0, 1e12)?.standardized());
/// // At 0 the density is the normal one for every k.
/// assert!((law.pdf(0.0) - 0.398_942_280_401_432_7).abs() < 1e-16);
/// assert!((law.inverse_cdf(law.cdf(-2.0)) + 2.0).abs() < 1e-14);
/// # Ok::<(), distributions::Error>(())
/// ```
///
/// # Source
/// Chhikara and Folks 1989, "The inverse Gaussian distribution: theory, methodology and
/// applications", moved and scaled.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Parameter"))]
pub struct Standardized {
    k: f64,
}

/// The parameters, before validation.
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

impl Standardized {
    /// Creates the distribution of `k = sqrt(λ/μ)`.
    ///
    /// # Errors
    /// [`Error::RatioInvalid`]: `k` is zero, negative, infinite or NaN.
    pub fn new(k: f64) -> Result<Self, Error> {
        error::ratio("Standardized::new", k).map(Self::of)
    }

    pub(crate) fn of(k: f64) -> Self {
        Self { k }
    }

    /// Returns `k`.
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

    /// Returns the differential entropy in nats: `ln(2πe)/2 - (3/2) exp(2k²) E1(2k²)`.
    #[must_use]
    pub fn entropy(&self) -> f64 {
        self.unmoved().entropy() + self.k.ln()
    }

    /// Returns the median, between -0.344 and 0.
    #[must_use]
    pub fn median(&self) -> f64 {
        self.inverse_cdf(0.5)
    }

    /// Returns the mode, `-2kκ/(1 + κ + sqrt(1 + κ²))` with `κ = 3/(2k²)`.
    #[must_use]
    pub fn mode(&self) -> f64 {
        // The mode of X is sqrt(1 + κ²) - κ, less 1.
        let kappa = 1.5 / self.k / self.k;
        if kappa <= f64::MAX {
            -2.0 * (self.k * kappa) / (1.0 + kappa + kappa.hypot(1.0))
        } else {
            -self.k
        }
    }

    /// Draws a number: finite, not below `-k`.
    ///
    /// Cost: a normal number, a uniform one and a square root.
    #[must_use]
    pub fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        let z: f64 = rng.sample(StandardNormal);
        let u: f64 = rng.random();
        // As for the inverse Gaussian, with q - 1 = 2t sqrt(q) written out.
        let t = 0.5 * z.abs() / self.k;
        let root_q = t + t.hypot(1.0);
        if u * (1.0 + root_q * root_q) < 1.0 {
            (z.abs() * root_q).min(f64::MAX)
        } else {
            (-z.abs() / root_q).max(-self.k)
        }
    }

    /// Returns the distribution of `1 + Y/k`.
    fn unmoved(&self) -> InverseGaussian {
        InverseGaussian::of(1.0, (self.k * self.k).clamp(f64::MIN_POSITIVE, f64::MAX))
    }
}

impl Law for Standardized {
    #[inline(always)]
    fn point(&self, y: f64) -> Point {
        let k = self.k;
        let offset = quotient([y, 0.0], k);
        // 1 + y/k = (k + y)/k, so λ/x is k³/(k + y).
        let (x, x_low) = two_sum(k, y);
        // At the ends of f64's range a sum has no error to speak of.
        let (x, x_low) = (x.min(f64::MAX), if x_low.abs() <= x { x_low } else { 0.0 });
        let [g, g_low] = quotient([k, 0.0], x);
        let g_low = g_low - g * (x_low / x);
        let [square, square_low] = product([k, 0.0], [k, 0.0]);
        let ratios = Ratios {
            offset,
            decay: product([square, square_low], [g, g_low]),
            gap: 2.0 * square,
        };
        Point::of(x, ratios)
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
    fn hazard_at_infinity(&self) -> f64 {
        0.5 * self.k
    }

    /// Returns the first guess of the quantile of `1 + Y/k`, transformed to `Y`.
    #[inline(always)]
    fn start(&self, target: Target) -> f64 {
        self.k * (self.unmoved().start(target) - 1.0)
    }

    fn quantiles<const N: usize>(&self, ps: &[f64; N], asked: Asked) -> [f64; N] {
        let unmoved = self.unmoved().quantiles(ps, asked);
        let mended = |i: usize| self.mended(self.k * (unmoved[i] - 1.0), asked.target(self, ps[i]));
        std::array::from_fn(mended)
    }
}

impl Standardized {
    /// Returns a quantile corrected by Newton steps for the digits that the subtraction of 1 lost.
    fn mended(&self, mut y: f64, target: Target) -> f64 {
        for _ in 0..MENDING_STEPS {
            if !(y > -self.k && y <= f64::MAX) {
                return y.max(-self.k);
            }
            let point = self.point(y);
            let tail = point.tail();
            let miss = tail.ln_probability(target.is_upper) - target.ln_p;
            let rate = point.rate(&tail, target.is_upper) / (self.k + y);
            let step = if target.is_upper { miss } else { -miss } / rate;
            // A step corrects a rounding error and is limited to its size.
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
