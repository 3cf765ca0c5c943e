//! Measurement of a power sensor: its update period and its averaging window.
//!
//! Role: measures sensors that are not in the table, and checks the table's entries.
//! Method: the update period is the period whose grid the times of changes fit best (see
//! `updates.rs`), refined by least squares. The window is fitted to a load of known shape. At each
//! update `u`, the reading must be `offset + gain · m`, where `m` is the mean of the load from `u −
//! delay − window` to `u − delay`. Offset and gain follow from linear least squares. Window and
//! delay are searched for, first on a wide grid and then with steps that are halved. A load that
//! steps at many phases of the updates (a square wave whose period is no multiple of the update
//! period) also shows windows that are shorter than the time between updates. A single step shows
//! only windows longer than that time.
//! Limits: a load that repeats through the whole trace cannot distinguish windows that differ by
//! its period, so the load should begin or end within the trace. Reads that are in step with the
//! updates leave an uncertainty of one read interval. With reads at least six times as frequent as
//! updates, the window is found within 5 % (tested). The window is only as accurate as the
//! timestamps of the load. If the device's power drifts while the load is constant (a cold card, a
//! first kernel), the residuals grow, and with them the uncertainty.

use crate::power_profile::{PowerProfile, PowerSegment};
use crate::updates::{self, Update};
use crate::{Metric, Trace};

/// The measured properties of a sensor; all times in s, with their uncertainties.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probe {
    /// Time between two updates.
    pub update_s: f64,
    /// Uncertainty of `update_s`.
    pub update_uncertainty_s: f64,
    /// The averaging window; `None` without a load, if a piece of the load has no finite duration
    /// above 0, if the load has more than 2^20 pieces with all repetitions, or if the window cannot
    /// be determined.
    pub window: Option<MeasuredWindow>,
}

/// A measured averaging window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredWindow {
    /// Length of the window.
    pub window_s: f64,
    /// Shortest and longest window that explains the readings about as well as `window_s` does.
    pub range_s: (f64, f64),
    /// Time from the end of the window to the update that reports it, in s, plus the delay from the
    /// load's timestamps to the power.
    pub delay_s: f64,
    /// Share of the readings' variance that the load explains, at most 1.
    pub r_squared: f64,
}

/// A quantity that was measured, in s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// The value.
    pub value_s: f64,
    /// Uncertainty of `value_s`.
    pub uncertainty_s: f64,
}

/// Largest lower quartile of the changes between reads, as a share of the range of readings, at
/// which the changes count as sensor noise. A larger quartile comes from the load. With normal
/// noise alone, the quartile is at most a tenth of the range after a hundred updates.
const NOISE_SHARE: f64 = 0.15;
/// Smallest number of distinct readings of a noisy sensor. Fewer distinct readings count as the
/// levels of a load.
const MIN_LEVELS: usize = 20;
/// Shortest and longest time between updates that is searched for, in s.
const PERIODS_S: (f64, f64) = (0.004, 2.0);
/// Longest window that is searched for, in s.
const MAX_WINDOW_S: f64 = 2.5;
/// Longest delay that is searched for, in s. The shortest is below 0 by the error bound of the
/// update times.
const MAX_DELAY_S: f64 = 0.2;
/// Number of window lengths in the first search.
const N_WINDOWS: u32 = 60;
/// Number of delays in the first search.
const N_DELAYS: u32 = 12;
/// Number of times that the step of the search is halved.
const N_HALVINGS: u32 = 14;
/// Smallest number of updates that a window is fitted to.
const MIN_UPDATES: usize = 12;
/// Largest number of pieces of a load, with all repetitions: a quarter of an hour of a load whose
/// pieces last 1 ms has fewer.
const MAX_PIECES: usize = 1 << 20;

