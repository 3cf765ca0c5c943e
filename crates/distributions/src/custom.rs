//! Distributions that are defined outside this crate.
//!
//! Role: a user implements [`CustomDistribution`] (support, logarithm of the density, logarithms of
//! both tails), and [`Custom`] adds all public functions, the traits of `statrs` and `rand`, and
//! with them the [distances](crate::distance).
//! Method: a quantile solves `ln P(x) = ln p` by Newton steps within a bracket. The variable of a
//! step is the logarithm of the distance from the end of the support on the side of the tail if
//! this end is finite, because a density that behaves like a power there has a straight `ln P`;
//! otherwise the variable is `x`. Bisection halves the number of f64 numbers between the ends of
//! the bracket. It therefore needs at most 64 steps for any support and any scale.

use crate::distribution::quantile_solver::{QuantileArgument, Target};
use crate::distribution::{Distribution, functions, quantiles, traits};
use crate::point::Evaluation;
use rand::distr::Open01;
use rand::{Rng, RngExt};
use statrs::statistics::{self, Mode};

/// The maximum number of steps. In the worst case Newton steps and bisections alternate.
const MAX_STEPS: u32 = 160;
/// The error of `ln P`, in units of `max(1, |ln p|)`, up to which the next Newton step is the last
/// step. The error after this step is of the order of the square, which is below the rounding
/// errors.
const LAST_STEP: f64 = 1e-8;
/// The factor by which a Newton step must reduce the error of `ln P`; after a smaller reduction the
/// search bisects once.
const REDUCTION: f64 = 8.0;

/// A continuous distribution in terms of logarithms, which [`Custom`] extends to all functions of
/// the distributions of this crate.
///
/// `ln_pdf` and `ln_tails` are called with an `x` strictly inside the support. All functions are
/// trusted: an error in `ln_pdf` or `ln_tails` is an error of the results, and the lower end of the
/// support must be below the upper end. A distribution whose parameters are not
/// `Copy` implements the trait for a reference to the parameters.
///
/// # Examples
/// ```
/// use distributions::{Custom, CustomDistribution};
///
/// /// The Gumbel distribution, the limit of the largest of many numbers.
/// #[derive(Clone, Copy)]
/// struct Gumbel;
///
/// impl CustomDistribution for Gumbel {
///     fn support(&self) -> [f64; 2] {
///         [f64::NEG_INFINITY, f64::INFINITY]
///     }
///
///     fn ln_pdf(&self, x: f64) -> f64 {
///         -x - (-x).exp()
///     }
///
///     fn ln_tails(&self, x: f64) -> [f64; 2] {
///         let ln_cdf = -(-x).exp();
///         [ln_cdf, (-ln_cdf.exp_m1()).ln()]
///     }
/// }
///
/// let gumbel = Custom::new(Gumbel);
/// assert!((gumbel.inverse_sf(1e-200) - 200.0 * 10_f64.ln()).abs() < 1e-12);
/// assert!((gumbel.median() + 2_f64.ln().ln()).abs() < 1e-15);
/// ```
pub trait CustomDistribution: Copy + Sync {
    /// Returns the lower and the upper end of the support; both can be infinite.
    fn support(&self) -> [f64; 2];

    /// Returns the logarithm of the density.
    fn ln_pdf(&self, x: f64) -> f64;

    /// Returns `[ln P(X <= x), ln P(X > x)]`. Both should be accurate where they are large and
    /// negative.
    fn ln_tails(&self, x: f64) -> [f64; 2];

    /// Returns a first guess of the `x` with `ln P(X > x) = ln_p` if `is_upper`, otherwise with
    /// `ln P(X <= x) = ln_p`; `ln_p` is at most `-ln 2`.
    ///
    /// A good guess saves evaluations, but the quantile does not depend on it. The default is the
    /// f64 number in the middle of the support, in the order of f64 numbers.
    fn quantile_guess(&self, _ln_p: f64, _is_upper: bool) -> f64 {
        let [low, high] = self.support();
        middle(low, high)
    }

    /// Returns the limit of the hazard at the upper end of the support; by default NaN.
    fn hazard_limit(&self) -> f64 {
        f64::NAN
    }
}

/// The distribution of a [`CustomDistribution`], with the functions of all distributions of this
/// crate.
///
/// Every function is the exponential of a logarithm, a difference of two logarithms, or the
/// solution of an equation with logarithms. Relative to the given functions, `pdf`, `cdf`, `sf` and
/// `hazard` have an error of an epsilon times the size of the logarithms.
/// `ln_cdf(inverse_ln_cdf(ln_p))` equals `ln_p` up to a few epsilons of `1 + |ln_p|`, if f64 has a
/// number so close to the quantile; `inverse_ln_sf` likewise. On the tested distributions a
/// quantile without a first guess costs at most 16 evaluations of density and tails on average, and
/// never more than 64; a good guess saves evaluations.
///
/// The moments are those of [`statrs::statistics::Distribution`], if the inner type implements this
/// trait.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct Custom<D> {
    inner: D,
}

/// The logarithms of density and tails at one `x`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Logarithms {
    ln_pdf: f64,
    ln_tails: [f64; 2],
}

impl Evaluation for Logarithms {
    #[inline(always)]
    fn density(&self) -> f64 {
        self.ln_pdf.exp()
    }

    #[inline(always)]
    fn ln_density(&self) -> f64 {
        self.ln_pdf
    }

    #[inline(always)]
    fn probability(&self, of_upper: bool) -> f64 {
        self.ln_probability(of_upper).exp()
    }

