//! The energy of a run, by what this machine tells.
//!
//! Role: fills `energy_j` of rows, where NVIDIA's driver or RAPL tells energy; nowhere is a clock or a limit touched.
//! Method: after the timed rounds, which nothing samples, a contestant runs for two seconds on end, as a region of a trace
//! of its own; its energy over the number of runs is that of one. What stands idle beside it is part of it: that is what the
//! meter of a machine would count. A run that takes several seconds is metered once.
//! Limits: what runs on a device is metered by NVIDIA's driver, all GPUs together, whichever ran and without the CPU beside
//! them; all else by RAPL.

use crate::workload::Contestant;
use anyhow::Result;
use std::fmt;
use std::time::{Duration, Instant};
use telemetry::nvml::Nvml;
use telemetry::rapl::Rapl;
use telemetry::{Device, Metric, Sampler, Source, measure_by};

/// How long a contestant runs for its energy: twenty updates of the slowest sensors.
const METERED: Duration = Duration::from_secs(2);
const INTERVAL: Duration = Duration::from_millis(20);

/// Gives what samples for one measurement.
type Open = dyn Fn() -> telemetry::Result<Sampler>;

/// What tells energy on this machine, if anything does.
#[derive(Default)]
pub struct Meter {
    /// Of GPUs.
    gpu: Option<Box<Open>>,
    /// Of CPUs.
    cpu: Option<Box<Open>>,
}

/// The energy of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunEnergy {
    /// The estimate, in J.
    pub joules: f64,
    /// Where the truth is, in J.
    pub interval: [f64; 2],
}

impl Meter {
    /// Looks for what tells energy; what is missing is no fault.
    #[must_use]
    pub fn open() -> Self {
        let nvml = || Nvml::open().map(Sampler::new);
        let rapl = || Rapl::open().map(Sampler::new);
        let tells = |device: &Device| device.field(Metric::Energy).is_some();
        let has_gpu = Nvml::open().is_ok();
        let has_cpu = Rapl::open().is_ok_and(|rapl| rapl.devices().iter().any(tells));
        Self {
            gpu: has_gpu.then(|| Box::new(nvml) as Box<Open>),
            cpu: has_cpu.then(|| Box::new(rapl) as Box<Open>),
        }
    }

    /// Uses what is opened anew for each measurement, for CPUs and GPUs alike.
    #[must_use]
    pub fn by(open: fn() -> telemetry::Result<Sampler>) -> Self {
        Self {
            gpu: Some(Box::new(open)),
            cpu: Some(Box::new(open)),
        }
    }

    /// Runs a contestant, and gives the energy of one run; nothing without a meter for where it runs, or where that tells
    /// none.
    ///
    /// # Errors
    /// Whatever breaks the contestant.
    pub(crate) fn measure(
        &self,
        contestant: &mut dyn Contestant,
        is_on_gpu: bool,
    ) -> Result<Option<RunEnergy>> {
        let open = if is_on_gpu { &self.gpu } else { &self.cpu };
        // A meter that was there and is gone is no fault of the contestant.
        let Some(sampler) = open.as_ref().and_then(|open| open().ok()) else {
            return Ok(None);
        };
        let work = || -> Result<usize> {
            let (start, mut n_runs) = (Instant::now(), 0);
            // By the host's clock, since a device's own leaves out what is around its work; in growing batches, so that looking
            // at the clock costs nothing.
            while start.elapsed() < METERED {
                let batch = (n_runs / 4).max(1);
                contestant.run(batch)?;
                n_runs += batch;
            }
            Ok(n_runs)
        };
        let Ok((n_runs, spent)) = measure_by(sampler.interval(INTERVAL), work) else {
            return Ok(None);
        };
        let n_runs = n_runs?;
        let one = |joules: f64| joules / n_runs as f64;
        let found = spent.joules().zip(spent.interval());
        Ok(found.map(|(joules, interval)| RunEnergy {
            joules: one(joules),
            interval: [one(interval.low_j), one(interval.high_j)],
        }))
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Meter");
        shown.field("gpu", &self.gpu.is_some());
        shown.field("cpu", &self.cpu.is_some()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Output;
    use telemetry::synthetic::{Program, Synthetic};

    /// Works for a known time, at what a model says is a known power.
    struct Worker(Duration);

    impl Contestant for Worker {
        fn run(&mut self, times: usize) -> Result<Vec<f64>> {
            let (start, whole) = (Instant::now(), self.0 * u32::try_from(times)?);
            while start.elapsed() < whole {
                std::thread::yield_now();
            }
            Ok(vec![self.0.as_secs_f64(); times])
        }

        fn result(&mut self) -> Result<Output> {
            Ok(Output::F32(vec![]))
        }
    }

    #[test]
    fn energy_of_a_run_is_power_times_its_time() {
        let meter = Meter::by(|| Synthetic::of(Program::constant(50.0)).map(Sampler::new));
        let mut worker = Worker(Duration::from_millis(100));
        let found = meter.measure(&mut worker, true).unwrap().unwrap();
        // A busy machine takes longer, never shorter.
        assert!((4.9..20.0).contains(&found.joules), "{found:?}");
        assert!(found.interval[0] <= found.joules && found.joules <= found.interval[1]);
        assert_eq!(Meter::default().measure(&mut worker, true).unwrap(), None);
    }
}
