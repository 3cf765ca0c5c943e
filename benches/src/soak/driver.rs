//! Repetition of the steps of one job until its time is over.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use serde::{Deserialize, Serialize};

use super::memory::{Memory, Reading};
use super::{Counts, Job, Worker};

/// Number of faults after which a job ends: a further fault of the same cause shows nothing new.
const MAX_FAULTS: u64 = 50;
/// Number of faults whose texts are stored.
const N_TEXTS: usize = 10;
/// Longest text of a fault, in characters.
const LONGEST_TEXT: usize = 4000;
/// Number of readings of the memory that are planned for the whole time. More are of no use for
/// medians of quarters, and the pairs of their slopes are still few.
const N_READINGS: u32 = 400;

/// Time and seed of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Time after which no step begins, except for the first step.
    pub time: Duration,
    /// Time before the first reading of the memory.
    pub start: Duration,
    /// Seed of the first step; each further step has the next seed.
    pub seed: u64,
}

/// A step whose result was wrong, or that panicked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StepFault {
    /// Number of the step, from 0.
    pub step: u64,
    /// Seed of the step.
    pub seed: u64,
    /// Description of the wrong result.
    pub text: String,
}

/// The outcome of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Outcome {
    /// Name of the job.
    pub job: String,
    /// Seed of the first step.
    pub seed: u64,
    /// Duration of the run, in seconds.
    pub seconds: f64,
    /// Number of steps.
    pub steps: u64,
    /// Duration of the longest step, in seconds.
    pub longest_step_s: f64,
    /// Numbers of checked results.
    pub counts: Counts,
    /// Number of faults: wrong results, panics, pools beyond their limit.
    pub n_faults: u64,
    /// The first faults.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<StepFault>,
    /// The reason why resident memory may grow: [`Job::known_growth`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known_growth: Option<String>,
    /// Memory of the process; empty if the run was too short for a verdict.
    pub memory: Memory,
}

impl Outcome {
    /// Creates the outcome of a job whose process ended without an outcome.
    #[must_use]
    pub fn failed(job: &str, seed: u64, text: &str) -> Self {
        let mut outcome = Self {
            job: job.to_owned(),
            seed,
            ..Self::default()
        };
        outcome.add_fault(0, seed, text);
        outcome
    }

    /// Returns whether all results were right and the memory did not grow.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.n_faults == 0 && self.is_flat() != Some(false)
    }

    /// Returns whether the memory is flat, except for known growth; `None` without a verdict.
    #[must_use]
    pub fn is_flat(&self) -> Option<bool> {
        self.memory.is_flat(self.known_growth.is_none())
    }

    fn add_fault(&mut self, step: u64, seed: u64, text: &str) {
        self.n_faults += 1;
        if self.faults.len() < N_TEXTS {
            self.faults.push(StepFault {
                step,
                seed,
                text: text.chars().take(LONGEST_TEXT).collect(),
            });
        }
    }
}

/// Runs a job, and calls `progress` with the outcome so far in equal intervals.
///
/// An error or a panic of a step is a fault. After a panic the job is started again, because its
/// state may be incomplete.
pub fn run(job: &Job, plan: Plan, progress: &mut dyn FnMut(&Outcome)) -> Outcome {
    let start = Instant::now();
    let interval = plan.time / N_READINGS;
    let mut outcome = Outcome {
        job: job.name.clone(),
        seed: plan.seed,
        known_growth: job.known_growth.map(str::to_owned),
        ..Outcome::default()
    };
    let mut readings: Vec<Reading> = Vec::new();
    let mut next_reading = Duration::ZERO;
    let mut worker: Option<Box<dyn Worker>> = None;
    loop {
        let (step, seed) = (outcome.steps, plan.seed.wrapping_add(outcome.steps));
        let begun = start.elapsed();
        let done = guarded(|| {
            let mut own = match worker.take() {
                Some(own) => own,
                None => (job.start)()?,
            };
            let done = own.step(seed, &mut outcome.counts);
            worker = Some(own);
            done
        });
        if let Err(error) = done {
            outcome.add_fault(step, seed, &format!("{error:#}"));
        }
        outcome.steps += 1;
        let now = start.elapsed();
        outcome.seconds = now.as_secs_f64();
        outcome.longest_step_s = outcome.longest_step_s.max((now - begun).as_secs_f64());
        if now >= next_reading {
            if now >= plan.start {
                let pool = worker.as_ref().and_then(|worker| worker.pool());
                if let Some(pool) = pool.filter(|pool| !pool.is_within_limit()) {
                    let (reserved, limit) = (pool.reserved, pool.max_reserved);
                    let beyond = format!("the pool holds {reserved} bytes (limit {limit})");
                    outcome.add_fault(step, seed, &beyond);
                }
                readings.push(Reading::now(outcome.seconds, pool.as_ref()));
            }
            next_reading = now + interval;
            progress(&outcome);
        }
        if now >= plan.time || outcome.n_faults >= MAX_FAULTS {
            break;
        }
    }
    if let Some(mut worker) = worker
        && let Err(error) = guarded(|| worker.finish())
    {
        outcome.add_fault(outcome.steps, plan.seed, &format!("all steps: {error:#}"));
    }
    let n_results = outcome.counts.largest().max(outcome.steps);
    outcome.memory = Memory::judge(&readings, n_results);
    outcome
}

