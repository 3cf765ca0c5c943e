//! Scatters: sums, maxima and minima of elements at positions that another tensor holds, counts of
//! integers, and histograms.
//!
//! Method: a scatter is a reduction. The index is compared with every position of the axis, and the
//! elements whose index equals the position are folded. The host computes such a reduction in one
//! pass over the elements; devices compare every index with every position.
//! Order: the order in which the elements of a position are folded is fixed, so that the same
//! executor computes the same bits each time.

use super::{Axes, Axis, Tensor, hook, or_error_node};
use crate::dtype::{DType, Scalar};
use crate::error::{Error, Result};
use crate::op::{Binary, MAX_POSITIONS, Reduce};
use crate::shape::resolve_axis;

/// The values of a scatter with their positions.
struct Spread {
    /// The position of each value on the axis, as `u32`; broadcasts to the shape of the values.
    positions: Tensor,
    values: Tensor,
    /// The axes of the values that are folded.
    folded: Vec<usize>,
    /// The axis of the result.
    axis: usize,
    /// The size of this axis.
    size: usize,
}

impl Tensor {
    /// Returns this tensor with each element of `values` added to the element at the position that
    /// `index` holds; the counterpart of [`gather`](Tensor::gather).
    ///
    /// The shape of `values` is that of this tensor with the axis replaced by the shape of `index`;
    /// smaller shapes broadcast. Elements with equal positions are all added. Negative positions
    /// count from the end. As `numpy.add.at(x, index, values)` on axis 0.
    ///
    /// A position outside the axis is an error on evaluation, [`Error::IndexOutOfRange`], unless
    /// the result is empty.
    ///
    /// Accuracy: a sum of `n` terms of type `f32` has an error of at most `n` units of rounding of
    /// the sum of the magnitudes, as [`sum`](Tensor::sum). Cost: on the host one pass over
    /// `values`, on other devices one comparison for each pair of an index and a position.
    ///
    /// Returns an error node of [`Error::DTypeUnsupported`] for `f16` and `bool`, of
    /// [`Error::DTypeMismatch`] if the types of `values` and of this tensor differ, of
    /// [`Error::NotBroadcastable`] for `values` of another shape, and of [`Error::EmptyReduction`]
    /// if the axis has size 0, but the index is not empty.
    ///
    /// # Examples
    /// ```
    /// use tensor_core::ndarray::array;
    /// use tensor_core::{Host, Tensor};
    /// let totals = Tensor::from_array(array![100.0_f32, 200.0, 300.0]);
    /// let at = Tensor::from_array(array![2, 0, 2, -1]);
    /// let amounts = Tensor::from_array(array![1.0_f32, 2.0, 3.0, 4.0]);
    /// let totals = totals.scatter_add(&at, &amounts, 0).eval::<f32>(&Host::new())?;
    /// assert_eq!(totals, array![102.0, 200.0, 308.0].into_dyn());
    /// # Ok::<(), tensor_core::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn scatter_add(&self, index: &Self, values: &Self, axis: impl Into<Axis>) -> Self {
        let spread = self.spread("scatter_add", index, values, axis.into());
        self.scattered("scatter_add", Reduce::Sum, [index, values], spread)
    }

    /// Returns the largest of each element of this tensor and the elements of `values` at its
    /// position; NaN if one of these is NaN. Shapes, positions and errors are those of
    /// [`scatter_add`](Tensor::scatter_add).
    ///
    /// The gradient is divided evenly among all elements that equal the maximum.
    #[track_caller]
    #[must_use]
    pub fn scatter_max(&self, index: &Self, values: &Self, axis: impl Into<Axis>) -> Self {
        let spread = self.spread("scatter_max", index, values, axis.into());
        self.scattered("scatter_max", Reduce::Max, [index, values], spread)
    }

    /// Returns the smallest of each element of this tensor and the elements of `values` at its
    /// position, as [`scatter_max`](Tensor::scatter_max) returns the largest.
    #[track_caller]
    #[must_use]
    pub fn scatter_min(&self, index: &Self, values: &Self, axis: impl Into<Axis>) -> Self {
        let spread = self.spread("scatter_min", index, values, axis.into());
        self.scattered("scatter_min", Reduce::Min, [index, values], spread)
    }

    /// Returns this tensor with each element of `values` added to an element. `index` holds the
    /// position of this element along `axis`; the other coordinates are those of the value. The
    /// counterpart of [`take_along_axis`](Tensor::take_along_axis), and PyTorch's `scatter_add`.
    ///
    /// `index` has the rank of this tensor, and its other axes broadcast. The shape of `values` is
    /// that of this tensor with the size of `index` on the axis; smaller shapes broadcast.
    /// Positions and errors are those of [`scatter_add`](Tensor::scatter_add).
    #[track_caller]
    #[must_use]
    pub fn scatter_add_along_axis(
        &self,
        index: &Self,
        values: &Self,
        axis: impl Into<Axis>,
    ) -> Self {
        let operation = "scatter_add_along_axis";
        let spread = self.spread_along_axis(operation, index, values, axis.into());
        self.scattered(operation, Reduce::Sum, [index, values], spread)
    }

    /// Returns the largest of each element of this tensor and the elements of `values` at its
    /// position. `index` is as in [`scatter_add_along_axis`](Tensor::scatter_add_along_axis); NaN
    /// and gradients are as in [`scatter_max`](Tensor::scatter_max).
    #[track_caller]
    #[must_use]
    pub fn scatter_max_along_axis(
        &self,
        index: &Self,
        values: &Self,
        axis: impl Into<Axis>,
    ) -> Self {
        let operation = "scatter_max_along_axis";
        let spread = self.spread_along_axis(operation, index, values, axis.into());
        self.scattered(operation, Reduce::Max, [index, values], spread)
    }

    /// Returns the smallest of each element of this tensor and the elements of `values` at its
    /// position. `index` is as in [`scatter_add_along_axis`](Tensor::scatter_add_along_axis); NaN
    /// and gradients are as in [`scatter_min`](Tensor::scatter_min).
    #[track_caller]
    #[must_use]
    pub fn scatter_min_along_axis(
        &self,
        index: &Self,
        values: &Self,
        axis: impl Into<Axis>,
    ) -> Self {
        let operation = "scatter_min_along_axis";
        let spread = self.spread_along_axis(operation, index, values, axis.into());
        self.scattered(operation, Reduce::Min, [index, values], spread)
    }

    /// Counts how often each of the integers `0, 1, …, n - 1` occurs in this tensor, as
    /// `numpy.bincount`. The result has shape `[n]` and type `u32`.
    ///
    /// For sums of weights write `Tensor::zeros(&[n], dtype).scatter_add(&index, &weights, 0)`.
    ///
    /// An element of `n` or more is an error on evaluation, [`Error::IndexOutOfRange`]. A negative
    /// element `i` is reported as `i + 2^32`.
    ///
    /// Returns an error node of [`Error::DTypeUnsupported`] for types other than `i32` and `u32`,
    /// of [`Error::TooLarge`] if `n` exceeds 2^32 (2^31 for `i32`), and of
    /// [`Error::EmptyReduction`] if `n` is 0, but this tensor is not empty.
    ///
    /// # Examples
    /// ```
    /// use tensor_core::ndarray::array;
    /// use tensor_core::{Host, Tensor};
    /// let throws = Tensor::from_array(array![3, 0, 3, 1]);
    /// assert_eq!(throws.bincount(5).eval::<u32>(&Host::new())?, array![1, 1, 0, 2, 0].into_dyn());
    /// # Ok::<(), tensor_core::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn bincount(&self, n: usize) -> Self {
        let operation = "bincount";
        or_error_node!(self.check().and_then(|()| integers(operation, self)));
        // A negative `i32` becomes a position of at least 2^31, which must be outside.
        let limit = match self.0.dtype {
            DType::I32 => MAX_POSITIONS / 2,
            _ => MAX_POSITIONS,
        };
        if n > limit {
            return Self::error(Error::TooLarge {
                operation,
                shape: vec![n],
                limit,
            });
        }
        let positions = Self::by_caller(|| {
            let _lazily = hook::pause();
            checked_positions(operation, &self.cast(DType::U32), n)
        });
        let positions = or_error_node!(positions);
        Self::by_caller(|| count(operation, &positions, n)).composed(operation, &[self])
    }

    /// Counts the elements of this tensor in each of `n_bins` intervals of equal width between
    /// `low` and `high`, as `numpy.histogram`. The result has shape `[n_bins]` and type `u32`.
    ///
    /// Bin `k` contains the elements with `edge(k) <= x < edge(k + 1)`, the last bin also those
    /// that equal `high`. Here `edge(k) = low + k * width` and `edge(n_bins) = high`, computed in
    /// the type of this tensor; `width`, which is `(high - low) / n_bins`, is computed in `f64` and
    /// rounded to this type. Other elements and NaN are not counted.
    ///
    /// Returns an error node of [`Error::DTypeUnsupported`] for types other than `f32` and `f64`,
    /// and of [`Error::InvalidBins`] if `n_bins` is 0 or more than 2^20, if `low` is not less than
    /// `high`, if `high - low` is infinite in the type of this tensor, or if a bin is narrower than
    /// four units in the last place of the larger limit.
    ///
    /// # Examples
    /// ```
    /// use tensor_core::ndarray::array;
    /// use tensor_core::{Host, Tensor};
    /// let x = Tensor::from_array(array![0.1_f32, 0.25, 0.9, 1.0, 7.0]);
    /// let counts = x.histogram(4, 0.0, 1.0).eval::<u32>(&Host::new())?;
    /// assert_eq!(counts, array![1, 1, 0, 2].into_dyn());
    /// # Ok::<(), tensor_core::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn histogram(&self, n_bins: usize, low: f64, high: f64) -> Self {
        let (operation, dtype) = ("histogram", self.0.dtype);
        or_error_node!(self.check());
        if !matches!(dtype, DType::F32 | DType::F64) {
            return Self::error(Error::DTypeUnsupported { operation, dtype });
        }
        if !has_bins(dtype, n_bins, [low, high]) {
            return Self::error(Error::InvalidBins {
                operation,
                n_bins,
                most: MAX_BINS,
                low,
                high,
            });
        }
        Self::by_caller(|| count(operation, &self.bin(n_bins, [low, high]), n_bins))
            .composed(operation, &[self])
    }

    /// Returns the number of the bin of each element, as `u32`; a number after those of all bins
    /// for elements outside.
    fn bin(&self, n_bins: usize, [low, high]: [f64; 2]) -> Self {
        let width = (high - low) / n_bins as f64;
        let constant = |value: f64| Self::constant(Scalar::F64(value).cast(self.0.dtype));
        let last = (n_bins - 1) as f64;
        let _lazily = hook::pause();
        // The quotient is rounded, so that it may be off by one bin near an edge.
        let near = (self - constant(low)) / constant(width);
        let near = near.floor().maximum(constant(0.0)).minimum(constant(last));
        let edge = |bin: &Self| bin * constant(width) + constant(low);
        let is_below = self.lt(edge(&near));
        let near = is_below.select(&near - constant(1.0), &near);
        let next = &near + constant(1.0);
        let is_above = self.ge(edge(&next)).select(next.le(constant(last)), false);
        let bin = is_above.select(next, near);
        let is_inside = self
            .ge(constant(low))
            .select(self.le(constant(high)), false);
        let outside = Self::constant(Scalar::U32(u32::MAX));
        is_inside.select(bin.cast(DType::U32), outside)
    }

    /// Returns the positions of a scatter whose index replaces the axis.
    #[track_caller]
    fn spread(
        &self,
        operation: &'static str,
        index: &Self,
        values: &Self,
        axis: Axis,
    ) -> Result<Spread> {
        Self::by_caller(|| {
            let shape = self.shape()?;
            let axis = resolve_axis(operation, axis.number(), shape)?;
            let n_index = index.shape()?.len();
            let (before, after) = (&shape[..axis], &shape[axis + 1..]);
            let full = [before, &index.0.shape, after].concat();
            integers(operation, index)?;
            let positions = checked_positions(operation, index, shape[axis])?;
            let aligned = [&index.0.shape[..], &vec![1; after.len()]].concat();
            Ok(Spread {
                positions: positions.reshape(&aligned),
                values: values.broadcast_to(&full).composed(operation, &[values]),
                folded: (axis..axis + n_index).collect(),
                axis,
                size: shape[axis],
            })
        })
    }

    /// Returns the positions of a scatter along an axis.
    #[track_caller]
    fn spread_along_axis(
        &self,
        operation: &'static str,
        index: &Self,
        values: &Self,
        axis: Axis,
    ) -> Result<Spread> {
        Self::by_caller(|| {
            let shape = self.shape()?;
            let axis = resolve_axis(operation, axis.number(), shape)?;
            let from = index.shape()?;
            if from.len() != shape.len() {
                return Err(Error::NotBroadcastable {
                    operation,
                    from: from.to_vec(),
                    to: shape.to_vec(),
                });
            }
            let mut full = shape.to_vec();
            full[axis] = from[axis];
            integers(operation, index)?;
            let positions = checked_positions(operation, index, shape[axis])?;
            Ok(Spread {
                positions: positions.broadcast_to(&full).composed(operation, &[index]),
                values: values.broadcast_to(&full).composed(operation, &[values]),
                folded: vec![axis],
                axis,
                size: shape[axis],
            })
        })
    }

    /// Folds values into this tensor.
    #[track_caller]
    fn scattered(
        &self,
        operation: &'static str,
        op: Reduce,
        [index, values]: [&Self; 2],
        spread: Result<Spread>,
    ) -> Self {
        let spread = or_error_node!(spread);
        let checked = values.check().and_then(|()| match self.0.dtype {
            dtype @ (DType::F16 | DType::Bool) => Err(Error::DTypeUnsupported { operation, dtype }),
            left if left != values.0.dtype => Err(Error::DTypeMismatch {
                operation,
                left,
                right: values.0.dtype,
            }),
            _ => Ok(()),
        });
        or_error_node!(checked);
        or_error_node!(spread.values.check().and(spread.positions.check()));
        if spread.values.0.shape.contains(&0) {
            return self.clone();
        }
        let result = Self::by_caller(|| {
            let lazily = hook::pause();
            let folded = spread.folded_by(operation, op);
            or_error_node!(folded.check());
            let result = self.binary(op.binary(), &folded);
            let result = match op {
                Reduce::Max | Reduce::Min if self.0.dtype.is_float() => {
                    let gradient = spread.gradient_of_extreme(operation, self, &result);
                    result.with_surrogate_gradient(&gradient)
                }
                _ => result,
            };
            drop(lazily);
            hook::after_operation(result)
        });
        result.composed(operation, &[self, index, values])
    }
}