/// Measures a sensor from its readings, (s, W), and from the load that ran. The load may have any
/// unit; its times are on the clock of the readings.
///
/// Returns `None` if the readings do not show the update period: if reads are less frequent than
/// updates, if power is constant, or if there are fewer than eight changes. Reads need not be
/// regular, and their interval need not divide the period.
///
/// # Examples
/// ```
/// use telemetry::probe::probe;
/// use telemetry::{PowerProfile, PowerSegment};
///
/// // A load of 5 s of idle time, then 30 periods of 0.33 s with changing power.
/// let mut load = PowerProfile { pieces: vec![PowerSegment::level(5.0, 50.0)], repeats: false };
/// for _ in 0..30 {
///     load.pieces.extend([PowerSegment::level(0.13, 200.0), PowerSegment::level(0.2, 60.0)]);
/// }
/// // A sensor that is updated every 0.1 s to the mean of the last 0.05 s, read every 5 ms.
/// let read = |i: u32| {
///     let time_s = 0.005 * f64::from(i);
///     let update_s = 0.1 * (time_s / 0.1).floor();
///     (time_s, load.mean_w(update_s, 0.05))
/// };
/// let readings: Vec<(f64, f64)> = (0..3000).map(read).collect();
/// let found = probe(&readings, Some(&load)).expect("the readings show the updates");
/// assert!((found.update_s - 0.1).abs() < 0.001);
/// let window = found.window.expect("the load shows the window");
/// assert!((window.window_s - 0.05).abs() < 0.0025);
/// ```
#[must_use]
pub fn probe(series: &[(f64, f64)], load: Option<&PowerProfile>) -> Option<Probe> {
    let found = updates::period(series, PERIODS_S.0, PERIODS_S.1)?;
    Some(Probe {
        update_s: found.period_s,
        update_uncertainty_s: found.uncertainty_s,
        window: load.and_then(|load| {
            let mut updates = updates::on_grid(series, found.period_s);
            // Updates whose longest possible window begins before time zero, the start of the load,
            // are left out.
            updates.retain(|update| update.time_s - MAX_WINDOW_S > 0.0);
            window(&updates, load, found.period_s)
        }),
    })
}

/// Measures the time between two updates of a metric in a trace, without knowledge of the load.
///
/// Returns `None` in the cases of [`probe()`], if the readings repeat a few values, or if less than
/// a quarter of the changes are small compared with the range of the readings. The noise of a real
/// sensor changes nearly every reading a little. Readings without noise change only with the load,
/// whose period could be mistaken for the update period.
#[must_use]
pub fn update_period(trace: &Trace, device: usize, metric: Metric) -> Option<Measured> {
    let mut series = trace.series(device, metric);
    series.retain(|reading| reading.1.is_finite());
    series.dedup_by(|next, last| next.0 <= last.0);
    let mut levels: Vec<f64> = series.iter().map(|reading| reading.1).collect();
    levels.sort_by(f64::total_cmp);
    levels.dedup();
    let range = levels.last()? - levels.first()?;
    let mut steps: Vec<f64> = series
        .windows(2)
        .map(|pair| (pair[1].1 - pair[0].1).abs())
        .filter(|&step| step > 0.0)
        .collect();
    steps.sort_by(f64::total_cmp);
    let is_noisy = *steps.get(steps.len() / 4)? <= NOISE_SHARE * range;
    if !is_noisy || levels.len() < MIN_LEVELS {
        return None;
    }
    let found = updates::period(&series, PERIODS_S.0, PERIODS_S.1)?;
    Some(Measured {
        value_s: found.period_s,
        uncertainty_s: found.uncertainty_s,
    })
}

