//! Twin of `matrix_game_value`: the value of each action of one player against the other player's
//! strategy.

use super::group_sum::{self, LANES};
use crate::params::MatrixGameValueParams;

/// Computes `values = payoffs · strategy`. Each invocation sums every 256th term.
///
/// Shapes: `payoffs` `[actions, others]`, row-major; `strategy` `[others]`; `values` `[actions]`.
///
/// # Panics
/// If a slice is shorter than its shape.
pub fn matrix_game_value(
    params: &MatrixGameValueParams,
    payoffs: &[f32],
    strategy: &[f32],
    values: &mut [f32],
) {
    let [n_actions, n_others] = [params.actions, params.others].map(|count| count as usize);
    for action in 0..n_actions {
        let mut sums = [0.0; LANES];
        for other in 0..n_others {
            sums[other % LANES] += payoffs[action * n_others + other] * strategy[other];
        }
        values[action] = group_sum::group_sum(sums);
    }
}
