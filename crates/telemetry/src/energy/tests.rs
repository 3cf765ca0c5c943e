//! Tests of energies of simulated devices: the choice of method, the text, and damaged traces.
//!
//! Role: also contains the simulated devices and loads that all tests of energies use.

mod accuracy;
mod calibration;
mod counters;
mod measured;
mod missed;
mod recorded;
mod short;

use super::*;
use crate::synthetic::{PowerProfile, PowerSegment, Sensor};
use crate::testdata::Random;
use crate::{Device, Kind, PowerLimits, Row, Values, testdata};

/// The quantity that a simulated device reports.
#[derive(Clone, Copy, Debug)]
enum Reported {
    /// Power, through a sensor of a class.
    Power(SensorClass),
    /// An energy counter with this update period, in s.
    Counter(f64),
}

fn device(reported: Reported) -> Device {
    let (name, architecture) = match reported {
        Reported::Power(SensorClass::PartTime) => ("NVIDIA A100-SXM4-40GB", "Ampere"),
        Reported::Power(SensorClass::FullTime | SensorClass::LastSecond) => ("NVIDIA L4", "Ada"),
        Reported::Power(SensorClass::Fast) => ("Tesla V100", "Volta"),
        Reported::Counter(_) => ("NVIDIA B200", "Blackwell"),
    };
    Device {
        driver: Some("550.54.14".into()),
        architecture: Some(architecture.into()),
        limits: PowerLimits {
            max_w: Some(300.0),
            ..PowerLimits::default()
        },
        ..Device::new(Kind::Gpu, name)
    }
}

fn metric(reported: Reported) -> Metric {
    match reported {
        Reported::Power(SensorClass::LastSecond) => Metric::PowerAverage,
        Reported::Power(_) => Metric::PowerInstant,
        Reported::Counter(_) => Metric::Energy,
    }
}

/// Samples a load every `every_s` from 0 s to `lasts_s`; readings are whole mW or mJ, as NVML's
/// are.
fn sampled(
    load: &PowerProfile,
    reported: Reported,
    phase_s: f64,
    every_s: f64,
    lasts_s: f64,
) -> Trace {
    let mut times_s = vec![];
    let mut time_s = 0.0;
    while time_s <= lasts_s {
        times_s.push(time_s);
        time_s += every_s;
    }
    sampled_at(load, reported, phase_s, &times_s)
}

/// Samples a load at the given times, in s, as [`sampled`] does.
fn sampled_at(load: &PowerProfile, reported: Reported, phase_s: f64, times_s: &[f64]) -> Trace {
    let mut rows = vec![];
    for &time_s in times_s {
        let value = match reported {
            Reported::Power(class) => {
                let sensor = Sensor {
                    phase_s,
                    ..Sensor::for_class(class)
                };
                sensor.reported_w(load, time_s)
            }
            Reported::Counter(step_s) => {
                let sensor = Sensor {
                    update_s: step_s,
                    window_s: 0.0,
                    phase_s,
                    gain: 1.0,
                    offset_w: 0.0,
                };
                1000.0 + load.energy_j(0.0, sensor.updated_s(time_s))
            }
        };
        let mut values = Values::none();
        values.set(metric(reported), (value * 1000.0).round() / 1000.0);
        rows.push(Row {
            device: 0,
            time: Duration::from_secs_f64(time_s),
            values,
        });
    }
    Trace {
        devices: vec![device(reported)],
        rows,
        ..Trace::default()
    }
}

fn irregular(random: &mut Random, n: usize) -> Vec<PowerSegment> {
    let piece = |_| PowerSegment::level(random.between(0.02, 0.4), random.between(50.0, 250.0));
    (0..n).map(piece).collect()
}

fn loads() -> Vec<(&'static str, PowerProfile)> {
    let ramp = |from_w, to_w| PowerSegment {
        lasts_s: 1.7,
        from_w,
        to_w,
    };
    let repeated = |pieces| PowerProfile {
        pieces,
        repeats: true,
    };
    vec![
        ("constant", PowerProfile::constant(150.0)),
        (
            "ramps",
            repeated(vec![ramp(50.0, 250.0), ramp(250.0, 50.0)]),
        ),
        ("irregular", repeated(irregular(&mut Random(7), 40))),
        (
            "square 104 ms",
            PowerProfile::square(50.0, 250.0, 0.104, 0.5),
        ),
        (
            "square 96 ms",
            PowerProfile::square(50.0, 250.0, 0.096, 0.3),
        ),
        (
            "square 52 ms",
            PowerProfile::square(50.0, 250.0, 0.052, 0.5),
        ),
        (
            "square 730 ms",
            PowerProfile::square(50.0, 250.0, 0.73, 0.6),
        ),
        ("alias 100 ms", PowerProfile::square(50.0, 250.0, 0.1, 0.5)),
        ("alias 50 ms", PowerProfile::square(50.0, 250.0, 0.05, 0.5)),
        ("alias 20 ms", PowerProfile::square(50.0, 250.0, 0.02, 0.5)),
    ]
}

