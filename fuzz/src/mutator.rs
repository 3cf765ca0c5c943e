//! A small deterministic mutator of bytes, for tests without a fuzzing engine.
//!
//! Method: an input of the corpus is changed one to four times: bits are flipped, parts are
//! removed, repeated, inserted or exchanged with another input, and numbers, binary or decimal,
//! become extreme ones. The sequence of inputs depends on the seed and the corpus only.

use std::ops::Range;

/// Maximum number of changes of one input.
const MAX_CHANGES: usize = 4;
/// Maximum length of an inserted or repeated part, in bytes.
const MAX_PART: usize = 16;
/// Integers at the limits of their types, and powers of 2.
const INTEGERS: [u64; 12] = [
    0,
    1,
    0x7f,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1 << 60,
    i64::MAX.cast_unsigned(),
    u64::MAX,
];
/// Decimal numbers that are large, small, or no numbers.
const DECIMALS: [&str; 14] = [
    "0",
    "-0",
    "-1",
    "65536",
    "4294967296",
    "18446744073709551615",
    "18446744073709551616",
    "1e308",
    "1e400",
    "-1e-400",
    "0.1",
    "1/3",
    "NaN",
    "inf",
];

/// A generator of mutated inputs.
#[derive(Clone, Debug)]
pub struct Mutator {
    state: u64,
}

impl Mutator {
    /// Creates a generator.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Returns a mutation of one of the inputs; random bytes if there are no inputs.
    #[must_use]
    pub fn mutate<T: AsRef<[u8]>>(&mut self, corpus: &[T]) -> Vec<u8> {
        let Some(first) = self.choose(corpus) else {
            return self.part();
        };
        let mut bytes = first.as_ref().to_vec();
        for _ in 0..=self.below(MAX_CHANGES - 1) {
            let other = self.choose(corpus).map_or(&[][..], AsRef::as_ref);
            self.change(&mut bytes, other);
        }
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        let at = self.below(bytes.len());
        match self.below(9) {
            0 if at < bytes.len() => bytes[at] ^= 1 << self.below(7),
            1 => bytes.truncate(at),
            2 => {
                let part = self.part();
                bytes.splice(at..at, part);
            }
            3 => drop(bytes.drain(self.range(at, bytes.len()))),
            4 => {
                let part = bytes[self.range(at, bytes.len())].to_vec();
                bytes.splice(at..at, part);
            }
            5 => {
                let from = self.below(other.len());
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            6 => self.change_integer(bytes, at),
            7 => self.change_decimal(bytes, at),
            _ if at < bytes.len() => bytes[at] = self.byte(),
            _ => bytes.push(self.byte()),
        }
    }

    /// Replaces 1, 2, 4 or 8 bytes by an extreme integer, in either order of bytes.
    fn change_integer(&mut self, bytes: &mut [u8], at: usize) {
        let Some(integer) = self.choose(&INTEGERS) else {
            return;
        };
        let len = 1 << self.below(3);
        let mut integer = integer.to_le_bytes();
        if self.below(1) == 0 {
            integer[..len].reverse();
        }
        for (byte, new) in bytes[at..].iter_mut().zip(&integer[..len]) {
            *byte = *new;
        }
    }

    /// Replaces the first run of digits behind a position by an extreme number.
    fn change_decimal(&mut self, bytes: &mut Vec<u8>, at: usize) {
        let is_digit = |byte: &u8| byte.is_ascii_digit();
        let Some(start) = bytes[at..].iter().position(is_digit) else {
            return;
        };
        let start = at + start;
        let len = bytes[start..]
            .iter()
            .take_while(|byte| is_digit(byte))
            .count();
        if let Some(decimal) = self.choose(&DECIMALS) {
            bytes.splice(start..start + len, decimal.bytes());
        }
    }

    /// Returns some random bytes.
    fn part(&mut self) -> Vec<u8> {
        (0..=self.below(MAX_PART)).map(|_| self.byte()).collect()
    }

    /// Returns a short range that begins at a position and ends at most at `len`.
    fn range(&mut self, at: usize, len: usize) -> Range<usize> {
        at..(at + self.below(MAX_PART)).min(len)
    }

    fn choose<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len().checked_sub(1)?))
    }

    fn byte(&mut self) -> u8 {
        self.word().to_le_bytes()[0]
    }

    /// Returns a number from 0 to `most`.
    fn below(&mut self, most: usize) -> usize {
        // The remainder is not quite uniform, which does not matter here.
        usize::try_from(self.word() % (most as u64 + 1)).unwrap_or(most)
    }

    /// Returns the next word of the generator `SplitMix64` (Steele, Lea and Flood 2014).
    fn word(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutations_differ_and_depend_on_the_seed_only() {
        let corpus = ["NFG 1 R 22", "EFG 2 R", ""];
        let draw = |seed| {
            let mut mutator = Mutator::new(seed);
            let draws: Vec<_> = (0..1000).map(|_| mutator.mutate(&corpus)).collect();
            draws
        };
        let mut draws = draw(1);
        assert_eq!(draws, draw(1));
        assert_ne!(draws, draw(2));
        draws.sort();
        draws.dedup();
        assert!(draws.len() > 500, "{}", draws.len());
    }

    #[test]
    fn an_empty_corpus_has_mutations() {
        assert!(!Mutator::new(1).mutate::<&[u8]>(&[]).is_empty());
    }
}
