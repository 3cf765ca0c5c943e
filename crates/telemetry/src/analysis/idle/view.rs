//! The rows of a window: times that they cover, steps of power, and memory in use.
//!
//! Role: reads a trace for [`super::idle_periods`], so that the cuts work on steps only.
//! Method: power is taken from the cells from which [`Trace::energy`] is computed. Time that no
//! cell or no row describes is hidden.

use super::{Activity, Period, shows_activity, unavailable};
use crate::analysis::cut::{Cut, Power, Readings, TimedReading, clipped, without_gaps};
use crate::analysis::estimate::Estimate;
use crate::analysis::periodicity::{Periodicity, periodicity_of};
use crate::energy::{CLOCK, COUNTER_PERIODS_S, Cell, SLOWEST_COUNTER_S, Visibility};
use crate::updates::{self, PeriodBounds, Update, held_s, median, row_interval_s};
use crate::{Calibration, Fault, Method, Metric, Result, Row, SensorClass, Trace};
use std::ops::Range;
use std::time::Duration;

/// Memory in use, in bytes, above which a program has allocated memory: the driver itself uses up
/// to a few hundred MB.
const HELD_BYTES: f64 = 600e6;
/// Second threshold of memory in use, as a share of all memory, because the driver uses more memory
/// on large devices. The larger of this threshold and [`HELD_BYTES`] applies.
const HELD_SHARE: f64 = 0.02;
/// Longest window, in s, of a sensor whose readings are hardly ever mixtures of busy and idle time.
const SHORT_WINDOW_S: f64 = 0.03;
/// Shortest time between two reads of a counter that form a step, as a share of
/// [`SLOWEST_COUNTER_S`]. It is slightly below 1, so that jitter of the reads does not double the
/// step.
const SAME_UPDATE: f64 = 0.95;
/// Uncertainty of the times of a counter's updates, as a share of [`SLOWEST_COUNTER_S`], below
/// which these times are known well enough to be used as they are.
const PLACED: f64 = 0.25;
/// Length of a sensor's window, in s, above which the sensor counts as averaging over several
/// updates.
const AVERAGE_S: f64 = 0.5;

/// The rows of a device in a window of time.
pub(super) struct RowWindow<'a> {
    trace: &'a Trace,
    device: usize,
    pub(super) window_s: (f64, f64),
    /// Usual time between two rows, in s.
    pub(super) usual_s: f64,
    /// Times that rows cover, in s.
    pub(super) spans: Vec<(f64, f64)>,
}

impl<'a> RowWindow<'a> {
    /// Creates the view, and joins the times that rows cover to spans within the window.
    pub(super) fn new(trace: &'a Trace, device: usize, window: &Range<Duration>) -> Result<Self> {
        let usual_s = row_interval_s(trace, device);
        let telling = trace.device_rows(device).filter(|row| shows_activity(row));
        let times: Vec<(f64, f64)> = telling.map(|row| (row.time.as_secs_f64(), 0.0)).collect();
        if times.len() < 2 {
            return Err(unavailable(device, Fault::NotSupported));
        }
        let window_s = (window.start.as_secs_f64(), window.end.as_secs_f64());
        let mut spans: Vec<(f64, f64)> = vec![];
        for (pair, held_s) in times.windows(2).zip(held_s(&times, usual_s)) {
            let (from_s, next_s) = (pair[0].0, pair[1].0);
            // After a pause of sampling a row holds for its usual time only.
            let is_pause = held_s < next_s - from_s;
            let to_s = if is_pause { from_s + held_s } else { next_s };
            let (from_s, to_s) = (from_s.max(window_s.0), to_s.min(window_s.1));
            // Rows that follow each other without a pause are one span.
            match spans.last_mut() {
                _ if to_s <= from_s => {}
                Some(last) if last.1 >= from_s => last.1 = last.1.max(to_s),
                _ => spans.push((from_s, to_s)),
            }
        }
        Ok(Self {
            trace,
            device,
            window_s,
            usual_s,
            spans,
        })
    }

