//! All equilibria of a bimatrix game, from the vertices of both best-response polytopes.
//!
//! Method: a walk over all bases of each perturbed polytope. The perturbed polytope is simple and
//! bounded, so its graph is connected, and every vertex of the original polytope corresponds to at
//! least one basis. At each basis the tableau is recomputed from scratch in [`Ball`]s; if these
//! cannot decide a sign (at a vertex that is degenerate, or nearly so), in 128-bit integers; and if
//! these overflow, in integers of any size. Labels name the constraints that are tight at the
//! vertex, for every basis. Pairs of vertices whose labels together are complete are found by
//! splitting the lists label by label.
//! Accuracy: exact; every decision is proved, and each equilibrium is proved once more by its best
//! responses.
//! Source: von Stengel 2002, "Computing equilibria for two-person games"; Avis, Rosenberg, Savani
//! and von Stengel 2010, "Enumeration of Nash equilibria for two-player games"; Winkels 1979
//! (bicliques of vertices).
//! Limits: [`MAX_LABELS`] actions, [`MAX_BASES`] bases of a polytope and [`MAX_EQUILIBRIA`]
//! equilibria; the number of bases grows exponentially with that of actions.

use super::ball::Ball;
use super::equilibrium::{Equilibrium, Payoffs};
use super::integer::TableauNumber;
use super::polytope::Polytope;
use super::tableau::Tableau;
use super::work::{Prover, Work};
use crate::number::compare_lists;
use crate::{Bimatrix, Error, Rational, Result, StrategicGame};
use num_bigint::BigInt;
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Largest number of actions of both players together in [`all_equilibria`]: a set of labels is
/// stored in the bits of a `u128`.
pub const MAX_LABELS: usize = 128;

/// Largest number of bases of a best-response polytope visited by [`all_equilibria`].
pub const MAX_BASES: usize = 1 << 20;

/// Largest number of extreme equilibria returned by [`all_equilibria`].
pub const MAX_EQUILIBRIA: usize = 1 << 16;

const OPERATION: &str = "exact::all_equilibria";

/// A set of labels, a bit each.
type LabelSet = u128;

/// Cost per label set of splitting two lists by a label, in operations on words.
const WORDS_OF_SET: u64 = 2;
/// Fixed cost of splitting two lists by a label, in operations on words.
const WORDS_OF_CALL: u64 = 64;

/// Returns all extreme equilibria, in descending lexicographic order of the row player's and then
/// the column player's probabilities.
///
/// An equilibrium is extreme if each strategy is a vertex: it is not a mixture of two other
/// strategies of the player against which the opponent has at least the same best responses. A
/// nondegenerate game has an odd number of equilibria, all of them extreme. In any game the set of
/// equilibria is a union of products of two polytopes, whose vertices are the extreme equilibria;
/// [`components`] returns the connected components of this set.
///
/// # Errors
/// [`Error::TooLarge`] if the game exceeds [`MAX_LABELS`], [`MAX_BASES`] or [`MAX_EQUILIBRIA`], or
/// a payoff needs more than 4096 bits over the common denominator.
///
/// # Source
/// Avis, Rosenberg, Savani and von Stengel 2010, "Enumeration of Nash equilibria for two-player
/// games".
///
/// # Examples
/// ```
/// use games::{Bimatrix, exact, ndarray::array};
///
/// let game = Bimatrix::new(array![[3, 0], [0, 2]], array![[2, 0], [0, 3]])?;
/// let equilibria = exact::all_equilibria(&game)?;
/// assert_eq!(equilibria.len(), 3);
/// assert_eq!(equilibria[1].strategies[0][0].to_string(), "3/5");
/// # Ok::<(), games::Error>(())
/// ```
pub fn all_equilibria(game: &Bimatrix) -> Result<Vec<Equilibrium>> {
    Prover::new().all_equilibria(game)
}

