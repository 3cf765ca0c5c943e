//! Twin of `wgsl/shared/packed_codes.wgsl`: codes of the pooled sums of a convolution.

use super::packed_conv::Conv;

/// The pooling and the levels of a convolution.
pub(super) struct Codes<'a> {
    pub(super) conv: Conv<'a>,
    /// -1 for minimum pooling and 0 for maximum pooling, then the thresholds:
    /// `[1 + thresholds, out_channels]`.
    pub(super) thresholds: &'a [i32],
    /// The lowest code, then the bits that change at each threshold: `[1 + thresholds]`.
    pub(super) toggles: &'a [u32],
}

impl Codes<'_> {
    /// Calls `store` with each pooled pixel, channel and code.
    ///
    /// # Panics
    /// If a slice is shorter than its shape.
    pub(super) fn for_each(&self, mut store: impl FnMut(usize, usize, u32)) {
        let params = self.conv.params;
        let [rows, cols] = params.pooled_size.map(|count| count as usize);
        let n_channels = params.out_channels as usize;
        for pixel in 0..params.batch as usize * rows * cols {
            let at = [pixel / cols % rows, pixel % cols];
            for channel in 0..n_channels {
                let pooled = self.pooled(pixel / cols / rows, at, channel);
                let passed = (1..=params.thresholds as usize)
                    .filter(|t| pooled > self.thresholds[t * n_channels + channel]);
                let code = passed.fold(self.toggles[0], |code, t| code ^ self.toggles[t]);
                store(pixel, channel, code);
            }
        }
    }

    /// Returns the maximum or minimum sum of a pooling window.
    fn pooled(&self, image: usize, at: [usize; 2], channel: usize) -> i32 {
        let params = self.conv.params;
        let flip = self.thresholds[channel];
        let mut best = i32::MIN;
        let place = |axis: usize, window: u32| {
            let start = at[axis] * params.pool_stride[axis] as usize + window as usize;
            let place = start.checked_sub(params.pool_padding[axis] as usize);
            place.filter(|&place| place < params.out_size[axis] as usize)
        };
        for row in (0..params.pool[0]).filter_map(|window| place(0, window)) {
            for col in (0..params.pool[1]).filter_map(|window| place(1, window)) {
                best = best.max(self.conv.sum(image, [row, col], channel) ^ flip);
            }
        }
        best ^ flip
    }
}
