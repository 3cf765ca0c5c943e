//! Sorts along an axis, the positions of sorted elements, and the largest elements.
//!
//! Method: each sort is one step, which reads its operand from memory.
//! Order: sorts are stable, so equal elements keep their order. -0.0 equals 0.0, and NaN is last,
//! whatever the direction. The result is therefore defined to the bit, on any executor and any
//! number of threads.

use super::{Axis, Op, Tensor, or_error_node};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::{MAX_POSITIONS, Sort, Sorted};
use crate::shape::resolve_axis;

/// The axis of a sort and its direction. Conversions exist from `isize`, `usize` and `i32`.
///
/// # Examples
/// ```
/// use tensor_core::ndarray::array;
/// use tensor_core::{Host, SortAxis, Tensor};
/// let x = Tensor::from_array(array![2.0_f32, f32::NAN, 3.0, 1.0]);
/// let order = |axis: SortAxis| x.argsort(axis).eval::<u32>(&Host::new());
/// assert_eq!(order(SortAxis::new(0))?, array![3, 0, 2, 1].into_dyn());
/// assert_eq!(order(SortAxis::new(0).descending())?, array![2, 0, 3, 1].into_dyn());
/// # Ok::<(), tensor_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SortAxis {
    axis: Axis,
    descending: bool,
}

impl SortAxis {
    /// Creates the options of a sort along `axis`, smallest element first.
    #[must_use]
    pub fn new(axis: impl Into<Axis>) -> Self {
        Self {
            axis: axis.into(),
            descending: false,
        }
    }

    /// Sets the direction: the largest element is first. Equal elements keep their order, and NaN
    /// stays last.
    #[must_use]
    pub fn descending(self) -> Self {
        Self {
            descending: true,
            ..self
        }
    }
}

impl<A: Into<Axis>> From<A> for SortAxis {
    fn from(axis: A) -> Self {
        Self::new(axis)
    }
}

