//! Games in which every player chooses one action, once and simultaneously.
//!
//! Role: three types, one for each shape of game, that compute the values of a player's actions
//! against the strategies of the others. Learning, best responses and NashConv need no other
//! operation.

mod bimatrix;
mod labels;
mod learning;
mod matrix;
mod normal_form;
mod polish;
mod product;
pub(crate) mod table;

pub use bimatrix::Bimatrix;
pub use labels::Labels;
pub use matrix::MatrixGame;
pub use normal_form::NormalForm;

use crate::{Profile, Rational};
use num_traits::Zero;

/// A game in strategic form: [`MatrixGame`], [`Bimatrix`] or [`NormalForm`].
///
/// Players and actions are numbered from 0. A profile is one strategy for each player, a strategy
/// one probability for each action.
pub trait StrategicGame: Sync + sealed::Sealed {
    /// Returns the number of actions of each player.
    fn shape(&self) -> &[usize];

    /// Returns the names of the game, its players and their actions.
    fn labels(&self) -> &Labels;

    /// Returns a player's exact payoff in a cell, which has one action for each player.
    ///
    /// # Panics
    /// If `cell` is not one action of each player.
    fn payoff(&self, player: usize, cell: &[usize]) -> Rational;

    /// Returns a player's largest payoff minus the smallest.
    fn payoff_range(&self, player: usize) -> f64;

    /// Writes the expected payoff of each action of a player against the other players'
    /// strategies.
    ///
    /// Strategies need not sum to 1; the result is linear in each of them. The order of sums is
    /// fixed.
    ///
    /// # Panics
    /// If the profile or `values` do not fit the shape.
    fn action_values(&self, player: usize, profile: &[Vec<f64>], values: &mut [f64]) {
        self.expected(Base::Given, player, profile, values);
    }

    /// Writes the action values of all players, in one pass over the payoffs if possible.
    ///
    /// # Panics
    /// If the profile or `values` do not fit the shape.
    fn all_action_values(&self, profile: &[Vec<f64>], values: &mut [Vec<f64>]) {
        self.all_expected(Base::Given, profile, values);
    }

    /// Writes the expected payoff, as given or centred, of each action of a player.
    #[doc(hidden)]
    fn expected(&self, base: Base, player: usize, profile: &[Vec<f64>], values: &mut [f64]);

    /// Writes the expected payoffs of [`Self::expected`] for all players.
    #[doc(hidden)]
    fn all_expected(&self, base: Base, profile: &[Vec<f64>], values: &mut [Vec<f64>]) {
        for (player, values) in values.iter_mut().enumerate() {
            self.expected(base, player, profile, values);
        }
    }

    /// Returns the constant to add to a player's centred payoffs.
    #[doc(hidden)]
    fn constant(&self, player: usize) -> f64;

    /// Returns the largest absolute value of a player's centred payoffs.
    #[doc(hidden)]
    fn payoff_size(&self, player: usize) -> f64;

    /// Returns a candidate equilibrium near a profile; `None` if linear algebra finds no candidate.
    /// The caller has to evaluate the candidate.
    #[doc(hidden)]
    fn polished(&self, _profile: &[Vec<f64>]) -> Option<Profile> {
        None
    }

    /// Returns the sum of the payoffs of two players, if all cells have the same sum.
    fn constant_sum(&self) -> Option<Rational>;

    /// Returns whether there are two players whose payoffs sum to zero in all cells.
    fn is_zero_sum(&self) -> bool {
        self.constant_sum().is_some_and(|sum| sum.is_zero())
    }
}

/// The payoffs used in an expectation.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub enum Base {
    /// The payoffs as given, each rounded to the nearest float.
    Given,
    /// The payoffs minus a constant for each player.
    Centred,
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::MatrixGame {}
    impl Sealed for super::Bimatrix {}
    impl Sealed for super::NormalForm {}
}
