//! Approximate quantiles that locate a distribution on the real line.
//!
//! Role: computes the landmarks at which the integrals are cut. A landmark need not be exact, so a
//! search on `cdf` and `sf` is used instead of `inverse_cdf`, whose implementations may fail or not
//! terminate where a tail has few correct digits.

use super::ContinuousDistribution;

/// Tail probabilities, lower and upper, at which the line is cut.
const LANDMARKS: [f64; 7] = [1e-12, 1e-9, 1e-6, 1e-4, BULK, 0.1, 0.25];
/// Tail probability on each side of the bulk. The distance between these two quantiles is the width
/// of a distribution.
const BULK: f64 = 0.01;
/// Multiples of the distance from the median to the outermost quantiles at which the line is also
/// cut. Without these cuts, quadrature on the wide outer piece could miss the probability beyond
/// the quantiles.
const FARTHER: [f64; 3] = [1.25, 2.0, 5.0];
/// Largest ratio of the probability at a landmark to the requested probability, in either
/// direction, at which a search ends.
const FACTOR: f64 = 1.3;
/// First step of a search over the bit patterns of floats: a sixteenth of the range between two
/// powers of two.
const FIRST_STEP: i64 = 1 << 48;

/// The landmarks of a distribution.
#[derive(Debug)]
pub(super) struct Landmarks {
    /// Ends of the support, possibly infinite.
    pub(super) ends: [f64; 2],
    /// Finite points inside the support, not sorted.
    pub(super) points: Vec<f64>,
    /// The lower and the upper quantile of the tail probability [`BULK`].
    pub(super) bulk: [f64; 2],
    /// The lower and the upper quantile of the smallest probability in [`LANDMARKS`].
    pub(super) outermost: [f64; 2],
    /// The median, to the last bit.
    pub(super) median: f64,
}

impl Landmarks {
    /// Searches for the landmarks. Returns `None` if a probability is NaN.
    pub(super) fn find(distribution: &impl ContinuousDistribution) -> Option<Self> {
        let ends = [distribution.min(), distribution.max()];
        // Searches start at a finite point inside the support and stay in the finite range.
        let limits = [ends[0].max(-f64::MAX), ends[1].min(f64::MAX)];
        let anchor = match ends.map(f64::is_finite) {
            [true, true] => ends[0] + 0.5 * (ends[1] - ends[0]),
            [true, false] => ends[0] + 1.0,
            [false, true] => ends[1] - 1.0,
            [false, false] => 0.0,
        };
        // Search to the last bit, because symmetric densities may have a kink at the median.
        let median = search(|x| distribution.cdf(x) / 0.5, |_| false, anchor, limits)?;
        let mut span = Self {
            ends,
            points: vec![median],
            bulk: [median; 2],
            outermost: [median; 2],
            median,
        };
        // From the largest probability to the smallest, so that each search can start at the result
        // of the previous search and only move outwards.
        for &p in LANDMARKS.iter().rev() {
            let [lower, upper] = span.outermost;
            let lower = search(|x| distribution.cdf(x) / p, is_near, lower, limits)?;
            // Search in `-x`, because the upper tail decreases and `search` needs an increasing
            // function.
            let upper = -search(
                |x| distribution.sf(-x) / p,
                is_near,
                -upper,
                [-limits[1], -limits[0]],
            )?;
            span.outermost = [lower, upper];
            span.points.extend(span.outermost);
            if p == BULK {
                span.bulk = span.outermost;
            }
        }
        let ways = span.outermost.map(|end| end - median);
        let farther = FARTHER.into_iter();
        let farther = farther.flat_map(|times| ways.map(|way| median + times * way));
        span.points.extend(farther);
        span.points
            .retain(|x| limits[0] < *x && *x < limits[1] && x.is_finite());
        Some(span)
    }
}

