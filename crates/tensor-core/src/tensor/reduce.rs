//! Reductions over axes.
//!
//! Role: sums, products, extremes, truth, counts, means, variances, and where the extremes are.
//! Shapes: the reduced axes disappear, or stay with size 1 under [`Axes::keep`].
//! Accuracy: the order of a sum is fixed by the step that it belongs to, never by the number of threads; the
//! reference executor adds floats in f64.

use super::{Axes, Axis, Op, Tensor, or_error_node};
use crate::dtype::DType;
use crate::error::Error;
use crate::op::Reduce;
use crate::shape::resolve_axis;

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
        self.cast(DType::Bool).sum(axes).composed("count", &[self])
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
        let (op, axes) = ("mean", axes.into());
        let folded = or_error_node!(self.shape().and_then(|shape| axes.resolve(op, shape)));
        let count: usize = folded.iter().map(|&axis| self.0.shape[axis]).product();
        (self.to_float().sum(axes) / count as f64).composed(op, &[self])
    }

    /// The variance over `axes`: the sum of the squared distances from the mean, over the number of elements less `ddof` (0
    /// for the variance of what is there, 1 for that of what it is a sample of), as `numpy.var`. The mean comes first, so that
    /// nothing is lost where it is large. Integers and `bool`s are converted to `f32` first.
    ///
    /// NaN if there are no elements, or if any is NaN or infinite; the sum over 0 for `ddof` elements or fewer.
    #[track_caller]
    #[must_use]
    #[allow(
        clippy::cast_precision_loss,
        reason = "a count beyond 2^53 does not fit any memory"
    )]
    pub fn var(&self, axes: impl Into<Axes>, ddof: usize) -> Self {
        let (op, axes) = ("var", axes.into());
        let folded = or_error_node!(self.shape().and_then(|shape| axes.resolve(op, shape)));
        let count: usize = folded.iter().map(|&axis| self.0.shape[axis]).product();
        let x = self.to_float();
        let squares = (&x - x.mean(Axes::keep(axes.clone()))).square();
        (squares.sum(axes) / count.saturating_sub(ddof) as f64).composed(op, &[self])
    }

    /// The standard deviation over `axes`: the square root of [`var`](Tensor::var).
    #[track_caller]
    #[must_use]
    pub fn std(&self, axes: impl Into<Axes>, ddof: usize) -> Self {
        self.var(axes, ddof).sqrt().composed("std", &[self])
    }

    /// The tensor, as one of `f32` if it has no fractions. What is half precise stays so, and is refused by what comes next.
    #[track_caller]
    fn to_float(&self) -> Self {
        if self.0.dtype.is_float() || self.0.dtype == DType::F16 {
            self.clone()
        } else {
            self.cast(DType::F32)
        }
    }

    /// The position of the first largest element along `axis`, as `u32`; of the first NaN if there is one.
    ///
    /// The error node of [`Error::EmptyReduction`] for an axis of size 0.
    #[track_caller]
    #[must_use]
    pub fn argmax(&self, axis: impl Into<Axis>) -> Self {
        let axis = axis.into().number();
        self.position_of(Reduce::Max, "argmax", axis)
    }

    /// The position of the first smallest element along `axis`, as `u32`; of the first NaN if there is one.
    ///
    /// The error node of [`Error::EmptyReduction`] for an axis of size 0.
    #[track_caller]
    #[must_use]
    pub fn argmin(&self, axis: impl Into<Axis>) -> Self {
        let axis = axis.into().number();
        self.position_of(Reduce::Min, "argmin", axis)
    }

    /// The first position along `axis` that equals an extreme, or is NaN.
    ///
    /// There is one because what is compared with the extreme has the bits that the extreme was found among: either it is in
    /// memory, or it is computed again by the same operations on the same elements, which every executor does alike. A
    /// sum need not come out alike in another step; so the axis comes last before the extreme is taken, not in it: the
    /// comparison reads the extreme's own operand, and a plan puts what holds a sum into memory before it is reduced again.
    #[track_caller]
    fn position_of(&self, extreme: Reduce, op: &'static str, axis: isize) -> Self {
        let at = or_error_node!(self.shape().and_then(|shape| resolve_axis(op, axis, shape)));
        let others = (0..self.0.shape.len()).filter(|&other| other != at);
        let order: Vec<isize> = others.chain([at]).map(usize::cast_signed).collect();
        let lines = self.permute(&order);
        let mut hit = lines.eq(lines.reduced(extreme, &Axes::keep(-1)));
        if self.0.dtype.is_float() {
            // A plan begins with the last operand, so that this reads what the extreme has put into memory, too.
            hit = lines.is_nan().or(hit);
        }
        let index = Self::index(op, self.0.shape[at], 1 << 32);
        hit.select(index, u32::MAX).min(-1).composed(op, &[self])
    }

    /// `e^x` divided by its sum along `axis`, of a float tensor; each line is shifted by its largest element first, so
    /// it never overflows.
    #[track_caller]
    #[must_use]
    pub fn softmax(&self, axis: impl Into<Axis>) -> Self {
        let axis = axis.into();
        let exp = (self - self.max(Axes::keep(axis))).exp();
        (&exp / exp.sum(Axes::keep(axis))).composed("softmax", &[self])
    }

    /// The logarithm of [`softmax`](Tensor::softmax) along `axis`, of a float tensor: `x - max -
    /// ln(sum(exp(x - max)))`. Finite where the softmax underflows to 0. The gradient is `g -
    /// softmax * sum(g)`.
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
        // The shift cancels out of the result, so its derivative need not be computed.
        let shifted = self - self.max(Axes::keep(axis)).stop_gradient();
        let sum = shifted.exp().sum(Axes::keep(axis));
        (&shifted - sum.ln()).composed("log_softmax", &[self])
    }
}

fn without(shape: &[usize], axes: &[usize]) -> Vec<usize> {
    let kept = shape
        .iter()
        .enumerate()
        .filter(|(axis, _)| !axes.contains(axis));
    kept.map(|(_, &size)| size).collect()
}
