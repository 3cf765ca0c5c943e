//! A trace of power and utilisation as an HTML page.
//!
//! Role: the report of `cargo xtask trace`: the total over several devices with an overview of
//! their power, and for each device the energy, the reasons for idle time, and a chart of power,
//! energy, utilisation, clocks and temperature over time.
//! Limits: a page of several devices has fewer points per chart.

mod tables;

use std::fmt::Write;
use std::ops::Range;
use std::time::Duration;

use anyhow::Result;
use charts::{Ink, escape, units};
use telemetry::{Device, Metric, Row, Trace};

use crate::chart::{Chart, Line, Strip, draw, from_zero, steps, thinned};
use crate::findings::{DeviceFindings, Findings, named, no_energy};
use tables::{costs, fields, regions};

/// Number of columns of the charts of a page with one device. A column has at most two points.
const COLUMNS: usize = 300;
/// Number of columns of the charts of a page with several devices.
const FEW_COLUMNS: usize = 120;
/// Number of devices from which on the charts have fewer columns and are folded.
const MANY: usize = 3;
/// Maximum number of regions of code in a chart.
const MAX_DRAWN: usize = 40;
/// Number of points of an energy curve.
const ENERGIES: u32 = 40;
const KILO: f64 = 1e3;
const PER_CENT: f64 = 100.0;

/// Returns the HTML page of a trace.
///
/// # Errors
/// The error of a chart that cannot be drawn.
pub(crate) fn trace_page(found: &Findings<'_>) -> Result<String> {
    let trace = found.trace;
    let mut body = String::from("<h1>Trace of power and utilisation</h1>\n");
    body += &summary(found);
    if found.devices.len() > 1 {
        body += &overview(found)?;
    }
    let is_folded = found.devices.len() >= MANY;
    for (index, (device, device_found)) in found.each().enumerate() {
        let name = escape(&named(device));
        if is_folded {
            let energy = brief_energy(device_found);
            let _ = writeln!(body, "<details><summary>{name}: {energy}</summary>");
        } else {
            let _ = writeln!(body, "<h2>{name}</h2>");
        }
        body += &energies(device, device_found);
        let _ = writeln!(body, "<p>{}</p>", escape(&device_found.verdict()));
        for failure in device_found.failures() {
            let _ = writeln!(body, "<p>{}</p>", escape(&failure));
        }
        let chart = device_chart(found, index);
        if !chart.strips.is_empty() {
            body += &figure(
                &chart,
                "Readings are steps: a value holds until the next reading. Utilisation is a mean \
                 over a window of its own and lags behind power. The band around the energy is its \
                 error interval.",
            )?;
        }
        body += &fields(device, device_found);
        if is_folded {
            body += "</details>\n";
        }
    }
    body += &regions(found);
    body += &costs(trace);
    let rows = trace.rows.len();
    let footer = format!("Page created {} from {rows} rows in memory.", charts::now());
    Ok(charts::page("Trace", &body, &footer))
}

fn figure(chart: &Chart, caption: &str) -> Result<String> {
    let svg = draw(chart)?;
    let mut caption = caption.to_owned();
    if chart.strips.iter().any(|strip| !strip.gaps.is_empty()) {
        caption += " Red areas have no readings.";
    }
    if !chart.regions.is_empty() {
        caption += " Grey areas are regions of code.";
    }
    Ok(format!(
        "<figure><figcaption>{caption}</figcaption>\n{svg}</figure>\n"
    ))
}

/// Returns a text with its first letter in upper case.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters.as_str().chars()).collect()
}

