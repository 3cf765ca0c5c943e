//! The packing of lanes of flags into words.
//!
//! Role: the loop of nests that pack flags ([`LoopNest::packed_flag`](crate::ir::LoopNest)).
//! Method: the general loops would load every 32nd flag, convert and shift it. Instead the flags
//! are computed side by side, and eight at a time are moved together by one multiplication.

use crate::ir::WORD_BITS;

/// Packs flags, each 0 or 1: 32 for each word, the lowest bit first.
#[inline(always)]
pub(super) fn pack(words: &mut [u32], flags: &[u8]) {
    /// Moves bit 0 of byte `i` to bit `56 + i`; no two products meet in a bit.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let (flags, _) = flags.as_chunks::<WORD_BITS>();
    for (word, flags) in words.iter_mut().zip(flags) {
        let (eights, _) = flags.as_chunks::<8>();
        let bytes = eights
            .iter()
            .map(|&eight| u64::from_le_bytes(eight).wrapping_mul(GATHER) >> 56);
        let mut packed = 0;
        for (number, byte) in bytes.enumerate() {
            packed |= byte << (8 * number);
        }
        *word = low_word(packed);
    }
}

#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "four bytes fill a word")]
fn low_word(bytes: u64) -> u32 {
    bytes as u32
}
