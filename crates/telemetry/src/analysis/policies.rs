//! Comparison of one job under two policies, for example two power limits or two locked clocks.
//!
//! Role: reports which policy does more work per second and per joule, and the reasons that limited
//! the clocks. The caller supplies the amount of work, because energy alone is not comparable.

use crate::reasons::{self, Reason};
use crate::updates::{held_s, quantile, row_interval_s};
use crate::{Energy, Error, Fault, Metric, Result, Trace};
use std::fmt;
use std::ops::Range;
use std::time::Duration;

/// A traced job on one device.
#[derive(Clone, Debug)]
pub struct Job<'a> {
    /// The trace.
    pub trace: &'a Trace,
    /// Index of the device in the trace.
    pub device: usize,
    /// Time in which the job ran; none for the time from the first to the last row of the device.
    pub window: Option<Range<Duration>>,
    /// Amount of work, in any unit that the compared jobs share; finite and above 0.
    pub items: f64,
}

/// Measurements of a job under one policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Duration of the job, in s.
    pub seconds: f64,
    /// Items per second.
    pub throughput: f64,
    /// Energy of the job, in J, with its range.
    pub energy: Energy,
    /// Energy per item, in J.
    pub joules_per_item: f64,
    /// Mean power, in W.
    pub mean_w: f64,
    /// The power limit, in W: the median over the window, or the limit at the start of the trace.
    pub power_limit_w: Option<f64>,
    /// Mean clock of the multiprocessors, in MHz.
    pub sm_clock_mhz: Option<f64>,
    /// Mean clock of the memory, in MHz.
    pub memory_clock_mhz: Option<f64>,
    /// The highest temperature, in °C.
    pub hottest_c: Option<f64>,
    /// Reasons for low clocks in the order of falling share of time; reasons that never applied are
    /// left out.
    pub reasons: Vec<ReasonShare>,
}

/// A reason that limited the clocks, with its share of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReasonShare {
    /// The reason.
    pub reason: Reason,
    /// Share of the time in which the reason applied, 0 to 1.
    pub share: f64,
}

/// Measurements of a job under two policies, with their ratios.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Measurements under the first policy.
    pub before: Policy,
    /// Measurements under the second policy.
    pub after: Policy,
    /// Throughput under the second policy divided by the throughput under the first.
    pub speedup: f64,
    /// Energy per item under the second policy divided by the energy per item under the first.
    pub energy_ratio: f64,
    /// Bounds on the energy ratio from sampling error alone.
    ///
    /// The tolerance of the sensor is not included. If both traces are of the same card, its gain
    /// cancels. Its offset cancels only if both jobs have the same mean power.
    pub energy_ratio_range: (f64, f64),
}

const OPERATION: &str = "compare_policies";

/// Compares two traces of the same job.
///
/// # Errors
/// [`Error::ParameterInvalid`] for items that are not finite and above 0; [`Error::NoDevice`] if
/// the trace has no such device; [`Error::Unavailable`] if the window has no energy.
pub fn compare_policies(before: &Job<'_>, after: &Job<'_>) -> Result<Comparison> {
    let (before_items, after_items) = (before.items, after.items);
    let (before, after) = (policy(before)?, policy(after)?);
    // The ratio is least for the least energy after and the most energy before.
    let per_item = |policy: &Policy, items: f64| {
        let sampling = policy.energy.sampling;
        (sampling.low_j / items, sampling.high_j / items)
    };
    let (a, b) = (
        per_item(&before, before_items),
        per_item(&after, after_items),
    );
    Ok(Comparison {
        speedup: after.throughput / before.throughput,
        energy_ratio: after.joules_per_item / before.joules_per_item,
        energy_ratio_range: (b.0 / a.1, b.1 / a.0),
        before,
        after,
    })
}

