//! Views of a tensor: the same elements elsewhere, repeated, left out, or padded.
//!
//! Role: everything that moves elements and computes none; no view copies.
//! Method: [`View`] knows `NumPy`'s rules. Applied to the coordinates of each source axis (the view with stride 1
//! along that axis and 0 along the others) it gives the affine map by which the source is read.

use super::{Op, Operand, Tensor, or_error_node};
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::ir::IndexMap;
use crate::shape::{check_rank, element_count, resolve_axis};
use crate::view::{Slice, View};

impl Tensor {
    /// Reads the tensor through a view of its coordinates.
    #[track_caller]
    fn viewed(&self, name: &'static str, view: impl Fn(&View) -> Result<View>) -> Self {
        let moved = self.shape().and_then(|shape| {
            let out = view(&View::contiguous(shape)?)?.shape().to_vec();
            let rows = coordinates(shape, view)?;
            Ok((rows, out))
        });
        let (rows, shape) = or_error_node!(moved);
        if shape == self.0.shape && is_identity(&rows) {
            return self.clone();
        }
        Self::new(
            Op::Move { name, rows },
            vec![self.clone()],
            shape,
            self.0.dtype,
        )
    }

    /// Gives the same elements, in row-major order, another shape.
    ///
    /// Nothing is copied where strides can describe the new shape; else the tensor is computed into memory first.
    /// The error node of [`Error::ElementCount`] if the number of elements changes, and of [`Error::RankTooLarge`] beyond
    /// [`MAX_RANK`](crate::shape::MAX_RANK) axes.
    #[track_caller]
    #[must_use]
    pub fn reshape(&self, shape: &[usize]) -> Self {
        let op = "reshape";
        let checked = self.shape().and_then(|from| {
            check_rank(op, shape.len())?;
            let (from_len, to_len) = (element_count(op, from)?, element_count(op, shape)?);
            if from_len == to_len {
                return Ok(());
            }
            Err(Error::ElementCount {
                op,
                from: from.to_vec(),
                from_len,
                to: shape.to_vec(),
                to_len,
            })
        });
        or_error_node!(checked);
        if shape == self.0.shape {
            return self.clone();
        }
        Self::new(
            Op::Reshape,
            vec![self.clone()],
            shape.to_vec(),
            self.0.dtype,
        )
    }

    /// All elements on one axis.
    #[track_caller]
    #[must_use]
    pub fn flatten(&self) -> Self {
        self.reshape(&[self.0.shape.iter().product()])
    }

    /// Reorders the axes: axis `i` of the result is axis `axes[i]` of this tensor.
    #[track_caller]
    #[must_use]
    pub fn permute(&self, axes: &[isize]) -> Self {
        self.viewed("permute", |view| view.permute(axes))
    }

    /// Reverses the order of all axes; on a matrix this is the transpose.
    #[track_caller]
    #[must_use]
    pub fn t(&self) -> Self {
        self.viewed("t", |view| Ok(view.t()))
    }

    /// Inserts an axis of size 1 so that it becomes axis `axis` of the result; -1 appends.
    #[track_caller]
    #[must_use]
    pub fn expand_dims(&self, axis: isize) -> Self {
        self.viewed("expand_dims", |view| view.expand_dims(axis))
    }

    /// Removes an axis of size 1.
    #[track_caller]
    #[must_use]
    pub fn squeeze(&self, axis: isize) -> Self {
        self.viewed("squeeze", |view| view.squeeze(axis))
    }

