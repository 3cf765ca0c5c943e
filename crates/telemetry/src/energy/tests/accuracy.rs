//! Tests of the errors of energies of simulated devices: random phases, late and missed reads, and
//! extra reads at the edges of regions of code.

use super::*;

/// Statistics over random phases, read intervals and windows.
struct Trial {
    /// Share of intervals that contain the truth.
    covered: f64,
    /// Share of likely intervals that contain the truth.
    likely_covered: f64,
    /// Median error, in % of the energy.
    error: f64,
    /// 95th percentile of the error, in % of the energy.
    error_p95: f64,
    /// Median width of the interval, in % of the energy.
    width: f64,
    /// Median width of the likely interval, in % of the energy.
    likely_width: f64,
}

/// The timing of reads.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rhythm {
    /// Equal intervals.
    Regular,
    /// Some reads are late, and others are missed, alone or several in a row.
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

fn trial(load: &PowerProfile, reported: Reported, reads: Rhythm, n: usize) -> Trial {
    let mut random = Random(n as u64);
    let mut runs = vec![];
    for _ in 0..n {
        // Read rates of 10 Hz to 100 Hz.
        let every_s = 10.0_f64.powf(random.between(-2.0, -1.0));
        let phase_s = random.uniform();
        let from_s = random.between(2.5, 3.5);
        let to_s = from_s + random.between(1.0, 2.0);
        let trace = match reads {
            Rhythm::Regular => sampled(load, reported, phase_s, every_s, to_s + 1.5),
            Rhythm::Disturbed => {
                let times_s = disturbed(&mut random, every_s, to_s + 1.5);
                sampled_at(load, reported, phase_s, &times_s)
            }
        };
        let energy = trace.energy_by(
            0,
            metric(reported),
            seconds(from_s, to_s),
            &Calibration::known(1.0),
        );
        // If most of a window was missed, there is no energy.
        assert!(energy.is_some() || reads == Rhythm::Disturbed);
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

/// Returns whether the tests run as part of `xtask verify --full`.
pub(super) fn is_full() -> bool {
    std::env::var_os("VERIFY_FULL").is_some_and(|value| value == "1")
}

fn check_coverage(reads: Rhythm, n: usize, n_alias: usize) {
    let check = |reported| {
        for (load_name, load) in loads() {
            let is_alias = load_name.starts_with("alias");
            let n = if is_alias { n_alias } else { n };
            let found = trial(&load, reported, reads, n);
            let what = format!("{:>12} {load_name:<14}", name(reported));
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
            // If the load repeats with the sensor's period, the readings do not represent hidden
            // time, so likely intervals need not contain the truth.
            let is_blind = is_alias && is_part_time(reported);
            assert!(found.likely_covered >= 0.95 || is_blind, "{what}");
        }
    };
    std::thread::scope(|scope| {
        for reported in REPORTED {
            scope.spawn(move || check(reported));
        }
    });
}

/// Returns the sorted relative errors of the energies of random jobs. Each job is between idle
/// times, and the window begins and ends in the idle times.
fn jobs(reported: Reported, every_s: impl Fn(&mut Random, usize) -> f64) -> Vec<f64> {
    let mut random = Random(11);
    let mut errors = vec![];
    for i in 0..200 {
        let mut pieces = vec![PowerSegment::level(3.0, 60.0)];
        pieces.extend(irregular(&mut random, 12));
        let job_s: f64 = pieces[1..].iter().map(|piece| piece.lasts_s).sum();
        pieces.push(PowerSegment::level(3.0, 60.0));
        let load = PowerProfile {
            pieces,
            repeats: false,
        };
        let every_s = every_s(&mut random, i);
        let trace = sampled(&load, reported, random.uniform(), every_s, 6.0 + job_s);
        let (from_s, to_s) = (
            random.between(2.4, 2.8),
            3.0 + job_s + random.between(0.2, 0.6),
        );
        let window = seconds(from_s, to_s);
        let energy = trace
            .energy_by(0, metric(reported), window, &Calibration::known(1.0))
            .unwrap();
        assert!(energy.n_updates >= 10, "{energy:?}");
        errors.push((energy.joules / load.energy_j(from_s, to_s) - 1.0).abs());
    }
    errors.sort_by(f64::total_cmp);
    errors
}

#[test]
fn a_job_between_steady_ends_is_exact_to_half_a_percent_by_sensors_that_see_all() {
    for reported in REPORTED {
        let usual = jobs(reported, |_, i| 0.1 / [1.0, 2.0, 5.0, 10.0][i % 4]);
        let any = jobs(reported, |random, _| {
            10.0_f64.powf(random.between(-2.0, -1.0))
        });
        let percent = |share: f64| 100.0 * share;
        let (worst, p95) = (usual[usual.len() - 1], any[any.len() * 95 / 100]);
        let what = format!(
            "{:>12}: at 10, 20, 50, 100 Hz at most {:.3} %, at any rate {:.3} % (95 of 100)",
            name(reported),
            percent(worst),
            percent(p95),
        );
        eprintln!("{what}");
        assert!(is_part_time(reported) || worst.max(p95) <= 0.005, "{what}");
    }
}

/// Returns times of rows every `every_s`, and of both edges of regions of code, 1000 regions per
/// second in each range of `spanned`.
fn with_spans(every_s: f64, lasts_s: f64, spanned: &[Range<f64>]) -> Vec<f64> {
    let mut times_s: Vec<f64> = (0..)
        .map(|round| every_s * f64::from(round))
        .take_while(|&time_s| time_s <= lasts_s)
        .collect();
    for part in spanned {
        let starts = (0..).map(|span| part.start + 0.001 * f64::from(span));
        for start_s in starts.take_while(|&start_s| start_s < part.end) {
            // Each region has a nested region, whose edges are a few microseconds from its own.
            times_s.extend([0.0, 3e-6, 8e-4, 8.02e-4].map(|after_s| start_s + after_s));
        }
    }
    times_s.sort_by(f64::total_cmp);
    times_s
}

#[test]
fn regions_of_code_spoil_neither_energies_nor_counts_of_updates() {
    let load = PowerProfile {
        pieces: irregular(&mut Random(9), 60),
        repeats: true,
    };
    for reported in REPORTED {
        let (update_s, _) = match reported {
            Reported::Power(class) => class.update_and_window_s(),
            Reported::Counter(update_s) => (update_s, 0.0),
        };
        for every_s in [0.02, 0.1, 1.0] {
            for spanned in [&[3.0..3.4, 9.0..9.2][..], &[2.0..16.0], &[0.0..20.0]] {
                let times_s = with_spans(every_s, 20.0, spanned);
                let mut trace = sampled_at(&load, reported, 0.0123, &times_s);
                trace.interval = Duration::from_secs_f64(every_s);
                let window = (3.05, 14.95);
                let energy = trace.energy_by(
                    0,
                    metric(reported),
                    seconds(window.0, window.1),
                    &Calibration::known(1.0),
                );
                let what = format!("{} {every_s} {spanned:?} {energy:?}", name(reported));
                let Some(energy) = energy else {
                    panic!("{what}")
                };
                let truth = load.energy_j(window.0, window.1);
                assert!(energy.interval.contains(truth), "{truth} {what}");
                // Reads once per second see a tenth of the time of a sensor with a window of 0.1 s.
                let off = if is_part_time(reported) || every_s == 1.0 {
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
