//! Counterfactual regret minimisation on samples of a game (MCCFR).
//!
//! Role: learns in trees that are too large to be traversed in every iteration.
//! Method: in each iteration, each player in turn does one walk. External sampling follows all
//! actions of this player and samples those of chance and of the other players. Outcome sampling
//! samples a single path, including the player's own actions (with some exploration), and divides
//! its result by the probability of the samples. Both are unbiased estimates of the regrets of CFR.
//! External sampling updates a player's average at the sets visited by the walk of the preceding
//! player; outcome sampling updates it in the player's own walks, weighted by reach.
//! Source: Lanctot, Waugh, Zinkevich and Bowling 2009, "Monte Carlo sampling for regret
//! minimization in extensive games".
//! Limits: trees at most [`MAX_DEPTH`] moves deep. With three players or more, the average of
//! external sampling is also weighted by the reach of players other than the walking one, so it
//! differs from that of CFR (which does not converge to an equilibrium in this case either). With
//! outcome sampling, a set has less weight in the average while other players exclude some of its
//! nodes, because no path reaches these nodes. Cost of an iteration: the number of visited nodes.

use super::{Node, Sequences, Tree};
use crate::draw::draw;
use crate::number::nearest;
use crate::regret::in_proportion;
use crate::{Error, Profile, Result};
use rand::Rng;

/// Largest number of moves from the root to a terminal node; walks are recursive.
const MAX_DEPTH: usize = 4096;

/// The moves that a walk samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sampling {
    /// The moves of chance and of the other players.
    External,
    /// All moves.
    Outcome {
        /// The probability of a uniform draw at the player's own moves, above 0 and at most 1; 0.6
        /// is the usual value.
        exploration: f64,
    },
}

/// A run of Monte Carlo counterfactual regret minimisation (MCCFR): learning from sampled paths.
///
/// # Examples
/// ```
/// use games::extensive::{CompiledGame, Kuhn, Mccfr, Sampling, Tree};
/// use games::nash_conv;
/// use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};
///
/// let tree = Tree::from_game(&Kuhn)?;
/// let mut run = Mccfr::new(&tree, Sampling::External)?;
/// run.advance(20_000, &mut Xoshiro256PlusPlus::seed_from_u64(1));
/// assert!(nash_conv(&CompiledGame::from_tree(&tree)?, &run.average())? < 0.05);
/// # Ok::<(), games::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Mccfr<'t> {
    tree: &'t Tree,
    sampling: Sampling,
    sequences: Sequences,
    chances: Vec<Vec<f64>>,
    payoffs: Vec<Vec<f64>>,
    /// For each information set, the index of its first action in `regrets` and `sums`.
    first: Vec<usize>,
    regrets: Vec<f64>,
    sums: Vec<f64>,
    iterations: u64,
}

/// Probabilities of a path: of the walking player's own moves, of all other moves, and of sampling
/// the path.
#[derive(Clone, Copy)]
struct Reach {
    own: f64,
    others: f64,
    drawn: f64,
}

impl<'t> Mccfr<'t> {
    /// Starts with uniform strategies.
    ///
    /// # Errors
    /// [`Error::TreeInvalid`] if a player lacks perfect recall, [`Error::TooLarge`] if the tree is
    /// more than 4096 moves deep, [`Error::ParameterInvalid`] for an exploration that is not above
    /// 0 and at most 1.
    pub fn new(tree: &'t Tree, sampling: Sampling) -> Result<Self> {
        if let Sampling::Outcome { exploration } = sampling
            && !(exploration > 0.0 && exploration <= 1.0)
        {
            return Err(Error::ParameterInvalid {
                operation: "Mccfr::new",
                parameter: "exploration",
                value: exploration,
                must: "above 0 and at most 1",
            });
        }
        check_depth(tree)?;
        let mut first = vec![0; tree.information_sets().len()];
        let sequences = Sequences::new(tree)?;
        let mut n_numbers = 0;
        for player in 0..tree.n_players() {
            for decision in sequences.decisions(player) {
                first[decision.set as usize] = n_numbers;
                n_numbers += decision.n_actions as usize;
            }
        }
        let floats = |numbers: &Vec<_>| numbers.iter().map(nearest).collect();
        // A constant in a player's payoffs changes no regret, but it increases the variance of the
        // estimates.
        let mut payoffs = vec![vec![]; tree.outcomes().len()];
        for player in 0..tree.n_players() {
            let centred = sequences.centred_payoffs(player).payoffs;
            for (outcome, payoff) in payoffs.iter_mut().zip(centred) {
                outcome.push(payoff);
            }
        }
        Ok(Self {
            tree,
            sampling,
            sequences,
            chances: tree
                .chances()
                .iter()
                .map(|chance| floats(&chance.probabilities))
                .collect(),
            payoffs,
            first,
            regrets: vec![0.0; n_numbers],
            sums: vec![0.0; n_numbers],
            iterations: 0,
        })
    }

