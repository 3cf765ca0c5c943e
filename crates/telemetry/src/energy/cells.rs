//! Power over time as a sensor leaves it known: cells of mean power, and their sum over a window
//! with bounds.
//!
//! Role: every method of measuring energy becomes cells; [`Cells::sum`] is the only place that
//! integrates and bounds.
//! Method: a cell that a sensor saw has an exact mean, and the power within it is only known to lie
//! between nothing and a ceiling, so a window that ends inside such a cell is off by as much as
//! these allow. A cell that was not seen is estimated by the mean of its neighbours, which is
//! unbiased for power that changes evenly. Two bounds hold its error: the range of the readings
//! around it ([`Sum::likely`]), and nothing and the ceiling ([`Sum::certain`]). The two edges of a
//! cell have bounds on their times, each its own. An edge that is off moves energy into a window or
//! out of it, and energy never decreases with time, so the least energy is that of the window that
//! begins as late and ends as early as the edges there allow, and the most that of the widest such
//! window. An error of the period stretches cells against each other by [`Cells::stretch`]. Sums
//! can be made incrementally: a window's sum is that of its whole cells, which only grows, and of
//! its two ends.

/// A time with constant estimated power.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cell {
    pub from_s: f64,
    pub to_s: f64,
    /// The mean power, or its estimate.
    pub watts: f64,
    pub sight: Sight,
    /// Bounds on the errors of the two edges, in s.
    pub slack_s: (f64, f64),
}

/// The part of a cell that the sensor saw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Sight {
    /// All of it: the mean is exact.
    Seen,
    /// All of it, unless an update passed between two reads: the cell then has up to `hidden_s` of
    /// hidden time, and the readings before and after are in a range.
    Unsure {
        hidden_s: f64,
        low_w: f64,
        high_w: f64,
    },
    /// None; power was within this range before and after.
    Hidden { low_w: f64, high_w: f64 },
    /// None: the cell lies before the first update or after the last one.
    Open,
    /// None, for longer than the power before and after can stand for.
    Missing,
}

/// Cells in the order of their times, without gaps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cells {
    pub list: Vec<Cell>,
    /// The times, in s, from which on and until which a window may reach.
    pub reach_s: (f64, f64),
    /// The most power there can be, in W.
    pub ceiling_w: f64,
    /// The time between two updates, in s.
    pub update_s: f64,
    /// The error of the period, as a share of it, by which cells are longer or shorter than their
    /// means assume.
    pub stretch: f64,
    /// Length, in cells, of patterns that the sensor can't see (see `unfold.rs`), or 0.
    pub fold: usize,
    /// Whether these cells rest on a guess about the sensor: certain bounds are then the likely
    /// ones.
    pub is_guess: bool,
}

/// Energy in J: its estimate, and how far it may be off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sum {
    pub joules: f64,
    /// If hidden time was like the time around it.
    pub likely: (f64, f64),
    /// Whatever hidden time was like.
    pub certain: (f64, f64),
}

/// Errors of a window, (too much, too little), in J.
#[derive(Clone, Copy, Debug, Default)]
struct Errors {
    /// Errors that add up.
    linear: (f64, f64),
    /// Errors of hidden time that was like the time around it: sums of squares of finished blocks,
    /// and the sum of the open block.
    squares: (f64, f64),
    block: (f64, f64),
    /// Errors of hidden time with any power.
    worst: (f64, f64),
}

/// The parts of a window's cells in which an update may have passed between two reads.
#[derive(Clone, Copy, Debug)]
struct Unsure {
    /// Their length, in s.
    time_s: f64,
    /// The time that missed updates have in them at most, in s.
    hidden_s: f64,
    /// The least and the greatest mean power.
    watts: (f64, f64),
    /// The least and the greatest reading around them, in W.
    around_w: (f64, f64),
}

/// The length of hidden time whose errors have one direction, in s; the errors of such blocks are
/// independent.
const BLOCK_S: f64 = 3.0;

impl Cells {
    /// Returns whether there is a cell at every time between two.
    pub(crate) fn reach_over(&self, from_s: f64, to_s: f64) -> bool {
        !self.list.is_empty() && self.reach_s.0 <= from_s && to_s <= self.reach_s.1
    }

