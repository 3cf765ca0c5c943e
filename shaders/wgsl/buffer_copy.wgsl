// y = x, four floats at a time. Measures the limit of memory bandwidth.
// Shapes: x and y [n_vec4] of vec4<f32>.
// A workgroup covers 256 vectors; an invocation copies one vector.
// Source: the STREAM "copy" kernel (McCalpin 1995). Twin: twin::buffer_copy.

struct BufferCopyParams {
    n_vec4: u32,
    pad0: u32,
    pad1: u32,
    pad2: u32,
}

@group(0) @binding(0) var<uniform> params: BufferCopyParams;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> y: array<vec4<f32>>;

const GROUP: u32 = 256u;

@compute @workgroup_size(GROUP)
fn buffer_copy(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) n_workgroups: vec3<u32>,
    @builtin(local_invocation_id) lid: vec3<u32>,
) {
    let i = grid_workgroup(wid, n_workgroups) * GROUP + lid.x;
    if (i < params.n_vec4) {
        y[i] = x[i];
    }
}
