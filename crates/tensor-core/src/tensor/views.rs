//! Views and padding: operations that move, repeat, leave out or pad elements.
//!
//! Role: all operations that change the positions of elements but not their values; no view copies.
//! Method: [`View`] implements `NumPy`'s rules. Each rule is applied to the coordinates of each
//! source axis (the view with stride 1 along that axis and 0 along the others), which yields the
//! affine map with which the source is read.

use super::{Axis, Op, Operand, Tensor, or_error_node};
use crate::error::{Error, Result};
use crate::ir::IndexMap;
use crate::shape::{check_rank, element_count, resolve_axis};
use crate::view::{Slice, View};

impl Tensor {
    /// Creates the node of a view. `view` applies the view to an array of the tensor's shape: to
    /// the tensor itself for the resulting shape, and to the array of coordinates along each axis
    /// for the map with which that axis is read.
    #[track_caller]
    fn viewed(&self, name: &'static str, view: impl Fn(&View) -> Result<View>) -> Self {
        let moved = self.shape().and_then(|shape| {
            // The view of a contiguous array determines the resulting shape, and views of its
            // coordinates determine the maps.
            let out = view(&View::contiguous(shape)?)?.shape().to_vec();
            let rows = coordinates(shape, view)?;
            Ok((rows, out))
        });
        let (rows, shape) = or_error_node!(moved);
        if shape == self.0.shape && is_identity(&rows) {
            return self.clone();
        }
        Self::new(
            Op::View { name, rows },
            vec![self.clone()],
            shape,
            self.0.dtype,
        )
    }

