//! Chrome trace events, for Perfetto and `chrome://tracing`: metrics as counters over time, and
//! regions of code as slices.
//!
//! Method: each device is a process with counters. Regions of code belong to one further process,
//! which comes after the devices. Viewers drop slices of a track that overlap without nesting, so
//! each thread has one track, and more tracks for slices that would overlap. A file is a JSON array
//! with one object per line. The closing bracket may be missing, which the format allows. Data for
//! which the format has no event is stored as metadata, which viewers ignore.
//! Source: Google, "Trace Event Format".

use super::csv::json;
use super::{Header, Note, Read, metric_value, seconds, sorted, text_error};
use crate::trace::{Region, Row, Trace};
use crate::{Metric, Result, Values};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::time::Duration;

const NAME: &str = "Chrome trace";
const US_PER_S: f64 = 1e6;
/// Name of the metadata event that contains the header.
const HEADER: &str = "telemetry";
/// Name of the metadata events that contain faults and overhead.
const NOTE: &str = "telemetry note";
/// Charts, each shown as one counter: name and metrics.
const CHARTS: [(&str, &[Metric]); 5] = [
    (
        "power (W)",
        &[
            Metric::PowerInstant,
            Metric::PowerAverage,
            Metric::PowerDraw,
            Metric::PowerModule,
            Metric::PowerMemory,
            Metric::PowerLimit,
        ],
    ),
    ("busy (% of time)", &[Metric::GpuBusy, Metric::MemoryBusy]),
    ("clock (MHz)", &[Metric::SmClock, Metric::MemoryClock]),
    ("energy (J)", &[Metric::Energy]),
    ("temperature (C)", &[Metric::Temperature]),
];

pub(super) fn begin(text: &mut String, header: &Header) {
    text.push_str("[\n");
    let event = json!({"name": HEADER, "ph": "M", "pid": 0, "args": header});
    text.push_str(&json(&event));
    for (device, found) in header.devices.iter().enumerate() {
        let name = format!("{} {device}", found.name);
        push(
            text,
            &json!({"name": "process_name", "ph": "M", "pid": device, "args": {"name": name}}),
        );
    }
}

pub(super) fn row(text: &mut String, row: &Row) {
    for (name, metrics) in CHARTS {
        let reported =
            |&metric: &Metric| Some((metric.name().to_owned(), row.values.get(metric)?.into()));
        let args: serde_json::Map<String, Value> = metrics.iter().filter_map(reported).collect();
        if !args.is_empty() {
            let ts = row.time.as_secs_f64() * US_PER_S;
            push(
                text,
                &json!({"name": name, "ph": "C", "pid": row.device, "ts": ts, "args": args}),
            );
        }
    }
}

/// The tracks of regions of code.
#[derive(Debug, Default)]
pub(super) struct Tracks(Vec<Track>);

/// A track of slices of one thread.
#[derive(Debug)]
struct Track {
    thread: usize,
    /// Start and end of the newest outermost slices (not nested in another slice), in order of
    /// time.
    outer: VecDeque<(Duration, Duration)>,
}

/// Maximum number of outermost slices of a track that are remembered for comparison with new
/// slices.
const MAX_OUTER: usize = 1 << 12;

impl Tracks {
    /// Chooses a track for a slice. Returns the number of the track, and whether the track is new.
    ///
    /// Slices arrive in the order of their ends. Compared with the slices of a track, a new slice
    /// therefore comes after all of them, contains the last ones, or overlaps one:
    ///
    /// ```text
    /// track     [---]  [--] [-]
    /// after                     [--]   fits
    /// contains        [-----------]    fits; replaces the slices inside it
    /// overlaps    [---------------]    needs another track
    /// ```
    fn place(&mut self, mark: &Region) -> (usize, bool) {
        let is_free = |track: &Track| {
            let before = track.outer.iter().rev().find(|outer| outer.0 < mark.start);
            track.thread == mark.thread && before.is_none_or(|outer| outer.1 <= mark.start)
        };
        let found = self.0.iter().position(is_free);
        let number = found.unwrap_or_else(|| {
            self.0.push(Track {
                thread: mark.thread,
                outer: VecDeque::new(),
            });
            self.0.len() - 1
        });
        let outer = &mut self.0[number].outer;
        // Slices inside the new one are no longer outermost.
        while outer.back().is_some_and(|inner| inner.0 >= mark.start) {
            outer.pop_back();
        }
        outer.push_back((mark.start, mark.end));
        if outer.len() > MAX_OUTER {
            outer.pop_front();
        }
        (number, found.is_none())
    }
}

