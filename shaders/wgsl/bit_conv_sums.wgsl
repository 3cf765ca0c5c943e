// Convolution of packed bits, with sums as output.
// Shapes: inputs as in shared/packed_conv.wgsl; y as in shared/packed_sums.wgsl.
// A workgroup computes 32 channels of 32 pixels; an invocation computes one channel of 8 pixels.
// Twin: twin::bit_conv_sums.

@compute @workgroup_size(LANES, ROWS)
fn bit_conv_sums(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) n_workgroups: vec3<u32>,
    @builtin(local_invocation_id) lid: vec3<u32>,
) {
    packed_sums_store(grid_workgroup(wid, n_workgroups), lid);
}