    #[inline(always)]
    fn ln_probability(&self, of_upper: bool) -> f64 {
        self.ln_tails[usize::from(of_upper)]
    }

    #[inline(always)]
    fn hazard(&self) -> f64 {
        (self.ln_pdf - self.ln_probability(true)).exp()
    }
}

impl<D: CustomDistribution> Custom<D> {
    /// Creates the distribution.
    #[must_use]
    pub fn new(inner: D) -> Self {
        Self { inner }
    }

    /// Returns the type that defines the distribution.
    #[must_use]
    pub fn inner(&self) -> D {
        self.inner
    }

    /// Returns the median.
    #[must_use]
    pub fn median(&self) -> f64 {
        self.inverse_cdf(0.5)
    }

    /// Draws a random number by inversion: the quantile of a uniform number from `2^-53` to
    /// `1 - 2^-53`.
    ///
    /// Cost: a uniform number and a quantile.
    #[must_use]
    pub fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        self.inverse_cdf(rng.sample(Open01))
    }

    /// Returns the `x` at which the tail of the target has the probability of the target; an end of
    /// the support for a probability of 0.
    fn quantile(&self, target: Target) -> f64 {
        let [low, high] = self.inner.support();
        if target.ln_p == f64::NEG_INFINITY {
            return if target.is_upper { high } else { low };
        }
        let nearest_end = if target.is_upper {
            [high, low]
        } else {
            [low, high]
        };
        let end = nearest_end.into_iter().find(|end| end.is_finite());
        let (mut below, mut above) = (low, high);
        let mut x = self.start(target);
        // The error that a Newton step must have reached; infinite after a bisection.
        let mut most = f64::INFINITY;
        for _ in 0..MAX_STEPS {
            let inside = middle(below, above);
            if !(below < inside && inside < above) {
                break;
            }
            if !(below < x && x < above) {
                (x, most) = (inside, f64::INFINITY);
            }
            let point = self.point(x);
            let ln_tail = point.ln_probability(target.is_upper);
            let miss = ln_tail - target.ln_p;
            // The lower tail grows with x, the upper tail falls.
            if (miss > 0.0) == target.is_upper {
                below = x;
            } else {
                above = x;
            }
            let rate = (point.ln_pdf - ln_tail).exp();
            let step = if target.is_upper { miss } else { -miss } / rate;
            // With d = x - end, a step of ln |d| multiplies d by exp(step/d).
            let next = end.map_or(x + step, |end| end + (x - end) * (step / (x - end)).exp());
            if miss.abs() <= LAST_STEP * target.ln_p.abs().max(1.0) {
                return if low < next && next < high { next } else { x };
            }
            // NaN is not inside the bracket, so the next step bisects.
            x = if miss.abs() <= most { next } else { f64::NAN };
            most = miss.abs() / REDUCTION;
        }
        // The ends are neighbouring numbers, or the root is outside f64's range.
        if target.is_upper { above } else { below }
    }
}

impl<D: CustomDistribution> Distribution for Custom<D> {
    type Point = Logarithms;

    #[inline(always)]
    fn point(&self, x: f64) -> Logarithms {
        Logarithms {
            ln_pdf: self.inner.ln_pdf(x),
            ln_tails: self.inner.ln_tails(x),
        }
    }

    #[inline(always)]
    fn low(&self) -> f64 {
        self.inner.support()[0]
    }

    #[inline(always)]
    fn high(&self) -> f64 {
        self.inner.support()[1]
    }

    #[inline(always)]
    fn inside(&self) -> f64 {
        middle(self.low(), self.high())
    }

    #[inline(always)]
    fn hazard_at_high(&self) -> f64 {
        self.inner.hazard_limit()
    }

    #[inline(always)]
    fn start(&self, target: Target) -> f64 {
        self.inner.quantile_guess(target.ln_p, target.is_upper)
    }

    fn quantiles<const N: usize>(&self, ps: &[f64; N], argument: QuantileArgument) -> [f64; N] {
        ps.map(|p| self.quantile(argument.target(self, p)))
    }
}

/// Returns the number in the middle between `low` and `high` in the order of f64 numbers, which is
/// about the geometric mean of two positive numbers; 0 between -∞ and ∞.
fn middle(low: f64, high: f64) -> f64 {
    // The bits of f64 numbers are in the order of sign and magnitude. The same map converts them to
    // two's complement and back.
    let map = |bits: i64| {
        if bits < 0 {
            i64::MIN.wrapping_sub(bits)
        } else {
            bits
        }
    };
    let [low, high] = [low, high].map(|x| map(x.to_bits().cast_signed()));
    f64::from_bits(map(low.midpoint(high)).cast_unsigned())
}

functions!(Custom<D>, where D: CustomDistribution, at infinity:
    "1", "0", "the result of [`CustomDistribution::hazard_limit`]");
quantiles!(Custom<D>, where D: CustomDistribution);
traits!(Custom<D>, where D: CustomDistribution);

impl<D> statistics::Distribution<f64> for Custom<D>
where
    D: CustomDistribution + statistics::Distribution<f64>,
{
    fn mean(&self) -> Option<f64> {
        self.inner.mean()
    }

    fn variance(&self) -> Option<f64> {
        self.inner.variance()
    }

    fn std_dev(&self) -> Option<f64> {
        self.inner.std_dev()
    }

    fn entropy(&self) -> Option<f64> {
        self.inner.entropy()
    }

    fn skewness(&self) -> Option<f64> {
        self.inner.skewness()
    }
}

impl<D: CustomDistribution + Mode<Option<f64>>> Mode<Option<f64>> for Custom<D> {
    fn mode(&self) -> Option<f64> {
        self.inner.mode()
    }
}
