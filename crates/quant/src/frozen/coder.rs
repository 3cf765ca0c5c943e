//! From sums to packed codes: thresholds, max-pool, and planes or bytes.
//!
//! Method: the normalised value of a sum, `normalization(float(sum) · unit)`, is computed in f32 by
//! operations each of which is monotone, so the number of thresholds that the value passes is a
//! monotone function of the sum. Bisection finds, for each threshold of the level set, the last sum
//! whose value does not pass it. If the factor of a channel is negative, its sums are negated
//! first, so that levels ascend with the sums in every channel. If the factor is 0, all sums of the
//! channel pass a threshold, or none. Max-pool is the maximum of the sums or of the flags of passed
//! thresholds, and their minimum in negated channels. A bit of the code is the exclusive or of the
//! flags at which it changes; a byte is the lowest level plus the steps at the passed thresholds.
//!
//! ```text
//! codes     0   1   2   4   3   5   6   7      out of integer order
//! bit 0     0   1   0   0   1   1   0   1
//! passed      0   1   2   3   4   5   6        bit 0 = passed 0 ^ 1 ^ 3 ^ 5 ^ 6
//! ```

use tensor_core::{DType, Tensor};

use crate::level_set::LevelSet;
use crate::network::Normalization;
use crate::planes::{Packing, PlaneLayout};
use crate::window::Window;

use super::fixed_point::Fixed;

/// The thresholds and codes of a layer's output.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Coder {
    pub(crate) layout: PlaneLayout,
    /// Whether the sums of each channel are negated.
    pub(crate) is_flipped: Vec<bool>,
    /// A sum above `thresholds[threshold][channel]` passes.
    pub(crate) thresholds: Vec<i32>,
    /// The code of each level, one more than there are thresholds. If the layout is one of bytes, a
    /// code is the bits of a signed byte.
    pub(crate) codes: Vec<u8>,
}

impl Coder {
    pub(super) fn new(
        levels: &LevelSet,
        layout: PlaneLayout,
        normalization: &Normalization,
        fixed: &Fixed,
    ) -> Self {
        let n_channels = layout.n_channels();
        let n_thresholds = levels.thresholds().len();
        let is_flipped: Vec<bool> = normalization.factor.iter().map(|&f| f < 0.0).collect();
        let mut thresholds = vec![0; n_thresholds * n_channels];
        for channel in 0..n_channels {
            let unit = fixed.units[channel];
            let sign = if is_flipped[channel] { -1 } else { 1 };
            let n_passed = |sum: i64| {
                let value = normalization.apply(channel, (sign * sum) as f32 * unit);
                levels.index(value)
            };
            let bound = i64::from(fixed.bounds[channel]);
            for threshold in 0..n_thresholds {
                let passes = |sum: i64| n_passed(sum) > threshold;
                thresholds[threshold * n_channels + channel] = last_below(bound, passes);
            }
        }
        Self {
            layout,
            is_flipped,
            thresholds,
            codes: match layout.packing() {
                Packing::Bits => levels.codes().to_vec(),
                Packing::Bytes => {
                    let (_, bytes) = levels.to_bytes();
                    bytes.into_iter().map(i8::cast_unsigned).collect()
                }
            },
        }
    }

    /// Returns the signed bytes of the levels.
    pub(super) fn bytes(&self) -> impl Iterator<Item = i8> {
        self.codes.iter().map(|code| code.cast_signed())
    }

    /// Returns the packed codes of sums `[batch, rows, cols, channels]`, after max-pool.
    pub(crate) fn codes_of(&self, sums: &Tensor, pool: &Window) -> Tensor {
        let n_channels = self.layout.n_channels();
        let n_thresholds = self.thresholds.len() / n_channels;
        let is_pooled = !pool.is_identity();
        // The packed flags of a single threshold take a thirty-second of the memory of the sums, so
        // pooling the flags is faster. With more thresholds, pooling the sums first is faster,
        // because it leaves fewer comparisons.
        let pools_words = is_pooled && n_thresholds == 1 && self.layout.packing() == Packing::Bits;
        let sums = if is_pooled && !pools_words {
            self.pooled_sums(sums, pool)
        } else {
            sums.clone()
        };
        let thresholds = Tensor::from_vec(&[n_thresholds, n_channels], self.thresholds.clone());
        // [batch, rows, cols, threshold, channel]
        let passed = sums.expand_dims(-2).gt(&thresholds);
        match self.layout.packing() {
            Packing::Bits => {
                let words = self.layout.pack_plane(&passed);
                let words = if pools_words {
                    self.pooled_words(&words, pool)
                } else {
                    words
                };
                self.layout.planes_of_words(&words, &self.codes)
            }
            Packing::Bytes => self.bytes_of(&passed),
        }
    }

    /// Returns the max-pool of sums: their maximum, and their minimum in flipped channels.
    fn pooled_sums(&self, sums: &Tensor, pool: &Window) -> Tensor {
        let maximum = |sums: &Tensor| pool.maxima(sums, i32::MIN);
        if !self.is_flipped.contains(&true) {
            return maximum(sums);
        }
        let signs = self.is_flipped.iter().map(|&is| if is { -1 } else { 1 });
        let signs = Tensor::from_vec(&[self.is_flipped.len()], signs.collect::<Vec<i32>>());
        maximum(&(sums * &signs)) * &signs
    }

    /// Returns the max-pool of words of flags `[batch, rows, cols, …]`: the bitwise `or` of the
    /// flags, or their bitwise `and` in flipped channels.
    fn pooled_words(&self, words: &Tensor, pool: &Window) -> Tensor {
        let folded = |fill: u32, fold: fn(Tensor, Tensor) -> Tensor| {
            let folded = |views: &Tensor, n: usize| {
                let view = |at: usize| views.slice(-1, at.cast_signed()..=at.cast_signed());
                let all = (1..n).fold(view(0), |folded, at| fold(folded, view(at)));
                all.squeeze(-1)
            };
            let [rows, cols] = pool.size;
            folded(&folded(&pool.views(words, fill), cols), rows)
        };
        let any = folded(0, |a, b| a | b);
        if !self.is_flipped.contains(&true) {
            return any;
        }
        let all = folded(u32::MAX, |a, b| a & b);
        let flipped = self.layout.plane(|channel| self.is_flipped[channel]);
        (&any ^ all) & flipped ^ any
    }

    fn bytes_of(&self, passed: &Tensor) -> Tensor {
        let bytes: Vec<i32> = self.bytes().map(i32::from).collect();
        let steps: Vec<i32> = bytes.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let steps = Tensor::from_vec(&[steps.len(), 1], steps);
        let bytes = (passed.cast(DType::I32) * steps).sum(-2) + bytes[0];
        self.layout.pack_bytes(&bytes)
    }
}

/// Returns the largest number in `-bound..=bound` that does not pass; `i32::MIN` if all pass. Every
/// number above one that passes must pass, too.
fn last_below(bound: i64, passes: impl Fn(i64) -> bool) -> i32 {
    if passes(-bound) {
        return i32::MIN;
    }
    // `low` does not pass; `high` passes, or is beyond the range.
    let (mut low, mut high) = (-bound, bound + 1);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if passes(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    i32::try_from(low).unwrap_or(i32::MAX)
}