/// Returns the total energy, and a chart of total power and of the power of each device.
fn overview(found: &Findings<'_>) -> Result<String> {
    let mut html = String::from("<h2>All devices</h2>\n");
    if let Some(total) = &found.total {
        let (low, high) = (total.interval.low_j, total.interval.high_j);
        let _ = writeln!(html, "<p><b>{}</b></p>", between(total.joules, low, high));
    }
    if let Some(missing) = found.missing() {
        let _ = writeln!(html, "<p>{}.</p>", escape(&sentence(&missing)));
    }
    let columns = columns(found);
    let lines: Vec<_> = (0..found.devices.len())
        .map(|device| power_line(found, device))
        .collect();
    let points = lines
        .iter()
        .flatten()
        .flat_map(|line| line.parts.iter().flatten());
    let same_range = from_zero(points.map(|point| point.1));
    let gaps = found
        .devices
        .iter()
        .flat_map(|device| gaps(found.trace, device));
    let total = Line {
        name: String::new(),
        ink: Ink::Text,
        parts: total_power(found, columns),
        band: vec![],
    };
    let mut strips = vec![Strip {
        title: "total power (W)".to_owned(),
        height: 150,
        values: None,
        lines: vec![total],
        gaps: gaps.collect(),
    }];
    for ((device, device_found), line) in found.each().zip(lines) {
        strips.push(Strip {
            title: format!("{} (W), {}", named(device), brief_energy(device_found)),
            height: 60,
            values: Some(same_range.clone()),
            lines: line.into_iter().collect(),
            gaps: gaps_of(found.trace, device_found),
        });
    }
    let chart = Chart {
        label: "Power of all devices over time".to_owned(),
        time_s: time_s(found.trace),
        strips,
        regions: drawn_regions(found.trace),
    };
    Ok(html + &figure(&chart, "Power of all devices together, and of each device.")?)
}

/// Returns an energy with its interval as a sentence without a full stop.
fn between(joules: f64, low_j: f64, high_j: f64) -> String {
    let [joules, low, high] = [joules, low_j, high_j].map(units::digits);
    format!("{joules} J, between {low} and {high} J")
}

/// Returns the energy of a device with its interval, in short.
fn brief_energy(found: &DeviceFindings) -> String {
    found.energy.as_ref().map_or_else(
        || "energy unknown".to_owned(),
        |energy| between(energy.joules, energy.interval.low_j, energy.interval.high_j),
    )
}

fn energies(device: &Device, found: &DeviceFindings) -> String {
    match &found.energy {
        Some(energy) => format!(
            "<p><b>{}</b></p>\n<p class=\"muted\">{}</p>\n",
            brief_energy(found),
            escape(&format!(
                "{energy}. Mean power {} W.",
                units::digits(energy.mean_w())
            ))
        ),
        None => format!("<p>{}</p>\n", escape(no_energy(device))),
    }
}

fn columns(found: &Findings<'_>) -> usize {
    if found.devices.len() < MANY {
        COLUMNS
    } else {
        FEW_COLUMNS
    }
}

fn time_s(trace: &Trace) -> Range<f64> {
    let start_s = trace.rows.first().map_or(0.0, |row| row.time.as_secs_f64());
    let end_s = trace.duration().as_secs_f64();
    // An empty range cannot be drawn. Late times resolve no millisecond.
    start_s..end_s.max(start_s + 1e-3_f64.max(1e-9 * start_s))
}

/// Returns the outermost regions of a trace for a chart.
fn drawn_regions(trace: &Trace) -> Vec<(String, Range<f64>)> {
    let outer = trace.regions.iter().filter(|region| region.depth == 0);
    let times = |region: &telemetry::Region| region.start.as_secs_f64()..region.end.as_secs_f64();
    let named = outer.map(|region| (region.name.clone(), times(region)));
    named.take(MAX_DRAWN).collect()
}

/// Returns the times without readings of a device, in s.
fn gaps<'a>(trace: &'a Trace, found: &'a DeviceFindings) -> impl Iterator<Item = Range<f64>> + 'a {
    found.gaps.iter().map(|gap| {
        let end = gap.end.unwrap_or(trace.duration());
        gap.start.as_secs_f64()..end.as_secs_f64()
    })
}

