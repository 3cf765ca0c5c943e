//! Tests of energies by counters that end, are stuck, slow, reset or misread.

use super::*;

#[test]
fn a_counter_of_rapl_is_exact_to_its_own_millisecond() {
    let load = PowerProfile::square(20.0, 120.0, 0.73, 0.6);
    let mut trace = sampled(&load, Reported::Counter(0.000_976), 0.0, 0.1, 12.0);
    trace.devices[0].kind = Kind::Rapl;
    // Only the energy of the last update period before a read, about 1 ms, is unknown.
    let energy = trace
        .energy_calibrated(0, seconds(1.0, 11.0), &Calibration::known(1.0))
        .unwrap();
    let truth = load.energy_j(1.0, 11.0);
    assert!(
        (energy.joules / truth - 1.0).abs() < 1e-3,
        "{energy:?} {truth}"
    );
    assert!(energy.interval.contains(truth) && energy.interval.width_j() < 1e-2 * truth);
}

/// Applies `change` to the counter reading of a row.
fn report(row: &mut Row, change: impl Fn(f64) -> f64) {
    let reported_j = row.values.get(Metric::Energy).unwrap();
    row.values.set(Metric::Energy, change(reported_j));
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
        // At both ends of the window, the energy of at most one read interval is unknown.
        let most_j = 100.0 * (end_s - 2.0) + 2.0 * 0.1 * ceiling_w;
        let high_j = energy.sampling.high_j;
        assert!(
            (1000.0..=most_j).contains(&high_j),
            "{kind:?} {limits:?} {energy:?}"
        );
    }
}

#[test]
fn the_time_for_which_a_counter_stood_still_does_not_lower_the_ceiling() {
    // The counter is stuck for 30 s, then rises with 300 W for 10 s. The device reports neither
    // power nor a limit, so the ceiling comes from the counter.
    let mut trace = counting(Kind::Gpu, PowerLimits::default());
    let row = trace.rows[0];
    trace.rows = (0..=400)
        .map(|round| {
            let time_s = 0.1 * f64::from(round);
            let mut row = row;
            row.time = Duration::from_secs_f64(time_s);
            row.values
                .set(Metric::Energy, 300.0 * (time_s - 30.0).max(0.0));
            row
        })
        .collect();
    let energy = trace.energy(0, seconds(31.0, 39.0)).unwrap();
    let truth = 300.0 * 8.0;
    // The energy of at least a twentieth of a second at 300 W is unknown at the ends.
    assert!(energy.sampling.high_j >= truth + 0.05 * 300.0, "{energy:?}");
    assert!(energy.sampling.contains(truth), "{energy:?}");
}

#[test]
fn a_counter_that_never_moved_has_no_result() {
    let mut trace = counting(Kind::Rapl, PowerLimits::default());
    for row in &mut trace.rows {
        report(row, |_| 77.0);
    }
    assert_eq!(trace.energy(0, seconds(2.0, 10.0)), None);
}

