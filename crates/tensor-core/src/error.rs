//! The errors of this crate.
//!
//! Role: one enum for everything that input can cause. Each variant names the operation and
//! carries the shapes, axes and indices that are needed to find the mistake without a debugger.
//! Einsum and IDX files have enums of their own, which convert into this one.

use crate::data::idx::IdxError;
use crate::einsum::EinsumError;

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
    /// An einsum specification is wrong or does not fit its operands.
    #[error(transparent)]
    Einsum(#[from] EinsumError),
    /// An IDX file could not be read or written.
    #[error(transparent)]
    Idx(#[from] IdxError),
}
