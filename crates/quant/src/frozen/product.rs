//! The sums of products of a frozen layer: counts of different bits, products of bytes, or products
//! of integers.
//!
//! Method: for a bit `b` in 0 and 1 and a sign `s`, both stored as bits, `Σ b s` is the number of
//! ones among the signs less the number of ones in `b ^ s`; for two signs it is their number less
//! twice the ones. So one bit operation serves both alphabets, and the constants join the offsets.
//! Zero words outside of the image count as bits 0; the constants take their signs into account.

use tensor_core::{DType, Tensor};

use crate::level_set::Alphabet;
use crate::network::Layer;
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
        /// The factors; planes are bits 0 and 1.
        input: InputNumbers,
        /// `[row][col][plane][channel of the group][output]`.
        numbers: Vec<i32>,
    },
}

/// Returns the words of weights. `number(weight, plane)` returns what a weight in
/// `[output][row][col][channel of the group]` has in a plane: a bit, which is 1 for the sign +1, or
/// the bits of a byte.
pub(crate) fn weight_words(
    layer: &Layer,
    layout: PlaneLayout,
    n_weight_planes: usize,
    number: impl Fn(usize, usize) -> u8,
) -> Vec<u32> {
    let (group_len, group_words) = (layout.group_len(), layout.group_words());
    let n_taps = layer.window.n_taps();
    let mut words = vec![0; layer.n_outputs * n_weight_planes * n_taps * group_words];
    for weight in 0..layer.n_outputs * n_taps * group_len {
        let (tap, channel) = (weight / group_len, weight % group_len);
        let (output, tap) = (tap / n_taps, tap % n_taps);
        // The channel of a group is placed as in the first group.
        let (word, bit) = layout.place(channel);
        for plane in 0..n_weight_planes {
            let word = (plane * n_taps + tap) * group_words + word;
            words[word * layer.n_outputs + output] |= u32::from(number(weight, plane)) << bit;
        }
    }
    words
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
                let [x, w] = pairs_of_words(layer, input, batch, *layout, words);
                let ones = (x ^ w).count_ones().sum([-1, -2, -3]).cast(DType::I32);
                // Two signs differ by 2.
                let per_one = match alphabet {
                    Alphabet::Signs => -2,
                    Alphabet::Bits => -1,
                };
                let shape = [planes, signs, groups, outputs];
                let coefficients = Tensor::from_vec(&shape, coefficients.clone()) * per_one;
                let sums = ones * coefficients;
                if planes * signs == 1 {
                    sums.reshape(&[batch, rows, cols, groups, outputs])
                } else {
                    sums.sum([3, 4])
                }
            }
            Self::Bytes { layout, words } => {
                let [x, w] = pairs_of_words(layer, input, batch, *layout, words);
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
        let (n_taps, group_words) = (layer.window.n_taps(), layout.group_words());
        // The number of positive signs of an output in one tap.
        let ones = |output: usize, plane: usize, tap: usize| -> i64 {
            let first = (plane * n_taps + tap) * group_words;
            let words = (first..first + group_words).map(|word| words[word * n_outputs + output]);
            words.map(|word| i64::from(word.count_ones())).sum()
        };
        let mut constants = layer.offsets.clone();
        let classes = constants.chunks_mut(n_outputs).zip(layer.border.classes());
        for (constants, is_inside) in classes {
            for (output, constant) in constants.iter_mut().enumerate() {
                for plane in 0..*n_weight_planes {
                    // What the counts of different bits have to be subtracted from. Outside, the
                    // words of the input are 0, so the bits that differ are the positive signs, and
                    // the difference has to be 0.
                    let taps = is_inside.iter().enumerate();
                    let start: i64 = taps
                        .map(|(tap, &is_inside)| match alphabet {
                            Alphabet::Bits => ones(output, plane, tap),
                            Alphabet::Signs if is_inside => layout.group_len() as i64,
                            Alphabet::Signs => 2 * ones(output, plane, tap),
                        })
                        .sum();
                    for input_plane in 0..layout.n_planes() {
                        let pair = input_plane * n_weight_planes + plane;
                        let coefficient = i64::from(coefficients[pair * n_outputs + output]);
                        *constant = constant.wrapping_add(wrapped(coefficient * start));
                    }
                }
            }
        }
        constants
    }
}

/// Returns the words of the input and of the weights that meet in a product, with the axes
/// `[batch, rows, cols, plane, plane of the weights, group, output, tap, tap, word]`.
fn pairs_of_words(
    layer: &FrozenLayer,
    input: &Tensor,
    batch: usize,
    layout: PlaneLayout,
    words: &[u32],
) -> [Tensor; 2] {
    let [rows, cols] = layer.sums_size;
    let [taps_y, taps_x] = layer.window.size;
    let (groups, group_words) = (layer.n_groups, layout.group_words());
    let per_plane = taps_y * taps_x * group_words * layer.n_outputs;
    let shape = [
        batch,
        rows,
        cols,
        layout.n_planes(),
        1,
        groups,
        1,
        taps_y,
        taps_x,
        group_words,
    ];
    let x = layer.window.views(input, 0);
    let x = x.permute(&[0, 1, 2, 3, 4, 6, 7, 5]).reshape(&shape);
    let shape = [
        words.len() / per_plane,
        taps_y,
        taps_x,
        group_words,
        groups,
        layer.n_outputs / groups,
    ];
    let w = Tensor::from_vec(&shape, words.to_vec()).permute(&[0, 4, 5, 1, 2, 3]);
    [x, w]
}

/// Returns the bytes of a word.
fn signed_bytes(word: u32) -> [i8; 4] {
    word.to_le_bytes().map(u8::cast_signed)
}

/// Returns a number modulo 2^32.
#[allow(
    clippy::cast_possible_truncation,
    reason = "sums of products are computed modulo 2^32, and the complete sum is in range"
)]
fn wrapped(x: i64) -> i32 {
    x as i32
}
