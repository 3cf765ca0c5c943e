//! Chrome trace events: any bytes are a trace, with an error for each skipped event, or an error.
//!
//! Method: the format has times in microseconds and lacks some metrics, so a trace that was written
//! and read must not change any more when it is written and read again.

use telemetry::format::{self, Dialect};

use crate::trace_files;

/// Checks the reader and the writer of the format.
///
/// # Panics
/// On a fault of the code under test.
pub fn run(bytes: &[u8]) {
    const DIALECT: Dialect = Dialect::ChromeTrace;
    let Some(read) = trace_files::read(bytes, DIALECT) else {
        return;
    };
    let once = trace_files::read_written(&format::write(&read.trace, DIALECT), DIALECT);
    let twice = trace_files::read_written(&format::write(&once, DIALECT), DIALECT);
    assert_eq!(twice, once);
}
