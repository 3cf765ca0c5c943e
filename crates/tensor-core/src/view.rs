//! Views: affine index maps on a flat buffer.
//!
//! Role: broadcasts, transposes, slices, flips and overlapping windows, all represented by an
//! offset and one stride per axis. Only [`View::gather`] reads data.
//! Method: element `[i, j, …]` of a view is at `offset + i * strides[0] + j * strides[1] + …` in
//! the buffer. Stride 0 repeats an axis (broadcasting) and a negative stride reverses it; strides
//! with which two indices share an offset describe overlapping windows. Every view satisfies two
//! invariants: its number of elements fits `isize`, and the offsets of all its elements are in
//! `0..=isize::MAX`. Therefore the arithmetic of walking a view never overflows.
//! Source: the array model of `NumPy` (van der Walt, Colbert and Varoquaux 2011).
//! Limits: a reshape that strides cannot describe returns [`Reshape::NeedsCopy`].

use ndarray::{ArrayD, IxDyn};

use crate::error::{Error, Result};
use crate::shape::{
    allocatable_count, axis_below, check_rank, element_count, resolve_axis, row_major_strides,
};
pub use slice::Slice;

mod slice;

/// An affine map from the indices of a shape to offsets in a flat buffer.
///
/// # Examples
/// Broadcasting copies nothing: the new axis has stride 0.
/// ```
/// use tensor_core::View;
/// use tensor_core::ndarray::array;
///
/// let c = [10.0, 20.0, 30.0];
/// let t = View::contiguous(&[3])?.broadcast_to(&[3, 3])?;
/// assert_eq!((t.strides(), t.shape()), (&[0, 1][..], &[3, 3][..]));
/// let rows = array![[10.0, 20.0, 30.0], [10.0, 20.0, 30.0], [10.0, 20.0, 30.0]];
/// assert_eq!(t.gather(&c)?, rows.into_dyn());
///
/// // c[None, :] is a row, c[:, None] a column; the column expands by stride 0 on the other axis.
/// let row = View::contiguous(&[3])?.expand_dims(0)?;
/// let column = View::contiguous(&[3])?.expand_dims(1)?;
/// assert_eq!((row.shape(), column.shape()), (&[1, 3][..], &[3, 1][..]));
/// let columns = column.broadcast_to(&[3, 3])?;
/// assert_eq!(columns.strides(), [1, 0]);
/// let expected = array![[10.0, 10.0, 10.0], [20.0, 20.0, 20.0], [30.0, 30.0, 30.0]];
/// assert_eq!(columns.gather(&c)?, expected.into_dyn());
///
/// // Their product is the outer product, their comparison a table.
/// let outer: Vec<f64> = row
///     .broadcast_to(&[3, 3])?
///     .offsets()
///     .zip(columns.offsets())
///     .map(|(i, j)| c[i] * c[j])
///     .collect();
/// assert_eq!(outer, [100., 200., 300., 200., 400., 600., 300., 600., 900.]);
/// # Ok::<(), tensor_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct View {
    shape: Vec<usize>,
    strides: Vec<isize>,
    offset: usize,
}

/// The outcome of [`View::reshape`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reshape {
    /// A view of the same buffer with the same elements in the same order.
    View(View),
    /// No strides describe the new shape; the elements have to be copied first.
    NeedsCopy,
}

impl View {
    /// Creates the view of a whole buffer in row-major order.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if the number of elements overflows; [`Error::RankTooLarge`] if there
    /// are more than [`MAX_RANK`](crate::shape::MAX_RANK) axes.
    pub fn contiguous(shape: &[usize]) -> Result<Self> {
        let strides = row_major_strides("contiguous", shape)?;
        Self::checked("contiguous", shape.to_vec(), strides, 0)
    }

    /// Creates a view with arbitrary strides, in elements, and the offset of its first element.
    ///
    /// # Errors
    /// [`Error::StrideCount`] if there is not one stride per axis; [`Error::TooLarge`] if the
    /// number of elements overflows; [`Error::OutOfBounds`] if an element is before the start of
    /// the buffer or past `isize::MAX`.
    pub fn new(shape: &[usize], strides: &[isize], offset: usize) -> Result<Self> {
        Self::checked("view", shape.to_vec(), strides.to_vec(), offset)
    }

