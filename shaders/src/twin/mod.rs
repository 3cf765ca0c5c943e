//! CPU twins of the kernels, and a simulator of grids that runs the twins.
//!
//! Role: Rust versions of the kernels, in f32 and with the same order of operations, so that a
//! shader can be compared with a small tolerance. They are written for comparison, not for speed.
//! Method: [`launch`] calls a closure, the kernel, for every invocation of a grid. Kernels with
//! workgroup memory use [`launch_workgroups`], in which a barrier is the end of a loop over the
//! invocations. The twins of shared scalar functions are in [`float`], [`int`], [`half`] and
//! [`erfcx`].
//! Source: [`launch`] follows `launch_kernel` of the fast.ai notebook "matmul".

mod bit_conv_codes;
mod bit_conv_sums;
mod buffer_copy;
mod byte_conv_codes;
mod byte_conv_sums;
pub mod erfcx;
pub mod extensive_games_solve;
pub mod float;
mod fma_peak;
mod group_sum;
pub mod half;
pub mod int;
pub mod inverse_gaussian_eval;
pub mod inverse_gaussian_sample;
mod matching;
mod matmul_naive;
mod matmul_tile;
mod matrix_game_update;
mod matrix_game_value;
mod matrix_games;
mod matrix_games_solve_16;
mod matrix_games_solve_3;
mod matrix_games_solve_4;
mod packed_codes;
pub mod packed_conv;
mod philox_fill;
mod popcount_peak;
mod split;

pub use bit_conv_codes::bit_conv_codes;
pub use bit_conv_sums::bit_conv_sums;
pub use buffer_copy::buffer_copy;
pub use byte_conv_codes::byte_conv_codes;
pub use byte_conv_sums::byte_conv_sums;
pub use extensive_games_solve::extensive_games_solve;
pub use fma_peak::fma_peak;
pub use inverse_gaussian_eval::inverse_gaussian_eval;
pub use inverse_gaussian_sample::inverse_gaussian_sample;
pub use matmul_naive::matmul_naive;
pub use matmul_tile::matmul_tile;
pub use matrix_game_update::matrix_game_update;
pub use matrix_game_value::matrix_game_value;
pub use matrix_games_solve_3::matrix_games_solve_3;
pub use matrix_games_solve_4::matrix_games_solve_4;
pub use matrix_games_solve_16::matrix_games_solve_16;
pub use philox_fill::philox_fill;
pub use popcount_peak::popcount_peak;

use crate::{Kernel, Params};

/// A grid of workgroups, as started by a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Linear number of workgroups.
    pub n_workgroups: u64,
    /// Invocations per workgroup in x, y, z.
    pub workgroup_size: [u32; 3],
}

impl Grid {
    /// Returns the grid of a dispatch of `kernel` with `params`.
    #[must_use]
    pub fn for_kernel(kernel: &Kernel, params: &impl Params) -> Self {
        Self {
            n_workgroups: kernel.n_workgroups(params.domain()),
            workgroup_size: kernel.workgroup_size,
        }
    }

    fn local_ids(self) -> impl Iterator<Item = [u32; 3]> {
        let [x, y, z] = self.workgroup_size;
        (0..z).flat_map(move |k| (0..y).flat_map(move |j| (0..x).map(move |i| [i, j, k])))
    }
}

/// Position of an invocation in its grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// Linear index of its workgroup.
    pub workgroup: u64,
    /// Position within the workgroup: x, y, z.
    pub lid: [u32; 3],
}

/// Calls `kernel` for every invocation of `grid`, workgroup by workgroup, x fastest.
///
/// # Examples
/// ```
/// use shaders::twin::{Grid, launch};
///
/// let mut y = vec![0.0_f32; 5];
/// launch(Grid { n_workgroups: 2, workgroup_size: [4, 1, 1] }, |at| {
///     let i = (at.workgroup * 4) as usize + at.lid[0] as usize;
///     if i < y.len() {
///         y[i] = i as f32;
///     }
/// });
/// assert_eq!(y, [0.0, 1.0, 2.0, 3.0, 4.0]);
/// ```
pub fn launch(grid: Grid, mut kernel: impl FnMut(Invocation)) {
    launch_workgroups(grid, |workgroup| workgroup.for_each(&mut kernel));
}

/// A workgroup of a running grid.
#[derive(Clone, Copy, Debug)]
pub struct Workgroup {
    grid: Grid,
    linear: u64,
}

impl Workgroup {
    /// Calls `phase` for every invocation of this workgroup. The return of `for_each` acts as a
    /// barrier.
    pub fn for_each(&self, mut phase: impl FnMut(Invocation)) {
        for lid in self.grid.local_ids() {
            phase(Invocation {
                workgroup: self.linear,
                lid,
            });
        }
    }
}

/// Calls `kernel` for every workgroup of `grid`. The kernel runs its phases with
/// [`Workgroup::for_each`].
pub fn launch_workgroups(grid: Grid, mut kernel: impl FnMut(Workgroup)) {
    for linear in 0..grid.n_workgroups {
        kernel(Workgroup { grid, linear });
    }
}

/// Returns the row and the column of an invocation, if workgroups tile a matrix of `cols` columns.
fn row_and_col(at: Invocation, workgroup_size: [u32; 3], cols: u32) -> (usize, usize) {
    let [width, height, _] = workgroup_size.map(u64::from);
    let tiles_per_row = u64::from(cols).div_ceil(width);
    let row = at.workgroup / tiles_per_row * height + u64::from(at.lid[1]);
    let col = at.workgroup % tiles_per_row * width + u64::from(at.lid[0]);
    (index(row), index(col))
}

/// Converts a position to `usize`. The caller guarantees that it is inside a buffer, or compares it
/// with the length.
fn index(position: u64) -> usize {
    usize::try_from(position).unwrap_or(usize::MAX)
}
