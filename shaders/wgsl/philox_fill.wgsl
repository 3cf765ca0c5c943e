// Fills a buffer with the words of one Philox4x32-10 stream, bit for bit equal to the CPU's
// generator.
// Shapes: words [n_words].
// A workgroup covers 256 counters; an invocation computes one counter and writes up to four
// consecutive words.
// Source: Salmon et al. 2011 (wgsl/shared/philox.wgsl). Twin: twin::philox_fill.

struct PhiloxFillParams {
    key: vec2<u32>,
    stream: vec2<u32>,
    n_words: u32,
    pad0: u32,
    pad1: u32,
    pad2: u32,
}

@group(0) @binding(0) var<uniform> params: PhiloxFillParams;
@group(0) @binding(1) var<storage, read_write> words: array<u32>;

const GROUP: u32 = 256u;

@compute @workgroup_size(GROUP)
fn philox_fill(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) n_workgroups: vec3<u32>,
    @builtin(local_invocation_id) lid: vec3<u32>,
) {
    let block = grid_workgroup(wid, n_workgroups) * GROUP + lid.x;
    let first = block * 4u;
    // The second condition detects a product that wrapped, because the grid may have more
    // invocations than needed.
    if (first >= params.n_words || block >= 0x40000000u) {
        return;
    }
    let out = philox_block(vec4<u32>(block, 0u, params.stream), params.key);
    let n = min(params.n_words - first, 4u);
    words[first] = out.x;
    if (n > 1u) {
        words[first + 1u] = out.y;
    }
    if (n > 2u) {
        words[first + 2u] = out.z;
    }
    if (n > 3u) {
        words[first + 3u] = out.w;
    }
}
