//! Distances between any two distributions of one real variable, with error estimates.
//!
//! Role: for distributions of statrs, of this crate, or of a user's own; [`crate::normality`] has
//! closed forms for one pair.
//! Method: quantiles of both distributions and the ends of their supports cut the line into pieces
//! (`line`), which are halved until densities and distribution functions agree on their
//! probability. In the pieces, sign changes of the difference (of densities or of distribution
//! functions) are searched on ever finer grids until two in a row agree on their number; sign
//! changes end pieces as well, so that every integrand is smooth inside. Then adaptive quadrature.
//! Next to a finite end the variable is the logarithm of the distance from the end, and no function
//! is called at an end itself except `cdf` and `sf`, so densities may be unbounded there (`view`).
//! Integrands are written for distributions that are close to each other: the divergence integrates
//! `f ln(f/g) - f + g`, which is never negative.
//! Accuracy: an error estimate comes with each number and is below 1e-10 of the number, or below
//! 1e-13 of the size of the distance (1, and the width of both distributions for Wasserstein's);
//! otherwise the result is an error. The estimate covers quadrature and rounding, also of numbers
//! far from 0 compared with the width of a distribution. Added to it, whatever its size, is the
//! error of the distributions' own functions, as far as `pdf`, `ln_pdf` and `cdf` disagree (statrs'
//! normal distribution function is good to 1e-10). It does not cover parts of a distribution that
//! hold less than 1e-8 of it and are very narrow. Distributions are taken to be proper: the
//! probability that [`crate::FirstPassage`] leaves at infinity does not count.
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
use line::Place;
use pair::Pair;
use statrs::distribution::{Continuous, ContinuousCDF};

/// Threshold below which a density counts as 0 in the divergence.
const NEGLIGIBLE: f64 = 1e-300;

/// A distribution with a density and a distribution function, as statrs describes it.
///
/// `min` and `max` are the ends of the support. Strictly inside, `pdf` and `ln_pdf` may underflow
/// or be NaN where a tail is 0.
pub trait ContinuousLaw: Continuous<f64, f64> + ContinuousCDF<f64, f64> {}

impl<L: Continuous<f64, f64> + ContinuousCDF<f64, f64>> ContinuousLaw for L {}

/// Computes the Kolmogorov distance `sup |F - G|`.
///
/// # Errors
/// [`Error::NotConverged`]: the promised error was not reached, or a function of a distribution
/// returned NaN.
pub fn kolmogorov(p: &impl ContinuousLaw, q: &impl ContinuousLaw) -> Result<Estimate, Error> {
    let pair = Pair::new("distance::kolmogorov", p, q)?;
    // F - G is extreme where the densities are equal, or at an end of a support.
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
    let noise = pair.noise().of_cdf + at_extremes.fold(0.0, f64::max);
    pair.promised(found.rounded(pair.rounding(), 1.0), 1.0, noise)
}

/// Computes the total variation distance `sup |P(A) - Q(A)|`, half the integral of `|f - g|`.
///
/// # Errors
/// As [`kolmogorov`].
pub fn total_variation(p: &impl ContinuousLaw, q: &impl ContinuousLaw) -> Result<Estimate, Error> {
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
pub fn hellinger(p: &impl ContinuousLaw, q: &impl ContinuousLaw) -> Result<Estimate, Error> {
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
    // The root has half the relative error; for value 0 the error of the root is the root of the
    // error.
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
/// The divergence is `f64::INFINITY`, with error 0, only where the supports prove it: `p` has
/// probability, or a density, outside `q.min()` to `q.max()`. A density of 0 strictly inside the
/// support of `q` proves nothing, since it may be an underflow. If `q.ln_pdf` ends in `-inf` there,
/// it is continued by `c + k d^r` in the distance `d` from the median (or from a finite end), and
/// the error of the continuation is part of the error estimate.
///
/// # Errors
/// As [`kolmogorov`]; an integral that diverges in the tails is [`Error::NotConverged`], and so is
/// one that depends on a continuation too uncertain for the promised error.
pub fn kl(p: &impl ContinuousLaw, q: &impl ContinuousLaw) -> Result<Estimate, Error> {
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
fn divergence<P: ContinuousLaw, Q: ContinuousLaw>(pair: &Pair<'_, P, Q>, place: &Place) -> Term {
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
        // exp(-h) may overflow where g does not.
        g.weight - f.weight + f.weight * h
    } else {
        f.weight * excess(h)
    };
    // Absolute derivative of the integrand with respect to either logarithm: |f - g|.
    let slope = (f.weight - g.weight).abs();
    Term {
        value,
        rounding: value.abs() * f.doubt + slope * (doubt_f + doubt_g),
    }
}

/// Computes the Wasserstein distance of order 1, `∫ |F - G|`, in the unit of the variable.
///
/// # Errors
/// As [`kolmogorov`]; distributions without a mean are as a rule infinitely far apart, which is
/// [`Error::NotConverged`].
pub fn wasserstein1(p: &impl ContinuousLaw, q: &impl ContinuousLaw) -> Result<Estimate, Error> {
    let pair = Pair::new("distance::wasserstein1", p, q)?;
    let changes = pair.sign_changes(|place| pair.cdf_difference(place))?;
    let found = pair.integral(&changes, |place| Term {
        value: pair.cdf_difference(place).abs() * pair.stretch(place),
        rounding: 0.0,
    });
    let rounding = pair.rounding() * pair.width();
    let found = found.rounded(rounding, f64::INFINITY);
    let noise = pair.noise().of_area + pair.noise().of_whole * pair.width();
    pair.promised(found, pair.width(), noise)
}

/// Returns `exp(-h) - 1 + h`, which is never negative.
fn excess(h: f64) -> f64 {
    /// Threshold below which the neglected terms of the series are below rounding.
    const SMALL: f64 = 1e-2;
    if h.abs() < SMALL {
        let series = 1.0 / 120.0 - h * (1.0 / 720.0 - h / 5040.0);
        h * h * (0.5 - h * (1.0 / 6.0 - h * (1.0 / 24.0 - h * series)))
    } else {
        (-h).exp_m1() + h
    }
}

impl Estimate {
    /// Adds a rounding error, and limits the value to the largest possible one.
    fn rounded(self, rounding: f64, most: f64) -> Self {
        Self {
            // NaN is kept, because the comparison is false.
            value: if self.value > most { most } else { self.value },
            error: self.error + rounding,
        }
    }
}
