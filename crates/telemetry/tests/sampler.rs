//! The sampler: rows on time, bounded memory, and no lost rows.

mod support;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use support::{Shared, work_for};
use telemetry::format::{self, Dialect, Writer, prometheus};
use telemetry::nvml::Nvml;
use telemetry::synthetic::Board;
use telemetry::{
    Device, Error, Failure, Fault, Kind, Margins, Metric, Reading, Sampler, Select, Source, Values,
    measure_within,
};

/// A source that reports the count of its readings; every third reading fails.
struct Counting {
    devices: Vec<Device>,
    n_readings: Arc<AtomicUsize>,
    takes: Duration,
}

impl Counting {
    fn new(n_devices: usize) -> Self {
        let device = |index| Device {
            index,
            uuid: Some(format!("GPU-{index}{index}{index}")),
            pci: Some(format!("00000000:0{index}:00.0")),
            ..Device::new(Kind::Gpu, "counting")
        };
        Self {
            devices: (0..n_devices).map(device).collect(),
            n_readings: Arc::default(),
            takes: Duration::ZERO,
        }
    }
}

impl Source for Counting {
    fn name(&self) -> &'static str {
        "counting"
    }

    fn devices(&self) -> &[Device] {
        &self.devices
    }

    fn read(&mut self, _device: usize, _now: Duration) -> Reading {
        work_for(self.takes);
        let count = self.n_readings.fetch_add(1, Ordering::Relaxed);
        let mut values = Values::none();
        values.set(Metric::Energy, count as f64);
        let faults = if count % 3 == 2 {
            vec![(Metric::GpuBusy, Fault::Lost)]
        } else {
            vec![]
        };
        Reading { values, faults }
    }
}

#[test]
fn rows_of_a_model_stand_at_multiples_of_the_interval() {
    let sampler = Sampler::new(Counting::new(2)).interval(Duration::from_millis(30));
    let trace = sampler.record(Duration::from_secs(3)).unwrap();
    assert_eq!(trace.rows.len(), 2 * 101);
    for (index, row) in trace.rows.iter().enumerate() {
        assert_eq!(row.device, index % 2);
        assert_eq!(row.time, Duration::from_millis(30 * (index as u64 / 2)));
    }
    let fault = trace.faults.iter().find(|fault| fault.device == 0).unwrap();
    assert_eq!((fault.metric, fault.fault), (Metric::GpuBusy, Fault::Lost));
    assert_eq!(
        trace.faults.iter().map(|fault| fault.count).sum::<u64>(),
        202 / 3
    );
}

#[test]
fn memory_is_bounded_and_sinks_get_every_row() {
    let file = Shared::default();
    let sampler = Sampler::new(Counting::new(3)).capacity(100);
    let sampler = sampler.with_sink(Writer::new(Dialect::Csv, file.clone()));
    let trace = sampler.record(Duration::from_secs(100)).unwrap();
    assert!(
        (50..=100).contains(&trace.rows.len()),
        "{}",
        trace.rows.len()
    );
    let written = format::read(&file.bytes()).unwrap();
    assert!(written.skipped.is_empty());
    assert_eq!(written.trace.rows.len(), 3 * 1001);
    assert_eq!(written.trace.overhead, trace.overhead);
    // Thinned rows are spread evenly, and the newest rows are all kept.
    let past = trace.ledger.complete_from();
    assert!(past > Duration::from_secs(90));
    for device in 0..3 {
        let of_past = trace.device_rows(device).filter(|row| row.time < past);
        let times: Vec<_> = of_past.map(|row| row.time).collect();
        let steps: Vec<_> = times.windows(2).map(|two| two[1] - two[0]).collect();
        let (least, most) = (steps.iter().min().unwrap(), steps.iter().max().unwrap());
        assert!(*most <= 2 * *least, "{least:?} {most:?}");
        assert!(times[0].is_zero() && past - *times.last().unwrap() <= 2 * trace.interval);
        let newest = trace.device_rows(device).last().unwrap().time;
        assert_eq!(newest, Duration::from_secs(100));
    }
}

