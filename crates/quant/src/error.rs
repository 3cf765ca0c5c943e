//! Errors of this crate.

use tensor_core::{DType, Tensor};

/// A `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a level set, a fit, a packed convolution, a network or a model file.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A number of bits, or of basis numbers, is 0 or too large.
    #[error("{operation}: unsupported number of bits ({bits}; expected 1 to {limit})")]
    BitCount {
        /// The name of the operation.
        operation: &'static str,
        /// The number of bits.
        bits: usize,
        /// The largest supported number of bits.
        limit: usize,
    },
    /// A number, such as a basis number, a size or a decay, is outside its valid range.
    #[error("{operation}: {quantity} is {value} (expected {expected})")]
    InvalidNumber {
        /// The name of the operation.
        operation: &'static str,
        /// The name of the quantity.
        quantity: &'static str,
        /// The value.
        value: f64,
        /// The valid values, in words.
        expected: &'static str,
    },
    /// A NaN in data that must not contain one.
    #[error("{operation}: element {index} is NaN")]
    NotANumber {
        /// The name of the operation.
        operation: &'static str,
        /// The position of the first NaN.
        index: usize,
    },
    /// Input without elements: data, levels or channels.
    #[error("{operation}: the input is empty (expected at least one element)")]
    Empty {
        /// The name of the operation.
        operation: &'static str,
    },
    /// Slices of different lengths where equal lengths are required.
    #[error("{operation}: lengths differ ({left} and {right})")]
    LengthMismatch {
        /// The name of the operation.
        operation: &'static str,
        /// The length of the first slice.
        left: usize,
        /// The length of the second slice.
        right: usize,
    },
    /// Data that is not divisible into channels of equal length.
    #[error("{operation}: {len} elements cannot be divided into {n_channels} channels")]
    UnevenChannels {
        /// The name of the operation.
        operation: &'static str,
        /// The number of elements.
        len: usize,
        /// The number of channels.
        n_channels: usize,
    },
    /// A code that no level or layout has.
    #[error("{operation}: element {index} has code {code} (expected {expected})")]
    UnknownCode {
        /// The name of the operation.
        operation: &'static str,
        /// The position of the code.
        index: usize,
        /// The code.
        code: u8,
        /// The valid codes, in words.
        expected: String,
    },
    /// A least-squares problem without a unique solution, because the data is in too few cells.
    #[error(
        "{operation}: the least squares of {n_bases} unknowns have no unique solution (number of cells that contain data: {n_cells})"
    )]
    Singular {
        /// The name of the operation.
        operation: &'static str,
        /// The number of unknowns.
        n_bases: usize,
        /// The number of cells that contain data.
        n_cells: usize,
    },
    /// A window with a number that is 0 or too large, or that does not fit an image.
    #[error(
        "window of {size:?} taps: no output for an image of {image:?} positions (stride {stride:?}, dilation {dilation:?}, padding {padding:?}; the window must fit the padded image, size, stride and dilation must be 1 to {limit}, and padding at most {limit})",
        limit = crate::error::MAX_WINDOW
    )]
    Window {
        /// The height and the width of the image.
        image: [usize; 2],
        /// The number of taps along each axis.
        size: [usize; 2],
        /// The stride along each axis.
        stride: [usize; 2],
        /// The dilation along each axis.
        dilation: [usize; 2],
        /// The padding before and after each axis.
        padding: [[usize; 2]; 2],
    },
    /// Data with another number of elements than the shape requires.
    #[error("{operation}: {quantity} has {actual} elements (expected {expected})")]
    Length {
        /// The name of the operation.
        operation: &'static str,
        /// The name of the data.
        quantity: &'static str,
        /// The number of elements.
        actual: usize,
        /// The expected number.
        expected: usize,
    },
    /// Channels that cannot be divided into groups.
    #[error("{operation}: {n_channels} channels cannot be divided into {n_groups} groups")]
    Groups {
        /// The name of the operation.
        operation: &'static str,
        /// The number of channels.
        n_channels: usize,
        /// The number of groups.
        n_groups: usize,
    },
    /// A sum of so many products that i32 leaves no bits for their coefficients.
    #[error(
        "{operation}: the sums of output channel {channel} do not fit i32 ({n_products} products; bound on the sum 2^{bits:.1}, expected below 2^31)"
    )]
    SumOverflow {
        /// The name of the operation.
        operation: &'static str,
        /// The output channel.
        channel: usize,
        /// The number of products in a sum.
        n_products: usize,
        /// The binary logarithm of a bound on the sum.
        bits: f64,
    },
    /// Level sets of one layer's channels with different numbers of bits, or with different factors
    /// of the bits.
    #[error("{operation}: channel {channel} has other bits or factors than channel 0")]
    MixedChannels {
        /// The name of the operation.
        operation: &'static str,
        /// The first channel that differs.
        channel: usize,
    },
    /// A layer whose activation the operation does not support.
    #[error("{operation}: the activation is {actual} (expected {expected})")]
    Activation {
        /// The name of the operation.
        operation: &'static str,
        /// The kind of the activation.
        actual: &'static str,
        /// The supported kind.
        expected: &'static str,
    },
    /// A tensor that is no batch of images of the expected size.
    #[error("{operation}: the input has shape {actual:?} (expected [batch, {}, {}, {}])", expected[0], expected[1], expected[2])]
    ImageShape {
        /// The name of the operation.
        operation: &'static str,
        /// The shape of the tensor.
        actual: Vec<usize>,
        /// The height, the width and the channels of an image.
        expected: [usize; 3],
    },
    /// A tensor whose shape does not match the other operands.
    #[error("{operation}: {quantity} has shape {actual:?} (expected {expected})")]
    Shape {
        /// The name of the operation.
        operation: &'static str,
        /// The name of the tensor.
        quantity: &'static str,
        /// The shape of the tensor.
        actual: Vec<usize>,
        /// The expected shape, in words.
        expected: String,
    },
    /// A fit with an offset to which no offset was given.
    #[error("{operation}: offset is missing (expected [{n_channels}])")]
    OffsetMissing {
        /// The name of the operation.
        operation: &'static str,
        /// The number of channels, each of which has an offset.
        n_channels: usize,
    },
    /// A tensor of another type than the operation requires.
    #[error("{operation}: {quantity} has type {actual} (expected {expected})")]
    Type {
        /// The name of the operation.
        operation: &'static str,
        /// The name of the tensor.
        quantity: &'static str,
        /// The type of the tensor.
        actual: DType,
        /// The expected type.
        expected: DType,
    },
    /// A text or a tensor of a model file that is missing or has an unexpected value.
    #[error("{operation}: {key} is {actual} (expected {expected})")]
    ModelFile {
        /// The name of the operation.
        operation: &'static str,
        /// The key of the text, or the name of the tensor.
        key: String,
        /// The value, the type and shape, or "missing".
        actual: String,
        /// The expected value, in words.
        expected: String,
    },
    /// A file whose elements have another type than the operation requires.
    #[error("{operation}: unsupported type of elements (expected {expected})")]
    ElementType {
        /// The name of the operation.
        operation: &'static str,
        /// The expected type, in words.
        expected: &'static str,
    },
    /// An error of a file.
    #[error("{path}: {source}")]
    File {
        /// The path of the file.
        path: String,
        /// The error.
        source: Box<Self>,
    },
    /// An unknown name of levels.
    #[error(
        "{operation}: unknown levels {text:?} (expected float, w1a1 to w4a4, u1a1 to u4a4, d1a1 to d8a8, or abc1a1 to abc8a8)"
    )]
    LevelsName {
        /// The name of the operation.
        operation: &'static str,
        /// The text.
        text: String,
    },
    /// A label outside the range of classes.
    #[error("{operation}: the label of image {index} is {label} (expected 0 to {})", n_classes.saturating_sub(1))]
    Label {
        /// The name of the operation.
        operation: &'static str,
        /// The position of the image.
        index: usize,
        /// The label.
        label: u32,
        /// The number of classes.
        n_classes: usize,
    },
    /// Two layers of the same name.
    #[error("{operation}: two layers have the name {name:?}")]
    LayerName {
        /// The name of the operation.
        operation: &'static str,
        /// The name of the layers.
        name: String,
    },
    /// A layer at a place that [`Network`](crate::Network) does not support.
    #[error(
        "{operation}: the layer is at the wrong place (expected a convolution or linear layer, then at most one batch normalization before at most one activation, and at most one max-pool anywhere after the convolution)"
    )]
    LayerOrder {
        /// The name of the operation.
        operation: &'static str,
    },
    /// Levels of an activation that do not ascend, in a layer whose max-pool follows the
    /// activation.
    #[error(
        "{operation}: the levels of the activation do not ascend, so the max-pool cannot be computed before the activation"
    )]
    FallingLevels {
        /// The name of the operation.
        operation: &'static str,
    },
    /// Levels that are not symmetric about 0, in a channel whose weights change their signs.
    #[error(
        "{operation}: the levels of output {channel} are not symmetric about 0, so its weights cannot change their signs (its batch normalization has a negative factor)"
    )]
    OneSidedLevels {
        /// The name of the operation.
        operation: &'static str,
        /// The index of the output.
        channel: usize,
    },
    /// A training whose values are not finite.
    #[error(
        "training: {layer} is not finite in step {step} (counted from 0); try a smaller learning rate"
    )]
    NotFinite {
        /// The first step with such values, counted from 0.
        step: usize,
        /// The first layer with such an output in this step, "loss", or the name of a tensor after
        /// the step.
        layer: String,
    },
    /// The sum over the shards of a batch failed.
    #[error("training: the sum over shards failed: {message}")]
    ShardSum {
        /// The message of the function that sums.
        message: String,
    },
    /// An error of one layer of a network.
    #[error("layer {layer:?}: {source}")]
    Layer {
        /// The name of the layer.
        layer: String,
        /// The error.
        source: Box<Self>,
    },
    /// An error of a tensor program.
    #[error(transparent)]
    Tensor(#[from] tensor_core::Error),
    /// A device failed.
    #[cfg(feature = "gpu")]
    #[error(transparent)]
    Device(Box<gpu_wgsl::Error>),
}

