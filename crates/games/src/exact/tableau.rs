//! A tableau of a best-response polytope, pivoted without fractions.
//!
//! Role: the only implementation of integer pivots; the Lemke–Howson algorithm and the enumeration
//! of vertices are walks over bases of this tableau.
//! Method: the condensed tableau holds `divisor · basic + Σ entry · nonbasic = right side` for each
//! basic variable. All its numbers are minors of the integer data, and `divisor` is the determinant
//! of the basis. A pivot divides by the old determinant without remainder. Ties of the ratio test
//! are broken as if the right side of row i were `1 + εⁱ` with an infinitesimal ε: the polytope is
//! then simple, so the ratio test has exactly one minimum and no walk can cycle.
//! Shapes: a row for each basic variable, a column for each nonbasic variable, and the right side
//! as the last column.
//! Source: Edmonds 1967 (pivots without fractions); Charnes 1952, "Optimality and degeneracy in
//! linear programming" (the perturbation); von Stengel 2002, "Computing equilibria for two-person
//! games" (both applied to bimatrix games).

use super::gcd::lowest_terms;
use super::integer::TableauNumber;
use super::polytope::Polytope;
use super::work::Work;
use crate::Rational;
use num_bigint::BigInt;
use std::cmp::Ordering;
use std::ops::Range;

/// The tableau of one basis. Variables are named by labels.
#[derive(Clone, Debug)]
pub(super) struct Tableau<T> {
    entries: Vec<T>,
    basic: Vec<usize>,
    nonbasic: Vec<usize>,
    divisor: T,
    /// The player's own actions; their variables are the coordinates of the point.
    own: Range<usize>,
    /// The slack variables, whose initial rows are perturbed in this order.
    slacks: Range<usize>,
}

impl<T: TableauNumber> Tableau<T> {
    /// Returns the tableau at the origin of the polytope, where all slack variables are basic.
    pub(super) fn from_polytope(polytope: &Polytope) -> Option<Self> {
        let bits = polytope.entries.iter().map(BigInt::bits);
        let bits = bits.max().unwrap_or(0);
        let mut entries = Vec::with_capacity(polytope.entries.len() + polytope.others.len());
        for row in polytope.entries.chunks_exact(polytope.own.len()) {
            for entry in row {
                entries.push(T::from_big(entry, bits)?);
            }
            entries.push(T::one());
        }
        Some(Self {
            entries,
            basic: polytope.others.clone().collect(),
            nonbasic: polytope.own.clone().collect(),
            divisor: T::one(),
            own: polytope.own.clone(),
            slacks: polytope.others.clone(),
        })
    }

    /// Returns the labels of the basic variables, one for each row.
    pub(super) fn basic(&self) -> &[usize] {
        &self.basic
    }

    /// Returns the labels of the nonbasic variables, one for each column.
    pub(super) fn nonbasic(&self) -> &[usize] {
        &self.nonbasic
    }

    /// Returns the value of a basic variable, times the positive determinant of the basis.
    pub(super) fn value(&self, row: usize) -> &T {
        self.at(row, self.nonbasic.len())
    }

    /// Returns whether a label is one of the player's own actions.
    pub(super) fn owns(&self, label: usize) -> bool {
        self.own.contains(&label)
    }

    /// Returns the row whose variable leaves a feasible basis when the variable of the column
    /// enters.
    pub(super) fn leaving(&self, col: usize) -> Option<usize> {
        let rises = |&row: &usize| self.at(row, col).sign() == Some(Ordering::Greater);
        let mut least = (0..self.basic.len()).find(rises)?;
        for row in 0..self.basic.len() {
            if row != least && self.compare_ratios(row, least, col)? == Ordering::Less {
                least = row;
            }
        }
        Some(least)
    }

