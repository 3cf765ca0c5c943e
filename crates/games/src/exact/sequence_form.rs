//! Zero-sum game trees by one linear program over sequences.
//!
//! Method: the first player chooses a plan: a probability for each of its sequences, such that the
//! probabilities of a set's actions sum to the probability of the sequence before the set. For each
//! set of the second player, `q` bounds the first player's payoff from that set on. The first
//! player maximises `q_0`, the bound at the root. The prices of the second player's sequences are
//! the second player's plan. The program has one row for each sequence of the second player and one
//! for each information set of the first player, so its size grows with the tree, not with the
//! number of strategies.
//! Source: Koller, Megiddo and von Stengel 1996, "Efficient computation of equilibria for extensive
//! two-person games".

use super::gcd::{lowest_terms, product};
use super::program::{Domain, LinearProgram, Optimum, check_size};
use super::simplex::{self, SimplexError};
use super::work::{LimitReached, Prover, Work};
use crate::equality::equality;
use crate::extensive::{Leaf, Sequences, Tree};
use crate::number::{compare, nearest};
use crate::{Error, Rational, Result, nash_conv};
use num_bigint::BigInt;
use num_traits::{One, Zero};
use std::fmt;

/// The value of a zero-sum tree, and a strategy of each player that guarantees the value.
///
/// A strategy holds a probability for each action of each of the player's information sets, in the
/// order of [`Sequences::decisions`]: the action that ends sequence `n` is at index `n - 1`. At
/// sets that the player's own earlier choices exclude, all actions have the same probability.
#[derive(Clone, Debug, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TreeSolution {
    /// The payoff of the first player; the second receives the rest of the constant sum.
    pub value: Rational,
    /// The sum of both players' payoffs at every end: 0 in a zero-sum game.
    pub sum: Rational,
    /// The strategies of the first and the second player.
    pub strategies: Vec<Vec<Rational>>,
}

equality!(TreeSolution { ; value, sum, strategies });

impl fmt::Display for TreeSolution {
    /// Writes the value alone: strategies of trees are long.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "value {}", self.value)
    }
}

/// A solution of a tree in floats, with its measured NashConv.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FloatSolution {
    /// The payoff of the first player, rounded once.
    pub value: f64,
    /// The strategies of both players, as in [`TreeSolution::strategies`], each probability rounded
    /// once.
    pub strategies: Vec<Vec<f64>>,
    /// NashConv of the rounded strategies: the sum of both players' gains from best responses,
    /// computed on the tree.
    pub nash_conv: f64,
}

/// Solves a zero-sum tree by its sequence form, with a proof, and returns floats.
///
/// The proof is that of [`exact`](fn@crate::exact), but without the time to write fractions in
/// lowest terms. Because rounded strategies are not proved, the result includes their NashConv,
/// computed by best responses independently of the linear program.
///
/// Accuracy: value and probabilities are those of one equilibrium, rounded to the nearest float.
///
/// # Errors
/// Those of [`exact`](fn@crate::exact).
///
/// # Examples
/// ```
/// use games::{exact::sequence_form_lp, extensive::{Kuhn, Tree}};
///
/// let solution = sequence_form_lp(&Tree::from_game(&Kuhn)?)?;
/// assert_eq!(solution.value, -1.0 / 18.0);
/// assert!(solution.nash_conv < 1e-15);
/// # Ok::<(), games::Error>(())
/// ```
pub fn sequence_form_lp(tree: &Tree) -> Result<FloatSolution> {
    Prover::new().sequence_form_lp(tree)
}