#[cfg(feature = "gpu")]
impl From<gpu_wgsl::Error> for Error {
    fn from(error: gpu_wgsl::Error) -> Self {
        Self::Device(Box::new(error))
    }
}

impl Error {
    /// Returns the error of a text or tensor of a model file. Only the beginning of `actual` is
    /// shown, because a damaged file can have a text or a shape of any length.
    pub(crate) fn model_file(
        operation: &'static str,
        key: &str,
        actual: &str,
        expected: &str,
    ) -> Self {
        /// The number of characters that are shown.
        const MAX_SHOWN: usize = 80;
        Self::ModelFile {
            operation,
            key: key.to_owned(),
            actual: actual.chars().take(MAX_SHOWN).collect(),
            expected: expected.to_owned(),
        }
    }

    /// Returns the error with the path of the file in which it occurred.
    pub(crate) fn in_file(self, path: &std::path::Path) -> Self {
        match self {
            // The errors of the file system and of the format have the path already.
            Self::Tensor(_) => self,
            Self::Layer { ref source, .. } if matches!(**source, Self::Tensor(_)) => self,
            _ => Self::File {
                path: path.display().to_string(),
                source: Box::new(self),
            },
        }
    }

    /// Returns the error with the name of the layer in which it occurred.
    pub(crate) fn in_layer(self, layer: &str) -> Self {
        Self::Layer {
            layer: layer.to_owned(),
            source: Box::new(self),
        }
    }
}

