//! Idle times of a device, their energy, and whether they are a pattern.
//!
//! Role: the first question about a job: is the GPU the bottleneck? The answer is a [`Bottleneck`] with its evidence.
//! Method: time is cut into busy and idle parts twice (`cut.rs`): by power where it has two levels, and by utilisation,
//! whose lag behind power is measured and corrected (`lag.rs`). The rule that combines both: where the two ranges of
//! idle time have a time in common, the cut by power holds, since power is read more often; where they have none,
//! utilisation decides and the range covers both; likewise where power has a third level, which may be either. Idle time counts as idle-held if memory is allocated, since somebody
//! keeps the device from others. Gaps that repeat are looked for in power ([`periodicity`](super::periodicity())),
//! since utilisation averages them away. A row holds until the next, but not through a pause of sampling, of which
//! nothing is known. Joules are those of the best method, as in [`Trace::energy`] of the same window; where sampling
//! paused they are fewer, since that energy includes the pause. Time is counted and not rows, which are more where
//! regions of code begin and end.
//! Accuracy: ranges include the tolerance of the sensor's gain. On models of five boards with random loads the range
//! contains the true idle energy (tested).
//! Source: thresholds of under-use: the rules `LowGPUUtilization` (95th percentile below 70 %; 5th below 10 % with a
//! 95th above 70 %: fluctuating) and `CPUBottleneck` (busy below 10 %) of Amazon `SageMaker` Debugger. The 5th
//! percentile is below 10 % exactly where more than 5 % of the time is idle, so the rule is applied to idle time.

mod verdict;

use super::cut::{Cut, Estimate, Readings, Step, by_power, by_utilisation, clipped};
use super::lag;
use super::periodicity::{Periodicity, periodicity_of};
use crate::energy::Method;
use crate::updates::{held_s, quantile, row_interval_s};
use crate::{Calibration, Error, Fault, Metric, Result, Row, SensorClass, Trace};
use serde::Serialize;
use std::ops::Range;
use std::time::Duration;

/// State of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activity {
    /// The device computes.
    Active,
    /// The device is idle, but memory is allocated.
    IdleHeld,
    /// The device is idle, and its memory is free.
    Idle,
}

/// A time in which a device has one [`Activity`].
#[derive(Clone, Debug, PartialEq)]
pub struct Stretch {
    /// The state of the device.
    pub activity: Activity,
    /// Start and end.
    pub window: Range<Duration>,
    /// Energy of this time, in J, by the method of [`Trace::energy`]; 0 where there is no method.
    pub joules: f64,
}

/// Shares of the known time, 0 to 1, each with its range; the values add up to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Shares {
    /// Share of [`Activity::Active`].
    pub active: Estimate,
    /// Share of [`Activity::IdleHeld`].
    pub idle_held: Estimate,
    /// Share of [`Activity::Idle`].
    pub idle: Estimate,
}

/// The cause of a low throughput, if the device is one; the first verdict that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Neither utilisation nor power can tell busy time from idle time.
    Undecided,
    /// More than half of the time is idle.
    MostlyIdle,
    /// More than 5 % of the time is idle, and power has a period: the device waits for input in each round.
    PeriodicIdle,
    /// The busiest twentieth of the time is below 70 % utilisation.
    Underused,
    /// More than 5 % of the time is idle, without a period.
    Fluctuating,
    /// At most 5 % of the time is idle.
    Busy,
}

/// The quantity that busy and idle time were told apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// Two levels of power, which utilisation does not contradict.
    Power,
    /// Utilisation, because power has no two levels, or contradicts.
    Utilisation,
    /// None: utilisation is absent, and power has no two levels.
    Neither,
}

/// A verdict with its evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct Bottleneck {
    /// The verdict.
    pub verdict: Verdict,
    /// States of the device in the order of time; without gaps, except for pauses of sampling.
    pub stretches: Vec<Stretch>,
    /// Shares of the states.
    pub shares: Shares,
    /// The quantity that `stretches` and the values of `shares` and `wasted_j` rest on.
    pub evidence: Evidence,
    /// Lag of utilisation behind the device, in s, if it was found, of readings that hold until the next one;
    /// `stretches` are corrected for it.
    pub utilisation_lag_s: Option<f64>,
    /// Share of the window that rows cover, 0 to 1.
    pub known: f64,
    /// Whether memory in use is reported; if not, no time counts as [`Activity::IdleHeld`].
    pub is_memory_told: bool,
    /// Period of power, if there is one.
    pub periodicity: Option<Periodicity>,
    /// The 5th and the 95th percentile of utilisation, in %, if it is reported.
    pub busy_percentiles: Option<(f64, f64)>,
    /// Energy of all stretches, in J.
    pub joules: f64,
    /// Energy of the idle stretches, in J.
    pub wasted_j: Estimate,
}