    fn checked(
        operation: &'static str,
        shape: Vec<usize>,
        mut strides: Vec<isize>,
        mut offset: usize,
    ) -> Result<Self> {
        if strides.len() != shape.len() {
            return Err(Error::StrideCount {
                operation,
                shape,
                strides,
            });
        }
        check_rank(operation, shape.len())?;
        if element_count(operation, &shape)? == 0 {
            // A view without elements reads nothing. A canonical form (strides and offset 0) keeps
            // later arithmetic in range, whatever the given strides are.
            strides.fill(0);
            offset = 0;
        }
        let view = Self {
            shape,
            strides,
            offset,
        };
        view.check_reach(operation, isize::MAX.unsigned_abs())?;
        Ok(view)
    }

    /// Returns the size of each axis.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the distance in the buffer between neighbours on each axis, in elements.
    #[must_use]
    pub fn strides(&self) -> &[isize] {
        &self.strides
    }

    /// Returns the offset in the buffer of the element with all indices zero.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Returns the number of elements, repeated elements included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns whether the view has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// Returns whether the elements are adjacent in the buffer and in row-major order.
    #[must_use]
    pub fn is_contiguous(&self) -> bool {
        // A contiguous view merges into a single block of stride 1, or into no block if it has one
        // element.
        self.is_empty() || matches!(blocks(&self.shape, &self.strides)[..], [] | [(_, 1)])
    }

    /// Broadcasts the view to `shape`: axes are aligned from the last one; new axes and axes of
    /// size 1 get stride 0.
    ///
    /// # Errors
    /// [`Error::NotBroadcastable`] if a size changes from a value other than 1, or the rank
    /// decreases; [`Error::TooLarge`] if the number of new elements overflows.
    pub fn broadcast_to(&self, shape: &[usize]) -> Result<Self> {
        let operation = "broadcast_to";
        let mismatch = || Error::NotBroadcastable {
            operation,
            from: self.shape.clone(),
            to: shape.to_vec(),
        };
        let first = shape
            .len()
            .checked_sub(self.shape.len())
            .ok_or_else(mismatch)?;
        let mut strides = vec![0; shape.len()];
        for (axis, &to) in shape.iter().enumerate().skip(first) {
            let from = self.shape[axis - first];
            if from == to {
                strides[axis] = self.strides[axis - first];
            } else if from != 1 {
                return Err(mismatch());
            }
        }
        Self::checked(operation, shape.to_vec(), strides, self.offset)
    }