    /// Runs iterations, each with one walk of every player.
    pub fn advance(&mut self, iterations: u64, rng: &mut impl Rng) {
        for _ in 0..iterations {
            self.iterations += 1;
            for player in 0..self.tree.n_players() {
                match self.sampling {
                    Sampling::External => {
                        self.walk_external(0, player, rng);
                    }
                    Sampling::Outcome { exploration } => {
                        let reach = Reach {
                            own: 1.0,
                            others: 1.0,
                            drawn: 1.0,
                        };
                        self.walk_outcome(0, player, reach, exploration, rng);
                    }
                }
            }
        }
    }

    /// Returns the number of iterations done.
    #[must_use]
    pub fn iterations(&self) -> u64 {
        self.iterations
    }

    /// Returns the average profile; uniform at sets that no walk has visited.
    #[must_use]
    pub fn average(&self) -> Profile {
        let strategy = |player: usize| {
            let decisions = self.sequences.decisions(player).iter();
            let set = |decision: &super::Decision| {
                let first = self.first[decision.set as usize];
                in_proportion(&self.sums[first..first + decision.n_actions as usize])
            };
            decisions.flat_map(set).collect()
        };
        (0..self.tree.n_players()).map(strategy).collect()
    }

    /// Returns an estimate of the value of a node for a player; the moves of others are sampled.
    fn walk_external(&mut self, node: usize, player: usize, rng: &mut impl Rng) -> f64 {
        let tree = self.tree;
        let children = tree.children(node);
        match tree.nodes()[node] {
            Node::Terminal(outcome) => self.payoffs[outcome as usize][player],
            Node::Chance(chance) => {
                let action = draw(&self.chances[chance as usize], rng);
                self.walk_external(children[action] as usize, player, rng)
            }
            Node::Decision(set) => {
                let own = self.own(set);
                let strategy = in_proportion(&self.regrets[own.clone()]);
                let mover = tree.information_sets()[set as usize].player;
                if mover != player {
                    // Each player's average is updated in exactly one walk of an iteration, in
                    // which the player's own actions are sampled and so weight it by its own reach.
                    if mover == (player + 1) % tree.n_players() {
                        for (sum, p) in self.sums[own].iter_mut().zip(&strategy) {
                            *sum += p;
                        }
                    }
                    let action = draw(&strategy, rng);
                    return self.walk_external(children[action] as usize, player, rng);
                }
                if tree.n_players() == 1 {
                    // In a one-player game no other player's walk updates the average, so the own
                    // walk does.
                    for (sum, p) in self.sums[own.clone()].iter_mut().zip(&strategy) {
                        *sum += p;
                    }
                }
                let walk = |&child: &u32| self.walk_external(child as usize, player, rng);
                let values: Vec<f64> = children.iter().map(walk).collect();
                let value = values
                    .iter()
                    .zip(&strategy)
                    .map(|(value, p)| value * p)
                    .sum();
                for (regret, action) in self.regrets[own].iter_mut().zip(values) {
                    *regret += action - value;
                }
                value
            }
        }
    }

    /// Returns an estimate of the value of a node for a player from one sampled path.
    fn walk_outcome(
        &mut self,
        node: usize,
        player: usize,
        reach: Reach,
        exploration: f64,
        rng: &mut impl Rng,
    ) -> f64 {
        let tree = self.tree;
        let children = tree.children(node);
        let set = match tree.nodes()[node] {
            Node::Terminal(outcome) => return self.payoffs[outcome as usize][player],
            Node::Chance(chance) => {
                let probabilities = &self.chances[chance as usize];
                let action = draw(probabilities, rng);
                let p = probabilities[action];
                let reach = Reach {
                    others: reach.others * p,
                    drawn: reach.drawn * p,
                    ..reach
                };
                return self.walk_outcome(
                    children[action] as usize,
                    player,
                    reach,
                    exploration,
                    rng,
                );
            }
            Node::Decision(set) => set,
        };
        let own = self.own(set);
        let strategy = in_proportion(&self.regrets[own.clone()]);
        let is_own = tree.information_sets()[set as usize].player == player;
        let equal = 1.0 / strategy.len() as f64;
        // Exploration only at the walking player's moves: elsewhere it would add variance.
        let share = if is_own { exploration } else { 0.0 };
        let drawn_by: Vec<f64> = strategy
            .iter()
            .map(|p| share * equal + (1.0 - share) * p)
            .collect();
        let action = draw(&drawn_by, rng);
        let (p, drawn) = (strategy[action], drawn_by[action]);
        let next = Reach {
            own: if is_own { reach.own * p } else { reach.own },
            others: if is_own {
                reach.others
            } else {
                reach.others * p
            },
            drawn: reach.drawn * drawn,
        };
        // The estimate of an action that was not drawn is 0; that of the drawn action is its value
        // divided by the probability of the draw.
        let action_value =
            self.walk_outcome(children[action] as usize, player, next, exploration, rng) / drawn;
        let value = p * action_value;
        if is_own {
            // Importance weight: counterfactual reach over the probability of the path. The
            // quotient is finite: a tree has fewer than 2^27 paths, so a path whose probability
            // underflows is drawn with a probability below 2^-1000.
            let scale = reach.others / reach.drawn;
            for (other, regret) in self.regrets[own.clone()].iter_mut().enumerate() {
                let estimate = if other == action { action_value } else { 0.0 };
                *regret += scale * (estimate - value);
            }
            for (sum, p) in self.sums[own].iter_mut().zip(&strategy) {
                *sum += reach.own / reach.drawn * p;
            }
        }
        value
    }

