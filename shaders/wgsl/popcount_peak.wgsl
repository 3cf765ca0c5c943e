// Independent chains of exclusive or, count of ones and addition in registers. Measures the limit
// of products of packed bits.
// Shapes: y [n] of vec4<u32>.
// A workgroup covers 64 invocations; an invocation computes 8 chains of vec4, each `x <- x +
// countOneBits(x ^ mask)`, and writes their sum. All lanes and chains start with different numbers,
// so that no compiler can merge them. The 64 vector steps of a round are unrolled, because
// otherwise the loop counter would be measured.
// Twin: twin::popcount_peak.

struct PopcountPeakParams {
    n: u32,
    rounds: u32,
    mask: u32,
    pad0: u32,
}

@group(0) @binding(0) var<uniform> params: PopcountPeakParams;
@group(0) @binding(1) var<storage, read_write> y: array<vec4<u32>>;

const GROUP: u32 = 64u;

// Returns a chain after eight steps.
fn after_steps(start: vec4<u32>, mask: vec4<u32>) -> vec4<u32> {
    let a = start + countOneBits(start ^ mask);
    let b = a + countOneBits(a ^ mask);
    let c = b + countOneBits(b ^ mask);
    let d = c + countOneBits(c ^ mask);
    let e = d + countOneBits(d ^ mask);
    let f = e + countOneBits(e ^ mask);
    let g = f + countOneBits(f ^ mask);
    return g + countOneBits(g ^ mask);
}

@compute @workgroup_size(GROUP)
fn popcount_peak(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) n_workgroups: vec3<u32>,
    @builtin(local_invocation_id) lid: vec3<u32>,
) {
    let i = grid_workgroup(wid, n_workgroups) * GROUP + lid.x;
    if (i >= params.n) {
        return;
    }
    let mask = vec4<u32>(params.mask);
    let seed = vec4<u32>(i % GROUP) + vec4<u32>(0u, 1u, 2u, 3u);
    var x0 = seed + vec4<u32>(0u);
    var x1 = seed + vec4<u32>(4u);
    var x2 = seed + vec4<u32>(8u);
    var x3 = seed + vec4<u32>(12u);
    var x4 = seed + vec4<u32>(16u);
    var x5 = seed + vec4<u32>(20u);
    var x6 = seed + vec4<u32>(24u);
    var x7 = seed + vec4<u32>(28u);
    for (var round = 0u; round < params.rounds; round += 1u) {
        x0 = after_steps(x0, mask);
        x1 = after_steps(x1, mask);
        x2 = after_steps(x2, mask);
        x3 = after_steps(x3, mask);
        x4 = after_steps(x4, mask);
        x5 = after_steps(x5, mask);
        x6 = after_steps(x6, mask);
        x7 = after_steps(x7, mask);
    }
    y[i] = ((x0 + x1) + (x2 + x3)) + ((x4 + x5) + (x6 + x7));
}
