// Regret matching in many zero-sum games of the same shape, with at most 3 rows and columns, one
// game per invocation.
// Shapes: ticks [iterations], gains [rows, cols, games]; state [2 rows + 2 cols, games] (strategy
// and accumulated regrets of the first player, then of the second); averages [rows + cols, games].
// State and averages continue from the previous dispatch.
// Except for the ticks, all data of an iteration are in registers (shared/tiny_games.wgsl). Games
// with fewer actions are padded with actions that are never played.
// Twin: twin::matrix_games_solve_3.

alias Actions = vec3<f32>;
alias Gains = mat3x3<f32>;

const GROUP: u32 = 64u;

fn narrowed(items: vec4<f32>) -> Actions {
    return items.xyz;
}

@compute @workgroup_size(GROUP)
fn matrix_games_solve_3(
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
    );
    tiny_games_learn(game, gains_of_game);
}
