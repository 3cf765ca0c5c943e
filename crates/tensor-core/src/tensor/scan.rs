//! Scans: cumulative sums, products, maxima and minima along an axis.
//!
//! Method: each scan is one node, which a step computes together with the elementwise operations
//! before and after the scan. The elements of one line are combined in an order that depends on the
//! step alone, never on the number of threads.
//! Accuracy: as the corresponding reduction of the elements that a result covers.
//! Limits: a view of a scan is read from memory.

use super::{Axis, Op, Tensor, or_error_node};
use crate::dtype::{DType, Scalar};
use crate::error::{Error, Result};
use crate::op::{Binary, MAX_POSITIONS, Reduce, Scan};
use crate::shape::resolve_axis;

/// The axis of a scan, its direction, and whether results leave out the element at their own
/// position. Conversions exist from `isize`, `usize` and `i32`.
///
/// # Examples
/// ```
/// use tensor_core::ndarray::array;
/// use tensor_core::{Host, ScanAxis, Tensor};
/// let x = Tensor::from_array(array![1.0_f32, 2.0, 4.0]);
/// let sums = |axis: ScanAxis| x.cumsum(axis).eval::<f32>(&Host::new());
/// assert_eq!(sums(ScanAxis::new(0))?, array![1.0, 3.0, 7.0].into_dyn());
/// assert_eq!(sums(ScanAxis::new(0).reversed())?, array![7.0, 6.0, 4.0].into_dyn());
/// assert_eq!(sums(ScanAxis::new(0).exclusive())?, array![0.0, 1.0, 3.0].into_dyn());
/// # Ok::<(), tensor_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ScanAxis {
    axis: Axis,
    reversed: bool,
    exclusive: bool,
}

impl ScanAxis {
    /// Creates the options of a scan along `axis` that begins at the start of the axis. Each result
    /// covers its own position.
    #[must_use]
    pub fn new(axis: impl Into<Axis>) -> Self {
        Self {
            axis: axis.into(),
            reversed: false,
            exclusive: false,
        }
    }

    /// Sets the direction: the scan begins at the end of the axis, and each result covers the
    /// elements from its position to the end.
    #[must_use]
    pub fn reversed(self) -> Self {
        Self {
            reversed: true,
            ..self
        }
    }

    /// Leaves out the element at the position of each result. The first result of a line is 0 for a
    /// sum, 1 for a product, and the least or greatest value of the type for a maximum or minimum
    /// (an infinity for floats).
    #[must_use]
    pub fn exclusive(self) -> Self {
        Self {
            exclusive: true,
            ..self
        }
    }
}

impl<A: Into<Axis>> From<A> for ScanAxis {
    fn from(axis: A) -> Self {
        Self::new(axis)
    }
}

impl Tensor {
    /// Returns the cumulative sums along `axis`, as `numpy.cumsum`: each element becomes the sum of
    /// the elements from the start of the axis to its position. Integers wrap; the cumulative sums
    /// of `bool`s are counts, as `u32`. The shape stays the same.
    ///
    /// The sums of floats that are not negative need not grow: rounding may make a sum smaller than
    /// the sum before it, by a few units in the last place. The elements are added in groups: if
    /// the sum of some elements of a line overflows, later results may be infinite or NaN.
    #[track_caller]
    #[must_use]
    pub fn cumsum(&self, axis: impl Into<ScanAxis>) -> Self {
        self.scanned(Reduce::Sum, axis.into())
    }

    /// Returns the cumulative products along `axis`, as `numpy.cumprod`. Integers wrap.
    ///
    /// Floats are multiplied in groups: if the product of any neighbouring elements overflows,
    /// later results may be infinite or NaN, even after an element 0.
    ///
    /// If the derivative with respect to an element is 0 because another element is 0, this
    /// derivative is treated as a constant, so second derivatives are 0 there.
    #[track_caller]
    #[must_use]
    pub fn cumprod(&self, axis: impl Into<ScanAxis>) -> Self {
        self.scanned(Reduce::Prod, axis.into())
    }

    /// Returns the cumulative maxima along `axis`, as `numpy.maximum.accumulate`: NaN from the
    /// first NaN on. The gradient of each result belongs to the first largest element in the order
    /// of the scan.
    #[track_caller]
    #[must_use]
    pub fn cummax(&self, axis: impl Into<ScanAxis>) -> Self {
        self.scanned(Reduce::Max, axis.into())
    }

    /// Returns the cumulative minima along `axis`, as `numpy.minimum.accumulate`: NaN from the
    /// first NaN on. The gradient of each result belongs to the first smallest element in the order
    /// of the scan.
    #[track_caller]
    #[must_use]
    pub fn cummin(&self, axis: impl Into<ScanAxis>) -> Self {
        self.scanned(Reduce::Min, axis.into())
    }

