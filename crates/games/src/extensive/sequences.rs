//! The sequence form of a game with perfect recall.
//!
//! Role: the input of the solvers. A player's sequence is the list of its actions on the path to a
//! node. A sequence is identified by its last action, which belongs to an information set. Sequence
//! 0 is the empty sequence.
//! Method: one traversal of the tree in its order, so a set comes after the set of its parent
//! sequence.
//! Limits: perfect recall; games without it are rejected.
//! Source: von Stengel 1996, "Efficient computation of behavior strategies".

#![expect(
    clippy::cast_possible_truncation,
    reason = "a tree has fewer than 2^27 nodes, so all counts fit 32 bits"
)]

use super::{Chance, Node, Tree};
use crate::centre::Centred;
use crate::number::nearest;
use crate::{Error, Rational, Result};
use num_traits::One;
use std::ops::Range;

/// An information set, with the sequence that leads to the set and the sequences that end with its
/// actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Index of the set in [`Tree::information_sets`].
    pub set: u32,
    /// The sequence that leads to the set.
    pub parent: u32,
    /// The sequence that ends with the set's first action; the sequences of its other actions
    /// follow.
    pub first: u32,
    /// Number of actions of the set.
    pub n_actions: u32,
}

impl Decision {
    /// Returns the range of the set's actions in a strategy of its player; the index of an action
    /// is its sequence number minus 1.
    #[must_use]
    pub fn actions(&self) -> Range<usize> {
        let first = self.first as usize - 1;
        first..first + self.n_actions as usize
    }
}

/// A terminal node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Index of the probability that chance makes the moves on the path to the end: the argument of
    /// [`Sequences::reach`] and [`Sequences::exact_reach`].
    pub reach: u32,
    /// Index of the payoffs in [`Sequences::outcomes`].
    pub outcome: u32,
}

/// The sequence form of a game.
#[derive(Clone, Debug)]
pub struct Sequences {
    decisions: Vec<Vec<Decision>>,
    n_sequences: Vec<usize>,
    leaves: Vec<Leaf>,
    /// For each leaf, the sequence of each player.
    leaf_sequences: Vec<u32>,
    reaches: Vec<Reach>,
    chances: Vec<Chance>,
    outcomes: Vec<Vec<Rational>>,
}

/// The chance moves on the path to a node: the index of the `Reach` before the last chance move,
/// and the last chance move.
#[derive(Clone, Copy, Debug)]
struct Reach {
    before: u32,
    chance: u32,
    action: u32,
    probability: f64,
    /// Number of chance moves on the path.
    n_moves: u32,
}

/// The reach of nodes without chance moves on their path.
const SURE: Reach = Reach {
    before: 0,
    chance: 0,
    action: 0,
    probability: 1.0,
    n_moves: 0,
};

/// Largest number of chance moves on the path to a leaf: the number of digits of the product of
/// their probabilities grows with each move.
const MAX_CHANCE_MOVES: u128 = 256;

/// Fixed cost of a node, in operations on machine words: several allocations.
const WORDS_PER_NODE: usize = 128;

/// A function that takes a number of operations on machine words; its error ends the computation.
pub(crate) type Count<'a> = dyn Fn(usize) -> Result<()> + 'a;

/// The state of the traversal at a node.
struct Visit {
    node: u32,
    reach: u32,
    sequences: Vec<u32>,
}

impl Sequences {
    /// Computes the sequence form of a tree.
    ///
    /// # Errors
    /// [`Error::TreeInvalid`] if a player lacks perfect recall: two nodes of an information set are
    /// reached by different sequences.
    pub fn new(tree: &Tree) -> Result<Self> {
        Self::counted(tree, &|_| Ok(()))
    }

