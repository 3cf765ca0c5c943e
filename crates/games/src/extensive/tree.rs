//! An explicit game tree.
//!
//! Role: the common representation of a game's rules, a file and a solver's input. All numbers are
//! fractions.
//! Method: nodes are stored in depth-first order: a node before its children, and a child's whole
//! subtree before the next child. Equal payoffs and equal chance moves are stored once.
//! Limits: 2^27 nodes.

use super::{ExtensiveGame, Turn};
use crate::equality::equality;
use crate::strategic::table::MAX_PAYOFF;
use crate::{Error, Labels, Number, Rational, Result};
use num_bigint::BigInt;
use num_traits::{Signed, Zero};
use std::collections::HashMap;
use std::hash::Hash;

/// Largest number of nodes of a tree.
const MAX_NODES: usize = 1 << 27;

/// The kind of a tree node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// A chance move; index into [`Tree::chances`].
    Chance(u32),
    /// A player's decision; index into [`Tree::information_sets`].
    Decision(u32),
    /// A terminal node; index of its payoffs in [`Tree::outcomes`].
    Terminal(u32),
}

/// A set of nodes that the player to move cannot distinguish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InformationSet {
    /// Index of the player who moves, from 0.
    pub player: usize,
    /// Name of the set; may be empty.
    pub name: String,
    /// The names of its actions.
    pub actions: Vec<String>,
}

/// A chance move: outcomes and their probabilities, which sum to 1.
#[derive(Clone, Debug, Eq)]
pub struct Chance {
    /// The names of the outcomes.
    pub actions: Vec<String>,
    /// The probabilities of the outcomes.
    pub probabilities: Vec<Rational>,
}

equality!(Chance { actions; probabilities });

/// A game tree.
#[derive(Clone, Debug)]
pub struct Tree {
    labels: Labels,
    nodes: Vec<Node>,
    /// Start of each node's children in `children`.
    first_child: Vec<u32>,
    children: Vec<u32>,
    information_sets: Vec<InformationSet>,
    chances: Vec<Chance>,
    outcomes: Vec<Vec<Rational>>,
}

equality!(Tree {
    labels, nodes, first_child, children, information_sets, chances;
    outcomes
});

impl Tree {
    /// Builds the tree of a game by one traversal of its states.
    ///
    /// Cost: one call of the game's functions for each of its states. Memory: the whole tree.
    ///
    /// # Errors
    /// [`Error::TreeInvalid`] if the rules contradict themselves; [`Error::PayoffInvalid`] for a
    /// payoff that is not finite or exceeds 1e150; [`Error::EmptyGame`] without players;
    /// [`Error::TooLarge`] above 2^27 states.
    pub fn from_game<G: ExtensiveGame>(game: &G) -> Result<Self> {
        let players = (1..=game.n_players()).map(|number| number.to_string());
        let mut builder = TreeBuilder::new(game.title(), players.collect());
        let mut known: HashMap<(usize, String), u32> = HashMap::new();
        let mut open = vec![game.root()];
        while let Some(state) = open.pop() {
            let name = |action| game.action_name(&state, action);
            let n_children = match game.turn(&state) {
                Turn::Chance(weights) => {
                    builder.chance(&weights, || (0..weights.len()).map(name).collect())?;
                    weights.len()
                }
                Turn::Player {
                    player,
                    information,
                    n_actions,
                } => {
                    builder.check_capacity(n_actions)?;
                    let set = match known.get(&(player, information.clone())) {
                        Some(&set) => set,
                        None => {
                            let actions = (0..n_actions).map(name).collect();
                            let set = builder.information_set(player, &information, actions)?;
                            known.insert((player, information), set);
                            set
                        }
                    };
                    builder.decision(set, n_actions)?;
                    n_actions
                }
                Turn::Terminal(payoffs) => {
                    builder.terminal(&payoffs)?;
                    0
                }
            };
            open.extend(
                (0..n_children)
                    .rev()
                    .map(|action| game.play(&state, action)),
            );
        }
        builder.finish()
    }

    /// Returns the title and the names of the players.
    #[must_use]
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Returns the number of players.
    #[must_use]
    pub fn n_players(&self) -> usize {
        self.labels.players.len()
    }

    /// Returns the nodes, each before its children; the first is the root.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns the children of a node, in the order of its actions.
    ///
    /// # Panics
    /// If there is no such node.
    #[must_use]
    pub fn children(&self, node: usize) -> &[u32] {
        let first = self.first_child[node] as usize;
        &self.children[first..first + self.n_children(self.nodes[node])]
    }

    /// Returns the information sets in the order of their creation; for a tree from
    /// [`Self::from_game`], in depth-first order.
    #[must_use]
    pub fn information_sets(&self) -> &[InformationSet] {
        &self.information_sets
    }

    /// Returns the distinct chance moves.
    #[must_use]
    pub fn chances(&self) -> &[Chance] {
        &self.chances
    }

