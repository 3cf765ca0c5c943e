//! All file formats: written traces are read back, damaged rows are skipped, and no input makes a
//! reader panic.

use crate::support;
use proptest::prelude::*;
use std::io;
use std::time::Duration;
use telemetry::format::{self, DeviceLimits, Dialect, Sink, Writer, prometheus};
use telemetry::{
    Capability, Device, Fault, FaultCount, Kind, Metric, Overhead, PowerLimits, Region, Row, Trace,
    Values,
};
use tool_io::TemporaryFolder;

/// Creates a trace of two devices with values of every metric, some of which are missing in each
/// row.
fn trace() -> Trace {
    let device = |index: usize| Device {
        index,
        uuid: Some(format!("GPU-{index}a\\b")),
        pci: Some(format!("00000000:0{index}:00.0")),
        driver: Some("510.47.03".to_owned()),
        architecture: Some("Turing".to_owned()),
        limits: PowerLimits {
            set_w: Some(70.0),
            ..PowerLimits::default()
        },
        capabilities: vec![Capability {
            metric: Metric::PowerInstant,
            field: "nvmlDeviceGetFieldValues 186".to_owned(),
            fault: None,
        }],
        ..Device::new(Kind::Gpu, format!("Tesla \"T{index}\", 4"))
    };
    let row = |step: u32| {
        let mut values = Values::none();
        for (column, metric) in Metric::ALL.into_iter().enumerate() {
            if !(step as usize + column).is_multiple_of(5) {
                values.set(metric, f64::from(step) / 3.0 + column as f64 * 1e9);
            }
        }
        Row {
            device: step as usize % 2,
            time: Duration::from_millis(50) * step,
            values,
        }
    };
    Trace {
        source: "synthetic".to_owned(),
        began_unix_ns: 1_700_000_000_123_456_789,
        interval: Duration::from_millis(100),
        devices: vec![device(0), device(1)],
        rows: (0..40).map(row).collect(),
        regions: vec![Region {
            name: "a, \"b\"; #c".to_owned(),
            start: Duration::from_millis(300),
            end: Duration::from_millis(900),
            depth: 1,
            thread: 3,
        }],
        faults: vec![FaultCount {
            device: 1,
            metric: Metric::GpuBusy,
            fault: Fault::NotOnMig,
            first: Duration::from_millis(50),
            count: 20,
        }],
        overhead: Some(Overhead {
            ticks: 20,
            ..Overhead::default()
        }),
        ..Trace::default()
    }
}

#[test]
fn csv_and_json_lines_lose_nothing() {
    let trace = trace();
    for dialect in [Dialect::Csv, Dialect::JsonLines] {
        let text = format::write(&trace, dialect);
        assert_eq!(Dialect::detect(&text), Some(dialect));
        let read = format::read(text.as_bytes()).unwrap();
        assert!(read.skipped.is_empty(), "{:?}", read.skipped);
        assert_eq!(read.trace, trace, "{dialect:?}");
    }
}

#[test]
fn times_of_any_length_are_exact_in_csv_and_times_of_48_days_in_json_lines() {
    let days =
        |days: u64| Duration::from_secs(days * 24 * 3600) + Duration::from_nanos(123_456_789);
    for (dialect, longest) in [
        (Dialect::Csv, days(200_000)),
        (Dialect::Csv, Duration::MAX),
        (Dialect::JsonLines, days(48)),
    ] {
        let mut trace = trace();
        trace.rows.last_mut().unwrap().time = longest;
        let read = format::read(format::write(&trace, dialect).as_bytes()).unwrap();
        assert_eq!(read.trace, trace, "{dialect:?} {longest:?}");
    }
}