fn window(updates: &[Update], load: &PowerProfile, period_s: f64) -> Option<MeasuredWindow> {
    if updates.len() < MIN_UPDATES {
        return None;
    }
    let load = &Integral::new(load, updates[updates.len() - 1].time_s)?;
    let misfit = |window_s, delay_s| residual(updates, load, window_s, delay_s);
    let total = misfit(0.0, f64::INFINITY);
    let shrink = (0.002 / MAX_WINDOW_S).powf(1.0 / f64::from(N_WINDOWS));
    let (mut best, mut at) = (f64::INFINITY, (0.0, 0.0));
    let slack_s = updates::median(updates.iter().map(|u| u.slack_s).collect())?;
    let slack_s = slack_s.max(updates::JITTER * period_s);
    let delay_step_s = (MAX_DELAY_S + slack_s) / f64::from(N_DELAYS);
    for i in 0..=N_WINDOWS {
        let window_s = MAX_WINDOW_S * shrink.powf(f64::from(i));
        for j in 0..=N_DELAYS {
            let delay_s = delay_step_s.mul_add(f64::from(j), -slack_s);
            let sum = misfit(window_s, delay_s);
            if sum < best {
                (best, at) = (sum, (window_s, delay_s));
            }
        }
    }
    if best >= total {
        return None;
    }
    let mut steps = (0.15 * at.0, delay_step_s);
    for _ in 0..N_HALVINGS {
        for _ in 0..8 {
            let (window_s, delay_s) = at;
            for (towards_w, towards_d) in [
                (1, 0),
                (-1, 0),
                (0, 1),
                (0, -1),
                (1, -1),
                (-1, 1),
                (1, 1),
                (-1, -1),
            ] {
                let next = (
                    (window_s + f64::from(towards_w) * steps.0).max(1e-4),
                    (delay_s + f64::from(towards_d) * steps.1).max(-slack_s),
                );
                let sum = misfit(next.0, next.1);
                if sum < best {
                    (best, at) = (sum, next);
                }
            }
            if at == (window_s, delay_s) {
                break;
            }
        }
        steps = (0.5 * steps.0, 0.5 * steps.1);
    }
    // Two standard deviations of the fit are a factor of 4 in variance. The factor is doubled
    // because residuals depend on each other and the times of updates have errors.
    #[expect(clippy::cast_precision_loss, reason = "a count of updates")]
    let allowed = best * (1.0 + 8.0 / (updates.len() - 4) as f64) + 1e-9 * total;
    let edge = |direction: f64| {
        let mut reach_s = 0.0;
        let mut step_s = 0.5 * at.0;
        while step_s > 1e-4 * at.0 {
            let window_s = at.0 + direction * (reach_s + step_s);
            if window_s > 0.0 && window_s < 2.0 * MAX_WINDOW_S && misfit(window_s, at.1) <= allowed
            {
                reach_s += step_s;
            } else {
                step_s *= 0.5;
            }
        }
        at.0 + direction * (reach_s + slack_s)
    };
    Some(MeasuredWindow {
        window_s: at.0,
        range_s: (edge(-1.0), edge(1.0)),
        delay_s: at.1,
        r_squared: 1.0 - best / total,
    })
}

