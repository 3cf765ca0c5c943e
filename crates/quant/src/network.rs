//! Feed-forward networks of convolutions, with float or quantised weights and activations.
//!
//! Role: the description that is calibrated, evaluated in f32 and frozen. A network of float
//! weights becomes a quantised one by [`Network::quantized`]; a quantised one becomes integers by
//! [`Network::freeze`](crate::Network::freeze).
//! Method: a layer is `convolution → max-pool → normalization → activation`, the order of LQ-Nets.
//! A linear layer is a convolution whose window is the whole image.
//! Shapes: images are `[batch, height, width, channels]`, weights
//! `[outputs, height, width, channels of a group]`, all row-major.
//! Source: Zhang, Yang, Ye and Hua 2018, "LQ-Nets: Learned Quantization for Highly Accurate and
//! Compact Deep Neural Networks".

use tensor_core::{DType, Executor, Tensor, einsum};

use crate::error::{
    Error, MAX_SIDE, Result, check, check_count, check_groups, check_outputs, check_type, finite,
};
use crate::level_set::{LevelSet, check_bits};
use crate::population::Sample;
use crate::qem::Qem;
use crate::quantizer::{Quantizer, channel_len};
use crate::window::Window;

pub use normalization::Normalization;

mod normalization;

/// The weights of a layer, `[outputs, height, width, channels of a group]`.
#[derive(Clone, Debug, PartialEq)]
pub enum Weights {
    /// Floats. A frozen layer stores them as fixed-point numbers.
    Float(Vec<f32>),
    /// Codes, with one level set per output or one for all.
    Levels {
        /// The level sets.
        quantizer: Quantizer,
        /// The codes.
        codes: Vec<u8>,
    },
}

impl Weights {
    /// Quantises floats with levels that are fitted to each output.
    ///
    /// # Errors
    /// As [`Quantizer::fit`].
    pub fn fit(qem: &Qem, weights: &[f32], n_outputs: usize) -> Result<Self> {
        let quantizer = Quantizer::fit(qem, weights, n_outputs)?;
        let (codes, _) = quantizer.quantize(weights)?;
        Ok(Self::Levels { quantizer, codes })
    }

    /// Returns the number of weights.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Float(weights) => weights.len(),
            Self::Levels { codes, .. } => codes.len(),
        }
    }

    /// Returns the weights as floats.
    ///
    /// # Errors
    /// As [`Quantizer::dequantize`].
    pub fn values(&self) -> Result<Vec<f32>> {
        match self {
            Self::Float(weights) => Ok(weights.clone()),
            Self::Levels { quantizer, codes } => quantizer.dequantize(codes),
        }
    }

    /// Changes the signs of the weights of some outputs.
    fn negated(self, outputs: &[bool]) -> Result<Self> {
        let operation = "Layer::with_pool_after_activation";
        let len = channel_len(operation, self.len(), outputs.len())?.max(1);
        Ok(match self {
            Self::Float(mut weights) => {
                let channels = weights.chunks_mut(len).zip(outputs);
                for weight in channels.filter(|(_, is)| **is).flat_map(|(own, _)| own) {
                    *weight = -*weight;
                }
                Self::Float(weights)
            }
            Self::Levels {
                quantizer,
                mut codes,
            } => {
                // One level set per output, or one for all.
                let sets = quantizer.levels().iter().cycle();
                let channels = codes.chunks_mut(len).zip(sets).zip(outputs).enumerate();
                for (channel, ((own, set), _)) in channels.filter(|(_, (_, is))| **is) {
                    let opposite = set
                        .opposite_codes()
                        .ok_or(Error::OneSidedLevels { operation, channel })?;
                    for code in own {
                        let mut pairs = set.codes().iter().zip(&opposite);
                        if let Some((_, other)) = pairs.find(|(of_set, _)| *of_set == code) {
                            *code = *other;
                        }
                    }
                }
                Self::Levels { quantizer, codes }
            }
        })
    }
}

