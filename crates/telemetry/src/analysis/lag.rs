//! The lag of utilisation behind power.
//!
//! Role: a driver averages utilisation over its update interval and holds the mean for as long, so
//! a reading describes the time one interval earlier: 1/6 s on many boards, 1 s on an A100. Without
//! a correction, a cut by utilisation counts the power of the next busy time as idle.
//! Method: the lag at which utilisation and power correlate best. The times of the cells of power
//! are already corrected to those of the device, so only the lag of utilisation remains.
//! Limits: no lag is found if utilisation or power is constant, or if the correlation is weak.

use super::cut::{LONGEST_WINDOW_S, TimedReading, joules};
use super::estimate::Estimate;

/// Difference between two consecutive lags that are tried, in s.
const STEP_S: f64 = 0.02;
/// Number of lags that are tried, from 0 s to 1.2 s: the longest averaging window, 1.1 s, plus a
/// read interval.
const N_LAGS: u32 = 61;
/// Least correlation for which a lag is accepted.
const MIN_CORRELATION: f64 = 0.7;
/// Share of the best correlation that a lag must reach. The smallest lag that reaches this share is
/// chosen, because periodic power correlates again a period later.
const AS_GOOD: f64 = 0.98;
/// Half of the window, in s, over which power is averaged. The mean is used because single steps of
/// a counter that is read at the moment of its update are wrong. The window is symmetric, so that
/// it does not change the lag.
const HALF_WINDOW_S: f64 = 0.15;
/// Largest number of readings that are used, to limit the cost.
const MAX_READINGS: usize = 4096;
/// Relative tolerance of a lag.
const TOLERANCE: f64 = 0.25;

/// Estimates the lag, in s, of readings of utilisation, in %, behind steps of power, in W.
///
/// Without a correlation the value is 0, and the range is that of all boards, 0 to 1.1 s.
/// `usual_s` is the time between two reads, in s, half of which widens the range.
pub(super) fn of_utilisation(
    readings: &[TimedReading],
    power: &[TimedReading],
    usual_s: f64,
) -> Estimate {
    match strongest(readings, power) {
        Some(lag_s) => Estimate {
            value: lag_s,
            low: ((1.0 - TOLERANCE) * lag_s - 0.5 * usual_s).max(0.0),
            high: (1.0 + TOLERANCE) * lag_s + 0.5 * usual_s,
        },
        None => Estimate {
            value: 0.0,
            low: 0.0,
            high: LONGEST_WINDOW_S,
        },
    }
}

/// Returns whether a lag was found: the value is 0 otherwise.
pub(super) fn is_found(lag_s: &Estimate) -> bool {
    lag_s.value > 0.0
}

/// Returns the lag of the strongest correlation, in s; none if the correlation is weak or the lag
/// 0.
fn strongest(readings: &[TimedReading], power: &[TimedReading]) -> Option<f64> {
    let readings = &readings[..readings.len().min(MAX_READINGS)];
    let lags_s = (0..N_LAGS).map(|step| f64::from(step) * STEP_S);
    let found: Vec<(f64, f64)> = lags_s
        .filter_map(|lag_s| Some((lag_s, correlation(readings, power, lag_s)?)))
        .collect();
    let best = found.iter().map(|found| found.1).fold(0.0, f64::max);
    if best < MIN_CORRELATION {
        return None;
    }
    let first = found.iter().position(|found| found.1 >= AS_GOOD * best)?;
    // The peak is flat, because readings hold for an interval, so its middle is the lag. The top of
    // the first peak may be lower than the best correlation.
    let peak = found[first..].iter();
    let peak = peak.take_while(|found| found.1 >= AS_GOOD * best);
    let top = peak.clone().map(|found| found.1).fold(0.0, f64::max);
    let width = peak.filter(|found| found.1 >= (1.0 - 0.1 * (1.0 - AS_GOOD)) * top);
    let (sum_s, n) = width.fold((0.0, 0.0), |(sum_s, n), found| (sum_s + found.0, n + 1.0));
    Some(sum_s / n).filter(|&lag_s| lag_s > 0.0)
}

/// Returns Pearson's correlation of readings with the mean power around a time `lag_s` earlier;
/// none if readings or power are constant.
fn correlation(readings: &[TimedReading], power: &[TimedReading], lag_s: f64) -> Option<f64> {
    let (first, last) = (power.first()?, power.last()?);
    let mut n = 0.0;
    let (mut x, mut y, mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for reading in readings {
        let time_s = 0.5 * (reading.from_s + reading.to_s) - lag_s;
        let (from_s, to_s) = (time_s - HALF_WINDOW_S, time_s + HALF_WINDOW_S);
        if from_s < first.from_s || to_s > last.to_s {
            continue;
        }
        // An energy serves as the mean power: the window is the same for all readings.
        let (pct, watts) = (reading.value, joules(power, from_s, to_s));
        n += 1.0;
        (x, y) = (x + pct, y + watts);
        (xx, yy, xy) = (xx + pct * pct, yy + watts * watts, xy + pct * watts);
    }
    let variances = (n * xx - x * x, n * yy - y * y);
    let is_constant = |variance: f64, squares: f64| variance <= 1e-9 * n * squares;
    if n < 2.0 || is_constant(variances.0, xx) || is_constant(variances.1, yy) {
        return None;
    }
    Some((n * xy - x * y) / (variances.0 * variances.1).sqrt())
}
