//! Reductions over axes.
//!
//! Role: sums, products, extremes, logical reductions, counts, means, variances, and the positions
//! of extremes.
//! Shapes: the reduced axes are removed, or kept with size 1 by [`Axes::keepdims`].
//! Accuracy: the order of the additions of a sum is determined by the step of the plan, never by
//! the number of threads. The reference executor adds floats in f64.

use super::{Axes, Axis, Op, Tensor, or_error_node};
use crate::dtype::DType;
use crate::error::Error;
use crate::op::{MAX_POSITIONS, Reduce};
use crate::shape::resolve_axis;

impl Tensor {
    #[track_caller]
    pub(crate) fn reduced(&self, op: Reduce, axes: &Axes) -> Self {
        let dtype = self.0.dtype;
        let name = op.name();
        let resolved = self.shape().and_then(|shape| {
            let axes = axes.resolve(name, shape)?;
            if !op.accepts(dtype) {
                return Err(Error::DTypeUnsupported {
                    operation: name,
                    dtype,
                });
            }
            // An error even if the result is empty as well, as in NumPy: whether a line has a
            // largest element must not depend on the number of lines.
            let nothing = axes.iter().any(|&axis| shape[axis] == 0);
            if nothing && op.identity(dtype).is_none() {
                return Err(Error::EmptyReduction {
                    operation: name,
                    shape: shape.to_vec(),
                });
            }
            Ok(axes)
        });
        let folded = or_error_node!(resolved);
        let shape = &self.0.shape;
        // The operation folds the last axes, so move the reduced axes to the end.
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
        if axes.keeps_dims() {
            for &axis in &folded {
                result = result.expand_dims(axis.cast_signed());
            }
        }
        result
    }

    /// Returns the sum over `axes`; 0 for no elements. Integers wrap; the sum of `bool`s is their
    /// count, as `u32`.
    #[track_caller]
    #[must_use]
    pub fn sum(&self, axes: impl Into<Axes>) -> Self {
        self.reduced(Reduce::Sum, &axes.into())
    }

    /// Returns the product over `axes`; 1 for no elements. Integers wrap.
    ///
    /// Floats are multiplied in any order: if the product of any elements overflows, the result may
    /// be infinite or NaN, even if another element is 0.
    ///
    /// If the derivative with respect to an element is 0 because another element is 0, this
    /// derivative is treated as a constant, so second derivatives are 0 there.
    #[track_caller]
    #[must_use]
    pub fn prod(&self, axes: impl Into<Axes>) -> Self {
        self.reduced(Reduce::Prod, &axes.into())
    }

    /// Returns the largest element over `axes`; NaN if any element is NaN.
    ///
    /// Returns an error node of [`Error::EmptyReduction`] if an axis has size 0.
    #[track_caller]
    #[must_use]
    pub fn max(&self, axes: impl Into<Axes>) -> Self {
        self.reduced(Reduce::Max, &axes.into())
    }

    /// Returns the smallest element over `axes`; NaN if any element is NaN.
    ///
    /// Returns an error node of [`Error::EmptyReduction`] if an axis has size 0.
    #[track_caller]
    #[must_use]
    pub fn min(&self, axes: impl Into<Axes>) -> Self {
        self.reduced(Reduce::Min, &axes.into())
    }

    /// Returns whether all elements of a `bool` tensor are true; true for no elements. An
    /// executor may skip the remaining elements after a false one.
    #[track_caller]
    #[must_use]
    pub fn all(&self, axes: impl Into<Axes>) -> Self {
        self.reduced(Reduce::All, &axes.into())
    }

    /// Returns whether any element of a `bool` tensor is true; false for no elements. An
    /// executor may skip the remaining elements after a true one.
    #[track_caller]
    #[must_use]
    pub fn any(&self, axes: impl Into<Axes>) -> Self {
        self.reduced(Reduce::Any, &axes.into())
    }

