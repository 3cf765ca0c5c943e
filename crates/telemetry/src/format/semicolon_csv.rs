//! File format of the script `gpu_trace.py`, with seven columns separated by semicolons.
//!
//! Method: the columns are wall-clock time in s, temperature in °C, power in % of the set limit,
//! GPU and memory utilisation in % of time, used memory in % of total memory, and energy since the
//! first row in kJ. There are two differences from the script. A missing value is an empty cell,
//! where the script exited. After a restart of the driver, energy continues from the previous sum.
//! The reader computes times from the distances of rows, because the wall clock may have been set
//! while the file was written.
//! Source: the blog note "Tracing GPU Resources" (2023).
//! Limits: a file contains only the first device of a trace, and no regions of code, faults or
//! overhead. A clock that was set forward looks like a pause of sampling, and so does a wrong time
//! of the first row, of the last row, or of several consecutive rows.

use super::{Read, lines, seconds, text_error};
use crate::device::{Device, Kind, PowerLimits};
use crate::trace::{Row, Trace};
use crate::{EnergyTotal, Metric, Result, Values, updates};
use std::fmt::Write as _;
use std::time::Duration;

/// First line of a file, byte for byte.
pub const HEADER: &str = "Timestamp;Temperature [C];Power [% max];GPU Util [% time];Mem Util [% time];Mem Cons [% max];Energy [kJ]";
const NAME: &str = "semicolon CSV";
const N_COLUMNS: usize = 7;
const NS_PER_S: f64 = 1e9;
const US_PER_S: f64 = 1e6;
/// Latest time since 1970, in s, that a file can contain: the second-largest f64 below 2^64, so
/// that rounding cannot exceed the range of [`Duration`].
const LATEST_S: u64 = u64::MAX - 4095;
/// Threshold of a large distance between two rows, in median distances.
const FAR: u32 = 5;
const J_PER_KJ: f64 = 1e3;

/// Limits that a file of this dialect does not contain but its percentages refer to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DeviceLimits {
    /// Power limit that was set, in W.
    pub power_w: Option<f64>,
    /// Total memory, in bytes.
    pub memory_bytes: Option<f64>,
}

/// State that is carried from row to row while writing.
#[derive(Debug, Default)]
pub(super) struct WriterState {
    /// Energy since the first row.
    counted: EnergyTotal,
}

pub(super) fn begin(text: &mut String) {
    text.push_str(HEADER);
    text.push('\n');
}

pub(super) fn row(text: &mut String, state: &mut WriterState, trace: &Trace, row: &Row) {
    if row.device != 0 {
        return;
    }
    let value = |metric| row.values.get(metric);
    // A share of an unknown or zero limit is missing, and so is a share beyond the range of f64.
    let share = |part: Option<f64>, whole: Option<f64>| {
        let whole = whole.filter(|&whole| whole > 0.0)?;
        Some(part? / whole * 100.0).filter(|share| share.is_finite())
    };
    let limit = trace.devices.first().and_then(|device| device.limits.set_w);
    let energy = value(Metric::Energy).map(|reported_j| state.counted.add(row.time, reported_j));
    let power = value(Metric::PowerDraw).or(value(Metric::PowerInstant));
    let began_s = trace.began_unix_ns as f64 / NS_PER_S;
    let cells = [
        share(power, limit.or(value(Metric::PowerLimit))),
        value(Metric::GpuBusy),
        value(Metric::MemoryBusy),
        share(value(Metric::MemoryUsed), value(Metric::MemoryTotal)),
        energy.map(|joules| joules / J_PER_KJ),
    ];
    let _ = write!(text, "{:.6}", began_s + row.time.as_secs_f64());
    for cell in [value(Metric::Temperature)].into_iter().chain(cells) {
        text.push(';');
        if let Some(number) = cell {
            let _ = write!(text, "{number}");
        }
    }
    text.push('\n');
}

