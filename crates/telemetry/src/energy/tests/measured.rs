//! Tests of energies of short work, marked by a span or by [`crate::measure`], that takes one to a
//! few updates.

use super::*;
use crate::Source;
use crate::synthetic::Synthetic;

/// Returns a trace of a T4 that draws 65 W, with rows every 20 ms and at both ends of the work, as
/// [`crate::measure`] records.
fn measured(begin_s: f64, before_s: f64, work: Range<f64>) -> Trace {
    let mut source = Synthetic::from_power(PowerProfile::constant(65.0)).unwrap();
    let rounds = (0..).map(|round| begin_s + 0.02 * f64::from(round));
    let mut times_s: Vec<f64> = rounds.take_while(|&s| s < work.end + before_s).collect();
    times_s.extend([work.start, work.end]);
    times_s.sort_by(f64::total_cmp);
    let mut row = |&time_s: &f64| {
        let time = Duration::from_secs_f64(time_s);
        let values = source.read(0, time).values;
        Row {
            device: 0,
            time,
            values,
        }
    };
    let rows = times_s.iter().map(&mut row).collect();
    Trace {
        interval: Duration::from_millis(20),
        devices: source.devices().to_vec(),
        rows,
        ..Trace::default()
    }
}

#[test]
fn work_shorter_than_a_few_updates_that_is_measured_has_its_energy_in_the_interval() {
    // The ceiling of a T4 is its limit of 70 W plus 20 %.
    let (watts, ceiling_w) = (65.0, 84.0);
    for (margin_s, most_width) in [(0.2, 0.65), (0.0, 1.2)] {
        let (mut widths, mut n_without) = (vec![], 0);
        for case in 0..40 {
            let begin_s = 3.0 + 0.0137 * f64::from(case);
            let work_s = 0.03 + 0.005 * f64::from(case);
            let start_s = begin_s + margin_s;
            let work = start_s..start_s + work_s;
            let trace = measured(begin_s, 0.2, work.clone());
            let one = Calibration::known(1.0);
            let energy = trace.energy_calibrated(0, seconds(work.start, work.end), &one);
            let Some(energy) = energy else {
                n_without += 1;
                continue;
            };
            let truth = watts * work_s;
            assert!(energy.interval.contains(truth), "{work:?} {truth} {energy}");
            assert!(
                energy.interval.high_j <= ceiling_w * work_s + 2e-3,
                "{energy}"
            );
            widths.push(energy.interval.width_j() / truth);
        }
        let width = updates::median(widths).unwrap();
        eprintln!("margins of {margin_s} s: median width {width:.3}, {n_without} without energy");
        assert!(n_without == 0 && width <= most_width);
    }
}

#[test]
fn an_unchanged_counter_proves_that_there_was_no_update() {
    // The device is idle for 10 s, then a span of work ends with the trace. The counter has not
    // been updated since the last change that a read saw.
    for phase in 0..100 {
        for work_s in [0.12, 0.19, 0.25, 0.31] {
            let begin_s = 11.0 + 0.001 * f64::from(phase);
            let end_s = begin_s + work_s;
            let load = PowerProfile {
                pieces: vec![
                    PowerSegment::level(begin_s, 40.0),
                    PowerSegment::level(9.0, 263.0),
                ],
                repeats: false,
            };
            let rounds = (0..).map(|round| begin_s - 10.0 + 0.02 * f64::from(round));
            let mut times_s: Vec<f64> = rounds.take_while(|&time_s| time_s < end_s).collect();
            times_s.push(end_s);
            let trace = sampled_at(&load, Reported::Counter(0.1), 0.0, &times_s);
            let window = seconds(begin_s, end_s);
            let energy = trace
                .energy_calibrated(0, window, &Calibration::known(1.0))
                .unwrap();
            let truth = 263.0 * work_s;
            assert!(energy.interval.contains(truth), "{phase} {work_s} {energy}");
            let n_updates = (10.0 * end_s).floor() - (10.0 * begin_s).floor();
            assert!(energy.n_updates as f64 <= n_updates + 1.0, "{energy}");
        }
    }
}
