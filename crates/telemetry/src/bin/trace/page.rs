//! A trace of power and utilisation as an HTML page.
//!
//! Role: the report of `cargo xtask trace`: the devices and the sources of their numbers, the
//! energy, the reasons for idle time, and a chart like that of the original monitoring script
//! `gpu_trace.py`, with per cent on the left axis and energy on the right.
//! Method: a chart has at most two points per column, the minimum and the maximum of the column's
//! time, so no peak is lost and the size does not grow with the duration. Of a run of equal values
//! only the ends are drawn.
//! Limits: one chart per device.

use std::fmt::Write;
use std::ops::Range;
use std::time::Duration;

use anyhow::Result;
use charts::{Figure, Panel, Series, escape, units};
use telemetry::analysis::idle_periods_within;
use telemetry::probe::update_period;
use telemetry::{Device, EnergyTotal, Metric, SpanReport, Trace};

/// Number of columns of a chart. A column has at most two points.
const COLUMNS: usize = 300;
/// Maximum number of listed regions of code.
const MAX_REGIONS: usize = 200;
/// Number of points of an energy curve that is integrated from power.
const SUMMED: u32 = 60;
const KILO: f64 = 1e3;
const PER_CENT: f64 = 100.0;

/// Returns the HTML page of a trace. `is_cut` means that its command ran longer than the trace.
///
/// # Errors
/// The error of a chart that cannot be drawn.
pub(crate) fn trace_page(trace: &Trace, is_cut: bool) -> Result<String> {
    let mut body = String::from("<h1>Trace of power and utilisation</h1>\n");
    body += &summary(trace, is_cut);
    for (index, device) in trace.devices.iter().enumerate() {
        let _ = writeln!(body, "<h2>{}</h2>", escape(&named(device)));
        body += &energies(trace, index);
        for verdict in verdict(trace, index) {
            let _ = writeln!(body, "<p>{}</p>", escape(&verdict));
        }
        let figure = figure(trace, index);
        if !figure.panels.is_empty() {
            let svg = charts::draw(&figure)?;
            let caption = escape(&figure.caption);
            let _ = writeln!(
                body,
                "<figure><figcaption>{caption}</figcaption>\n{svg}</figure>"
            );
        }
        body += &fields(device, &sensors(trace, index));
    }
    body += &regions(trace);
    body += &costs(trace);
    let rows = trace.rows.len();
    let footer = format!("Page made {} from {rows} rows in memory.", charts::now());
    Ok(charts::page("Trace", &body, &footer))
}

/// Returns the verdict on a device in sentences, for the same time range as its energy.
pub(crate) fn verdict(trace: &Trace, device: usize) -> Vec<String> {
    match idle_periods_within(trace, device, window(trace, device)) {
        Ok(found) => vec![found.to_string()],
        Err(telemetry::Error::Unavailable { .. }) => {
            vec!["Idle time is unknown: utilisation and power have too few readings.".to_owned()]
        }
        Err(telemetry::Error::ParameterInvalid { .. }) => {
            vec!["No verdict: the time is shorter than one update of the power sensor.".to_owned()]
        }
        Err(why) => vec![why.to_string()],
    }
}

/// Returns the time range for which a device's energy is reported: that of the only region of code,
/// such as a command, or from the first row to the last if there is not exactly one region.
pub(crate) fn window(trace: &Trace, device: usize) -> Range<Duration> {
    if let [only] = &trace.regions[..] {
        return only.start..only.end;
    }
    let mut rows = trace.device_rows(device).map(|row| row.time);
    let start = rows.next().unwrap_or_default();
    start..rows.last().unwrap_or(start)
}

