//! The payoffs of one player: floats for learning, fractions for proofs.

use super::Base;
use crate::centre::{self, Centred};
use crate::equality::equality;
use crate::number::{self, Number, Rational};
use crate::{Error, Result};

/// Largest absolute value of a payoff, so that sums of weighted regrets stay finite over any number
/// of iterations.
pub(crate) const MAX_PAYOFF: f64 = 1e150;

/// The payoffs of one player, one for each cell of a game, row-major.
///
/// Fractions are stored only if the floats are not exactly the given numbers.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    floats: Vec<f64>,
    fractions: Option<Vec<Rational>>,
    /// The payoffs minus a constant, unless the constant is 0.
    centred: Option<Centred>,
}

equality!(Table { floats, centred; fractions });

impl Table {
    /// Creates a table from the payoffs of a game of this shape.
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

    /// Returns the payoffs, each rounded to the nearest f64.
    pub(crate) fn floats(&self) -> &[f64] {
        &self.floats
    }

    /// Returns the payoffs as given or centred, according to `base`.
    pub(crate) fn of_base(&self, base: Base) -> &[f64] {
        match base {
            Base::Given => self.floats(),
            Base::Centred => self.centred(),
        }
    }

    /// Returns the payoffs minus [`Self::constant`], each rounded once.
    pub(crate) fn centred(&self) -> &[f64] {
        match &self.centred {
            Some(centred) => &centred.payoffs,
            None => &self.floats,
        }
    }

    /// Returns the constant to add to centred payoffs, rounded.
    pub(crate) fn constant(&self) -> f64 {
        self.centred
            .as_ref()
            .map_or(0.0, |centred| centred.constant)
    }

    /// Returns the largest absolute value of a centred payoff.
    pub(crate) fn size(&self) -> f64 {
        centre::largest_size(self.centred())
    }

    /// Returns the exact payoff of a cell.
    pub(crate) fn fraction(&self, at: usize) -> Rational {
        match &self.fractions {
            Some(fractions) => fractions[at].clone(),
            None => number::exact_float(self.floats[at]),
        }
    }

    /// Returns the table with all signs changed.
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

    /// Returns the sum of this player's and another player's payoff if it is the same in all cells;
    /// otherwise the first cell whose sum differs from the sum of cell 0.
    pub(crate) fn constant_sum(&self, other: &Self) -> std::result::Result<Rational, usize> {
        let sum = |at: usize| self.fraction(at) + other.fraction(at);
        let constant = sum(0);
        match (1..self.floats.len()).find(|&at| number::compare(&sum(at), &constant).is_ne()) {
            Some(at) => Err(at),
            None => Ok(constant),
        }
    }

    /// Returns the largest payoff minus the smallest.
    pub(crate) fn range(&self) -> f64 {
        number::range(self.centred().iter().copied())
    }
}

/// Returns the row-major position of a cell.
///
/// # Panics
/// If the cell is not one action of each player.
pub(super) fn position(shape: &[usize], cell: &[usize]) -> usize {
    assert_eq!(cell.len(), shape.len(), "one action for each player");
    let place = |at, (&side, &action): (&usize, &usize)| {
        assert!(action < side, "action {action} of a player with {side}");
        at * side + action
    };
    shape.iter().zip(cell).fold(0, place)
}

/// Returns the indices of a cell from its row-major position.
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