fn gaps_of(trace: &Trace, found: &DeviceFindings) -> Vec<Range<f64>> {
    gaps(trace, found).collect()
}

/// Splits readings (time in s, value or none) into parts without gaps, as steps. A value holds
/// until the next reading, also until one that failed, but not through a pause of sampling. A part
/// of a single reading without a duration is left out.
fn parts(
    readings: &[(f64, Option<f64>)],
    gaps: &[Range<f64>],
    columns: usize,
) -> Vec<Vec<(f64, f64)>> {
    let n_values = readings
        .iter()
        .filter(|reading| reading.1.is_some())
        .count();
    let width = n_values.div_ceil(columns);
    let mut parts = vec![];
    let mut part: Vec<(f64, f64)> = vec![];
    let mut end = |part: &mut Vec<(f64, f64)>, end_s: f64| {
        if part.first().is_some_and(|first| first.0 < end_s) {
            parts.push(steps(&thinned(part, width), end_s));
        }
        part.clear();
    };
    for &(time_s, value) in readings {
        match value {
            Some(value) => part.push((time_s, value)),
            None => end(&mut part, time_s),
        }
        // The last reading before a gap is at the start of the gap.
        if gaps.iter().any(|gap| gap.contains(&time_s)) {
            end(&mut part, time_s);
        }
    }
    let last_s = readings.last().map_or(0.0, |reading| reading.0);
    end(&mut part, last_s);
    parts
}

/// Returns the line of a quantity of a device; `None` without any value.
fn line(
    found: &Findings<'_>,
    device: usize,
    (name, ink): (&str, Ink),
    value: impl Fn(&Row) -> Option<f64>,
) -> Option<Line> {
    let rows = found.trace.device_rows(device);
    let readings: Vec<_> = rows
        .map(|row| (row.time.as_secs_f64(), value(row)))
        .collect();
    let gaps = gaps_of(found.trace, &found.devices[device]);
    let parts = parts(&readings, &gaps, columns(found));
    (!parts.is_empty()).then(|| Line {
        name: name.to_owned(),
        ink,
        parts,
        band: vec![],
    })
}

/// Returns the best metric of power that a device has readings of.
fn power_metric(trace: &Trace, device: usize) -> Option<Metric> {
    let has_value = |&metric: &Metric| {
        let mut rows = trace.device_rows(device);
        rows.any(|row| row.values.get(metric).is_some())
    };
    Metric::POWERS.into_iter().find(has_value)
}

fn power_line(found: &Findings<'_>, device: usize) -> Option<Line> {
    let metric = power_metric(found.trace, device)?;
    line(found, device, ("", Ink::Cpu), |row| row.values.get(metric))
}

/// Returns the sum of the power of all devices that report power, in steps; a time at which one of
/// them has no reading is a gap, and so is a pause of sampling.
fn total_power(found: &Findings<'_>, columns: usize) -> Vec<Vec<(f64, f64)>> {
    let trace = found.trace;
    let metrics: Vec<_> = (0..trace.devices.len())
        .map(|device| power_metric(trace, device))
        .collect();
    let reporting: Vec<usize> = (0..metrics.len())
        .filter(|&i| metrics[i].is_some())
        .collect();
    let Some(&last) = reporting.last() else {
        return vec![];
    };
    // The newest power of another device is out of date in a gap of that device.
    let others = reporting.iter().filter(|&&device| device != last);
    let gaps_of_others: Vec<_> = others
        .flat_map(|&device| gaps(trace, &found.devices[device]))
        .collect();
    let mut newest: Vec<Option<f64>> = vec![None; metrics.len()];
    let mut readings = vec![];
    for row in &trace.rows {
        newest[row.device] = metrics[row.device].and_then(|metric| row.values.get(metric));
        // The devices are read one after the other, and a sum is complete with the last one.
        if row.device == last {
            let time_s = row.time.as_secs_f64();
            let sum: Option<f64> = reporting.iter().map(|&device| newest[device]).sum();
            let is_known = !gaps_of_others.iter().any(|gap| gap.contains(&time_s));
            readings.push((time_s, sum.filter(|_| is_known)));
        }
    }
    parts(&readings, &gaps_of(trace, &found.devices[last]), columns)
}

