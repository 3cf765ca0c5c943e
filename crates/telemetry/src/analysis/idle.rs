//! When a device had nothing to do, what that cost, and whether it is a pattern.
//!
//! Role: the first question about a job: is the GPU the bottleneck? The answer is a [`Bottleneck`] with its evidence.
//! Method: a device is active while it is busy for at least a tenth of the driver's averaging time. While it is not,
//! it is idle-held if memory is allocated, since somebody keeps it from others, and idle otherwise. Where utilisation
//! is not told (MIG), power above the middle between low and high stands in for it. Gaps that repeat are looked for in
//! power ([`periodicity`]), since utilisation averages them away.
//! Source: thresholds of under-use: the rules `LowGPUUtilization` (95th percentile below 70 %; 5th below 10 % with a
//! 95th above 70 %: fluctuating) and `CPUBottleneck` (busy below 10 %) of Amazon `SageMaker` Debugger.

use super::periodicity::{Periodicity, levels, periodicity};
use crate::{Error, Fault, Metric, Result, Row, Trace};
use std::fmt;
use std::ops::Range;
use std::time::Duration;

/// What a device does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activity {
    /// It computes.
    Active,
    /// It does not, but memory is allocated.
    IdleHeld,
    /// It does not, and nobody holds it.
    Idle,
}

/// A time in which a device does the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Stretch {
    /// What.
    pub activity: Activity,
    /// When.
    pub window: Range<Duration>,
    /// What it took meanwhile, in J: the readings of power times their times; 0 without any.
    pub joules: f64,
}

/// Shares of time, which sum up to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shares {
    /// Of [`Activity::Active`].
    pub active: f64,
    /// Of [`Activity::IdleHeld`].
    pub idle_held: f64,
    /// Of [`Activity::Idle`].
    pub idle: f64,
}

/// What is wrong, if anything; the first that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Idle for more than half of the time.
    MostlyIdle,
    /// Power falls and rises with a period: the device waits for something in each round.
    PeriodicIdle,
    /// Even the busiest twentieth of the time is below 70 %.
    Underused,
    /// Busy at times and below 10 % at others, without a period.
    Fluctuating,
    /// None of these.
    Busy,
}

/// A verdict with its evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct Bottleneck {
    /// The verdict.
    pub verdict: Verdict,
    /// What the device did, without gaps, in the order of time.
    pub stretches: Vec<Stretch>,
    /// How the time was shared out.
    pub shares: Shares,
    /// The period of its power, if it keeps to one.
    pub periodicity: Option<Periodicity>,
    /// The 5th and the 95th percentile of utilisation, in %, if it is told.
    pub busy_percentiles: Option<(f64, f64)>,
    /// What it took in all, in J; as [`Stretch::joules`], without a calibration.
    pub joules: f64,
    /// What it took while it did nothing: by activity or, if that is more, in the low part of each period.
    pub wasted_j: f64,
}

/// Busy for less than this, in %, is idle.
const IDLE_PERCENT: f64 = 10.0;
/// Busy for less than this at the 95th percentile, in %, is under-used.
const UNDERUSED_PERCENT: f64 = 70.0;
/// Memory in use above this is allocated by somebody: the driver itself keeps up to a few hundred MB.
const HELD_BYTES: f64 = 600e6;
/// And above this share of all memory, for large devices, of which the driver keeps more.
const HELD_SHARE: f64 = 0.02;
/// A share of idle time above this is most of it.
const MOSTLY: f64 = 0.5;
/// Low power of a period must be below this share of high power to be a gap, and not a lighter phase.
const GAP_LEVEL: f64 = 0.7;

/// Says when a device was idle and whether that is a bottleneck.
///
/// # Errors
/// [`Error::NoDevice`] if there is no such device; [`Error::Unavailable`] if it tells neither utilisation nor power, or
/// has fewer than two rows.
pub fn idle_periods(trace: &Trace, device: usize) -> Result<Bottleneck> {
    const OPERATION: &str = "idle_periods";
    if device >= trace.devices.len() {
        return Err(Error::NoDevice {
            operation: OPERATION,
            selection: device.to_string(),
            n_devices: trace.devices.len(),
        });
    }
    let power = [
        Metric::PowerInstant,
        Metric::PowerDraw,
        Metric::PowerAverage,
    ]
    .into_iter()
    .find(|&metric| {
        trace
            .of_device(device)
            .any(|row| row.values.get(metric).is_some())
    });
    let series = power.map_or(vec![], |metric| trace.series(device, metric));
    let watts: Vec<f64> = series.iter().map(|point| point.1).collect();
    let (_, levels_w) = levels(&watts);
    let of_row = |row: &Row| activity(row, power, levels_w);
    let rows: Vec<(Duration, Activity, f64)> = trace
        .of_device(device)
        .filter_map(|row| {
            let watts = power
                .and_then(|metric| row.values.get(metric))
                .unwrap_or(0.0);
            Some((row.time, of_row(row)?, watts))
        })
        .collect();
    if rows.len() < 2 {
        return Err(Error::Unavailable {
            operation: OPERATION,
            metric: Metric::GpuBusy,
            device,
            fault: Fault::NotSupported,
        });
    }
    let stretches = stretches(&rows);
    let periodicity = periodicity(&series);
    let total_s = (rows[rows.len() - 1].0 - rows[0].0).as_secs_f64();
    let share = |activity| {
        let of_it = stretches
            .iter()
            .filter(|stretch| stretch.activity == activity);
        let times = of_it.map(|s| (s.window.end - s.window.start).as_secs_f64());
        // A sum of nothing is -0.
        times.fold(0.0, |sum, time_s| sum + time_s) / total_s
    };
    let shares = Shares {
        active: share(Activity::Active),
        idle_held: share(Activity::IdleHeld),
        idle: share(Activity::Idle),
    };
    let busy_percentiles = percentiles(trace.series(device, Metric::GpuBusy));
    let idle_j = stretches
        .iter()
        .filter(|s| s.activity != Activity::Active)
        .map(|s| s.joules)
        .sum();
    let gaps = periodicity.filter(|found| found.levels_w.0 < GAP_LEVEL * found.levels_w.1);
    let in_gaps_j = gaps.map_or(0.0, |found| (1.0 - found.duty) * found.levels_w.0 * total_s);
    let verdict = match busy_percentiles {
        _ if shares.idle + shares.idle_held > MOSTLY => Verdict::MostlyIdle,
        _ if gaps.is_some() => Verdict::PeriodicIdle,
        Some((_, p95)) if p95 < UNDERUSED_PERCENT => Verdict::Underused,
        Some((p5, _)) if p5 < IDLE_PERCENT => Verdict::Fluctuating,
        _ => Verdict::Busy,
    };
    Ok(Bottleneck {
        verdict,
        shares,
        periodicity,
        busy_percentiles,
        joules: stretches.iter().map(|stretch| stretch.joules).sum(),
        wasted_j: f64::max(idle_j, in_gaps_j),
        stretches,
    })
}

