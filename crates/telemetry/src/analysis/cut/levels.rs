//! The two levels of a device's power.
//!
//! Role: [`Levels::find`] finds the power of idle time and of busy time. The cut by power compares
//! each step with these two levels.
//! Method: a level is the median of the readings near the lowest or the highest reading. A level is
//! certain if power stays near the level for three updates of the sensor, because the middle update
//! is then no mixture of busy and idle time, or if the sensor's window is short. Repeated reads of
//! one update count as one reading, because a repeated mixture would look like a level.
//! Offset: the readings that show the levels may come from another sensor than the steps that hold
//! the energy, so the power of a level is that of the steps within the times at which readings stay
//! at the level.
//! Limits: power that alternates faster than the sensor is updated, for at least three updates,
//! counts as a level. An offset between both sensors is not corrected at a level at which readings
//! do not stay for a whole step.

use super::{Estimate, TimedReading};
use crate::updates::quantile;

/// Share of the high level below which the low level counts as idle. A low level above this share
/// is a lighter load.
pub(in crate::analysis) const GAP_LEVEL: f64 = 0.7;
/// A reading belongs to a level if its distance from the level is at most this share of the
/// difference between both levels.
const NEAR: f64 = 0.2;
/// A reading resembles a neighbour if they differ by at most this share of the difference between
/// both levels.
const ALIKE: f64 = 0.1;
/// A reading further from both levels than this share of their difference is a mixture, even if it
/// resembles a neighbour.
const THIRD_LEVEL: f64 = 0.35;
/// Minimum share of the time in which power is near one of the two levels. With a smaller share,
/// power does not have two levels.
const MIN_SHARE_NEAR: f64 = 0.5;
/// Quantiles of power, weighted by time, that are used as the lowest and the highest power.
const EXTREMES: (f64, f64) = (0.01, 0.99);
/// Minimum share of the time at a third level; a smaller share is ignored.
const MIN_SHARE_THIRD: f64 = 0.05;
/// Largest distance of a step from a level at which [`Levels::repaired`] leaves the step unchanged,
/// as a share of the difference of both levels.
const REPAIR_TOLERANCE: f64 = 0.05;
/// Number of later steps in which [`Levels::repaired`] looks for the energy of an update that a
/// read missed.
const REPAIR_REACH: usize = 4;
/// Share of hidden time above which two readings do not count as consecutive. An empirical value,
/// chosen on one random load (a sensor that averages over the last second, read every 1.6 s).
const MOST_HIDDEN: f64 = 0.35;
/// Number of consecutive updates near a level that make the level certain, because the middle
/// update is then no mixture.
const CERTAIN_RUN: usize = 3;

/// Readings of power, in W, in which the levels are searched: one step for each update of the
/// sensor.
pub(in crate::analysis) struct Readings {
    pub steps: Vec<TimedReading>,
    /// Whether the sensor's window is so short that readings are hardly ever mixtures.
    pub is_short: bool,
}

/// The two levels of power, in W.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Levels {
    pub low_w: f64,
    pub high_w: f64,
    pub is_low_certain: bool,
    pub is_high_certain: bool,
    /// Whether power stays at a third level: runs of at least [`CERTAIN_RUN`] similar readings
    /// between both levels take more than [`MIN_SHARE_THIRD`] of the time.
    pub has_third: bool,
}