/// Computes all extreme equilibria.
pub(super) fn all(game: &Bimatrix, prover: &Prover<'_>) -> Result<Vec<Equilibrium>> {
    let work = &Work::new(prover);
    let n_labels = game.shape().iter().sum();
    within("actions of both players", n_labels, MAX_LABELS)?;
    let payoffs = Payoffs::short_of(OPERATION, game, work)?;
    let polytopes = Polytope::both(&payoffs, work).map_err(|halt| halt.error(OPERATION))?;
    let bases = polytopes.map(|polytope| Bases::new(&polytope));
    let vertices = [bases[0].vertices(work)?, bases[1].vertices(work)?];
    let pairs = complementary(&vertices, n_labels, work)?;
    let mut strategies: [HashMap<LabelSet, Vec<Rational>>; 2] = Default::default();
    let mut equilibria = Vec::with_capacity(pairs.len());
    for pair in pairs {
        for player in 0..2 {
            let labels = pair[player];
            if !strategies[player].contains_key(&labels) {
                let strategy = bases[player].strategy(vertices[player][&labels], work)?;
                strategies[player].insert(labels, strategy);
            }
        }
        let profile = [0, 1].map(|player| strategies[player][&pair[player]].clone());
        equilibria.push(payoffs.prove(OPERATION, profile, work)?);
    }
    Equilibrium::sort(&mut equilibria);
    Ok(equilibria)
}

/// Returns the connected components of a game's equilibria, as indices into the list of all extreme
/// equilibria.
///
/// Two extreme equilibria that share a strategy are connected by a line of equilibria. A component
/// contains all equilibria that such lines connect. An isolated equilibrium is a component of its
/// own. Both the components and the numbers in each are in order.
///
/// # Examples
/// ```
/// use games::{Bimatrix, exact, ndarray::array};
///
/// // The column player's payoff is always 0, so equilibria form lines.
/// let game = Bimatrix::new(array![[1, 0], [0, 1]], array![[0, 0], [0, 0]])?;
/// let equilibria = exact::all_equilibria(&game)?;
/// assert_eq!(exact::components(&equilibria), [(0..equilibria.len()).collect::<Vec<_>>()]);
/// # Ok::<(), games::Error>(())
/// ```
#[must_use]
pub fn components(equilibria: &[Equilibrium]) -> Vec<Vec<usize>> {
    let mut sharing = [0, 1].map(|player| Sharing::new(equilibria, player));
    let mut is_seen = vec![false; equilibria.len()];
    let mut components = Vec::new();
    for first in 0..equilibria.len() {
        let mut component = Vec::new();
        let mut open = vec![first];
        while let Some(at) = open.pop() {
            if std::mem::replace(&mut is_seen[at], true) {
                continue;
            }
            component.push(at);
            for sharing in &mut sharing {
                open.append(&mut sharing.groups[sharing.group_of[at]]);
            }
        }
        if !component.is_empty() {
            component.sort_unstable();
            components.push(component);
        }
    }
    components
}

/// Equilibria grouped by the strategy of one player.
struct Sharing {
    /// The equilibria that share a strategy, for each distinct strategy.
    groups: Vec<Vec<usize>>,
    /// The index of each equilibrium's group.
    group_of: Vec<usize>,
}

impl Sharing {
    /// Groups equilibria by sorting: a hash of a fraction recurses as deep as its continued
    /// fraction is long.
    fn new(equilibria: &[Equilibrium], player: usize) -> Self {
        let compare = |a: usize, b: usize| {
            let [a, b] = [a, b].map(|at| &equilibria[at].strategies[player]);
            compare_lists(a, b)
        };
        let mut order: Vec<usize> = (0..equilibria.len()).collect();
        order.sort_by(|&a, &b| compare(a, b));
        let groups = order.chunk_by(|&a, &b| compare(a, b).is_eq());
        let groups: Vec<Vec<usize>> = groups.map(<[usize]>::to_vec).collect();
        let mut group_of = vec![0; equilibria.len()];
        for (group, members) in groups.iter().enumerate() {
            for &at in members {
                group_of[at] = group;
            }
        }
        Self { groups, group_of }
    }
}

/// The labels that are tight at the vertex of a basis, and the neighbouring bases.
#[derive(Debug, PartialEq)]
struct Corner {
    tight: LabelSet,
    neighbours: Vec<LabelSet>,
}

/// The bases of a polytope. A basis is the label set of its basic variables; its tableau is
/// computed from the tableau of the origin in one of three kinds of numbers.
struct Bases {
    origin: LabelSet,
    balls: Option<Tableau<Ball>>,
    words: Option<Tableau<i128>>,
    integers: Option<Tableau<BigInt>>,
}

impl Bases {
    fn new(polytope: &Polytope) -> Self {
        Self {
            origin: set(polytope.others.clone()),
            balls: Tableau::from_polytope(polytope),
            words: Tableau::from_polytope(polytope),
            integers: Tableau::from_polytope(polytope),
        }
    }