    /// Returns the distinct payoffs of terminal nodes, one number for each player.
    #[must_use]
    pub fn outcomes(&self) -> &[Vec<Rational>] {
        &self.outcomes
    }

    fn n_children(&self, node: Node) -> usize {
        match node {
            Node::Chance(chance) => self.chances[chance as usize].actions.len(),
            Node::Decision(set) => self.information_sets[set as usize].actions.len(),
            Node::Terminal(_) => 0,
        }
    }
}

/// Numerator and denominator as a hash key. The hash of a fraction itself recurses as deep as its
/// continued fraction is long.
type Parts = (BigInt, BigInt);

/// A builder that creates a [`Tree`] node by node, in depth-first order: each new node fills the
/// first open child of the deepest unfinished node.
///
/// # Examples
/// ```
/// use games::extensive::TreeBuilder;
///
/// let players = vec!["Ann".into(), "Bob".into()];
/// let mut builder = TreeBuilder::new("take it or leave it".into(), players);
/// let choice = builder.information_set(0, "start", vec!["take".into(), "leave".into()])?;
/// builder.decision(choice, 2)?;
/// builder.terminal(&[1, -1])?;
/// builder.terminal(&[0, 0])?;
/// assert_eq!(builder.finish()?.nodes().len(), 3);
/// # Ok::<(), games::Error>(())
/// ```
#[derive(Debug)]
pub struct TreeBuilder {
    tree: Tree,
    /// Positions in the tree's children that have no node yet; the last position is filled next.
    open: Vec<usize>,
    known_chances: HashMap<(Vec<String>, Vec<Parts>), u32>,
    known_outcomes: HashMap<Vec<Parts>, u32>,
}

const OPERATION: &str = "extensive::TreeBuilder";

impl TreeBuilder {
    /// Starts a tree with a title and one name, possibly empty, for each player.
    #[must_use]
    pub fn new(title: String, players: Vec<String>) -> Self {
        let labels = Labels {
            title,
            players,
            actions: vec![],
        };
        Self {
            tree: Tree {
                labels,
                nodes: vec![],
                first_child: vec![],
                children: vec![],
                information_sets: vec![],
                chances: vec![],
                outcomes: vec![],
            },
            open: vec![],
            known_chances: HashMap::new(),
            known_outcomes: HashMap::new(),
        }
    }

    /// Creates an information set, for any number of decisions, and returns its index.
    ///
    /// # Errors
    /// [`Error::TreeInvalid`] if there is no such player or no action.
    pub fn information_set(
        &mut self,
        player: usize,
        name: &str,
        actions: Vec<String>,
    ) -> Result<u32> {
        if player >= self.tree.n_players() {
            let n_players = self.tree.n_players();
            return Err(self.fault(format!(
                "no such player ({player}; the tree has {n_players} players)"
            )));
        }
        if actions.is_empty() {
            return Err(self.fault(format!("information set {name:?} has no action")));
        }
        self.tree.information_sets.push(InformationSet {
            player,
            name: name.to_owned(),
            actions,
        });
        Ok(number(self.tree.information_sets.len() - 1))
    }

    /// Adds a chance move with nonnegative weights, which need not sum to 1, and names of the
    /// outcomes.
    ///
    /// # Errors
    /// [`Error::TreeInvalid`] if a weight is negative or not finite, if all are 0, or if the number
    /// of names differs;
    /// [`Error::TooLarge`] above 2^27 nodes.
    pub fn chance<T: Number>(
        &mut self,
        weights: &[T],
        actions: impl FnOnce() -> Vec<String>,
    ) -> Result<()> {
        let weights: Option<Vec<Rational>> = weights.iter().map(Number::exact).collect();
        let weights =
            weights.ok_or_else(|| self.fault("a weight of chance is not finite".into()))?;
        let total: Rational = weights.iter().sum();
        let actions = actions();
        if weights.iter().any(Signed::is_negative) || total.is_zero() {
            return Err(self.fault("weights of chance are negative or all 0".into()));
        }
        if actions.len() != weights.len() {
            let fault = format!(
                "{} weights of chance have {} names",
                weights.len(),
                actions.len()
            );
            return Err(self.fault(fault));
        }
        let probabilities = weights.into_iter().map(|weight| weight / &total).collect();
        self.distribution(Chance {
            actions,
            probabilities,
        })
    }

    /// Adds a chance move whose probabilities are known to be nonnegative and to sum to 1, with one
    /// name for each probability.
    ///
    /// Cost: copies of the numbers and names, without arithmetic.
    ///
    /// # Errors
    /// [`Error::TooLarge`] above 2^27 nodes.
    pub(crate) fn distribution(&mut self, chance: Chance) -> Result<()> {
        let n_children = chance.probabilities.len();
        let key = (chance.actions.clone(), parts(&chance.probabilities));
        let chance = intern(&mut self.known_chances, &mut self.tree.chances, key, chance);
        self.push(Node::Chance(chance), n_children)
    }