    /// Reorders the axes: axis `i` of the result is axis `axes[i]` of this view.
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`] for an axis that does not exist; [`Error::NotAPermutation`] if an
    /// axis is missing or repeated.
    pub fn permute(&self, axes: &[isize]) -> Result<Self> {
        let operation = "permute";
        let mut resolved = Vec::with_capacity(axes.len());
        for &axis in axes {
            resolved.push(resolve_axis(operation, axis, &self.shape)?);
        }
        let mut sorted = resolved.clone();
        sorted.sort_unstable();
        if !sorted.into_iter().eq(0..self.shape.len()) {
            return Err(Error::NotAPermutation {
                operation,
                axes: axes.to_vec(),
                shape: self.shape.clone(),
            });
        }
        Ok(Self {
            shape: resolved.iter().map(|&axis| self.shape[axis]).collect(),
            strides: resolved.iter().map(|&axis| self.strides[axis]).collect(),
            offset: self.offset,
        })
    }

    /// Reverses the order of all axes; on a matrix this is the transpose.
    #[must_use]
    pub fn t(&self) -> Self {
        let mut view = self.clone();
        view.shape.reverse();
        view.strides.reverse();
        view
    }

    /// Inserts an axis of size 1 so that it becomes axis `axis` of the result; negative axes count
    /// from the end of the result, so -1 appends.
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`] unless `axis` is in `-(rank + 1)..=rank`; [`Error::RankTooLarge`]
    /// if there are [`MAX_RANK`](crate::shape::MAX_RANK) axes already.
    pub fn expand_dims(&self, axis: isize) -> Result<Self> {
        let at = axis_below(axis, self.shape.len() + 1).ok_or_else(|| Error::AxisOutOfRange {
            operation: "expand_dims",
            axis,
            shape: self.shape.clone(),
        })?;
        check_rank("expand_dims", self.shape.len() + 1)?;
        let mut view = self.clone();
        view.shape.insert(at, 1);
        view.strides.insert(at, 0);
        Ok(view)
    }

    /// Removes an axis of size 1.
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`] if there is no such axis; [`Error::NotSizeOne`] if its size is not
    /// 1.
    pub fn squeeze(&self, axis: isize) -> Result<Self> {
        let operation = "squeeze";
        let at = resolve_axis(operation, axis, &self.shape)?;
        if self.shape[at] != 1 {
            return Err(Error::NotSizeOne {
                operation,
                axis,
                shape: self.shape.clone(),
            });
        }
        let mut view = self.clone();
        view.shape.remove(at);
        view.strides.remove(at);
        Ok(view)
    }

    /// Changes the shape and keeps the row-major order of the elements. Returns [`Reshape::View`]
    /// whenever strides can describe the new shape, as in `NumPy`.
    ///
    /// Adjacent axes are first merged into blocks that one stride covers. Then each new axis has to
    /// be a part of one block.
    ///
    /// # Errors
    /// [`Error::ElementCount`] if the number of elements changes; [`Error::TooLarge`] if the new
    /// number overflows.
    ///
    /// # Examples
    /// ```
    /// use tensor_core::view::{Reshape, View};
    /// let images = View::contiguous(&[50, 784])?;
    /// assert_eq!(images.reshape(&[50, 28, 28])?, Reshape::View(View::contiguous(&[50, 28, 28])?));
    /// assert_eq!(images.t().reshape(&[50 * 784])?, Reshape::NeedsCopy);
    /// # Ok::<(), tensor_core::Error>(())
    /// ```
    pub fn reshape(&self, shape: &[usize]) -> Result<Reshape> {
        let operation = "reshape";
        let (from_len, to_len) = (self.len(), element_count(operation, shape)?);
        if from_len != to_len {
            let (from, to) = (self.shape.clone(), shape.to_vec());
            return Err(Error::ElementCount {
                operation,
                from,
                from_len,
                to,
                to_len,
            });
        }
        match reshaped_strides(&self.shape, &self.strides, shape) {
            Some(strides) => {
                Self::checked(operation, shape.to_vec(), strides, self.offset).map(Reshape::View)
            }
            None => Ok(Reshape::NeedsCopy),
        }
    }

    /// Selects a range of one axis by `NumPy`'s rules: negative bounds count from the end, bounds
    /// outside the axis are clamped, and a negative step walks backwards.
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`] if there is no such axis; [`Error::ZeroStep`] if the step is 0.
    ///
    /// # Examples
    /// ```
    /// use tensor_core::ndarray::array;
    /// use tensor_core::view::{Slice, View};
    /// let x = [0, 1, 2, 3, 4, 5, 6, 7];
    /// let view = View::contiguous(&[8])?;
    /// assert_eq!(view.slice(0, -3..)?.gather(&x)?, array![5, 6, 7].into_dyn());
    /// let backwards = Slice { start: Some(100), stop: Some(1), step: -3 };
    /// assert_eq!(view.slice(0, backwards)?.gather(&x)?, array![7, 4].into_dyn());
    /// # Ok::<(), tensor_core::Error>(())
    /// ```
    pub fn slice(&self, axis: isize, slice: impl Into<Slice>) -> Result<Self> {
        self.slice_as("slice", axis, slice.into())
    }

    fn slice_as(&self, operation: &'static str, axis: isize, slice: Slice) -> Result<Self> {
        let at = resolve_axis(operation, axis, &self.shape)?;
        let (first, len) = slice
            .resolve(self.shape[at])
            .ok_or_else(|| Error::ZeroStep {
                operation,
                axis,
                shape: self.shape.clone(),
            })?;
        let mut view = self.clone();
        view.shape[at] = len;
        if len > 0 && !self.is_empty() {
            view.offset = self
                .offset
                .wrapping_add_signed(self.strides[at] * first.cast_signed());
        }
        // With at least two elements this product is the distance between two elements, so it does
        // not saturate; with fewer the stride is unused.
        view.strides[at] = self.strides[at].saturating_mul(slice.step);
        Self::checked(operation, view.shape, view.strides, view.offset)
    }

    /// Reverses one axis.
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`] if there is no such axis.
    pub fn flip(&self, axis: isize) -> Result<Self> {
        self.slice_as(
            "flip",
            axis,
            Slice {
                start: None,
                stop: None,
                step: -1,
            },
        )
    }

    /// Splits one axis into windows of `size` elements whose starts are `step` elements apart; they
    /// overlap if `step < size`. The axis then counts the windows, and a new last axis runs through
    /// the elements of a window.
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`] if there is no such axis; [`Error::ZeroStep`] if `step` is 0;
    /// [`Error::WindowSize`] if `size` is 0 or exceeds the axis; [`Error::TooLarge`] if the number
    /// of elements of all windows overflows.
    ///
    /// # Examples
    /// ```
    /// let windows = tensor_core::View::contiguous(&[4])?.window(0, 3, 1)?;
    /// assert_eq!((windows.shape(), windows.strides()), (&[2, 3][..], &[1, 1][..]));
    /// assert_eq!(windows.offsets().collect::<Vec<_>>(), [0, 1, 2, 1, 2, 3]);
    /// # Ok::<(), tensor_core::Error>(())
    /// ```
    pub fn window(&self, axis: isize, size: usize, step: usize) -> Result<Self> {
        let operation = "window";
        let at = resolve_axis(operation, axis, &self.shape)?;
        if step == 0 {
            return Err(Error::ZeroStep {
                operation,
                axis,
                shape: self.shape.clone(),
            });
        }
        if size == 0 || size > self.shape[at] {
            return Err(Error::WindowSize {
                operation,
                axis,
                size,
                shape: self.shape.clone(),
            });
        }
        let mut view = self.clone();
        let stride = self.strides[at];
        // Shape [.., n, ..] becomes [.., windows, .., size]: both new axes walk the old one, with
        // strides `stride * step` and `stride`.
        view.shape[at] = (self.shape[at] - size) / step + 1;
        view.strides[at] = stride.saturating_mul(isize::try_from(step).unwrap_or(isize::MAX));
        view.shape.push(size);
        view.strides.push(stride);
        Self::checked(operation, view.shape, view.strides, view.offset)
    }

    /// Returns an iterator over the offsets of all elements, in row-major order.
    #[must_use]
    pub fn offsets(&self) -> Offsets<'_> {
        // Split off the last axis: a plain loop over it is faster than a step of the odometer per
        // element.
        let (outer, inner) = self.shape.split_at(self.shape.len().saturating_sub(1));
        let inner_len = inner.first().copied().unwrap_or(1);
        Offsets {
            rows: Odometer::new(outer, vec![&self.strides[..outer.len()]], vec![self.offset]),
            inner_len,
            inner_stride: self.strides.last().copied().unwrap_or(0),
            next: self.offset,
            left_in_row: inner_len,
            left: self.len(),
        }
    }

    /// Copies the elements of the view from the buffer `data` into an array.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] if the view reads past the end of `data`; [`Error::TooLarge`] if the
    /// result cannot be allocated.
    pub fn gather<T: Clone>(&self, data: &[T]) -> Result<ArrayD<T>> {
        let operation = "gather";
        allocatable_count::<T>(operation, &self.shape)?;
        self.check_reach(operation, data.len())?;
        let elements = self.offsets().map(|offset| data[offset].clone()).collect();
        crate::array::from_checked(operation, IxDyn(&self.shape), elements)
    }

    /// Checks that every element of the view is inside a buffer of `len` elements.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] with the smallest and the largest offset.
    pub fn check_within(&self, len: usize) -> Result<()> {
        self.check_reach("check_within", len)
    }

    fn check_reach(&self, operation: &'static str, len: usize) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        // The product of the sizes fits `isize`, so these sums are far from the limits of `i128`.
        let (mut low, mut high) = (self.offset as i128, self.offset as i128);
        for (&size, &stride) in self.shape.iter().zip(&self.strides) {
            let span = (size as i128 - 1) * stride as i128;
            low += span.min(0);
            high += span.max(0);
        }
        if low >= 0 && high < len as i128 {
            return Ok(());
        }
        Err(Error::OutOfBounds {
            operation,
            shape: self.shape.clone(),
            low,
            high,
            len,
        })
    }
}

