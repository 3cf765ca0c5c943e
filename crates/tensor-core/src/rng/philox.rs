//! Philox4x32-10: random numbers as a pure function of key and counter.
//!
//! Role: the random number generator of this workspace. Element `i` of a stream does not depend on
//! which thread or device computes it, nor on the order, so a shader that implements
//! [`philox4x32_10`] returns the same bits.
//! Method: ten rounds of two 32 × 32 → 64-bit products on a counter of four words, with a key of
//! two words that is incremented by a constant in each round.
//! Layout: the key is the seed, low word first. The counter is `[block low, block high, stream low,
//! stream high]`. A block is four words, and word `i` of a stream is word `i mod 4` of block `i /
//! 4`. For one key the function is a bijection on the counter, and different pairs (stream, block)
//! are different counters, so streams of one seed never share a block. Every `u64` is an index; a
//! fill that passes the last index continues at index 0.
//! Accuracy: words and uniform numbers are exact and equal on all platforms. Normal numbers are
//! computed in f64 and depend on the platform's `ln`, `sin` and `cos` in the last digits.
//! Source: Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3", SC11.
//! Limits: not cryptographically secure.

use std::f64::consts::TAU;

/// The multipliers of the first and third counter word (Salmon et al. 2011, table 2).
const MULTIPLIERS: [u32; 2] = [0xd251_1f53, 0xcd9e_8d57];
/// The increments of the key: the fractional parts of the golden ratio and of the square root of 3,
/// in 32 bits.
const WEYL: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];
/// The number of rounds.
const ROUNDS: usize = 10;

/// Maps a counter to four random words; for a fixed key the map is a bijection.
///
/// # Examples
/// ```
/// let words = tensor_core::rng::philox4x32_10([0; 4], [0; 2]);
/// assert_eq!(words, [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
/// ```
#[must_use]
pub fn philox4x32_10(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..ROUNDS {
        let (low_0, high_0) = MULTIPLIERS[0].carrying_mul(counter[0], 0);
        let (low_1, high_1) = MULTIPLIERS[1].carrying_mul(counter[2], 0);
        counter = [
            high_1 ^ counter[1] ^ key[0],
            low_1,
            high_0 ^ counter[3] ^ key[1],
            low_0,
        ];
        key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
    }
    counter
}

/// A stream of random numbers with random access to its elements.
///
/// The generator has no state, so copies do not repeat draws by accident. Use a separate
/// [`stream`](Self::stream) for each task, and for each kind of numbers within a task (uniform,
/// normal, words), because all kinds are computed from the same words.
///
/// # Examples
/// ```
/// use tensor_core::rng::Philox;
/// let (parent, child) = (Philox::new(42).stream(0), Philox::new(42).stream(1));
/// assert_ne!(parent.uniform_f32(0), child.uniform_f32(0));
///
/// // Any part can be filled independently.
/// let (mut whole, mut tail) = ([0.0; 7], [0.0; 4]);
/// parent.fill_normal_f32(0, &mut whole);
/// parent.fill_normal_f32(3, &mut tail);
/// assert_eq!(whole[3..], tail);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Philox {
    key: [u32; 2],
    stream: [u32; 2],
}

impl Philox {
    /// Creates stream 0 of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            key: words_of(seed),
            stream: [0; 2],
        }
    }

    /// Returns stream `id` of the same seed.
    #[must_use]
    pub fn stream(self, id: u64) -> Self {
        Self {
            stream: words_of(id),
            ..self
        }
    }

    /// Returns the key, for a shader that computes the same words.
    #[must_use]
    pub fn key(&self) -> [u32; 2] {
        self.key
    }

    /// Returns the upper half of every counter of the stream, for a shader that computes the same
    /// words.
    pub(crate) fn counter_high(&self) -> [u32; 2] {
        self.stream
    }

    /// Returns block `index` of the stream: words `4 * index` to `4 * index + 3`. Blocks past
    /// `u64::MAX / 4` are valid, but their words have no index.
    #[must_use]
    pub fn block(&self, index: u64) -> [u32; 4] {
        let [low, high] = words_of(index);
        philox4x32_10([low, high, self.stream[0], self.stream[1]], self.key)
    }

    /// Returns word `index` of the stream.
    #[must_use]
    pub fn word(&self, index: u64) -> u32 {
        element(index, |block| self.block(block))
    }

    /// Returns uniform f32 number `index`, in [0, 1): the upper 24 bits of word `index`.
    #[must_use]
    pub fn uniform_f32(&self, index: u64) -> f32 {
        unit_f32(self.word(index))
    }

    /// Returns uniform f64 number `index`, in [0, 1): the upper 53 bits of the first two words
    /// (even index) or the last two words (odd index) of block `index / 2`. The second word of a
    /// pair is the high half.
    #[must_use]
    pub fn uniform_f64(&self, index: u64) -> f64 {
        element(index, |block| unit_f64_pair(self.block(block)))
    }

    /// Returns standard normal number `index`, by the Box–Muller method.
    ///
    /// Elements `2 i` and `2 i + 1` are `r cos t` and `r sin t` with `r = sqrt(-2 ln(1 - u))` and
    /// `t = 2 pi v`, where `u` and `v` are the uniform f64 numbers with the same indices. One block
    /// produces two numbers, and no number exceeds 8.58 in magnitude.
    #[must_use]
    pub fn normal(&self, index: u64) -> f64 {
        element(index, |block| normal_pair(self.block(block)))
    }

    /// Fills `out` with the words from index `first`.
    pub fn fill_words(&self, first: u64, out: &mut [u32]) {
        fill(first, out, |block| self.block(block));
    }

    /// Fills `out` with the uniform f32 numbers from index `first`.
    pub fn fill_uniform_f32(&self, first: u64, out: &mut [f32]) {
        fill(first, out, |block| self.block(block).map(unit_f32));
    }

    /// Fills `out` with the uniform f64 numbers from index `first`.
    pub fn fill_uniform_f64(&self, first: u64, out: &mut [f64]) {
        fill(first, out, |block| unit_f64_pair(self.block(block)));
    }

    /// Fills `out` with the normal numbers from index `first`, each rounded to f32.
    pub fn fill_normal_f32(&self, first: u64, out: &mut [f32]) {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the purpose of this function is to round to f32"
        )]
        fill(first, out, |block| {
            normal_pair(self.block(block)).map(|x| x as f32)
        });
    }

    /// Fills `out` with the normal numbers from index `first`.
    pub fn fill_normal_f64(&self, first: u64, out: &mut [f64]) {
        fill(first, out, |block| normal_pair(self.block(block)));
    }
}

