//! Scans: folds along one axis with a result at each position.

use super::Reduce;
use crate::dtype::{DType, Scalar};

/// A running fold along one axis, such as the sums of the first 1, 2, 3, … elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Scan {
    /// The operation that combines two elements: `Sum`, `Prod`, `Max` or `Min`.
    pub op: Reduce,
    /// The axis along which elements are folded.
    pub axis: usize,
    /// Whether a result covers the elements from its position to the end of the axis, instead of
    /// those from the start to its position.
    pub reversed: bool,
    /// Whether a result leaves out the element at its own position.
    pub exclusive: bool,
}

impl Scan {
    /// Returns the name of the tensor method that applies the scan.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.op {
            Reduce::Sum => "cumsum",
            Reduce::Prod => "cumprod",
            Reduce::Max => "cummax",
            Reduce::Min => "cummin",
            Reduce::All | Reduce::Any => "scan",
        }
    }

    /// Returns whether the scan is defined on a type. The result has the type of the operand, so
    /// `bool`s are converted to integers before they are counted.
    #[must_use]
    pub fn accepts(self, dtype: DType) -> bool {
        self.op.accepts(dtype) && dtype != DType::Bool
    }

    /// Returns the result that covers no elements: 0 for a sum, 1 for a product, the least value of
    /// the type for a maximum and the greatest for a minimum (an infinity for floats).
    ///
    /// # Panics
    /// If the scan does not [accept](Scan::accepts) the type.
    #[must_use]
    pub fn start(self, dtype: DType) -> Scalar {
        self.op.neutral(dtype)
    }

    /// Returns the scan that adds up the cotangents of all results that cover an element: the sum
    /// in the opposite direction.
    pub(crate) fn transposed(self) -> Self {
        Self {
            op: Reduce::Sum,
            reversed: !self.reversed,
            ..self
        }
    }
}