/// Describes the measured update interval of each power metric of a device and the interval in the
/// sensor table.
pub(crate) fn sensors(trace: &Trace, device: usize) -> Vec<String> {
    let about = &trace.devices[device];
    let is_reported = |metric: &Metric| about.field(*metric).is_some();
    let said = |metric: Metric| {
        let class = about.sensor_class(metric);
        let known = class.map(|class| {
            let (update_s, window_s) = class.update_and_window_s();
            let [update_ms, window_ms] = [update_s, window_s].map(|s| units::digits(s * KILO));
            format!(
                "every {update_ms} ms over a window of {window_ms} ms according to the sensor table"
            )
        });
        let seen = update_period(trace, device, metric).map(|seen| {
            let (ms, off_ms) = (seen.value_s * KILO, seen.uncertainty_s * KILO);
            format!("every {ms:.2} ± {off_ms:.2} ms in this trace")
        });
        match (seen, known) {
            (Some(seen), Some(known)) => format!("{metric} is updated {seen}, {known}."),
            (Some(one), None) | (None, Some(one)) => format!("{metric} is updated {one}."),
            (None, None) => format!(
                "The update interval of {metric} is unknown; rows every 10 ms under varying load may show it."
            ),
        }
    };
    Metric::POWERS
        .into_iter()
        .filter(is_reported)
        .map(said)
        .collect()
}

/// Returns the reason why there is no energy.
pub(crate) fn no_energy(device: &Device) -> &'static str {
    // A file of the original monitoring script does not list the device's metrics.
    if device.reports_energy() || device.capabilities.is_empty() {
        "no energy: too few samples, or no metric for energy or power"
    } else {
        "the device reports neither energy nor power"
    }
}

/// Returns a device's index within its source and its name.
pub(crate) fn named(device: &Device) -> String {
    format!("{} {}", device.index, device.name)
}

fn summary(trace: &Trace, is_cut: bool) -> String {
    let region = match &trace.regions[..] {
        [only] => {
            let seconds = only.end.saturating_sub(only.start).as_secs_f64();
            let part = if is_cut {
                format!("the first {} s of ", units::digits(seconds))
            } else {
                String::new()
            };
            let name = escape(&only.name);
            format!(" Energies are those of {part}<code>{name}</code>.")
        }
        _ => String::new(),
    };
    let kept_ms = trace.interval.as_secs_f64() * KILO;
    let rounds = trace.overhead.filter(|overhead| overhead.ticks > 0);
    let sampled_ms = rounds.map(|overhead| {
        overhead.wall.as_secs_f64() * KILO / (overhead.ticks + overhead.missed) as f64
    });
    // The rows in memory are limited; those in the file are not.
    let sampled = match sampled_ms {
        Some(ms) if kept_ms > 1.5 * ms => {
            format!(
                " sampled every {} ms, of which this page has rows",
                units::digits(ms)
            )
        }
        _ => String::new(),
    };
    format!(
        "<p class=\"lead\">Source {}, {} device(s),{sampled} every {} ms for {} s.{region}</p>\n",
        escape(&trace.source),
        trace.devices.len(),
        units::digits(kept_ms),
        units::digits(trace.duration().as_secs_f64()),
    )
}

fn energies(trace: &Trace, device: usize) -> String {
    match trace.energy(device, window(trace, device)) {
        Some(energy) => format!("<p><b>{}</b></p>\n", escape(&format!("{energy}"))),
        None => format!("<p>{}</p>\n", escape(no_energy(&trace.devices[device]))),
    }
}

