//! The cut of time by power, where power has two levels.
//!
//! Method: a step between two levels is a mixture of both, and `(high - w) / (high - low)` is the
//! idle share of its time. For power of exactly two levels the sum of idle time is exact, wherever
//! the edges are within a step. A step that resembles a neighbour and is close to a level is no
//! mixture, and counts as idle or busy as a whole. The range counts each mixture once as busy and
//! once as idle.
//! Limits: a low level that is not certain may be as low as 0 W, and a high level as high as the
//! most power that the device can draw.

use super::{Cut, Estimate, Levels, Readings, TimedReading};

/// Power of a window, in steps that cover all of the window.
#[derive(Clone, Debug, Default)]
pub(in crate::analysis) struct Power {
    pub steps: Vec<TimedReading>,
    /// Sum of the bounds on the errors of the step edges at both ends of the window, in s.
    pub slack_s: f64,
    /// Whether the steps are differences of a counter: an error of an edge then changes the power
    /// of a step, but not its energy.
    pub is_counted: bool,
    /// Bound on the error of the sensor's update period, as a share of the period.
    pub period_error: f64,
    /// The highest power that the device can draw, in W.
    pub most_w: f64,
}

/// Cuts the time of steps of power into busy and idle parts by the two levels that `readings` show.
/// Returns none if power does not have two levels.
pub(in crate::analysis) fn by_power(
    steps: &[TimedReading],
    power: &Power,
    readings: &Readings,
) -> Option<Cut> {
    let levels = Levels::find(readings, steps)?;
    let steps = &levels.repaired(steps);
    let mut cut = Cut {
        has_third_level: levels.has_third,
        ..Cut::default()
    };
    let mut shares = vec![];
    for (i, step) in steps.iter().enumerate() {
        let before = i.checked_sub(1).map(|i| steps[i]);
        let before = before.filter(|before| before.to_s >= step.from_s);
        let after = steps.get(i + 1).filter(|after| after.from_s <= step.to_s);
        let neighbours = [before.map(|b| b.value), after.map(|a| a.value)];
        // A step between a high and a low neighbour has its busy part on the side of the high one.
        let share = levels.idle_share(step, neighbours);
        let falls = neighbours[0].unwrap_or(step.value) > neighbours[1].unwrap_or(step.value);
        add(&mut cut, step, share, &levels, !falls);
        shares.push(share.value);
    }
    widen_by_levels(&mut cut, steps, &levels, power.most_w);
    widen_by_times(&mut cut, steps, &shares, power, &levels);
    let time_s: f64 = steps.iter().map(TimedReading::length_s).sum();
    let energy_j = energy_j(steps, TimedReading::length_s);
    cut.idle_s = cut.idle_s.within(time_s);
    cut.idle_j = cut.idle_j.within(energy_j.max(cut.idle_j.value));
    Some(cut)
}

/// Adds the time and the energy of a step to a cut.
fn add(cut: &mut Cut, step: &TimedReading, share: Estimate, levels: &Levels, is_idle_first: bool) {
    let watts = step.value.max(0.0);
    // The idle part of a mixture draws the low level.
    let of_mixture_w = watts.min(levels.low_w);
    let is_whole = share.value >= 1.0;
    let idle_w = if is_whole { watts } else { of_mixture_w };
    let is_low = watts < 0.5 * (levels.low_w + levels.high_w);
    let most_idle_w = if is_low { watts } else { of_mixture_w };
    // The power of hidden time is only an estimate, so it may be as high as the low level.
    let hidden_w = most_idle_w.max(levels.low_w);
    let hidden = step.hidden_share();
    let seen_high = (share.high - hidden).max(0.0);
    let time_s = step.length_s();
    cut.idle_s.add(share.scaled(time_s));
    let idle_j = Estimate {
        value: share.value * idle_w,
        low: share.low * of_mixture_w,
        high: (seen_high * most_idle_w + (share.high - seen_high) * hidden_w)
            .max(share.value * idle_w),
    };
    cut.idle_j.add(idle_j.scaled(time_s));
    let energies_j = (
        share.value * idle_w * time_s,
        (step.value - share.value * idle_w) * time_s,
    );
    cut.split(step, share.value, is_idle_first, energies_j);
}

/// Widens the ranges of a cut for levels that are not certain.
///
/// The idle time of two levels is `(high · T − E) / (high − low)`, where T and E are the time and
/// the energy that are not hidden. The range covers this value for the extreme possible levels.
fn widen_by_levels(cut: &mut Cut, steps: &[TimedReading], levels: &Levels, most_w: f64) {
    let seen_s: f64 = steps.iter().map(TimedReading::seen_s).sum();
    let hidden_s: f64 = steps.iter().map(|step| step.hidden_s).sum();
    let seen_j = energy_j(steps, TimedReading::seen_s);
    let idle_s = |low_w: f64, high_w: f64| (high_w * seen_s - seen_j) / (high_w - low_w);
    let (low_w, high_w) = (levels.low_w, levels.high_w);
    if !levels.is_low_certain {
        cut.idle_s.low = cut.idle_s.low.min(idle_s(0.0, high_w));
        cut.idle_j.low = 0.0;
    }
    if !levels.is_high_certain {
        let most_s = idle_s(low_w, most_w.max(high_w)) + hidden_s;
        cut.idle_s.high = cut.idle_s.high.max(most_s);
        let most_j = low_w * cut.idle_s.high.min(seen_s + hidden_s);
        cut.idle_j.high = cut.idle_j.high.max(most_j);
    }
}

/// Widens the ranges of a cut by the errors of the times of the steps.
fn widen_by_times(
    cut: &mut Cut,
    steps: &[TimedReading],
    shares: &[f64],
    power: &Power,
    levels: &Levels,
) {
    let (low_w, high_w) = (levels.low_w, levels.high_w);
    // An edge of a counter that is off by dt puts energy of up to high · dt into the wrong step.
    // Over the difference of the levels this is an idle time of high / (high - low) · dt.
    let factor = if power.is_counted {
        high_w / (high_w - low_w)
    } else {
        1.0
    };
    let time_s: f64 = steps.iter().map(TimedReading::length_s).sum();
    // A wrong period moves time between steps, so only steps whose share differs from the mean
    // share change the idle time.
    let mean = cut.idle_s.value / time_s.max(f64::MIN_POSITIVE);
    let pairs = steps.iter().zip(shares);
    let apart_s: f64 = pairs
        .map(|(step, share)| (share - mean).abs() * step.length_s())
        .sum();
    let off_s = power.slack_s * factor + power.period_error * apart_s;
    cut.idle_s.low -= off_s;
    cut.idle_s.high += off_s;
    cut.idle_j.low -= off_s * low_w;
    cut.idle_j.high += off_s * low_w;
}

/// Returns the sum over steps of power times `time_s(step)`, in J.
fn energy_j(steps: &[TimedReading], time_s: impl Fn(&TimedReading) -> f64) -> f64 {
    steps.iter().map(|step| step.value * time_s(step)).sum()
}