/// The function that is applied to normalised sums.
#[derive(Clone, Debug, PartialEq)]
pub enum Activation {
    /// The identity.
    None,
    /// `max(x, 0)`.
    Relu,
    /// The level by the thresholds of a level set.
    Levels(LevelSet),
}

impl Activation {
    /// Returns the name of the function, for errors.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Relu => "relu",
            Self::Levels(_) => "a level set",
        }
    }

    pub(crate) fn apply(&self, x: &Tensor) -> Tensor {
        match self {
            Self::None => x.clone(),
            Self::Relu => x.relu(),
            Self::Levels(levels) => levels.levels_of(x),
        }
    }
}

/// A layer: a convolution, a max-pool, a normalization and an activation.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// The name, for errors and files.
    pub name: String,
    /// The number of output channels.
    pub n_outputs: usize,
    /// The weights, `[outputs, height, width, channels of a group]`.
    pub weights: Weights,
    /// The window of the convolution.
    pub window: Window,
    /// The number of groups into which input and output channels are divided.
    pub n_groups: usize,
    /// The value of the positions outside of the image.
    pub padding_value: f32,
    /// The window of the max-pool.
    pub pool: Window,
    /// The normalization.
    pub normalization: Normalization,
    /// The activation.
    pub activation: Activation,
}

impl Layer {
    /// Creates a convolution with one group and padding value 0, without pooling, normalization and
    /// activation.
    #[must_use]
    pub fn new(name: &str, n_outputs: usize, window: Window, weights: Weights) -> Self {
        Self {
            name: name.to_owned(),
            n_outputs,
            weights,
            window,
            n_groups: 1,
            padding_value: 0.0,
            pool: Window::new([1; 2]),
            normalization: Normalization::identity(n_outputs),
            activation: Activation::None,
        }
    }

    /// Returns the layer with groups.
    #[must_use]
    pub fn with_groups(self, n_groups: usize) -> Self {
        Self { n_groups, ..self }
    }

    /// Returns the layer with another value outside of the image.
    #[must_use]
    pub fn with_padding_value(self, padding_value: f32) -> Self {
        Self {
            padding_value,
            ..self
        }
    }

    /// Returns the layer with a max-pool after the convolution.
    #[must_use]
    pub fn with_pool(self, pool: Window) -> Self {
        Self { pool, ..self }
    }

    /// Returns the layer with a max-pool after the activation instead of before the normalization.
    ///
    /// Normalization and activation do not decrease, except the normalization of channels with a
    /// negative factor. In these channels, the signs of weights, bias, mean and factor are changed,
    /// which does not change the normalised values. The max-pool can then be computed before the
    /// normalization: the outputs are equal bit for bit. The levels of the activation must ascend,
    /// which those of ABC-Net need not do.
    ///
    /// # Errors
    /// [`Error::FallingLevels`] for an activation with levels that do not ascend;
    /// [`Error::UnevenChannels`] unless the weights are divisible into the outputs;
    /// [`Error::OneSidedLevels`] for a channel with a negative factor whose levels are not
    /// symmetric about 0.
    pub fn with_pool_after_activation(mut self, pool: Window) -> Result<Self> {
        if let Activation::Levels(levels) = &self.activation
            && !levels.levels().is_sorted()
        {
            return Err(Error::FallingLevels {
                operation: "Layer::with_pool_after_activation",
            });
        }
        let factors = &self.normalization.factor;
        let is_falling: Vec<bool> = factors.iter().map(|&factor| factor < 0.0).collect();
        self.weights = self.weights.negated(&is_falling)?;
        self.normalization.negate(&is_falling);
        Ok(self.with_pool(pool))
    }

    /// Returns the layer with a normalization.
    #[must_use]
    pub fn with_normalization(self, normalization: Normalization) -> Self {
        Self {
            normalization,
            ..self
        }
    }

    /// Returns the layer with an activation.
    #[must_use]
    pub fn with_activation(self, activation: Activation) -> Self {
        Self { activation, ..self }
    }

    /// Returns the number of weights of one output for an image with `n_channels`.
    pub(crate) fn weights_per_output(&self, n_channels: usize) -> usize {
        (n_channels / self.n_groups).saturating_mul(self.window.n_taps())
    }

