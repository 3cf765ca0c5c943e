//! The table of a comparison: a dot for each line, and its numbers; and the legend.
//!
//! Role: shows the rate of each variant and rival, the single rounds, and the distance to the
//! measured limit of the device.
//! Method: dots are at the rate of a line, or at its time if no line has a rate. The interval is
//! from the first to the third quartile. A vertical line marks the measured limit of each device:
//! the value of the roofline's roof at the arithmetic intensity of this work.

use std::fmt::Write;

use charts::dots::{Dot, Mark, Scale};
use charts::{Ink, escape, units};

use crate::columns::{self, Column};
use crate::comparison::{Comparison, Contestant, Place, peaks};
use crate::record::{Check, Machine};

/// Highest rate that a device could reach in this work.
#[derive(Debug, PartialEq)]
struct Limit {
    place: Place,
    rate: f64,
    /// Whether the limit is the memory bandwidth and not the arithmetic peak.
    by_memory: bool,
}

/// Returns the table of a comparison.
pub(super) fn comparison(
    comparison: &Comparison,
    machine: &Machine,
    adapters: &[String],
) -> String {
    let columns = columns::columns(comparison);
    let limits = limits(comparison, machine);
    let by_rate = comparison
        .contestants
        .iter()
        .any(|line| line.rate.is_some());
    let dots: Vec<Option<Dot>> = comparison
        .contestants
        .iter()
        .map(|line| dot(line, by_rate, adapters))
        .collect();
    let values = dots.iter().flatten().flat_map(|dot| {
        let ends = dot.interval.into_iter().flatten();
        ends.chain(dot.runs.iter().copied()).chain([dot.value])
    });
    let scale = Scale::covering(values.chain(limits.iter().map(|limit| limit.rate)));
    let marks: Vec<Mark> = limits
        .iter()
        .map(|limit| Mark {
            value: limit.rate,
            ink: limit.place.ink(adapters),
        })
        .collect();
    let axis = scale.map_or_else(String::new, |scale| {
        if by_rate {
            scale.axis(units::si_tick)
        } else {
            scale.axis(units::seconds_tick)
        }
    });
    let mut head =
        format!("<th scope=\"col\">executor</th><th scope=\"col\" class=\"axis\">{axis}</th>");
    for column in &columns {
        let (title, meaning) = (escape(&column.title), column.meaning);
        let _ = write!(
            head,
            "<th scope=\"col\" class=\"number\" title=\"{meaning}\">{title}</th>"
        );
    }
    let mut body = String::new();
    let mut above = None;
    for (line, dot) in comparison.contestants.iter().zip(dots) {
        if above != Some(&line.place) {
            let (span, place) = (columns.len() + 2, escape(line.place.heading()));
            let _ = writeln!(
                body,
                "<tr class=\"place\"><th colspan=\"{span}\">{place}</th></tr>"
            );
            above = Some(&line.place);
        }
        let cell = scale.map_or_else(String::new, |scale| scale.cell(&marks, dot.as_slice()));
        body += &row(line, &cell, &columns, adapters);
    }
    format!(
        "<div class=\"wide\"><table class=\"stack\">\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n\
         </table></div>\n{}",
        described(&limits, adapters, &comparison.rate_unit)
    )
}

/// Returns the dot of a line; `None` without a number, and for a wrong result, whose speed means
/// nothing. The first quartile of the rates follows from the third quartile of the times, and vice
/// versa.
fn dot(line: &Contestant, by_rate: bool, adapters: &[String]) -> Option<Dot> {
    if line.failure().is_some() {
        return None;
    }
    let [median, low, high] = line.time?;
    // A rate is inverse to a time of the whole work.
    let shown = |time: f64| match line.rate {
        Some(rate) if by_rate => Some(rate * median / time),
        _ if by_rate => None,
        _ => Some(time),
    };
    let (from, to) = if by_rate { (high, low) } else { (low, high) };
    let interval = shown(from)
        .zip(shown(to))
        .filter(|_| line.rounds.len() > 1 || low < high);
    Some(Dot {
        value: shown(median)?,
        interval: interval.map(|(low, high)| [low, high]),
        runs: line.rounds.iter().filter_map(|&time| shown(time)).collect(),
        ink: line.place.ink(adapters),
        title: line.name.clone(),
    })
}

/// Returns the limits of the devices in this comparison, for rates of operations and of products of
/// bits: the measured peak or, if it is lower, the rate that the measured copy bandwidth allows.
fn limits(comparison: &Comparison, machine: &Machine) -> Vec<Limit> {
    let here = |place: &Place| {
        comparison
            .contestants
            .iter()
            .any(|line| line.place == *place)
    };
    let intensities = comparison
        .contestants
        .iter()
        .filter_map(|line| line.intensity);
    let intensity = intensities.fold(0.0, f64::max);
    let limit = |(place, peaks): (Place, crate::record::AdapterPeaks)| {
        let peak = peaks.per_second(&comparison.rate_unit)?;
        let by_memory = peaks.copy_bytes_per_s.map(|bytes| bytes * intensity);
        let by_memory = by_memory.filter(|&rate| rate > 0.0 && rate < peak);
        Some(Limit {
            place,
            rate: by_memory.unwrap_or(peak),
            by_memory: by_memory.is_some(),
        })
    };
    let here = peaks(machine).into_iter().filter(|(place, _)| here(place));
    here.filter_map(limit).collect()
}

