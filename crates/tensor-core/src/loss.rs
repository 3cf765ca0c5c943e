//! Losses for training small networks.
//!
//! Role: the mean squared error, the cross entropy of a softmax, and the accuracy of labels, as
//! programs whose gradients [`grad`](crate::grad()) computes.
//! Method: each loss is composed of a few operations of [`Tensor`], so that a plan fuses them with
//! the surrounding program.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::tensor::{Axes, Tensor};

/// Returns the mean of the squared differences over all elements, in the type of both operands; NaN
/// for no elements.
///
/// `target` broadcasts to the shape of `prediction`, but not the other way round. A column and a
/// row, which broadcasting would compare all with all, are therefore an error.
///
/// Returns an error node of [`Error::NotBroadcastable`] or [`Error::DTypeMismatch`], or of
/// [`Error::DTypeUnsupported`] if the operands are not floats.
///
/// # Examples
/// ```
/// use tensor_core::ndarray::array;
/// use tensor_core::{Host, Tensor, loss};
/// let prediction = Tensor::from_array(array![[1.0_f32, 2.0], [3.0, 4.0]]);
/// let target = Tensor::from_array(array![[1.0_f32, 2.0], [3.0, 8.0]]);
/// let loss = loss::mean_squared_error(&prediction, &target);
/// assert_eq!(loss.eval::<f32>(&Host::new())?[[]], 4.0);
/// # Ok::<(), tensor_core::Error>(())
/// ```
#[track_caller]
#[must_use]
pub fn mean_squared_error(prediction: &Tensor, target: &Tensor) -> Tensor {
    let difference = match float_shape(prediction) {
        Ok(shape) => prediction - target.broadcast_to(shape),
        Err(error) => Tensor::error(error),
    };
    let loss = difference.square().mean(..);
    loss.composed("mean_squared_error", &[prediction, target])
}

/// Returns the mean over all rows of `-ln softmax(row)[label]`, in the type of the logits; NaN for
/// no rows.
///
/// Shapes: `logits` is `[…, classes]`, one row per sample; `labels`, of type `u32` or `i32`,
/// broadcasts to `[…]`.
///
/// Each row is shifted by its largest element, so that finite logits of any magnitude result in a
/// finite loss, as long as their differences are finite. A logit of minus infinity marks an
/// impossible class: the loss is infinite if that class is the label. The gradient is `(softmax -
/// one hot) / rows`, up to rounding.
///
/// Returns an error node of [`Error::NotBroadcastable`], of [`Error::DTypeUnsupported`] if the
/// logits are not floats or the labels not integers, of [`Error::AxisOutOfRange`] for logits
/// without axes, or of [`Error::EmptyReduction`] if there are no classes. A label outside
/// `0..classes` is an error on evaluation: [`Error::IndexOutOfRange`], which shows a negative label
/// as the `u32` with the same bits. The gradient has this error, too.
///
/// # Examples
/// ```
/// use tensor_core::ndarray::array;
/// use tensor_core::{Host, Tensor, loss};
/// let logits = Tensor::from_array(array![[0.0_f64, 0.0], [1e4, -1e4]]);
/// let labels = Tensor::from_array(array![1_u32, 0]);
/// let loss = loss::softmax_cross_entropy(&logits, &labels);
/// assert_eq!(loss.eval::<f64>(&Host::new())?[[]], 2.0_f64.ln() / 2.0);
/// # Ok::<(), tensor_core::Error>(())
/// ```
#[track_caller]
#[must_use]
pub fn softmax_cross_entropy(logits: &Tensor, labels: &Tensor) -> Tensor {
    let classes = one_a_row(labels, logits);
    // The shift cancels in the loss, so its derivative is not needed. The shift is subtracted from
    // the label's logit separately, because a gather of the shifted logits would store all of them
    // in memory.
    let shift = logits.max(Axes::keepdims(-1)).stop_gradient();
    let sum = (logits - &shift).exp().sum(Axes::keepdims(-1));
    let label = logits.take_along_axis(&classes.expand_dims(-1), -1) - shift;
    let loss = (sum.ln() - label).mean(..);
    loss.composed("softmax_cross_entropy", &[logits, labels])
}

/// Returns the fraction of rows whose largest element is at the label, as `f32`; NaN for no rows.
///
/// Shapes are as in [`softmax_cross_entropy`]. Of equal elements the first counts as the largest,
/// and a NaN counts as larger than any number. A label outside `0..classes` never matches.
///
/// Returns an error node of [`Error::NotBroadcastable`] or [`Error::DTypeUnsupported`], of
/// [`Error::AxisOutOfRange`] for logits without axes, or of [`Error::EmptyReduction`] if there are
/// no classes.
///
/// # Examples
/// ```
/// use tensor_core::ndarray::array;
/// use tensor_core::{Host, Tensor, loss};
/// let logits = Tensor::from_array(array![[0.1_f32, 0.9], [0.7, 0.3]]);
/// let accuracy = loss::accuracy(&logits, &Tensor::from_array(array![1, 1]));
/// assert_eq!(accuracy.eval::<f32>(&Host::new())?[[]], 0.5);
/// # Ok::<(), tensor_core::Error>(())
/// ```
#[track_caller]
#[must_use]
pub fn accuracy(logits: &Tensor, labels: &Tensor) -> Tensor {
    let share = logits.argmax(-1).eq(one_a_row(labels, logits)).mean(..);
    share.composed("accuracy", &[logits, labels])
}

/// Returns the shape of a tensor of floats. The caller replaces the operation `loss` in the error
/// by the name of the loss.
fn float_shape(tensor: &Tensor) -> Result<&[usize]> {
    let dtype = tensor.dtype()?;
    if dtype.is_float() {
        tensor.shape()
    } else {
        Err(Error::DTypeUnsupported {
            operation: "loss",
            dtype,
        })
    }
}

/// Converts labels to `u32` and broadcasts them to one per row of the logits. After the conversion
/// a negative label is out of range instead of counting from the end.
#[track_caller]
fn one_a_row(labels: &Tensor, logits: &Tensor) -> Tensor {
    let rows = float_shape(logits).and_then(|shape| match (shape, labels.dtype()?) {
        ([rows @ .., _], dtype) if dtype.is_integer() => Ok(rows),
        ([], _) => Err(Error::AxisOutOfRange {
            operation: "loss",
            axis: -1,
            shape: Vec::new(),
        }),
        (_, dtype) => Err(Error::DTypeUnsupported {
            operation: "loss",
            dtype,
        }),
    });
    match rows {
        Ok(rows) => labels.cast(DType::U32).broadcast_to(rows),
        Err(error) => Tensor::error(error),
    }
}
