//! Twin of `wgsl/shared/group_sum.wgsl`: sums over the invocations of a workgroup, by a binary
//! tree.

/// Number of invocations of a workgroup.
pub(super) const LANES: usize = 256;

/// Returns the sum of one number per invocation.
pub(super) fn group_sum(mut terms: [f32; LANES]) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            terms[lane] += terms[lane + half];
        }
        half /= 2;
    }
    terms[0]
}
