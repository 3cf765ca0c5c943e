//! Nests that pack flags into words.
//!
//! Role: finds these nests, and packs lanes of flags.
//! Method: a word is the sum of 32 flags, each shifted by the number of its bit. The general loops
//! would load every 32nd element, convert and shift it. Instead the flags are computed side by side
//! and eight at a time are moved together by one multiplication.
//!
//! ```text
//! sum over bit of (u32(flag[word, bit]) << bit)
//! ```

use crate::dtype::DType;
use crate::ir::{LoopNest, Value, ValueId};
use crate::op::{Binary, Reduce};

/// The number of bits of a word.
pub(super) const WORD_BITS: usize = 32;

/// Returns the flag that a nest packs into the words of its result; `None` for other nests.
///
/// The values after the packing must be computed from the words and from constants, because their
/// lanes are words, not flags.
pub(super) fn packed_flag(nest: &LoopNest) -> Option<ValueId> {
    let [bits] = &nest.reduce[..] else {
        return None;
    };
    let is_reduced = |value: &&Value| matches!(value, Value::Reduced(..));
    let mut reductions = nest.values.iter().filter(is_reduced);
    let (Some(Value::Reduced(Reduce::Sum, shifted)), None) = (reductions.next(), reductions.next())
    else {
        return None;
    };
    let Value::Binary(Binary::Shl, word, place) = &nest.values[shifted.0] else {
        return None;
    };
    let Value::Cast(DType::U32, flag) = &nest.values[word.0] else {
        return None;
    };
    let Value::Index(map) = &nest.values[place.0] else {
        return None;
    };
    let (domain, reduced) = map.strides.split_at(nest.domain.len());
    let counts_bits = map.offset == 0 && reduced == [1] && domain.iter().all(|&stride| stride == 0);
    let needed = nest.epilogue().into_iter().zip(&nest.values);
    let mut after = needed.filter_map(|(is_needed, value)| is_needed.then_some(value));
    let follows_words = after.all(|value| value.maps().next().is_none());
    let is_packing =
        *bits == WORD_BITS && nest.dtypes[flag.0] == DType::Bool && counts_bits && follows_words;
    is_packing.then_some(*flag)
}

/// Returns the values that convert and shift the flag that a nest packs, unless another value reads
/// them.
pub(super) fn shifts(nest: &LoopNest) -> Vec<ValueId> {
    let readers = |id: ValueId| {
        let all = nest.values.iter().flat_map(Value::operands);
        all.filter(|&operand| operand == id).count()
    };
    let reduced = nest.values.iter().find_map(|value| match value {
        Value::Reduced(_, shifted) => Some(*shifted),
        _ => None,
    });
    let shifted = reduced.into_iter();
    let chain = shifted.flat_map(|id| [id].into_iter().chain(nest.values[id.0].operands()));
    // A flag may be computed from the number of its bit.
    chain.filter(|&id| readers(id) == 1).collect()
}

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
