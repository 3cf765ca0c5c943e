//! Energies of devices whose truth is known, and of real ones beside a meter.

use super::*;
use crate::synthetic::{Piece, Program, Sensor};
use crate::testdata::Random;
use crate::{PowerLimits, Row, Values, testdata};

/// What a device tells of a load.
#[derive(Clone, Copy, Debug)]
enum Teller {
    Power(SensorClass),
    /// Mean power so far, times time: a counter that is updated as often as that.
    Counter(f64),
}

fn device(teller: Teller) -> Device {
    let (name, architecture) = match teller {
        Teller::Power(SensorClass::PartTime) => ("NVIDIA A100-SXM4-40GB", "Ampere"),
        Teller::Power(SensorClass::FullTime | SensorClass::LastSecond) => ("NVIDIA L4", "Ada"),
        Teller::Power(SensorClass::Fast) => ("Tesla V100", "Volta"),
        Teller::Counter(_) => ("NVIDIA B200", "Blackwell"),
    };
    Device {
        index: 0,
        kind: Kind::Gpu,
        name: name.into(),
        uuid: None,
        pci: None,
        driver: Some("550.54.14".into()),
        architecture: Some(architecture.into()),
        limits: PowerLimits {
            max_w: Some(300.0),
            ..PowerLimits::default()
        },
        is_mig: false,
        capabilities: vec![],
    }
}

fn metric(teller: Teller) -> Metric {
    match teller {
        Teller::Power(SensorClass::LastSecond) => Metric::PowerAverage,
        Teller::Power(_) => Metric::PowerInstant,
        Teller::Counter(_) => Metric::Energy,
    }
}

/// Samples a load for a time; readings are whole mW or mJ, as NVML's are.
fn sampled(load: &Program, teller: Teller, phase_s: f64, every_s: f64, lasts_s: f64) -> Trace {
    let mut rows = vec![];
    let mut time_s = 0.0;
    while time_s <= lasts_s {
        let told = match teller {
            Teller::Power(class) => {
                let sensor = Sensor {
                    phase_s,
                    ..Sensor::of(class)
                };
                sensor.told_w(load, time_s)
            }
            Teller::Counter(step_s) => {
                let sensor = Sensor {
                    update_s: step_s,
                    window_s: 0.0,
                    phase_s,
                    gain: 1.0,
                };
                1000.0 + load.energy_j(0.0, sensor.updated_s(time_s))
            }
        };
        let mut values = Values::none();
        values.set(metric(teller), (told * 1000.0).round() / 1000.0);
        rows.push(Row {
            device: 0,
            time: Duration::from_secs_f64(time_s),
            values,
        });
        time_s += every_s;
    }
    Trace {
        devices: vec![device(teller)],
        rows,
        ..Trace::default()
    }
}

fn irregular(random: &mut Random, n: usize) -> Vec<Piece> {
    let piece = |_| Piece::level(random.between(0.02, 0.4), random.between(50.0, 250.0));
    (0..n).map(piece).collect()
}

fn loads() -> Vec<(&'static str, Program)> {
    let ramp = |from_w, to_w| Piece {
        lasts_s: 1.7,
        from_w,
        to_w,
    };
    let repeated = |pieces| Program {
        pieces,
        repeats: true,
    };
    vec![
        ("constant", Program::constant(150.0)),
        (
            "ramps",
            repeated(vec![ramp(50.0, 250.0), ramp(250.0, 50.0)]),
        ),
        ("irregular", repeated(irregular(&mut Random(7), 40))),
        ("square 104 ms", Program::square(50.0, 250.0, 0.104, 0.5)),
        ("square 96 ms", Program::square(50.0, 250.0, 0.096, 0.3)),
        ("square 52 ms", Program::square(50.0, 250.0, 0.052, 0.5)),
        ("square 730 ms", Program::square(50.0, 250.0, 0.73, 0.6)),
        ("alias 100 ms", Program::square(50.0, 250.0, 0.1, 0.5)),
        ("alias 50 ms", Program::square(50.0, 250.0, 0.05, 0.5)),
        ("alias 20 ms", Program::square(50.0, 250.0, 0.02, 0.5)),
    ]
}

