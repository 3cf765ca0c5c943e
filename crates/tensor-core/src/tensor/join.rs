//! Concatenation, stacking and splitting.
//!
//! Method: a join selects each element among padded pieces by its position; a split is one slice
//! per part.

use super::{Axis, Tensor, or_error_node};
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::op::MAX_POSITIONS;
use crate::shape::{element_count, resolve_axis};

/// The largest number of parts of one split. A larger number is probably a mistake and would
/// exhaust memory.
const MAX_PARTS: usize = 1 << 16;

impl Tensor {
    /// Concatenates tensors of one type along an axis; all other sizes must be equal.
    ///
    /// Up to eight tensors are joined by one selection by position, without an intermediate copy.
    /// More are joined in groups of eight, and the groups again, so that `n` tensors cost each
    /// element `O(log n)` selections and copies. Returns an error node of [`Error::ConcatMismatch`]
    /// if sizes differ, or if the list is empty.
    #[track_caller]
    #[must_use]
    pub fn concat(tensors: &[&Self], axis: impl Into<Axis>) -> Self {
        /// The largest number of pieces in one selection.
        const FAN_IN: usize = 8;
        let axis = axis.into().number();
        let at = or_error_node!(concat_axis("concat", tensors, axis));
        let mut pieces: Vec<Self> = tensors.iter().map(|&tensor| tensor.clone()).collect();
        while pieces.len() > FAN_IN {
            let mut groups = Vec::with_capacity(pieces.len().div_ceil(FAN_IN));
            for group in pieces.chunks(FAN_IN) {
                groups.push(joined(group, at));
            }
            pieces = groups;
        }
        joined(&pieces, at)
    }

    /// Joins tensors of one type and shape along a new axis, which becomes axis `axis` of the
    /// result.
    ///
    /// Returns an error node of [`Error::ConcatMismatch`] if shapes differ, or if the list is
    /// empty.
    #[track_caller]
    #[must_use]
    pub fn stack(tensors: &[&Self], axis: impl Into<Axis>) -> Self {
        let (operation, axis) = ("stack", axis.into().number());
        for tensor in tensors {
            or_error_node!(tensor.check());
        }
        // Check the shapes here, so that the error shows the caller's shapes and not the expanded
        // ones.
        if tensors
            .iter()
            .any(|tensor| tensor.0.shape != tensors[0].0.shape)
        {
            let shapes = tensors.iter().map(|tensor| tensor.0.shape.clone());
            return Self::error(Error::ConcatMismatch {
                operation,
                axis,
                shapes: shapes.collect(),
            });
        }
        let expand = |tensor: &&Self| tensor.expand_dims(axis);
        let expanded: Vec<Self> = Self::by_caller(|| tensors.iter().map(expand).collect());
        Self::concat(&expanded.iter().collect::<Vec<_>>(), axis).composed(operation, tensors)
    }

    /// Splits an axis into `n` parts of equal size, in order, as `numpy.split` with a number.
    /// Nothing is copied. For unequal parts use [`slice`](Tensor::slice).
    ///
    /// If the size of the axis is not divisible by `n`, or if `n` is 0 or above 65,536, returns `n`
    /// error nodes of [`Error::UnevenSplit`] (at least one, at most 65,536); if there is no such
    /// axis, error nodes of [`Error::AxisOutOfRange`].
    ///
    /// # Examples
    /// ```
    /// use tensor_core::{DType, Tensor};
    /// let qkv = Tensor::zeros(&[10, 3 * 64], DType::F32);
    /// let [query, key, value] = &qkv.split(-1, 3)[..] else { unreachable!() };
    /// assert_eq!(query.shape()?, [10, 64]);
    /// # assert_eq!((key.shape()?, value.shape()?), (&[10, 64][..], &[10, 64][..]));
    /// # Ok::<(), tensor_core::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn split(&self, axis: impl Into<Axis>, n: usize) -> Vec<Self> {
        let (operation, axis) = ("split", axis.into().number());
        let size = self.shape().and_then(|shape| {
            let size = shape[resolve_axis(operation, axis, shape)?];
            if size.checked_rem(n) == Some(0) && n <= MAX_PARTS {
                return Ok(size / n);
            }
            Err(Error::UnevenSplit {
                operation,
                axis,
                shape: shape.to_vec(),
                n,
                limit: MAX_PARTS,
            })
        });
        let part = |number: usize| match &size {
            Ok(size) => self.slice(axis, number * size..(number + 1) * size),
            Err(error) => Self::error(error.clone()),
        };
        Self::by_caller(|| (0..n.clamp(1, MAX_PARTS)).map(part).collect())
    }
}

/// Concatenates a few tensors: each element is selected by its position among the padded pieces.
#[track_caller]
fn joined(pieces: &[Tensor], axis: usize) -> Tensor {
    let total = pieces.iter().map(|piece| piece.0.shape[axis]).sum();
    let mut joined = placed(&pieces[0], axis, 0, total);
    let mut before = pieces[0].0.shape[axis];
    for piece in pieces[1..].iter().filter(|piece| piece.0.shape[axis] > 0) {
        let placed = placed(piece, axis, before, total);
        joined = position_below(&joined, axis, before).select(joined, placed);
        before += piece.0.shape[axis];
    }
    joined
}

/// Pads a tensor with zeros on `axis` to `total` elements, of which `before` precede the tensor.
#[track_caller]
fn placed(tensor: &Tensor, axis: usize, before: usize, total: usize) -> Tensor {
    let after = total - before - tensor.0.shape[axis];
    let zero = Tensor::constant(Scalar::zero(tensor.0.dtype));
    tensor.pad(axis.cast_signed(), before, after, zero)
}

/// Returns whether the position on `axis` is below `bound`, as a tensor of the shape of `like`.
#[track_caller]
fn position_below(like: &Tensor, axis: usize, bound: usize) -> Tensor {
    let shape = &like.0.shape;
    let mut line = vec![1; shape.len()];
    line[axis] = shape[axis];
    let bound = u32::try_from(bound).unwrap_or(u32::MAX);
    let index = Tensor::index("concat", shape[axis], MAX_POSITIONS);
    index.lt(bound).reshape(&line).broadcast_to(shape)
}

/// Checks the operands of a concatenation and returns the axis in `0..rank`.
fn concat_axis(operation: &'static str, tensors: &[&Tensor], axis: isize) -> Result<usize> {
    let shapes = || {
        tensors
            .iter()
            .map(|tensor| tensor.0.shape.clone())
            .collect()
    };
    let mismatch = || Error::ConcatMismatch {
        operation,
        axis,
        shapes: shapes(),
    };
    let first = tensors.first().ok_or_else(mismatch)?;
    let at = resolve_axis(operation, axis, first.shape()?)?;
    let mut total: usize = 0;
    for tensor in tensors {
        let shape = tensor.shape()?;
        if tensor.0.dtype != first.0.dtype {
            return Err(Error::DTypeMismatch {
                operation,
                left: first.0.dtype,
                right: tensor.0.dtype,
            });
        }
        let others_agree = shape.len() == first.0.shape.len()
            && (0..shape.len()).all(|i| i == at || shape[i] == first.0.shape[i]);
        if !others_agree {
            return Err(mismatch());
        }
        total = total.saturating_add(shape[at]);
    }
    let mut out = first.0.shape.clone();
    out[at] = total;
    element_count(operation, &out)?;
    // The source of an element is selected by its position, which is a u32.
    if total > MAX_POSITIONS {
        return Err(Error::TooLarge {
            operation,
            shape: out,
            limit: MAX_POSITIONS,
        });
    }
    Ok(at)
}
