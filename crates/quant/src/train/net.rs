//! Networks as data: the layers of a network in training.

use std::fmt;
use std::ops::Range;

use tensor_core::{DType, Tensor};

use crate::error::{Error, Result, check, check_count, product};
use crate::layers::{
    ActivationLevels, Applied, BatchNorm, Levels, MaxPool, NamedShape, QuantConv2d, QuantLinear,
    Slot, WeightLevels, shapes_of,
};
use crate::network::{InputImage, Layer, Network, batch_of};
use crate::window::Window;

/// A layer of a [`Net`].
#[derive(Clone, Debug, PartialEq)]
pub enum NetLayer {
    /// A convolution.
    Conv2d(QuantConv2d),
    /// A linear layer.
    Linear(QuantLinear),
    /// A max-pool.
    MaxPool(MaxPool),
    /// A batch normalization.
    BatchNorm(BatchNorm),
    /// A `ReLU`, perhaps with levels.
    Activation(ActivationLevels),
}

/// A network as data: one description of the float network, of the network with quantised weights
/// and activations in training, and of the [`Network`] that is frozen and packed.
///
/// The order of layers that can be exported is `convolution or linear layer → max-pool → batch
/// normalization → activation`, repeated; all but the first of these are optional. The max-pool may
/// also be after the batch normalization or the activation; the exported network then computes the
/// same outputs with the max-pool before both. Such an export returns an error for levels that do
/// not ascend ([`Error::FallingLevels`](crate::Error::FallingLevels)), and for levels that are not
/// symmetric in a channel with a negative factor
/// ([`Error::OneSidedLevels`](crate::Error::OneSidedLevels)). Any other order can be trained.
///
/// # Examples
/// ```
/// use quant::layers::{ActivationLevels, QuantConv2d, QuantLinear};
/// use quant::train::{Net, NetLayer};
/// use quant::{InputImage, Window};
///
/// let float = Net::new(
///     InputImage::unit([8, 8, 1]),
///     vec![
///         ("conv", NetLayer::Conv2d(QuantConv2d::new(8, Window::new([3, 3])))),
///         ("relu", NetLayer::Activation(ActivationLevels::Relu)),
///         ("hidden", NetLayer::Linear(QuantLinear::new(16))),
///         ("hidden_relu", NetLayer::Activation(ActivationLevels::Relu)),
///         ("classes", NetLayer::Linear(QuantLinear::new(10).with_bias())),
///     ],
/// )?;
/// let quantized = float.with_levels("w2a2".parse()?)?;
/// assert_eq!(quantized.output_size(), [1, 1, 10]);
/// # Ok::<(), quant::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Net {
    input: InputImage,
    layers: Vec<(String, NetLayer)>,
    /// The size of the image that each layer reads, and that of the output.
    sizes: Vec<[usize; 3]>,
}

/// A layer of a [`Net`] with the places of its tensors among those of the net.
#[derive(Debug)]
pub(super) struct Place<'a> {
    pub(super) name: &'a str,
    pub(super) layer: &'a NetLayer,
    /// The size of the image that the layer reads.
    pub(super) image: [usize; 3],
    pub(super) parameters: Range<usize>,
    state: Range<usize>,
}

impl Place<'_> {
    /// Returns the parameters of the layer.
    pub(super) fn own<'t, T>(&self, parameters: &'t [T]) -> &'t [T] {
        &parameters[self.parameters.clone()]
    }

    /// Returns the state of the layer.
    pub(super) fn own_state<'t, T>(&self, state: &'t [T]) -> &'t [T] {
        &state[self.state.clone()]
    }
}

/// The outputs of a net in a training step.
#[derive(Clone, Debug)]
pub struct NetOutput {
    /// The output of the last layer, `[batch, height, width, channels]`.
    pub output: Tensor,
    /// The next state, in the order of the state's slots.
    pub state: Vec<Tensor>,
    /// For each convolution and linear layer, whether the sum of the output is finite: a bool
    /// without axes.
    pub are_finite: Vec<Tensor>,
}