/// Splits a number into its low and its high word.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the cast selects the low word on purpose"
)]
fn words_of(x: u64) -> [u32; 2] {
    [x as u32, (x >> 32) as u32]
}

fn unit_f32(word: u32) -> f32 {
    // 24 bits fit the significand, so the conversion and the product are exact.
    (word >> 8) as f32 * (1.0 / 16_777_216.0)
}

fn unit_f64_pair(block: [u32; 4]) -> [f64; 2] {
    let unit = |low: u32, high: u32| {
        let bits = u64::from(high) << 32 | u64::from(low);
        // 53 bits fit the significand, so the conversion and the product are exact.
        (bits >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
    };
    [unit(block[0], block[1]), unit(block[2], block[3])]
}

fn normal_pair(block: [u32; 4]) -> [f64; 2] {
    let [u, v] = unit_f64_pair(block);
    // 1 - u is in (0, 1] and exact, so the logarithm is finite.
    let radius = (-2.0 * (1.0 - u).ln()).sqrt();
    let (sin, cos) = (TAU * v).sin_cos();
    [radius * cos, radius * sin]
}

/// Returns element `index` of a sequence whose blocks have `N` elements each.
fn element<T: Copy, const N: usize>(index: u64, block: impl Fn(u64) -> [T; N]) -> T {
    let n = N as u64;
    block(index / n)[usize::try_from(index % n).expect("the index within a block is below N")]
}

/// Fills `out` block by block with the elements from index `first` of a sequence whose blocks have
/// `N` elements each. Indices wrap around after `u64::MAX`.
fn fill<T: Copy, const N: usize>(first: u64, out: &mut [T], block: impl Fn(u64) -> [T; N]) {
    let n = N as u64;
    // The first block may be used only from its middle on, the last block only up to its middle.
    let skipped = usize::try_from(first % n).expect("the index within a block is below N");
    let (head, body) = out.split_at_mut((N - skipped).min(out.len()));
    head.copy_from_slice(&block(first / n)[skipped..skipped + head.len()]);
    let last_block = u64::MAX / n;
    let mut at = first / n;
    for part in body.chunks_mut(N) {
        at = if at == last_block { 0 } else { at + 1 };
        part.copy_from_slice(&block(at)[..part.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Tolerance, assert_close};
    use std::collections::HashSet;

    /// The known-answer vectors of the Random123 library. A second implementation, written from the
    /// paper in another language, produced the same twelve words.
    #[test]
    fn the_published_vectors_come_out() {
        let cases = [
            (
                [0; 4],
                [0; 2],
                [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8],
            ),
            (
                [u32::MAX; 4],
                [u32::MAX; 2],
                [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd],
            ),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ];
        for (counter, key, expected) in cases {
            assert_eq!(philox4x32_10(counter, key), expected);
        }
    }

    #[test]
    fn words_follow_the_documented_layout() {
        let random = Philox::new(0x299f_31d0_a409_3822).stream(0x0370_7344_1319_8a2e);
        let block = random.block(0x85a3_08d3_243f_6a88);
        assert_eq!(block, [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]);
        for index in [0, 1, 6, 1 << 34, u64::MAX] {
            assert_eq!(
                random.word(index),
                random.block(index / 4)[(index % 4) as usize]
            );
        }
    }

    #[test]
    fn the_last_index_is_ordinary_and_fills_go_on_at_the_first() {
        let random = Philox::new(u64::MAX).stream(u64::MAX);
        let block = random.block(u64::MAX / 4);
        assert_eq!(
            random.block(u64::MAX),
            philox4x32_10([u32::MAX; 4], [u32::MAX; 2])
        );
        assert_eq!(random.word(u64::MAX), block[3]);
        assert_eq!(random.uniform_f32(u64::MAX), unit_f32(block[3]));
        let last_pair = random.block(u64::MAX / 2);
        assert_eq!(random.uniform_f64(u64::MAX), unit_f64_pair(last_pair)[1]);
        assert_eq!(random.normal(u64::MAX), normal_pair(last_pair)[1]);
        let mut words = [0; 3];
        random.fill_words(u64::MAX, &mut words);
        assert_eq!(words, [u64::MAX, 0, 1].map(|index| random.word(index)));
        let mut normals = [0.0; 3];
        random.fill_normal_f64(u64::MAX, &mut normals);
        assert_eq!(normals, [u64::MAX, 0, 1].map(|index| random.normal(index)));
    }

    #[test]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "rounding to f32 is what is tested"
    )]
    fn every_fill_gives_the_elements_that_access_by_index_gives() {
        let random = Philox::new(7).stream(3);
        for first in [0, 1, 2, 3, 5, (1 << 34) - 2, u64::MAX - 4] {
            for len in [0, 1, 2, 3, 4, 5, 11] {
                let indices = (0..len as u64).map(|i| first.wrapping_add(i));
                let bound = || Tolerance::bits().allow_empty();
                let (mut words, mut singles, mut doubles) =
                    (vec![0; len], vec![0.0; len], vec![0.0; len]);
                random.fill_words(first, &mut words);
                assert_close(
                    &words,
                    indices.clone().map(|i| random.word(i)).collect::<Vec<_>>(),
                    bound(),
                );
                random.fill_uniform_f32(first, &mut singles);
                assert_close(
                    &singles,
                    indices
                        .clone()
                        .map(|i| random.uniform_f32(i))
                        .collect::<Vec<_>>(),
                    bound(),
                );
                random.fill_uniform_f64(first, &mut doubles);
                assert_close(
                    &doubles,
                    indices
                        .clone()
                        .map(|i| random.uniform_f64(i))
                        .collect::<Vec<_>>(),
                    bound(),
                );
                random.fill_normal_f64(first, &mut doubles);
                assert_close(
                    &doubles,
                    indices
                        .clone()
                        .map(|i| random.normal(i))
                        .collect::<Vec<_>>(),
                    bound(),
                );
                random.fill_normal_f32(first, &mut singles);
                assert_close(
                    &singles,
                    indices.map(|i| random.normal(i) as f32).collect::<Vec<_>>(),
                    bound(),
                );
            }
        }
    }

    #[test]
    fn forks_with_streams_of_their_own_share_no_block() {
        let blocks: HashSet<[u32; 4]> = [0, 1, 2, 1 << 32]
            .into_iter()
            .flat_map(|id| (0..10_000).map(move |index| Philox::new(9).stream(id).block(index)))
            .collect();
        assert_eq!(blocks.len(), 40_000);
    }

    #[test]
    fn uniform_numbers_stay_below_one() {
        assert_eq!(unit_f32(u32::MAX), 1.0 - f32::EPSILON / 2.0);
        assert_eq!(unit_f64_pair([u32::MAX; 4]), [1.0 - f64::EPSILON / 2.0; 2]);
        assert_eq!(
            (unit_f32(255), unit_f64_pair([2047, 0, 0, 0])[0]),
            (0.0, 0.0)
        );
        assert!(normal_pair([u32::MAX; 4])[0] < 8.58);
    }

    /// Compares moments of 2^18 draws with their expectations; the tolerance is five standard
    /// errors.
    #[test]
    fn moments_are_those_of_the_distributions() {
        let n = 1 << 18;
        let mut draws = vec![0.0; n];
        let mean = |f: &dyn Fn(f64) -> f64, draws: &[f64]| {
            draws.iter().map(|&x| f(x)).sum::<f64>() / n as f64
        };
        let within =
            |variance: f64| Tolerance::exact().or_absolute(5.0 * (variance / n as f64).sqrt());
        let random = Philox::new(2024);
        random.fill_normal_f64(0, &mut draws);
        let moments = [1, 2, 3, 4].map(|k| mean(&|x| x.powi(k), &draws));
        // Moment k has variance E[x^2k] - E[x^k]^2, which is 1, 2, 15 and 96.
        for (moment, (expected, variance)) in
            moments
                .into_iter()
                .zip([(0.0, 1.0), (1.0, 2.0), (0.0, 15.0), (3.0, 96.0)])
        {
            assert_close([moment], [expected], within(variance));
        }
        random.stream(1).fill_uniform_f64(0, &mut draws);
        assert_close([mean(&|x| x, &draws)], [0.5], within(1.0 / 12.0));
        assert_close([mean(&|x| x * x, &draws)], [1.0 / 3.0], within(4.0 / 45.0));
        let both = draws
            .windows(2)
            .map(|pair| (pair[0] - 0.5) * (pair[1] - 0.5))
            .sum::<f64>()
            / n as f64;
        assert_close([both], [0.0], within(1.0 / 144.0));
    }
}
