//! Twin of `matrix_game_update`: one player's step of regret matching in a game of any size.
//!
//! Method: as in `twin::matrix_games`, except for the average. It moves towards the strategy by a
//! fraction of their distance, so it is valid after every step and the number of iterations need
//! not be known in advance. Each invocation sums every 256th action.

use super::group_sum::{self, LANES};
use super::matching::{NOTHING, kept};
use crate::params::MatrixGameUpdateParams;

/// Updates the regrets with the values of the actions, and computes the next strategy.
///
/// Shapes: all `[actions]`.
///
/// # Panics
/// If a slice is shorter than its shape.
pub fn matrix_game_update(
    params: &MatrixGameUpdateParams,
    values: &[f32],
    [strategy, regrets, average]: [&mut [f32]; 3],
) {
    let n_actions = params.actions as usize;
    let mut terms = [0.0; LANES];
    for i in 0..n_actions {
        terms[i % LANES] += values[i] * strategy[i];
        average[i] += params.share * (strategy[i] - average[i]);
    }
    let worth = group_sum::group_sum(terms);
    terms = [0.0; LANES];
    for i in 0..n_actions {
        let last = values[i] - worth;
        regrets[i] = kept(regrets[i] + last, params.keep, params.kept);
        strategy[i] = (regrets[i] + params.predictive * last).max(0.0);
        terms[i % LANES] += strategy[i];
    }
    let total = group_sum::group_sum(terms);
    for p in &mut strategy[..n_actions] {
        *p = if total > NOTHING {
            *p * (1.0 / total)
        } else {
            1.0 / params.actions as f32
        };
    }
}
