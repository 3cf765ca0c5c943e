//! Distances between two arbitrary distributions of one real variable, with error estimates.
//!
//! Role: computes distances for distributions of `statrs`, of this crate, and of users.
//! [`crate::normality`] has closed forms for the standardized inverse Gaussian and the normal
//! distribution.
//! Method: four steps.
//! 1. Quantiles of both distributions and the ends of their supports cut the line into pieces
//!    (`line`). Pieces are halved until the integral of each density over a piece agrees with the
//!    difference of the distribution function.
//! 2. In each piece, sign changes of the difference (of the densities or of the distribution
//!    functions) are searched on a grid. The grid is refined until two grids in a row find the same
//!    number of sign changes. Pieces are cut at sign changes, so that every integrand is smooth
//!    inside a piece.
//! 3. Each piece is integrated by adaptive quadrature. Next to a finite end of a support the
//!    variable is the logarithm of the distance from the end. Only `cdf` and `sf` are called at an
//!    end itself, so densities may be unbounded there (`view`).
//! 4. Integrands avoid cancellation between distributions that are close to each other. For
//!    example, the divergence integrates `f ln(f/g) - f + g`, which is never negative.
//!
//! Accuracy: every distance has an error estimate. Quadrature and rounding contribute less than
//! 1e-10 of the distance, or less than 1e-13 of its unit (1, or the width of both distributions for
//! Wasserstein's distance); otherwise the result is an error. The contribution of rounding includes
//! values of `x` that are far from 0 compared with the width of a distribution. The disagreement of
//! the distributions' own functions `pdf`, `ln_pdf` and `cdf` is added to the estimate without a
//! limit; for example, the `cdf` of `statrs`' normal distribution has errors of 1e-10. The estimate
//! does not cover very narrow parts of a distribution with less than 1e-8 of its probability.
//! Limits: the distributions must be proper; the probability that a [`crate::FirstPassage`] has at
//! infinity is ignored.
//!
//! # Examples
//! ```
//! use distributions::distance;
//! use statrs::distribution::{Beta, Normal};
//!
//! let (a, b) = (Normal::new(0.0, 1.0)?, Normal::new(1.0, 1.0)?);
//! let found = distance::kl(&a, &b)?;
//! assert!((found.value - 0.5).abs() <= found.error);
//! assert!(found.error < 1e-10);
//!
//! // A density that is infinite at both ends of its support.
//! let arcsine = Beta::new(0.5, 0.5)?;
//! let found = distance::kl(&arcsine, &Beta::new(2.0, 2.0)?)?;
//! assert!((found.value - 1.222_393_728_282_216_7).abs() <= found.error);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod line;
mod pair;
mod span;
mod view;

use crate::Error;
use crate::quadrature::{Estimate, Term};
use line::Node;
use pair::Pair;
use statrs::distribution::{Continuous, ContinuousCDF};

/// Threshold below which a density counts as 0 in the divergence.
const NEGLIGIBLE: f64 = 1e-300;

/// A distribution with a density and a distribution function, in terms of the traits of `statrs`.
///
/// `min` and `max` are the ends of the support. Strictly inside the support, `pdf` and `ln_pdf` may
/// underflow, and may be NaN where `cdf` or `sf` is 0.
pub trait ContinuousDistribution: Continuous<f64, f64> + ContinuousCDF<f64, f64> {}

impl<L: Continuous<f64, f64> + ContinuousCDF<f64, f64>> ContinuousDistribution for L {}

/// Computes the Kolmogorov distance `sup |F - G|`.
///
/// # Errors
/// [`Error::NotConverged`]: the error estimate exceeds the limit of the [module](self), or a
/// function of a distribution returned NaN.
pub fn kolmogorov(
    p: &impl ContinuousDistribution,
    q: &impl ContinuousDistribution,
) -> Result<Estimate, Error> {
    let pair = Pair::new("distance::kolmogorov", p, q)?;
    // The extremes of F - G are at points where the densities are equal, or at ends of supports.
    let changes = pair.sign_changes(|place| pair.density_difference(place))?;
    let extremes = changes
        .iter()
        .map(|&(chart, t)| pair.cdf_difference(&pair.place(chart, t)));
    let at_landmarks = pair.landmarks().iter().map(|&x| pair.cdf_difference_at(x));
    // Unlike `f64::max`, this comparison propagates NaN.
    let largest = |most: f64, found: f64| if found <= most { most } else { found };
    let value = extremes
        .chain(at_landmarks)
        .map(f64::abs)
        .fold(0.0, largest);
    let found = Estimate { value, error: 0.0 };
    let at_extremes = changes.iter().map(|&(chart, t)| pair.noise_at(chart, t));
    // `of_cdf` is measured at the ends of pieces; add the disagreement from there to an extreme.
    let noise = pair.noise().of_cdf + at_extremes.fold(0.0, f64::max);
    pair.promised(found.rounded(pair.rounding(), 1.0), 1.0, noise)
}

/// Computes the total variation distance `sup |P(A) - Q(A)|`, half the integral of `|f - g|`.
///
/// # Errors
/// As [`kolmogorov`].
pub fn total_variation(
    p: &impl ContinuousDistribution,
    q: &impl ContinuousDistribution,
) -> Result<Estimate, Error> {
    let pair = Pair::new("distance::total_variation", p, q)?;
    let changes = pair.sign_changes(|place| pair.density_difference(place))?;
    let found = pair.integral(&changes, |place| {
        let [f, g] = pair.densities(place);
        Term {
            value: 0.5 * (f.weight - g.weight).abs(),
            rounding: 0.5 * (f.weight * f.doubt + g.weight * g.doubt),
        }
    });
    let noise = pair.noise().of_whole;
    pair.promised(found.rounded(pair.rounding(), 1.0), 1.0, noise)
}

