//! Idle times of a device, their energy, and whether they are a pattern.
//!
//! Role: tests whether the GPU is the bottleneck of a job. The result is a [`Bottleneck`].
//! Method: time is cut into busy and idle parts twice (`cut.rs`): by power where it has two levels,
//! and by utilisation, whose lag behind power is measured and corrected (`lag.rs`). Rule for both
//! cuts:
//! - If their ranges of idle time overlap, the cut by power is used, because power is updated more
//!   often than utilisation.
//! - If the ranges do not overlap, or if power has a third level, the cut by utilisation is used,
//!   and the result's range covers both.
//!
//! Idle time is idle-held if memory is allocated, because other programs cannot use the device
//! then. Gaps that repeat are searched for in power ([`periodicity`](super::periodicity())),
//! because utilisation averages them away. The values of a row hold until the next row, but not
//! through a pause of sampling. Shares are shares of time, not of rows, because a trace has
//! additional rows where regions of code begin and end.
//! Hidden time: a range counts the time that no sensor sees once as busy and once as idle. Such
//! time is in the gaps of part-time sensors, between slow reads, and at rows without a reading.
//! Energy: [`Bottleneck::joules`] is [`Trace::energy`] of the window, and the energies of the parts
//! are shares of this energy. A pause of sampling has a share that belongs to no part.
//! Accuracy: ranges include the tolerance of the sensor's gain and offset. On models of boards with
//! each class of sensor, random loads and reads every 10 to 400 ms, the ranges contain the true
//! idle energy and the true idle time (tested). The median error of the idle energy of random
//! loads, with busy and idle times down to 0.06 s and an energy counter, is below 2 % for reads
//! every 10 and 20 ms, 5 % for reads every 100 ms, and 15 % for reads every 400 ms.
//! Source: thresholds of under-use: the rules `LowGPUUtilization` (95th percentile below 70 %; 5th
//! below 10 % with a 95th above 70 %: fluctuating) and `CPUBottleneck` (busy below 10 %) of Amazon
//! `SageMaker` Debugger. The 5th percentile is below 10 % exactly where more than 5 % of the time
//! is idle, so the rule is applied to idle time.

mod verdict;
mod view;

use super::cut::{Cut, Power, by_power, by_utilisation, clipped, joules};
use super::estimate::Estimate;
use super::lag;
use super::periodicity::Periodicity;
use crate::updates::quantile;
use crate::{Energy, Error, Fault, Metric, Result, Row, Trace};
use serde::Serialize;
use std::ops::Range;
use std::time::Duration;
use view::RowWindow;

/// The state of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activity {
    /// The device computes.
    Active,
    /// The device is idle, but memory is allocated.
    IdleHeld,
    /// The device is idle, and its memory is free.
    Idle,
}

/// A period of time in which a device has one [`Activity`].
#[derive(Clone, Debug, PartialEq)]
pub struct Period {
    /// The state of the device.
    pub activity: Activity,
    /// Start and end.
    pub window: Range<Duration>,
    /// Energy of the period, in J, by the method of [`Trace::energy`]; none if the device reports
    /// no power and no energy.
    pub joules: Option<f64>,
}

/// Shares of the time that rows cover, 0 to 1, each with its range. The values add up to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Shares {
    /// Share of [`Activity::Active`].
    pub active: Estimate,
    /// Share of [`Activity::IdleHeld`].
    pub idle_held: Estimate,
    /// Share of [`Activity::Idle`].
    pub idle: Estimate,
}

/// The verdict on a device: whether, and how, it waits for work. If several verdicts apply, the
/// first one is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Neither utilisation nor power can distinguish busy time from idle time, or the range of the
    /// idle time is all of the time.
    Undecided,
    /// More than half of the time is idle.
    MostlyIdle,
    /// More than 5 % of the time is idle, and power has a period: the device waits for input in
    /// each round.
    PeriodicIdle,
    /// The 95th percentile of utilisation is below 70 %.
    Underused,
    /// More than 5 % of the time is idle, without a period.
    Fluctuating,
    /// At most 5 % of the time is idle.
    Busy,
}