#[test]
fn a_slow_source_misses_rounds_but_never_shifts_them() {
    let mut source = Counting::new(1);
    source.takes = Duration::from_millis(25);
    let running = Sampler::new(source)
        .interval(Duration::from_millis(10))
        .start()
        .unwrap();
    while running.with_trace(|trace| trace.rows.len()) < 8 {
        std::thread::yield_now();
    }
    let trace = running.stop().trace;
    let overhead = trace.overhead.unwrap();
    assert!(overhead.missed >= 7, "{overhead:?}");
    assert!(overhead.longest >= Duration::from_millis(25));
    let rounds = overhead.ticks + overhead.missed;
    let last = trace.rows[trace.rows.len() - 2].time;
    // A round is never early, so the last round cannot be before its scheduled time.
    assert!(last >= Duration::from_millis(10) * u32::try_from(rounds - 1).unwrap());
}

/// A file on a full disk.
struct Full;

impl io::Write for Full {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::Error::from(io::ErrorKind::StorageFull))
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_sink_that_fails_is_given_up_and_said() {
    let file = Shared::default();
    let running = Sampler::new(Counting::new(1))
        .interval(Duration::from_millis(1))
        .with_sink(Writer::new(Dialect::JsonLines, Full))
        .with_sink(Writer::new(Dialect::JsonLines, file.clone()))
        .start()
        .unwrap();
    while running.with_trace(|trace| trace.rows.len()) < 5 {
        std::thread::yield_now();
    }
    let stopped = running.stop();
    assert_eq!(stopped.failures.len(), 1);
    let is_full = |failure: &Failure| matches!(failure, Failure::Sink { kind, .. } if *kind == io::ErrorKind::StorageFull);
    assert!(is_full(&stopped.failures[0]), "{:?}", stopped.failures);
    let written = format::read(&file.bytes()).unwrap().trace;
    assert_eq!(written.rows.len(), stopped.trace.rows.len());
}

#[test]
fn what_is_dropped_ends_its_files() {
    let file = Shared::default();
    let sampler = Sampler::new(Counting::new(1)).with_sink(Writer::new(Dialect::Csv, file.clone()));
    drop(sampler.start().unwrap());
    let written = format::read(&file.bytes()).unwrap().trace;
    assert_eq!(written.rows.len(), 2);
    assert!(written.overhead.is_some());
}

#[test]
fn devices_are_selected_by_index_uuid_or_place() {
    let select = |names: &[&str]| Select::Named(names.iter().map(ToString::to_string).collect());
    let indices = |names: &[&str]| select(names).among(Counting::new(3).devices());
    assert_eq!(indices(&["2", "0"]).unwrap(), [0, 2]);
    assert_eq!(indices(&["GPU-11"]).unwrap(), [1]);
    assert_eq!(indices(&["0000:02:00.0", "2"]).unwrap(), [2]);
    assert_eq!(indices(&["gpu-00", "02:00.0"]).unwrap(), [0, 2]);
    for nonsense in ["3", "GPU-", "GPU-9", "", "-1", ":", "1:02:00.0"] {
        let error = indices(&[nonsense]).unwrap_err();
        assert!(
            matches!(error, Error::NoDevice { .. }),
            "{nonsense}: {error}"
        );
    }
    assert!(Select::All.among(&[]).is_err());
    assert!(select(&[]).among(Counting::new(1).devices()).is_err());
}

#[test]
fn intervals_below_the_shortest_are_rejected() {
    for interval in [Duration::ZERO, Duration::from_micros(99)] {
        let error = Sampler::new(Counting::new(1))
            .interval(interval)
            .start()
            .unwrap_err();
        assert!(matches!(error, Error::ParameterInvalid { .. }), "{error}");
    }
    let endless = Sampler::new(Counting::new(1)).interval(Duration::MAX);
    assert_eq!(
        endless.record(Duration::from_secs(1)).unwrap().rows.len(),
        1
    );
    let endless = Sampler::new(Counting::new(1))
        .interval(Duration::MAX)
        .start()
        .unwrap();
    assert_eq!(endless.stop().trace.rows.len(), 2);
}

