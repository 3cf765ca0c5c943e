//! Cells of mean power over time, and their sum over a window with bounds.
//!
//! Role: every method of measuring energy is converted to cells; [`Cells::sum`] is the only place
//! that integrates power and bounds the error.
//! Method: the mean power of a cell that the sensor observed is exact. The power at each time
//! within the cell is only known to be between 0 W and a ceiling. If a window ends inside such a
//! cell, these limits bound the energy on either side of the end:
//! ```text
//! cell      |<---------- energy E ---------->|
//! window  ------- inside ------>|
//!                               |< outside s >|      E - ceiling * outside <= inside energy <= E
//! ```
//! The power of a hidden cell is estimated by the mean of its neighbours, which is unbiased for
//! power that changes linearly. Its error has two bounds: the range of the readings shortly before
//! and after the cell ([`EnergyBounds::likely`]), and the range from 0 W to the ceiling
//! ([`EnergyBounds::certain`]).
//! Edges: the time of each edge of a cell has its own error bound. An error of an edge moves energy
//! into a window or out of the window. Energy never decreases with time. So the lowest energy is
//! that of the window that begins as late and ends as early as the bounds of nearby edges allow,
//! and the highest energy is that of the widest such window.
//! Period: an error of the update period makes cells longer or shorter than assumed, by the share
//! [`Cells::period_error`].

use crate::reported::EnergyBounds;

/// An interval of time with constant estimated power.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cell {
    pub from_s: f64,
    pub to_s: f64,
    /// Mean power, in W; an estimate unless the cell was seen.
    pub watts: f64,
    pub visibility: Visibility,
    /// Bounds on the errors of the two edges, in s.
    pub slack_s: (f64, f64),
}

/// The part of a cell that the sensor observed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Visibility {
    /// The whole cell: its mean power is exact.
    Seen,
    /// The whole cell, unless an update passed between two reads.
    ///
    /// In that case up to `hidden_s` of the cell are hidden. The readings before and after the cell
    /// are between `low_w` and `high_w`.
    Unsure {
        hidden_s: f64,
        low_w: f64,
        high_w: f64,
    },
    /// No part of the cell. The readings before and after the cell are between `low_w` and
    /// `high_w`.
    Hidden { low_w: f64, high_w: f64 },
    /// No part of the cell. The cell is before the first update or after the last update.
    Open,
    /// No part of the cell. The cell is too long for the readings before and after to represent its
    /// power.
    Missing,
}

/// A list of cells in the order of their times, without gaps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cells {
    pub list: Vec<Cell>,
    /// Earliest start and latest end of a window that the cells cover, in s.
    pub reach_s: (f64, f64),
    /// Upper bound on the power at any time, in W.
    pub ceiling_w: f64,
    /// Time between two updates, in s.
    pub update_s: f64,
    /// Bound on the error of the update period, as a share of the period.
    pub period_error: f64,
    /// Length, in cells, of repeating patterns that the readings do not show (see `unfold.rs`); 0
    /// if there is no such pattern.
    pub fold: usize,
    /// Whether the cells are computed with a guess about the sensor. The certain bounds of a sum
    /// are then replaced by the likely bounds.
    pub is_guess: bool,
}

/// Bounds on the errors of a window's estimate, in J: (estimate too high by, too low by).
#[derive(Clone, Copy, Debug, Default)]
struct Errors {
    /// Errors that are added linearly.
    linear: (f64, f64),
    /// Sum over closed blocks (see [`BLOCK_S`]) of the squared likely error of hidden time, in J².
    squares: (f64, f64),
    /// Likely error of hidden time in the open block.
    block: (f64, f64),
    /// Errors of hidden time for any power from 0 W to the ceiling.
    worst: (f64, f64),
}

/// Totals over the parts of a window's cells in which an update may have passed between two reads.
#[derive(Clone, Copy, Debug)]
struct Unsure {
    /// Total length of these parts, in s.
    time_s: f64,
    /// Upper bound on the time hidden by missed updates, in s.
    hidden_s: f64,
    /// Lowest and highest mean power of these cells, in W.
    watts: (f64, f64),
    /// Lowest and highest reading before and after these cells, in W.
    around_w: (f64, f64),
}

