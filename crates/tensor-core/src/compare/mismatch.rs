//! The errors of comparisons.

use std::fmt;

use super::element::Value;

/// A side of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The computed values.
    Actual,
    /// The expected values.
    Expected,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Actual => "actual",
            Self::Expected => "expected",
        })
    }
}

/// An element whose difference exceeds its tolerance.
#[derive(Debug, Clone, PartialEq)]
pub struct Deviation {
    /// The index of the element, one number per axis.
    pub index: Vec<usize>,
    /// The computed value.
    pub actual: Value,
    /// The expected value.
    pub expected: Value,
    /// The absolute difference; infinite if one value is NaN or infinite and the other differs.
    pub error: f64,
    /// The tolerance.
    pub allowed: f64,
}

impl fmt::Display for Deviation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            index,
            actual,
            expected,
            error,
            allowed,
        } = self;
        write!(
            f,
            "at {index:?}: actual {actual}, expected {expected}, error {error:e}, allowed {allowed:e}"
        )
    }
}

/// The reason why a comparison failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Mismatch {
    /// The sides have different numbers of elements.
    #[error("compare: actual has {actual} elements, expected {expected}")]
    Length {
        /// The number of actual elements.
        actual: usize,
        /// The number of expected elements.
        expected: usize,
    },
    /// The sides have the same number of elements in different shapes.
    #[error("compare: actual has shape {actual:?}, expected {expected:?}")]
    Shape {
        /// The actual shape.
        actual: Vec<usize>,
        /// The expected shape.
        expected: Vec<usize>,
    },
    /// There are no elements, and [`Tolerance::allow_empty`](super::Tolerance::allow_empty) was not
    /// set.
    #[error("compare: no elements to compare; use `allow_empty` if that is correct")]
    Empty,
    /// The two sides share memory.
    #[error("compare: actual and expected share memory, so they are equal whatever was computed")]
    SameBuffer,
    /// The tolerance is invalid.
    #[error("compare: invalid tolerance: {why}")]
    InvalidBound {
        /// A description of the problem.
        why: String,
    },
    /// A comparison of bits of two different types.
    #[error(
        "compare: cannot compare bits of different types (actual {actual}, expected {expected})"
    )]
    BitsOfTwoTypes {
        /// The actual type.
        actual: &'static str,
        /// The expected type.
        expected: &'static str,
    },
    /// An element has the sentinel value, so it was not written.
    #[error(
        "compare: {n_left} of {n_elements} {side} elements were not written (first at {first:?})"
    )]
    Sentinel {
        /// The side with the sentinel.
        side: Side,
        /// The index of the first such element.
        first: Vec<usize>,
        /// The number of such elements.
        n_left: usize,
        /// The number of elements.
        n_elements: usize,
    },
    /// Elements differ by more than the tolerance.
    #[error(
        "compare: {n_bad} of {n_elements} elements exceed the tolerance\n  worst {worst}{}",
        Listed(first)
    )]
    Elements {
        /// The number of elements that exceed the tolerance.
        n_bad: usize,
        /// The number of elements.
        n_elements: usize,
        /// The element with the largest ratio of difference to tolerance.
        worst: Box<Deviation>,
        /// The first few such elements, in row-major order.
        first: Vec<Deviation>,
    },
}

struct Listed<'a>(&'a [Deviation]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|deviation| write!(f, "\n  {deviation}"))
    }
}

/// Converts a row-major position to an index, one number per axis.
pub(super) fn index_of(mut at: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (place, &size) in index.iter_mut().zip(shape).rev() {
        (at, *place) = (at / size, at % size);
    }
    index
}