/// The quantity by which busy and idle time were distinguished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// Power, because it has two levels that utilisation does not contradict.
    Power,
    /// Utilisation, because power does not have two levels or contradicts utilisation.
    Utilisation,
    /// No quantity, because utilisation is absent and power does not have two levels.
    Neither,
}

/// A verdict with the results that support it.
#[derive(Clone, Debug, PartialEq)]
pub struct Bottleneck {
    /// The verdict.
    pub verdict: Verdict,
    /// States of the device in the order of time, without gaps except for pauses of sampling.
    pub periods: Vec<Period>,
    /// Shares of the states.
    pub shares: Shares,
    /// The quantity from which `periods`, `shares` and `wasted_j` are computed.
    pub evidence: Evidence,
    /// Lag of readings of utilisation behind the device, in s; none if no lag was found. The times
    /// of `periods` are corrected for the lag.
    pub utilisation_lag_s: Option<f64>,
    /// Share of the window that rows cover, 0 to 1.
    pub known: f64,
    /// Whether memory in use is reported; if not, no time counts as [`Activity::IdleHeld`].
    pub is_memory_reported: bool,
    /// Period of power; none if power has no significant period.
    pub periodicity: Option<Periodicity>,
    /// The 5th and the 95th percentile of utilisation, in %, if it is reported.
    pub busy_percentiles: Option<(f64, f64)>,
    /// Energy of the window, in J: [`Trace::energy`] or, if no method covers the window, the sum of
    /// the energies of all periods; none if the device reports no power and no energy.
    pub joules: Option<f64>,
    /// Energy of the idle periods, in J. The range also contains the energy of idle time in pauses
    /// of sampling. None if the device reports no power and no energy.
    pub wasted_j: Option<Estimate>,
}

const OPERATION: &str = "idle_periods";

/// Finds the idle times of a device in a whole trace, and their pattern.
///
/// # Errors
/// [`Error::NoDevice`] if there is no such device; [`Error::Unavailable`] if the device reports
/// neither utilisation nor power, has fewer than two rows, or if all rows have the same time.
pub fn idle_periods(trace: &Trace, device: usize) -> Result<Bottleneck> {
    check_device(trace, device)?;
    let mut rows = trace.device_rows(device).filter(|row| shows_activity(row));
    let (first, last) = rows
        .next()
        .map(|row| row.time)
        .zip(rows.map(|row| row.time).max())
        .ok_or_else(|| unavailable(device, Fault::NotSupported))?;
    // Times without a reading at either end count as unknown.
    let times = || trace.device_rows(device).map(|row| row.time);
    let start = times().min().unwrap_or(first);
    let end = times().max().unwrap_or(last);
    let energy = trace.energy(device, start..end);
    analyse(trace, device, start..end, energy)
}