    fn is_within(&self, time_s: f64) -> bool {
        (self.window_s.0..=self.window_s.1).contains(&time_s)
    }

    /// Returns the possible values of a metric in the whole trace, with their times in s. Power,
    /// energy, utilisation and memory are never negative.
    fn possible(&self, metric: Metric) -> Vec<(f64, f64)> {
        let mut series = self.trace.series(self.device, metric);
        series.retain(|&(_, value)| value.is_finite() && value >= 0.0);
        series
    }

    /// Returns the possible values of a metric within the window, with their times in s.
    fn series(&self, metric: Metric) -> Vec<(f64, f64)> {
        let mut series = self.possible(metric);
        series.retain(|&(time_s, _)| self.is_within(time_s));
        series
    }

    /// Returns whether the window has a value of a metric.
    pub(super) fn is_reported(&self, metric: Metric) -> bool {
        !self.series(metric).is_empty()
    }

    /// Returns the power metric that the device reports; instant power is preferred.
    fn metric(&self) -> Option<Metric> {
        Metric::POWERS
            .into_iter()
            .find(|&metric| self.is_reported(metric))
    }

    /// Returns the values of a metric within the window, each with the time for which it holds, in
    /// s.
    pub(super) fn weighted(&self, metric: Metric) -> Vec<(f64, f64)> {
        let series = self.series(metric);
        let held = held_s(&series, self.usual_s);
        series.iter().map(|point| point.1).zip(held).collect()
    }

    /// Returns the readings of a metric, each from its read to the next read. The readings are
    /// those of the whole trace, because a reading after the window may describe the end of the
    /// window.
    pub(super) fn readings(&self, metric: Metric) -> Vec<TimedReading> {
        let series = self.possible(metric);
        let held = held_s(&series, self.usual_s);
        let step = |(i, &(from_s, value)): (usize, &(f64, f64))| {
            // The time of the next read is copied, not computed, so that rounding leaves no gaps.
            let to_s = match series.get(i + 1) {
                Some(next) if held[i] >= next.0 - from_s => next.0,
                _ => from_s + held[i],
            };
            TimedReading::seen(from_s, to_s, value)
        };
        series.iter().enumerate().map(step).collect()
    }

    /// Returns the power of the window: the cells from which the energy is computed or, without
    /// cells, the updates of the sensor.
    pub(super) fn power(&self) -> Power {
        let (from_s, to_s) = self.window_s;
        let power = match self.trace.best_cells(self.device, from_s, to_s) {
            Some((method, cells)) => {
                let is_counted = method == Method::Counter;
                let steps = is_counted.then(|| self.counter_steps(&cells.list, cells.ceiling_w));
                // A reading of the counter is up to one update old, at both ends.
                let counted = steps.flatten().map(|steps| (steps, cells.update_s));
                let (steps, slack_s) = counted.unwrap_or_else(|| {
                    let steps = cells.list.iter().map(step_of).collect();
                    (
                        steps,
                        slack_s(&cells.list, from_s) + slack_s(&cells.list, to_s),
                    )
                });
                Power {
                    steps,
                    slack_s,
                    is_counted,
                    period_error: cells.period_error,
                    most_w: cells.ceiling_w,
                }
            }
            None => self.metric().map_or_else(Power::default, |metric| {
                let steps = self.updates(metric);
                Power {
                    most_w: steps.iter().map(|step| step.value).fold(0.0, f64::max),
                    slack_s: 2.0 * self.usual_s,
                    steps,
                    ..Power::default()
                }
            }),
        };
        Power {
            steps: without_gaps(&power.steps, self.window_s),
            ..power
        }
    }

