//! Distances between any two laws of one real variable, with error estimates.
//!
//! Role: for laws of statrs, of this crate, or of a user's own; [`crate::normality`] has closed forms for one pair.
//! Method: quantiles of both laws, points beyond the outermost and the ends of their supports cut the line into pieces, which are
//! halved until densities and distribution functions agree on what they hold. In these, sign changes of the
//! difference (of densities or of distribution functions) are searched on ever finer grids until two in a row agree on
//! their number; they end pieces as well, so that every integrand is smooth inside. Then adaptive quadrature, beyond
//! the outermost quantiles on a transformed line. Integrands are written for laws that are close to each other: the
//! divergence integrates `f ln(f/g) - f + g`, which is never negative.
//! Accuracy: an error estimate comes with each number and is below 1e-10 of it, or below 1e-13 of the size of the distance
//! (1, and the width of both laws for Wasserstein's); else an error says that it is not. It covers quadrature and rounding, also of
//! numbers far from 0 beside the width of a law; faults of the laws' own functions (statrs' normal distribution function is good to 1e-10) and parts
//! of a law that hold less than 1e-8 of it and are very narrow are not seen. Laws are taken to be proper: what [`crate::FirstPassage`] leaves at ∞ does not count.
//!
//! # Examples
//! ```
//! use distributions::distance;
//! use statrs::distribution::Normal;
//!
//! let (a, b) = (Normal::new(0.0, 1.0)?, Normal::new(1.0, 1.0)?);
//! let found = distance::kl(&a, &b)?;
//! assert!((found.value - 0.5).abs() <= found.error);
//! assert!(found.error < 1e-10);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::Error;
use crate::quadrature::{Estimate, integrate};
use crate::root::bracketed;
use statrs::distribution::{Continuous, ContinuousCDF};

/// Relative error that every distance promises.
const PROMISED: f64 = 1e-10;
/// Relative error asked of quadrature.
const TOLERANCE: f64 = 1e-12;
/// Rounding errors of densities and distribution functions, in a distance of size 1.
const ROUNDING: f64 = 8.0 * f64::EPSILON;
/// Below this error, in a distance of size 1, laws count as equal.
const FLOOR: f64 = 1e-13;
/// Where the pieces end: quantiles of these probabilities, and of 1 minus them.
const LANDMARKS: [f64; 7] = [1e-12, 1e-9, 1e-6, 1e-4, BULK, 0.1, 0.25];
/// Between this quantile and its mirror lies the bulk of a law, whose width is the law's.
const BULK: f64 = 0.01;
/// Pieces also end so many times as far from the median as the outermost of these quantiles: what is beyond them would be lost in a
/// wide piece.
const FARTHER: [f64; 3] = [1.25, 2.0, 5.0];
/// Parts of a piece in the coarsest and in the finest search for sign changes.
const COARSEST: usize = 8;
const FINEST: usize = 512;
/// Densities below this count as none in the divergence.
const NEGLIGIBLE: f64 = 1e-300;

/// Halves of a piece may be halved so often, until a density's integral over it is what the distribution function says.
const MOST_HALVINGS: u32 = 60;
/// Probability by which these may differ: distribution functions are not exact either.
const UNSEEN: f64 = 1e-8;

/// A law with a density and a distribution function, as statrs describes it.
pub trait ContinuousLaw: Continuous<f64, f64> + ContinuousCDF<f64, f64> {}

impl<L: Continuous<f64, f64> + ContinuousCDF<f64, f64>> ContinuousLaw for L {}

/// Gives the Kolmogorov distance `sup |F - G|`.
///
/// # Errors
/// [`Error::NotConverged`]: the promised error was not reached, or a law gives NaN.
pub fn kolmogorov(p: &impl ContinuousLaw, q: &impl ContinuousLaw) -> Result<Estimate, Error> {
    const OPERATION: &str = "distance::kolmogorov";
    let pair = Pair::of(OPERATION, p, q)?;
    // F - G is extreme where the densities are equal, or where one of them begins.
    let points = pair.cut(|x| p.pdf(x) - q.pdf(x))?;
    let differences = points.iter().map(|&x| pair.cdf_difference(x).abs());
    // Unlike the maximum of two, this keeps NaN.
    let largest = |most: f64, found: f64| if found <= most { most } else { found };
    let value = differences.fold(0.0, largest);
    pair.promised(
        Estimate { value, error: 0.0 }.rounded(pair.rounding, 1.0),
        1.0,
    )
}