const EXACT: Calibration = Calibration {
    gain: 1.0,
    low: 1.0,
    high: 1.0,
};

fn seconds(from_s: f64, to_s: f64) -> Range<Duration> {
    Duration::from_secs_f64(from_s)..Duration::from_secs_f64(to_s)
}

/// What random phases, rhythms and windows gave.
struct Trial {
    /// Shares of intervals that held the truth.
    covered: f64,
    likely_covered: f64,
    /// Median and 95th percentile of the error, and median widths, in % of the energy.
    error: f64,
    error_p95: f64,
    width: f64,
    likely_width: f64,
}

fn trial(load: &Program, teller: Teller, n: usize) -> Trial {
    let mut random = Random(n as u64);
    let mut runs = vec![];
    for _ in 0..n {
        // 10 Hz to 100 Hz.
        let every_s = 10.0_f64.powf(random.between(-2.0, -1.0));
        let phase_s = random.uniform();
        let from_s = random.between(2.5, 3.5);
        let to_s = from_s + random.between(1.0, 2.0);
        let trace = sampled(load, teller, phase_s, every_s, to_s + 1.5);
        let energy = trace
            .energy_by(0, metric(teller), seconds(from_s, to_s), &EXACT)
            .unwrap();
        runs.push((energy, load.energy_j(from_s, to_s)));
    }
    let share = |holds: &dyn Fn(&(Energy, f64)) -> bool| {
        runs.iter().filter(|run| holds(run)).count() as f64 / n as f64
    };
    let percentile = |percent: usize, value: &dyn Fn(&(Energy, f64)) -> f64| {
        let mut values: Vec<f64> = runs.iter().map(|run| 100.0 * value(run) / run.1).collect();
        values.sort_by(f64::total_cmp);
        values[n * percent / 100]
    };
    Trial {
        covered: share(&|(energy, truth)| energy.interval.contains(*truth)),
        likely_covered: share(&|(energy, truth)| energy.likely.contains(*truth)),
        error: percentile(50, &|(energy, truth)| (energy.joules - truth).abs()),
        error_p95: percentile(95, &|(energy, truth)| (energy.joules - truth).abs()),
        width: percentile(50, &|(energy, _)| energy.interval.width_j()),
        likely_width: percentile(50, &|(energy, _)| energy.likely.width_j()),
    }
}

const TELLERS: [Teller; 6] = [
    Teller::Power(SensorClass::PartTime),
    Teller::Power(SensorClass::FullTime),
    Teller::Power(SensorClass::LastSecond),
    Teller::Power(SensorClass::Fast),
    Teller::Counter(0.02),
    Teller::Counter(0.1),
];

fn name(teller: Teller) -> String {
    match teller {
        Teller::Power(class) => format!("{class:?}"),
        Teller::Counter(step_s) => format!("counter {step_s}"),
    }
}

#[test]
fn intervals_cover_the_truth_in_95_of_100_random_phases() {
    let check = |teller| {
        for (load_name, load) in loads() {
            let n = if load_name.starts_with("alias") {
                200
            } else {
                1000
            };
            let found = trial(&load, teller, n);
            let what = format!("{:>12} {load_name:<14}", name(teller));
            eprintln!(
                "{what} error {:5.2} % {:5.2} %; interval {:.3} {:6.1} %; likely {:.3} {:6.1} %",
                found.error,
                found.error_p95,
                found.covered,
                found.width,
                found.likely_covered,
                found.likely_width,
            );
            assert!(found.covered >= 0.95, "{what}");
            // Nothing tells the time in between from what is seen if the load keeps the sensor's period.
            let is_alias = load_name.starts_with("alias") && is_part_time(teller);
            assert!(found.likely_covered >= 0.95 || is_alias, "{what}");
        }
    };
    std::thread::scope(|scope| {
        for teller in TELLERS {
            scope.spawn(move || check(teller));
        }
    });
}