fn seconds(from_s: f64, to_s: f64) -> Range<Duration> {
    Duration::from_secs_f64(from_s)..Duration::from_secs_f64(to_s)
}

const REPORTED: [Reported; 6] = [
    Reported::Power(SensorClass::PartTime),
    Reported::Power(SensorClass::FullTime),
    Reported::Power(SensorClass::LastSecond),
    Reported::Power(SensorClass::Fast),
    Reported::Counter(0.02),
    Reported::Counter(0.1),
];

fn name(reported: Reported) -> String {
    match reported {
        Reported::Power(class) => format!("{class:?}"),
        Reported::Counter(step_s) => format!("counter {step_s}"),
    }
}

fn is_part_time(reported: Reported) -> bool {
    matches!(
        reported,
        Reported::Power(SensorClass::PartTime | SensorClass::Fast)
    )
}

/// Returns a trace of a device that draws 100 W and reports only a counter, with a row every 0.1 s
/// for 12 s.
fn counting(kind: Kind, limits: PowerLimits) -> Trace {
    let load = PowerProfile::constant(100.0);
    let mut trace = sampled(&load, Reported::Counter(0.000_976), 0.0, 0.1, 12.0);
    trace.devices[0].kind = kind;
    trace.devices[0].limits = limits;
    trace
}

#[test]
fn without_power_or_energy_there_is_none() {
    let mut trace = sampled(&PowerProfile::constant(99.0), REPORTED[1], 0.0, 0.1, 5.0);
    assert_eq!(trace.energy(0, seconds(1.0, 1.0)), None);
    assert_eq!(trace.energy(0, seconds(1.0, 9.0)), None);
    assert_eq!(trace.energy(1, seconds(1.0, 2.0)), None);
    assert!(trace.energy(0, seconds(1.0, 2.0)).is_some());
    for row in &mut trace.rows {
        row.values = Values::none();
    }
    assert_eq!(trace.energy(0, seconds(1.0, 2.0)), None);
}

/// Samples the power of a load for 30 s, and a counter that counts `gain` times the energy.
fn sampled_with_counter(load: &PowerProfile, gain: f64) -> Trace {
    let reported = Reported::Power(SensorClass::FullTime);
    let mut trace = sampled(load, reported, 0.0, 0.02, 30.0);
    let counter = sampled(load, Reported::Counter(0.1), 0.03, 0.02, 30.0);
    for (row, other) in trace.rows.iter_mut().zip(&counter.rows) {
        let counted = other.values.get(Metric::Energy).unwrap();
        row.values.set(Metric::Energy, gain * counted);
    }
    trace
}

#[test]
fn the_counter_comes_first_and_the_integral_checks_it() {
    let load = PowerProfile::square(50.0, 250.0, 0.73, 0.6);
    let mut trace = sampled_with_counter(&load, 1.05);
    let energy = trace.energy(0, seconds(2.0, 28.0)).unwrap();
    assert_eq!(
        (energy.method, energy.metric),
        (Method::Counter, Metric::Energy)
    );
    let check = energy.check.unwrap();
    assert_eq!(
        (check.method, check.metric),
        (Method::InstantPower, Metric::PowerInstant)
    );
    let off = energy.disagreement().unwrap();
    assert!((off + 0.05 / 1.05).abs() < 2e-3, "{off}");
    let text = energy.to_string();
    assert!(
        text.contains("by energy counter") && text.contains("instant power -4."),
        "{text}"
    );
    // After a reset of the counter, the integral of power is used, and there is no check.
    for row in &mut trace.rows[700..] {
        let reported = row.values.get(Metric::Energy).unwrap();
        row.values.set(Metric::Energy, reported - 3000.0);
    }
    let energy = trace.energy(0, seconds(2.0, 28.0)).unwrap();
    assert_eq!(energy.method, Method::InstantPower);
    assert_eq!(energy.check, None);
}

