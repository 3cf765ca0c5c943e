//! From what a sensor told to cells of power: [`Cells`].
//!
//! Method: a sensor whose window is no longer than the time between updates saw the cell before
//! each update and nothing of the rest. A sensor whose window holds m updates (the last second,
//! every 100 ms) saw all of the time m times. With `B_k` for the mean power between updates k−1 and
//! k, `B_k = B_(k−m) + m (r_k − r_(k−1))`, which determines all cells from the first m, and the sum
//! of these is `m r_0`. A pattern of m cells with sum zero that repeats through the whole trace
//! remains undetermined. It is chosen such that power does not change from cell to cell at most of
//! the boundaries (the median of each boundary over all repetitions is zero). Whole multiples of
//! the window do not depend on that choice.
//! Missed updates: the reading of an update that was not seen is assumed on the line between its
//! neighbours. Only the place of power within two cells, and within all that follow by whole
//! windows, is lost: the bounds then include those of cells that are whole windows, which need no
//! other reading.
//! Limits: a load that repeats exactly with the window is such a pattern, and not seen. The energy
//! of windows that are no multiple of the sensor's is then as uncertain as [`Cells::sum`] says.

use super::cells::{Cell, Cells, Sight};
use crate::updates::{self, Rhythm, Step, Update};

/// How a sensor makes its readings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Habit {
    pub rhythm: Rhythm,
    /// The window that a reading is the mean of, in s.
    pub window_s: f64,
    /// The bound on the error of the windows' ends in addition to that of the updates, in s.
    pub shift_s: f64,
    /// Whether the window is a guess.
    pub is_guess: bool,
}

/// Time before and after a hidden cell whose readings bound the likely power of the cell, in s.
const REACH_S: f64 = 3.0;
/// Hidden time between two updates, in times of the usual step, from which on it is missing.
const MISSING_STEPS: f64 = 3.5;
/// How far before the first and after the last update a window may reach, in steps.
const MARGIN_STEPS: f64 = 1.6;
/// Windows whose edges are closer than this, in windows, follow each other.
const SAME_EDGE: f64 = 0.05;
/// Updates whose distance is further from a step than this, in steps, are irregular.
const IRREGULAR: f64 = 0.25;
/// Fewer steps in a window need no unfolding.
const MIN_FOLD: usize = 2;

/// Returns cells, and the times of updates, from readings of power, (s, W), of a device with a row
/// every `row_s`; the first are the estimate, and others have to be within the bounds as well.
pub(crate) fn of_power(
    series: &[(f64, f64)],
    habit: Habit,
    row_s: f64,
    ceiling_w: f64,
) -> Vec<(Cells, Vec<Update>)> {
    let period_s = habit.rhythm.period_s;
    let updates = updates::of_power(series, &habit.rhythm);
    let step_s = period_s.max(updates::read_interval_s(series, period_s));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a small positive count"
    )]
    let fold = (habit.window_s / step_s).round() as usize;
    let is_folded = fold >= MIN_FOLD;
    let usual_s = if is_folded { step_s } else { step_s.max(row_s) };
    let is_one_run = |a: &Update, b: &Update| b.time_s - a.time_s < MISSING_STEPS * usual_s;
    let mut list: Vec<Cell> = vec![];
    for run in updates.chunk_by(is_one_run) {
        let cells = if is_folded {
            unfolded(&filled(run, step_s), fold, step_s)
        } else {
            alternating(run, habit.window_s, &habit.rhythm)
        };
        append(&mut list, cells);
    }
    let has_gap = list.iter().any(|cell| cell.sight == Sight::Missing);
    // The margin before the first cell takes part in the count, and the pattern of each run is its
    // own.
    let fold = if is_folded && !has_gap { fold } else { 0 };
    let is_disturbed = is_disturbed(series, &updates, step_s);
    let finish = |mut list: Vec<Cell>, fold: usize| {
        add_margins(&mut list, 2.0 * MARGIN_STEPS * step_s, Sight::Open);
        set_ranges(&mut list, &updates);
        for cell in &mut list {
            cell.slack_s.0 += habit.shift_s;
            cell.slack_s.1 += habit.shift_s;
        }
        let cells = Cells {
            reach_s: reach_s(&updates, series, step_s),
            list,
            ceiling_w,
            update_s: period_s,
            stretch: habit.rhythm.tolerance().min(1.0),
            fold,
            is_guess: habit.is_guess,
        };
        (cells, updates.clone())
    };
    let mut ways = vec![finish(list, fold)];
    if is_folded && is_disturbed {
        let wholes = whole_windows(&updates, habit.window_s, MISSING_STEPS * step_s);
        ways.push(finish(wholes, 0));
    }
    ways
}

