//! The lag of utilisation behind power.
//!
//! Role: a driver averages utilisation over its update interval and holds the mean for as long, so
//! a reading describes the time of one interval earlier: 1/6 s on many boards, 1 s on an A100. A
//! cut by utilisation without that correction counts the power of the next busy time as idle.
//! Method: the lag at which utilisation and power correlate best. Power is read from cells whose
//! times are those of the device, so the lag of utilisation alone remains.
//! Limits: none is found where either is constant, or where the correlation is weak.

use super::cut::{LONGEST_WINDOW_S, TimedReading, joules};
use super::estimate::Estimate;

/// Steps between two lags that are tried, in s.
const STEP_S: f64 = 0.02;
/// Number of lags that are tried: up to the longest window and a read interval more.
const N_LAGS: u32 = 61;
/// Least correlation for which a lag is believed.
const MIN_CORRELATION: f64 = 0.7;
/// The smallest lag wins whose correlation is at least this share of the best: power that repeats
/// correlates again a period later.
const AS_GOOD: f64 = 0.98;
/// Half of the time, in s, over which power is averaged, on both sides alike, so that the lag does
/// not change: single steps of a counter that is read at the moment of its update are wrong.
const HALF_WINDOW_S: f64 = 0.15;
/// Readings that are used at most; more only cost time.
const MAX_READINGS: usize = 4096;
/// Tolerance of a lag that was found, as a share of it.
const TOLERANCE: f64 = 0.25;

/// Estimates the lag, in s, of readings of utilisation, in %, behind steps of power, in W. Without
/// a correlation the value is 0 and the range that of all boards.
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

/// Returns whether an estimate is a lag that was found.
pub(super) fn is_found(lag_s: &Estimate) -> bool {
    lag_s.value > 0.0
}

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
    // The middle of the peak that begins there.
    let peak = found[first..].iter();
    let peak = peak.take_while(|found| found.1 >= AS_GOOD * best);
    let top = peak.clone().map(|found| found.1).fold(0.0, f64::max);
    let width = peak.filter(|found| found.1 >= (1.0 - 0.1 * (1.0 - AS_GOOD)) * top);
    let (sum_s, n) = width.fold((0.0, 0.0), |(sum_s, n), found| (sum_s + found.0, n + 1.0));
    Some(sum_s / n).filter(|&lag_s| lag_s > 0.0)
}

/// Returns Pearson's correlation of readings with the power around an earlier time; none where one
/// of them is constant.
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