/// Length of a block of hidden time, in s. Errors within a block are assumed to have the same sign
/// and are added; errors of different blocks are assumed to be independent.
const BLOCK_S: f64 = 3.0;

impl Cells {
    /// Returns whether the cells cover all of the time from `from_s` to `to_s`.
    pub(crate) fn reach_over(&self, from_s: f64, to_s: f64) -> bool {
        !self.list.is_empty() && self.reach_s.0 <= from_s && to_s <= self.reach_s.1
    }

    /// Returns the estimate of the energy between two times, in J; times without a cell count as
    /// 0 W.
    pub(crate) fn joules(&self, from_s: f64, to_s: f64) -> f64 {
        let within = self.within(from_s, to_s);
        let parts = within.map(|cell| cell.watts * overlap(cell, from_s, to_s));
        parts.fold(0.0, |sum, joules| sum + joules)
    }

    /// Returns the energy between two times with its bounds.
    ///
    /// Returns `None` if the cells do not cover the whole time, if more than half of the time is
    /// missing, or if the upper bound is not finite.
    pub(crate) fn sum(&self, from_s: f64, to_s: f64) -> Option<EnergyBounds> {
        if !self.reach_over(from_s, to_s) {
            return None;
        }
        let missing = |cell: &&Cell| cell.visibility == Visibility::Missing;
        let missing_s: f64 = self
            .within(from_s, to_s)
            .filter(missing)
            .map(|cell| overlap(cell, from_s, to_s))
            .sum();
        if missing_s > 0.5 * (to_s - from_s) {
            return None;
        }
        // The bounds are those of the narrowest and the widest window that errors of edges allow:
        //
        //   most    [----------------------------]
        //   window     [----------------------]
        //   least         [----------------]
        let (from_slack_s, to_slack_s) = (self.slack_at(from_s), self.slack_at(to_s));
        let mut sum = self.at(from_s, to_s);
        let narrow = (from_s + from_slack_s, to_s - to_slack_s);
        let least = if narrow.0 < narrow.1 {
            self.at(narrow.0, narrow.1)
        } else {
            EnergyBounds {
                joules: 0.0,
                likely: (0.0, 0.0),
                certain: (0.0, 0.0),
            }
        };
        let most = self.at(from_s - from_slack_s, to_s + to_slack_s);
        sum.likely = (
            sum.likely.0.min(least.likely.0),
            sum.likely.1.max(most.likely.1),
        );
        sum.certain = (
            sum.certain.0.min(least.certain.0),
            sum.certain.1.max(most.certain.1),
        );
        if self.is_guess {
            sum.certain = sum.likely;
        }
        // Limit all bounds to the range from 0 W to the ceiling, and put them in the order certain,
        // likely, estimate. The estimate itself may be negative where cells were unfolded from
        // averages.
        let ceiling_j = self.ceiling_w * (to_s - from_s);
        sum.joules = sum.joules.max(0.0);
        sum.likely.0 = sum.likely.0.max(0.0).min(sum.joules);
        sum.certain.0 = sum.certain.0.max(0.0).min(sum.likely.0);
        sum.likely.1 = sum.likely.1.min(ceiling_j).max(sum.joules);
        sum.certain.1 = sum.certain.1.min(ceiling_j).max(sum.likely.1);
        sum.certain.1.is_finite().then_some(sum)
    }

    /// Returns the cells that overlap the time between two times, found by binary search.
    pub(super) fn within(&self, from_s: f64, to_s: f64) -> impl Iterator<Item = &Cell> {
        let next = self.list.partition_point(|cell| cell.to_s <= from_s);
        let rest = self.list[next..].iter();
        rest.take_while(move |cell| cell.from_s < to_s)
    }