#[test]
fn rounds_do_not_drift() {
    let interval = Duration::from_millis(5);
    let running = Sampler::new(Counting::new(1))
        .interval(interval)
        .start()
        .unwrap();
    work_for(Duration::from_secs(2));
    let trace = running.stop().trace;
    let rounds = &trace.rows[..trace.rows.len() - 1];
    let late = |row: &telemetry::Row| row.time.as_nanos() % interval.as_nanos();
    // Even on a busy machine some of the last rounds are on time. If each round added a delay of
    // only 10 µs, the last round would be 4 ms late.
    let least = rounds[rounds.len() / 2..].iter().map(late).min().unwrap();
    assert!(least < 2_000_000, "{least} ns");
    // The last round is at its scheduled time, apart from the delays of a busy machine.
    let overhead = trace.overhead.unwrap();
    let number = u32::try_from(overhead.ticks + overhead.missed - 1).unwrap();
    let last = rounds[rounds.len() - 1].time;
    let late = overhead.latest + overhead.longest;
    assert!(
        last <= interval * number + late,
        "{last:?} {number} {late:?}"
    );
}

#[test]
fn eight_gpus_ten_times_a_second_cost_little() {
    let fake = support::Fake::play(&telemetry::synthetic::Scenario::from_boards(
        &[Board::H100; 8],
    ));
    fake.use_real_time();
    let running = Sampler::new(Nvml::open_at(&support::fake()).unwrap())
        .with_sink(Writer::new(Dialect::Csv, io::sink()))
        .start()
        .unwrap();
    work_for(Duration::from_secs(3));
    let trace = running.stop().trace;
    let overhead = trace.overhead.unwrap();
    assert_eq!(overhead.cpu.is_some(), cfg!(unix));
    let cpu = overhead.cpu.unwrap_or_default();
    // The limit, 1 % of a core with the library included, is for any build.
    assert!(cpu < overhead.wall / 100, "{cpu:?} of {:?}", overhead.wall);
    // The default capacity of rows fits into 3 MiB.
    assert!(size_of::<telemetry::Row>() * (1 << 14) < 3 << 20);
}

/// A source that panics from the fourth reading on.
struct Breaking(Counting);

impl Source for Breaking {
    fn name(&self) -> &'static str {
        "breaking"
    }

    fn devices(&self) -> &[Device] {
        self.0.devices()
    }

    fn read(&mut self, device: usize, now: Duration) -> Reading {
        let n_readings = self.0.n_readings.load(Ordering::Relaxed);
        assert!(n_readings < 3, "reading {n_readings} failed");
        self.0.read(device, now)
    }
}

#[test]
fn a_source_that_panics_is_reported_at_once_and_ends_the_trace() {
    let file = Shared::default();
    let running = Sampler::new(Breaking(Counting::new(1)))
        .interval(Duration::from_millis(1))
        .with_sink(Writer::new(Dialect::Csv, file.clone()))
        .start()
        .unwrap();
    while running.failure().is_none() {
        std::thread::yield_now();
    }
    let failure = running.failure().unwrap();
    assert!(failure.ends_sampling(), "{failure}");
    assert!(
        failure.to_string().ends_with("reading 3 failed"),
        "{failure}"
    );
    let scraped = prometheus::write_snapshot(&running.snapshot());
    assert!(scraped.contains("\ntelemetry_up 0\n"), "{scraped}");
    let stopped = running.stop();
    assert_eq!(stopped.trace.rows.len(), 3);
    assert_eq!(stopped.failures, [failure]);
    let written = format::read(&file.bytes()).unwrap().trace;
    assert_eq!(written.rows.len(), 3);
    assert!(written.overhead.is_some());
}

