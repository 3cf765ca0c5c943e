//! The sums of products of a frozen layer: counts of different bits, or products of integers.
//!
//! Method: for a bit `b` in 0 and 1 and a sign `s`, both stored as bits, `Σ b s` is the number of
//! ones among the signs less the number of ones in `b ^ s`; for two signs it is their number less
//! twice the ones. So one bit operation serves both alphabets, and the constants join the offsets.
//! Zero words outside of the image count as bits 0; the constants take their signs into account.

use tensor_core::{DType, Tensor};

use crate::level_set::Alphabet;
use crate::network::Layer;
use crate::planes::{PlaneLayout, WORD_BITS};

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

/// Returns the words of weights; `bit(weight, plane)` returns whether the sign of a weight in
/// `[output][row][col][channel of the group]` is +1.
pub(crate) fn sign_words(
    layer: &Layer,
    layout: PlaneLayout,
    n_weight_planes: usize,
    bit: impl Fn(usize, usize) -> bool,
) -> Vec<u32> {
    let (group_len, group_words) = (layout.group_len(), layout.group_words());
    let n_taps = layer.window.n_taps();
    let mut words = vec![0; layer.n_outputs * n_weight_planes * n_taps * group_words];
    for weight in 0..layer.n_outputs * n_taps * group_len {
        let (tap, channel) = (weight / group_len, weight % group_len);
        let (output, tap) = (tap / n_taps, tap % n_taps);
        for plane in (0..n_weight_planes).filter(|&plane| bit(weight, plane)) {
            let word = (plane * n_taps + tap) * group_words + channel / WORD_BITS;
            words[word * layer.n_outputs + output] |= 1 << (channel % WORD_BITS);
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
                let group_words = layout.group_words();
                // [batch, rows, cols, plane, sign plane, group, output, tap, tap, word]
                let x = layer
                    .window
                    .views(input, 0)
                    .permute(&[0, 1, 2, 3, 4, 6, 7, 5])
                    .reshape(&[
                        batch,
                        rows,
                        cols,
                        planes,
                        1,
                        groups,
                        1,
                        taps_y,
                        taps_x,
                        group_words,
                    ]);
                let shape = [signs, taps_y, taps_x, group_words, groups, outputs];
                let w = Tensor::from_vec(&shape, words.clone()).permute(&[0, 4, 5, 1, 2, 3]);
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

/// Returns a number modulo 2^32.
#[allow(
    clippy::cast_possible_truncation,
    reason = "sums of products are computed modulo 2^32, and the complete sum is in range"
)]
fn wrapped(x: i64) -> i32 {
    x as i32
}
