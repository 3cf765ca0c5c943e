//! Computes an equilibrium of a zero-sum game from a nearby profile.
//!
//! Role: learning finds the last digits slowly; linear algebra finds them at once as soon as the
//! supports are nearly known.
//! Method: the game's linear program in a condensed tableau. First, the played columns enter the
//! basis in place of the played rows, regardless of feasibility. Then the parametric self-dual
//! simplex method leads to the optimum: all entries are relaxed by `μ`, which decreases to 0. A
//! worse initial guess needs more pivots.
//! Accuracy: rounding errors of some hundred pivots; the caller evaluates the result by best
//! responses.
//! Cost: one pass over the tableau for each played action and for each further pivot. Memory: one
//! copy of the matrix.
//! Source: Dantzig 1963, "Linear programming and extensions", chapters 11 and 13; Shapley and Snow
//! 1950.

use crate::Profile;
use crate::simd::simd;

/// Actions with less than this share of the uniform probability do not count as played.
const PLAYED: f64 = 1e-3;
/// Smallest absolute value of a pivot; smaller pivots are rejected as inaccurate. The initial
/// entries lie between 1 and 2.
const SMALLEST_PIVOT: f64 = 1e-9;
/// Largest number of pivots after the guess, for each row and column.
const MAX_PIVOTS: usize = 2;

/// Basic variables as functions of the nonbasic ones: `basic = constant - body * others`, with the
/// objective `profit * others`. The relaxation adds `μ * shift` to constants and subtracts it from
/// profits.
struct Tableau {
    body: Vec<f64>,
    constant: Vec<f64>,
    constant_shift: Vec<f64>,
    profit: Vec<f64>,
    profit_shift: Vec<f64>,
    /// The variable of each row: the slack of a row of the game (its index), or a column (`n_rows`
    /// plus its index).
    basic: Vec<usize>,
    /// The variable of each column.
    others: Vec<usize>,
}

/// Returns an equilibrium, if the search from a profile terminates; `payoffs` are `[rows, cols]`.
pub(super) fn polished(payoffs: &[f64], profile: &[Vec<f64>]) -> Option<Profile> {
    let (n_rows, n_cols) = (profile[0].len(), profile[1].len());
    let lowest = payoffs.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = payoffs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let scale = 1.0 / (highest - lowest);
    if !scale.is_finite() {
        return None;
    }
    let mut tableau = Tableau {
        // Entries are scaled to between 1 and 2, so the value is positive.
        body: payoffs
            .iter()
            .map(|payoff| 1.0 + (payoff - lowest) * scale)
            .collect(),
        constant: vec![1.0; n_rows],
        constant_shift: vec![0.0; n_rows],
        profit: vec![1.0; n_cols],
        profit_shift: vec![0.0; n_cols],
        basic: (0..n_rows).collect(),
        others: (n_rows..n_rows + n_cols).collect(),
    };
    tableau.guess(&played(&profile[0]), &played(&profile[1]));
    tableau.constant_shift.fill(1.0);
    tableau.profit_shift.fill(1.0);
    tableau.optimise()?;
    tableau.profile(n_rows, n_cols)
}

/// Returns the played actions, most likely first.
fn played(strategy: &[f64]) -> Vec<usize> {
    let least = PLAYED / strategy.len() as f64;
    let mut actions: Vec<usize> = (0..strategy.len())
        .filter(|&action| strategy[action] > least)
        .collect();
    actions.sort_by(|&a, &b| strategy[b].total_cmp(&strategy[a]));
    actions
}

impl Tableau {
    /// Brings columns into the basis in place of rows.
    fn guess(&mut self, rows: &[usize], cols: &[usize]) {
        let n_cols = self.others.len();
        let mut left = rows.to_vec();
        for &col in cols.iter().take(rows.len()) {
            let size = |row: usize| self.body[row * n_cols + col].abs();
            // The largest pivot among the remaining rows limits the growth of rounding errors.
            let best = (0..left.len()).max_by(|&a, &b| size(left[a]).total_cmp(&size(left[b])));
            if let Some(at) = best.filter(|&at| size(left[at]) > SMALLEST_PIVOT) {
                self.pivot(left.swap_remove(at), col);
            }
        }
    }

    /// Lowers `μ` to 0; returns `None` if the limit on pivots is reached.
    fn optimise(&mut self) -> Option<()> {
        let limit = MAX_PIVOTS * (self.basic.len() + self.others.len());
        for _ in 0..limit {
            let (row, row_needs) = needed(&self.constant, &self.constant_shift, -1.0);
            let (col, col_needs) = needed(&self.profit, &self.profit_shift, 1.0);
            let mu = row_needs.max(col_needs);
            if mu <= 0.0 {
                return Some(());
            }
            if row_needs >= col_needs {
                let col = self.entering(row, mu)?;
                self.pivot(row, col);
            } else {
                let row = self.leaving(col, mu)?;
                self.pivot(row, col);
            }
        }
        None
    }

