//! Zero-sum matrix games, in fractions.
//!
//! Method: payoffs are shifted and scaled to between 1 and 2. The value is then positive, so the
//! constraint on the sum of probabilities can be an inequality. The row player maximises `v` where
//! `v <= Σ x_i a_ij` for each column and `Σ x_i <= 1`; the dual prices of the column constraints
//! are the column player's strategy.
//! Source: Dantzig 1951, "A proof of the equivalence of the programming problem and the game
//! problem".

use super::gcd::{difference, lowest_terms};
use super::guess;
use super::program::{Domain, LinearProgram, Optimum, check_size};
use super::simplex::{self, SimplexError};
use super::uniqueness::is_unique;
use super::work::{LimitReached, Prover, Work};
use crate::equality::equality;
use crate::number::{compare, compare_lists, nearest};
use crate::{Checkpoint, MatrixGame, Rational, Result, SolverConfig, StrategicGame, solve_with};
use ndarray::Array2;
use num_bigint::BigInt;
use num_traits::{One, Zero};
use std::fmt;
use std::ops::ControlFlow;

/// Learning iterations for each action of either player, enough for three attempts to finish by
/// linear algebra.
const ITERATIONS_PER_ACTION: u64 = 5;
/// NashConv, relative to the range of payoffs, that linear algebra must reach.
const TARGET: f64 = 1e-9;

/// The value of a zero-sum game, and a strategy of each player that guarantees the value.
#[derive(Clone, Debug, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct MatrixSolution {
    /// The row player's payoff at equilibrium.
    pub value: Rational,
    /// The row player's and the column player's strategy.
    pub strategies: [Vec<Rational>; 2],
    /// Whether each player's optimal strategy is unique; both outcomes are proved.
    pub unique: [bool; 2],
}

equality!(MatrixSolution { unique; value, strategies });

impl fmt::Display for MatrixSolution {
    /// Writes the value and the strategies, with their uniqueness. Equal strategies of both players
    /// are written once.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "value {}", self.value)?;
        let [row, col] = &self.strategies;
        let word = |is_unique| if is_unique { "unique" } else { "not unique" };
        let are_equal = compare_lists(row, col).is_eq();
        let sides = if are_equal && self.unique[0] == self.unique[1] {
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
    program: LinearProgram,
    optimum: Optimum,
    n_rows: usize,
    /// The payoff that corresponds to 0 in the program.
    zero: Rational,
    /// The difference of payoffs that corresponds to 1 in the program.
    unit: Rational,
}

impl Solved {
    /// Solves the game with the row player's payoffs, `[rows][cols]`; there is at least one row.
    pub(super) fn new(
        operation: &'static str,
        gains: &[Vec<Rational>],
        work: &Work<'_>,
    ) -> Result<Self> {
        let (n_rows, n_cols) = (gains.len(), gains[0].len());
        check_size(operation, n_rows.saturating_mul(n_cols))?;
        Self::prove(gains, work).map_err(|fault| fault.of_game(operation))
    }

    fn prove(gains: &[Vec<Rational>], work: &Work<'_>) -> std::result::Result<Self, SimplexError> {
        // The steps are those of this program, whether or not its supports are learnt.
        work.begin_program();
        let (n_rows, n_cols) = (gains.len(), gains[0].len());
        let (least, unit) = extent(gains, work)?;
        let zero = difference(&least, &unit, work)?;
        // The smallest payoff becomes 1 unit, the largest 2 units (both 1 if all are equal).
        let above = |gain| difference(gain, &zero, work);
        let gains: Vec<Vec<Rational>> = gains
            .iter()
            .map(|gains| gains.iter().map(above).collect())
            .collect::<std::result::Result<_, _>>()?;
        // Columns of the program: the value `v` with objective 1, then the rows' probabilities.
        let variables = [Rational::one()]
            .into_iter()
            .chain(vec![Rational::zero(); n_rows]);
        let variables = variables.map(|share| (Domain::NonNegative, share));
        let mut program = LinearProgram::maximize(variables, work)?;
        for col in 0..n_cols {
            let share = |(row, gains): (usize, &Vec<Rational>)| (1 + row, -&gains[col]);
            let mut terms: Vec<_> = gains.iter().enumerate().map(share).collect();
            terms.push((0, unit.clone()));
            program.push_row(terms, Domain::NonNegative, Rational::zero(), work)?;
        }
        let sum = (0..n_rows).map(|row| (1 + row, Rational::one()));
        program.push_row(sum.collect(), Domain::NonNegative, Rational::one(), work)?;
        let optimum = match learnt_supports(&gains, &unit, work) {
            Some(supports) => {
                let preference = guess::by_merit(&program, &merits(&supports));
                simplex::solve_from(&program, &preference, work)?
            }
            None => simplex::solve(&program, work)?,
        };
        Ok(Self {
            program,
            optimum,
            n_rows,
            zero,
            unit,
        })
    }

    pub(super) fn value(&self, work: &Work<'_>) -> std::result::Result<Rational, LimitReached> {
        Ok(self.program.value(&self.optimum, work)? * &self.unit + &self.zero)
    }

    pub(super) fn row_strategy(
        &self,
        work: &Work<'_>,
    ) -> std::result::Result<Vec<Rational>, LimitReached> {
        let probability = |row| self.program.variable(&self.optimum, 1 + row, work);
        (0..self.n_rows).map(probability).collect()
    }

    /// Returns the column player's strategy, which is proportional to the dual prices of the column
    /// constraints.
    fn column_strategy(&self, work: &Work<'_>) -> std::result::Result<Vec<Rational>, LimitReached> {
        let n_cols = self.program.n_rows() - 1;
        let prices = self.program.common_prices(&self.optimum, 0..n_cols, work)?;
        let total: BigInt = prices.iter().sum();
        prices
            .iter()
            .map(|price| lowest_terms(price, &total, work))
            .collect()
    }

