//! Updates on a strict grid within blocks of some seconds.
//!
//! Role: times of updates for the measurement of a sensor's window ([`crate::sensor::probe()`]),
//! which needs times that are alike wrong rather than bounds on each: the load is known there, and
//! a common error is one unknown, the delay.
//! Method: a bracket of an update, modulo the period, is an arc that holds the phase; the phase of
//! a block is where most arcs meet.

use super::{
    Bracket, JITTER, PAUSE, ROUNDING, SLOW_READS, Step, Update, changes, count, read_interval_s,
};

/// Periods that have a phase of their own, or the time, in s, if that is longer; it is voted for by
/// their changes and by those half as far again.
const BLOCK: f64 = 64.0;
const BLOCK_S: f64 = 4.0;

/// Returns the updates of a sensor that is read more often than it is updated, from its reads, (s,
/// W).
pub(crate) fn on_grid(series: &[(f64, f64)], period_s: f64) -> Vec<Update> {
    let pause_s = PAUSE * period_s.max(read_interval_s(series, period_s));
    let Some(&first) = series.first() else {
        return vec![];
    };
    let changes = changes(series);
    let reach_s = f64::max(BLOCK * period_s, BLOCK_S);
    let mut grid = Grid {
        period_s,
        phase: (first.0 - 0.5 * period_s, 0.5 * period_s),
        updates: vec![],
    };
    let mut block_end_s = f64::NEG_INFINITY;
    for run in series.chunk_by(|a, b| b.0 - a.0 <= pause_s) {
        let (mut start_s, last_s) = (run[0].0, run[run.len() - 1].0);
        // Counted, since at times far from zero a block is less than the spacing of numbers.
        for _ in 0..=count((last_s - start_s) / reach_s) + 1 {
            if start_s >= block_end_s {
                block_end_s = start_s + reach_s;
                let from = changes.partition_point(|c| c.by_s < start_s - 0.5 * reach_s);
                let to = changes.partition_point(|c| c.after_s < block_end_s + 0.5 * reach_s);
                let of_block = changes.get(from..to).unwrap_or_default();
                grid.phase = vote(of_block, period_s).unwrap_or(grid.phase);
            }
            grid.fill(run, block_end_s.min(last_s));
            if block_end_s > last_s {
                break;
            }
            start_s = block_end_s;
        }
    }
    grid.updates
}

/// Updates that have been found, and where the next ones lie.
struct Grid {
    period_s: f64,
    /// The time of any update, and how far it may be off.
    phase: (f64, f64),
    updates: Vec<Update>,
}

impl Grid {
    /// Adds updates until a time, with the reads of a run nearest to half a period after them, if
    /// these saw them.
    fn fill(&mut self, run: &[(f64, f64)], end_s: f64) {
        let (period_s, (phase_s, slack_s)) = (self.period_s, self.phase);
        // The newest update at the first read was up to a period before.
        let oldest_s = run[0].0 - period_s;
        let next_s = self.updates.last().map(|u| u.time_s + 0.5 * period_s);
        let at_least_s = next_s.map_or(oldest_s, |next_s| next_s.max(oldest_s));
        let mut time_s = phase_s + ((at_least_s - phase_s) / period_s).ceil() * period_s;
        let mut nearest = run
            .partition_point(|read| read.0 < time_s)
            .saturating_sub(1);
        // Counted, since numbers may be so large that a period is lost in them.
        for _ in 0..=count((end_s - time_s) / period_s + 1.0) {
            if time_s > end_s {
                break;
            }
            let middle_s = time_s + 0.5 * period_s;
            let off_s = |read: usize| (run[read].0 - middle_s).abs();
            while nearest + 1 < run.len() && off_s(nearest + 1) <= off_s(nearest) {
                nearest += 1;
            }
            // Reads at shorter intervals than updates see every update. Where a read is missing, a
            // read that may lie before or after another update determines neither of the two.
            let gap_s = |to: usize| run.get(to).map_or(0.0, |read| read.0 - run[to - 1].0);
            let before_s = if nearest > 0 { gap_s(nearest) } else { 0.0 };
            let is_late = before_s.max(gap_s(nearest + 1)) > SLOW_READS * period_s;
            let margin_s = if is_late {
                slack_s
            } else {
                -ROUNDING * period_s
            };
            let is_seen = off_s(nearest) + margin_s <= 0.5 * period_s;
            if is_seen && self.updates.last().is_none_or(|last| last.time_s < time_s) {
                self.updates.push(Update {
                    time_s,
                    slack_s,
                    value: run[nearest].1,
                    step: Step::Next,
                });
            }
            time_s += period_s;
        }
    }
}

/// Finds the phase that most brackets have an update at, and how far it may be off; none without
/// changes.
///
/// Each bracket holds an update, so, modulo the period, it is an arc that holds the phase.
fn vote(changes: &[Bracket], period_s: f64) -> Option<(f64, f64)> {
    let origin_s = changes.first()?.after_s;
    let jitter_s = JITTER * period_s;
    let mut edges = vec![];
    let mut votes = 0;
    for change in changes {
        let width_s = change.by_s - change.after_s + 2.0 * jitter_s;
        if width_s >= period_s {
            continue;
        }
        let start_s = (change.after_s - jitter_s - origin_s).rem_euclid(period_s);
        let end_s = (start_s + width_s).rem_euclid(period_s);
        votes += i32::from(end_s < start_s);
        edges.extend([(start_s, 1), (end_s, -1)]);
    }
    // Where one arc ends and another begins, both hold.
    edges.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
    let (mut most, mut best_s, mut width_s) = (0, 0.0, -1.0);
    for (i, &(from_s, change)) in edges.iter().enumerate() {
        votes += change;
        let to_s = edges
            .get(i + 1)
            .map_or(edges[0].0 + period_s, |next| next.0);
        if (votes, to_s - from_s) > (most, width_s) {
            (most, best_s, width_s) = (votes, 0.5 * (from_s + to_s), to_s - from_s);
        }
    }
    (most > 0).then_some((origin_s + best_s, 0.5 * width_s))
}
