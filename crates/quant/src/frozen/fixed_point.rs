//! Sums of products as integers.
//!
//! Method: for each output channel, the products of bases are multiplied with a power of two and
//! rounded. The power is the largest for which no sum can leave i32:
//!
//! ```text
//! 2 |offset| + Σ |coefficient| · (largest count)  +  half a unit per rounding  <  2^31
//! ```
//! The offset is the contribution of the offsets of the levels and of the padding. It depends on
//! the taps that are inside of the image.
//! Bytes: levels are rounded before they are multiplied ([`LevelSet::to_bytes`]), so sums of
//! products are exact multiples of the product of the units; only the padding is rounded.

use crate::border::Border;
use crate::conv::weight_words;
use crate::error::{Error, Result};
use crate::level_set::{self, Alphabet, LevelSet, MAX_BITS};
use crate::network::{InputImage, Layer, Weights};
use crate::planes::{Packing, PlaneLayout};
use crate::quantizer::Quantizer;

use super::BitInput;
use super::product::{InputNumbers, Product};

/// The numbers that the codes of a layer's input stand for: `offset + Σ_p basis[p] b_p` with the
/// planes `b_p`, per channel. The codes of an image and bytes are one plane.
pub(super) struct Levels {
    /// `[channel][plane]`.
    basis: Vec<Vec<f64>>,
    offset: Vec<f64>,
    numbers: InputNumbers,
}

impl Levels {
    pub(super) fn of_input(input: &InputImage) -> Self {
        Self {
            basis: input.scale.iter().map(|&u| vec![f64::from(u)]).collect(),
            offset: input
                .offset
                .iter()
                .map(|&number| f64::from(number))
                .collect(),
            numbers: InputNumbers::Image,
        }
    }

    pub(super) fn of_activation(levels: &LevelSet, n_channels: usize, packing: Packing) -> Self {
        let (basis, offset, numbers) = match packing {
            Packing::Bits => (
                levels.basis().iter().map(|&u| f64::from(u)).collect(),
                f64::from(levels.offset()),
                InputNumbers::Planes(levels.alphabet()),
            ),
            Packing::Bytes => (vec![levels.to_bytes().0], 0.0, InputNumbers::Bytes),
        };
        Self {
            basis: vec![basis; n_channels],
            offset: vec![offset; n_channels],
            numbers,
        }
    }

    /// Returns the levels with sums of bits 0 and 1 instead of signs: `±u = -u + 2u b`.
    fn without_signs(&self) -> Self {
        let is_signs = self.numbers == InputNumbers::Planes(Alphabet::Signs);
        let factor = if is_signs { 2.0 } else { 1.0 };
        let bases = self.basis.iter();
        let basis: Vec<Vec<f64>> = bases
            .map(|basis| basis.iter().map(|u| factor * u).collect())
            .collect();
        let lowest = self.basis.iter().zip(&self.offset).map(|(basis, offset)| {
            let sum: f64 = basis.iter().sum();
            if is_signs { offset - sum } else { *offset }
        });
        Self {
            offset: lowest.collect(),
            basis,
            numbers: match self.numbers {
                InputNumbers::Planes(_) => InputNumbers::Planes(Alphabet::Bits),
                other => other,
            },
        }
    }
}

/// The smallest and the largest exponent: a unit is a normal f32.
pub(super) const EXPONENTS: [i32; 2] = [-127, 126];

/// A layer's products as integers.
pub(super) struct Fixed {
    pub(super) product: Product,
    /// `[class of the border][output]`.
    pub(super) offsets: Vec<i32>,
    /// The unit of the sums of each channel.
    pub(super) units: Vec<f32>,
    /// The units are `2^-exponents[o]`; empty for bytes.
    pub(super) exponents: Vec<i32>,
    /// A bound on the absolute value of the sums of each channel.
    pub(super) bounds: Vec<i32>,
}

/// The weights of one output channel as sums of signs: `offset + Σ_q basis[q] s_q`.
struct Signs {
    basis: Vec<f64>,
    offset: f64,
}