    /// Checks the layer, and returns the size of its output for an image
    /// `[height, width, channels]`.
    fn output_size(&self, [height, width, n_channels]: [usize; 3]) -> Result<[usize; 3]> {
        let operation = "Network::new";
        check_groups(operation, self.n_groups, [n_channels, self.n_outputs])?;
        check_outputs(operation, self.n_outputs)?;
        let size = self.window.output_size([height, width])?;
        let [height, width] = self.pool.output_size(size)?;
        check_pool(operation, &self.pool)?;
        let expected = self
            .n_outputs
            .saturating_mul(self.weights_per_output(n_channels));
        check_count(operation, "weights", self.weights.len(), expected)?;
        match &self.weights {
            Weights::Float(weights) => {
                for &weight in weights {
                    finite(operation, "weight", weight.into())?;
                }
            }
            Weights::Levels { quantizer, .. } => {
                let n_levels = quantizer.levels().len();
                if n_levels != 1 {
                    check_count(operation, "level sets", n_levels, self.n_outputs)?;
                }
            }
        }
        self.weights.values()?;
        let n_normalized = self.normalization.bias.len();
        check_count(operation, "normalization", n_normalized, self.n_outputs)?;
        self.normalization.check(operation)?;
        finite(operation, "padding value", self.padding_value.into())?;
        Ok([height, width, self.n_outputs])
    }

    /// Returns the normalised sums of a tensor `[batch, height, width, channels]` of f32.
    pub(crate) fn values_of(&self, x: &Tensor, image: [usize; 3]) -> Result<Tensor> {
        let operation = "Network::values_of";
        let batch = batch_of(operation, x, image, DType::F32)?;
        let [height, width, n_channels] = image;
        let [taps_y, taps_x] = self.window.size;
        let shape = [self.n_outputs, taps_y, taps_x, n_channels / self.n_groups];
        let weights = Tensor::from_vec(&shape, self.weights.values()?);
        let x = self.window.views(x, self.padding_value);
        let size = self.window.output_size([height, width])?;
        let sums = convolved(&x, &weights, [batch, size[0], size[1]], self.n_groups);
        Ok(self.normalization.program(&self.pooled(&sums)))
    }

    /// Returns the maximum of each pooling window.
    fn pooled(&self, sums: &Tensor) -> Tensor {
        self.pool.maxima(sums, f32::NEG_INFINITY)
    }
}

/// Returns the sums `[batch, rows, cols, outputs]` of a convolution of windows
/// `[batch, rows, cols, channels, taps, taps]` with weights
/// `[outputs, taps, taps, channels of a group]`.
pub(crate) fn convolved(
    windows: &Tensor,
    weights: &Tensor,
    [batch, rows, cols]: [usize; 3],
    n_groups: usize,
) -> Tensor {
    if n_groups == 1 {
        // Terms in the order of the memory of both factors, so that they are copied in long runs.
        let windows = windows.permute(&[0, 1, 2, 4, 5, 3]);
        return einsum("byxuvc,ouvc->byxo", &[&windows, weights]);
    }
    // An error of an operand is returned by the products below.
    let sizes = weights
        .shape()
        .map_or([0; 4], |shape| [0, 1, 2, 3].map(|axis| shape[axis]));
    let [n_outputs, taps_y, taps_x, group_len] = sizes;
    let windows = windows.reshape(&[batch, rows, cols, n_groups, group_len, taps_y, taps_x]);
    let grouped = [n_groups, n_outputs / n_groups, taps_y, taps_x, group_len];
    let sums = einsum(
        "byxgcuv,gouvc->byxgo",
        &[&windows, &weights.reshape(&grouped)],
    );
    sums.reshape(&[batch, rows, cols, n_outputs])
}