/// Returns cells, and the times of updates, from readings of a counter that does not go back, (s,
/// J).
///
/// The rhythm narrows the times of updates where a period is known; a reading is never older than
/// `longest_s`.
pub(crate) fn of_counter(
    series: &[(f64, f64)],
    rhythm: Option<&Rhythm>,
    longest_s: f64,
    ceiling_w: f64,
) -> (Cells, Vec<Update>) {
    let updates = updates::of_counter(series, rhythm, longest_s);
    let cell = |pair: &[Update]| Cell {
        from_s: pair[0].time_s,
        to_s: pair[1].time_s,
        watts: (pair[1].value - pair[0].value) / (pair[1].time_s - pair[0].time_s),
        sight: Sight::Seen,
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
    let open_s = list.last().map_or(0.0, since_s);
    add_margins(&mut list, open_s + 2.0 * MARGIN_STEPS * step_s, Sight::Open);
    let cells = Cells {
        reach_s: reach_s(&updates, series, step_s),
        list,
        ceiling_w,
        update_s: longest_s,
        ..Cells::default()
    };
    (cells, updates)
}

/// Returns the times from which on and until which a window may reach, in s.
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

/// Adds the cells of a run to those before it, with missing time between.
fn append(list: &mut Vec<Cell>, cells: Vec<Cell>) {
    let (Some(last), Some(first)) = (list.last().copied(), cells.first()) else {
        list.extend(cells);
        return;
    };
    // A new run may reach back into the pause, or beyond.
    if first.from_s > last.to_s {
        list.push(Cell {
            from_s: last.to_s,
            to_s: first.from_s,
            watts: 0.5 * (last.watts + first.watts),
            sight: Sight::Missing,
            slack_s: (last.slack_s.1, first.slack_s.0),
        });
    }
    let kept = cells.into_iter().filter(|cell| cell.to_s > last.to_s);
    list.extend(kept.map(|cell| Cell {
        from_s: cell.from_s.max(last.to_s),
        ..cell
    }));
}

/// Returns whether reads may have missed updates: one may lie between two reads, or some lie
/// further apart than a step and updates do not keep to it.
fn is_disturbed(series: &[(f64, f64)], updates: &[Update], step_s: f64) -> bool {
    let slow_s = updates::SLOW_READS * step_s;
    let is_irregular =
        |pair: &[Update]| (pair[1].time_s - pair[0].time_s - step_s).abs() > IRREGULAR * step_s;
    updates.iter().any(|update| update.step == Step::Unsure)
        || series.windows(2).any(|pair| pair[1].0 - pair[0].0 > slow_s)
            && updates.windows(2).any(is_irregular)
}

/// A seen cell before each update, and what is hidden between them.
fn alternating(run: &[Update], window_s: f64, rhythm: &Rhythm) -> Vec<Cell> {
    let mut cells: Vec<Cell> = vec![];
    let sees_all = window_s > (1.0 - SAME_EDGE) * rhythm.period_s;
    for update in run {
        let mut from_s = update.time_s - window_s;
        let (mut sight, mut from_slack_s) = (Sight::Seen, update.slack_s);
        if let Some(&last) = cells.last() {
            let follows = sees_all && update.step != Step::Missed;
            // Windows that follow each other but for rounding leave nothing hidden.
            if !follows && from_s > last.to_s + SAME_EDGE * window_s {
                cells.push(Cell {
                    from_s: last.to_s,
                    to_s: from_s,
                    watts: 0.5 * (last.watts + update.value),
                    sight: hidden(),
                    slack_s: (last.slack_s.1, update.slack_s),
                });
            } else {
                (from_s, from_slack_s) = (last.to_s, last.slack_s.1);
            }
            if follows && update.step == Step::Unsure {
                sight = Sight::Unsure {
                    hidden_s: (update.time_s - from_s - rhythm.shortest_s).max(0.0),
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
                sight,
                slack_s: (from_slack_s, update.slack_s),
            });
        }
    }
    cells
}

/// Puts updates that were not seen between those that were.
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
                step: Step::Next,
            }
        }));
        whole.push(pair[1]);
    }
    whole
}

