//! The command line of `solve`.
//!
//! Role: the requested settings, and the split of the time between proofs and learning.
//! Limits: every proof has a deadline, since some games take longer than a lifetime.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use games::exact::Prover;
use num_traits::ToPrimitive as _;

/// Default maximum number of learning iterations.
const ITERATIONS: u64 = 1_000_000;
/// Largest number of iterations that may be written with an exponent (2^53): not every larger
/// integer is representable as `f64`.
const MAX_ITERATIONS: f64 = 9_007_199_254_740_992.0;
/// Default time for learning.
const LEARNING_TIME: Duration = Duration::from_secs(60);
/// Default time for proofs.
const PROOF_TIME: Duration = Duration::from_secs(300);
/// Longest time limit, in seconds: 31 years.
const MAX_SECONDS: f64 = 1e9;
/// Least time for reading a game and for each preparation of its solution, so that a small game is
/// solved under every time limit.
const LEAST_PREPARATION: Duration = Duration::from_millis(200);
/// Fraction of the time limit that is used for proofs.
const PROOF_SHARE: f64 = 0.5;
/// Fraction of the time for proofs that is used for the enumeration of all equilibria.
const ALL_SHARE: f64 = 0.5;

/// The arguments of `solve`.
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
    /// Returns options with default values.
    fn new() -> Self {
        Self {
            file: PathBuf::new(),
            form: Form::Text,
            exact: false,
            learn: false,
            iterations: ITERATIONS,
            tolerance: None,
            time_limit: None,
            begun: Instant::now(),
        }
    }

    /// Sets the form of the answer, or returns an error if another form is set.
    fn set_form(&mut self, form: Form) -> std::result::Result<(), lexopt::Error> {
        if self.form != Form::Text && self.form != form {
            return Err("--csv and --json exclude each other".into());
        }
        self.form = form;
        Ok(())
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

/// Reads the command line; `None` if help is requested.
pub(super) fn parse(args: Vec<OsString>) -> Result<Option<Options>> {
    use lexopt::prelude::*;
    let mut file = None;
    let mut options = Options::new();
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("csv") => options.set_form(Form::Csv)?,
            Long("json") => options.set_form(Form::Json)?,
            Long("exact") => options.exact = true,
            Long("learn") => options.learn = true,
            Long("iterations") => options.iterations = parser.value()?.parse_with(iterations)?,
            Long("tolerance") => options.tolerance = Some(parser.value()?.parse_with(target)?),
            Long("time-limit") => options.time_limit = Some(parser.value()?.parse_with(seconds)?),
            Long("help") | Short('h') => return Ok(None),
            Value(value) if file.is_none() => file = Some(PathBuf::from(value)),
            other => return Err(other.unexpected().into()),
        }
    }
    if options.learn && options.exact {
        bail!(lexopt::Error::from(
            "--exact prints proved numbers, and --learn excludes proofs"
        ));
    }
    let Some(file) = file else {
        bail!(lexopt::Error::MissingValue {
            option: Some("FILE".into())
        });
    };
    Ok(Some(Options { file, ..options }))
}

/// Parses a number of iterations, written as `1000000` or as `1e6`.
fn iterations(text: &str) -> std::result::Result<u64, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let is_count = |number: &f64| number.fract() == 0.0 && (0.0..=MAX_ITERATIONS).contains(number);
    let number = text.parse().ok().filter(is_count);
    number
        .and_then(|number| number.to_u64())
        .ok_or_else(|| "--iterations must be a whole number, such as 1e6".into())
}

/// Parses the NashConv at which learning ends.
fn target(text: &str) -> std::result::Result<f64, String> {
    let number = text
        .parse()
        .ok()
        .filter(|number: &f64| *number >= 0.0 && number.is_finite());
    number.ok_or_else(|| "--tolerance must be a finite number of at least 0".into())
}

/// Parses a time limit in seconds.
fn seconds(text: &str) -> std::result::Result<Duration, String> {
    let seconds = text.parse().ok();
    let seconds = seconds.filter(|seconds: &f64| (0.0..=MAX_SECONDS).contains(seconds));
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.ok_or_else(|| {
        format!("--time-limit must be a number of seconds, from 0 to {MAX_SECONDS:e}")
    })
}