/// Finds the idle times of a device in a window, for example in the window of a region of code.
///
/// # Errors
/// As [`idle_periods`]; [`Error::ParameterInvalid`] if the window is empty, or if no power sensor
/// was updated within the window.
pub fn idle_periods_within(
    trace: &Trace,
    device: usize,
    window: Range<Duration>,
) -> Result<Bottleneck> {
    check_device(trace, device)?;
    let length_s = window.end.saturating_sub(window.start).as_secs_f64();
    let energy = trace.energy(device, window.clone());
    if window.is_empty() || energy.as_ref().is_some_and(|energy| energy.n_updates == 0) {
        return Err(Error::ParameterInvalid {
            operation: OPERATION,
            parameter: "length of the window in s",
            value: length_s,
            must: "long enough for one update of the power sensor",
        });
    }
    analyse(trace, device, window, energy)
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

/// Returns whether a row has a reading of utilisation or of power.
fn shows_activity(row: &Row) -> bool {
    let mut metrics = [Metric::GpuBusy].into_iter().chain(Metric::POWERS);
    metrics.any(|metric| row.values.get(metric).is_some())
}

/// Analyses one window: cuts its time, assigns its energy to the parts, and judges the result.
fn analyse(
    trace: &Trace,
    device: usize,
    window: Range<Duration>,
    energy: Option<Energy>,
) -> Result<Bottleneck> {
    let view = RowWindow::new(trace, device, &window)?;
    let total_s = view.total_s();
    if total_s <= 0.0 {
        return Err(unavailable(device, Fault::InvalidReading));
    }
    let power = view.power();
    let (lag_s, mut cut, evidence) = cut_of(&view, &power);
    // The steps and `Trace::energy` may come from different methods, whose sums differ. The
    // energies of the parts are scaled so that the result agrees with the energy of the window.
    let all_j = joules(&power.steps, view.window_s.0, view.window_s.1);
    let energy_j = energy.map(|energy| energy.joules);
    if let Some(energy_j) = energy_j.filter(|_| all_j > 0.0) {
        cut.scale_energy(energy_j / all_j);
    }
    // Readings far beyond any device can have an energy that f64 cannot hold.
    let known_j = Some(cut.joules()).filter(|known_j| known_j.is_finite());
    let known_j = known_j.filter(|_| !power.steps.is_empty());
    let joules = energy_j.or(known_j);
    let unknown_j = joules
        .zip(known_j)
        .map(|(all, known)| (all - known).max(0.0));
    let mut periods = view.periods(&cut);
    if known_j.is_none() {
        // The energies of a cut without power are 0.
        for period in &mut periods {
            period.joules = None;
        }
    }
    let busy = view.weighted(Metric::GpuBusy);
    let mut found = Bottleneck {
        verdict: Verdict::Undecided,
        shares: shares(
            &periods,
            cut.idle_s.scaled(1.0 / total_s),
            view.held_share(),
        ),
        periods,
        evidence,
        utilisation_lag_s: lag::is_found(&lag_s).then_some(lag_s.value),
        known: view.known(),
        is_memory_reported: view.is_reported(Metric::MemoryUsed),
        periodicity: view.periodicity(),
        busy_percentiles: quantile(busy.clone(), 0.05).zip(quantile(busy, 0.95)),
        joules,
        wasted_j: unknown_j.map(|unknown_j| view.wasted_j(&cut, unknown_j)),
    };
    found.verdict = found.first_fitting_verdict();
    Ok(found)
}

/// Cuts the time of a window into busy and idle parts by the rule of this module. Returns the lag
/// of utilisation, in s, the cut, and the quantity that the cut is based on.
fn cut_of(view: &RowWindow<'_>, power: &Power) -> (Estimate, Cut, Evidence) {
    let steps = clipped(&power.steps, &view.spans);
    let readings = view.readings(Metric::GpuBusy);
    let lag_s = lag::of_utilisation(&readings, &steps, view.usual_s);
    let of_power = by_power(&steps, power, &view.levels_shown_by(&steps));
    let of_busy =
        (!readings.is_empty()).then(|| by_utilisation(&readings, lag_s, &view.spans, &steps));
    let (cut, evidence) = match (of_power, of_busy) {
        (Some(power), Some(busy))
            if power.has_third_level || !power.idle_s.overlaps(&busy.idle_s) =>
        {
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
        (None, None) => (Cut::unknown(&steps, &view.spans), Evidence::Neither),
    };
    (lag_s, cut, evidence)
}

/// Splits the share of idle time into idle-held and idle time, in proportion to the lengths of the
/// periods. If no period is idle, the range of idle time is split by `held_share`, the share of the
/// time in which memory was allocated.
fn shares(periods: &[Period], idle: Estimate, held_share: f64) -> Shares {
    let length_s = |activity| {
        let of_it = periods.iter().filter(|s| s.activity == activity);
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

#[cfg(test)]
mod tests;