#[test]
fn measured_work_has_its_output_and_the_failures_of_its_sampler() {
    let none = Margins {
        before: Duration::ZERO,
        after: Duration::ZERO,
    };
    // The source fails at the end of the work, and the sink at its first row.
    let broken_source = Sampler::new(Breaking(Counting::new(1))).interval(Duration::from_secs(60));
    let broken_sink = Sampler::new(Counting::new(1)).with_sink(Writer::new(Dialect::Csv, Full));
    for (sampler, ends_sampling) in [(broken_source, true), (broken_sink, false)] {
        let (output, spent) = measure_within(sampler, none, || 42).unwrap();
        assert_eq!(output, 42);
        let found: Vec<bool> = spent.failures.iter().map(Failure::ends_sampling).collect();
        assert_eq!(found, [ends_sampling], "{spent:?}");
    }
}

#[test]
fn sinks_have_every_row_before_the_panic_of_a_recorded_source() {
    let file = Shared::default();
    let recorded = Sampler::new(Breaking(Counting::new(1)))
        .with_sink(Writer::new(Dialect::Csv, file.clone()))
        .record(Duration::from_secs(3));
    assert!(
        matches!(&recorded, Err(Error::Sampling(failure)) if failure.ends_sampling()),
        "{recorded:?}"
    );
    let written = format::read(&file.bytes()).unwrap().trace;
    assert_eq!(written.rows.len(), 3);
    assert!(written.overhead.is_some());
}

/// An error whose message panics.
#[derive(Debug)]
struct Unprintable;

impl std::fmt::Display for Unprintable {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        panic!("the message is broken")
    }
}

impl std::error::Error for Unprintable {}

#[test]
fn a_sink_whose_error_cannot_be_printed_is_given_up_and_reported() {
    struct Broken;
    impl io::Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::Error::other(Unprintable))
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let writer = Writer::new(Dialect::Csv, Broken);
    // The sink fails on the thread of the sampler.
    let (writer, release) = writer.held_back();
    let running = Sampler::new(Counting::new(1))
        .interval(Duration::from_millis(1))
        .with_sink(writer)
        .start()
        .unwrap();
    release.release();
    while running.failure().is_none() {
        std::thread::yield_now();
    }
    let failure = running.failure().unwrap();
    assert!(matches!(failure, Failure::Sink { .. }), "{failure}");
    let n_rows = running.with_trace(|trace| trace.rows.len());
    while running.with_trace(|trace| trace.rows.len()) == n_rows {
        std::thread::yield_now();
    }
    assert_eq!(running.stop().failures, [failure]);
}

#[test]
fn the_panic_of_a_source_reaches_no_caller_of_a_span() {
    for is_panicking in [false, true] {
        let running = Sampler::new(Breaking(Counting::new(1)))
            .interval(Duration::from_secs(3600))
            .start()
            .unwrap();
        // The second reading begins the region, the third begins another region, the fourth fails.
        let outer = running.span("outer");
        drop(running.span("inner"));
        assert!(
            running
                .failure()
                .is_some_and(|failure| failure.ends_sampling())
        );
        if is_panicking {
            // A panic within a drop during another panic would abort.
            let work = AssertUnwindSafe(|| {
                let _inner = running.span("broken");
                panic!("the work is broken");
            });
            assert!(catch_unwind(work).is_err());
        }
        drop(outer);
        let trace = running.stop().trace;
        assert_eq!(trace.regions.len(), 2 + usize::from(is_panicking));
        assert_eq!(trace.rows.len(), 3);
    }
}

#[test]
fn the_panic_of_a_source_in_a_drop_during_another_panic_does_not_abort() {
    let mut source = Breaking(Counting::new(1));
    source.0.n_readings = Arc::new(AtomicUsize::new(1));
    let running = Sampler::new(source).interval(Duration::from_secs(3600));
    let running = running.start().unwrap();
    let work = AssertUnwindSafe(|| {
        let _span = running.span("the last reading that works");
        panic!("the work is broken");
    });
    assert!(catch_unwind(work).is_err());
    assert!(
        running
            .failure()
            .is_some_and(|failure| failure.ends_sampling())
    );
}