impl NetLayer {
    fn output_size(&self, image: [usize; 3]) -> Result<[usize; 3]> {
        match self {
            Self::Conv2d(layer) => layer.output_size(image),
            Self::Linear(layer) => layer.output_size(image),
            Self::MaxPool(layer) => layer.output_size(image),
            Self::BatchNorm(_) => Ok(image),
            Self::Activation(levels) => levels.check("ActivationLevels").map(|()| image),
        }
    }

    /// Returns the size of the output, or an error if a layer does not fit its input or if no
    /// memory can contain its parameters.
    fn checked_output_size(
        &self,
        operation: &'static str,
        image: [usize; 3],
    ) -> Result<[usize; 3]> {
        const MAX_NUMBERS: usize = isize::MAX as usize / size_of::<f32>();
        let size = self.output_size(image)?;
        for slot in self.parameters(image) {
            let len = product(&slot.shape);
            let is_valid = len <= MAX_NUMBERS;
            let expected = "as many f32 as memory can address";
            check(
                operation,
                "number of weights",
                len as f64,
                is_valid,
                expected,
            )?;
        }
        Ok(size)
    }

    /// Returns the parameters for an image of a size.
    #[must_use]
    pub fn parameters(&self, image: [usize; 3]) -> Vec<Slot> {
        match self {
            Self::Conv2d(layer) => layer.parameters(image),
            Self::Linear(layer) => layer.parameters(image),
            Self::MaxPool(_) => Vec::new(),
            Self::BatchNorm(layer) => layer.parameters(image[2]),
            Self::Activation(levels) => levels.parameters(),
        }
    }

    /// Returns the state before the first step with these parameters.
    ///
    /// # Errors
    /// [`Error::NotANumber`] and [`Error::InvalidNumber`] for weights that are not finite.
    fn state(&self, image: [usize; 3], parameters: &[Vec<f32>]) -> Result<Vec<Slot>> {
        match self {
            Self::Conv2d(layer) => layer.state(&parameters[0]),
            Self::Linear(layer) => layer.state(&parameters[0]),
            Self::MaxPool(_) => Ok(Vec::new()),
            Self::BatchNorm(layer) => Ok(layer.state(image[2])),
            Self::Activation(levels) => levels.state(),
        }
    }

    fn apply(&self, x: &Tensor, parameters: &[Tensor], state: &[Tensor]) -> Result<Applied> {
        match self {
            Self::Conv2d(layer) => layer.apply(x, parameters, state),
            Self::Linear(layer) => layer.apply(x, parameters, state),
            Self::MaxPool(layer) => Ok(Applied {
                output: layer.apply(x)?,
                state: Vec::new(),
            }),
            Self::BatchNorm(layer) => layer.apply(x, parameters, state),
            Self::Activation(levels) => levels.apply(x, parameters, state),
        }
    }

    /// Returns the shapes of the tensors of the state.
    fn state_shapes(&self, image: [usize; 3]) -> Result<Vec<NamedShape>> {
        match self {
            Self::Conv2d(layer) => layer.levels.state_shapes(layer.n_outputs),
            Self::Linear(layer) => layer.levels.state_shapes(layer.n_outputs),
            Self::MaxPool(_) => Ok(Vec::new()),
            Self::BatchNorm(layer) => Ok(shapes_of(&layer.state(image[2]))),
            Self::Activation(levels) => levels.state_shapes(),
        }
    }

    /// Returns the names of the tensors of the state.
    fn state_names(&self) -> &'static [&'static str] {
        match self {
            Self::Conv2d(layer) => layer.levels.state_names(),
            Self::Linear(layer) => layer.levels.state_names(),
            Self::MaxPool(_) => &[],
            Self::BatchNorm(_) => &BatchNorm::STATE,
            Self::Activation(levels) => levels.state_names(),
        }
    }

    fn is_product(&self) -> bool {
        matches!(self, Self::Conv2d(_) | Self::Linear(_))
    }

    fn with_weight_levels(self, levels: WeightLevels) -> Self {
        match self {
            Self::Conv2d(layer) => Self::Conv2d(QuantConv2d { levels, ..layer }),
            Self::Linear(layer) => Self::Linear(QuantLinear { levels, ..layer }),
            other => other,
        }
    }
}