#[test]
fn an_empty_second_is_missing_and_not_zero() {
    let mut trace = sampled(&PowerProfile::constant(100.0), REPORTED[1], 0.0, 0.02, 10.0);
    trace
        .rows
        .retain(|row| !(4.0..5.0).contains(&row.time.as_secs_f64()));
    let energy = trace.energy(0, seconds(2.0, 8.0)).unwrap();
    assert!((energy.joules - 600.0).abs() < 1.0, "{energy:?}");
    assert!(
        energy.sampling.low_j < 520.0 && energy.sampling.high_j > 800.0,
        "{energy:?}"
    );
    assert_eq!(trace.energy(0, seconds(3.9, 5.0)), None);
}

#[test]
fn a_device_without_power_has_no_result() {
    for reported in REPORTED {
        let trace = sampled(&PowerProfile::constant(0.0), reported, 0.0, 0.05, 12.0);
        assert!(trace.devices[0].limits.max_w.is_some());
        assert_eq!(trace.energy(0, seconds(2.0, 10.0)), None, "{reported:?}");
    }
}

#[test]
fn energies_of_any_size_are_written_with_their_digits() {
    for (joules, text) in [
        (0.0, "0"),
        (0.012_345, "0.01235"),
        (1.0, "1.000"),
        (99.996, "100.0"),
        (1234.56, "1235"),
        (123_456.7, "123457"),
        (1.234_56e10, "1.235e10"),
        (2e-6, "2.000e-6"),
    ] {
        assert_eq!(digits(joules), text);
    }
    let load = PowerProfile::constant(0.05);
    let trace = sampled(&load, Reported::Power(SensorClass::FullTime), 0.0, 0.1, 9.0);
    let energy = trace.energy(0, seconds(2.0, 2.5)).unwrap();
    assert!(energy.to_string().starts_with("0.02500 J [0, "), "{energy}");
    let check = EnergyCheck {
        joules: energy.joules * (1.0 - 1e-9),
        interval: energy.interval,
        method: Method::AveragePower,
        metric: Metric::PowerAverage,
    };
    let said = Energy {
        check: Some(check),
        ..energy
    };
    assert!(
        said.to_string().ends_with("; average power +0.0 %"),
        "{said}"
    );
    let wide = Energy {
        interval: Interval {
            low_j: 0.0,
            high_j: 1e300,
        },
        joules: 1e-3,
        ..said
    };
    let text = wide.to_string();
    assert!(
        text.starts_with("0.001000 J [0, 1.000e300] (-100 %, +1.000e305 %)"),
        "{text}"
    );
}

#[test]
fn no_energy_disagrees_with_nothing() {
    let trace = counting(Kind::Gpu, PowerLimits::default());
    let energy = trace.energy(0, seconds(2.0, 10.0)).unwrap();
    let check = EnergyCheck {
        joules: 5.0,
        interval: energy.interval,
        method: Method::InstantPower,
        metric: Metric::PowerInstant,
    };
    let checked = |joules| Energy {
        joules,
        check: Some(check),
        ..energy.clone()
    };
    assert_eq!(checked(10.0).disagreement(), Some(-0.5));
    assert_eq!(checked(0.0).disagreement(), None);
    let text = checked(0.0).to_string();
    assert!(!text.contains("inf") && !text.contains("NaN"), "{text}");
}

/// Returns times that a damaged file may contain: increasing, equal, very close together, and up to
/// the largest possible distance apart.
fn damaged_times(random: &mut Random, n: usize) -> Vec<Duration> {
    let power_of_ten = |exponent| Duration::from_secs_f64(10.0_f64.powf(exponent));
    let (mut times, mut time, mut step) = (vec![], Duration::ZERO, power_of_ten(-1.0));
    for _ in 0..n {
        if random.uniform() < 0.01 {
            step = power_of_ten(random.between(-9.0, 3.0));
        }
        if random.uniform() < 0.0005 {
            time = time.saturating_add(power_of_ten(random.between(0.0, 18.0)));
        }
        if random.uniform() < 0.9 {
            time = time.saturating_add(step);
        }
        times.push(time);
    }
    times
}

