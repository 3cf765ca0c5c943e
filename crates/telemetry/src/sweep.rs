//! Runs a job at several clocks, for the energy curve of it.
//!
//! Method: each clock is gone to twice as often as half of the repeats ask, in order and back (ABBA), so a device that warms
//! up biases no clock; the job's energy is that of a span between two readings, asked for when sensors had time to tell of
//! its end. The clock is reset after each run, and so also if the job panics or the sweep is cancelled.
//! Limits: the caller's process must be allowed to set clocks. Signals that end a process at once leave the clock locked: who
//! catches them ends the job, and lets `is_cancelled` say so.

use crate::analysis::Point;
use crate::nvml::Nvml;
use crate::sampler::Running;
use crate::source::Source;
use crate::span::LINGER;
use crate::{Error, Metric, Result};
use std::time::Duration;

/// What a sweep does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The clocks, in MHz and rising.
    pub clocks_mhz: Vec<u32>,
    /// How often the job runs at each; two or more tell the scatter.
    pub repeats: usize,
    /// How long the device is left alone between the change of a clock and the job.
    pub settle: Duration,
}

/// Runs a job at the clocks of a plan, and gives the points of its energy curve.
///
/// The job gets the clock, and gives the number of items that it worked off; it must wait for its device. `running` samples
/// that device among others; the two are known to be one by UUID.
///
/// # Errors
/// [`Error::Unavailable`] if the clock can't be set or the device tells no energy; [`Error::NoDevice`] if it is not sampled;
/// [`Error::Cancelled`] as soon as `is_cancelled`; [`Error::ParameterInvalid`] for a plan without clocks or repeats, with
/// clocks that do not rise or that the device does not have, or a job of no items.
pub fn sweep(
    control: &Nvml,
    device: usize,
    running: &Running,
    plan: &Plan,
    is_cancelled: impl Fn() -> bool,
    mut job: impl FnMut(u32) -> f64,
) -> Result<Vec<Point>> {
    const OPERATION: &str = "sweep";
    let n_runs = plan.clocks_mhz.len().saturating_mul(plan.repeats);
    check(OPERATION, "clocks times repeats", n_runs as f64, n_runs > 0)?;
    let offered = control.sm_clocks(device)?;
    for (place, &clock_mhz) in plan.clocks_mhz.iter().enumerate() {
        let rises = place == 0 || plan.clocks_mhz[place - 1] < clock_mhz;
        if !rises || !offered.contains(&clock_mhz) {
            return Err(Error::ParameterInvalid {
                operation: OPERATION,
                parameter: "clock in MHz",
                value: clock_mhz.into(),
                must: "one that the device offers, and above the one before",
            });
        }
    }
    let sampled = position(OPERATION, control, device, running)?;
    let mut runs: Vec<Vec<(f64, f64)>> = vec![vec![]; plan.clocks_mhz.len()];
    for repeat in 0..plan.repeats {
        let there = 0..plan.clocks_mhz.len();
        let order: Vec<usize> = if repeat % 2 == 0 {
            there.collect()
        } else {
            there.rev().collect()
        };
        for at in order {
            if is_cancelled() {
                return Err(Error::Cancelled {
                    operation: OPERATION,
                });
            }
            let clock_mhz = plan.clocks_mhz[at];
            let lock = control.lock_sm_clock(device, clock_mhz)?;
            std::thread::sleep(plan.settle);
            let span = running.span(format!("{clock_mhz} MHz"));
            let items = job(clock_mhz);
            let soon = span.end();
            drop(lock);
            check(OPERATION, "items", items, items > 0.0 && items.is_finite())?;
            std::thread::sleep(LINGER);
            let spent = running.spent(soon.name, soon.window);
            let energy = spent.devices[sampled].1.as_ref();
            let joules = energy
                .map(|energy| energy.joules)
                .ok_or(Error::Unavailable {
                    operation: OPERATION,
                    metric: Metric::Energy,
                    device,
                    fault: crate::Fault::NotSupported,
                })?;
            runs[at].push((joules / items, spent.duration().as_secs_f64() / items));
        }
    }
    let points = plan.clocks_mhz.iter().zip(runs);
    Ok(points
        .map(|(&clock_mhz, runs)| point(clock_mhz, &runs))
        .collect())
}

/// Gives the place of the controlled device among those that are sampled.
fn position(
    operation: &'static str,
    control: &Nvml,
    device: usize,
    running: &Running,
) -> Result<usize> {
    let controlled = control.devices().get(device);
    let sampled = running.newest().devices;
    let is_it = |found: &crate::Device| match controlled {
        Some(controlled) if controlled.uuid.is_some() => found.uuid == controlled.uuid,
        Some(controlled) => found.pci.is_some() && found.pci == controlled.pci,
        None => false,
    };
    let found = sampled.iter().position(is_it);
    found.ok_or_else(|| Error::NoDevice {
        operation,
        selection: format!("GPU {device}, whose clock is to be set"),
        n_devices: sampled.len(),
    })
}

fn check(
    operation: &'static str,
    parameter: &'static str,
    value: f64,
    is_fine: bool,
) -> Result<()> {
    if is_fine {
        return Ok(());
    }
    Err(Error::ParameterInvalid {
        operation,
        parameter,
        value,
        must: "above 0",
    })
}

/// Gives the mean of a clock's runs, each of energy and time per item, and the scatter of the mean.
fn point(clock_mhz: u32, runs: &[(f64, f64)]) -> Point {
    let n = runs.len() as f64;
    let joules = runs.iter().map(|run| run.0).sum::<f64>() / n;
    let seconds = runs.iter().map(|run| run.1).sum::<f64>() / n;
    let squares: f64 = runs.iter().map(|run| (run.0 - joules).powi(2)).sum();
    let noise = if runs.len() > 1 {
        (squares / (n - 1.0) / n).sqrt() / joules
    } else {
        0.0
    };
    Point {
        clock_mhz: clock_mhz.into(),
        watts: joules / seconds,
        rate: 1.0 / seconds,
        noise,
    }
}