    /// Returns steps of power by differences of the energy counter between reads that are about
    /// [`SLOWEST_COUNTER_S`] or more apart.
    ///
    /// Steps are equally long if reads are. A read that just missed an update leaves a step of too
    /// little power, which the cut by power repairs (`Levels::repaired`). Returns none if the times
    /// of the updates are known well enough (see [`PLACED`]), and if the counter is absent, fell,
    /// or rose by more than the device can draw.
    fn counter_steps(&self, cells: &[Cell], ceiling_w: f64) -> Option<Vec<TimedReading>> {
        let slacks = cells.iter().map(|cell| cell.slack_s.0.max(cell.slack_s.1));
        if median(slacks.collect())? < PLACED * SLOWEST_COUNTER_S {
            return None;
        }
        let series = self.trace.series(self.device, Metric::Energy);
        // `last` is the read at which the next step begins; reads too close to it are skipped.
        let (mut last, mut steps) = (*series.first()?, vec![]);
        for &(to_s, reported_j) in &series[1..] {
            if reported_j < last.1 {
                return None;
            }
            if to_s - last.0 >= SAME_UPDATE * SLOWEST_COUNTER_S {
                let value = (reported_j - last.1) / (to_s - last.0);
                // Factor 2: one more update than expected may fall between two reads.
                if value > 2.0 * ceiling_w {
                    return None;
                }
                steps.push(TimedReading::seen(last.0, to_s, value));
                last = (to_s, reported_j);
            }
        }
        (!steps.is_empty()).then_some(steps)
    }

    /// Returns readings that show the levels of power: the updates of a sensor that does not
    /// average over several updates or, without such a sensor, the steps of power that are not
    /// hidden.
    pub(super) fn levels_shown_by(&self, power: &[TimedReading]) -> Readings {
        let window_s = |metric| self.update_and_window_s(metric).map(|of| of.1);
        // Of an unknown sensor only the instant power is assumed not to be an average.
        let is_sharp = |metric: &Metric| {
            let is_average =
                window_s(*metric).map_or(*metric != Metric::PowerInstant, |s| s > AVERAGE_S);
            !is_average && self.is_reported(*metric)
        };
        match Metric::POWERS.into_iter().find(is_sharp) {
            Some(metric) => Readings {
                steps: clipped(&self.updates(metric), &self.spans),
                is_short: window_s(metric).is_some_and(|window_s| window_s <= SHORT_WINDOW_S),
            },
            None => Readings {
                steps: between_updates(power),
                is_short: false,
            },
        }
    }

    /// Returns the time between updates and the window of a sensor of a known class, in s.
    fn update_and_window_s(&self, metric: Metric) -> Option<(f64, f64)> {
        let class = self.trace.devices[self.device].sensor_class(metric);
        class.map(SensorClass::update_and_window_s)
    }

    /// Returns one step for each update of a sensor of power, in W. A step begins at the previous
    /// update. Several reads of one update are one step.
    fn updates(&self, metric: Metric) -> Vec<TimedReading> {
        let mut series = self.possible(metric);
        series.dedup_by(|next, last| next.0 <= last.0);
        let class = self.update_and_window_s(metric);
        // The update interval of an unknown sensor is measured or, if that fails, assumed to be
        // slow.
        let measured = || {
            let found = updates::period(&series, COUNTER_PERIODS_S.0, COUNTER_PERIODS_S.1);
            found.map_or(SLOWEST_COUNTER_S, |found| found.period_s)
        };
        let update_s = class.map_or_else(measured, |class| class.0);
        let window_s = class.map_or(update_s, |class| class.1);
        let found = updates::of_power(&series, &PeriodBounds::new(update_s, CLOCK));
        let usual_s = update_s.max(self.usual_s);
        // After a pause, the update before is unknown, so the step has the length of one update.
        // The part of a step before the sensor's window is hidden.
        let mut last_s = f64::NEG_INFINITY;
        let step = |update: &Update| {
            let to_s = update.time_s;
            let is_first = to_s - last_s > updates::PAUSE * usual_s;
            let from_s = if is_first { to_s - update_s } else { last_s };
            last_s = to_s;
            TimedReading {
                hidden_s: (to_s - from_s - window_s).max(0.0),
                ..TimedReading::seen(from_s, to_s, update.value)
            }
        };
        found.iter().map(step).collect()
    }