    /// Computes the sequence form of a tree, and reports the operations on machine words to `count`
    /// as they are done. An error of `count` ends the computation.
    pub(crate) fn counted(tree: &Tree, count: &Count<'_>) -> Result<Self> {
        count(0)?;
        let n_players = tree.n_players();
        let mut form = Self {
            decisions: vec![vec![]; n_players],
            n_sequences: vec![1; n_players],
            leaves: vec![],
            leaf_sequences: vec![],
            reaches: vec![SURE],
            chances: tree.chances().to_vec(),
            outcomes: tree.outcomes().to_vec(),
        };
        let mut known_sets: Vec<Option<Decision>> = vec![None; tree.information_sets().len()];
        let mut open = vec![Visit {
            node: 0,
            reach: 0,
            sequences: vec![0; n_players],
        }];
        while let Some(visit) = open.pop() {
            count(WORDS_PER_NODE + n_players)?;
            let node = visit.node as usize;
            match tree.nodes()[node] {
                Node::Terminal(outcome) => form.push_leaf(&visit, outcome),
                Node::Chance(chance) => {
                    for (action, &child) in tree.children(node).iter().enumerate().rev() {
                        open.push(Visit {
                            node: child,
                            reach: form.push_reach(visit.reach, chance, action),
                            sequences: visit.sequences.clone(),
                        });
                    }
                }
                Node::Decision(set) => {
                    let player = tree.information_sets()[set as usize].player;
                    let n_actions = tree.children(node).len() as u32;
                    let parent = visit.sequences[player];
                    let decision = *known_sets[set as usize]
                        .get_or_insert_with(|| form.push_decision(player, set, parent, n_actions));
                    if decision.parent != parent {
                        let name = &tree.information_sets()[set as usize].name;
                        return Err(Error::TreeInvalid {
                            operation: "extensive::Sequences",
                            node,
                            fault: format!(
                                "player {} reaches information set {} {name:?} (both numbered from 1) by different own actions: no perfect recall",
                                player + 1,
                                set + 1
                            ),
                        });
                    }
                    for (action, &child) in (0..n_actions).zip(tree.children(node)).rev() {
                        let mut sequences = visit.sequences.clone();
                        sequences[player] = decision.first + action;
                        open.push(Visit {
                            node: child,
                            reach: visit.reach,
                            sequences,
                        });
                    }
                }
            }
        }
        Ok(form)
    }

    /// Returns the number of players.
    #[must_use]
    pub fn n_players(&self) -> usize {
        self.decisions.len()
    }

    /// Returns a player's information sets, each after its parent set.
    ///
    /// # Panics
    /// If there is no such player.
    #[must_use]
    pub fn decisions(&self, player: usize) -> &[Decision] {
        &self.decisions[player]
    }

    /// Returns the number of a player's sequences, including the empty sequence.
    ///
    /// # Panics
    /// If there is no such player.
    #[must_use]
    pub fn n_sequences(&self, player: usize) -> usize {
        self.n_sequences[player]
    }