impl Spread {
    /// Returns the fold of the values at each position of the axis; neutral where there are none.
    fn folded_by(&self, operation: &'static str, op: Reduce) -> Tensor {
        let neutral = Tensor::constant(op.neutral(self.values.0.dtype));
        let hits = is_at(operation, &self.positions, self.size);
        let spread = hits.select(self.values.expand_dims(-1), neutral);
        let folded: Vec<isize> = self.folded.iter().map(|axis| axis.cast_signed()).collect();
        let result = spread.reduced(op, &Axes::from(folded));
        // The values with the axis of positions may be too large or have too many axes.
        or_error_node!(result.check());
        // The positions are the last axis.
        let rank = result.0.shape.len();
        let mut order: Vec<isize> = (0..rank - 1).map(usize::cast_signed).collect();
        order.insert(self.axis, (rank - 1).cast_signed());
        result.permute(&order)
    }

    /// Returns the element of a result at the position of each value.
    fn read(&self, result: &Tensor) -> Tensor {
        let shape = &self.values.0.shape;
        match self.folded[..] {
            [axis] if axis == self.axis && shape.len() == result.0.shape.len() => {
                let positions = self.positions.broadcast_to(shape);
                result.take_along_axis(&positions, axis)
            }
            _ => {
                let axes = self.folded.len();
                let index = self.positions.reshape(&shape[self.axis..self.axis + axes]);
                result.gather(&index, self.axis)
            }
        }
    }

