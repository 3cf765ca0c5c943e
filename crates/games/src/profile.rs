//! Profiles, and how far one is from an equilibrium.
//!
//! Role: the judge of every solver. Nothing here knows how a profile was found.

use crate::{Error, Result};

/// One strategy for each player.
///
/// In a strategic game a strategy is one probability for each action; in an extensive game one for each action of each of
/// the player's information sets, in the order of [`crate::extensive::Sequences::decisions`].
pub type Profile = Vec<Vec<f64>>;

/// How far the probabilities of a strategy may be from 1 in sum.
pub(crate) const SUM_TOLERANCE: f64 = 1e-9;

/// What a profile gives, and what each player could have instead.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BestResponses {
    /// Each player's expected payoff. Its rounding error is a few units of roundoff for each action,
    /// times the expected absolute value of the payoffs: a payoff that is not played adds none.
    pub values: Vec<f64>,
    /// Each player's largest expected payoff against the strategies of the others.
    pub best_values: Vec<f64>,
    /// A pure strategy that gets it; the first of the best actions everywhere.
    pub strategies: Profile,
    /// Gain of each player by its best response, at least 0: a sum of losses of the actions played,
    /// which does not depend on a constant in the payoffs.
    pub gains: Vec<f64>,
    /// Upper bound on the rounding error of [`Self::nash_conv`], in payoffs.
    pub rounding: f64,
}

impl BestResponses {
    /// Returns NashConv, the sum over players of what a best response gains: 0 at an equilibrium
    /// and nowhere else, within [`Self::rounding`].
    #[must_use]
    pub fn nash_conv(&self) -> f64 {
        self.gains.iter().sum()
    }

    /// Returns an upper bound of NashConv: the computed one and its rounding error.
    #[must_use]
    pub fn nash_conv_bound(&self) -> f64 {
        self.nash_conv() + self.rounding
    }
}

/// A game that profiles can be judged in: every strategic game, and [`crate::extensive::Arena`].
pub trait Game: Sync + crate::run::Play {
    /// Gives the number of players.
    fn n_players(&self) -> usize;

    /// Gives the numbers of actions of the sets that a player chooses in; a strategic game has one set.
    fn choices(&self, player: usize) -> Vec<usize>;

    /// Gives the largest range of a player's payoffs: the largest less the smallest.
    fn range(&self) -> f64;

    /// Gives best responses to a profile that was checked.
    #[doc(hidden)]
    fn responses(&self, profile: &[Vec<f64>]) -> BestResponses;
}

/// Gives what a profile is worth, and a best response of each player to it.
///
/// Cost: one pass over the payoffs for each player.
///
/// # Errors
/// [`Error::ProfileInvalid`] if the profile is not one strategy for each player, or a strategy is no distribution.
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

/// Gives NashConv of a profile: the sum over players of what a best response gains over it, in payoffs.
///
/// Accuracy: within [`BestResponses::rounding`]. A constant added to all payoffs of a player
/// changes neither.
///
/// # Errors
/// As [`best_response`].
pub fn nash_conv<G: Game + ?Sized>(game: &G, profile: &[Vec<f64>]) -> Result<f64> {
    check("nash_conv", game, profile)?;
    Ok(game.responses(profile).nash_conv())
}

/// Gives the exploitability of a profile: NashConv over the number of players.
///
/// # Errors
/// As [`best_response`].
pub fn exploitability<G: Game + ?Sized>(game: &G, profile: &[Vec<f64>]) -> Result<f64> {
    check("exploitability", game, profile)?;
    Ok(game.responses(profile).nash_conv() / game.n_players() as f64)
}

/// Refuses what is not one distribution for each choice of each player.
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
                "one of {}, the game has {} players",
                profile.len(),
                game.n_players()
            );
            return invalid(player, fault);
        };
        let choices = game.choices(player);
        let expected: usize = choices.iter().sum();
        if strategy.len() != expected {
            let fault = format!("{} numbers long, it must be {expected}", strategy.len());
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
                    "no distribution at choice {choice}: its sum is {sum}, or a number is negative or NaN"
                );
                return invalid(player, fault);
            }
        }
    }
    Ok(())
}
