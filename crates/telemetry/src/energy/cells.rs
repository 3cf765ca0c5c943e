//! Power over time as a sensor leaves it known: cells of mean power, seen or hidden, and their sum over a window.
//!
//! Role: what every method of measuring energy is turned into; the one place that integrates and that bounds.
//! Method: a cell that a sensor saw has an exact mean, and nothing is known of the power within it but that it lies
//! between nothing and a ceiling: a window that ends inside such a cell is off by what these allow. A cell that was not
//! seen is taken to be the mean of its neighbours, which is unbiased for power that changes evenly; how far it may be
//! off is said twice: from the range of what was seen around it, and from nothing and the ceiling alone. A common error
//! of all times shifts the window, so the bounds are those of the worst of several shifts; errors that are not common
//! shift its ends apart as well.

/// A time with constant estimated power.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cell {
    pub from_s: f64,
    pub to_s: f64,
    /// The mean power, or its estimate.
    pub watts: f64,
    pub sight: Sight,
}

/// What the sensor saw of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Sight {
    /// All of it: the mean is exact.
    Seen,
    /// Nothing; power was within this range before and after.
    Hidden { low_w: f64, high_w: f64 },
    /// Nothing, and for so long that what was before and after says little.
    Missing,
}

/// Cells in the order of their times, without gaps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cells {
    pub list: Vec<Cell>,
    /// The most power there can be, in W.
    pub ceiling_w: f64,
    /// How far all times may be off together, in s.
    pub slack_s: f64,
    /// Whether they may be off by so much each in its own direction.
    pub is_slack_own: bool,
    /// Length, in cells, of patterns that the sensor can't see (see `unfold.rs`), or 0.
    pub fold: usize,
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

/// Hidden time of so many seconds is taken to err in one direction; stretches of that length err independently.
const BLOCK_S: f64 = 3.0;
/// Shifts within the slack that are tried, to both sides.
const N_SHIFTS: i32 = 4;

impl Cells {
    /// Whether there is a cell at every time between two.
    pub(crate) fn reach_over(&self, from_s: f64, to_s: f64) -> bool {
        let ends = self.list.first().zip(self.list.last());
        ends.is_some_and(|(first, last)| first.from_s <= from_s && to_s <= last.to_s)
    }

    /// Gives the energy between two times; none if the cells do not reach that far, or if more is missing than there.
    pub(crate) fn sum(&self, from_s: f64, to_s: f64) -> Option<Sum> {
        if !self.reach_over(from_s, to_s) {
            return None;
        }
        let missing = |cell: &&Cell| cell.sight == Sight::Missing;
        let missing_s: f64 = self
            .list
            .iter()
            .filter(missing)
            .map(|cell| overlap(cell, from_s, to_s))
            .sum();
        if missing_s > 0.5 * (to_s - from_s) {
            return None;
        }
        let mut sum = self.at(from_s, to_s);
        for step in -N_SHIFTS..=N_SHIFTS {
            let shift_s = self.slack_s * f64::from(step) / f64::from(N_SHIFTS);
            let common = Some(self.at(from_s + shift_s, to_s + shift_s));
            let own = self
                .is_slack_own
                .then(|| self.at(from_s + shift_s, to_s - shift_s));
            for shifted in common.into_iter().chain(own) {
                sum.likely = hull(sum.likely, shifted.likely);
                sum.certain = hull(sum.certain, shifted.certain);
            }
        }
        // Energy is never less than nothing, which cells that were unfolded from averages may be.
        sum.joules = sum.joules.max(0.0);
        sum.likely.0 = sum.likely.0.max(0.0).min(sum.joules);
        sum.certain.0 = sum.certain.0.max(0.0).min(sum.likely.0);
        sum.likely.1 = sum.likely.1.max(sum.joules);
        sum.certain.1 = sum.certain.1.max(sum.likely.1);
        sum.certain.1.is_finite().then_some(sum)
    }

    /// Gives the cells that have a part of the time between two.
    pub(super) fn within(&self, from_s: f64, to_s: f64) -> impl Iterator<Item = &Cell> {
        let next = self.list.partition_point(|cell| cell.to_s <= from_s);
        let rest = self.list[next..].iter();
        rest.take_while(move |cell| cell.from_s < to_s)
    }

    /// Sums up with times as they are.
    fn at(&self, from_s: f64, to_s: f64) -> Sum {
        let mut joules = 0.0;
        // What may be missing and what may be too much: at the ends, in the blocks of hidden time, without assumption.
        let (mut ends, mut worst, mut blocks) = ((0.0, 0.0), (0.0, 0.0), (0.0, 0.0));
        let (mut block, mut in_block) = (f64::NEG_INFINITY, (0.0, 0.0));
        for cell in self.within(from_s, to_s) {
            let time_s = overlap(cell, from_s, to_s);
            let (inside, outside_s) = (cell.watts * time_s, cell.to_s - cell.from_s - time_s);
            joules += inside;
            let most = self.ceiling_w.max(cell.watts) * time_s - inside;
            match cell.sight {
                Sight::Seen => {
                    let all = cell.watts * (cell.to_s - cell.from_s);
                    let low = (all - self.ceiling_w.max(cell.watts) * outside_s).max(0.0);
                    ends.0 += (inside - low).max(0.0);
                    ends.1 += most.min(all - inside).max(0.0);
                }
                Sight::Hidden { low_w, high_w } => {
                    worst = (worst.0 + inside, worst.1 + most);
                    if (cell.from_s / BLOCK_S).floor() > block {
                        block = (cell.from_s / BLOCK_S).floor();
                        blocks = (
                            blocks.0 + in_block.0 * in_block.0,
                            blocks.1 + in_block.1 * in_block.1,
                        );
                        in_block = (0.0, 0.0);
                    }
                    in_block.0 += (inside - low_w * time_s).max(0.0);
                    in_block.1 += (high_w * time_s - inside).max(0.0);
                }
                Sight::Missing => ends = (ends.0 + inside, ends.1 + most),
            }
        }
        let folded = self.folded(from_s, to_s);
        ends = (ends.0 + folded.0, ends.1 + folded.1);
        let blocks = (
            blocks.0 + in_block.0 * in_block.0,
            blocks.1 + in_block.1 * in_block.1,
        );
        Sum {
            joules,
            likely: (
                joules - ends.0 - blocks.0.sqrt(),
                joules + ends.1 + blocks.1.sqrt(),
            ),
            certain: (joules - ends.0 - worst.0, joules + ends.1 + worst.1),
        }
    }

    /// Gives how much less and more a pattern could make it that repeats every `fold` cells, sums to nothing, and
    /// leaves all power between nothing and the ceiling.
    ///
    /// The most that such a pattern adds is a linear programme with one equality, solved by sorting.
    fn folded(&self, from_s: f64, to_s: f64) -> (f64, f64) {
        let n = self.fold;
        if n == 0 {
            return (0.0, 0.0);
        }
        let mut slots = vec![(0.0, f64::INFINITY, f64::INFINITY); n];
        for (k, cell) in self.list.iter().enumerate() {
            if cell.sight == Sight::Seen {
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

/// Gives the largest `Σ weight · x` with `Σ x = 0` and `-low ≤ x ≤ high`, of slots in the order of falling weights.
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

fn overlap(cell: &Cell, from_s: f64, to_s: f64) -> f64 {
    (cell.to_s.min(to_s) - cell.from_s.max(from_s)).max(0.0)
}

/// Gives the least and the most of two ranges.
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
            }
        };
        Cells {
            list: list.iter().enumerate().map(cell).collect(),
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
