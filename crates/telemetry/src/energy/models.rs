//! Models of sensors of power and of energy counters.
//!
//! Role: determines the update periods and averaging windows by which
//! [`Trace::energy`](crate::Trace::energy) interprets readings.

use super::unfold::SensorModel;
use super::{CLOCK, COUNTER_PERIODS_S, SLOWEST_COUNTER_S};
use crate::updates::{self, PeriodBounds};
use crate::{Device, Kind, Metric};

/// Update period of the fastest known power sensor, in s.
const FASTEST_POWER_S: f64 = 0.02;
/// Share of the time that a sensor of unknown class may observe if it does not observe all of the
/// time: the smallest share of the known classes.
const GUESSED_SHARE: f64 = 0.25;
/// Update period of RAPL's counters, in s (Intel, Software Developer's Manual, volume 3,
/// `MSR_RAPL_POWER_UNIT`).
const RAPL_UPDATE_S: f64 = 0.000_976;
/// Longest usual read interval, in measured periods, at which the measured period replaces the
/// period in the table of sensors.
const FREQUENT_READS: f64 = 0.5;
/// Tolerance of the search for the period of a sensor with a known class, as a share of the class's
/// period.
const CLASS_PERIOD_TOLERANCE: f64 = 0.05;
/// Architectures whose sensors read the voltage of a capacitor, which is charged at all times, so
/// that no time is hidden (see [`crate::sensor`]).
const SEES_ALL: [&str; 2] = ["Kepler", "Maxwell"];

/// Returns the possible models of the sensor behind a metric of power. The first model is used for
/// the estimate.
///
/// A sensor of a known class has one model. For an unknown class, the averaging window may be the
/// whole update period, the last second, or a part of the period.
pub(super) fn models(device: &Device, metric: Metric, series: &[(f64, f64)]) -> Vec<SensorModel> {
    let (known_s, mut windows_s) = match (device.sensor_class(metric), metric) {
        (Some(class), _) => {
            let (update_s, window_s) = class.update_and_window_s();
            (
                Some(update_s),
                vec![AveragingWindow::Of(window_s / update_s)],
            )
        }
        (None, Metric::PowerAverage) => (None, vec![AveragingWindow::Seconds(1.0)]),
        // `PowerDraw` is instant or average power, depending on architecture and driver, and the
        // window of an unknown sensor may be shorter than its period.
        (None, Metric::PowerDraw) => (
            None,
            vec![
                AveragingWindow::Of(1.0),
                AveragingWindow::Seconds(1.0),
                AveragingWindow::Guessed,
            ],
        ),
        (None, _) => (
            None,
            vec![AveragingWindow::Of(1.0), AveragingWindow::Guessed],
        ),
    };
    let architecture = device.architecture.as_deref().unwrap_or_default();
    if SEES_ALL
        .iter()
        .any(|name| name.eq_ignore_ascii_case(architecture))
    {
        windows_s.retain(|window| *window != AveragingWindow::Guessed);
    }
    // The period of a known class is only refined by the trace; an unknown period is searched for
    // in the whole range.
    let range_s = known_s.map_or(COUNTER_PERIODS_S, |known_s| {
        let off = CLASS_PERIOD_TOLERANCE * known_s;
        (known_s - off, known_s + off)
    });
    let measured = updates::period(series, range_s.0, range_s.1).filter(|found| {
        updates::read_interval_s(series, found.period_s) < FREQUENT_READS * found.period_s
    });
    let period_bounds = match (measured, known_s) {
        (Some(found), Some(known_s)) => {
            // If the measured period contradicts the table's, the measured period is used.
            let (found, known) = (found.period_bounds(), PeriodBounds::new(known_s, CLOCK));
            found.within(&known).unwrap_or(found)
        }
        (Some(found), None) => found.period_bounds(),
        (None, Some(known_s)) => PeriodBounds::new(known_s, CLOCK),
        (None, None) => PeriodBounds {
            period_s: SLOWEST_COUNTER_S,
            shortest_s: FASTEST_POWER_S * (1.0 - CLOCK),
            longest_s: SLOWEST_COUNTER_S * (1.0 + CLOCK),
        },
    };
    let model = |window| SensorModel {
        period_bounds,
        window_s: match window {
            AveragingWindow::Of(share) => share * period_bounds.period_s,
            AveragingWindow::Seconds(window_s) => window_s,
            AveragingWindow::Guessed => GUESSED_SHARE * period_bounds.period_s,
        },
        shift_s: period_bounds.period_s - period_bounds.shortest_s,
        is_guess: window == AveragingWindow::Guessed,
    };
    windows_s.into_iter().map(model).collect()
}

/// The length of the averaging window of a power sensor.
#[derive(Clone, Copy, Debug, PartialEq)]
enum AveragingWindow {
    /// Length in update periods. The window scales with the sensor's clock, so a window of one
    /// period covers all of the time at any clock error.
    Of(f64),
    /// Length in s.
    Seconds(f64),
    /// An assumed length: [`GUESSED_SHARE`] of the update period.
    Guessed,
}

/// Returns bounds on the update period of a counter, if the readings determine the period, and an
/// upper bound on the age of a reading, in s.
///
/// Each update changes the counter of a device that draws power, so there is no update during a run
/// of equal readings, and the change before a run and the change after it are at least one update
/// period apart:
/// ```text
/// reads     |    |    |    |    |    |
/// value     1    2    2    2    2    3
///                [---- run_s ---]
///           [------- around_s -------]
/// ```
/// `run_s` is the length of the longest run and `around_s` the shortest time from the last read
/// before a run to the first read after it. If the readings do not determine the period, the bound
/// on the age is the period of the slowest known counter. The bound is `around_s` instead if
/// several changes show that the counter is faster, or if a run shows that it is slower. The bound
/// is never shorter than `run_s`.
pub(super) fn counter_rhythm(
    device: &Device,
    series: &[(f64, f64)],
) -> (Option<PeriodBounds>, f64) {
    if device.kind == Kind::Rapl {
        return (None, RAPL_UPDATE_S);
    }
    let runs: Vec<(f64, f64)> = series
        .chunk_by(|a, b| a.1 == b.1)
        .map(|run| (run[0].0, run[run.len() - 1].0))
        .collect();
    let run_s = runs.iter().map(|run| run.1 - run.0).fold(0.0, f64::max);
    // The first and the last run are left out, because the series cuts them off.
    let around = runs.windows(3).map(|three| three[2].0 - three[0].1);
    let around_s = around.fold(f64::INFINITY, f64::min);
    let known_s = SLOWEST_COUNTER_S * (1.0 + CLOCK);
    let has_several = runs.len() > updates::MIN_CHANGES;
    let bound_s = if run_s > known_s && around_s.is_finite() || has_several && around_s < known_s {
        around_s.max(run_s)
    } else {
        known_s.max(run_s)
    };
    let (shortest_s, slowest_s) = COUNTER_PERIODS_S;
    let period_bounds =
        updates::period(series, shortest_s, slowest_s).map(|found| found.period_bounds());
    let bound_s = period_bounds.map_or(bound_s, |period_bounds| {
        bound_s.min(period_bounds.longest_s.max(run_s))
    });
    (period_bounds, bound_s)
}
