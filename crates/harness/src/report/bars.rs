//! A comparison as horizontal bars on a logarithmic scale.
//!
//! Role: shows the rate of each variant and its distance to the measured limit of the device.
//! Method: one bar per line, by its rate, or by its time if no line has a rate. A thin line spans
//! the first to the third quartile. A vertical line per device marks its measured limit: the value
//! of the roofline's roof at the arithmetic intensity of this work. A line without a number shows
//! the reason in place of the bar.

use charts::Result;
use charts::plotters::prelude::*;
use charts::plotters::style::text_anchor::{HPos, VPos};

use crate::comparison::{Comparison, Entry, Place, peaks};
use crate::record::{Check, Machine};
use charts::axis::{log_axis, mark};
use charts::units;
use charts::{Canvas, Ink, drawing, picture};

const WIDTH: u32 = 960;
const ROW: u32 = 24;
const LIMIT_ROW: u32 = 17;
const FOOT: u32 = 46;
const NAMES: u32 = 250;
const VALUES: u32 = 190;
const GAP: i32 = 10;
/// Distance of the right end of rates from the right edge, in pixels. Times end at the right edge.
const RATE_FROM_RIGHT: i32 = 76;
/// Distance of the right end of names from the bars, in pixels; the numbers of the variants are
/// between them.
const NAME_FROM_BARS: i32 = 34;
/// Size of text, in pixels.
const TEXT: u32 = 13;
/// Size of secondary text, in pixels.
const SMALL: u32 = 11;
/// Maximum length of a name, in characters.
const LONGEST_NAME: usize = 32;
/// Maximum length of a reason, in characters.
const LONGEST_REASON: usize = 64;

/// A row of the chart: a heading or a bar.
enum ChartRow<'a> {
    Heading(&'a Place),
    Bar(&'a Entry),
}

/// Highest rate that a device could reach in this work.
#[derive(Debug, PartialEq)]
struct Limit {
    place: Place,
    rate: f64,
    /// Whether the limit is the memory bandwidth and not the arithmetic peak.
    by_memory: bool,
}

/// Draws a comparison as SVG.
pub(super) fn draw(
    comparison: &Comparison,
    machine: &Machine,
    adapters: &[String],
) -> Result<String> {
    let entries = entries(comparison);
    let by_rate = comparison.entries.iter().any(|line| line.rate.is_some());
    let unit = if by_rate {
        comparison.rate_unit.as_str()
    } else {
        "seconds"
    };
    let limits = limits(comparison, machine);
    // Height: one lane per label of a limit, one row per entry, and the axis.
    let rows = u32::try_from(entries.len()).unwrap_or(u32::MAX / ROW / 2);
    let head = LIMIT_ROW * u32::try_from(limits.len()).unwrap_or(0);
    let size = (WIDTH, head + rows * ROW + FOOT);
    let label = format!("{} {} by {unit}", comparison.workload, comparison.size);
    picture(size, &label, |canvas| {
        let spans = comparison
            .entries
            .iter()
            .filter_map(|line| span(line, by_rate))
            .flatten();
        // The axis covers bars, whiskers and limits, so that none of them leaves the plot.
        let axis = log_axis(spans.chain(limits.iter().map(|limit| limit.rate)));
        let left = axis.bold_points().first().copied().unwrap_or(1.0);
        let mut chart = ChartBuilder::on(canvas)
            .margin_top(head)
            .margin_left(NAMES)
            .margin_right(VALUES)
            .x_label_area_size(FOOT)
            .build_cartesian_2d(axis, f64::from(rows)..0.0)
            .map_err(drawing)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .y_labels(0)
            .x_label_formatter(&mark)
            .x_desc(unit)
            .axis_style(Ink::Grid.line(1))
            .bold_line_style(Ink::Grid.line(1))
            .light_line_style(TRANSPARENT)
            .label_style(Ink::Muted.text(SMALL, HPos::Center, VPos::Top))
            .axis_desc_style(Ink::Muted.text(SMALL, HPos::Center, VPos::Top))
            .draw()
            .map_err(drawing)?;
        for (row, entry) in entries.iter().enumerate() {
            let top = row as f64;
            let ChartRow::Bar(line) = entry else { continue };
            let Some([from, value, to]) = span(line, by_rate) else {
                continue;
            };
            let ink = bar_ink(line, adapters);
            let bar = [(left, top + 0.2), (value, top + 0.8)];
            let whisker = [(from, top + 0.5), (to, top + 0.5)];
            chart
                .draw_series([Rectangle::new(bar, ink.marker().filled())])
                .map_err(drawing)?;
            chart
                .draw_series([PathElement::new(whisker, Ink::Text.line(1))])
                .map_err(drawing)?;
        }
        for (idx, limit) in limits.iter().enumerate() {
            let ink = limit.place.ink(adapters);
            let ends = [(limit.rate, 0.0), (limit.rate, f64::from(rows))];
            let line = PathElement::new(ends, ink.line(1));
            chart.draw_series([line]).map_err(drawing)?;
            let (x, bottom) = chart.backend_coord(&ends[0]);
            // Labels of limits are in lanes above the plot, one lane per limit.
            let y = bottom - px(LIMIT_ROW) * (px_of(limits.len()) - px_of(idx));
            limit_label(canvas, limit, (x, y), bottom, ink)?;
        }
        for (row, entry) in entries.iter().enumerate() {
            let (_, y) = chart.backend_coord(&(left, row as f64 + 0.5));
            match entry {
                ChartRow::Heading(place) => heading(canvas, place, y, adapters)?,
                ChartRow::Bar(line) => caption(canvas, line, y, &comparison.rate_unit)?,
            }
        }
        Ok(())
    })
}

fn entries(comparison: &Comparison) -> Vec<ChartRow<'_>> {
    let mut entries = Vec::new();
    let mut above = None;
    for line in &comparison.entries {
        if above != Some(&line.place) {
            entries.push(ChartRow::Heading(&line.place));
            above = Some(&line.place);
        }
        entries.push(ChartRow::Bar(line));
    }
    entries
}

