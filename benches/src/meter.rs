//! The energy of a run, by what this machine tells.
//!
//! Role: fills `energy_j` of rows, where NVIDIA's driver or RAPL tells energy; nowhere is a clock or a limit touched.
//! Method: after the timed rounds, which nothing samples, a contestant runs for two seconds on end, as a region of a trace
//! of its own; its energy over the number of runs is that of one. What stands idle beside it is part of it: that is what the
//! meter of a machine would count. A run that takes several seconds is metered once.
//! Limits: all GPUs of the driver count, whichever ran; CPUs count only where there is no such GPU, by RAPL.

use crate::workload::Contestant;
use anyhow::Result;
use std::fmt;
use std::time::Duration;
use telemetry::nvml::Nvml;
use telemetry::rapl::Rapl;
use telemetry::{Sampler, measure_by};

/// How long a contestant runs for its energy: twenty updates of the slowest sensors.
const METERED_S: f64 = 2.0;
/// Runs for it at most, of contestants that take no time.
const MAX_RUNS: f64 = 1e6;
const INTERVAL: Duration = Duration::from_millis(20);

/// Gives what samples for one measurement.
type Open = dyn Fn() -> telemetry::Result<Sampler>;

/// What tells energy on this machine, if anything does.
#[derive(Default)]
pub struct Meter {
    open: Option<Box<Open>>,
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
        if Nvml::open().is_ok() {
            Self::by(|| Nvml::open().map(Sampler::new))
        } else if Rapl::open().is_ok() {
            Self::by(|| Rapl::open().map(Sampler::new))
        } else {
            Self::default()
        }
    }

    /// Uses what is opened anew for each measurement.
    #[must_use]
    pub fn by(open: impl Fn() -> telemetry::Result<Sampler> + 'static) -> Self {
        Self {
            open: Some(Box::new(open)),
        }
    }

    /// Runs a contestant, of which one run takes so many seconds, and gives the energy of one; nothing without a meter, or
    /// where it tells none.
    ///
    /// # Errors
    /// Whatever breaks the contestant, or took the meter away.
    pub(crate) fn measure(
        &self,
        contestant: &mut dyn Contestant,
        seconds: f64,
    ) -> Result<Option<RunEnergy>> {
        let Some(open) = &self.open else {
            return Ok(None);
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "clamped to 1..=1e6"
        )]
        let n_runs = (METERED_S / seconds).ceil().clamp(1.0, MAX_RUNS) as usize;
        let sampler = open()?.interval(INTERVAL);
        let (ran, spent) = measure_by(sampler, || contestant.run(n_runs))?;
        ran?;
        let one = |joules: f64| joules / n_runs as f64;
        Ok(spent
            .joules()
            .zip(spent.interval())
            .map(|(joules, interval)| RunEnergy {
                joules: one(joules),
                interval: [one(interval.low_j), one(interval.high_j)],
            }))
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_there = self.open.is_some();
        f.debug_struct("Meter")
            .field("is_there", &is_there)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Output;
    use std::time::Instant;
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
        let found = meter.measure(&mut worker, 0.1).unwrap().unwrap();
        // A busy machine takes longer, never shorter.
        assert!((4.9..20.0).contains(&found.joules), "{found:?}");
        assert!(found.interval[0] <= found.joules && found.joules <= found.interval[1]);
        assert_eq!(Meter::default().measure(&mut worker, 0.1).unwrap(), None);
    }
}
