//! Detection of a sensor's updates, and of their period, from reads.
//!
//! Role: a sensor reports the same value until its next update. Energy, update period and averaging
//! window depend on updates and not on reads.
//! Method: two consecutive reads with different values bracket an update. Updates are on a grid
//! `phase + k·period`:
//! ```text
//! updates       |         |         |         |
//! reads      x     x  x     x   x      x   x    x
//! value      1     2  2     3   3      4   4    5
//! brackets   [-----]  [-----]   [------]   [----]
//! ```
//! An unknown period is found by testing each candidate period against all changes. `track.rs`
//! bounds the time of each update. Reads cluster where regions of code begin and end, so medians of
//! read intervals are weighted by time: a thousand reads within a millisecond count as one
//! millisecond, and a pause counts as a few reads.
//! Cost: for n reads, time is O(n log n) and memory O(n). Neither depends on the time between
//! reads, because no updates are computed within a pause.

mod grid;
mod track;

pub(crate) use grid::on_grid;
pub(crate) use track::{PeriodBounds, Update, UpdateGap, of_counter, of_power};

use crate::Trace;

/// A measured update period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Period {
    /// The estimate, in s.
    pub period_s: f64,
    /// Bound on the error of the estimate, in s.
    pub uncertainty_s: f64,
}

impl Period {
    /// Returns the bounds on the time between updates for this period and its uncertainty.
    pub(crate) fn period_bounds(&self) -> PeriodBounds {
        PeriodBounds::new(self.period_s, self.uncertainty_s / self.period_s)
    }
}

/// The interval between two reads, in s, in which an update happened.
#[derive(Clone, Copy, Debug)]
struct Bracket {
    /// The last read of the old value: the update is later.
    after_s: f64,
    /// The first read of the new value: the update is not later.
    by_s: f64,
}

/// Largest deviation of an update from the grid, in periods, because of the sensor's clock and the
/// driver's time stamps. Brackets are widened by this value.
pub(crate) const JITTER: f64 = 0.01;
/// Largest number of periods between two consecutive changes that are tested against one grid. Over
/// a longer time, the error of the period adds up, and the number of periods becomes ambiguous.
const MAX_STEPS: f64 = 20.0;
/// Longest read interval, in periods, that misses no updates.
pub(crate) const SLOW_READS: f64 = 0.98;
/// Longest read interval that does not count as a pause, as a multiple of the longer of the period
/// and the usual read interval. Updates within a pause are not computed.
pub(crate) const PAUSE: f64 = 2.5;
/// Tolerance for rounding errors of times, in periods.
const ROUNDING: f64 = 1e-6;
/// Relative difference between two consecutive candidate periods of the search.
const PERIOD_STEP: f64 = 0.004;
/// Evidence against a candidate period from each change that is off its grid, in nats.
const MISFIT_COST: f64 = 2.0;
/// Smallest mean evidence per change, in nats, at which a period is accepted.
const MIN_EVIDENCE: f64 = 0.15;
/// Smallest number of changes from which a period is estimated.
pub(crate) const MIN_CHANGES: usize = 8;
/// Largest number of changes that the search for a period uses, to limit its time.
const MAX_CHANGES: usize = 600;

/// Returns the median time between two reads, in s, weighted by time; 0 for fewer than two reads.
///
/// An interval that is longer than `longest_s` has the weight of `longest_s`. If `longest_s` is 0,
/// all intervals have the same weight.
pub(crate) fn usual_gap_s(times_s: impl Iterator<Item = f64> + Clone, longest_s: f64) -> f64 {
    let gaps = times_s.clone().skip(1).zip(times_s).map(|(b, a)| b - a);
    let weighed = gaps.map(|gap_s| {
        let is_alike = longest_s <= 0.0;
        (gap_s, if is_alike { 1.0 } else { gap_s.min(longest_s) })
    });
    quantile(weighed.collect(), 0.5).unwrap_or(0.0)
}

/// Returns the median time between two reads of a sensor with update period `period_s`, in s,
/// weighted by time; 0 for fewer than two reads.
pub(crate) fn read_interval_s(series: &[(f64, f64)], period_s: f64) -> f64 {
    usual_gap_s(series.iter().map(|read| read.0), PAUSE * period_s)
}

