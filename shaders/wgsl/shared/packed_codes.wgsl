// Pooling and levels of the kernels `bit_conv_codes` and `byte_conv_codes`, and the place of their
// codes in workgroup memory.
// Shapes: thresholds [1 + thresholds, out_channels] (-1 for a channel with minimum pooling and 0
// for maximum pooling, then the thresholds); toggles [1 + thresholds]; y [batch, pooled rows,
// pooled columns, code_planes, out_groups, words of a group].
// A code is `toggles[0]`, xor `toggles[1 + t]` for each threshold t that is less than the pooled
// sum. A code has at most 8 bits.
// A workgroup computes a block of 32 channels of one group at 32 pixels; an invocation computes one
// channel of 8 pixels. Sums that are in several windows are computed once for each window. An
// invocation stores the codes of its pixels as bytes in workgroup memory; after a barrier, the
// kernel packs the codes of a pixel's channels into words.
// Twin: `twin::packed_codes`.

@group(0) @binding(6) var<storage, read> thresholds: array<i32>;
@group(0) @binding(7) var<storage, read> toggles: array<u32>;
@group(0) @binding(8) var<storage, read_write> y: array<u32>;

const CODE_BITS: u32 = 8u;
var<workgroup> wg_codes: array<vec2<u32>, LANES * ROWS>;

// The codes of an invocation: its first pixel, and its block of channels. The blocks of a group
// follow one another.
struct PackedCodesPlace {
    pixel: u32,
    block: u32,
}

// Returns the pixels at place `window` of four pooling windows.
fn packed_codes_pixels(first: u32, window: vec2<u32>) -> PackedConvPixels {
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
    return packed_conv_pixels(image, row, col, exist);
}

// Returns the codes of four pooled sums, one byte each.
fn packed_codes_of(sums: vec4<i32>, channel: u32) -> u32 {
    var codes = vec4<u32>(toggles[0]);
    for (var t = 1u; t <= params.thresholds; t += 1u) {
        let threshold = vec4<i32>(thresholds[t * params.out_channels + channel]);
        codes ^= select(vec4<u32>(0u), vec4<u32>(toggles[t]), sums > threshold);
    }
    let places = codes << (CODE_BITS * QUAD);
    return places.x | places.y | places.z | places.w;
}

// Returns the number of blocks of a group.
fn packed_codes_group_blocks() -> u32 {
    return (params.out_channels / params.out_groups + LANES - 1u) / LANES;
}

// Computes the codes of an invocation and stores them in workgroup memory.
fn packed_codes_store(tile: u32, lid: vec3<u32>) -> PackedCodesPlace {
    let group_channels = params.out_channels / params.out_groups;
    let group_blocks = packed_codes_group_blocks();
    let n_blocks = params.out_groups * group_blocks;
    let block = tile % n_blocks;
    let pixel = (tile / n_blocks * ROWS + lid.y) * PIXELS;
    let group_channel = block % group_blocks * LANES + lid.x;
    // The codes of channels that do not exist are 0. Their invocations compute channel 0, because
    // every invocation has to reach the barrier.
    let is_used = group_channel < group_channels;
    let channel = select(0u, block / group_blocks * group_channels + group_channel, is_used);

    // The complement reverses the order of integers, so the minimum of sums is the complement of
    // the maximum of complements.
    let flip = vec4<i32>(thresholds[channel]);
    var first = vec4<i32>(i32(-2147483648));
    var second = first;
    for (var place = 0u; place < params.pool.x * params.pool.y; place += 1u) {
        let window = vec2<u32>(place / params.pool.y, place % params.pool.y);
        let pixels_first = packed_codes_pixels(pixel, window);
        let pixels_second = packed_codes_pixels(pixel + 4u, window);
        let sums = packed_conv(pixels_first, pixels_second, channel);
        first = select(first, max(first, sums.first ^ flip), pixels_first.exist);
        second = select(second, max(second, sums.second ^ flip), pixels_second.exist);
    }
    let first_codes = packed_codes_of(first ^ flip, channel);
    let second_codes = packed_codes_of(second ^ flip, channel);
    let codes = vec2<u32>(first_codes, second_codes);
    wg_codes[lid.y * LANES + lid.x] = select(vec2<u32>(0u), codes, is_used);
    return PackedCodesPlace(pixel, block);
}

// Returns the code of a channel at one of eight pixels, in the lowest byte. The other bytes are
// those of other pixels, or 0.
fn packed_codes_load(row: u32, lane: u32, place: u32) -> u32 {
    let lane_codes = wg_codes[row * LANES + lane];
    let four = select(lane_codes.x, lane_codes.y, place >= 4u);
    return four >> (place % 4u * CODE_BITS);
}

fn packed_codes_n_pixels() -> u32 {
    return params.batch * params.pooled_size.x * params.pooled_size.y;
}
