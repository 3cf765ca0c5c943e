//! Update times on a strictly periodic grid, within blocks of some seconds.
//!
//! Role: update times for the measurement of a sensor's window ([`crate::probe::probe()`]). That
//! measurement needs times with a common error rather than bounds on each time, because its load is
//! known and a common error is a single unknown, the delay.
//! Method: a bracket of an update, modulo the period, is an arc that contains the phase. The phase
//! of a block is the middle of the interval in which most arcs overlap:
//! ```text
//! 0            phase            period
//! |   [----------+-----]           |     arc of change 1
//! |          [---+-------------]   |     arc of change 2
//! |-----]        |     [-----------|     arc of change 3, which wraps around
//! ```

use super::{
    Bracket, JITTER, PAUSE, ROUNDING, SLOW_READS, Update, UpdateGap, changes, count,
    read_interval_s,
};

/// Length of a block, in periods. Each block has its own phase, which is computed from the changes
/// in the block and in half a block before and after.
const BLOCK: f64 = 64.0;
/// Shortest length of a block, in s.
const BLOCK_S: f64 = 4.0;

/// Returns the updates of a sensor that is read more often than it is updated, from its reads, (s,
/// W), with increasing times.
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
        // The number of rounds is limited, because at times far from zero a block may be shorter
        // than the spacing of f64 numbers, and adding a block would not change the time.
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

/// The updates found so far, with the grid on which later updates are.
struct Grid {
    period_s: f64,
    /// The time of any one update and the bound on its error, in s.
    phase: (f64, f64),
    updates: Vec<Update>,
}

impl Grid {
    /// Adds the updates of a run of reads up to `end_s`.
    ///
    /// The value of an update is the read nearest to the middle of the period after the update. An
    /// update is left out if this read may have seen another update.
    fn fill(&mut self, run: &[(f64, f64)], end_s: f64) {
        let (period_s, (phase_s, slack_s)) = (self.period_s, self.phase);
        // The update that made the first reading was at most a period before the first read. After
        // a change of phase, the next update is at least half a period after the last.
        let oldest_s = run[0].0 - period_s;
        let next_s = self.updates.last().map(|u| u.time_s + 0.5 * period_s);
        let at_least_s = next_s.map_or(oldest_s, |next_s| next_s.max(oldest_s));
        let mut time_s = phase_s + ((at_least_s - phase_s) / period_s).ceil() * period_s;
        let mut nearest = run
            .partition_point(|read| read.0 < time_s)
            .saturating_sub(1);
        // The number of rounds is limited, because at large times adding a period may not change an
        // f64.
        for _ in 0..=count((end_s - time_s) / period_s + 1.0) {
            if time_s > end_s {
                break;
            }
            let middle_s = time_s + 0.5 * period_s;
            let off_s = |read: usize| (run[read].0 - middle_s).abs();
            while nearest + 1 < run.len() && off_s(nearest + 1) <= off_s(nearest) {
                nearest += 1;
            }
            // If reads are closer together than updates, every update is seen. Where a read is
            // missing, the nearest read may be so close to another update that it is unknown which
            // of the two it saw. Such a read is not used.
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
                    step: UpdateGap::Next,
                });
            }
            time_s += period_s;
        }
    }
}

/// Returns the phase that the most brackets contain, and the bound on its error, in s; `None` if no
/// bracket is shorter than the period.
///
/// Each bracket contains an update, so the bracket, modulo the period, is an arc that contains the
/// phase. The phase is found by a sweep over the sorted ends of all arcs.
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
        // An arc that wraps around is open at the origin, where the sweep begins.
        votes += i32::from(end_s < start_s);
        edges.extend([(start_s, 1), (end_s, -1)]);
    }
    // Arcs are closed: at equal times, beginnings are sorted before ends.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the times of the updates of a run of reads every 0.1 s from 0 s to 5 s, on a grid of
    /// 1 s with a phase, after an earlier update.
    fn filled(phase_s: f64, last_s: Option<f64>) -> Vec<f64> {
        let run: Vec<(f64, f64)> = (0..=50).map(|i| (0.1 * f64::from(i), 100.0)).collect();
        let update = |time_s| Update {
            time_s,
            slack_s: 0.0,
            value: 100.0,
            step: UpdateGap::Next,
        };
        let mut grid = Grid {
            period_s: 1.0,
            phase: (phase_s, 0.0),
            updates: last_s.map(update).into_iter().collect(),
        };
        grid.fill(&run, 5.0);
        grid.updates.iter().map(|update| update.time_s).collect()
    }

    #[test]
    fn a_run_has_every_update_from_the_one_before_its_first_read_to_its_end() {
        assert_eq!(filled(0.5, None), [-0.5, 0.5, 1.5, 2.5, 3.5, 4.5]);
        // The run ends before the middle of the period after 4.75 s, but has read the update.
        assert_eq!(filled(0.75, None), [-0.25, 0.75, 1.75, 2.75, 3.75, 4.75]);
    }

    #[test]
    fn after_a_change_of_phase_the_next_update_is_half_a_period_later_at_least() {
        // 0.625 s after the last update, and 0.375 s, which is too early.
        assert_eq!(filled(0.5, Some(1.875))[..2], [1.875, 2.5]);
        assert_eq!(filled(0.5, Some(2.125))[..2], [2.125, 3.5]);
    }

    #[test]
    fn changes_more_than_half_a_block_earlier_do_not_vote() {
        // Reads every 0.1 s. Updates at 0.05 s of each second change the value in 16 s to 31 s,
        // updates at 0.55 s in 70 s to 79 s. The second block is 64 s to 128 s, and it has no other
        // changes after 32 s, so it follows the later and fewer ones.
        let value = |time_s: f64| {
            let early = (time_s - 0.05).floor().clamp(15.0, 31.0);
            early + (time_s - 0.55).floor().clamp(69.0, 79.0)
        };
        let series: Vec<(f64, f64)> = (0..1200)
            .map(|i| f64::from(i) / 10.0)
            .map(|time_s| (time_s, value(time_s)))
            .collect();
        let updates = on_grid(&series, 1.0);
        for (block, phase_s) in [(1.0..63.0, 0.05), (66.0..119.0, 0.55)] {
            let of_block = updates
                .iter()
                .filter(|update| block.contains(&update.time_s));
            let phases: Vec<f64> = of_block
                .map(|update| update.time_s.rem_euclid(1.0))
                .collect();
            assert!(phases.len() >= 50, "{phases:?}");
            for phase in phases {
                assert!(
                    (phase - phase_s).abs() <= 0.06,
                    "{phase} in the block {block:?}"
                );
            }
        }
    }
}
