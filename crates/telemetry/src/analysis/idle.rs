//! When a device had nothing to do, what that cost, and whether it is a pattern.
//!
//! Role: the first question about a job: is the GPU the bottleneck? The answer is a [`Bottleneck`] with its evidence.
//! Method: a device is active while it is busy for at least a tenth of the driver's averaging time. While it is not,
//! it is idle-held if memory is allocated, since somebody keeps it from others, and idle otherwise. Where utilisation
//! is not told (MIG), power above the middle between low and high stands in for it. Gaps that repeat are looked for
//! in power ([`periodicity`]), since utilisation averages them away. A row holds until the next, but not through a
//! pause of sampling, of which nothing is said. Joules are those of the best method there is, as [`Trace::energy`]
//! says them of the whole trace; where sampling paused they are fewer, since that counts the pause in. Whatever is
//! counted is time and not rows, of which there are more where regions of code begin and end.
//! Source: thresholds of under-use: the rules `LowGPUUtilization` (95th percentile below 70 %; 5th below 10 % with a
//! 95th above 70 %: fluctuating) and `CPUBottleneck` (busy below 10 %) of Amazon `SageMaker` Debugger.

use super::periodicity::{Periodicity, levels, periodicity_of};
use crate::energy::digits;
use crate::updates::{held_s, quantile, row_interval_s};
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
    /// What it took meanwhile, in J, by the method of [`Trace::energy`]; 0 where that has none.
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
    /// What the device did, in the order of time; without gaps, but for pauses of sampling.
    pub stretches: Vec<Stretch>,
    /// How that time was shared out.
    pub shares: Shares,
    /// The share of the time of the device's rows of which anything is known, 0 to 1.
    pub known: f64,
    /// Whether memory in use is told; if it is not, nothing counts as [`Activity::IdleHeld`].
    pub is_memory_told: bool,
    /// The period of its power, if it keeps to one.
    pub periodicity: Option<Periodicity>,
    /// The 5th and the 95th percentile of utilisation, in %, if it is told.
    pub busy_percentiles: Option<(f64, f64)>,
    /// What it took in all stretches, in J.
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
/// A share of the time of which something is known above this is all of it, but for the ends of pauses.
const ALL_KNOWN: f64 = 0.995;
/// Low power of a period must be below this share of high power to be a gap, and not a lighter phase.
const GAP_LEVEL: f64 = 0.7;

