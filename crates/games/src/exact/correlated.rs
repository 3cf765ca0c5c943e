//! Correlated and coarse correlated equilibria in fractions, and the regrets of a distribution.
//!
//! Method: a linear program with a probability for each cell and, for each player, a row for each
//! deviation. The regret functions compute in floats from the definitions, independently of the
//! linear programs.
//! Source: Aumann 1974, "Subjectivity and correlation in randomized strategies"; Moulin and Vial
//! 1978, "Strategically zero-sum games".

use super::gcd::{difference, product};
use super::program::{Domain, LinearProgram, check_size};
use super::simplex::{self, SimplexError};
use super::work::{LimitReached, Prover, Work};
use crate::equality::{Fractions, equality};
use crate::number::nearest;
use crate::profile::SUM_TOLERANCE;
use crate::strategic::table::cell;
use crate::{Error, Rational, Result, StrategicGame};
use num_traits::{One, Zero};

/// The objective that selects an equilibrium.
#[derive(Clone, Debug, Default, Eq)]
pub enum Objective {
    /// The largest sum of all players' payoffs.
    #[default]
    Welfare,
    /// The largest sum of payoffs, each times the player's weight, which may be negative.
    Weighted(Vec<Rational>),
    /// No objective: any equilibrium.
    Any,
}

impl PartialEq for Objective {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Welfare, Self::Welfare) | (Self::Any, Self::Any) => true,
            (Self::Weighted(weights), Self::Weighted(others)) => weights.equal(others),
            (Self::Welfare | Self::Weighted(_) | Self::Any, _) => false,
        }
    }
}

/// A distribution over the cells of a game from which no player gains by deviating.
#[derive(Clone, Debug, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CorrelatedEquilibrium {
    /// The probability of each cell, row-major.
    pub distribution: Vec<Rational>,
    /// Each player's expected payoff.
    pub payoffs: Vec<Rational>,
    /// The value of the objective, the maximum over all equilibria; 0 for [`Objective::Any`].
    pub objective: Rational,
}

equality!(CorrelatedEquilibrium { ; distribution, payoffs, objective });

/// Computes a correlated equilibrium that maximises an objective, with a proof.
///
/// A cell is drawn, and each player is recommended its own action in the cell. No player gains by
/// deviating from its recommendation. Every game has a correlated equilibrium. If several are
/// optimal, the result is an extreme point of the set of optima.
///
/// # Errors
/// [`Error::ShapeMismatch`] if there is not one weight for each player;
/// [`Error::ParameterInvalid`] if the denominator of a weight is 0; [`Error::TooLarge`] if the
/// number of cells times the sum over players of (number of actions - 1) exceeds 2^20;
/// [`Error::Unproved`] if the proof takes too many steps.
///
/// # Examples
/// ```
/// use games::{Bimatrix, exact::{Objective, correlated_equilibrium}, ndarray::array};
///
/// // Chicken: dare or swerve.
/// let chicken = Bimatrix::new(array![[6, 2], [7, 0]], array![[6, 7], [2, 0]])?;
/// let best = correlated_equilibrium(&chicken, &Objective::Welfare)?;
/// let shares: Vec<String> = best.distribution.iter().map(ToString::to_string).collect();
/// assert_eq!(shares, ["1/2", "1/4", "1/4", "0"]);
/// assert_eq!(best.objective.to_string(), "21/2");
/// # Ok::<(), games::Error>(())
/// ```
pub fn correlated_equilibrium(
    game: &impl StrategicGame,
    objective: &Objective,
) -> Result<CorrelatedEquilibrium> {
    Prover::new().correlated_equilibrium(game, objective)
}

/// Solves for a correlated equilibrium.
pub(super) fn correlated(
    game: &impl StrategicGame,
    objective: &Objective,
    prover: &Prover<'_>,
) -> Result<CorrelatedEquilibrium> {
    let operation = "exact::correlated_equilibrium";
    solve(operation, game, objective, Information::Action, prover)
}

/// Computes a coarse correlated equilibrium that maximises an objective, with a proof.
///
/// A cell is drawn. No player gains by an action fixed before the draw. Correlated equilibria are a
/// special case; the empirical play of no-regret players converges to the set of coarse correlated
/// equilibria.
///
/// # Errors
/// Those of [`correlated_equilibrium`].
pub fn coarse_correlated_equilibrium(
    game: &impl StrategicGame,
    objective: &Objective,
) -> Result<CorrelatedEquilibrium> {
    Prover::new().coarse_correlated_equilibrium(game, objective)
}