#[test]
fn a_chrome_trace_has_counters_and_regions_on_one_clock() {
    let trace = trace();
    let text = format::write(&trace, Dialect::ChromeTrace);
    let events: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    let first_power = events
        .iter()
        .find(|event| event["name"] == "power (W)")
        .unwrap();
    assert_eq!(first_power["ph"], "C");
    let region = events.iter().find(|event| event["ph"] == "X").unwrap();
    assert_eq!(
        (region["ts"].as_f64(), region["dur"].as_f64()),
        (Some(300e3), Some(600e3))
    );
    let read = format::read(text.as_bytes()).unwrap();
    assert!(read.skipped.is_empty(), "{:?}", read.skipped);
    assert_eq!(read.trace.devices, trace.devices);
    assert_eq!(read.trace.regions, trace.regions);
    assert_eq!(read.trace.faults, trace.faults);
    assert_eq!(read.trace.overhead, trace.overhead);
    for metric in [
        Metric::PowerInstant,
        Metric::Energy,
        Metric::SmClock,
        Metric::GpuBusy,
    ] {
        assert_eq!(
            read.trace.series(1, metric),
            trace.series(1, metric),
            "{metric}"
        );
    }
}

#[test]
fn the_seed_dialect_is_the_scripts() {
    let mut trace = trace();
    let mut values = Values::none();
    for (metric, value) in [
        (Metric::Temperature, 34.0),
        (Metric::PowerDraw, 35.0),
        (Metric::GpuBusy, 97.0),
        (Metric::MemoryBusy, 12.0),
        (Metric::MemoryUsed, 4e9),
        (Metric::MemoryTotal, 16e9),
        (Metric::Energy, 2500.0),
    ] {
        values.set(metric, value);
    }
    trace.rows = vec![Row {
        device: 0,
        time: Duration::ZERO,
        values,
    }];
    values.set(Metric::Energy, 4000.0);
    values.set(Metric::GpuBusy, f64::NAN);
    let time = Duration::from_millis(100);
    trace.rows.push(Row {
        device: 1,
        time,
        values,
    });
    trace.rows.push(Row {
        device: 0,
        time,
        values,
    });
    // The counter falls: the driver was reloaded and counts from zero, or the first reading was
    // wrong.
    for (round, reported_j) in [(2, 100.0), (3, 150.0)] {
        values.set(Metric::Energy, reported_j);
        trace.rows.push(Row {
            device: 0,
            time: round * time,
            values,
        });
    }
    let text = format::write(&trace, Dialect::SemicolonCsv);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        [
            "Timestamp;Temperature [C];Power [% max];GPU Util [% time];Mem Util [% time];\
             Mem Cons [% max];Energy [kJ]",
            "1700000000.123457;34;50;97;12;25;0",
            "1700000000.223457;34;50;;12;25;1.5",
            "1700000000.323457;34;50;;12;25;1.5",
            "1700000000.423457;34;50;;12;25;1.65",
        ]
    );
    let limits = DeviceLimits {
        power_w: Some(70.0),
        memory_bytes: Some(16e9),
    };
    let read = format::read_semicolon_csv(text.as_bytes(), limits)
        .unwrap()
        .trace;
    assert_eq!(
        read.series(0, Metric::PowerDraw),
        [(0.0, 35.0), (0.1, 35.0), (0.2, 35.0), (0.3, 35.0)]
    );
    assert_eq!(
        read.series(0, Metric::Energy),
        [(0.0, 0.0), (0.1, 1500.0), (0.2, 1500.0), (0.3, 1650.0)]
    );
    assert_eq!(read.series(0, Metric::MemoryUsed)[0].1, 4e9);
    // Without the power limit, power in W cannot be computed, so it is absent.
    let bare = format::read(text.as_bytes()).unwrap().trace;
    assert!(bare.series(0, Metric::PowerDraw).is_empty());
    assert_eq!(bare.series(0, Metric::GpuBusy), [(0.0, 97.0)]);
}

/// Returns the trace of a semicolon file with rows at the given times of the clock, in s. Each row
/// has 100 J more than the row before.
fn rows_at(times_s: &[f64]) -> Trace {
    let mut text = format!("{}\n", format::SEMICOLON_CSV_HEADER);
    let mut energy_kj = 0.0;
    for time_s in times_s {
        text += &format!("{:.6};;;;;;{energy_kj}\n", 1_700_000_000.0 + time_s);
        energy_kj += 0.1;
    }
    let read = format::read(text.as_bytes()).expect("the header is right");
    assert!(read.skipped.is_empty(), "{:?}", read.skipped);
    read.trace
}