    /// Adds a decision of the player who owns the information set.
    ///
    /// # Errors
    /// [`Error::TreeInvalid`] if there is no such set, or if it has another number of actions;
    /// [`Error::TooLarge`] above 2^27 nodes.
    pub fn decision(&mut self, set: u32, n_actions: usize) -> Result<()> {
        let Some(known) = self.tree.information_sets.get(set as usize) else {
            return Err(self.fault(format!("no such information set ({set})")));
        };
        let expected = known.actions.len();
        if expected != n_actions {
            let name = &known.name;
            let fault = format!(
                "information set {name:?} has {n_actions} actions here and {expected} elsewhere"
            );
            return Err(self.fault(fault));
        }
        self.push(Node::Decision(set), n_actions)
    }

    /// Adds a terminal node with one payoff for each player.
    ///
    /// # Errors
    /// [`Error::TreeInvalid`] if there is not one payoff for each player; [`Error::PayoffInvalid`]
    /// if one is not finite or its absolute value exceeds 1e150; [`Error::TooLarge`] above 2^27
    /// nodes.
    pub fn terminal<T: Number>(&mut self, payoffs: &[T]) -> Result<()> {
        if payoffs.len() != self.tree.n_players() {
            let fault = format!(
                "{} payoffs for {} players",
                payoffs.len(),
                self.tree.n_players()
            );
            return Err(self.fault(fault));
        }
        let fits = |payoff: &T| payoff.nearest().abs() <= MAX_PAYOFF;
        if let Some(player) = payoffs.iter().position(|payoff| !fits(payoff)) {
            return Err(Error::PayoffInvalid {
                operation: OPERATION,
                player,
                cell: vec![self.tree.nodes.len()],
                limit: MAX_PAYOFF,
            });
        }
        let outcome: Vec<Rational> = payoffs.iter().filter_map(Number::exact).collect();
        let (known, outcomes) = (&mut self.known_outcomes, &mut self.tree.outcomes);
        let outcome = intern(known, outcomes, parts(&outcome), outcome);
        self.push(Node::Terminal(outcome), 0)
    }

    /// Returns the finished tree.
    ///
    /// # Errors
    /// [`Error::EmptyGame`] without players; [`Error::TreeInvalid`] if the tree is empty, or a
    /// child is missing.
    pub fn finish(self) -> Result<Tree> {
        if self.tree.n_players() == 0 {
            return Err(Error::EmptyGame {
                operation: OPERATION,
                shape: vec![],
            });
        }
        if self.tree.nodes.is_empty() {
            return Err(self.fault("the tree has no node".into()));
        }
        if !self.open.is_empty() {
            return Err(self.fault(format!("{} nodes are missing", self.open.len())));
        }
        Ok(self.tree)
    }

    /// Returns the number of nodes still missing.
    #[must_use]
    pub fn n_missing(&self) -> usize {
        if self.tree.nodes.is_empty() {
            1
        } else {
            self.open.len()
        }
    }

    /// Returns the information sets created so far.
    pub(crate) fn information_sets(&self) -> &[InformationSet] {
        &self.tree.information_sets
    }

    /// Returns an error if the children would exceed the limit on nodes.
    fn check_capacity(&self, n_children: usize) -> Result<()> {
        let children = self.tree.children.len() as u128 + n_children as u128;
        let needed = children.max(self.tree.nodes.len() as u128 + 1);
        if needed > MAX_NODES as u128 {
            return Err(Error::TooLarge {
                operation: OPERATION,
                what: "number of nodes",
                needed,
                limit: MAX_NODES as u128,
            });
        }
        Ok(())
    }

    fn push(&mut self, node: Node, n_children: usize) -> Result<()> {
        self.check_capacity(n_children)?;
        let tree = &mut self.tree;
        match self.open.pop() {
            Some(place) => tree.children[place] = number(tree.nodes.len()),
            None if tree.nodes.is_empty() => {}
            None => {
                return Err(self.fault("the tree is complete, there is no place for a node".into()));
            }
        }
        let first = tree.children.len();
        tree.nodes.push(node);
        tree.first_child.push(number(first));
        tree.children.resize(first + n_children, 0);
        self.open.extend((first..first + n_children).rev());
        Ok(())
    }

    fn fault(&self, fault: String) -> Error {
        Error::TreeInvalid {
            operation: OPERATION,
            node: self.tree.nodes.len(),
            fault,
        }
    }
}

/// Returns the index of an item, which is added if its key is new.
fn intern<K: Eq + Hash, T>(known: &mut HashMap<K, u32>, all: &mut Vec<T>, key: K, thing: T) -> u32 {
    *known.entry(key).or_insert_with(|| {
        all.push(thing);
        number(all.len() - 1)
    })
}

fn parts(fractions: &[Rational]) -> Vec<Parts> {
    let parts = |fraction: &Rational| (fraction.numer().clone(), fraction.denom().clone());
    fractions.iter().map(parts).collect()
}

/// Converts a count below [`MAX_NODES`] to 32 bits.
fn number(count: usize) -> u32 {
    u32::try_from(count).expect("a tree has fewer than 2^27 nodes")
}