    /// Returns, for each vertex except the origin, its tight labels and one of its bases.
    fn vertices(&self, work: &Work<'_>) -> Result<BTreeMap<LabelSet, LabelSet>> {
        let mut vertices = BTreeMap::new();
        let mut seen = HashSet::from([self.origin]);
        let mut open = vec![self.origin];
        while let Some(basis) = open.pop() {
            let corner = self.corner(basis, work)?;
            if basis != self.origin {
                vertices.entry(corner.tight).or_insert(basis);
            }
            let new = corner.neighbours.into_iter();
            // `insert` returns false for known bases, so every basis is visited once.
            open.extend(new.filter(|&neighbour| seen.insert(neighbour)));
            within("bases of a polytope", seen.len(), MAX_BASES)?;
        }
        Ok(vertices)
    }

    fn corner(&self, basis: LabelSet, work: &Work<'_>) -> Result<Corner> {
        let in_words = || at(&self.words, basis, corner, work);
        let in_integers = || at(&self.integers, basis, corner, work);
        let found = at(&self.balls, basis, corner, work)
            .or_else(in_words)
            .or_else(in_integers);
        work.check().map_err(|halt| halt.error(OPERATION))?;
        Ok(found.expect("integers of any size leave nothing open"))
    }

    fn strategy(&self, basis: LabelSet, work: &Work<'_>) -> Result<Vec<Rational>> {
        let in_integers = || {
            at(
                &self.integers,
                basis,
                |tableau| tableau.strategy(work),
                work,
            )
        };
        let found = at(&self.words, basis, |tableau| tableau.strategy(work), work);
        let found = found.or_else(in_integers);
        work.check().map_err(|halt| halt.error(OPERATION))?;
        Ok(found.expect("integers of any size do not overflow"))
    }
}

/// Evaluates a function on the tableau of a basis, computed from the tableau of the origin.
fn at<T: TableauNumber, R>(
    origin: &Option<Tableau<T>>,
    basis: LabelSet,
    evaluate: impl Fn(&Tableau<T>) -> Option<R>,
    work: &Work<'_>,
) -> Option<R> {
    let mut tableau = origin.clone()?;
    tableau.go_to(|label| basis >> label & 1 == 1, work)?;
    evaluate(&tableau)
}

fn corner<T: TableauNumber>(tableau: &Tableau<T>) -> Option<Corner> {
    let basis = set(tableau.basic().iter().copied());
    // Nonbasic variables are 0. At a degenerate vertex some basic variables are 0 as well.
    let mut tight = set(tableau.nonbasic().iter().copied());
    for (row, &label) in tableau.basic().iter().enumerate() {
        if tableau.value(row).sign()? == Ordering::Equal {
            tight |= 1 << label;
        }
    }
    let across = |(col, &enters): (usize, &usize)| {
        let leaves = tableau.basic()[tableau.leaving(col)?];
        Some(basis ^ (1 << enters) ^ (1 << leaves))
    };
    let neighbours = tableau.nonbasic().iter().enumerate().map(across);
    Some(Corner {
        tight,
        neighbours: neighbours.collect::<Option<_>>()?,
    })
}

/// Returns the pairs of vertices whose label sets together contain all labels.
fn complementary(
    vertices: &[BTreeMap<LabelSet, LabelSet>; 2],
    n_labels: usize,
    work: &Work<'_>,
) -> Result<Vec<[LabelSet; 2]>> {
    let lists = [0, 1].map(|player| vertices[player].keys().copied().collect::<Vec<_>>());
    let mut pairs = Vec::new();
    join(lists, n_labels, &mut pairs, work)?;
    Ok(pairs)
}

/// Collects the pairs of sets, one from each list, whose union contains the labels below `n_left`.
fn join(
    lists: [Vec<LabelSet>; 2],
    n_left: usize,
    pairs: &mut Vec<[LabelSet; 2]>,
    work: &Work<'_>,
) -> Result<()> {
    let [rows, cols] = lists;
    if rows.is_empty() || cols.is_empty() {
        return Ok(());
    }
    work.count(WORDS_OF_CALL + WORDS_OF_SET * (rows.len() + cols.len()) as u64)
        .map_err(|halt| halt.error(OPERATION))?;
    let Some(label) = n_left.checked_sub(1) else {
        within(
            "extreme equilibria",
            pairs.len() + rows.len() * cols.len(),
            MAX_EQUILIBRIA,
        )?;
        pairs.extend(
            rows.iter()
                .flat_map(|&row| cols.iter().map(move |&col| [row, col])),
        );
        return Ok(());
    };
    let has = |labels: &LabelSet| labels >> label & 1 == 1;
    // A row set without the label needs a column set with it; a row set with the label accepts
    // every column set. The two cases are disjoint, so no pair occurs twice.
    let cols_with: Vec<LabelSet> = cols.iter().copied().filter(has).collect();
    let (rows_with, rows_without): (Vec<LabelSet>, Vec<LabelSet>) = rows.into_iter().partition(has);
    join([rows_without, cols_with], label, pairs, work)?;
    join([rows_with, cols], label, pairs, work)
}