#[test]
fn rows_of_a_clock_that_was_set_keep_their_distances() {
    // All rows are one second apart. The clock is set back by 1.5 s and by more, and the times of
    // single rows are wrong: the sixth in the first case, and two in the last case.
    let mut set_back: Vec<f64> = (0..10).map(f64::from).collect();
    set_back.extend((0..10).map(|i| -3600.0 + f64::from(i)));
    let mut far: Vec<f64> = (0..20).map(f64::from).collect();
    (far[5], far[10]) = (1e9, -1e6);
    for clock in [
        &[0.0, 1.0, 2.0, 1.5, 2.5, -3.0, 4.5][..],
        &[0.0, 1.0, 2.0, 1.5, 2.5, -3.0, -2.0],
        &set_back,
        &far,
    ] {
        let trace = rows_at(clock);
        let series = trace.series(0, Metric::Energy);
        let times: Vec<f64> = series.iter().map(|point| point.0).collect();
        let expected: Vec<f64> = (0_u32..).map(f64::from).take(clock.len()).collect();
        assert_eq!(times, expected, "{clock:?}");
        assert!(series.is_sorted_by(|a, b| a.1 < b.1), "{series:?}");
        let energy = trace.energy(0, Duration::ZERO..trace.duration()).unwrap();
        assert!((energy.mean_w() - 100.0).abs() < 1e-6, "{energy}");
        let part = Duration::from_secs(2)..Duration::from_secs(5);
        let joules = trace.energy(0, part).unwrap().joules;
        assert!((joules - 300.0).abs() < 1e-6, "{clock:?}: {joules}");
    }
    let times = |clock: &[f64]| -> Vec<f64> {
        let rows = rows_at(clock).rows;
        rows.iter().map(|row| row.time.as_secs_f64()).collect()
    };
    // A pause of sampling is a distance, also if the clock is set back later.
    assert_eq!(
        times(&[0.0, 1.0, 2.0, 100.0, 101.0, 100.5, 101.5]),
        [0.0, 1.0, 2.0, 100.0, 101.0, 102.0, 103.0]
    );
    // The rows around a wrong time keep their distance if it is not the median.
    assert_eq!(
        times(&[0.0, 1.0, 2.0, 1e9, 6.0, 7.0, 8.0]),
        [0.0, 1.0, 2.0, 4.0, 6.0, 7.0, 8.0]
    );
}

#[test]
fn times_at_the_limit_of_a_clock_are_written_in_its_range() {
    // The median distance is so long that the third row would be later than any time of a file.
    let trace = rows_at(&[0.0, 1.7e19, 1.0]);
    let text = format::write(&trace, Dialect::SemicolonCsv);
    let read = format::read_semicolon_csv(text.as_bytes(), DeviceLimits::default()).unwrap();
    assert!(read.skipped.is_empty(), "{:?}", read.skipped);
    assert_eq!(read.trace.rows.len(), 3);
}

#[test]
fn a_share_beyond_the_numbers_is_missing_and_its_row_is_read_again() {
    let mut trace = trace();
    trace.devices[0].limits.set_w = Some(1e-3);
    trace.rows[0].values.set(Metric::PowerDraw, 1e307);
    trace.rows[0].values.set(Metric::MemoryTotal, 1e-3);
    trace.rows[0].values.set(Metric::MemoryUsed, 1e307);
    let text = format::write(&trace, Dialect::SemicolonCsv);
    let read = format::read(text.as_bytes()).unwrap();
    assert!(read.skipped.is_empty(), "{:?}", read.skipped);
    let n_rows = trace.rows.iter().filter(|row| row.device == 0).count();
    assert_eq!(read.trace.rows.len(), n_rows);
}

