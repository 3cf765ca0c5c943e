//! Twin of `extensive_games_solve`: counterfactual regret minimization in games that differ only in
//! payoffs.
//!
//! Method: each iteration has three passes. First, each sequence of a player gets the value of the
//! game ends that it leads to: the sum of their payoffs, weighted with the other player's sequence
//! probabilities. Second, from the deepest decisions upwards, every decision adds the values of the
//! decisions below its actions, and applies regret matching as in `twin::matrix_games`. Third, from
//! the first decisions downwards, the sequence probabilities are updated. The average sums the
//! sequence probabilities, multiplied by the weight of the iteration.
//! Source: Zinkevich et al. 2007, "Regret minimization in games with incomplete information"; von
//! Stengel 1996, "Efficient computation of behavior strategies" (sequence form).

use super::matching::{NOTHING, kept};
use super::{Grid, index};
use crate::{Kernel, params::ExtensiveGamesParams};
use std::ops::Range;

/// Tables shared by all games of a batch; the kernel's header describes their layout.
#[derive(Clone, Copy, Debug)]
pub struct ExtensiveGamesTree<'a> {
    /// For each sequence, four numbers: the first and the end index of its pairs, and the first and
    /// the end index of the decisions that follow it.
    pub sequences: &'a [u32],
    /// For each decision, four numbers: the sequence that leads to the decision, the sequence of
    /// its first action, its number of actions, and 0.
    pub decisions: &'a [u32],
    /// For each depth and player, the index of the first decision; at the end, the number of
    /// decisions.
    pub levels: &'a [u32],
    /// For each pair (a sequence and a sequence of the other player with which a game ends), the
    /// other player's sequence.
    pub others: &'a [u32],
}

/// The tables and the numbers of one game.
struct Game<'a> {
    tree: ExtensiveGamesTree<'a>,
    params: &'a ExtensiveGamesParams,
    payoffs: &'a [f32],
    strategy: &'a mut [f32],
    regrets: &'a mut [f32],
    plan: &'a mut [f32],
    values: &'a mut [f32],
    worths: &'a mut [f32],
    averages: &'a mut [f32],
}

/// Runs the iterations in every game.
///
/// Shapes: see the header of the kernel.
///
/// # Panics
/// If a slice is shorter than its shape.
pub fn extensive_games_solve(
    kernel: &Kernel,
    params: &ExtensiveGamesParams,
    tree: ExtensiveGamesTree<'_>,
    [ticks, payoffs]: [&[f32]; 2],
    [state, averages]: [&mut [f32]; 2],
) {
    let [n, n_decisions, n_pairs] =
        [params.sequences, params.decisions, params.pairs].map(|count| count as usize);
    for game in 0..Grid::for_kernel(kernel, params).n_workgroups {
        let game = index(game);
        let n_items = 4 * n + n_decisions;
        let own = &mut state[game * n_items..][..n_items];
        let (strategy, own) = own.split_at_mut(n);
        let (regrets, own) = own.split_at_mut(n);
        let (plan, own) = own.split_at_mut(n);
        let (values, worths) = own.split_at_mut(n);
        let mut game = Game {
            tree,
            params,
            payoffs: &payoffs[game * n_pairs..][..n_pairs],
            strategy,
            regrets,
            plan,
            values,
            worths,
            averages: &mut averages[game * n..][..n],
        };
        if params.done == 0 {
            game.begin();
        }
        let ticks = ticks.chunks_exact(4).skip(params.done as usize);
        for tick in ticks.take(params.iterations as usize) {
            game.iterate(tick);
        }
    }
}

impl Game<'_> {
    fn begin(&mut self) {
        self.strategy.fill(0.0);
        self.regrets.fill(0.0);
        self.plan.fill(1.0);
        self.averages.fill(0.0);
        for decision in self.tree.decisions.chunks_exact(4) {
            let own = decision[1] as usize..(decision[1] + decision[2]) as usize;
            self.strategy[own].fill(1.0 / decision[2] as f32);
        }
        for depth in 0..self.params.depths as usize {
            self.extend(2 * depth, 2);
        }
    }

    fn iterate(&mut self, tick: &[f32]) {
        let depths = self.params.depths as usize;
        let (first, n) = (self.params.first_sequences, self.params.sequences);
        // Simultaneous updates treat both players as one.
        let turns = if self.params.alternating == 0 {
            vec![(0, 2, 0..n)]
        } else {
            vec![(0, 1, 0..first), (1, 1, first..n)]
        };
        for (turn, width, sequences) in turns {
            self.value(sequences, tick[0]);
            for depth in (0..depths).rev() {
                self.update(2 * depth + turn, width, [tick[1], tick[2]]);
            }
            for depth in 0..depths {
                self.extend(2 * depth + turn, width);
            }
        }
    }

    fn value(&mut self, sequences: Range<u32>, weight: f32) {
        for i in sequences {
            let i = i as usize;
            let mut sum = 0.0;
            for pair in self.tree.sequences[4 * i]..self.tree.sequences[4 * i + 1] {
                let pair = pair as usize;
                sum += self.payoffs[pair] * self.plan[self.tree.others[pair] as usize];
            }
            self.values[i] = sum;
            self.averages[i] += weight * self.plan[i];
        }
    }

    fn update(&mut self, level: usize, width: usize, shares: [f32; 2]) {
        for i in self.level(level, width) {
            let (_, own) = self.decision(i);
            let mut worth = 0.0;
            for action in own.clone() {
                for behind in
                    self.tree.sequences[4 * action + 2]..self.tree.sequences[4 * action + 3]
                {
                    self.values[action] += self.worths[behind as usize];
                }
                worth += self.values[action] * self.strategy[action];
            }
            self.worths[i] = worth;
            let mut total = 0.0;
            for action in own.clone() {
                let last = self.values[action] - worth;
                let sum = kept(self.regrets[action] + last, self.params.keep, shares);
                self.regrets[action] = sum;
                self.strategy[action] = (sum + self.params.predictive * last).max(0.0);
                total += self.strategy[action];
            }
            let equal = 1.0 / own.len() as f32;
            for p in &mut self.strategy[own] {
                *p = if total > NOTHING {
                    *p * (1.0 / total)
                } else {
                    equal
                };
            }
        }
    }

    fn extend(&mut self, level: usize, width: usize) {
        for i in self.level(level, width) {
            let (parent, own) = self.decision(i);
            for action in own {
                self.plan[action] = self.plan[parent] * self.strategy[action];
            }
        }
    }

    fn level(&self, level: usize, width: usize) -> Range<usize> {
        self.tree.levels[level] as usize..self.tree.levels[level + width] as usize
    }

    /// Returns the sequence that leads to a decision, and the range of the decision's own
    /// sequences.
    fn decision(&self, i: usize) -> (usize, Range<usize>) {
        let [parent, first, n_actions] =
            [0, 1, 2].map(|item| self.tree.decisions[4 * i + item] as usize);
        (parent, first..first + n_actions)
    }
}
