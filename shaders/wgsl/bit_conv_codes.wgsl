// Convolution of packed bits, pooled and quantised: the output is packed as the next layer's input.
// Shapes: inputs as in shared/bit_conv.wgsl; thresholds [1 + thresholds, out_channels] (-1 for a
// channel with minimum pooling and 0 for maximum pooling, then the thresholds); toggles [1 +
// thresholds]; y [batch, pooled rows, pooled columns, code_planes, out_groups, words of a group].
// A code is `toggles[0]`, xor `toggles[1 + t]` for each threshold t that is less than the pooled
// sum. Bit j of the code is the channel's bit in plane j. Toggles are less than 2^code_planes, and
// code_planes is at most 8.
// A workgroup computes the words of 32 channels and 32 pixels; an invocation computes one channel
// of 8 pixels. Sums that are in several windows are computed once for each window. The bits of a
// word meet in workgroup memory, where an invocation stores the codes of its pixels as bytes.
// Twin: twin::bit_conv_codes.

@group(0) @binding(6) var<storage, read> thresholds: array<i32>;
@group(0) @binding(7) var<storage, read> toggles: array<u32>;
@group(0) @binding(8) var<storage, read_write> y: array<u32>;

const CODE_BITS: u32 = 8u;
var<workgroup> wg_codes: array<vec2<u32>, LANES * ROWS>;

// Returns the pixels at place `window` of four pooling windows.
fn pixels_from(first: u32, window: vec2<u32>) -> BitConvPixels {
    let pixel = vec4<u32>(first) + QUAD;
    let image = pixel / (params.pooled_size.x * params.pooled_size.y);
    let pooled_row = pixel / params.pooled_size.y % params.pooled_size.x;
    let pooled_col = pixel % params.pooled_size.y;
    let offset = window - params.pool_padding;
    // Rows and columns before the first wrap to large numbers.
    let row = pooled_row * params.pool_stride.x + vec4<u32>(offset.x);
    let col = pooled_col * params.pool_stride.y + vec4<u32>(offset.y);
    let row_exists = row < vec4<u32>(params.out_size.x);
    let col_exists = col < vec4<u32>(params.out_size.y);
    let exist = (image < vec4<u32>(params.batch)) & row_exists & col_exists;
    return bit_conv_pixels(image, row, col, exist);
}

// Returns the codes of four pooled sums, one byte each.
fn codes_of(sums: vec4<i32>, channel: u32) -> u32 {
    var codes = vec4<u32>(toggles[0]);
    for (var t = 1u; t <= params.thresholds; t += 1u) {
        let threshold = vec4<i32>(thresholds[t * params.out_channels + channel]);
        codes ^= select(vec4<u32>(0u), vec4<u32>(toggles[t]), sums > threshold);
    }
    let places = codes << (CODE_BITS * QUAD);
    return places.x | places.y | places.z | places.w;
}

@compute @workgroup_size(LANES, ROWS)
fn bit_conv_codes(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) n_workgroups: vec3<u32>,
    @builtin(local_invocation_id) lid: vec3<u32>,
) {
    let group_channels = params.out_channels / params.out_groups;
    let group_words = (group_channels + LANES - 1u) / LANES;
    let pixel_words = params.out_groups * group_words;
    let tile = grid_workgroup(wid, n_workgroups);
    let word = tile % pixel_words;
    let pixel = (tile / pixel_words * ROWS + lid.y) * PIXELS;
    let group_channel = word % group_words * LANES + lid.x;
    // Unused bits are 0. Their invocations compute channel 0, because every invocation has to reach
    // the barrier.
    let is_used = group_channel < group_channels;
    let channel = select(0u, word / group_words * group_channels + group_channel, is_used);

    // The complement reverses the order of integers, so the minimum of sums is the complement of
    // the maximum of complements.
    let flip = vec4<i32>(thresholds[channel]);
    var first = vec4<i32>(i32(-2147483648));
    var second = first;
    for (var place = 0u; place < params.pool.x * params.pool.y; place += 1u) {
        let window = vec2<u32>(place / params.pool.y, place % params.pool.y);
        let pixels_first = pixels_from(pixel, window);
        let pixels_second = pixels_from(pixel + 4u, window);
        let sums = bit_conv(pixels_first, pixels_second, channel);
        first = select(first, max(first, sums.first ^ flip), pixels_first.exist);
        second = select(second, max(second, sums.second ^ flip), pixels_second.exist);
    }
    let codes = vec2<u32>(codes_of(first ^ flip, channel), codes_of(second ^ flip, channel));
    wg_codes[lid.y * LANES + lid.x] = select(vec2<u32>(0u), codes, is_used);
    workgroupBarrier();

    let n_pixels = params.batch * params.pooled_size.x * params.pooled_size.y;
    for (var bit = lid.x; bit < PIXELS * params.code_planes; bit += LANES) {
        let place = bit % PIXELS;
        let plane = bit / PIXELS;
        let shift = place % 4u * CODE_BITS + plane;
        var bits = 0u;
        for (var lane = 0u; lane < LANES; lane += 1u) {
            let lane_codes = wg_codes[lid.y * LANES + lane];
            let four = select(lane_codes.x, lane_codes.y, place >= 4u);
            bits |= (four >> shift & 1u) << lane;
        }
        if (pixel + place < n_pixels) {
            y[((pixel + place) * params.code_planes + plane) * pixel_words + word] = bits;
        }
    }
}