/// Returns the usual time between two rows of a device, in s: the sampling interval of the trace,
/// or the median interval of the rows if it is longer.
pub(crate) fn row_interval_s(trace: &Trace, device: usize) -> f64 {
    let asked_s = trace.interval.as_secs_f64();
    let times_s = trace.device_rows(device).map(|row| row.time.as_secs_f64());
    usual_gap_s(times_s, asked_s).max(asked_s)
}

/// Returns for each reading, (s, value), how long it is valid, in s.
///
/// A reading is valid until the next reading. The last reading, and a reading before a pause, is
/// valid for `usual_s`.
pub(crate) fn held_s(series: &[(f64, f64)], usual_s: f64) -> Vec<f64> {
    let until = |pair: &[(f64, f64)]| match pair[1].0 - pair[0].0 {
        gap_s if gap_s > PAUSE * usual_s => usual_s,
        gap_s => gap_s.max(0.0),
    };
    let mut held: Vec<f64> = series.windows(2).map(until).collect();
    held.extend(series.last().map(|_| usual_s));
    held
}

/// Returns the weighted quantile of `(number, weight)` pairs for a share from 0 to 1.
///
/// The result is the first number, in increasing order, up to which the weights add up to more than
/// `share` of the total. Pairs without a weight above 0 are ignored; if no pair is left, the result
/// is `None`.
pub(crate) fn quantile(mut weighed: Vec<(f64, f64)>, share: f64) -> Option<f64> {
    weighed.retain(|&(_, weight)| weight > 0.0);
    weighed.sort_by(|a, b| a.0.total_cmp(&b.0));
    let total: f64 = weighed.iter().map(|&(_, weight)| weight).sum();
    let mut below = 0.0;
    let reached = weighed.iter().find(|&&(_, weight)| {
        below += weight;
        below > share * total
    });
    reached.or(weighed.last()).map(|&(number, _)| number)
}

/// Returns the median: for an even count, the upper of the two middle numbers; for no numbers,
/// `None`.
pub(crate) fn median(numbers: Vec<f64>) -> Option<f64> {
    quantile(
        numbers.into_iter().map(|number| (number, 1.0)).collect(),
        0.5,
    )
}

/// Estimates the update period of a sensor from its reads, (s, value). The search covers periods
/// from `shortest_s` to `longest_s`.
///
/// Returns `None` if there are fewer than [`MIN_CHANGES`] changes, or if no period has enough
/// evidence, for example because reads are too slow.
pub(crate) fn period(series: &[(f64, f64)], shortest_s: f64, longest_s: f64) -> Option<Period> {
    let mut changes = changes(series);
    changes.truncate(MAX_CHANGES);
    if changes.len() < MIN_CHANGES {
        return None;
    }
    // The shorter a candidate period is, the more changes are on its grid by chance. A change on
    // the grid therefore counts with the evidence ln(period / bracket), the logarithm of one over
    // the probability that a random bracket contains a point of the grid. The search goes from the
    // longest period to the shortest, which is not shorter than a usual bracket.
    let widths = changes.iter().map(|change| change.by_s - change.after_s);
    let width_s = median(widths.collect()).filter(|&width_s| width_s > 0.0)?;
    let shortest_s = shortest_s.max(width_s / SLOW_READS);
    let (mut best, mut coarse_s, mut candidate_s) = (MIN_EVIDENCE, 0.0, longest_s);
    while candidate_s >= shortest_s {
        let reported = (candidate_s / (width_s + 2.0 * JITTER * candidate_s)).ln();
        // The evidence is at most `reported`, which falls with the period.
        if reported <= best {
            break;
        }
        let off = residual(&changes, candidate_s);
        let evidence = (1.0 - off) * reported - off * MISFIT_COST;
        if evidence > best {
            (best, coarse_s) = (evidence, candidate_s);
        }
        candidate_s *= 1.0 - PERIOD_STEP;
    }
    if coarse_s == 0.0 {
        return None;
    }
    // With a slightly wrong period, changes leave the grid early and the segments are short, which
    // limits the accuracy of the fit. A better period yields longer segments, so the fit is
    // repeated.
    let mut found = refined(&changes, coarse_s);
    for _ in 0..2 {
        found = refined(&changes, found.period_s);
    }
    Some(found)
}