/// Calls a function, and returns a panic as an error.
fn guarded(call: impl FnOnce() -> Result<()>) -> Result<()> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(done) => done,
        Err(panic) => Err(anyhow!("panic: {}", message(&*panic))),
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::soak::memory::PoolReading;
    use anyhow::ensure;

    const PLAN: Plan = Plan {
        time: Duration::from_millis(300),
        start: Duration::ZERO,
        seed: 100,
    };

    /// A worker that calls a function at each step.
    struct Calls<F>(F);

    impl<F: FnMut(u64) -> Result<()>> Worker for Calls<F> {
        fn step(&mut self, seed: u64, counts: &mut Counts) -> Result<()> {
            counts.add("calls", 1);
            (self.0)(seed)
        }

        fn finish(&mut self) -> Result<()> {
            (self.0)(u64::MAX)
        }
    }

    fn outcome<F: FnMut(u64) -> Result<()> + Clone + 'static>(time: Duration, step: F) -> Outcome {
        let job = Job::new("test", move || Ok(Calls(step.clone())));
        run(&job, Plan { time, ..PLAN }, &mut |_| ())
    }

    #[test]
    fn a_job_that_leaks_grows() {
        let mut leaked = Vec::new();
        let leaking = outcome(PLAN.time, move |_| {
            leaked.push(vec![1_u8; 1 << 20]);
            std::thread::yield_now();
            Ok(())
        });
        let memory = &leaking.memory;
        assert_eq!(leaking.is_flat(), Some(false), "{memory:?}");
        assert!(!leaking.is_good() && leaking.n_faults == 0);
        let allocated = memory.allocated.as_ref().unwrap();
        assert!(!allocated.flat && allocated.growth_bytes > allocated.bound_bytes);
        if let Some(resident) = &memory.resident {
            assert!(!resident.flat, "{resident:?}");
        }
    }

    #[test]
    fn a_pool_beyond_its_limit_is_a_fault() {
        /// A worker whose pool has a limit of 100 bytes.
        struct Pooled {
            reserved: u64,
        }
        impl Worker for Pooled {
            fn step(&mut self, _: u64, _: &mut Counts) -> Result<()> {
                Ok(())
            }

            fn pool(&self) -> Option<PoolReading> {
                Some(PoolReading {
                    used: 1,
                    reserved: self.reserved,
                    max_reserved: 100,
                    is_allocated: false,
                })
            }
        }
        let once = Plan {
            time: Duration::ZERO,
            ..PLAN
        };
        let faults = |reserved| {
            let job = Job::new("test", move || Ok(Pooled { reserved }));
            let outcome = run(&job, once, &mut |_| ());
            let texts = outcome.faults.into_iter().map(|fault| fault.text);
            texts.collect::<Vec<String>>()
        };
        assert!(faults(100).is_empty());
        assert_eq!(faults(101), ["the pool holds 101 bytes (limit 100)"]);
    }

    #[test]
    fn memory_is_not_judged_before_the_first_reading() {
        let leaking = Job::new("test", || {
            let mut leaked = Vec::new();
            Ok(Calls(move |_| {
                leaked.push(vec![1_u8; 1 << 20]);
                std::thread::yield_now();
                Ok(())
            }))
        });
        let plan = Plan {
            start: Duration::from_secs(60),
            ..PLAN
        };
        assert_eq!(run(&leaking, plan, &mut |_| ()).is_flat(), None);
    }

    #[test]
    fn errors_and_panics_are_faults_with_the_seeds_of_their_steps() {
        // A panic takes some 100 ms if its stack is printed.
        let faulty = outcome(Duration::from_secs(1), |seed| {
            ensure!(seed != 101, "wrong result");
            assert!(seed != 103, "a panic of step {seed}");
            Ok(())
        });
        let fault = |step, text: &str| StepFault {
            step,
            seed: 100 + step,
            text: text.to_owned(),
        };
        let expected = [
            fault(1, "wrong result"),
            fault(3, "panic: a panic of step 103"),
        ];
        assert_eq!(faulty.faults, expected);
        assert!(faulty.n_faults == 2 && !faulty.is_good());
        assert!(faulty.steps > 4 && faulty.counts.get("calls") == faulty.steps);
    }

    #[test]
    fn a_job_ends_after_many_faults_and_a_fault_at_the_end_counts() {
        let failing = outcome(Duration::from_secs(3600), |_| Err(anyhow!("wrong")));
        assert_eq!(failing.steps, MAX_FAULTS);
        assert_eq!(failing.n_faults, MAX_FAULTS + 1);
        assert_eq!(failing.faults.len(), N_TEXTS);
        let at_end = outcome(Duration::ZERO, |seed| {
            ensure!(seed != u64::MAX, "sum of all steps");
            Ok(())
        });
        assert_eq!((at_end.steps, at_end.n_faults), (1, 1));
        assert_eq!(at_end.faults[0].text, "all steps: sum of all steps");
        assert_eq!(at_end.memory, Memory::default());
    }

    #[test]
    fn a_job_that_cannot_start_is_a_fault() {
        let start = || Err::<Calls<fn(u64) -> Result<()>>, _>(anyhow!("no adapter"));
        let outcome = run(&Job::new("test", start), PLAN, &mut |_| ());
        assert_eq!((outcome.steps, outcome.n_faults), (MAX_FAULTS, MAX_FAULTS));
        assert_eq!(outcome.faults[0].text, "no adapter");
    }
}
