// Convolution of packed bits, with sums as output.
// Shapes: inputs as in shared/bit_conv.wgsl; y [batch, out rows, out columns, out_channels].
// A workgroup computes 32 channels of 32 pixels; an invocation computes one channel of 8 pixels.
// Twin: twin::bit_conv_sums.

@group(0) @binding(6) var<storage, read_write> y: array<i32>;

fn pixels_from(first: u32) -> BitConvPixels {
    let pixel = vec4<u32>(first) + QUAD;
    let image = pixel / (params.out_size.x * params.out_size.y);
    let row = pixel / params.out_size.y % params.out_size.x;
    let exist = image < vec4<u32>(params.batch);
    return bit_conv_pixels(image, row, pixel % params.out_size.y, exist);
}

fn store(pixel: u32, channel: u32, sum: i32, exists: bool) {
    if (exists) {
        y[pixel * params.out_channels + channel] = sum;
    }
}

@compute @workgroup_size(LANES, ROWS)
fn bit_conv_sums(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) n_workgroups: vec3<u32>,
    @builtin(local_invocation_id) lid: vec3<u32>,
) {
    let tile = grid_workgroup(wid, n_workgroups);
    let tiles_per_row = (params.out_channels + LANES - 1u) / LANES;
    let channel = tile % tiles_per_row * LANES + lid.x;
    let pixel = (tile / tiles_per_row * ROWS + lid.y) * PIXELS;
    if (channel >= params.out_channels) {
        return;
    }
    let first = pixels_from(pixel);
    let second = pixels_from(pixel + 4u);
    let sums = bit_conv(first, second, channel);
    store(pixel, channel, sums.first.x, first.exist.x);
    store(pixel + 1u, channel, sums.first.y, first.exist.y);
    store(pixel + 2u, channel, sums.first.z, first.exist.z);
    store(pixel + 3u, channel, sums.first.w, first.exist.w);
    store(pixel + 4u, channel, sums.second.x, second.exist.x);
    store(pixel + 5u, channel, sums.second.y, second.exist.y);
    store(pixel + 6u, channel, sums.second.z, second.exist.z);
    store(pixel + 7u, channel, sums.second.w, second.exist.w);
}
