//! The lag of utilisation behind power.
//!
//! Role: a driver averages utilisation over its update interval and reports the mean during the
//! next interval. A reading therefore describes the device one interval earlier: 1/6 s on many
//! boards, 1 s on an A100. Without this correction, a cut by utilisation counts power of the next
//! busy time as idle.
//! Method: the lag with the highest correlation of utilisation and power. Power comes from cells
//! with the device's times, so the result is the lag of utilisation alone.
//! Limits: no lag is found if either quantity is constant or if the correlation is weak.

use super::cut::{LONGEST_WINDOW_S, TimedReading, joules};
use super::estimate::Estimate;

/// Steps between two lags that are tried, in s.
const STEP_S: f64 = 0.02;
/// Number of lags that are tried: up to the longest window and a read interval more.
const N_LAGS: u32 = 61;
/// Minimum correlation of a valid lag.
const MIN_CORRELATION: f64 = 0.7;
/// The smallest lag is chosen whose correlation is at least this share of the highest one, because
/// power that repeats correlates again one period later.
const AS_GOOD: f64 = 0.98;
/// Power is averaged over this time, in s, before and after each reading, because single steps of a
/// counter that is read at the moment of its update are wrong. A symmetric average does not change
/// the lag.
const HALF_WINDOW_S: f64 = 0.15;
/// Maximum number of readings used; more would only take longer.
const MAX_READINGS: usize = 4096;
/// Tolerance of a lag, as a share of the lag.
const TOLERANCE: f64 = 0.25;

/// Estimates the lag, in s, of readings of utilisation, in %, behind steps of power, in W. If there
/// is no correlation, the value is 0 and the range covers the lags of all boards.
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

/// Returns whether [`of_utilisation`] found a lag.
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
    // The top of a peak is flat, so the middle of the peak is more accurate than its maximum.
    let peak = found[first..].iter();
    let peak = peak.take_while(|found| found.1 >= AS_GOOD * best);
    let top = peak.clone().map(|found| found.1).fold(0.0, f64::max);
    let width = peak.filter(|found| found.1 >= (1.0 - 0.1 * (1.0 - AS_GOOD)) * top);
    let (sum_s, n) = width.fold((0.0, 0.0), |(sum_s, n), found| (sum_s + found.0, n + 1.0));
    Some(sum_s / n).filter(|&lag_s| lag_s > 0.0)
}

/// Returns Pearson's correlation of readings with power `lag_s` earlier; `None` if one of them is
/// constant.
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
