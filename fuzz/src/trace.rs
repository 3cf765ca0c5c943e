//! Traces with hostile times and values.
//!
//! Method: the input chooses devices, rows and regions. Energies must be in their intervals, which
//! must be nested, and every analysis must return a result or an error. The formats that contain
//! everything must return an equal trace, JSON lines if their numbers can hold its times.

use std::ops::Range;
use std::time::Duration;

use telemetry::analysis::{
    ClockRuns, Job, compare_policies, dvfs_from_runs, idle_periods, idle_periods_within,
    periodicity,
};
use telemetry::format::{self, Dialect};
use telemetry::replay::Replay;
use telemetry::{
    Calibration, Capability, Device, Energy, Interval, Kind, Metric, PowerLimits, Region, Row,
    Source as _, SpanReport, Trace, Values,
};

use crate::source::Source;
use crate::trace_files;

/// Number of bytes at the beginning of an input that are not for rows.
const MAX_OPTIONS: usize = 96;
/// Most rows of a trace: enough changes for a period, and few, because each is analysed many times.
const MAX_ROWS: usize = 40;
/// Longest time of a row or region. Chrome traces contain times as floats, and the longest
/// [`Duration`] is rounded to a number beyond its range.
const LONGEST: Duration = Duration::from_secs(1 << 63);
/// Longest time that JSON lines contain to the nanosecond.
const LONGEST_IN_JSON: Duration = Duration::from_secs(1 << 22);
/// Architectures with different sensors, and an unknown one.
const ARCHITECTURES: [Option<&str>; 8] = [
    None,
    Some("Kepler"),
    Some("Maxwell"),
    Some("Turing"),
    Some("Ampere"),
    Some("Hopper"),
    Some("Volta"),
    Some("x"),
];
/// Metrics of energy and activity.
const METRICS: [Metric; 8] = [
    Metric::PowerInstant,
    Metric::PowerDraw,
    Metric::PowerAverage,
    Metric::Energy,
    Metric::GpuBusy,
    Metric::SmClock,
    Metric::MemoryUsed,
    Metric::ClockReasons,
];

/// Builds a trace and checks its energies, analyses and files.
///
/// # Panics
/// On a fault of the code under test.
pub fn run(bytes: &[u8]) {
    let (options, rows) = bytes.split_at(bytes.len().min(MAX_OPTIONS));
    let mut source = Source::new(options);
    let trace = trace(&mut source, &mut Source::new(rows));
    let is_exact = trace
        .rows
        .last()
        .is_none_or(|row| row.time <= LONGEST_IN_JSON);
    for (dialect, is_exact) in [(Dialect::Csv, true), (Dialect::JsonLines, is_exact)] {
        let again = trace_files::read_written(&format::write(&trace, dialect), dialect);
        if is_exact {
            assert_eq!(again, trace, "{dialect:?}");
        }
        assert_eq!(again.rows.len(), trace.rows.len());
    }
    for dialect in [Dialect::ChromeTrace, Dialect::SemicolonCsv] {
        let again = trace_files::read_written(&format::write(&trace, dialect), dialect);
        assert!(again.rows.len() <= trace.rows.len());
    }
    let window = time(&mut source)..time(&mut source);
    check_energies(&mut source, &trace, &window);
    check_analyses(&mut source, &trace, window);
    replay(&mut source, trace);
}

/// Returns a number that is finite or missing, as values of a trace are.
fn value(source: &mut Source<'_>) -> f64 {
    match source.byte() {
        byte @ 0..200 => f64::from(byte),
        _ => source.hostile(),
    }
}

/// Returns a gain, which is finite and above 0.
fn gain(source: &mut Source<'_>) -> f64 {
    let gain = source.hostile().abs();
    if gain > 0.0 && gain.is_finite() {
        gain
    } else {
        1.0
    }
}

/// Returns a time, mostly within some seconds.
fn time(source: &mut Source<'_>) -> Duration {
    match source.byte() {
        0..240 => Duration::from_millis(source.short().into()),
        240..248 => Duration::from_nanos(source.word()),
        248..252 => Duration::from_secs(source.word()),
        252..254 => Duration::MAX,
        _ => Duration::ZERO,
    }
}

fn device(source: &mut Source<'_>, index: usize) -> Device {
    let limit = |source: &mut Source<'_>| match source.byte() {
        0..128 => None,
        byte @ 128..240 => Some(f64::from(byte)),
        // Files cannot contain numbers that are not finite.
        _ => Some(source.hostile()).filter(|limit| limit.is_finite()),
    };
    let kind = match source.byte() {
        0..64 => Kind::Rapl,
        _ => Kind::Gpu,
    };
    let supported = source.byte();
    let capability = |(bit, metric): (usize, Metric)| Capability {
        metric,
        field: "field".to_owned(),
        fault: (supported >> bit & 1 == 1).then_some(telemetry::Fault::NotSupported),
    };
    Device {
        index,
        architecture: source.choose(&ARCHITECTURES).map(str::to_owned),
        limits: PowerLimits {
            set_w: limit(source),
            default_w: limit(source),
            min_w: limit(source),
            max_w: limit(source),
        },
        is_mig: source.byte() > 250,
        capabilities: METRICS.into_iter().enumerate().map(capability).collect(),
        ..Device::new(kind, "name, \"quoted\"")
    }
}