impl Signs {
    /// Returns the weight of a code, whose bit `q` is 1 for the sign +1.
    fn weight(&self, code: u8) -> f64 {
        let signed = self.basis.iter().enumerate();
        let signed = signed.map(|(q, v)| if code >> q & 1 == 1 { *v } else { -v });
        self.offset + signed.sum::<f64>()
    }
}

/// Rounds the products of a layer. Bytes are multiplied with bytes in all layers but the last,
/// whose sums are in units of powers of two.
pub(super) fn fix(
    layer: &Layer,
    image: [usize; 3],
    levels: &Levels,
    border: &Border,
    is_last: bool,
) -> Result<Fixed> {
    match (&layer.weights, levels.numbers) {
        (Weights::Levels { quantizer, codes }, InputNumbers::Planes(alphabet)) => {
            let layout = PlaneLayout::new(image[2], layer.n_groups, levels.basis[0].len())?;
            let sets = quantizer.levels();
            let channels = signs_of(sets, layer.n_outputs)?;
            fix_bits(layer, levels, border, (alphabet, layout), &channels, codes)
        }
        (Weights::Levels { quantizer, codes }, InputNumbers::Bytes) if !is_last => {
            let layout = PlaneLayout::bytes(image[2], layer.n_groups)?;
            let weights = ByteWeights::new(quantizer, codes, layer.n_outputs);
            fix_bytes(layer, levels, border, layout, &weights)
        }
        _ => fix_numbers(layer, image, &levels.without_signs(), border),
    }
}

/// Returns the weights of each output channel as sums of signs, all with the same number of bits.
fn signs_of(sets: &[LevelSet], n_outputs: usize) -> Result<Vec<Signs>> {
    let kind = |set: &LevelSet| (set.basis().len(), set.alphabet());
    if let Some(channel) = sets.iter().position(|set| kind(set) != kind(&sets[0])) {
        return Err(Error::MixedChannels {
            operation: "Network::freeze",
            channel,
        });
    }
    let signs = (0..n_outputs).map(|output| {
        let set = &sets[output.min(sets.len() - 1)];
        let basis = set.basis().iter().map(|&v| f64::from(v));
        match set.alphabet() {
            Alphabet::Signs => Signs {
                basis: basis.collect(),
                offset: f64::from(set.offset()),
            },
            // A bit 0 or 1 is (1 + sign) / 2.
            Alphabet::Bits => Signs {
                basis: basis.clone().map(|v| v / 2.0).collect(),
                offset: f64::from(set.offset()) + basis.map(|v| v / 2.0).sum::<f64>(),
            },
        }
    });
    Ok(signs.collect())
}

fn fix_bits(
    layer: &Layer,
    levels: &Levels,
    border: &Border,
    input: BitInput,
    channels: &[Signs],
    codes: &[u8],
) -> Result<Fixed> {
    let (_, layout) = input;
    let n_planes = layout.n_planes();
    // The offsets of the weights are one more plane, all of whose signs are +1.
    let has_offset = channels.iter().any(|signs| signs.offset != 0.0);
    let n_signs = channels[0].basis.len();
    let n_weight_planes = n_signs + usize::from(has_offset);
    let per_output = codes.len() / layer.n_outputs;
    let mut fixed = Rounded::new(layer, border);
    let mut coefficients = vec![0; n_planes * n_weight_planes * layer.n_outputs];
    for (output, signs) in channels.iter().enumerate() {
        let with_offset = signs
            .basis
            .iter()
            .chain(has_offset.then_some(&signs.offset));
        let weight_basis: Vec<f64> = with_offset.copied().collect();
        let activation_basis = &levels.basis[0];
        let products: Vec<f64> = activation_basis
            .iter()
            .flat_map(|u| weight_basis.iter().map(move |v| u * v))
            .collect();
        // The exact weights are used, because the rounding of a weight to f32 may be many units.
        let codes = &codes[output * per_output..][..per_output];
        let weights: Vec<f64> = codes.iter().map(|&code| signs.weight(code)).collect();
        let offsets = offsets(layer, levels, border, &weights, output);
        let counts = Counts {
            largest: per_output as f64,
            n_products: per_output,
        };
        let rounded = fixed.add(output, &products, counts, &offsets)?;
        for (pair, coefficient) in rounded.into_iter().enumerate() {
            coefficients[pair * layer.n_outputs + output] = coefficient;
        }
    }
    let bit = |weight: usize, plane: usize| {
        if plane < n_signs {
            codes[weight] >> plane & 1
        } else {
            1
        }
    };
    let n_taps = layer.window.n_taps();
    let words = weight_words(layout, n_taps, layer.n_outputs, n_weight_planes, bit);
    Ok(fixed.with(Product::bits(input, n_weight_planes, words, coefficients)))
}

