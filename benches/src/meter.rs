//! Energy of a run, from the sensors of this machine.
//!
//! Role: fills `energy_j` of rows if NVIDIA's driver or RAPL reports energy. It changes no clock
//! and no power limit.
//! Method: after the timed rounds, which are not sampled, a contestant runs for two seconds as one
//! region of its own trace. The energy of the region divided by the number of runs is the energy of
//! one run. It includes the idle power of the device, as a wall meter would. A run that takes
//! longer than two seconds is metered once.
//! Limits: a run on an NVIDIA GPU is metered by its driver, summed over all GPUs of the machine and
//! without the CPU. A run on the CPU, including kernels of a software adapter, is metered by RAPL.
//! Other devices are not metered.

use anyhow::Result;
use harness::energy::{EnergyMeter, RunEnergy, Site};
use harness::workload::Implementation;
use std::fmt;
use std::time::{Duration, Instant};
use telemetry::nvml::Nvml;
use telemetry::rapl::Rapl;
use telemetry::{Device, Sampler, Source, measure_by};

/// Minimum duration of the metered runs: twenty updates of the slowest sensors.
const METERED: Duration = Duration::from_secs(2);
/// Interval between two readings of the sensors during the run.
const INTERVAL: Duration = Duration::from_millis(20);

/// A function that opens a sampler for one measurement.
type Open = dyn Fn() -> telemetry::Result<Sampler>;

/// The energy sensors of this machine, if any.
#[derive(Default)]
pub struct Meter {
    /// Sensor of the NVIDIA GPUs.
    gpu: Option<Box<Open>>,
    /// Sensor of the CPUs.
    cpu: Option<Box<Open>>,
}

impl Meter {
    /// Detects the energy sensors of this machine; a missing sensor is not an error.
    #[must_use]
    pub fn open() -> Self {
        let nvml = || Nvml::open().map(Sampler::new);
        let rapl = || Rapl::open().map(Sampler::new);
        let reports_energy =
            |source: &dyn Source| source.devices().iter().any(Device::reports_energy);
        let has_gpu = Nvml::open().is_ok_and(|nvml| reports_energy(&nvml));
        let has_cpu = Rapl::open().is_ok_and(|rapl| reports_energy(&rapl));
        Self {
            gpu: has_gpu.then(|| Box::new(nvml) as Box<Open>),
            cpu: has_cpu.then(|| Box::new(rapl) as Box<Open>),
        }
    }

    /// Returns a meter that calls `open` for each measurement, for CPUs and GPUs alike.
    #[must_use]
    pub fn by(open: fn() -> telemetry::Result<Sampler>) -> Self {
        Self {
            gpu: Some(Box::new(open)),
            cpu: Some(Box::new(open)),
        }
    }
}

impl EnergyMeter for Meter {
    fn measure(
        &self,
        contestant: &mut dyn Implementation,
        site: Site,
    ) -> Result<Option<RunEnergy>> {
        let open = match site {
            Site::Cpu => &self.cpu,
            Site::NvidiaGpu => &self.gpu,
            Site::Unmetered => &None,
        };
        // A meter that was present at the start and has disappeared is not an error of the
        // contestant.
        let Some(sampler) = open.as_ref().and_then(|open| open().ok()) else {
            return Ok(None);
        };
        let work = || -> Result<usize> {
            let (start, mut n_runs) = (Instant::now(), 0);
            // The loop uses the host's clock, because a device's own timer does not cover the work
            // between kernels. Batches grow by a quarter, so that reading the clock costs next to
            // nothing.
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
    use harness::workload::Output;
    use telemetry::synthetic::{PowerProfile, Synthetic};

    /// A contestant that counts its runs, each of which takes at least a tenth of a second. Its
    /// power is defined by the simulated sensor.
    #[derive(Default)]
    struct Worker {
        took: Duration,
        n_runs: usize,
    }

    impl Implementation for Worker {
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
        let meter =
            Meter::by(|| Synthetic::from_power(PowerProfile::constant(50.0)).map(Sampler::new));
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
}
