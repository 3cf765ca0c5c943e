//! The payoffs of one player: floats for dynamics, fractions for proofs.

use super::Base;
use crate::centre::{self, Centred};
use crate::number::{self, Number, Rational};
use crate::{Error, Result};

/// Largest size of a payoff: sums of weighted regrets over any number of iterations stay finite.
pub(crate) const MAX_PAYOFF: f64 = 1e150;

/// One player's payoff for each cell of a game, row-major.
///
/// Fractions are kept only where the floats are not the numbers that were given.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Table {
    floats: Vec<f64>,
    fractions: Option<Vec<Rational>>,
    /// The payoffs less a constant, unless the constant is 0.
    centred: Option<Centred>,
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
        let fractions: Option<Vec<Rational>> = if payoffs.clone().all(Number::is_float) {
            None
        } else {
            payoffs.map(Number::exact).collect()
        };
        let centred = match &fractions {
            Some(fractions) => Centred::of_fractions(fractions),
            None => Centred::of_floats(&floats),
        };
        Ok(Self {
            floats,
            fractions,
            centred,
        })
    }

    /// Gives the payoffs, each rounded to the nearest f64.
    pub(crate) fn floats(&self) -> &[f64] {
        &self.floats
    }

    /// Returns the payoffs of a base.
    pub(crate) fn of_base(&self, base: Base) -> &[f64] {
        match base {
            Base::Given => self.floats(),
            Base::Centred => self.centred(),
        }
    }

    /// Returns the payoffs less [`Self::constant`], each rounded once.
    pub(crate) fn centred(&self) -> &[f64] {
        match &self.centred {
            Some(centred) => &centred.payoffs,
            None => &self.floats,
        }
    }

    /// Returns the constant by which payoffs exceed the centred ones, rounded.
    pub(crate) fn constant(&self) -> f64 {
        self.centred
            .as_ref()
            .map_or(0.0, |centred| centred.constant)
    }

    /// Returns the largest absolute value of a centred payoff.
    pub(crate) fn size(&self) -> f64 {
        centre::largest_size(self.centred())
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
            centred: self.centred.as_ref().map(|centred| Centred {
                constant: -centred.constant,
                payoffs: centred.payoffs.iter().map(|payoff| -payoff).collect(),
            }),
        }
    }

    /// Returns the sum of this payoff and another player's, which all cells have, or the first cell
    /// with another sum than the first cell's.
    pub(crate) fn constant_sum(&self, other: &Self) -> std::result::Result<Rational, usize> {
        let sum = |at: usize| self.fraction(at) + other.fraction(at);
        let constant = sum(0);
        match (1..self.floats.len()).find(|&at| sum(at) != constant) {
            Some(at) => Err(at),
            None => Ok(constant),
        }
    }

    /// Gives the largest payoff less the smallest.
    pub(crate) fn range(&self) -> f64 {
        number::range(self.centred().iter().copied())
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
