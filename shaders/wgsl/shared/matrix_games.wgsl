// Parameters, bindings and actions that are not there, for kernels that learn in many zero-sum games of one shape by
// matching regrets. Twin: `twin::matrix_games`, whose header states the method.

struct MatrixGamesParams {
    games: u32,
    rows: u32,
    cols: u32,
    // Iterations before this dispatch, and in it.
    done: u32,
    iterations: u32,
    // What is kept of sums of regrets.
    keep: u32,
    // 1 if the second player sees what the first has just learnt, else 0.
    alternating: u32,
    // How many times more the last regret counts: 1 or 0.
    predictive: f32,
}

@group(0) @binding(0) var<uniform> params: MatrixGamesParams;
// Of each iteration: its weight in the average; what positive and negative sums of regrets are multiplied by; 0.
@group(0) @binding(1) var<storage, read> ticks: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> gains: array<f32>;
@group(0) @binding(3) var<storage, read_write> state: array<f32>;
@group(0) @binding(4) var<storage, read_write> averages: array<f32>;

// What an action that is not there brings its player, worse than any gain: it is never played.
const WORST: f32 = -3.0;

// The gain at a cell, given where it stands; beyond the last row or column, what keeps from playing there.
fn matrix_games_gain(row: u32, col: u32, place: u32) -> f32 {
    if (row < params.rows && col < params.cols) {
        return gains[place];
    }
    return select(-WORST, WORST, row >= params.rows);
}