/// Searches, from `start` outwards, for an `x` at which an increasing function is 1 or its value is
/// accepted by `is_found`.
///
/// Returns an end of the limits if the function is on one side of 1 everywhere, and `None` if it
/// returns NaN. Cost: about ten evaluations, at most 130. The search is on the ordinals of f64, so
/// the cost is the same for numbers of any size.
fn search(
    f: impl Fn(f64) -> f64,
    is_found: impl Fn(f64) -> bool,
    start: f64,
    limits: [f64; 2],
) -> Option<f64> {
    let f = |x| Some(f(x)).filter(|value| !value.is_nan());
    let start = start.clamp(limits[0], limits[1]);
    let at_start = f(start)?;
    if is_found(at_start) {
        return Some(start);
    }
    let [first, last] = limits.map(ordinal);
    let (mut low, mut high) = (ordinal(start), ordinal(start));
    // Find a bracket with steps that double, then bisect on the ordinals.
    let mut step = FIRST_STEP;
    let is_up = at_start < 1.0;
    loop {
        let next = if is_up {
            high.saturating_add(step).min(last)
        } else {
            low.saturating_sub(step).max(first)
        };
        let value = f(number(next))?;
        if is_up {
            (low, high) = (high, next);
        } else {
            (low, high) = (next, low);
        }
        if (value < 1.0) != is_up {
            break;
        }
        if next == first || next == last {
            return Some(number(next));
        }
        step = step.saturating_mul(2);
    }
    while high.abs_diff(low) > 1 {
        let middle = low.midpoint(high);
        let value = f(number(middle))?;
        if is_found(value) {
            return Some(number(middle));
        }
        if value < 1.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(number(high))
}

/// Returns whether a value is between `1/FACTOR` and [`FACTOR`].
fn is_near(value: f64) -> bool {
    (1.0 / FACTOR..FACTOR).contains(&value)
}

/// Returns the position of a number in the ascending order of all f64; the position of 0 is 0.
///
/// The bit patterns of non-negative f64 ascend like the numbers, so the position is the bit pattern
/// of the absolute value, with the sign of the number.
fn ordinal(x: f64) -> i64 {
    let size = x.abs().to_bits().cast_signed();
    if x < 0.0 { -size } else { size }
}

/// Returns the f64 at a position.
fn number(ordinal: i64) -> f64 {
    let size = f64::from_bits(ordinal.unsigned_abs());
    if ordinal < 0 { -size } else { size }
}

#[cfg(test)]
mod tests {
    use super::{Landmarks, number, ordinal};
    use statrs::distribution::{Beta, ContinuousCDF, Gamma, Normal, Uniform};

    #[test]
    fn ordinals_lead_back_to_their_numbers() {
        for x in [0.0, 5e-324, -5e-324, 1.0, -1.0, 1e300, -f64::MAX, f64::MAX] {
            assert_eq!(number(ordinal(x)), x);
        }
        assert_eq!(ordinal(1.0_f64.next_up()) - ordinal(1.0), 1);
    }

    /// Checks that the outermost landmarks have about their probability.
    fn check(distribution: &impl ContinuousCDF<f64, f64>, span: &Landmarks) {
        let [low, high] = span.outermost;
        for p in [distribution.cdf(low), distribution.sf(high)] {
            assert!((0.7e-12..1.4e-12).contains(&p), "{p} at {low} or {high}");
        }
        let middle = distribution.cdf(span.median);
        assert!((0.35..0.7).contains(&middle), "{middle}");
    }

    #[test]
    fn landmarks_are_found_wherever_the_distribution_is() {
        for (mean, std_dev) in [(0.0, 1.0), (-1e9, 1.0), (3e-200, 1e-203), (1e200, 1e203)] {
            let distribution = Normal::new(mean, std_dev).unwrap();
            check(&distribution, &Landmarks::find(&distribution).unwrap());
        }
        let gamma = Gamma::new(80.0, 1e-3).unwrap();
        check(&gamma, &Landmarks::find(&gamma).unwrap());
        let uniform = Uniform::new(-3.0, 5.0).unwrap();
        assert!(Landmarks::find(&uniform).is_some());
        // Quantiles down to 1e-240, and up to the last number below 1.
        let beta = Beta::new(0.05, 0.3).unwrap();
        let span = Landmarks::find(&beta).unwrap();
        assert!((0.7e-12..1.4e-12).contains(&beta.cdf(span.outermost[0])));
        assert!(span.outermost[1] > 1.0 - 1e-15);
    }
}
