//! The energy of a run, by what this machine tells.
//!
//! Role: fills `energy_j` of rows, where NVIDIA's driver or RAPL tells energy; nowhere is a clock or a limit touched.
//! Method: after the timed rounds, which nothing samples, a contestant runs for two seconds on end, as a region of a trace
//! of its own; its energy over the number of runs is that of one. What stands idle beside it is part of it: that is what the
//! meter of a machine would count. A run that takes several seconds is metered once.
//! Limits: what runs on a GPU of NVIDIA's is metered by its driver, all GPUs together, whichever ran and without the CPU beside
//! them; what runs on the CPU, a software adapter's kernels among it, by RAPL; other devices by nothing.

use crate::workload::Contestant;
use anyhow::Result;
use gpu_wgsl::{Adapter, DeviceType};
use std::fmt;
use std::time::{Duration, Instant};
use telemetry::nvml::Nvml;
use telemetry::rapl::Rapl;
use telemetry::{Device, Sampler, Source, measure_by};

/// How long a contestant runs for its energy: twenty updates of the slowest sensors.
const METERED: Duration = Duration::from_secs(2);
const INTERVAL: Duration = Duration::from_millis(20);

/// Whose power a run draws, as far as anything tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// The CPU's.
    Cpu,
    /// That of a GPU of NVIDIA's.
    NvidiaGpu,
    /// That of a device that nothing here meters.
    Unmetered,
}

/// PCI's number of NVIDIA.
const NVIDIA: u32 = 0x10DE;

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
    /// Where the truth is, in J, by the errors that are known: of RAPL those of sampling alone.
    pub interval: [f64; 2],
}

impl Site {
    /// Gives that of a rung, which runs on an adapter or, without one, on the CPU.
    #[must_use]
    pub fn of_adapter(adapter: Option<&Adapter>) -> Self {
        match adapter {
            None => Self::Cpu,
            Some(adapter) if adapter.device_type == DeviceType::Cpu => Self::Cpu,
            Some(adapter) if adapter.vendor == NVIDIA => Self::NvidiaGpu,
            Some(_) => Self::Unmetered,
        }
    }
}

impl Meter {
    /// Looks for what tells energy; what is missing is no fault.
    #[must_use]
    pub fn open() -> Self {
        let nvml = || Nvml::open().map(Sampler::new);
        let rapl = || Rapl::open().map(Sampler::new);
        let tells = |source: &dyn Source| source.devices().iter().any(Device::tells_energy);
        let has_gpu = Nvml::open().is_ok_and(|nvml| tells(&nvml));
        let has_cpu = Rapl::open().is_ok_and(|rapl| tells(&rapl));
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
        site: Site,
    ) -> Result<Option<RunEnergy>> {
        let open = match site {
            Site::Cpu => &self.cpu,
            Site::NvidiaGpu => &self.gpu,
            Site::Unmetered => &None,
        };
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

    /// Works for a tenth of a second or longer, and keeps count of it; a model says at what power.
    #[derive(Default)]
    struct Worker {
        took: Duration,
        n_runs: usize,
    }

    impl Contestant for Worker {
        fn run(&mut self, times: usize) -> Result<Vec<f64>> {
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(100) * u32::try_from(times)? {
                std::thread::yield_now();
            }
            self.took += start.elapsed();
            self.n_runs += times;
            Ok(vec![0.1; times])
        }

        fn result(&mut self) -> Result<Output> {
            Ok(Output::F32(vec![]))
        }
    }

    #[test]
    fn energy_of_a_run_is_power_times_its_time() {
        let meter = Meter::by(|| Synthetic::of(Program::constant(50.0)).map(Sampler::new));
        let mut worker = Worker::default();
        let found = meter.measure(&mut worker, Site::Cpu).unwrap().unwrap();
        let truth = 50.0 * worker.took.as_secs_f64() / worker.n_runs as f64;
        assert!(
            (found.joules / truth - 1.0).abs() < 0.05,
            "{found:?} {truth}"
        );
        assert!(found.interval[0] <= truth && truth <= found.interval[1]);
        for (meter, site) in [(Meter::default(), Site::Cpu), (meter, Site::Unmetered)] {
            assert_eq!(meter.measure(&mut worker, site).unwrap(), None);
        }
    }

    #[test]
    fn kernels_of_a_software_adapter_are_the_cpus() {
        assert_eq!(Site::of_adapter(None), Site::Cpu);
        for adapter in gpu_wgsl::adapters() {
            let site = Site::of_adapter(Some(&adapter));
            let is_software = adapter.device_type == DeviceType::Cpu;
            assert_eq!(site == Site::Cpu, is_software, "{adapter:?}");
        }
    }
}
