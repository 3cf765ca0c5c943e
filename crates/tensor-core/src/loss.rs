//! Losses of small nets: what a step of training brings down.
//!
//! Role: the mean squared error, the cross entropy of a softmax, and how many labels are met, as programs whose gradients
//! [`grad`](crate::grad()) takes.
//! Method: written in a few operations of [`Tensor`], so that a plan fuses them with what comes before and after.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::tensor::{Axes, Tensor};

/// The mean of the squared differences over all elements, in the type of both.
///
/// `target` broadcasts to the shape of `prediction` and not the other way round: so a column beside a row, which would
/// silently be compared all with all, is refused. No elements give NaN.
///
/// The error node of [`Error::NotBroadcastable`], [`Error::DTypeMismatch`], or, if they hold no floats,
/// [`Error::DTypeUnsupported`].
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

/// The mean over all rows of `-ln softmax(row)[label]`, in the type of the logits.
///
/// Shapes: `logits` is `[…, classes]`, a row for each sample; `labels`, of `u32` or `i32`, broadcasts to `[…]`. No rows
/// give NaN.
///
/// Each row is shifted by its largest element, so that finite logits of any size give a finite loss, as long as their
/// differences are finite. A logit of minus infinity is a class that cannot be: the loss is infinite if it is the label's. The
/// gradient is `(softmax - one hot) / rows` to within rounding.
///
/// The error node of [`Error::NotBroadcastable`], or of [`Error::DTypeUnsupported`] if the logits are no floats or the labels
/// no integers. A label that is no class, a negative one too, is found when the loss is computed:
/// [`Error::IndexOutOfRange`], in which a negative one stands as the `u32` of its bits. A gradient computed without its loss
/// takes such a label for no class at all.
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
    // The shift cancels out of the loss, so its derivative need not be computed. It is taken from the label's logit apart:
    // a gather of the shifted logits would put all of them into memory.
    let shift = logits.max(Axes::keep(-1)).stop_gradient();
    let sum = (logits - &shift).exp().sum(Axes::keep(-1));
    let label = logits.take_along_axis(&classes.expand_dims(-1), -1) - shift;
    let loss = (sum.ln() - label).mean(..);
    loss.composed("softmax_cross_entropy", &[logits, labels])
}

/// The share of rows whose largest element stands at the label, as `f32`.
///
/// Shapes as of [`softmax_cross_entropy`]. The first of equal elements counts as the largest, and NaN as larger than any number;
/// a label that is no class is never met. No rows give NaN.
///
/// The error node of [`Error::NotBroadcastable`], [`Error::DTypeUnsupported`], or [`Error::EmptyReduction`] if there are no
/// classes.
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

/// The shape of a tensor of floats. The error gets the name of the loss where it is made a node.
fn float_shape(tensor: &Tensor) -> Result<&[usize]> {
    let dtype = tensor.dtype()?;
    if dtype.is_float() {
        tensor.shape()
    } else {
        Err(Error::DTypeUnsupported { op: "loss", dtype })
    }
}

/// Labels as `u32`, one for each row of some logits. A negative one is out of range then, and not counted from the end.
#[track_caller]
fn one_a_row(labels: &Tensor, logits: &Tensor) -> Tensor {
    let rows = float_shape(logits).and_then(|shape| match (shape, labels.dtype()?) {
        ([rows @ .., _], dtype) if dtype.is_integer() => Ok(rows),
        ([], _) => Err(Error::AxisOutOfRange {
            op: "loss",
            axis: -1,
            shape: Vec::new(),
        }),
        (_, dtype) => Err(Error::DTypeUnsupported { op: "loss", dtype }),
    });
    match rows {
        Ok(rows) => labels.cast(DType::U32).broadcast_to(rows),
        Err(error) => Tensor::error(error),
    }
}
