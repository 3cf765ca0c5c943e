//! The errors of this crate.
//!
//! Role: one enum for everything that input can cause. Each variant names the operation and
//! carries the shapes, axes and indices that are needed to find the mistake without a debugger.
//! Einsum, data files and optimisers have enums of their own, which convert into this one.

use std::panic::Location;
use std::sync::Arc;

use crate::DType;
use crate::data::DataError;
use crate::data::idx::IdxError;
use crate::einsum::EinsumError;
use crate::optim::OptimError;

/// A result whose error is this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong with shapes, views, arrays, einsum and data files.
///
/// It is cheap enough to clone that a lazy program can keep one in a node and hand it out later.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The elements of a shape, or their bytes, exceed `isize::MAX`.
    #[error(
        "{op}: shape {shape:?} with elements of {element_bytes} bytes exceeds the address space"
    )]
    TooLarge {
        /// The operation that was asked for.
        op: &'static str,
        /// The shape that is too large.
        shape: Vec<usize>,
        /// The size of one element, in bytes; 1 where only elements are counted.
        element_bytes: usize,
    },
    /// A shape has more axes than a view or a tensor can have.
    #[error("{op}: the shape has too many axes (rank {rank}; limit {limit})")]
    RankTooLarge {
        /// The operation.
        op: &'static str,
        /// The number of axes.
        rank: usize,
        /// The largest number of axes.
        limit: usize,
    },
    /// A tensor of one element was asked for.
    #[error("{op}: a tensor of one element is asked for, not of shape {shape:?}")]
    NotAScalar {
        /// The operation that was asked for.
        op: &'static str,
        /// The shape that was given.
        shape: Vec<usize>,
    },
    /// The elements of an argument were asked for while a function was traced by `jit`.
    #[error("jit: a function is traced on arguments without data; return what it is to compute")]
    NoData,
    /// Derivatives flow through floats alone.
    #[error("{op}: derivatives are taken of floats, not of {dtype}")]
    NotDifferentiable {
        /// The operation that was asked for.
        op: &'static str,
        /// The type that was given.
        dtype: DType,
    },
    /// A buffer does not hold as many elements as its shape says.
    #[error("{op}: shape {shape:?} holds {expected} elements, the data {actual}")]
    LengthMismatch {
        /// The operation that was asked for.
        op: &'static str,
        /// The shape that was asked for.
        shape: Vec<usize>,
        /// The number of elements of that shape.
        expected: usize,
        /// The number of elements that were given.
        actual: usize,
    },
    /// Two sizes on one axis differ and neither is 1.
    #[error(
        "{op}: shapes {shapes:?} do not broadcast, sizes {left} and {right} meet on axis {axis}"
    )]
    BroadcastMismatch {
        /// The operation that was asked for.
        op: &'static str,
        /// All shapes that take part, in the order given.
        shapes: Vec<Vec<usize>>,
        /// The axis of the result on which the sizes meet.
        axis: usize,
        /// The size that the earlier shapes agree on.
        left: usize,
        /// The size that does not fit it.
        right: usize,
    },
    /// A shape cannot grow to the shape asked for.
    #[error("{op}: shape {from:?} does not broadcast to {to:?}")]
    NotBroadcastable {
        /// The operation that was asked for.
        op: &'static str,
        /// The shape of the operand.
        from: Vec<usize>,
        /// The shape asked for.
        to: Vec<usize>,
    },
    /// Matrices do not multiply, or the result has not the shape of their product.
    #[error("matmul: {left:?} times {right:?} into {result:?} does not fit")]
    MatmulMismatch {
        /// The shape of the left operand.
        left: [usize; 2],
        /// The shape of the right operand.
        right: [usize; 2],
        /// The shape of the result.
        result: [usize; 2],
    },
    /// Something else than a matrix of `f32`.
    #[error("{op}: takes a matrix of f32, not {dtype} {shape:?}")]
    MatrixExpected {
        /// The operation that was asked for.
        op: &'static str,
        /// The shape that was given.
        shape: Vec<usize>,
        /// The type that was given.
        dtype: DType,
    },
    /// An axis is not in `-rank..rank`.
    #[error("{op}: axis {axis} is out of range for shape {shape:?}")]
    AxisOutOfRange {
        /// The operation that was asked for.
        op: &'static str,
        /// The axis as the caller gave it.
        axis: isize,
        /// The shape of the operand.
        shape: Vec<usize>,
    },
    /// A list of axes misses one or names one twice.
    #[error("{op}: axes {axes:?} are not a permutation of the axes of shape {shape:?}")]
    NotAPermutation {
        /// The operation that was asked for.
        op: &'static str,
        /// The axes as the caller gave them.
        axes: Vec<isize>,
        /// The shape of the operand.
        shape: Vec<usize>,
    },
    /// A view was given more or fewer strides than axes.
    #[error("{op}: shape {shape:?} needs one stride an axis, got {strides:?}")]
    StrideCount {
        /// The operation that was asked for.
        op: &'static str,
        /// The shape of the view.
        shape: Vec<usize>,
        /// The strides as the caller gave them.
        strides: Vec<isize>,
    },
    /// A view reaches elements that its buffer does not have.
    #[error(
        "{op}: view of shape {shape:?} reaches offsets {low} to {high} of a buffer of {len} elements"
    )]
    OutOfBounds {
        /// The operation that was asked for.
        op: &'static str,
        /// The shape of the view.
        shape: Vec<usize>,
        /// The smallest offset that the view reaches.
        low: i128,
        /// The largest offset that the view reaches.
        high: i128,
        /// The number of elements that there are.
        len: usize,
    },
    /// A reshape changes the number of elements.
    #[error("{op}: shape {from:?} has {from_len} elements, {to:?} has {to_len}")]
    ElementCount {
        /// The operation that was asked for.
        op: &'static str,
        /// The shape of the operand.
        from: Vec<usize>,
        /// The number of elements of the operand.
        from_len: usize,
        /// The shape asked for.
        to: Vec<usize>,
        /// The number of elements of the shape asked for.
        to_len: usize,
    },
    /// An axis that is to be removed does not have size 1.
    #[error("{op}: axis {axis} of shape {shape:?} does not have size 1")]
    NotSizeOne {
        /// The operation that was asked for.
        op: &'static str,
        /// The axis as the caller gave it.
        axis: isize,
        /// The shape of the operand.
        shape: Vec<usize>,
    },
    /// A slice or window moves by zero elements.
    #[error("{op}: the step on axis {axis} of shape {shape:?} is zero")]
    ZeroStep {
        /// The operation that was asked for.
        op: &'static str,
        /// The axis as the caller gave it.
        axis: isize,
        /// The shape of the operand.
        shape: Vec<usize>,
    },
    /// A window is empty or longer than its axis.
    #[error("{op}: a window of size {size} does not fit axis {axis} of shape {shape:?}")]
    WindowSize {
        /// The operation that was asked for.
        op: &'static str,
        /// The axis as the caller gave it.
        axis: isize,
        /// The size of one window.
        size: usize,
        /// The shape of the operand.
        shape: Vec<usize>,
    },
    /// A list of axes names one twice.
    #[error("{op}: axes {axes:?} name one axis of shape {shape:?} twice")]
    RepeatedAxis {
        /// The operation that was asked for.
        op: &'static str,
        /// The axes as the caller gave them.
        axes: Vec<isize>,
        /// The shape of the operand.
        shape: Vec<usize>,
    },
    /// Operands are of two types; nothing is converted without a `cast`.
    #[error("{op}: types {left} and {right} differ")]
    DTypeMismatch {
        /// The operation that was asked for.
        op: &'static str,
        /// The type of the first operand.
        left: DType,
        /// The type that does not fit it.
        right: DType,
    },
    /// An operation is not defined on a type.
    #[error("{op}: not defined on {dtype}")]
    DTypeUnsupported {
        /// The operation that was asked for.
        op: &'static str,
        /// The type of the operand.
        dtype: DType,
    },
    /// A number cannot take the type of the tensor beside it.
    #[error("{op}: {value} is not a number of type {dtype}")]
    Unrepresentable {
        /// The operation that was asked for.
        op: &'static str,
        /// The number.
        value: String,
        /// The type of the tensor.
        dtype: DType,
    },
    /// A tensor stands where a number is needed.
    #[error("{op}: the fill is a tensor, not a number")]
    NotConstant {
        /// The operation that was asked for.
        op: &'static str,
    },
    /// The largest, smallest or picked element of nothing is asked for.
    #[error("{op}: an axis of shape {shape:?} has no elements to choose from")]
    EmptyReduction {
        /// The operation that was asked for.
        op: &'static str,
        /// The shape of the operand.
        shape: Vec<usize>,
    },
    /// Tensors that are to be joined differ on another axis, or there are none.
    #[error("{op}: shapes {shapes:?} do not join along axis {axis}")]
    ConcatMismatch {
        /// The operation that was asked for.
        op: &'static str,
        /// The axis as the caller gave it.
        axis: isize,
        /// The shapes, in the order given.
        shapes: Vec<Vec<usize>>,
    },
    /// An axis is to be split into parts of equal size, and its size is no multiple of their
    /// number.
    #[error(
        "{op}: axis {axis} of shape {shape:?} does not split into {n} equal parts (limit 65536)"
    )]
    UnevenSplit {
        /// The operation that was asked for.
        op: &'static str,
        /// The axis as the caller gave it.
        axis: isize,
        /// The shape of the operand.
        shape: Vec<usize>,
        /// The number of parts.
        n: usize,
    },
    /// The inner sizes of a matrix product differ.
    #[error("{op}: shapes {left:?} and {right:?} have no inner size in common")]
    InnerMismatch {
        /// The operation that was asked for.
        op: &'static str,
        /// The shape of the left operand.
        left: Vec<usize>,
        /// The shape of the right operand.
        right: Vec<usize>,
    },
    /// A gather met a position that its axis does not have.
    #[error("gather: index {index} is out of range for an axis of {extent} elements")]
    IndexOutOfRange {
        /// The position.
        index: f64,
        /// The size of the axis.
        extent: usize,
    },
    /// Elements were asked for without computing, of a tensor that is not in memory.
    #[error("{op}: the tensor is not computed yet; realize or eval it")]
    NotRealized {
        /// The operation that was asked for.
        op: &'static str,
    },
    /// Elements of one type were asked for, of a tensor of another.
    #[error("{op}: elements of {asked} are asked for, the tensor holds {actual}")]
    ElementTypeMismatch {
        /// The operation that was asked for.
        op: &'static str,
        /// The type asked for.
        asked: DType,
        /// The type of the tensor.
        actual: DType,
    },
    /// A plan was given more or fewer arrays than it has inputs.
    #[error("run: the plan has {expected} inputs, got {actual} arrays")]
    InputCount {
        /// The inputs of the plan.
        expected: usize,
        /// The arrays given.
        actual: usize,
    },
    /// A plan was given an array of another type or length than its input.
    #[error("run: input {number} is {} {:?}, the array has {} elements of {}", expected.0, expected.1, actual.1, actual.0)]
    InputMismatch {
        /// Which input.
        number: usize,
        /// The type and shape of the input.
        expected: (DType, Vec<usize>),
        /// The type and length of the array.
        actual: (DType, usize),
    },
    /// A plan is to run on no executor.
    #[error("run: no executor is given")]
    NoExecutor,
    /// An array does not fit the memory that is left.
    #[error("{executor}: no memory for {len} elements of {dtype}")]
    OutOfMemory {
        /// The executor.
        executor: &'static str,
        /// The number of elements.
        len: usize,
        /// Their type.
        dtype: DType,
    },
    /// A step breaks a rule of the intermediate representation.
    #[error("run: {what}")]
    BadStep {
        /// Which value, and which rule.
        what: String,
    },
    /// A device refused or failed; the source is its own error.
    #[error("{executor}: {source}")]
    Device {
        /// The executor.
        executor: String,
        /// The device's error.
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// An executor was handed an array that lies elsewhere.
    #[error("run: an input does not lie where this executor reads")]
    ForeignStorage,
    /// An executor computed something else than the oracle (`TENSOR_VERIFY=1`).
    #[error(
        "{executor}: a step over {domain:?}, reduced over {reduce:?}, differs from the oracle: {what}"
    )]
    VerifyFailed {
        /// The executor.
        executor: String,
        /// The sizes of the step's output axes.
        domain: Vec<usize>,
        /// The sizes of the step's reduced axes.
        reduce: Vec<usize>,
        /// The comparator's report.
        what: String,
    },
    /// An error of a lazy program, with the line that asked for the operation.
    #[error("{error}, at {}:{}:{}", location.file(), location.line(), location.column())]
    At {
        /// What went wrong.
        error: Box<Self>,
        /// The caller's line.
        location: &'static Location<'static>,
    },
    /// An einsum specification is wrong or does not fit its operands.
    #[error(transparent)]
    Einsum(#[from] EinsumError),
    /// An IDX file could not be read or written.
    #[error(transparent)]
    Idx(#[from] IdxError),
    /// An NPY or safetensors file could not be read or written.
    #[error(transparent)]
    Data(#[from] DataError),
    /// An optimiser was set up wrongly, or given tensors that do not belong together.
    #[error(transparent)]
    Optim(#[from] OptimError),
}

impl Error {
    /// Adds the line that asked for the operation, unless there is one already.
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

    /// The same error under the name of another operation: the one that the caller knows, where the one that failed is a part
    /// of it.
    pub(crate) fn renamed(mut self, name: &'static str) -> Self {
        if let Some(op) = self.op_mut() {
            *op = name;
        }
        self
    }

    /// The name of the operation, where it is a field. Every variant is listed, so that a new one is not forgotten.
    fn op_mut(&mut self) -> Option<&mut &'static str> {
        match self {
            Self::At { error, .. } => error.op_mut(),
            Self::TooLarge { op, .. }
            | Self::RankTooLarge { op, .. }
            | Self::MatrixExpected { op, .. }
            | Self::LengthMismatch { op, .. }
            | Self::BroadcastMismatch { op, .. }
            | Self::NotBroadcastable { op, .. }
            | Self::AxisOutOfRange { op, .. }
            | Self::NotAPermutation { op, .. }
            | Self::StrideCount { op, .. }
            | Self::OutOfBounds { op, .. }
            | Self::ElementCount { op, .. }
            | Self::NotSizeOne { op, .. }
            | Self::ZeroStep { op, .. }
            | Self::WindowSize { op, .. }
            | Self::RepeatedAxis { op, .. }
            | Self::DTypeMismatch { op, .. }
            | Self::DTypeUnsupported { op, .. }
            | Self::Unrepresentable { op, .. }
            | Self::NotConstant { op }
            | Self::EmptyReduction { op, .. }
            | Self::ConcatMismatch { op, .. }
            | Self::UnevenSplit { op, .. }
            | Self::InnerMismatch { op, .. }
            | Self::NotRealized { op }
            | Self::NotAScalar { op, .. }
            | Self::NotDifferentiable { op, .. }
            | Self::ElementTypeMismatch { op, .. } => Some(op),
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

    /// The error itself, without the line.
    #[must_use]
    pub fn root(&self) -> &Self {
        match self {
            Self::At { error, .. } => error.root(),
            error => error,
        }
    }

    /// The line of the program that asked for the operation, where it is known.
    #[must_use]
    pub fn location(&self) -> Option<&'static Location<'static>> {
        match self {
            Self::At { location, .. } => Some(location),
            _ => None,
        }
    }
}
