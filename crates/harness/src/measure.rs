//! Statistics of repeated runs, and the speed ratio of two programs that run in turns.
//!
//! Role: the only place that turns samples into numbers of a record.
//! Method: medians and quartiles, so that one interrupted run does not move a result. Two programs
//! are compared by their ratio within each round, because both saw the same state of the machine
//! there.

use std::time::{Duration, Instant};

use crate::sign_test;

/// Two-sided probability that the interval of a ratio misses the true median.
const RISK: f64 = 0.05;

/// Pause before a contestant's turn. Thread pools of numerical libraries keep spinning for a while
/// after a call (`PyTorch` for 7 ms on the machine where this was measured) and would occupy the
/// cores during the next contestant's turn.
pub const SETTLE: Duration = Duration::from_millis(20);

/// Median and quartiles of a set of times, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// Median.
    pub median: f64,
    /// First quartile, by linear interpolation between samples.
    pub low: f64,
    /// Third quartile.
    pub high: f64,
    /// Number of samples.
    pub n: usize,
}

/// Median of the per-round ratios, with a confidence interval.
///
/// The interval is based on order statistics: it makes no assumption on the distribution and misses
/// the true median with a probability of at most 5 %. For fewer than six rounds no such interval
/// exists.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Median of the ratios.
    pub median: f64,
    /// Interval; `None` for too few rounds.
    pub interval: Option<[f64; 2]>,
    /// Number of rounds.
    pub n: usize,
}

impl Timing {
    /// Returns the first and third quartile, or `None` for a single sample.
    #[must_use]
    pub fn spread(&self) -> Option<[f64; 2]> {
        (self.n > 1).then_some([self.low, self.high])
    }

    /// Summarises samples; returns `None` if there are none or one of them is not finite.
    #[must_use]
    pub fn from_samples(samples: &[f64]) -> Option<Self> {
        let sorted = sorted_if_finite(samples)?;
        Some(Self {
            median: quantile(&sorted, 0.5),
            low: quantile(&sorted, 0.25),
            high: quantile(&sorted, 0.75),
            n: sorted.len(),
        })
    }
}

impl Ratio {
    /// Summarises two samples that were not measured in turns; returns `None` if one of them is
    /// empty or has a time that is not finite. The interval is made of the intervals of both
    /// medians, each with half of the risk.
    #[must_use]
    pub fn from_independent(before: &[f64], after: &[f64]) -> Option<Self> {
        let (before, after) = (sorted_if_finite(before)?, sorted_if_finite(after)?);
        let ends = |sorted: &[f64]| interval(sorted, 0.5 * RISK);
        let both = ends(&before).zip(ends(&after));
        Some(Self {
            median: quantile(&before, 0.5) / quantile(&after, 0.5),
            interval: both.map(|(before, after)| [before[0] / after[1], before[1] / after[0]]),
            n: before.len().min(after.len()),
        })
    }

    /// Summarises the ratios `theirs[i] / ours[i]`; returns `None` if the lengths differ or are
    /// zero, or if a ratio is not finite.
    #[must_use]
    pub fn from_pairs(ours: &[f64], theirs: &[f64]) -> Option<Self> {
        if ours.len() != theirs.len() {
            return None;
        }
        let ratios: Vec<f64> = ours
            .iter()
            .zip(theirs)
            .map(|(ours, theirs)| theirs / ours)
            .collect();
        let sorted = sorted_if_finite(&ratios)?;
        Some(Self {
            median: quantile(&sorted, 0.5),
            interval: interval(&sorted, RISK),
            n: sorted.len(),
        })
    }
}

/// Returns the seconds that one call takes by the host's clock.
pub fn wall<T>(work: impl FnOnce() -> T) -> f64 {
    let start = Instant::now();
    let result = work();
    let elapsed = start.elapsed().as_secs_f64();
    // The result lives until the clock has stopped, so freeing it is not part of the work.
    drop(std::hint::black_box(result));
    elapsed
}

fn sorted_if_finite(samples: &[f64]) -> Option<Vec<f64>> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let usable = !sorted.is_empty() && sorted.iter().all(|sample| sample.is_finite());
    usable.then_some(sorted)
}

/// Interpolates linearly between the two samples around position `share · (n − 1)`.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let position = share * (sorted.len() - 1) as f64;
    let (below, fraction) = (position.floor(), position.fract());
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "`below` is a whole number between 0 and the last index"
    )]
    let idx = below as usize;
    let above = sorted[(idx + 1).min(sorted.len() - 1)];
    sorted[idx] + fraction * (above - sorted[idx])
}

/// Returns the interval that misses the median of sorted samples with a probability of at most
/// `risk`; `None` for too few samples.
fn interval(sorted: &[f64], risk: f64) -> Option<[f64; 2]> {
    let outside = samples_outside(sorted.len(), risk)?;
    Some([sorted[outside], sorted[sorted.len() - 1 - outside]])
}

