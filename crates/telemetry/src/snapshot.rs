//! The newest rows of a running sampler, for readers such as the HTTP endpoint.

use crate::{Failure, Trace};

/// The newest rows of a running sampler, with its failures: the data that the HTTP endpoint
/// returns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// A trace that contains the newest row of each device and, if that row has no value, the
    /// newest row with a value.
    pub trace: Trace,
    /// Failures so far; failures that ended sampling come first.
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