#[test]
fn a_counter_that_stands_still_gives_way_to_power_or_to_nothing() {
    let power = Reported::Power(SensorClass::FullTime);
    let drawing = sampled(&PowerProfile::constant(100.0), power, 0.0, 0.1, 12.0);
    for limits in [PowerLimits::default(), device(REPORTED[0]).limits] {
        let mut trace = counting(Kind::Gpu, limits);
        for row in &mut trace.rows {
            report(row, |_| 77.0);
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
        // The counter now moves until 6 s and is stuck afterwards.
        for (row, other) in trace.rows.iter_mut().zip(&counting(Kind::Gpu, limits).rows) {
            let until = other.time.min(Duration::from_secs(6));
            report(row, |_| 1000.0 + 100.0 * until.as_secs_f64());
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
fn a_counter_that_is_slow_is_not_stuck() {
    let load = PowerProfile::square(50.0, 250.0, 0.73, 0.6);
    let trace = sampled(&load, Reported::Counter(2.0), 0.7, 0.1, 60.0);
    let energy = trace.energy(0, seconds(10.0, 50.0)).unwrap();
    assert_eq!(energy.method, Method::Counter);
    assert!(
        (energy.joules / load.energy_j(10.0, 50.0) - 1.0).abs() < 0.05,
        "{energy}"
    );
}

#[test]
fn the_interval_of_rapl_is_of_sampling_only() {
    let trace = counting(Kind::Rapl, PowerLimits::default());
    let energy = trace.energy(0, seconds(2.0, 10.0)).unwrap();
    assert_eq!(energy.interval, energy.sampling);
    let trace = counting(Kind::Gpu, PowerLimits::default());
    let energy = trace.energy(0, seconds(2.0, 10.0)).unwrap();
    let (all, sampling) = (energy.interval, energy.sampling);
    let is_wider = all.low_j < 0.9 * sampling.low_j && all.high_j > 1.1 * sampling.high_j;
    assert!(is_wider, "{energy:?}");
}

#[test]
fn windows_next_to_a_reset_are_covered_and_one_over_it_is_not() {
    let mut trace = counting(Kind::Gpu, PowerLimits::default());
    for row in &mut trace.rows[60..] {
        // The driver is loaded again after half a second, and the counter starts at 0 J.
        report(row, |reported_j| reported_j - 1550.0);
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
    for limits in [PowerLimits::default(), device(REPORTED[0]).limits] {
        let mut trace = counting(Kind::Gpu, limits);
        report(&mut trace.rows[60], |_| 1e15);
        assert_eq!(trace.energy(0, seconds(1.0, 11.0)), None);
        let energy = trace.energy(0, seconds(7.0, 11.0)).unwrap();
        assert!(
            energy.sampling.contains(400.0) && energy.sampling.high_j < 450.0,
            "{energy:?}"
        );
        report(&mut trace.rows[60], |_| f64::INFINITY);
        let energy = trace.energy(0, seconds(1.0, 11.0)).unwrap();
        assert!(
            energy.sampling.contains(1000.0) && energy.sampling.high_j < 1050.0,
            "{energy:?}"
        );
    }
}

/// Returns energies of work between idle times, from a counter that is updated every 0.1 s, each
/// with the true energy in J.
///
/// There are 100 cases with different phases of the counter and of the work. The work begins up to
/// 0.1 s after `begin_s` and takes `work_s`.
fn energies_of_work(times_s: &[f64], begin_s: f64, work_s: f64) -> Vec<(Energy, f64)> {
    let (idle_w, busy_w) = (40.0, 263.0);
    let energy = |phase: i32| {
        let begin_s = begin_s + 0.001 * f64::from(phase);
        let load = PowerProfile {
            pieces: vec![
                PowerSegment::level(begin_s, idle_w),
                PowerSegment::level(work_s, busy_w),
                PowerSegment::level(1.0, idle_w),
            ],
            repeats: false,
        };
        let phase_s = 0.1 * (0.618 * f64::from(phase)).fract();
        let trace = sampled_at(&load, Reported::Counter(0.1), phase_s, times_s);
        let window = seconds(begin_s, begin_s + work_s);
        let energy = trace.energy_calibrated(0, window, &Calibration::known(1.0));
        (energy.unwrap(), work_s * busy_w)
    };
    (0..100).map(energy).collect()
}

/// Asserts that all intervals contain the truth, and that the median width and the median absolute
/// error, as shares of the truth, are at most `most_width` and `most_error`.
fn check_medians(energies: &[(Energy, f64)], case: &str, most_width: f64, most_error: f64) {
    let median = |share: &dyn Fn(&(Energy, f64)) -> f64| {
        updates::median(energies.iter().map(share).collect()).unwrap()
    };
    let width = median(&|(energy, truth)| energy.interval.width_j() / truth);
    let error = median(&|(energy, truth)| (energy.joules / truth - 1.0).abs());
    eprintln!("{case}: width {width:.3}, error {error:.3}");
    for (energy, truth) in energies {
        assert!(energy.interval.contains(*truth), "{case} {truth} {energy}");
    }
    assert!(width <= most_width && error <= most_error, "{case}");
}

#[test]
fn a_counter_that_every_read_finds_changed_is_as_fast_as_known_counters() {
    // The energy between two reads is known, but not its distribution over the read interval. The
    // estimate spreads the energy evenly, so some energy of the work is estimated to be outside the
    // window at both ends.
    for (every_s, most_width, most_error) in
        [(0.2, 0.13, 0.04), (0.5, 0.32, 0.12), (1.0, 0.6, 0.22)]
    {
        let n_reads = updates::count(20.0 / every_s);
        let times_s: Vec<f64> = (0..n_reads).map(|read| every_s * read as f64).collect();
        let energies = energies_of_work(&times_s, 8.0 + 0.3 * every_s, 2.0);
        check_medians(&energies, &format!("{every_s} s"), most_width, most_error);
    }
}

#[test]
fn a_pause_in_the_reads_of_a_counter_is_not_an_update_period() {
    // The reads before and after the pause have too few changes to determine a period, and the work
    // begins at most 0.1 s after the pause.
    for pause_s in [0.5, 1.0] {
        let before = (0..10).map(|read| 8.0 + 0.02 * f64::from(read));
        let after = (0..25).map(|read| 8.2 + pause_s + 0.02 * f64::from(read));
        let times_s: Vec<f64> = before.chain(after).collect();
        let energies = energies_of_work(&times_s, 8.2 + pause_s, 0.3);
        check_medians(&energies, &format!("pause of {pause_s} s"), 0.32, 0.13);
    }
}