fn is_part_time(teller: Teller) -> bool {
    matches!(
        teller,
        Teller::Power(SensorClass::PartTime | SensorClass::Fast)
    )
}

/// Runs jobs between idle times, in which the window begins and ends; gives the errors, sorted, in shares of the
/// energy.
fn jobs(teller: Teller, every_s: impl Fn(&mut Random, usize) -> f64) -> Vec<f64> {
    let mut random = Random(11);
    let mut errors = vec![];
    for i in 0..200 {
        let mut pieces = vec![Piece::level(3.0, 60.0)];
        pieces.extend(irregular(&mut random, 12));
        let job_s: f64 = pieces[1..].iter().map(|piece| piece.lasts_s).sum();
        pieces.push(Piece::level(3.0, 60.0));
        let load = Program {
            pieces,
            repeats: false,
        };
        let every_s = every_s(&mut random, i);
        let trace = sampled(&load, teller, random.uniform(), every_s, 6.0 + job_s);
        let (from_s, to_s) = (
            random.between(2.4, 2.8),
            3.0 + job_s + random.between(0.2, 0.6),
        );
        let window = seconds(from_s, to_s);
        let energy = trace.energy_by(0, metric(teller), window, &EXACT).unwrap();
        assert!(energy.n_updates >= 10, "{energy:?}");
        errors.push((energy.joules / load.energy_j(from_s, to_s) - 1.0).abs());
    }
    errors.sort_by(f64::total_cmp);
    errors
}

#[test]
fn a_job_between_steady_ends_is_exact_to_half_a_percent_by_sensors_that_see_all() {
    for teller in TELLERS {
        let usual = jobs(teller, |_, i| 0.1 / [1.0, 2.0, 5.0, 10.0][i % 4]);
        let any = jobs(teller, |random, _| {
            10.0_f64.powf(random.between(-2.0, -1.0))
        });
        let percent = |share: f64| 100.0 * share;
        let (worst, p95) = (usual[usual.len() - 1], any[any.len() * 95 / 100]);
        let what = format!(
            "{:>12}: at 10, 20, 50, 100 Hz at most {:.3} %, at any rate {:.3} % (95 of 100)",
            name(teller),
            percent(worst),
            percent(p95),
        );
        eprintln!("{what}");
        assert!(is_part_time(teller) || worst.max(p95) <= 0.005, "{what}");
    }
}

/// Gives a trace of what a card told, as it was recorded.
fn recorded(name: &str) -> Trace {
    let (product, architecture, columns) = if name.starts_with("k40m") {
        ("Tesla K40m", "Kepler", vec![Metric::PowerDraw])
    } else {
        let columns = vec![Metric::PowerAverage, Metric::PowerInstant];
        ("NVIDIA GeForce RTX 3090", "Ampere", columns)
    };
    let mut trace = Trace {
        devices: vec![Device {
            name: product.into(),
            architecture: Some(architecture.into()),
            driver: Some("535.104.05".into()),
            limits: PowerLimits::default(),
            ..device(TELLERS[0])
        }],
        ..Trace::default()
    };
    let series: Vec<_> = (1..=columns.len())
        .map(|column| testdata::sensor(name, column))
        .collect();
    for i in 0..series[0].len() {
        let mut values = Values::none();
        for (metric, series) in columns.iter().zip(&series) {
            values.set(*metric, series[i].1);
        }
        trace.rows.push(Row {
            device: 0,
            time: Duration::from_secs_f64(series[0][i].0),
            values,
        });
    }
    trace
}

#[test]
fn intervals_cover_an_external_meter() {
    let mut random = Random(3);
    for name in ["rtx3090-step", "rtx3090-square-104ms", "k40m-step"] {
        let (trace, meter) = (recorded(name), testdata::meter_program(name));
        let (begin_s, end_s) = testdata::meter_span_s(name);
        for i in 0..200 {
            let (from_s, to_s) = match i {
                0 => (begin_s, end_s),
                _ => {
                    let from_s = random.between(begin_s, end_s - 1.5);
                    (from_s, random.between(from_s + 1.4, end_s))
                }
            };
            let energy = trace.energy(0, seconds(from_s, to_s)).unwrap();
            let truth = meter.energy_j(from_s, to_s);
            if i < 3 {
                eprintln!("{name} {from_s:.2} {to_s:.2}: {energy}; the meter {truth:.1}");
            }
            assert!(energy.interval.contains(truth), "{name} {energy:?} {truth}");
        }
    }
}