/// Computes Hellinger's distance `sqrt(1 - ∫ sqrt(f g))`.
///
/// # Errors
/// As [`kolmogorov`].
pub fn hellinger(
    p: &impl ContinuousDistribution,
    q: &impl ContinuousDistribution,
) -> Result<Estimate, Error> {
    let pair = Pair::new("distance::hellinger", p, q)?;
    let Estimate { value, error } = pair.integral(&[], |place| {
        let [f, g] = pair.densities(place);
        let [root_f, root_g] = [f, g].map(|density| density.weight.sqrt());
        let difference = (root_f - root_g).abs();
        Term {
            value: 0.5 * difference * difference,
            // A root has half the relative error.
            rounding: 0.5 * difference * (root_f * f.doubt + root_g * g.doubt),
        }
    });
    let root = value.sqrt();
    // The relative error of the root is half that of the value. For a value of 0, the root of the
    // error is the error of the root.
    let error = if root > 0.0 {
        0.5 * error / root
    } else {
        error.sqrt()
    };
    let found = Estimate { value: root, error };
    let noise = pair.noise().of_whole;
    pair.promised(found.rounded(pair.rounding(), 1.0), 1.0, noise)
}

/// Computes the Kullback–Leibler divergence `∫ f ln(f/g)` of `p` from `q`, in nats.
///
/// The divergence is `f64::INFINITY`, with error 0, only if `p` has probability or a positive
/// density outside the range from `q.min()` to `q.max()`. A density of 0 strictly inside the
/// support of `q` may be an underflow and does not make the divergence infinite. If `q.ln_pdf` is
/// `-inf` there, it is replaced by `-(c + k d^r)`, extrapolated in the distance `d` from the median
/// or from a finite end of the support. The error of the extrapolation is part of the error
/// estimate.
///
/// # Errors
/// As [`kolmogorov`]. [`Error::NotConverged`] also if the integral diverges in the tails, or if the
/// error of the extrapolation exceeds the limit.
pub fn kl(
    p: &impl ContinuousDistribution,
    q: &impl ContinuousDistribution,
) -> Result<Estimate, Error> {
    if pair::exceeds(p, q) {
        return Ok(Estimate {
            value: f64::INFINITY,
            error: 0.0,
        });
    }
    let pair = Pair::new("distance::kl", p, q)?.with_horizons();
    let found = pair.integral(&[], |place| divergence(&pair, place));
    let size = found.value.abs() + found.value.abs().sqrt();
    let found = found.rounded(pair.rounding() * size, f64::INFINITY);
    pair.promised(found, 1.0, pair.noise().of_whole * size)
}

/// Returns the integrand of the divergence, `f ln(f/g) - f + g`.
fn divergence<P: ContinuousDistribution, Q: ContinuousDistribution>(
    pair: &Pair<'_, P, Q>,
    place: &Node,
) -> Term {
    let [f, g] = pair.densities(place);
    if f.weight < NEGLIGIBLE {
        return Term {
            value: g.weight - f.weight,
            rounding: g.weight * g.doubt,
        };
    }
    let [(ln_f, doubt_f), (ln_g, doubt_g)] = pair.ln_densities(place);
    let h = ln_f - ln_g;
    let value = if h < -1.0 {
        // f exp(-h) = g, but exp(-h) may overflow; here nothing cancels, so use g itself.
        g.weight - f.weight + f.weight * h
    } else {
        f.weight * excess(h)
    };
    // The derivative of the integrand f (exp(-h) - 1 + h) with respect to h is f - g.
    let slope = (f.weight - g.weight).abs();
    Term {
        value,
        rounding: value.abs() * f.doubt + slope * (doubt_f + doubt_g),
    }
}

/// Computes the Wasserstein distance of order 1, `∫ |F - G|`, in the unit of the variable.
///
/// # Errors
/// As [`kolmogorov`]. [`Error::NotConverged`] also if the distance is infinite, as it usually is if
/// one of the distributions has no mean.
pub fn wasserstein1(
    p: &impl ContinuousDistribution,
    q: &impl ContinuousDistribution,
) -> Result<Estimate, Error> {
    let pair = Pair::new("distance::wasserstein1", p, q)?;
    let changes = pair.sign_changes(|place| pair.cdf_difference(place))?;
    let found = pair.integral(&changes, |place| Term {
        value: pair.cdf_difference(place).abs() * pair.jacobian(place),
        rounding: 0.0,
    });
    let rounding = pair.rounding() * pair.width();
    let found = found.rounded(rounding, f64::INFINITY);
    let noise = pair.noise().of_area + pair.noise().of_whole * pair.width();
    pair.promised(found, pair.width(), noise)
}

/// Returns `exp(-h) - 1 + h`, which is never negative.
fn excess(h: f64) -> f64 {
    /// Size of `h` below which the neglected terms of the series are smaller than rounding errors.
    const SMALL: f64 = 1e-2;
    if h.abs() < SMALL {
        let series = 1.0 / 120.0 - h * (1.0 / 720.0 - h / 5040.0);
        h * h * (0.5 - h * (1.0 / 6.0 - h * (1.0 / 24.0 - h * series)))
    } else {
        (-h).exp_m1() + h
    }
}

impl Estimate {
    /// Returns the estimate with a rounding error added, and with the value limited to `most`, the
    /// largest possible distance.
    fn rounded(self, rounding: f64, most: f64) -> Self {
        Self {
            // NaN is kept, because the comparison is false.
            value: if self.value > most { most } else { self.value },
            error: self.error + rounding,
        }
    }
}