    /// Returns the largest bound on the errors of the edges that affect a window with an end at
    /// `time_s`, in s.
    ///
    /// An edge affects the window if all of the cell's energy may have been drawn between the edge
    /// and `time_s`, or if the edge may be on the other side of `time_s`. The energy needs at least
    /// the time `full_s`, at the ceiling:
    /// ```text
    /// cell   |<- full_s ->|......................|
    ///        edge    time_s (the edge matters)   edge (does not matter)
    /// ```
    fn slack_at(&self, time_s: f64) -> f64 {
        let mut slack_s = 0.0_f64;
        // The slack of the first round may bring further edges within reach, so repeat once.
        for _ in 0..2 {
            let around = self.within(time_s - slack_s, time_s + slack_s.max(1e-9));
            let found = around.fold(0.0_f64, |most, cell| {
                // The energy of a cell that was not seen has no known mean. Its power is bounded at
                // each time after its edge, so the edge always matters.
                let full_s = match cell.visibility {
                    Visibility::Seen | Visibility::Unsure { .. } => {
                        (cell.to_s - cell.from_s) * (cell.watts / self.ceiling_w).clamp(0.0, 1.0)
                    }
                    _ => f64::INFINITY,
                };
                let matters = |slack_s: f64, away_s: f64| {
                    if away_s <= full_s.max(slack_s) {
                        slack_s
                    } else {
                        0.0
                    }
                };
                most.max(matters(cell.slack_s.0, time_s - cell.from_s))
                    .max(matters(cell.slack_s.1, cell.to_s - time_s))
            });
            slack_s = slack_s.max(found);
        }
        slack_s
    }

    /// Returns the energy between two times, with all edges of cells at their estimated times.
    fn at(&self, from_s: f64, to_s: f64) -> EnergyBounds {
        let joules = self.joules(from_s, to_s);
        let mean_w = joules / (to_s - from_s);
        let (mut errors, mut block) = (Errors::default(), f64::NEG_INFINITY);
        let mut unsure = Unsure::default();
        for cell in self.within(from_s, to_s) {
            let time_s = overlap(cell, from_s, to_s);
            // Energy of the cell within the window, and the time of the cell outside the window.
            let (inside, outside_s) = (cell.watts * time_s, cell.to_s - cell.from_s - time_s);
            let most = self.ceiling_w.max(cell.watts) * time_s - inside;
            match cell.visibility {
                Visibility::Hidden { low_w, high_w } => {
                    errors.worst = add(errors.worst, (inside, most));
                    // Cells are in the order of time, so a new block number closes the last block.
                    if (cell.from_s / BLOCK_S).floor() > block {
                        block = (cell.from_s / BLOCK_S).floor();
                        errors.close_block();
                    }
                    let error = (inside - low_w * time_s, high_w * time_s - inside);
                    errors.block = add(errors.block, (error.0.max(0.0), error.1.max(0.0)));
                }
                Visibility::Open | Visibility::Missing => {
                    errors.linear = add(errors.linear, (inside, most));
                }
                Visibility::Seen | Visibility::Unsure { .. } => {
                    // The part outside the window holds at most the ceiling, so at least `low` is
                    // inside. Both errors are 0 for a cell that is entirely inside.
                    let all = cell.watts * (cell.to_s - cell.from_s);
                    let low = (all - self.ceiling_w.max(cell.watts) * outside_s).max(0.0);
                    let end = ((inside - low).max(0.0), most.min(all - inside).max(0.0));
                    // If this cell is longer than assumed, the others are shorter, so only its
                    // difference to the mean power of the window changes the sum.
                    let stretched = self.period_error * (cell.watts - mean_w).abs() * time_s;
                    errors.linear = add(errors.linear, add(end, (stretched, stretched)));
                }
            }
            unsure.add(cell, time_s);
        }
        errors.close_block();
        self.miss(&mut errors, &unsure);
        errors.linear = add(errors.linear, self.folded(from_s, to_s));
        let likely = (errors.squares.0.sqrt(), errors.squares.1.sqrt());
        let (linear, worst) = (errors.linear, errors.worst);
        EnergyBounds {
            joules,
            likely: (joules - linear.0 - likely.0, joules + linear.1 + likely.1),
            certain: (joules - linear.0 - worst.0, joules + linear.1 + worst.1),
        }
    }