/// Gives the total variation distance `sup |P(A) - Q(A)|`, half the integral of `|f - g|`.
///
/// # Errors
/// As [`kolmogorov`].
pub fn total_variation(p: &impl ContinuousLaw, q: &impl ContinuousLaw) -> Result<Estimate, Error> {
    let pair = Pair::of("distance::total_variation", p, q)?;
    let points = pair.cut(|x| p.pdf(x) - q.pdf(x))?;
    let found = pair.integral(|x| 0.5 * (p.pdf(x) - q.pdf(x)).abs(), &points);
    pair.promised(found.rounded(pair.rounding, 1.0), 1.0)
}

/// Gives Hellinger's distance `sqrt(1 - ∫ sqrt(f g))`.
///
/// # Errors
/// As [`kolmogorov`].
pub fn hellinger(p: &impl ContinuousLaw, q: &impl ContinuousLaw) -> Result<Estimate, Error> {
    let pair = Pair::of("distance::hellinger", p, q)?;
    let square = |x: f64| 0.5 * (p.pdf(x).sqrt() - q.pdf(x).sqrt()).powi(2);
    let Estimate { value, error } = pair.integral(square, &pair.landmarks);
    let root = value.sqrt();
    // Half the relative error, or the root of the error where there is nothing else.
    let error = if root > 0.0 {
        0.5 * error / root
    } else {
        error.sqrt()
    };
    pair.promised(
        Estimate { value: root, error }.rounded(pair.rounding, 1.0),
        1.0,
    )
}

/// Gives the Kullback–Leibler divergence `∫ f ln(f/g)` of `p` from `q`, in nats: ∞ where `q` lacks values that `p` has.
///
/// That is where `q.ln_pdf` is -∞ and `p.pdf` is not negligible; a law whose `ln_pdf` is the logarithm of a density that
/// underflows seems to lack values that it has.
///
/// # Errors
/// As [`kolmogorov`]; an integral that diverges in the tails is [`Error::NotConverged`].
pub fn kl(p: &impl ContinuousLaw, q: &impl ContinuousLaw) -> Result<Estimate, Error> {
    let pair = Pair::of("distance::kl", p, q)?;
    let is_missing = std::cell::Cell::new(false);
    let integrand = |x: f64| {
        let (f, ln_f, ln_g) = (p.pdf(x), p.ln_pdf(x), q.ln_pdf(x));
        if f < NEGLIGIBLE {
            return q.pdf(x) - f;
        }
        if ln_g == f64::NEG_INFINITY {
            is_missing.set(true);
        }
        f * excess(ln_f - ln_g)
    };
    let found = pair.integral(integrand, &pair.landmarks);
    if is_missing.get() {
        return Ok(Estimate {
            value: f64::INFINITY,
            error: 0.0,
        });
    }
    let rounding = pair.rounding * (found.value.abs() + found.value.abs().sqrt());
    pair.promised(found.rounded(rounding, f64::INFINITY), 1.0)
}

/// Gives the Wasserstein distance of order 1, `∫ |F - G|`, in the unit of the variable.
///
/// # Errors
/// As [`kolmogorov`]; laws without a mean are as a rule infinitely far apart, which is [`Error::NotConverged`].
pub fn wasserstein1(p: &impl ContinuousLaw, q: &impl ContinuousLaw) -> Result<Estimate, Error> {
    let pair = Pair::of("distance::wasserstein1", p, q)?;
    let points = pair.cut(|x| pair.cdf_difference(x))?;
    let found = pair.integral(|x| pair.cdf_difference(x).abs(), &points);
    let rounding = pair.rounding * pair.spread;
    pair.promised(found.rounded(rounding, f64::INFINITY), pair.spread)
}

