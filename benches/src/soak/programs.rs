//! Random tensor programs on an executor, compared with the oracle that evaluates without plans.
//!
//! Method: a step compares [`FEW`] programs with [`compare_on`]. One step of [`MANY_ONE_IN`]
//! compares [`MANY`] programs, so many that all families of large programs occur. The shares of
//! elements without an error bound are checked over all steps.

use anyhow::{Context, Result, anyhow};
use gpu_wgsl::{Adapter, Gpu, Select, adapters};
use tensor_core::random_programs::{Tally, compare_on};
use tensor_core::{Executor, Host};

use super::memory::PoolReading;
use super::{Counts, Job, Worker, slug};

/// Number of programs of a usual step.
const FEW: u32 = 20;
/// Number of programs of some steps, to which the rarest family of large programs adds one.
const MANY: u32 = 1000;
/// One step of so many has [`MANY`] programs.
const MANY_ONE_IN: u64 = 50;
/// Known growth on llvmpipe; see the test `kernels_that_a_device_no_longer_keeps_are_freed`.
const LLVMPIPE: &str = "llvmpipe does not free all memory of a kernel";
/// Number of programs from which on the shares of elements without a bound are checked: with fewer
/// programs a share may exceed its limit by chance.
const LEAST_CHECKED: u64 = 2000;

/// Returns the jobs: random programs on the host, and on each adapter.
pub(super) fn jobs() -> Vec<Job> {
    let host = Job::new("programs/host", || {
        let host = Host::new();
        let counters = host.clone();
        let pool = move || PoolReading::from_host(&counters);
        Ok(Programs::new(host, pool))
    });
    let on_adapters = on_each_adapter("programs", Some(LLVMPIPE), |gpu| {
        let (counters, kernels) = (gpu.clone(), gpu.clone());
        let mut programs = Programs::new(gpu, move || PoolReading::from_device(&counters));
        programs.kernels = Some(Box::new(move || kernels.compiled_kernels()));
        Ok(programs)
    });
    std::iter::once(host).chain(on_adapters).collect()
}

/// Returns a job for each adapter of this machine. Its name ends with that of the adapter's
/// driver; `start` receives the open device. `known_growth` is the reason why resident memory may
/// grow on llvmpipe, if it may.
pub(super) fn on_each_adapter<W: Worker + 'static>(
    name: &str,
    known_growth: Option<&'static str>,
    start: impl Fn(Gpu) -> Result<W> + Clone + 'static,
) -> Vec<Job> {
    let mut jobs: Vec<Job> = Vec::new();
    for Adapter { index, driver, .. } in adapters() {
        let mut name = format!("{name}/{}", slug(&driver));
        if jobs.iter().any(|other| other.name == name) {
            name = format!("{name}-{index}");
        }
        let start = start.clone();
        let job = Job::new(name, move || {
            let gpu = Gpu::open(Select::Index(index)).context("cannot open the adapter")?;
            gpu.poison_allocations(true);
            start(gpu)
        });
        jobs.push(Job {
            known_growth: known_growth.filter(|_| driver.contains("llvmpipe")),
            ..job
        });
    }
    jobs
}

/// An executor with its pool.
struct Programs<E, P> {
    executor: E,
    pool: P,
    /// Returns the number of kernels that the executor has compiled, if it compiles kernels.
    kernels: Option<Box<dyn Fn() -> u64>>,
    tally: Tally,
    n_programs: u64,
}

impl<E: Executor, P: Fn() -> PoolReading> Programs<E, P> {
    fn new(executor: E, pool: P) -> Self {
        Self {
            executor,
            pool,
            kernels: None,
            tally: Tally::default(),
            n_programs: 0,
        }
    }
}

impl<E: Executor, P: Fn() -> PoolReading> Worker for Programs<E, P> {
    fn step(&mut self, seed: u64, counts: &mut Counts) -> Result<()> {
        let has_many = seed % MANY_ONE_IN == MANY_ONE_IN - 1;
        let n_programs = if has_many { MANY } else { FEW };
        let compiled = || self.kernels.as_ref().map_or(0, |kernels| kernels());
        let before = compiled();
        let tally =
            compare_on(&self.executor, n_programs, seed).map_err(|report| anyhow!(report))?;
        self.tally = [self.tally, tally].into_iter().sum();
        let n_kernels = usize::try_from(compiled() - before)?;
        if n_kernels > 0 {
            counts.add("compiled kernels", n_kernels);
        }
        self.n_programs += u64::from(n_programs);
        counts.add("programs", n_programs as usize);
        Ok(())
    }

    fn pool(&self) -> Option<PoolReading> {
        Some((self.pool)())
    }

    fn finish(&mut self) -> Result<()> {
        if self.n_programs < LEAST_CHECKED {
            return Ok(());
        }
        let checked = self.tally.check_compared(self.executor.accuracy());
        checked.map_err(|shares| anyhow!("too little was compared: {shares}"))
    }
}
