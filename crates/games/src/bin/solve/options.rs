//! The settings of `solve`.
//!
//! Role: the settings that the command line requests, and the split of the time between proofs and
//! learning.
//! Limits: every proof has a deadline, because some proofs need exponential
//! time.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use commands::Solve;
use games::exact::Prover;
use games::{Error, Result};

/// Default time for learning.
const LEARNING_TIME: Duration = Duration::from_secs(60);
/// Default time for proofs.
const PROOF_TIME: Duration = Duration::from_secs(300);
/// Least time for reading a game and for each preparation of its solution, so that a small game is
/// solved under every time limit.
const LEAST_PREPARATION: Duration = Duration::from_millis(200);
/// Fraction of the time limit that is used for proofs.
const PROOF_SHARE: f64 = 0.5;
/// Fraction of the time for proofs that is used for the enumeration of all equilibria.
const ALL_SHARE: f64 = 0.5;

/// The settings of a run.
pub(super) struct Options {
    pub(super) file: PathBuf,
    pub(super) form: Form,
    pub(super) exact: bool,
    pub(super) learn: bool,
    pub(super) iterations: u64,
    pub(super) tolerance: Option<f64>,
    pub(super) time_limit: Option<Duration>,
    pub(super) begun: Instant,
}

/// The form of the answer.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Form {
    Text,
    Csv,
    Json,
}

impl Options {
    /// Returns the settings that a command line requests; the time limit begins now.
    pub(super) fn new(arguments: Solve) -> Self {
        let form = match (arguments.csv, arguments.json) {
            (true, _) => Form::Csv,
            (_, true) => Form::Json,
            _ => Form::Text,
        };
        Self {
            file: arguments.file,
            form,
            exact: arguments.exact,
            learn: arguments.learn,
            iterations: arguments.iterations,
            tolerance: arguments.tolerance,
            time_limit: arguments.time_limit,
            begun: Instant::now(),
        }
    }

    /// Returns a prover for reading a game and preparing its solution. It stops at the end of the
    /// time limit, but not before [`LEAST_PREPARATION`] from now.
    pub(super) fn preparation(&self) -> Prover<'static> {
        let Some(limit) = self.time_limit else {
            return Prover::new();
        };
        let left = limit.saturating_sub(self.begun.elapsed());
        Prover::new().time_limit(left.max(LEAST_PREPARATION))
    }

    /// Returns a prover that stops at the end of the time for proofs.
    pub(super) fn prover(&self) -> Prover<'static> {
        self.prover_within(self.proof_time())
    }

    /// Returns a prover that stops early enough to prove one equilibrium afterwards.
    pub(super) fn prover_of_all(&self) -> Prover<'static> {
        self.prover_within(self.proof_time().mul_f64(ALL_SHARE))
    }

    fn prover_within(&self, time: Duration) -> Prover<'static> {
        let deadline = self.begun.checked_add(time);
        deadline.map_or_else(Prover::new, |deadline| Prover::new().deadline(deadline))
    }

    /// Returns an error if the time for proofs is over.
    pub(super) fn check_proof_time(&self, operation: &'static str) -> Result<()> {
        if self.begun.elapsed() < self.proof_time() {
            Ok(())
        } else {
            Err(Error::DeadlineReached { operation })
        }
    }

    /// Returns the time for proofs, from the start of the program.
    pub(super) fn proof_time(&self) -> Duration {
        self.time_limit
            .map_or(PROOF_TIME, |time| time.mul_f64(PROOF_SHARE))
    }

    /// Returns the remaining time for learning: at least the share that is not for proofs, even
    /// after a proof that ended late.
    pub(super) fn time_to_learn(&self) -> Duration {
        let Some(time) = self.time_limit else {
            return LEARNING_TIME;
        };
        let left = time.saturating_sub(self.begun.elapsed());
        if self.learn {
            return left;
        }
        left.max(time - self.proof_time())
    }
}
