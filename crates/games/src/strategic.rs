//! Games in which every player chooses one action, once and at the same time.
//!
//! Role: three types, one for each shape of game, that answer one question: what is each of my actions worth against
//! what the others do? Dynamics, best responses and NashConv need no more.

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
/// Players and actions are numbered from 0. A profile is one strategy for each player, a strategy one probability for
/// each action.
pub trait StrategicGame: Sync + sealed::Sealed {
    /// Gives the number of actions of each player.
    fn shape(&self) -> &[usize];

    /// Gives the names of the game, its players and their actions.
    fn labels(&self) -> &Labels;

    /// Gives a player's payoff where each player chooses one action, as it was given.
    ///
    /// # Panics
    /// If `cell` is not one action of each player.
    fn payoff(&self, player: usize, cell: &[usize]) -> Rational;

    /// Gives a player's largest payoff less the smallest.
    fn payoff_range(&self, player: usize) -> f64;

    /// Writes what each action of a player is worth against the strategies of the others: its expected payoff.
    ///
    /// Strategies need not sum to 1; the result is linear in each of them. The order of sums is fixed.
    ///
    /// # Panics
    /// If the profile or `values` do not fit the shape.
    fn action_values(&self, player: usize, profile: &[Vec<f64>], values: &mut [f64]) {
        self.expected(Base::Given, player, profile, values);
    }

    /// Writes what [`Self::action_values`] writes, for all players, in one pass over the payoffs where that can be.
    ///
    /// # Panics
    /// If the profile or `values` do not fit the shape.
    fn all_action_values(&self, profile: &[Vec<f64>], values: &mut [Vec<f64>]) {
        self.all_expected(Base::Given, profile, values);
    }

    /// Writes the expected payoff, as given or centred, of each action of a player.
    #[doc(hidden)]
    fn expected(&self, base: Base, player: usize, profile: &[Vec<f64>], values: &mut [f64]);

    /// Writes what [`Self::expected`] writes, for all players.
    #[doc(hidden)]
    fn all_expected(&self, base: Base, profile: &[Vec<f64>], values: &mut [Vec<f64>]) {
        for (player, values) in values.iter_mut().enumerate() {
            self.expected(base, player, profile, values);
        }
    }

    /// Returns the constant by which a player's payoffs exceed the centred ones.
    #[doc(hidden)]
    fn constant(&self, player: usize) -> f64;

    /// Returns the largest absolute value of a player's centred payoffs.
    #[doc(hidden)]
    fn payoff_size(&self, player: usize) -> f64;

    /// Gives an equilibrium that a profile is near to, where linear algebra can find it; it is to be judged.
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

/// The payoffs that an expectation is taken of.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub enum Base {
    /// The payoffs as given, each rounded to the nearest float.
    Given,
    /// The payoffs less a constant per player.
    Centred,
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::MatrixGame {}
    impl Sealed for super::Bimatrix {}
    impl Sealed for super::NormalForm {}
}