/// Checks that each pooling window has a position inside of the image.
pub(crate) fn check_pool(operation: &'static str, pool: &Window) -> Result<()> {
    for (axis, size) in pool.size.into_iter().enumerate() {
        let (stride, dilation) = (pool.stride[axis], pool.dilation[axis]);
        let padding = pool.padding[axis][0].max(pool.padding[axis][1]);
        let numbers = [
            ("size of the max-pool", size, size > 0, "at least 1"),
            ("stride of the max-pool", stride, stride > 0, "at least 1"),
            ("dilation of the max-pool", dilation, dilation == 1, "1"),
            (
                "padding of the max-pool",
                padding,
                padding < size,
                "less than the size of the pool",
            ),
        ];
        for (quantity, value, is_valid, expected) in numbers {
            check(operation, quantity, value as f64, is_valid, expected)?;
        }
    }
    Ok(())
}

/// Returns the number of images in a tensor `[batch, height, width, channels]` of a type.
pub(crate) fn batch_of(
    operation: &'static str,
    x: &Tensor,
    image: [usize; 3],
    dtype: DType,
) -> Result<usize> {
    check_type(operation, "the input", x, dtype)?;
    match *x.shape()? {
        [batch, height, width, channels] if [height, width, channels] == image => Ok(batch),
        ref shape => Err(Error::ImageShape {
            operation,
            actual: shape.to_vec(),
            expected: image,
        }),
    }
}

/// The images of a network: their size, and the numbers that 8-bit codes stand for.
#[derive(Clone, Debug, PartialEq)]
pub struct InputImage {
    /// Height, width and channels.
    pub size: [usize; 3],
    /// The distance of two codes, for each channel.
    pub scale: Vec<f32>,
    /// The number of code 0, for each channel.
    pub offset: Vec<f32>,
}

impl InputImage {
    /// Creates images whose codes 0 to 255 stand for 0 to 1.
    #[must_use]
    pub fn unit(size: [usize; 3]) -> Self {
        Self {
            size,
            // A network with more channels is an error.
            scale: vec![1.0 / 255.0; size[2].min(MAX_SIDE + 1)],
            offset: vec![0.0; size[2].min(MAX_SIDE + 1)],
        }
    }

    /// Creates images whose codes 0 to 255 stand for `(code / 255 - mean) / deviation`, with a mean
    /// and a standard deviation for each channel.
    ///
    /// # Errors
    /// [`Error::Length`] unless there is a mean and a deviation for each channel;
    /// [`Error::InvalidNumber`] for a mean that is not finite or a deviation that is not positive.
    pub fn standardized(size: [usize; 3], mean: &[f32], deviation: &[f32]) -> Result<Self> {
        let operation = "InputImage::standardized";
        for (quantity, numbers) in [("mean", mean), ("deviation", deviation)] {
            check_count(operation, quantity, numbers.len(), size[2])?;
        }
        for (&mean, &deviation) in mean.iter().zip(deviation) {
            finite(operation, "mean", mean.into())?;
            crate::error::positive(operation, "deviation", deviation.into())?;
        }
        let channels = mean.iter().zip(deviation);
        Ok(Self {
            size,
            scale: deviation.iter().map(|d| 1.0 / (255.0 * d)).collect(),
            offset: channels.map(|(mean, d)| -mean / d).collect(),
        })
    }

    /// Checks that the sides are 1 to 2^20, and that each channel has a finite scale and offset.
    pub(crate) fn check(&self, operation: &'static str) -> Result<()> {
        const SIDES: [&str; 3] = [
            "height of the input",
            "width of the input",
            "number of channels of the input",
        ];
        for (quantity, side) in SIDES.into_iter().zip(self.size) {
            let is_valid = (1..=MAX_SIDE).contains(&side);
            check(operation, quantity, side as f64, is_valid, "1 to 2^20")?;
        }
        for (quantity, numbers) in [
            ("scale of the input", &self.scale),
            ("offset of the input", &self.offset),
        ] {
            check_count(operation, quantity, numbers.len(), self.size[2])?;
            for &number in numbers {
                finite(operation, quantity, number.into())?;
            }
        }
        Ok(())
    }

