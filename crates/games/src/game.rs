//! Games that can be learned: profiles, their evaluation, and the state of a learning run.
//!
//! Role: the contract between games and the loop in [`run`](mod@crate::run). A game computes best
//! responses and iterations; the loop decides when to stop.

use crate::simd::Numbers;
use crate::{Rule, SolverConfig, Updates};

/// One strategy for each player.
///
/// In a strategic game a strategy is one probability for each action; in an extensive game one for
/// each action of each of the player's information sets, in the order of
/// [`crate::extensive::Sequences::decisions`].
pub type Profile = Vec<Vec<f64>>;

/// The payoffs of a profile, and each player's best response to the profile.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BestResponses {
    /// Each player's expected payoff. Its rounding error is a few units of roundoff for each
    /// action, times the expected absolute value of the payoffs; payoffs of cells that are never
    /// played add no error.
    pub values: Vec<f64>,
    /// Each player's largest expected payoff against the strategies of the others.
    pub best_values: Vec<f64>,
    /// A pure best response of each player; ties go to the first action.
    pub strategies: Profile,
    /// Gain of each player from its best response, at least 0. The gain is computed as a sum of
    /// the losses of the actions played, so it does not depend on a constant in the payoffs.
    pub gains: Vec<f64>,
    /// Upper bound on the rounding error of [`Self::nash_conv`], in units of the payoffs.
    pub rounding: f64,
}

impl BestResponses {
    /// Returns NashConv, the sum over players of the gain from a best response. NashConv is
    /// 0, within [`Self::rounding`], exactly at an equilibrium.
    #[must_use]
    pub fn nash_conv(&self) -> f64 {
        // A sum of negative zeros is a negative zero; adding 0 makes it positive.
        self.gains.iter().sum::<f64>() + 0.0
    }

    /// Returns an upper bound of NashConv: the computed value plus its rounding error.
    #[must_use]
    pub fn nash_conv_bound(&self) -> f64 {
        self.nash_conv() + self.rounding
    }
}

/// A game in which profiles can be evaluated: every strategic game, and
/// [`crate::extensive::CompiledGame`].
pub trait Game: Sync + Learn {
    /// Returns the number of players.
    fn n_players(&self) -> usize;

    /// Returns the number of actions in each of the player's information sets; a strategic game has
    /// one set.
    fn choices(&self, player: usize) -> Vec<usize>;

    /// Returns the largest range (maximum minus minimum) of any player's payoffs.
    fn range(&self) -> f64;

    /// Returns best responses to a profile that has been validated.
    #[doc(hidden)]
    fn responses(&self, profile: &[Vec<f64>]) -> BestResponses;
}

/// One player's part of a state, in the order of the game's internal arrays.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Learner {
    /// Sums of regrets.
    pub(crate) regrets: Numbers,
    /// The strategy to be played next.
    pub(crate) strategy: Numbers,
    /// The sum of weighted strategies; in extensive games, of weighted sequence probabilities.
    pub(crate) sum: Numbers,
}

/// The complete state of a learning run, sufficient to resume the run.
///
/// The state can be serialised with the feature `serde`; [`Run::resume`](crate::Run::resume)
/// validates a state.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SolverState {
    /// Number of iterations done.
    pub iteration: u64,
    /// The configuration of the run.
    pub(crate) config: SolverConfig,
    pub(crate) players: Vec<Learner>,
}

/// The learning operations of a game; the private part of [`Game`].
#[doc(hidden)]
pub trait Learn {
    /// Temporary memory of an iteration, not part of the state.
    type Scratch;

    /// Returns the state before the first iteration.
    fn start(&self, config: &SolverConfig) -> SolverState;

    /// Returns temporary memory for iterations that start from a state.
    fn scratch(&self, state: &SolverState) -> Self::Scratch;

    /// Runs the iterations after number `state.iteration`, up to number `until`.
    fn iterate(
        &self,
        state: &mut SolverState,
        scratch: &mut Self::Scratch,
        config: &SolverConfig,
        until: u64,
    );

    /// Returns the average profile.
    fn average(&self, state: &SolverState) -> Profile;

    /// Returns the profile to be played next.
    fn current(&self, state: &SolverState) -> Profile;

    /// Returns an equilibrium near a profile, if one can be found.
    fn polished(&self, _profile: &[Vec<f64>]) -> Option<Profile> {
        None
    }

    /// Returns whether the game supports the rule.
    fn supports(&self, rule: &Rule) -> bool;

    /// Returns NashConv as computed from regrets, if the game and the configuration allow it.
    fn regret_nash_conv(&self, state: &SolverState) -> Option<f64>;
}

/// Returns groups of players, as ranges of indices, in the order of updates. The players of a group
/// update simultaneously.
pub(crate) fn in_turn(
    updates: Updates,
    n_players: usize,
) -> impl Iterator<Item = std::ops::Range<usize>> {
    let together = updates == Updates::Simultaneous;
    let n_groups = if together { 1 } else { n_players };
    let width = n_players / n_groups.max(1);
    (0..n_groups).map(move |group| group * width..(group + 1) * width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_gain_is_a_positive_zero() {
        let responses = BestResponses {
            values: vec![1.0, -1.0],
            best_values: vec![1.0, -1.0],
            strategies: Profile::new(),
            gains: vec![-0.0, -0.0],
            rounding: 0.0,
        };
        assert_eq!(responses.nash_conv().to_bits(), 0);
    }
}