impl Net {
    /// Creates a network of named layers.
    ///
    /// # Errors
    /// [`Error::Empty`] without layers; [`Error::InvalidNumber`] for a side or a number of channels
    /// of the input that is not 1 to 2^20, and for a scale or an offset of the input that is not
    /// finite; [`Error::Length`] unless there is one of both for each channel;
    /// [`Error::LayerName`] for a name that occurs twice;
    /// [`Error::Layer`] with the error of a layer that does not fit its input, whose options are
    /// invalid, or whose weights are more than memory can address.
    pub fn new(input: InputImage, layers: Vec<(&str, NetLayer)>) -> Result<Self> {
        let operation = "Net::new";
        if layers.is_empty() {
            return Err(Error::Empty { operation });
        }
        input.check(operation)?;
        let mut net = Self {
            sizes: vec![input.size],
            input,
            layers: Vec::with_capacity(layers.len()),
        };
        for (name, layer) in layers {
            if net.layers.iter().any(|(other, _)| other == name) {
                return Err(Error::LayerName {
                    operation,
                    name: name.to_owned(),
                });
            }
            let size = layer.checked_output_size(operation, net.output_size());
            net.sizes.push(size.map_err(|error| error.in_layer(name))?);
            net.layers.push((name.to_owned(), layer));
        }
        Ok(net)
    }

    /// Creates the float network 32C5-P2-64C5-P2-512-10 for images of a size: convolutions of 32
    /// and 64 outputs with windows of 5 × 5 and without padding, max-pools of 2 × 2, and linear
    /// layers of 512 and `n_classes` outputs. A batch normalization and a `ReLU` follow each of the
    /// first three. The layers are `conv1`, `pool1`, `norm1`, `act1`, `conv2`, `pool2`, `norm2`,
    /// `act2`, `hidden`, `norm3`, `act3` and `classes`.
    ///
    /// # Errors
    /// As [`new`](Self::new), for images of less than 16 × 16 pixels or without classes.
    ///
    /// # Source
    /// The shape of LeNet-5 (LeCun, Bottou, Bengio and Haffner 1998, "Gradient-based learning
    /// applied to document recognition") in the size that later studies of binary networks use.
    pub fn lenet5(input: InputImage, n_classes: usize) -> Result<Self> {
        let conv = |n_outputs| NetLayer::Conv2d(QuantConv2d::new(n_outputs, Window::new([5, 5])));
        let norm = || NetLayer::BatchNorm(BatchNorm::default());
        let relu = || NetLayer::Activation(ActivationLevels::Relu);
        let pool = || -> Result<NetLayer> {
            let window = Window::new([2, 2]).with_stride([2, 2]);
            Ok(NetLayer::MaxPool(MaxPool::new(window)?))
        };
        let classes = QuantLinear::new(n_classes).with_bias();
        let layers = vec![
            ("conv1", conv(32)),
            ("pool1", pool()?),
            ("norm1", norm()),
            ("act1", relu()),
            ("conv2", conv(64)),
            ("pool2", pool()?),
            ("norm2", norm()),
            ("act2", relu()),
            ("hidden", NetLayer::Linear(QuantLinear::new(512))),
            ("norm3", norm()),
            ("act3", relu()),
            ("classes", NetLayer::Linear(classes)),
        ];
        Self::new(input, layers)
    }

