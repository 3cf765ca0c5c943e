//! Idle energy of random loads against the model's truth: read intervals, sensors and missing rows.

use super::*;
use crate::SensorClass;
use crate::synthetic::{Counter, Reporting, Sensor};
use crate::updates::median;

/// A board with one power sensor and an optional counter.
#[derive(Clone, Copy, Debug)]
struct Equipment {
    board: Board,
    class: SensorClass,
    has_counter: bool,
}

/// A board for each class of power sensor.
const BOARDS: [(Board, SensorClass); 4] = [
    (Board::T4, SensorClass::FullTime),
    (Board::A100, SensorClass::PartTime),
    (Board::V100, SensorClass::Fast),
    (Board::Rtx3090, SensorClass::LastSecond),
];

/// Returns a random phase of the power sensor, in s: from 0 to its update period.
fn random_phase(random: &mut Random, equipment: Equipment) -> f64 {
    random.between(0.0, equipment.class.update_and_window_s().0)
}

/// Samples a load; `phase_s` is the phase of the power sensor, in s.
fn sampled(
    phase_s: f64,
    equipment: Equipment,
    load: &Load,
    every: Duration,
    seconds: u64,
) -> Trace {
    let mut gpu = Gpu::from_board(equipment.board);
    gpu.power = load.power.clone();
    gpu.utilisation.gpu_pct = Quantity::Varying(load.busy.clone());
    let class = equipment.class;
    let sensor = Reporting::By(Sensor {
        phase_s,
        ..Sensor::for_class(class)
    });
    if class == SensorClass::LastSecond {
        gpu.sensors.instant = Reporting::Never;
        (gpu.sensors.average, gpu.sensors.draw) = (sensor, sensor);
    } else {
        (gpu.sensors.instant, gpu.sensors.draw) = (sensor, sensor);
    }
    if !equipment.has_counter {
        gpu.counter = Reporting::Never;
    }
    let scenario = Scenario {
        gpus: vec![gpu],
        ..Scenario::default()
    };
    let source = Synthetic::new(Model::new(scenario).unwrap());
    let sampler = Sampler::new(source).interval(every);
    sampler.record(Duration::from_secs(seconds)).unwrap()
}

/// Errors of the estimates relative to the true idle energy, or to 5 % of all energy if that is
/// larger, and the cases whose ranges do not contain the true values.
#[derive(Default)]
struct Errors {
    shares: Vec<f64>,
    misses: Vec<String>,
}

impl Errors {
    /// Adds the errors of the result for a load that was traced from time zero on.
    fn add(&mut self, found: &Bottleneck, load: &Load, trace: &Trace, case: &str) {
        assert_consistent(found);
        let lasts_s = trace.duration().as_secs_f64();
        let truth_j = load.idle.energy_j(0.0, lasts_s);
        let active = 1.0 - load.is_idle.energy_j(0.0, lasts_s) / lasts_s;
        let wasted_j = found.wasted_j.expect("the device reports power");
        let joules = found.joules.expect("the device reports power");
        if !wasted_j.contains(truth_j) || !found.shares.active.contains(active) {
            self.misses
                .push(format!("{case}: {truth_j} J, active {active}; {found}"));
        }
        let off_j = (wasted_j.value - truth_j).abs();
        self.shares.push(off_j / truth_j.max(0.05 * joules));
    }

    /// Checks that the median error is at most `most`, and that the ranges contain the true values
    /// in at least 98 % of the cases (in all cases if there are fewer than 50). Where power shows
    /// no levels, utilisation alone may be wrong about short idle times.
    fn check(&self, case: &str, most: f64) {
        let most_misses = self.shares.len() / 50;
        assert!(
            self.misses.len() <= most_misses,
            "{case}: {:#?}",
            self.misses
        );
        let median = median(self.shares.clone()).unwrap();
        assert!(median <= most, "{case}: {median}");
    }
}

/// Returns the number of random loads: `full` if `VERIFY_FULL` is 1, and `usual` otherwise.
fn n_loads(usual: usize, full: usize) -> usize {
    let is_full = std::env::var_os("VERIFY_FULL").is_some_and(|value| value == "1");
    if is_full { full } else { usual }
}

/// Lengths with short idle times, with short busy times and without short times. The short times
/// are around 0.1 s, the length of a sensor's window.
const LENGTHS: [Lengths; 3] = [
    Lengths {
        busy_s: (0.4, 1.5),
        idle_s: (0.06, 0.19),
    },
    Lengths {
        busy_s: (0.06, 0.19),
        idle_s: (0.4, 1.5),
    },
    Lengths {
        busy_s: (0.5, 3.0),
        idle_s: (0.5, 3.0),
    },
];
/// Lengths from 0.02 s, which a part-time sensor may miss, to long times.
const SHORT_AND_LONG: [Lengths; 3] = [
    Lengths {
        busy_s: (0.1, 0.8),
        idle_s: (0.02, 0.8),
    },
    Lengths {
        busy_s: (0.02, 0.8),
        idle_s: (0.1, 0.8),
    },
    LENGTHS[2],
];

