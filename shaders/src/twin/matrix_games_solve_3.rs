//! Twin of `matrix_games_solve_3`: one game per invocation.

use super::matrix_games::{Buffers, one_an_invocation};
use crate::{Kernel, params::MatrixGamesParams};

/// Runs regret matching in games of at most 3 rows and columns; see the header of
/// `twin::matrix_games`.
///
/// Shapes: `ticks` `[iterations, 4]`, `gains` `[rows, cols, games]`,
/// `state` `[2 rows + 2 cols, games]`, `averages` `[rows + cols, games]`.
///
/// # Panics
/// If a slice is shorter than its shape.
pub fn matrix_games_solve_3(
    kernel: &Kernel,
    params: &MatrixGamesParams,
    [ticks, gains]: [&[f32]; 2],
    [state, averages]: [&mut [f32]; 2],
) {
    let mut buffers = Buffers {
        ticks,
        gains,
        state,
        averages,
    };
    one_an_invocation::<3>(kernel, params, &mut buffers);
}
