//! Solutions with a proof: computed in fractions, from payoffs as they were given.
//!
//! Role: answers without a tolerance. Values, strategies and bounds are
//! [`Rational`](crate::Rational)s, proved by solutions of the dual program. A result that cannot be
//! proved is an error.
//! Method: equilibria of bimatrix games by integer pivots ([`lemke_howson`], [`all_equilibria`]),
//! each proved again by best responses. All other problems are linear programs with integer
//! coefficients. A computation in floats guesses which variables are positive: learning and linear
//! algebra for matrix games and dominated actions, and a solver of linear programs if these find
//! nothing and for all other problems. The basis of this guess is solved exactly, by lifting its
//! solution modulo a prime. If the solution and its prices
//! do not prove each other optimal, exact pivots repair the basis. Equal objectives of a program
//! and its dual prove the result.
//! Source: Dhiflaoui et al. 2003, "Certifying and repairing solutions to large LPs".
//! Limits: programs of up to 2^20 nonzero coefficients, and 2^34 steps of arithmetic for each
//! linear program; beyond these limits, functions return errors. A guess that takes longer than two
//! minutes is discarded, and the proof continues without a guess. [`Prover`] adds a deadline and
//! cancellation.

mod ball;
mod basis;
mod correlated;
mod domination;
mod equilibrium;
mod factor;
mod field;
mod gcd;
mod guess;
mod integer;
mod lemke_howson;
mod lifting;
mod polytope;
mod program;
mod sequence_form;
mod short;
mod simplex;
mod tableau;
mod uniqueness;
mod vertices;
mod work;
mod zero_sum;

pub use correlated::{
    CorrelatedEquilibrium, Objective, coarse_correlated_equilibrium, coarse_correlated_regret,
    correlated_equilibrium, correlated_regret,
};
pub use domination::{Dominance, Dominated, Elimination, eliminate_dominated};
pub use equilibrium::{Equilibrium, verify};
pub use lemke_howson::{lemke_howson, lemke_howson_all};
pub use sequence_form::{FloatSolution, TreeSolution, sequence_form_lp};
pub use vertices::{MAX_BASES, MAX_EQUILIBRIA, MAX_LABELS, all_equilibria, components};
pub use work::Prover;
pub use zero_sum::MatrixSolution;

use crate::extensive::{Sequences, Tree};
use crate::{MatrixGame, Result};

/// A game supported by [`exact`](fn@exact): two players whose payoffs sum to zero or to another
/// constant.
pub trait ExactGame: sealed::Sealed {
    /// The solution type; solutions are proved.
    type Solution;

    /// Solves the game, as [`Prover::exact`] does.
    ///
    /// # Errors
    /// Those of [`Prover::exact`].
    fn solve_exactly(&self, prover: &Prover<'_>) -> Result<Self::Solution>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for crate::MatrixGame {}
    impl Sealed for crate::extensive::Tree {}
    impl Sealed for crate::extensive::Sequences {}
}

/// Solves a zero-sum or constant-sum game and proves it: a [`MatrixGame`], a [`Tree`] or its
/// [`Sequences`].
///
/// The value is the first player's payoff; the second player's payoff is the constant sum minus the
/// value. The first player's strategy guarantees at least the value, and the second player's
/// strategy holds the first player to at most the value, exactly, for the given payoffs. A float
/// payoff means its exact binary value: 0.1 is not 1/10, which can be passed as a
/// [`Rational`](crate::Rational).
///
/// Cost: for a matrix game, iterations of learning and linear algebra in floats; if these find no
/// equilibrium, and for a tree, one linear program in floats and one for its dual. Then an exact
/// solution of a basis, whose time grows with the number of digits of the payoffs. The uniqueness
/// of a matrix game's strategies may need two further linear programs. If the payoffs of one game
/// differ by hundreds of orders of magnitude, the floating-point guess is useless. Exact exchanges
/// then find the basis, and their number may exceed the limit on steps.
///
/// # Errors
/// [`Error::TooLarge`](crate::Error::TooLarge) if the program has more than 2^20 coefficients, or a
/// path of the tree has more than 256 chance moves; [`Error::Unproved`](crate::Error::Unproved) if
/// the proof takes too many steps. For trees also
/// [`Error::PlayersUnsupported`](crate::Error::PlayersUnsupported) unless there are two players,
/// [`Error::NotConstantSum`](crate::Error::NotConstantSum) unless the payoffs of all ends have the
/// same sum exactly, and [`Error::TreeInvalid`](crate::Error::TreeInvalid) if a player lacks
/// perfect recall.
///
/// # Source
/// von Neumann 1928, "Zur Theorie der Gesellschaftsspiele"; for trees Koller, Megiddo and von
/// Stengel 1996, "Efficient computation of equilibria for extensive two-person games".
///
/// # Examples
/// ```
/// use games::{MatrixGame, exact, extensive::{Kuhn, Tree}, ndarray::array};
///
/// let crash = MatrixGame::zero_sum(array![[0, -1, 2], [1, 0, -1], [-2, 1, 0]])?;
/// assert_eq!(exact(&crash)?.to_string(), "value 0, unique, 1/4 1/2 1/4");
///
/// let kuhn = exact(&Tree::from_game(&Kuhn)?)?;
/// assert_eq!(kuhn.value.to_string(), "-1/18");
/// # Ok::<(), games::Error>(())
/// ```
pub fn exact<G: ExactGame>(game: &G) -> Result<G::Solution> {
    Prover::new().exact(game)
}

impl ExactGame for MatrixGame {
    type Solution = MatrixSolution;

    fn solve_exactly(&self, prover: &Prover<'_>) -> Result<MatrixSolution> {
        zero_sum::solve_game(self, prover)
    }
}

impl ExactGame for Tree {
    type Solution = TreeSolution;

    fn solve_exactly(&self, prover: &Prover<'_>) -> Result<TreeSolution> {
        sequence_form::solve_tree(self, prover)
    }
}

impl ExactGame for Sequences {
    type Solution = TreeSolution;

    fn solve_exactly(&self, prover: &Prover<'_>) -> Result<TreeSolution> {
        sequence_form::solve(self, prover)
    }
}
