//! Twin of `matmul_naive`.

use super::{Grid, launch, row_and_col};
use crate::{Kernel, params::MatmulParams};

/// Computes `c = a · b`, one invocation per element, summing over `inner` in order.
///
/// Shapes: `a` `[rows, inner]`, `b` `[inner, cols]`, `c` `[rows, cols]`, row-major, contiguous.
///
/// # Panics
/// If a slice is shorter than its shape.
pub fn matmul_naive(kernel: &Kernel, params: &MatmulParams, a: &[f32], b: &[f32], c: &mut [f32]) {
    let [rows, inner, cols] = params.shape();
    launch(Grid::for_kernel(kernel, params), |at| {
        let (row, col) = row_and_col(at, kernel.workgroup_size, params.cols);
        if row >= rows || col >= cols {
            return;
        }
        let mut sum = 0.0;
        for k in 0..inner {
            sum += a[row * inner + k] * b[k * cols + col];
        }
        c[row * cols + col] = sum;
    });
}
