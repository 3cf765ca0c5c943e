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
    /// If there is no such player, or `cell` is not one action of each player.
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
    /// If the profile does not have one strategy for each player, if the strategy of another player
    /// does not have one number for each action, or if `values` does not have one element for each
    /// action of the player.
    fn action_values(&self, player: usize, profile: &[Vec<f64>], values: &mut [f64]) {
        self.expected(Base::Given, player, profile, values);
    }

    /// Writes the action values of all players, in one pass over the payoffs if possible.
    ///
    /// # Panics
    /// If the profile or `values` does not have one array for each player, with one number for each
    /// of the player's actions.
    fn all_action_values(&self, profile: &[Vec<f64>], values: &mut [Vec<f64>]) {
        self.all_expected(Base::Given, profile, values);
    }

    /// Writes the expected payoff, as given or centred, of each action of a player.
    #[doc(hidden)]
    fn expected(&self, base: Base, player: usize, profile: &[Vec<f64>], values: &mut [f64]);

    /// Writes the expected payoffs of [`Self::expected`] for all players.
    #[doc(hidden)]
    fn all_expected(&self, base: Base, profile: &[Vec<f64>], values: &mut [Vec<f64>]) {
        assert_eq!(values.len(), self.shape().len(), "values of each player");
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

/// Panics unless the strategies of the other players, and the values of a player's actions, fit the
/// shape of a game.
fn assert_fits(shape: &[usize], player: usize, profile: &[Vec<f64>], values: &[f64]) {
    assert_eq!(values.len(), shape[player], "one value for each action");
    assert_eq!(profile.len(), shape.len(), "one strategy for each player");
    for (other, (strategy, &n_actions)) in profile.iter().zip(shape).enumerate() {
        assert!(
            other == player || strategy.len() == n_actions,
            "one probability for each action of player {other}"
        );
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

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{Array2, array};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// Returns a game of two and three actions as each type.
    fn games() -> Vec<Box<dyn StrategicGame>> {
        let payoffs: Array2<i32> = array![[1, 2, 3], [4, 5, 6]];
        let bimatrix = Bimatrix::new(payoffs.clone(), payoffs.clone()).expect("payoffs are valid");
        let constant = Bimatrix::new(payoffs.clone(), 1 - &payoffs).expect("payoffs are valid");
        let constant = MatrixGame::try_from(constant).expect("the sum is 1");
        let zero = MatrixGame::zero_sum(payoffs).expect("payoffs are valid");
        let normal = NormalForm::from(bimatrix.clone());
        vec![
            Box::new(bimatrix),
            Box::new(constant),
            Box::new(zero),
            Box::new(normal),
        ]
    }

    fn panics<R>(work: impl FnOnce() -> R) -> bool {
        catch_unwind(AssertUnwindSafe(work)).is_err()
    }

    #[test]
    fn payoffs_of_cells_outside_of_the_game_panic() {
        for game in games() {
            assert!(!panics(|| game.payoff(1, &[1, 2])));
            for cell in [&[0, 3][..], &[0, 5], &[2, 0], &[0], &[], &[0, 0, 0]] {
                assert!(panics(|| game.payoff(0, cell)), "{cell:?}");
            }
            assert!(panics(|| game.payoff(2, &[0, 0])));
        }
    }

    #[test]
    fn values_against_profiles_of_another_shape_panic() {
        let profile = |lengths: &[usize]| -> Profile {
            let strategies = lengths.iter().map(|&n_actions| vec![0.5; n_actions]);
            strategies.collect()
        };
        for game in games() {
            let values = |lengths: &[usize], player: usize, n_values: usize| {
                panics(|| game.action_values(player, &profile(lengths), &mut vec![0.0; n_values]))
            };
            assert!(!values(&[2, 3], 0, 2) && !values(&[2, 3], 1, 3));
            assert!(values(&[2, 2], 0, 2) && values(&[2, 1], 0, 2) && values(&[1, 3], 1, 3));
            assert!(values(&[2], 1, 3) && values(&[2, 3, 1], 0, 2));
            assert!(values(&[2, 3], 0, 3) && values(&[2, 3], 1, 2) && values(&[2, 3], 2, 2));
            let all = |lengths: &[usize], n_values: &[usize]| {
                panics(|| game.all_action_values(&profile(lengths), &mut profile(n_values)))
            };
            assert!(!all(&[2, 3], &[2, 3]));
            assert!(all(&[2, 2], &[2, 3]) && all(&[1, 3], &[2, 3]) && all(&[2, 3, 1], &[2, 3]));
            assert!(all(&[2, 3], &[2]) && all(&[2, 3], &[2, 3, 1]) && all(&[2, 3], &[3, 2]));
        }
    }
}