/// Returns a bracket for each change of value between two consecutive reads.
fn changes(series: &[(f64, f64)]) -> Vec<Bracket> {
    let changed = |pair: &&[(f64, f64)]| pair[0].1 != pair[1].1;
    let bracket = |pair: &[(f64, f64)]| Bracket {
        after_s: pair[0].0,
        by_s: pair[1].0,
    };
    series.windows(2).filter(changed).map(bracket).collect()
}

/// A sequence of consecutive changes that fit one grid.
struct GridSegment {
    /// Index of its first change.
    first: usize,
    /// For each change, the number of periods since the first change.
    steps: Vec<f64>,
    phase: Phase,
}

/// The position of a grid in time, as far as the changes so far determine it.
#[derive(Clone, Copy)]
struct Phase {
    /// Number of periods from the first to the last change.
    step: f64,
    /// Earliest possible time of the first update, in s, according to all changes so far.
    low_s: f64,
    /// Latest possible time of the first update, in s.
    high_s: f64,
}

impl Phase {
    /// Returns the phase of a sequence that begins with `change`.
    fn start(change: &Bracket, jitter_s: f64) -> Self {
        Self {
            step: 0.0,
            low_s: change.after_s - jitter_s,
            high_s: change.by_s + jitter_s,
        }
    }

    /// Returns the phase after the next change; `None` if the change is not on the grid or more
    /// than [`MAX_STEPS`] periods away.
    ///
    /// The bracket of the change, moved back by `step` periods, narrows the bounds on the first
    /// update. The change is on the grid if these bounds are not empty.
    fn next(self, change: &Bracket, period_s: f64, jitter_s: f64) -> Option<Self> {
        let since_s = 0.5 * (change.after_s + change.by_s) - 0.5 * (self.low_s + self.high_s);
        let step = (since_s / period_s).round().max(self.step + 1.0);
        let low_s = self.low_s.max(change.after_s - jitter_s - step * period_s);
        let high_s = self.high_s.min(change.by_s + jitter_s - step * period_s);
        let is_on_grid = step - self.step <= MAX_STEPS && low_s <= high_s;
        is_on_grid.then_some(Self {
            step,
            low_s,
            high_s,
        })
    }
}

/// Splits changes into sequences that fit one grid each, for a given period.
fn grid_segments(changes: &[Bracket], period_s: f64) -> Vec<GridSegment> {
    let jitter_s = JITTER * period_s;
    let mut segments: Vec<GridSegment> = vec![];
    for (first, change) in changes.iter().enumerate() {
        if let Some(segment) = segments.last_mut()
            && let Some(phase) = segment.phase.next(change, period_s, jitter_s)
        {
            segment.steps.push(phase.step);
            segment.phase = phase;
            continue;
        }
        segments.push(GridSegment {
            first,
            steps: vec![0.0],
            phase: Phase::start(change, jitter_s),
        });
    }
    segments
}

/// Returns the share of changes that are off the grid of the changes before, 0 to 1.
///
/// A change after a long pause begins a new sequence for any period and does not count. This
/// function splits changes as [`grid_segments`] does, but without allocating, because it runs for
/// every candidate period.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn residual(changes: &[Bracket], period_s: f64) -> f64 {
    let jitter_s = JITTER * period_s;
    let (mut off, mut phase) = (0_usize, Phase::start(&changes[0], jitter_s));
    for pair in changes.windows(2) {
        phase = phase.next(&pair[1], period_s, jitter_s).unwrap_or_else(|| {
            off += usize::from(pair[1].by_s - pair[0].after_s < MAX_STEPS * period_s);
            Phase::start(&pair[1], jitter_s)
        });
    }
    off as f64 / changes.len() as f64
}