/// Gives what a row says; none if it says nothing of it.
fn activity(row: &Row, power: Option<Metric>, levels_w: (f64, f64)) -> Option<Activity> {
    let by_power = || {
        let watts = row.values.get(power?)?;
        let is_gap = levels_w.0 < GAP_LEVEL * levels_w.1;
        Some(!is_gap || watts > 0.5 * (levels_w.0 + levels_w.1))
    };
    let by_time = row
        .values
        .get(Metric::GpuBusy)
        .map(|busy| busy >= IDLE_PERCENT);
    let total = row.values.get(Metric::MemoryTotal).unwrap_or(0.0);
    let used = row.values.get(Metric::MemoryUsed).unwrap_or(0.0);
    Some(if by_time.or_else(by_power)? {
        Activity::Active
    } else if used > HELD_BYTES.max(HELD_SHARE * total) {
        Activity::IdleHeld
    } else {
        Activity::Idle
    })
}

/// Joins rows that say the same; each holds until the next.
fn stretches(rows: &[(Duration, Activity, f64)]) -> Vec<Stretch> {
    let mut stretches: Vec<Stretch> = vec![];
    for pair in rows.windows(2) {
        let ((from, activity, watts), to) = (pair[0], pair[1].0);
        let joules = watts * (to - from).as_secs_f64();
        match stretches.last_mut() {
            Some(last) if last.activity == activity => {
                last.window.end = to;
                last.joules += joules;
            }
            _ => stretches.push(Stretch {
                activity,
                window: from..to,
                joules,
            }),
        }
    }
    stretches
}

fn percentiles(series: Vec<(f64, f64)>) -> Option<(f64, f64)> {
    let mut values: Vec<f64> = series.into_iter().map(|point| point.1).collect();
    values.sort_by(f64::total_cmp);
    let at = |percent: usize| {
        values
            .get((values.len().checked_sub(1)? * percent + 50) / 100)
            .copied()
    };
    Some((at(5)?, at(95)?))
}

impl fmt::Display for Bottleneck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.verdict {
            Verdict::MostlyIdle => "The device was idle for most of the time.",
            Verdict::PeriodicIdle => "The device waits in every round.",
            Verdict::Underused => "The device is under-used.",
            Verdict::Fluctuating => "The device is busy at times and idle at others.",
            Verdict::Busy => "The device was busy.",
        })?;
        let Shares {
            active,
            idle_held,
            idle,
        } = self.shares;
        write!(
            f,
            " It was active for {:.0} % of the time, idle with memory allocated for {:.0} %, \
             and idle for {:.0} %.",
            100.0 * active,
            100.0 * idle_held,
            100.0 * idle,
        )?;
        if let Some(found) = self.periodicity {
            write!(
                f,
                " Power repeats every {:.2} s, {:.0} times, and is high ({:.0} W) for {:.0} % of \
                 each period and low ({:.0} W) for the rest; noise looks like that in at most \
                 {:.0e} of all traces.",
                found.period_s,
                found.n_periods,
                found.levels_w.1,
                100.0 * found.duty,
                found.levels_w.0,
                found.chance.max(1e-9),
            )?;
        }
        if let Some((p5, p95)) = self.busy_percentiles {
            write!(
                f,
                " Utilisation is {p5:.0} % at the 5th percentile and {p95:.0} % at the 95th."
            )?;
        }
        if self.joules > 0.0 {
            write!(
                f,
                " It took {:.0} J, {:.0} J ({:.0} %) of them while it did nothing.",
                self.joules,
                self.wasted_j,
                100.0 * self.wasted_j / self.joules,
            )?;
        }
        Ok(())
    }
}
