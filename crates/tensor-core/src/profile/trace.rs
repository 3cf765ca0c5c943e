//! Export in Chrome's trace event format.
//!
//! Method: spans are complete events (`X`), the live bytes are a counter (`C`), and the names of
//! tracks are metadata (`M`). Viewers expect the spans of one thread to nest like a stack, so a
//! span that partly overlaps another one is moved to an additional track.
//! Source: "Trace Event Format", the Chromium project's document of 2016.

use std::fmt::Write as _;

use super::data::Recorded;
use super::{Arg, Profile};

/// The process number of all events: a trace has one process.
const PID: u32 = 1;
const NS_IN_A_MICROSECOND: u64 = 1000;

/// Returns the trace as JSON.
pub(super) fn json(profile: &Profile) -> String {
    let data = &profile.data;
    let mut out = String::from("{\"displayTimeUnit\":\"ns\",\"otherData\":{");
    let left_out = [
        ("dropped spans", data.dropped_spans),
        ("dropped points of memory", data.arrays.dropped_points),
        ("steps run elsewhere", data.n_rejected),
    ];
    for (number, (name, count)) in left_out.into_iter().enumerate() {
        comma(&mut out, number > 0);
        put(&mut out, format_args!("\"{name}\":{count}"));
    }
    out.push_str("},\"traceEvents\":[\n");
    put(
        &mut out,
        format_args!(
            "{{\"ph\":\"M\",\"pid\":{PID},\"name\":\"process_name\",\"args\":{{\"name\":\"tensor-core\"}}}}"
        ),
    );
    for (tid, lane) in lanes(profile).iter().enumerate() {
        name_of_track(&mut out, tid, lane);
        for &span in &lane.spans {
            event(&mut out, profile, tid, span);
        }
    }
    for &(at, live) in &data.arrays.curve {
        out.push_str(",\n{\"ph\":\"C\",\"name\":\"bytes of arrays\",");
        put(&mut out, format_args!("\"pid\":{PID},\"ts\":"));
        microseconds(&mut out, at);
        put(&mut out, format_args!(",\"args\":{{\"alive\":{live}}}}}"));
    }
    out.push_str("\n]}\n");
    out
}

/// A part of a track whose spans nest.
#[derive(Default)]
struct TrackLane {
    name: String,
    spans: Vec<usize>,
    /// The ends of the spans that are open at the start of the next span.
    open: Vec<u64>,
}

/// Distributes the spans of each track over lanes. Each span goes to the first lane in which it is
/// either inside or after the earlier spans.
fn lanes(profile: &Profile) -> Vec<TrackLane> {
    let data = &profile.data;
    let mut tracks: Vec<Vec<TrackLane>> = data.tracks.iter().map(|_| Vec::new()).collect();
    let mut order: Vec<usize> = (0..data.spans.len()).collect();
    // By start; of equal starts the longest span first, because it encloses the others.
    order.sort_by_key(|&number| {
        let span = &data.spans[number];
        (span.start, std::cmp::Reverse(span.end), number)
    });
    for number in order {
        let span = &data.spans[number];
        let lanes = &mut tracks[span.track as usize];
        let place = lanes.iter_mut().position(|lane| lane.takes(span));
        let place = place.unwrap_or_else(|| {
            let name = &data.tracks[span.track as usize];
            let count = lanes.len() + 1;
            lanes.push(TrackLane {
                name: if count == 1 {
                    name.to_string()
                } else {
                    format!("{name} ({count})")
                },
                ..TrackLane::default()
            });
            count - 1
        });
        lanes[place].spans.push(number);
        lanes[place].open.push(span.end);
    }
    tracks.into_iter().flatten().collect()
}

impl TrackLane {
    /// Returns `true` if a span nests with the spans of this lane. Spans arrive sorted by start.
    fn takes(&mut self, span: &Recorded) -> bool {
        while self.open.last().is_some_and(|&end| end <= span.start) {
            self.open.pop();
        }
        self.open.last().is_none_or(|&end| span.end <= end)
    }
}

fn name_of_track(out: &mut String, tid: usize, lane: &TrackLane) {
    put(
        out,
        format_args!(
            ",\n{{\"ph\":\"M\",\"pid\":{PID},\"tid\":{tid},\"name\":\"thread_name\",\"args\":{{\"name\":"
        ),
    );
    text(out, &lane.name);
    out.push_str("}}");
}

/// Writes one span as an event.
fn event(out: &mut String, profile: &Profile, tid: usize, number: usize) {
    let span = profile.data.public(&profile.data.spans[number]);
    put(
        out,
        format_args!(",\n{{\"ph\":\"X\",\"pid\":{PID},\"tid\":{tid},\"name\":"),
    );
    text(out, &span.name);
    out.push_str(",\"ts\":");
    microseconds(out, span.start_ns);
    out.push_str(",\"dur\":");
    microseconds(out, span.end_ns - span.start_ns);
    put(out, format_args!(",\"args\":{{\"id\":{number}"));
    if let Some(parent) = span.parent {
        put(out, format_args!(",\"parent\":{}", parent.0));
    }
    let mut names = vec!["id".to_owned(), "parent".to_owned()];
    for (name, arg) in &span.args {
        // A reader keeps only one of two members with equal names, so repeated names get a number.
        let mut unique = name.to_string();
        let mut count = 2;
        while names.contains(&unique) {
            unique = format!("{name} #{count}");
            count += 1;
        }
        out.push(',');
        text(out, &unique);
        names.push(unique);
        out.push(':');
        match arg {
            Arg::Count(count) => put(out, format_args!("{count}")),
            Arg::Number(number) if number.is_finite() => put(out, format_args!("{number:?}")),
            Arg::Number(_) => out.push_str("null"),
            Arg::Text(words) => text(out, words),
        }
    }
    out.push_str("}}");
}

fn comma(out: &mut String, is_needed: bool) {
    if is_needed {
        out.push(',');
    }
}

fn put(out: &mut String, words: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = out.write_fmt(words);
}

/// Writes nanoseconds as microseconds with three digits, without rounding.
fn microseconds(out: &mut String, ns: u64) {
    let (whole, part) = (ns / NS_IN_A_MICROSECOND, ns % NS_IN_A_MICROSECOND);
    put(out, format_args!("{whole}.{part:03}"));
}

/// Writes a JSON string.
fn text(out: &mut String, words: &str) {
    out.push('"');
    for character in words.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            control if control < ' ' => put(out, format_args!("\\u{:04x}", u32::from(control))),
            other => out.push(other),
        }
    }
    out.push('"');
}