    /// Estimates the energy of the idle time of a cut, in J, with the tolerance of the device's
    /// calibration. The time that rows do not cover has the energy `unknown_j`, in J, and may be
    /// busy or idle.
    pub(super) fn wasted_j(&self, cut: &Cut, unknown_j: f64) -> Estimate {
        let calibration = Calibration::for_device(&self.trace.devices[self.device]);
        let truth =
            |reported_j: f64, lasts_s: f64| calibration.interval((reported_j, reported_j), lasts_s);
        let unknown_s = (self.window_s.1 - self.window_s.0 - self.total_s()).max(0.0);
        // If all unknown time were idle, it would have its own energy or that of other idle time.
        let idle_w = cut.idle_j.high / cut.idle_s.high.max(f64::MIN_POSITIVE);
        let high_j = cut.idle_j.high + unknown_j.max(idle_w * unknown_s);
        // The calibration is applied to both ends, because its error grows with the energy and the
        // time.
        let low = truth(cut.idle_j.low, cut.idle_s.low).low_j;
        let high = truth(high_j, cut.idle_s.high + unknown_s).high_j;
        Estimate {
            value: cut.idle_j.value,
            low: low.min(cut.idle_j.value),
            high: high.max(cut.idle_j.value),
        }
    }

    /// Returns the period of power; none without power or without a significant period.
    pub(super) fn periodicity(&self) -> Option<Periodicity> {
        let series = self.series(self.metric()?);
        periodicity_of(&series, self.usual_s)
    }

    /// Returns the time that rows cover, in s.
    pub(super) fn total_s(&self) -> f64 {
        self.spans.iter().map(|span| span.1 - span.0).sum()
    }

    /// Returns the share of the window that rows cover, 0 to 1.
    pub(super) fn known(&self) -> f64 {
        let all_s = self.window_s.1 - self.window_s.0;
        (self.total_s() / all_s.max(self.total_s())).min(1.0)
    }

    /// Returns the times, in s, at which the state of memory changes, each with whether memory is
    /// held from then on. The first entry is the state at the start of the trace.
    ///
    /// A row without memory in use changes nothing: one failed call frees no memory. Rows before
    /// the first value have the state of that value. The total is a constant of the device, so a
    /// missing total is that of an earlier row or, before any total, the first total of the trace.
    fn held_changes(&self) -> Vec<(f64, bool)> {
        let rows = self.trace.device_rows(self.device);
        let total_of = |row: &Row| row.values.get(Metric::MemoryTotal);
        let mut total = rows.clone().find_map(total_of).unwrap_or(0.0);
        let mut changes: Vec<(f64, bool)> = vec![];
        for row in rows.clone() {
            total = total_of(row).unwrap_or(total);
            let Some(used) = row.values.get(Metric::MemoryUsed) else {
                continue;
            };
            let is_held = used > HELD_BYTES.max(HELD_SHARE * total);
            if changes.last().is_none_or(|last| last.1 != is_held) {
                changes.push((row.time.as_secs_f64(), is_held));
            }
        }
        if let (Some(first), Some(row)) = (changes.first_mut(), rows.clone().next()) {
            first.0 = row.time.as_secs_f64();
        }
        changes
    }

    /// Returns the share of the known time in which memory is held, 0 to 1.
    pub(super) fn held_share(&self) -> f64 {
        let changes = self.held_changes();
        let ends_s = changes.iter().skip(1).map(|change| change.0);
        let steps = changes.iter().zip(ends_s.chain([f64::INFINITY]));
        let steps = steps.map(|(&(from_s, is_held), to_s)| {
            TimedReading::seen(from_s, to_s, f64::from(u8::from(is_held)))
        });
        let steps = clipped(&steps.collect::<Vec<_>>(), &self.spans);
        // The value of a step is 1 while memory is held and 0 otherwise.
        let (held_s, all_s) = steps.iter().fold((0.0, 0.0), |(held_s, all_s), step| {
            let length_s = step.to_s - step.from_s;
            (held_s + step.value * length_s, all_s + length_s)
        });
        if all_s > 0.0 { held_s / all_s } else { 0.0 }
    }

