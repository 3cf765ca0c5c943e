//! The sums of products of a frozen layer: counts of different bits, or products of integers.
//!
//! Method: for a bit `b` in 0 and 1 and a sign `s`, both stored as bits, `Σ b s` is the number of
//! ones among the signs less the number of ones in `b ^ s`; for two signs it is their number less
//! twice the ones. So one bit operation serves both alphabets, and the constants join the offsets.
//! Zero words outside of the image count as bits 0; the constants take their signs into account.

use tensor_core::{DType, Tensor};

use crate::conv::{Outside, SignWords, wrapped};
use crate::level_set::Alphabet;
use crate::planes::PlaneLayout;

use super::{BitInput, FrozenLayer};

/// The weights of a frozen layer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Product {
    /// `Σ_pq coefficient[p][q] D_pq` with the counts `D_pq = Σ b_p s_q`.
    Bits {
        alphabet: Alphabet,
        layout: PlaneLayout,
        n_weight_planes: usize,
        /// `[plane][row][col][word][output]`; the bit 1 is the sign +1.
        words: Vec<u32>,
        /// `[plane of the input][plane of the weights][output]`.
        coefficients: Vec<i32>,
    },
    /// `Σ number · b_p`, or `Σ number · code` for an 8-bit image.
    Numbers {
        n_planes: usize,
        /// Whether the input is an 8-bit image, whose codes are numbers already.
        is_image: bool,
        /// `[row][col][plane][channel of the group][output]`.
        numbers: Vec<i32>,
    },
}

impl Product {
    pub(crate) fn bits(
        (alphabet, layout): BitInput,
        n_weight_planes: usize,
        words: Vec<u32>,
        coefficients: Vec<i32>,
    ) -> Self {
        Self::Bits {
            alphabet,
            layout,
            n_weight_planes,
            words,
            coefficients,
        }
    }

    pub(crate) fn numbers(n_planes: usize, alphabet: Option<Alphabet>, numbers: Vec<i32>) -> Self {
        Self::Numbers {
            n_planes,
            is_image: alphabet.is_none(),
            numbers,
        }
    }

    /// Returns the number of stored words and numbers.
    pub(crate) fn n_numbers(&self) -> usize {
        match self {
            Self::Bits {
                words,
                coefficients,
                ..
            } => words.len() + coefficients.len(),
            Self::Numbers { numbers, .. } => numbers.len(),
        }
    }

    /// Returns for each output a bound on the absolute value of its sum of products, for windows of
    /// `n_products` weights.
    pub(crate) fn bounds(&self, n_products: usize, n_outputs: usize) -> Vec<u64> {
        let mut bounds = vec![0_u64; n_outputs];
        let mut add = |output: usize, number: i32, largest: u64| {
            let product = u64::from(number.unsigned_abs()).saturating_mul(largest);
            bounds[output] = bounds[output].saturating_add(product);
        };
        match self {
            Self::Bits { coefficients, .. } => {
                for (place, &coefficient) in coefficients.iter().enumerate() {
                    add(place % n_outputs, coefficient, n_products as u64);
                }
            }
            Self::Numbers {
                numbers, is_image, ..
            } => {
                let largest = if *is_image { u64::from(u8::MAX) } else { 1 };
                for (place, &number) in numbers.iter().enumerate() {
                    add(place % n_outputs, number, largest);
                }
            }
        }
        bounds
    }

    /// Negates the products of some outputs.
    pub(crate) fn negate(&mut self, is_negated: &[bool]) {
        let numbers = match self {
            Self::Bits { coefficients, .. } => coefficients,
            Self::Numbers { numbers, .. } => numbers,
        };
        for (place, number) in numbers.iter_mut().enumerate() {
            if is_negated[place % is_negated.len()] {
                *number = -*number;
            }
        }
    }

    /// Returns the sums without constants, i32 `[batch, rows, cols, group, output of the group]`.
    pub(crate) fn sums_of(&self, layer: &FrozenLayer, input: &Tensor, batch: usize) -> Tensor {
        let [rows, cols] = layer.sums_size;
        let [taps_y, taps_x] = layer.window.size;
        let groups = layer.n_groups;
        let outputs = layer.n_outputs / groups;
        match self {
            Self::Bits {
                alphabet,
                layout,
                n_weight_planes,
                words,
                coefficients,
            } => {
                let (planes, signs) = (layout.n_planes(), *n_weight_planes);
                let view = sign_view(layer, *layout, signs, words);
                let ones = view.ones(input, *layout, &layer.window, layer.sums_size);
                let shape = [planes, signs, groups, outputs];
                let per_one = -alphabet.factor_distance();
                let coefficients = Tensor::from_vec(&shape, coefficients.clone()) * per_one;
                let sums = ones * coefficients;
                if planes * signs == 1 {
                    sums.reshape(&[batch, rows, cols, groups, outputs])
                } else {
                    sums.sum([3, 4])
                }
            }
            Self::Numbers {
                n_planes,
                is_image,
                numbers,
            } => {
                let group_len = layer.image[2] / groups;
                let [height, width, _] = layer.image;
                let shape = [batch, height, width, *n_planes, groups, group_len];
                let x = if *is_image {
                    input.reshape(&shape)
                } else {
                    input.unpack_bits(group_len).cast(DType::I32)
                };
                // [batch, rows, cols, group, output, tap, tap, plane, channel]
                let x = layer
                    .window
                    .views(&x, 0)
                    .permute(&[0, 1, 2, 4, 6, 7, 3, 5])
                    .reshape(&[
                        batch, rows, cols, groups, 1, taps_y, taps_x, *n_planes, group_len,
                    ]);
                let shape = [taps_y, taps_x, *n_planes, group_len, groups, outputs];
                let w = Tensor::from_vec(&shape, numbers.clone()).permute(&[4, 5, 0, 1, 2, 3]);
                (x * w).sum([-1, -2, -3, -4])
            }
        }
    }

    /// Returns the numbers that are added to the sums, `[class of the border][output]`: the
    /// offsets, and the constants of counting ones.
    pub(crate) fn constants(&self, layer: &FrozenLayer) -> Vec<i32> {
        let Self::Bits {
            alphabet,
            layout,
            n_weight_planes,
            words,
            coefficients,
        } = self
        else {
            return layer.offsets.clone();
        };
        let n_outputs = layer.n_outputs;
        let view = sign_view(layer, *layout, *n_weight_planes, words);
        let starts = view.starts(
            *alphabet,
            layout.group_len(),
            &layer.border,
            Outside::Nothing,
        );
        let mut constants = layer.offsets.clone();
        let classes = constants.chunks_mut(n_outputs);
        for (constants, starts) in classes.zip(starts.chunks(n_weight_planes * n_outputs)) {
            for (place, start) in starts.iter().enumerate() {
                let (plane, output) = (place / n_outputs, place % n_outputs);
                let constant = &mut constants[output];
                for input_plane in 0..layout.n_planes() {
                    let pair = input_plane * n_weight_planes + plane;
                    let coefficient = i64::from(coefficients[pair * n_outputs + output]);
                    *constant = constant.wrapping_add(wrapped(coefficient * start));
                }
            }
        }
        constants
    }
}

/// Returns the signs of a layer with their sizes.
fn sign_view<'a>(
    layer: &FrozenLayer,
    layout: PlaneLayout,
    n_planes: usize,
    words: &'a [u32],
) -> SignWords<'a> {
    SignWords {
        words,
        n_planes,
        n_taps: layer.window.n_taps(),
        n_outputs: layer.n_outputs,
        group_words: layout.group_words(),
    }
}