    /// Returns a function of `start` and the values whose gradient is that of the extremes
    /// `result`.
    fn gradient_of_extreme(
        &self,
        operation: &'static str,
        start: &Tensor,
        result: &Tensor,
    ) -> Tensor {
        // Comparisons have no derivatives, so the numbers of equal elements are constants.
        let is_extreme = |x: &Tensor, extreme: &Tensor| x.eq(extreme).cast(start.0.dtype);
        let of_start = is_extreme(start, result);
        let of_values = is_extreme(&self.values, &self.read(result));
        let sums = |values: Tensor| {
            let positions = self.positions.clone();
            let folded = self.folded.clone();
            let values = Self {
                positions,
                values,
                folded,
                ..*self
            };
            values.folded_by(operation, Reduce::Sum)
        };
        let n = &of_start + sums(of_values.clone());
        let shares = &self.values * of_values / self.read(&n);
        (start * of_start / n).binary(Binary::Add, sums(shares))
    }
}

/// The largest number of bins of a histogram: the quotient of an element and the width of so many
/// bins has an error of less than half a bin in `f32`.
const MAX_BINS: usize = 1 << 20;

/// Returns whether the bins of a histogram exist, and are so wide in a type that their edges are
/// off by less than half a bin.
fn has_bins(dtype: DType, n_bins: usize, [low, high]: [f64; 2]) -> bool {
    let number = |value: f64| Scalar::F64(value).cast(dtype).to_f64();
    let (range, width) = (number(high - low), number((high - low) / n_bins as f64));
    let largest = number(low).abs().max(number(high).abs());
    let epsilon = match dtype {
        DType::F64 => f64::EPSILON,
        _ => f32::EPSILON.into(),
    };
    let is_wide = width >= 4.0 * epsilon * largest && width > 0.0;
    (1..=MAX_BINS).contains(&n_bins) && is_wide && range.is_finite() && largest.is_finite()
}

