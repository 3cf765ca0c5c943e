//! Idle times of modelled devices with known idle energy.

use super::*;
use crate::synthetic::{
    Board, Gpu, Model, PowerProfile, PowerSegment, Quantity, Scenario, Synthetic,
};
use crate::testdata::Random;
use crate::{Calibration, Region, Row, Sampler, SpanReport};

mod sensors;

/// Samples a board every 100 ms; `power` is its power and `busy` its utilisation over time.
fn traced(board: Board, power: PowerProfile, busy: PowerProfile, seconds: u64) -> Trace {
    let mut gpu = Gpu::from_board(board);
    gpu.power = power;
    gpu.utilisation.gpu_pct = Quantity::Varying(busy);
    let scenario = Scenario {
        gpus: vec![gpu],
        ..Scenario::default()
    };
    let source = Synthetic::new(Model::new(scenario).unwrap());
    let trace = Sampler::new(source).record(Duration::from_secs(seconds));
    trace.unwrap()
}

fn squares(board: Board, period_s: f64, duty: f64, seconds: u64) -> Trace {
    traced(
        board,
        PowerProfile::square(15.0, 65.0, period_s, duty),
        PowerProfile::square(0.0, 96.0, period_s, duty),
        seconds,
    )
}

/// Checks that the fields of a result are consistent with each other.
fn assert_consistent(found: &Bottleneck) {
    let Shares {
        active,
        idle_held,
        idle,
    } = found.shares;
    let idle_share = idle_held.value + idle.value;
    assert!((active.value + idle_share - 1.0).abs() < 1e-9, "{found:?}");
    let wasted_j = found.wasted_j.expect("the device reports power");
    let joules = found.joules.expect("the device reports power");
    let estimates = [active, idle_held, idle, wasted_j];
    assert!(estimates.iter().all(|e| e.contains(e.value)), "{found:?}");
    assert!(
        [active, idle_held, idle]
            .iter()
            .all(|e| e.low >= -1e-9 && e.high <= 1.0 + 1e-9),
        "{found:?}"
    );
    let is_idle = |s: &&Period| s.activity != Activity::Active;
    let seconds = |s: &Period| (s.window.end - s.window.start).as_secs_f64();
    let total_s: f64 = found.periods.iter().map(seconds).sum();
    let idle_s: f64 = found.periods.iter().filter(is_idle).map(seconds).sum();
    let idle_j: f64 = found
        .periods
        .iter()
        .filter(is_idle)
        .filter_map(|s| s.joules)
        .sum();
    assert!((idle_s / total_s - idle_share).abs() < 1e-6, "{found:?}");
    assert!(
        (idle_j - wasted_j.value).abs() <= 1e-6 * joules,
        "{found:?}"
    );
    let is_fitting = match found.verdict {
        Verdict::Undecided => {
            found.evidence == Evidence::Neither || active.high - active.low >= 0.99
        }
        Verdict::MostlyIdle => idle_share > 0.5,
        Verdict::PeriodicIdle => idle_share > 0.05 && found.periodicity.is_some(),
        Verdict::Underused => found.busy_percentiles.is_some_and(|busy| busy.1 < 70.0),
        Verdict::Fluctuating => (0.05..=0.5).contains(&idle_share),
        Verdict::Busy => idle_share <= 0.05,
    };
    assert!(is_fitting, "{found:?}");
}