/// Solves for a coarse correlated equilibrium.
pub(super) fn coarse_correlated(
    game: &impl StrategicGame,
    objective: &Objective,
    prover: &Prover<'_>,
) -> Result<CorrelatedEquilibrium> {
    let operation = "exact::coarse_correlated_equilibrium";
    solve(operation, game, objective, Information::Nothing, prover)
}

/// Returns the largest gain of a player who deviates from its recommended actions, in floats.
///
/// The result is the largest, over players, of `Σ_a max_b Σ_s p(a, s) (u(b, s) - u(a, s))`, where
/// `a` is the recommended action, `b` the action played, `s` the other players' actions, `p` the
/// probability of a cell and `u` the payoff. The regret is 0 exactly at correlated equilibria, up
/// to the rounding of a sum over all cells.
///
/// # Errors
/// [`Error::DistributionInvalid`] if there is not one number for each cell, if one is negative or
/// not finite, or if they do not sum to 1 within 1e-9.
pub fn correlated_regret(game: &impl StrategicGame, distribution: &[f64]) -> Result<f64> {
    regret(
        "exact::correlated_regret",
        game,
        distribution,
        Information::Action,
    )
}

/// Returns the largest gain of a player from one action fixed in advance, in floats.
///
/// The result is the largest, over players, of `max_b Σ_(a, s) p(a, s) (u(b, s) - u(a, s))`, and at
/// least 0, with the notation of [`correlated_regret`]. The regret is 0 exactly at coarse
/// correlated equilibria, up to the rounding of a sum over all cells.
///
/// # Errors
/// Those of [`correlated_regret`].
pub fn coarse_correlated_regret(game: &impl StrategicGame, distribution: &[f64]) -> Result<f64> {
    regret(
        "exact::coarse_correlated_regret",
        game,
        distribution,
        Information::Nothing,
    )
}

/// The information that a player has about the cell when it may deviate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Information {
    Action,
    Nothing,
}

impl Information {
    /// Returns the number of cases that a player with this number of actions can distinguish.
    fn n_cases(self, n_actions: usize) -> usize {
        match self {
            Self::Action => n_actions,
            Self::Nothing => 1,
        }
    }

    fn case(self, action: usize) -> usize {
        match self {
            Self::Action => action,
            Self::Nothing => 0,
        }
    }
}

fn solve(
    operation: &'static str,
    game: &impl StrategicGame,
    objective: &Objective,
    information: Information,
    prover: &Prover<'_>,
) -> Result<CorrelatedEquilibrium> {
    let shape = game.shape();
    let weights = weights(operation, shape.len(), objective)?;
    let n_cells = shape
        .iter()
        .fold(1, |product: usize, &side| product.saturating_mul(side));
    let n_others: usize = shape.iter().map(|side| side - 1).sum();
    check_size(operation, n_cells.saturating_mul(n_others.max(1)))?;

    let work = Work::new(prover);
    let solved = solve_cells(game, &weights, information, &work);
    solved.map_err(|fault| fault.of_game(operation))
}

/// Solves for the best distribution over all cells.
fn solve_cells(
    game: &impl StrategicGame,
    weights: &[Rational],
    information: Information,
    work: &Work<'_>,
) -> std::result::Result<CorrelatedEquilibrium, SimplexError> {
    let shape = game.shape();
    let n_cells: usize = shape.iter().product();
    work.look()?;
    let cells = (0..n_cells).map(|at| {
        work.count_fraction(0)?;
        Ok(cell(shape, at))
    });
    let cells: Vec<Vec<usize>> = cells.collect::<std::result::Result<_, LimitReached>>()?;
    let share = |cell: &Vec<usize>| -> std::result::Result<Rational, LimitReached> {
        // The library's sum of fractions cannot be interrupted, so a negated product is subtracted.
        let mut share = Rational::zero();
        for (player, weight) in weights.iter().enumerate() {
            if !weight.is_zero() {
                let payoff = product(&-weight, &game.payoff(player, cell), work)?;
                share = difference(&share, &payoff, work)?;
            }
        }
        Ok(share)
    };
    let shares: Vec<Rational> = cells
        .iter()
        .map(share)
        .collect::<std::result::Result<_, _>>()?;
    let variables = shares.into_iter().map(|share| (Domain::NonNegative, share));
    let mut program = LinearProgram::maximize(variables, work)?;
    for player in 0..shape.len() {
        for row in deviations(game, &cells, player, information, work)? {
            program.push_row(row, Domain::NonNegative, Rational::zero(), work)?;
        }
    }
    let all = (0..n_cells).map(|at| (at, Rational::one())).collect();
    program.push_row(all, Domain::Zero, Rational::one(), work)?;

    let optimum = simplex::solve(&program, work)?;
    let probability = |at| program.variable(&optimum, at, work);
    let distribution: Vec<Rational> = (0..n_cells)
        .map(probability)
        .collect::<std::result::Result<_, _>>()?;
    let expected = |player| -> std::result::Result<Rational, LimitReached> {
        let mut expected = Rational::zero();
        for (cell, share) in cells.iter().zip(&distribution) {
            if !share.is_zero() {
                let payoff = product(&game.payoff(player, cell), &-share, work)?;
                expected = difference(&expected, &payoff, work)?;
            }
        }
        Ok(expected)
    };
    Ok(CorrelatedEquilibrium {
        payoffs: (0..shape.len())
            .map(expected)
            .collect::<std::result::Result<_, _>>()?,
        objective: program.value(&optimum, work)?,
        distribution,
    })
}