/// Measures one job.
fn policy(job: &Job<'_>) -> Result<Policy> {
    if !(job.items > 0.0 && job.items.is_finite()) {
        return Err(Error::ParameterInvalid {
            operation: OPERATION,
            parameter: "items",
            value: job.items,
            must: "finite and above 0",
        });
    }
    let Some(device) = job.trace.devices.get(job.device) else {
        return Err(Error::NoDevice {
            operation: OPERATION,
            selection: job.device.to_string(),
            n_devices: job.trace.devices.len(),
        });
    };
    let unavailable = || Error::Unavailable {
        operation: OPERATION,
        metric: Metric::Energy,
        device: job.device,
        fault: Fault::NotSupported,
    };
    let window = match &job.window {
        Some(window) => window.clone(),
        // All of the trace: from the first row of the device to the last.
        None => {
            let mut rows = job.trace.device_rows(job.device);
            let first = rows.next().ok_or_else(unavailable)?;
            first.time..rows.last().unwrap_or(first).time
        }
    };
    let energy = job
        .trace
        .energy(job.device, window.clone())
        .ok_or_else(unavailable)?;
    let usual_s = row_interval_s(job.trace, job.device);
    let (start_s, end_s) = (window.start.as_secs_f64(), window.end.as_secs_f64());
    // Values are weighted by the time for which they held, because a trace has additional rows
    // where regions of code begin and end.
    let values = |metric| {
        let mut series = job.trace.series(job.device, metric);
        series.retain(|&(time_s, _)| (start_s..end_s).contains(&time_s));
        let held = held_s(&series, usual_s).into_iter();
        let values = series.iter().map(|point| point.1).zip(held);
        values.collect::<Vec<(f64, f64)>>()
    };
    let seconds = (window.end - window.start).as_secs_f64();
    let limit_w = quantile(values(Metric::PowerLimit), 0.5);
    let temperatures = values(Metric::Temperature).into_iter();
    let hottest = temperatures.map(|(value, _)| value).max_by(f64::total_cmp);
    Ok(Policy {
        seconds,
        throughput: job.items / seconds,
        joules_per_item: energy.joules / job.items,
        mean_w: energy.mean_w(),
        energy,
        // Without readings of the limit, the limit at the start of the trace is used.
        power_limit_w: limit_w.or(device.limits.set_w),
        sm_clock_mhz: mean(values(Metric::SmClock).into_iter()),
        memory_clock_mhz: mean(values(Metric::MemoryClock).into_iter()),
        hottest_c: hottest,
        reasons: shares(&values(Metric::ClockReasons)),
    })
}

/// Returns the weighted mean of (value, weight) pairs; none if the weights add up to 0.
fn mean(weighted: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    let (sum, weights) = weighted.fold((0.0, 0.0), |(sum, weights), (value, weight)| {
        (sum + weight * value, weights + weight)
    });
    (weights > 0.0).then(|| sum / weights)
}

/// Returns the share of time of each reason, the largest share first, from pairs of (bit mask of
/// reasons, time in s).
fn shares(values: &[(f64, f64)]) -> Vec<ReasonShare> {
    // The mean of 1 where the reason applies and 0 elsewhere, weighted by time, is a share of time.
    let holds = |reason: Reason| {
        let is_held = |value| f64::from(u8::from(reasons::decode(value).any(|r| r == reason)));
        let share = mean(
            values
                .iter()
                .map(|&(value, held_s)| (is_held(value), held_s)),
        )?;
        (share > 0.0).then_some(ReasonShare { reason, share })
    };
    let mut shares: Vec<ReasonShare> = reasons::ALL.into_iter().filter_map(holds).collect();
    shares.sort_by(|a, b| b.share.total_cmp(&a.share));
    shares
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |ratio: f64| 100.0 * (ratio - 1.0);
        let (low, high) = self.energy_ratio_range;
        write!(
            f,
            "throughput {:+.1} %, energy per item {:+.1} % [{:+.1}, {:+.1}]",
            percent(self.speedup),
            percent(self.energy_ratio),
            percent(low),
            percent(high),
        )?;
        for (name, policy) in [("before", &self.before), ("after", &self.after)] {
            write!(
                f,
                "; {name}: {:.1} s, {:.1} W",
                policy.seconds, policy.mean_w
            )?;
            if let Some(limit_w) = policy.power_limit_w {
                write!(f, " of {limit_w:.0} W")?;
            }
            if let Some(clock_mhz) = policy.sm_clock_mhz {
                write!(f, ", {clock_mhz:.0} MHz")?;
            }
            for ReasonShare { reason, share } in &policy.reasons {
                write!(f, ", {} {:.0} %", reason.name, 100.0 * share)?;
            }
        }
        Ok(())
    }
}