/// Memory in use above this is allocated by a program: the driver itself keeps up to a few hundred MB.
const HELD_BYTES: f64 = 600e6;
/// Memory in use above this share of all memory, for large devices, of which the driver keeps more.
const HELD_SHARE: f64 = 0.02;
/// Longest window, in s, of a sensor whose readings are never mixtures of busy and idle.
const SHORT_WINDOW_S: f64 = 0.03;
/// Time between updates of the slowest energy counter that is known, in s.
const COUNTER_UPDATE_S: f64 = 0.1;
/// Reads that are at least this share of an update apart are an update apart.
const SAME_UPDATE: f64 = 0.95;
/// Shortest window, in s, of a sensor that averages over several updates.
const AVERAGE_S: f64 = 0.5;
const OPERATION: &str = "idle_periods";

/// Finds the idle times of a device in a whole trace and judges whether they are a bottleneck.
///
/// # Errors
/// [`Error::NoDevice`] if there is no such device; [`Error::Unavailable`] if the device reports neither utilisation
/// nor power, or has fewer than two rows, or all of them at the same time.
pub fn idle_periods(trace: &Trace, device: usize) -> Result<Bottleneck> {
    check_device(trace, device)?;
    let mut rows = trace.of_device(device).filter(|row| is_telling(row));
    let (first, last) = rows
        .next()
        .map(|row| row.time)
        .zip(rows.map(|row| row.time).max())
        .ok_or_else(|| unavailable(device, Fault::NotSupported))?;
    // Times without a reading at either end count as unknown.
    let times = || trace.of_device(device).map(|row| row.time);
    let start = times().min().unwrap_or(first);
    let end = times().max().unwrap_or(last);
    judge(trace, device, start..end)
}

/// Does the same for a window, such as that of a region of code. The energy is [`Trace::energy`] of the same window.
///
/// # Errors
/// Those of [`idle_periods`]; [`Error::ParameterInvalid`] for a window that is empty, or within which no sensor of
/// power was updated.
pub fn idle_periods_within(
    trace: &Trace,
    device: usize,
    window: Range<Duration>,
) -> Result<Bottleneck> {
    check_device(trace, device)?;
    let length_s = window.end.saturating_sub(window.start).as_secs_f64();
    let energy = trace.energy(device, window.clone());
    if window.is_empty() || energy.is_some_and(|energy| energy.n_updates == 0) {
        return Err(Error::ParameterInvalid {
            operation: OPERATION,
            parameter: "length of the window in s",
            value: length_s,
            must: "long enough for one update of the power sensor",
        });
    }
    judge(trace, device, window)
}

fn check_device(trace: &Trace, device: usize) -> Result<()> {
    if device < trace.devices.len() {
        return Ok(());
    }
    Err(Error::NoDevice {
        operation: OPERATION,
        selection: device.to_string(),
        n_devices: trace.devices.len(),
    })
}

fn unavailable(device: usize, fault: Fault) -> Error {
    Error::Unavailable {
        operation: OPERATION,
        metric: Metric::GpuBusy,
        device,
        fault,
    }
}

/// Returns whether a row has a reading that tells busy time from idle time.
fn is_telling(row: &Row) -> bool {
    let mut metrics = [Metric::GpuBusy].into_iter().chain(Metric::POWERS);
    metrics.any(|metric| row.values.get(metric).is_some())
}

/// A window of a device's rows.
struct View<'a> {
    trace: &'a Trace,
    device: usize,
    window_s: (f64, f64),
    /// Usual time between two rows, in s.
    usual_s: f64,
    /// Times that rows cover, in s.
    spans: Vec<(f64, f64)>,
}