fn trace(source: &mut Source<'_>, readings: &mut Source<'_>) -> Trace {
    let n_devices = source.below(3);
    let devices: Vec<Device> = (0..n_devices).map(|index| device(source, index)).collect();
    let metrics: Vec<Metric> = (0..=source.below(4))
        .map(|_| source.choose(&METRICS))
        .collect();
    let period = Duration::from_millis([1, 10, 20, 25, 100, 500, 1000, 0][source.below(8)]);
    let n_regions = source.below(3);
    let mut now = Duration::ZERO;
    let mut rows = vec![];
    while !readings.is_empty() && rows.len() < MAX_ROWS && n_devices > 0 {
        let step = match readings.byte() {
            0..240 => period,
            240..250 => Duration::from_millis(readings.short().into()),
            _ => time(readings),
        };
        now = now.saturating_add(step).min(LONGEST);
        let mut values = Values::none();
        for &metric in &metrics {
            values.set(metric, value(readings));
        }
        rows.push(Row {
            device: readings.below(n_devices),
            time: now,
            values,
        });
    }
    let region = |_| {
        let [a, b] = [time(source), time(source)].map(|time| time.min(LONGEST));
        Region {
            name: "r\n;,\"".to_owned(),
            start: a.min(b),
            end: a.max(b),
            depth: 0,
            thread: source.below(3),
        }
    };
    let mut regions: Vec<Region> = (0..n_regions).map(region).collect();
    regions.sort_by_key(|region| region.start);
    Trace {
        source: "fuzz".to_owned(),
        began_unix_ns: source.word(),
        interval: period,
        devices,
        rows,
        regions,
        ..Trace::default()
    }
}

fn check_energies(source: &mut Source<'_>, trace: &Trace, window: &Range<Duration>) {
    let whole = Duration::ZERO..trace.duration();
    let calibration = match source.byte() {
        0..64 => Calibration::linear(gain(source), f64::from(source.byte())),
        64..128 => Calibration::known(gain(source)),
        _ => Calibration::for_kind(Kind::Gpu),
    };
    for device in 0..=trace.devices.len() {
        for window in [window, &whole] {
            let best = trace.energy(device, window.clone());
            best.iter().for_each(check_energy);
            assert!(best.is_none() || device < trace.devices.len());
            for metric in Metric::ALL {
                let found = trace.energy_by(device, metric, window.clone(), &calibration);
                found.iter().for_each(check_energy);
            }
        }
    }
    for region in &trace.regions {
        let report = SpanReport::from_region(trace, region);
        if let (Some(joules), Some(interval)) = (report.joules(), report.interval()) {
            check_interval(&interval, joules);
        }
    }
}

fn check_energy(energy: &Energy) {
    check_interval(&energy.sampling, energy.joules);
    check_interval(&energy.interval, energy.joules);
    check_interval(&energy.likely, energy.joules);
    let (interval, sampling) = (&energy.interval, &energy.sampling);
    assert!(
        interval.low_j <= sampling.low_j && sampling.high_j <= interval.high_j,
        "{energy:?}"
    );
    assert!(!energy.to_string().is_empty());
}

/// Panics unless an energy is in an interval of numbers.
fn check_interval(interval: &Interval, joules: f64) {
    assert!(
        interval.low_j <= joules && joules <= interval.high_j,
        "{joules} J is not in {interval:?}"
    );
}

fn check_analyses(source: &mut Source<'_>, trace: &Trace, window: Range<Duration>) {
    for device in 0..=trace.devices.len() {
        let idle = [
            idle_periods(trace, device),
            idle_periods_within(trace, device, window.clone()),
        ];
        for found in idle {
            match found {
                Ok(found) => {
                    assert!((0.0..=1.0).contains(&found.known), "{found:?}");
                    assert!(!found.joules.is_some_and(f64::is_nan), "{found:?}");
                }
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
        let period = periodicity(&trace.series(device, Metric::PowerInstant));
        if let Some(period) = period {
            assert!(period.period_s > 0.0 && (0.0..=1.0).contains(&period.duty));
        }
        let job = |window: Option<Range<Duration>>, items: f64| Job {
            trace,
            device,
            window,
            items,
        };
        let compared = compare_policies(&job(Some(window.clone()), 1.0), &job(None, value(source)));
        if let Err(error) = compared {
            assert!(!error.to_string().is_empty());
        }
    }
    let clocks: Vec<ClockRuns> = (0..source.below(6))
        .map(|_| {
            let mut runs = vec![
                (value(source), value(source)),
                (value(source), value(source)),
            ];
            let clock_mhz = value(source);
            runs.truncate(source.below(3));
            ClockRuns { clock_mhz, runs }
        })
        .collect();
    match dvfs_from_runs(&clocks) {
        Ok(curve) => {
            assert_eq!(curve.points.len(), clocks.len());
            let _ = curve.saving_at(source.hostile());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn replay(source: &mut Source<'_>, trace: Trace) {
    let mut replay = Replay::new(trace);
    for device in 0..replay.devices().len() {
        assert!(replay.read(device, time(source)).faults.is_empty());
    }
}