    /// Changes the shape and keeps the row-major order of the elements.
    ///
    /// Nothing is copied if strides can describe the new shape; otherwise the tensor is first
    /// computed into memory. Returns an error node of [`Error::ElementCount`] if the number of
    /// elements changes, and of [`Error::RankTooLarge`] beyond [`MAX_RANK`](crate::shape::MAX_RANK)
    /// axes.
    #[track_caller]
    #[must_use]
    pub fn reshape(&self, shape: &[usize]) -> Self {
        let operation = "reshape";
        let checked = self.shape().and_then(|from| {
            check_rank(operation, shape.len())?;
            let (from_len, to_len) = (
                element_count(operation, from)?,
                element_count(operation, shape)?,
            );
            if from_len == to_len {
                return Ok(());
            }
            Err(Error::ElementCount {
                operation,
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

    /// Reshapes to one axis.
    #[track_caller]
    #[must_use]
    pub fn flatten(&self) -> Self {
        self.reshape(&[self.0.shape.iter().product()])
    }

    /// Reorders the axes: axis `i` of the result is axis `axes[i]` of this tensor.
    ///
    /// Returns an error node of [`Error::NotAPermutation`] if an axis is missing or occurs twice,
    /// and of [`Error::AxisOutOfRange`] if there is no such axis.
    #[track_caller]
    #[must_use]
    pub fn permute<A: Copy + Into<Axis>>(&self, axes: &[A]) -> Self {
        let axes: Vec<isize> = axes.iter().map(|&axis| axis.into().number()).collect();
        self.viewed("permute", |view| view.permute(&axes))
    }

    /// Exchanges two axes.
    ///
    /// Returns an error node of [`Error::AxisOutOfRange`] if there is no such axis.
    ///
    /// # Examples
    /// ```
    /// use tensor_core::{DType, Tensor};
    /// let keys = Tensor::zeros(&[8, 4, 100, 64], DType::F32);
    /// assert_eq!(keys.swap_axes(-1, -2).shape()?, [8, 4, 64, 100]);
    /// # Ok::<(), tensor_core::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn swap_axes(&self, a: impl Into<Axis>, b: impl Into<Axis>) -> Self {
        let operation = "swap_axes";
        let (a, b) = (a.into().number(), b.into().number());
        self.viewed(operation, |view| {
            let shape = view.shape();
            let (a, b) = (
                resolve_axis(operation, a, shape)?,
                resolve_axis(operation, b, shape)?,
            );
            let mut order: Vec<isize> = (0..shape.len()).map(usize::cast_signed).collect();
            order.swap(a, b);
            view.permute(&order)
        })
    }

    /// Reverses the order of all axes; on a matrix this is the transpose.
    #[track_caller]
    #[must_use]
    pub fn t(&self) -> Self {
        self.viewed("t", |view| Ok(view.t()))
    }

    /// Inserts an axis of size 1, which becomes axis `axis` of the result; -1 appends an axis.
    ///
    /// Returns an error node of [`Error::AxisOutOfRange`] if the result has no such axis, and of
    /// [`Error::RankTooLarge`] beyond [`MAX_RANK`](crate::shape::MAX_RANK) axes.
    #[track_caller]
    #[must_use]
    pub fn expand_dims(&self, axis: impl Into<Axis>) -> Self {
        let axis = axis.into().number();
        self.viewed("expand_dims", |view| view.expand_dims(axis))
    }

    /// Removes an axis of size 1.
    ///
    /// Returns an error node of [`Error::NotSizeOne`] if the axis has another size, and of
    /// [`Error::AxisOutOfRange`] if there is no such axis.
    #[track_caller]
    #[must_use]
    pub fn squeeze(&self, axis: impl Into<Axis>) -> Self {
        let axis = axis.into().number();
        self.viewed("squeeze", |view| view.squeeze(axis))
    }

    /// Broadcasts the tensor to `shape`: axes are aligned from the last one; new axes and axes of
    /// size 1 are repeated.
    ///
    /// The operands of an operation are broadcast automatically, so this function is rarely needed.
    /// Nothing is copied: a repeated axis has stride 0. Returns an error node of
    /// [`Error::NotBroadcastable`] if a size is neither 1 nor the requested one, of
    /// [`Error::RankTooLarge`] beyond [`MAX_RANK`](crate::shape::MAX_RANK) axes, and of
    /// [`Error::TooLarge`] if the result has too many elements.
    ///
    /// # Examples
    /// A number is combined with every element of an array, and a row with every row of a matrix,
    /// in either order of the operands.
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
    /// let double = array![[2.0, 4.0, 6.0], [8.0, 10.0, 12.0], [14.0, 16.0, 18.0]].into_dyn();
    /// assert_eq!((2 * &m).eval::<f32>(&host)?, double);
    /// let sum = array![[11.0, 22.0, 33.0], [14.0, 25.0, 36.0], [17.0, 28.0, 39.0]].into_dyn();
    /// assert_eq!((&m + &c).eval::<f32>(&host)?, sum);
    /// assert_eq!((&c + &m).eval::<f32>(&host)?, sum);
    ///
    /// // The result has three rows, but memory holds three elements, read with row stride 0.
    /// let t = c.broadcast_to(m.shape()?);
    /// let repeated = array![[10.0, 20.0, 30.0], [10.0, 20.0, 30.0], [10.0, 20.0, 30.0]];
    /// assert_eq!(t.eval::<f32>(&host)?, repeated.into_dyn());
    /// assert_eq!((&m + &t).eval::<f32>(&host)?, sum);
    /// let rows = View::contiguous(&[3])?.broadcast_to(&[3, 3])?;
    /// assert_eq!((rows.shape(), rows.strides()), (&[3, 3][..], &[0, 1][..]));
    /// assert!(rows.check_within(3).is_ok());
    /// # Ok::<(), tensor_core::Error>(())
    /// ```
    /// A new axis turns a vector into a row or a column; a row and a column combine to outer
    /// products and tables of comparisons.
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
    /// let sum = array![[11.0, 12.0, 13.0], [24.0, 25.0, 26.0], [37.0, 38.0, 39.0]].into_dyn();
    /// assert_eq!((&m + &column).eval::<f32>(&host)?, sum);
    /// let sum = array![[11.0, 22.0, 33.0], [14.0, 25.0, 36.0], [17.0, 28.0, 39.0]].into_dyn();
    /// assert_eq!((&m + &row).eval::<f32>(&host)?, sum);
    ///
    /// let outer = &row * &column;
    /// let products = array![[100.0, 200.0, 300.0], [200.0, 400.0, 600.0], [300.0, 600.0, 900.0]];
    /// assert_eq!(outer.eval::<f32>(&host)?, products.into_dyn());
    /// let greater = row.gt(&column);
    /// assert_eq!(
    ///     greater.eval::<bool>(&host)?,
    ///     array![[false, true, true], [false, false, true], [false, false, false]].into_dyn(),
    /// );
    /// # Ok::<(), tensor_core::Error>(())
    /// ```
    /// The rules: sizes are aligned from the last axis; two sizes are compatible if they are equal
    /// or one of them is 1, and a missing axis counts as 1.
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
    ///     assert!(matches!(error.root(), Error::BroadcastMismatch { operation: "mul", .. }));
    /// }
    ///
    /// // A row of a matrix product: multiply the row of the left matrix, as a column, with the
    /// // right matrix, and sum over the rows.
    /// let (digit, weights) = (ones(&[784]), ones(&[784, 10]));
    /// assert_eq!((digit.expand_dims(1) * &weights).sum(0).shape()?, [10]);
    /// # Ok::<(), tensor_core::Error>(())
    /// ```
    ///
    /// # Source
    /// The fast.ai notebook "matmul", section on broadcasting: its examples, in the same order.
    #[track_caller]
    #[must_use]
    pub fn broadcast_to(&self, shape: &[usize]) -> Self {
        self.viewed("broadcast_to", |view| view.broadcast_to(shape))
    }

    /// Selects a range of one axis, with `NumPy`'s rules for bounds and steps.
    ///
    /// Returns an error node of [`Error::ZeroStep`] if the step is 0, and of
    /// [`Error::AxisOutOfRange`] if there is no such axis.
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
    /// assert_eq!(x.slice(0, 1..=2).eval::<i32>(&Host::new())?, array![1, 2].into_dyn());
    /// # Ok::<(), tensor_core::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn slice(&self, axis: impl Into<Axis>, slice: impl Into<Slice>) -> Self {
        let (axis, slice) = (axis.into().number(), slice.into());
        self.viewed("slice", |view| view.slice(axis, slice))
    }

    /// Reverses one axis.
    ///
    /// Returns an error node of [`Error::AxisOutOfRange`] if there is no such axis.
    #[track_caller]
    #[must_use]
    pub fn flip(&self, axis: impl Into<Axis>) -> Self {
        let axis = axis.into().number();
        self.viewed("flip", |view| view.flip(axis))
    }

    /// Splits one axis into windows of `size` elements whose starts are `step` elements apart; a
    /// new last axis runs through the elements of a window. Windows overlap, without a copy, if
    /// `step < size`: used for convolutions and moving averages. An axis of `n` elements has
    /// `(n - size) / step + 1` windows, rounded down, so a step beyond the axis leaves one window.
    ///
    /// Returns an error node of [`Error::WindowSize`] if `size` is 0 or more than `n`, of
    /// [`Error::ZeroStep`] if `step` is 0, of [`Error::AxisOutOfRange`] if there is no such axis,
    /// of [`Error::RankTooLarge`] beyond [`MAX_RANK`](crate::shape::MAX_RANK) axes, and of
    /// [`Error::TooLarge`] if the windows have too many elements.
    #[track_caller]
    #[must_use]
    pub fn window(&self, axis: impl Into<Axis>, size: usize, step: usize) -> Self {
        let axis = axis.into().number();
        self.viewed("window", |view| view.window(axis, size, step))
    }

    /// Pads one axis with `before` and `after` elements of the number `fill`.
    ///
    /// Returns an error node of [`Error::NotConstant`] if `fill` is not a constant, of
    /// [`Error::DTypeMismatch`] if `fill` has another type than the tensor, of [`Error::TooLarge`]
    /// if the result has too many elements, and of [`Error::AxisOutOfRange`] if there is no such
    /// axis.
    #[track_caller]
    #[must_use]
    pub fn pad(
        &self,
        axis: impl Into<Axis>,
        before: usize,
        after: usize,
        fill: impl Operand,
    ) -> Self {
        let (operation, axis) = ("pad", axis.into().number());
        let fill = fill.operand(operation, self.0.dtype);
        let padded = self.shape().and_then(|shape| {
            fill.check()?;
            let Op::Const(value) = fill.0.op else {
                return Err(Error::NotConstant { operation });
            };
            if value.dtype() != self.0.dtype {
                return Err(Error::DTypeMismatch {
                    operation,
                    left: self.0.dtype,
                    right: value.dtype(),
                });
            }
            let at = resolve_axis(operation, axis, shape)?;
            let mut out = shape.to_vec();
            out[at] = out[at].saturating_add(before).saturating_add(after);
            element_count(operation, &out)?;
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
}

/// Returns for each axis of `shape` the map from the indices of a view to the coordinate on that
/// axis.
pub(super) fn coordinates(
    shape: &[usize],
    view: impl Fn(&View) -> Result<View>,
) -> Result<Vec<IndexMap>> {
    let mut rows = Vec::with_capacity(shape.len());
    for axis in 0..shape.len() {
        let mut strides = vec![0; shape.len()];
        strides[axis] = 1;
        // An array with stride 1 on one axis and 0 on the others holds the coordinate on this axis:
        // the offset of an element in it equals the coordinate.
        let row = view(&View::new(shape, &strides, 0)?)?;
        rows.push(IndexMap {
            offset: row.offset().cast_signed(),
            strides: row.strides().to_vec(),
        });
    }
    Ok(rows)
}

/// Returns whether the maps are the identity: each source axis is read at the result axis of the
/// same number.
fn is_identity(rows: &[IndexMap]) -> bool {
    rows.iter().enumerate().all(|(axis, row)| {
        let own = |(other, &stride): (usize, &isize)| stride == isize::from(other == axis);
        row.offset == 0
            && row.strides.len() == rows.len()
            && row.strides.iter().enumerate().all(own)
    })
}
