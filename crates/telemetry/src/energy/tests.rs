//! Energies of devices whose truth is known, of real ones beside a meter, and of damaged traces. Long, since all of
//! them share the models and recordings at the top.

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
        driver: Some("550.54.14".into()),
        architecture: Some(architecture.into()),
        limits: PowerLimits {
            max_w: Some(300.0),
            ..PowerLimits::default()
        },
        ..Device::named(Kind::Gpu, name)
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
    let mut times_s = vec![];
    let mut time_s = 0.0;
    while time_s <= lasts_s {
        times_s.push(time_s);
        time_s += every_s;
    }
    sampled_at(load, teller, phase_s, &times_s)
}

/// Does the same at any times, in s.
fn sampled_at(load: &Program, teller: Teller, phase_s: f64, times_s: &[f64]) -> Trace {
    let mut rows = vec![];
    for &time_s in times_s {
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

/// How a device is read.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rhythm {
    Regular,
    /// Some rounds are late and others are missed, one or several in a row.
    Disturbed,
}

fn disturbed(random: &mut Random, every_s: f64, lasts_s: f64) -> Vec<f64> {
    let (mut times_s, mut due_s) = (vec![], 0.0);
    while due_s <= lasts_s {
        let is_late = random.uniform() < 0.3;
        let late_s = if is_late {
            random.between(0.0, 0.9) * every_s
        } else {
            0.0
        };
        times_s.push(due_s + late_s);
        let is_missed = random.uniform() < 0.1;
        let n_missed = if is_missed {
            random.between(1.0, 5.0).floor()
        } else {
            0.0
        };
        due_s += (1.0 + n_missed) * every_s;
    }
    times_s
}

fn trial(load: &Program, teller: Teller, rhythm: Rhythm, n: usize) -> Trial {
    let mut random = Random(n as u64);
    let mut runs = vec![];
    for _ in 0..n {
        // 10 Hz to 100 Hz.
        let every_s = 10.0_f64.powf(random.between(-2.0, -1.0));
        let phase_s = random.uniform();
        let from_s = random.between(2.5, 3.5);
        let to_s = from_s + random.between(1.0, 2.0);
        let trace = match rhythm {
            Rhythm::Regular => sampled(load, teller, phase_s, every_s, to_s + 1.5),
            Rhythm::Disturbed => {
                let times_s = disturbed(&mut random, every_s, to_s + 1.5);
                sampled_at(load, teller, phase_s, &times_s)
            }
        };
        let energy = trace.energy_by(0, metric(teller), seconds(from_s, to_s), &EXACT);
        // Of a window that was missed for the most part there is none.
        assert!(energy.is_some() || rhythm == Rhythm::Disturbed);
        runs.extend(energy.map(|energy| (energy, load.energy_j(from_s, to_s))));
    }
    assert!(runs.len() > n * 9 / 10, "{} of {n}", runs.len());
    let n = runs.len();
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
    let (n, n_alias) = if is_full() { (1000, 200) } else { (200, 50) };
    check_coverage(Rhythm::Regular, n, n_alias);
}

#[test]
fn intervals_cover_the_truth_where_reads_are_late_or_missed() {
    let (n, n_alias) = if is_full() { (300, 100) } else { (100, 100) };
    check_coverage(Rhythm::Disturbed, n, n_alias);
}

/// Whether `xtask verify --full` asks.
fn is_full() -> bool {
    std::env::var_os("VERIFY_FULL").is_some_and(|value| value == "1")
}

fn check_coverage(rhythm: Rhythm, n: usize, n_alias: usize) {
    let check = |teller| {
        for (load_name, load) in loads() {
            let is_alias = load_name.starts_with("alias");
            let n = if is_alias { n_alias } else { n };
            let found = trial(&load, teller, rhythm, n);
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
            let is_blind = is_alias && is_part_time(teller);
            assert!(found.likely_covered >= 0.95 || is_blind, "{what}");
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

/// A trace of a device that draws 100 W and tells a counter only, every 0.1 s for 12 s.
fn counting(kind: Kind, limits: PowerLimits) -> Trace {
    let load = Program::constant(100.0);
    let mut trace = sampled(&load, Teller::Counter(0.000_976), 0.0, 0.1, 12.0);
    trace.devices[0].kind = kind;
    trace.devices[0].limits = limits;
    trace
}

/// Changes what a row's counter tells.
fn tell(row: &mut Row, change: impl Fn(f64) -> f64) {
    let told_j = row.values.get(Metric::Energy).unwrap();
    row.values.set(Metric::Energy, change(told_j));
}

#[test]
fn the_end_of_a_counters_trace_is_bounded_by_what_the_device_can_draw() {
    let limited = PowerLimits {
        max_w: Some(150.0),
        ..PowerLimits::default()
    };
    for (kind, limits, ceiling_w) in [
        (Kind::Rapl, limited, 180.0),
        (Kind::Rapl, PowerLimits::default(), 200.0),
        (Kind::Gpu, PowerLimits::default(), 200.0),
    ] {
        let trace = counting(kind, limits);
        let end_s = trace.duration().as_secs_f64();
        let energy = trace.energy(0, seconds(2.0, end_s)).unwrap();
        // At most an interval of reads before the last is open, at both ends.
        let most_j = 100.0 * (end_s - 2.0) + 2.0 * 0.1 * ceiling_w;
        let high_j = energy.sampling.high_j;
        assert!(
            (1000.0..=most_j).contains(&high_j),
            "{kind:?} {limits:?} {energy:?}"
        );
    }
}

#[test]
fn a_counter_that_never_moved_tells_nothing() {
    let mut trace = counting(Kind::Rapl, PowerLimits::default());
    for row in &mut trace.rows {
        tell(row, |_| 77.0);
    }
    assert_eq!(trace.energy(0, seconds(2.0, 10.0)), None);
}

#[test]
fn a_counter_that_stands_still_gives_way_to_power_or_to_nothing() {
    let power = Teller::Power(SensorClass::FullTime);
    let drawing = sampled(&Program::constant(100.0), power, 0.0, 0.1, 12.0);
    for limits in [PowerLimits::default(), device(TELLERS[0]).limits] {
        let mut trace = counting(Kind::Gpu, limits);
        for row in &mut trace.rows {
            tell(row, |_| 77.0);
        }
        assert_eq!(trace.energy(0, seconds(2.0, 10.0)), None, "{limits:?}");
        for (row, other) in trace.rows.iter_mut().zip(&drawing.rows) {
            row.values.set(
                Metric::PowerInstant,
                other.values.get(Metric::PowerInstant).unwrap(),
            );
        }
        let energy = trace.energy(0, seconds(2.0, 10.0)).unwrap();
        assert_eq!((energy.method, energy.check), (Method::InstantPower, None));
        assert!((energy.joules - 800.0).abs() < 1.0, "{energy}");
        // It moved until the sixth second.
        for (row, other) in trace.rows.iter_mut().zip(&counting(Kind::Gpu, limits).rows) {
            let until = other.time.min(Duration::from_secs(6));
            tell(row, |_| 1000.0 + 100.0 * until.as_secs_f64());
        }
        for (from_s, to_s, method) in [
            (1.0, 5.8, Method::Counter),
            (4.0, 9.0, Method::InstantPower),
            (7.0, 9.0, Method::InstantPower),
        ] {
            let energy = trace.energy(0, seconds(from_s, to_s)).unwrap();
            let truth = 100.0 * (to_s - from_s);
            assert_eq!(energy.method, method, "{energy}");
            assert!((energy.joules / truth - 1.0).abs() < 0.01, "{energy}");
            assert!(energy.interval.contains(truth), "{energy}");
        }
        for row in &mut trace.rows {
            row.values.set(Metric::PowerInstant, 0.0);
        }
        assert_eq!(trace.energy(0, seconds(7.0, 9.0)), None, "{limits:?}");
        assert_eq!(trace.energy(0, seconds(4.0, 9.0)), None, "{limits:?}");
    }
}

#[test]
fn a_device_that_tells_no_watt_tells_nothing() {
    for teller in TELLERS {
        let trace = sampled(&Program::constant(0.0), teller, 0.0, 0.05, 12.0);
        assert!(trace.devices[0].limits.max_w.is_some());
        assert_eq!(trace.energy(0, seconds(2.0, 10.0)), None, "{teller:?}");
    }
}

#[test]
fn a_counter_that_is_slow_is_not_stuck() {
    let load = Program::square(50.0, 250.0, 0.73, 0.6);
    let trace = sampled(&load, Teller::Counter(2.0), 0.7, 0.1, 60.0);
    let energy = trace.energy(0, seconds(10.0, 50.0)).unwrap();
    assert_eq!(energy.method, Method::Counter);
    assert!(
        (energy.joules / load.energy_j(10.0, 50.0) - 1.0).abs() < 0.05,
        "{energy}"
    );
}

/// Times of rounds every so often, and of the edges of regions of code, of which some spans of time have 1000 a second.
fn with_spans(every_s: f64, lasts_s: f64, spanned: &[Range<f64>]) -> Vec<f64> {
    let mut times_s: Vec<f64> = (0..)
        .map(|round| every_s * f64::from(round))
        .take_while(|&time_s| time_s <= lasts_s)
        .collect();
    for part in spanned {
        let starts = (0..).map(|span| part.start + 0.001 * f64::from(span));
        for start_s in starts.take_while(|&start_s| start_s < part.end) {
            // Nested ones begin and end within microseconds.
            times_s.extend([0.0, 3e-6, 8e-4, 8.02e-4].map(|after_s| start_s + after_s));
        }
    }
    times_s.sort_by(f64::total_cmp);
    times_s
}

#[test]
fn regions_of_code_spoil_neither_energies_nor_counts_of_updates() {
    let load = Program {
        pieces: irregular(&mut Random(9), 60),
        repeats: true,
    };
    for teller in TELLERS {
        let (update_s, _) = match teller {
            Teller::Power(class) => class.update_and_window_s(),
            Teller::Counter(update_s) => (update_s, 0.0),
        };
        for every_s in [0.02, 0.1, 1.0] {
            for spanned in [&[3.0..3.4, 9.0..9.2][..], &[2.0..16.0], &[0.0..20.0]] {
                let times_s = with_spans(every_s, 20.0, spanned);
                let mut trace = sampled_at(&load, teller, 0.0123, &times_s);
                trace.interval = Duration::from_secs_f64(every_s);
                let window = (3.05, 14.95);
                let energy =
                    trace.energy_by(0, metric(teller), seconds(window.0, window.1), &EXACT);
                let what = format!("{} {every_s} {spanned:?} {energy:?}", name(teller));
                let Some(energy) = energy else {
                    panic!("{what}")
                };
                let truth = load.energy_j(window.0, window.1);
                assert!(energy.interval.contains(truth), "{truth} {what}");
                // Reads once in a second see a tenth of the time of a sensor that forgets.
                let off = if is_part_time(teller) || every_s == 1.0 {
                    0.1
                } else {
                    0.02
                };
                assert!((energy.joules / truth - 1.0).abs() < off, "{truth} {what}");
                let (n, most) = (energy.n_updates as f64, 11.9 / update_s + 2.0);
                assert!((11.0..=most).contains(&n), "{what}");
            }
        }
    }
}

#[test]
fn power_exceeds_readings_by_less_than_an_excursion() {
    let greatest = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
    let pieces = testdata::meter_program("rtx3090-step").pieces;
    let metered = greatest(&mut pieces.iter().map(|piece| piece.from_w));
    let told = greatest(
        &mut testdata::sensor("rtx3090-step", 2)
            .into_iter()
            .map(|read| read.1),
    );
    eprintln!("{metered} W of {told} W: {:.2}", metered / told);
    assert!(metered / told < EXCURSION);
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
    let load = Program::constant(0.05);
    let trace = sampled(&load, Teller::Power(SensorClass::FullTime), 0.0, 0.1, 9.0);
    let energy = trace.energy(0, seconds(2.0, 2.5)).unwrap();
    assert!(energy.to_string().starts_with("0.02500 J [0.0"), "{energy}");
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
}

#[test]
fn the_interval_of_rapl_is_of_sampling_only() {
    let trace = counting(Kind::Rapl, PowerLimits::default());
    let energy = trace.energy(0, seconds(2.0, 10.0)).unwrap();
    assert_eq!(energy.interval, energy.sampling);
    let trace = counting(Kind::Gpu, PowerLimits::default());
    let energy = trace.energy(0, seconds(2.0, 10.0)).unwrap();
    let high = energy.interval.high_j / energy.sampling.high_j;
    assert!((high - 1.0 / 0.92).abs() < 1e-9, "{energy:?}");
}

#[test]
fn windows_beside_a_reset_are_covered_and_one_over_it_is_not() {
    let mut trace = counting(Kind::Gpu, PowerLimits::default());
    for row in &mut trace.rows[60..] {
        // The driver came back after half a second and counts from nothing.
        tell(row, |told_j| told_j - 1550.0);
    }
    let truth = |energy: Option<Energy>| {
        let energy = energy.unwrap();
        let joules = 100.0 * (energy.window.end - energy.window.start).as_secs_f64();
        assert!(energy.interval.contains(joules), "{energy:?}");
        assert!((energy.joules / joules - 1.0).abs() < 0.01, "{energy:?}");
    };
    truth(trace.energy(0, seconds(1.0, 5.8)));
    truth(trace.energy(0, seconds(6.1, 11.0)));
    assert_eq!(trace.energy(0, seconds(1.0, 11.0)), None);
    assert_eq!(trace.energy(0, seconds(5.0, 7.0)), None);
}

#[test]
fn a_reading_of_a_counter_that_no_device_reaches_is_in_no_energy() {
    for limits in [PowerLimits::default(), device(TELLERS[0]).limits] {
        let mut trace = counting(Kind::Gpu, limits);
        tell(&mut trace.rows[60], |_| 1e15);
        assert_eq!(trace.energy(0, seconds(1.0, 11.0)), None);
        let energy = trace.energy(0, seconds(7.0, 11.0)).unwrap();
        assert!(
            energy.interval.contains(400.0) && energy.interval.high_j < 500.0,
            "{energy:?}"
        );
        tell(&mut trace.rows[60], |_| f64::INFINITY);
        let energy = trace.energy(0, seconds(1.0, 11.0)).unwrap();
        assert!(
            energy.interval.contains(1000.0) && energy.interval.high_j < 1200.0,
            "{energy:?}"
        );
    }
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

/// Times that a damaged file may hold: in order, equal, too close together, and as far away as there are any.
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
        let teller = TELLERS[round % TELLERS.len()];
        let mut trace = sampled(
            &Program::square(50.0, 250.0, 0.73, 0.6),
            teller,
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
            // One row at the end of all times.
            *times.last_mut().unwrap() = Duration::from_secs(1_000_000_000_000_000);
        }
        for (row, time) in trace.rows.iter_mut().zip(times) {
            row.time = time;
            let told = row.values.get(metric(teller)).unwrap();
            let wild = match random.between(0.0, 400.0) {
                0.0..1.0 => -told,
                1.0..2.0 => 1e300,
                2.0..3.0 => f64::INFINITY,
                3.0..4.0 => 0.0,
                _ => told,
            };
            row.values.set(metric(teller), wild);
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
        let _ = crate::sensor::update_period(&trace, 0, metric(teller));
    }
    // It takes seconds; what grows with the time that rows span would never end.
    let elapsed = began.elapsed();
    assert!(elapsed < Duration::from_secs(120), "{elapsed:?}");
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
            let guessed = by(&Calibration::of_kind(Kind::Gpu));
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
