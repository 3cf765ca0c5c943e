//! Twin of `bit_conv_sums`.

use super::bit_conv::{BitConvInputs, sum};
use crate::params::BitConvParams;

/// Computes the sums of a convolution of packed bits.
///
/// Shapes: `y` `[batch, out rows, out columns, out_channels]`.
///
/// # Panics
/// If a slice is shorter than its shape.
pub fn bit_conv_sums(params: &BitConvParams, inputs: &BitConvInputs<'_>, y: &mut [i32]) {
    let [rows, cols] = params.out_size.map(|count| count as usize);
    let n_channels = params.out_channels as usize;
    let n_sums = params.batch as usize * rows * cols * n_channels;
    for (place, y) in y[..n_sums].iter_mut().enumerate() {
        let pixel = place / n_channels;
        let at = [pixel / cols % rows, pixel % cols];
        *y = sum(params, inputs, pixel / cols / rows, at, place % n_channels);
    }
}
