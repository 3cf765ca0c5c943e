//! A trace of power and utilisation as an HTML page.
//!
//! Role: what `cargo xtask trace` leaves behind: the devices and where their numbers come from, what was spent, what kept the
//! device from working, and the picture of the source's script, per cent on the left and energy on the right.
//! Method: a picture has at most two points for each of its columns, the least and the most of the time that it stands for,
//! so no peak is lost and ten minutes take no more room than one.
//! Limits: one picture a device.

use std::fmt::Write;

use anyhow::Result;
use telemetry::analysis::idle_periods;
use telemetry::{Device, Metric, Spent, Trace};

use super::{escape, figures, page};
use crate::date;
use crate::figure::{Figure, Line, Panel};
use crate::units;

/// Columns of a picture, each of which takes two points.
const COLUMNS: usize = 400;
const KILO: f64 = 1e3;
const PER_CENT: f64 = 100.0;

/// Gives the page of a trace.
///
/// # Errors
/// Whatever the drawing refuses, in words.
pub fn trace_page(trace: &Trace) -> Result<String> {
    let mut body = String::from("<h1>Trace of power and utilisation</h1>\n");
    body += &summary(trace);
    for (index, device) in trace.devices.iter().enumerate() {
        let _ = writeln!(body, "<h2>{}</h2>", escape(&device.name));
        body += &energies(trace, index);
        for verdict in verdict(trace, index) {
            let _ = writeln!(body, "<p>{}</p>", escape(&verdict));
        }
        let figure = figure(trace, index);
        if !figure.panels.is_empty() {
            let svg = figures::draw(&figure)?;
            let caption = escape(&figure.caption);
            let _ = writeln!(
                body,
                "<figure><figcaption>{caption}</figcaption>\n{svg}</figure>"
            );
        }
        body += &fields(device);
    }
    body += &regions(trace);
    body += &costs(trace);
    let footer = format!("Page made {} from {} rows.", date::now(), trace.rows.len());
    Ok(page("Trace", &body, &footer))
}

/// Gives what a trace says of a device, in sentences.
#[must_use]
pub fn verdict(trace: &Trace, device: usize) -> Vec<String> {
    match idle_periods(trace, device) {
        Ok(found) => vec![found.to_string()],
        Err(why) => vec![why.to_string()],
    }
}

fn summary(trace: &Trace) -> String {
    format!(
        "<p class=\"lead\">Source {}, {} device(s), every {} ms for {} s.</p>\n",
        escape(&trace.source),
        trace.devices.len(),
        units::digits(trace.interval.as_secs_f64() * KILO),
        units::digits(trace.duration().as_secs_f64()),
    )
}

fn energies(trace: &Trace, device: usize) -> String {
    let end = trace
        .of_device(device)
        .last()
        .map_or_else(Default::default, |row| row.time);
    let start = trace
        .of_device(device)
        .next()
        .map_or_else(Default::default, |row| row.time);
    match trace.energy(device, start..end) {
        Some(energy) => format!("<p><b>{}</b></p>\n", escape(&format!("{energy}"))),
        None => "<p>It told neither energy nor power.</p>\n".to_owned(),
    }
}

/// Draws what the source's script drew: shares on the left, energy on the right.
fn figure(trace: &Trace, device: usize) -> Figure {
    let limit = trace.devices[device].limits.set_w;
    let share = |metric: Metric, whole: Option<f64>| -> Vec<(f64, f64)> {
        let Some(whole) = whole.filter(|&whole| whole > 0.0) else {
            return vec![];
        };
        let series = trace.series(device, metric);
        let shares = series
            .into_iter()
            .map(|(time, part)| (time, part / whole * PER_CENT));
        thinned(&shares.collect::<Vec<_>>())
    };
    let last = |metric| trace.series(device, metric).last().map(|&(_, value)| value);
    let power = [
        Metric::PowerInstant,
        Metric::PowerDraw,
        Metric::PowerAverage,
    ];
    let power = power.into_iter().find(|&metric| last(metric).is_some());
    let left = [
        (
            "power, of its limit",
            power,
            limit.or_else(|| last(Metric::PowerLimit)),
        ),
        (
            "GPU busy, of the time",
            Some(Metric::GpuBusy),
            Some(PER_CENT),
        ),
        (
            "memory busy, of the time",
            Some(Metric::MemoryBusy),
            Some(PER_CENT),
        ),
        (
            "memory in use, of all",
            Some(Metric::MemoryUsed),
            last(Metric::MemoryTotal),
        ),
    ];
    let left = left
        .into_iter()
        .filter_map(|(name, metric, whole)| Some(Line::through(name, share(metric?, whole))));
    let counter = trace.series(device, Metric::Energy);
    let first = counter.first().map_or(0.0, |&(_, energy)| energy);
    let energy: Vec<_> = counter
        .into_iter()
        .map(|(time, now)| (time, (now - first) / KILO))
        .collect();
    let energy = Line::through("energy (right)", thinned(&energy)).on_the_right();
    let lines: Vec<Line> = left
        .chain([energy])
        .filter(|line| !line.points.is_empty())
        .collect();
    if lines.is_empty() {
        return Figure::default();
    }
    let has_energy = lines.iter().any(|line| line.is_right);
    Figure {
        caption: "Shares in per cent on the left, energy since the start on the right.".to_owned(),
        panels: vec![Panel {
            x: "time (s)".to_owned(),
            y: "%".to_owned(),
            right: if has_energy {
                "kJ".to_owned()
            } else {
                String::new()
            },
            lines,
            ..Panel::default()
        }],
    }
}

