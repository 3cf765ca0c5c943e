//! The distance of profiles from an equilibrium.
//!
//! Role: evaluates the results of every solver, independently of how a profile was found.

use crate::game::{BestResponses, Game};
use crate::{Error, Result};

/// Tolerance for the sum of the probabilities of a strategy.
pub(crate) const SUM_TOLERANCE: f64 = 1e-9;

/// Returns the payoffs of a profile, and a best response of each player to it.
///
/// Cost: one pass over the payoffs for each player.
///
/// # Errors
/// [`Error::ProfileInvalid`] if the profile does not have one strategy for each player, or if a
/// strategy is not a probability distribution.
///
/// # Examples
/// ```
/// use games::{MatrixGame, best_response, ndarray::array};
///
/// let game = MatrixGame::zero_sum(array![[0, -1, 2], [1, 0, -1], [-2, 1, 0]])?;
/// let always_rock = vec![vec![1.0, 0.0, 0.0]; 2];
/// let answers = best_response(&game, &always_rock)?;
/// assert_eq!(answers.strategies[0], [0.0, 1.0, 0.0]);
/// assert_eq!(answers.nash_conv(), 2.0);
/// # Ok::<(), games::Error>(())
/// ```
pub fn best_response<G: Game + ?Sized>(game: &G, profile: &[Vec<f64>]) -> Result<BestResponses> {
    check("best_response", game, profile)?;
    Ok(game.responses(profile))
}

/// Returns NashConv of a profile: the sum over players of the gain from a best response, in
/// payoffs.
///
/// Accuracy: within [`BestResponses::rounding`]. Adding a constant to all payoffs of a player does
/// not change NashConv beyond rounding; the bound may grow with the constant.
///
/// # Errors
/// As [`best_response`].
pub fn nash_conv<G: Game + ?Sized>(game: &G, profile: &[Vec<f64>]) -> Result<f64> {
    check("nash_conv", game, profile)?;
    Ok(game.responses(profile).nash_conv())
}

/// Returns the exploitability of a profile: NashConv divided by the number of players.
///
/// # Errors
/// As [`best_response`].
pub fn exploitability<G: Game + ?Sized>(game: &G, profile: &[Vec<f64>]) -> Result<f64> {
    check("exploitability", game, profile)?;
    Ok(game.responses(profile).nash_conv() / game.n_players() as f64)
}

/// Returns an error unless the profile has one probability distribution for each choice of each
/// player.
pub(crate) fn check<G: Game + ?Sized>(
    operation: &'static str,
    game: &G,
    profile: &[Vec<f64>],
) -> Result<()> {
    let invalid = |player, fault| {
        Err(Error::ProfileInvalid {
            operation,
            player,
            fault,
        })
    };
    for player in 0..game.n_players().max(profile.len()) {
        let Some(strategy) = profile.get(player).filter(|_| player < game.n_players()) else {
            let fault = format!(
                "wrong number of strategies ({}; expected one for each of {} players)",
                profile.len(),
                game.n_players()
            );
            return invalid(player, fault);
        };
        let choices = game.choices(player);
        let expected: usize = choices.iter().sum();
        if strategy.len() != expected {
            let fault = format!("wrong length ({}; expected {expected})", strategy.len());
            return invalid(player, fault);
        }
        let mut first = 0;
        for (choice, n_actions) in choices.into_iter().enumerate() {
            let probabilities = &strategy[first..first + n_actions];
            first += n_actions;
            let sum: f64 = probabilities.iter().sum();
            let is_good =
                probabilities.iter().all(|&p| p >= 0.0) && (sum - 1.0).abs() <= SUM_TOLERANCE;
            if !is_good {
                let fault = format!(
                    "not a distribution at choice {choice} (sum {sum}; expected 1, all numbers at least 0)"
                );
                return invalid(player, fault);
            }
        }
    }
    Ok(())
}