/// Weights as signed bytes.
struct ByteWeights {
    /// The unit of each output.
    units: Vec<f64>,
    bytes: Vec<i8>,
}

impl ByteWeights {
    fn new(quantizer: &Quantizer, codes: &[u8], n_outputs: usize) -> Self {
        let sets = quantizer.levels();
        let of_set = |set: &LevelSet| {
            let (unit, bytes) = set.to_bytes();
            let mut of_code = [0; 1 << MAX_BITS];
            for (&code, byte) in set.codes().iter().zip(bytes) {
                of_code[usize::from(code)] = byte;
            }
            (unit, of_code)
        };
        let sets: Vec<_> = sets.iter().map(of_set).collect();
        let of_output = |output: usize| &sets[output.min(sets.len() - 1)];
        let per_output = codes.len() / n_outputs;
        let codes = codes.iter().enumerate();
        Self {
            units: (0..n_outputs).map(|output| of_output(output).0).collect(),
            bytes: codes
                .map(|(weight, &code)| of_output(weight / per_output).1[usize::from(code)])
                .collect(),
        }
    }
}

fn fix_bytes(
    layer: &Layer,
    levels: &Levels,
    border: &Border,
    layout: PlaneLayout,
    weights: &ByteWeights,
) -> Result<Fixed> {
    let n_outputs = layer.n_outputs;
    let input_unit = levels.basis[0][0];
    let per_output = weights.bytes.len() / n_outputs;
    let number = |weight: usize, _: usize| weights.bytes[weight].cast_unsigned();
    let mut fixed = Fixed {
        product: Product::Bytes {
            layout,
            words: weight_words(layout, layer.window.n_taps(), layer.n_outputs, 1, number),
        },
        offsets: vec![0; border.n_classes() * n_outputs],
        units: Vec::with_capacity(n_outputs),
        exponents: vec![],
        bounds: Vec::with_capacity(n_outputs),
    };
    let products = fixed.product.bounds(per_output, n_outputs);
    for (output, product) in products.into_iter().enumerate() {
        let bytes = &weights.bytes[output * per_output..][..per_output];
        let bytes: Vec<f64> = bytes.iter().map(|&byte| f64::from(byte)).collect();
        // Levels have no offset, so these are the contributions of the padding.
        let offsets = offsets(layer, levels, border, &bytes, output);
        let offsets: Vec<f64> = offsets.iter().map(|x| (x / input_unit).round()).collect();
        let offset = offsets.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
        let bound = product as f64 + offset;
        let unit = input_unit * weights.units[output];
        // No sum leaves i32, and no value leaves f32.
        let is_valid = bound <= f64::from(i32::MAX) && bound * unit <= f64::from(f32::MAX);
        if !is_valid {
            return Err(Error::SumOverflow {
                operation: "Network::freeze",
                channel: output,
                n_products: per_output,
                bits: bound.max(bound * unit).log2(),
            });
        }
        for (class, offset) in offsets.into_iter().enumerate() {
            fixed.offsets[class * n_outputs + output] = rounded_to_i32(offset);
        }
        fixed.units.push(level_set::rounded(unit));
        fixed.bounds.push(rounded_to_i32(bound));
    }
    Ok(fixed)
}