    /// Repeats the tensor up to `shape`: axes are lined up from the last, new ones and those of size 1 repeat.
    ///
    /// Operands of one operation are broadcast to each other this way, so this is seldom called. Nothing is copied:
    /// an axis that repeats has stride 0. The error node of [`Error::NotBroadcastable`] if a size is neither 1 nor
    /// the one asked for.
    ///
    /// # Examples
    /// A number meets every element of an array, and a row every row of a matrix, whichever stands first.
    /// ```
    /// use tensor_core::ndarray::array;
    /// use tensor_core::{Host, Tensor, View};
    /// # let host = Host::new();
    /// let a = Tensor::from_array(array![10.0_f32, 6.0, -4.0]);
    /// assert_eq!(a.gt(0).eval::<bool>(&host)?, array![true, true, false].into_dyn());
    /// assert_eq!((&a + 1).eval::<f32>(&host)?, array![11.0, 7.0, -3.0].into_dyn());
    ///
    /// let m = Tensor::from_array(array![[1.0_f32, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]);
    /// let c = Tensor::from_array(array![10.0_f32, 20.0, 30.0]);
    /// assert_eq!((2 * &m).eval::<f32>(&host)?, array![[2.0, 4.0, 6.0], [8.0, 10.0, 12.0], [14.0, 16.0, 18.0]].into_dyn());
    /// let sum = array![[11.0, 22.0, 33.0], [14.0, 25.0, 36.0], [17.0, 28.0, 39.0]].into_dyn();
    /// assert_eq!((&m + &c).eval::<f32>(&host)?, sum);
    /// assert_eq!((&c + &m).eval::<f32>(&host)?, sum);
    ///
    /// // The rows look copied, but there are three elements in memory, read with stride 0 from row to row.
    /// let t = c.broadcast_to(m.shape()?);
    /// assert_eq!(t.eval::<f32>(&host)?, array![[10.0, 20.0, 30.0], [10.0, 20.0, 30.0], [10.0, 20.0, 30.0]].into_dyn());
    /// assert_eq!((&m + &t).eval::<f32>(&host)?, sum);
    /// let rows = View::contiguous(&[3])?.broadcast_to(&[3, 3])?;
    /// assert_eq!((rows.shape(), rows.strides()), (&[3, 3][..], &[0, 1][..]));
    /// assert!(rows.check_within(3).is_ok());
    /// # Ok::<(), tensor_core::Error>(())
    /// ```
    /// A new axis says whether a line is a row or a column; the two together give outer products and all comparisons.
    /// ```
    /// # use tensor_core::ndarray::array;
    /// # use tensor_core::{Host, Tensor, View};
    /// # let host = Host::new();
    /// # let m = Tensor::from_array(array![[1.0_f32, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]);
    /// let c = Tensor::from_array(array![10.0_f32, 20.0, 30.0]);
    /// let (row, column) = (c.expand_dims(0), c.expand_dims(1)); // c[None, :] and c[:, None]
    /// assert_eq!((row.shape()?, column.shape()?), (&[1, 3][..], &[3, 1][..]));
    /// assert_eq!(c.expand_dims(-1).shape()?, [3, 1]); // c[..., None]
    /// assert_eq!(row.eval::<f32>(&host)?, array![[10.0, 20.0, 30.0]].into_dyn());
    /// assert_eq!(column.eval::<f32>(&host)?, array![[10.0], [20.0], [30.0]].into_dyn());
    ///
    /// let columns = array![[10.0, 10.0, 10.0], [20.0, 20.0, 20.0], [30.0, 30.0, 30.0]].into_dyn();
    /// assert_eq!(column.broadcast_to(&[3, 3]).eval::<f32>(&host)?, columns);
    /// assert_eq!(View::contiguous(&[3, 1])?.broadcast_to(&[3, 3])?.strides(), [1, 0]);
    /// assert_eq!((&m + &column).eval::<f32>(&host)?, array![[11.0, 12.0, 13.0], [24.0, 25.0, 26.0], [37.0, 38.0, 39.0]].into_dyn());
    /// assert_eq!((&m + &row).eval::<f32>(&host)?, array![[11.0, 22.0, 33.0], [14.0, 25.0, 36.0], [17.0, 28.0, 39.0]].into_dyn());
    ///
    /// let outer = &row * &column;
    /// assert_eq!(outer.eval::<f32>(&host)?, array![[100.0, 200.0, 300.0], [200.0, 400.0, 600.0], [300.0, 600.0, 900.0]].into_dyn());
    /// let greater = row.gt(&column);
    /// assert_eq!(
    ///     greater.eval::<bool>(&host)?,
    ///     array![[false, true, true], [false, false, true], [false, false, false]].into_dyn(),
    /// );
    /// # Ok::<(), tensor_core::Error>(())
    /// ```
    /// The rules: sizes are lined up from the last axis; two agree if they are equal or one of them is 1, and a missing
    /// one counts as 1.
    ///
    /// | left | right | result |
    /// |---|---|---|
    /// | 256 × 256 × 3, an image | 3, a scale for each colour | 256 × 256 × 3 |
    /// | 784 × 1, a digit | 784 × 10, weights | 784 × 10 |
    /// | 8 × 1 × 6 × 1 | 7 × 1 × 5 | 8 × 7 × 6 × 5 |
    /// | 3 | 4 | error |
    /// | 2 × 1 | 8 × 4 × 3 | error |
    /// ```
    /// # use tensor_core::{Error, Tensor};
    /// let ones = |shape: &[usize]| Tensor::full(shape, 1.0_f32);
    /// let product = |left: &[usize], right: &[usize]| ones(left) * ones(right);
    /// assert_eq!(product(&[256, 256, 3], &[3]).shape()?, [256, 256, 3]);
    /// assert_eq!(product(&[784, 1], &[784, 10]).shape()?, [784, 10]);
    /// assert_eq!(product(&[8, 1, 6, 1], &[7, 1, 5]).shape()?, [8, 7, 6, 5]);
    /// for (left, right) in [(&[3][..], &[4][..]), (&[2, 1], &[8, 4, 3])] {
    ///     let error = product(left, right).shape().unwrap_err();
    ///     assert!(matches!(error.root(), Error::BroadcastMismatch { op: "mul", .. }));
    /// }
    ///
    /// // A row of a matrix product: the row of the left matrix as a column beside the right one, summed downwards.
    /// let (digit, weights) = (ones(&[784]), ones(&[784, 10]));
    /// assert_eq!((digit.expand_dims(1) * &weights).sum(0).shape()?, [10]);
    /// # Ok::<(), tensor_core::Error>(())
    /// ```
    ///
    /// # Source
    /// fast.ai "matmul" notebook, section on broadcasting: its examples, in its order.
    #[track_caller]
    #[must_use]
    pub fn broadcast_to(&self, shape: &[usize]) -> Self {
        self.viewed("broadcast_to", |view| view.broadcast_to(shape))
    }