    #[track_caller]
    pub(crate) fn scanned(&self, op: Reduce, along: ScanAxis) -> Self {
        let ScanAxis {
            axis,
            reversed,
            exclusive,
        } = along;
        let scan = |axis| Scan {
            op,
            axis,
            reversed,
            exclusive,
        };
        let dtype = self.0.dtype;
        let resolved = self.shape().and_then(|shape| {
            let scan = scan(resolve_axis(scan(0).name(), axis.number(), shape)?);
            if op.accepts(dtype) {
                Ok(scan)
            } else {
                Err(Error::DTypeUnsupported {
                    operation: scan.name(),
                    dtype,
                })
            }
        });
        let scan = or_error_node!(resolved);
        // The cumulative sums of `bool`s are counts.
        let numbers = self.cast(op.result(dtype));
        numbers.scanned_by(scan).composed(scan.name(), &[self])
    }

    /// Applies a scan that accepts the type of this tensor.
    #[track_caller]
    pub(crate) fn scanned_by(&self, scan: Scan) -> Self {
        let (shape, dtype) = (self.0.shape.clone(), self.0.dtype);
        Self::new(Op::Scan(scan), vec![self.clone()], shape, dtype)
    }

    /// Returns the cotangent of `self`, given the cotangent of its scan.
    pub(super) fn cotangent_of_scan(&self, scan: Scan, cotangent: &Self) -> Self {
        let handed = || match scan.op {
            Reduce::Sum => Ok(cotangent.scanned_by(scan.transposed())),
            Reduce::Prod => Ok(self.cotangent_of_products(scan, cotangent)),
            _ => self.cotangent_of_extremes(scan, cotangent),
        };
        handed().unwrap_or_else(Self::error)
    }

    /// Returns the cotangent of `self`, given the cotangent of its cumulative products. An element
    /// `x` that is not 0 contributes `1 / x` times each product that covers `x`. If `x` is 0, only
    /// products without another 0 depend on it: each of them contributes the product of its other
    /// elements.
    fn cotangent_of_products(&self, scan: Scan, cotangent: &Self) -> Self {
        let is_zero = self.eq(0.0);
        let others = is_zero.select(self.like(1.0), self);
        let zeros = is_zero.cast(DType::U32).scanned_by(Scan {
            op: Reduce::Sum,
            ..scan
        });
        let weighted = cotangent.binary(Binary::Mul, others.scanned_by(scan));
        let covering = |n_zeros: u32| {
            let has_as_many = zeros.eq(Self::constant(Scalar::U32(n_zeros)));
            let weighted = has_as_many.select(&weighted, 0.0);
            weighted.scanned_by(scan.transposed())
        };
        is_zero.select(covering(1), covering(0) / others)
    }

    /// Returns the cotangent of `self`, given the cotangent of its cumulative maxima or minima: the
    /// cotangent of each result belongs to the element at which the extreme was reached first.
    fn cotangent_of_extremes(&self, scan: Scan, cotangent: &Self) -> Result<Self> {
        let shape = self.shape()?;
        let n = shape[scan.axis];
        if shape.contains(&0) {
            return Ok(self.like(0.0));
        }
        let before = self.scanned_by(Scan {
            exclusive: true,
            ..scan
        });
        let is_better = match scan.op {
            Reduce::Max => self.gt(&before),
            _ => self.lt(&before),
        };
        let is_first_nan = self.is_nan() & !before.is_nan();
        let is_reached = is_better | is_first_nan;
        let mut line = vec![1; shape.len()];
        line[scan.axis] = n;
        let places = Self::index(scan.name(), n, MAX_POSITIONS).reshape(&line);
        let places = places.broadcast_to(shape);
        // The last position so far at which a new extreme was reached; the first position by
        // default, because an extreme that equals the start of the scan is never better.
        let start = if scan.reversed { n - 1 } else { 0 };
        let start = Self::constant(Scalar::U32(u32::try_from(start).unwrap_or(u32::MAX)));
        let latest = Scan {
            op: match scan.reversed {
                true => Reduce::Min,
                false => Reduce::Max,
            },
            ..scan
        };
        let reached = is_reached.select(&places, &start).scanned_by(latest);
        let is_covered = match (scan.exclusive, scan.reversed) {
            (false, _) => None,
            (true, false) => Some(places.gt(&start)),
            (true, true) => Some(places.lt(&start)),
        };
        let (reached, cotangent) = match is_covered {
            None => (reached, cotangent.clone()),
            // The result that covers no elements is a constant.
            Some(is_covered) => (
                is_covered.select(&reached, &start),
                is_covered.select(cotangent, 0.0),
            ),
        };
        let axis = scan.axis.cast_signed();
        let taken = self.take_along_axis(&reached, axis);
        let mut handed = taken.input_cotangents(&cotangent, |_| false).into_iter();
        let share = handed.next().map(|(_, share)| share);
        Ok(share.unwrap_or_else(|| self.like(0.0)))
    }
}
