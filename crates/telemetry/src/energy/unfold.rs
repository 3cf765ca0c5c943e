//! Conversion of a sensor's readings into cells of power, [`Cells`].
//!
//! Role: converts the updates of `updates/track.rs` into the cells that `energy/cells.rs` sums.
//! Method: a reading of power is the mean over the window before its update. There are two cases.
//! - The window is at most as long as the update period. The window before each update is a seen
//!   cell, and the time between two windows is a hidden cell:
//!   ```text
//!   time   --------|-----------|-----------|-->    | update
//!   cells       [r0][hidden][r1][hidden][r2]
//!   ```
//! - The window covers m updates (m = 10 for a sensor that averages over the last second every 100
//!   ms), so the sensor observed all of the time m times. Let `B_k` be the mean power between
//!   updates k−1 and k, and `r_k` the reading of update k. Consecutive windows differ by one cell
//!   at each end:
//!   ```text
//!   r_(k-1)   [B_(k-m)  B_(k-m+1)  ...  B_(k-1)]
//!   r_k                [B_(k-m+1)  ...  B_(k-1)  B_k]
//!   ```
//!   so `B_k = B_(k−m) + m (r_k − r_(k−1))`. This relation determines all cells from the first m
//!   cells, whose sum is `m r_0`. A pattern of m cells with sum zero that repeats through the whole
//!   trace remains undetermined. The pattern is chosen such that power does not change at most of
//!   the boundaries between cells: the median change at each boundary of the pattern, over all
//!   repetitions, is zero. Energies of whole multiples of the window do not depend on the pattern.
//!
//! Missed updates: the reading of an update that no read saw is interpolated linearly between the
//! neighbouring readings. An error of this reading moves power between two neighbouring cells, and
//! between the cells that follow them by whole windows. The bounds therefore also include the
//! bounds of a second list of cells, which are whole windows and need no interpolated reading.
//! Limits: the readings do not show a load that repeats exactly with the window, because such a
//! load is a pattern with sum zero. [`Cells::sum`] includes this error in its bounds.

use super::cells::{Cell, Cells, Visibility};
use crate::updates::{self, PeriodBounds, Update, UpdateGap};

/// The update period and the averaging window of a power sensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SensorModel {
    /// Update period with its bounds.
    pub period_bounds: PeriodBounds,
    /// Length of the averaging window of a reading, in s.
    pub window_s: f64,
    /// Bound on the error of the windows' ends, in s, in addition to the error of the update times.
    pub shift_s: f64,
    /// Whether the length of the window is a guess.
    pub is_guess: bool,
}

/// Time before and after a hidden cell whose readings bound the likely power of the cell, in s.
const REACH_S: f64 = 3.0;
/// Time between two updates, in usual steps, from which on the time between the updates counts as
/// missing instead of hidden.
const MISSING_STEPS: f64 = 3.5;
/// Longest time before the first and after the last update that a window may include, in steps.
const MARGIN_STEPS: f64 = 1.6;
/// Largest distance, in window lengths, between the end of one window and the start of the next at
/// which no time between the windows counts as hidden.
const SAME_EDGE: f64 = 0.05;
/// Largest deviation of the distance of two updates from a step, in steps, at which the distance
/// counts as regular.
const IRREGULAR: f64 = 0.25;
/// Smallest number of steps in a window at which the readings are unfolded.
const MIN_FOLD: usize = 2;

