//! Counterfactual regret minimisation as in papers: a recursive walk over the game tree, one node
//! after the other.
//!
//! Role: the oracle of the extensive games, and their slowest variant. It uses the rules of the
//! games and shares nothing with the solver: no sequence form, no compiled game, no SIMD vectors.
//! Method: the average sums the strategies played, weighted by the reach probability of their
//! player.
//! Source: Zinkevich, Johanson, Bowling and Piccione 2007; Tammelin 2014 (clipped regrets, weights
//! of the iteration).
//! Limits: two players, zero sum.

use anyhow::{Context, Result, ensure};
use games::extensive::{ExtensiveGame, Sequences, Tree, Turn};
use games::{Profile, Updates};
use std::collections::HashMap;

/// A game tree; nodes and information sets are numbered in the order of a depth-first walk.
#[derive(Clone, Debug, Default)]
pub(super) struct Plain {
    nodes: Vec<Node>,
    sets: Vec<Set>,
    numbers: HashMap<(usize, String), usize>,
}

#[derive(Clone, Debug)]
enum Node {
    /// Terminal node with the first player's payoff.
    End(f64),
    /// Chance node with probabilities and children.
    Chance(Vec<(f64, usize)>),
    /// Decision node with its information set and a child for each action.
    Choice(usize, Vec<usize>),
}

#[derive(Clone, Debug)]
struct Set {
    player: usize,
    n_actions: usize,
    nodes: Vec<usize>,
}

/// A probability for each action of each information set.
type Strategies = Vec<Vec<f64>>;

/// Sums of regrets and of weighted strategies, and the current strategies.
#[derive(Clone, Debug)]
pub(super) struct Learning<'g> {
    game: &'g Plain,
    /// Whether negative regrets are reset to zero and iterations are weighted by their number
    /// (CFR+).
    plus: bool,
    updates: Updates,
    iteration: u32,
    regrets: Strategies,
    sums: Strategies,
    strategies: Strategies,
}

impl Plain {
    /// Builds the tree of a game in one walk.
    pub(super) fn new<G: ExtensiveGame>(game: &G) -> Self {
        let mut plain = Self::default();
        plain.add(game, &game.root());
        plain
    }

    fn add<G: ExtensiveGame>(&mut self, game: &G, state: &G::State) -> usize {
        let node = self.nodes.len();
        // A placeholder reserves the number, so that children are numbered after their parent.
        self.nodes.push(Node::End(0.0));
        self.nodes[node] = match game.turn(state) {
            Turn::Terminal(payoffs) => Node::End(payoffs[0]),
            Turn::Chance(weights) => {
                let total: f64 = weights.iter().sum();
                let children = weights.iter().enumerate();
                let child = |(move_, weight): (usize, &f64)| {
                    (weight / total, self.add(game, &game.play(state, move_)))
                };
                Node::Chance(children.map(child).collect())
            }
            Turn::Player {
                player,
                information,
                n_actions,
            } => {
                let next = self.sets.len();
                let set = *self.numbers.entry((player, information)).or_insert(next);
                if set == next {
                    self.sets.push(Set {
                        player,
                        n_actions,
                        nodes: vec![],
                    });
                }
                self.sets[set].nodes.push(node);
                let children = 0..n_actions;
                let child = |action| self.add(game, &game.play(state, action));
                Node::Choice(set, children.map(child).collect())
            }
        };
        node
    }

    /// Returns the number of information sets.
    pub(super) fn n_sets(&self) -> usize {
        self.sets.len()
    }

    /// Returns the number of terminal nodes.
    pub(super) fn n_ends(&self) -> usize {
        let ends = self
            .nodes
            .iter()
            .filter(|node| matches!(node, Node::End(_)));
        ends.count()
    }

    /// Returns NashConv of the profile in which all actions of an information set are equally
    /// likely.
    pub(super) fn uniform_nash_conv(&self) -> f64 {
        self.nash_conv(&self.filled(|n_actions| 1.0 / n_actions as f64))
    }

    /// Returns NashConv of a profile in the solver's form: for each player the probabilities of all
    /// decisions, in the order of the tree's sequences.
    ///
    /// # Errors
    /// The tree belongs to another game, or the profile is too short for the tree.
    pub(super) fn nash_conv_of(&self, tree: &Tree, profile: &Profile) -> Result<f64> {
        let sequences = Sequences::new(tree)?;
        let mut strategies = self.filled(|_| f64::NAN);
        for (player, strategy) in profile.iter().enumerate() {
            let mut left = &strategy[..];
            for decision in sequences.decisions(player) {
                let name = &tree.information_sets()[decision.set as usize].name;
                let set = self.numbers.get(&(player, name.clone()));
                let set =
                    *set.context("the tree has an information set that the game does not have")?;
                let n_actions = self.sets[set].n_actions;
                ensure!(left.len() >= n_actions, "the profile is too short");
                let (one, others) = left.split_at(n_actions);
                strategies[set].copy_from_slice(one);
                left = others;
            }
        }
        Ok(self.nash_conv(&strategies))
    }

