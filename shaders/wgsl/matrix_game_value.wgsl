// Value of each action of one player against the other player's strategy: a matrix-vector product.
// Shapes: payoffs [actions, others], row-major; strategy [others] -> values [actions].
// A workgroup computes four actions. Neighbouring invocations read neighbouring payoffs, and each
// strategy entry is read once for all four actions.
// Twin: twin::matrix_game_value.

struct MatrixGameValueParams {
    actions: u32,
    others: u32,
    pad0: u32,
    pad1: u32,
}

@group(0) @binding(0) var<uniform> params: MatrixGameValueParams;
@group(0) @binding(1) var<storage, read> payoffs: array<f32>;
@group(0) @binding(2) var<storage, read> strategy: array<f32>;
@group(0) @binding(3) var<storage, read_write> values: array<f32>;

@compute @workgroup_size(1, GROUP_SUM_LANES)
fn matrix_game_value(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) n_workgroups: vec3<u32>,
    @builtin(local_invocation_id) lid: vec3<u32>,
) {
    let first = grid_workgroup(wid, n_workgroups) * 4u;
    // Indices past the last action are clamped to the last action; their results are not written.
    let actions = min(first + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(params.actions - 1u));
    let places = actions * params.others;
    var sums = vec4<f32>(0.0);
    for (var other = lid.y; other < params.others; other += GROUP_SUM_LANES) {
        let own = places + other;
        let line = vec4<f32>(payoffs[own.x], payoffs[own.y], payoffs[own.z], payoffs[own.w]);
        sums += line * strategy[other];
    }
    let found = group_sum_of(lid.y, sums);
    if (lid.y < 4u && first + lid.y < params.actions) {
        values[first + lid.y] = found[lid.y];
    }
}
