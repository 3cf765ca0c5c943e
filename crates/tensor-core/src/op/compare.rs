//! Comparison operations.

use crate::dtype::{DType, Scalar};

/// A comparison of two arguments of one type, with a `bool` as its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compare {
    /// `a < b`.
    Lt,
    /// `a <= b`.
    Le,
    /// `a == b`.
    Eq,
    /// `a != b`, the complement of [`Compare::Eq`].
    Ne,
}

impl Compare {
    /// All comparisons.
    pub const ALL: [Self; 4] = [Self::Lt, Self::Le, Self::Eq, Self::Ne];

    /// Returns the name of the tensor method that applies the comparison.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lt => "lt",
            Self::Le => "le",
            Self::Eq => "eq",
            Self::Ne => "ne",
        }
    }

    /// Returns whether the comparison is defined on a type: `Lt` and `Le` on numbers, `Eq` and `Ne`
    /// on every type except `f16`.
    #[must_use]
    pub fn accepts(self, dtype: DType) -> bool {
        match self {
            Self::Lt | Self::Le => dtype.is_float() || dtype.is_integer(),
            Self::Eq | Self::Ne => dtype != DType::F16,
        }
    }

    /// Evaluates the comparison by its definition.
    #[must_use]
    pub fn eval(self, a: Scalar, b: Scalar) -> bool {
        // Every value of every type is exactly representable in f64, so this comparison is exact.
        let (a, b) = (a.to_f64(), b.to_f64());
        match self {
            Self::Lt => a < b,
            Self::Le => a <= b,
            Self::Eq => a == b,
            Self::Ne => a != b,
        }
    }
}
