//! Twin of `matrix_games_solve_3`: one game an invocation.

use super::matrix_games::{Buffers, Order, solve};
use super::{Grid, index, launch};
use crate::{Kernel, params::MatrixGamesParams};

/// Learns in games of at most 3 rows and columns, as the header of `twin::matrix_games` says.
///
/// Shapes: `ticks` `[iterations, 4]`, `gains` `[rows, cols, games]`, `state` `[2 rows + 2 cols, games]`, `averages`
/// `[rows + cols, games]`.
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
    launch(Grid::of(kernel, params), |at| {
        let game = at.workgroup * u64::from(kernel.workgroup_size[0]) + u64::from(at.lid[0]);
        if game < params.games.into() {
            solve::<3>(params, &mut buffers, Order::ItemsFirst, index(game));
        }
    });
}
