// All iterations of a game in one invocation. The entry file defines the types: `Actions` is a
// vector of one number per action, `Gains` a matrix of such vectors. Requires
// `wgsl/shared/matrix_games.wgsl`.

struct TinyGamesPlayer {
    strategy: Actions,
    regrets: Actions,
    average: Actions,
    // The uniform strategy.
    equal: Actions,
}

// The same item of successive games is contiguous, so that neighbouring invocations read
// neighbouring addresses.
fn tiny_games_place(item: u32, game: u32) -> u32 {
    return item * params.games + game;
}

fn tiny_games_gain(row: u32, col: u32, game: u32) -> f32 {
    return matrix_games_gain(row, col, tiny_games_place(row * params.cols + col, game));
}

// The payoffs of all rows in a column.
fn tiny_games_column(col: u32, game: u32) -> vec4<f32> {
    return vec4<f32>(
        tiny_games_gain(0u, col, game),
        tiny_games_gain(1u, col, game),
        tiny_games_gain(2u, col, game),
        tiny_games_gain(3u, col, game),
    );
}

// The player with `n` actions, preceded by `before` actions of the other player. Initial state, or
// state of the last dispatch.
fn tiny_games_player(before: u32, n: u32, game: u32) -> TinyGamesPlayer {
    let is_there = vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(n);
    let equal = narrowed(select(vec4<f32>(0.0), vec4<f32>(1.0 / f32(n)), is_there));
    var player = TinyGamesPlayer(equal, Actions(), Actions(), equal);
    if (params.done > 0u) {
        for (var i = 0u; i < n; i += 1u) {
            player.strategy[i] = state[tiny_games_place(2u * before + i, game)];
            player.regrets[i] = state[tiny_games_place(2u * before + n + i, game)];
            player.average[i] = averages[tiny_games_place(before + i, game)];
        }
    }
    return player;
}

fn tiny_games_save(before: u32, n: u32, game: u32, player: TinyGamesPlayer) {
    for (var i = 0u; i < n; i += 1u) {
        state[tiny_games_place(2u * before + i, game)] = player.strategy[i];
        state[tiny_games_place(2u * before + n + i, game)] = player.regrets[i];
        averages[tiny_games_place(before + i, game)] = player.average[i];
    }
}

fn tiny_games_updated(player: TinyGamesPlayer, values: Actions, tick: vec4<f32>) -> TinyGamesPlayer {
    let last = values - dot(values, player.strategy);
    var regrets = player.regrets + last;
    if (params.keep == MATCHING_POSITIVE) {
        regrets = max(regrets, Actions());
    } else if (params.keep == MATCHING_SHARES) {
        regrets *= select(Actions(tick.z), Actions(tick.y), regrets > Actions());
    }
    let ahead = max(regrets + params.predictive * last, Actions());
    let total = dot(ahead, Actions(1.0));
    let is_some = total > MATCHING_NOTHING;
    let strategy = select(player.equal, ahead * (1.0 / select(1.0, total, is_some)), is_some);
    let average = player.average + tick.x * player.strategy;
    return TinyGamesPlayer(strategy, regrets, average, player.equal);
}

fn tiny_games_learn(game: u32, cells: Gains) {
    var row = tiny_games_player(0u, params.rows, game);
    var col = tiny_games_player(params.rows, params.cols, game);
    for (var i = 0u; i < params.iterations; i += 1u) {
        let tick = ticks[params.done + i];
        var seen = row.strategy;
        row = tiny_games_updated(row, cells * col.strategy, tick);
        if (params.alternating != 0u) {
            seen = row.strategy;
        }
        col = tiny_games_updated(col, -(seen * cells), tick);
    }
    tiny_games_save(0u, params.rows, game, row);
    tiny_games_save(params.rows, params.cols, game, col);
}
