// Sums over the 256 invocations of a workgroup, by a binary tree. Every invocation must reach the
// call. Twin: `twin::group_sum`.

const GROUP_SUM_LANES: u32 = 256u;
var<workgroup> wg_group_sum: array<vec4<f32>, GROUP_SUM_LANES>;

fn group_sum_of(lane: u32, terms: vec4<f32>) -> vec4<f32> {
    wg_group_sum[lane] = terms;
    workgroupBarrier();
    for (var half = GROUP_SUM_LANES / 2u; half > 0u; half >>= 1u) {
        if (lane < half) {
            wg_group_sum[lane] += wg_group_sum[lane + half];
        }
        workgroupBarrier();
    }
    let sum = wg_group_sum[0];
    // The next call may overwrite the sum.
    workgroupBarrier();
    return sum;
}
