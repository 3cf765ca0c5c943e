//! JSON lines: one object per line, first the header, then rows and notes.
//!
//! Accuracy: the times of rows are numbers of seconds in `f64`, as most readers of JSON use. They
//! are exact to the nanosecond in the first 2^22 s (48 days) of a trace.

use super::csv::json;
use super::{Header, Note, Read, lines, metric_value, seconds, sorted, text_error};
use crate::trace::{Row, Trace};
use crate::{Metric, Result, Values};
use serde_json::{Map, Value};

const NAME: &str = "JSON lines";
const TIME: &str = "time_s";
const DEVICE: &str = "device";

pub(super) fn begin(text: &mut String, header: &Header) {
    push(text, header);
}

pub(super) fn row(text: &mut String, row: &Row) {
    let mut object = Map::new();
    object.insert(TIME.to_owned(), row.time.as_secs_f64().into());
    object.insert(DEVICE.to_owned(), row.device.into());
    for (metric, value) in row.values.iter() {
        object.insert(super::column(metric), value.into());
    }
    push(text, &object);
}

pub(super) fn note(text: &mut String, note: &Note) {
    push(text, note);
}

fn push(text: &mut String, data: &impl serde::Serialize) {
    text.push_str(&json(data));
    text.push('\n');
}

pub(super) fn read(text: &str) -> Result<Read> {
    let mut lines = lines(text);
    let first = lines.next().map_or(Ok(""), |(_, line)| line);
    let header = serde_json::from_str(first.map_err(|why| text_error(NAME, 1, why))?);
    let header: Header = header.map_err(|error| text_error(NAME, 1, &error.to_string()))?;
    let mut trace = header.into_trace(NAME)?;
    let mut skipped = vec![];
    for (number, line) in lines {
        let line = line.map_err(str::to_owned);
        if let Err(why) = line.and_then(|line| read_line(line, &mut trace)) {
            skipped.push(text_error(NAME, number, &why));
        }
    }
    Ok(Read {
        trace: sorted(trace),
        skipped,
    })
}

fn read_line(line: &str, trace: &mut Trace) -> std::result::Result<(), String> {
    let value: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    // Rows have a time; all other objects are notes.
    let Some(time) = value.get(TIME) else {
        let note: Note = serde_json::from_value(value).map_err(|error| error.to_string())?;
        return note.add_to(trace).map_err(str::to_owned);
    };
    let time = time
        .as_f64()
        .and_then(seconds)
        .ok_or("missing or invalid time")?;
    let device = value.get(DEVICE).and_then(Value::as_u64);
    let device = device.and_then(|device| usize::try_from(device).ok());
    let device = device.filter(|&device| device < trace.devices.len());
    let mut values = Values::none();
    for metric in Metric::ALL {
        let value = metric_value(metric, value.get(super::column(metric)))?;
        values.set(metric, value.unwrap_or(f64::NAN));
    }
    trace.rows.push(Row {
        device: device.ok_or("unknown device")?,
        time,
        values,
    });
    Ok(())
}
