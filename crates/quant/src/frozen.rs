//! Networks of integers: the same codes and sums on every executor.
//!
//! Role: the form in which a quantised network is stored and runs. [`Network::freeze`] creates it.
//! Method: an activation is `offset + Σ_p u_p b_p` and a weight `Σ_q v_q s_q`, so a sum of products
//! is a sum of counts `D_pq = Σ b_p s_q` with the coefficients `u_p v_q`. The coefficients are
//! rounded to i32 multiples of a power of two that is as small as the length of the sum permits
//! (`fixed_point`), and the normalization and the levels of the activation become i32 thresholds
//! (`coder`). What remains is integer arithmetic, which no executor rounds.
//! Bytes: the planes of many bits are replaced by one product of bytes. Levels are rounded to
//! multiples of 1/127 of the largest, and sums of their products are exact.
//!
//! ```text
//! codes ─ count ones, or ─► sums (i32) ─ thresholds ─► passed (bool) ─ max-pool ─► words of bits
//!         multiply bytes         │                                                 or bytes
//!                                └ last layer: float(sum) / 2^exponent ─ normalization ─► f32
//! ```
//! Accuracy: a coefficient and an offset are each rounded by at most half a unit, so a sum differs
//! from the exact sum by at most half a unit for each product of two bits, and half a unit for the
//! offset. A product of a float weight with the code of an image or with a byte differs by half a
//! unit times the code or the byte, so fewer bits are left for these weights. A level that is
//! rounded to a byte differs by at most 1/254 of the largest level.

pub(crate) mod coder;
mod file;
mod fixed_point;
pub(crate) mod product;
mod spans;

use tensor_core::ndarray::ArrayD;
use tensor_core::{DType, Executor, Tensor};

use crate::border::Border;
use crate::error::{Error, Result, check_multiple};
use crate::level_set::Alphabet;
use crate::network::{Activation, Layer, Network, Normalization, batch_of};
use crate::planes::{Packing, PlaneLayout};
use crate::window::Window;

use coder::Coder;
use fixed_point::Levels;
use product::Product;

/// A network whose layers compute with integers and bits.
///
/// The input is an 8-bit image, activations between layers are planes of bits or bytes, and the
/// output is f32. All codes and sums are equal on every executor.
///
/// # Examples
/// ```
/// use quant::{Activation, InputImage, Layer, LevelSet, Network, Qem, Weights, Window};
/// use tensor_core::{Host, Reference};
///
/// let wave = |n: usize| -> Vec<f32> { (0..n).map(|i| (i as f32 * 0.7).sin()).collect() };
/// let activation = || LevelSet::uniform_from_zero(2, 0.5).map(Activation::Levels);
/// let three = Window::new([3, 3]).with_padding([[1, 1], [1, 1]]);
/// let binary = Weights::fit(&Qem::signs(1)?, &wave(8 * 9 * 4), 8)?;
/// let network = Network::new(
///     InputImage::unit([6, 6, 1]),
///     vec![
///         Layer::new("first", 4, three, Weights::Float(wave(4 * 9)))
///             .with_activation(activation()?),
///         Layer::new("second", 8, three, binary).with_activation(activation()?),
///         Layer::new("last", 3, Window::new([6, 6]), Weights::Float(wave(3 * 36 * 8))),
///     ],
/// )?;
/// let frozen = network.freeze()?;
/// let pixels: Vec<u8> = (0..2 * 36).map(|i| (i * 41 % 256) as u8).collect();
/// let scores = frozen.run(&pixels, &Host::new())?;
/// assert_eq!(scores.shape(), [2, 1, 1, 3]);
/// assert_eq!(scores, frozen.run(&pixels, &Reference)?);
/// # Ok::<(), quant::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct FrozenNetwork {
    pub(crate) input: [usize; 3],
    pub(crate) layers: Vec<FrozenLayer>,
}