    /// Returns the network with levels for the weights of all convolutions and linear layers but
    /// the first and the last, and for all activations. The default levels return the float
    /// network.
    ///
    /// # Errors
    /// [`Error::Layer`] with [`Error::BitCount`] for an unsupported number of bits or bases.
    pub fn with_levels(&self, levels: Levels) -> Result<Self> {
        let Levels {
            weights,
            activations,
        } = levels;
        let products: Vec<usize> = self.products().map(|(number, _)| number).collect();
        let inner = products
            .get(1..products.len().max(2) - 1)
            .unwrap_or_default();
        let layers = self.layers.iter().enumerate();
        let layers = layers.map(|(number, (name, layer))| {
            let layer = match layer.clone() {
                NetLayer::Activation(_) => NetLayer::Activation(activations),
                layer if inner.contains(&number) => layer.with_weight_levels(weights),
                layer => layer.with_weight_levels(WeightLevels::Float),
            };
            (name.as_str(), layer)
        });
        Self::new(self.input.clone(), layers.collect())
    }

    /// Returns the input.
    #[must_use]
    pub fn input(&self) -> &InputImage {
        &self.input
    }

    /// Returns the layers with their names.
    #[must_use]
    pub fn layers(&self) -> &[(String, NetLayer)] {
        &self.layers
    }

    /// Returns the size of the output.
    #[must_use]
    pub fn output_size(&self) -> [usize; 3] {
        self.sizes[self.sizes.len() - 1]
    }

    /// Returns the convolutions and linear layers with their positions.
    fn products(&self) -> impl Iterator<Item = (usize, &str)> {
        let layers = self.layers.iter().enumerate();
        let products = layers.filter(|(_, (_, layer))| layer.is_product());
        products.map(|(number, (name, _))| (number, name.as_str()))
    }

    /// Returns the names of the convolutions and linear layers, in the order of
    /// [`NetOutput::are_finite`].
    #[must_use]
    pub fn product_names(&self) -> Vec<&str> {
        self.products().map(|(_, name)| name).collect()
    }

    /// Returns the number of products of a weight and an element that each convolution and linear
    /// layer computes for an image, in the order of [`product_names`](Self::product_names);
    /// `usize::MAX` if a product overflows.
    #[must_use]
    pub fn n_products(&self) -> Vec<usize> {
        let layers = self.layers.iter().zip(self.sizes.windows(2));
        let products = layers.filter(|((_, layer), _)| layer.is_product());
        let n_products = products.map(|((_, layer), sizes)| {
            let weights = layer.parameters(sizes[0]);
            product(&[&weights[0].shape[1..], &sizes[1]].concat())
        });
        n_products.collect()
    }

    /// Returns the parameters of all layers, with names such as `conv1.weight`.
    #[must_use]
    pub fn parameters(&self) -> Vec<(String, Slot)> {
        let layers = self.layers.iter().zip(&self.sizes);
        let slots = layers.flat_map(|((name, layer), &image)| named(name, layer.parameters(image)));
        slots.collect()
    }

    /// Returns the names of all tensors of the state, such as `norm1.mean`.
    #[must_use]
    pub fn state_names(&self) -> Vec<String> {
        let layers = self.layers.iter();
        let names = layers.flat_map(|(name, layer)| {
            let of_layer = layer.state_names().iter();
            of_layer.map(move |tensor| format!("{name}.{tensor}"))
        });
        names.collect()
    }

    /// Returns the state of all layers before the first step with these parameters, in the order of
    /// [`state_names`](Self::state_names).
    ///
    /// # Errors
    /// [`Error::Layer`] with [`Error::NotANumber`] or [`Error::InvalidNumber`] for weights that are
    /// not finite; [`Error::Length`] for another number of parameters than the net has.
    pub fn state(&self, parameters: &[Vec<f32>]) -> Result<Vec<Slot>> {
        let n_parameters = self.parameters().len();
        check_count("Net::state", "parameters", parameters.len(), n_parameters)?;
        let mut slots = Vec::new();
        for place in self.places() {
            let state = place.layer.state(place.image, place.own(parameters));
            slots.extend(state.map_err(|error| error.in_layer(place.name))?);
        }
        Ok(slots)
    }