    /// Returns the terminal nodes.
    #[must_use]
    pub fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }

    /// Returns each player's sequence at a leaf.
    ///
    /// # Panics
    /// If there is no such leaf.
    #[must_use]
    pub fn leaf_sequences(&self, leaf: usize) -> &[u32] {
        &self.leaf_sequences[leaf * self.n_players()..][..self.n_players()]
    }

    /// Returns the probability that chance makes the moves on the path to a leaf, as a product of
    /// rounded factors.
    ///
    /// # Panics
    /// If there is no such number.
    #[must_use]
    pub fn reach(&self, reach: u32) -> f64 {
        self.reaches[reach as usize].probability
    }

    /// Returns the probability that chance makes the moves on the path to a leaf, as a fraction.
    ///
    /// Cost: one multiplication of fractions for each of these moves; the product may have as many
    /// digits as all factors together.
    ///
    /// # Panics
    /// If there is no such number.
    #[must_use]
    pub fn exact_reach(&self, reach: u32) -> Rational {
        let mut product = Rational::one();
        let mut at = reach;
        while at != 0 {
            let Reach {
                before,
                chance,
                action,
                ..
            } = self.reaches[at as usize];
            product *= &self.chances[chance as usize].probabilities[action as usize];
            at = before;
        }
        product
    }

    /// Returns the largest number of chance moves on the path to a node.
    #[must_use]
    pub(crate) fn most_chance_moves(&self) -> u32 {
        let n_moves = self.reaches.iter().map(|reach| reach.n_moves);
        n_moves.max().unwrap_or(0)
    }

    /// Checks that there are at most [`MAX_CHANCE_MOVES`] chance moves on the path to each node.
    pub(crate) fn check_chance_moves(&self, operation: &'static str) -> Result<()> {
        let needed = self.most_chance_moves().into();
        if needed > MAX_CHANCE_MOVES {
            return Err(Error::TooLarge {
                operation,
                what: "number of chance moves on a path",
                needed,
                limit: MAX_CHANCE_MOVES,
            });
        }
        Ok(())
    }

    /// Returns the distinct payoffs, one number for each player.
    #[must_use]
    pub fn outcomes(&self) -> &[Vec<Rational>] {
        &self.outcomes
    }

    /// Returns the sum of all players' payoffs at the first outcome; 0 if there are no outcomes.
    pub(crate) fn sum(&self) -> Rational {
        self.outcomes
            .first()
            .map_or_else(Rational::default, |outcome| outcome.iter().sum())
    }

    /// Returns a player's distinct payoffs minus a constant, in the order of [`Self::outcomes`].
    #[must_use]
    pub(crate) fn centred_payoffs(&self, player: usize) -> Centred {
        let payoffs: Vec<Rational> = self
            .outcomes
            .iter()
            .map(|outcome| outcome[player].clone())
            .collect();
        Centred::of_outcomes(&payoffs)
    }

    /// Returns a player's centred payoff at each leaf, times the probability of the chance moves on
    /// the path.
    #[must_use]
    pub(crate) fn weighted_payoffs(&self, player: usize) -> Vec<f64> {
        let Centred { payoffs, .. } = self.centred_payoffs(player);
        let weighted = |leaf: &Leaf| self.reach(leaf.reach) * payoffs[leaf.outcome as usize];
        self.leaves.iter().map(weighted).collect()
    }

    /// Returns the largest number of a player's information sets on the path to a leaf.
    #[must_use]
    pub(crate) fn depth(&self, player: usize) -> u32 {
        let mut depths = vec![0; self.n_sequences[player]];
        for decision in &self.decisions[player] {
            let depth = depths[decision.parent as usize] + 1;
            let first = decision.first as usize;
            depths[first..first + decision.n_actions as usize].fill(depth);
        }
        depths.into_iter().max().unwrap_or(0)
    }

    /// Returns the largest number of additions between the payoff of a leaf and the player's
    /// expected payoff: at each sequence on the path, one addition for each leaf and each set
    /// directly after the sequence.
    #[must_use]
    pub(crate) fn n_additions(&self, player: usize) -> u64 {
        let mut additions = vec![0_u64; self.n_sequences[player]];
        for leaf in 0..self.leaves.len() {
            additions[self.leaf_sequences(leaf)[player] as usize] += 1;
        }
        for decision in &self.decisions[player] {
            additions[decision.parent as usize] += 1;
        }
        // Parents come first, so each count is complete when it is passed on.
        for decision in &self.decisions[player] {
            let before = additions[decision.parent as usize];
            let first = decision.first as usize;
            let own = &mut additions[first..first + decision.n_actions as usize];
            own.iter_mut().for_each(|count| *count += before);
        }
        additions.into_iter().max().unwrap_or(0)
    }

    fn push_decision(&mut self, player: usize, set: u32, parent: u32, n_actions: u32) -> Decision {
        let decision = Decision {
            set,
            parent,
            first: self.n_sequences[player] as u32,
            n_actions,
        };
        self.decisions[player].push(decision);
        self.n_sequences[player] += n_actions as usize;
        decision
    }

    fn push_reach(&mut self, before: u32, chance: u32, action: usize) -> u32 {
        let probability = nearest(&self.chances[chance as usize].probabilities[action]);
        self.reaches.push(Reach {
            before,
            chance,
            action: action as u32,
            probability: self.reach(before) * probability,
            n_moves: self.reaches[before as usize].n_moves + 1,
        });
        self.reaches.len() as u32 - 1
    }

    fn push_leaf(&mut self, visit: &Visit, outcome: u32) {
        self.leaves.push(Leaf {
            reach: visit.reach,
            outcome,
        });
        self.leaf_sequences.extend(&visit.sequences);
    }
}