/// A layer of integers.
#[derive(Clone, Debug, PartialEq)]
pub struct FrozenLayer {
    name: String,
    /// The height, the width and the channels of the image that the layer reads.
    pub(crate) image: [usize; 3],
    pub(crate) n_outputs: usize,
    pub(crate) n_groups: usize,
    pub(crate) window: Window,
    /// The number of output positions along each axis, before the max-pool.
    pub(crate) sums_size: [usize; 2],
    pub(crate) pool: Window,
    pub(crate) product: Product,
    pub(crate) border: Border,
    /// The number that is added to the products, for each class of the border and each output.
    offsets: Vec<i32>,
    pub(crate) output: Output,
}

/// The result of a layer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Output {
    /// Packed codes for the next layer.
    Codes(Coder),
    /// The normalised sums as f32.
    Numbers {
        normalization: Normalization,
        /// The sum of channel `o` is in units of `2^-exponents[o]`.
        exponents: Vec<i32>,
    },
}

impl Network {
    /// Returns the network as integers and bits: [`freeze_to`](Self::freeze_to) with
    /// [`Packing::Bits`].
    ///
    /// # Errors
    /// As [`freeze_to`](Self::freeze_to).
    pub fn freeze(&self) -> Result<FrozenNetwork> {
        self.freeze_to(Packing::Bits)
    }

    /// Returns the network as integers. The activations between the layers are bits or bytes.
    /// Quantised weights are bits or bytes in all layers but the first and, for bytes, the last;
    /// all other weights are fixed-point numbers.
    ///
    /// With bits, the time of a layer is proportional to the number of bits of a weight times that
    /// of an activation. With bytes, the time does not depend on the number of bits. Levels are
    /// then rounded as [`LevelSet::to_bytes`](crate::LevelSet::to_bytes) describes; thresholds are
    /// not rounded.
    ///
    /// # Errors
    /// [`Error::Layer`] with [`Error::Activation`] unless the activations of all layers but the
    /// last are level sets and the last layer has none; with [`Error::MixedChannels`] if the
    /// channels of a layer of bits have different numbers of bits or factors; with
    /// [`Error::SumOverflow`] if a sum has so many products that i32 leaves no bits for their
    /// coefficients, or cannot hold the products of bytes.
    pub fn freeze_to(&self, packing: Packing) -> Result<FrozenNetwork> {
        let mut levels = Levels::of_input(self.input());
        let mut layers = Vec::with_capacity(self.layers().len());
        let last = self.layers().len() - 1;
        for (number, layer) in self.layers().iter().enumerate() {
            let next = self.layers().get(number + 1);
            let image = self.image_sizes()[number];
            let n_groups_after = next.map(|next| next.n_groups);
            let frozen = FrozenLayer::new(layer, image, &levels, n_groups_after, packing);
            layers.push(frozen.map_err(|error| error.in_layer(&layer.name))?);
            if let (Activation::Levels(set), true) = (&layer.activation, number != last) {
                levels = Levels::of_activation(set, layer.n_outputs, packing);
            }
        }
        Ok(FrozenNetwork {
            input: self.input().size,
            layers,
        })
    }
}

impl FrozenNetwork {
    /// Returns the height, the width and the channels of an input image.
    #[must_use]
    pub fn input_size(&self) -> [usize; 3] {
        self.input
    }

    /// Returns the layers.
    #[must_use]
    pub fn layers(&self) -> &[FrozenLayer] {
        &self.layers
    }

    /// Returns the output of each layer as tensor programs: `u32` words of planes or bytes
    /// `[batch, height, width, plane, group, word]` (see [`PlaneLayout`]), and for the last layer
    /// f32 `[batch, height, width, channels]`. The input is `[batch, height, width, channels]` of
    /// i32 in 0 to 255.
    ///
    /// # Errors
    /// [`Error::ImageShape`] for images of another size; [`Error::Type`] for another type;
    /// [`Error::Tensor`] for an error of `codes`.
    pub fn layers_of(&self, codes: &Tensor) -> Result<Vec<Tensor>> {
        let operation = "FrozenNetwork::layers_of";
        let batch = batch_of(operation, codes, self.input, DType::I32)?;
        let mut outputs: Vec<Tensor> = Vec::with_capacity(self.layers.len());
        for layer in &self.layers {
            let output = layer.output_of(outputs.last().unwrap_or(codes), batch);
            outputs.push(output);
        }
        Ok(outputs)
    }

