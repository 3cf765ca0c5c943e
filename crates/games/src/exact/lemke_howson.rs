//! The Lemke-Howson algorithm for one equilibrium of a bimatrix game.
//!
//! Method: complementary pivoting in two integer tableaux, from the pair of origins. The variable
//! of the dropped label enters one tableau. The leaving variable's label is then duplicated in the
//! other polytope, so its twin variable enters there, and so on until the dropped label returns.
//! The perturbation of the ratio test makes every game nondegenerate: no basis occurs twice, so
//! every path ends.
//! Accuracy: exact; computed in 128-bit integers, and once more in integers of any size if these
//! overflow.
//! Source: Lemke and Howson 1964, "Equilibrium points of bimatrix games"; von Stengel 2002,
//! "Computing equilibria for two-person games".
//! Limits: most games have short paths; the longest paths are exponential in the number of actions
//! (Savani and von Stengel 2006).

use super::equilibrium::{Equilibrium, Payoffs};
use super::integer::TableauNumber;
use super::polytope::Polytope;
use super::tableau::Tableau;
use super::work::{Prover, Work};
use crate::{Bimatrix, Error, Rational, Result};
use num_bigint::BigInt;

/// Returns the equilibrium at the end of the path that drops a label.
///
/// Labels number the actions of both players, the rows from 0 and then the columns. The equilibrium
/// is proved by [`super::verify`] and is extreme (see [`super::all_equilibria`]). Different labels
/// may lead to the same equilibrium.
///
/// Cost: paths are exponentially long in the worst case, and have no limit on steps. [`Prover`]
/// adds a deadline.
///
/// # Errors
/// [`Error::ParameterInvalid`] if there is no such label; [`Error::TooLarge`] if a payoff needs
/// more than 4096 bits over the common denominator.
///
/// # Source
/// Lemke and Howson 1964, "Equilibrium points of bimatrix games".
///
/// # Examples
/// ```
/// use games::{Bimatrix, exact, ndarray::array};
///
/// let inspection = Bimatrix::new(array![[2, -1], [0, 0]], array![[-4, 0], [-1, -3]])?;
/// let equilibrium = exact::lemke_howson(&inspection, 0)?;
/// assert_eq!(equilibrium.strategies[0][0].to_string(), "1/3");
/// assert_eq!(equilibrium.payoffs[1].to_string(), "-2");
/// # Ok::<(), games::Error>(())
/// ```
pub fn lemke_howson(game: &Bimatrix, label: usize) -> Result<Equilibrium> {
    Prover::new().lemke_howson(game, label)
}

/// Computes the equilibrium at the end of the path that drops a label.
pub(super) fn one(game: &Bimatrix, label: usize, prover: &Prover<'_>) -> Result<Equilibrium> {
    const OPERATION: &str = "exact::lemke_howson";
    let work = Work::new(prover);
    let payoffs = Payoffs::short_of(OPERATION, game, &work)?;
    let n_labels = payoffs.shape.iter().sum();
    if label >= n_labels {
        return Err(Error::ParameterInvalid {
            operation: OPERATION,
            parameter: "label",
            value: label as f64,
            must: "the number of an action, rows before columns",
        });
    }
    Paths::new(OPERATION, &payoffs, &work)?.end(OPERATION, &payoffs, label, &work)
}

/// Returns the distinct equilibria at the ends of the paths of all labels, in the order of
/// [`super::all_equilibria`].
///
/// In general these are not all equilibria of the game.
///
/// Cost: paths are exponentially long in the worst case, and have no limit on steps. [`Prover`]
/// adds a deadline.
///
/// # Errors
/// [`Error::TooLarge`] if a payoff needs more than 4096 bits over the common denominator.
///
/// # Examples
/// ```
/// use games::{Bimatrix, exact, ndarray::array};
///
/// let coordination = array![[1, 0], [0, 1]];
/// let game = Bimatrix::new(coordination.clone(), coordination)?;
/// assert_eq!(exact::lemke_howson_all(&game)?.len(), 2);
/// assert_eq!(exact::all_equilibria(&game)?.len(), 3);
/// # Ok::<(), games::Error>(())
/// ```
pub fn lemke_howson_all(game: &Bimatrix) -> Result<Vec<Equilibrium>> {
    Prover::new().lemke_howson_all(game)
}

