//! Reductions over axes.
//!
//! Role: sums, products, extremes, truth, counts, means, and where the extremes are.
//! Shapes: the reduced axes disappear, or stay with size 1 under [`Axes::keep`].
//! Accuracy: the order of a sum is fixed by the shapes and the executor, never by the number of threads; the
//! reference executor adds floats in f64.

use super::{Axes, Op, Tensor, or_error_node};
use crate::dtype::DType;
use crate::error::Error;
use crate::op::Reduce;

impl Tensor {
    #[track_caller]
    pub(crate) fn reduced(&self, op: Reduce, axes: &Axes) -> Self {
        let dtype = self.0.dtype;
        let name = op.name();
        let resolved = self.shape().and_then(|shape| {
            let axes = axes.resolve(name, shape)?;
            if !op.accepts(dtype) {
                return Err(Error::DTypeUnsupported { op: name, dtype });
            }
            // Refused even if the result is empty too, as in NumPy: whether a line has a largest element must not
            // depend on how many lines there are.
            let nothing = axes.iter().any(|&axis| shape[axis] == 0);
            if nothing && op.identity(dtype).is_none() {
                return Err(Error::EmptyReduction {
                    op: name,
                    shape: shape.to_vec(),
                });
            }
            Ok(axes)
        });
        let folded = or_error_node!(resolved);
        let shape = &self.0.shape;
        let kept = (0..shape.len()).filter(|axis| !folded.contains(axis));
        let order: Vec<isize> = kept
            .chain(folded.iter().copied())
            .map(usize::cast_signed)
            .collect();
        let out = without(shape, &folded);
        let operation = Op::Reduce {
            op,
            n_reduced: folded.len(),
        };
        let mut result = Self::new(operation, vec![self.permute(&order)], out, op.result(dtype));
        if axes.is_kept() {
            for &axis in &folded {
                result = result.expand_dims(axis.cast_signed());
            }
        }
        result
    }

    /// The sum over `axes`. Integers wrap; `bool`s are counted in `u32`; no elements give 0.
    #[track_caller]
    #[must_use]
    pub fn sum(&self, axes: impl Into<Axes>) -> Self {
        self.reduced(Reduce::Sum, &axes.into())
    }

    /// The product over `axes`. Integers wrap; no elements give 1.
    #[track_caller]
    #[must_use]
    pub fn prod(&self, axes: impl Into<Axes>) -> Self {
        self.reduced(Reduce::Prod, &axes.into())
    }

    /// The largest element over `axes`; NaN if any is.
    ///
    /// The error node of [`Error::EmptyReduction`] where there are no elements.
    #[track_caller]
    #[must_use]
    pub fn max(&self, axes: impl Into<Axes>) -> Self {
        self.reduced(Reduce::Max, &axes.into())
    }

    /// The smallest element over `axes`; NaN if any is.
    ///
    /// The error node of [`Error::EmptyReduction`] where there are no elements.
    #[track_caller]
    #[must_use]
    pub fn min(&self, axes: impl Into<Axes>) -> Self {
        self.reduced(Reduce::Min, &axes.into())
    }

    /// Whether all elements of a `bool` tensor are true; no elements give true. Leaves the loop at the first that is not.
    #[track_caller]
    #[must_use]
    pub fn all(&self, axes: impl Into<Axes>) -> Self {
        self.reduced(Reduce::All, &axes.into())
    }

    /// Whether any element of a `bool` tensor is true; no elements give false. Leaves the loop at the first that is.
    #[track_caller]
    #[must_use]
    pub fn any(&self, axes: impl Into<Axes>) -> Self {
        self.reduced(Reduce::Any, &axes.into())
    }

    /// How many elements are true, or not 0 (NaN is not 0), as `u32`.
    #[track_caller]
    #[must_use]
    pub fn count(&self, axes: impl Into<Axes>) -> Self {
        self.cast(DType::Bool).sum(axes)
    }

    /// The mean over `axes`: the sum over the number of elements, NaN if there are none. Integers and `bool`s are
    /// converted to `f32` first.
    #[track_caller]
    #[must_use]
    #[allow(
        clippy::cast_precision_loss,
        reason = "a count beyond 2^53 does not fit any memory"
    )]
    pub fn mean(&self, axes: impl Into<Axes>) -> Self {
        let axes = axes.into();
        let float = if self.0.dtype.is_float() || self.0.dtype == DType::F16 {
            self.clone()
        } else {
            self.cast(DType::F32)
        };
        let sum = float.sum(axes.clone());
        let Ok(folded) = axes.resolve("mean", &self.0.shape) else {
            return sum;
        };
        let count: usize = folded.iter().map(|&axis| self.0.shape[axis]).product();
        sum / count as f64
    }

    /// The position of the first largest element along `axis`, as `u32`; of the first NaN if there is one.
    ///
    /// The error node of [`Error::EmptyReduction`] for an axis of size 0.
    #[track_caller]
    #[must_use]
    pub fn argmax(&self, axis: isize) -> Self {
        self.first_equal(&self.max(Axes::keep(axis)), axis)
    }

    /// The position of the first smallest element along `axis`, as `u32`; of the first NaN if there is one.
    ///
    /// The error node of [`Error::EmptyReduction`] for an axis of size 0.
    #[track_caller]
    #[must_use]
    pub fn argmin(&self, axis: isize) -> Self {
        self.first_equal(&self.min(Axes::keep(axis)), axis)
    }

    /// The first position along `axis` that equals an extreme, or is NaN.
    #[track_caller]
    fn first_equal(&self, extreme: &Self, axis: isize) -> Self {
        if extreme.check().is_err() {
            return extreme.clone();
        }
        let mut hit = self.eq(extreme);
        if self.0.dtype.is_float() {
            hit = hit.or(self.is_nan());
        }
        let shape = &self.0.shape;
        let at = crate::shape::axis_below(axis, shape.len()).unwrap_or(0);
        let mut line = vec![1; shape.len()];
        line[at] = shape[at];
        let index = Self::index("argmax", shape[at], 1 << 32).reshape(&line);
        hit.select(index, u32::MAX).min(axis)
    }

    /// `e^x` divided by its sum along `axis`, of a float tensor; each line is shifted by its largest element first, so
    /// it never overflows.
    #[track_caller]
    #[must_use]
    pub fn softmax(&self, axis: isize) -> Self {
        let exp = (self - self.max(Axes::keep(axis))).exp();
        &exp / exp.sum(Axes::keep(axis))
    }
}

fn without(shape: &[usize], axes: &[usize]) -> Vec<usize> {
    let kept = shape
        .iter()
        .enumerate()
        .filter(|(axis, _)| !axes.contains(axis));
    kept.map(|(_, &size)| size).collect()
}