#[test]
fn idle_energy_of_boards_is_found_whatever_the_lag_of_utilisation() {
    for (board, period_s, duty, seconds, lag_s) in [
        (Board::T4, 2.0, 0.6, 10, Some(1.0 / 6.0)),
        (Board::T4, 2.0, 0.6, 60, Some(1.0 / 6.0)),
        (Board::T4, 1.0, 0.5, 60, Some(1.0 / 6.0)),
        (Board::A100, 4.0, 0.5, 60, Some(1.0)),
        (Board::H100, 4.0, 0.5, 60, Some(1.0)),
        (Board::A100, 10.0, 0.8, 60, Some(1.0)),
        (Board::H100, 10.0, 0.8, 60, Some(1.0)),
        (Board::A100, 2.0, 0.6, 60, None),
        (Board::V100, 0.3, 0.5, 60, None),
    ] {
        let trace = squares(board, period_s, duty, seconds);
        let found = idle_periods(&trace, 0).unwrap();
        let length_s = trace.duration().as_secs_f64();
        let truth_j = 15.0 * (1.0 - duty) * length_s;
        let wasted_j = found.wasted_j.unwrap();
        let case = format!("{board:?} {period_s} s {duty}: {truth_j} J; {found}");
        assert!(wasted_j.contains(truth_j), "{case}");
        assert!((wasted_j.value / truth_j - 1.0).abs() < 0.03, "{case}");
        // At most 70 % of the time is idle.
        let (low_w, high_w) = Calibration::for_device(&trace.devices[0]).offsets_w();
        let offsets_j = (high_w - low_w) * 0.7 * length_s;
        let width_j = wasted_j.high - wasted_j.low;
        assert!(width_j < 1.3 * truth_j + offsets_j, "{case}");
        let idle = 1.0 - found.shares.active.value;
        assert!((idle - (1.0 - duty)).abs() < 0.02, "{case}");
        if let (Some(lag_s), Some(found_s)) = (lag_s, found.utilisation_lag_s) {
            assert!(
                (found_s - lag_s).abs() < 0.12 * lag_s.max(0.5),
                "{found_s} {case}"
            );
        }
        assert!(
            lag_s.is_none() || found.utilisation_lag_s.is_some(),
            "{case}"
        );
        assert_consistent(&found);
    }
}

#[test]
fn a_counter_that_stands_still_or_jumps_does_not_decide_what_is_idle() {
    // Without the counter, power averaged over the last second is less accurate.
    let truth_j = 15.0 * 0.5 * 60.0;
    let stuck = |_: usize, _: f64| 77.0;
    let misread_first = |row: usize, reported_j: f64| if row == 0 { 0.0 } else { reported_j + 1e6 };
    for change in [&stuck as &dyn Fn(usize, f64) -> f64, &misread_first] {
        let mut trace = squares(Board::A100, 4.0, 0.5, 60);
        for (number, row) in trace.rows.iter_mut().enumerate() {
            if let Some(reported_j) = row.values.get(Metric::Energy) {
                row.values.set(Metric::Energy, change(number, reported_j));
            }
        }
        let found = idle_periods(&trace, 0).unwrap();
        assert!(found.wasted_j.unwrap().contains(truth_j), "{found}");
        assert!(
            (found.wasted_j.unwrap().value / truth_j - 1.0).abs() < 0.2,
            "{found}"
        );
        assert_consistent(&found);
    }
}

/// A load with known busy and idle times.
struct Load {
    power: PowerProfile,
    busy: PowerProfile,
    /// Power during idle times, and 0 W during busy times.
    idle: PowerProfile,
    /// 1 W during idle times and 0 W during busy times, so that its energy, in J, is the idle time,
    /// in s.
    is_idle: PowerProfile,
}

impl Load {
    /// Creates a load from the lengths, in s, of busy and idle times, and the power of both, in W.
    fn new(
        pieces: &[(f64, bool)],
        [busy_w, idle_w]: [f64; 2],
        busy_pct: f64,
        repeats: bool,
    ) -> Self {
        let profile = |of_busy: f64, of_idle: f64| {
            let level = |&(lasts_s, is_busy): &(f64, bool)| {
                PowerSegment::level(lasts_s, if is_busy { of_busy } else { of_idle })
            };
            PowerProfile {
                pieces: pieces.iter().map(level).collect(),
                repeats,
            }
        };
        Self {
            power: profile(busy_w, idle_w),
            busy: profile(busy_pct, 0.0),
            idle: profile(0.0, idle_w),
            is_idle: profile(0.0, 1.0),
        }
    }
}

/// Shortest and longest busy time, and shortest and longest idle time, in s.
#[derive(Clone, Copy)]
struct Lengths {
    busy_s: (f64, f64),
    idle_s: (f64, f64),
}

/// Returns a load with alternating busy and idle times of random length, at two levels of power.
fn random_load(random: &mut Random, board: Board, lengths: Lengths, seconds: f64) -> Load {
    // Power stays below the board's limit; above it the model would lower clocks and power.
    let (idle_w, busy_w) = match board {
        Board::T4 => (random.between(8.0, 30.0), random.between(50.0, 69.0)),
        _ => (random.between(10.0, 60.0), random.between(120.0, 290.0)),
    };
    let busy_pct = random.between(75.0, 100.0);
    let mut pieces = vec![];
    let (mut time_s, mut is_busy) = (0.0, random.uniform() < 0.5);
    while time_s < seconds {
        let (shortest_s, longest_s) = if is_busy {
            lengths.busy_s
        } else {
            lengths.idle_s
        };
        // Lengths are log-uniform, so short times are as frequent as long times.
        let lasts_s = random.between(shortest_s.ln(), longest_s.ln()).exp();
        pieces.push((lasts_s, is_busy));
        (time_s, is_busy) = (time_s + lasts_s, !is_busy);
    }
    Load::new(&pieces, [busy_w, idle_w], busy_pct, false)
}

