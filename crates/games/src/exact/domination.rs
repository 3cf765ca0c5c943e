//! Elimination of dominated actions.
//!
//! Method: consider the zero-sum game whose payoffs are the gains of the other actions over an
//! action, against every choice of the others. An action without a dominating pure strategy is
//! dominated by a mixed strategy if and only if the value of this game is positive; the value is
//! proved in fractions. An action that is a best response to some choice of the others needs no
//! such proof.
//! Source: Pearce 1984, "Rationalizable strategic behavior and the problem of perfection"; Gilboa,
//! Kalai and Zemel 1990, "On the order of eliminating dominated strategies".

use super::gcd::difference;
use super::work::{LimitReached, Prover, Work};
use super::zero_sum::Solved;
use crate::equality::equality;
use crate::strategic::table::cell;
use crate::{Error, Rational, Result, StrategicGame};
use num_traits::{One, Signed, Zero};

/// Largest number of payoff comparisons in one round of elimination.
const MAX_COMPARISONS: usize = 1 << 26;

/// The kind of dominance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Dominance {
    /// Strict dominance by a pure action, which is better against every combination of the other
    /// players' actions.
    StrictByPure,
    /// Strict dominance by a mixture of actions, which is better against every combination of the
    /// other players' actions.
    #[default]
    Strict,
    /// Weak dominance by a pure action, which is never worse and sometimes better. The surviving
    /// actions depend on the order of elimination.
    WeakByPure,
}

/// An action that was eliminated.
#[derive(Clone, Debug, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Dominated {
    /// Index of the player.
    pub player: usize,
    /// Index of the eliminated action.
    pub action: usize,
    /// The dominating strategy: a probability for each of the player's actions; 0 for actions
    /// eliminated before.
    pub by: Vec<Rational>,
}

equality!(Dominated { player, action; by });

/// The result of an elimination.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Elimination {
    /// The surviving actions of each player, at least one, in ascending order.
    pub surviving: Vec<Vec<usize>>,
    /// The eliminations, in order; each holds against the actions that had survived at that point.
    pub steps: Vec<Dominated>,
}

/// Eliminates dominated actions one by one, until no surviving action is dominated.
///
/// Players are visited in turn, their actions in ascending order, and an action is removed as
/// soon as it is dominated. The actions that survive strict dominance do not depend on this order;
/// the actions that survive weak dominance do.
///
/// Cost: for each action and round, at most one payoff comparison per surviving cell, and for
/// [`Dominance::Strict`] possibly a linear program; a game near the limit takes minutes.
///
/// # Errors
/// [`Error::TooLarge`] if the number of cells times the sum of all players' numbers of actions
/// exceeds 2^26. For [`Dominance::Strict`] only: [`Error::TooLarge`] if a linear program has more
/// than 2^20 coefficients, and [`Error::Unproved`] if a proof takes too many steps.
///
/// # Examples
/// ```
/// use games::{Bimatrix, exact::{Dominance, eliminate_dominated}, ndarray::array};
///
/// // The prisoners' dilemma.
/// let game = Bimatrix::new(array![[3, 0], [5, 1]], array![[3, 5], [0, 1]])?;
/// assert_eq!(eliminate_dominated(&game, Dominance::Strict)?.surviving, [[1], [1]]);
/// # Ok::<(), games::Error>(())
/// ```
pub fn eliminate_dominated(game: &impl StrategicGame, dominance: Dominance) -> Result<Elimination> {
    Prover::new().eliminate_dominated(game, dominance)
}

/// Eliminates dominated actions.
pub(super) fn eliminate(
    game: &impl StrategicGame,
    dominance: Dominance,
    prover: &Prover<'_>,
) -> Result<Elimination> {
    const OPERATION: &str = "exact::eliminate_dominated";
    let shape = game.shape();
    check_cost(OPERATION, shape)?;
    let work = Work::new(prover);
    let mut surviving: Vec<Vec<usize>> = shape.iter().map(|&side| (0..side).collect()).collect();
    let mut steps = vec![];
    loop {
        let n_before = steps.len();
        for player in 0..shape.len() {
            for action in surviving[player].clone() {
                work.look().map_err(|halt| halt.error(OPERATION))?;
                let payoffs = Rivals::new(game, &surviving, player, action, &work)
                    .map_err(|halt| halt.error(OPERATION))?;
                if let Some(by) = payoffs.dominating(OPERATION, dominance, &work)? {
                    surviving[player].retain(|&other| other != action);
                    let by = spread(shape[player], &payoffs.actions, by);
                    steps.push(Dominated { player, action, by });
                }
            }
        }
        if steps.len() == n_before {
            return Ok(Elimination { surviving, steps });
        }
    }
}