fn set(labels: impl IntoIterator<Item = usize>) -> LabelSet {
    labels.into_iter().fold(0, |set, label| set | 1 << label)
}

fn within(what: &'static str, needed: usize, limit: usize) -> Result<()> {
    if needed <= limit {
        return Ok(());
    }
    Err(Error::TooLarge {
        operation: OPERATION,
        what,
        needed: needed as u128,
        limit: limit as u128,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::Array2;
    use std::cell::Cell;
    use std::ops::ControlFlow;
    use tensor_core::rng::Philox;

    fn unlimited() -> Work<'static> {
        Work::new(&Prover::new())
    }

    fn bases(n: usize, draw: impl Fn(&Philox, u64) -> f64) -> Bases {
        let random = Philox::new(5);
        let payoffs =
            Array2::from_shape_fn((n, n), |(row, col)| draw(&random, (row * n + col) as u64));
        let game = Bimatrix::new(payoffs.clone(), payoffs).unwrap();
        let payoffs = Payoffs::short_of(OPERATION, &game, &unlimited()).unwrap();
        Bases::new(&Polytope::new(&payoffs, 0, &unlimited()).unwrap())
    }

    /// Checks that the three kinds of numbers agree at one basis of each vertex. Returns the number
    /// of bases that balls decide, and the number of bases checked.
    fn compare_kinds(bases: &Bases) -> [usize; 2] {
        let work = unlimited();
        let vertices: Vec<_> = bases.vertices(&work).unwrap().into_values().collect();
        let mut n_by_balls = 0;
        for &basis in &vertices {
            let exact = sorted(at(&bases.integers, basis, corner, &work).unwrap());
            let by_words = at(&bases.words, basis, corner, &work).map(sorted);
            assert!(by_words.is_none_or(|corner| corner == exact));
            let by_balls = at(&bases.balls, basis, corner, &work).map(sorted);
            n_by_balls += usize::from(by_balls.is_some());
            assert!(by_balls.is_none_or(|corner| corner == exact));
        }
        [n_by_balls, vertices.len()]
    }

    fn sorted(mut corner: Corner) -> Corner {
        corner.neighbours.sort_unstable();
        corner
    }

    #[test]
    fn the_kinds_of_numbers_agree_at_every_basis() {
        let [n_by_balls, n_bases] = compare_kinds(&bases(6, |random, at| random.normal(at)));
        assert_eq!(n_by_balls, n_bases, "normal numbers tie nowhere");
        let small = |random: &Philox, at| f64::from(random.word(at) % 20);
        let [n_by_balls, n_bases] = compare_kinds(&bases(6, small));
        assert!(
            0 < n_by_balls && n_by_balls < n_bases,
            "{n_by_balls} of {n_bases}"
        );
    }

    #[test]
    fn more_equilibria_than_the_limit_are_rejected() {
        let all_labels = || (0..300).map(|_| 3).collect();
        let joined = join(
            [all_labels(), all_labels()],
            2,
            &mut Vec::new(),
            &unlimited(),
        );
        assert!(matches!(
            joined,
            Err(Error::TooLarge { needed: 90_000, .. })
        ));
    }

    #[test]
    fn joining_vertices_can_be_cancelled() {
        // All sets without label 0, which is the last one joined: no pairs, and lists that are
        // split again and again.
        let sets = || (0..1 << 18).step_by(2).collect::<Vec<LabelSet>>();
        let n_looks = Cell::new(0);
        let watch = || {
            n_looks.set(n_looks.get() + 1);
            if n_looks.get() == 3 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let work = Work::new(&Prover::new().interrupted_by(&watch));
        let joined = join([sets(), sets()], 18, &mut Vec::new(), &work);
        assert_eq!(
            joined,
            Err(Error::Cancelled {
                operation: OPERATION
            })
        );
        assert_eq!(n_looks.get(), 3);
    }
}
