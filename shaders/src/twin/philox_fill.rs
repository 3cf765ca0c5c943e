//! Twin of `philox_fill`.

use super::{Grid, index, launch};
use crate::{Kernel, params::PhiloxFillParams};

const M0: u32 = 0xD251_1F53;
const M1: u32 = 0xCD9E_8D57;
const W0: u32 = 0x9E37_79B9;
const W1: u32 = 0xBB67_AE85;
const ROUNDS: u32 = 10;

/// Writes the first `n_words` words of one Philox4x32-10 stream, one counter per invocation.
///
/// Shapes: `words` has at least `n_words` words; the remaining elements do not change.
///
/// # Panics
/// If `words` is too short.
pub fn philox_fill(kernel: &Kernel, params: &PhiloxFillParams, words: &mut [u32]) {
    let words = &mut words[..params.n_words as usize];
    launch(Grid::for_kernel(kernel, params), |at| {
        let block = at.workgroup * u64::from(kernel.workgroup_size[0]) + u64::from(at.lid[0]);
        let Some(out) = words.get_mut(index(4 * block)..) else {
            return;
        };
        let counter =
            u32::try_from(block).expect("blocks of less than 2^32 words have 32-bit indices");
        let random = philox_block([counter, 0, params.stream[0], params.stream[1]], params.key);
        for (word, value) in out.iter_mut().zip(random) {
            *word = value;
        }
    });
}

/// Returns the high word of a product, computed from 16-bit halves as in WGSL.
fn mul_high(a: u32, b: u32) -> u32 {
    let [a_low, a_high] = [a & 0xFFFF, a >> 16];
    let [b_low, b_high] = [b & 0xFFFF, b >> 16];
    let mid = a_high * b_low + ((a_low * b_low) >> 16);
    let carry = a_low * b_high + (mid & 0xFFFF);
    a_high * b_high + (mid >> 16) + (carry >> 16)
}

pub(super) fn philox_block(mut c: [u32; 4], mut k: [u32; 2]) -> [u32; 4] {
    for _ in 0..ROUNDS {
        c = [
            mul_high(M1, c[2]) ^ c[1] ^ k[0],
            M1.wrapping_mul(c[2]),
            mul_high(M0, c[0]) ^ c[3] ^ k[1],
            M0.wrapping_mul(c[0]),
        ];
        k = [k[0].wrapping_add(W0), k[1].wrapping_add(W1)];
    }
    c
}