impl Tensor {
    /// Returns the elements of each line along `axis` in ascending order, as `numpy.sort`. The
    /// shape stays the same.
    ///
    /// Equal elements keep their order; -0.0 equals 0.0; NaN is last. The gradient of each result
    /// flows to the input element that the sort moved there.
    ///
    /// Returns an error node of [`Error::DTypeUnsupported`] for `f16`, and of
    /// [`Error::AxisOutOfRange`]. The gradient is an error node of [`Error::TooLarge`] if the axis
    /// has more than 2^32 elements.
    ///
    /// # Examples
    /// ```
    /// use tensor_core::ndarray::array;
    /// use tensor_core::{Host, SortAxis, Tensor};
    /// let x = Tensor::from_array(array![[3, 1, 2], [0, 5, 4]]);
    /// let sorted = x.sort(SortAxis::new(1).descending()).eval::<i32>(&Host::new())?;
    /// assert_eq!(sorted, array![[3, 2, 1], [5, 4, 0]].into_dyn());
    /// # Ok::<(), tensor_core::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn sort(&self, axis: impl Into<SortAxis>) -> Self {
        self.sorted(Sorted::Elements, axis.into())
    }

    /// Returns the position in this tensor, along `axis`, of each element of `sort(axis)`, as
    /// `u32`. The shape stays the same. The result equals that of `numpy.argsort` with
    /// `stable=True` for an ascending sort.
    ///
    /// `x.take_along_axis(&x.argsort(axis), axis)` has the bits of `x.sort(axis)`.
    ///
    /// Returns an error node of [`Error::DTypeUnsupported`] for `f16`, of
    /// [`Error::AxisOutOfRange`], and of [`Error::TooLarge`] if the axis has more than 2^32
    /// elements.
    #[track_caller]
    #[must_use]
    pub fn argsort(&self, axis: impl Into<SortAxis>) -> Self {
        self.sorted(Sorted::Positions, axis.into())
    }

    /// Returns the `k` largest elements of each line along `axis` in descending order, and their
    /// positions as `u32`. In both results the axis has size `k`. Of equal elements, those with the
    /// lowest positions are selected. NaN is never larger than a number, so NaN is selected only if
    /// a line has fewer than `k` numbers.
    ///
    /// Cost: that of [`argsort`](Tensor::argsort), whatever `k` is. The gradient is a scatter, as
    /// that of [`take_along_axis`](Tensor::take_along_axis).
    ///
    /// Returns error nodes as `argsort`, and of [`Error::TooFewElements`] if the axis has fewer
    /// than `k` elements.
    ///
    /// # Examples
    /// ```
    /// use tensor_core::ndarray::array;
    /// use tensor_core::{Host, Tensor};
    /// let x = Tensor::from_array(array![0.5_f32, 2.0, -1.0, 2.0]);
    /// let (largest, positions) = x.topk(2, 0);
    /// assert_eq!(largest.eval::<f32>(&Host::new())?, array![2.0, 2.0].into_dyn());
    /// assert_eq!(positions.eval::<u32>(&Host::new())?, array![1, 3].into_dyn());
    /// # Ok::<(), tensor_core::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn topk(&self, k: usize, axis: impl Into<Axis>) -> (Self, Self) {
        let (operation, axis) = ("topk", axis.into());
        let checked = self.shape().and_then(|shape| {
            let size = shape[resolve_axis(operation, axis.number(), shape)?];
            if k <= size {
                Ok(k.cast_signed())
            } else {
                Err(Error::TooFewElements {
                    operation,
                    requested: k,
                    available: size,
                    axis: axis.number(),
                    shape: shape.to_vec(),
                })
            }
        });
        let k = match checked {
            Ok(k) => k,
            Err(error) => {
                let node = Self::error(error);
                return (node.clone(), node);
            }
        };
        let order = self.argsort(SortAxis::new(axis).descending());
        let positions = order.slice(axis, ..k);
        let largest = self.take_along_axis(&positions, axis);
        (
            largest.composed(operation, &[self]),
            positions.composed(operation, &[self]),
        )
    }

    #[track_caller]
    fn sorted(&self, result: Sorted, along: SortAxis) -> Self {
        let SortAxis { axis, descending } = along;
        let sort = |axis| Sort {
            axis,
            descending,
            result,
        };
        let (operation, dtype) = (sort(0).name(), self.0.dtype);
        let resolved = self.shape().and_then(|shape| {
            let axis = resolve_axis(operation, axis.number(), shape)?;
            if dtype != DType::Bool && !sort(axis).accepts(dtype) {
                return Err(Error::DTypeUnsupported { operation, dtype });
            }
            if result == Sorted::Positions {
                has_positions(operation, shape, axis)?;
            }
            Ok(sort(axis))
        });
        let sort = or_error_node!(resolved);
        if dtype != DType::Bool {
            return self.sorted_by(sort);
        }
        let sorted = self.cast(DType::U32).sorted_by(sort);
        match result {
            Sorted::Elements => sorted.cast(DType::Bool),
            Sorted::Positions => sorted,
        }
    }

    /// Applies a sort that accepts the type of this tensor.
    #[track_caller]
    pub(crate) fn sorted_by(&self, sort: Sort) -> Self {
        let (shape, dtype) = (self.0.shape.clone(), sort.dtype(self.0.dtype));
        Self::new(Op::Sort(sort), vec![self.clone()], shape, dtype)
    }

    /// Returns the cotangent of `self`, given the cotangent of its sorted elements; `None` for the
    /// cotangent of positions.
    pub(super) fn cotangent_of_sort(&self, sort: Sort, cotangent: &Self) -> Option<Self> {
        if sort.result == Sorted::Positions {
            return None;
        }
        if let Err(error) = has_positions(sort.name(), &self.0.shape, sort.axis) {
            return Some(Self::error(error));
        }
        let positions = Sort {
            result: Sorted::Positions,
            ..sort
        };
        // The positions that sort a permutation are its inverse.
        let inverse = self.sorted_by(positions).sorted_by(Sort {
            descending: false,
            ..positions
        });
        Some(cotangent.take_along_axis(&inverse, sort.axis))
    }
}

/// Returns an error if the positions of an axis do not fit `u32`.
fn has_positions(operation: &'static str, shape: &[usize], axis: usize) -> Result<()> {
    if shape[axis] <= MAX_POSITIONS {
        return Ok(());
    }
    Err(Error::TooLarge {
        operation,
        shape: shape.to_vec(),
        limit: MAX_POSITIONS,
    })
}