    /// Converts the parts of a cut to periods: joins neighbours of the same state, and splits idle
    /// parts where memory was allocated or freed.
    pub(super) fn periods(&self, cut: &Cut) -> Vec<Period> {
        let changes = self.held_changes();
        let mut periods: Vec<Period> = vec![];
        for part in &cut.parts {
            let first = changes.partition_point(|change| change.0 <= part.from_s);
            let inside = changes[first..].iter();
            let inside = inside.take_while(|change| part.is_idle && change.0 < part.to_s);
            let ends_s = inside.map(|change| change.0).chain([part.to_s]);
            let mut from_s = part.from_s;
            for to_s in ends_s {
                let at = changes.partition_point(|change| change.0 <= from_s);
                let is_held = at.checked_sub(1).is_some_and(|at| changes[at].1);
                let activity = match (part.is_idle, is_held) {
                    (false, _) => Activity::Active,
                    (true, true) => Activity::IdleHeld,
                    (true, false) => Activity::Idle,
                };
                // The energy of a part is split in proportion to time.
                let share = (to_s - from_s) / (part.to_s - part.from_s);
                push_period(&mut periods, activity, (from_s, to_s), share * part.joules);
                from_s = to_s;
            }
        }
        periods
    }
}

/// Converts a cell of power to a step; a cell that no update describes is a hidden step.
fn step_of(cell: &Cell) -> TimedReading {
    let length_s = cell.to_s - cell.from_s;
    let hidden_s = match cell.visibility {
        Visibility::Seen => 0.0,
        Visibility::Unsure { hidden_s, .. } => hidden_s.min(length_s),
        Visibility::Hidden { .. } | Visibility::Open | Visibility::Missing => length_s,
    };
    TimedReading {
        hidden_s,
        ..TimedReading::seen(cell.from_s, cell.to_s, cell.watts)
    }
}

/// Returns the bound on the error of the edges of the cell that contains `time_s`, in s; 0 after
/// the last cell.
fn slack_s(cells: &[Cell], time_s: f64) -> f64 {
    let at = cells.partition_point(|cell| cell.to_s < time_s);
    let slack_s = |cell: &Cell| cell.slack_s.0.max(cell.slack_s.1);
    cells.get(at).map_or(0.0, slack_s)
}

/// Appends a period. If the last period has the same activity and ends where the new period begins,
/// the last period is extended instead.
fn push_period(periods: &mut Vec<Period>, activity: Activity, ends_s: (f64, f64), joules: f64) {
    let time = |s: f64| Duration::try_from_secs_f64(s).unwrap_or_default();
    let window = time(ends_s.0)..time(ends_s.1);
    match periods.last_mut() {
        Some(last) if last.activity == activity && last.window.end == window.start => {
            last.window.end = window.end;
            last.joules = last.joules.map(|of_last| of_last + joules);
        }
        _ if window.is_empty() => {}
        _ => periods.push(Period {
            activity,
            window,
            joules: Some(joules),
        }),
    }
}

/// Returns the steps of power that are not hidden, each from one update of a counter to the next. A
/// step of 0 W means that the counter was not updated, so its time is joined to the next step.
fn between_updates(power: &[TimedReading]) -> Vec<TimedReading> {
    let mut joined: Vec<TimedReading> = vec![];
    for &step in power.iter().filter(|step| step.hidden_s <= 0.0) {
        match joined.last_mut() {
            Some(last) if last.value <= 0.0 && last.to_s >= step.from_s => {
                let mean_w = step.value * (step.to_s - step.from_s) / (step.to_s - last.from_s);
                *last = TimedReading::seen(last.from_s, step.to_s, mean_w);
            }
            _ => joined.push(step),
        }
    }
    joined
}
