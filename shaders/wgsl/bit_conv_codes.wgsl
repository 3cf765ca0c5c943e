// Convolution of packed bits, pooled and quantised: the output is packed as the next layer's input.
// Shapes: inputs as in shared/packed_conv.wgsl and shared/packed_codes.wgsl; y [batch, pooled rows,
// pooled columns, code_planes, out_groups, words of a group], where bit b of word w is channel
// 32 w + b of the group.
// Bit j of a code is the channel's bit in plane j. Toggles are less than 2^code_planes, and
// code_planes is at most 8.
// A workgroup computes the words of 32 channels and 32 pixels; an invocation packs every 32nd of
// the words of 8 pixels.
// Twin: twin::bit_conv_codes.

@compute @workgroup_size(LANES, ROWS)
fn bit_conv_codes(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) n_workgroups: vec3<u32>,
    @builtin(local_invocation_id) lid: vec3<u32>,
) {
    let at = packed_codes_store(grid_workgroup(wid, n_workgroups), lid);
    workgroupBarrier();

    // A block of channels is a word.
    let plane_words = params.out_groups * packed_codes_group_blocks();
    for (var item = lid.x; item < PIXELS * params.code_planes; item += LANES) {
        let place = item % PIXELS;
        let plane = item / PIXELS;
        var bits = 0u;
        for (var lane = 0u; lane < LANES; lane += 1u) {
            bits |= ((packed_codes_load(lid.y, lane, place) >> plane) & 1u) << lane;
        }
        if (at.pixel + place < packed_codes_n_pixels()) {
            y[((at.pixel + place) * params.code_planes + plane) * plane_words + at.block] = bits;
        }
    }
}