/// Computes the distinct equilibria at the ends of the paths of all labels, sorted.
pub(super) fn all(game: &Bimatrix, prover: &Prover<'_>) -> Result<Vec<Equilibrium>> {
    const OPERATION: &str = "exact::lemke_howson_all";
    let work = Work::new(prover);
    let payoffs = Payoffs::short_of(OPERATION, game, &work)?;
    let paths = Paths::new(OPERATION, &payoffs, &work)?;
    let labels = 0..payoffs.shape.iter().sum();
    let ends = labels.map(|label| paths.end(OPERATION, &payoffs, label, &work));
    let mut ends = ends.collect::<Result<Vec<_>>>()?;
    Equilibrium::sort(&mut ends);
    // Equal strategies of one game have equal payoffs.
    ends.dedup_by(|end, kept| end.compare(kept).is_eq());
    Ok(ends)
}

/// The two tableaux at which every path starts, in both kinds of integers.
struct Paths {
    words: Option<[Tableau<i128>; 2]>,
    integers: Option<[Tableau<BigInt>; 2]>,
}

impl Paths {
    fn new(operation: &'static str, payoffs: &Payoffs, work: &Work<'_>) -> Result<Self> {
        let polytopes = Polytope::both(payoffs, work).map_err(|halt| halt.error(operation))?;
        Ok(Self {
            words: origins(&polytopes),
            integers: origins(&polytopes),
        })
    }

    fn end(
        &self,
        operation: &'static str,
        payoffs: &Payoffs,
        label: usize,
        work: &Work<'_>,
    ) -> Result<Equilibrium> {
        // `None` is an overflow of the words or a limit of the work. A limit stays reached, so the
        // second run then ends at its first step, and the check returns the error.
        let in_words = || follow(self.words.clone()?, label, work);
        let in_integers = || follow(self.integers.clone()?, label, work);
        let found = in_words().or_else(in_integers);
        work.check().map_err(|halt| halt.error(operation))?;
        let strategies = found
            .expect("integers of any size do not overflow, and a bounded polytope has a ratio");
        payoffs.prove(operation, strategies, work)
    }
}

/// Returns the tableaux of both polytopes at their origins, or `None` if an entry overflows.
fn origins<T: TableauNumber>(polytopes: &[Polytope; 2]) -> Option<[Tableau<T>; 2]> {
    let [rows, cols] = polytopes;
    Some([Tableau::from_polytope(rows)?, Tableau::from_polytope(cols)?])
}

/// Follows the path that drops a label, and returns the strategies at its end; `None` at an
/// overflow or a limit of the work.
fn follow<T: TableauNumber + Into<BigInt>>(
    mut tableaux: [Tableau<T>; 2],
    dropped: usize,
    work: &Work<'_>,
) -> Option<[Vec<Rational>; 2]> {
    // A label is tight in a polytope where its variable is nonbasic. At the origins each label is
    // tight once: in the polytope of the player who owns it, where the path begins.
    let mut player = usize::from(!tableaux[0].owns(dropped));
    let mut entering = dropped;
    loop {
        let leaving = tableaux[player].enter(entering, work)?;
        // Each label is tight again in one of the polytopes, as at an equilibrium.
        if leaving == dropped {
            let [rows, cols] = &tableaux;
            return Some([rows.strategy(work)?, cols.strategy(work)?]);
        }
        // This label is now tight in both polytopes, so its twin enters in the other one.
        entering = leaving;
        player = 1 - player;
    }
}
