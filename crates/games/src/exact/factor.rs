//! A sparse factorisation of a basis modulo a prime, which also chooses the basis.
//!
//! Role: columns arrive in an order of preference; columns that depend on earlier columns are left
//! out. The remaining columns are a basis. Its triangular factors solve systems with the basis and
//! with its transpose.
//! Method: left-looking elimination: a column is reduced only by the pivots in whose rows it has
//! entries. Its own pivot is in the row in which the fewest columns have an entry, to limit
//! fill-in. Columns that are independent modulo a prime are independent over the fractions as well.
//! Source: Gilbert and Peierls 1988, "Sparse partial pivoting in time proportional to arithmetic
//! operations".

use super::field::Field;
use super::work::{LimitReached, Work};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The factors of a basis, held by columns.
#[derive(Debug)]
pub(super) struct Factor {
    field: Field,
    /// The row of each pivot.
    pivots: Vec<usize>,
    /// The inverse of each pivot.
    inverses: Vec<u64>,
    /// For each pivot, its column's entries below the pivot, as (row of the system, entry).
    lower: Vec<Vec<(usize, u64)>>,
    /// For each pivot, its column's entries above the pivot, as (number of an earlier pivot,
    /// entry).
    upper: Vec<Vec<(usize, u64)>>,
    n_operations: usize,
}

/// The remaining entries of a column during its elimination.
struct Remainder {
    /// An entry for each row.
    entries: Vec<u64>,
    /// The number of the pivot in each row, if the row has a pivot.
    pivot_at: Vec<Option<usize>>,
    /// Whether each row was visited since the last column.
    is_met: Vec<bool>,
    /// Pivots still to be eliminated.
    due: BinaryHeap<Reverse<usize>>,
    /// Visited rows without a pivot.
    met: Vec<usize>,
    /// Visited rows with a pivot.
    met_pivots: Vec<usize>,
}

impl Factor {
    /// Takes columns, in order of preference, until they span all rows. Returns the indices of the
    /// columns taken.
    ///
    /// `counts` has, for each row, the number of columns with an entry in that row.
    pub(super) fn choose(
        field: Field,
        counts: &[usize],
        columns: impl Iterator<Item = (usize, Vec<(usize, u64)>)>,
        work: &Work<'_>,
    ) -> Result<(Self, Vec<usize>), LimitReached> {
        let mut factor = Self {
            field,
            pivots: vec![],
            inverses: vec![],
            lower: vec![],
            upper: vec![],
            n_operations: 0,
        };
        let mut remainder = Remainder {
            entries: vec![0; counts.len()],
            pivot_at: vec![None; counts.len()],
            is_met: vec![false; counts.len()],
            due: BinaryHeap::new(),
            met: vec![],
            met_pivots: vec![],
        };
        let mut chosen = vec![];
        for (number, column) in columns {
            if chosen.len() == counts.len() {
                break;
            }
            let before = factor.n_operations;
            if factor.push(&column, &mut remainder, counts) {
                chosen.push(number);
            }
            work.spend_words(column.len() + factor.n_operations - before)?;
        }
        Ok((factor, chosen))
    }

    /// Returns the number of entries of both factors.
    pub(super) fn n_entries(&self) -> usize {
        let off: usize = self.lower.iter().chain(&self.upper).map(Vec::len).sum();
        off + self.pivots.len()
    }

    /// Solves `B x = right`; `x` has one number for each column, in the order in which they were
    /// chosen.
    pub(super) fn solve(&self, mut right: Vec<u64>) -> Vec<u64> {
        let field = self.field;
        for (&pivot, lower) in self.pivots.iter().zip(&self.lower) {
            let factor = right[pivot];
            subtract_multiple(field, &mut right, factor, lower.iter().copied());
        }
        // `right` is indexed by rows, `x` by columns; `pivots` is the map from columns to rows.
        let mut x = vec![0; self.pivots.len()];
        for at in (0..x.len()).rev() {
            x[at] = field.multiply(right[self.pivots[at]], self.inverses[at]);
            let upper = self.upper[at].iter();
            let rows = upper.map(|&(above, entry)| (self.pivots[above], entry));
            subtract_multiple(field, &mut right, x[at], rows);
        }
        x
    }

