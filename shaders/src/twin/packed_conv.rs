//! Twin of `wgsl/shared/packed_conv.wgsl`: sums of a convolution of packed numbers.
//!
//! Role: the sum of one output pixel and channel. The twins `bit_conv_…` and `byte_conv_…` compute
//! it for every pixel and channel. All numbers are integers, so kernels must have the twins'
//! results bit for bit.

use crate::params::PackedConvParams;

/// Inputs of the kernels `bit_conv_…` and `byte_conv_…`.
#[derive(Clone, Copy, Debug)]
pub struct PackedConvInputs<'a> {
    /// Words of the images: `[batch, height, width, planes, groups, words]`.
    pub x: &'a [u32],
    /// Words of the weights: `[weight_planes, kernel rows, kernel columns, words, out_channels]`.
    pub weights: &'a [u32],
    /// A bias, then the coefficients of the pairs of planes, the weights' plane fastest:
    /// `[1 + planes * weight_planes, out_channels]`.
    pub channels: &'a [i32],
    /// Numbers added to the sums of a class of pixels: `[row_classes, col_classes, out_channels]`.
    pub border: &'a [i32],
    /// Classes of the rows of the convolution's output, then of its columns; empty without a
    /// border.
    pub classes: &'a [u32],
}

/// A convolution: its sizes, its inputs, and the product of a word of `x` and a word of weights.
pub(super) struct Conv<'a> {
    pub(super) params: &'a PackedConvParams,
    pub(super) inputs: &'a PackedConvInputs<'a>,
    pub(super) product: fn(u32, u32) -> i32,
}

/// Returns the number of bits in which two words differ.
pub(super) fn bit_product(x: u32, weight: u32) -> i32 {
    (x ^ weight).count_ones().cast_signed()
}

/// Returns the sum of the products of four pairs of signed bytes.
pub(super) fn byte_product(x: u32, weight: u32) -> i32 {
    let bytes = |word: u32| word.to_le_bytes().map(|byte| i32::from(byte.cast_signed()));
    let pairs = bytes(x).into_iter().zip(bytes(weight));
    pairs.map(|(x, weight)| x * weight).sum()
}

impl Conv<'_> {
    /// Computes the sums of all pixels and channels:
    /// `[batch, out rows, out columns, out_channels]`.
    ///
    /// # Panics
    /// If a slice is shorter than its shape.
    pub(super) fn sums(&self, y: &mut [i32]) {
        let [rows, cols] = self.params.out_size.map(|count| count as usize);
        let n_channels = self.params.out_channels as usize;
        let n_sums = self.params.batch as usize * rows * cols * n_channels;
        for (place, y) in y[..n_sums].iter_mut().enumerate() {
            let pixel = place / n_channels;
            let at = [pixel / cols % rows, pixel % cols];
            *y = self.sum(pixel / cols / rows, at, place % n_channels);
        }
    }

    /// Returns the sum of output pixel `at`, a row and a column, of an image, for one output
    /// channel.
    ///
    /// # Panics
    /// If a slice is shorter than its shape.
    pub(super) fn sum(&self, image: usize, at: [usize; 2], channel: usize) -> i32 {
        let Self {
            params,
            inputs,
            product,
        } = self;
        let [height, width, words, n_channels, groups, planes] = [
            params.height,
            params.width,
            params.words,
            params.out_channels,
            params.groups,
            params.planes,
        ]
        .map(|count| count as usize);
        let kernel = params.kernel.map(|count| count as usize);
        let group = channel / (n_channels / groups);
        // The input's row (axis 0) or column (axis 1) under a tap, unless it is outside of the
        // image.
        let input = |axis: usize, tap: usize, n: usize| {
            let start = at[axis] * params.stride[axis] as usize;
            let place = start + tap * params.dilation[axis] as usize;
            let place = place.checked_sub(params.padding[axis] as usize);
            place.filter(|&place| place < n)
        };
        let mut sum = inputs.channels[channel];
        if params.row_classes > 0 {
            let [row, col] = [at[0], params.out_size[0] as usize + at[1]]
                .map(|place| inputs.classes[place] as usize);
            let class = row * params.col_classes as usize + col;
            sum = sum.wrapping_add(inputs.border[class * n_channels + channel]);
        }
        for pair in 0..planes * params.weight_planes as usize {
            let plane = pair / params.weight_planes as usize;
            let weight_plane = pair % params.weight_planes as usize;
            let mut products = 0_i32;
            for tap in 0..kernel[0] * kernel[1] {
                let row = input(0, tap / kernel[1], height);
                let col = input(1, tap % kernel[1], width);
                for word in 0..words {
                    let x = match (row, col) {
                        (Some(row), Some(col)) => {
                            let pixel = (image * height + row) * width + col;
                            inputs.x[((pixel * planes + plane) * groups + group) * words + word]
                        }
                        _ => 0,
                    };
                    let place = (weight_plane * kernel[0] * kernel[1] + tap) * words + word;
                    let weight = inputs.weights[place * n_channels + channel];
                    products = products.wrapping_add(product(x, weight));
                }
            }
            let coefficient = inputs.channels[(1 + pair) * n_channels + channel];
            sum = sum.wrapping_sub(coefficient.wrapping_mul(products));
        }
        sum
    }
}