    /// Returns the numbers of codes `[batch, height, width, channels]` of any integer type, as f32.
    #[must_use]
    pub fn values_of(&self, codes: &Tensor) -> Tensor {
        let row = |numbers: &[f32]| Tensor::from_vec(&[numbers.len()], numbers.to_vec());
        codes.cast(DType::F32) * row(&self.scale) + row(&self.offset)
    }
}

/// A feed-forward network.
///
/// # Examples
/// A float network is quantised with two bits per weight and per activation, and evaluated.
/// ```
/// use quant::{Activation, InputImage, Layer, Network, Weights, Window};
/// use tensor_core::{Host, Tensor};
///
/// let wave = |n: usize, step: f32| -> Vec<f32> { (0..n).map(|i| (i as f32 * step).sin()).collect() };
/// let three = Window::new([3, 3]).with_padding([[1, 1], [1, 1]]);
/// let float = Network::new(
///     InputImage::unit([6, 6, 1]),
///     vec![
///         Layer::new("first", 4, three, Weights::Float(wave(4 * 9, 1.3)))
///             .with_activation(Activation::Relu),
///         Layer::new("second", 8, three, Weights::Float(wave(8 * 9 * 4, 0.7)))
///             .with_pool(Window::new([2, 2]).with_stride([2, 2]))
///             .with_activation(Activation::Relu),
///         Layer::new("last", 3, Window::new([3, 3]), Weights::Float(wave(3 * 9 * 8, 0.3))),
///     ],
/// )?;
/// let pixels = (0..5 * 36).map(|i| (i * 37 % 101) as f32 / 100.0).collect();
/// let images = Tensor::from_vec(&[5, 6, 6, 1], pixels);
/// let host = Host::new();
/// let quantized = float.quantized(2, 2, &images, &host)?;
/// let scores = quantized.outputs_of(&images)?.eval::<f32>(&host)?;
/// assert_eq!(scores.shape(), [5, 1, 1, 3]);
/// # Ok::<(), quant::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    input: InputImage,
    layers: Vec<Layer>,
    /// The size of the image that each layer reads, and that of the output.
    images: Vec<[usize; 3]>,
}

impl Network {
    /// Creates a network.
    ///
    /// # Errors
    /// [`Error::Empty`] without layers; [`Error::InvalidNumber`] unless the height, the width and
    /// the channels of the input are 1 to 2^20; [`Error::Length`] unless the input has a scale and
    /// an offset per channel; [`Error::Layer`] for a layer with more than 2^20 outputs, whose
    /// window does not fit ([`Error::Window`]), whose groups do not divide its channels
    /// ([`Error::Groups`]), whose weights, normalization or level sets have another number than the
    /// shape ([`Error::Length`], [`Error::UnevenChannels`]), whose codes have no level
    /// ([`Error::UnknownCode`]), or whose numbers are not finite or valid
    /// ([`Error::InvalidNumber`]).
    pub fn new(input: InputImage, layers: Vec<Layer>) -> Result<Self> {
        let operation = "Network::new";
        if layers.is_empty() {
            return Err(Error::Empty { operation });
        }
        input.check(operation)?;
        let mut images = vec![input.size];
        for layer in &layers {
            let output = layer.output_size(images[images.len() - 1]);
            images.push(output.map_err(|error| error.in_layer(&layer.name))?);
        }
        Ok(Self {
            input,
            layers,
            images,
        })
    }

    /// Returns the input.
    #[must_use]
    pub fn input(&self) -> &InputImage {
        &self.input
    }

    /// Returns the layers.
    #[must_use]
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Returns the sizes `[height, width, channels]` of the images: that of the input, then the
    /// output of each layer.
    #[must_use]
    pub fn image_sizes(&self) -> &[[usize; 3]] {
        &self.images
    }

