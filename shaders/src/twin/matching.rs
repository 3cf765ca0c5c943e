//! Twin of `wgsl/shared/matching.wgsl`: what kernels that match regrets share.

use crate::params::MatchingKeep;

/// Below this sum of positive regrets there are none: its reciprocal would overflow.
pub(super) const NOTHING: f32 = f32::MIN_POSITIVE;

/// Gives what is kept of a sum of regrets; `shares` are those of a positive and of a negative one.
pub(super) fn kept(sum: f32, keep: u32, shares: [f32; 2]) -> f32 {
    if keep == MatchingKeep::Positive as u32 {
        sum.max(0.0)
    } else if keep == MatchingKeep::Shares as u32 {
        sum * if sum > 0.0 { shares[0] } else { shares[1] }
    } else {
        sum
    }
}