/// The windows of as many updates as do not overlap, from the last one back, and what is between
/// them.
fn whole_windows(updates: &[Update], window_s: f64, missing_s: f64) -> Vec<Cell> {
    let mut cells: Vec<Cell> = vec![];
    for update in updates.iter().rev() {
        let mut to_s = update.time_s;
        if let Some(&next) = cells.last() {
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
                    sight: if gap_s < missing_s {
                        hidden()
                    } else {
                        Sight::Missing
                    },
                    slack_s: (update.slack_s, next.slack_s.0),
                });
            }
        }
        cells.push(Cell {
            from_s: to_s - window_s,
            to_s,
            watts: update.value,
            sight: Sight::Seen,
            slack_s: (update.slack_s, update.slack_s),
        });
    }
    cells.reverse();
    cells
}

/// The cells between updates, whose means over `fold` of them are what was told.
fn unfolded(run: &[Update], fold: usize, step_s: f64) -> Vec<Cell> {
    #[expect(clippy::cast_precision_loss, reason = "a small count")]
    let length = fold as f64;
    // Power of each cell over that of the one `fold` multiples before, within the first `fold`.
    let mut rises = vec![0.0; fold];
    for pair in run.windows(2) {
        let before = rises[rises.len() - fold];
        rises.push(before + length * (pair[1].value - pair[0].value));
    }
    // Until each boundary was passed twice, power is taken not to have changed within the first
    // window.
    let is_repeated = rises.len() > 2 * fold;
    let mut jumps: Vec<f64> = (0..fold)
        .map(|slot| {
            let at = (1..rises.len()).filter(|k| is_repeated && k % fold == slot);
            updates::median(at.map(|k| rises[k] - rises[k - 1]).collect()).unwrap_or(0.0)
        })
        .collect();
    // Around the pattern they sum up to nothing.
    let excess = jumps.iter().sum::<f64>() / length;
    for jump in &mut jumps {
        *jump -= excess;
    }
    let mut pattern = vec![0.0; fold];
    for slot in 1..fold {
        pattern[slot] = pattern[slot - 1] - jumps[slot];
    }
    let level = run[0].value - pattern.iter().sum::<f64>() / length;
    let first_s = run[0].time_s - length * step_s;
    let mut from_s = first_s;
    let mut cells = vec![];
    let mut from_slack_s = run[0].slack_s;
    for (k, rise) in rises.iter().enumerate() {
        let (to_s, to_slack_s) = match (k + 1).checked_sub(fold) {
            Some(update) => (run[update].time_s, run[update].slack_s),
            None => (from_s + step_s, run[0].slack_s),
        };
        cells.push(Cell {
            from_s,
            to_s,
            watts: level + pattern[k % fold] + rise,
            sight: Sight::Seen,
            slack_s: (from_slack_s, to_slack_s),
        });
        (from_s, from_slack_s) = (to_s, to_slack_s);
    }
    cells
}

fn hidden() -> Sight {
    Sight::Hidden {
        low_w: 0.0,
        high_w: 0.0,
    }
}

