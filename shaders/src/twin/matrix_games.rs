//! Twin of `wgsl/shared/matrix_games.wgsl` and its kernels: regret matching in many zero-sum games
//! of the same shape.
//!
//! Method: in every iteration the regret of an action is its value minus the value of the strategy
//! played. Accumulated regrets are clipped or discounted; their positive parts, normalized, are the
//! next strategy. A predictive rule counts the last regret twice. The average sums the strategies
//! times the weight of their iteration; the host chooses weights whose sum is 1. Games with fewer
//! actions than a kernel has lanes are padded with actions that are worse than any other. Their
//! regrets are always negative, so they are never played and do not change any bit of the result.
//! Shapes: items (cells or actions) and games, in an order that each kernel defines. `ticks`
//! contains, for each iteration, the weight in the average, the factors of positive and of negative
//! accumulated regrets, and a 0. `gains` contains the payoffs of the first player, who chooses the
//! row. `state` contains the strategy and the accumulated regrets of the first player, then of the
//! second.
//! Accuracy: that of f32; see `games::Batch::solve_on`. Terms are summed as four partial sums: all
//! first terms of groups of four, all second terms and so on.
//! Limits: the magnitude of payoffs must be below 2.
//! Source: Hart and Mas-Colell 2000, "A simple adaptive procedure leading to correlated
//! equilibrium"; Tammelin 2014, "Solving large imperfect information games using CFR+"; Brown and
//! Sandholm 2019, "Solving imperfect-information games via discounted regret minimization"; Farina,
//! Kroer and Sandholm 2021, "Faster game solving via predictive Blackwell approachability".

use super::matching::{NOTHING, kept};
use super::{Grid, index, launch};
use crate::{Kernel, params::MatrixGamesParams};

/// Payoff of a padding action for its player.
const WORST: f32 = -3.0;

/// The buffers of a kernel, described in the [module](self).
pub(super) struct Buffers<'a> {
    pub(super) ticks: &'a [f32],
    pub(super) gains: &'a [f32],
    pub(super) state: &'a mut [f32],
    pub(super) averages: &'a mut [f32],
}

/// The memory order of the items of games.
#[derive(Clone, Copy)]
pub(super) enum Order {
    /// Item 0 of all games, then item 1 of all games and so on.
    ItemsFirst,
    /// All items of game 0, then all items of game 1 and so on.
    GamesFirst,
}

impl Order {
    fn place(self, item: usize, n_items: usize, game: usize, n_games: usize) -> usize {
        match self {
            Self::ItemsFirst => item * n_games + game,
            Self::GamesFirst => game * n_items + item,
        }
    }
}

/// The state of one player in one game.
#[derive(Clone, Copy)]
struct Player<const N: usize> {
    strategy: [f32; N],
    regrets: [f32; N],
    average: [f32; N],
    equal: [f32; N],
}

/// Runs the iterations in one game per invocation, with at most `N` actions per player.
pub(super) fn one_an_invocation<const N: usize>(
    kernel: &Kernel,
    params: &MatrixGamesParams,
    buffers: &mut Buffers<'_>,
) {
    launch(Grid::for_kernel(kernel, params), |at| {
        let game = at.workgroup * u64::from(kernel.workgroup_size[0]) + u64::from(at.lid[0]);
        if game < params.games.into() {
            solve::<N>(params, buffers, Order::ItemsFirst, index(game));
        }
    });
}

/// Runs the iterations in one game, with at most `N` actions per player.
pub(super) fn solve<const N: usize>(
    params: &MatrixGamesParams,
    buffers: &mut Buffers<'_>,
    order: Order,
    game: usize,
) {
    let [n_games, rows, cols, done, iterations] = [
        params.games,
        params.rows,
        params.cols,
        params.done,
        params.iterations,
    ]
    .map(|count| count as usize);
    let gain = |row: usize, col: usize| {
        if row < rows && col < cols {
            buffers.gains[order.place(row * cols + col, rows * cols, game, n_games)]
        } else if row >= rows {
            WORST
        } else {
            -WORST
        }
    };
    let row_lines: [[f32; N]; N] =
        std::array::from_fn(|row| std::array::from_fn(|col| gain(row, col)));
    let col_lines: [[f32; N]; N] =
        std::array::from_fn(|col| std::array::from_fn(|row| -gain(row, col)));
    let n_actions = rows + cols;
    let state_place = |item| order.place(item, 2 * n_actions, game, n_games);
    let average_place = |item| order.place(item, n_actions, game, n_games);
    let mut players = [(0, rows), (rows, cols)].map(|(before, n)| {
        let equal = std::array::from_fn(|i| if i < n { 1.0 / n as f32 } else { 0.0 });
        let mut player = Player {
            strategy: equal,
            regrets: [0.0; N],
            average: [0.0; N],
            equal,
        };
        for i in 0..if done > 0 { n } else { 0 } {
            player.strategy[i] = buffers.state[state_place(2 * before + i)];
            player.regrets[i] = buffers.state[state_place(2 * before + n + i)];
            player.average[i] = buffers.averages[average_place(before + i)];
        }
        player
    });
    let [row, col] = &mut players;
    for tick in buffers.ticks.chunks_exact(4).skip(done).take(iterations) {
        let row_values = row_lines.map(|line| product(&line, &col.strategy));
        let mut seen = row.strategy;
        row.update(params, row_values, tick);
        if params.alternating != 0 {
            seen = row.strategy;
        }
        col.update(params, col_lines.map(|line| product(&line, &seen)), tick);
    }
    for (player, (before, n)) in players.iter().zip([(0, rows), (rows, cols)]) {
        for i in 0..n {
            buffers.state[state_place(2 * before + i)] = player.strategy[i];
            buffers.state[state_place(2 * before + n + i)] = player.regrets[i];
            buffers.averages[average_place(before + i)] = player.average[i];
        }
    }
}

impl<const N: usize> Player<N> {
    fn update(&mut self, params: &MatrixGamesParams, values: [f32; N], tick: &[f32]) {
        let [weight, positive, negative] = [tick[0], tick[1], tick[2]];
        let worth = product(&values, &self.strategy);
        let mut ahead = [0.0; N];
        for i in 0..N {
            let last = values[i] - worth;
            let sum = kept(self.regrets[i] + last, params.keep, [positive, negative]);
            self.regrets[i] = sum;
            self.average[i] += weight * self.strategy[i];
            ahead[i] = (sum + params.predictive * last).max(0.0);
        }
        let total = product(&ahead, &[1.0; N]);
        self.strategy = if total > NOTHING {
            let inverse = 1.0 / total;
            ahead.map(|p| p * inverse)
        } else {
            self.equal
        };
    }
}

fn product<const N: usize>(left: &[f32; N], right: &[f32; N]) -> f32 {
    let mut fours = [0.0; 4];
    for (left, right) in left.chunks(4).zip(right.chunks(4)) {
        for (sum, (a, b)) in fours.iter_mut().zip(left.iter().zip(right)) {
            *sum += a * b;
        }
    }
    ((fours[0] + fours[1]) + fours[2]) + fours[3]
}
