//! Zero-sum matrix games, in fractions.
//!
//! Method: payoffs are shifted and scaled to lie between 1 and 2; so the value is positive, and no sum of probabilities
//! needs to be an equation. The row player maximises `v` where `v <= Σ x_i a_ij` for each column and `Σ x_i <= 1`; the
//! prices of the columns are the other player's strategy.
//! Source: Dantzig 1951, "A proof of the equivalence of the programming problem and the game problem".

use super::program::{Domain, Optimum, Program, check_size};
use super::simplex;
use super::uniqueness::is_unique;
use crate::{MatrixGame, Rational, Result, StrategicGame};
use num_traits::{One, Zero};
use std::fmt;

/// The value of a zero-sum game and a strategy of either player that guarantees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct MatrixSolution {
    /// What the row player gains and the column player loses.
    pub value: Rational,
    /// The row player's and the column player's strategy.
    pub strategies: [Vec<Rational>; 2],
    /// Whether either player has no other optimal strategy; proved, whichever it is.
    pub unique: [bool; 2],
}

impl fmt::Display for MatrixSolution {
    /// Writes the value, and the strategies with whether they are unique: once if both players have the same.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "value {}", self.value)?;
        let [row, col] = &self.strategies;
        let word = |is_unique| if is_unique { "unique" } else { "not unique" };
        let sides = if row == col && self.unique[0] == self.unique[1] {
            vec![("", 0)]
        } else {
            vec![(" row", 0), (" column", 1)]
        };
        for (name, player) in sides {
            let separator = if name.is_empty() { "," } else { ";" };
            write!(f, "{separator}{name} {},", word(self.unique[player]))?;
            for probability in &self.strategies[player] {
                write!(f, " {probability}")?;
            }
        }
        Ok(())
    }
}

/// A zero-sum game that has been solved.
pub(super) struct Solved {
    program: Program,
    optimum: Optimum,
    n_rows: usize,
    /// The gain that the program takes for 0.
    zero: Rational,
    /// The gain that the program takes for 1.
    unit: Rational,
}

impl Solved {
    /// Solves the game of these gains of the row player, given by rows, of which there is at least one.
    pub(super) fn of(operation: &'static str, gains: &[Vec<Rational>]) -> Result<Self> {
        let (n_rows, n_cols) = (gains.len(), gains[0].len());
        check_size(operation, n_rows.saturating_mul(n_cols))?;
        let (least, unit) = extent(gains);
        let zero = least - &unit;
        let variables = [Rational::one()]
            .into_iter()
            .chain(vec![Rational::zero(); n_rows]);
        let mut program = Program::maximize(variables.map(|share| (Domain::NonNegative, share)));
        for col in 0..n_cols {
            let share = |(row, gains): (usize, &Vec<Rational>)| (1 + row, &zero - &gains[col]);
            let mut terms: Vec<_> = gains.iter().enumerate().map(share).collect();
            terms.push((0, unit.clone()));
            program.push_row(terms, Domain::NonNegative, Rational::zero());
        }
        let sum = (0..n_rows).map(|row| (1 + row, Rational::one()));
        program.push_row(sum.collect(), Domain::NonNegative, Rational::one());
        let optimum = simplex::solve(&program).map_err(|fault| fault.of_game(operation))?;
        Ok(Self {
            program,
            optimum,
            n_rows,
            zero,
            unit,
        })
    }

    pub(super) fn value(&self) -> Rational {
        self.program.value(&self.optimum) * &self.unit + &self.zero
    }

    pub(super) fn row_strategy(&self) -> Vec<Rational> {
        let probability = |row| self.program.variable(&self.optimum, 1 + row);
        (0..self.n_rows).map(probability).collect()
    }

    fn column_strategy(&self) -> Vec<Rational> {
        let n_cols = self.program.n_rows() - 1;
        let price = |col| self.program.price(&self.optimum, col) * &self.unit;
        (0..n_cols).map(price).collect()
    }

    fn unique(&self, operation: &'static str) -> Result<[bool; 2]> {
        let twin = self.optimum.clone().swapped(&self.program);
        let row = is_unique(&self.program, &self.optimum);
        let col = is_unique(&self.program.dual(), &twin);
        let side = |side: std::result::Result<bool, simplex::Fault>| {
            side.map_err(|fault| fault.of_game(operation))
        };
        Ok([side(row)?, side(col)?])
    }
}

/// Solves a game.
pub(super) fn solve_game(game: &MatrixGame) -> Result<MatrixSolution> {
    const OPERATION: &str = "exact";
    check_size(OPERATION, game.gains().len())?;
    let row = |row| (0..game.n_cols()).map(move |col| game.payoff(0, &[row, col]));
    let gains: Vec<Vec<Rational>> = (0..game.n_rows()).map(|at| row(at).collect()).collect();
    let solved = Solved::of(OPERATION, &gains)?;
    Ok(MatrixSolution {
        value: solved.value(),
        strategies: [solved.row_strategy(), solved.column_strategy()],
        unique: solved.unique(OPERATION)?,
    })
}

/// Gives the smallest gain and by how much the largest exceeds it; 1 if it does not.
fn extent(gains: &[Vec<Rational>]) -> (Rational, Rational) {
    let all = || gains.iter().flatten().cloned();
    let least = all().min().unwrap_or_default();
    let range = all().max().unwrap_or_default() - &least;
    let is_constant = range.is_zero();
    (least, if is_constant { Rational::one() } else { range })
}
