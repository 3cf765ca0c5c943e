//! Twin of `bit_conv_codes`.

use super::index;
use super::packed_codes::Codes;
use super::packed_conv::{Conv, PackedConvInputs, bit_product};
use crate::params::PackedConvParams;

/// Computes a convolution of packed bits, pools the sums of each window and packs their codes.
///
/// Shapes: `thresholds` `[1 + thresholds, out_channels]` (-1 for minimum pooling, 0 for maximum
/// pooling, then the thresholds); `toggles` `[1 + thresholds]`; `y`
/// `[batch, pooled rows, pooled columns, code_planes, out_groups, words of a group]`.
///
/// # Panics
/// If a slice is shorter than its shape, or if a number of groups is 0 or exceeds `out_channels`.
pub fn bit_conv_codes(
    params: &PackedConvParams,
    inputs: &PackedConvInputs<'_>,
    thresholds: &[i32],
    toggles: &[u32],
    y: &mut [u32],
) {
    let [n_channels, out_groups, code_planes, group_words] = [
        params.out_channels,
        params.out_groups,
        params.code_planes,
        params.out_words(),
    ]
    .map(|count| count as usize);
    let group_channels = n_channels / out_groups;
    let pixel_words = code_planes * out_groups * group_words;
    let codes = Codes {
        conv: Conv {
            params,
            inputs,
            product: bit_product,
        },
        thresholds,
        toggles,
    };
    y[..index(params.n_pixels()) * pixel_words].fill(0);
    codes.for_each(|pixel, channel, code| {
        let [group, bit] = [channel / group_channels, channel % group_channels];
        for plane in 0..code_planes {
            let word = (plane * out_groups + group) * group_words + bit / 32;
            y[pixel * pixel_words + word] |= (code >> plane & 1) << (bit % 32);
        }
    });
}
