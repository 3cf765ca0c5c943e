//! Twin of `bit_conv_sums`.

use super::packed_conv::{Conv, PackedConvInputs, bit_product};
use crate::params::PackedConvParams;

/// Computes the sums of a convolution of packed bits.
///
/// Shapes: `y` `[batch, out rows, out columns, out_channels]`.
///
/// # Panics
/// If a slice is shorter than its shape, or if a number of groups is 0 or exceeds `out_channels`.
pub fn bit_conv_sums(params: &PackedConvParams, inputs: &PackedConvInputs<'_>, y: &mut [i32]) {
    let conv = Conv {
        params,
        inputs,
        product: bit_product,
    };
    conv.sums(y);
}