#[test]
fn prometheus_text_has_the_newest_row_of_each_device() {
    let trace = trace();
    let text = prometheus::write(&trace);
    assert!(text.contains("# TYPE telemetry_energy_joules_total counter"));
    assert!(text.contains("field=\"nvmlDeviceGetFieldValues 186\""));
    for (index, device) in trace.devices.iter().enumerate() {
        let newest = trace.device_rows(index).last().unwrap();
        let label = format!("{{device=\"{}\",", device.index);
        let lines = text.lines().filter(|line| line.contains(&label));
        let values = lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap());
        // One line per metric in the order of the metrics, then the time of the row.
        let mut written: Vec<f64> = values.collect();
        written.pop().unwrap();
        let expected: Vec<f64> = newest.values.iter().map(|(_, value)| value).collect();
        assert_eq!(written, expected);
        let name = device.name.replace('"', "\\\"");
        assert!(
            text.contains(&format!("{label}kind=\"gpu\",name=\"{name}\"")),
            "{text}"
        );
    }
}

#[test]
fn prometheus_text_keeps_the_time_of_a_lost_device() {
    let name = "telemetry_last_sample_timestamp_seconds";
    let times = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| line.starts_with(name));
        lines.map(str::to_owned).collect()
    };
    let mut trace = trace();
    let known = times(&prometheus::write(&trace));
    assert_eq!(known.len(), trace.devices.len());
    for device in 0..trace.devices.len() {
        trace.rows.push(Row {
            device,
            time: trace.duration() + Duration::from_secs(1),
            values: Values::none(),
        });
    }
    let text = prometheus::write(&trace);
    assert_eq!(times(&text), known);
    // No old value is reported.
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    assert_eq!(lines.count(), known.len());
}

#[test]
fn a_value_of_another_type_than_a_number_skips_its_line() {
    let trace = trace();
    let energy = trace.rows[0].values.get(Metric::Energy).unwrap();
    let number = serde_json::Value::from(energy).to_string();
    for (dialect, name) in [
        (Dialect::Csv, ""),
        (Dialect::JsonLines, "\"energy_J\":"),
        (Dialect::ChromeTrace, "\"energy\":"),
    ] {
        let text = format::write(&trace, dialect);
        let number = if dialect == Dialect::Csv {
            energy.to_string()
        } else {
            number.clone()
        };
        let read_with = |other: &str| {
            let value = format!("{name}{number}");
            assert!(text.contains(&value), "{value} {text}");
            let changed = text.replacen(&value, &format!("{name}{other}"), 1);
            format::read(changed.as_bytes()).unwrap()
        };
        // A missing value is no error.
        let missing = if dialect == Dialect::Csv { "" } else { "null" };
        let read = read_with(missing);
        assert!(read.skipped.is_empty(), "{dialect:?} {:?}", read.skipped);
        assert_eq!(read.trace.rows[0].values.get(Metric::Energy), None);
        for other in ["\"x\"", "true", "[1]", "{}"] {
            let read = read_with(other);
            let [skipped] = &read.skipped[..] else {
                panic!("{dialect:?} {other}: {:?}", read.skipped)
            };
            let why = skipped.to_string();
            assert!(why.contains("energy is not a finite number"), "{why}");
        }
    }
}

#[test]
fn what_is_cut_off_anywhere_is_a_shorter_trace() {
    let trace = trace();
    for dialect in [
        Dialect::Csv,
        Dialect::JsonLines,
        Dialect::SemicolonCsv,
        Dialect::ChromeTrace,
    ] {
        let text = format::write(&trace, dialect);
        let head = format::write(
            &Trace {
                rows: vec![],
                regions: vec![],
                faults: vec![],
                overhead: None,
                ..trace.clone()
            },
            dialect,
        );
        let whole = format::read(text.as_bytes()).unwrap().trace;
        for end in (head.len()..text.len()).step_by(7) {
            let read = format::read(&text.as_bytes()[..end]).unwrap();
            assert!(
                read.skipped.len() <= 1,
                "{dialect:?} at {end}: {:?}",
                read.skipped
            );
            assert!(read.trace.rows.len() <= whole.rows.len());
            for (read, whole) in read.trace.rows.iter().zip(&whole.rows) {
                // A row of a Chrome trace is several events, and the last events may be missing.
                let is_whole = |metric| {
                    let (read, whole) = (read.values.get(metric), whole.values.get(metric));
                    read == whole || (read.is_none() && dialect == Dialect::ChromeTrace)
                };
                assert!(
                    Metric::ALL.into_iter().all(is_whole),
                    "{dialect:?} at {end}"
                );
            }
        }
    }
}