    /// Returns the range of an information set's numbers.
    fn own(&self, set: u32) -> std::ops::Range<usize> {
        let first = self.first[set as usize];
        first..first + self.tree.information_sets()[set as usize].actions.len()
    }
}

/// Returns an error for trees in which a walk might overflow the stack.
fn check_depth(tree: &Tree) -> Result<()> {
    let mut depth = vec![0; tree.nodes().len()];
    let mut deepest = 0;
    for node in 0..depth.len() {
        deepest = deepest.max(depth[node]);
        for &child in tree.children(node) {
            depth[child as usize] = depth[node] + 1;
        }
    }
    if deepest > MAX_DEPTH {
        return Err(Error::TooLarge {
            operation: "Mccfr::new",
            what: "depth of the tree",
            needed: deepest as u128,
            limit: MAX_DEPTH as u128,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extensive::{Kuhn, Leduc, LiarsDice};
    use rand::SeedableRng;
    use rand::rngs::Xoshiro256PlusPlus;

    /// Adds the CFR regrets of a player under uniform strategies, node by node. Returns the node's
    /// value.
    fn add_regrets(
        run: &Mccfr<'_>,
        node: usize,
        player: usize,
        others: f64,
        regrets: &mut [f64],
    ) -> f64 {
        let children = run.tree.children(node);
        let mut visit =
            |child: &u32, others| add_regrets(run, *child as usize, player, others, regrets);
        match run.tree.nodes()[node] {
            Node::Terminal(outcome) => run.payoffs[outcome as usize][player],
            Node::Chance(chance) => {
                let outcomes = children.iter().zip(&run.chances[chance as usize]);
                outcomes
                    .map(|(child, p)| p * visit(child, others * p))
                    .sum()
            }
            Node::Decision(set) => {
                let p = 1.0 / children.len() as f64;
                let is_own = run.tree.information_sets()[set as usize].player == player;
                let below = if is_own { others } else { others * p };
                let values: Vec<f64> = children.iter().map(|child| visit(child, below)).collect();
                let value = values.iter().sum::<f64>() * p;
                if is_own {
                    for (regret, action) in regrets[run.own(set)].iter_mut().zip(values) {
                        *regret += others * (action - value);
                    }
                }
                value
            }
        }
    }

    /// The first player's first walk is against uniform strategies, like CFR's.
    #[test]
    fn sampled_regrets_are_those_of_cfr_on_average() {
        const N_WALKS: usize = 20_000;
        let tree = Tree::from_game(&Kuhn).unwrap();
        for sampling in [Sampling::External, Sampling::Outcome { exploration: 0.6 }] {
            let start = Mccfr::new(&tree, sampling).unwrap();
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
            let n_numbers = start.regrets.len();
            let (mut sums, mut squares) = (vec![0.0; n_numbers], vec![0.0; n_numbers]);
            for _ in 0..N_WALKS {
                let mut run = start.clone();
                run.advance(1, &mut rng);
                for (at, regret) in run.regrets.iter().enumerate() {
                    sums[at] += regret;
                    squares[at] += regret * regret;
                }
            }
            let mut exact = vec![0.0; n_numbers];
            add_regrets(&start, 0, 0, 1.0, &mut exact);
            let n = N_WALKS as f64;
            for set in 0..tree.information_sets().len() {
                if tree.information_sets()[set].player != 0 {
                    continue;
                }
                for at in start.own(u32::try_from(set).unwrap()) {
                    let (mean, spread) = (sums[at] / n, (squares[at] / n / n).sqrt());
                    assert!(
                        (mean - exact[at]).abs() < 5.0 * spread,
                        "{sampling:?} {at}: {mean} {}",
                        exact[at]
                    );
                }
            }
        }
    }

    /// Adds a player's strategies to `sums` with their expected weights in the average: the
    /// player's own reach at every node that a walk can visit, times the reach of chance unless an
    /// importance weight cancels the latter.
    fn add_averages(run: &Mccfr<'_>, node: usize, player: usize, reach: f64, sums: &mut [f64]) {
        let mut shares = vec![1.0; run.tree.children(node).len()];
        match run.tree.nodes()[node] {
            Node::Terminal(_) => return,
            Node::Chance(chance) => {
                if run.sampling == Sampling::External {
                    shares.clone_from(&run.chances[chance as usize]);
                }
            }
            Node::Decision(set) if run.tree.information_sets()[set as usize].player == player => {
                let own = run.own(set);
                shares = in_proportion(&run.regrets[own.clone()]);
                for (sum, p) in sums[own].iter_mut().zip(&shares) {
                    *sum += reach * p;
                }
            }
            Node::Decision(_) => {}
        }
        for (&child, share) in run.tree.children(node).iter().zip(shares) {
            add_averages(run, child as usize, player, reach * share, sums);
        }
    }

    /// Both players may decide twice, with nonuniform choices. Regrets are reset before each
    /// iteration, and the average checked is the one updated in the first player's walk: its own
    /// average with outcome sampling, the other player's with external sampling.
    #[test]
    fn sampled_averages_are_weighted_by_reach_on_average() {
        const N_WALKS: usize = 20_000;
        let tree = Tree::from_game(&LiarsDice::new(2, 1).unwrap()).unwrap();
        let outcome = Sampling::Outcome { exploration: 0.6 };
        for (sampling, player) in [(Sampling::External, 1), (outcome, 0)] {
            let mut run = Mccfr::new(&tree, sampling).unwrap();
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(8);
            let n_numbers = run.regrets.len();
            let regrets: Vec<f64> = (0..n_numbers).map(|at| 1.0 + (at % 3) as f64).collect();
            let (mut sums, mut squares) = (vec![0.0; n_numbers], vec![0.0; n_numbers]);
            for _ in 0..N_WALKS {
                run.regrets.copy_from_slice(&regrets);
                run.sums.fill(0.0);
                run.advance(1, &mut rng);
                for (at, sum) in run.sums.iter().enumerate() {
                    sums[at] += sum;
                    squares[at] += sum * sum;
                }
            }
            run.regrets = regrets;
            let mut exact = vec![0.0; n_numbers];
            add_averages(&run, 0, player, 1.0, &mut exact);
            let n = N_WALKS as f64;
            for (set, information) in tree.information_sets().iter().enumerate() {
                if information.player != player {
                    continue;
                }
                for at in run.own(u32::try_from(set).unwrap()) {
                    let (mean, spread) = (sums[at] / n, (squares[at] / n / n).sqrt());
                    assert!(
                        (mean - exact[at]).abs() < 5.0 * spread,
                        "{sampling:?} {at}: {mean} {}",
                        exact[at]
                    );
                }
            }
        }
    }

    #[test]
    fn samples_learn_leduc() {
        let tree = Tree::from_game(&Leduc::new()).unwrap();
        let compiled = crate::extensive::CompiledGame::from_tree(&tree).unwrap();
        // Uniform play has a NashConv of 4.75.
        let sure = [
            (Sampling::External, 1.0),
            (Sampling::Outcome { exploration: 0.6 }, 3.2),
        ];
        for (sampling, bound) in sure {
            let mut run = Mccfr::new(&tree, sampling).unwrap();
            run.advance(10_000, &mut Xoshiro256PlusPlus::seed_from_u64(3));
            let found = crate::nash_conv(&compiled, &run.average()).unwrap();
            assert!(found < bound, "{sampling:?}: {found}");
        }
    }

    #[test]
    fn the_strategies_of_a_seed_never_change() {
        let tree = Tree::from_game(&Kuhn).unwrap();
        let first = |sampling| {
            let mut run = Mccfr::new(&tree, sampling).unwrap();
            run.advance(1000, &mut Xoshiro256PlusPlus::seed_from_u64(1));
            run.average()[0][..2].to_vec()
        };
        assert_eq!(
            first(Sampling::External),
            [0.807_284_263_820_131_6, 0.192_715_736_179_868_4]
        );
        let outcome = first(Sampling::Outcome { exploration: 0.6 });
        assert_eq!(outcome, [0.743_723_625_390_766_2, 0.256_276_374_609_233_8]);
    }

    #[test]
    fn an_exploration_of_nothing_is_rejected() {
        let tree = Tree::from_game(&Kuhn).unwrap();
        for exploration in [0.0, -1.0, 1.5, f64::NAN] {
            assert!(Mccfr::new(&tree, Sampling::Outcome { exploration }).is_err());
        }
    }
}
