//! Properties of every device: of the boards of the fake library, and of the devices of this
//! machine.
//!
//! Method: all devices get the same checks. On a machine with NVIDIA's driver or with RAPL, its own
//! devices are tested as well.

mod support;

use std::time::Duration;
use support::{Fake, fake, skip, work_for};
use telemetry::format::{self, Dialect};
use telemetry::nvml::Nvml;
use telemetry::rapl::Rapl;
use telemetry::synthetic::{Board, Scenario};
use telemetry::{Device, Metric, Result, Sampler, Select, Source, Unit, measure_by};

/// Checks a source, which `open` reopens for each check.
fn check<S: Source + 'static>(open: impl Fn() -> Result<S>) -> Result<()> {
    let mut source = open()?;
    let devices = source.devices().to_vec();
    for (index, device) in devices.iter().enumerate() {
        assert_eq!(device.index, index);
        for step in 0..20 {
            let reading = source.read(index, Duration::from_millis(10 * step));
            for (metric, value) in reading.values.iter() {
                assert!(device.field(metric).is_some(), "{metric} of {device:?}");
                check_value(device, metric, value);
            }
            let has = |metric| reading.values.get(metric).is_some();
            let fails = |metric| reading.faults.iter().any(|(failed, _)| *failed == metric);
            let reported = Metric::ALL
                .into_iter()
                .filter(|&metric| device.field(metric).is_some());
            for metric in reported {
                assert!(has(metric) != fails(metric), "{metric} of {device:?}");
            }
        }
        let names = [
            Some(index.to_string()),
            device.uuid.clone(),
            device.pci.clone(),
        ];
        for name in names.into_iter().flatten() {
            let select = Select::Named(vec![name.clone()]);
            assert_eq!(select.among(&devices)?, [index], "{name}");
        }
    }
    let sampler = Sampler::new(open()?).interval(Duration::from_millis(10));
    let running = sampler.start()?;
    work_for(Duration::from_millis(1500));
    let trace = running.stop().trace;
    for (index, device) in devices.iter().enumerate() {
        let counter = trace.series(index, Metric::Energy);
        assert!(counter.windows(2).all(|two| two[0].1 <= two[1].1));
        let energy = trace.energy(
            index,
            Duration::from_millis(400)..Duration::from_millis(1200),
        );
        assert_eq!(energy.is_some(), device.reports_energy(), "{device:?}");
        let Some(energy) = energy else { continue };
        assert!(energy.interval.contains(energy.joules), "{energy:?}");
        if let Some(check) = energy.check {
            let (ours, theirs) = (energy.interval, check.interval);
            let overlap = ours.low_j <= theirs.high_j && theirs.low_j <= ours.high_j;
            assert!(overlap, "{energy:?}");
        }
    }
    for dialect in [Dialect::Csv, Dialect::JsonLines] {
        let read = format::read(format::write(&trace, dialect).as_bytes())?;
        assert_eq!((read.trace, read.skipped.len()), (trace.clone(), 0));
    }
    let ((), spent) = measure_by(Sampler::new(open()?), || {
        work_for(Duration::from_millis(300));
    })?;
    assert!(spent.duration() >= Duration::from_millis(300));
    assert!(
        spent.joules().is_none_or(|joules| joules > 0.0),
        "{spent:?}"
    );
    Ok(())
}

fn check_value(device: &Device, metric: Metric, value: f64) {
    let limit_w = device.limits.max_w.unwrap_or(5000.0);
    let (least, most) = match metric.unit() {
        Unit::Watt => (0.0, 2.0 * limit_w),
        Unit::Joule => (0.0, 1e13),
        Unit::Celsius => (-50.0, 150.0),
        Unit::Percent => (0.0, 100.0),
        Unit::Byte => (0.0, 1e13),
        Unit::Megahertz => (0.0, 50_000.0),
        Unit::None if metric == Metric::PerformanceState => (0.0, 15.0),
        Unit::None => (0.0, 2.0_f64.powi(53)),
    };
    assert!(
        (least..=most).contains(&value),
        "{metric} is {value}: {device:?}"
    );
}

#[test]
fn devices_that_the_fake_library_plays_are_sound() {
    for driver in ["450.80.02", "535.104.05", "580.95.05"] {
        let played = Fake::play(&Scenario::from_boards(&Board::ALL).on_driver(driver));
        played.use_real_time();
        check(|| Nvml::open_at(&fake())).unwrap();
    }
}

#[test]
fn gpus_of_this_machine_are_sound() {
    match Nvml::open() {
        Ok(_) => check(Nvml::open).unwrap(),
        Err(why) => skip(&why.to_string()),
    }
}

#[test]
fn rapl_of_this_machine_is_sound() {
    match Rapl::open() {
        Ok(_) => check(Rapl::open).unwrap(),
        Err(why) => skip(&why.to_string()),
    }
}