    /// Adds the errors of updates that may have passed between reads. Their number is the hidden
    /// time over the update period, rounded down, plus 1.
    ///
    /// The readings do not show which of the cells missed an update. Likely errors assume hidden
    /// power within the range of the readings before and after those cells. Worst errors assume any
    /// power from 0 W to the ceiling.
    fn miss(&self, errors: &mut Errors, unsure: &Unsure) {
        if unsure.time_s <= 0.0 {
            return;
        }
        let n = (unsure.hidden_s / self.update_s).floor() + 1.0;
        let one_j = (unsure.around_w.1 - unsure.around_w.0).max(0.0) * self.update_s;
        errors.squares = add(errors.squares, (n * one_j * one_j, n * one_j * one_j));
        // In the worst case, the cells with the highest power drew 0 W during missed updates, or
        // the cells with the lowest power drew the ceiling.
        let missed_s = (n * self.update_s).min(unsure.time_s);
        let (low_w, high_w) = unsure.watts;
        let rise_w = self.ceiling_w.max(high_w) - low_w;
        errors.worst = add(errors.worst, (high_w * missed_s, rise_w * missed_s));
    }

    /// Returns by how much a pattern of power that the readings do not show (see [`Cells::fold`])
    /// may decrease and increase the energy between two times, in J.
    ///
    /// The pattern has a power for each of `fold` places, repeats every `fold` cells, has the sum
    /// 0 W, and keeps the power of each cell between 0 W and the ceiling. The largest increase is
    /// the solution of a linear program with one equality constraint, which sorting solves.
    fn folded(&self, from_s: f64, to_s: f64) -> (f64, f64) {
        let n = self.fold;
        if n == 0 {
            return (0.0, 0.0);
        }
        // For each place of the pattern: its time in the window (s), and by how much the power of
        // all its cells can be lowered and raised (W).
        let mut slots = vec![(0.0, f64::INFINITY, f64::INFINITY); n];
        for (k, cell) in self.list.iter().enumerate() {
            if matches!(
                cell.visibility,
                Visibility::Seen | Visibility::Unsure { .. }
            ) {
                let slot = &mut slots[k % n];
                slot.0 += overlap(cell, from_s, to_s);
                slot.1 = slot.1.min(cell.watts.max(0.0));
                slot.2 = slot.2.min((self.ceiling_w - cell.watts).max(0.0));
            }
        }
        // A place without a seen cell means that the trace is shorter than the pattern.
        if slots.iter().any(|slot| slot.1.is_infinite()) {
            return (0.0, 0.0);
        }
        slots.sort_by(|a, b| b.0.total_cmp(&a.0));
        let most = best_pattern(slots.iter().copied());
        // The largest decrease is the largest increase with negated weights. Reversing the order
        // keeps the weights falling.
        let least = best_pattern(
            slots
                .iter()
                .rev()
                .map(|&(time, low, high)| (-time, low, high)),
        );
        (least, most)
    }
}

/// Returns the largest `Σ weight · x` with `Σ x = 0` and `-low ≤ x ≤ high`.
///
/// Slots are (weight, low, high), sorted by decreasing weight.
fn best_pattern(slots: impl Iterator<Item = (f64, f64, f64)> + Clone) -> f64 {
    // Start with every `x` at `-low`, then raise the slots with the highest weights to `high` until
    // the sum of all `x` is 0.
    let mut credit: f64 = slots.clone().map(|slot| slot.1).sum();
    let mut best = 0.0;
    for (weight, low, high) in slots {
        let raised = credit.min(low + high);
        credit -= raised;
        best += weight * (raised - low);
    }
    best
}

impl Default for Unsure {
    fn default() -> Self {
        // The empty range for `hull`: any range of powers replaces both ends.
        let none = (f64::INFINITY, 0.0);
        Self {
            time_s: 0.0,
            hidden_s: 0.0,
            watts: none,
            around_w: none,
        }
    }
}

impl Unsure {
    /// Adds `time_s` seconds of a cell if an update may have passed in the cell.
    fn add(&mut self, cell: &Cell, time_s: f64) {
        let Visibility::Unsure {
            hidden_s,
            low_w,
            high_w,
        } = cell.visibility
        else {
            return;
        };
        self.time_s += time_s;
        self.hidden_s += hidden_s * time_s / (cell.to_s - cell.from_s);
        self.watts = hull(self.watts, (cell.watts, cell.watts));
        self.around_w = hull(self.around_w, (low_w, high_w));
    }
}

impl Errors {
    /// Adds the squared errors of the open block to the sum of squares and opens an empty block.
    fn close_block(&mut self) {
        let (low, high) = self.block;
        self.squares = add(self.squares, (low * low, high * high));
        self.block = (0.0, 0.0);
    }
}

