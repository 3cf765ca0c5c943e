//! Twin of `bit_conv_codes`.

use super::bit_conv::{BitConvInputs, sum};
use crate::params::BitConvParams;

/// Computes a convolution of packed bits, pools the sums of each window and packs their codes.
///
/// Shapes: `thresholds` `[1 + thresholds, out_channels]` (-1 for minimum pooling, 0 for maximum
/// pooling, then the thresholds); `toggles` `[1 + thresholds]`; `y`
/// `[batch, pooled rows, pooled columns, code_planes, out_groups, words of a group]`.
///
/// # Panics
/// If a slice is shorter than its shape.
pub fn bit_conv_codes(
    params: &BitConvParams,
    inputs: &BitConvInputs<'_>,
    thresholds: &[i32],
    toggles: &[u32],
    y: &mut [u32],
) {
    let [rows, cols] = params.pooled_size.map(|count| count as usize);
    let [n_channels, out_groups, code_planes, group_words] = [
        params.out_channels,
        params.out_groups,
        params.code_planes,
        params.out_words(),
    ]
    .map(|count| count as usize);
    let pixel_words = code_planes * out_groups * group_words;
    for pixel in 0..params.batch as usize * rows * cols {
        let words = &mut y[pixel * pixel_words..][..pixel_words];
        words.fill(0);
        let at = [pixel / cols % rows, pixel % cols];
        for channel in 0..n_channels {
            let pooled = pooled(params, inputs, pixel / cols / rows, at, channel, thresholds);
            let passed = (1..=params.thresholds as usize)
                .filter(|t| pooled > thresholds[t * n_channels + channel]);
            let code = passed.fold(toggles[0], |code, t| code ^ toggles[t]);
            let group_channels = n_channels / out_groups;
            let [group, bit] = [channel / group_channels, channel % group_channels];
            for plane in 0..code_planes {
                let word = (plane * out_groups + group) * group_words + bit / 32;
                words[word] |= (code >> plane & 1) << (bit % 32);
            }
        }
    }
}

/// Returns the maximum or minimum sum of a pooling window.
fn pooled(
    params: &BitConvParams,
    inputs: &BitConvInputs<'_>,
    image: usize,
    at: [usize; 2],
    channel: usize,
    thresholds: &[i32],
) -> i32 {
    let flip = thresholds[channel];
    let mut best = i32::MIN;
    let place = |axis: usize, window: u32| {
        let start = at[axis] * params.pool_stride[axis] as usize + window as usize;
        let place = start.checked_sub(params.pool_padding[axis] as usize);
        place.filter(|&place| place < params.out_size[axis] as usize)
    };
    for row in (0..params.pool[0]).filter_map(|window| place(0, window)) {
        for col in (0..params.pool[1]).filter_map(|window| place(1, window)) {
            best = best.max(sum(params, inputs, image, [row, col], channel) ^ flip);
        }
    }
    best ^ flip
}
