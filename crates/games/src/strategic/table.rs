//! The payoffs of one player: floats for dynamics, fractions for proofs.

use crate::number::{self, Number, Rational};
use crate::{Error, Result};
use num_traits::Zero;

/// Largest size of a payoff: sums of weighted regrets over any number of iterations stay finite.
pub(crate) const MAX_PAYOFF: f64 = 1e150;

/// One player's payoff for each cell of a game, row-major.
///
/// Fractions are kept only where the floats are not the numbers that were given.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Table {
    floats: Vec<f64>,
    fractions: Option<Vec<Rational>>,
}

impl Table {
    /// Takes payoffs of a game of this shape.
    pub(crate) fn new<'a, T: Number + 'a>(
        operation: &'static str,
        player: usize,
        shape: &[usize],
        payoffs: impl Iterator<Item = &'a T> + Clone,
    ) -> Result<Self> {
        let floats: Vec<f64> = payoffs.clone().map(Number::nearest).collect();
        let fault = floats
            .iter()
            .position(|&payoff| payoff.is_nan() || payoff.abs() > MAX_PAYOFF);
        if let Some(at) = fault {
            return Err(Error::PayoffInvalid {
                operation,
                player,
                cell: cell(shape, at),
                limit: MAX_PAYOFF,
            });
        }
        let fractions = if payoffs.clone().all(Number::is_float) {
            None
        } else {
            payoffs.map(Number::exact).collect()
        };
        Ok(Self { floats, fractions })
    }

    /// Gives the payoffs, each rounded to the nearest f64.
    pub(crate) fn floats(&self) -> &[f64] {
        &self.floats
    }

    /// Gives the payoff of a cell as it was given.
    pub(crate) fn fraction(&self, at: usize) -> Rational {
        match &self.fractions {
            Some(fractions) => fractions[at].clone(),
            None => number::exact_float(self.floats[at]),
        }
    }

    /// Gives the same table with the other sign.
    pub(crate) fn negated(&self) -> Self {
        let fractions = self.fractions.as_deref();
        Self {
            floats: self.floats.iter().map(|payoff| -payoff).collect(),
            fractions: fractions.map(|all| all.iter().map(|payoff| -payoff).collect()),
        }
    }

    /// Gives the first cell in which this payoff and another player's do not sum to zero.
    pub(crate) fn first_surplus(&self, other: &Self) -> Option<usize> {
        let sum = |at: &usize| self.fraction(*at) + other.fraction(*at);
        (0..self.floats.len()).find(|at| !sum(at).is_zero())
    }

    /// Gives the largest payoff less the smallest.
    pub(crate) fn range(&self) -> f64 {
        number::range(self.floats.iter().copied())
    }
}

/// Gives the indices of a cell from its place in row-major order.
pub(crate) fn cell(shape: &[usize], at: usize) -> Vec<usize> {
    let mut rest = at;
    let mut cell: Vec<usize> = shape
        .iter()
        .rev()
        .map(|&side| {
            let index = rest % side;
            rest /= side;
            index
        })
        .collect();
    cell.reverse();
    cell
}
