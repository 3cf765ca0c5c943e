// Sums of a convolution as output: the kernels `bit_conv_sums` and `byte_conv_sums`.
// Shapes: y [batch, out rows, out columns, out_channels].
// A workgroup computes 32 channels of 32 pixels; an invocation computes one channel of 8 pixels.
// Twin: `twin::packed_conv`.

@group(0) @binding(6) var<storage, read_write> y: array<i32>;

fn packed_sums_pixels(first: u32) -> PackedConvPixels {
    let pixel = vec4<u32>(first) + QUAD;
    let image = pixel / (params.out_size.x * params.out_size.y);
    let row = pixel / params.out_size.y % params.out_size.x;
    let exist = image < vec4<u32>(params.batch);
    return packed_conv_pixels(image, row, pixel % params.out_size.y, exist);
}

fn packed_sums_put(pixel: u32, channel: u32, sum: i32, exists: bool) {
    if (exists) {
        y[pixel * params.out_channels + channel] = sum;
    }
}

// Computes and stores the sums of an invocation.
fn packed_sums_store(tile: u32, lid: vec3<u32>) {
    let tiles_per_row = (params.out_channels + LANES - 1u) / LANES;
    let channel = tile % tiles_per_row * LANES + lid.x;
    let pixel = (tile / tiles_per_row * ROWS + lid.y) * PIXELS;
    if (channel >= params.out_channels) {
        return;
    }
    let first = packed_sums_pixels(pixel);
    let second = packed_sums_pixels(pixel + 4u);
    let sums = packed_conv(first, second, channel);
    packed_sums_put(pixel, channel, sums.first.x, first.exist.x);
    packed_sums_put(pixel + 1u, channel, sums.first.y, first.exist.y);
    packed_sums_put(pixel + 2u, channel, sums.first.z, first.exist.z);
    packed_sums_put(pixel + 3u, channel, sums.first.w, first.exist.w);
    packed_sums_put(pixel + 4u, channel, sums.second.x, second.exist.x);
    packed_sums_put(pixel + 5u, channel, sums.second.y, second.exist.y);
    packed_sums_put(pixel + 6u, channel, sums.second.z, second.exist.z);
    packed_sums_put(pixel + 7u, channel, sums.second.w, second.exist.w);
}