/// Returns the cells and the updates of readings of power, (s, W), of a device with a row every
/// `row_s`.
///
/// The first element is used for the estimate. If updates may have been missed, a second element
/// has the cells of whole windows, whose bounds must be included as well.
pub(crate) fn of_power(
    series: &[(f64, f64)],
    model: SensorModel,
    row_s: f64,
    ceiling_w: f64,
) -> Vec<(Cells, Vec<Update>)> {
    // Where reads are slower than updates, the steps between seen updates are those of the reads.
    let period_s = model.period_bounds.period_s;
    let updates = updates::of_power(series, &model.period_bounds);
    let step_s = period_s.max(updates::read_interval_s(series, period_s));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a small positive count"
    )]
    let fold = (model.window_s / step_s).round() as usize;
    let is_folded = fold >= MIN_FOLD;
    // A pause longer than a few usual steps is missing time. For a sensor without unfolding, slow
    // rows are usual and their hidden time is bounded; unfolding needs a reading at every step.
    let usual_s = if is_folded { step_s } else { step_s.max(row_s) };
    let is_one_run = |a: &Update, b: &Update| b.time_s - a.time_s < MISSING_STEPS * usual_s;
    let mut list: Vec<Cell> = vec![];
    for run in updates.chunk_by(is_one_run) {
        let cells = if is_folded {
            unfolded(&filled(run, step_s), fold, step_s)
        } else {
            alternating(run, model.window_s, &model.period_bounds)
        };
        append(&mut list, cells);
    }
    let has_gap = list
        .iter()
        .any(|cell| cell.visibility == Visibility::Missing);
    // `Cells::folded` assigns cells to places of the pattern by their index in the whole list. This
    // includes the margin before the first cell, which only shifts all indices. With a gap, each
    // run has a pattern of its own, so no common pattern is bounded.
    let fold = if is_folded && !has_gap { fold } else { 0 };
    let is_disturbed = is_disturbed(series, &updates, step_s);
    // Adds margins, power ranges and slack to a list of cells; both ways need them.
    let finish = |mut list: Vec<Cell>, fold: usize| {
        add_margins(&mut list, 2.0 * MARGIN_STEPS * step_s, Visibility::Open);
        set_ranges(&mut list, &updates);
        for cell in &mut list {
            cell.slack_s.0 += model.shift_s;
            cell.slack_s.1 += model.shift_s;
        }
        let cells = Cells {
            reach_s: reach_s(&updates, series, step_s),
            list,
            ceiling_w,
            update_s: period_s,
            period_error: model.period_bounds.tolerance().min(1.0),
            fold,
            is_guess: model.is_guess,
        };
        (cells, updates.clone())
    };
    let mut ways = vec![finish(list, fold)];
    if is_folded && is_disturbed {
        let wholes = whole_windows(&updates, model.window_s, MISSING_STEPS * step_s);
        ways.push(finish(wholes, 0));
    }
    ways
}

/// Returns the cells and the updates of readings of a counter that never decreases, (s, J).
///
/// A cell is the time between two updates; its power is the difference of the readings over the
/// time. If the update period is known, `period_bounds` narrows the bounds on the times of updates.
/// A reading is never older than `longest_s`.
pub(crate) fn of_counter(
    series: &[(f64, f64)],
    period_bounds: Option<&PeriodBounds>,
    longest_s: f64,
    ceiling_w: f64,
) -> (Cells, Vec<Update>) {
    let updates = updates::of_counter(series, period_bounds, longest_s);
    let cell = |pair: &[Update]| Cell {
        from_s: pair[0].time_s,
        to_s: pair[1].time_s,
        watts: (pair[1].value - pair[0].value) / (pair[1].time_s - pair[0].time_s),
        visibility: Visibility::Seen,
        slack_s: (pair[0].slack_s, pair[1].slack_s),
    };
    let mut list: Vec<Cell> = updates.windows(2).map(cell).collect();
    let step_s = longest_s.max(updates::read_interval_s(series, longest_s));
    let since_s = |last: &Cell| {
        series
            .last()
            .map_or(0.0, |read| read.0 - last.to_s)
            .max(0.0)
    };
    // Reads after the last change show no later update, but the device drew power until the last
    // read. The margin covers this time as well.
    let open_s = list.last().map_or(0.0, since_s);
    add_margins(
        &mut list,
        open_s + 2.0 * MARGIN_STEPS * step_s,
        Visibility::Open,
    );
    let cells = Cells {
        reach_s: reach_s(&updates, series, step_s),
        list,
        ceiling_w,
        update_s: longest_s,
        ..Cells::default()
    };
    (cells, updates)
}

/// Returns the earliest start and the latest end of a window that the updates cover, in s.
fn reach_s(updates: &[Update], series: &[(f64, f64)], step_s: f64) -> (f64, f64) {
    let margin_s = MARGIN_STEPS * step_s;
    let ends = updates.first().zip(updates.last()).zip(series.last());
    ends.map_or((0.0, 0.0), |((first, last), read)| {
        (
            first.time_s - margin_s,
            (last.time_s + margin_s).max(read.0),
        )
    })
}