/// Solves a tree in floats.
pub(super) fn solve_in_floats(tree: &Tree, prover: &Prover<'_>) -> Result<FloatSolution> {
    const OPERATION: &str = "exact::sequence_form_lp";
    let work = Work::new(prover);
    let form = sequences(OPERATION, tree, &work)?;
    let solved = Solved::new(OPERATION, &form, &work)?;
    let ratio = |numerator: &BigInt, denominator: &BigInt| {
        work.count_fraction(numerator.bits() + denominator.bits())?;
        Ok(nearest(&Rational::new_raw(
            numerator.clone(),
            denominator.clone(),
        )))
    };
    let even = |n_actions: u32| 1.0 / f64::from(n_actions);
    let halted = |halt: LimitReached| halt.error(OPERATION);
    let strategies = solved.strategies(&work, ratio, even).map_err(halted)?;
    Ok(FloatSolution {
        value: nearest(&solved.value(&work).map_err(halted)?),
        nash_conv: nash_conv(&prover.compile(tree)?, &strategies)?,
        strategies,
    })
}

/// Solves a tree.
pub(super) fn solve_tree(tree: &Tree, prover: &Prover<'_>) -> Result<TreeSolution> {
    solve(&sequences("exact", tree, &Work::new(prover))?, prover)
}

/// Returns the sequence form of a tree, or an error if `work` reaches a limit.
fn sequences(operation: &'static str, tree: &Tree, work: &Work<'_>) -> Result<Sequences> {
    let halted = |halt: LimitReached| halt.error(operation);
    Sequences::counted(tree, &|n_words| work.count(n_words as u64).map_err(halted))
}

/// Solves a tree given by its sequence form.
pub(super) fn solve(form: &Sequences, prover: &Prover<'_>) -> Result<TreeSolution> {
    const OPERATION: &str = "exact";
    let work = Work::new(prover);
    let solved = Solved::new(OPERATION, form, &work)?;
    let ratio =
        |numerator: &BigInt, denominator: &BigInt| lowest_terms(numerator, denominator, &work);
    let even = |n_actions: u32| Rational::new(1.into(), n_actions.into());
    let halted = |halt: LimitReached| halt.error(OPERATION);
    Ok(TreeSolution {
        value: solved.value(&work).map_err(halted)?,
        sum: form.sum(),
        strategies: solved.strategies(&work, ratio, even).map_err(halted)?,
    })
}

/// A tree that has been solved.
struct Solved<'a> {
    form: &'a Sequences,
    program: LinearProgram,
    optimum: Optimum,
}

impl<'a> Solved<'a> {
    fn new(operation: &'static str, form: &'a Sequences, work: &Work<'_>) -> Result<Self> {
        check(operation, form, work)?;
        form.check_chance_moves(operation)?;
        let program = program(form, work).map_err(|halt| halt.error(operation))?;
        let solved = simplex::solve(&program, work);
        let optimum = solved.map_err(|fault: SimplexError| fault.of_game(operation))?;
        Ok(Self {
            form,
            program,
            optimum,
        })
    }

    fn value(&self, work: &Work<'_>) -> std::result::Result<Rational, LimitReached> {
        self.program.value(&self.optimum, work)
    }

    /// Returns both players' strategies. `ratio` divides the probabilities of a sequence and its
    /// parent; `even` is the probability at a set that the player does not reach.
    fn strategies<T: Clone>(
        &self,
        work: &Work<'_>,
        ratio: impl Fn(&BigInt, &BigInt) -> std::result::Result<T, LimitReached>,
        even: impl Fn(u32) -> T,
    ) -> std::result::Result<Vec<Vec<T>>, LimitReached> {
        let behaviour = |player: usize| {
            let plan = self.plan(player, work)?;
            let mut behaviour = Vec::with_capacity(plan.len() - 1);
            for decision in self.form.decisions(player) {
                let whole = &plan[decision.parent as usize];
                let range = decision.first as usize..(decision.first + decision.n_actions) as usize;
                for share in &plan[range] {
                    behaviour.push(if whole.is_zero() {
                        even(decision.n_actions)
                    } else {
                        ratio(share, whole)?
                    });
                }
            }
            Ok(behaviour)
        };
        (0..2).map(behaviour).collect()
    }

