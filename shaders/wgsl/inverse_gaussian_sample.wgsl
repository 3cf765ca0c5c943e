// Samples of the inverse Gaussian distribution, one per counter of a Philox stream, starting with
// draw `first`.
// Shapes: draws [n]. An invocation computes one draw.
// Twin: twin::inverse_gaussian_sample, whose header describes the method, the accuracy and the use
// of the words of a block.

struct InverseGaussianSampleParams {
    key: vec2<u32>,
    stream: vec2<u32>,
    first: u32,
    n: u32,
    // Square roots of the mean, and of mean / shape.
    root_mean: f32,
    root_ratio: f32,
}

@group(0) @binding(0) var<uniform> params: InverseGaussianSampleParams;
@group(0) @binding(1) var<storage, read_write> draws: array<f32>;

const GROUP: u32 = 256u;
const HALF_PI: f32 = 1.5707964;
// The range of the square root of a draw: the roots of the smallest normal f32 and of the largest
// f32.
const SMALLEST_ROOT: f32 = 1.0842022e-19;
const LARGEST_ROOT: f32 = 1.8446743e19;

@compute @workgroup_size(GROUP)
fn inverse_gaussian_sample(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) n_workgroups: vec3<u32>,
    @builtin(local_invocation_id) lid: vec3<u32>,
) {
    let at = grid_workgroup(wid, n_workgroups) * GROUP + lid.x;
    if (at < params.n) {
        draws[at] = draw(philox_block(vec4<u32>(params.first + at, 0u, params.stream), params.key));
    }
}

fn draw(words: vec4<u32>) -> f32 {
    // Magnitude of a normal number by the Box-Muller method. A quarter turn is enough, because only
    // the magnitude is used.
    let radius = split_sqrt(-2.0 * float_ln(uniform_of(words.x, words.y << 24u)));
    let turn = (f32(words.y >> 8u) + 0.5) * (1.0 / 16777216.0);
    let z = radius * float_sin(turn * HALF_PI);
    // The square of `root_q` is the larger candidate divided by the mean; the smaller candidate is
    // its inverse.
    let t = 0.5 * z * params.root_ratio;
    let root_q = t + split_sqrt(1.0 + t * t);
    let is_larger = uniform_of(words.z, words.w) * (1.0 + root_q * root_q) < 1.0;
    let root = select(params.root_mean * split_inverse_rounded(root_q), params.root_mean * root_q, is_larger);
    let inside = clamp(root, SMALLEST_ROOT, LARGEST_ROOT);
    return inside * inside;
}

// A number in (0, 1] from a 64-bit integer `i`: the f32 nearest to `(i + 1/2) 2^-64`. Small numbers
// have the full relative precision of f32.
fn uniform_of(high: u32, low: u32) -> f32 {
    let middle = f32(((high & 0xffu) << 16u) | (low >> 16u));
    let last = f32(low & 0xffffu) + 0.5;
    return f32(high >> 8u) * (1.0 / 16777216.0)
        + (middle * (1.0 / 281474976710656.0) + last * (1.0 / 18446744073709551616.0));
}