/// Returns the energy of a device from the start of its window on, with its interval.
fn energy_line(found: &Findings<'_>, device: usize) -> Option<(Line, f64, &'static str)> {
    let window = found.devices[device].window.clone();
    let length = window.end.saturating_sub(window.start);
    let many = u32::try_from(found.devices.len()).unwrap_or(1);
    let n_points = (ENERGIES / many).max(8);
    let at = |step: u32| {
        let share = f64::from(step) / f64::from(n_points);
        // The product of a length near the limit of its type may be rounded up beyond the limit.
        let passed = Duration::try_from_secs_f64(share * length.as_secs_f64()).unwrap_or(length);
        let end = window.start.saturating_add(passed);
        let energy = found.trace.energy(device, window.start..end)?;
        Some((end.as_secs_f64(), energy.joules, energy.interval))
    };
    let points: Vec<_> = (1..=n_points).filter_map(at).collect();
    let highest = points
        .iter()
        .map(|point| point.2.high_j)
        .fold(0.0, f64::max);
    let (joules, unit) = if highest >= 10.0 * KILO {
        (KILO, "kJ")
    } else {
        (1.0, "J")
    };
    let start_s = window.start.as_secs_f64();
    let zero = || (start_s, 0.0);
    let curve = points.iter().map(|&(s, value, _)| (s, value / joules));
    let band = points
        .iter()
        .map(|&(s, _, interval)| (s, interval.low_j / joules, interval.high_j / joules));
    let line = Line {
        name: String::new(),
        ink: Ink::adapter(0),
        parts: vec![[zero()].into_iter().chain(curve).collect()],
        band: [(start_s, 0.0, 0.0)].into_iter().chain(band).collect(),
    };
    (!points.is_empty()).then_some((line, joules, unit))
}

/// Returns the chart of a device: power, energy, utilisation, clocks and temperature.
fn device_chart(found: &Findings<'_>, device: usize) -> Chart {
    let trace = found.trace;
    let limit_w = trace.devices[device].limits.set_w;
    let of = |name, ink, metric: Metric| {
        line(found, device, (name, ink), move |row| {
            row.values.get(metric)
        })
    };
    let share = |row: &Row| {
        let (used, whole) = (
            row.values.get(Metric::MemoryUsed)?,
            row.values.get(Metric::MemoryTotal)?,
        );
        (whole > 0.0).then(|| used / whole * PER_CENT)
    };
    let power = power_line(found, device);
    let limit = limit_w.map_or_else(String::new, |watts| {
        format!(", limit {} W", units::digits(watts))
    });
    let energy = energy_line(found, device);
    let energy_unit = energy.as_ref().map_or("J", |energy| energy.2);
    let groups = [
        (format!("power (W){limit}"), 130, None, vec![power]),
        (
            format!("energy ({energy_unit}), with its error interval"),
            110,
            None,
            vec![energy.map(|energy| energy.0)],
        ),
        (
            "share (%)".to_owned(),
            95,
            Some(0.0..105.0),
            vec![
                of("GPU busy", Ink::adapter(1), Metric::GpuBusy),
                of("memory busy", Ink::adapter(2), Metric::MemoryBusy),
                line(found, device, ("memory used", Ink::adapter(3)), share),
            ],
        ),
        (
            "clocks (MHz)".to_owned(),
            75,
            None,
            vec![
                of("multiprocessors", Ink::Cpu, Metric::SmClock),
                of("memory", Ink::adapter(2), Metric::MemoryClock),
            ],
        ),
        (
            "temperature (°C)".to_owned(),
            60,
            None,
            vec![of("", Ink::adapter(3), Metric::Temperature)],
        ),
    ];
    let strips = groups
        .into_iter()
        .filter_map(|(title, height, values, lines)| {
            let lines: Vec<Line> = lines.into_iter().flatten().collect();
            (!lines.is_empty()).then(|| Strip {
                title,
                height,
                values,
                lines,
                gaps: gaps_of(trace, &found.devices[device]),
            })
        });
    Chart {
        label: format!("{} over time", named(&trace.devices[device])),
        time_s: time_s(trace),
        strips: strips.collect(),
        regions: drawn_regions(trace),
    }
}