    /// Returns the output of the last layer as a tensor program: f32
    /// `[batch, height, width, channels]`.
    ///
    /// # Errors
    /// As [`layers_of`](Self::layers_of).
    pub fn outputs_of(&self, codes: &Tensor) -> Result<Tensor> {
        let mut outputs = self.layers_of(codes)?;
        outputs.pop().ok_or(Error::Empty {
            operation: "FrozenNetwork::outputs_of",
        })
    }

    /// Computes the output for 8-bit images `[batch, height, width, channels]`.
    ///
    /// Memory: activations between layers are packed, but a layer has temporaries. On the host the
    /// peak is at most the largest of these sums, for planes of A bits and weights of W bits (1
    /// each for bytes and images), S sums before the max-pool, and P activations after it:
    ///
    /// ```text
    /// layer without a max-pool    4 · A · W · S + 4 · S
    /// layer with a max-pool       the same, or 4 · S + 4 · (thresholds + 1) · P
    /// layer of floats             4 · S, and for its input 4 for each byte or A for each code
    /// product of packed words     4 · A · W · S, the input, copies of the input with its padding
    ///                             and of the weights, and for each thread about 64 KiB, or the
    ///                             counts of 12 pixels if these take more
    /// ```
    /// `gpu::DeviceNetwork` has no temporaries in layers of bits and bytes.
    ///
    /// # Errors
    /// [`Error::Length`] unless the pixels are whole images; [`Error::Tensor`] for an error of the
    /// executor.
    pub fn run(&self, pixels: &[u8], executor: &dyn Executor) -> Result<ArrayD<f32>> {
        Ok(self.outputs_of(&self.codes(pixels)?)?.eval(executor)?)
    }

    /// Returns 8-bit images as a tensor of i32, the input of the network's programs.
    ///
    /// # Errors
    /// [`Error::Length`] unless the pixels are whole images.
    pub fn codes(&self, pixels: &[u8]) -> Result<Tensor> {
        let [height, width, channels] = self.input;
        let image_len = height * width * channels;
        check_multiple("FrozenNetwork::codes", "pixels", pixels.len(), image_len)?;
        let shape = [pixels.len() / image_len, height, width, channels];
        Ok(Tensor::from_vec(
            &shape,
            pixels.iter().map(|&pixel| i32::from(pixel)).collect(),
        ))
    }
}

impl FrozenLayer {
    /// Freezes a layer; `levels` are the numbers that the codes of its input stand for, and
    /// `n_groups_after` the groups of the next layer, if there is one.
    fn new(
        layer: &Layer,
        image: [usize; 3],
        levels: &Levels,
        n_groups_after: Option<usize>,
        packing: Packing,
    ) -> Result<Self> {
        let [height, width, _] = image;
        let size = layer.window.output_size([height, width])?;
        let border = Border::new(&layer.window, [height, width], size);
        let is_last = n_groups_after.is_none();
        let fixed = fixed_point::fix(layer, image, levels, &border, is_last)?;
        let output = match (&layer.activation, n_groups_after) {
            (Activation::Levels(levels), Some(n_groups)) => {
                let layout = match packing {
                    Packing::Bits => {
                        PlaneLayout::new(layer.n_outputs, n_groups, levels.basis().len())?
                    }
                    Packing::Bytes => PlaneLayout::bytes(layer.n_outputs, n_groups)?,
                };
                Output::Codes(Coder::new(levels, layout, &layer.normalization, &fixed))
            }
            (Activation::None, None) => Output::Numbers {
                normalization: layer.normalization.clone(),
                exponents: fixed.exponents.clone(),
            },
            (activation, next) => {
                return Err(Error::Activation {
                    operation: "Network::freeze",
                    actual: activation.kind(),
                    expected: if next.is_some() {
                        "a level set"
                    } else {
                        "none in the last layer"
                    },
                });
            }
        };
        let mut frozen = Self {
            name: layer.name.clone(),
            image,
            n_outputs: layer.n_outputs,
            n_groups: layer.n_groups,
            window: layer.window,
            sums_size: size,
            pool: layer.pool,
            product: fixed.product,
            border,
            offsets: fixed.offsets,
            output,
        };
        if let Output::Codes(coder) = &frozen.output {
            let is_flipped = coder.is_flipped.clone();
            frozen.product.negate(&is_flipped);
            for offsets in frozen.offsets.chunks_mut(is_flipped.len()) {
                for (offset, &is_flipped) in offsets.iter_mut().zip(&is_flipped) {
                    *offset = if is_flipped { -*offset } else { *offset };
                }
            }
        }
        frozen.check_range()?;
        Ok(frozen)
    }