#[test]
fn text_of_no_format_is_rejected() {
    for text in [
        "",
        "nonsense",
        "# telemetry {}",
        "{\"trace\":9}",
        "[]",
        "Timestamp;Power",
    ] {
        let error = format::read(text.as_bytes()).unwrap_err();
        assert!(
            matches!(error, telemetry::Error::Text { .. }),
            "{text}: {error}"
        );
    }
}

#[test]
fn a_sink_gets_whole_lines_only() {
    struct Lines(Vec<usize>);
    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            assert!(bytes.is_empty() || bytes.ends_with(b"\n"));
            self.0.push(bytes.len());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let trace = trace();
    let mut writer = Writer::new(Dialect::Csv, Lines(vec![]));
    writer.begin(&trace).unwrap();
    for row in trace.rows.iter().cycle().take(2000) {
        writer.row(&trace, row).unwrap();
    }
    writer.end(&trace).unwrap();
}

proptest! {
    #[test]
    fn no_bytes_make_a_reader_panic(
        place in 0_usize..10_000,
        damage in proptest::collection::vec(any::<u8>(), 0..40),
        dialect in 0_usize..4,
    ) {
        let dialects = [Dialect::Csv, Dialect::JsonLines, Dialect::SemicolonCsv, Dialect::ChromeTrace];
        let mut bytes = format::write(&trace(), dialects[dialect]).into_bytes();
        let at = place % bytes.len();
        let end = (at + damage.len()).min(bytes.len());
        bytes.splice(at..end, damage);
        let _ = format::read(&bytes);
        let _ = format::read_semicolon_csv(&bytes, DeviceLimits::default());
    }
}

#[test]
fn a_writer_that_was_never_released_leaves_no_file_and_destroys_none() {
    let folder = TemporaryFolder::create(&std::env::temp_dir(), "held-back").unwrap();
    let [new, old] = ["new.csv", "old.csv"].map(|name| folder.path().join(name));
    std::fs::write(&old, "of yesterday").unwrap();
    for (path, is_released) in [(&new, false), (&old, false), (&new, true), (&old, true)] {
        let (mut writer, release) = Writer::create(Dialect::Csv, path).unwrap().held_back();
        writer.begin(&trace()).unwrap();
        if is_released {
            release.release();
        }
        writer.end(&trace()).unwrap();
        drop(writer);
        let content = std::fs::read(path).ok();
        if is_released {
            assert!(format::read(&content.unwrap()).is_ok(), "{path:?}");
        } else if path == &new {
            assert_eq!(content, None);
        } else {
            assert_eq!(content.unwrap(), b"of yesterday");
        }
    }
}

#[test]
fn rows_do_not_go_to_a_file_that_another_writer_removes() {
    const N_TRIALS: usize = 1000;
    let (mut n_written, mut n_lost) = (0, 0);
    let folder = TemporaryFolder::create(&std::env::temp_dir(), "removed").unwrap();
    let path = &folder.path().join("log.csv");
    let is_done = &std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                // A new file without text, which is removed at once.
                drop(Writer::create(Dialect::Csv, path));
            }
        });
        for _ in 0..N_TRIALS {
            let Ok(mut writer) = Writer::create(Dialect::Csv, path) else {
                continue;
            };
            let is_taken = writer.begin(&trace()).is_ok() && writer.end(&trace()).is_ok();
            let is_there = std::fs::read(path).is_ok_and(|content| !content.is_empty());
            n_lost += usize::from(!(is_taken && is_there));
            n_written += 1;
            let _ = std::fs::remove_file(path);
        }
        is_done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert!(n_written > 0 && n_lost == 0, "{n_lost} of {n_written}");
}