/// Returns the sentence that explains the vertical lines; empty without any.
fn described(limits: &[Limit], adapters: &[String], unit: &str) -> String {
    let described = limits.iter().map(|limit| {
        let kind = if limit.by_memory {
            "limit by the measured copy bandwidth"
        } else {
            "measured peak"
        };
        format!(
            "<span class=\"ink-{}\">│</span> {kind} of {}, {}",
            limit.place.ink(adapters).name(),
            escape(limit.place.heading()),
            escape(&units::rate(limit.rate, unit))
        )
    });
    let described: Vec<String> = described.collect();
    if described.is_empty() {
        return String::new();
    }
    format!("<p class=\"muted small\">{}</p>\n", described.join(" · "))
}

fn row(line: &Contestant, dots: &str, columns: &[Column], adapters: &[String]) -> String {
    let (class, check) = match line.check {
        Check::Ok => ("", ""),
        Check::Skipped(_) => (" unchecked", " <small>(not checked)</small>"),
        Check::Failed(_) => (" failed", " <b>FAILED</b>"),
    };
    let remark = line.remark();
    // A remark has a row of its own, because a narrow column would make the row tall.
    let remark = if remark.is_empty() {
        remark
    } else {
        let (span, remark) = (columns.len() + 2, escape(&remark));
        format!("<tr class=\"remark{class}\"><td colspan=\"{span}\">{remark}</td></tr>\n")
    };
    let mut html = format!(
        "<tr class=\"line{class}\"><th scope=\"row\">{}{check}</th><td class=\"dots\">{dots}</td>",
        named(line, adapters)
    );
    for column in columns {
        let cell = (column.cell)(line).unwrap_or_else(|| units::ABSENT.to_owned());
        let (cell, title) = (escape(&cell), escape(&column.title));
        let _ = write!(
            html,
            "<td class=\"number\" data-label=\"{title}\">{cell}</td>"
        );
    }
    html + "</tr>\n" + &remark
}

fn named(line: &Contestant, adapters: &[String]) -> String {
    let ink: Ink = line.place.ink(adapters);
    let (name, ink) = (escape(&line.name), ink.name());
    format!("<i class=\"swatch swatch-{ink}\"></i>{name}")
}

/// Returns the explanations of columns and terms.
pub(super) fn legend() -> String {
    let mut html =
        String::from("<section id=\"legend\">\n<h2>How to read this report</h2>\n<dl>\n");
    for column in columns::all("") {
        let _ = writeln!(
            html,
            "<dt>{}</dt><dd>{}</dd>",
            escape(&column.title),
            column.meaning
        );
    }
    html + "<dt>dots</dt><dd>A large dot is the median, the line through it the first to the third \
         quartile, and each small dot the median of one of up to nine rounds. A hollow dot was timed \
         once. The scale is logarithmic.</dd>\n\
         <dt>variant</dt><dd>One implementation of a workload in this project: plain loops, the host \
         executor, a GPU. Variants are listed from the simplest on.</dd>\n\
         <dt>rivals</dt><dd>Other libraries on the same inputs, run in turns with ours. A \
         comparison is the median ratio of the times, with its 95 % confidence interval. Both \
         times are by the host's clock, including submission and waiting.</dd>\n\
         <dt>roofline</dt><dd>The sloped part of a roof is the measured copy bandwidth of a device, \
         the flat part its measured arithmetic peak. A point below the slope is limited by memory, \
         one below the flat part by arithmetic; data that fit into a cache can lie above the slope. \
         Filled points are variants, hollow ones are rivals.</dd>\n</dl>\n</section>\n"
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
        for (intensity, rate, by_memory) in [(2.0, 20e9, true), (20.0, 100e9, false)] {
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

    #[test]
    fn a_part_of_the_work_is_shown_with_the_time_of_the_whole() {
        let row = |executor: &str, seconds: f64, share: Option<f64>| Row {
            executor: executor.into(),
            check: Check::Ok,
            median_s: Some(seconds),
            low_s: Some(0.9 * seconds),
            high_s: Some(1.1 * seconds),
            rounds_s: vec![seconds],
            share_of_work: share,
            ..Row::default()
        };
        let record = Record {
            rows: vec![row("part", 2.0, Some(0.1)), row("whole", 30.0, None)],
            ..Record::default()
        };
        let comparison = &comparisons(&record)[0];
        let html = super::comparison(comparison, &Machine::default(), &[]);
        assert!(
            html.contains("~20.0 s") && html.contains(">30.0 s<"),
            "{html}"
        );
        let dot = dot(&comparison.contestants[0], false, &[]).unwrap();
        assert_eq!((dot.value, dot.runs), (20.0, vec![20.0]));
    }

    #[test]
    fn a_wrong_result_has_no_dot() {
        let row = Row {
            check: Check::Failed("off".into()),
            median_s: Some(1.0),
            ..Row::default()
        };
        let record = Record {
            rows: vec![row],
            ..Record::default()
        };
        assert!(dot(&comparisons(&record)[0].contestants[0], false, &[]).is_none());
    }
}
