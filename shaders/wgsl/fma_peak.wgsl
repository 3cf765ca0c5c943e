// Independent chains of fused multiply-adds in registers. Measures the limit of f32 arithmetic.
// Shapes: y [n] of vec4<f32>.
// A workgroup covers 64 invocations; an invocation computes 8 chains of vec4, each `x <- x * m +
// s`, and writes their sum. The 64 vector operations of a round are unrolled, because otherwise the
// loop counter would be measured.
// Twin: twin::fma_peak.

struct FmaPeakParams {
    n: u32,
    rounds: u32,
    multiplier: f32,
    addend: f32,
}

@group(0) @binding(0) var<uniform> params: FmaPeakParams;
@group(0) @binding(1) var<storage, read_write> y: array<vec4<f32>>;

const GROUP: u32 = 64u;

@compute @workgroup_size(GROUP)
fn fma_peak(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) n_workgroups: vec3<u32>,
    @builtin(local_invocation_id) lid: vec3<u32>,
) {
    let i = grid_workgroup(wid, n_workgroups) * GROUP + lid.x;
    if (i >= params.n) {
        return;
    }
    let m = vec4<f32>(params.multiplier);
    let s = vec4<f32>(params.addend);
    let seed = vec4<f32>(f32(i % GROUP));
    var x0 = seed + vec4<f32>(0.0);
    var x1 = seed + vec4<f32>(1.0);
    var x2 = seed + vec4<f32>(2.0);
    var x3 = seed + vec4<f32>(3.0);
    var x4 = seed + vec4<f32>(4.0);
    var x5 = seed + vec4<f32>(5.0);
    var x6 = seed + vec4<f32>(6.0);
    var x7 = seed + vec4<f32>(7.0);
    for (var round = 0u; round < params.rounds; round += 1u) {
        x0 = fma(x0, m, s);
        x1 = fma(x1, m, s);
        x2 = fma(x2, m, s);
        x3 = fma(x3, m, s);
        x4 = fma(x4, m, s);
        x5 = fma(x5, m, s);
        x6 = fma(x6, m, s);
        x7 = fma(x7, m, s);
        x0 = fma(x0, m, s);
        x1 = fma(x1, m, s);
        x2 = fma(x2, m, s);
        x3 = fma(x3, m, s);
        x4 = fma(x4, m, s);
        x5 = fma(x5, m, s);
        x6 = fma(x6, m, s);
        x7 = fma(x7, m, s);
        x0 = fma(x0, m, s);
        x1 = fma(x1, m, s);
        x2 = fma(x2, m, s);
        x3 = fma(x3, m, s);
        x4 = fma(x4, m, s);
        x5 = fma(x5, m, s);
        x6 = fma(x6, m, s);
        x7 = fma(x7, m, s);
        x0 = fma(x0, m, s);
        x1 = fma(x1, m, s);
        x2 = fma(x2, m, s);
        x3 = fma(x3, m, s);
        x4 = fma(x4, m, s);
        x5 = fma(x5, m, s);
        x6 = fma(x6, m, s);
        x7 = fma(x7, m, s);
        x0 = fma(x0, m, s);
        x1 = fma(x1, m, s);
        x2 = fma(x2, m, s);
        x3 = fma(x3, m, s);
        x4 = fma(x4, m, s);
        x5 = fma(x5, m, s);
        x6 = fma(x6, m, s);
        x7 = fma(x7, m, s);
        x0 = fma(x0, m, s);
        x1 = fma(x1, m, s);
        x2 = fma(x2, m, s);
        x3 = fma(x3, m, s);
        x4 = fma(x4, m, s);
        x5 = fma(x5, m, s);
        x6 = fma(x6, m, s);
        x7 = fma(x7, m, s);
        x0 = fma(x0, m, s);
        x1 = fma(x1, m, s);
        x2 = fma(x2, m, s);
        x3 = fma(x3, m, s);
        x4 = fma(x4, m, s);
        x5 = fma(x5, m, s);
        x6 = fma(x6, m, s);
        x7 = fma(x7, m, s);
        x0 = fma(x0, m, s);
        x1 = fma(x1, m, s);
        x2 = fma(x2, m, s);
        x3 = fma(x3, m, s);
        x4 = fma(x4, m, s);
        x5 = fma(x5, m, s);
        x6 = fma(x6, m, s);
        x7 = fma(x7, m, s);
    }
    y[i] = ((x0 + x1) + (x2 + x3)) + ((x4 + x5) + (x6 + x7));
}