    fn unique(&self, work: &Work<'_>) -> std::result::Result<[bool; 2], SimplexError> {
        let twin = self.optimum.clone().swapped(&self.program, work)?;
        Ok([
            is_unique(&self.program, &self.optimum, work)?,
            is_unique(&self.program.dual(), &twin, work)?,
        ])
    }

    fn solution(&self, work: &Work<'_>) -> std::result::Result<MatrixSolution, SimplexError> {
        Ok(MatrixSolution {
            value: self.value(work)?,
            strategies: [self.row_strategy(work)?, self.column_strategy(work)?],
            unique: self.unique(work)?,
        })
    }
}

/// Returns whether each action of each player is played in an equilibrium found by learning and
/// linear algebra in floats. Returns `None` if no equilibrium was found, or if the supports differ
/// in size and so determine no basis.
///
/// For games of hundreds of actions this takes a fraction of the time of a general solver of linear
/// programs.
fn learnt_supports(
    gains: &[Vec<Rational>],
    unit: &Rational,
    work: &Work<'_>,
) -> Option<[Vec<bool>; 2]> {
    let (shape, unit) = ((gains.len(), gains[0].len()), nearest(unit));
    let scaled = |gain: &Rational| {
        work.count_fraction(gain.numer().bits() + gain.denom().bits())
            .ok()?;
        Some(nearest(gain) / unit)
    };
    let scaled: Option<Vec<f64>> = gains.iter().flatten().map(scaled).collect();
    let floats = Array2::from_shape_vec(shape, scaled?).ok()?;
    let game = MatrixGame::zero_sum(floats).ok()?;
    let iterations = ITERATIONS_PER_ACTION * (shape.0 + shape.1) as u64;
    let mut config = SolverConfig::default()
        .tolerance(TARGET)
        .iterations(iterations);
    config.stop.time = work.time_left();
    let progress = |_: &Checkpoint| match work.look() {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    };
    let solution = solve_with(&game, &config, progress).ok()?;
    let is_played = |strategy: &Vec<f64>| strategy.iter().map(|&p| p > 0.0).collect();
    let [rows, cols] = &solution.strategies[..] else {
        return None;
    };
    let supports: [Vec<bool>; 2] = [is_played(rows), is_played(cols)];
    let size = |player: usize| {
        supports[player]
            .iter()
            .filter(|&&is_played| is_played)
            .count()
    };
    (solution.polished && size(0) == size(1)).then_some(supports)
}

/// Returns a merit for each column of the program: 1 in the basis of two supports, -1 outside. The
/// basis consists of the value, the rows played, and the slacks of the columns not played.
fn merits([rows, cols]: &[Vec<bool>; 2]) -> Vec<f64> {
    let merit = |is_basic: bool| if is_basic { 1.0 } else { -1.0 };
    let value = std::iter::once(true);
    let basic = value
        .chain(rows.iter().copied())
        .chain(cols.iter().map(|is_played| !is_played));
    basic.chain([false]).map(merit).collect()
}

/// Solves a zero-sum matrix game.
pub(super) fn solve_game(game: &MatrixGame, prover: &Prover<'_>) -> Result<MatrixSolution> {
    const OPERATION: &str = "exact";
    check_size(OPERATION, game.row_payoffs().len())?;
    let work = Work::new(prover);
    let gains = row_payoffs(game, &work).map_err(|halt| halt.error(OPERATION))?;
    let solved = Solved::new(OPERATION, &gains, &work)?;
    solved
        .solution(&work)
        .map_err(|fault| fault.of_game(OPERATION))
}

/// Returns the row player's exact payoffs, `[rows][cols]`.
fn row_payoffs(
    game: &MatrixGame,
    work: &Work<'_>,
) -> std::result::Result<Vec<Vec<Rational>>, LimitReached> {
    let gain = |row, col| {
        let gain = game.payoff(0, &[row, col]);
        work.count_fraction(gain.numer().bits() + gain.denom().bits())?;
        Ok(gain)
    };
    (0..game.n_rows())
        .map(|row| (0..game.n_cols()).map(|col| gain(row, col)).collect())
        .collect()
}

/// Returns the smallest payoff and the range of payoffs; a range of 0 is replaced by 1.
fn extent(
    gains: &[Vec<Rational>],
    work: &Work<'_>,
) -> std::result::Result<(Rational, Rational), LimitReached> {
    let (mut least, mut most) = (&gains[0][0], &gains[0][0]);
    for gain in gains.iter().flatten() {
        work.count_product(gain.numer().bits(), least.denom().bits())?;
        if compare(gain, least).is_lt() {
            least = gain;
        } else if compare(gain, most).is_gt() {
            most = gain;
        }
    }
    let range = difference(most, least, work)?;
    let unit = if range.is_zero() {
        Rational::one()
    } else {
        range
    };
    Ok((least.clone(), unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_game_has_its_own_steps() {
        // Learning finds the supports of this game, whose value is 0.
        let gains = [[0, -1, 2], [1, 0, -1], [-2, 1, 0]];
        let fraction = |gain: i32| Rational::from_integer(gain.into());
        let gains = gains.map(|gains| gains.map(fraction).to_vec());
        let work = Work::with_steps(1);
        assert!(learnt_supports(&gains, &Rational::one(), &work).is_some());
        let solved = Solved::new("exact", &gains, &work).unwrap();
        assert_eq!(solved.value(&work), Ok(Rational::zero()));
    }
}