    /// Returns the entering column when a row must leave: the column whose profit reaches 0 first.
    fn entering(&self, row: usize, mu: f64) -> Option<usize> {
        let n_cols = self.others.len();
        let body = &self.body[row * n_cols..][..n_cols];
        let ratio = |col: usize| (mu * self.profit_shift[col] - self.profit[col]) / -body[col];
        least(
            (0..n_cols).filter(|&col| body[col] < -SMALLEST_PIVOT),
            ratio,
        )
    }

    /// Returns the leaving row when a column must enter: the row whose basic variable reaches 0
    /// first.
    fn leaving(&self, col: usize, mu: f64) -> Option<usize> {
        let n_cols = self.others.len();
        let body = |row: usize| self.body[row * n_cols + col];
        let ratio = |row: usize| (self.constant[row] + mu * self.constant_shift[row]) / body(row);
        least(
            (0..self.basic.len()).filter(|&row| body(row) > SMALLEST_PIVOT),
            ratio,
        )
    }

    fn pivot(&mut self, row: usize, col: usize) {
        eliminate(self, row, col);
        std::mem::swap(&mut self.basic[row], &mut self.others[col]);
    }

    /// Reads both strategies: the columns' from the constants, the rows' from the profits.
    fn profile(&self, n_rows: usize, n_cols: usize) -> Option<Profile> {
        let mut rows = vec![0.0; n_rows];
        let mut cols = vec![0.0; n_cols];
        for (&variable, constant) in self.basic.iter().zip(&self.constant) {
            if variable >= n_rows {
                cols[variable - n_rows] = constant.max(0.0);
            }
        }
        for (&variable, profit) in self.others.iter().zip(&self.profit) {
            if variable < n_rows {
                rows[variable] = (-profit).max(0.0);
            }
        }
        for strategy in [&mut rows, &mut cols] {
            let total: f64 = strategy.iter().sum();
            if !(total > 0.0 && total.is_finite()) {
                return None;
            }
            strategy.iter_mut().for_each(|p| *p /= total);
        }
        Some(vec![rows, cols])
    }
}

/// Returns the entry that needs the largest `μ`, and this `μ`: an entry is feasible while
/// `μ shift >= sign entry`.
fn needed(entries: &[f64], shifts: &[f64], sign: f64) -> (usize, f64) {
    let mut highest = (0, f64::NEG_INFINITY);
    for (at, (entry, shift)) in entries.iter().zip(shifts).enumerate() {
        if *shift > SMALLEST_PIVOT && sign * entry / shift > highest.1 {
            highest = (at, sign * entry / shift);
        }
    }
    highest
}

/// Returns the first index with the smallest ratio.
fn least(indices: impl Iterator<Item = usize>, ratio: impl Fn(usize) -> f64) -> Option<usize> {
    indices.min_by(|&a, &b| ratio(a).total_cmp(&ratio(b)))
}

simd! {
    /// Exchanges the variables of a row and a column and updates all entries.
    fn eliminate<'a, S>(_simd; tableau: &'a mut Tableau, row: usize, col: usize) {
        let n_cols = tableau.others.len();
        let inverse = 1.0 / tableau.body[row * n_cols + col];
        let (above, rest) = tableau.body.split_at_mut(row * n_cols);
        let (pivot_row, below) = rest.split_at_mut(n_cols);
        pivot_row.iter_mut().for_each(|entry| *entry *= inverse);
        pivot_row[col] = inverse;
        let (constant, shift) = (tableau.constant[row] * inverse, tableau.constant_shift[row] * inverse);
        let before = above.chunks_exact_mut(n_cols).enumerate();
        let after = below.chunks_exact_mut(n_cols).enumerate().map(|(at, body)| (at + row + 1, body));
        for (other, body) in before.chain(after) {
            let factor = body[col];
            subtract(body, factor, pivot_row, col);
            tableau.constant[other] -= factor * constant;
            tableau.constant_shift[other] -= factor * shift;
        }
        tableau.constant[row] = constant;
        tableau.constant_shift[row] = shift;
        for profit in [&mut tableau.profit, &mut tableau.profit_shift] {
            let factor = profit[col];
            subtract(profit, factor, pivot_row, col);
        }
    }
}

/// Subtracts a multiple of the pivot row from a row; the entry in the pivot column is set
/// separately.
#[inline(always)]
fn subtract(entries: &mut [f64], factor: f64, pivot_row: &[f64], col: usize) {
    if factor == 0.0 {
        return;
    }
    entries[col] = 0.0;
    for (entry, pivot) in entries.iter_mut().zip(pivot_row) {
        *entry -= factor * pivot;
    }
}