#[test]
fn readings_that_are_read_often_are_no_levels() {
    for (every_ms, most) in [(10, 0.02), (20, 0.02), (100, 0.05), (400, 0.15)] {
        let mut random = Random(every_ms);
        let mut errors = Errors::default();
        for case in 0..n_loads(12, 96) {
            let (board, class) = BOARDS[case % 4];
            let equipment = Equipment {
                board,
                class,
                has_counter: true,
            };
            let lengths = LENGTHS[case / 4 % 3];
            let load = random_load(&mut random, board, lengths, 12.0);
            let every = Duration::from_millis(every_ms);
            let phase_s = random_phase(&mut random, equipment);
            let trace = sampled(phase_s, equipment, &load, every, 12);
            let found = idle_periods(&trace, 0).unwrap();
            let case = format!("every {every_ms} ms, {case} {equipment:?}");
            errors.add(&found, &load, &trace, &case);
        }
        errors.check(&format!("every {every_ms} ms"), most);
    }
}

#[test]
fn time_that_no_sensor_sees_is_in_the_range() {
    for (board, class) in BOARDS {
        let equipment = Equipment {
            board,
            class,
            has_counter: false,
        };
        // The accuracy of the value is documented for complete traces only; ranges hold for all.
        for (thinned, most) in [(1, 0.03), (4, f64::INFINITY), (16, f64::INFINITY)] {
            let mut random = Random(7);
            let mut errors = Errors::default();
            for case in 0..n_loads(6, 48) {
                let load = random_load(&mut random, board, SHORT_AND_LONG[case % 3], 20.0);
                let every = Duration::from_millis([20, 100][case / 3 % 2]);
                let phase_s = random_phase(&mut random, equipment);
                let mut trace = sampled(phase_s, equipment, &load, every, 20);
                let rows = trace.rows.iter().step_by(thinned).copied();
                trace.rows = rows.collect();
                trace.interval *= u32::try_from(thinned).unwrap();
                if case % 2 == 1 {
                    for row in &mut trace.rows {
                        row.values.set(Metric::GpuBusy, f64::NAN);
                    }
                }
                let found = idle_periods(&trace, 0).unwrap();
                let case = format!("{case} {equipment:?} {every:?}, 1 row of {thinned}");
                errors.add(&found, &load, &trace, &case);
            }
            errors.check(&format!("{class:?}, 1 row of {thinned}"), most);
        }
    }
}

#[test]
fn gaps_in_step_with_a_sensor_that_does_not_see_them_are_in_the_range() {
    for (board, class, every_ms, period_s, n_rounds) in [
        (Board::A100, SensorClass::PartTime, 20, 0.1, 20),
        (Board::V100, SensorClass::Fast, 5, 0.02, 100),
        (Board::T4, SensorClass::FullTime, 400, 0.4, 5),
    ] {
        // Two idle seconds, and two seconds with gaps that the sensor does not see.
        let mut pieces = vec![(2.0, false)];
        for _ in 0..n_rounds {
            pieces.extend([(0.45 * period_s, false), (0.55 * period_s, true)]);
        }
        let load = Load::new(&pieces, [65.0, 20.0], 90.0, true);
        let equipment = Equipment {
            board,
            class,
            has_counter: false,
        };
        let every = Duration::from_millis(every_ms);
        // The window of each read is within the busy part.
        let phase_s = 0.95 * class.update_and_window_s().0;
        let mut trace = sampled(phase_s, equipment, &load, every, 20);
        for row in &mut trace.rows {
            row.values.set(Metric::GpuBusy, f64::NAN);
        }
        let found = idle_periods(&trace, 0).unwrap();
        let mut errors = Errors::default();
        errors.add(&found, &load, &trace, &format!("{equipment:?}"));
        errors.check("in step", 0.4);
    }
}

#[test]
fn time_without_a_counter_or_utilisation_is_not_active() {
    let mut random = Random(9);
    for (case, metric) in [
        (0, Metric::Energy),
        (1, Metric::Energy),
        (2, Metric::GpuBusy),
        (3, Metric::GpuBusy),
    ] {
        let (board, class) = BOARDS[case];
        let equipment = Equipment {
            board,
            class,
            has_counter: case < 2,
        };
        let load = random_load(&mut random, board, LENGTHS[1], 30.0);
        let phase_s = random_phase(&mut random, equipment);
        let mut trace = sampled(phase_s, equipment, &load, Duration::from_millis(100), 30);
        for (number, row) in trace.rows.iter_mut().enumerate() {
            // The metric is present once a second, and absent for a third of the time.
            let is_absent = number % 10 != 5 || (60..160).contains(&number);
            if is_absent {
                row.values.set(metric, f64::NAN);
            }
            if metric == Metric::GpuBusy {
                // Constant power shows no levels.
                for power in Metric::POWERS {
                    if row.values.get(power).is_some() {
                        row.values.set(power, 100.0);
                    }
                }
            }
        }
        let found = idle_periods(&trace, 0).unwrap();
        let seconds = trace.duration().as_secs_f64();
        let active = 1.0 - load.is_idle.energy_j(0.0, seconds) / seconds;
        let text = format!(
            "{case} {metric}, active {active}: {:?} {found}",
            found.shares
        );
        assert!(found.shares.active.contains(active), "{text}");
        assert!((found.shares.active.value - active).abs() < 0.15, "{text}");
        assert_consistent(&found);
        let lengths = found.periods.iter().map(|s| s.window.end - s.window.start);
        let covered_s = lengths.sum::<Duration>().as_secs_f64();
        assert!((covered_s - found.known * seconds).abs() < 1e-6, "{text}");
    }
}