fn judge(trace: &Trace, device: usize, window: Range<Duration>) -> Result<Bottleneck> {
    let view = View::new(trace, device, &window)?;
    let total_s: f64 = view.spans.iter().map(|span| span.1 - span.0).sum();
    if total_s <= 0.0 {
        return Err(unavailable(device, Fault::Senseless));
    }
    let (power, slack_s, most_w) = view.power();
    let shown = view.levels_shown_by(&power);
    let readings = view.readings(Metric::GpuBusy);
    let lag_s = lag::of_utilisation(&readings, &power, view.usual_s);
    let of_power = by_power(&power, &shown, slack_s, most_w);
    let of_busy =
        (!readings.is_empty()).then(|| by_utilisation(&readings, lag_s, &view.spans, &power));
    let (cut, evidence) = match (of_power, of_busy) {
        (Some(power), Some(busy)) if power.has_third_level || !power.idle_s.meets(&busy.idle_s) => {
            let idle_s = busy.idle_s.hull(&power.idle_s);
            let idle_j = busy.idle_j.hull(&power.idle_j);
            let cut = Cut {
                idle_s,
                idle_j,
                ..busy
            };
            (cut, Evidence::Utilisation)
        }
        (Some(power), _) => (power, Evidence::Power),
        (None, Some(busy)) => (busy, Evidence::Utilisation),
        (None, None) => (Cut::unknown(&power, &view.spans), Evidence::Neither),
    };
    let cut = view.scaled_to_energy(cut, total_s);
    let stretches = view.stretches(&cut);
    let calibration = Calibration::of_device(&trace.devices[device]);
    let truth = |told_j: f64, lasts_s: f64| calibration.interval((told_j, told_j), lasts_s);
    let series: Vec<(f64, f64)> = match view.metric() {
        Some(metric) => view.series(metric),
        None => vec![],
    };
    let busy = view.weighed(Metric::GpuBusy);
    let mut found = Bottleneck {
        verdict: Verdict::Undecided,
        shares: shares(
            &stretches,
            cut.idle_s.scaled(1.0 / total_s),
            view.held_share(),
        ),
        stretches,
        evidence,
        utilisation_lag_s: lag::is_found(&lag_s).then_some(lag_s.value),
        known: view.known(total_s),
        is_memory_told: view.is_told(Metric::MemoryUsed),
        periodicity: periodicity_of(&series, view.usual_s),
        busy_percentiles: quantile(busy.clone(), 0.05).zip(quantile(busy, 0.95)),
        joules: cut.parts.iter().fold(0.0, |sum, part| sum + part.joules),
        wasted_j: Estimate {
            value: cut.idle_j.value,
            low: truth(cut.idle_j.low, cut.idle_s.low)
                .low_j
                .min(cut.idle_j.value),
            high: truth(cut.idle_j.high, cut.idle_s.high)
                .high_j
                .max(cut.idle_j.value),
        },
    };
    found.verdict = found.judged();
    Ok(found)
}

/// Shares out idle time among held and free by the times of the stretches, or by memory where nothing is idle.
fn shares(stretches: &[Stretch], idle: Estimate, held_share: f64) -> Shares {
    let length_s = |activity| {
        let of_it = stretches.iter().filter(|s| s.activity == activity);
        let seconds = of_it.map(|s| (s.window.end - s.window.start).as_secs_f64());
        seconds.fold(0.0, |sum, seconds| sum + seconds)
    };
    let (held_s, free_s) = (length_s(Activity::IdleHeld), length_s(Activity::Idle));
    let held = if held_s + free_s > 0.0 {
        held_s / (held_s + free_s)
    } else {
        held_share
    };
    Shares {
        active: Estimate {
            value: 1.0 - idle.value,
            low: 1.0 - idle.high,
            high: 1.0 - idle.low,
        },
        idle_held: idle.scaled(held),
        idle: idle.scaled(1.0 - held),
    }
}

