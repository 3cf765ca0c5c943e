// Learns in many zero-sum games of one shape of at most 4 rows and columns, one game an invocation.
// Shapes: ticks [iterations], gains [rows, cols, games]; state [2 rows + 2 cols, games] (strategy and sums of regrets of
// one player, then of the other) and averages [rows + cols, games] carry on from the dispatch before.
// Everything that an iteration touches but its tick is in registers (shared/tiny_games.wgsl). A game of fewer actions gets
// some that are never played. Twin: twin::matrix_games_solve_4.

alias Actions = vec4<f32>;
alias Gains = mat4x4<f32>;

const GROUP: u32 = 64u;

fn narrowed(items: vec4<f32>) -> Actions {
    return items;
}

@compute @workgroup_size(GROUP)
fn matrix_games_solve_4(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) n_workgroups: vec3<u32>,
    @builtin(local_invocation_id) lid: vec3<u32>,
) {
    let game = grid_workgroup(wid, n_workgroups) * GROUP + lid.x;
    if (game >= params.games) {
        return;
    }
    let gains_of_game = Gains(
        narrowed(tiny_games_column(0u, game)),
        narrowed(tiny_games_column(1u, game)),
        narrowed(tiny_games_column(2u, game)),
        narrowed(tiny_games_column(3u, game)),
    );
    tiny_games_learn(game, gains_of_game);
}