/// The largest number in a window; no sum or product of two such numbers overflows.
pub(crate) const MAX_WINDOW: usize = 1 << 15;

/// Checks that data consists of whole units of `unit` elements.
pub(crate) fn check_multiple(
    operation: &'static str,
    quantity: &'static str,
    actual: usize,
    unit: usize,
) -> Result<()> {
    if actual.is_multiple_of(unit) {
        return Ok(());
    }
    Err(Error::Length {
        operation,
        quantity,
        actual,
        expected: actual.checked_next_multiple_of(unit).unwrap_or(0),
    })
}

/// The largest height, width and number of channels of an image.
pub(crate) const MAX_SIDE: usize = 1 << 20;

/// Returns the product of sizes, or the largest `usize` if the product is larger. The product is 0
/// if a size is 0.
pub(crate) fn product(sizes: &[usize]) -> usize {
    sizes
        .iter()
        .fold(1, |n: usize, &size| n.saturating_mul(size))
}

/// Checks a number of outputs.
pub(crate) fn check_outputs(operation: &'static str, n_outputs: usize) -> Result<()> {
    let is_valid = (1..=MAX_SIDE).contains(&n_outputs);
    check(
        operation,
        "number of outputs",
        n_outputs as f64,
        is_valid,
        "1 to 2^20",
    )
}

/// Checks that the channels of the input and of the output can be divided into groups.
pub(crate) fn check_groups(
    operation: &'static str,
    n_groups: usize,
    n_channels: [usize; 2],
) -> Result<()> {
    for n_channels in n_channels {
        if n_groups == 0 || !n_channels.is_multiple_of(n_groups) || n_channels == 0 {
            return Err(Error::Groups {
                operation,
                n_channels,
                n_groups,
            });
        }
    }
    Ok(())
}

/// Checks the type of a tensor.
pub(crate) fn check_type(
    operation: &'static str,
    quantity: &'static str,
    tensor: &Tensor,
    expected: DType,
) -> Result<()> {
    let actual = tensor.dtype()?;
    if actual == expected {
        return Ok(());
    }
    Err(Error::Type {
        operation,
        quantity,
        actual,
        expected,
    })
}

/// Checks the number of elements of a list.
pub(crate) fn check_count(
    operation: &'static str,
    quantity: &'static str,
    actual: usize,
    expected: usize,
) -> Result<()> {
    if actual == expected {
        return Ok(());
    }
    Err(Error::Length {
        operation,
        quantity,
        actual,
        expected,
    })
}

/// Checks a number; `expected` describes the valid numbers.
pub(crate) fn check(
    operation: &'static str,
    quantity: &'static str,
    value: f64,
    is_valid: bool,
    expected: &'static str,
) -> Result<()> {
    if is_valid {
        return Ok(());
    }
    Err(Error::InvalidNumber {
        operation,
        quantity,
        value,
        expected,
    })
}

/// Checks that a number is finite.
pub(crate) fn finite(operation: &'static str, quantity: &'static str, value: f64) -> Result<()> {
    check(
        operation,
        quantity,
        value,
        value.is_finite(),
        "a finite number",
    )
}

/// Checks that a number is positive and finite.
pub(crate) fn positive(operation: &'static str, quantity: &'static str, value: f64) -> Result<()> {
    let is_valid = value > 0.0 && value.is_finite();
    check(
        operation,
        quantity,
        value,
        is_valid,
        "a positive finite number",
    )
}