    /// Checks that no sum can leave i32.
    fn check_range(&self) -> Result<()> {
        let n_products = self.window.n_taps() * (self.image[2] / self.n_groups);
        let bounds = self.product.bounds(n_products, self.n_outputs);
        for (channel, bound) in bounds.into_iter().enumerate() {
            let offsets = self.offsets.iter().skip(channel).step_by(self.n_outputs);
            let offset = offsets
                .map(|offset| offset.unsigned_abs())
                .max()
                .unwrap_or(0);
            let bound = bound.saturating_add(offset.into());
            if bound > i32::MAX.unsigned_abs().into() {
                return Err(Error::SumOverflow {
                    operation: "FrozenNetwork",
                    channel,
                    n_products,
                    bits: (bound as f64).log2(),
                });
            }
        }
        Ok(())
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of bytes of the weights, the coefficients and the thresholds: 4 for each
    /// word and number, without the flags of negated channels.
    ///
    /// ```text
    /// weights of bits    outputs · taps · W · ⌈channels of a group / 32⌉ words
    ///                    and outputs · A · W coefficients
    /// weights of bytes   outputs · taps · ⌈channels of a group / 4⌉ words
    /// float weights      outputs · taps · A · channels of a group
    /// offsets            outputs · classes of the border
    /// thresholds         outputs · thresholds, in all layers but the last
    /// normalization      5 · outputs, in the last layer
    /// ```
    /// A is the number of planes of the input: the bits of a code, or 1 for images and bytes. W is
    /// the number of bits of a weight, and 1 more if the levels of the weights have an offset or
    /// are sums of bits 0 and 1. Positions of the output are in one class of the border if the same
    /// taps are inside of the image.
    #[must_use]
    pub fn n_bytes(&self) -> usize {
        let output = match &self.output {
            Output::Codes(coder) => coder.thresholds.len(),
            Output::Numbers { exponents, .. } => 5 * exponents.len(),
        };
        size_of::<u32>() * (self.product.n_numbers() + self.offsets.len() + output)
    }

    /// Returns the sums of products of each output position as a tensor program: i32
    /// `[batch, rows, cols, outputs]`. The sums of flipped channels are negated.
    fn sums_of(&self, input: &Tensor, batch: usize) -> Tensor {
        let [rows, cols] = self.sums_size;
        let sums = self.product.sums_of(self, input, batch);
        let constants = self.product.constants(self);
        let constants = self.border.program(&constants, self.n_outputs);
        sums.reshape(&[batch, rows, cols, self.n_outputs]) + constants
    }

    /// Returns the output of the layer as a tensor program: packed codes, or f32 in the last layer.
    /// The input is that of [`FrozenNetwork::layers_of`].
    pub(crate) fn output_of(&self, input: &Tensor, batch: usize) -> Tensor {
        let sums = self.sums_of(input, batch);
        match &self.output {
            Output::Codes(coder) => coder.codes_of(&sums, &self.pool),
            Output::Numbers {
                normalization,
                exponents,
            } => {
                let pooled = self.pool.maxima(&sums, i32::MIN);
                let units: Vec<f32> = exponents.iter().map(|&n| fixed_point::unit(n)).collect();
                let units = Tensor::from_vec(&[units.len()], units);
                normalization.program(&(pooled.cast(DType::F32) * units))
            }
        }
    }
}

/// The factors that the bits of a layer's input stand for, and their layout.
type BitInput = (Alphabet, PlaneLayout);