    /// Returns the number of elements that are true, or differ from 0 (as NaN does), as `u32`.
    #[track_caller]
    #[must_use]
    pub fn count(&self, axes: impl Into<Axes>) -> Self {
        self.cast(DType::Bool).sum(axes).composed("count", &[self])
    }

    /// Returns the mean over `axes`: the sum divided by the number of elements; NaN for no
    /// elements. Integers and `bool`s are converted to `f32` first.
    #[track_caller]
    #[must_use]
    #[allow(
        clippy::cast_precision_loss,
        reason = "the rounding of the count is far below the rounding of the result"
    )]
    pub fn mean(&self, axes: impl Into<Axes>) -> Self {
        let (operation, axes) = ("mean", axes.into());
        let folded = or_error_node!(
            self.shape()
                .and_then(|shape| axes.resolve(operation, shape))
        );
        let count: usize = folded.iter().map(|&axis| self.0.shape[axis]).product();
        (self.to_float().sum(axes) / count as f64).composed(operation, &[self])
    }

    /// Returns the variance over `axes`, as `numpy.var`: the sum of the squared distances from the
    /// mean, divided by the number of elements less `ddof`. Use 0 for the variance of the elements
    /// themselves, and 1 for an unbiased estimate from a sample. The mean is computed first, so
    /// that a large mean does not cause cancellation. Integers and `bool`s are converted to `f32`
    /// first.
    ///
    /// The result is NaN if there are no elements, or if any element is NaN or infinite. With
    /// `ddof` elements or fewer, the result is the sum of the squares divided by 0: infinite, or
    /// NaN if the sum is 0.
    #[track_caller]
    #[must_use]
    #[allow(
        clippy::cast_precision_loss,
        reason = "the rounding of the count is far below the rounding of the result"
    )]
    pub fn var(&self, axes: impl Into<Axes>, ddof: usize) -> Self {
        let (operation, axes) = ("var", axes.into());
        let folded = or_error_node!(
            self.shape()
                .and_then(|shape| axes.resolve(operation, shape))
        );
        let count: usize = folded.iter().map(|&axis| self.0.shape[axis]).product();
        let x = self.to_float();
        let squares = (&x - x.mean(Axes::keepdims(axes.clone()))).square();
        (squares.sum(axes) / count.saturating_sub(ddof) as f64).composed(operation, &[self])
    }

    /// Returns the standard deviation over `axes`: the square root of [`var`](Tensor::var).
    #[track_caller]
    #[must_use]
    pub fn std(&self, axes: impl Into<Axes>, ddof: usize) -> Self {
        self.var(axes, ddof).sqrt().composed("std", &[self])
    }

    /// Converts integers and `bool`s to `f32`. `f16` is unchanged, and the next operation rejects
    /// it.
    #[track_caller]
    fn to_float(&self) -> Self {
        if self.0.dtype.is_float() || self.0.dtype == DType::F16 {
            self.clone()
        } else {
            self.cast(DType::F32)
        }
    }

    /// Returns the position of the first largest element along `axis`, as `u32`. If a line along
    /// `axis` contains a NaN, returns the position of the first NaN.
    ///
    /// Returns an error node of [`Error::EmptyReduction`] for an axis of size 0, of
    /// [`Error::AxisOutOfRange`], of [`Error::DTypeUnsupported`] for `bool` and `f16`, and of
    /// [`Error::TooLarge`] for an axis of more than 2^32 elements.
    #[track_caller]
    #[must_use]
    pub fn argmax(&self, axis: impl Into<Axis>) -> Self {
        let axis = axis.into().number();
        self.position_of(Reduce::Max, "argmax", axis)
    }

    /// Returns the position of the first smallest element along `axis`, as `u32`. If a line along
    /// `axis` contains a NaN, returns the position of the first NaN.
    ///
    /// Returns error nodes as [`argmax`](Self::argmax).
    #[track_caller]
    #[must_use]
    pub fn argmin(&self, axis: impl Into<Axis>) -> Self {
        let axis = axis.into().number();
        self.position_of(Reduce::Min, "argmin", axis)
    }

    /// Returns the first position along `axis` whose element equals the extreme, or is NaN.
    ///
    /// Such a position exists only if the elements of the comparison have the bits of the elements
    /// from which the extreme was found. These are equal if the elements are in memory, or if they
    /// are computed again by the same operations on the same elements, because such results are
    /// equal on every executor. A sum, however, may round differently in another step. Therefore
    /// the axis is moved to the end before the extreme is taken: the comparison then reads the
    /// operand of the extreme itself, and a plan stores a tensor that contains a sum before it is
    /// reduced again.
    #[track_caller]
    fn position_of(&self, extreme: Reduce, operation: &'static str, axis: isize) -> Self {
        let at = or_error_node!(
            self.shape()
                .and_then(|shape| resolve_axis(operation, axis, shape))
        );
        if self.0.shape[at] == 0 {
            // The error of the reduction below would name the permuted shape.
            let shape = self.0.shape.clone();
            return Self::error(Error::EmptyReduction { operation, shape });
        }
        let others = (0..self.0.shape.len()).filter(|&other| other != at);
        let order: Vec<isize> = others.chain([at]).map(usize::cast_signed).collect();
        let lines = self.permute(&order);
        let mut hit = lines.eq(lines.reduced(extreme, &Axes::keepdims(-1)));
        if self.0.dtype.is_float() {
            // A plan starts with the last operand. With this order the test for NaN also reads the
            // array that was stored for the extreme.
            hit = lines.is_nan().or(hit);
        }
        let index = Self::index(operation, self.0.shape[at], MAX_POSITIONS);
        hit.select(index, u32::MAX)
            .min(-1)
            .composed(operation, &[self])
    }

    /// Returns the softmax of a float tensor along `axis`: `e^x` divided by its sum. Each line is
    /// shifted by its largest element first, so that the exponential does not overflow. A line that
    /// has a NaN or `∞`, or only `-∞`, has the result NaN.
    ///
    /// Returns an error node of [`Error::AxisOutOfRange`], of [`Error::DTypeUnsupported`] for a
    /// type that is not a float, and of [`Error::EmptyReduction`] for an axis of size 0.
    #[track_caller]
    #[must_use]
    pub fn softmax(&self, axis: impl Into<Axis>) -> Self {
        let axis = axis.into();
        let exp = (self - self.max(Axes::keepdims(axis))).exp();
        (&exp / exp.sum(Axes::keepdims(axis))).composed("softmax", &[self])
    }

    /// Returns the logarithm of [`softmax`](Tensor::softmax) of a float tensor along `axis`: `x -
    /// max - ln(sum(exp(x - max)))`. The result is finite where the softmax underflows to 0. Its
    /// gradient is `g - softmax * sum(g)`, where `g` is the gradient with respect to the result.
    /// NaN and error nodes are those of `softmax`.
    ///
    /// # Examples
    /// ```
    /// use tensor_core::ndarray::array;
    /// use tensor_core::{Host, Tensor};
    /// let x = Tensor::from_array(array![0.0_f64, 1e4]);
    /// assert_eq!(x.log_softmax(0).eval::<f64>(&Host::new())?, array![-1e4, 0.0].into_dyn());
    /// # Ok::<(), tensor_core::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn log_softmax(&self, axis: impl Into<Axis>) -> Self {
        let axis = axis.into();
        // The shift cancels in the result, so its derivative is not needed.
        let shifted = self - self.max(Axes::keepdims(axis)).stop_gradient();
        let sum = shifted.exp().sum(Axes::keepdims(axis));
        (&shifted - sum.ln()).composed("log_softmax", &[self])
    }
}

/// Returns the sizes of the axes that are not in `axes`.
fn without(shape: &[usize], axes: &[usize]) -> Vec<usize> {
    let kept = shape
        .iter()
        .enumerate()
        .filter(|(axis, _)| !axes.contains(axis));
    kept.map(|(_, &size)| size).collect()
}