    fn filled(&self, number: impl Fn(usize) -> f64) -> Strategies {
        let strategy = |set: &Set| vec![number(set.n_actions); set.n_actions];
        self.sets.iter().map(strategy).collect()
    }

    fn nash_conv(&self, strategies: &Strategies) -> f64 {
        let best = |player| Best::response(self, strategies, player);
        best(0) + best(1)
    }
}

/// State of the search for a best response.
struct Best<'a> {
    game: &'a Plain,
    strategies: &'a Strategies,
    player: usize,
    /// Probability that chance and the opponent reach each node.
    reaches: Vec<f64>,
    values: Vec<Option<f64>>,
    actions: Vec<Option<usize>>,
}

// `values` and `actions` are caches: each node and each information set is evaluated once.
impl<'a> Best<'a> {
    /// Returns the payoff of a player's best response.
    fn response(game: &'a Plain, strategies: &'a Strategies, player: usize) -> f64 {
        let n_nodes = game.nodes.len();
        let mut best = Self {
            game,
            strategies,
            player,
            reaches: vec![1.0; n_nodes],
            values: vec![None; n_nodes],
            actions: vec![None; game.sets.len()],
        };
        // Children have higher numbers than their parents, so one pass in order is enough.
        for node in 0..n_nodes {
            let reach = best.reaches[node];
            match &game.nodes[node] {
                Node::End(_) => {}
                Node::Chance(children) => {
                    for &(probability, child) in children {
                        best.reaches[child] = reach * probability;
                    }
                }
                Node::Choice(set, children) => {
                    for (&child, p) in children.iter().zip(&strategies[*set]) {
                        let own = game.sets[*set].player == player;
                        // The player's own actions do not count: a best response chooses them
                        // freely.
                        best.reaches[child] = if own { reach } else { reach * p };
                    }
                }
            }
        }
        best.value(0)
    }

    /// Returns the value of a node if the player plays a best response from there on.
    fn value(&mut self, node: usize) -> f64 {
        if let Some(value) = self.values[node] {
            return value;
        }
        let game = self.game;
        let value = match &game.nodes[node] {
            Node::End(gain) if self.player == 0 => *gain,
            Node::End(gain) => -gain,
            Node::Chance(children) => {
                // Chance nodes average over their children.
                let worth = children.iter().map(|&(p, child)| p * self.value(child));
                worth.sum()
            }
            Node::Choice(set, children) if game.sets[*set].player == self.player => {
                let action = self.action(*set);
                self.value(children[action])
            }
            Node::Choice(set, children) => {
                let pairs = children.iter().zip(&self.strategies[*set]);
                pairs.map(|(&child, p)| p * self.value(child)).sum()
            }
        };
        self.values[node] = Some(value);
        value
    }

    /// Returns the best action of one of the player's information sets, by the values of its nodes
    /// weighted with their reach probabilities.
    fn action(&mut self, set: usize) -> usize {
        if let Some(action) = self.actions[set] {
            return action;
        }
        let game = self.game;
        let mut worth = vec![0.0; game.sets[set].n_actions];
        for &node in &game.sets[set].nodes {
            if let Node::Choice(_, children) = &game.nodes[node] {
                for (worth, &child) in worth.iter_mut().zip(children) {
                    *worth += self.reaches[node] * self.value(child);
                }
            }
        }
        let best = (0..worth.len()).max_by(|&one, &other| worth[one].total_cmp(&worth[other]));
        let best = best.unwrap_or(0);
        self.actions[set] = Some(best);
        best
    }
}

impl<'g> Learning<'g> {
    /// Creates the state before the first iteration, with uniform strategies.
    pub(super) fn new(game: &'g Plain, plus: bool, updates: Updates) -> Self {
        Self {
            game,
            plus,
            updates,
            iteration: 0,
            regrets: game.filled(|_| 0.0),
            sums: game.filled(|_| 0.0),
            strategies: game.filled(|n_actions| 1.0 / n_actions as f64),
        }
    }

    /// Runs iterations. With alternating updates, the second player learns against the updated
    /// strategy of the first.
    pub(super) fn advance(&mut self, iterations: usize) {
        for _ in 0..iterations {
            self.iteration += 1;
            self.walk(0, 0, 1.0, 1.0);
            if self.updates == Updates::Alternating {
                self.update(0);
            }
            self.walk(0, 1, 1.0, 1.0);
            if self.updates == Updates::Simultaneous {
                self.update(0);
            }
            self.update(1);
        }
    }

    /// Returns NashConv of the average profile.
    pub(super) fn nash_conv(&self) -> f64 {
        let average = self.sums.iter().map(|sums| normalised(sums));
        self.game.nash_conv(&average.collect())
    }