/// Returns the residual sum of squares for the best offset and gain. For an infinite delay, it is
/// the sum of squares of the readings around their mean.
fn residual(updates: &[Update], load: &Integral, window_s: f64, delay_s: f64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a count of updates")]
    let n = updates.len() as f64;
    let loads = |update: &Update| {
        if delay_s.is_finite() {
            load.mean_w(update.time_s - delay_s, window_s)
        } else {
            0.0
        }
    };
    let (mut x, mut y, mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    let origin = updates[0].value;
    for update in updates {
        let (a, b) = (loads(update), update.value - origin);
        x += a;
        y += b;
        xx += a * a;
        xy += a * b;
        yy += b * b;
    }
    let (xx, xy, yy) = (xx - x * x / n, xy - x * y / n, yy - y * y / n);
    // For a repeating load, the mean over a window falls where the mean over the rest of the period
    // rises. A negative gain would fit the rest of the period instead of the window, so only a
    // positive gain is accepted.
    if xx > 0.0 && xy > 0.0 {
        yy - xy * xy / xx
    } else {
        yy
    }
}

/// The energy of a power profile since time zero, with lookups in logarithmic time.
struct Integral {
    /// For each piece: its start, in s, the energy before its start, and the piece itself.
    pieces: Vec<(f64, f64, PowerSegment)>,
}

impl Integral {
    /// Returns the integral up to a time; `None` if a piece has no finite duration above 0, or for
    /// more than [`MAX_PIECES`].
    fn new(load: &PowerProfile, until_s: f64) -> Option<Self> {
        let is_valid = |piece: &PowerSegment| piece.lasts_s > 0.0 && piece.lasts_s.is_finite();
        if !load.pieces.iter().all(is_valid) {
            return None;
        }
        let (mut pieces, mut time_s, mut energy) = (vec![], 0.0, 0.0);
        let mut add = |piece: PowerSegment| {
            pieces.push((time_s, energy, piece));
            time_s += piece.lasts_s;
            energy += 0.5 * (piece.from_w + piece.to_w) * piece.lasts_s;
            time_s
        };
        let mut end_s = 0.0;
        for round in 1.. {
            if load.pieces.len().saturating_mul(round) > MAX_PIECES {
                return None;
            }
            for piece in &load.pieces {
                end_s = add(*piece);
            }
            let is_unfinished = load.repeats && end_s > 0.0 && end_s <= until_s;
            if !is_unfinished {
                break;
            }
        }
        let last_w = load.pieces.last().map_or(0.0, |last| last.to_w);
        add(PowerSegment::level(f64::INFINITY, last_w));
        Some(Self { pieces })
    }

    fn mean_w(&self, end_s: f64, window_s: f64) -> f64 {
        (self.until(end_s) - self.until(end_s - window_s)) / window_s
    }

    fn until(&self, time_s: f64) -> f64 {
        let next = self.pieces.partition_point(|piece| piece.0 <= time_s);
        let (start_s, energy, piece) = self.pieces[next.saturating_sub(1)];
        let left_s = time_s - start_s;
        let slope = (piece.to_w - piece.from_w) / piece.lasts_s;
        energy + left_s * (piece.from_w + 0.5 * slope * left_s.max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::Sensor;
    use crate::{Row, SensorClass, Values, testdata};
    use std::time::Duration;

    /// Reads a sensor, in whole mW as NVML does.
    fn read(
        sensor: &Sensor,
        profile: &PowerProfile,
        every_s: f64,
        until_s: f64,
    ) -> Vec<(f64, f64)> {
        let mut series = testdata::read(sensor, profile, every_s, until_s);
        for (_, watts) in &mut series {
            *watts = (*watts * 1000.0).round() / 1000.0;
        }
        series
    }

    #[test]
    fn all_classes_are_found_from_a_square_load() {
        let mut pieces = vec![PowerSegment::level(5.0, 60.0)];
        for i in 0..120 {
            let lasts_s = 0.2 + 0.17 * (f64::from(i) * 0.618).fract();
            pieces.push(PowerSegment::level(
                lasts_s,
                if i % 2 == 0 { 260.0 } else { 60.0 },
            ));
        }
        let load = PowerProfile {
            pieces,
            repeats: false,
        };
        for class in SensorClass::ALL {
            let (update_s, window_s) = class.update_and_window_s();
            // The read interval limits the accuracy of the window, so a window of 10 ms needs more
            // frequent reads.
            let factor = if class == SensorClass::Fast { 0.3 } else { 1.0 };
            for (every_s, phase_s) in [(0.005, 0.0), (0.0073, 0.0133), (0.011, 0.0719)] {
                let every_s = every_s * factor;
                let sensor = Sensor {
                    phase_s,
                    gain: 0.95,
                    ..Sensor::for_class(class)
                };
                let series = read(&sensor, &load, every_s, 40.0);
                let found = probe(&series, Some(&load)).unwrap();
                let window = found.window.unwrap();
                let off = (found.update_s / update_s - 1.0).abs();
                assert!(off < 0.05, "{class:?} {every_s}: {found:?}");
                assert!(
                    (found.update_s - update_s).abs() <= found.update_uncertainty_s,
                    "{found:?}"
                );
                let off = (window.window_s / window_s - 1.0).abs();
                assert!(off < 0.05, "{class:?} {every_s} {phase_s}: {window:?}");
                let (low_s, high_s) = window.range_s;
                assert!((low_s..=high_s).contains(&window_s), "{class:?} {window:?}");
            }
        }
    }

    #[test]
    fn a_window_is_not_taken_for_the_rest_of_the_loads_period() {
        // If the load repeats through the whole trace, its mean over a window falls where its mean
        // over the rest of the period rises.
        let load = PowerProfile::square(60.0, 260.0, 0.5731, 0.5);
        let series = read(
            &Sensor::for_class(SensorClass::FullTime),
            &load,
            0.0073,
            30.0,
        );
        let window = probe(&series, Some(&load)).unwrap().window.unwrap();
        assert!((window.window_s / 0.1 - 1.0).abs() < 0.05, "{window:?}");
    }

    #[test]
    fn a_load_with_odd_durations_has_no_window_and_the_search_ends() {
        let load = PowerProfile::square(60.0, 260.0, 0.5731, 0.5);
        let sensor = Sensor::for_class(SensorClass::FullTime);
        let series = read(&sensor, &load, 0.0073, 30.0);
        for lasts_s in [f64::NAN, 0.0, -1.0, f64::INFINITY, 1e-300, 1e-7] {
            for repeats in [true, false] {
                let mut odd = load.clone();
                odd.pieces[0].lasts_s = lasts_s;
                odd.pieces.truncate(1);
                odd.repeats = repeats;
                let window = probe(&series, Some(&odd)).unwrap().window;
                // A short piece that does not repeat is valid.
                let is_valid = lasts_s > 0.0 && lasts_s.is_finite() && !repeats;
                assert!(is_valid || window.is_none(), "{lasts_s} {repeats}");
            }
        }
    }

    #[test]
    fn real_sensors_keep_to_their_periods() {
        for (name, column, expected_s) in [
            ("v100-update-rate", 1, 0.02),
            ("rtx3090-step", 1, 0.1),
            ("rtx3090-step", 2, 0.1),
            ("rtx3090-square-104ms", 1, 0.1),
            ("rtx3090-square-104ms", 2, 0.1),
        ] {
            let series = testdata::sensor(name, column);
            let found = probe(&series, None).unwrap();
            let off = (found.update_s / expected_s - 1.0).abs();
            eprintln!("{name} {column}: {found:?}");
            assert!(off < 0.02, "{name} {column}: {found:?}");
        }
    }

    #[test]
    fn windows_of_a_real_sensor_are_those_of_its_classes() {
        // The "last second" of this card is a little longer than 1 s.
        for (name, column, expected_s) in [
            ("rtx3090-square-104ms", 2, 0.1),
            ("rtx3090-step", 1, 1.06),
            ("rtx3090-square-104ms", 1, 1.06),
        ] {
            let load = testdata::meter_profile(name);
            let found = probe(&testdata::sensor(name, column), Some(&load)).unwrap();
            let window = found.window.unwrap();
            eprintln!("{name} {column}: {window:?}");
            assert!(
                (window.window_s / expected_s - 1.0).abs() < 0.05,
                "{name} {column}: {window:?}"
            );
        }
    }

    fn trace_of(series: &[(f64, f64)]) -> Trace {
        let mut trace = Trace::default();
        for &(time_s, watts) in series {
            let mut values = Values::none();
            values.set(Metric::PowerDraw, watts);
            trace.rows.push(Row {
                device: 0,
                time: Duration::from_secs_f64(time_s),
                values,
            });
        }
        trace
    }

    #[test]
    fn real_traces_tell_their_period_or_nothing_at_any_rate_of_reads() {
        // No source states the K40m's period; its only trace shows 15.4 ms.
        for (name, column, period_s, slowest) in [
            ("v100-update-rate", 1, 0.02, 1),
            ("rtx3090-step", 1, 0.1, 10),
            ("rtx3090-step", 2, 0.1, 10),
            ("rtx3090-square-104ms", 1, 0.1, 10),
            ("rtx3090-square-104ms", 2, 0.1, 10),
            ("k40m-step", 1, 0.0154, 1),
        ] {
            let series = testdata::sensor(name, column);
            for every in [1, 2, 3, 5, 8, 10, 15, 30] {
                let thinned: Vec<_> = series.iter().copied().step_by(every).collect();
                let found = update_period(&trace_of(&thinned), 0, Metric::PowerDraw);
                eprintln!("{name} {column}, one read of {every}: {found:?}");
                assert_eq!(found.is_some(), every <= slowest, "{name} {every}");
                let is_off = |f: Measured| (f.value_s - period_s).abs() > f.uncertainty_s;
                assert!(!found.is_some_and(is_off), "{name} {every} {found:?}");
            }
        }
    }

    #[test]
    fn a_model_of_any_class_under_any_load_has_its_period_or_none() {
        let (mut random, mut n_estimates) = (testdata::Random(4), 0);
        let loads = [
            PowerProfile::constant(100.0),
            PowerProfile::square(50.0, 250.0, 0.73, 0.6),
            PowerProfile::square(50.0, 250.0, 2.0, 0.5),
            PowerProfile::square(50.0, 250.0, 0.4, 0.5),
            PowerProfile::square(50.0, 250.0, 0.104, 0.5),
        ];
        for class in SensorClass::ALL {
            let update_s = class.update_and_window_s().0;
            for (noise_w, load) in [0.0, 0.5]
                .into_iter()
                .flat_map(|w| loads.iter().map(move |l| (w, l)))
            {
                // Times between reads, as shares of the time between updates. Reads slower than 0.6
                // updates may not show the period.
                for share in [0.08, 0.2, 0.31, 0.45, 0.6, 0.8, 0.97, 1.0, 1.7, 3.1] {
                    let sensor = Sensor {
                        phase_s: random.uniform(),
                        ..Sensor::for_class(class)
                    };
                    let mut series =
                        read_noisy(&sensor, load, share * update_s, noise_w, &mut random);
                    series.truncate(4000);
                    let found = update_period(&trace_of(&series), 0, Metric::PowerDraw);
                    let what = format!("{class:?} {noise_w} W {load:?} {share}: {found:?}");
                    let is_off = |f: Measured| (f.value_s - update_s).abs() > f.uncertainty_s;
                    assert!(!found.is_some_and(is_off), "{what}");
                    if noise_w > 0.0 && share <= 0.6 {
                        n_estimates += i32::from(found.is_some());
                        if found.is_none() {
                            eprintln!("{what}");
                        }
                    }
                }
            }
        }
        // At least 90 of 100 noisy series must have an estimate. A load in step with the updates
        // hides the noise at some phases.
        assert!(n_estimates >= 90, "{n_estimates}");
    }

    fn read_noisy(
        sensor: &Sensor,
        load: &PowerProfile,
        every_s: f64,
        noise_w: f64,
        random: &mut testdata::Random,
    ) -> Vec<(f64, f64)> {
        let (mut series, mut time_s) = (vec![], 0.0);
        let (mut last_s, mut noise) = (f64::NAN, 0.0);
        while time_s < 30.0 {
            let updated_s = sensor.updated_s(time_s);
            if updated_s != last_s {
                (last_s, noise) = (updated_s, noise_w * random.normal());
            }
            let reported_w = sensor.reported_w(load, time_s) + noise;
            series.push((time_s, (reported_w * 1000.0).round() / 1000.0));
            time_s += every_s;
        }
        series
    }

    #[test]
    fn reads_that_are_too_slow_tell_nothing() {
        let load = PowerProfile::square(60.0, 260.0, 0.5731, 0.5);
        let series = read(&Sensor::for_class(SensorClass::Fast), &load, 0.1, 30.0);
        let found = probe(&series, None);
        assert!(found.is_none_or(|p| p.update_s > 0.09), "{found:?}");
    }
}
