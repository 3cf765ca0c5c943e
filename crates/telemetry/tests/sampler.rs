//! The sampler: rows when they are due, bounded memory, and nothing lost.

mod support;

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::work_for;
use telemetry::format::{self, Dialect, Writer};
use telemetry::{
    Device, Error, Fault, Kind, Metric, PowerLimits, Reading, Sampler, Select, Source, Values,
};

/// Counts its readings, and tells the count; every third one fails.
struct Counting {
    devices: Vec<Device>,
    n_readings: Arc<AtomicUsize>,
    takes: Duration,
}

impl Counting {
    fn new(n_devices: usize) -> Self {
        let device = |index| Device {
            index,
            kind: Kind::Gpu,
            name: "counting".to_owned(),
            uuid: Some(format!("GPU-{index}{index}{index}")),
            pci: Some(format!("00000000:0{index}:00.0")),
            driver: None,
            architecture: None,
            limits: PowerLimits::default(),
            is_mig: false,
            capabilities: vec![],
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

/// A file that others look into.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panics").extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
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
    let sampler = sampler.to(Writer::new(Dialect::Csv, file.clone()));
    let trace = sampler.record(Duration::from_secs(100)).unwrap();
    assert!(
        (50..=100).contains(&trace.rows.len()),
        "{}",
        trace.rows.len()
    );
    let written = format::read(&file.0.lock().unwrap()).unwrap();
    assert!(written.skipped.is_empty());
    assert_eq!(written.trace.rows.len(), 3 * 1001);
    assert_eq!(written.trace.overhead, trace.overhead);
    // What is left is spread evenly.
    for device in 0..3 {
        let times: Vec<_> = trace.of_device(device).map(|row| row.time).collect();
        let steps: Vec<_> = times.windows(2).map(|two| two[1] - two[0]).collect();
        let (least, most) = (steps.iter().min().unwrap(), steps.iter().max().unwrap());
        assert!(*most <= 2 * *least, "{least:?} {most:?}");
        assert!(times[0].is_zero() && *times.last().unwrap() > Duration::from_secs(90));
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
    while running.look(|trace| trace.rows.len()) < 8 {
        std::thread::yield_now();
    }
    let trace = running.stop().trace;
    let overhead = trace.overhead.unwrap();
    assert!(overhead.missed >= 7, "{overhead:?}");
    assert!(overhead.longest >= Duration::from_millis(25));
    let rounds = overhead.ticks + overhead.missed;
    let last = trace.rows[trace.rows.len() - 2].time;
    // A round is never early, so as many as there were can't have ended before.
    assert!(last >= Duration::from_millis(10) * u32::try_from(rounds - 1).unwrap());
}

#[test]
fn a_sink_that_fails_is_given_up_and_said() {
    struct Full;
    impl io::Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::Error::from(io::ErrorKind::StorageFull))
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let file = Shared::default();
    let running = Sampler::new(Counting::new(1))
        .interval(Duration::from_millis(1))
        .to(Writer::new(Dialect::JsonLines, Full))
        .to(Writer::new(Dialect::JsonLines, file.clone()))
        .start()
        .unwrap();
    while running.look(|trace| trace.rows.len()) < 5 {
        std::thread::yield_now();
    }
    let stopped = running.stop();
    assert_eq!(stopped.failures.len(), 1);
    assert_eq!(stopped.failures[0].kind(), io::ErrorKind::StorageFull);
    let written = format::read(&file.0.lock().unwrap()).unwrap().trace;
    assert_eq!(written.rows.len(), stopped.trace.rows.len());
}

#[test]
fn what_is_dropped_ends_its_files() {
    let file = Shared::default();
    let sampler = Sampler::new(Counting::new(1)).to(Writer::new(Dialect::Csv, file.clone()));
    drop(sampler.start().unwrap());
    let written = format::read(&file.0.lock().unwrap()).unwrap().trace;
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
    for nonsense in ["3", "GPU-", "GPU-9", "", "-1"] {
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
fn an_interval_of_nothing_is_refused() {
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