/// Appends the cells of a run (updates without a pause) to the cells of earlier runs, with a
/// missing cell between the runs.
fn append(list: &mut Vec<Cell>, cells: Vec<Cell>) {
    let (Some(last), Some(first)) = (list.last().copied(), cells.first()) else {
        list.extend(cells);
        return;
    };
    // The windows of a new run may begin within the pause, which shortens the missing cell, or
    // before the end of the earlier run, whose cells are then kept.
    if first.from_s > last.to_s {
        list.push(Cell {
            from_s: last.to_s,
            to_s: first.from_s,
            watts: 0.5 * (last.watts + first.watts),
            visibility: Visibility::Missing,
            slack_s: (last.slack_s.1, first.slack_s.0),
        });
    }
    let kept = cells.into_iter().filter(|cell| cell.to_s > last.to_s);
    list.extend(kept.map(|cell| Cell {
        from_s: cell.from_s.max(last.to_s),
        ..cell
    }));
}

/// Returns whether reads may have missed updates: an update is marked as [`UpdateGap::Unsure`], or
/// some reads are further apart than a step and the distances of updates are irregular.
fn is_disturbed(series: &[(f64, f64)], updates: &[Update], step_s: f64) -> bool {
    let slow_s = updates::SLOW_READS * step_s;
    let is_irregular =
        |pair: &[Update]| (pair[1].time_s - pair[0].time_s - step_s).abs() > IRREGULAR * step_s;
    updates
        .iter()
        .any(|update| update.step == UpdateGap::Unsure)
        || series.windows(2).any(|pair| pair[1].0 - pair[0].0 > slow_s)
            && updates.windows(2).any(is_irregular)
}

/// Returns a seen cell before each update of a run, and a hidden cell between two seen cells.
///
/// If the sensor observes all of the time, each cell begins at the previous update, and only missed
/// updates leave a hidden cell.
fn alternating(run: &[Update], window_s: f64, period_bounds: &PeriodBounds) -> Vec<Cell> {
    let mut cells: Vec<Cell> = vec![];
    let sees_all = window_s > (1.0 - SAME_EDGE) * period_bounds.period_s;
    for update in run {
        let mut from_s = update.time_s - window_s;
        let (mut visibility, mut from_slack_s) = (Visibility::Seen, update.slack_s);
        if let Some(&last) = cells.last() {
            let follows = sees_all && update.step != UpdateGap::Missed;
            // Windows that touch, up to rounding, have no hidden cell between them.
            if !follows && from_s > last.to_s + SAME_EDGE * window_s {
                cells.push(Cell {
                    from_s: last.to_s,
                    to_s: from_s,
                    watts: 0.5 * (last.watts + update.value),
                    visibility: hidden(),
                    slack_s: (last.slack_s.1, update.slack_s),
                });
            } else {
                (from_s, from_slack_s) = (last.to_s, last.slack_s.1);
            }
            // If an update was missed, this cell is longer than a period: the reading is the mean
            // of its last period only, and the time before is hidden.
            if follows && update.step == UpdateGap::Unsure {
                visibility = Visibility::Unsure {
                    hidden_s: (update.time_s - from_s - period_bounds.shortest_s).max(0.0),
                    low_w: 0.0,
                    high_w: 0.0,
                };
            }
        }
        if update.time_s > from_s {
            cells.push(Cell {
                from_s,
                to_s: update.time_s,
                watts: update.value,
                visibility,
                slack_s: (from_slack_s, update.slack_s),
            });
        }
    }
    cells
}

/// Returns the updates of a run with missed updates inserted, whose times and readings are
/// interpolated linearly.
fn filled(run: &[Update], step_s: f64) -> Vec<Update> {
    let mut whole = run[..1].to_vec();
    for pair in run.windows(2) {
        let n_steps = ((pair[1].time_s - pair[0].time_s) / step_s).round();
        let between = (1..).map(f64::from).take_while(|&step| step < n_steps);
        whole.extend(between.map(|step| {
            let at = |a: f64, b: f64| a + (b - a) * step / n_steps;
            Update {
                time_s: at(pair[0].time_s, pair[1].time_s),
                slack_s: pair[0].slack_s.max(pair[1].slack_s),
                value: at(pair[0].value, pair[1].value),
                step: UpdateGap::Next,
            }
        }));
        whole.push(pair[1]);
    }
    whole
}