#[test]
fn a_pause_of_most_of_the_time_may_be_idle_or_busy() {
    let mut random = Random(13);
    for (board, class) in BOARDS {
        let equipment = Equipment {
            board,
            class,
            has_counter: true,
        };
        let load = random_load(&mut random, board, LENGTHS[2], 20.0);
        let phase_s = random_phase(&mut random, equipment);
        let mut trace = sampled(phase_s, equipment, &load, Duration::from_millis(100), 20);
        trace
            .rows
            .retain(|row| !(3.0..16.5).contains(&row.time.as_secs_f64()));
        let found = idle_periods(&trace, 0).unwrap();
        let truth_j = load.idle.energy_j(0.0, trace.duration().as_secs_f64());
        assert!(found.known < 0.4, "{equipment:?}: {found}");
        assert!(
            found.wasted_j.unwrap().contains(truth_j),
            "{truth_j} {equipment:?}: {found}"
        );
    }
}

#[test]
fn a_region_with_a_pause_has_one_energy() {
    let mut random = Random(11);
    for (board, class) in BOARDS {
        for has_counter in [true, false] {
            let equipment = Equipment {
                board,
                class,
                has_counter,
            };
            let load = random_load(&mut random, board, LENGTHS[2], 20.0);
            let every = Duration::from_millis(100);
            let phase_s = random_phase(&mut random, equipment);
            let mut trace = sampled(phase_s, equipment, &load, every, 20);
            let paused = |row: &Row| (7.0..13.0).contains(&row.time.as_secs_f64());
            trace.rows.retain(|row| !paused(row));
            let window = Duration::from_millis(2_030)..Duration::from_millis(18_770);
            let found = idle_periods_within(&trace, 0, window.clone()).unwrap();
            let energy = trace.energy(0, window).unwrap();
            let text = format!("{equipment:?} {energy}: {found}");
            assert!(found.known < 0.7, "{text}");
            assert_eq!(found.joules, Some(energy.joules), "{text}");
            let truth_j = load.idle.energy_j(2.03, 18.77);
            let wasted_j = found.wasted_j.unwrap();
            assert!(wasted_j.contains(truth_j), "{truth_j} {text}");
            assert!(wasted_j.value <= energy.joules, "{text}");
            assert_consistent(&found);
        }
    }
}

#[test]
fn an_offset_between_counter_and_power_moves_no_idle_time() {
    let truth = |seconds: f64, low_w: f64| low_w * 0.4 * seconds;
    for (counter_w, power_w) in [(-12.0, 0.0), (0.0, -12.0), (6.0, -6.0), (-10.0, 8.0)] {
        let mut gpu = Gpu::from_board(Board::Rtx3090);
        gpu.power = PowerProfile::square(40.0, 240.0, 2.0, 0.6);
        gpu.utilisation.gpu_pct = Quantity::Varying(PowerProfile::square(0.0, 96.0, 2.0, 0.6));
        gpu.counter = Reporting::By(Counter {
            offset_w: counter_w,
            ..Counter::default()
        });
        gpu.sensors.instant = Reporting::By(Sensor {
            offset_w: power_w,
            ..Sensor::for_class(SensorClass::FullTime)
        });
        let scenario = Scenario {
            gpus: vec![gpu],
            ..Scenario::default()
        };
        let source = Synthetic::new(Model::new(scenario).unwrap());
        let trace = Sampler::new(source)
            .record(Duration::from_secs(40))
            .unwrap();
        let found = idle_periods(&trace, 0).unwrap();
        let text = format!("{counter_w} {power_w}: {found}");
        let wasted_j = found.wasted_j.unwrap();
        assert!(wasted_j.contains(truth(40.0, 40.0)), "{text}");
        let idle = 1.0 - found.shares.active.value;
        assert!((idle - 0.4).abs() < 0.02, "{text}");
        let reported_j = truth(40.0, 40.0 + counter_w);
        assert!((wasted_j.value / reported_j - 1.0).abs() < 0.05, "{text}");
        assert_consistent(&found);
    }
}
