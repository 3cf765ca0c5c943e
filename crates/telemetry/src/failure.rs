//! Failures of a running sampler: a source that panicked, a sink that could not be written.
//!
//! Role: the only record of failures. [`Running::failure`](crate::Running::failure) reports them
//! while sampling goes on, [`Stopped`](crate::Stopped) and
//! [`Error::Sampling`](crate::Error::Sampling) at its end, and an endpoint as `telemetry_up 0` and
//! `telemetry_sinks_failed`.

use crate::Trace;
use std::any::Any;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// A failure of a part of a sampler. The trace contains the rows until then.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// The source panicked in a reading. It is not read again, so the trace ends there.
    Source {
        /// Time of the trace.
        time: Duration,
        /// Message of the panic.
        why: String,
    },
    /// The sampler's own thread panicked. No more rounds are sampled, so the trace ends there.
    Sampler {
        /// Time of the trace.
        time: Duration,
        /// Message of the panic.
        why: String,
    },
    /// A sink returned an error or panicked. It gets no more rows; other sinks and memory do.
    Sink {
        /// Time of the trace.
        time: Duration,
        /// Kind of the error.
        kind: io::ErrorKind,
        /// Message of the error.
        why: String,
    },
}

/// The newest rows of a running sampler, with its failures: the content of a scrape.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// The devices, each with its newest row.
    pub trace: Trace,
    /// Failures so far, those that ended sampling first.
    pub failures: Vec<Failure>,
}

impl From<Trace> for Snapshot {
    fn from(trace: Trace) -> Self {
        Self {
            trace,
            failures: vec![],
        }
    }
}

impl Failure {
    pub(crate) fn of_sink(time: Duration, error: &io::Error) -> Self {
        Self::Sink {
            time,
            kind: error.kind(),
            why: error.to_string(),
        }
    }

    /// Returns whether sampling ended by this failure: one of the source or of the sampler.
    #[must_use]
    pub fn ends_sampling(&self) -> bool {
        matches!(self, Self::Source { .. } | Self::Sampler { .. })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (part, time, why) = match self {
            Self::Source { time, why } => ("source panicked", time, why),
            Self::Sampler { time, why } => ("sampler panicked", time, why),
            Self::Sink { time, why, .. } => ("sink failed", time, why),
        };
        write!(f, "sampling: {part} at {:.3} s: {why}", time.as_secs_f64())
    }
}

/// Returns the message of a panic, and drops its payload.
pub(crate) fn message(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("a panic without a message").to_owned();
    // A payload may panic when it is dropped.
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(second);
    }
    text
}