/// Returns cells that are whole windows, chosen from the last update backward so that no two
/// windows overlap, with a hidden or a missing cell where two windows do not touch.
///
/// With four updates in a window, and two updates missed:
/// ```text
/// updates   |   |   |   |   |           |   |   |   |
/// cells     [--- window ---][hidden][--- window ---]
/// ```
fn whole_windows(updates: &[Update], window_s: f64, missing_s: f64) -> Vec<Cell> {
    let mut cells: Vec<Cell> = vec![];
    for update in updates.iter().rev() {
        let mut to_s = update.time_s;
        if let Some(&next) = cells.last() {
            // A window that overlaps the next cell is skipped; a window that touches the next cell
            // is extended or shortened to its edge.
            let gap_s = next.from_s - to_s;
            if gap_s < -SAME_EDGE * window_s {
                continue;
            }
            if gap_s <= SAME_EDGE * window_s {
                to_s = next.from_s;
            } else {
                cells.push(Cell {
                    from_s: to_s,
                    to_s: next.from_s,
                    watts: 0.5 * (update.value + next.watts),
                    visibility: if gap_s < missing_s {
                        hidden()
                    } else {
                        Visibility::Missing
                    },
                    slack_s: (update.slack_s, next.slack_s.0),
                });
            }
        }
        cells.push(Cell {
            from_s: to_s - window_s,
            to_s,
            watts: update.value,
            visibility: Visibility::Seen,
            slack_s: (update.slack_s, update.slack_s),
        });
    }
    cells.reverse();
    cells
}

/// Returns the cells between updates such that the mean over each `fold` consecutive cells is the
/// reading at the end of these cells.
///
/// `run` must have an update every step. Its first update ends a whole window, so the result has
/// `fold - 1` cells more than `run` has updates. See the module's method for the equations:
/// ```text
/// cell      0    1    2  ... fold-1 | fold | fold+1 ...
/// update    -    -    -  ...   0    |   1  |   2    ...
/// rises     0    0    0  ...   0    | recurrence by whole windows
/// watts     level + pattern[cell % fold] + rises[cell]
/// ```
fn unfolded(run: &[Update], fold: usize, step_s: f64) -> Vec<Cell> {
    #[expect(clippy::cast_precision_loss, reason = "a small count")]
    let length = fold as f64;
    // Power of each cell minus the power of the cell at the same place of the first window.
    let mut rises = vec![0.0; fold];
    for pair in run.windows(2) {
        let before = rises[rises.len() - fold];
        rises.push(before + length * (pair[1].value - pair[0].value));
    }
    // The change of power at a boundary is the step of the pattern plus the difference of two
    // rises. Power does not change at most boundaries, so the median difference over all
    // repetitions is the negative step. With fewer than two repetitions, power within the first
    // window is assumed to be constant.
    let is_repeated = rises.len() > 2 * fold;
    let mut jumps: Vec<f64> = (0..fold)
        .map(|slot| {
            let at = (1..rises.len()).filter(|k| is_repeated && k % fold == slot);
            updates::median(at.map(|k| rises[k] - rises[k - 1]).collect()).unwrap_or(0.0)
        })
        .collect();
    // The pattern repeats, so its steps must sum to zero over one repetition.
    let excess = jumps.iter().sum::<f64>() / length;
    for jump in &mut jumps {
        *jump -= excess;
    }
    let mut pattern = vec![0.0; fold];
    for slot in 1..fold {
        pattern[slot] = pattern[slot - 1] - jumps[slot];
    }
    // The mean of the first window must be the first reading.
    let level = run[0].value - pattern.iter().sum::<f64>() / length;
    let first_s = run[0].time_s - length * step_s;
    let mut from_s = first_s;
    let mut cells = vec![];
    let mut from_slack_s = run[0].slack_s;
    for (k, rise) in rises.iter().enumerate() {
        // Cell `k` ends at update `k + 1 - fold`; the cells before the first update have regular
        // edges.
        let (to_s, to_slack_s) = match (k + 1).checked_sub(fold) {
            Some(update) => (run[update].time_s, run[update].slack_s),
            None => (from_s + step_s, run[0].slack_s),
        };
        cells.push(Cell {
            from_s,
            to_s,
            watts: level + pattern[k % fold] + rise,
            visibility: Visibility::Seen,
            slack_s: (from_slack_s, to_slack_s),
        });
        (from_s, from_slack_s) = (to_s, to_slack_s);
    }
    cells
}