/// Returns first quartile, median and third quartile of the value that the bar shows. The first
/// quartile of the rates follows from the third quartile of the times, and vice versa.
fn span(line: &Entry, by_rate: bool) -> Option<[f64; 3]> {
    match (by_rate, line.rate, line.time) {
        (true, Some(rate), Some([median, low, high])) => {
            Some([rate * median / high, rate, rate * median / low])
        }
        (true, Some(rate), None) => Some([rate; 3]),
        (true, None, _) => None,
        (false, _, time) => time.map(|[median, low, high]| [low, median, high]),
    }
}

/// Returns the limits of the devices in this comparison, for rates of operations and of products of
/// bits: the measured peak or, if it is lower, the rate that the measured copy bandwidth allows.
fn limits(comparison: &Comparison, machine: &Machine) -> Vec<Limit> {
    let here = |place: &Place| comparison.entries.iter().any(|line| line.place == *place);
    // Variants that do a part of the work read all shared inputs for it, so the whole work has the
    // highest intensity.
    let intensities = comparison.entries.iter().filter_map(|line| line.intensity);
    let intensity = intensities.fold(0.0, f64::max);
    let mut limits: Vec<Limit> = peaks(machine)
        .into_iter()
        .filter(|(place, _)| here(place))
        .filter_map(|(place, peaks)| {
            let peak = peaks.rate_in(&comparison.rate_unit)?;
            let bandwidth = peaks.copy_bytes_per_s.map(|bytes| bytes / 1e9);
            let by_memory = bandwidth.map(|bandwidth| bandwidth * intensity);
            let by_memory = by_memory.filter(|&rate| rate > 0.0 && rate < peak);
            Some(Limit {
                place,
                rate: by_memory.unwrap_or(peak),
                by_memory: by_memory.is_some(),
            })
        })
        .collect();
    // The highest limit has the top lane. Its label, to the left of its line, then passes above the
    // lines of the other limits.
    limits.sort_by(|one, other| other.rate.total_cmp(&one.rate));
    limits
}

fn bar_ink(line: &Entry, adapters: &[String]) -> Ink {
    match line.check {
        Check::Failed(_) => Ink::Alarm,
        _ => line.place.ink(adapters),
    }
}

