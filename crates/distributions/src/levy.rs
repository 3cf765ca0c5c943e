//! The Lévy distribution, the limit of the inverse Gaussian for an infinite mean.
//!
//! Method: for `μ = ∞` the roots of the module `point` are `w = -v = -sqrt(c/x)`. The tails
//! computed there become `erfc(sqrt(c/(2x)))` and `erf(sqrt(c/(2x)))`, where `erf` is not computed
//! as `1 - erfc` and is therefore accurate for large `x`.

use crate::distribution::quantile_solver::{QuantileArgument, Target, normal_quantile, solve};
use crate::distribution::{Distribution, functions, quantiles, traits};
use crate::error::{self, Error};
use crate::point::{Point, Ratios, quotient};
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;
use statrs::statistics::{self, Mode};
use std::f64::consts::{EULER_GAMMA, LN_2, PI};

/// The name of the distribution in errors.
const NAME: &str = "Lévy";

/// The Lévy distribution with scale `c`, above 0.
///
/// Density `f(x) = sqrt(c / (2π x³)) exp(-c/(2x))` for `x > 0`, distribution function `F(x) =
/// erfc(sqrt(c/(2x)))`. It is the distribution of the time at which a Brownian motion without drift
/// first reaches a level, and the limit of inverse Gaussian distributions of shape `c` for a
/// growing mean. Moments of order 1/2 and above are infinite, including the mean.
///
/// Every function has the accuracy of [`crate::InverseGaussian`], in both tails and in logarithms;
/// the `erfc` that `statrs` uses has errors of 1e-10. Unlike in `statrs`, there is no location
/// parameter.
///
/// # Examples
/// ```
/// use distributions::Levy;
///
/// let distribution = Levy::new(1.0)?;
/// // Heavy: P(X > x) falls like sqrt(2c/(πx)).
/// assert!((distribution.sf(1e20) / 7.978_845_608_028_654e-11 - 1.0).abs() < 1e-15);
/// assert!((distribution.inverse_sf(1e-10) / 6.366_197_723_675_814e19 - 1.0).abs() < 1e-14);
/// # Ok::<(), distributions::Error>(())
/// ```
///
/// # Source
/// Feller 1971, "An introduction to probability theory and its applications" II, II.4 and VI.2.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Parameters"))]
pub struct Levy {
    scale: f64,
}

/// The parameters, before validation.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Parameters {
    scale: f64,
}

#[cfg(feature = "serde")]
impl TryFrom<Parameters> for Levy {
    type Error = Error;

    fn try_from(Parameters { scale }: Parameters) -> Result<Self, Error> {
        Self::new(scale)
    }
}

impl Levy {
    /// Creates the distribution from its scale.
    ///
    /// # Errors
    /// [`Error::ParameterInvalid`]: the scale is zero, negative, infinite or NaN.
    pub fn new(scale: f64) -> Result<Self, Error> {
        Ok(Self {
            scale: error::positive(NAME, "scale", scale)?,
        })
    }

    /// Creates the distribution without validating the scale.
    #[inline(always)]
    pub(crate) fn new_unchecked(scale: f64) -> Self {
        Self { scale }
    }

    /// Returns the scale `c`.
    #[must_use]
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Returns the differential entropy in nats, `(1 + 3γ + ln(16π c²))/2` with Euler's `γ`.
    ///
    /// Accuracy: 4 epsilons of `1 + |ln c|`.
    #[must_use]
    pub fn entropy(&self) -> f64 {
        0.5 * (1.0 + 3.0 * EULER_GAMMA + (16.0 * PI).ln()) + self.scale.ln()
    }

    /// Returns the median, about `2.198 c`.
    #[must_use]
    pub fn median(&self) -> f64 {
        self.inverse_cdf(0.5)
    }

    /// Returns the mode `c/3`.
    #[must_use]
    pub fn mode(&self) -> f64 {
        self.scale / 3.0
    }

    /// Draws a random number, which is positive and finite: the scale divided by the square of a
    /// standard normal number.
    ///
    /// Cost: one normal number and two divisions.
    #[must_use]
    pub fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        let z: f64 = rng.sample(StandardNormal);
        (self.scale / z / z)
            .abs()
            .clamp(f64::MIN_POSITIVE, f64::MAX)
    }
}

impl Distribution for Levy {
    type Point = Point;

    #[inline(always)]
    fn point(&self, x: f64) -> Point {
        let ratios = Ratios {
            offset: [-1.0, 0.0],
            decay: quotient([self.scale, 0.0], x),
            gap: 0.0,
        };
        // c/x may underflow although its root does not.
        Point::new(x, ratios).with_root(self.scale.sqrt() / x.sqrt())
    }

    #[inline(always)]
    fn inside(&self) -> f64 {
        self.scale
    }

    #[inline(always)]
    fn hazard_at_high(&self) -> f64 {
        0.0
    }

    #[inline(always)]
    fn start(&self, target: Target) -> f64 {
        // The quantile is c/z², where z is a quantile of the standard normal distribution.
        let z = if target.is_upper {
            // The upper tail is erf(z/√2) = P: use the first two terms of the inverse series.
            let t = (0.5 * PI).sqrt() * target.ln_p.exp();
            t * (1.0 + t * t * (1.0 / 6.0))
        } else {
            normal_quantile(target.ln_p - LN_2)
        };
        let root = self.scale.sqrt() / z;
        root * root
    }

    fn quantiles<const N: usize>(&self, ps: &[f64; N], argument: QuantileArgument) -> [f64; N] {
        solve(self, ps, argument).map(|quantile| quantile.x)
    }
}

functions!(Levy, at infinity: "1", "0", "0");
quantiles!(Levy);
traits!(Levy);

impl statistics::Distribution<f64> for Levy {
    fn mean(&self) -> Option<f64> {
        Some(f64::INFINITY)
    }

    fn variance(&self) -> Option<f64> {
        Some(f64::INFINITY)
    }

    fn entropy(&self) -> Option<f64> {
        Some(self.entropy())
    }
}

impl Mode<Option<f64>> for Levy {
    fn mode(&self) -> Option<f64> {
        Some(self.mode())
    }
}
