//! Failures of a running sampler: a panic of the source or of the sampler, or an error of a sink.
//!
//! Role: the only type that records such failures. While sampling runs,
//! [`Running::failure`](crate::Running::failure) returns the most important one; after sampling,
//! [`SamplerResult`](crate::SamplerResult) and [`Error::Sampling`](crate::Error::Sampling) contain
//! the failures. The HTTP endpoint reports them as `telemetry_up 0` and `telemetry_sinks_failed`.

use std::any::Any;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// A failure of the source, of the sampler or of a sink. The trace keeps the rows read before it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// The source panicked while it was read. It is not read again, so the trace ends at `time`.
    Source {
        /// Time of the failure, since the start of the trace.
        time: Duration,
        /// Message of the panic.
        why: String,
    },
    /// The sampler's own thread panicked. No further rounds are sampled, so the trace ends at
    /// `time`.
    Sampler {
        /// Time of the failure, since the start of the trace.
        time: Duration,
        /// Message of the panic.
        why: String,
    },
    /// A sink returned an error or panicked. It receives no more rows; other sinks and the trace in
    /// memory still do.
    Sink {
        /// Time of the failure, since the start of the trace.
        time: Duration,
        /// Kind of the I/O error.
        kind: io::ErrorKind,
        /// Message of the error.
        why: String,
    },
}

impl Failure {
    pub(crate) fn of_sink(time: Duration, error: &io::Error) -> Self {
        Self::Sink {
            time,
            kind: error.kind(),
            why: error.to_string(),
        }
    }

    /// Returns whether this failure ended sampling: true for the source and the sampler, not sinks.
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

/// Returns the message of a panic and drops its payload; payloads that are not text get a default.
pub(crate) fn message(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("a panic without a message").to_owned();
    // The destructor of a payload may itself panic; leaking the second payload avoids a third
    // panic.
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(second);
    }
    text
}