impl Levels {
    /// Finds two levels in readings of power, and returns the power of `steps` at the times of each
    /// level, because `steps` may come from another sensor. Returns none if power is between the
    /// levels for most of the time, or if the low level is above [`GAP_LEVEL`] of the high one.
    pub(super) fn find(readings: &Readings, steps: &[TimedReading]) -> Option<Self> {
        let shown = Self::shown_by(readings)?;
        let reach_w = NEAR * (shown.high_w - shown.low_w);
        // Median of the steps during which the readings stay at a level; the level itself without
        // such steps, or if their median is too far away to be the same level.
        let of_steps_w = |level_w| {
            let lasting = lasting(&readings.steps, level_w, reach_w);
            let times = lasting.map(|run| (run[0].from_s, run[run.len() - 1].to_s));
            let inside = within(steps, &times.collect::<Vec<_>>());
            median_w(inside.iter().filter(|step| step.hidden_share() < 0.5))
                .filter(|watts| (watts - level_w).abs() <= reach_w)
                .unwrap_or(level_w)
        };
        Some(Self {
            low_w: of_steps_w(shown.low_w),
            high_w: of_steps_w(shown.high_w),
            ..shown
        })
    }

    /// Finds the levels from the readings alone.
    fn shown_by(readings: &Readings) -> Option<Self> {
        let steps = &readings.steps;
        let weighted: Vec<(f64, f64)> = steps.iter().map(|s| (s.value, s.length_s())).collect();
        let least_w = quantile(weighted.clone(), EXTREMES.0)?.max(0.0);
        let most_w = quantile(weighted.clone(), EXTREMES.1)?;
        if !(most_w > 0.0 && least_w < GAP_LEVEL * most_w) {
            return None;
        }
        let reach_w = NEAR * (most_w - least_w);
        let near = |level_w: f64| {
            let near = weighted.iter().copied();
            near.filter(move |(watts, _)| (watts - level_w).abs() <= reach_w)
                .collect::<Vec<_>>()
        };
        let time_s = |list: &[(f64, f64)]| list.iter().map(|reading| reading.1).sum::<f64>();
        let (low, high) = (near(least_w), near(most_w));
        // With most of the time between the extremes, power has a continuous range and no levels.
        if time_s(&low) + time_s(&high) < MIN_SHARE_NEAR * time_s(&weighted) {
            return None;
        }
        let (near_low_w, near_high_w) = (quantile(low, 0.5)?, quantile(high, 0.5)?);
        // Readings inside long runs are no mixtures, so their median is preferred.
        let lasting_w = |level_w| median_w(lasting(steps, level_w, reach_w).flatten());
        let (low_w, high_w) = (lasting_w(near_low_w), lasting_w(near_high_w));
        let levels = Self {
            low_w: low_w.unwrap_or(near_low_w),
            high_w: high_w.unwrap_or(near_high_w),
            is_low_certain: readings.is_short || low_w.is_some(),
            is_high_certain: readings.is_short || high_w.is_some(),
            has_third: false,
        };
        Some(Self {
            has_third: levels.misses_a_level(steps),
            ..levels
        })
    }

    /// Moves energy back to steps below the low level.
    ///
    /// A device always draws at least the low level. A lower step occurs if a counter is read at
    /// the moment of its update: the energy of the update then appears in a later step. The energy
    /// is taken from the next step above the high level, down to that level, and then from the next
    /// step above the low level.
    pub(super) fn repaired(&self, steps: &[TimedReading]) -> Vec<TimedReading> {
        let mut steps = steps.to_vec();
        let tolerance_w = REPAIR_TOLERANCE * (self.high_w - self.low_w);
        for i in 0..steps.len() {
            let end = (i + 1 + REPAIR_REACH).min(steps.len());
            for level_w in [self.high_w, self.low_w] {
                if steps[i].value >= self.low_w - tolerance_w {
                    break;
                }
                let is_above = |&j: &usize| steps[j].value > level_w + tolerance_w;
                let Some(j) = (i + 1..end).find(is_above) else {
                    continue;
                };
                // Move as much as this step lacks, but no more than the other step has in excess.
                let needed_j = (level_w - steps[i].value) * steps[i].length_s();
                let excess_j = (steps[j].value - level_w) * steps[j].length_s();
                let moved_j = needed_j.min(excess_j);
                steps[i].value += moved_j / steps[i].length_s();
                steps[j].value -= moved_j / steps[j].length_s();
            }
        }
        steps
    }

