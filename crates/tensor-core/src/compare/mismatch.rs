//! Why a comparison failed.

use std::fmt;

use super::element::Value;

/// One of the two sides of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// What was computed.
    Actual,
    /// What it is compared with.
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

/// An element that does not meet its allowance.
#[derive(Debug, Clone, PartialEq)]
pub struct Deviation {
    /// Where it is; one number an axis.
    pub index: Vec<usize>,
    /// What was computed.
    pub actual: Value,
    /// What was expected.
    pub expected: Value,
    /// The absolute difference; infinite where NaN or infinity meets something else.
    pub error: f64,
    /// The difference that was allowed.
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

/// Why a comparison failed.
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
    /// There is nothing to compare, and the bound does not say that this is right.
    #[error("compare: there are no elements, and the bound does not allow that")]
    Empty,
    /// Both sides lie in the same memory.
    #[error("compare: actual and expected share memory, so they would agree whatever was computed")]
    SameBuffer,
    /// The bound can't be used.
    #[error("compare: invalid bound: {why}")]
    InvalidBound {
        /// What is wrong with it.
        why: String,
    },
    /// Bits are compared, but the types differ.
    #[error("compare: bits of {actual} against bits of {expected}")]
    BitsOfTwoTypes {
        /// The actual type.
        actual: &'static str,
        /// The expected type.
        expected: &'static str,
    },
    /// An element still holds the sentinel.
    #[error(
        "compare: {n_left} of {n_elements} {side} elements still hold the sentinel, the first at {first:?}"
    )]
    Sentinel {
        /// The side that holds it.
        side: Side,
        /// Where it was found first.
        first: Vec<usize>,
        /// How many elements hold it.
        n_left: usize,
        /// The number of elements.
        n_elements: usize,
    },
    /// Elements differ by more than the bound allows.
    #[error(
        "compare: {n_bad} of {n_elements} elements differ too much\n  worst {worst}{}",
        Listed(first)
    )]
    Elements {
        /// How many differ.
        n_bad: usize,
        /// The number of elements.
        n_elements: usize,
        /// The one that exceeds its allowance most.
        worst: Box<Deviation>,
        /// The first few, in row-major order.
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

/// Splits a row-major position into one number an axis.
pub(super) fn index_of(mut at: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (place, &size) in index.iter_mut().zip(shape).rev() {
        (at, *place) = (at / size, at % size);
    }
    index
}
