// Counterfactual regret minimization in many two-player games that differ only in payoffs, one game
// per workgroup.
// Order: sequences of the first player, then of the second; decisions by depth, then player, then
// parent sequence.
// Shapes of the tables, shared by all games:
// - sequences [sequences]: first and end pair, first and end decision
// - decisions [decisions]: parent sequence, first own sequence, number of actions, 0
// - levels [2 depths + 1]: start of the decisions of each depth and player
// - others [pairs]: the other player's sequence
// - ticks [iterations]
// Shapes per game: payoffs [games, pairs]; state [games, 4 sequences + decisions] (strategy,
// accumulated regrets, sequence probabilities, sequence values, decision values); averages [games,
// sequences]. State and averages continue from the previous dispatch.
// An invocation processes every 128th sequence or decision of a level. Sums are computed by one
// invocation, in order.
// Twin: twin::extensive_games_solve.

struct ExtensiveGamesParams {
    games: u32,
    // The next two: number of sequences of the first player, and of both players together.
    first_sequences: u32,
    sequences: u32,
    decisions: u32,
    depths: u32,
    pairs: u32,
    // The next two: number of iterations of earlier dispatches, and of this dispatch.
    done: u32,
    iterations: u32,
    // Code of the treatment of accumulated regrets (shared/matching.wgsl).
    keep: u32,
    // 1 if the second player reacts to the first player's updated strategy, else 0.
    alternating: u32,
    // Additional weight of the last regret in the prediction: 1 or 0.
    predictive: f32,
    pad0: u32,
}

@group(0) @binding(0) var<uniform> params: ExtensiveGamesParams;
@group(0) @binding(1) var<storage, read> sequences: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> decisions: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> levels: array<u32>;
@group(0) @binding(4) var<storage, read> others: array<u32>;
// For each iteration: weight in the average, factor of positive accumulated regrets, factor of
// negative accumulated regrets, 0.
@group(0) @binding(5) var<storage, read> ticks: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read> payoffs: array<f32>;
@group(0) @binding(7) var<storage, read_write> state: array<f32>;
@group(0) @binding(8) var<storage, read_write> averages: array<f32>;

const LANES: u32 = 128u;

// Offsets of a game's numbers in the buffers.
struct Places {
    payoffs: u32,
    strategy: u32,
    regrets: u32,
    plan: u32,
    values: u32,
    worths: u32,
    averages: u32,
}

fn places_of(game: u32) -> Places {
    let n = params.sequences;
    let start = game * (4u * n + params.decisions);
    return Places(game * params.pairs, start, start + n, start + 2u * n, start + 3u * n, start + 4u * n, game * n);
}

// Initializes the state: uniform strategies, zero regrets.
fn begin(at: Places, lane: u32) {
    for (var i = lane; i < params.sequences; i += LANES) {
        state[at.strategy + i] = 0.0;
        state[at.regrets + i] = 0.0;
        // Probability of the empty sequences; the other probabilities are computed below.
        state[at.plan + i] = 1.0;
        averages[at.averages + i] = 0.0;
    }
    storageBarrier();
    for (var i = lane; i < params.decisions; i += LANES) {
        let decision = decisions[i];
        for (var action = decision.y; action < decision.y + decision.z; action += 1u) {
            state[at.strategy + action] = 1.0 / f32(decision.z);
        }
    }
    storageBarrier();
    for (var depth = 0u; depth < params.depths; depth += 1u) {
        extend(at, levels[2u * depth] + lane, levels[2u * depth + 2u]);
    }
}

// Computes the value of the game ends of each sequence, and adds the current sequence probabilities
// to the average.
fn value(at: Places, first: u32, end: u32, weight: f32) {
    for (var i = first; i < end; i += LANES) {
        var sum = 0.0;
        let sequence = sequences[i];
        for (var pair = sequence.x; pair < sequence.y; pair += 1u) {
            sum += payoffs[at.payoffs + pair] * state[at.plan + others[pair]];
        }
        state[at.values + i] = sum;
        averages[at.averages + i] += weight * state[at.plan + i];
    }
    storageBarrier();
}

// Updates the regrets and strategies of decisions. The decisions below must already be updated.
fn update(at: Places, first: u32, end: u32, shares: vec2<f32>) {
    for (var i = first; i < end; i += LANES) {
        let decision = decisions[i];
        let actions_end = decision.y + decision.z;
        var worth = 0.0;
        for (var action = decision.y; action < actions_end; action += 1u) {
            let sequence = sequences[action];
            var value = state[at.values + action];
            for (var behind = sequence.z; behind < sequence.w; behind += 1u) {
                value += state[at.worths + behind];
            }
            state[at.values + action] = value;
            worth += value * state[at.strategy + action];
        }
        state[at.worths + i] = worth;
        var total = 0.0;
        for (var action = decision.y; action < actions_end; action += 1u) {
            let last = state[at.values + action] - worth;
            let sum = matching_kept(state[at.regrets + action] + last, params.keep, shares);
            let ahead = max(sum + params.predictive * last, 0.0);
            state[at.regrets + action] = sum;
            state[at.strategy + action] = ahead;
            total += ahead;
        }
        let is_some = total > MATCHING_NOTHING;
        let inverse = 1.0 / select(1.0, total, is_some);
        for (var action = decision.y; action < actions_end; action += 1u) {
            let share = state[at.strategy + action] * inverse;
            state[at.strategy + action] = select(1.0 / f32(decision.z), share, is_some);
        }
    }
    storageBarrier();
}

// Computes the probabilities of the sequences that begin in these decisions.
fn extend(at: Places, first: u32, end: u32) {
    for (var i = first; i < end; i += LANES) {
        let decision = decisions[i];
        let reach = state[at.plan + decision.x];
        for (var action = decision.y; action < decision.y + decision.z; action += 1u) {
            state[at.plan + action] = reach * state[at.strategy + action];
        }
    }
    storageBarrier();
}

@compute @workgroup_size(1, LANES)
fn extensive_games_solve(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) n_workgroups: vec3<u32>,
    @builtin(local_invocation_id) lid: vec3<u32>,
) {
    let game = grid_workgroup(wid, n_workgroups);
    if (game >= params.games) {
        return;
    }
    let at = places_of(game);
    let lane = lid.y;
    if (params.done == 0u) {
        begin(at, lane);
    }
    // Simultaneous updates treat both players as one.
    let n_turns = 1u + params.alternating;
    let width = 2u - params.alternating;
    for (var i = 0u; i < params.iterations; i += 1u) {
        let tick = ticks[params.done + i];
        for (var turn = 0u; turn < n_turns; turn += 1u) {
            let first = select(0u, params.first_sequences, turn == 1u);
            let end = select(params.sequences, params.first_sequences, turn + 1u < n_turns);
            value(at, first + lane, end, tick.x);
            for (var left = params.depths; left > 0u; left -= 1u) {
                let level = 2u * (left - 1u) + turn;
                update(at, levels[level] + lane, levels[level + width], tick.yz);
            }
            for (var depth = 0u; depth < params.depths; depth += 1u) {
                let level = 2u * depth + turn;
                extend(at, levels[level] + lane, levels[level + width]);
            }
        }
    }
}
