//! The errors of this crate.
//!
//! Role: one enum for every error that input can cause. Each variant names the operation and holds
//! the shapes, axes and indices that identify the mistake without a debugger. Einsum, data files
//! and optimizers have error types of their own, which convert into this one.

use std::panic::Location;
use std::sync::Arc;

use crate::DType;

pub use data::DataError;
pub use einsum::{EinsumError, Label};
pub use idx::IdxError;
pub use optim::OptimError;

mod data;
mod einsum;
mod idx;
mod optim;

/// A `Result` with this crate's [`Error`] as the default error type.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of this crate: shapes, types, views, arrays, plans, executors, einsum, data files or
/// optimizers.
///
/// Errors are cheap to clone: a node of a lazy program stores its error and returns a clone later.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A shape has more elements than an operation can address: their number or their bytes exceed
    /// `isize::MAX`, or an axis has more positions than an index.
    #[error("{operation}: shape {shape:?} has too many elements (limit {limit})")]
    TooLarge {
        /// The name of the operation.
        operation: &'static str,
        /// The shape that is too large.
        shape: Vec<usize>,
        /// The largest allowed number of elements: of the whole shape, or of one axis.
        limit: usize,
    },
    /// A shape has more axes than views and tensors support.
    #[error("{operation}: the shape has too many axes (rank {rank}; limit {limit})")]
    RankTooLarge {
        /// The name of the operation.
        operation: &'static str,
        /// The number of axes.
        rank: usize,
        /// The largest supported number of axes.
        limit: usize,
    },
    /// An operation requires a tensor of exactly one element.
    #[error("{operation}: expected a tensor of one element (shape {shape:?})")]
    NotAScalar {
        /// The name of the operation.
        operation: &'static str,
        /// The shape of the operand.
        shape: Vec<usize>,
    },
    /// The elements of an argument were read while `jit` traced a function.
    #[error(
        "jit: arguments have no data while tracing; return the tensor instead of evaluating it"
    )]
    NoData,
    /// A derivative of or with respect to a tensor that is not a float.
    #[error("{operation}: {dtype} is not differentiable (only floats are)")]
    NotDifferentiable {
        /// The name of the operation.
        operation: &'static str,
        /// The type of the operand.
        dtype: DType,
    },
    /// The number of elements of a buffer differs from that of its shape.
    #[error("{operation}: shape {shape:?} has {expected} elements, but the data has {actual}")]
    LengthMismatch {
        /// The name of the operation.
        operation: &'static str,
        /// The requested shape.
        shape: Vec<usize>,
        /// The number of elements of `shape`.
        expected: usize,
        /// The number of elements in the buffer.
        actual: usize,
    },
    /// Shapes do not broadcast: two sizes on one axis differ and neither is 1.
    #[error(
        "{operation}: shapes {shapes:?} do not broadcast (sizes {left} and {right} on axis {axis})"
    )]
    BroadcastMismatch {
        /// The name of the operation.
        operation: &'static str,
        /// The shapes of all operands, in argument order.
        shapes: Vec<Vec<usize>>,
        /// The axis of the result on which the sizes differ.
        axis: usize,
        /// The size of the axis after broadcasting the earlier shapes.
        left: usize,
        /// The size that does not match `left`.
        right: usize,
    },
    /// A shape cannot be broadcast to the requested shape.
    #[error("{operation}: shape {from:?} does not broadcast to {to:?}")]
    NotBroadcastable {
        /// The name of the operation.
        operation: &'static str,
        /// The shape of the operand.
        from: Vec<usize>,
        /// The requested shape.
        to: Vec<usize>,
    },
    /// The array for the result does not have the shape of the product.
    #[error(
        "matmul: the result has shape {result:?} (expected that of the product of {left:?} and {right:?})"
    )]
    MatmulMismatch {
        /// The shape of the left operand.
        left: [usize; 2],
        /// The shape of the right operand.
        right: [usize; 2],
        /// The shape of the array for the result.
        result: [usize; 2],
    },
    /// The operand is not a matrix of `f32`.
    #[error("{operation}: expected a matrix of f32 (got {dtype} {shape:?})")]
    MatrixExpected {
        /// The name of the operation.
        operation: &'static str,
        /// The shape of the operand.
        shape: Vec<usize>,
        /// The type of the operand.
        dtype: DType,
    },
    /// An axis is not in `-rank..rank`.
    #[error("{operation}: axis {axis} is out of range for shape {shape:?}")]
    AxisOutOfRange {
        /// The name of the operation.
        operation: &'static str,
        /// The axis as passed by the caller.
        axis: isize,
        /// The shape of the operand.
        shape: Vec<usize>,
    },
    /// A list of axes lacks an axis or contains one twice.
    #[error("{operation}: axes {axes:?} are not a permutation of the axes of shape {shape:?}")]
    NotAPermutation {
        /// The name of the operation.
        operation: &'static str,
        /// The axes as passed by the caller.
        axes: Vec<isize>,
        /// The shape of the operand.
        shape: Vec<usize>,
    },
    /// The number of strides of a view differs from its number of axes.
    #[error("{operation}: shape {shape:?} needs one stride per axis (got {strides:?})")]
    StrideCount {
        /// The name of the operation.
        operation: &'static str,
        /// The shape of the view.
        shape: Vec<usize>,
        /// The strides as passed by the caller.
        strides: Vec<isize>,
    },
    /// A view reads outside its buffer.
    #[error(
        "{operation}: view of shape {shape:?} reads offsets {low} to {high} of a buffer of {len} elements"
    )]
    OutOfBounds {
        /// The name of the operation.
        operation: &'static str,
        /// The shape of the view.
        shape: Vec<usize>,
        /// The smallest offset that the view reads.
        low: i128,
        /// The largest offset that the view reads.
        high: i128,
        /// The number of elements in the buffer.
        len: usize,
    },
    /// A reshape changes the number of elements.
    #[error(
        "{operation}: the number of elements changes ({from:?} has {from_len}, {to:?} has {to_len})"
    )]
    ElementCount {
        /// The name of the operation.
        operation: &'static str,
        /// The shape of the operand.
        from: Vec<usize>,
        /// The number of elements of the operand.
        from_len: usize,
        /// The requested shape.
        to: Vec<usize>,
        /// The number of elements of the requested shape.
        to_len: usize,
    },
    /// The axis to remove does not have size 1.
    #[error("{operation}: axis {axis} of shape {shape:?} does not have size 1")]
    NotSizeOne {
        /// The name of the operation.
        operation: &'static str,
        /// The axis as passed by the caller.
        axis: isize,
        /// The shape of the operand.
        shape: Vec<usize>,
    },
    /// The step of a slice or window is zero.
    #[error("{operation}: the step on axis {axis} of shape {shape:?} is zero")]
    ZeroStep {
        /// The name of the operation.
        operation: &'static str,
        /// The axis as passed by the caller.
        axis: isize,
        /// The shape of the operand.
        shape: Vec<usize>,
    },
    /// The size of a window is zero or exceeds its axis.
    #[error("{operation}: window size {size} is zero or exceeds axis {axis} of shape {shape:?}")]
    WindowSize {
        /// The name of the operation.
        operation: &'static str,
        /// The axis as passed by the caller.
        axis: isize,
        /// The size of the window, in elements.
        size: usize,
        /// The shape of the operand.
        shape: Vec<usize>,
    },
    /// An axis has fewer elements than an operation selects.
    #[error(
        "{operation}: axis {axis} has too few elements ({available}; {requested} requested; shape {shape:?})"
    )]
    TooFewElements {
        /// The name of the operation.
        operation: &'static str,
        /// The number of elements to select.
        requested: usize,
        /// The number of elements of the axis.
        available: usize,
        /// The axis as passed by the caller.
        axis: isize,
        /// The shape of the operand.
        shape: Vec<usize>,
    },
    /// A list of axes contains an axis twice.
    #[error("{operation}: axes {axes:?} contain an axis of shape {shape:?} twice")]
    RepeatedAxis {
        /// The name of the operation.
        operation: &'static str,
        /// The axes as passed by the caller.
        axes: Vec<isize>,
        /// The shape of the operand.
        shape: Vec<usize>,
    },
    /// The operands have different types. No type is converted without a `cast`.
    #[error("{operation}: types {left} and {right} differ")]
    DTypeMismatch {
        /// The name of the operation.
        operation: &'static str,
        /// The type of the first operand.
        left: DType,
        /// The first type that differs from `left`.
        right: DType,
    },
    /// The operation is not defined on the type.
    #[error("{operation}: not defined on {dtype}")]
    DTypeUnsupported {
        /// The name of the operation.
        operation: &'static str,
        /// The type of the operand.
        dtype: DType,
    },
    /// A number cannot be converted to the type of the other operand, a tensor.
    #[error("{operation}: {value} cannot be converted to {dtype}")]
    Unrepresentable {
        /// The name of the operation.
        operation: &'static str,
        /// The number.
        value: String,
        /// The type of the tensor.
        dtype: DType,
    },
    /// The fill value of a padding is a tensor instead of a number.
    #[error("{operation}: the fill value must be a number, not a tensor")]
    NotConstant {
        /// The name of the operation.
        operation: &'static str,
    },
    /// The number of bins or the limits of a histogram are invalid.
    #[error(
        "{operation}: invalid bins ({n_bins} bins from {low:?} to {high:?}; expected 1 to {most} bins, and finite \
         limits with low < high that are far enough apart for so many bins)"
    )]
    InvalidBins {
        /// The name of the operation.
        operation: &'static str,
        /// The number of bins.
        n_bins: usize,
        /// The largest number of bins.
        most: usize,
        /// The lower limit.
        low: f64,
        /// The upper limit.
        high: f64,
    },
    /// A maximum, a minimum or a selection over an axis without elements, which has no result.
    #[error("{operation}: no elements to choose from (shape {shape:?} has an axis of size 0)")]
    EmptyReduction {
        /// The name of the operation.
        operation: &'static str,
        /// The shape of the operand.
        shape: Vec<usize>,
    },
    /// The tensors to join differ on an axis other than the joined one, or the list is empty.
    #[error("{operation}: shapes {shapes:?} cannot be joined along axis {axis}")]
    ConcatMismatch {
        /// The name of the operation.
        operation: &'static str,
        /// The axis as passed by the caller.
        axis: isize,
        /// The shapes, in argument order.
        shapes: Vec<Vec<usize>>,
    },
    /// The size of an axis is not divisible by the requested number of equal parts.
    #[error(
        "{operation}: axis {axis} of shape {shape:?} cannot be split into {n} equal parts (limit {limit})"
    )]
    UnevenSplit {
        /// The name of the operation.
        operation: &'static str,
        /// The axis as passed by the caller.
        axis: isize,
        /// The shape of the operand.
        shape: Vec<usize>,
        /// The requested number of parts.
        n: usize,
        /// The largest number of parts.
        limit: usize,
    },
    /// The rows of words do not have the number of words for the requested number of bits.
    #[error(
        "{operation}: {n_bits} bits are in {} words of 32 bits (the last axis of shape {shape:?} has another size)",
        n_bits.div_ceil(32)
    )]
    WordCount {
        /// The name of the operation.
        operation: &'static str,
        /// The shape of the words.
        shape: Vec<usize>,
        /// The requested number of bits.
        n_bits: usize,
    },
    /// The inner sizes of a matrix product differ.
    #[error("{operation}: inner dimensions differ (left {left:?}, right {right:?})")]
    InnerMismatch {
        /// The name of the operation.
        operation: &'static str,
        /// The shape of the left operand.
        left: Vec<usize>,
        /// The shape of the right operand.
        right: Vec<usize>,
    },
    /// An index is outside of its axis.
    #[error("run: index {index} is out of range (the axis has {extent} elements)")]
    IndexOutOfRange {
        /// The position.
        index: f64,
        /// The size of the axis.
        extent: usize,
    },
    /// The elements of a tensor were read before the tensor was computed.
    #[error("{operation}: the tensor has not been computed; call realize or eval first")]
    NotRealized {
        /// The name of the operation.
        operation: &'static str,
    },
    /// The requested element type differs from the type of the tensor.
    #[error(
        "{operation}: requested elements of type {requested}, but the tensor has type {actual}"
    )]
    ElementTypeMismatch {
        /// The name of the operation.
        operation: &'static str,
        /// The requested type.
        requested: DType,
        /// The type of the tensor.
        actual: DType,
    },
    /// The number of arrays differs from the plan's number of inputs.
    #[error("run: wrong number of input arrays (got {actual}, expected {expected})")]
    InputCount {
        /// The number of inputs of the plan.
        expected: usize,
        /// The number of arrays passed.
        actual: usize,
    },
    /// The type or length of an array differs from that of the plan's input.
    #[error("run: array does not match input {number} (expected {} {:?}, got {} elements of {})", expected.0, expected.1, actual.1, actual.0)]
    InputMismatch {
        /// The index of the input, from 0.
        number: usize,
        /// The type and shape of the input.
        expected: (DType, Vec<usize>),
        /// The type and length of the array.
        actual: (DType, usize),
    },
    /// The list of executors is empty.
    #[error("run: the list of executors is empty")]
    NoExecutor,
    /// There is not enough free memory for an array.
    #[error("{executor}: out of memory for {len} elements of {dtype}")]
    OutOfMemory {
        /// The name of the executor.
        executor: &'static str,
        /// The number of elements.
        len: usize,
        /// The type of the elements.
        dtype: DType,
    },
    /// A plan, or the loop nest of one of its steps, breaks a rule of its format.
    #[error("run: {what}")]
    BadStep {
        /// A description of the broken rule and of the part of the step or plan that breaks the
        /// rule.
        what: String,
    },
    /// A device returned an error. The source of this error is the device's own error.
    #[error("{executor}: {source}")]
    Device {
        /// The name of the executor.
        executor: String,
        /// The device's error.
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// An input array is stored in the memory of another executor.
    #[error("run: input belongs to another executor")]
    ForeignStorage,
    /// A step's result differs from that of the reference executor. The two are compared only with
    /// `TENSOR_VERIFY=1` in the environment.
    #[error(
        "{executor}: a step over {domain:?}, reduced over {reduce:?}, differs from the oracle: {what}"
    )]
    VerifyFailed {
        /// The name of the executor.
        executor: String,
        /// The sizes of the step's output axes.
        domain: Vec<usize>,
        /// The sizes of the step's reduced axes.
        reduce: Vec<usize>,
        /// The report of the comparison.
        what: String,
    },
    /// An error of a lazy program, with the source line of the operation.
    #[error("{error}, at {}:{}:{}", location.file(), location.line(), location.column())]
    At {
        /// The error.
        error: Box<Self>,
        /// The source line of the operation.
        location: &'static Location<'static>,
    },
    /// An einsum specification is malformed or does not match its operands.
    #[error(transparent)]
    Einsum(#[from] EinsumError),
    /// An IDX file could not be read or written.
    #[error(transparent)]
    Idx(#[from] IdxError),
    /// An NPY or safetensors file could not be read or written.
    #[error(transparent)]
    Data(#[from] DataError),
    /// An optimizer has invalid options, or its tensors do not match.
    #[error(transparent)]
    Optim(#[from] OptimError),
}

impl Error {
    /// Adds the source line of the operation. An error that already has a source line keeps it.
    #[must_use]
    pub fn at(self, location: &'static Location<'static>) -> Self {
        match self {
            Self::At { .. } => self,
            error => Self::At {
                error: Box::new(error),
                location,
            },
        }
    }

    /// Replaces the name of the operation. An operation that is composed of others uses this
    /// function, so that its errors have the name that the caller wrote and not the name of the
    /// failed part.
    pub(crate) fn renamed(mut self, name: &'static str) -> Self {
        if let Some(operation) = self.op_mut() {
            *operation = name;
        }
        self
    }

    /// Returns the name of the operation, if the error has this field. Every variant is listed, so
    /// that the compiler reports a new variant that is missing here.
    fn op_mut(&mut self) -> Option<&mut &'static str> {
        match self {
            Self::At { error, .. } => error.op_mut(),
            Self::TooLarge { operation, .. }
            | Self::RankTooLarge { operation, .. }
            | Self::MatrixExpected { operation, .. }
            | Self::LengthMismatch { operation, .. }
            | Self::BroadcastMismatch { operation, .. }
            | Self::NotBroadcastable { operation, .. }
            | Self::AxisOutOfRange { operation, .. }
            | Self::NotAPermutation { operation, .. }
            | Self::StrideCount { operation, .. }
            | Self::OutOfBounds { operation, .. }
            | Self::ElementCount { operation, .. }
            | Self::NotSizeOne { operation, .. }
            | Self::ZeroStep { operation, .. }
            | Self::WindowSize { operation, .. }
            | Self::TooFewElements { operation, .. }
            | Self::RepeatedAxis { operation, .. }
            | Self::DTypeMismatch { operation, .. }
            | Self::DTypeUnsupported { operation, .. }
            | Self::Unrepresentable { operation, .. }
            | Self::NotConstant { operation }
            | Self::EmptyReduction { operation, .. }
            | Self::InvalidBins { operation, .. }
            | Self::ConcatMismatch { operation, .. }
            | Self::UnevenSplit { operation, .. }
            | Self::WordCount { operation, .. }
            | Self::InnerMismatch { operation, .. }
            | Self::NotRealized { operation }
            | Self::NotAScalar { operation, .. }
            | Self::NotDifferentiable { operation, .. }
            | Self::ElementTypeMismatch { operation, .. } => Some(operation),
            Self::MatmulMismatch { .. }
            | Self::NoData
            | Self::IndexOutOfRange { .. }
            | Self::InputCount { .. }
            | Self::InputMismatch { .. }
            | Self::NoExecutor
            | Self::OutOfMemory { .. }
            | Self::BadStep { .. }
            | Self::Device { .. }
            | Self::ForeignStorage
            | Self::VerifyFailed { .. }
            | Self::Einsum(_)
            | Self::Idx(_)
            | Self::Data(_)
            | Self::Optim(_) => None,
        }
    }

    /// Returns the error without its source line.
    #[must_use]
    pub fn root(&self) -> &Self {
        match self {
            Self::At { error, .. } => error.root(),
            error => error,
        }
    }

    /// Returns the source line of the operation, if it is known.
    #[must_use]
    pub fn location(&self) -> Option<&'static Location<'static>> {
        match self {
            Self::At { location, .. } => Some(location),
            _ => None,
        }
    }
}