#[test]
fn random_loads_have_their_idle_energy_in_the_range_and_verdicts_that_agree() {
    let mut random = Random(21);
    let (mut worst, mut n_close) = (0.0_f64, 0);
    let n_loads = 120;
    for case in 0..n_loads {
        let board = [
            Board::T4,
            Board::V100,
            Board::A100,
            Board::H100,
            Board::Rtx3090,
        ][case % 5];
        let seconds = [6, 15, 40][case % 3];
        let shortest_s = random.between(0.3, 3.0);
        let range_s = (shortest_s, 4.0 * shortest_s);
        let lengths = Lengths {
            busy_s: range_s,
            idle_s: range_s,
        };
        let load = random_load(&mut random, board, lengths, seconds as f64);
        let truth_j = load.idle.energy_j(0.0, seconds as f64);
        let mut trace = traced(board, load.power, load.busy, seconds);
        let has_utilisation = case % 4 != 3;
        if !has_utilisation {
            for row in &mut trace.rows {
                row.values.set(Metric::GpuBusy, f64::NAN);
            }
        }
        let found = idle_periods(&trace, 0).unwrap();
        let wasted_j = found.wasted_j.unwrap();
        let off_j = (wasted_j.value - truth_j).abs();
        let off = off_j / truth_j.max(0.05 * found.joules.unwrap());
        assert!(
            wasted_j.contains(truth_j),
            "{case} {board:?} {truth_j} J: {found}"
        );
        assert_consistent(&found);
        worst = worst.max(off);
        n_close += usize::from(off < 0.05);
    }
    eprintln!("worst {worst:.3}, within 5 %: {n_close} of {n_loads}");
    assert!(
        n_close * 10 >= n_loads * 9 && worst < 0.3,
        "{worst} {n_close}"
    );
}

#[test]
fn one_window_has_one_energy() {
    let trace = squares(Board::T4, 2.0, 0.6, 20);
    let mark = Region {
        name: "job".to_owned(),
        start: Duration::from_millis(3_141),
        end: Duration::from_millis(11_718),
        depth: 0,
        thread: 0,
    };
    let spent = SpanReport::from_region(&trace, &mark).joules().unwrap();
    let found = idle_periods_within(&trace, 0, mark.start..mark.end).unwrap();
    let joules = found.joules.unwrap();
    assert!((joules - spent).abs() < 1e-9 * spent, "{joules} {spent}");
    let first = found.periods.first().unwrap().window.start;
    let last = found.periods.last().unwrap().window.end;
    assert_eq!((first, last), (mark.start, mark.end));
    assert_consistent(&found);
}

#[test]
fn a_window_without_an_update_has_no_verdict() {
    let trace = squares(Board::T4, 2.0, 0.6, 20);
    let start = Duration::from_millis(5_030);
    for length in [Duration::ZERO, Duration::from_micros(800)] {
        let rejected = idle_periods_within(&trace, 0, start..start + length);
        assert!(
            matches!(rejected, Err(Error::ParameterInvalid { .. })),
            "{rejected:?}"
        );
    }
}

#[test]
fn utilisation_that_contradicts_power_decides_and_the_range_covers_both() {
    // A load that waits for memory draws half the power, although kernels run all the time.
    let busy = PowerProfile::constant(100.0);
    let trace = traced(
        Board::A100,
        PowerProfile::square(100.0, 300.0, 4.0, 0.5),
        busy,
        60,
    );
    let found = idle_periods(&trace, 0).unwrap();
    assert_eq!(
        (found.evidence, found.verdict),
        (Evidence::Utilisation, Verdict::Busy)
    );
    assert_eq!(found.wasted_j.unwrap().value, 0.0);
    assert!(
        found.wasted_j.unwrap().contains(100.0 * 0.5 * 60.0),
        "{found}"
    );
    assert_consistent(&found);
}

