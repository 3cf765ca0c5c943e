// C = A * B with 16 x 16 tiles in workgroup memory, so that each element of A and B is read 16
// times less often.
// Shapes: a [rows, inner], b [inner, cols], c [rows, cols], row-major, contiguous
// (shared/matmul.wgsl).
// A workgroup computes one 16 x 16 tile of C. Per step an invocation loads one element of each tile
// of A and B; it computes one element of C. Elements outside of the matrices are zero, so every
// invocation reaches every barrier.
// Source: Kirk and Hwu 2010, "Programming Massively Parallel Processors", ch. 5. Twin:
// twin::matmul_tile.

const TILE: u32 = 16u;
var<workgroup> wg_a: array<f32, TILE * TILE>;
var<workgroup> wg_b: array<f32, TILE * TILE>;

@compute @workgroup_size(TILE, TILE)
fn matmul_tile(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) n_workgroups: vec3<u32>,
    @builtin(local_invocation_id) lid: vec3<u32>,
) {
    let tiles_per_row = (params.cols + TILE - 1u) / TILE;
    let tile = grid_workgroup(wid, n_workgroups);
    let row = tile / tiles_per_row * TILE + lid.y;
    let col = tile % tiles_per_row * TILE + lid.x;
    let slot = lid.y * TILE + lid.x;
    var sum = 0.0;
    for (var start = 0u; start < params.inner; start += TILE) {
        let a_col = start + lid.x;
        let b_row = start + lid.y;
        var a_value = 0.0;
        var b_value = 0.0;
        if (row < params.rows && a_col < params.inner) {
            a_value = a[row * params.inner + a_col];
        }
        if (b_row < params.inner && col < params.cols) {
            b_value = b[b_row * params.cols + col];
        }
        wg_a[slot] = a_value;
        wg_b[slot] = b_value;
        workgroupBarrier();
        for (var k = 0u; k < TILE; k += 1u) {
            sum += wg_a[lid.y * TILE + k] * wg_b[k * TILE + lid.x];
        }
        workgroupBarrier();
    }
    if (row < params.rows && col < params.cols) {
        c[row * params.cols + col] = sum;
    }
}