    /// Solves `Bᵀ y = right`; `right` has one number for each column, in the order in which they
    /// were chosen.
    pub(super) fn solve_transposed(&self, right: &[u64]) -> Vec<u64> {
        let field = self.field;
        // The upper factor refers to earlier pivots by number, the lower one to rows.
        let mut t: Vec<u64> = Vec::with_capacity(right.len());
        for ((upper, &inverse), &right) in self.upper.iter().zip(&self.inverses).zip(right) {
            let left = subtract_products(field, right, &t, upper);
            t.push(field.multiply(left, inverse));
        }
        let mut y = vec![0; right.len()];
        for ((&pivot, lower), &t) in self.pivots.iter().zip(&self.lower).zip(&t).rev() {
            y[pivot] = subtract_products(field, t, &y, lower);
        }
        y
    }

    /// Eliminates a column; returns false if the column depends on earlier columns.
    fn push(&mut self, column: &[(usize, u64)], left: &mut Remainder, counts: &[usize]) -> bool {
        let field = self.field;
        for &(row, entry) in column {
            left.entries[row] = entry;
            left.meet(row);
        }
        // Pivots are eliminated in their order, because each may fill rows of later pivots. A heap
        // finds the next pivot without a scan of all rows.
        let mut upper = vec![];
        while let Some(Reverse(at)) = left.due.pop() {
            let factor = std::mem::take(&mut left.entries[self.pivots[at]]);
            if factor == 0 {
                continue;
            }
            upper.push((at, factor));
            self.n_operations += self.lower[at].len();
            for &(row, entry) in &self.lower[at] {
                let less = field.multiply(entry, factor);
                left.entries[row] = field.subtract(left.entries[row], less);
                left.meet(row);
            }
        }
        // Only rows without a pivot are left. None means that the column depends on earlier
        // columns.
        let remaining = left.take();
        let Some(best) = (0..remaining.len()).min_by_key(|&at| counts[remaining[at].0]) else {
            return false;
        };
        let (pivot, entry) = remaining[best];
        let inverse = field.invert(entry);
        let others = remaining.iter().filter(|&&(row, _)| row != pivot);
        let scaled = others.map(|&(row, entry)| (row, field.multiply(entry, inverse)));
        self.lower.push(scaled.collect());
        self.upper.push(upper);
        self.inverses.push(inverse);
        left.pivot_at[pivot] = Some(self.pivots.len());
        self.pivots.push(pivot);
        true
    }
}

impl Remainder {
    /// Records a row when the current column gets its first entry there. Later calls for the row do
    /// nothing.
    fn meet(&mut self, row: usize) {
        if std::mem::replace(&mut self.is_met[row], true) {
            return;
        }
        match self.pivot_at[row] {
            Some(pivot) => {
                self.due.push(Reverse(pivot));
                self.met_pivots.push(row);
            }
            None => self.met.push(row),
        }
    }

    /// Returns the remaining entries, by rows, and resets them to zero.
    fn take(&mut self) -> Vec<(usize, u64)> {
        for &row in self.met.iter().chain(&self.met_pivots) {
            self.is_met[row] = false;
        }
        self.met_pivots.clear();
        let rows = self.met.drain(..);
        let entries = rows.map(|row| (row, std::mem::take(&mut self.entries[row])));
        entries.filter(|&(_, entry)| entry != 0).collect()
    }
}

/// Subtracts a multiple of sparse entries.
fn subtract_multiple(
    field: Field,
    vector: &mut [u64],
    factor: u64,
    entries: impl Iterator<Item = (usize, u64)>,
) {
    if factor == 0 {
        return;
    }
    for (at, entry) in entries {
        vector[at] = field.subtract(vector[at], field.multiply(entry, factor));
    }
}

/// Returns `from` minus the product of sparse entries and a vector.
fn subtract_products(field: Field, from: u64, vector: &[u64], entries: &[(usize, u64)]) -> u64 {
    let less =
        |left, &(at, entry): &(usize, u64)| field.subtract(left, field.multiply(entry, vector[at]));
    entries.iter().fold(from, less)
}
