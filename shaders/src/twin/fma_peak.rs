//! Twin of `fma_peak`.

use super::{Grid, index, launch};
use crate::{Kernel, params::FmaPeakParams};

/// Number of chains per invocation.
const CHAINS: u8 = 8;
/// Number of steps of each chain in one round.
const STEPS_PER_ROUND: u64 = 8;

/// Runs the chains `x ← x · m + s` and writes the sum of each invocation's chains.
///
/// Shapes: `y` has at least `4 · n` floats, four equal lanes per invocation.
///
/// # Panics
/// If `y` is too short.
pub fn fma_peak(kernel: &Kernel, params: &FmaPeakParams, y: &mut [f32]) {
    let group = u64::from(kernel.workgroup_size[0]);
    launch(Grid::for_kernel(kernel, params), |at| {
        let i = at.workgroup * group + u64::from(at.lid[0]);
        if i >= u64::from(params.n) {
            return;
        }
        // An index within a workgroup of 64 is exact in f32.
        let seed = at.lid[0] as f32;
        let chain = |number: u8| {
            let mut x = seed + f32::from(number);
            for _ in 0..u64::from(params.rounds) * STEPS_PER_ROUND {
                x = x.mul_add(params.multiplier, params.addend);
            }
            x
        };
        let x: Vec<f32> = (0..CHAINS).map(chain).collect();
        let sum = ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
        y[index(4 * i)..index(4 * i + 4)].fill(sum);
    });
}
