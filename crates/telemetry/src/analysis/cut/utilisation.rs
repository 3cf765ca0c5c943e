//! The cut of time by utilisation.
//!
//! Method: a reading below [`IDLE_PERCENT`] is idle time; a reading next to an idle reading is a
//! mixture of busy and idle time. A reading describes an earlier time;
//! [`lag`](crate::analysis::lag) measures the lag. Time without a reading is hidden, and its value
//! is estimated from the neighbouring readings.

use super::{Cut, Estimate, TimedReading, clipped, joules, without_gaps};
use crate::updates::quantile;

/// Utilisation, in %, below which a device counts as idle.
const IDLE_PERCENT: f64 = 10.0;
/// Longest averaging window of a reading of utilisation, in s: NVML's documentation states 1/6 s to
/// 1 s, and the update of an A100 takes 1.012 s.
pub(in crate::analysis) const LONGEST_WINDOW_S: f64 = 1.1;
/// Quantile of utilisation, weighted by time, that is used as the utilisation of busy time.
const PEAK: f64 = 0.95;

/// Cuts the time of `spans` by utilisation. `readings`, in %, have the times at which they were
/// read, and lag behind the device by `lag_s`, in s. `power`, in W, is used for the energies.
///
/// The idle energy has bounds because the lag is uncertain. Each run of equal readings adds to the
/// lower bound the energy of the time that is within the run for every possible lag, and to the
/// upper bound the energy of the time that is within the run for at least one possible lag.
pub(in crate::analysis) fn by_utilisation(
    readings: &[TimedReading],
    lag_s: Estimate,
    spans: &[(f64, f64)],
    power: &[TimedReading],
) -> Cut {
    let mut cut = Cut::default();
    let (Some(first), Some(last)) = (spans.first(), spans.last()) else {
        return cut;
    };
    let weighed = readings.iter().map(|step| (step.value, step.length_s()));
    let peak_pct = quantile(weighed.collect(), PEAK).unwrap_or(100.0);
    let runs = without_gaps(&runs(readings, lag_s.value), (first.0, last.1));
    let energy_j = |from_s: f64, to_s: f64| {
        let inside = clipped(&[TimedReading::seen(from_s, to_s, 0.0)], spans).into_iter();
        inside.fold(0.0, |sum, part| sum + joules(power, part.from_s, part.to_s))
    };
    // A smaller lag moves a run later, a larger one earlier.
    let (later_s, earlier_s) = (lag_s.value - lag_s.low, lag_s.high - lag_s.value);
    for (i, run) in runs.iter().enumerate() {
        let neighbours = [i.checked_sub(1).map(|i| runs[i]), runs.get(i + 1).copied()];
        let share = idle_share_of(run, neighbours, peak_pct);
        for step in clipped(std::slice::from_ref(run), spans) {
            let energy_j = joules(power, step.from_s, step.to_s);
            cut.idle_s.add(share.scaled(step.length_s()));
            cut.idle_j.value += share.value * energy_j;
            let energies_j = (share.value * energy_j, (1.0 - share.value) * energy_j);
            let is_idle_first = neighbours[0].is_some_and(|before| is_idle(&before));
            cut.split(&step, share.value, is_idle_first, energies_j);
        }
        cut.idle_j.low += share.low * energy_j(run.from_s + later_s, run.to_s - earlier_s);
        let reach_s = if share.high >= 1.0 { 1.0 } else { 0.0 };
        let (from_s, to_s) = (
            run.from_s - reach_s * earlier_s,
            run.to_s + reach_s * later_s,
        );
        cut.idle_j.high += share.high * energy_j(from_s, to_s);
    }
    let time_s: f64 = spans.iter().map(|span| span.1 - span.0).sum();
    let all_j = cut.joules();
    // At both ends of the trace, readings of the time may be missing, by up to the lag's range.
    let ends_s = 2.0 * (lag_s.high - lag_s.low);
    cut.idle_s.low -= ends_s;
    cut.idle_s.high += ends_s;
    cut.idle_s = cut.idle_s.within(time_s);
    cut.idle_j = cut.idle_j.within(all_j.max(cut.idle_j.value));
    cut
}

fn is_idle(run: &TimedReading) -> bool {
    run.value < IDLE_PERCENT
}

/// Estimates the idle share of a run of equal readings, 0 to 1, from the run and its neighbours;
/// `peak_pct` is the utilisation of busy time, in %.
fn idle_share_of(
    run: &TimedReading,
    neighbours: [Option<TimedReading>; 2],
    peak_pct: f64,
) -> Estimate {
    let of_one = |share| Estimate {
        value: share,
        low: share,
        high: 1.0,
    };
    if is_idle(run) {
        return of_one(1.0).with_hidden(run.hidden_share());
    }
    // Only a run no longer than the averaging window can be a mean over the edge of an idle time.
    let is_next_to_idle = neighbours.iter().flatten().any(is_idle);
    let is_mixture = run.hidden_s > 0.0 || run.length_s() <= LONGEST_WINDOW_S;
    if is_next_to_idle && is_mixture {
        let value = (1.0 - run.value / peak_pct.max(IDLE_PERCENT)).clamp(0.0, 1.0);
        return Estimate {
            low: 0.0,
            ..of_one(value)
        };
    }
    // Utilisation below 100 % may be short gaps between kernels, which the average hides.
    let gaps = Estimate {
        high: (1.0 - run.value / 100.0).clamp(0.0, 1.0),
        ..Estimate::default()
    };
    gaps.with_hidden(run.hidden_share())
}

/// Moves readings earlier by the lag, and joins consecutive equal readings. The last run is
/// extended to the original end, because no later reading describes that time.
fn runs(readings: &[TimedReading], lag_s: f64) -> Vec<TimedReading> {
    let mut runs: Vec<TimedReading> = vec![];
    for reading in readings {
        let (from_s, to_s) = (reading.from_s - lag_s, reading.to_s - lag_s);
        match runs.last_mut() {
            Some(last) if last.value == reading.value && last.to_s >= from_s => last.to_s = to_s,
            _ => runs.push(TimedReading::seen(from_s, to_s, reading.value)),
        }
    }
    if let Some(last) = runs.last_mut() {
        last.to_s += lag_s;
    }
    runs
}