fn fix_numbers(
    layer: &Layer,
    image: [usize; 3],
    levels: &Levels,
    border: &Border,
) -> Result<Fixed> {
    let n_planes = levels.basis[0].len();
    let values = layer.weights.values()?;
    let values: Vec<f64> = values.iter().map(|&weight| f64::from(weight)).collect();
    let per_output = values.len() / layer.n_outputs;
    let group_len = image[2] / layer.n_groups;
    let outputs_per_group = layer.n_outputs / layer.n_groups;
    let mut fixed = Rounded::new(layer, border);
    let mut numbers = vec![0; values.len() * n_planes];
    for output in 0..layer.n_outputs {
        let group = output / outputs_per_group;
        let weights = &values[output * per_output..][..per_output];
        // In the order [tap][plane][channel of the group].
        let products: Vec<f64> = weights
            .chunks(group_len)
            .flat_map(|taps| {
                (0..n_planes).flat_map(move |plane| {
                    taps.iter().enumerate().map(move |(channel, &weight)| {
                        levels.basis[group * group_len + channel][plane] * weight
                    })
                })
            })
            .collect();
        let offsets = offsets(layer, levels, border, weights, output);
        let counts = Counts {
            largest: levels.numbers.largest().into(),
            n_products: per_output,
        };
        let rounded = fixed.add(output, &products, counts, &offsets)?;
        for (place, number) in rounded.into_iter().enumerate() {
            numbers[place * layer.n_outputs + output] = number;
        }
    }
    Ok(fixed.with(Product::Numbers {
        n_planes,
        input: levels.numbers,
        numbers,
    }))
}

/// Returns for each class of the border the contribution to the sum of the offsets of the levels
/// inside of the image, and of the padding outside.
fn offsets(
    layer: &Layer,
    levels: &Levels,
    border: &Border,
    weights: &[f64],
    output: usize,
) -> Vec<f64> {
    let group_len = weights.len() / layer.window.n_taps();
    let first = output / (layer.n_outputs / layer.n_groups) * group_len;
    let contribution = |is_inside: bool, tap: usize| -> f64 {
        let weights = weights[tap * group_len..][..group_len].iter();
        let terms = weights.enumerate().map(|(channel, &weight)| {
            let value = if is_inside {
                levels.offset[first + channel]
            } else {
                f64::from(layer.padding_value)
            };
            weight * value
        });
        terms.sum()
    };
    border
        .classes()
        .map(|taps| {
            let taps = taps.iter().enumerate();
            taps.map(|(tap, &is_inside)| contribution(is_inside, tap))
                .sum()
        })
        .collect()
}

/// The numbers with which the products of a channel are multiplied.
#[derive(Clone, Copy)]
struct Counts {
    /// The largest of the numbers.
    largest: f64,
    /// The number of weights in a sum, for errors.
    n_products: usize,
}

/// The rounded numbers of the channels so far.
struct Rounded {
    n_outputs: usize,
    offsets: Vec<i32>,
    exponents: Vec<i32>,
    bounds: Vec<i32>,
}

impl Rounded {
    fn new(layer: &Layer, border: &Border) -> Self {
        Self {
            n_outputs: layer.n_outputs,
            offsets: vec![0; border.n_classes() * layer.n_outputs],
            exponents: Vec::with_capacity(layer.n_outputs),
            bounds: Vec::with_capacity(layer.n_outputs),
        }
    }

    /// Rounds the products and the offsets of the next channel, and returns the rounded products.
    fn add(
        &mut self,
        channel: usize,
        products: &[f64],
        counts: Counts,
        offsets: &[f64],
    ) -> Result<Vec<i32>> {
        let Counts {
            largest,
            n_products,
        } = counts;
        let offset = offsets.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
        let counted: f64 = products.iter().map(|product| product.abs() * largest).sum();
        let total = 2.0 * offset + counted;
        // Half a unit for each rounding, and one for the rounding of `total` itself.
        let slack = 0.5 * products.len() as f64 * largest + 2.0;
        let limit = f64::from(i32::MAX) - slack;
        let overflow = |bits| Error::SumOverflow {
            operation: "Network::freeze",
            channel,
            n_products,
            bits,
        };
        // At least half of the range is for the numbers themselves.
        if limit < f64::from(i32::MAX) / 2.0 {
            return Err(overflow(slack.log2() + 1.0));
        }
        let [least, most] = EXPONENTS;
        let mut exponent = if total > 0.0 {
            exponent_below(limit / total).min(most)
        } else {
            0
        };
        while scaled(total, exponent) > limit {
            exponent -= 1;
        }
        if exponent < least {
            return Err(overflow(total.log2()));
        }
        self.exponents.push(exponent);
        for (class, &offset) in offsets.iter().enumerate() {
            self.offsets[class * self.n_outputs + channel] =
                rounded_to_i32(scaled(offset, exponent));
        }
        self.bounds
            .push(rounded_to_i32(scaled(total, exponent) + slack));
        Ok(products
            .iter()
            .map(|&product| rounded_to_i32(scaled(product, exponent)))
            .collect())
    }

