//! Clock sweep: measures a job's energy and time at several GPU clocks.
//!
//! Method: even repeats visit the clocks in ascending order, odd repeats in descending order
//! (ABBA), so that a device that warms up biases no clock. The energy of a run is that of a span
//! around the job, read after the sensors have had time to report its end. The clock is reset after
//! each run, also if the job panics or the sweep is cancelled.
//! Limits: the process needs permission to set clocks. A signal that kills the process leaves the
//! clock locked, so a program should catch signals, end the job and make `is_cancelled` return
//! true.

use crate::analysis::ClockRuns;
use crate::nvml::Nvml;
use crate::sampler::Running;
use crate::source::Source;
use crate::span::POST_ROLL;
use crate::{Error, Metric, Result};
use std::time::Duration;

/// The settings of a sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweepPlan {
    /// Clocks, in MHz, in ascending order.
    pub clocks_mhz: Vec<u32>,
    /// Number of runs of the job at each clock. At least two are needed to estimate the noise of a
    /// point, and about five to find significant differences of energy between several clocks; see
    /// [`dvfs_from_runs`](crate::analysis::dvfs_from_runs).
    pub repeats: usize,
    /// Pause between the change of a clock and the start of the job.
    pub settle: Duration,
}

/// Runs a job at the clocks of a plan, and returns the runs at each clock.
///
/// The job receives the clock, in MHz, and returns the number of items that it processed. It must
/// wait until its device has finished. `running` must sample the device with index `device` of
/// `control`; the two are matched by UUID, or by PCI address if the device has no UUID.
///
/// # Errors
/// [`Error::Unavailable`] if the clock cannot be set or the device reports no energy;
/// [`Error::NoDevice`] if there is no such device or it is not sampled; [`Error::Cancelled`] if
/// `is_cancelled` returns true before a run; [`Error::ParameterInvalid`] if the plan has no clocks
/// or no repeats, if its clocks do not ascend or are not supported by the device, or if the job
/// returns no items.
pub fn sweep(
    control: &Nvml,
    device: usize,
    running: &Running,
    plan: &SweepPlan,
    is_cancelled: impl Fn() -> bool,
    mut job: impl FnMut(u32) -> f64,
) -> Result<Vec<ClockRuns>> {
    const OPERATION: &str = "sweep";
    let n_runs = plan.clocks_mhz.len().saturating_mul(plan.repeats);
    check(OPERATION, "clocks times repeats", n_runs as f64, n_runs > 0)?;
    // An index without a device is an error here, before the device is queried.
    let sampled = position(OPERATION, control, device, running)?;
    let offered = control.sm_clocks(device)?;
    for (place, &clock_mhz) in plan.clocks_mhz.iter().enumerate() {
        let rises = place == 0 || plan.clocks_mhz[place - 1] < clock_mhz;
        if !rises || !offered.contains(&clock_mhz) {
            return Err(Error::ParameterInvalid {
                operation: OPERATION,
                parameter: "clock in MHz",
                value: clock_mhz.into(),
                must: "a clock that the device supports, and above the previous clock",
            });
        }
    }
    let mut runs: Vec<Vec<(f64, f64)>> = vec![vec![]; plan.clocks_mhz.len()];
    for repeat in 0..plan.repeats {
        // Forwards, then backwards: a linear drift cancels out over two repeats.
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
            // Unlock before the pause for the sensors, which needs no fixed clock.
            drop(lock);
            check(OPERATION, "items", items, items > 0.0 && items.is_finite())?;
            std::thread::sleep(POST_ROLL);
            let spent = running.report(soon.name, soon.window);
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
    let clocks = plan.clocks_mhz.iter().zip(runs);
    let clocks = clocks.map(|(&clock_mhz, runs)| ClockRuns {
        clock_mhz: clock_mhz.into(),
        runs,
    });
    Ok(clocks.collect())
}

/// Returns the position of the controlled device among the sampled devices.
fn position(
    operation: &'static str,
    control: &Nvml,
    device: usize,
    running: &Running,
) -> Result<usize> {
    let controlled = control.devices().get(device);
    let sampled = running.latest().devices;
    let is_it = |found: &crate::Device| match controlled {
        Some(controlled) if controlled.uuid.is_some() => found.uuid == controlled.uuid,
        Some(controlled) => found.pci.is_some() && found.pci == controlled.pci,
        None => false,
    };
    let found = sampled.iter().position(is_it);
    found.ok_or_else(|| Error::NoDevice {
        operation,
        selection: format!("GPU {device}, whose clock is controlled"),
        n_devices: sampled.len(),
    })
}

/// Returns [`Error::ParameterInvalid`] (must be above 0) unless `is_fine`.
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
