//! Twin of `byte_conv_codes`.

use super::index;
use super::packed_codes::Codes;
use super::packed_conv::{Conv, PackedConvInputs, byte_product};
use crate::params::PackedConvParams;

/// Computes a convolution of packed signed bytes, pools the sums of each window and packs their
/// codes, one byte each.
///
/// Shapes: `thresholds` and `toggles` as for [`bit_conv_codes`](super::bit_conv_codes); `y`
/// `[batch, pooled rows, pooled columns, out_groups, words of a group]`.
///
/// # Panics
/// If a slice is shorter than its shape, or if a number of groups is 0 or exceeds `out_channels`.
pub fn byte_conv_codes(
    params: &PackedConvParams,
    inputs: &PackedConvInputs<'_>,
    thresholds: &[i32],
    toggles: &[u32],
    y: &mut [u32],
) {
    let [n_channels, out_groups, group_words] =
        [params.out_channels, params.out_groups, params.out_words()].map(|count| count as usize);
    let group_channels = n_channels / out_groups;
    let pixel_words = out_groups * group_words;
    let codes = Codes {
        conv: Conv {
            params,
            inputs,
            product: byte_product,
        },
        thresholds,
        toggles,
    };
    y[..index(params.n_pixels()) * pixel_words].fill(0);
    codes.for_each(|pixel, channel, code| {
        let [group, byte] = [channel / group_channels, channel % group_channels];
        let word = pixel * pixel_words + group * group_words + byte / 4;
        y[word] |= (code & 0xff) << (8 * (byte % 4));
    });
}
