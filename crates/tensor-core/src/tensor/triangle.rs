//! Diagonals and triangles of matrices.

use super::{Tensor, or_error_node};
use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::op::Compare;
use crate::shape::resolve_axis;

/// The largest number of rows or columns, so that positions fit `i32`.
const MAX_SIDE: usize = 1 << 31;

impl Tensor {
    /// Creates an `n × n` matrix with ones on the diagonal and zeros elsewhere. The tensor takes no
    /// memory.
    ///
    /// Returns an error node of [`Error::TooLarge`](crate::Error::TooLarge) for more than 2^31
    /// rows.
    ///
    /// # Examples
    /// ```
    /// use tensor_core::ndarray::array;
    /// use tensor_core::{DType, Host, Tensor};
    /// let eye = Tensor::eye(2, DType::F32);
    /// assert_eq!(eye.eval::<f32>(&Host::new())?, array![[1.0, 0.0], [0.0, 1.0]].into_dyn());
    /// # Ok::<(), tensor_core::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn eye(n: usize, dtype: DType) -> Self {
        let operation = "eye";
        let place = Self::index(operation, n, MAX_SIDE);
        let is_diagonal = place.expand_dims(-1).eq(place);
        is_diagonal.cast(dtype).composed(operation, &[])
    }

    /// Returns the lower triangles of the matrices of the last two axes: zeros above diagonal `k`,
    /// as `numpy.tril`. Diagonal 0 is the main diagonal, 1 the one above, -1 the one below. The
    /// elements that are replaced may be NaN.
    ///
    /// Returns an error node of [`Error::AxisOutOfRange`](crate::Error::AxisOutOfRange) for fewer
    /// than two axes, and of [`Error::TooLarge`](crate::Error::TooLarge) for more than 2^31 rows or
    /// columns.
    ///
    /// # Examples
    /// ```
    /// use tensor_core::{DType, Host, Tensor};
    /// // Each position of a sequence attends to itself and to those before it.
    /// let scores = Tensor::zeros(&[4, 3, 3], DType::F32);
    /// let mask = Tensor::ones(&[3, 3], DType::Bool).tril(0);
    /// let weights = mask.select(&scores, f64::NEG_INFINITY).softmax(-1);
    /// let last = weights.slice(0, 0..1).sum(1).slice(1, 2..);
    /// assert_eq!(last.item::<f32>(&Host::new())?, 1.0 / 3.0);
    /// # Ok::<(), tensor_core::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn tril(&self, k: isize) -> Self {
        let operation = "tril";
        let distance = or_error_node!(Self::by_caller(|| self.diagonal_distance(operation)));
        let kept = Self::compared(Compare::Le, distance, diagonal(k));
        self.only_where(&kept).composed(operation, &[self])
    }

    /// Returns the upper triangles of the matrices of the last two axes: zeros below diagonal `k`,
    /// as `numpy.triu`; see [`tril`](Tensor::tril).
    #[track_caller]
    #[must_use]
    pub fn triu(&self, k: isize) -> Self {
        let operation = "triu";
        let distance = or_error_node!(Self::by_caller(|| self.diagonal_distance(operation)));
        let kept = Self::compared(Compare::Le, diagonal(k), distance);
        self.only_where(&kept).composed(operation, &[self])
    }

    /// Returns the number of columns from the main diagonal to each element of a matrix, positive
    /// to the right, as `i32`.
    fn diagonal_distance(&self, operation: &'static str) -> Result<Self> {
        let shape = self.shape()?;
        let row = Self::index(
            operation,
            shape[resolve_axis(operation, -2, shape)?],
            MAX_SIDE,
        );
        let column = Self::index(
            operation,
            shape[resolve_axis(operation, -1, shape)?],
            MAX_SIDE,
        );
        let distance = column.cast(DType::I32) - row.cast(DType::I32).expand_dims(-1);
        distance.check()?;
        Ok(distance)
    }

    /// Returns the elements where `kept` is true, and zeros elsewhere.
    #[track_caller]
    fn only_where(&self, kept: &Self) -> Self {
        kept.select(self, Self::constant(Scalar::zero(self.0.dtype)))
    }
}

/// Converts the number of a diagonal to `i32`. The conversion saturates, because all distances are
/// smaller than the limits of `i32`.
#[track_caller]
fn diagonal(k: isize) -> Tensor {
    let end = if k < 0 { i32::MIN } else { i32::MAX };
    Tensor::constant(Scalar::I32(i32::try_from(k).unwrap_or(end)))
}