    /// Returns the value of a node for a player, and updates the player's regrets and averages on
    /// the way. `own` is the probability with which the player's actions lead to the node, `others`
    /// that of chance and the opponent.
    fn walk(&mut self, node: usize, player: usize, own: f64, others: f64) -> f64 {
        let game = self.game;
        match &game.nodes[node] {
            Node::End(gain) if player == 0 => *gain,
            Node::End(gain) => -gain,
            Node::Chance(children) => {
                let child =
                    |&(p, child): &(f64, usize)| p * self.walk(child, player, own, others * p);
                children.iter().map(child).sum()
            }
            Node::Choice(set, children) => {
                let (set, is_own) = (*set, game.sets[*set].player == player);
                let mut value = 0.0;
                let mut worth = Vec::with_capacity(children.len());
                for (action, &child) in children.iter().enumerate() {
                    let p = self.strategies[set][action];
                    let (own, others) = if is_own {
                        (own * p, others)
                    } else {
                        (own, others * p)
                    };
                    worth.push(self.walk(child, player, own, others));
                    value += p * worth[action];
                }
                if is_own {
                    let weight = if self.plus {
                        f64::from(self.iteration)
                    } else {
                        1.0
                    };
                    for (action, worth) in worth.into_iter().enumerate() {
                        // The counterfactual regret is weighted by the probability with which the
                        // others reach the node, the average by the player's own probability.
                        self.regrets[set][action] += others * (worth - value);
                        self.sums[set][action] += weight * own * self.strategies[set][action];
                    }
                }
                value
            }
        }
    }

    /// Computes the next strategies of a player by regret matching.
    fn update(&mut self, player: usize) {
        for (at, set) in self.game.sets.iter().enumerate() {
            if set.player == player {
                let regrets = &mut self.regrets[at];
                if self.plus {
                    regrets
                        .iter_mut()
                        .for_each(|regret| *regret = regret.max(0.0));
                }
                let positive: Vec<f64> = regrets.iter().map(|regret| regret.max(0.0)).collect();
                self.strategies[at] = normalised(&positive);
            }
        }
    }
}

/// Returns numbers divided by their sum, or equal shares if the sum is not positive.
fn normalised(numbers: &[f64]) -> Vec<f64> {
    let total: f64 = numbers.iter().sum();
    let equal = 1.0 / numbers.len() as f64;
    let share = |number: &f64| if total > 0.0 { number / total } else { equal };
    numbers.iter().map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use games::extensive::{CompiledGame, Kuhn, Leduc, LiarsDice};
    use games::{SolverConfig, solve};
    use serde_json::Value;
    use tensor_core::compare::{Tolerance, assert_close};

    /// Returns the reference values of the games crate, computed with 80 bits.
    fn reference() -> Value {
        serde_json::from_str(include_str!(
            "../../../../crates/games/testdata/games-reference.json"
        ))
        .unwrap()
    }

    fn check(game: &Plain, name: &str) {
        let reference = reference();
        let games = reference["extensive_games"].as_array().unwrap();
        let entry = games.iter().find(|entry| entry["game"] == name).unwrap();
        let uniform = entry["uniform_nash_conv"].as_f64().unwrap();
        let bound = || Tolerance::exact().or_absolute(1e-9);
        assert_close([game.uniform_nash_conv()], [uniform], bound());
        for (algorithm, plus, updates) in [
            ("cfr/alternating", false, Updates::Alternating),
            ("cfr/simultaneous", false, Updates::Simultaneous),
            ("cfr+/alternating", true, Updates::Alternating),
        ] {
            let mut learning = Learning::new(game, plus, updates);
            let rows = entry["convergence"][algorithm].as_array().unwrap();
            for (row, step) in rows.iter().zip([1, 1, 1, 2, 5, 10]) {
                learning.advance(step);
                assert_eq!(row["iteration"].as_u64(), Some(learning.iteration.into()));
                let expected = row["nash_conv"].as_f64().unwrap();
                assert_close([learning.nash_conv()], [expected], bound());
            }
        }
    }

    #[test]
    fn the_oracle_follows_the_reference() {
        check(&Plain::new(&Kuhn), "kuhn_poker");
        check(&Plain::new(&Leduc::new()), "leduc_poker");
        let dice = LiarsDice::new(3, 1).unwrap();
        check(&Plain::new(&dice), "liars_dice(dice_sides=3)");
    }

    #[test]
    fn a_profile_of_the_solver_is_judged_as_the_solver_judges_it() {
        let (tree, plain) = (Tree::from_game(&Kuhn).unwrap(), Plain::new(&Kuhn));
        let compiled = CompiledGame::from_tree(&tree).unwrap();
        let solution = solve(&compiled, &SolverConfig::regret_matching().iterations(50)).unwrap();
        let found = plain.nash_conv_of(&tree, &solution.strategies).unwrap();
        let bound = Tolerance::exact().or_absolute(1e-12);
        assert_close([found], [solution.nash_conv], bound);
        let other = Tree::from_game(&LiarsDice::new(2, 1).unwrap()).unwrap();
        assert!(plain.nash_conv_of(&other, &solution.strategies).is_err());
        assert!(
            plain
                .nash_conv_of(&tree, &vec![vec![1.0], vec![1.0]])
                .is_err()
        );
    }
}