    /// Compares the perturbed values of two rows, each times the other row's entry in a column; the
    /// entry of `other` is positive.
    ///
    /// The values are positive, so a row whose own entry is not positive compares as greater: its
    /// ratio is no bound.
    fn compare_ratios(&self, row: usize, other: usize, col: usize) -> Option<Ordering> {
        let (entry, other_entry) = (self.at(row, col), self.at(other, col));
        let compare =
            |value, other_value| T::compare_products(value, other_entry, other_value, entry);
        let first = compare(self.value(row), self.value(other))?;
        if first != Ordering::Equal {
            return Some(first);
        }
        // Tie: compare the coefficients of the powers of ε. The column of slack i is the
        // coefficient of εⁱ.
        for slack in self.slacks.clone() {
            // A basic variable has a column too: the determinant in its own row, 0 in every other.
            let order = if let Some(at) = self.nonbasic.iter().position(|&label| label == slack) {
                compare(self.at(row, at), self.at(other, at))?
            } else if self.basic[row] == slack {
                Ordering::Greater
            } else if self.basic[other] == slack {
                entry.sign()?.reverse()
            } else {
                Ordering::Equal
            };
            if order != Ordering::Equal {
                return Some(order);
            }
        }
        Some(Ordering::Equal)
    }

    /// Brings the variable with this label into a feasible basis. Returns the label of the variable
    /// that leaves the basis.
    pub(super) fn enter(&mut self, label: usize, work: &Work<'_>) -> Option<usize> {
        let col = self.nonbasic.iter().position(|&at| at == label)?;
        let row = self.leaving(col)?;
        let leaves = self.basic[row];
        self.pivot(row, col, work)?;
        Some(leaves)
    }

    /// Pivots to the basis whose variables have labels for which `is_wanted` is true.
    pub(super) fn go_to(
        &mut self,
        is_wanted: impl Fn(usize) -> bool,
        work: &Work<'_>,
    ) -> Option<()> {
        loop {
            let rows = (0..self.basic.len()).filter(|&row| !is_wanted(self.basic[row]));
            let cols = || (0..self.nonbasic.len()).filter(|&col| is_wanted(self.nonbasic[col]));
            let places = rows.flat_map(|row| cols().map(move |col| (row, col)));
            // The largest pivot keeps balls small; integers need any nonzero pivot.
            let size = |&(row, col): &(usize, usize)| self.at(row, col).size();
            let Some((row, col)) = places.max_by(|a, b| size(a).total_cmp(&size(b))) else {
                return Some(());
            };
            self.pivot(row, col, work)?;
        }
    }

    /// Exchanges the variables of a row and a column. Returns `None` at an overflow, at an
    /// undecided sign or at a limit of the work; the tableau is then invalid.
    fn pivot(&mut self, row: usize, col: usize, work: &Work<'_>) -> Option<()> {
        let pivot = self.at(row, col).clone();
        let width = self.nonbasic.len() + 1;
        let pivot_row = self.entries[row * width..][..width].to_vec();
        for (at, across) in self.entries.chunks_exact_mut(width).enumerate() {
            if at == row {
                continue;
            }
            let factor = across[col].clone();
            // Entries are about as long as the pivot.
            work.count(width as u64 * (1 + pivot.n_words() * pivot.n_words()))
                .ok()?;
            if !T::eliminate(across, &pivot_row, &pivot, &factor, &self.divisor) {
                return None;
            }
            // The column now belongs to the variable that leaves.
            across[col] = factor.negated()?;
        }
        let sign = pivot.sign()?;
        self.entries[row * width + col] = std::mem::replace(&mut self.divisor, pivot);
        std::mem::swap(&mut self.basic[row], &mut self.nonbasic[col]);
        // The divisor is kept positive, so that the signs of the entries are those of the
        // fractions.
        if sign == Ordering::Less {
            for entry in self.entries.iter_mut().chain([&mut self.divisor]) {
                *entry = entry.negated()?;
            }
        }
        Some(())
    }

    fn at(&self, row: usize, col: usize) -> &T {
        &self.entries[row * (self.nonbasic.len() + 1) + col]
    }
}

impl<T: TableauNumber + Into<BigInt>> Tableau<T> {
    /// Returns the strategy that the tableau's vertex represents; the vertex must not be the
    /// origin.
    pub(super) fn strategy(&self, work: &Work<'_>) -> Option<Vec<Rational>> {
        let mut point = vec![BigInt::ZERO; self.own.len()];
        for (row, &label) in self.basic.iter().enumerate() {
            if self.owns(label) {
                point[label - self.own.start] = self.value(row).clone().into();
            }
        }
        let sum: BigInt = point.iter().sum();
        let shares = point.iter().map(|part| lowest_terms(part, &sum, work).ok());
        shares.collect()
    }
}
