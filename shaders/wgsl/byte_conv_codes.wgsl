// Convolution of packed signed bytes, pooled and quantised: the output is packed as the next
// layer's input.
// Shapes: inputs as in shared/packed_conv.wgsl and shared/packed_codes.wgsl; y [batch, pooled rows,
// pooled columns, out_groups, words of a group], where byte b of word w is channel 4 w + b of the
// group. Bytes beyond the channels are 0. A code is a byte, and code_planes is 1.
// A workgroup computes the words of 32 channels and 32 pixels; an invocation packs every 32nd of
// the words of 8 pixels.
// Twin: twin::byte_conv_codes.

// Bytes of a word.
const WORD_BYTES: u32 = 4u;
// Words of a block of channels.
const BLOCK_WORDS: u32 = LANES / WORD_BYTES;

@compute @workgroup_size(LANES, ROWS)
fn byte_conv_codes(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) n_workgroups: vec3<u32>,
    @builtin(local_invocation_id) lid: vec3<u32>,
) {
    let at = packed_codes_store(grid_workgroup(wid, n_workgroups), lid);
    workgroupBarrier();

    let group_blocks = packed_codes_group_blocks();
    let group_words = (params.out_channels / params.out_groups + WORD_BYTES - 1u) / WORD_BYTES;
    let first_word = at.block % group_blocks * BLOCK_WORDS;
    let group_start = at.block / group_blocks * group_words;
    // Neighbouring invocations store neighbouring words.
    for (var item = lid.x; item < PIXELS * BLOCK_WORDS; item += LANES) {
        let place = item / BLOCK_WORDS;
        let word = item % BLOCK_WORDS;
        var bytes = 0u;
        for (var byte = 0u; byte < WORD_BYTES; byte += 1u) {
            let code = packed_codes_load(lid.y, word * WORD_BYTES + byte, place);
            bytes |= (code & 255u) << (byte * CODE_BITS);
        }
        let pixel = at.pixel + place;
        if (pixel < packed_codes_n_pixels() && first_word + word < group_words) {
            y[pixel * (params.out_groups * group_words) + group_start + first_word + word] = bytes;
        }
    }
}
