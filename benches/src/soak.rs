//! Soak runs: jobs that are repeated for hours, whose results must be right at each step and whose
//! memory must stay flat.
//!
//! Role: [`jobs`] lists the jobs, [`driver`] repeats the steps of one of them, [`memory`] judges
//! its memory, and [`record`] stores the outcomes in `xtask/record/soak.json`. The program `soak`
//! runs each job in a process of its own, because memory is measured per process.
//! Method: a step draws its inputs from a seed, computes and checks the results. Executors and
//! their caches live as long as the job, so that a step uses caches and pools that thousands of
//! earlier steps have filled. A step that fails is recorded with its seed, and the job goes on.
//!
//! # Adding a job
//! Implement [`Worker`], and return a [`Job`] that starts it from a function `jobs` of a module
//! in `soak/`; add these jobs to [`jobs`].

use std::collections::BTreeMap;
use std::fmt;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use self::memory::PoolReading;

mod draws;
pub mod driver;
mod fake;
mod games;
pub mod memory;
mod programs;
pub mod record;
mod sampler;
mod training;

/// A job that can be started.
pub struct Job {
    /// Name, such as `programs/host`.
    pub name: String,
    /// The reason why resident memory grows without a fault of this project, if there is one.
    /// Resident memory is then measured, but the verdict is that of the other kinds of memory.
    pub known_growth: Option<&'static str>,
    start: Box<dyn Fn() -> Result<Box<dyn Worker>>>,
}

impl Job {
    /// Creates a job from its name and the function that starts it.
    #[must_use]
    pub fn new<W: Worker + 'static>(
        name: impl Into<String>,
        start: impl Fn() -> Result<W> + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            known_growth: None,
            start: Box::new(move || Ok(Box::new(start()?))),
        }
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Job");
        shown.field("name", &self.name).finish_non_exhaustive()
    }
}

/// A started job.
pub trait Worker {
    /// Does a step whose inputs depend on the seed alone, checks all results, and adds the number
    /// of results to the counts.
    ///
    /// # Errors
    /// The first wrong result.
    fn step(&mut self, seed: u64, counts: &mut Counts) -> Result<()>;

    /// Reads the memory pool of the job's executor; `None` if the job has no pool.
    fn pool(&self) -> Option<PoolReading> {
        None
    }

    /// Checks the results of all steps together, after the last step.
    ///
    /// # Errors
    /// A result of all steps that is wrong.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Numbers of checked results, by the noun that they count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Counts(BTreeMap<String, u64>);

impl Counts {
    /// Adds a number of results.
    pub fn add(&mut self, noun: &str, n_results: usize) {
        // A `usize` has at most 64 bits.
        let n_results = n_results as u64;
        match self.0.get_mut(noun) {
            Some(count) => *count += n_results,
            None => drop(self.0.insert(noun.to_owned(), n_results)),
        }
    }

    /// Returns the number of results with a noun.
    #[must_use]
    pub fn get(&self, noun: &str) -> u64 {
        self.0.get(noun).copied().unwrap_or(0)
    }

    /// Returns the largest count.
    fn largest(&self) -> u64 {
        self.0.values().copied().max().unwrap_or(0)
    }
}

impl fmt::Display for Counts {
    /// Writes the counts, such as `5000 programs, 12 steps`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (noun, count)) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{count} {noun}")?;
        }
        Ok(())
    }
}

/// Returns all jobs of this machine.
#[must_use]
pub fn jobs() -> Vec<Job> {
    let jobs = [
        programs::jobs(),
        training::jobs(),
        sampler::jobs(),
        games::jobs(),
    ];
    jobs.into_iter().flatten().collect()
}

/// Returns a name as part of the name of a job: lower case, with a hyphen for each run of other
/// characters than letters, digits and dots.
#[must_use]
pub fn slug(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '.';
    let parts = name.split(|c| !is_plain(c)).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("-").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_have_no_blanks_and_no_slashes() {
        let name = "llvmpipe Mesa 22.3.6 (LLVM 15.0.6)";
        assert_eq!(slug(name), "llvmpipe-mesa-22.3.6-llvm-15.0.6");
        assert_eq!(slug("a/b  C"), "a-b-c");
    }

    #[test]
    fn counts_are_written_with_their_nouns() {
        let mut counts = Counts::default();
        assert_eq!(counts.to_string(), "");
        for (noun, count) in [("programs", 3), ("elements", 9), ("programs", 2)] {
            counts.add(noun, count);
        }
        assert_eq!(counts.to_string(), "9 elements, 5 programs");
        assert_eq!((counts.get("programs"), counts.get("rows")), (5, 0));
    }
}