#[test]
fn a_lost_sink_is_reported_when_it_is_lost() {
    struct Broken(bool);
    impl io::Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            assert!(!self.0, "the sink is broken");
            Err(io::Error::from(io::ErrorKind::StorageFull))
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    for panics in [false, true] {
        let running = Sampler::new(Counting::new(1))
            .with_sink(Writer::new(Dialect::Csv, Broken(panics)))
            .start()
            .unwrap();
        let failure = running.failure().unwrap();
        let is_full = matches!(
            &failure,
            Failure::Sink {
                kind: io::ErrorKind::StorageFull,
                ..
            }
        );
        assert_eq!(is_full, !panics, "{failure}");
        let scraped = prometheus::write_snapshot(&running.snapshot());
        assert!(scraped.contains("\ntelemetry_up 1\n"), "{scraped}");
        assert!(
            scraped.contains("\ntelemetry_sinks_failed 1\n"),
            "{scraped}"
        );
        assert_eq!(running.stop().failures.len(), 1);
    }
}

#[test]
fn a_scrape_contains_the_time_of_the_newest_row() {
    let running = Sampler::new(Counting::new(1)).start().unwrap();
    let snapshot = running.snapshot();
    let text = prometheus::write_snapshot(&snapshot);
    let line = text
        .lines()
        .find(|line| line.starts_with("telemetry_last_sample_timestamp_seconds{"));
    let reported_s: f64 = line.unwrap().rsplit(' ').next().unwrap().parse().unwrap();
    let row_s = snapshot.trace.rows[0].time.as_secs_f64();
    let truth_s = snapshot.trace.began_unix_ns as f64 * 1e-9 + row_s;
    assert!(
        (reported_s - truth_s).abs() < 2e-3,
        "{reported_s} {truth_s}"
    );
}

#[test]
fn a_region_is_written_within_a_second_whatever_the_interval() {
    for interval in [Duration::from_millis(800), Duration::from_secs(3600)] {
        let takes = || {
            let file = Shared::default();
            let running = Sampler::new(Counting::new(1))
                .interval(interval)
                .with_sink(Writer::new(Dialect::Csv, file.clone()))
                .start()
                .unwrap();
            drop(running.span("short"));
            let left = Instant::now();
            while format::read(&file.bytes())
                .unwrap()
                .trace
                .regions
                .is_empty()
            {
                assert!(left.elapsed() < Duration::from_secs(30));
                std::thread::yield_now();
            }
            left.elapsed()
        };
        // On a busy machine single attempts may be late, so one of five suffices.
        assert!((0..5).any(|_| takes() < Duration::from_millis(1100)));
    }
}

#[test]
fn what_sampling_takes_is_none_of_a_region() {
    let mut source = Counting::new(1);
    source.takes = Duration::from_millis(200);
    let running = Sampler::new(source)
        .interval(Duration::from_secs(3600))
        .start()
        .unwrap();
    let took = || {
        let span = running.span("short");
        work_for(Duration::from_millis(20));
        span.end().duration()
    };
    assert!((0..3).any(|_| took() < Duration::from_millis(150)));
}

#[test]
fn the_newest_row_of_each_device_is_there_when_memory_is_thinned() {
    let running = Sampler::new(Counting::new(2))
        .capacity(4)
        .interval(Duration::from_millis(1))
        .start()
        .unwrap();
    let n_rounds = |trace: &telemetry::Trace| trace.overhead.map_or(0, |overhead| overhead.ticks);
    while running.with_trace(n_rounds) < 50 {
        std::thread::yield_now();
    }
    let (newest, now) = (running.latest(), running.now());
    let devices: Vec<_> = newest.rows.iter().map(|row| row.device).collect();
    assert_eq!(devices, [0, 1]);
    let ticks = newest.overhead.unwrap().ticks;
    let last = newest.rows[1].values.get(Metric::Energy).unwrap();
    // The counter of the source is the number of the reading.
    assert!(last + 1.0 >= 2.0 * ticks as f64, "{last} {ticks} {now:?}");
    assert!(running.stop().trace.rows.len() <= 4);
}
