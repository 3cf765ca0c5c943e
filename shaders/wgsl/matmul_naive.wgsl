// C = A * B with one invocation per element of C, the baseline for the other kernels.
// Shapes: a [rows, inner], b [inner, cols], c [rows, cols], row-major, contiguous
// (shared/matmul.wgsl).
// A workgroup covers 16 x 16 elements of C; an invocation sums `inner` terms in order.
// Source: fast.ai notebook "matmul", the `cuda.jit` kernel. Twin: twin::matmul_naive.

const TILE: u32 = 16u;

@compute @workgroup_size(TILE, TILE)
fn matmul_naive(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) n_workgroups: vec3<u32>,
    @builtin(local_invocation_id) lid: vec3<u32>,
) {
    let tiles_per_row = (params.cols + TILE - 1u) / TILE;
    let tile = grid_workgroup(wid, n_workgroups);
    let row = tile / tiles_per_row * TILE + lid.y;
    let col = tile % tiles_per_row * TILE + lid.x;
    if (row >= params.rows || col >= params.cols) {
        return;
    }
    var sum = 0.0;
    for (var k = 0u; k < params.inner; k += 1u) {
        sum += a[row * params.inner + k] * b[k * params.cols + col];
    }
    c[row * params.cols + col] = sum;
}
