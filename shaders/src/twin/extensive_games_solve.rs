//! Twin of `extensive_games_solve`: counterfactual regret minimisation in games that differ in payoffs alone.
//!
//! Method: what a player's sequences end in is valued by the other's probabilities of sequences; from the deepest on, every
//! decision adds what the decisions behind its actions are worth, and matches regrets as `twin::matrix_games` does; from the
//! top down, sequences get their new probabilities. The average is of those, times the iteration's weight.
//! Source: Zinkevich et al. 2007; von Stengel 1996 (sequence form).

use super::matching::{NOTHING, kept};
use super::{Grid, index};
use crate::{Kernel, params::ExtensiveGamesParams};
use std::ops::Range;

/// What all games of a batch share; the kernel's header says how it is laid out.
#[derive(Clone, Copy, Debug)]
pub struct ExtensiveGamesTree<'a> {
    /// Of each sequence: from and to which pair, from and to which decision.
    pub sequences: &'a [u32],
    /// Of each decision: the sequence that leads there, its first own, its actions, 0.
    pub decisions: &'a [u32],
    /// Where the decisions of each depth and player start.
    pub levels: &'a [u32],
    /// The other player's sequence of each pair.
    pub others: &'a [u32],
}

/// One game's numbers.
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

/// Learns in every game.
///
/// Shapes: as the kernel's header says.
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
    for game in 0..Grid::of(kernel, params).n_workgroups {
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
        // With simultaneous updates both players are one.
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

    /// Gives the sequence that leads to a decision, and its own.
    fn decision(&self, i: usize) -> (usize, Range<usize>) {
        let [parent, first, n_actions] =
            [0, 1, 2].map(|item| self.tree.decisions[4 * i + item] as usize);
        (parent, first..first + n_actions)
    }
}