    /// Keeps a part of one axis, with `NumPy`'s rules for bounds and steps.
    ///
    /// # Examples
    /// ```
    /// use tensor_core::ndarray::array;
    /// use tensor_core::view::Slice;
    /// use tensor_core::{Host, Tensor};
    /// let x = Tensor::arange(8);
    /// let backwards = Slice { start: Some(100), stop: Some(1), step: -3 };
    /// assert_eq!(x.slice(0, backwards).eval::<i32>(&Host::new())?, array![7, 4].into_dyn());
    /// assert_eq!(x.slice(0, -3..).eval::<i32>(&Host::new())?, array![5, 6, 7].into_dyn());
    /// # Ok::<(), tensor_core::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn slice(&self, axis: isize, slice: impl Into<Slice>) -> Self {
        let slice = slice.into();
        self.viewed("slice", |view| view.slice(axis, slice))
    }

    /// Reverses one axis.
    #[track_caller]
    #[must_use]
    pub fn flip(&self, axis: isize) -> Self {
        self.viewed("flip", |view| view.flip(axis))
    }

    /// Cuts one axis into windows of `size` elements whose starts lie `step` apart; a new last axis walks through
    /// one. They overlap, without a copy, if `step < size`: convolutions and moving averages.
    #[track_caller]
    #[must_use]
    pub fn window(&self, axis: isize, size: usize, step: usize) -> Self {
        self.viewed("window", |view| view.window(axis, size, step))
    }

    /// Puts `before` and `after` elements of `fill` around one axis.
    #[track_caller]
    #[must_use]
    pub fn pad(&self, axis: isize, before: usize, after: usize, fill: impl Operand) -> Self {
        let op = "pad";
        let fill = fill.operand(op, self.0.dtype);
        let padded = self.shape().and_then(|shape| {
            fill.check()?;
            let Op::Const(value) = fill.0.op else {
                return Err(Error::NotConstant { op });
            };
            if value.dtype() != self.0.dtype {
                return Err(Error::DTypeMismatch {
                    op,
                    left: self.0.dtype,
                    right: value.dtype(),
                });
            }
            let at = resolve_axis(op, axis, shape)?;
            let mut out = shape.to_vec();
            out[at] = out[at].saturating_add(before).saturating_add(after);
            element_count(op, &out)?;
            let mut first = vec![0; shape.len()];
            first[at] = before;
            Ok((value, first, out))
        });
        let (fill, before, shape) = or_error_node!(padded);
        if shape == self.0.shape {
            return self.clone();
        }
        let op = Op::Pad { before, fill };
        Self::new(op, vec![self.clone()], shape, self.0.dtype)
    }

    /// Joins tensors of one type end to end along an axis; all other sizes must agree.
    ///
    /// Up to eight pieces are one choice by position, without a copy of its own. More are joined in groups, and the groups
    /// again, so that `n` pieces cost each element `O(log n)` choices and copies. The error node of
    /// [`Error::ConcatMismatch`] if sizes do not agree, or if there is nothing to join.
    #[track_caller]
    #[must_use]
    pub fn concat(tensors: &[&Self], axis: isize) -> Self {
        /// The most pieces that an element is chosen from at once.
        const FAN_IN: usize = 8;
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

    /// Joins tensors of one type and shape along a new axis, which becomes axis `axis` of the result.
    ///
    /// The error node of [`Error::ConcatMismatch`] if shapes differ, or if there is nothing to join.
    #[track_caller]
    #[must_use]
    pub fn stack(tensors: &[&Self], axis: isize) -> Self {
        let op = "stack";
        for tensor in tensors {
            or_error_node!(tensor.check());
        }
        // Said here, of the shapes that the caller knows.
        if tensors
            .iter()
            .any(|tensor| tensor.0.shape != tensors[0].0.shape)
        {
            let shapes = tensors.iter().map(|tensor| tensor.0.shape.clone());
            return Self::error(Error::ConcatMismatch {
                op,
                axis,
                shapes: shapes.collect(),
            });
        }
        let expand = |tensor: &&Self| tensor.expand_dims(axis);
        let expanded: Vec<Self> = Self::by_caller(|| tensors.iter().map(expand).collect());
        Self::concat(&expanded.iter().collect::<Vec<_>>(), axis).composed(op, tensors)
    }
}

