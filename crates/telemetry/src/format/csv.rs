//! Comma-separated values that contain the complete trace.
//!
//! Method: the header and notes are JSON in lines that begin with `#`, which table readers skip as
//! comments. Columns are identified by name, so files with fewer or more columns can be read too.

use super::{Header, Note, Read, column, lines, not_a_number, parse_seconds, sorted, text_error};
use crate::trace::{Row, Trace};
use crate::{Metric, Result, Values};
use std::fmt::Write as _;

/// First characters of a file in this format.
pub(super) const FIRST: &str = "# telemetry ";
const NAME: &str = "CSV";
const TIME: &str = "time_s";
const DEVICE: &str = "device";

pub(super) fn begin(text: &mut String, header: &Header) {
    let columns = Metric::ALL.map(column).join(",");
    text.push_str(FIRST);
    text.push_str(&json(header));
    let _ = write!(text, "\n{TIME},{DEVICE},{columns}\n");
}

pub(super) fn row(text: &mut String, row: &Row) {
    // Formatted from integers, so that every nanosecond is kept.
    let (seconds, nanoseconds) = (row.time.as_secs(), row.time.subsec_nanos());
    let _ = write!(text, "{seconds}.{nanoseconds:09},{}", row.device);
    for metric in Metric::ALL {
        text.push(',');
        if let Some(value) = row.values.get(metric) {
            let _ = write!(text, "{value}");
        }
    }
    text.push('\n');
}

pub(super) fn note(text: &mut String, note: &Note) {
    let _ = writeln!(text, "# {}", json(note));
}

/// Formats data as JSON. Data of this crate has string keys and plain values, so formatting cannot
/// fail.
pub(super) fn json(data: &impl serde::Serialize) -> String {
    serde_json::to_string(data).unwrap_or_default()
}

pub(super) fn read(text: &str) -> Result<Read> {
    let mut lines = lines(text);
    let first = lines.next().map_or(Ok(""), |(_, line)| line);
    let first = first.map_err(|why| text_error(NAME, 1, why))?;
    let header = serde_json::from_str(first.trim_start_matches(FIRST));
    let header: Header = header.map_err(|error| text_error(NAME, 1, &error.to_string()))?;
    let mut trace = header.into_trace(NAME)?;
    let mut columns: Option<Vec<Column>> = None;
    let mut skipped = vec![];
    for (number, line) in lines {
        // The first line that is not a comment contains the names of the columns.
        let added = match (line, &columns) {
            (Err(why), _) => Err(why.to_owned()),
            (Ok(line), _) if line.starts_with('#') => read_note(&line[1..], &mut trace),
            (Ok(line), Some(columns)) => read_row(line, columns, &mut trace),
            (Ok(line), None) => {
                columns = Some(line.split(',').map(Column::named).collect());
                Ok(())
            }
        };
        if let Err(why) = added {
            skipped.push(text_error(NAME, number, &why));
        }
    }
    Ok(Read {
        trace: sorted(trace),
        skipped,
    })
}

/// The content of a column.
#[derive(Clone, Copy)]
enum Column {
    Time,
    Device,
    Of(Metric),
    Unknown,
}

impl Column {
    fn named(name: &str) -> Self {
        let is_it = |metric: &Metric| column(*metric) == name.trim();
        match name.trim() {
            TIME => Self::Time,
            DEVICE => Self::Device,
            _ => Metric::ALL
                .into_iter()
                .find(is_it)
                .map_or(Self::Unknown, Self::Of),
        }
    }
}

fn read_note(text: &str, trace: &mut Trace) -> std::result::Result<(), String> {
    let note: Note = serde_json::from_str(text).map_err(|error| error.to_string())?;
    note.add_to(trace).map_err(str::to_owned)
}

/// Parses a row; empty cells and unknown columns are ignored.
fn read_row(line: &str, columns: &[Column], trace: &mut Trace) -> std::result::Result<(), String> {
    let (mut time, mut device, mut values) = (None, None, Values::none());
    let cells: Vec<&str> = line.split(',').map(str::trim).collect();
    if cells.len() != columns.len() {
        return Err(format!(
            "wrong number of cells ({}; expected {})",
            cells.len(),
            columns.len()
        ));
    }
    for (cell, column) in cells.into_iter().zip(columns) {
        match column {
            Column::Time => time = parse_seconds(cell),
            Column::Device => device = cell.parse().ok(),
            Column::Of(metric) if !cell.is_empty() => match cell.parse::<f64>() {
                Ok(value) if value.is_finite() => values.set(*metric, value),
                _ => return Err(not_a_number(*metric)),
            },
            Column::Of(_) | Column::Unknown => {}
        }
    }
    match (time, device) {
        (Some(time), Some(device)) if device < trace.devices.len() => {
            trace.rows.push(Row {
                device,
                time,
                values,
            });
            Ok(())
        }
        _ => Err("missing or invalid time, or unknown device".to_owned()),
    }
}
