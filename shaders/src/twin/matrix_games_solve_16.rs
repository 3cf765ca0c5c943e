//! Twin of `matrix_games_solve_16`: one game per workgroup. The twin computes a game sequentially,
//! so it needs no barriers.

use super::matrix_games::{Buffers, Order, solve};
use super::{Grid, index};
use crate::{Kernel, params::MatrixGamesParams};

/// Runs regret matching in games of at most 16 rows and columns; see the header of
/// `twin::matrix_games`.
///
/// Shapes: `ticks` `[iterations, 4]`, `gains` `[games, rows, cols]`,
/// `state` `[games, 2 rows + 2 cols]`, `averages` `[games, rows + cols]`.
///
/// # Panics
/// If a slice is shorter than its shape.
pub fn matrix_games_solve_16(
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
    for game in 0..Grid::for_kernel(kernel, params).n_workgroups {
        solve::<16>(params, &mut buffers, Order::GamesFirst, index(game));
    }
}