/// Draws a chart like that of the original monitoring script: percentages on the left axis, energy
/// on the right axis.
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
    let power = Metric::POWERS
        .into_iter()
        .find(|&metric| last(metric).is_some());
    let left = [
        (
            "power (% of limit)",
            power,
            limit.or_else(|| last(Metric::PowerLimit)),
        ),
        (
            "GPU busy (% of time)",
            Some(Metric::GpuBusy),
            Some(PER_CENT),
        ),
        (
            "memory busy (% of time)",
            Some(Metric::MemoryBusy),
            Some(PER_CENT),
        ),
        (
            "memory in use (% of total)",
            Some(Metric::MemoryUsed),
            last(Metric::MemoryTotal),
        ),
    ];
    let left = left
        .into_iter()
        .filter_map(|(name, metric, whole)| Some(Series::through(name, share(metric?, whole))));
    let energy = Series::through("energy (right)", energy(trace, device)).on_the_right();
    let lines: Vec<Series> = left
        .chain([energy])
        .filter(|line| !line.points.is_empty())
        .collect();
    if lines.is_empty() {
        return Figure::default();
    }
    let has_energy = lines.iter().any(|line| line.is_right);
    Figure {
        caption: "Percentages on the left axis, energy since the start on the right axis."
            .to_owned(),
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

/// Returns the points of the energy curve: a time, in s, and the energy until this time, in kJ. The
/// energy is that of the counter, or is integrated from power if there is no counter.
fn energy(trace: &Trace, device: usize) -> Vec<(f64, f64)> {
    let mut counted = EnergyTotal::default();
    let readings = trace.series(device, Metric::Energy).into_iter();
    let counts: Vec<_> = readings
        .map(|(time_s, reported_j)| {
            let time = Duration::try_from_secs_f64(time_s).unwrap_or(Duration::MAX);
            (time_s, counted.add(time, reported_j) / KILO)
        })
        .collect();
    if !counts.is_empty() {
        return thinned(&counts);
    }
    let rows: Vec<Duration> = trace.device_rows(device).map(|row| row.time).collect();
    let (Some(&start), Some(&end)) = (rows.first(), rows.last()) else {
        return vec![];
    };
    let summed = |step: u32| {
        let until = start + (end - start).mul_f64(f64::from(step) / f64::from(SUMMED));
        let joules = trace.energy(device, start..until)?.joules;
        Some((until.as_secs_f64(), joules / KILO))
    };
    (1..=SUMMED).filter_map(summed).collect()
}

/// Returns the points to draw, in the order of time. Of a column of many points only the minimum
/// and the maximum remain, and of a run of equal values only the two ends.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut points = of_columns(points);
    let is_between = |i: usize| {
        i > 0
            && i + 1 < points.len()
            && points[i - 1].1 == points[i].1
            && points[i].1 == points[i + 1].1
    };
    let keeps: Vec<bool> = (0..points.len()).map(|i| !is_between(i)).collect();
    let mut keeps = keeps.into_iter();
    points.retain(|_| keeps.next().unwrap_or(true));
    points
}