/// Fits the period to the middles of the brackets by least squares.
///
/// The slope of time over the number of periods is common to all sequences that [`grid_segments`]
/// returns. The phase of each sequence is free, so times and counts are taken relative to their
/// means within the sequence.
fn refined(changes: &[Bracket], coarse_s: f64) -> Period {
    let middle_s = |i: usize| 0.5 * (changes[i].after_s + changes[i].by_s);
    let (mut products, mut squares, mut residuals, mut n) = (0.0, 0.0, 0.0, 0.0);
    let mut longest = 1.0_f64;
    for segment in grid_segments(changes, coarse_s) {
        #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
        let length = segment.steps.len() as f64;
        let times: Vec<f64> = (segment.first..)
            .map(middle_s)
            .take(segment.steps.len())
            .collect();
        let mean_step = segment.steps.iter().sum::<f64>() / length;
        let mean_time = times.iter().sum::<f64>() / length;
        longest = longest.max(segment.steps[segment.steps.len() - 1]);
        for (step, time) in segment.steps.iter().zip(&times) {
            products += (step - mean_step) * (time - mean_time);
            squares += (step - mean_step).powi(2);
            residuals += (time - mean_time - coarse_s * (step - mean_step)).powi(2);
            n += 1.0;
        }
    }
    if squares <= 0.0 {
        return Period {
            period_s: coarse_s,
            uncertainty_s: coarse_s,
        };
    }
    let period_s = products / squares;
    let widest_s = changes
        .iter()
        .map(|c| c.by_s - c.after_s)
        .fold(0.0, f64::max);
    let scatter_s = (residuals / n).sqrt().max(widest_s / 12.0_f64.sqrt());
    Period {
        period_s,
        // Two standard errors, and a term for systematic errors: reads that are synchronous with
        // the updates all have the same error, which the mean over many reads does not reduce.
        uncertainty_s: 2.0 * scatter_s / squares.sqrt()
            + (widest_s + 2.0 * JITTER * coarse_s) / longest,
    }
}