/// Returns the strides with which shape `to` visits the same offsets in the same order as shape
/// `from` with `strides`; `None` if no such strides exist. The shapes must have the same number of
/// elements.
pub(crate) fn reshaped_strides(
    from: &[usize],
    strides: &[isize],
    to: &[usize],
) -> Option<Vec<isize>> {
    let mut reshaped = vec![0; to.len()];
    if from.contains(&0) {
        return Some(reshaped);
    }
    // Distribute the blocks over the new axes, from the last one: each axis takes a factor `size`
    // of the current block, of which `left` elements are not yet used.
    let mut blocks = blocks(from, strides);
    let (mut left, mut stride) = (1, 1);
    for (axis, &size) in to.iter().enumerate().rev() {
        if size > 1 && left == 1 {
            // The numbers of elements are equal, so a block remains whenever an axis still needs
            // one.
            (left, stride) = blocks.pop().unwrap_or((1, 1));
        }
        if left % size != 0 {
            return None;
        }
        reshaped[axis] = stride;
        left /= size;
        stride = stride.saturating_mul(size.cast_signed());
    }
    Some(reshaped)
}

/// Merges adjacent axes: returns the shortest list of `(size, stride)` that visits the same offsets
/// in the same order. An outer axis merges with an inner one if its stride equals the extent of the
/// inner axis, `size * stride`.
fn blocks(shape: &[usize], strides: &[isize]) -> Vec<(usize, isize)> {
    let mut blocks: Vec<(usize, isize)> = Vec::new();
    for (&size, &stride) in shape.iter().zip(strides).filter(|(size, _)| **size != 1) {
        match blocks.last_mut() {
            Some(block) if block.1 == stride.saturating_mul(size.cast_signed()) => {
                *block = (block.0 * size, stride);
            }
            _ => blocks.push((size, stride)),
        }
    }
    blocks
}