    /// Returns whether power stays at a third level, between both levels, for more than
    /// [`MIN_SHARE_THIRD`] of the time.
    fn misses_a_level(&self, steps: &[TimedReading]) -> bool {
        let difference_w = self.high_w - self.low_w;
        let place = |step: &TimedReading| (step.value - self.low_w) / difference_w;
        let is_between = |step: &TimedReading| (NEAR..=1.0 - NEAR).contains(&place(step));
        let is_alike =
            |a: &TimedReading, b: &TimedReading| (a.value - b.value).abs() <= ALIKE * difference_w;
        let time_s = |list: &[TimedReading]| list.iter().map(TimedReading::length_s).sum::<f64>();
        let runs = steps.chunk_by(is_alike);
        let between = runs.filter(|run| run.len() >= CERTAIN_RUN && is_between(&run[0]));
        between.map(time_s).sum::<f64>() > MIN_SHARE_THIRD * time_s(steps)
    }

    /// Estimates the idle share of a step, 0 to 1; `neighbours` are the powers of the steps before
    /// and after, in W.
    pub(super) fn idle_share(&self, step: &TimedReading, neighbours: [Option<f64>; 2]) -> Estimate {
        let difference_w = self.high_w - self.low_w;
        // 0 at the low level, 1 at the high level.
        let place = (step.value - self.low_w) / difference_w;
        let mixture = (1.0 - place).clamp(0.0, 1.0);
        let resembles = |other: f64| (other - step.value).abs() <= ALIKE * difference_w;
        let is_level = (place - 0.5).abs() >= 0.5 - THIRD_LEVEL
            && neighbours.into_iter().flatten().any(resembles);
        let value = match (is_level, place < 0.5) {
            (true, true) => 1.0,
            (true, false) => 0.0,
            (false, _) => mixture,
        };
        // Near the low level at least the idle share of a mixture is idle, and near the high level
        // at most that share. In between, the step may be anything from busy to idle.
        let share = Estimate {
            value,
            low: if place <= NEAR { mixture } else { 0.0 },
            high: if place >= 1.0 - NEAR { mixture } else { 1.0 },
        };
        share.with_hidden(step.hidden_share())
    }
}

/// Returns the runs of at least [`CERTAIN_RUN`] steps near a level, without the first and the last
/// step of each run, which may be mixtures.
fn lasting(
    steps: &[TimedReading],
    level_w: f64,
    reach_w: f64,
) -> impl Iterator<Item = &[TimedReading]> {
    let is_near = move |step: &TimedReading| (step.value - level_w).abs() <= reach_w;
    // With much hidden time between readings, all of them may be mixtures.
    let follows = |a: &TimedReading, b: &TimedReading| {
        let hidden_s = b.from_s - a.to_s + b.hidden_s;
        hidden_s < MOST_HIDDEN * (b.to_s - a.to_s)
    };
    let runs = steps.chunk_by(move |a, b| is_near(a) == is_near(b) && follows(a, b));
    let lasting = runs.filter(move |run| run.len() >= CERTAIN_RUN && is_near(&run[0]));
    lasting.map(|run| &run[1..run.len() - 1])
}

/// Returns the steps that are entirely within one of `times`; steps and times are sorted.
fn within(steps: &[TimedReading], times: &[(f64, f64)]) -> Vec<TimedReading> {
    let is_within = |step: &&TimedReading| {
        let i = times.partition_point(|time| time.1 < step.to_s);
        times.get(i).is_some_and(|time| time.0 <= step.from_s)
    };
    steps.iter().filter(is_within).copied().collect()
}

/// Returns the median power of steps, in W, weighted by their lengths.
fn median_w<'a>(steps: impl Iterator<Item = &'a TimedReading>) -> Option<f64> {
    quantile(steps.map(|s| (s.value, s.length_s())).collect(), 0.5)
}