    /// Returns the numerators of a player's sequence probabilities over one denominator.
    fn plan(
        &self,
        player: usize,
        work: &Work<'_>,
    ) -> std::result::Result<Vec<BigInt>, LimitReached> {
        if player == 0 {
            Ok(self.optimum.primal.numerators[..self.form.n_sequences(0)].to_vec())
        } else {
            let first = 1 + self.form.decisions(0).len();
            let rows = first..self.program.n_rows();
            self.program.common_prices(&self.optimum, rows, work)
        }
    }
}

fn check(operation: &'static str, form: &Sequences, work: &Work<'_>) -> Result<()> {
    if form.n_players() != 2 {
        return Err(Error::PlayersUnsupported {
            operation,
            n_players: form.n_players(),
            must: "2",
        });
    }
    let sum = form.sum();
    for (at, outcome) in form.outcomes().iter().enumerate() {
        let bits = outcome.iter().map(|payoff| payoff.denom().bits());
        let counted = work.count_fraction(bits.sum());
        counted.map_err(|halt| halt.error(operation))?;
        if compare(&outcome.iter().sum(), &sum).is_ne() {
            return Err(Error::NotConstantSum {
                operation,
                cell: vec![at],
            });
        }
    }
    // Each sequence has at most one entry for itself and one for its parent.
    let n_sequences = form.n_sequences(0) + form.n_sequences(1);
    check_size(operation, form.leaves().len() + 2 * n_sequences)
}

/// Returns the linear program of the first player.
///
/// Variables: the first player's sequence probabilities (its plan), then `q_0`, then `q` of each
/// set of the second player. Rows: the constraints of the plan, then one row for each sequence of
/// the second player.
fn program(form: &Sequences, work: &Work<'_>) -> std::result::Result<LinearProgram, LimitReached> {
    let n_plan = form.n_sequences(0);
    let plan = vec![(Domain::NonNegative, Rational::zero()); n_plan];
    let mut bounds = vec![(Domain::Free, Rational::zero()); 1 + form.decisions(1).len()];
    bounds[0].1 = Rational::one();
    let mut program = LinearProgram::maximize(plan.into_iter().chain(bounds), work)?;

    let whole = vec![(0, Rational::one())];
    program.push_row(whole, Domain::Zero, Rational::one(), work)?;
    for decision in form.decisions(0) {
        let sequences = decision.first..decision.first + decision.n_actions;
        let mut terms: Vec<_> = sequences.map(|at| (at as usize, Rational::one())).collect();
        terms.push((decision.parent as usize, -Rational::one()));
        program.push_row(terms, Domain::Zero, Rational::zero(), work)?;
    }
    for terms in responses(form, n_plan, work)? {
        program.push_row(terms, Domain::NonNegative, Rational::zero(), work)?;
    }
    Ok(program)
}

/// Returns, for each sequence of the second player, the terms of the row that bounds the `q` of its
/// set from above by the first player's payoffs at the sequence plus the `q` of all sets that
/// follow.
fn responses(
    form: &Sequences,
    n_plan: usize,
    work: &Work<'_>,
) -> std::result::Result<Vec<Vec<(usize, Rational)>>, LimitReached> {
    let mut rows = vec![vec![]; form.n_sequences(1)];
    rows[0].push((n_plan, Rational::one()));
    for (set, decision) in form.decisions(1).iter().enumerate() {
        let bound = n_plan + 1 + set;
        for sequence in decision.first..decision.first + decision.n_actions {
            rows[sequence as usize].push((bound, Rational::one()));
        }
        rows[decision.parent as usize].push((bound, -Rational::one()));
    }
    for (at, Leaf { reach, outcome }) in form.leaves().iter().enumerate() {
        let reach = form.exact_reach(*reach);
        // A product for each move of chance, whose bits the product has in the end.
        work.count_fraction(reach.denom().bits().saturating_mul(reach.numer().bits()))?;
        let payoff = product(&reach, &form.outcomes()[*outcome as usize][0], work)?;
        if let [first, second] = form.leaf_sequences(at) {
            rows[*second as usize].push((*first as usize, -payoff));
        }
    }
    Ok(rows)
}