/// Returns an error if an index does not consist of integers.
fn integers(operation: &'static str, index: &Tensor) -> Result<()> {
    let dtype = index.0.dtype;
    if dtype.is_integer() {
        Ok(())
    } else {
        Err(Error::DTypeUnsupported { operation, dtype })
    }
}

/// Returns the positions of an index as `u32`. A position outside the axis is an error on
/// evaluation.
pub(super) fn checked_positions(
    operation: &'static str,
    index: &Tensor,
    size: usize,
) -> Result<Tensor> {
    // A gather checks its index, and counts negative positions from the end.
    let positions = Tensor::index(operation, size, MAX_POSITIONS).gather(index, 0);
    let positions = positions.composed(operation, &[index]);
    positions.check().map(|()| positions)
}

/// Returns for each element of an index, along a new last axis, whether it equals each position.
pub(super) fn is_at(operation: &'static str, index: &Tensor, size: usize) -> Tensor {
    let positions = Tensor::index(operation, size, MAX_POSITIONS);
    index.expand_dims(-1).eq(positions)
}

/// Counts the elements of an index at each position.
#[track_caller]
fn count(operation: &'static str, index: &Tensor, size: usize) -> Tensor {
    let axes: Vec<isize> = (0..index.0.shape.len()).map(usize::cast_signed).collect();
    let lazily = hook::pause();
    let counts = is_at(operation, index, size).reduced(Reduce::Sum, &Axes::from(axes));
    drop(lazily);
    hook::after_operation(counts)
}