fn of_columns(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
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

/// Lists the source of each number and the update intervals of the sensors.
fn fields(device: &Device, sensors: &[String]) -> String {
    let mut html = String::from("<details><summary>Sources of the numbers</summary>\n<table>\n");
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
    html += "</table>\n";
    for sensor in sensors {
        let _ = writeln!(html, "<p>{}</p>", escape(sensor));
    }
    html + "</details>\n"
}

/// Lists regions of code with their times and energies.
fn regions(trace: &Trace) -> String {
    if trace.regions.is_empty() {
        return String::new();
    }
    let left_out =
        trace.n_regions_left_out + trace.regions.len().saturating_sub(MAX_REGIONS) as u64;
    let spent = trace.regions.iter().take(MAX_REGIONS);
    let mut html = String::from(
        "<h2>Regions</h2>\n<table>\n<thead><tr><th>region</th><th>s</th><th>J</th><th>between</th></tr></thead>\n<tbody>\n",
    );
    for region in spent.map(|mark| SpanReport::from_region(trace, mark)) {
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
    html += "</tbody>\n</table>\n";
    if left_out > 0 {
        let _ = writeln!(html, "<p>{left_out} more are in the file of rows.</p>");
    }
    html
}

/// Reports the cost of sampling and the metrics that failed.
fn costs(trace: &Trace) -> String {
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
    for fault in &trace.faults {
        let _ = writeln!(
            html,
            "<p>{}: {} failed {} times, first after {} s: {}.</p>",
            escape(
                &trace
                    .devices
                    .get(fault.device)
                    .map_or_else(String::new, named)
            ),
            fault.metric,
            fault.count,
            units::digits(fault.first.as_secs_f64()),
            fault.fault
        );
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;
    use telemetry::Sampler;
    use telemetry::synthetic::{Board, Model, PowerProfile, Quantity, Scenario, Synthetic};

    const TEN_MINUTES: Duration = Duration::from_secs(600);

    fn recorded(boards: &[Board], duration: Duration) -> Trace {
        let mut scenario = Scenario::from_boards(boards);
        for gpu in &mut scenario.gpus {
            gpu.power = PowerProfile::square(40.0, 160.0, 2.7, 0.6);
            gpu.utilisation.gpu_pct = Quantity::square(3.0, 98.0, 2.7, 0.6);
            gpu.utilisation.memory_pct = Quantity::square(1.0, 45.0, 2.7, 0.6);
        }
        let source = Synthetic::new(Model::new(scenario).unwrap());
        Sampler::new(source).record(duration).unwrap()
    }

    #[test]
    fn a_page_of_ten_minutes_is_small_and_needs_no_network() {
        for boards in [&[Board::T4][..], &[Board::A100; 8]] {
            let page = trace_page(&recorded(boards, TEN_MINUTES), false).unwrap();
            assert!(page.len() <= 300_000, "{} B", page.len());
            for link in ["src=", "href=", "@import", "url("] {
                assert!(!page.contains(link), "{link}");
            }
            assert_eq!(page.matches("<svg").count(), boards.len());
        }
    }

    #[test]
    fn energy_is_drawn_with_a_counter_and_without_one() {
        for (board, has_counter) in [(Board::V100, true), (Board::P100, false)] {
            let trace = recorded(&[board], Duration::from_secs(60));
            assert_eq!(!trace.series(0, Metric::Energy).is_empty(), has_counter);
            let energy = energy(&trace, 0);
            assert!(energy.windows(2).all(|two| two[0].1 <= two[1].1));
            // 60 % of the time at 160 W and 40 % at 40 W are 112 W on average.
            let &(end_s, kilojoules) = energy.last().unwrap();
            let truth = 0.112 * end_s;
            assert!(
                (kilojoules - truth).abs() < 0.03 * truth,
                "{board:?} {kilojoules} {truth}"
            );
        }
    }

    #[test]
    fn thinning_loses_no_peak() {
        let mut points: Vec<_> = (0..50_000).map(|i| (f64::from(i), 1.0)).collect();
        points[12_345].1 = 9.0;
        points[40_000].1 = -3.0;
        let thin = thinned(&points);
        assert!(thin.len() <= 2 * COLUMNS);
        assert!(thin.contains(&(12_345.0, 9.0)) && thin.contains(&(40_000.0, -3.0)));
        assert!(thin.windows(2).all(|two| two[0].0 <= two[1].0));
        assert!(thin.len() < 12, "{thin:?}");
        let ramp: Vec<_> = (0..500).map(|i| (f64::from(i), f64::from(i))).collect();
        assert_eq!(thinned(&ramp), ramp);
    }

    #[test]
    fn energy_is_reported_of_the_only_region_or_of_the_whole() {
        let mut trace = recorded(&[Board::T4], Duration::from_secs(20));
        assert_eq!(window(&trace, 0), Duration::ZERO..Duration::from_secs(20));
        let mark = |from_s, to_s| telemetry::Region {
            name: "job <1>".to_owned(),
            start: Duration::from_secs(from_s),
            end: Duration::from_secs(to_s),
            depth: 0,
            thread: 0,
        };
        trace.regions = vec![mark(3, 12)];
        assert_eq!(
            window(&trace, 0),
            Duration::from_secs(3)..Duration::from_secs(12)
        );
        let page = trace_page(&trace, false).unwrap();
        assert!(page.contains("Energies are those of <code>job &lt;1&gt;</code>."));
        let page = trace_page(&trace, true).unwrap();
        assert!(page.contains("Energies are those of the first 9.00 s of <code>job"));
        trace.regions.push(mark(13, 14));
        assert_eq!(window(&trace, 0), Duration::ZERO..Duration::from_secs(20));
    }
}