    /// Returns the estimate of the energy between two times, in J, as far as cells reach.
    pub(crate) fn joules(&self, from_s: f64, to_s: f64) -> f64 {
        let within = self.within(from_s, to_s);
        let parts = within.map(|cell| cell.watts * overlap(cell, from_s, to_s));
        parts.fold(0.0, |sum, joules| sum + joules)
    }

    /// Returns the energy between two times; none if the cells do not reach that far, or if more is
    /// missing than there.
    pub(crate) fn sum(&self, from_s: f64, to_s: f64) -> Option<Sum> {
        if !self.reach_over(from_s, to_s) {
            return None;
        }
        let missing = |cell: &&Cell| cell.sight == Sight::Missing;
        let missing_s: f64 = self
            .within(from_s, to_s)
            .filter(missing)
            .map(|cell| overlap(cell, from_s, to_s))
            .sum();
        if missing_s > 0.5 * (to_s - from_s) {
            return None;
        }
        let (from_slack_s, to_slack_s) = (self.slack_at(from_s), self.slack_at(to_s));
        let mut sum = self.at(from_s, to_s);
        let narrow = (from_s + from_slack_s, to_s - to_slack_s);
        let least = if narrow.0 < narrow.1 {
            self.at(narrow.0, narrow.1)
        } else {
            Sum {
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
        // No window takes more than the ceiling.
        let ceiling_j = self.ceiling_w * (to_s - from_s);
        // Energy is never less than nothing, which cells that were unfolded from averages may be.
        sum.joules = sum.joules.max(0.0);
        sum.likely.0 = sum.likely.0.max(0.0).min(sum.joules);
        sum.certain.0 = sum.certain.0.max(0.0).min(sum.likely.0);
        sum.likely.1 = sum.likely.1.min(ceiling_j).max(sum.joules);
        sum.certain.1 = sum.certain.1.min(ceiling_j).max(sum.likely.1);
        sum.certain.1.is_finite().then_some(sum)
    }

    /// Returns the cells that have a part of the time between two.
    pub(super) fn within(&self, from_s: f64, to_s: f64) -> impl Iterator<Item = &Cell> {
        let next = self.list.partition_point(|cell| cell.to_s <= from_s);
        let rest = self.list[next..].iter();
        rest.take_while(move |cell| cell.from_s < to_s)
    }

    /// Returns the bound on the errors of the edges that matter to a window that ends at a time, in
    /// s.
    ///
    /// An edge matters if all of the cell's energy fits between the edge and the time, or if their
    /// order is open.
    fn slack_at(&self, time_s: f64) -> f64 {
        let mut slack_s = 0.0_f64;
        // An edge that is off may bring the next one near.
        for _ in 0..2 {
            let around = self.within(time_s - slack_s, time_s + slack_s.max(1e-9));
            let found = around.fold(0.0_f64, |most, cell| {
                // Time that was not seen is bounded from its edge on, however far away that is.
                let full_s = match cell.sight {
                    Sight::Seen | Sight::Unsure { .. } => {
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

    /// Sums up with edges as they are.
    fn at(&self, from_s: f64, to_s: f64) -> Sum {
        let joules = self.joules(from_s, to_s);
        let mean_w = joules / (to_s - from_s);
        let (mut errors, mut block) = (Errors::default(), f64::NEG_INFINITY);
        let mut unsure = Unsure::default();
        for cell in self.within(from_s, to_s) {
            let time_s = overlap(cell, from_s, to_s);
            let (inside, outside_s) = (cell.watts * time_s, cell.to_s - cell.from_s - time_s);
            let most = self.ceiling_w.max(cell.watts) * time_s - inside;
            match cell.sight {
                Sight::Hidden { low_w, high_w } => {
                    errors.worst = add(errors.worst, (inside, most));
                    if (cell.from_s / BLOCK_S).floor() > block {
                        block = (cell.from_s / BLOCK_S).floor();
                        errors.close_block();
                    }
                    let error = (inside - low_w * time_s, high_w * time_s - inside);
                    errors.block = add(errors.block, (error.0.max(0.0), error.1.max(0.0)));
                }
                Sight::Open | Sight::Missing => {
                    errors.linear = add(errors.linear, (inside, most));
                }
                Sight::Seen | Sight::Unsure { .. } => {
                    let all = cell.watts * (cell.to_s - cell.from_s);
                    let low = (all - self.ceiling_w.max(cell.watts) * outside_s).max(0.0);
                    let end = ((inside - low).max(0.0), most.min(all - inside).max(0.0));
                    let stretched = self.stretch * (cell.watts - mean_w).abs() * time_s;
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
        Sum {
            joules,
            likely: (joules - linear.0 - likely.0, joules + linear.1 + likely.1),
            certain: (joules - linear.0 - worst.0, joules + linear.1 + worst.1),
        }
    }

    /// Adds the errors of updates that may have passed between reads: as many as the hidden time
    /// holds, rounded up.
    ///
    /// Nothing shows in which of the cells they passed. Likely errors assume power within the range
    /// of the readings around those cells, and the worst ones any power up to the ceiling.
    fn miss(&self, errors: &mut Errors, unsure: &Unsure) {
        if unsure.time_s <= 0.0 {
            return;
        }
        let n = (unsure.hidden_s / self.update_s).floor() + 1.0;
        let one_j = (unsure.around_w.1 - unsure.around_w.0).max(0.0) * self.update_s;
        errors.squares = add(errors.squares, (n * one_j * one_j, n * one_j * one_j));
        let missed_s = (n * self.update_s).min(unsure.time_s);
        let (low_w, high_w) = unsure.watts;
        let rise_w = self.ceiling_w.max(high_w) - low_w;
        errors.worst = add(errors.worst, (high_w * missed_s, rise_w * missed_s));
    }

    /// Returns how much less and more a pattern could make it that repeats every `fold` cells, sums
    /// to nothing, and leaves all power between nothing and the ceiling.
    ///
    /// The most that such a pattern adds is a linear programme with one equality, solved by
    /// sorting.
    fn folded(&self, from_s: f64, to_s: f64) -> (f64, f64) {
        let n = self.fold;
        if n == 0 {
            return (0.0, 0.0);
        }
        let mut slots = vec![(0.0, f64::INFINITY, f64::INFINITY); n];
        for (k, cell) in self.list.iter().enumerate() {
            if matches!(cell.sight, Sight::Seen | Sight::Unsure { .. }) {
                let slot = &mut slots[k % n];
                slot.0 += overlap(cell, from_s, to_s);
                slot.1 = slot.1.min(cell.watts.max(0.0));
                slot.2 = slot.2.min((self.ceiling_w - cell.watts).max(0.0));
            }
        }
        if slots.iter().any(|slot| slot.1.is_infinite()) {
            return (0.0, 0.0);
        }
        slots.sort_by(|a, b| b.0.total_cmp(&a.0));
        let most = best_pattern(slots.iter().copied());
        let least = best_pattern(
            slots
                .iter()
                .rev()
                .map(|&(time, low, high)| (-time, low, high)),
        );
        (least, most)
    }
}

/// Returns the largest `Σ weight · x` with `Σ x = 0` and `-low ≤ x ≤ high`, of slots in the order
/// of falling weights.
fn best_pattern(slots: impl Iterator<Item = (f64, f64, f64)> + Clone) -> f64 {
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
    /// Adds the part of a cell that is `time_s` long, if an update may have passed in that cell.
    fn add(&mut self, cell: &Cell, time_s: f64) {
        let Sight::Unsure {
            hidden_s,
            low_w,
            high_w,
        } = cell.sight
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
    /// Adds the errors of a block to those of the others, as independent of them.
    fn close_block(&mut self) {
        let (low, high) = self.block;
        self.squares = add(self.squares, (low * low, high * high));
        self.block = (0.0, 0.0);
    }
}

fn add(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    (a.0 + b.0, a.1 + b.1)
}

fn overlap(cell: &Cell, from_s: f64, to_s: f64) -> f64 {
    (cell.to_s.min(to_s) - cell.from_s.max(from_s)).max(0.0)
}

/// Returns the least and the most of two ranges.
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
                sight: Sight::Seen,
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
        // Half of the middle cell: all of its 400 J may lie there but 300, or 300 of them.
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
    }

    #[test]
    fn what_is_hidden_for_most_of_the_time_is_not_told() {
        let mut cells = seen(&[(1.0, 100.0), (2.0, 100.0), (1.0, 100.0)]);
        cells.list[1].sight = Sight::Missing;
        assert_eq!(cells.sum(0.5, 3.5), None);
        let sum = cells.sum(0.0, 4.0).unwrap();
        assert_eq!((sum.joules, sum.likely), (400.0, (200.0, 800.0)));
    }
}