fn summary(found: &Findings<'_>) -> String {
    let (trace, is_cut) = (found.trace, found.is_cut);
    let region = match &trace.regions[..] {
        [only] => {
            let seconds = only.end.saturating_sub(only.start).as_secs_f64();
            let part = if is_cut {
                format!("the first {} s of ", units::digits(seconds))
            } else {
                String::new()
            };
            let name = escape(&only.name);
            format!(
                " Energies are those of {part}<code style=\"overflow-wrap:anywhere\">{name}</code>."
            )
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

    fn page(trace: &Trace, is_cut: bool) -> String {
        trace_page(&Findings::new(trace, is_cut)).unwrap()
    }

    #[test]
    fn a_page_of_ten_minutes_is_small_and_needs_no_network() {
        const MOST_PER_CHART: usize = 100_000;
        // Several devices have one more chart, the overview.
        for (boards, n_charts) in [(&[Board::T4][..], 1), (&[Board::A100; 8], 9)] {
            let page = page(&recorded(boards, TEN_MINUTES), false);
            assert!(page.len() <= n_charts * MOST_PER_CHART, "{} B", page.len());
            for link in ["src=", "href=", "@import", "url("] {
                assert!(!page.contains(link), "{link}");
            }
            // One for wide and one for narrow screens.
            assert_eq!(page.matches("<svg").count(), 2 * n_charts);
            assert_eq!(
                page.matches("<div class=\"narrow-only\"><svg").count(),
                n_charts
            );
        }
    }

    #[test]
    fn energy_is_drawn_with_a_counter_and_without_one() {
        for (board, has_counter) in [(Board::V100, true), (Board::P100, false)] {
            let trace = recorded(&[board], Duration::from_secs(60));
            assert_eq!(!trace.series(0, Metric::Energy).is_empty(), has_counter);
            let (line, joules, unit) = energy_line(&Findings::new(&trace, false), 0).unwrap();
            // The upper ends of the intervals differ: one is above 10 kJ.
            assert!([(1.0, "J"), (KILO, "kJ")].contains(&(joules, unit)));
            let points = &line.parts[0];
            assert!(points.windows(2).all(|two| two[0].1 <= two[1].1));
            // 60 % of the time at 160 W and 40 % at 40 W are 112 W on average.
            let &(end_s, value) = points.last().unwrap();
            let truth = 112.0 * end_s / joules;
            assert!(
                (value - truth).abs() < 0.03 * truth,
                "{board:?} {value} {truth}"
            );
            let &(_, low, high) = line.band.last().unwrap();
            assert!(
                (low..=high).contains(&truth),
                "{board:?} {low} {high} {truth}"
            );
        }
    }

    #[test]
    fn lines_end_where_readings_end_and_the_total_of_power_is_that_of_all_devices() {
        let mut trace = recorded(&[Board::V100; 2], Duration::from_secs(30));
        let total_of = |trace: &Trace| total_power(&Findings::new(trace, false), COLUMNS);
        let total = total_of(&trace);
        assert_eq!(total.len(), 1);
        let highest = total[0].iter().map(|point| point.1).fold(0.0, f64::max);
        assert!((highest - 320.0).abs() < 20.0, "{highest}");
        let (from, to) = (Duration::from_secs(10), Duration::from_secs(12));
        for row in &mut trace.rows {
            if row.device == 1 && (from..to).contains(&row.time) {
                row.values = telemetry::Values::none();
            }
        }
        let found = Findings::new(&trace, false);
        let gap = found.devices[1].gaps[0];
        assert!(
            gap.n_empty > 0 && (gap.start, gap.end) == (from, Some(to)),
            "{gap:?}"
        );
        assert!(found.devices[0].gaps.is_empty());
        let power = power_line(&found, 1).unwrap();
        assert_eq!(power.parts.len(), 2);
        assert_eq!(power.parts[0].last().unwrap().0, 10.0);
        assert_eq!(power.parts[1][0].0, 12.0);
        assert_eq!(total_power(&found, COLUMNS).len(), 2);
        assert!(
            trace_page(&found)
                .unwrap()
                .contains("No readings from 10.0 s to 12.0 s.")
        );
        // After a pause of sampling, in which the second device is read a moment after the first.
        let moment = Duration::from_millis(1);
        trace.rows.retain(|row| !(from..to).contains(&row.time));
        for row in trace.rows.iter_mut().filter(|row| row.device == 1) {
            row.time += moment;
        }
        let total = total_of(&trace);
        assert_eq!(total.len(), 2);
        assert!(total[0].last().unwrap().0 < 10.0 && total[1][0].0 >= 12.0);
    }

    #[test]
    fn the_total_of_power_has_a_gap_where_one_device_has_no_rows() {
        let (from, to) = (Duration::from_secs(10), Duration::from_secs(12));
        for without in [0, 1] {
            let mut trace = recorded(&[Board::V100; 2], Duration::from_secs(30));
            trace
                .rows
                .retain(|row| row.device != without || !(from..to).contains(&row.time));
            let total = total_power(&Findings::new(&trace, false), COLUMNS);
            assert_eq!(total.len(), 2, "{without}");
            let (end_s, start_s) = (total[0].last().unwrap().0, total[1][0].0);
            assert!((9.5..=10.0).contains(&end_s), "{without}: {end_s}");
            assert!((12.0..12.5).contains(&start_s), "{without}: {start_s}");
            // The rows of the device end before those of the other device.
            trace
                .rows
                .retain(|row| row.device != without || row.time < from);
            let total = total_power(&Findings::new(&trace, false), COLUMNS);
            assert_eq!(total.len(), 1, "{without}");
            let end_s = total[0].last().unwrap().0;
            assert!((9.5..=10.0).contains(&end_s), "{without}: {end_s}");
        }
    }

    #[test]
    fn energy_is_reported_of_the_only_region_or_of_the_whole() {
        let mut trace = recorded(&[Board::T4], Duration::from_secs(20));
        let window = |trace: &Trace| Findings::new(trace, false).devices[0].window.clone();
        assert_eq!(window(&trace), Duration::ZERO..Duration::from_secs(20));
        let mark = |from_s, to_s| telemetry::Region {
            name: "job <1>".to_owned(),
            start: Duration::from_secs(from_s),
            end: Duration::from_secs(to_s),
            depth: 0,
            thread: 0,
        };
        trace.regions = vec![mark(3, 12)];
        assert_eq!(
            window(&trace),
            Duration::from_secs(3)..Duration::from_secs(12)
        );
        let uncut = page(&trace, false);
        assert!(uncut.contains("job &lt;1&gt;</code>."));
        assert!(uncut.contains("power (W)") && uncut.contains("clocks (MHz)"));
        assert!(uncut.contains("temperature (°C)") && uncut.contains("energy (J)"));
        let page = page(&trace, true);
        assert!(page.contains("Energies are those of the first 9.00 s of <code"));
        trace.regions.push(mark(13, 14));
        assert_eq!(window(&trace), Duration::ZERO..Duration::from_secs(20));
    }
}