/// Returns the gains of a player's deviations: one sparse row of (cell, gain) for each pair of a
/// case that the player can distinguish and another action.
fn deviations(
    game: &impl StrategicGame,
    cells: &[Vec<usize>],
    player: usize,
    information: Information,
    work: &Work<'_>,
) -> std::result::Result<Vec<Vec<(usize, Rational)>>, LimitReached> {
    let n_actions = game.shape()[player];
    let mut rows = vec![vec![]; information.n_cases(n_actions) * n_actions];
    for (at, cell) in cells.iter().enumerate() {
        let here = game.payoff(player, cell);
        let mut elsewhere = cell.clone();
        for other in (0..n_actions).filter(|&other| other != cell[player]) {
            elsewhere[player] = other;
            let gain = difference(&game.payoff(player, &elsewhere), &here, work)?;
            rows[information.case(cell[player]) * n_actions + other].push((at, gain));
        }
    }
    // A deviation to the recommended action itself has no cells and is no constraint.
    rows.retain(|row| !row.is_empty());
    Ok(rows)
}

fn weights(
    operation: &'static str,
    n_players: usize,
    objective: &Objective,
) -> Result<Vec<Rational>> {
    let weights = match objective {
        Objective::Welfare => vec![Rational::one(); n_players],
        Objective::Weighted(weights) => weights.clone(),
        Objective::Any => vec![Rational::zero(); n_players],
    };
    if weights.len() != n_players {
        return Err(Error::ShapeMismatch {
            operation,
            expected: vec![n_players],
            actual: vec![weights.len()],
        });
    }
    // `Rational::new_raw` can create fractions whose denominator is 0.
    if weights.iter().any(|weight| weight.denom().is_zero()) {
        return Err(Error::ParameterInvalid {
            operation,
            parameter: "weight",
            value: f64::NAN,
            must: "a fraction whose denominator is not 0",
        });
    }
    Ok(weights)
}

fn regret(
    operation: &'static str,
    game: &impl StrategicGame,
    distribution: &[f64],
    information: Information,
) -> Result<f64> {
    let shape = game.shape();
    check_distribution(operation, shape.iter().product(), distribution)?;
    let mut largest = 0.0_f64;
    for player in 0..shape.len() {
        let n_actions = shape[player];
        let mut gains = vec![vec![0.0_f64; n_actions]; information.n_cases(n_actions)];
        for (at, &share) in distribution
            .iter()
            .enumerate()
            .filter(|(_, share)| **share > 0.0)
        {
            let mut cell = cell(shape, at);
            let action = cell[player];
            let here = game.payoff(player, &cell);
            for (other, gain) in gains[information.case(action)].iter_mut().enumerate() {
                cell[player] = other;
                *gain += share * nearest(&(game.payoff(player, &cell) - &here));
            }
        }
        let best = |gains: &Vec<f64>| gains.iter().fold(0.0_f64, |most, &gain| most.max(gain));
        largest = largest.max(gains.iter().map(best).sum());
    }
    Ok(largest)
}

fn check_distribution(operation: &'static str, n_cells: usize, numbers: &[f64]) -> Result<()> {
    let invalid = |fault| Err(Error::DistributionInvalid { operation, fault });
    if numbers.len() != n_cells {
        return invalid(format!(
            "wrong number of probabilities ({}; expected {n_cells})",
            numbers.len()
        ));
    }
    if let Some(at) = numbers
        .iter()
        .position(|number| !(0.0..=f64::MAX).contains(number))
    {
        return invalid(format!(
            "probability {at} is {} (expected finite and at least 0)",
            numbers[at]
        ));
    }
    let sum: f64 = numbers.iter().sum();
    if (sum - 1.0).abs() <= SUM_TOLERANCE {
        return Ok(());
    }
    invalid(format!("sum is {sum} (expected 1)"))
}
