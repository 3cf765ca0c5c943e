//! Tables of the page: sources of the numbers, regions of code, and the cost of sampling.

use std::fmt::Write;

use charts::{escape, units};
use telemetry::{Device, SpanReport, Trace};

use super::{KILO, PER_CENT};
use crate::findings::{DeviceFindings, Findings};

/// Maximum number of listed regions of code.
const MAX_REGIONS: usize = 200;

/// Lists the source of each number and the update intervals of the sensors.
pub(super) fn fields(device: &Device, found: &DeviceFindings) -> String {
    let mut html = String::from(
        "<details><summary>Sources of the numbers</summary>\n<div class=\"wide\"><table>\n",
    );
    let about = [
        ("UUID", &device.uuid),
        ("PCI bus id", &device.pci),
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
    html += "</table></div>\n";
    for sensor in &found.sensors {
        let _ = writeln!(html, "<p>{}</p>", escape(&sensor.sentence()));
    }
    html + "</details>\n"
}

/// Lists regions of code with their times and energies.
pub(super) fn regions(found: &Findings<'_>) -> String {
    let trace = found.trace;
    if trace.regions.is_empty() {
        return String::new();
    }
    let left_out =
        trace.n_regions_left_out + trace.regions.len().saturating_sub(MAX_REGIONS) as u64;
    let mut html = String::from(
        "<h2>Regions</h2>\n<div class=\"wide\"><table>\n<thead><tr><th>region</th><th>s</th><th>J</th><th>between</th></tr></thead>\n<tbody>\n",
    );
    for region in found.regions.iter().take(MAX_REGIONS) {
        let total = region.total();
        let joules = total.as_ref().map_or_else(
            || "unknown".to_owned(),
            |total| {
                // A part of the devices is marked, because the total is not that of the region.
                let mark = if total.is_complete() { "" } else { "*" };
                format!("{}{mark}", units::digits(total.joules))
            },
        );
        let interval = total.as_ref().map_or_else(String::new, |total| {
            format!(
                "{} and {}",
                units::digits(total.interval.low_j),
                units::digits(total.interval.high_j)
            )
        });
        let _ = writeln!(
            html,
            "<tr class=\"line\"><th style=\"overflow-wrap:anywhere\">{}</th><td class=\"number\">{}</td><td class=\"number\">{joules}</td><td>{interval}</td></tr>",
            escape(&region.name),
            units::digits(region.duration().as_secs_f64()),
        );
    }
    html += "</tbody>\n</table></div>\n";
    let is_partial = |region: &SpanReport| region.total().is_some_and(|it| !it.is_complete());
    if found.regions.iter().any(is_partial) {
        html += "<p>* Known devices only.</p>\n";
    }
    if left_out > 0 {
        let _ = writeln!(html, "<p>{left_out} more are in the file of rows.</p>");
    }
    html
}

/// Reports the cost of sampling.
pub(super) fn costs(trace: &Trace) -> String {
    let mut html = String::from("<h2>Sampling</h2>\n");
    if let Some(overhead) = trace.overhead {
        let wall_s = Some(overhead.wall.as_secs_f64()).filter(|&wall_s| wall_s > 0.0);
        let share = overhead.cpu.zip(wall_s);
        let share = share.map(|(cpu, wall_s)| cpu.as_secs_f64() / wall_s * PER_CENT);
        let cpu = share.map_or_else(|| "unknown".to_owned(), |share| format!("{share:.3} %"));
        let _ = writeln!(
            html,
            "<p>{} sampling rounds, {} skipped; maximum delay of a round {} ms, maximum duration {} ms; CPU use {cpu} of a core.</p>",
            overhead.ticks,
            overhead.missed,
            units::digits(overhead.latest.as_secs_f64() * KILO),
            units::digits(overhead.longest.as_secs_f64() * KILO),
        );
    }
    html
}
