// Philox4x32-10 (Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2,
// 3"): ten rounds of a keyed bijection on four words. WGSL has no 64-bit product, so the high word
// is computed from halves.

const PHILOX_M0: u32 = 0xD2511F53u;
const PHILOX_M1: u32 = 0xCD9E8D57u;
const PHILOX_W0: u32 = 0x9E3779B9u;
const PHILOX_W1: u32 = 0xBB67AE85u;
const PHILOX_ROUNDS: u32 = 10u;

fn philox_mul_high(a: u32, b: u32) -> u32 {
    let a_low = a & 0xFFFFu;
    let a_high = a >> 16u;
    let b_low = b & 0xFFFFu;
    let b_high = b >> 16u;
    let mid = a_high * b_low + ((a_low * b_low) >> 16u);
    let carry = a_low * b_high + (mid & 0xFFFFu);
    return a_high * b_high + (mid >> 16u) + (carry >> 16u);
}

fn philox_block(counter: vec4<u32>, key: vec2<u32>) -> vec4<u32> {
    var c = counter;
    var k = key;
    for (var round = 0u; round < PHILOX_ROUNDS; round += 1u) {
        c = vec4<u32>(
            philox_mul_high(PHILOX_M1, c.z) ^ c.y ^ k.x,
            PHILOX_M1 * c.z,
            philox_mul_high(PHILOX_M0, c.x) ^ c.w ^ k.y,
            PHILOX_M0 * c.x,
        );
        k += vec2<u32>(PHILOX_W0, PHILOX_W1);
    }
    return c;
}

// Word `at` of a stream.
fn philox_word(key: vec2<u32>, stream: vec2<u32>, at: u32) -> u32 {
    return philox_block(vec4<u32>(at >> 2u, 0u, stream), key)[at & 3u];
}