/// An iterator over the offsets of a view's elements in row-major order, created by
/// [`View::offsets`].
#[derive(Debug, Clone)]
pub struct Offsets<'v> {
    rows: Odometer<'v>,
    inner_len: usize,
    inner_stride: isize,
    next: usize,
    left_in_row: usize,
    left: usize,
}

impl Iterator for Offsets<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        let offset = self.next;
        self.left_in_row -= 1;
        if self.left_in_row > 0 {
            self.next = offset.wrapping_add_signed(self.inner_stride);
        } else {
            self.rows.advance();
            self.next = self.rows.offsets[0];
            self.left_in_row = self.inner_len;
        }
        Some(offset)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Offsets<'_> {}

/// A multi-dimensional counter that tracks the offsets of several index maps of one shape, in
/// row-major order.
#[derive(Debug, Clone)]
pub(crate) struct Odometer<'a> {
    shape: &'a [usize],
    strides: Vec<&'a [isize]>,
    index: Vec<usize>,
    /// The current offset of each map.
    pub(crate) offsets: Vec<usize>,
}

impl<'a> Odometer<'a> {
    /// Creates the counter at index zero, where the maps have the given offsets. No size may be
    /// zero.
    pub(crate) fn new(shape: &'a [usize], strides: Vec<&'a [isize]>, offsets: Vec<usize>) -> Self {
        Self {
            shape,
            strides,
            index: vec![0; shape.len()],
            offsets,
        }
    }

    /// Advances to the next index. After the last index it returns to the first one and returns
    /// `false`.
    pub(crate) fn advance(&mut self) -> bool {
        for axis in (0..self.shape.len()).rev() {
            self.index[axis] += 1;
            // An axis that wraps returns to its start, `size - 1` steps back, and the next outer
            // axis advances.
            let wraps = self.index[axis] == self.shape[axis];
            let steps = if wraps {
                1 - self.shape[axis].cast_signed()
            } else {
                1
            };
            for (offset, strides) in self.offsets.iter_mut().zip(&self.strides) {
                *offset = offset.wrapping_add_signed(strides[axis] * steps);
            }
            if !wraps {
                return true;
            }
            self.index[axis] = 0;
        }
        false
    }
}
