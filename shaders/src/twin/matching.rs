//! Twin of `wgsl/shared/matching.wgsl`: common functions of regret matching.

use crate::params::MatchingKeep;

/// Threshold below which a sum of positive regrets counts as zero, because its reciprocal would
/// overflow.
pub(super) const NOTHING: f32 = f32::MIN_POSITIVE;

/// Returns the accumulated regret `sum` after the treatment with the code `keep` (a
/// [`MatchingKeep`]). `shares` are the factors of positive and of negative sums.
pub(super) fn kept(sum: f32, keep: u32, shares: [f32; 2]) -> f32 {
    if keep == MatchingKeep::Positive as u32 {
        sum.max(0.0)
    } else if keep == MatchingKeep::Shares as u32 {
        sum * if sum > 0.0 { shares[0] } else { shares[1] }
    } else {
        sum
    }
}
