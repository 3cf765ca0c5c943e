//! Checks of trace files that hold for all formats.

use telemetry::Trace;
use telemetry::format::{self, Dialect, Read};

/// Reads some bytes as a trace of a format; `None` if they have another format, or no valid header.
pub(crate) fn read(bytes: &[u8], dialect: Dialect) -> Option<Read> {
    if Dialect::detect(&String::from_utf8_lossy(bytes)) != Some(dialect) {
        return None;
    }
    match format::read(bytes) {
        Ok(read) => {
            check_order(&read.trace);
            for error in &read.skipped {
                assert!(!error.to_string().is_empty());
            }
            Some(read)
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            None
        }
    }
}

/// Reads a text that was written, of which no line may be skipped.
pub(crate) fn read_written(text: &str, dialect: Dialect) -> Trace {
    let read = format::read(text.as_bytes()).expect("a written trace can be read");
    assert!(read.skipped.is_empty(), "{:?}\n{text}", read.skipped);
    assert_eq!(Dialect::detect(text), Some(dialect));
    check_order(&read.trace);
    read.trace
}

/// Panics unless rows and regions are sorted and refer to devices of the trace.
fn check_order(trace: &Trace) {
    assert!(trace.rows.is_sorted_by_key(|row| row.time));
    assert!(trace.regions.is_sorted_by_key(|region| region.start));
    let n_devices = trace.devices.len();
    assert!(trace.rows.iter().all(|row| row.device < n_devices));
    assert!(trace.faults.iter().all(|fault| fault.device < n_devices));
    // Names of devices may have any characters.
    let text = format::prometheus::write(trace);
    let is_sample = |line: &str| line.starts_with('#') || line.rsplit_once(' ').is_some();
    assert!(text.lines().all(is_sample), "{text}");
}

/// Checks a format that contains everything: a trace must be equal after it is written and read
/// again, and the file of a writer that was killed must be a shorter trace.
pub(crate) fn check_complete(bytes: &[u8], dialect: Dialect) {
    let Some(read) = read(bytes, dialect) else {
        return;
    };
    let text = format::write(&read.trace, dialect);
    let again = read_written(&text, dialect);
    assert_eq!(again, read.trace);
    check_cut(&text, &again, bytes.len());
}

/// Cuts a text at a place that depends on a number, and reads it.
fn check_cut(text: &str, whole: &Trace, number: usize) {
    let mut end = number.wrapping_mul(7919) % (text.len() + 1);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    // Without a complete header there is no trace.
    let Ok(cut) = format::read(&text.as_bytes()[..end]) else {
        return;
    };
    assert!(cut.skipped.len() <= 1, "{:?}", cut.skipped);
    let n_rows = cut.trace.rows.len();
    assert!(n_rows <= whole.rows.len());
    assert_eq!(cut.trace.rows[..], whole.rows[..n_rows]);
}