#[test]
fn damaged_times_and_readings_take_no_more_time_than_rows() {
    let began = std::time::Instant::now();
    let mut random = Random(5);
    for round in 0..35 {
        let reported = REPORTED[round % REPORTED.len()];
        let mut trace = sampled(
            &PowerProfile::square(50.0, 250.0, 0.73, 0.6),
            reported,
            0.0,
            0.1,
            200.0,
        );
        if round % 5 == 4 {
            trace.devices[0].kind = Kind::Rapl;
        }
        if round % 7 == 6 {
            trace.devices[0].limits = PowerLimits::default();
        }
        let mut times = damaged_times(&mut random, trace.rows.len());
        if round % 3 == 0 {
            // One row is far later than all others.
            *times.last_mut().unwrap() = Duration::from_secs(1_000_000_000_000_000);
        }
        for (row, time) in trace.rows.iter_mut().zip(times) {
            row.time = time;
            let value = row.values.get(metric(reported)).unwrap();
            let wild = match random.between(0.0, 400.0) {
                0.0..1.0 => -value,
                1.0..2.0 => 1e300,
                2.0..3.0 => f64::INFINITY,
                3.0..4.0 => 0.0,
                _ => value,
            };
            row.values.set(metric(reported), wild);
        }
        let whole = trace.duration();
        for share in [1, 2, 5, 100] {
            for window in [Duration::ZERO..whole / share, whole / share..whole] {
                if let Some(energy) = trace.energy(0, window) {
                    assert!(
                        energy.joules >= 0.0 && energy.joules.is_finite(),
                        "{energy:?}"
                    );
                    assert!(energy.interval.contains(energy.joules), "{energy:?}");
                    assert!(energy.likely.contains(energy.joules), "{energy:?}");
                }
            }
        }
        drop(crate::analysis::idle_periods(&trace, 0));
        let _ = crate::probe::update_period(&trace, 0, metric(reported));
    }
    // The test takes seconds. An algorithm whose time grows with the time between rows would not
    // end.
    let elapsed = began.elapsed();
    assert!(elapsed < Duration::from_secs(120), "{elapsed:?}");
}

mod properties {
    use super::*;
    use proptest::prelude::*;

    fn reported() -> impl Strategy<Value = Reported> {
        (0..REPORTED.len()).prop_map(|i| REPORTED[i])
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn energy_adds_up_over_adjoining_windows(
            reported in reported(), seed: u64, cut in 0.2..0.8_f64, lasts in 2.0..6.0_f64,
        ) {
            let load = PowerProfile { pieces: irregular(&mut Random(seed), 30), repeats: true };
            let trace = sampled(&load, reported, 0.0123, 0.023, lasts + 5.0);
            let (from, to) = (3.0, 3.0 + lasts);
            let middle = from + cut * lasts;
            let by = |from, to| {
                trace.energy_by(0, metric(reported), seconds(from, to), &Calibration::known(1.0)).unwrap()
            };
            let (whole, left, right) = (by(from, to), by(from, middle), by(middle, to));
            let sum = left.joules + right.joules;
            // The sum is not exact, because times are whole ns and each window finds the sensor's
            // phase from its own context.
            prop_assert!((sum / whole.joules - 1.0).abs() < 0.01, "{} {}", sum, whole.joules);
            prop_assert!(left.interval.low_j + right.interval.low_j <= whole.joules + 1e-6);
            prop_assert!(left.interval.high_j + right.interval.high_j >= whole.joules - 1e-6);
        }

        #[test]
        fn energy_scales_with_the_gain_and_lies_in_its_intervals(
            reported in reported(), seed: u64, gain in 0.9..1.1_f64,
        ) {
            let load = PowerProfile { pieces: irregular(&mut Random(seed), 30), repeats: true };
            let trace = sampled(&load, reported, 0.0, 0.031, 8.0);
            let by = |calibration: &Calibration| {
                trace.energy_by(0, metric(reported), seconds(3.0, 6.0), calibration).unwrap()
            };
            let (one, scaled) = (by(&Calibration::known(1.0)), by(&Calibration::known(gain)));
            prop_assert!((scaled.joules * gain / one.joules - 1.0).abs() < 1e-12);
            let guessed = by(&Calibration::for_kind(Kind::Gpu));
            for energy in [&one, &scaled, &guessed] {
                prop_assert!(energy.sampling.contains(energy.joules));
                prop_assert!(energy.interval.contains(energy.joules));
                prop_assert!(energy.likely.contains(energy.joules));
                prop_assert!(energy.interval.low_j <= energy.likely.low_j);
                prop_assert!(energy.interval.high_j >= energy.likely.high_j);
                prop_assert!(energy.interval.low_j >= 0.0);
            }
            prop_assert!(guessed.interval.width_j() > one.interval.width_j());
        }
    }
}