/// Gives `exp(-h) - 1 + h`, which is never negative.
fn excess(h: f64) -> f64 {
    /// Below this the terms left out of the series are below rounding.
    const SMALL: f64 = 1e-2;
    if h.abs() < SMALL {
        let series = 1.0 / 120.0 - h * (1.0 / 720.0 - h / 5040.0);
        h * h * (0.5 - h * (1.0 / 6.0 - h * (1.0 / 24.0 - h * series)))
    } else {
        (-h).exp_m1() + h
    }
}

impl Estimate {
    /// Adds what rounding may have spoilt, and takes what lies above the largest possible value for that.
    fn rounded(self, rounding: f64, most: f64) -> Self {
        Self {
            // NaN stays.
            value: if self.value > most { most } else { self.value },
            error: self.error + rounding,
        }
    }
}

/// Two laws on one line.
struct Pair<'a, P, Q> {
    operation: &'static str,
    p: &'a P,
    q: &'a Q,
    /// Ends of the line on which at least one of them lives, maybe infinite.
    ends: [f64; 2],
    /// Points inside, ascending and finite.
    landmarks: Vec<f64>,
    /// Width of the bulk of both.
    spread: f64,
    /// What rounding may spoil in a distance of size 1.
    rounding: f64,
}

/// Where a law lives.
struct Span {
    points: Vec<f64>,
    /// The ends of its bulk.
    bulk: [f64; 2],
    median: f64,
}

impl Span {
    fn of(law: &impl ContinuousLaw) -> Self {
        let median = law.inverse_cdf(0.5);
        let bulk = [BULK, 1.0 - BULK].map(|p| law.inverse_cdf(p));
        let mut points = vec![law.min(), law.max(), median];
        points.extend(
            LANDMARKS
                .into_iter()
                .flat_map(|p| [p, 1.0 - p])
                .map(|p| law.inverse_cdf(p)),
        );
        let outermost = [LANDMARKS[0], 1.0 - LANDMARKS[0]].map(|p| law.inverse_cdf(p) - median);
        let farther = FARTHER
            .into_iter()
            .flat_map(|times| outermost.map(|way| median + times * way));
        points.extend(farther.filter(|x| law.min() < *x && *x < law.max()));
        Self {
            points,
            bulk,
            median,
        }
    }
}

/// Gives the points, and more where the law has a part so narrow that pieces between them would not see it.
fn resolved(law: &impl ContinuousLaw, points: Vec<f64>) -> Vec<f64> {
    let mut finer = Vec::new();
    let mut open: Vec<([f64; 2], u32)> = points
        .windows(2)
        .map(|ends| ([ends[0], ends[1]], 0))
        .collect();
    while let Some(([low, high], n_halvings)) = open.pop() {
        let seen = integrate(|x| law.pdf(x), &[low, high], UNSEEN).value;
        let middle = low + 0.5 * (high - low);
        let is_missing = (seen - (law.cdf(high) - law.cdf(low))).abs() > UNSEEN;
        if is_missing && n_halvings < MOST_HALVINGS && low < middle && middle < high {
            finer.push(middle);
            open.extend([
                ([low, middle], n_halvings + 1),
                ([middle, high], n_halvings + 1),
            ]);
        }
    }
    finer.extend(points);
    finer.sort_by(f64::total_cmp);
    finer
}

impl<'a, P: ContinuousLaw, Q: ContinuousLaw> Pair<'a, P, Q> {
    fn of(operation: &'static str, p: &'a P, q: &'a Q) -> Result<Self, Error> {
        let spans = [Span::of(p), Span::of(q)];
        let mut landmarks: Vec<f64> = spans
            .iter()
            .flat_map(|span| &span.points)
            .copied()
            .collect();
        if landmarks.iter().any(|x| x.is_nan()) {
            return Err(not_found(operation));
        }
        landmarks.retain(|x| x.is_finite());
        landmarks.sort_by(f64::total_cmp);
        landmarks.dedup();
        let landmarks = resolved(q, resolved(p, landmarks));
        // Numbers far from 0 are rounded by a share of a narrow law's width.
        let remote = |span: &Span| span.median.abs() / (span.bulk[1] - span.bulk[0]);
        let remoteness = spans.iter().map(remote).fold(0.0, f64::max);
        let [one, other] = [spans[0].bulk, spans[1].bulk];
        Ok(Self {
            operation,
            p,
            q,
            ends: [p.min().min(q.min()), p.max().max(q.max())],
            landmarks,
            spread: one[1].max(other[1]) - one[0].min(other[0]),
            rounding: ROUNDING + 0.5 * f64::EPSILON * remoteness,
        })
    }