    /// Returns the layers with the places of their tensors.
    pub(super) fn places(&self) -> Vec<Place<'_>> {
        let (mut n_parameters, mut n_state) = (0, 0);
        let layers = self.layers.iter().zip(&self.sizes);
        let places = layers.map(|((name, layer), &image)| {
            let first = [n_parameters, n_state];
            n_parameters += layer.parameters(image).len();
            n_state += layer.state_names().len();
            Place {
                name,
                layer,
                image,
                parameters: first[0]..n_parameters,
                state: first[1]..n_state,
            }
        });
        places.collect()
    }

    /// Returns whether a layer of this name has levels.
    pub(super) fn has_levels(&self, name: &str) -> bool {
        let mut layers = self.layers.iter().filter(|(own, _)| own == name);
        layers.any(|(_, layer)| match layer {
            NetLayer::Conv2d(layer) => layer.levels != WeightLevels::Float,
            NetLayer::Linear(layer) => layer.levels != WeightLevels::Float,
            NetLayer::Activation(levels) => *levels != ActivationLevels::Relu,
            NetLayer::MaxPool(_) | NetLayer::BatchNorm(_) => false,
        })
    }

    /// Checks the numbers of parameters and of tensors of the state.
    pub(super) fn check_counts(
        &self,
        operation: &'static str,
        n_parameters: usize,
        n_state: usize,
    ) -> Result<()> {
        let expected = self.parameters().len();
        check_count(operation, "parameters", n_parameters, expected)?;
        check_count(operation, "state", n_state, self.state_names().len())
    }

    /// Checks the numbers of elements of all parameters and of all tensors of the state.
    pub(super) fn check_lens(
        &self,
        operation: &'static str,
        parameters: &[Vec<f32>],
        state: &[Vec<f32>],
    ) -> Result<()> {
        self.check_counts(operation, parameters.len(), state.len())?;
        for place in self.places() {
            let check = || {
                let shapes = shapes_of(&place.layer.parameters(place.image));
                let of_state = place.layer.state_shapes(place.image)?;
                let own = place.own(parameters).iter().chain(place.own_state(state));
                for ((name, shape), numbers) in shapes.iter().chain(&of_state).zip(own) {
                    check_count(operation, name, numbers.len(), product(shape))?;
                }
                Ok(())
            };
            check().map_err(|error: Error| error.in_layer(place.name))?;
        }
        Ok(())
    }

    /// Returns the outputs of a training step for numbers `[batch, height, width, channels]`.
    ///
    /// # Errors
    /// [`Error::ImageShape`] and [`Error::Type`] for other images; [`Error::Length`] for another
    /// number of parameters or tensors of the state than the net has; [`Error::Layer`] with the
    /// error of a layer.
    pub fn apply(&self, x: &Tensor, parameters: &[Tensor], state: &[Tensor]) -> Result<NetOutput> {
        let operation = "Net::apply";
        batch_of(operation, x, self.input.size, DType::F32)?;
        self.check_counts(operation, parameters.len(), state.len())?;
        let mut net = NetOutput {
            output: x.clone(),
            state: Vec::with_capacity(state.len()),
            are_finite: Vec::new(),
        };
        for place in self.places() {
            let (own, own_state) = (place.own(parameters), place.own_state(state));
            let applied = place.layer.apply(&net.output, own, own_state);
            let applied = applied.map_err(|error| error.in_layer(place.name))?;
            if place.layer.is_product() {
                // A sum is not finite if one of its terms is not finite.
                let sum = applied.output.stop_gradient().sum(..);
                net.are_finite.push(sum.abs().lt(f64::INFINITY));
            }
            net.output = applied.output;
            net.state.extend(applied.state);
        }
        Ok(net)
    }

    /// Returns the network with trained parameters and state, as [`Network`] computes it: with the
    /// averages of batch normalizations and the levels of the state.
    ///
    /// # Errors
    /// [`Error::Layer`] with [`Error::LayerOrder`] for an order of layers that a [`Network`] does
    /// not have, with [`Error::Length`] for another number of elements than the tensor of a layer
    /// has, and with the error of a layer whose numbers are invalid; [`Error::Length`] for another
    /// number of parameters or tensors of the state than the net has.
    pub fn network(&self, parameters: &[Vec<f32>], state: &[Vec<f32>]) -> Result<Network> {
        let operation = "Net::network";
        self.check_lens(operation, parameters, state)?;
        let mut layers: Vec<Layer> = Vec::new();
        // The position of the previous layer in the order product, pool, normalization, activation.
        // A max-pool later than its position leaves the position as it is.
        let mut order = 4;
        for place in self.places() {
            let (name, image) = (place.name, place.image);
            let (own, own_state) = (place.own(parameters), place.own_state(state));
            let merge = || -> Result<(usize, Layer)> {
                let previous = layers.last().cloned();
                let next = match (place.layer, previous) {
                    (NetLayer::Conv2d(layer), _) => (0, layer.frozen(name, own, own_state)?),
                    (NetLayer::Linear(layer), _) => (0, layer.frozen(name, image, own, own_state)?),
                    (NetLayer::MaxPool(pool), Some(layer)) if order < 1 => {
                        (1, layer.with_pool(pool.window()))
                    }
                    (NetLayer::MaxPool(pool), Some(layer))
                        if order < 4 && layer.pool.is_identity() =>
                    {
                        (order, layer.with_pool_after_activation(pool.window())?)
                    }
                    (NetLayer::BatchNorm(norm), Some(layer)) if order < 2 => {
                        let bias = layer.normalization.bias.clone();
                        let norm = norm.frozen(own, own_state)?.with_bias(&bias)?;
                        (2, layer.with_normalization(norm))
                    }
                    (NetLayer::Activation(levels), Some(layer)) if order < 3 => {
                        (3, layer.with_activation(levels.frozen(own, own_state)?))
                    }
                    _ => return Err(Error::LayerOrder { operation }),
                };
                Ok(next)
            };
            let (next, merged) = merge().map_err(|error| error.in_layer(name))?;
            if next > 0 {
                layers.pop();
            }
            layers.push(merged);
            order = next;
        }
        Network::new(self.input.clone(), layers)
    }
}

