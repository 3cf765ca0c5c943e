//! Traces as JSON lines: any bytes are a trace, with an error for each skipped line, or an error.
//!
//! Method: a trace must be equal after it is written and read again, and the beginning of a file
//! must be the beginning of the trace.

use telemetry::format::Dialect;

use crate::trace_files;

/// Checks the reader and the writer of the format.
///
/// # Panics
/// On a fault of the code under test.
pub fn run(bytes: &[u8]) {
    trace_files::check_complete(bytes, Dialect::JsonLines);
}
