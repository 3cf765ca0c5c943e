//! Semicolon-separated traces of the script `gpu_trace.py`: any bytes are a trace, with an error
//! for each skipped line, or an error.
//!
//! Method: the first byte chooses the limits that the file does not contain, the rest is the file.
//! The format contains shares of limits, so numbers are rounded when they are written again; the
//! number of rows, the missing values and the order of times must stay.

use telemetry::Metric;
use telemetry::format::{self, DeviceLimits, Dialect};

use crate::trace_files;

/// Checks the reader and the writer of the format.
///
/// # Panics
/// On a fault of the code under test.
pub fn run(bytes: &[u8]) {
    const DIALECT: Dialect = Dialect::SemicolonCsv;
    let Some((&choice, file)) = bytes.split_first() else {
        return;
    };
    let Some(without_limits) = trace_files::read(file, DIALECT) else {
        return;
    };
    let limits = DeviceLimits {
        power_w: [None, Some(250.0), Some(0.0), Some(f64::INFINITY)][usize::from(choice % 4)],
        memory_bytes: [None, Some(16e9), Some(-1.0), Some(f64::NAN)][usize::from(choice / 4 % 4)],
    };
    let read = format::read_semicolon_csv(file, limits).expect("the header is the same");
    assert_eq!(read.trace.rows.len(), without_limits.trace.rows.len());
    assert_eq!(read.skipped.len(), without_limits.skipped.len());
    let again = trace_files::read_written(&format::write(&read.trace, DIALECT), DIALECT);
    assert_eq!(again.rows.len(), read.trace.rows.len());
    for (again, row) in again.rows.iter().zip(&read.trace.rows) {
        for metric in [Metric::Temperature, Metric::GpuBusy, Metric::MemoryBusy] {
            assert_eq!(again.values.get(metric), row.values.get(metric));
        }
    }
}