/// Returns an error for games in which a single round would take minutes.
fn check_cost(operation: &'static str, shape: &[usize]) -> Result<()> {
    let n_actions: usize = shape.iter().sum();
    let cost = shape
        .iter()
        .fold(n_actions, |cost, &side| cost.saturating_mul(side));
    if cost > MAX_COMPARISONS {
        return Err(Error::TooLarge {
            operation,
            what: "number of comparisons",
            needed: cost as u128,
            limit: MAX_COMPARISONS as u128,
        });
    }
    Ok(())
}

/// The gains of a player's other actions over one action.
struct Rivals {
    actions: Vec<usize>,
    /// `[action][case]`: the gain of each other action in each combination of the other players'
    /// actions.
    gains: Vec<Vec<Rational>>,
}

impl Rivals {
    fn new(
        game: &impl StrategicGame,
        surviving: &[Vec<usize>],
        player: usize,
        action: usize,
        work: &Work<'_>,
    ) -> std::result::Result<Self, LimitReached> {
        let mut sides: Vec<usize> = surviving.iter().map(Vec::len).collect();
        // The player's own action is fixed, so cells enumerate the other players' actions only.
        sides[player] = 1;
        let payoffs = |own: usize| {
            (0..sides.iter().product()).map({
                let sides = &sides;
                move |at| {
                    let indices = cell(sides, at);
                    let choices = indices
                        .iter()
                        .zip(surviving)
                        .map(|(&index, left)| left[index]);
                    let mut choices: Vec<usize> = choices.collect();
                    choices[player] = own;
                    game.payoff(player, &choices)
                }
            })
        };
        let copied = |payoff: Rational| {
            work.count_fraction(payoff.numer().bits() + payoff.denom().bits())?;
            Ok(payoff)
        };
        let here: Vec<Rational> = payoffs(action)
            .map(copied)
            .collect::<std::result::Result<_, _>>()?;
        let others = surviving[player]
            .iter()
            .copied()
            .filter(|&other| other != action);
        let actions: Vec<usize> = others.collect();
        let gains = |&other: &usize| {
            payoffs(other)
                .zip(&here)
                .map(|(payoff, here)| difference(&payoff, here, work))
                .collect()
        };
        let gains = actions.iter().map(gains);
        Ok(Self {
            gains: gains.collect::<std::result::Result<_, _>>()?,
            actions,
        })
    }

    /// Returns a mixture of the other actions that dominates the action, or `None`.
    fn dominating(
        &self,
        operation: &'static str,
        dominance: Dominance,
        work: &Work<'_>,
    ) -> Result<Option<Vec<Rational>>> {
        let dominates = |gains: &Vec<Rational>| match dominance {
            Dominance::Strict | Dominance::StrictByPure => gains.iter().all(Signed::is_positive),
            Dominance::WeakByPure => {
                let is_never_worse = !gains.iter().any(Signed::is_negative);
                is_never_worse && gains.iter().any(Signed::is_positive)
            }
        };
        if let Some(at) = self.gains.iter().position(dominates) {
            let mut by = vec![Rational::zero(); self.actions.len()];
            by[at] = Rational::one();
            return Ok(Some(by));
        }
        // A best response to a pure combination cannot be strictly dominated. This test is cheap
        // and usually avoids the linear program.
        if dominance != Dominance::Strict || self.is_best_somewhere() {
            return Ok(None);
        }
        // In the zero-sum game of gains, a mixture guarantees a positive value exactly if it
        // dominates strictly.
        let solved = Solved::new(operation, &self.gains, work)?;
        let halted = |halt: LimitReached| halt.error(operation);
        if !solved.value(work).map_err(halted)?.is_positive() {
            return Ok(None);
        }
        solved.row_strategy(work).map(Some).map_err(halted)
    }

    /// Returns whether the action is a best response to some combination of the other players'
    /// actions.
    fn is_best_somewhere(&self) -> bool {
        let n_cases = self.gains.first().map_or(0, Vec::len);
        let no_gain = |case: usize| self.gains.iter().all(|gains| !gains[case].is_positive());
        self.gains.is_empty() || (0..n_cases).any(no_gain)
    }
}

/// Expands probabilities of some of a player's actions to a strategy over all actions.
fn spread(n_actions: usize, actions: &[usize], probabilities: Vec<Rational>) -> Vec<Rational> {
    let mut strategy = vec![Rational::zero(); n_actions];
    for (&action, probability) in actions.iter().zip(probabilities) {
        strategy[action] = probability;
    }
    strategy
}
