//! Analysis of devices whose story is known.

use super::*;
use crate::synthetic::{Program, Sensor};
use crate::{Device, Error, Kind, Metric, PowerLimits, Row, SensorClass, Trace, Values};
use std::time::Duration;

fn device() -> Device {
    Device {
        index: 0,
        kind: Kind::Gpu,
        name: "NVIDIA L4".into(),
        uuid: None,
        pci: None,
        driver: Some("550.54.14".into()),
        architecture: Some("Ada".into()),
        limits: PowerLimits {
            max_w: Some(300.0),
            set_w: Some(280.0),
            ..PowerLimits::default()
        },
        is_mig: false,
        capabilities: vec![],
    }
}

/// Samples a load at 10 Hz for a minute, with what else a row shall say.
fn traced(load: &Program, more: impl Fn(f64, &mut Values)) -> Trace {
    let sensor = Sensor::of(SensorClass::FullTime);
    let row = |i: u32| {
        let time_s = f64::from(i) * 0.1;
        let mut values = Values::none();
        values.set(Metric::PowerInstant, sensor.told_w(load, time_s));
        more(time_s, &mut values);
        Row {
            device: 0,
            time: Duration::from_millis(100) * i,
            values,
        }
    };
    Trace {
        devices: vec![device()],
        rows: (0..=600).map(row).collect(),
        ..Trace::default()
    }
}

#[test]
fn gaps_that_utilisation_hides_are_found_in_power() {
    let load = Program::square(60.0, 260.0, 1.7, 0.7);
    let trace = traced(&load, |_, values| {
        values.set(Metric::GpuBusy, 71.0);
        values.set(Metric::MemoryUsed, 8e9);
    });
    let found = idle_periods(&trace, 0).unwrap();
    assert_eq!(found.verdict, Verdict::PeriodicIdle);
    assert_eq!(found.shares.active, 1.0);
    let wasted_j = 60.0 * 0.3 * 60.0;
    assert!((found.wasted_j / wasted_j - 1.0).abs() < 0.1, "{found:?}");
    let text = found.to_string();
    assert!(
        text.contains("waits in every round") && text.contains("every 1.70 s"),
        "{text}"
    );
    assert!(text.lines().count() == 1 && text.contains(" J ("), "{text}");
}

#[test]
fn time_is_split_into_active_held_and_idle() {
    let trace = traced(&Program::constant(80.0), |time_s, values| {
        values.set(Metric::GpuBusy, if time_s < 15.0 { 95.0 } else { 3.0 });
        values.set(Metric::MemoryUsed, if time_s < 45.0 { 8e9 } else { 4e8 });
        values.set(Metric::MemoryTotal, 24e9);
    });
    let found = idle_periods(&trace, 0).unwrap();
    assert_eq!(found.verdict, Verdict::MostlyIdle);
    let Shares {
        active,
        idle_held,
        idle,
    } = found.shares;
    assert!(
        (active - 0.25).abs() < 1e-9 && (idle_held - 0.5).abs() < 1e-9,
        "{found:?}"
    );
    assert!((idle - 0.25).abs() < 1e-9);
    let kinds: Vec<Activity> = found.stretches.iter().map(|s| s.activity).collect();
    assert_eq!(
        kinds,
        [Activity::Active, Activity::IdleHeld, Activity::Idle]
    );
    assert!((found.joules - 4800.0).abs() < 1e-6 && (found.wasted_j - 3600.0).abs() < 1e-6);
}

#[test]
fn thresholds_of_use_are_those_of_the_rules() {
    for (busy, verdict) in [
        (&(|_: f64| 65.0) as &dyn Fn(f64) -> f64, Verdict::Underused),
        (&|_: f64| 75.0, Verdict::Busy),
        (
            &|time_s: f64| if time_s < 6.0 { 5.0 } else { 90.0 },
            Verdict::Fluctuating,
        ),
    ] {
        let trace = traced(&Program::constant(200.0), |time_s, values| {
            values.set(Metric::GpuBusy, busy(time_s));
        });
        assert_eq!(idle_periods(&trace, 0).unwrap().verdict, verdict);
    }
}

#[test]
fn without_utilisation_power_decides_and_without_both_nothing_does() {
    let load = Program::square(30.0, 250.0, 20.0, 0.5);
    let mut trace = traced(&load, |_, _| {});
    let found = idle_periods(&trace, 0).unwrap();
    assert!((found.shares.active - 0.5).abs() < 0.01, "{found:?}");
    assert_eq!(found.busy_percentiles, None);
    assert!(matches!(
        idle_periods(&trace, 1),
        Err(Error::NoDevice { .. })
    ));
    for row in &mut trace.rows {
        row.values = Values::none();
    }
    assert!(matches!(
        idle_periods(&trace, 0),
        Err(Error::Unavailable { .. })
    ));
}

#[test]
fn a_power_cap_costs_speed_and_saves_energy() {
    let capped = |watts: f64, limit_w: f64, clock_mhz: f64, reasons: u64| {
        traced(&Program::constant(watts), move |time_s, values| {
            values.set(Metric::PowerLimit, limit_w);
            values.set(Metric::SmClock, clock_mhz);
            let held = if time_s < 15.0 { 0 } else { reasons };
            values.set(Metric::ClockReasons, held as f64);
        })
    };
    let (free, cap) = (
        capped(250.0, 300.0, 1900.0, 0),
        capped(150.0, 160.0, 1600.0, 0x4),
    );
    let job = |trace, items| Job {
        trace,
        device: 0,
        window: None,
        items,
    };
    let found = compare_policies(&job(&free, 6000.0), &job(&cap, 5400.0)).unwrap();
    assert!((found.before.throughput - 100.0).abs() < 1e-9);
    assert!(
        (found.before.joules_per_item - 2.5).abs() < 1e-6,
        "{found:?}"
    );
    assert!((found.speedup - 0.9).abs() < 1e-9);
    assert!((found.energy_ratio - 150.0 / 0.9 / 250.0).abs() < 1e-6);
    let (low, high) = found.energy_ratio_range;
    assert!(low < found.energy_ratio && found.energy_ratio < high && high - low < 0.02);
    assert_eq!(
        (found.after.power_limit_w, found.after.sm_clock_mhz),
        (Some(160.0), Some(1600.0))
    );
    assert!(found.before.reasons.is_empty());
    let [only] = found.after.reasons[..] else {
        panic!("{found:?}")
    };
    assert_eq!(only.reason.name, "sw-power-cap");
    assert!((only.share - 0.75).abs() < 0.01);
    let text = found.to_string();
    assert!(
        text.starts_with("throughput -10.0 %, energy per item -33.3 %"),
        "{text}"
    );
    for items in [0.0, f64::NAN, -1.0, f64::INFINITY] {
        let refused = compare_policies(&job(&free, items), &job(&cap, 1.0));
        assert!(matches!(
            refused,
            Err(Error::ParameterInvalid {
                parameter: "items",
                ..
            })
        ));
    }
}