fn add(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    (a.0 + b.0, a.1 + b.1)
}

/// Returns the length of the part of a cell between two times, in s.
fn overlap(cell: &Cell, from_s: f64, to_s: f64) -> f64 {
    (cell.to_s.min(to_s) - cell.from_s.max(from_s)).max(0.0)
}

/// Returns the smallest range that contains both ranges.
pub(super) fn hull(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    (a.0.min(b.0), a.1.max(b.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(list: &[(f64, f64)]) -> Cells {
        let cell = |(i, &(lasts_s, watts)): (usize, &(f64, f64))| {
            let from_s: f64 = list[..i].iter().map(|c| c.0).sum();
            Cell {
                from_s,
                to_s: from_s + lasts_s,
                watts,
                visibility: Visibility::Seen,
                slack_s: (0.0, 0.0),
            }
        };
        let list: Vec<Cell> = list.iter().enumerate().map(cell).collect();
        Cells {
            reach_s: (list[0].from_s, list[list.len() - 1].to_s),
            list,
            ceiling_w: 300.0,
            ..Cells::default()
        }
    }

    #[test]
    fn whole_cells_are_exact_and_parts_of_them_are_bounded() {
        let cells = seen(&[(1.0, 100.0), (2.0, 200.0), (1.0, 50.0)]);
        let whole = cells.sum(0.0, 3.0).unwrap();
        assert_eq!((whole.joules, whole.likely), (500.0, (500.0, 500.0)));
        // The window covers 1 s of the middle cell, which has 400 J in 2 s. At a ceiling of 300 W,
        // each half of the cell has between 100 J and 300 J.
        let part = cells.sum(2.0, 3.0).unwrap();
        assert_eq!((part.joules, part.likely), (200.0, (100.0, 300.0)));
        assert_eq!(cells.sum(3.5, 4.1), None);
    }

    #[test]
    fn a_pattern_that_is_not_seen_only_moves_what_is_not_whole() {
        let mut cells = seen(&[(1.0, 100.0); 4]);
        cells.fold = 2;
        assert_eq!(cells.sum(0.0, 4.0).unwrap().likely, (400.0, 400.0));
        assert_eq!(cells.sum(0.0, 3.0).unwrap().likely, (200.0, 400.0));
        // The first of three places has two cells in the window, the others have one. The power of
        // a place can fall by 30 W, so the first place can rise by 60 W.
        let mut cells = seen(&[(1.0, 30.0); 6]);
        cells.fold = 3;
        assert_eq!(cells.sum(0.0, 4.0).unwrap().likely, (90.0, 180.0));
        // A trace that is shorter than the pattern bounds no pattern.
        let mut cells = seen(&[(1.0, 100.0)]);
        cells.fold = 2;
        assert_eq!(cells.sum(0.0, 1.0).unwrap().likely, (100.0, 100.0));
    }

    #[test]
    fn errors_of_hidden_time_add_up_within_a_block_and_as_squares_between_blocks() {
        for (between_s, likely_j) in [(0.5, 20.0), (2.0, 200_f64.sqrt())] {
            let mut cells = seen(&[
                (0.5, 100.0),
                (1.0, 100.0),
                (between_s, 100.0),
                (1.0, 100.0),
                (0.5, 100.0),
            ]);
            for hidden in [1, 3] {
                cells.list[hidden].visibility = Visibility::Hidden {
                    low_w: 90.0,
                    high_w: 110.0,
                };
            }
            let whole = cells.sum(0.0, 3.0 + between_s).unwrap();
            let error_j = whole.likely.1 - whole.joules;
            assert!((error_j - likely_j).abs() < 1e-9, "{between_s}: {whole:?}");
        }
    }

    #[test]
    fn what_is_hidden_for_most_of_the_time_is_not_reported() {
        let mut cells = seen(&[(1.0, 100.0), (2.0, 100.0), (1.0, 100.0)]);
        cells.list[1].visibility = Visibility::Missing;
        assert_eq!(cells.sum(0.5, 3.5), None);
        let sum = cells.sum(0.0, 4.0).unwrap();
        assert_eq!((sum.joules, sum.likely), (400.0, (200.0, 800.0)));
    }
}