pub(super) fn read(text: &str, limits: DeviceLimits) -> Result<Read> {
    let mut lines = lines(text);
    if lines.next().map(|(_, first)| first) != Some(Ok(HEADER)) {
        return Err(text_error(
            NAME,
            1,
            "wrong header (expected that of gpu_trace.py)",
        ));
    }
    let (mut rows, mut skipped) = (vec![], vec![]);
    for (number, line) in lines {
        match line.and_then(|line| cells(line).ok_or("expected seven numbers with a time")) {
            Ok(cells) => rows.push(cells),
            Err(why) => skipped.push(text_error(NAME, number, why)),
        }
    }
    let began_s = rows.first().and_then(|row| row[0]).unwrap_or(0.0);
    let mut trace = Trace {
        source: NAME.to_owned(),
        began_unix_ns: u64::try_from((seconds(began_s).unwrap_or_default()).as_nanos())
            .unwrap_or(u64::MAX),
        devices: vec![device(limits)],
        ..Trace::default()
    };
    let clock = rows
        .iter()
        .map(|row| row[0].and_then(seconds).unwrap_or_default());
    let times = elapsed(&clock.collect::<Vec<_>>());
    for (time, [_, temperature, power, gpu, memory, used, energy]) in times.into_iter().zip(rows) {
        let share = |share: Option<f64>, whole: Option<f64>| Some(share? / 100.0 * whole?);
        let mut values = Values::none();
        for (metric, value) in [
            (Metric::Temperature, temperature),
            (Metric::PowerDraw, share(power, limits.power_w)),
            (Metric::PowerLimit, limits.power_w),
            (Metric::GpuBusy, gpu),
            (Metric::MemoryBusy, memory),
            (Metric::MemoryUsed, share(used, limits.memory_bytes)),
            (Metric::MemoryTotal, limits.memory_bytes),
            (Metric::Energy, energy.map(|energy| energy * J_PER_KJ)),
        ] {
            values.set(metric, value.unwrap_or(f64::NAN));
        }
        // An f64 resolves about a microsecond in seconds since 1970; round away the remaining
        // digits.
        let time_s = (time.as_secs_f64() * US_PER_S).round() / US_PER_S;
        trace.rows.push(Row {
            device: 0,
            time: seconds(time_s).unwrap_or(time),
            values,
        });
    }
    let interval_s = updates::row_interval_s(&trace, 0);
    trace.interval = seconds(interval_s).unwrap_or_default();
    Ok(Read { trace, skipped })
}

/// Returns the time of each row since the first row, from the times of a wall clock that may have
/// been set.
///
/// A time that is far from those of the rows before and after it, which are near to each other, is
/// wrong and becomes their mean. Where the times fall, the clock was set back, and the distance of
/// the two rows is the median distance. No row is later than [`LATEST_S`].
fn elapsed(clock: &[Duration]) -> Vec<Duration> {
    let rises = clock
        .windows(2)
        .filter_map(|pair| pair[1].checked_sub(pair[0]));
    let mut distances: Vec<_> = rises.filter(|distance| !distance.is_zero()).collect();
    distances.sort_unstable();
    let median = distances.get(distances.len() / 2);
    let median = median.copied().unwrap_or_default();
    let longest = median.saturating_mul(FAR);
    let is_near = |a: Duration, b: Duration| a.abs_diff(b) <= longest;
    let mut mended = clock.to_vec();
    for (time, around) in mended.iter_mut().skip(1).zip(clock.windows(3)) {
        let (before, after) = (around[0], around[2]);
        if is_near(before, after) && !is_near(before, *time) && !is_near(*time, after) {
            *time = before.min(after) + before.abs_diff(after) / 2;
        }
    }
    let began = clock.first().copied().unwrap_or_default();
    let latest = Duration::from_secs(LATEST_S).saturating_sub(began);
    let mut time = Duration::ZERO;
    let mut times = vec![time];
    for pair in mended.windows(2) {
        let distance = pair[1].checked_sub(pair[0]).unwrap_or(median);
        time = time.saturating_add(distance).min(latest);
        times.push(time);
    }
    times
}

/// Parses the cells of a row; empty cells are `None`, but the time is required.
fn cells(line: &str) -> Option<[Option<f64>; N_COLUMNS]> {
    let mut cells = [None; N_COLUMNS];
    let mut found = line.split(';');
    for cell in &mut cells {
        let text = found.next()?.trim();
        if !text.is_empty() {
            *cell = Some(
                text.parse()
                    .ok()
                    .filter(|number: &f64| number.is_finite())?,
            );
        }
    }
    let is_whole = found.next().is_none() && seconds(cells[0]?).is_some();
    is_whole.then_some(cells)
}

fn device(limits: DeviceLimits) -> Device {
    Device {
        limits: PowerLimits {
            set_w: limits.power_w,
            ..PowerLimits::default()
        },
        ..Device::new(Kind::Gpu, "GPU")
    }
}
