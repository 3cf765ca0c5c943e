//! Equilibria of bimatrix games in fractions, and their verification.
//!
//! Role: verifies results from payoffs and best responses only, independently of polytopes and
//! pivots.
//! Method: a strategy is brought to one denominator, so the value of an action is one sum of
//! integers.

use super::gcd::{lcm, lowest_terms};
use super::integer::over_common_denominator;
use super::work::{LimitReached, Prover, Work};
use crate::equality::{self, equality};
use crate::number::{compare, compare_lists};
use crate::{Bimatrix, Error, Rational, Result, StrategicGame};
use num_bigint::BigInt;
use num_traits::{One, Signed, Zero};
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

/// Largest number of bits of a payoff over the common denominator: about twice the 2098 bits that
/// suffice for payoffs that are finite f64 numbers.
const MAX_BITS: u64 = 4096;

/// An equilibrium of a bimatrix game: neither player gains by changing its strategy.
#[derive(Clone, Debug, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Equilibrium {
    /// The row player's and the column player's strategy: a probability for each action.
    pub strategies: [Vec<Rational>; 2],
    /// Each player's expected payoff.
    pub payoffs: [Rational; 2],
}

equality!(Equilibrium { ; strategies, payoffs });

impl Hash for Equilibrium {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self {
            strategies,
            payoffs,
        } = self;
        strategies.each_ref().map(Vec::len).hash(state);
        for fraction in strategies.iter().flatten().chain(payoffs) {
            equality::hash(fraction, state);
        }
    }
}

impl Equilibrium {
    /// Sorts equilibria by the row player's strategy, then by the column player's, in descending
    /// lexicographic order of the probabilities.
    pub(super) fn sort(equilibria: &mut [Self]) {
        equilibria.sort_by(|a, b| b.compare(a));
    }

    /// Compares the row player's strategies, then the column player's, in lexicographic order.
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        let compare = |player: usize| {
            let (own, other) = (&self.strategies[player], &other.strategies[player]);
            compare_lists(own, other)
        };
        compare(0).then_with(|| compare(1))
    }
}

/// Proves an equilibrium: the value of every action that is played is the stated payoff, and no
/// action has a larger value.
///
/// The proof uses fractions of the given payoffs, without rounding.
///
/// # Errors
/// [`Error::ProfileInvalid`] if a strategy does not have a probability for each action, has a
/// negative one, or does not sum to 1, or if the denominator of a probability or of a stated payoff
/// is 0; [`Error::NotEquilibrium`] if the value of an action exceeds the stated payoff, or the
/// action is played and its value is smaller.
///
/// # Examples
/// ```
/// use games::{Bimatrix, exact, ndarray::array};
///
/// let game = Bimatrix::new(array![[3, 0], [0, 2]], array![[2, 0], [0, 3]])?;
/// let mut equilibrium = exact::lemke_howson(&game, 0)?;
/// exact::verify(&game, &equilibrium)?;
/// equilibrium.strategies[0].reverse();
/// assert!(exact::verify(&game, &equilibrium).is_err());
/// # Ok::<(), games::Error>(())
/// ```
pub fn verify(game: &Bimatrix, equilibrium: &Equilibrium) -> Result<()> {
    const OPERATION: &str = "exact::verify";
    let work = Work::new(&Prover::new());
    let payoffs = Payoffs::new(game, &work).map_err(|halt| halt.error(OPERATION))?;
    payoffs.verify(OPERATION, equilibrium, &work)
}

/// The payoffs of a bimatrix game as integers over one denominator for each player.
#[derive(Clone, Debug)]
pub(super) struct Payoffs {
    pub(super) shape: [usize; 2],
    numerators: [Vec<BigInt>; 2],
    denominators: [BigInt; 2],
}

impl Payoffs {
    fn new(game: &Bimatrix, work: &Work<'_>) -> std::result::Result<Self, LimitReached> {
        let mut payoffs = Self::without_payoffs(game);
        for player in 0..2 {
            let fractions = fractions(game, player, work)?;
            let common = fractions
                .iter()
                .try_fold(BigInt::one(), |common, fraction| {
                    lcm(common, fraction.denom(), work)
                })?;
            payoffs.set(player, &fractions, common, work)?;
        }
        Ok(payoffs)
    }