#[test]
fn a_gain_from_one_trace_holds_for_another() {
    let told = |name, metric, window| {
        let trace = recorded(name);
        trace
            .energy_by(0, metric, window, &Calibration::known(1.0))
            .unwrap()
            .joules
    };
    let whole = |name| testdata::meter_span_s(name);
    let truth = |name, (from_s, to_s)| testdata::meter_program(name).energy_j(from_s, to_s);
    for (metric, tolerance) in [(Metric::PowerInstant, 0.01), (Metric::PowerAverage, 0.02)] {
        let [step, square] = ["rtx3090-step", "rtx3090-square-104ms"].map(|name| {
            let span = whole(name);
            told(name, metric, seconds(span.0, span.1)) / truth(name, span)
        });
        eprintln!("{metric}: gain {step:.4} of the step, {square:.4} of the square wave");
        assert!(
            (square / step - 1.0).abs() <= tolerance,
            "{metric} {step} {square}"
        );
    }
    // One half of a K40m's trace, with one burst of load each, calibrates the other.
    let (begin_s, end_s) = whole("k40m-step");
    let halves = [(begin_s, 7.0), (7.0, end_s)].map(|span| {
        told("k40m-step", Metric::PowerDraw, seconds(span.0, span.1)) / truth("k40m-step", span)
    });
    eprintln!("k40m: gain {:.4}, {:.4}", halves[0], halves[1]);
    assert!((halves[0] / halves[1] - 1.0).abs() <= 0.04, "{halves:?}");
}

#[test]
fn a_part_time_sensor_on_a_real_load_is_within_4_percent() {
    // What the meters saw, through the sensor of an A100, with 40 phases.
    for name in ["rtx3090-step", "k40m-step", "rtx3090-square-104ms"] {
        let (mut worst, mut n_covered) = (0.0_f64, 0);
        let load = testdata::meter_program(name);
        let (begin_s, end_s) = testdata::meter_span_s(name);
        for i in 0..40 {
            let teller = Teller::Power(SensorClass::PartTime);
            let trace = sampled(&load, teller, f64::from(i) * 0.0025, 0.01, end_s + 0.5);
            let window = seconds(begin_s + 0.5, end_s);
            let energy = trace.energy_by(0, metric(teller), window, &EXACT).unwrap();
            let truth = load.energy_j(begin_s + 0.5, end_s);
            n_covered += i32::from(energy.likely.contains(truth));
            assert!(energy.interval.contains(truth), "{energy:?} {truth}");
            worst = worst.max((energy.joules / truth - 1.0).abs());
        }
        eprintln!(
            "{name}: worst {:.2} %, {n_covered} of 40 in the likely interval",
            100.0 * worst
        );
        // The square wave's stamps say that its period is 99.7 ms: hardly another phase is seen in 8 s.
        let is_alias = name.contains("square");
        assert_eq!(worst < 0.04, !is_alias, "{name} {worst}");
        assert!(n_covered == 40 || is_alias, "{name} {n_covered}");
    }
}

#[test]
fn without_power_or_energy_there_is_none() {
    let mut trace = sampled(&Program::constant(99.0), TELLERS[1], 0.0, 0.1, 5.0);
    assert_eq!(trace.energy(0, seconds(1.0, 1.0)), None);
    assert_eq!(trace.energy(0, seconds(1.0, 9.0)), None);
    assert_eq!(trace.energy(1, seconds(1.0, 2.0)), None);
    assert!(trace.energy(0, seconds(1.0, 2.0)).is_some());
    for row in &mut trace.rows {
        row.values = Values::none();
    }
    assert_eq!(trace.energy(0, seconds(1.0, 2.0)), None);
}

