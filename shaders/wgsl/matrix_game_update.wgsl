// One player's step of regret matching in a game of any size: updates the regrets with the values
// of the actions, and computes the next strategy.
// Shapes: values, strategy, regrets, average [actions]. One workgroup; an invocation processes
// every 256th action.
// Twin: twin::matrix_game_update.

struct MatrixGameUpdateParams {
    actions: u32,
    // Code of the treatment of accumulated regrets (shared/matching.wgsl).
    keep: u32,
    // Additional weight of the last regret in the prediction: 1 or 0.
    predictive: f32,
    // Step of the average towards the strategy, from 0 to 1.
    share: f32,
    // Factors of positive and negative accumulated regrets.
    kept: vec2<f32>,
    pad0: u32,
    pad1: u32,
}

@group(0) @binding(0) var<uniform> params: MatrixGameUpdateParams;
@group(0) @binding(1) var<storage, read> values: array<f32>;
@group(0) @binding(2) var<storage, read_write> strategy: array<f32>;
@group(0) @binding(3) var<storage, read_write> regrets: array<f32>;
@group(0) @binding(4) var<storage, read_write> average: array<f32>;

@compute @workgroup_size(1, GROUP_SUM_LANES)
fn matrix_game_update(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_id) lid: vec3<u32>) {
    var terms = 0.0;
    for (var i = lid.y; i < params.actions; i += GROUP_SUM_LANES) {
        let p = strategy[i];
        terms += values[i] * p;
        average[i] += params.share * (p - average[i]);
    }
    let worth = group_sum_of(lid.y, vec4<f32>(terms)).x;
    terms = 0.0;
    for (var i = lid.y; i < params.actions; i += GROUP_SUM_LANES) {
        let last = values[i] - worth;
        let sum = matching_kept(regrets[i] + last, params.keep, params.kept);
        let ahead = max(sum + params.predictive * last, 0.0);
        regrets[i] = sum;
        strategy[i] = ahead;
        terms += ahead;
    }
    let total = group_sum_of(lid.y, vec4<f32>(terms)).x;
    let is_some = total > MATCHING_NOTHING;
    let inverse = 1.0 / select(1.0, total, is_some);
    for (var i = lid.y; i < params.actions; i += GROUP_SUM_LANES) {
        strategy[i] = select(1.0 / f32(params.actions), strategy[i] * inverse, is_some);
    }
}