#[test]
fn a_range_of_0_to_100_percent_is_no_verdict() {
    let trace = squares(Board::A100, 2.0, 0.6, 20);
    // A part-time sensor sees a quarter of each 100 ms, and utilisation is averaged over longer
    // times than these windows.
    let mut n_undecided = 0;
    for start_ms in (2_000..4_000).step_by(50) {
        let start = Duration::from_millis(start_ms);
        let Ok(found) = idle_periods_within(&trace, 0, start..start + Duration::from_millis(120))
        else {
            continue;
        };
        let active = found.shares.active;
        let is_open = active.low < 0.005 && active.high > 0.995;
        let text = found.to_string();
        assert_eq!(found.verdict == Verdict::Undecided, is_open, "{text}");
        assert!(!text.contains("[0, 100]"), "{text}");
        n_undecided += usize::from(is_open);
        assert_consistent(&found);
    }
    assert!(n_undecided > 0);
}

#[test]
fn steady_power_without_utilisation_is_no_verdict() {
    let mut trace = traced(
        Board::T4,
        PowerProfile::constant(30.0),
        PowerProfile::constant(0.0),
        20,
    );
    for row in &mut trace.rows {
        row.values.set(Metric::GpuBusy, f64::NAN);
    }
    let found = idle_periods(&trace, 0).unwrap();
    assert_eq!(found.verdict, Verdict::Undecided);
    let wasted_j = found.wasted_j.unwrap();
    assert!(wasted_j.contains(0.0) && wasted_j.contains(found.joules.unwrap()));
    assert!(!found.to_string().contains("active for"), "{found}");
    assert_consistent(&found);
}

#[test]
fn utilisation_without_levels_of_power_is_moved_by_its_lag() {
    // Three levels of power for three of utilisation: idle, half, full.
    let steps = |levels: [f64; 3]| PowerProfile {
        pieces: levels
            .iter()
            .map(|&level| PowerSegment::level(4.0, level))
            .collect(),
        repeats: true,
    };
    let power = steps([20.0, 150.0, 300.0]);
    let trace = traced(Board::A100, power, steps([0.0, 50.0, 100.0]), 60);
    let found = idle_periods(&trace, 0).unwrap();
    let truth_j = 20.0 * 20.0;
    let wasted_j = found.wasted_j.unwrap();
    assert!(wasted_j.contains(truth_j), "{found}");
    // The time of each of the five edges to 300 W is known to within a read interval.
    let edges_j = 5.0 * 0.1 * 300.0;
    let off_j = (wasted_j.value - truth_j).abs();
    assert!(off_j < edges_j, "{found}");
    assert_consistent(&found);
}

#[test]
fn a_device_without_power_and_energy_has_idle_times_and_no_energies() {
    let mut trace = squares(Board::T4, 4.0, 0.5, 20);
    for row in &mut trace.rows {
        for metric in Metric::POWERS.into_iter().chain([Metric::Energy]) {
            row.values.set(metric, f64::NAN);
        }
    }
    let found = idle_periods(&trace, 0).unwrap();
    assert_eq!(found.evidence, Evidence::Utilisation);
    assert!((found.shares.active.value - 0.5).abs() < 0.05, "{found}");
    assert_eq!((found.joules, found.wasted_j), (None, None));
    assert!(found.periods.len() > 2);
    assert!(found.periods.iter().all(|period| period.joules.is_none()));
    assert!(!found.to_string().contains(" J"), "{found}");
}

#[test]
fn a_failed_read_of_memory_does_not_change_whether_memory_is_held() {
    // Of 100 GB, 1 GB is the driver's own use and 4 GB are held by a program.
    for (used, is_held) in [(1e9, false), (4e9, true)] {
        let mut trace = squares(Board::T4, 4.0, 0.5, 20);
        for row in &mut trace.rows {
            row.values.set(Metric::MemoryTotal, 100e9);
            row.values.set(Metric::MemoryUsed, used);
        }
        let whole = idle_periods(&trace, 0).unwrap();
        let shares = whole.shares;
        let (all, none) = if is_held {
            (shares.idle_held, shares.idle)
        } else {
            (shares.idle, shares.idle_held)
        };
        assert!(all.value > 0.4 && none.value == 0.0, "{whole}");
        // The first rows, and later rows by turns, lack one of the two values.
        for (i, row) in trace.rows.iter_mut().enumerate() {
            let missing = match i % 4 {
                0 => Metric::MemoryUsed,
                1 => Metric::MemoryTotal,
                _ => continue,
            };
            row.values.set(missing, f64::NAN);
        }
        assert_eq!(idle_periods(&trace, 0).unwrap(), whole);
    }
}