    /// Converts the payoffs of a game to integers, or returns an error if they have so many digits
    /// that pivoting would not terminate in practice.
    ///
    /// Cost: the common denominator is not computed beyond the limit.
    pub(super) fn short_of(
        operation: &'static str,
        game: &Bimatrix,
        work: &Work<'_>,
    ) -> Result<Self> {
        let halted = |halt: LimitReached| halt.error(operation);
        let mut payoffs = Self::without_payoffs(game);
        for player in 0..2 {
            let fractions = fractions(game, player, work).map_err(halted)?;
            let (common, needed) = common_denominator(&fractions, work).map_err(halted)?;
            if needed > MAX_BITS {
                return Err(Error::TooLarge {
                    operation,
                    what: "number of bits of a payoff over the common denominator",
                    needed: needed.into(),
                    limit: MAX_BITS.into(),
                });
            }
            payoffs
                .set(player, &fractions, common, work)
                .map_err(halted)?;
        }
        Ok(payoffs)
    }

    fn without_payoffs(game: &Bimatrix) -> Self {
        Self {
            shape: [game.shape()[0], game.shape()[1]],
            numerators: [vec![], vec![]],
            denominators: [BigInt::one(), BigInt::one()],
        }
    }

    /// Sets one player's payoffs over a common denominator.
    fn set(
        &mut self,
        player: usize,
        fractions: &[Rational],
        common: BigInt,
        work: &Work<'_>,
    ) -> std::result::Result<(), LimitReached> {
        for fraction in fractions {
            work.count_product(common.bits(), fraction.denom().bits())?;
            self.numerators[player].push(fraction.numer() * (&common / fraction.denom()));
        }
        self.denominators[player] = common;
        Ok(())
    }

    /// Returns the integer payoff of a player for its action and the opponent's action.
    pub(super) fn numerator(&self, player: usize, action: usize, other: usize) -> &BigInt {
        let (row, col) = if player == 0 {
            (action, other)
        } else {
            (other, action)
        };
        &self.numerators[player][row * self.shape[1] + col]
    }

    /// Returns the profile with its payoffs if it is an equilibrium.
    pub(super) fn prove(
        &self,
        operation: &'static str,
        strategies: [Vec<Rational>; 2],
        work: &Work<'_>,
    ) -> Result<Equilibrium> {
        work.look().map_err(|halt| halt.error(operation))?;
        let best = |player: usize| -> Result<Rational> {
            let values = self.values(player, &strategies[1 - player], work);
            let values = values.map_err(|halt| halt.error(operation))?;
            Ok(values.into_iter().max_by(compare).unwrap_or_default())
        };
        let equilibrium = Equilibrium {
            payoffs: [best(0)?, best(1)?],
            strategies,
        };
        self.verify(operation, &equilibrium, work)?;
        Ok(equilibrium)
    }

    fn verify(
        &self,
        operation: &'static str,
        equilibrium: &Equilibrium,
        work: &Work<'_>,
    ) -> Result<()> {
        for (player, strategy) in equilibrium.strategies.iter().enumerate() {
            check_strategy(operation, player, self.shape[player], strategy)?;
            if has_no_value(&equilibrium.payoffs[player]) {
                return Err(Error::ProfileInvalid {
                    operation,
                    player,
                    fault: "the stated payoff has denominator 0".to_owned(),
                });
            }
        }
        for (player, strategy) in equilibrium.strategies.iter().enumerate() {
            let payoff = &equilibrium.payoffs[player];
            let values = self.values(player, &equilibrium.strategies[1 - player], work);
            let values = values.map_err(|halt| halt.error(operation))?;
            let fault = values
                .iter()
                .zip(strategy)
                .position(|(value, probability)| match compare(value, payoff) {
                    Ordering::Greater => true,
                    Ordering::Less => !probability.is_zero(),
                    Ordering::Equal => false,
                });
            if let Some(action) = fault {
                return Err(Error::NotEquilibrium {
                    operation,
                    player,
                    action,
                });
            }
        }
        Ok(())
    }

