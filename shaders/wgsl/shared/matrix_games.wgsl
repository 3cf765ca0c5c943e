// Parameters, bindings and padding actions of the kernels for regret matching in many zero-sum
// games of the same shape.
// Twin: `twin::matrix_games`, whose header describes the method.

struct MatrixGamesParams {
    games: u32,
    rows: u32,
    cols: u32,
    // The next two: number of iterations of earlier dispatches, and of this dispatch.
    done: u32,
    iterations: u32,
    // Code of the treatment of accumulated regrets (shared/matching.wgsl).
    keep: u32,
    // 1 if the second player reacts to the first player's updated strategy, else 0.
    alternating: u32,
    // Additional weight of the last regret in the prediction: 1 or 0.
    predictive: f32,
}

@group(0) @binding(0) var<uniform> params: MatrixGamesParams;
// For each iteration: weight in the average, factor of positive accumulated regrets, factor of
// negative accumulated regrets, 0.
@group(0) @binding(1) var<storage, read> ticks: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> gains: array<f32>;
@group(0) @binding(3) var<storage, read_write> state: array<f32>;
@group(0) @binding(4) var<storage, read_write> averages: array<f32>;

// Payoff of a padding action for its player. It is worse than any real payoff, so the action is
// never played.
const WORST: f32 = -3.0;

// The payoff of a cell at buffer position `place`. For padding rows or columns, a payoff that makes
// their player avoid the action.
fn matrix_games_gain(row: u32, col: u32, place: u32) -> f32 {
    if (row < params.rows && col < params.cols) {
        return gains[place];
    }
    return select(-WORST, WORST, row >= params.rows);
}
