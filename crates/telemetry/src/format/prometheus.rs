//! Text exposition format of Prometheus, for the newest row of each device.
//!
//! Source: Prometheus documentation, "Exposition formats", version 0.0.4.

use crate::device::{Device, Kind};
use crate::trace::{Row, Trace};
use crate::{Failure, Metric, Snapshot, Unit};
use std::fmt::Write as _;

/// Content type of the response to a scrape.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
const PREFIX: &str = "telemetry_";

/// Names and help texts of the metrics of the sampler's state, which have no labels.
const STATES: [(&str, &str); 2] = [
    (
        "telemetry_up",
        "1 while the source is sampled, 0 after a failure that ended sampling.",
    ),
    (
        "telemetry_sinks_failed",
        "Number of sinks, such as files, that failed and receive no more rows.",
    ),
];
/// Name of the metric for the time of a device's newest row with a value.
const LAST_SAMPLE: &str = "telemetry_last_sample_timestamp_seconds";
const NS_PER_S: f64 = 1e9;

/// Formats the state of a running sampler and the newest values of all devices.
#[must_use]
pub fn write_snapshot(snapshot: &Snapshot) -> String {
    let mut text = String::new();
    let is_over = snapshot.failures.iter().any(Failure::ends_sampling);
    let n_sinks = snapshot
        .failures
        .iter()
        .filter(|failure| !failure.ends_sampling())
        .count();
    for ((name, help), value) in STATES.into_iter().zip([usize::from(!is_over), n_sinks]) {
        let _ = writeln!(
            text,
            "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}"
        );
    }
    text + &write(&snapshot.trace)
}

/// Formats the values of the newest row of each device, and the time of the newest row with a
/// value, in s since 1970.
///
/// A device that is lost has no values, but keeps its time, from which an alert can be computed.
#[must_use]
pub fn write(trace: &Trace) -> String {
    let mut text = String::new();
    let newest_that = |is_wanted: fn(&Row) -> bool| -> Vec<&Row> {
        let newest_of = |device: usize| {
            let mut rows = trace.rows.iter().rev();
            rows.find(|row| row.device == device && is_wanted(row))
        };
        (0..trace.devices.len()).filter_map(newest_of).collect()
    };
    let newest = newest_that(|_| true);
    for metric in Metric::ALL {
        let name = name(metric);
        let mut has_begun = false;
        for row in &newest {
            // A missing value is left out, never written as zero.
            let Some(value) = row.values.get(metric) else {
                continue;
            };
            // The format wants HELP and TYPE once, before the first value of a metric.
            if !has_begun {
                has_begun = true;
                let kind = if metric == Metric::Energy {
                    "counter"
                } else {
                    "gauge"
                };
                let _ = writeln!(text, "# HELP {name} {}", help(metric));
                let _ = writeln!(text, "# TYPE {name} {kind}");
            }
            let labels = labels(&trace.devices[row.device], metric);
            let _ = writeln!(text, "{name}{{{labels}}} {value}");
        }
    }
    for (index, row) in newest_that(Row::has_value).into_iter().enumerate() {
        if index == 0 {
            let help = "Time of the newest row with a value, in s since 1970.";
            let _ = writeln!(
                text,
                "# HELP {LAST_SAMPLE} {help}\n# TYPE {LAST_SAMPLE} gauge"
            );
        }
        let device = &trace.devices[row.device];
        let (index, name) = (device.index.to_string(), escaped(&device.name));
        let time_s = trace.began_unix_ns as f64 / NS_PER_S + row.time.as_secs_f64();
        let _ = writeln!(
            text,
            "{LAST_SAMPLE}{{device=\"{index}\",name=\"{name}\"}} {time_s:.3}"
        );
    }
    text
}

/// Escapes backslashes, quotes and line breaks in the value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', r"\\")
        .replace('"', "\\\"")
        .replace('\n', r"\n")
}

/// Returns the Prometheus name of a metric, with the unit spelled out and `_total` for counters.
fn name(metric: Metric) -> String {
    let unit = match metric.unit() {
        Unit::Watt => "_watts",
        Unit::Joule => "_joules_total",
        Unit::Celsius => "_celsius",
        Unit::Percent => "_percent",
        Unit::Byte => "_bytes",
        Unit::Megahertz => "_megahertz",
        Unit::None => "",
    };
    format!("{PREFIX}{}{unit}", metric.name())
}

/// Returns the help text of a metric.
fn help(metric: Metric) -> &'static str {
    match metric {
        Metric::PowerInstant => "Mean power over the sensor's own averaging window.",
        Metric::PowerAverage => "Mean power over the last second.",
        Metric::PowerDraw => "Power as nvidia-smi prints it by default.",
        Metric::PowerModule => "Power of the module that contains the GPU and a CPU.",
        Metric::PowerMemory => "Power of device memory, included in the device's power.",
        Metric::PowerLimit => "The power limit in force.",
        Metric::Energy => "Energy since the driver was loaded, from the device's counter.",
        Metric::Temperature => "Temperature of the die.",
        Metric::GpuBusy => "Share of time during which a kernel ran.",
        Metric::MemoryBusy => "Share of time during which device memory was read or written.",
        Metric::MemoryUsed => "Device memory in use.",
        Metric::MemoryTotal => "Total device memory.",
        Metric::SmClock => "Clock frequency of the multiprocessors.",
        Metric::MemoryClock => "Clock frequency of the memory.",
        Metric::PerformanceState => "Performance state; 0 is the fastest.",
        Metric::ClockReasons => "Reasons for reduced clocks, as a bit mask of NVML.",
    }
}

fn labels(device: &Device, metric: Metric) -> String {
    let kind = match device.kind {
        Kind::Gpu => "gpu",
        Kind::Rapl => "rapl",
    };
    let index = device.index.to_string();
    let given = [
        ("device", Some(index.as_str())),
        ("kind", Some(kind)),
        ("name", Some(device.name.as_str())),
        ("uuid", device.uuid.as_deref()),
        ("driver", device.driver.as_deref()),
        ("field", device.field(metric)),
    ];
    let label = |(name, text): (&str, Option<&str>)| Some(format!("{name}=\"{}\"", escaped(text?)));
    given
        .into_iter()
        .filter_map(label)
        .collect::<Vec<_>>()
        .join(",")
}
