// Regret matching in many zero-sum games of the same shape, with at most 16 rows and columns, one
// game per workgroup and one action per invocation: `lid.y` is the action, `lid.z` the player.
// Shapes: ticks [iterations], gains [games, rows, cols]; state [games, 2 rows + 2 cols] (strategy
// and accumulated regrets of the first player, then of the second); averages [games, rows + cols].
// State and averages continue from the previous dispatch.
// An invocation keeps the payoffs of its action in registers. Players read each other's strategies
// from workgroup memory. All invocations execute all steps, so that every barrier is reached; only
// the invocations of the player whose turn it is update their state. Padding actions are never
// played.
// Twin: twin::matrix_games_solve_16.

const ACTIONS: u32 = 16u;

// Workgroup memory: lines of one number per action, two lines (one per player) for each of:
// strategies; values of actions times their probabilities; strategies before normalization.
const STRATEGIES: u32 = 0u;
const SHARES: u32 = 2u;
const AHEAD: u32 = 4u;
var<workgroup> wg_lines: array<array<f32, ACTIONS>, 6>;

// One number per action.
struct Line {
    a: vec4<f32>,
    b: vec4<f32>,
    c: vec4<f32>,
    d: vec4<f32>,
}

// Sums four partial sums: of elements 0, 4, 8, 12, of elements 1, 5, 9, 13 and so on.
fn sum_of(line: Line) -> f32 {
    let fours = ((line.a + line.b) + line.c) + line.d;
    return ((fours.x + fours.y) + fours.z) + fours.w;
}

fn product_of(left: Line, right: Line) -> f32 {
    let fours = ((left.a * right.a + left.b * right.b) + left.c * right.c) + left.d * right.d;
    return ((fours.x + fours.y) + fours.z) + fours.w;
}

fn line_at(place: u32) -> Line {
    let line = wg_lines[place];
    return Line(
        vec4<f32>(line[0], line[1], line[2], line[3]),
        vec4<f32>(line[4], line[5], line[6], line[7]),
        vec4<f32>(line[8], line[9], line[10], line[11]),
        vec4<f32>(line[12], line[13], line[14], line[15]),
    );
}

// The payoff of an action for its player against an action of the other player.
fn payoff(player: u32, own: u32, other: u32, game: u32) -> f32 {
    let row = select(own, other, player == 1u);
    let col = select(other, own, player == 1u);
    let gain = matrix_games_gain(row, col, (game * params.rows + row) * params.cols + col);
    return select(gain, -gain, player == 1u);
}

fn payoffs_from(first: u32, player: u32, own: u32, game: u32) -> vec4<f32> {
    return vec4<f32>(
        payoff(player, own, first, game),
        payoff(player, own, first + 1u, game),
        payoff(player, own, first + 2u, game),
        payoff(player, own, first + 3u, game),
    );
}

@compute @workgroup_size(1, ACTIONS, 2)
fn matrix_games_solve_16(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) n_workgroups: vec3<u32>,
    @builtin(local_invocation_id) lid: vec3<u32>,
) {
    let group = grid_workgroup(wid, n_workgroups);
    // Workgroups past the last game repeat the last game and write nothing.
    let game = min(group, params.games - 1u);
    let player = lid.z;
    let action = lid.y;
    let n_actions = select(params.rows, params.cols, player == 1u);
    let before = select(0u, params.rows, player == 1u);
    let is_there = action < n_actions;
    let line = Line(
        payoffs_from(0u, player, action, game),
        payoffs_from(4u, player, action, game),
        payoffs_from(8u, player, action, game),
        payoffs_from(12u, player, action, game),
    );

    let n_items = params.rows + params.cols;
    let item = game * n_items + before + action;
    let state_item = 2u * (game * n_items + before) + action;
    let equal = select(0.0, 1.0 / f32(n_actions), is_there);
    var strategy = equal;
    var regrets = 0.0;
    var average = 0.0;
    if (params.done != 0u && is_there) {
        strategy = state[state_item];
        regrets = state[state_item + n_actions];
        average = averages[item];
    }
    wg_lines[STRATEGIES + player][action] = strategy;
    workgroupBarrier();

    let n_turns = 1u + params.alternating;
    for (var i = 0u; i < params.iterations; i += 1u) {
        let tick = ticks[params.done + i];
        for (var turn = 0u; turn < n_turns; turn += 1u) {
            let value = product_of(line, line_at(STRATEGIES + 1u - player));
            wg_lines[SHARES + player][action] = value * strategy;
            workgroupBarrier();
            let last = value - sum_of(line_at(SHARES + player));
            let sum = matching_kept(regrets + last, params.keep, tick.yz);
            let ahead = max(sum + params.predictive * last, 0.0);
            wg_lines[AHEAD + player][action] = ahead;
            workgroupBarrier();
            if (n_turns == 1u || turn == player) {
                let total = sum_of(line_at(AHEAD + player));
                let is_some = total > MATCHING_NOTHING;
                average += tick.x * strategy;
                regrets = sum;
                strategy = select(equal, ahead * (1.0 / select(1.0, total, is_some)), is_some);
                wg_lines[STRATEGIES + player][action] = strategy;
            }
            workgroupBarrier();
        }
    }

    if (group < params.games && is_there) {
        state[state_item] = strategy;
        state[state_item + n_actions] = regrets;
        averages[item] = average;
    }
}
