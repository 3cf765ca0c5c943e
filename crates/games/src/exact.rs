//! Solutions with a proof: computed in fractions, from payoffs as they were given.
//!
//! Role: answers that need no tolerance. Values, strategies and bounds come as
//! [`Rational`](crate::Rational)s, together with solutions of the dual program that prove them;
//! what is not proved is an error.
//! Method: equilibria of bimatrix games by integer pivots ([`lemke_howson`], [`all_equilibria`]),
//! each proved once more by best responses. All else is put as a linear program with integer
//! coefficients. A solver in floats guesses which variables are positive; the basis that follows
//! from the guess is solved exactly, by lifting its solution modulo a prime; if it and its prices
//! do not prove each other optimal, exact pivots repair it. Equal objectives are the proof.
//! Source: Dhiflaoui et al. 2003, "Certifying and repairing solutions to large LPs".
//! Limits: programs of up to 2^20 non-zero coefficients, and proofs of up to 2^34 steps of
//! arithmetic: more is an error. A guess that takes longer than two minutes is given up; what comes
//! without it is proved all the same. [`Prover`] adds a deadline and cancellation.

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
/// The value is the first player's; the second's is what it leaves of the sum, which is 0 in a
/// zero-sum game. The value is the least upper bound of what the first player can be sure of and
/// the greatest lower bound of what the second can hold it to; the strategies guarantee it,
/// exactly, for the payoffs as they were given. A float payoff is the dyadic fraction that it is:
/// 0.1 is not 1/10, which may be given as a [`Rational`](crate::Rational).
///
/// Cost: one linear program in floats, one for its dual, and a basis solved exactly, which takes
/// the longer the more digits the payoffs have. Payoffs that lie hundreds of decades apart within
/// one game leave floats without a clue; then exact exchanges find the basis, and their number is
/// what the error below is for.
///
/// # Errors
/// [`Error::TooLarge`](crate::Error::TooLarge) if the program has more than 2^20 coefficients;
/// [`Error::Unproved`](crate::Error::Unproved) if the proof takes too many steps. For trees also
/// [`Error::PlayersUnsupported`](crate::Error::PlayersUnsupported) unless there are two players,
/// [`Error::NotConstantSum`](crate::Error::NotConstantSum) unless the payoffs of all ends have the
/// same sum exactly, and [`Error::TreeInvalid`](crate::Error::TreeInvalid) if a player forgets.
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
/// let kuhn = exact(&Tree::of(&Kuhn)?)?;
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
        Sequences::of(self)?.solve_exactly(prover)
    }
}

impl ExactGame for Sequences {
    type Solution = TreeSolution;

    fn solve_exactly(&self, prover: &Prover<'_>) -> Result<TreeSolution> {
        sequence_form::solve(self, prover)
    }
}