fn named(layer: &str, slots: Vec<Slot>) -> impl Iterator<Item = (String, Slot)> {
    slots
        .into_iter()
        .map(move |slot| (format!("{layer}.{}", slot.name), slot))
}

/// Writes the layers, separated by `; `, as checkpoints store them.
impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let InputImage {
            size,
            scale,
            offset,
        } = &self.input;
        write!(f, "input {size:?} scale {scale:?} offset {offset:?}")?;
        for (name, layer) in &self.layers {
            write!(f, "; {name}: ")?;
            match layer {
                NetLayer::Conv2d(layer) => {
                    let (outputs, groups) = (layer.n_outputs, layer.n_groups);
                    write!(f, "conv2d {outputs} outputs, {groups} groups, ")?;
                    write_window(f, &layer.window)?;
                    let (value, bias) = (layer.padding_value, layer.has_bias);
                    write!(f, ", padding value {value}, bias {bias}, {}", layer.levels)?;
                }
                NetLayer::Linear(layer) => {
                    let (outputs, bias) = (layer.n_outputs, layer.has_bias);
                    write!(f, "linear {outputs} outputs, bias {bias}, {}", layer.levels)?;
                }
                NetLayer::MaxPool(layer) => {
                    write!(f, "max pool ")?;
                    write_window(f, &layer.window())?;
                }
                NetLayer::BatchNorm(layer) => write!(f, "{layer}")?,
                NetLayer::Activation(levels) => write!(f, "{levels}")?,
            }
        }
        Ok(())
    }
}

fn write_window(f: &mut fmt::Formatter<'_>, window: &Window) -> fmt::Result {
    let Window {
        size,
        stride,
        dilation,
        padding,
    } = window;
    write!(
        f,
        "size {size:?}, stride {stride:?}, dilation {dilation:?}, padding {padding:?}"
    )
}