/// For each axis of `shape` the map from the indices of a view to the coordinate on that axis.
pub(super) fn coordinates(
    shape: &[usize],
    view: impl Fn(&View) -> Result<View>,
) -> Result<Vec<IndexMap>> {
    let mut rows = Vec::with_capacity(shape.len());
    for axis in 0..shape.len() {
        let mut strides = vec![0; shape.len()];
        strides[axis] = 1;
        let row = view(&View::new(shape, &strides, 0)?)?;
        rows.push(IndexMap {
            offset: row.offset().cast_signed(),
            strides: row.strides().to_vec(),
        });
    }
    Ok(rows)
}

/// Whether each source axis is read at the axis of the same number.
fn is_identity(rows: &[IndexMap]) -> bool {
    rows.iter().enumerate().all(|(axis, row)| {
        let own = |(other, &stride): (usize, &isize)| stride == isize::from(other == axis);
        row.offset == 0
            && row.strides.len() == rows.len()
            && row.strides.iter().enumerate().all(own)
    })
}

/// A few tensors end to end: each element is chosen by its position.
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

/// A tensor with zeros around it on `axis`: `before` come first, and there are `total` elements.
#[track_caller]
fn placed(tensor: &Tensor, axis: usize, before: usize, total: usize) -> Tensor {
    let after = total - before - tensor.0.shape[axis];
    let zero = Tensor::constant(Scalar::zero(tensor.0.dtype));
    tensor.pad(axis.cast_signed(), before, after, zero)
}

/// Whether the position on `axis` is below `bound`, in the shape of `like`.
#[track_caller]
fn position_below(like: &Tensor, axis: usize, bound: usize) -> Tensor {
    let shape = &like.0.shape;
    let mut line = vec![1; shape.len()];
    line[axis] = shape[axis];
    let bound = u32::try_from(bound).unwrap_or(u32::MAX);
    let index = Tensor::index("concat", shape[axis], 1 << 32);
    index.lt(bound).reshape(&line).broadcast_to(shape)
}

fn concat_axis(op: &'static str, tensors: &[&Tensor], axis: isize) -> Result<usize> {
    let shapes = || {
        tensors
            .iter()
            .map(|tensor| tensor.0.shape.clone())
            .collect()
    };
    let mismatch = || Error::ConcatMismatch {
        op,
        axis,
        shapes: shapes(),
    };
    let first = tensors.first().ok_or_else(mismatch)?;
    let at = resolve_axis(op, axis, first.shape()?)?;
    let mut total: usize = 0;
    for tensor in tensors {
        let shape = tensor.shape()?;
        if tensor.0.dtype != first.0.dtype {
            return Err(Error::DTypeMismatch {
                op,
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
    element_count(op, &out)?;
    // Which tensor an element comes from is told by its position, a u32.
    if total > 1 << 32 {
        return Err(Error::TooLarge {
            op,
            shape: out,
            element_bytes: first.0.dtype.bytes(),
        });
    }
    Ok(at)
}
