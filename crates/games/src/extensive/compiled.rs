//! The compiled game: a two-player game laid out for learning.
//!
//! Role: a game is compiled once; loops over the compiled game do not hash, allocate, or call
//! through a pointer.
//! Method: a chunk has `LANES` information sets of one player, with equal depth and equally many
//! actions, one set in each SIMD lane. Each action of a chunk is a vector of lanes. Sets that lead
//! to the same terminal nodes (that share a public state) get neighbouring lanes, so the payoffs
//! between two vectors fill a small matrix, called a tile. Many tiles are equal, and each distinct
//! tile is stored once. The payoffs of a tile with few entries are stored one by one. The
//! arrangement of sets affects speed only.
//! Shapes: vector 0 contains the empty sequence in lane 0. A lane without a set has as its parent a
//! lane of vector 0 that is always 0.
//! Cost: memory grows with sequences, tiles, distinct tiles, and payoffs outside tiles.
//! Source: public states are those of Johanson et al. 2011, "Accelerating best response calculation
//! in large extensive games".

mod layout;
mod learning;
mod payoffs;

use super::{Count, ExtensiveGame, Sequences, Tree};
use crate::{Error, Labels, Result};
use crate::{centre, number};
use layout::Layout;
use payoffs::Payoffs;

/// Cost of a leaf in one step of compilation, in operations on machine words.
const WORDS_PER_LEAF: usize = 128;

/// A two-player game, laid out in memory for learning with SIMD.
///
/// # Examples
/// ```
/// use games::extensive::{CompiledGame, Leduc};
/// use games::{SolverConfig, solve};
///
/// let leduc = CompiledGame::new(&Leduc::new())?;
/// let solution = solve(&leduc, &SolverConfig::discounted(1.5, 0.0, 2.0).iterations(100))?;
/// assert!(solution.nash_conv < 0.02);
/// # Ok::<(), games::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CompiledGame {
    labels: Labels,
    sequences: Sequences,
    sides: [Side; 2],
    ranges: [f64; 2],
    /// The constant subtracted from each player's payoffs.
    constants: [f64; 2],
    roundings: [Roundings; 2],
}

/// The terms of the rounding error of a player's best response that depend only on the tree.
#[derive(Clone, Copy, Debug)]
struct Roundings {
    /// The largest absolute value of a centred payoff.
    size: f64,
    /// Number of roundings between a leaf's payoff and the value of a set; roundings of the other
    /// player's probabilities are not counted.
    n: f64,
    /// The largest number of the player's own sets on the path to a leaf.
    depth: f64,
}

/// The data of one player.
#[derive(Clone, Debug)]
struct Side {
    layout: Layout,
    payoffs: Payoffs,
}

impl CompiledGame {
    /// Compiles a game.
    ///
    /// # Errors
    /// Those of [`Tree::from_game`] and [`Self::from_tree`].
    pub fn new<G: ExtensiveGame>(game: &G) -> Result<Self> {
        Self::from_tree(&Tree::from_game(game)?)
    }

    /// Compiles a tree.
    ///
    /// # Errors
    /// [`Error::PlayersUnsupported`] unless there are two players; [`Error::TreeInvalid`] if a
    /// player does not have perfect recall.
    pub fn from_tree(tree: &Tree) -> Result<Self> {
        Self::counted(tree, &|_| Ok(()))
    }

    /// Compiles a tree, and reports the operations on machine words to `count` as they are done. An
    /// error of `count` ends the computation.
    pub(crate) fn counted(tree: &Tree, count: &Count<'_>) -> Result<Self> {
        let n_players = tree.n_players();
        if n_players != 2 {
            return Err(Error::PlayersUnsupported {
                operation: "extensive::CompiledGame",
                n_players,
                must: "2",
            });
        }
        let sequences = Sequences::counted(tree, count)?;
        // Each of the following steps takes at most some milliseconds for each 10,000 leaves.
        let step = || count(WORDS_PER_LEAF * sequences.leaves().len());
        step()?;
        let layouts = layout::layouts(&sequences);
        step()?;
        let payoffs = [
            Payoffs::new(&sequences, &layouts, 0, count)?,
            Payoffs::new(&sequences, &layouts, 1, count)?,
        ];
        let [first, second] = layouts;
        step()?;
        let centred = [0, 1].map(|player| sequences.centred_payoffs(player));
        let ranges = centred
            .each_ref()
            .map(|centred| number::range(centred.payoffs.iter().copied()));
        let [first_payoffs, second_payoffs] = payoffs;
        Ok(Self {
            labels: tree.labels().clone(),
            ranges,
            constants: centred.each_ref().map(|centred| centred.constant),
            roundings: [0, 1]
                .map(|player| Roundings::new(&sequences, &centred[player].payoffs, player)),
            sequences,
            sides: [
                Side {
                    layout: first,
                    payoffs: first_payoffs,
                },
                Side {
                    layout: second,
                    payoffs: second_payoffs,
                },
            ],
        })
    }

    /// Returns the names of the game and its players.
    #[must_use]
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Returns the sequence form from which the compiled game was compiled.
    #[must_use]
    pub fn sequences(&self) -> &Sequences {
        &self.sequences
    }
}

impl Roundings {
    fn new(sequences: &Sequences, payoffs: &[f64], player: usize) -> Self {
        // Two roundings for each chance move (the probability and the product), then the payoff and
        // its two products.
        let n = 2 * u64::from(sequences.most_chance_moves()) + sequences.n_additions(player) + 3;
        Self {
            size: centre::largest_size(payoffs),
            n: n as f64,
            depth: f64::from(sequences.depth(player)),
        }
    }
}
