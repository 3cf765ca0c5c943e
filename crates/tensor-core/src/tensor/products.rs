//! Matrix products, written as an elementwise product and a sum, which the planner recognizes.

use super::Tensor;
use super::hook;
use crate::error::{Error, Result};
use crate::shape::broadcast;

impl Tensor {
    /// Returns the matrix product over the last two axes, with the other axes broadcast, as
    /// `numpy.matmul`. A vector on the left is a row and a vector on the right a column; its axis
    /// is removed from the result.
    ///
    /// Returns an error node of [`Error::InnerMismatch`] if the inner sizes differ or an operand is
    /// a scalar, of [`Error::BroadcastMismatch`] if the other axes do not broadcast, of
    /// [`Error::DTypeMismatch`] for two types, and of [`Error::DTypeUnsupported`] for `bool` and
    /// `f16`.
    ///
    /// # Examples
    /// ```
    /// use tensor_core::Tensor;
    /// let a = Tensor::from_vec(&[7, 1, 2, 3], vec![1.0_f32; 42]);
    /// let b = Tensor::from_vec(&[5, 3, 4], vec![1.0_f32; 60]);
    /// assert_eq!(a.matmul(&b).shape()?, [7, 5, 2, 4]);
    /// # Ok::<(), tensor_core::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn matmul(&self, other: &Self) -> Self {
        if let Err(error) = self.inner_size(other) {
            return Self::error(error);
        }
        let (left_is_row, right_is_column) = (self.0.shape.len() == 1, other.0.shape.len() == 1);
        let a = if left_is_row {
            self.expand_dims(0)
        } else {
            self.clone()
        };
        let b = if right_is_column {
            other.expand_dims(-1)
        } else {
            other.clone()
        };
        // The product `[…, m, k, 1] * […, 1, k, n]` is only a loop: the plan fuses it with its sum
        // over k.
        let lazily = hook::pause();
        let product = a.expand_dims(-1) * b.expand_dims(-3);
        let mut sum = product.sum(-2).composed("matmul", &[self, other]);
        if right_is_column {
            sum = sum.squeeze(-1);
        }
        if left_is_row {
            let axis = if right_is_column { -1 } else { -2 };
            sum = sum.squeeze(axis);
        }
        drop(lazily);
        hook::after_operation(sum)
    }

    /// Checks that the inner sizes are equal and that the other axes broadcast.
    fn inner_size(&self, other: &Self) -> Result<()> {
        let (left, right) = (self.shape()?, other.shape()?);
        let inner = |shape: &[usize], from_end: usize| {
            let back = from_end.min(shape.len());
            (back > 0).then(|| shape[shape.len() - back])
        };
        let mismatch = || Error::InnerMismatch {
            operation: "matmul",
            left: left.to_vec(),
            right: right.to_vec(),
        };
        let (a, b) = (inner(left, 1), inner(right, 2));
        if a.is_none() || a != b {
            return Err(mismatch());
        }
        let batch = |shape: &[usize]| shape[..shape.len().saturating_sub(2)].to_vec();
        broadcast("matmul", &batch(left), &batch(right)).map(drop)
    }
}