/// Adds a cell of so many seconds at either end: a window may begin before the first update and end
/// after the last.
fn add_margins(list: &mut Vec<Cell>, margin_s: f64, sight: Sight) {
    let (Some(&first), Some(&last)) = (list.first(), list.last()) else {
        return;
    };
    list.insert(
        0,
        Cell {
            from_s: first.from_s - margin_s,
            to_s: first.from_s,
            watts: first.watts,
            sight,
            slack_s: (0.0, first.slack_s.0),
        },
    );
    list.push(Cell {
        from_s: last.to_s,
        to_s: last.to_s + margin_s,
        watts: last.watts,
        sight,
        slack_s: (last.slack_s.1, 0.0),
    });
}

/// Sets the range of hidden power to that of the readings around it.
fn set_ranges(list: &mut [Cell], updates: &[Update]) {
    let (mut first, mut end) = (0, 0);
    for cell in list {
        while first < updates.len() && updates[first].time_s < cell.from_s - REACH_S {
            first += 1;
        }
        while end < updates.len() && updates[end].time_s < cell.to_s + REACH_S {
            end += 1;
        }
        if let Sight::Hidden { low_w, high_w } | Sight::Unsure { low_w, high_w, .. } =
            &mut cell.sight
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
    use crate::synthetic::{Program, Sensor};
    use crate::{SensorClass, testdata::Random};

    fn cells_of(class: SensorClass, load: &Program) -> Vec<Cell> {
        let (update_s, window_s) = class.update_and_window_s();
        let sensor = Sensor {
            phase_s: 0.5 * update_s,
            ..Sensor::of(class)
        };
        let read = |i: i32| {
            let time_s = 0.2 * update_s * f64::from(i);
            (time_s, sensor.told_w(load, time_s))
        };
        let series: Vec<_> = (0..500).map(read).collect();
        let habit = Habit {
            rhythm: Rhythm::new(update_s, 0.0),
            window_s,
            shift_s: 0.0,
            is_guess: false,
        };
        of_power(&series, habit, 0.0, 400.0).remove(0).0.list
    }

    #[test]
    fn each_cell_that_was_seen_is_the_sensors_window() {
        for class in [SensorClass::PartTime, SensorClass::Fast] {
            let (update_s, window_s) = class.update_and_window_s();
            let cells = cells_of(class, &Program::square(50.0, 250.0, 0.73, 0.6));
            for three in cells.windows(3).skip(3) {
                if three[1].sight == Sight::Seen {
                    assert!(
                        (three[1].to_s - three[1].from_s - window_s).abs() < 1e-9,
                        "{three:?}"
                    );
                } else if matches!(three[1].sight, Sight::Hidden { .. }) {
                    let hidden_s = three[1].to_s - three[1].from_s;
                    assert!((hidden_s - (update_s - window_s)).abs() < 1e-9, "{three:?}");
                    assert_eq!(three[1].watts, 0.5 * (three[0].watts + three[2].watts));
                }
            }
        }
    }

    #[test]
    fn the_last_second_unfolds_into_its_tenths() {
        let mut random = Random(1);
        let mut pieces = vec![crate::synthetic::Piece::level(2.0, 60.0)];
        pieces.extend((0..8).map(|_| {
            crate::synthetic::Piece::level(random.between(0.3, 0.9), random.between(50.0, 250.0))
        }));
        let load = Program {
            pieces,
            repeats: false,
        };
        let cells = cells_of(SensorClass::LastSecond, &load);
        let mut worst_w = 0.0_f64;
        for cell in cells
            .iter()
            .filter(|cell| cell.sight == Sight::Seen && cell.from_s > 0.0)
        {
            // Reads every 20 ms leave the phase open by that much; a cell without a jump is exact
            // all the same.
            let is_flat = load.power_w(cell.from_s - 0.03) == load.power_w(cell.to_s + 0.03);
            let off_w = cell.watts - load.mean_w(cell.to_s, cell.to_s - cell.from_s);
            worst_w = worst_w.max(if is_flat { off_w.abs() } else { 0.0 });
        }
        assert!(worst_w < 1e-6, "{worst_w}");
    }
}
