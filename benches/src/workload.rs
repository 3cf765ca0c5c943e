//! A workload: one piece of work, the rungs that do it, and how a result of it is judged.
//!
//! Role: the one way to describe work to the runner, to criterion and to the report. A workload knows no clock of
//! its own choosing and no table; `run` times it and `record` keeps the numbers.
//! Method: rungs and rivals are [`Contestant`]s alike, so they take turns under the same rules and pass the same
//! check.

use crate::record::Timer;
use crate::rivals::{Rival, Script};
use anyhow::Result;
use tensor_core::compare::Mismatch;

/// Something that does the work of a workload again and again, and shows its result.
pub trait Contestant {
    /// Does the work `times` times and gives the seconds of each, by its own [`Timer`].
    ///
    /// # Errors
    /// Whatever keeps it from finishing.
    fn run(&mut self, times: usize) -> Result<Vec<f64>>;

    /// Does the work `times` times and gives the seconds of each by the host's clock, from the call until the result
    /// is finished where it lies; `None` where that is what [`Contestant::run`] measures anyway.
    ///
    /// # Errors
    /// As [`Contestant::run`].
    fn wall(&mut self, _times: usize) -> Result<Option<Vec<f64>>> {
        Ok(None)
    }

    /// Gives the result of the last run, row-major.
    ///
    /// # Errors
    /// Whatever keeps it from being read.
    fn result(&mut self) -> Result<Vec<f32>>;
}

impl Contestant for Rival {
    fn run(&mut self, times: usize) -> Result<Vec<f64>> {
        Self::run(self, times)
    }

    fn result(&mut self) -> Result<Vec<f32>> {
        Self::result(self)
    }
}

/// The leading rows that a slow rung does instead of the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Rows done.
    pub rows: usize,
    /// Rows there are.
    pub of: usize,
}

impl Part {
    /// Gives the share of the whole work, 1 where there is none.
    #[must_use]
    pub fn share(self) -> f64 {
        if self.of == 0 {
            1.0
        } else {
            self.rows as f64 / self.of as f64
        }
    }

    /// Gives the note that stands beside a partial row; empty for the whole.
    #[must_use]
    pub fn note(self) -> String {
        if self.rows == self.of {
            String::new()
        } else {
            format!("rows 0..{} of {}", self.rows, self.of)
        }
    }
}

/// One way to do the work.
#[allow(
    missing_debug_implementations,
    reason = "a closure has nothing to show"
)]
pub struct Rung<'a> {
    /// `host`, `wgsl`, or the name of the rung.
    pub executor: &'static str,
    /// Name of the adapter; `None` on the CPU.
    pub adapter: Option<String>,
    /// What measures its time.
    pub timer: Timer,
    /// How much of the work it does.
    pub part: Part,
    /// Floating-point operations of that part.
    pub operations: f64,
    /// Bytes of inputs and outputs of that part, each counted once.
    pub bytes: f64,
    /// Makes it ready: memory and inputs, not compilation, which the first run pays.
    #[allow(
        clippy::type_complexity,
        reason = "a constructor in a box; an alias would hide it"
    )]
    pub start: Box<dyn FnOnce() -> Result<Box<dyn Contestant + 'a>> + 'a>,
}

/// A rival that does the same work from the same inputs.
#[derive(Clone, Debug)]
pub struct RivalWork<'a> {
    /// Library, as its package is called.
    pub library: &'static str,
    /// Script that runs it.
    pub script: Script,
    /// Sizes, by the names of the script's arguments.
    pub sizes: Vec<(&'static str, usize)>,
    /// Inputs, likewise.
    pub arrays: Vec<(&'static str, &'a [f32])>,
}

/// One piece of work at one size.
#[allow(
    missing_debug_implementations,
    reason = "a closure has nothing to show"
)]
pub struct Workload<'a> {
    /// Name, as in records: `matmul`.
    pub name: &'static str,
    /// Source it comes from: `S3`.
    pub source: &'static str,
    /// Size in one word.
    pub size: String,
    /// Floating-point operations of the whole.
    pub operations: f64,
    /// Bytes of inputs and outputs, each counted once.
    pub bytes: f64,
    /// All of its rows.
    pub whole: Part,
    /// The rungs, slowest idea first.
    pub rungs: Vec<Rung<'a>>,
    /// The rivals.
    pub rivals: Vec<RivalWork<'a>>,
    /// Compares a result, of which only `part` was done, with the oracle.
    #[allow(
        clippy::type_complexity,
        reason = "a closure in a box; an alias would hide it"
    )]
    pub check: Box<dyn Fn(&[f32], Part) -> Result<(), Mismatch> + 'a>,
}
