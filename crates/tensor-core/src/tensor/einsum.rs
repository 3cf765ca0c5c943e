//! Einstein summation of tensors.
//!
//! Role: lowers each step of a contraction's path to a view, a product and a sum. A product of two
//! tensors becomes a (batched) matrix product if there are rows, columns and an inner index.

use super::hook;
use super::{Op, Tensor, or_error_node};
use crate::dtype::DType;
use crate::einsum::{EinsumSpec, Label, Slot, Step};
use crate::error::{Error, Result};
use crate::ir::IndexMap;
use crate::op::Reduce;
use crate::shape::{check_rank, element_count};

/// Computes an Einstein summation, as `numpy.einsum`: multiplies tensors and sums over the labels
/// that the output lacks.
///
/// `"ik,kj->ij"` means `C[i, j] = Σ_k A[i, k] · B[k, j]`. Without `->` the output consists of the
/// labels that occur once, in alphabetical order. A label that repeats in one operand selects its
/// diagonal. An ellipsis represents the axes without a label; axes of size 1 broadcast. Several
/// operands are multiplied two at a time, in the order of
/// [`Contraction::path`](crate::einsum::Contraction::path).
///
/// If an operand has no elements, every sum over its axes is 0. The other operands may be
/// multiplied first, depending on the path; where their product is NaN or infinite, its product
/// with 0 is NaN. The definition and `numpy.einsum` return 0 there.
///
/// Returns an error node of [`Error::Einsum`] if the specification is malformed or does not match
/// the operands; of [`Error::DTypeMismatch`] if the types differ; of [`Error::DTypeUnsupported`]
/// for `bool` and `f16`; of [`Error::TooLarge`] if the output or the loops of a step have too many
/// points; of [`Error::RankTooLarge`] if a step needs more than
/// [`MAX_RANK`](crate::shape::MAX_RANK) labels.
///
/// # Examples
/// ```
/// use tensor_core::ndarray::{Array2, array};
/// use tensor_core::{Host, Tensor, einsum};
///
/// let a = Tensor::from_array(array![[1.0_f32, 2.0], [3.0, 4.0]]);
/// let b = Tensor::from_array(array![[5.0_f32, 6.0], [7.0, 8.0]]);
/// let product = einsum("ik,kj->ij", &[&a, &b]);
/// assert_eq!(product.eval::<f32>(&Host::new())?, array![[19.0, 22.0], [43.0, 50.0]].into_dyn());
///
/// let wrong = Tensor::from_array(Array2::<f32>::ones((3, 3)));
/// assert_eq!(
///     einsum("ik,kj->ij", &[&a, &wrong]).shape().unwrap_err().root().to_string(),
///     "einsum \"ik,kj->ij\": index 'k' has size 2 in operand 0 of shape [2, 2] \
///      and size 3 in operand 1 of shape [3, 3]"
/// );
/// # Ok::<(), tensor_core::Error>(())
/// ```
#[track_caller]
#[must_use]
pub fn einsum(spec: &str, tensors: &[&Tensor]) -> Tensor {
    let (mut slots, steps) = or_error_node!(prepared(spec, tensors));
    let lazily = hook::pause();
    for step in steps {
        let made = match step {
            Step::Reduce { input, output } => {
                let tensor = &slots[input.id];
                // Order the axes as the output labels followed by the labels to sum.
                let mut labels = output.clone();
                let only_here = input.labels.iter().filter(|label| !output.contains(label));
                only_here.for_each(|label| {
                    if !labels.contains(label) {
                        labels.push(*label)
                    }
                });
                let sizes = sizes_of(&labels, &[(&input, tensor)]);
                let view = or_error_node!(tensor.labelled(&input, &labels, &sizes));
                view.sum_last(labels.len() - output.len())
            }
            Step::Product(product) => {
                let inner = product.groups().inner;
                // Both operands are views over the output labels and the summed labels; the planner
                // recognizes the sum of their product as a matrix product.
                let labels = [&product.output[..], &inner].concat();
                let (left, right) = (&slots[product.left.id], &slots[product.right.id]);
                let sizes = sizes_of(&labels, &[(&product.left, left), (&product.right, right)]);
                let left = or_error_node!(left.labelled(&product.left, &labels, &sizes));
                let right = or_error_node!(right.labelled(&product.right, &labels, &sizes));
                (left * right).sum_last(inner.len())
            }
        };
        slots.push(made);
    }
    drop(lazily);
    match slots.pop() {
        Some(result) => hook::after_operation(result),
        None => unreachable!("a specification has at least one operand"),
    }
}

/// Checks the operands, and returns them with the steps of their contraction.
fn prepared(spec: &str, tensors: &[&Tensor]) -> Result<(Vec<Tensor>, Vec<Step>)> {
    let spec = EinsumSpec::parse(spec)?;
    let mut shapes = Vec::with_capacity(tensors.len());
    for tensor in tensors {
        shapes.push(tensor.shape()?);
        let (operation, dtype) = ("einsum", tensor.0.dtype);
        if dtype != tensors[0].0.dtype {
            let (left, right) = (tensors[0].0.dtype, dtype);
            return Err(Error::DTypeMismatch {
                operation,
                left,
                right,
            });
        }
        if !(dtype.is_float() || dtype.is_integer()) {
            return Err(Error::DTypeUnsupported { operation, dtype });
        }
    }
    let contraction = spec.resolve(&shapes)?;
    element_count("einsum", &contraction.out_shape())?;
    let slots = tensors.iter().map(|&tensor| tensor.clone()).collect();
    Ok((slots, contraction.path()))
}

/// Returns the size of each label, which is the size of the corresponding axis of the first tensor
/// with this label.
fn sizes_of(labels: &[Label], tensors: &[(&Slot, &Tensor)]) -> Vec<usize> {
    let size = |label: &Label| {
        let mut sizes = tensors.iter().filter_map(|(slot, tensor)| {
            let axis = slot.labels.iter().position(|own| own == label)?;
            Some(tensor.0.shape[axis])
        });
        sizes.next().unwrap_or(1)
    };
    labels.iter().map(size).collect()
}

impl Tensor {
    /// Returns a view of the tensor with one axis per label. The tensor is repeated along labels
    /// that it lacks; a label that occurs twice selects its diagonal.
    #[track_caller]
    fn labelled(&self, slot: &Slot, labels: &[Label], sizes: &[usize]) -> Result<Self> {
        check_rank("einsum", sizes.len())?;
        element_count("einsum", sizes)?;
        // An axis of the tensor follows each result axis with its label. Stride 0 on all other axes
        // repeats the tensor along them.
        let row = |label: &Label| IndexMap {
            offset: 0,
            strides: labels
                .iter()
                .map(|other| isize::from(other == label))
                .collect(),
        };
        let rows = slot.labels.iter().map(row).collect();
        let op = Op::View {
            name: "einsum",
            rows,
        };
        Ok(Self::new(
            op,
            vec![self.clone()],
            sizes.to_vec(),
            self.0.dtype,
        ))
    }

    /// Returns the sum over the last `n` axes.
    #[track_caller]
    fn sum_last(self, n: usize) -> Self {
        if n == 0 || self.check().is_err() {
            return self;
        }
        let shape = self.0.shape[..self.0.shape.len() - n].to_vec();
        let dtype: DType = self.0.dtype;
        let op = Op::Reduce {
            op: Reduce::Sum,
            n_reduced: n,
        };
        Self::new(op, vec![self], shape, dtype)
    }
}
