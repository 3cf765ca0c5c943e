//! The command line of `solve`.
//!
//! Role: the requested settings, and the split of the time between proofs and learning.
//! Limits: every proof has a deadline, since some games take longer than a lifetime.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use games::exact::Prover;
use num_traits::ToPrimitive as _;

/// Default limit of iterations of learning.
const ITERATIONS: u64 = 1_000_000;
/// Largest limit of iterations: floats beyond are not all integers.
const MAX_ITERATIONS: f64 = 9_007_199_254_740_992.0;
/// Default time for learning.
const LEARNING_TIME: Duration = Duration::from_secs(60);
/// Default time for proofs.
const PROOF_TIME: Duration = Duration::from_secs(300);
/// Share of the time of the caller that proofs get.
const PROOF_SHARE: f64 = 0.5;
/// Share of the time for proofs that the enumeration of all equilibria gets.
const ALL_SHARE: f64 = 0.5;

/// The arguments of `solve`.
pub(super) struct Options {
    pub(super) file: PathBuf,
    pub(super) form: Form,
    pub(super) exact: bool,
    pub(super) learn: bool,
    pub(super) iterations: u64,
    pub(super) until: Option<f64>,
    pub(super) within: Option<Duration>,
    begun: Instant,
}

/// The form of the answer.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Form {
    Text,
    Csv,
    Json,
}

impl Options {
    /// Returns options with the default of each argument.
    fn new() -> Self {
        Self {
            file: PathBuf::new(),
            form: Form::Text,
            exact: false,
            learn: false,
            iterations: ITERATIONS,
            until: None,
            within: None,
            begun: Instant::now(),
        }
    }

    /// Returns a prover that stops when the time for proofs is over.
    pub(super) fn prover(&self) -> Prover<'static> {
        self.prover_within(self.proof_time())
    }

    /// Returns a prover that leaves time for the proof of one equilibrium.
    pub(super) fn prover_of_all(&self) -> Prover<'static> {
        self.prover_within(self.proof_time().mul_f64(ALL_SHARE))
    }

    fn prover_within(&self, time: Duration) -> Prover<'static> {
        let deadline = self.begun.checked_add(time);
        deadline.map_or_else(Prover::new, |deadline| Prover::new().until(deadline))
    }

    /// Returns the time for proofs, from the start of the program.
    pub(super) fn proof_time(&self) -> Duration {
        self.within
            .map_or(PROOF_TIME, |time| time.mul_f64(PROOF_SHARE))
    }

    /// Returns the time that is left for learning.
    pub(super) fn time_to_learn(&self) -> Duration {
        self.within.map_or(LEARNING_TIME, |time| {
            time.saturating_sub(self.begun.elapsed())
        })
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
            Long("csv") => options.form = Form::Csv,
            Long("json") => options.form = Form::Json,
            Long("exact") => options.exact = true,
            Long("learn") => options.learn = true,
            Long("iterations") => options.iterations = parser.value()?.parse_with(iterations)?,
            Long("until") => options.until = Some(parser.value()?.parse_with(target)?),
            Long("within") => {
                let seconds = parser.value()?.parse()?;
                options.within = Some(Duration::try_from_secs_f64(seconds).context("--within")?);
            }
            Long("help") | Short('h') => return Ok(None),
            Value(value) if file.is_none() => file = Some(PathBuf::from(value)),
            other => return Err(other.unexpected().into()),
        }
    }
    let Some(file) = file else {
        bail!(lexopt::Error::MissingValue {
            option: Some("FILE".into())
        });
    };
    Ok(Some(Options { file, ..options }))
}

/// Reads a number of iterations, which may have an exponent.
fn iterations(text: &str) -> std::result::Result<u64, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let is_count = |number: &f64| number.fract() == 0.0 && (0.0..=MAX_ITERATIONS).contains(number);
    let number = text.parse().ok().filter(is_count);
    number
        .and_then(|number| number.to_u64())
        .ok_or_else(|| "must be a whole number, such as 1e6".into())
}

/// Reads a NashConv.
fn target(text: &str) -> std::result::Result<f64, String> {
    let number = text
        .parse()
        .ok()
        .filter(|number: &f64| *number >= 0.0 && number.is_finite());
    number.ok_or_else(|| "must be a number, finite and at least 0".into())
}
