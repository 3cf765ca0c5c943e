//! Sizes that follow from the parameters of the kernels `bit_conv_…` and `byte_conv_…`.

use super::{PackedConvParams, product};

impl PackedConvParams {
    /// Number of output pixels of an invocation.
    pub const PIXELS: u64 = 8;
    /// Number of channels that a workgroup computes.
    const BLOCK_CHANNELS: u32 = 32;

    /// Returns the number of words of the channels of one output group.
    #[must_use]
    pub fn out_words(&self) -> u32 {
        self.group_channels().div_ceil(self.word_channels.max(1))
    }

    /// Returns the number of channels of one output group; 0 without groups.
    fn group_channels(&self) -> u32 {
        self.out_channels.checked_div(self.out_groups).unwrap_or(0)
    }

    /// Returns the number of output pixels: of the convolution for kernels of sums, and of the
    /// pooled convolution for kernels of codes.
    #[must_use]
    pub fn n_pixels(&self) -> u64 {
        let has_codes = self.thresholds > 0;
        let [rows, cols] = if has_codes {
            self.pooled_size
        } else {
            self.out_size
        };
        product(&[self.batch, rows, cols])
    }

    /// Returns the number of invocations of a pixel: one per channel, and for codes whole blocks of
    /// the channels of a group.
    pub(super) fn lanes(&self) -> u64 {
        if self.thresholds > 0 {
            let n_blocks = self.group_channels().div_ceil(Self::BLOCK_CHANNELS);
            product(&[self.out_groups, n_blocks, Self::BLOCK_CHANNELS])
        } else {
            self.out_channels.into()
        }
    }

    /// Returns the number of iterations of all loops of an invocation together, with one more for
    /// each execution of a loop ([`Params::loop_iterations`](super::Params::loop_iterations)).
    pub(super) fn n_iterations(&self) -> u64 {
        let has_codes = self.thresholds > 0;
        let [rows, cols] = if has_codes { self.pool } else { [1, 1] };
        let taps = product(&self.kernel);
        // Each pair of planes: its own pass, the taps and the end of their loop, and for each tap
        // the words and the end of their loop.
        let pair = taps
            .saturating_mul(2 + u64::from(self.words))
            .saturating_add(2);
        let pairs = product(&[self.planes, self.weight_planes]).saturating_mul(pair);
        // Each place of a window: its own pass, and the end of the loop over pairs.
        let sums = product(&[rows, cols])
            .saturating_mul(pairs.saturating_add(2))
            .saturating_add(1);
        // At most one word of each plane of the codes, each with a loop over the lanes.
        let codes = product(&[self.code_planes, 2 + u32::BITS]).saturating_add(1);
        let thresholds = 2 * (u64::from(self.thresholds) + 1);
        sums.saturating_add(thresholds).saturating_add(codes)
    }
}