/// Returns the integer part of a number; 0 if the number is negative or NaN, `usize::MAX` if it is
/// too large.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates at both ends; NaN becomes 0"
)]
pub(crate) fn count(number: f64) -> usize {
    number as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{PowerProfile, Sensor};
    use crate::testdata::{Random, read};

    #[test]
    fn reads_in_any_rhythm_find_the_grid() {
        let program = PowerProfile::square(50.0, 250.0, 0.104, 0.5);
        let sensor = Sensor {
            update_s: 0.1,
            window_s: 0.1,
            phase_s: 0.0371,
            gain: 1.0,
            offset_w: 0.0,
        };
        for every_s in [0.007, 0.0133, 0.031, 0.0667, 0.08] {
            let series = read(&sensor, &program, every_s, 20.0);
            let found = of_power(&series, &PeriodBounds::new(0.1, 0.0));
            assert!(
                (199..=202).contains(&found.len()),
                "{every_s}: {}",
                found.len()
            );
            for update in &found[2..found.len() - 1] {
                let true_s = sensor.updated_s(update.time_s + 0.05);
                let off_s = (update.time_s - true_s).abs();
                assert!(
                    off_s <= update.slack_s + 1e-9,
                    "{every_s}: {update:?} {true_s}"
                );
                assert!(update.slack_s < 0.02, "{every_s}: {update:?}");
                assert_eq!(update.value, sensor.reported_w(&program, true_s + 1e-9));
            }
        }
    }

    #[test]
    fn a_constant_has_updates_but_no_period() {
        let series: Vec<_> = (0..200).map(|i| (f64::from(i) * 0.01, 80.0)).collect();
        assert_eq!(period(&series, 0.005, 1.0), None);
        let found = of_power(&series, &PeriodBounds::new(0.1, 0.0));
        assert!((20..=21).contains(&found.len()), "{}", found.len());
        assert!(
            found
                .iter()
                .all(|update| (update.value - 80.0).abs() < 1e-9)
        );
    }

    #[test]
    fn rows_that_lie_far_apart_cost_no_more_than_rows() {
        let mut random = Random(1);
        let load = PowerProfile::square(0.0, 1.0, 0.37, 0.4);
        let mut damaged = vec![];
        for far_s in [1e3, 1e7, 1e11, 1e15, 1e19] {
            let mut series = read(
                &Sensor::for_class(crate::SensorClass::Fast),
                &load,
                0.005,
                4.0,
            );
            let n = series.len();
            for (i, read) in series.iter_mut().enumerate().skip(n / 2) {
                read.0 += far_s * (1.0 + 1e-3 * (i / 100) as f64);
            }
            damaged.push(series);
        }
        for longest in [-3.0, -1.0, 3.0, 12.0] {
            let mut time_s = 0.0;
            let mut read = |_| {
                time_s += 10.0_f64.powf(random.between(-6.0, longest));
                (time_s, random.between(0.0, 9.0).round())
            };
            damaged.push((0..100_000).map(&mut read).collect());
        }
        for series in &mut damaged {
            series.dedup_by(|next, last| next.0 <= last.0);
            for period_s in [1e-9, 0.000_976, 0.02, 0.1, 0.73] {
                let found = of_power(series, &PeriodBounds::new(period_s, 0.0));
                assert!(
                    found.len() <= 4 * series.len(),
                    "{period_s}: {}",
                    found.len()
                );
                assert!(found.windows(2).all(|two| two[0].time_s < two[1].time_s));
            }
        }
    }

    #[test]
    fn an_update_that_no_read_saw_is_left_out() {
        let load = PowerProfile::square(50.0, 250.0, 0.73, 0.6);
        let sensor = Sensor {
            phase_s: 0.0371,
            ..Sensor::for_class(crate::SensorClass::FullTime)
        };
        let mut series = read(&sensor, &load, 0.05, 10.0);
        series.retain(|&(time_s, _)| !(4.12..4.26).contains(&time_s));
        let found = of_power(&series, &PeriodBounds::new(0.1, 0.0));
        // No read sees the update at 4.1371 s; the read at 4.3 s sees the update at 4.2371 s.
        let after = found.iter().find(|u| u.time_s > 4.1).unwrap();
        assert!(after.time_s > 4.2, "{after:?}");
        for update in &found[2..found.len() - 1] {
            let reported_w = sensor.reported_w(&load, update.time_s + 0.05);
            assert!(
                (update.value - reported_w).abs() < 1e-9,
                "{update:?} {reported_w}"
            );
        }
    }

    #[test]
    fn reads_that_cluster_do_not_change_what_is_usual() {
        let load = PowerProfile::square(50.0, 250.0, 0.73, 0.6);
        let sensor = Sensor::for_class(crate::SensorClass::FullTime);
        let mut series = vec![];
        for (time_s, _) in read(&sensor, &load, 0.03, 30.0) {
            let times_s = (0..20).map(|i| time_s + 1e-6 * f64::from(i));
            series.extend(times_s.map(|time_s| (time_s, sensor.reported_w(&load, time_s))));
        }
        assert!((read_interval_s(&series, 0.1) - 0.03).abs() < 1e-4);
        let found = period(&series, 0.004, 2.0).unwrap();
        assert!((found.period_s - 0.1).abs() < 0.005, "{found:?}");
        // In these rows of a slow sampler, every second row is from the edge of a region of code.
        let mut slow = read(&sensor, &load, 0.3, 30.0);
        let edges: Vec<_> = slow.iter().map(|&(time_s, w)| (time_s + 1e-5, w)).collect();
        slow.extend(edges);
        slow.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert_eq!(
            of_power(&slow, &PeriodBounds::new(0.1, 0.0)).len(),
            slow.len() / 2
        );
    }

    #[test]
    fn a_pause_of_the_reads_leaves_updates_out() {
        let ramp = PowerProfile::square(0.0, 1.0, 0.37, 0.4);
        let mut series = read(
            &Sensor::for_class(crate::SensorClass::FullTime),
            &ramp,
            0.01,
            6.0,
        );
        series.retain(|&(time_s, _)| !(2.0..4.0).contains(&time_s));
        let found = of_power(&series, &PeriodBounds::new(0.1, 0.0));
        assert!(found.iter().all(|u| u.time_s < 2.05 || u.time_s > 3.85));
    }
}