#[test]
fn a_file_that_another_program_changes_is_an_error_of_its_writer() {
    use std::fs;
    let folder = TemporaryFolder::create(&std::env::temp_dir(), "changed").unwrap();
    type Change = fn(&std::path::Path);
    let truncate: Change = |path| {
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_len(0).unwrap();
    };
    let lengthen: Change = |path| {
        let mut file = fs::File::options().append(true).open(path).unwrap();
        io::Write::write_all(&mut file, b"more").unwrap();
    };
    let mut changes = vec![("truncate", truncate), ("lengthen", lengthen)];
    if cfg!(unix) {
        changes.push(("remove", |path| fs::remove_file(path).unwrap()));
        changes.push(("replace", |path| {
            let copy = path.with_extension("copy");
            fs::copy(path, &copy).unwrap();
            fs::rename(copy, path).unwrap();
        }));
    }
    for dialect in [Dialect::Csv, Dialect::ChromeTrace] {
        for (name, change) in &changes {
            for is_last in [true, false] {
                let path = folder.path().join(name);
                let mut writer = Writer::create(dialect, &path).unwrap();
                writer.begin(&trace()).unwrap();
                change(&path);
                let written = if is_last {
                    writer.end(&trace())
                } else {
                    writer.row(&trace(), &trace().rows[0]).unwrap();
                    writer.flush(&trace())
                };
                let why = written.expect_err(name).to_string();
                assert!(why.starts_with("another program"), "{name}: {why}");
            }
        }
        // Without a change, a new file and an old one are complete.
        for _ in 0..2 {
            let path = folder.path().join("same");
            let mut writer = Writer::create(dialect, &path).unwrap();
            writer.begin(&trace()).unwrap();
            writer.end(&trace()).unwrap();
        }
    }
}

#[test]
fn slices_of_a_chrome_trace_nest_or_follow_each_other_on_each_track() {
    let file = support::Shared::default();
    let source = telemetry::synthetic::Synthetic::from_power(
        telemetry::synthetic::PowerProfile::constant(50.0),
    );
    let running = telemetry::Sampler::new(source.unwrap())
        .with_sink(Writer::new(Dialect::ChromeTrace, file.clone()))
        .start()
        .unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..10 {
                    // Regions need not nest, even on one thread.
                    let (first, second) = (running.span("first"), running.span("second"));
                    drop(first);
                    std::thread::yield_now();
                    drop((second, running.span("third")));
                }
            });
        }
    });
    let trace = running.stop().trace;
    let threads: std::collections::BTreeSet<_> = trace.regions.iter().map(|m| m.thread).collect();
    assert_eq!(threads, (0..8).collect());
    for text in [
        String::from_utf8(file.bytes()).unwrap(),
        format::write(&trace, Dialect::ChromeTrace),
    ] {
        let events: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
        let slices: Vec<_> = events.iter().filter(|event| event["ph"] == "X").collect();
        assert_eq!(slices.len(), 8 * 30);
        let ends = |slice: &serde_json::Value| {
            let start = slice["ts"].as_f64().unwrap();
            (start, start + slice["dur"].as_f64().unwrap())
        };
        // Times are rounded to µs.
        let overlaps =
            |a: (f64, f64), b: (f64, f64)| a.0 + 1e-3 < b.0 && b.0 + 1e-3 < a.1 && a.1 + 1e-3 < b.1;
        for (i, a) in slices.iter().enumerate() {
            // Each device is a separate process in the Chrome trace.
            assert_eq!(a["pid"], 1);
            for b in &slices[i + 1..] {
                let is_cut = overlaps(ends(a), ends(b)) || overlaps(ends(b), ends(a));
                assert!(a["tid"] != b["tid"] || !is_cut, "{a} {b}");
            }
        }
        let read = format::read(text.as_bytes()).unwrap();
        assert!(read.skipped.is_empty(), "{:?}", read.skipped);
        let key = |marks: &[Region]| {
            let mut found: Vec<_> = marks
                .iter()
                .map(|m| (m.name.clone(), m.thread, m.depth))
                .collect();
            found.sort();
            found
        };
        assert_eq!(key(&read.trace.regions), key(&trace.regions));
    }
}

#[test]
fn marks_of_older_files_have_no_thread() {
    let mark =
        r#"{"name":"old","start":{"secs":1,"nanos":0},"end":{"secs":2,"nanos":0},"depth":0}"#;
    let read: Region = serde_json::from_str(mark).unwrap();
    assert_eq!((read.name.as_str(), read.thread), ("old", 0));
}