/// Says when a device was idle and whether that is a bottleneck.
///
/// # Errors
/// [`Error::NoDevice`] if there is no such device; [`Error::Unavailable`] if it tells neither utilisation nor power, or
/// has fewer than two rows, or all of them at the same time.
pub fn idle_periods(trace: &Trace, device: usize) -> Result<Bottleneck> {
    const OPERATION: &str = "idle_periods";
    if device >= trace.devices.len() {
        return Err(Error::NoDevice {
            operation: OPERATION,
            selection: device.to_string(),
            n_devices: trace.devices.len(),
        });
    }
    let is_told = |metric| {
        let mut rows = trace.of_device(device);
        rows.any(|row| row.values.get(metric).is_some())
    };
    let power = Metric::POWERS.into_iter().find(|&metric| is_told(metric));
    let usual_s = row_interval_s(trace, device);
    let weighed = |metric| {
        let series = trace.series(device, metric);
        let held = held_s(&series, usual_s).into_iter();
        let values = series.iter().map(|point| point.1).zip(held).collect();
        (series, values)
    };
    let (series, watts): (_, Vec<_>) = power.map_or_else(Default::default, weighed);
    let (_, levels_w) = levels(&watts);
    let of_row = |row: &Row| activity(row, power, levels_w);
    let rows: Vec<(Duration, Activity)> = trace
        .of_device(device)
        .filter_map(|row| Some((row.time, of_row(row)?)))
        .collect();
    let unavailable = |fault| Error::Unavailable {
        operation: OPERATION,
        metric: Metric::GpuBusy,
        device,
        fault,
    };
    let [first, .., last] = &rows[..] else {
        return Err(unavailable(Fault::NotSupported));
    };
    let mut stretches = stretches(&rows, usual_s);
    if let Some(drawn) = trace.drawn(device, first.0.as_secs_f64(), last.0.as_secs_f64()) {
        for stretch in &mut stretches {
            let Range { start, end } = stretch.window;
            stretch.joules = drawn.joules(start.as_secs_f64(), end.as_secs_f64());
        }
    }
    let length_s = |stretch: &Stretch| (stretch.window.end - stretch.window.start).as_secs_f64();
    let total_s: f64 = stretches.iter().map(length_s).sum();
    if total_s <= 0.0 {
        return Err(unavailable(Fault::Senseless));
    }
    let times = || trace.of_device(device).map(|row| row.time);
    let all_s = times().max().zip(times().min());
    let all_s = all_s.map_or(total_s, |(last, first)| (last - first).as_secs_f64());
    let periodicity = periodicity_of(&series, usual_s);
    // A sum of nothing is -0.
    let sum =
        |numbers: &mut dyn Iterator<Item = f64>| numbers.fold(0.0, |sum, number| sum + number);
    let share = |activity| {
        let of_it = stretches
            .iter()
            .filter(|stretch| stretch.activity == activity);
        sum(&mut of_it.map(length_s)) / total_s
    };
    let shares = Shares {
        active: share(Activity::Active),
        idle_held: share(Activity::IdleHeld),
        idle: share(Activity::Idle),
    };
    let (_, busy) = weighed(Metric::GpuBusy);
    let busy_percentiles = quantile(busy.clone(), 0.05).zip(quantile(busy, 0.95));
    let idle = stretches
        .iter()
        .filter(|stretch| stretch.activity != Activity::Active);
    let idle_j = sum(&mut idle.map(|stretch| stretch.joules));
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
        known: (total_s / all_s.max(total_s)).min(1.0),
        is_memory_told: is_told(Metric::MemoryUsed),
        periodicity,
        busy_percentiles,
        joules: sum(&mut stretches.iter().map(|stretch| stretch.joules)),
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

/// Joins rows that say the same; each holds until the next, or for the usual interval if that is a pause away.
fn stretches(rows: &[(Duration, Activity)], usual_s: f64) -> Vec<Stretch> {
    let times: Vec<(f64, f64)> = rows.iter().map(|row| (row.0.as_secs_f64(), 0.0)).collect();
    let mut stretches: Vec<Stretch> = vec![];
    for (pair, held_s) in rows.windows(2).zip(held_s(&times, usual_s)) {
        let ((from, activity), next) = (pair[0], pair[1].0.max(pair[0].0));
        // Seconds of an f64 would leave gaps of nanoseconds between rows that follow each other.
        let is_pause = held_s < (next - from).as_secs_f64();
        let usual = Duration::try_from_secs_f64(held_s).unwrap_or(next - from);
        let to = if is_pause { from + usual } else { next };
        match stretches.last_mut() {
            Some(last) if last.activity == activity && last.window.end == from => {
                last.window.end = to;
            }
            _ if to == from => {}
            _ => stretches.push(Stretch {
                activity,
                window: from..to,
                joules: 0.0,
            }),
        }
    }
    stretches
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
        let [active, idle_held, idle] = [active, idle_held, idle].map(|share| 100.0 * share);
        write!(f, " It was active for {active:.0} % of the time")?;
        if self.is_memory_told {
            write!(
                f,
                ", idle with memory allocated for {idle_held:.0} %, and idle for {idle:.0} %."
            )?;
        } else {
            write!(f, " and idle for {idle:.0} %; memory in use is not told.")?;
        }
        if self.known < ALL_KNOWN {
            let unknown = 100.0 * (1.0 - self.known);
            write!(
                f,
                " Nothing is known of {unknown:.0} % of all, which are left out here."
            )?;
        }
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
                " It took {} J, {} J ({:.0} %) of them while it did nothing.",
                digits(self.joules),
                digits(self.wasted_j),
                100.0 * self.wasted_j / self.joules,
            )?;
        }
        Ok(())
    }
}