    /// Returns the value of each action of a player against a strategy of the opponent.
    fn values(
        &self,
        player: usize,
        opponent: &[Rational],
        work: &Work<'_>,
    ) -> std::result::Result<Vec<Rational>, LimitReached> {
        let (weights, scale) = over_common_denominator(opponent);
        let scale = scale * &self.denominators[player];
        let value = |action| {
            let played = weights.iter().enumerate();
            let played = played.filter(|(_, weight)| !weight.is_zero());
            let mut sum = BigInt::zero();
            for (other, weight) in played {
                let payoff = self.numerator(player, action, other);
                work.count_product(weight.bits(), payoff.bits())?;
                sum += weight * payoff;
            }
            lowest_terms(&sum, &scale, work)
        };
        (0..self.shape[player]).map(value).collect()
    }
}

/// Returns a player's payoffs, row by row.
fn fractions(
    game: &Bimatrix,
    player: usize,
    work: &Work<'_>,
) -> std::result::Result<Vec<Rational>, LimitReached> {
    let [n_rows, n_cols] = [game.shape()[0], game.shape()[1]];
    let cells = (0..n_rows).flat_map(|row| (0..n_cols).map(move |col| [row, col]));
    let copied = |cell: [usize; 2]| {
        let payoff = game.payoff(player, &cell);
        work.count_fraction(payoff.numer().bits() + payoff.denom().bits())?;
        Ok(payoff)
    };
    cells.map(copied).collect()
}

/// Returns the common denominator of fractions, and the largest number of bits of a numerator when
/// the fractions are written over it. If that number must exceed [`MAX_BITS`], stops early and
/// returns a divisor of the common denominator and a lower bound of the number.
fn common_denominator(
    fractions: &[Rational],
    work: &Work<'_>,
) -> std::result::Result<(BigInt, u64), LimitReached> {
    let mut common = BigInt::one();
    // The largest difference between the lengths of a numerator and its denominator.
    let mut excess: Option<i128> = None;
    for fraction in fractions.iter().filter(|fraction| !fraction.is_zero()) {
        let (numerator, denominator) = (fraction.numer().bits(), fraction.denom().bits());
        excess = excess.max(Some(i128::from(numerator) - i128::from(denominator)));
        common = lcm(common, fraction.denom(), work)?;
        // A product has as many bits as its factors together, or one bit less; likewise a quotient.
        let least = i128::from(common.bits()) + excess.unwrap_or(0) - 1;
        if least > i128::from(MAX_BITS) {
            return Ok((common, u64::try_from(least).unwrap_or(u64::MAX)));
        }
    }
    let nonzero = fractions.iter().filter(|fraction| !fraction.is_zero());
    let bits = nonzero.map(|fraction| (fraction.numer() * (&common / fraction.denom())).bits());
    let most = bits.max().unwrap_or(0);
    Ok((common, most))
}

fn check_strategy(
    operation: &'static str,
    player: usize,
    n_actions: usize,
    strategy: &[Rational],
) -> Result<()> {
    let fault = if strategy.len() != n_actions {
        format!(
            "wrong number of probabilities ({}; expected {n_actions})",
            strategy.len()
        )
    } else if let Some(action) = strategy.iter().position(has_no_value) {
        format!("denominator 0 at action {action}")
    } else if let Some(action) = strategy.iter().position(Rational::is_negative) {
        format!("negative at action {action}")
    } else if !sums_to_one(strategy) {
        "not of sum 1".to_owned()
    } else {
        return Ok(());
    };
    Err(Error::ProfileInvalid {
        operation,
        player,
        fault,
    })
}

/// Returns whether the denominator is 0; [`Rational::new_raw`] can create such fractions.
fn has_no_value(fraction: &Rational) -> bool {
    fraction.denom().is_zero()
}

fn sums_to_one(strategy: &[Rational]) -> bool {
    let (weights, scale) = over_common_denominator(strategy);
    weights.iter().sum::<BigInt>() == scale
}