/// Returns the number of samples to drop at each end of the sorted samples so that the remaining
/// range holds the median with confidence 1 − `risk`; `None` if not even the whole range does.
///
/// That number is the largest `k` with P(B ≤ k) ≤ `risk` / 2, where B, the number of samples below
/// the true median, is binomial(n, ½): the range misses the median on one side only if at most `k`
/// samples are on that side.
fn samples_outside(n: usize, risk: f64) -> Option<usize> {
    let is_rare = |p: &f64| *p <= 0.5 * risk;
    let n_rare = sign_test::at_most(n).take_while(is_rare).count();
    n_rare.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_interpolate_between_samples() {
        let timing = Timing::from_samples(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!(
            timing,
            Timing {
                median: 2.5,
                low: 1.75,
                high: 3.25,
                n: 4
            }
        );
        let one = Timing::from_samples(&[7.0]).unwrap();
        assert_eq!(
            one,
            Timing {
                median: 7.0,
                low: 7.0,
                high: 7.0,
                n: 1
            }
        );
        assert_eq!((one.spread(), timing.spread()), (None, Some([1.75, 3.25])));
    }

    #[test]
    fn no_samples_and_nan_give_no_timing() {
        assert_eq!(Timing::from_samples(&[]), None);
        assert_eq!(Timing::from_samples(&[1.0, f64::NAN]), None);
    }

    #[test]
    fn order_statistics_match_the_published_table() {
        // Ranks of the 95 % interval of a median for n = 6, 8, 9, 12, 20, 25, 50, 100, as in tables
        // of the sign test; a rank r leaves r - 1 samples outside.
        for (n, rank) in [
            (6, 1),
            (8, 1),
            (9, 2),
            (12, 3),
            (20, 6),
            (25, 8),
            (50, 18),
            (100, 40),
        ] {
            assert_eq!(samples_outside(n, RISK), Some(rank - 1), "n = {n}");
        }
        assert_eq!([1, 5].map(|n| samples_outside(n, RISK)), [None, None]);
        // Half of the risk needs a seventh sample.
        assert_eq!(
            [6, 7].map(|n| samples_outside(n, 0.5 * RISK)),
            [None, Some(0)]
        );
        // For 10 000 trials, 1.96 standard deviations of a binomial(10 000, ½) are 98.
        assert!((4900..=4903).contains(&samples_outside(10_000, RISK).unwrap()));
    }

    #[test]
    fn ratios_are_taken_inside_each_round() {
        // The machine becomes three times slower midway; the ratio stays 2 in every round.
        let ours: Vec<f64> = (0..20)
            .map(|round| if round < 10 { 1.0 } else { 3.0 })
            .collect();
        let theirs: Vec<f64> = ours.iter().map(|time| 2.0 * time).collect();
        let ratio = Ratio::from_pairs(&ours, &theirs).unwrap();
        assert_eq!(
            ratio,
            Ratio {
                median: 2.0,
                interval: Some([2.0, 2.0]),
                n: 20
            }
        );
    }

    #[test]
    fn independent_samples_have_the_widest_ratio_of_their_intervals() {
        let before: Vec<f64> = (1..=9).map(f64::from).collect();
        let after = vec![2.0; 9];
        let ratio = Ratio::from_independent(&before, &after).unwrap();
        // Half of the risk leaves no sample of nine outside.
        assert_eq!((ratio.median, ratio.interval), (2.5, Some([0.5, 4.5])));
        let few = Ratio::from_independent(&before[..6], &after).unwrap();
        assert_eq!(few.interval, None);
        assert_eq!(Ratio::from_independent(&before, &[]), None);
    }

    #[test]
    fn few_rounds_have_no_interval_and_bad_ones_no_ratio() {
        let ratio = Ratio::from_pairs(&[1.0, 1.0, 1.0], &[1.0, 2.0, 4.0]).unwrap();
        assert_eq!(
            ratio,
            Ratio {
                median: 2.0,
                interval: None,
                n: 3
            }
        );
        assert_eq!(Ratio::from_pairs(&[0.0], &[1.0]), None);
        assert_eq!(Ratio::from_pairs(&[1.0], &[]), None);
        assert_eq!(Ratio::from_pairs(&[], &[]), None);
    }

    #[test]
    fn one_round_gives_a_ratio_and_no_interval() {
        let ratio = Ratio::from_pairs(&[2.0], &[8.0]).unwrap();
        assert_eq!((ratio.median, ratio.interval), (4.0, None));
    }

    #[test]
    fn the_clock_sees_the_work() {
        let elapsed = wall(|| (0..200_000_u64).fold(0, |sum, i| std::hint::black_box(sum ^ i)));
        assert!(elapsed > 0.0 && elapsed.is_finite());
    }
}
