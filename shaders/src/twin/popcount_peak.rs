//! Twin of `popcount_peak`.

use super::{Grid, index, launch};
use crate::{Kernel, params::PopcountPeakParams};

/// Number of chains of each lane.
const CHAINS: u32 = 8;
/// Number of lanes of a chain's vector.
const LANES: u32 = 4;
/// Number of steps of each chain in one round.
const STEPS_PER_ROUND: u64 = 8;

/// Runs the chains `x ← x + ones(x ^ mask)` and writes the sum of each lane's chains.
///
/// Shapes: `y` has at least `4 · n` words, four per invocation.
///
/// # Panics
/// If `y` is too short.
pub fn popcount_peak(kernel: &Kernel, params: &PopcountPeakParams, y: &mut [u32]) {
    let group = u64::from(kernel.workgroup_size[0]);
    launch(Grid::for_kernel(kernel, params), |at| {
        let i = at.workgroup * group + u64::from(at.lid[0]);
        if i >= u64::from(params.n) {
            return;
        }
        let chain = |start: u32| {
            let mut x = start;
            for _ in 0..u64::from(params.rounds) * STEPS_PER_ROUND {
                x = x.wrapping_add((x ^ params.mask).count_ones());
            }
            x
        };
        for lane in 0..LANES {
            let starts = (0..CHAINS).map(|number| at.lid[0] + lane + LANES * number);
            let sum = starts.map(chain).fold(0, u32::wrapping_add);
            y[index(u64::from(LANES) * i + u64::from(lane))] = sum;
        }
    });
}
