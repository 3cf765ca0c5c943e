//! Twin of `buffer_copy`.

use super::{Grid, index, launch};
use crate::{Kernel, params::BufferCopyParams};

/// Copies `x` to `y`, four floats per invocation.
///
/// Shapes: `x` and `y` have at least `4 · n_vec4` floats; the remaining elements of `y` do not
/// change.
///
/// # Panics
/// If `x` or `y` is too short.
pub fn buffer_copy(kernel: &Kernel, params: &BufferCopyParams, x: &[f32], y: &mut [f32]) {
    launch(Grid::for_kernel(kernel, params), |at| {
        let i = at.workgroup * u64::from(kernel.workgroup_size[0]) + u64::from(at.lid[0]);
        if i < u64::from(params.n_vec4) {
            let first = index(4 * i);
            y[first..first + 4].copy_from_slice(&x[first..first + 4]);
        }
    });
}