    /// Returns the normalised sums of each layer, before its activation, as tensor programs in f32.
    /// The input `[batch, height, width, channels]` holds numbers, not codes:
    /// [`InputImage::values_of`] returns the numbers of codes.
    ///
    /// # Errors
    /// [`Error::ImageShape`] for images of another size; [`Error::Type`] for another type than f32;
    /// [`Error::Tensor`] for an error of `x`.
    pub fn values_of(&self, x: &Tensor) -> Result<Vec<Tensor>> {
        let mut values: Vec<Tensor> = Vec::with_capacity(self.layers.len());
        let mut x = x.clone();
        for (layer, &image) in self.layers.iter().zip(&self.images) {
            let value = layer.values_of(&x, image)?;
            x = layer.activation.apply(&value);
            values.push(value);
        }
        Ok(values)
    }

    /// Returns the output of the last layer as a tensor program in f32,
    /// `[batch, height, width, channels]`.
    ///
    /// # Errors
    /// As [`values_of`](Self::values_of).
    pub fn outputs_of(&self, x: &Tensor) -> Result<Tensor> {
        let values = self.values_of(x)?;
        let last = self.layers.len() - 1;
        Ok(self.layers[last].activation.apply(&values[last]))
    }

    /// Returns the output of the last layer as a tensor program, as
    /// [`outputs_of`](Self::outputs_of), for codes of the input `[batch, height, width, channels]`.
    ///
    /// # Errors
    /// As [`values_of`](Self::values_of).
    pub fn outputs_of_codes(&self, codes: &Tensor) -> Result<Tensor> {
        self.outputs_of(&self.input.values_of(codes))
    }

    /// Returns the network with quantised weights in all layers but the first and the last, and
    /// with quantised activations in all layers but the last. The levels of weights are fitted to
    /// each output channel. The levels of activations are fitted to the float activations of the
    /// layer for the given images `[batch, height, width, channels]`, after the layers before it
    /// were quantised. The images hold numbers, as for [`values_of`](Self::values_of).
    ///
    /// Levels of activations start at 0 after a `ReLU`, and are symmetric otherwise. Memory: the
    /// activations of one layer for all images, sorted.
    ///
    /// # Errors
    /// [`Error::BitCount`] unless both numbers of bits are 1 to [`MAX_BITS`](crate::MAX_BITS);
    /// [`Error::Layer`] with the error of a fit, for example [`Error::Empty`] without images, or
    /// with [`Error::Activation`] for a layer that is quantised already; the errors of
    /// [`values_of`](Self::values_of); [`Error::Tensor`] for an error of the executor.
    pub fn quantized(
        &self,
        weight_bits: usize,
        activation_bits: usize,
        images: &Tensor,
        executor: &dyn Executor,
    ) -> Result<Self> {
        // Also the bits of layers that the network does not have.
        for bits in [weight_bits, activation_bits] {
            check_bits("Network::quantized", bits)?;
        }
        let mut layers = self.layers.clone();
        let last = layers.len() - 1;
        let mut x = images.clone();
        for (number, layer) in layers.iter_mut().enumerate() {
            let image = self.images[number];
            let mut quantize = || {
                if number != 0 && number != last {
                    let qem = Qem::signs(weight_bits)?;
                    layer.weights = Weights::fit(&qem, &layer.weights.values()?, layer.n_outputs)?;
                }
                if number == last {
                    return Ok(());
                }
                let (qem, x_of) = match layer.activation {
                    Activation::None => (Qem::signs(activation_bits)?, Activation::None),
                    Activation::Relu => (Qem::bits(activation_bits)?, Activation::Relu),
                    Activation::Levels(_) => {
                        return Err(Error::Activation {
                            operation: "Network::quantized",
                            actual: layer.activation.kind(),
                            expected: "none or relu",
                        });
                    }
                };
                let value = layer.values_of(&x, image)?.realize(executor)?;
                let sample = x_of.apply(&value).eval::<f32>(executor)?;
                let sample: Vec<f32> = sample.into_iter().collect();
                let levels = qem.fit(&Sample::new(&sample)?)?.level_set()?;
                layer.activation = Activation::Levels(levels);
                x = layer.activation.apply(&value).realize(executor)?;
                Ok(())
            };
            let outcome = quantize();
            outcome.map_err(|error: Error| error.in_layer(&layer.name))?;
        }
        Self::new(self.input.clone(), layers)
    }
}