    /// Gives `F - G` from the side on which both are small.
    fn cdf_difference(&self, x: f64) -> f64 {
        let (f, g) = (self.p.cdf(x), self.q.cdf(x));
        if f + g > 1.0 {
            self.q.sf(x) - self.p.sf(x)
        } else {
            f - g
        }
    }

    /// Gives the landmarks and the points between them at which `difference` changes its sign.
    fn cut(&self, difference: impl Fn(f64) -> f64) -> Result<Vec<f64>, Error> {
        let mut n_parts = COARSEST;
        let mut before = self.sign_changes(&difference, n_parts);
        while n_parts < FINEST {
            n_parts *= 2;
            let now = self.sign_changes(&difference, n_parts);
            if now.len() == before.len() {
                let roots = now
                    .iter()
                    .map(|&[low, high]| bracketed(&difference, low, high));
                let mut points = self.landmarks.clone();
                points.extend(roots);
                points.sort_by(f64::total_cmp);
                points.dedup();
                return Ok(points);
            }
            before = now;
        }
        Err(not_found(self.operation))
    }

    /// Gives the parts of the pieces at whose ends a difference has different signs.
    fn sign_changes(&self, difference: impl Fn(f64) -> f64, n_parts: usize) -> Vec<[f64; 2]> {
        let grid = self.landmarks.windows(2).flat_map(|piece| {
            let width = (piece[1] - piece[0]) / n_parts as f64;
            (0..n_parts).map(move |part| piece[0] + width * part as f64)
        });
        let mut changes = Vec::new();
        let mut last: Option<(f64, f64)> = None;
        for x in grid.chain(self.landmarks.last().copied()) {
            let value = difference(x);
            // Zeros are no sign: a difference that is 0 on a whole stretch does not change there.
            if value == 0.0 || value.is_nan() {
                continue;
            }
            if let Some((at, before)) = last
                && (before > 0.0) != (value > 0.0)
            {
                changes.push([at, x]);
            }
            last = Some((x, value));
        }
        changes
    }

    /// Gives the integral of `f` over the line, in pieces between `points`.
    fn integral(&self, f: impl Fn(f64) -> f64, points: &[f64]) -> Estimate {
        let mut sum = integrate(&f, points, TOLERANCE);
        let (Some(&first), Some(&last)) = (points.first(), points.last()) else {
            return sum;
        };
        // What is left lies beyond quantiles of 1e-12 and is small, unless tails are heavy.
        for (end, from, side) in [(self.ends[0], first, -1.0), (self.ends[1], last, 1.0)] {
            if end.is_finite() {
                continue;
            }
            // Of a heavy tail the bulk is no measure any more.
            let scale = self.spread.max(from.abs());
            let beyond = |t: f64| {
                let rest = 1.0 - t;
                if rest == 0.0 {
                    return 0.0;
                }
                f(from + side * scale * (t / rest)) * scale / (rest * rest)
            };
            let tail = integrate(beyond, &[0.0, 0.5, 1.0], TOLERANCE);
            sum.value += tail.value;
            // A tail that counts for nothing need not be exact.
            sum.error += tail.error;
        }
        sum
    }

    /// Gives a distance back if its error is what is promised; `unit` is the size that counts as 1.
    fn promised(&self, found: Estimate, unit: f64) -> Result<Estimate, Error> {
        let Estimate { value, error } = found;
        if !value.is_finite() {
            Err(not_found(self.operation))
        } else if error <= PROMISED * value || error <= FLOOR * unit {
            Ok(found)
        } else {
            Err(Error::NotConverged {
                operation: self.operation,
                value,
                error,
            })
        }
    }
}

fn not_found(operation: &'static str) -> Error {
    Error::NotConverged {
        operation,
        value: f64::NAN,
        error: f64::INFINITY,
    }
}
