// Interface and sums of the kernels `bit_conv_…` and `byte_conv_…`: convolutions of packed numbers.
// A word holds one bit of 32 channels, or the signed bytes of 4 channels.
// Shapes: x [batch, height, width, planes, groups, words]; weights [weight_planes, kernel rows,
// kernel columns, words, out_channels]; channels [1 + planes * weight_planes, out_channels] (a
// bias, then the coefficient of each pair of planes); border [row_classes * col_classes,
// out_channels]; classes [rows + columns of the output]. Pairs of sizes are rows, then columns.
// The sum of an output pixel is the bias, plus the border's number of the pixel's class, minus each
// coefficient times the sum of `product` of a word of x and a word of the weights over the pair's
// taps and words. Words outside of the image are 0. Without classes, no border is added.
// Another part defines `product`: the number of ones in `x ^ weight` for bits, and the sum of four
// products for bytes.
// An invocation computes eight pixels of one channel, so that a weight is loaded once for eight
// pixels. Neighbouring invocations compute neighbouring channels: they load neighbouring weights
// and the same words of x.
// Pairs of planes are the outermost loop. An invocation then sums the products of one pair at a
// time, and loads as many words per product as a convolution of a single plane.
// Twin: `twin::packed_conv`.

struct PackedConvParams {
    batch: u32,
    height: u32,
    width: u32,
    words: u32,
    planes: u32,
    groups: u32,
    weight_planes: u32,
    out_channels: u32,
    kernel: vec2<u32>,
    stride: vec2<u32>,
    dilation: vec2<u32>,
    padding: vec2<u32>,
    out_size: vec2<u32>,
    row_classes: u32,
    col_classes: u32,
    pool: vec2<u32>,
    pool_stride: vec2<u32>,
    pool_padding: vec2<u32>,
    pooled_size: vec2<u32>,
    thresholds: u32,
    code_planes: u32,
    out_groups: u32,
    word_channels: u32,
}

@group(0) @binding(0) var<uniform> params: PackedConvParams;
@group(0) @binding(1) var<storage, read> x: array<u32>;
@group(0) @binding(2) var<storage, read> weights: array<u32>;
@group(0) @binding(3) var<storage, read> channels: array<i32>;
@group(0) @binding(4) var<storage, read> border: array<i32>;
@group(0) @binding(5) var<storage, read> classes: array<u32>;

// Channels of a workgroup.
const LANES: u32 = 32u;
// Rows of a workgroup. Each row computes the pixels of one invocation.
const ROWS: u32 = 4u;
// Pixels of an invocation, as two vectors of four.
const PIXELS: u32 = 8u;
const QUAD: vec4<u32> = vec4<u32>(0u, 1u, 2u, 3u);

// Four output pixels. Sums of pixels that do not exist are computed, and ignored by the caller.
struct PackedConvPixels {
    exist: vec4<bool>,
    // Row and column of the input under the first tap. Negative numbers wrap to large ones.
    row: vec4<u32>,
    col: vec4<u32>,
    // Index of the first word of that input pixel, modulo 2^32.
    start: vec4<u32>,
    // Class of each pixel in the border table.
    class_idx: vec4<u32>,
}

// The words of four input pixels: index of the first word, and a mask that is 0 outside of the
// image.
struct PackedConvWords {
    start: vec4<u32>,
    mask: vec4<u32>,
}

struct PackedConvSums {
    first: vec4<i32>,
    second: vec4<i32>,
}

fn packed_conv_class(row: u32, col: u32) -> u32 {
    return classes[row] * params.col_classes + classes[params.out_size.x + col];
}

// Returns the pixels at these rows and columns of the output.
fn packed_conv_pixels(
    image: vec4<u32>,
    row: vec4<u32>,
    col: vec4<u32>,
    exist: vec4<bool>,
) -> PackedConvPixels {
    var pixels: PackedConvPixels;
    pixels.exist = exist;
    pixels.row = row * params.stride.x - vec4<u32>(params.padding.x);
    pixels.col = col * params.stride.y - vec4<u32>(params.padding.y);
    let pixel = (image * params.height + pixels.row) * params.width + pixels.col;
    pixels.start = pixel * (params.planes * params.groups * params.words);
    if (params.row_classes > 0u) {
        let r = select(vec4<u32>(0u), row, exist);
        let c = select(vec4<u32>(0u), col, exist);
        pixels.class_idx = vec4<u32>(
            packed_conv_class(r.x, c.x),
            packed_conv_class(r.y, c.y),
            packed_conv_class(r.z, c.z),
            packed_conv_class(r.w, c.w),
        );
    }
    return pixels;
}

// Returns the bias, and the border's number if there is a border.
fn packed_conv_constants(pixels: PackedConvPixels, channel: u32) -> vec4<i32> {
    let bias = vec4<i32>(channels[channel]);
    if (params.row_classes == 0u) {
        return bias;
    }
    let at = pixels.class_idx * params.out_channels + vec4<u32>(channel);
    return bias + vec4<i32>(border[at.x], border[at.y], border[at.z], border[at.w]);
}

// Returns the words of the input pixels `offset` rows and columns after the first tap's. `words` is
// the distance from the first tap's first word, in words.
fn packed_conv_words(pixels: PackedConvPixels, offset: vec2<u32>, words: u32) -> PackedConvWords {
    let row_exists = pixels.row + offset.x < vec4<u32>(params.height);
    let col_exists = pixels.col + offset.y < vec4<u32>(params.width);
    let exist = pixels.exist & row_exists & col_exists;
    let mask = select(vec4<u32>(0u), vec4<u32>(0xffffffffu), exist);
    return PackedConvWords(pixels.start + words, mask);
}

fn packed_conv_load(words: PackedConvWords, word: u32) -> vec4<u32> {
    let at = (words.start + word) & words.mask;
    return vec4<u32>(x[at.x], x[at.y], x[at.z], x[at.w]) & words.mask;
}

// Returns the sums of one channel at eight pixels. The channel has to exist.
fn packed_conv(first: PackedConvPixels, second: PackedConvPixels, channel: u32) -> PackedConvSums {
    let group = channel / (params.out_channels / params.groups);
    let taps = params.kernel.x * params.kernel.y;
    let pixel_words = params.planes * params.groups * params.words;
    var sums = PackedConvSums(
        packed_conv_constants(first, channel),
        packed_conv_constants(second, channel),
    );
    for (var pair = 0u; pair < params.planes * params.weight_planes; pair += 1u) {
        let before = (pair / params.weight_planes * params.groups + group) * params.words;
        var weight = pair % params.weight_planes * taps * params.words * params.out_channels;
        weight += channel;
        var products_first = vec4<i32>(0i);
        var products_second = vec4<i32>(0i);
        for (var tap = 0u; tap < taps; tap += 1u) {
            let place = vec2<u32>(tap / params.kernel.y, tap % params.kernel.y);
            let offset = place * params.dilation;
            let words = (offset.x * params.width + offset.y) * pixel_words + before;
            let words_first = packed_conv_words(first, offset, words);
            let words_second = packed_conv_words(second, offset, words);
            for (var word = 0u; word < params.words; word += 1u) {
                let factors = weights[weight];
                products_first += product(packed_conv_load(words_first, word), factors);
                products_second += product(packed_conv_load(words_second, word), factors);
                weight += params.out_channels;
            }
        }
        let coefficient = channels[(1u + pair) * params.out_channels + channel];
        sums.first -= coefficient * products_first;
        sums.second -= coefficient * products_second;
    }
    return sums;
}