pub(super) fn mark(text: &mut String, tracks: &mut Tracks, trace: &Trace, mark: &Region) {
    let pid = trace.devices.len();
    let (tid, is_new) = tracks.place(mark);
    // Names of the process and of the track are metadata before the first slice.
    if tid == 0 && is_new {
        push(
            text,
            &json!({"name": "process_name", "ph": "M", "pid": pid, "args": {"name": "regions"}}),
        );
    }
    if is_new {
        let name = format!("thread {}", mark.thread);
        push(
            text,
            &json!({"name": "thread_name", "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}),
        );
    }
    let ts = mark.start.as_secs_f64() * US_PER_S;
    let dur = mark.end.saturating_sub(mark.start).as_secs_f64() * US_PER_S;
    push(
        text,
        &json!({"name": mark.name, "ph": "X", "pid": pid, "tid": tid, "ts": ts, "dur": dur,
            "args": {"depth": mark.depth, "thread": mark.thread}}),
    );
}

pub(super) fn note(text: &mut String, note: &Note) {
    push(
        text,
        &json!({"name": NOTE, "ph": "M", "pid": 0, "args": note}),
    );
}

pub(super) fn end(text: &mut String) {
    text.push_str("\n]\n");
}

/// Appends an event. The separator precedes the event, so that the text ends in a complete event.
fn push(text: &mut String, event: &Value) {
    text.push_str(",\n");
    text.push_str(&json(event));
}

pub(super) fn read(text: &str) -> Result<Read> {
    let mut events = vec![];
    let mut skipped = vec![];
    // Each line is parsed separately, because a JSON parser would reject an array that is cut off.
    for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let line = line
            .trim()
            .trim_start_matches('[')
            .trim_end_matches([',', ']']);
        if line.is_empty() {
            continue;
        }
        match serde_json::from_str::<Value>(line) {
            Ok(event) => events.push((index + 1, event)),
            Err(error) => skipped.push(text_error(NAME, index + 1, &error.to_string())),
        }
    }
    let header = events.iter().find(|(_, event)| event["name"] == HEADER);
    let header = header.ok_or_else(|| text_error(NAME, 1, "no header event of this crate"))?;
    let read = serde_json::from_value(header.1["args"].clone());
    let read: Header = read.map_err(|error| text_error(NAME, header.0, &error.to_string()))?;
    let mut trace = read.into_trace(NAME)?;
    for (line, event) in &events {
        if let Err(why) = add(event, &mut trace) {
            skipped.push(text_error(NAME, *line, &why));
        }
    }
    Ok(Read {
        trace: sorted(trace),
        skipped,
    })
}

/// Adds an event to a trace: a chart (`C`), a region of code (`X`) or a note; ignores other events.
fn add(event: &Value, trace: &mut Trace) -> std::result::Result<(), String> {
    let time = |key: &str| {
        let time = event[key].as_f64();
        time.and_then(|us| seconds(us / US_PER_S))
            .ok_or("missing or invalid time")
    };
    // Files of older versions have no thread.
    let count = |key: &str| match &event["args"][key] {
        Value::Null => Ok(0),
        count => {
            let count = count.as_u64().and_then(|count| usize::try_from(count).ok());
            count.ok_or_else(|| format!("{key} is not a whole number"))
        }
    };
    match event["ph"].as_str() {
        Some("C") => {
            let device = event["pid"]
                .as_u64()
                .and_then(|pid| usize::try_from(pid).ok());
            let device = device.filter(|&device| device < trace.devices.len());
            let (device, time) = (device.ok_or("unknown device")?, time("ts")?);
            let mut found = vec![];
            for (name, value) in event["args"].as_object().into_iter().flatten() {
                if let Some(metric) = Metric::from_name(name) {
                    found.push((metric, metric_value(metric, Some(value))?));
                }
            }
            // The charts of one row are consecutive events, which are merged into one row.
            let last = trace.rows.last();
            if last.is_none_or(|row| (row.device, row.time) != (device, time)) {
                trace.rows.push(Row {
                    device,
                    time,
                    values: Values::none(),
                });
            }
            let Some(row) = trace.rows.last_mut() else {
                return Ok(());
            };
            for (metric, value) in found {
                row.values.set(metric, value.unwrap_or(f64::NAN));
            }
        }
        Some("X") => trace.regions.push(Region {
            name: event["name"].as_str().unwrap_or("").to_owned(),
            start: time("ts")?,
            end: time("ts")?.saturating_add(time("dur")?),
            depth: count("depth")?,
            thread: count("thread")?,
        }),
        _ if event["name"] == NOTE => {
            let note = serde_json::from_value::<Note>(event["args"].clone());
            note.map_err(|_| "unknown kind of note")?.add_to(trace)?;
        }
        _ => {}
    }
    Ok(())
}