#[test]
fn the_counter_comes_first_and_the_integral_checks_it() {
    let load = Program::square(50.0, 250.0, 0.73, 0.6);
    let mut trace = sampled(&load, Teller::Power(SensorClass::FullTime), 0.0, 0.02, 30.0);
    let counter = sampled(&load, Teller::Counter(0.1), 0.03, 0.02, 30.0);
    for (row, other) in trace.rows.iter_mut().zip(&counter.rows) {
        let told = other.values.get(Metric::Energy).unwrap();
        row.values.set(Metric::Energy, 1.05 * told);
    }
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
    // A driver that was loaded anew counts from zero; the integral goes on.
    for row in &mut trace.rows[700..] {
        let told = row.values.get(Metric::Energy).unwrap();
        row.values.set(Metric::Energy, told - 3000.0);
    }
    let energy = trace.energy(0, seconds(2.0, 28.0)).unwrap();
    assert_eq!(energy.method, Method::InstantPower);
    assert_eq!(energy.check, None);
}

#[test]
fn a_counter_of_rapl_is_exact_to_its_own_millisecond() {
    let load = Program::square(20.0, 120.0, 0.73, 0.6);
    let mut trace = sampled(&load, Teller::Counter(0.000_976), 0.0, 0.1, 12.0);
    trace.devices[0].kind = Kind::Rapl;
    // From read to read nothing is unknown but the last millisecond.
    let energy = trace
        .energy_calibrated(0, seconds(1.0, 11.0), &EXACT)
        .unwrap();
    let truth = load.energy_j(1.0, 11.0);
    assert!(
        (energy.joules / truth - 1.0).abs() < 1e-3,
        "{energy:?} {truth}"
    );
    assert!(energy.interval.contains(truth) && energy.interval.width_j() < 1e-2 * truth);
}

#[test]
fn an_empty_second_is_missing_and_not_zero() {
    let mut trace = sampled(&Program::constant(100.0), TELLERS[1], 0.0, 0.02, 10.0);
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

mod properties {
    use super::*;
    use proptest::prelude::*;

    fn teller() -> impl Strategy<Value = Teller> {
        (0..TELLERS.len()).prop_map(|i| TELLERS[i])
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn energy_adds_up_over_adjoining_windows(
            teller in teller(), seed: u64, cut in 0.2..0.8_f64, lasts in 2.0..6.0_f64,
        ) {
            let load = Program { pieces: irregular(&mut Random(seed), 30), repeats: true };
            let trace = sampled(&load, teller, 0.0123, 0.023, lasts + 5.0);
            let (from, to) = (3.0, 3.0 + lasts);
            let middle = from + cut * lasts;
            let by = |from, to| {
                trace.energy_by(0, metric(teller), seconds(from, to), &EXACT).unwrap()
            };
            let (whole, left, right) = (by(from, to), by(from, middle), by(middle, to));
            let sum = left.joules + right.joules;
            // Times in whole ns, and each window has its own context for the phase.
            prop_assert!((sum / whole.joules - 1.0).abs() < 0.01, "{} {}", sum, whole.joules);
            prop_assert!(left.interval.low_j + right.interval.low_j <= whole.joules + 1e-6);
            prop_assert!(left.interval.high_j + right.interval.high_j >= whole.joules - 1e-6);
        }

        #[test]
        fn energy_scales_with_the_gain_and_lies_in_its_intervals(
            teller in teller(), seed: u64, gain in 0.9..1.1_f64,
        ) {
            let load = Program { pieces: irregular(&mut Random(seed), 30), repeats: true };
            let trace = sampled(&load, teller, 0.0, 0.031, 8.0);
            let by = |calibration: &Calibration| {
                trace.energy_by(0, metric(teller), seconds(3.0, 6.0), calibration).unwrap()
            };
            let (one, scaled) = (by(&EXACT), by(&Calibration::known(gain)));
            prop_assert!((scaled.joules * gain / one.joules - 1.0).abs() < 1e-12);
            let guessed = by(&Calibration::default());
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