/// Writes the label of a limit, to the left of its line.
fn limit_label(
    canvas: &Canvas<'_>,
    limit: &Limit,
    (x, y): (i32, i32),
    bottom: i32,
    ink: Ink,
) -> Result<()> {
    let whose = shortened(limit.place.heading(), LONGEST_NAME);
    let text = if limit.by_memory {
        format!("limit by measured copy bandwidth, {whose}")
    } else {
        format!("measured peak, {whose}")
    };
    let style = ink.text(SMALL, HPos::Right, VPos::Top);
    canvas
        .draw(&PathElement::new([(x, y), (x, bottom)], ink.line(1)))
        .map_err(drawing)?;
    canvas
        .draw(&Text::new(text, (x - 5, y), style))
        .map_err(drawing)
}

fn heading(canvas: &Canvas<'_>, place: &Place, y: i32, adapters: &[String]) -> Result<()> {
    let style = place.ink(adapters).text(SMALL, HPos::Right, VPos::Center);
    let text = shortened(place.heading(), LONGEST_NAME + 4);
    canvas
        .draw(&Text::new(text, (px(NAMES) - GAP, y + 3), style))
        .map_err(drawing)
}

/// Writes number and name of a line to the left of its bar, and rate and time to the right. A line
/// with neither rate nor time has the reason instead.
fn caption(canvas: &Canvas<'_>, line: &Entry, y: i32, rate_unit: &str) -> Result<()> {
    let put = |text: String, x: i32, ink: Ink, across: HPos| {
        canvas
            .draw(&Text::new(
                text,
                (x, y),
                ink.text(TEXT, across, VPos::Center),
            ))
            .map_err(drawing)
    };
    put(
        shortened(&line.name, LONGEST_NAME),
        px(NAMES) - NAME_FROM_BARS,
        Ink::Text,
        HPos::Right,
    )?;
    put(
        line.number.to_string(),
        px(NAMES) - GAP,
        Ink::Muted,
        HPos::Right,
    )?;
    let right = px(WIDTH);
    if let Some([median, ..]) = line.time {
        put(units::seconds(median), right, Ink::Muted, HPos::Right)?;
    }
    // The rate of a wrong result is meaningless and is replaced by the word FAILED.
    let failed = line.failure().is_some();
    if failed {
        put(
            "FAILED".to_owned(),
            right - RATE_FROM_RIGHT,
            Ink::Alarm,
            HPos::Right,
        )?;
    } else if let Some(rate) = line.rate {
        let rate = format!("{} {rate_unit}", units::digits(rate));
        put(rate, right - RATE_FROM_RIGHT, Ink::Text, HPos::Right)?;
    }
    if line.rate.is_none() && line.time.is_none() {
        let ink = if failed { Ink::Alarm } else { Ink::Muted };
        put(
            shortened(&line.remark(), LONGEST_REASON),
            px(NAMES) + GAP,
            ink,
            HPos::Left,
        )?;
    }
    Ok(())
}

fn shortened(text: &str, longest: usize) -> String {
    if text.chars().count() <= longest {
        return text.to_owned();
    }
    text.chars().take(longest - 1).chain(['…']).collect()
}

fn px(length: u32) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}

fn px_of(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::comparisons;
    use crate::record::{Peaks, Record, Row};

    #[test]
    fn the_limit_is_memory_below_the_ridge_and_arithmetic_above() {
        let machine = Machine {
            peaks: Peaks {
                cpu_flops: Some(100e9),
                cpu_copy_bytes_per_s: Some(10e9),
                ..Peaks::default()
            },
            ..Machine::default()
        };
        for (intensity, rate, by_memory) in [(2.0, 20.0, true), (20.0, 100.0, false)] {
            let row = Row {
                operations: Some(intensity),
                bytes: Some(1.0),
                rate: Some(1.0),
                rate_unit: "GFLOP/s".into(),
                ..Row::default()
            };
            let record = Record {
                rows: vec![row],
                ..Record::default()
            };
            let limit = Limit {
                place: Place::Cpu,
                rate,
                by_memory,
            };
            assert_eq!(limits(&comparisons(&record)[0], &machine), [limit]);
        }
    }
}
