//! Tests of energies of real recordings against an external meter.

use super::*;
use crate::MeteredWindow;

/// Returns the recorded readings of a card as a trace.
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
            ..device(REPORTED[0])
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
        let (trace, meter) = (recorded(name), testdata::meter_profile(name));
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
fn intervals_cover_an_external_meter_at_idle_and_under_load() {
    // The load ran until 7 s; both cards are idle from 11 s on.
    for name in ["rtx3090-step", "k40m-step"] {
        let (trace, meter) = (recorded(name), testdata::meter_profile(name));
        for (from_s, to_s) in [
            (0.3, 1.0),
            (2.0, 6.0),
            (3.0, 3.5),
            (11.0, 12.5),
            (11.0, 11.4),
        ] {
            let energy = trace.energy(0, seconds(from_s, to_s)).unwrap();
            let truth = meter.energy_j(from_s, to_s);
            eprintln!("{name} {from_s} {to_s}: {energy}; the meter {truth:.1}");
            assert!(energy.interval.contains(truth), "{name} {energy} {truth}");
        }
    }
}

#[test]
fn a_calibration_by_one_recording_holds_for_another() {
    let (step, square) = ("rtx3090-step", "rtx3090-square-104ms");
    let by = |name: &str, (from_s, to_s): (f64, f64), calibration: &Calibration| {
        let window = seconds(from_s, to_s);
        let energy = recorded(name).energy_by(0, Metric::PowerInstant, window, calibration);
        let truth = testdata::meter_profile(name).energy_j(from_s, to_s);
        (energy.unwrap(), truth)
    };
    let metered = [(11.0, 12.5), (2.5, 6.0)].map(|span| {
        let (energy, truth) = by(step, span, &Calibration::known(1.0));
        MeteredWindow::from_energy(&energy, truth)
    });
    let calibration = Calibration::from_meter(&metered).unwrap();
    let windows = [
        (square, testdata::meter_span_s(square)),
        (square, (2.0, 4.0)),
        (square, (5.3, 6.1)),
        (step, testdata::meter_span_s(step)),
        (step, (0.3, 1.0)),
        (step, (2.0, 6.0)),
        (step, (3.0, 3.5)),
        (step, (11.0, 11.4)),
    ];
    for (name, span) in windows {
        let (energy, truth) = by(name, span, &calibration);
        eprintln!("{name} {span:?}: {energy}; the meter {truth:.1}");
        assert!(energy.interval.contains(truth), "{name} {energy} {truth}");
    }
    let (energy, truth) = by(square, windows[0].1, &calibration);
    assert!((energy.joules / truth - 1.0).abs() < 0.01, "{energy}");
    assert!(energy.interval.width_j() < 0.1 * truth, "{energy}");
}

#[test]
fn a_gain_from_one_trace_holds_for_another() {
    let reported = |name, metric, window| {
        let trace = recorded(name);
        trace
            .energy_by(0, metric, window, &Calibration::known(1.0))
            .unwrap()
            .joules
    };
    let whole = |name| testdata::meter_span_s(name);
    let truth = |name, (from_s, to_s)| testdata::meter_profile(name).energy_j(from_s, to_s);
    for (metric, tolerance) in [(Metric::PowerInstant, 0.01), (Metric::PowerAverage, 0.02)] {
        let [step, square] = ["rtx3090-step", "rtx3090-square-104ms"].map(|name| {
            let span = whole(name);
            reported(name, metric, seconds(span.0, span.1)) / truth(name, span)
        });
        eprintln!("{metric}: gain {step:.4} of the step, {square:.4} of the square wave");
        assert!(
            (square / step - 1.0).abs() <= tolerance,
            "{metric} {step} {square}"
        );
    }
    // Each half of the K40m's trace contains one burst of load; a gain from one half must hold for
    // the other half.
    let (begin_s, end_s) = whole("k40m-step");
    let halves = [(begin_s, 7.0), (7.0, end_s)].map(|span| {
        reported("k40m-step", Metric::PowerDraw, seconds(span.0, span.1)) / truth("k40m-step", span)
    });
    eprintln!("k40m: gain {:.4}, {:.4}", halves[0], halves[1]);
    assert!((halves[0] / halves[1] - 1.0).abs() <= 0.04, "{halves:?}");
}

#[test]
fn a_part_time_sensor_on_a_real_load_is_within_4_percent() {
    // The powers that the meters recorded are the load of a simulated A100 sensor with 40 phases.
    for name in ["rtx3090-step", "k40m-step", "rtx3090-square-104ms"] {
        let (mut worst, mut n_covered) = (0.0_f64, 0);
        let load = testdata::meter_profile(name);
        let (begin_s, end_s) = testdata::meter_span_s(name);
        for i in 0..40 {
            let reported = Reported::Power(SensorClass::PartTime);
            let trace = sampled(&load, reported, f64::from(i) * 0.0025, 0.01, end_s + 0.5);
            let window = seconds(begin_s + 0.5, end_s);
            let energy = trace
                .energy_by(0, metric(reported), window, &Calibration::known(1.0))
                .unwrap();
            let truth = load.energy_j(begin_s + 0.5, end_s);
            n_covered += i32::from(energy.likely.contains(truth));
            assert!(energy.interval.contains(truth), "{energy:?} {truth}");
            worst = worst.max((energy.joules / truth - 1.0).abs());
        }
        eprintln!(
            "{name}: worst {:.2} %, {n_covered} of 40 in the likely interval",
            100.0 * worst
        );
        // By its time stamps, the square wave has a period of 99.7 ms, nearly the sensor's 100 ms.
        // In 8 s the sensor observes almost the same phase of the wave at every update.
        let is_alias = name.contains("square");
        assert_eq!(worst < 0.04, !is_alias, "{name} {worst}");
        assert!(n_covered == 40 || is_alias, "{name} {n_covered}");
    }
}

#[test]
fn power_exceeds_readings_by_less_than_an_excursion() {
    let greatest = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
    let pieces = testdata::meter_profile("rtx3090-step").pieces;
    let metered = greatest(&mut pieces.iter().map(|piece| piece.from_w));
    let reported = greatest(
        &mut testdata::sensor("rtx3090-step", 2)
            .into_iter()
            .map(|read| read.1),
    );
    eprintln!("{metered} W of {reported} W: {:.2}", metered / reported);
    assert!(metered / reported < EXCURSION);
}
