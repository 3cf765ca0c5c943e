//! Twin of `matmul_tile`.

use super::{Grid, launch_workgroups, row_and_col};
use crate::{Kernel, params::MatmulParams};

/// Side of a tile, in elements.
const TILE: usize = 16;

/// Computes `c = a · b` tile by tile. Elements outside of the matrices count as zero.
///
/// Shapes: `a` `[rows, inner]`, `b` `[inner, cols]`, `c` `[rows, cols]`, row-major, contiguous.
///
/// # Panics
/// If a slice is shorter than its shape.
pub fn matmul_tile(kernel: &Kernel, params: &MatmulParams, a: &[f32], b: &[f32], c: &mut [f32]) {
    let [rows, inner, cols] = params.shape();
    let at_or_zero = |m: &[f32], row: usize, col: usize, height: usize, width: usize| {
        if row < height && col < width {
            m[row * width + col]
        } else {
            0.0
        }
    };
    launch_workgroups(Grid::for_kernel(kernel, params), |workgroup| {
        let mut wg_a = [[0.0_f32; TILE]; TILE];
        let mut wg_b = [[0.0_f32; TILE]; TILE];
        let mut sums = [[0.0_f32; TILE]; TILE];
        for start in (0..inner).step_by(TILE) {
            workgroup.for_each(|at| {
                let [x, y, _] = at.lid.map(|i| i as usize);
                let (row, col) = row_and_col(at, kernel.workgroup_size, params.cols);
                wg_a[y][x] = at_or_zero(a, row, start + x, rows, inner);
                wg_b[y][x] = at_or_zero(b, start + y, col, inner, cols);
            });
            workgroup.for_each(|at| {
                let [x, y, _] = at.lid.map(|i| i as usize);
                for k in 0..TILE {
                    sums[y][x] += wg_a[y][k] * wg_b[k][x];
                }
            });
        }
        workgroup.for_each(|at| {
            let [x, y, _] = at.lid.map(|i| i as usize);
            let (row, col) = row_and_col(at, kernel.workgroup_size, params.cols);
            if row < rows && col < cols {
                c[row * cols + col] = sums[y][x];
            }
        });
    });
}