impl<'a> View<'a> {
    fn new(trace: &'a Trace, device: usize, window: &Range<Duration>) -> Result<Self> {
        let usual_s = row_interval_s(trace, device);
        let telling = trace.of_device(device).filter(|row| is_telling(row));
        let times: Vec<(f64, f64)> = telling.map(|row| (row.time.as_secs_f64(), 0.0)).collect();
        if times.len() < 2 {
            return Err(unavailable(device, Fault::NotSupported));
        }
        let window_s = (window.start.as_secs_f64(), window.end.as_secs_f64());
        let mut spans: Vec<(f64, f64)> = vec![];
        for (pair, held_s) in times.windows(2).zip(held_s(&times, usual_s)) {
            let (from_s, next_s) = (pair[0].0, pair[1].0);
            let is_pause = held_s < next_s - from_s;
            let to_s = if is_pause { from_s + held_s } else { next_s };
            let (from_s, to_s) = (from_s.max(window_s.0), to_s.min(window_s.1));
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

    fn series(&self, metric: Metric) -> Vec<(f64, f64)> {
        let mut series = self.trace.series(self.device, metric);
        series.retain(|&(time_s, value)| self.is_within(time_s) && value.is_finite());
        series
    }

    fn is_told(&self, metric: Metric) -> bool {
        !self.series(metric).is_empty()
    }

    /// Returns the metric of power that the device reports, the instant one first.
    fn metric(&self) -> Option<Metric> {
        Metric::POWERS
            .into_iter()
            .find(|&metric| self.is_told(metric))
    }

    /// Returns values with the times that they hold, in s.
    fn weighed(&self, metric: Metric) -> Vec<(f64, f64)> {
        let series = self.series(metric);
        let held = held_s(&series, self.usual_s);
        series.iter().map(|point| point.1).zip(held).collect()
    }

    /// Returns the readings of a metric with the times from each read to the next, of the whole trace: readings after
    /// the window describe its end.
    fn readings(&self, metric: Metric) -> Vec<Step> {
        let mut series = self.trace.series(self.device, metric);
        series.retain(|&(_, value)| value.is_finite());
        let held = held_s(&series, self.usual_s);
        let step = |(i, &(from_s, value)): (usize, &(f64, f64))| Step {
            from_s,
            // The next time itself, so that steps have no gaps of rounding between them.
            to_s: match series.get(i + 1) {
                Some(next) if held[i] >= next.0 - from_s => next.0,
                _ => from_s + held[i],
            },
            value,
        };
        series.iter().enumerate().map(step).collect()
    }

    /// Returns steps of power, in W, within the spans, how far their times may be off, in s, and the most power there
    /// can be, in W: the cells that the energy rests on or, without them, what was read.
    fn power(&self) -> (Vec<Step>, f64, f64) {
        let (from_s, to_s) = self.window_s;
        if let Some((method, cells)) = self.trace.drawn(self.device, from_s, to_s) {
            let steps = cells.list.iter().map(|cell| Step {
                from_s: cell.from_s,
                to_s: cell.to_s,
                value: cell.watts,
            });
            let steps: Vec<Step> = steps.collect();
            let counted = (method == Method::Counter).then(|| self.counted(cells.ceiling_w));
            let steps = counted.flatten().unwrap_or(steps);
            let slack_s = 0.5 * COUNTER_UPDATE_S;
            return (clipped(&steps, &self.spans), slack_s, cells.ceiling_w);
        }
        let readings = self.metric().map_or_else(Vec::new, |m| self.readings(m));
        let most_w = readings.iter().map(|step| step.value).fold(0.0, f64::max);
        (clipped(&readings, &self.spans), self.usual_s, most_w)
    }

    /// Scales energies to [`Trace::energy`] of the window where all of it is known: rows that were thinned, or the cells
    /// of another method, come to another sum, and a window has one energy.
    fn scaled_to_energy(&self, mut cut: Cut, total_s: f64) -> Cut {
        let time = |s: f64| Duration::try_from_secs_f64(s).unwrap_or_default();
        let (from_s, to_s) = self.window_s;
        let energy = self.trace.energy(self.device, time(from_s)..time(to_s));
        let sum_j = cut.parts.iter().fold(0.0, |sum, part| sum + part.joules);
        let Some(energy) = energy.filter(|_| sum_j > 0.0 && self.known(total_s) > 0.999) else {
            return cut;
        };
        let factor = energy.joules / sum_j;
        for part in &mut cut.parts {
            part.joules *= factor;
        }
        cut.idle_j = cut.idle_j.scaled(factor);
        cut
    }

    /// Returns steps of power by differences of the energy counter, each at least as long as the slowest update; none if
    /// the counter is absent, fell, or rose by more than the device can draw. Edges lie at reads, so steps are equally long while the counter is; an
    /// update that a read missed leaves 0 W, which the cut by power repairs.
    fn counted(&self, ceiling_w: f64) -> Option<Vec<Step>> {
        let series = self.trace.series(self.device, Metric::Energy);
        let (mut last, mut steps) = (*series.first()?, vec![]);
        for &(to_s, told_j) in &series[1..] {
            if told_j < last.1 {
                return None;
            }
            if to_s - last.0 >= SAME_UPDATE * COUNTER_UPDATE_S {
                let value = (told_j - last.1) / (to_s - last.0);
                // An update more may fall between two reads than their distance holds.
                if value > 2.0 * ceiling_w {
                    return None;
                }
                let from_s = last.0;
                steps.push(Step {
                    from_s,
                    to_s,
                    value,
                });
                last = (to_s, told_j);
            }
        }
        (!steps.is_empty()).then_some(steps)
    }

    /// Returns readings that show levels of power: those of a sensor that does not average over several updates, or
    /// else the steps of power themselves.
    fn levels_shown_by(&self, power: &[Step]) -> Readings {
        let about = &self.trace.devices[self.device];
        let window_s = |metric: Metric| {
            let class = about.sensor_class(metric);
            class.map(|class: SensorClass| class.update_and_window_s().1)
        };
        let is_sharp = |metric: &Metric| {
            let is_average =
                window_s(*metric).map_or(*metric != Metric::PowerInstant, |s| s > AVERAGE_S);
            !is_average && self.is_told(*metric)
        };
        match Metric::POWERS.into_iter().find(is_sharp) {
            Some(metric) => Readings {
                steps: clipped(&self.readings(metric), &self.spans),
                is_short: window_s(metric).is_some_and(|window_s| window_s <= SHORT_WINDOW_S),
            },
            None => Readings {
                steps: power.to_vec(),
                is_short: false,
            },
        }
    }

    /// Returns the share of the window that is known.
    fn known(&self, total_s: f64) -> f64 {
        let all_s = self.window_s.1 - self.window_s.0;
        (total_s / all_s.max(total_s)).min(1.0)
    }

    /// Returns times, in s, from which on memory is held or free.
    fn held_changes(&self) -> Vec<(f64, bool)> {
        let mut changes: Vec<(f64, bool)> = vec![];
        for row in self.trace.of_device(self.device) {
            let total = row.values.get(Metric::MemoryTotal).unwrap_or(0.0);
            let used = row.values.get(Metric::MemoryUsed).unwrap_or(0.0);
            let is_held = used > HELD_BYTES.max(HELD_SHARE * total);
            if changes.last().is_none_or(|last| last.1 != is_held) {
                changes.push((row.time.as_secs_f64(), is_held));
            }
        }
        changes
    }

    /// Returns the share of the known time with memory held.
    fn held_share(&self) -> f64 {
        let changes = self.held_changes();
        let ends_s = changes.iter().skip(1).map(|change| change.0);
        let steps = changes.iter().zip(ends_s.chain([f64::INFINITY]));
        let steps = steps.map(|(&(from_s, is_held), to_s)| Step {
            from_s,
            to_s,
            value: f64::from(u8::from(is_held)),
        });
        let steps = clipped(&steps.collect::<Vec<_>>(), &self.spans);
        let (held_s, all_s) = steps.iter().fold((0.0, 0.0), |(held_s, all_s), step| {
            let length_s = step.to_s - step.from_s;
            (held_s + step.value * length_s, all_s + length_s)
        });
        if all_s > 0.0 { held_s / all_s } else { 0.0 }
    }

    /// Joins parts of the same state, and splits idle parts where memory was allocated or freed.
    fn stretches(&self, cut: &Cut) -> Vec<Stretch> {
        let changes = self.held_changes();
        let mut stretches: Vec<Stretch> = vec![];
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
                let share = (to_s - from_s) / (part.to_s - part.from_s);
                push(
                    &mut stretches,
                    activity,
                    (from_s, to_s),
                    share * part.joules,
                );
                from_s = to_s;
            }
        }
        stretches
    }
}

fn push(stretches: &mut Vec<Stretch>, activity: Activity, ends_s: (f64, f64), joules: f64) {
    let time = |s: f64| Duration::try_from_secs_f64(s).unwrap_or_default();
    let window = time(ends_s.0)..time(ends_s.1);
    match stretches.last_mut() {
        Some(last) if last.activity == activity && last.window.end == window.start => {
            last.window.end = window.end;
            last.joules += joules;
        }
        _ if window.is_empty() => {}
        _ => stretches.push(Stretch {
            activity,
            window,
            joules,
        }),
    }
}

#[cfg(test)]
mod tests;