/// Returns the visibility of a hidden cell whose range is not set yet; see [`set_ranges`].
fn hidden() -> Visibility {
    Visibility::Hidden {
        low_w: 0.0,
        high_w: 0.0,
    }
}

/// Adds a cell of length `margin_s` at each end of the list, with the power of the neighbouring
/// cell, because a window may begin before the first update and end after the last update.
fn add_margins(list: &mut Vec<Cell>, margin_s: f64, visibility: Visibility) {
    let (Some(&first), Some(&last)) = (list.first(), list.last()) else {
        return;
    };
    list.insert(
        0,
        Cell {
            from_s: first.from_s - margin_s,
            to_s: first.from_s,
            watts: first.watts,
            visibility,
            slack_s: (0.0, first.slack_s.0),
        },
    );
    list.push(Cell {
        from_s: last.to_s,
        to_s: last.to_s + margin_s,
        watts: last.watts,
        visibility,
        slack_s: (last.slack_s.1, 0.0),
    });
}

/// Sets the power range of each hidden and each unsure cell to the range of the readings up to
/// [`REACH_S`] before and after the cell.
fn set_ranges(list: &mut [Cell], updates: &[Update]) {
    // Cells and updates are in the order of time, so both ends of the range only move forward.
    let (mut first, mut end) = (0, 0);
    for cell in list {
        while first < updates.len() && updates[first].time_s < cell.from_s - REACH_S {
            first += 1;
        }
        while end < updates.len() && updates[end].time_s < cell.to_s + REACH_S {
            end += 1;
        }
        if let Visibility::Hidden { low_w, high_w } | Visibility::Unsure { low_w, high_w, .. } =
            &mut cell.visibility
        {
            let around = || updates[first..end.max(first)].iter().map(|u| u.value);
            *low_w = around().fold(cell.watts, f64::min);
            *high_w = around().fold(cell.watts, f64::max);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{PowerProfile, Sensor};
    use crate::{SensorClass, testdata::Random};

    /// Returns 500 readings of a sensor from a time on, in s, five for each update.
    fn readings(class: SensorClass, load: &PowerProfile, from_s: f64) -> Vec<(f64, f64)> {
        let (update_s, _) = class.update_and_window_s();
        let sensor = Sensor {
            phase_s: 0.5 * update_s,
            ..Sensor::for_class(class)
        };
        let read = |i: i32| {
            let time_s = from_s + 0.2 * update_s * f64::from(i);
            (time_s, sensor.reported_w(load, time_s))
        };
        (0..500).map(read).collect()
    }

    fn ways_of(class: SensorClass, series: &[(f64, f64)]) -> Vec<(Cells, Vec<Update>)> {
        let (update_s, window_s) = class.update_and_window_s();
        let model = SensorModel {
            period_bounds: PeriodBounds::new(update_s, 0.0),
            window_s,
            shift_s: 0.0,
            is_guess: false,
        };
        of_power(series, model, 0.0, 400.0)
    }

    fn cells_of(class: SensorClass, load: &PowerProfile) -> Vec<Cell> {
        let series = readings(class, load, 0.0);
        ways_of(class, &series).remove(0).0.list
    }

    /// Returns a load that changes its power every 0.3 s to 0.9 s, after some seconds at 60 W.
    fn steps_after(level_s: f64) -> PowerProfile {
        let mut random = Random(1);
        let mut pieces = vec![crate::synthetic::PowerSegment::level(level_s, 60.0)];
        pieces.extend((0..40).map(|_| {
            crate::synthetic::PowerSegment::level(
                random.between(0.3, 0.9),
                random.between(50.0, 250.0),
            )
        }));
        PowerProfile {
            pieces,
            repeats: false,
        }
    }

    /// Returns the largest error of the power of seen cells without a jump near an edge. Reads
    /// every 20 ms determine the times of updates only to 20 ms; all other cells are exact.
    fn worst_w(cells: &[Cell], load: &PowerProfile) -> f64 {
        let seen = cells
            .iter()
            .filter(|cell| cell.visibility == Visibility::Seen && cell.from_s > 0.0);
        let errors = seen.map(|cell| {
            let is_flat = load.power_w(cell.from_s - 0.03) == load.power_w(cell.to_s + 0.03);
            let off_w = cell.watts - load.mean_w(cell.to_s, cell.to_s - cell.from_s);
            if is_flat { off_w.abs() } else { 0.0 }
        });
        let errors: Vec<f64> = errors.collect();
        assert!(errors.len() > 50 && !errors.iter().any(|off_w| off_w.is_nan()));
        errors.into_iter().fold(0.0, f64::max)
    }

    #[test]
    fn each_cell_that_was_seen_is_the_sensors_window() {
        for class in [SensorClass::PartTime, SensorClass::Fast] {
            let (update_s, window_s) = class.update_and_window_s();
            let cells = cells_of(class, &PowerProfile::square(50.0, 250.0, 0.73, 0.6));
            for three in cells.windows(3).skip(3) {
                if three[1].visibility == Visibility::Seen {
                    assert!(
                        (three[1].to_s - three[1].from_s - window_s).abs() < 1e-9,
                        "{three:?}"
                    );
                } else if matches!(three[1].visibility, Visibility::Hidden { .. }) {
                    let hidden_s = three[1].to_s - three[1].from_s;
                    assert!((hidden_s - (update_s - window_s)).abs() < 1e-9, "{three:?}");
                    assert_eq!(three[1].watts, 0.5 * (three[0].watts + three[2].watts));
                }
            }
        }
    }

    #[test]
    fn the_last_second_unfolds_into_its_tenths() {
        let load = steps_after(2.0);
        let worst_w = worst_w(&cells_of(SensorClass::LastSecond, &load), &load);
        assert!(worst_w < 1e-6, "{worst_w}");
    }

    #[test]
    fn power_that_changes_within_the_first_second_is_found() {
        let load = steps_after(0.0);
        let series = readings(SensorClass::LastSecond, &load, 5.0);
        let cells = ways_of(SensorClass::LastSecond, &series).remove(0).0.list;
        let worst_w = worst_w(&cells, &load);
        assert!(worst_w < 1e-6, "{worst_w}");
    }

    #[test]
    fn readings_that_may_have_missed_updates_have_a_second_list_of_cells() {
        let load = steps_after(2.0);
        let series = readings(SensorClass::LastSecond, &load, 0.0);
        assert_eq!(ways_of(SensorClass::LastSecond, &series).len(), 1);
        let with_pause: Vec<_> = series
            .iter()
            .enumerate()
            .filter(|(i, _)| !(200..212).contains(i))
            .map(|(_, read)| *read)
            .collect();
        assert_eq!(ways_of(SensorClass::LastSecond, &with_pause).len(), 2);
    }

    #[test]
    fn a_slow_read_disturbs_only_irregular_updates() {
        let updates = |shift_s: f64, step| -> Vec<Update> {
            let update = |i: i32| Update {
                time_s: f64::from(i) + if i == 5 { shift_s } else { 0.0 },
                slack_s: 0.0,
                value: 100.0,
                step,
            };
            (0..10).map(update).collect()
        };
        let [often, slow] = [0.2, 2.5].map(|gap_s| [(0.0, 100.0), (gap_s, 100.0)]);
        let regular = updates(0.0, UpdateGap::Next);
        assert!(!is_disturbed(&slow, &regular, 1.0));
        let shifted = updates(0.4, UpdateGap::Next);
        assert!(is_disturbed(&slow, &shifted, 1.0));
        assert!(!is_disturbed(&often, &shifted, 1.0));
        assert!(is_disturbed(&often, &updates(0.0, UpdateGap::Unsure), 1.0));
    }
}
