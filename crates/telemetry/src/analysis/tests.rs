//! Analyses of synthetic traces with known results.

use super::*;
use crate::synthetic::{PowerProfile, PowerSegment, Sensor, Synthetic};
use crate::{
    Device, Error, Fault, Kind, Metric, PowerLimits, Row, Sampler, SensorClass, Trace, Values,
};
use std::time::Duration;

fn device() -> Device {
    Device {
        driver: Some("550.54.14".into()),
        architecture: Some("Ada".into()),
        limits: PowerLimits {
            max_w: Some(300.0),
            set_w: Some(280.0),
            ..PowerLimits::default()
        },
        ..Device::new(Kind::Gpu, "NVIDIA L4")
    }
}

/// Samples a load at 10 Hz for a minute; `more` adds values to each row, given the time in s.
fn traced(load: &PowerProfile, more: impl Fn(f64, &mut Values)) -> Trace {
    let sensor = Sensor::for_class(SensorClass::FullTime);
    let row = |i: u32| {
        let time_s = f64::from(i) * 0.1;
        let mut values = Values::none();
        values.set(Metric::PowerInstant, sensor.reported_w(load, time_s));
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
    let load = PowerProfile::square(60.0, 260.0, 1.7, 0.7);
    let trace = traced(&load, |_, values| {
        values.set(Metric::GpuBusy, 71.0);
        values.set(Metric::MemoryUsed, 8e9);
    });
    let found = idle_periods(&trace, 0).unwrap();
    assert_eq!(found.verdict, Verdict::PeriodicIdle);
    assert!((found.shares.active.value - 0.7).abs() < 0.01, "{found}");
    let truth_j = 60.0 * 0.3 * 60.0;
    let wasted_j = found.wasted_j.unwrap();
    assert!((wasted_j.value / truth_j - 1.0).abs() < 0.02, "{found}");
    assert!(wasted_j.contains(truth_j), "{found}");
    let text = found.to_string();
    assert!(
        text.contains("waits in every round") && text.contains("every 1.70 s"),
        "{text}"
    );
    assert!(
        text.lines().count() == 1 && text.contains(" while idle"),
        "{text}"
    );
}

#[test]
fn power_beyond_f64_has_no_energy() {
    let watts = [
        26.0,
        11.0,
        128.0,
        43.0,
        194.0,
        142.0,
        71.0,
        f64::MAX,
        10.0,
        6.0,
        43.0,
        11.0,
        58.0,
    ];
    let row = |(i, watts): (u32, f64)| {
        let mut values = Values::none();
        values.set(Metric::PowerAverage, watts);
        Row {
            device: 0,
            time: Duration::from_millis(10) * i,
            values,
        }
    };
    let trace = Trace {
        devices: vec![Device::new(Kind::Gpu, "GPU")],
        rows: (0..).zip(watts).map(row).collect(),
        ..Trace::default()
    };
    let found = idle_periods(&trace, 0).unwrap();
    assert_eq!(found.joules, None, "{found:?}");
    let mut periods = found.periods.iter();
    assert!(periods.all(|period| period.joules.is_none()), "{found:?}");
}

#[test]
fn time_is_split_into_active_held_and_idle() {
    let trace = traced(&PowerProfile::constant(80.0), |time_s, values| {
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
        (active.value - 0.25).abs() < 1e-9 && (idle_held.value - 0.5).abs() < 1e-9,
        "{found:?}"
    );
    assert!((idle.value - 0.25).abs() < 1e-9);
    let kinds: Vec<Activity> = found.periods.iter().map(|s| s.activity).collect();
    assert_eq!(
        kinds,
        [Activity::Active, Activity::IdleHeld, Activity::Idle]
    );
    assert!((found.joules.unwrap() - 4800.0).abs() < 1e-6);
    assert!((found.wasted_j.unwrap().value - 3600.0).abs() < 1e-6);
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
        let trace = traced(&PowerProfile::constant(200.0), |time_s, values| {
            values.set(Metric::GpuBusy, busy(time_s));
        });
        assert_eq!(idle_periods(&trace, 0).unwrap().verdict, verdict);
    }
}

#[test]
fn without_utilisation_power_decides_and_without_both_nothing_does() {
    let load = PowerProfile::square(30.0, 250.0, 20.0, 0.5);
    let mut trace = traced(&load, |_, _| {});
    let found = idle_periods(&trace, 0).unwrap();
    assert!((found.shares.active.value - 0.5).abs() < 0.01, "{found:?}");
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
fn a_pause_of_sampling_is_no_time_of_the_device() {
    let mut trace = traced(&PowerProfile::constant(80.0), |time_s, values| {
        values.set(Metric::GpuBusy, if time_s < 15.0 { 3.0 } else { 95.0 });
    });
    // After the last idle row, half a minute has no rows.
    let paused = |row: &Row| (14.95..45.0).contains(&row.time.as_secs_f64());
    trace.rows.retain(|row| !paused(row));
    let found = idle_periods(&trace, 0).unwrap();
    assert!(
        (found.shares.idle.value - 0.5).abs() < 0.01,
        "{:?}",
        found.shares
    );
    let of_rows_j: f64 = found.periods.iter().filter_map(|s| s.joules).sum();
    assert!((of_rows_j - 80.0 * 30.0).abs() < 10.0, "{of_rows_j}");
    let all = trace.energy(0, Duration::ZERO..trace.duration()).unwrap();
    assert_eq!(found.joules, Some(all.joules));
    let ends: Vec<_> = found.periods.iter().map(|s| s.window.clone()).collect();
    assert_eq!(ends.len(), 2);
    assert_eq!(ends[0].end, Duration::from_secs(15));
    assert!(ends[1].start >= Duration::from_secs(45), "{ends:?}");
}

#[test]
fn joules_of_idle_time_are_those_of_the_trace() {
    // A sensor that averages over the last second lags: its readings alone would assign much of the
    // energy of the second half to the first half.
    let load = PowerProfile {
        pieces: vec![
            PowerSegment::level(30.0, 60.0),
            PowerSegment::level(31.0, 260.0),
        ],
        repeats: false,
    };
    let sensor = Sensor::for_class(SensorClass::LastSecond);
    let mut trace = traced(&load, |time_s, values| {
        values.set(Metric::PowerInstant, f64::NAN);
        values.set(Metric::PowerAverage, sensor.reported_w(&load, time_s));
        values.set(Metric::GpuBusy, if time_s < 30.05 { 0.0 } else { 100.0 });
    });
    for counted in [false, true] {
        for row in trace.rows.iter_mut().filter(|_| counted) {
            let reported_j = 5000.0 + load.energy_j(0.0, row.time.as_secs_f64());
            row.values.set(Metric::Energy, reported_j);
        }
        let found = idle_periods(&trace, 0).unwrap();
        let all = trace.energy(0, Duration::ZERO..trace.duration()).unwrap();
        let joules = found.joules.unwrap();
        assert!(
            (joules - all.joules).abs() < 1e-6 * all.joules,
            "{joules} {all}"
        );
        let idle_j = found.periods[0].joules.unwrap();
        assert!((idle_j - 60.0 * 30.1).abs() < 60.0, "{counted} {idle_j}");
    }
}

/// Adds rows like those at the edges of regions of code: 99 rows, 10 µs apart, at the start of
/// every second until `until_s`.
fn with_edges(mut trace: Trace, until_s: u64) -> Trace {
    trace.interval = Duration::from_millis(100);
    let mut rows = vec![];
    for row in &trace.rows {
        rows.push(*row);
        if row.time.subsec_nanos() == 0 && row.time.as_secs() < until_s {
            rows.extend((1..100).map(|edge| Row {
                time: row.time + Duration::from_micros(10) * edge,
                ..*row
            }));
        }
    }
    trace.rows = rows;
    trace
}

#[test]
fn rows_at_the_edges_of_regions_weigh_no_more_than_their_time() {
    let load = PowerProfile::constant(100.0);
    let busy = |time_s: f64, values: &mut Values| {
        // Each region begins with a short wait; nearly all added rows are within these waits.
        let is_waiting = time_s.fract() < 0.05 && time_s < 30.0;
        values.set(Metric::GpuBusy, if is_waiting { 0.0 } else { 90.0 });
    };
    let (plain, edged) = (traced(&load, busy), with_edges(traced(&load, busy), 30));
    let (plain, edged) = (
        idle_periods(&plain, 0).unwrap(),
        idle_periods(&edged, 0).unwrap(),
    );
    assert!((edged.joules.unwrap() - 6000.0).abs() < 1.0, "{edged:?}");
    assert!(
        (edged.shares.active.value - plain.shares.active.value).abs() < 0.001,
        "{edged:?}"
    );
    assert_eq!(edged.busy_percentiles, plain.busy_percentiles);
    assert_eq!(
        (edged.verdict, edged.periodicity),
        (plain.verdict, plain.periodicity)
    );
}

#[test]
fn levels_of_power_are_those_of_time() {
    // Without utilisation, time is cut by power, at the midpoint of its two levels.
    let load = PowerProfile::square(60.0, 260.0, 20.0, 0.5);
    let (plain, edged) = (
        traced(&load, |_, _| {}),
        with_edges(traced(&load, |_, _| {}), 9),
    );
    let share = |trace| idle_periods(trace, 0).unwrap().shares.active.value;
    assert!((share(&plain) - share(&edged)).abs() < 0.001);
}

#[test]
fn a_device_that_was_never_idle_wasted_nothing() {
    let trace = traced(&PowerProfile::constant(0.2), |_, values| {
        values.set(Metric::GpuBusy, 90.0);
    });
    let found = idle_periods(&trace, 0).unwrap();
    let wasted_j = found.wasted_j.unwrap();
    assert!(wasted_j.value == 0.0 && wasted_j.value.is_sign_positive());
    let text = found.to_string();
    assert!(
        text.contains("It used 12.00 J, of which 0 J [0, "),
        "{text}"
    );
}

#[test]
fn means_of_policies_are_those_of_time() {
    let clocked = |time_s: f64, values: &mut Values| {
        let is_slow = time_s < 15.0;
        values.set(Metric::SmClock, if is_slow { 1000.0 } else { 2000.0 });
        values.set(Metric::PowerLimit, if is_slow { 150.0 } else { 300.0 });
        values.set(Metric::ClockReasons, if is_slow { 4.0 } else { 0.0 });
    };
    let trace = with_edges(traced(&PowerProfile::constant(100.0), clocked), 15);
    let job = Job {
        trace: &trace,
        device: 0,
        window: None,
        items: 1.0,
    };
    let found = compare_policies(&job, &job).unwrap().before;
    assert!(
        (found.sm_clock_mhz.unwrap() - 1750.0).abs() < 1.0,
        "{found:?}"
    );
    assert_eq!(found.power_limit_w, Some(300.0));
    assert!((found.reasons[0].share - 0.25).abs() < 0.001, "{found:?}");
}

#[test]
fn negative_readings_are_left_out() {
    let busy = |time_s: f64| if time_s % 20.0 < 10.0 { 100.0 } else { 0.0 };
    let load = PowerProfile::constant(80.0);
    let right = traced(&load, |time_s, values| {
        values.set(Metric::GpuBusy, busy(time_s));
        values.set(Metric::PowerInstant, f64::NAN);
    });
    let wrong = traced(&load, |time_s, values| {
        values.set(Metric::GpuBusy, busy(time_s));
        values.set(Metric::PowerInstant, -5.0);
    });
    let [right, wrong] = [right, wrong].map(|trace| idle_periods(&trace, 0).unwrap());
    assert_eq!(wrong, right);
}

#[test]
fn rows_of_one_time_and_rows_in_disorder_are_no_panic() {
    let mut trace = traced(&PowerProfile::constant(80.0), |_, values| {
        values.set(Metric::GpuBusy, 50.0);
    });
    trace.rows.swap(3, 300);
    assert!(idle_periods(&trace, 0).is_ok());
    for row in &mut trace.rows {
        row.time = Duration::from_secs(9);
    }
    let rejected = idle_periods(&trace, 0);
    assert!(matches!(
        rejected,
        Err(Error::Unavailable {
            fault: Fault::InvalidReading,
            ..
        })
    ));
}

#[test]
fn a_power_cap_costs_speed_and_saves_energy() {
    let capped = |watts: f64, limit_w: f64, clock_mhz: f64, reasons: u64| {
        traced(&PowerProfile::constant(watts), move |time_s, values| {
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
    assert!(low < found.energy_ratio && found.energy_ratio < high);
    // The 600 reads of a minute are as rare as the updates, and may miss 10 updates of 0.1 s if the
    // clocks differ by 1.5 %. With 0 W to the ceiling of 360 W in these updates, the energies are
    // off by −1.7 % to +2.3 %, and the ratio by 0.042. The ends of the window add the rest.
    assert!((0.03..0.05).contains(&(high - low)), "{low} {high}");
    assert_eq!(found.after.power_limit_w, Some(160.0));
    assert!((found.after.sm_clock_mhz.unwrap() - 1600.0).abs() < 1e-6);
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
        let rejected = compare_policies(&job(&free, items), &job(&cap, 1.0));
        assert!(matches!(
            rejected,
            Err(Error::ParameterInvalid {
                parameter: "items",
                ..
            })
        ));
    }
}

#[test]
fn time_of_which_nothing_is_known_is_said_and_so_is_memory() {
    let source = Synthetic::from_power(PowerProfile::square(20.0, 60.0, 2.0, 0.5)).unwrap();
    let mut trace = Sampler::new(source)
        .record(Duration::from_secs(10))
        .unwrap();
    let found = idle_periods(&trace, 0).unwrap();
    assert!(found.known > 0.999 && found.is_memory_reported, "{found}");
    assert!(!found.to_string().contains("unknown"));
    for row in &mut trace.rows {
        row.values.set(Metric::MemoryUsed, f64::NAN);
        if (Duration::from_secs(3)..Duration::from_secs(7)).contains(&row.time) {
            row.values = Values::none();
        }
    }
    let found = idle_periods(&trace, 0).unwrap();
    assert!((found.known - 0.6).abs() < 0.03, "{}", found.known);
    let said = found.to_string();
    assert!(
        said.contains("40 % of the time is unknown") || said.contains("39 % of the time"),
        "{said}"
    );
    assert!(said.contains("memory in use is not reported"), "{said}");
}