/// Gives the least and the most of each column's time, in their order.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= 2 * COLUMNS {
        return points.to_vec();
    }
    let columns = points.chunks(points.len().div_ceil(COLUMNS));
    let ends = |column: &[(f64, f64)]| {
        let by_value = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let least = column.iter().min_by(by_value).copied();
        let most = column.iter().max_by(by_value).copied();
        let mut ends: Vec<_> = least.into_iter().chain(most).collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        ends
    };
    columns.flat_map(ends).collect()
}

/// Lists where each number comes from.
fn fields(device: &Device) -> String {
    let mut html =
        String::from("<details><summary>Where the numbers come from</summary>\n<table>\n");
    let about = [
        ("UUID", &device.uuid),
        ("place", &device.pci),
        ("driver", &device.driver),
        ("architecture", &device.architecture),
    ];
    for (name, text) in about {
        if let Some(text) = text {
            let _ = writeln!(html, "<tr><th>{name}</th><td>{}</td></tr>", escape(text));
        }
    }
    for capability in &device.capabilities {
        let fault = capability
            .fault
            .map_or_else(String::new, |fault| format!(": {fault}"));
        let text = escape(&format!("{}{fault}", capability.field));
        let _ = writeln!(
            html,
            "<tr><th>{}</th><td>{text}</td></tr>",
            capability.metric
        );
    }
    html + "</table>\n</details>\n"
}

/// Lists regions of code with what they took.
fn regions(trace: &Trace) -> String {
    let spent: Vec<Spent> = trace
        .marks
        .iter()
        .filter_map(|mark| Spent::of_mark(trace, mark))
        .collect();
    if spent.is_empty() {
        return String::new();
    }
    let mut html = String::from(
        "<h2>Regions</h2>\n<table>\n<thead><tr><th>region</th><th>s</th><th>J</th><th>between</th></tr></thead>\n<tbody>\n",
    );
    for region in spent {
        let joules = region
            .joules()
            .map_or_else(|| "unknown".to_owned(), units::digits);
        let interval = region.interval().map_or_else(String::new, |interval| {
            format!(
                "{} and {}",
                units::digits(interval.low_j),
                units::digits(interval.high_j)
            )
        });
        let _ = writeln!(
            html,
            "<tr><th>{}</th><td class=\"number\">{}</td><td class=\"number\">{joules}</td><td>{interval}</td></tr>",
            escape(&region.name),
            units::digits(region.duration().as_secs_f64()),
        );
    }
    html + "</tbody>\n</table>\n"
}

/// Says what sampling cost and what did not work.
fn costs(trace: &Trace) -> String {
    let mut html = String::from("<h2>Sampling</h2>\n");
    if let Some(overhead) = trace.overhead {
        let share = overhead
            .cpu
            .map(|cpu| cpu.as_secs_f64() / overhead.wall.as_secs_f64() * PER_CENT);
        let cpu = share.map_or_else(|| "unknown".to_owned(), |share| format!("{share:.3} %"));
        let _ = writeln!(
            html,
            "<p>{} rounds, {} left out; a round began at most {} ms late and took at most {} ms; {cpu} of a core.</p>",
            overhead.ticks,
            overhead.missed,
            units::digits(overhead.latest.as_secs_f64() * KILO),
            units::digits(overhead.longest.as_secs_f64() * KILO),
        );
    }
    for fault in &trace.faults {
        let _ = writeln!(
            html,
            "<p>Device {}: {} failed {} times, first after {} s: {}.</p>",
            fault.device,
            fault.metric,
            fault.count,
            units::digits(fault.first.as_secs_f64()),
            fault.fault
        );
    }
    html
}