    fn with(self, product: Product) -> Fixed {
        Fixed {
            product,
            offsets: self.offsets,
            units: self.exponents.iter().map(|&n| unit(n)).collect(),
            exponents: self.exponents,
            bounds: self.bounds,
        }
    }
}

/// Returns an exponent whose power of two is at most `x`, or one more because of rounding.
#[allow(
    clippy::cast_possible_truncation,
    reason = "a logarithm of an f64 is below 1100"
)]
fn exponent_below(x: f64) -> i32 {
    x.log2().floor() as i32
}

/// Returns `x · 2^exponent`, which is exact in the range of the caller.
fn scaled(x: f64, exponent: i32) -> f64 {
    x * 2.0_f64.powi(exponent)
}

/// Returns `2^-exponent`, which is a normal f32 for the exponents of a layer.
pub(super) fn unit(exponent: i32) -> f32 {
    2.0_f32.powi(-exponent)
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "the caller has checked that the number is in the range of i32"
)]
fn rounded_to_i32(x: f64) -> i32 {
    x.round() as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::Window;

    #[test]
    fn offsets_are_computed_from_weights_that_are_not_rounded() {
        // In f32, 1 + 3e-8 is 1 and 1 - 3e-8 is 1 - 2^-24, which are 31 units away.
        let signs = LevelSet::signs(&[1.0, 3e-8]);
        let bits = LevelSet::bits(&[2.0, 6e-8]).and_then(|set| set.with_offset(-1.0));
        for set in [signs.unwrap(), bits.unwrap()] {
            let basis: Vec<f64> = set.basis().iter().map(|&v| f64::from(v)).collect();
            for code in 0..4 {
                let terms = basis.iter().enumerate();
                let terms = terms.map(|(q, v)| set.alphabet().factor_of(code, q) * v);
                let weight = f64::from(set.offset()) + terms.sum::<f64>();
                let weights = Weights::Levels {
                    quantizer: Quantizer::new(vec![set.clone()]).unwrap(),
                    codes: vec![code],
                };
                let layer = Layer::new("sum", 1, Window::new([1, 1]), weights);
                let input = LevelSet::bits(&[1.0]).unwrap().with_offset(1000.0).unwrap();
                let levels = Levels::of_activation(&input, 1, Packing::Bits);
                let border = Border::new(&layer.window, [1, 1], [1, 1]);
                let fixed = fix(&layer, [1, 1, 1], &levels, &border, false).unwrap();
                // The input bit is 0, so the sum is the offset, which is rounded once.
                let exact = 1000.0 * weight / f64::from(fixed.units[0]);
                let error = (f64::from(fixed.offsets[0]) - exact).abs();
                assert!(error <= 0.5, "{set:?}, code {code}: {error} units");
            }
        }
    }

    #[test]
    fn rounding_may_take_half_of_the_range_of_a_sum() {
        let add = |largest: f64| {
            let mut rounded = Rounded {
                n_outputs: 1,
                offsets: vec![],
                exponents: vec![],
                bounds: vec![],
            };
            let counts = Counts {
                largest,
                n_products: 9,
            };
            rounded.add(0, &[1.0], counts, &[])
        };
        // Half a unit for each of so many counts, and two more, are half of `i32::MAX`.
        let most = f64::from(i32::MAX) - 4.0;
        assert!(add(most).is_ok());
        let error = add(most + 1.0).unwrap_err();
        assert!(
            matches!(error, Error::SumOverflow { n_products: 9, .. }),
            "{error}"
        );
    }
}
