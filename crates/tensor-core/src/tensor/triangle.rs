//! Diagonals and triangles of matrices.

use super::{Tensor, or_error_node};
use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::op::Compare;
use crate::shape::resolve_axis;

/// The most rows and columns whose positions are `i32`s.
const MAX_SIDE: usize = 1 << 31;

impl Tensor {
    /// The matrix with ones on its diagonal and zeros elsewhere; takes no memory.
    ///
    /// The error node of [`Error::TooLarge`](crate::Error::TooLarge) for more than 2^31 rows.
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
        let op = "eye";
        let place = Self::index(op, n, MAX_SIDE);
        let is_diagonal = place.expand_dims(-1).eq(place);
        is_diagonal.cast(dtype).composed(op, &[])
    }

    /// The lower triangles of the matrices of the last two axes: zeros above diagonal `k`, as
    /// `numpy.tril`. Diagonal 0 is the main one, 1 is above it, -1 below. What is left out may be
    /// NaN.
    ///
    /// The error node of [`Error::AxisOutOfRange`](crate::Error::AxisOutOfRange) for fewer than two
    /// axes, and of [`Error::TooLarge`](crate::Error::TooLarge) for more than 2^31 rows or columns.
    ///
    /// # Examples
    /// ```
    /// use tensor_core::{DType, Host, Tensor};
    /// // Each position of a sequence attends to itself and to those before it.
    /// let scores = Tensor::zeros(&[4, 3, 3], DType::F32);
    /// let mask = Tensor::ones(&[3, 3], DType::Bool).tril(0);
    /// let weights = mask.select(&scores, f64::NEG_INFINITY).softmax(-1);
    /// assert_eq!(weights.slice(0, 0..1).sum(1).slice(1, 2..).item::<f32>(&Host::new())?, 1.0 / 3.0);
    /// # Ok::<(), tensor_core::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn tril(&self, k: isize) -> Self {
        let op = "tril";
        let distance = or_error_node!(Self::by_caller(|| self.diagonal_distance(op)));
        let kept = Self::compared(Compare::Le, distance, diagonal(k));
        self.only_where(&kept).composed(op, &[self])
    }

    /// The upper triangles of the matrices of the last two axes: zeros below diagonal `k`, as
    /// `numpy.triu`; see [`tril`](Tensor::tril).
    #[track_caller]
    #[must_use]
    pub fn triu(&self, k: isize) -> Self {
        let op = "triu";
        let distance = or_error_node!(Self::by_caller(|| self.diagonal_distance(op)));
        let kept = Self::compared(Compare::Le, diagonal(k), distance);
        self.only_where(&kept).composed(op, &[self])
    }

    /// How far each element of a matrix is to the right of the main diagonal, as `i32`.
    fn diagonal_distance(&self, op: &'static str) -> Result<Self> {
        let shape = self.shape()?;
        let row = Self::index(op, shape[resolve_axis(op, -2, shape)?], MAX_SIDE);
        let column = Self::index(op, shape[resolve_axis(op, -1, shape)?], MAX_SIDE);
        let distance = column.cast(DType::I32) - row.cast(DType::I32).expand_dims(-1);
        distance.check()?;
        Ok(distance)
    }

    /// The elements where `kept` is true, zeros elsewhere.
    #[track_caller]
    fn only_where(&self, kept: &Self) -> Self {
        kept.select(self, Self::constant(Scalar::zero(self.0.dtype)))
    }
}

/// The number of a diagonal, as an `i32`: distances are smaller than the ends of the type.
#[track_caller]
fn diagonal(k: isize) -> Tensor {
    let end = if k < 0 { i32::MIN } else { i32::MAX };
    Tensor::constant(Scalar::I32(i32::try_from(k).unwrap_or(end)))
}
