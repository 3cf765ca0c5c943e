//! The sums of products of a frozen layer: counts of different bits, products of bytes, or products
//! of integers.
//!
//! Method: sums of signs times bits, and of signs times signs, follow from counts of different bits
//! (`conv`). So one bit operation serves both alphabets, and the constants are added to the
//! offsets.

use tensor_core::{DType, Tensor};

use crate::conv::{Outside, WeightWords, wrapped};
use crate::level_set::Alphabet;
use crate::planes::{self, PlaneLayout};

use super::{BitInput, FrozenLayer};

/// The numbers in the input of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InputNumbers {
    /// The codes of an 8-bit image.
    Image,
    /// Planes of bits with the factors of an alphabet.
    Planes(Alphabet),
    /// Signed bytes.
    Bytes,
}

impl InputNumbers {
    /// Returns the largest absolute value.
    pub(crate) fn largest(self) -> u8 {
        match self {
            Self::Image => u8::MAX,
            Self::Planes(_) => 1,
            Self::Bytes => i8::MAX.unsigned_abs(),
        }
    }
}

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
    /// `Σ w x` with signed bytes.
    Bytes {
        layout: PlaneLayout,
        /// `[row][col][word][output]`.
        words: Vec<u32>,
    },
    /// `Σ number · b_p`, or `Σ number · x` for the codes of an image and for bytes.
    Numbers {
        n_planes: usize,
        /// The numbers `x`, or planes of bits 0 and 1.
        input: InputNumbers,
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

    /// Returns the number of stored words and numbers.
    pub(crate) fn n_numbers(&self) -> usize {
        match self {
            Self::Bits {
                words,
                coefficients,
                ..
            } => words.len() + coefficients.len(),
            Self::Bytes { words, .. } => words.len(),
            Self::Numbers { numbers, .. } => numbers.len(),
        }
    }

    /// Returns for each output a bound on the absolute value of its sum of products, for windows of
    /// `n_products` weights.
    pub(crate) fn bounds(&self, n_products: usize, n_outputs: usize) -> Vec<u64> {
        let mut bounds = vec![0_u64; n_outputs];
        let mut add = |output: usize, number: u32, largest: u64| {
            let product = u64::from(number).saturating_mul(largest);
            bounds[output] = bounds[output].saturating_add(product);
        };
        match self {
            Self::Bits { coefficients, .. } => {
                for (place, &coefficient) in coefficients.iter().enumerate() {
                    let number = coefficient.unsigned_abs();
                    add(place % n_outputs, number, n_products as u64);
                }
            }
            Self::Bytes { words, .. } => {
                let largest = InputNumbers::Bytes.largest().into();
                for (place, &word) in words.iter().enumerate() {
                    let bytes = signed_bytes(word).map(|byte| u32::from(byte.unsigned_abs()));
                    add(place % n_outputs, bytes.iter().sum(), largest);
                }
            }
            Self::Numbers { numbers, input, .. } => {
                for (place, &number) in numbers.iter().enumerate() {
                    let largest = input.largest().into();
                    add(place % n_outputs, number.unsigned_abs(), largest);
                }
            }
        }
        bounds
    }

    /// Negates the products of some outputs.
    pub(crate) fn negate(&mut self, is_negated: &[bool]) {
        fn each<T: Copy>(numbers: &mut [T], is_negated: &[bool], negated: impl Fn(T) -> T) {
            for (place, number) in numbers.iter_mut().enumerate() {
                if is_negated[place % is_negated.len()] {
                    *number = negated(*number);
                }
            }
        }
        match self {
            Self::Bits {
                coefficients: numbers,
                ..
            }
            | Self::Numbers { numbers, .. } => each(numbers, is_negated, |number: i32| -number),
            // No weight is -128.
            Self::Bytes { words, .. } => each(words, is_negated, |word| {
                u32::from_le_bytes(word.to_le_bytes().map(u8::wrapping_neg))
            }),
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
                let weights = weight_view(layer, *layout, signs, words);
                let ones = weights.ones(input, *layout, &layer.window, layer.sums_size);
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
            Self::Bytes { layout, words } => {
                let weights = weight_view(layer, *layout, 1, words);
                let [x, w] = weights.pairs(input, *layout, &layer.window, layer.sums_size);
                let sums = x.dot4_i8(&w).sum([-1, -2, -3]).cast(DType::I32);
                sums.reshape(&[batch, rows, cols, groups, outputs])
            }
            Self::Numbers {
                n_planes,
                input: numbers_of,
                numbers,
            } => {
                let group_len = layer.image[2] / groups;
                let [height, width, _] = layer.image;
                let x = match numbers_of {
                    InputNumbers::Image => {
                        input.reshape(&[batch, height, width, *n_planes, groups, group_len])
                    }
                    InputNumbers::Planes(_) => input.unpack_bits(group_len).cast(DType::I32),
                    InputNumbers::Bytes => planes::unpack_bytes(input, group_len),
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
    /// offsets and, for bits, the numbers from which the counts of ones are subtracted.
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
        let view = weight_view(layer, *layout, *n_weight_planes, words);
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

/// Returns the words of a layer's weights with their sizes.
fn weight_view<'a>(
    layer: &FrozenLayer,
    layout: PlaneLayout,
    n_planes: usize,
    words: &'a [u32],
) -> WeightWords<'a> {
    WeightWords {
        words,
        n_planes,
        n_taps: layer.window.n_taps(),
        n_outputs: layer.n_outputs,
        group_words: layout.group_words(),
    }
}

/// Returns the bytes of a word.
fn signed_bytes(word: u32) -> [i8; 4] {
    word.to_le_bytes().map(u8::cast_signed)
}
