//! Reductions: folds, identities and derivatives.

use super::calculus::Calculus;
use super::{Binary, Compare};
use crate::dtype::{DType, Scalar};

/// The derivative of a reduction with respect to each element.
pub(crate) struct Slope<V> {
    pub(crate) slope: V,
    /// Whether the derivative is `slope` divided by the sum of `slope` over the folded elements.
    /// The caller divides, once for each result.
    pub(crate) is_shared: bool,
}

/// A reduction over one or more axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reduce {
    /// The sum; 0 for no elements. Integers wrap; the sum of `bool`s is their count, as `u32`.
    Sum,
    /// The product; 1 for no elements. Integers wrap.
    Prod,
    /// The maximum; NaN if any element is NaN. Undefined for no elements.
    Max,
    /// The minimum; NaN if any element is NaN. Undefined for no elements.
    Min,
    /// True if all elements are true; `true` for no elements.
    All,
    /// True if any element is true; `false` for no elements.
    Any,
}

impl Reduce {
    /// All reductions.
    pub const ALL: [Self; 6] = [
        Self::Sum,
        Self::Prod,
        Self::Max,
        Self::Min,
        Self::All,
        Self::Any,
    ];

    /// Returns the name of the tensor method that applies the reduction.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Prod => "prod",
            Self::Max => "max",
            Self::Min => "min",
            Self::All => "all",
            Self::Any => "any",
        }
    }

    /// Returns whether the reduction is defined on a type.
    #[must_use]
    pub fn accepts(self, dtype: DType) -> bool {
        match self {
            Self::Sum => dtype != DType::F16,
            Self::Prod | Self::Max | Self::Min => dtype.is_float() || dtype.is_integer(),
            Self::All | Self::Any => dtype == DType::Bool,
        }
    }

    /// Returns the type of the result: the type of the argument, except that the sum of `bool`s is
    /// a `u32`.
    #[must_use]
    pub fn result(self, dtype: DType) -> DType {
        if self == Self::Sum && dtype == DType::Bool {
            DType::U32
        } else {
            dtype
        }
    }

    /// Returns the result of reducing no elements; `None` if it is undefined. A maximum or minimum
    /// of no elements is an error when the program is built, so it never reaches an executor.
    #[must_use]
    pub fn identity(self, dtype: DType) -> Option<Scalar> {
        match self {
            Self::Sum => Some(Scalar::zero(self.result(dtype))),
            Self::Prod => Some(Scalar::I32(1).cast(dtype)),
            Self::All => Some(Scalar::Bool(true)),
            Self::Any => Some(Scalar::Bool(false)),
            Self::Max | Self::Min => None,
        }
    }

    /// Returns a start value for accumulators: folding this value with any element leaves the
    /// element unchanged. The result is the [`identity`](Reduce::identity) if there is one; for
    /// `Max` and `Min` the least or the greatest value of the type (an infinity for floats).
    ///
    /// # Panics
    /// If the reduction does not support the type.
    #[must_use]
    pub fn neutral(self, dtype: DType) -> Scalar {
        match (self, dtype) {
            (Self::Max, DType::F32 | DType::F64) => Scalar::F64(f64::NEG_INFINITY).cast(dtype),
            (Self::Min, DType::F32 | DType::F64) => Scalar::F64(f64::INFINITY).cast(dtype),
            (Self::Max, DType::I32) => Scalar::I32(i32::MIN),
            (Self::Min, DType::I32) => Scalar::I32(i32::MAX),
            (Self::Max, DType::U32) => Scalar::U32(u32::MIN),
            (Self::Min, DType::U32) => Scalar::U32(u32::MAX),
            _ => match self.identity(dtype) {
                Some(identity) => identity,
                None => panic!("{} is not defined on {dtype}", self.name()),
            },
        }
    }

    /// Returns the operation that combines two partial results. For the sum of `bool`s the partial
    /// results are integers.
    #[must_use]
    pub fn binary(self) -> Binary {
        match self {
            Self::Sum => Binary::Add,
            Self::Prod => Binary::Mul,
            Self::Max => Binary::Maximum,
            Self::Min => Binary::Minimum,
            Self::All => Binary::And,
            Self::Any => Binary::Or,
        }
    }

    /// Returns the result that no further element can change. A loop may stop early once every
    /// reduction in it has reached this result, but does not have to.
    #[must_use]
    pub fn annihilator(self) -> Option<bool> {
        match self {
            Self::All => Some(false),
            Self::Any => Some(true),
            _ => None,
        }
    }

    /// Returns the derivative of the result `y` with respect to each element of `x`, where `y` is
    /// repeated along the folded axes; `None` if the derivative is 0 everywhere.
    ///
    /// For `max` and `min` the derivative 1 is divided evenly among the elements that equal the
    /// extreme. For `prod` it is the product of all other elements. If that product is 0 because
    /// another element is 0, it is treated as constant, so second derivatives are 0 there as well.
    pub(crate) fn derivative<V: Calculus>(self, x: &V, y: &V) -> Option<Slope<V>> {
        self.slope(x, y).map(|slope| Slope {
            slope,
            is_shared: matches!(self, Self::Max | Self::Min),
        })
    }

    fn slope<V: Calculus>(self, x: &V, y: &V) -> Option<V> {
        let (zero, one) = (x.number(0.0), x.number(1.0));
        match self {
            Self::Sum => Some(one),
            Self::Prod => {
                // Without zeros in the line, the product of the other elements is `y / x`. With a
                // single zero, only the zero itself has a non-zero derivative: the product of the
                // other elements. With two or more zeros, all derivatives are 0.
                let zeros = V::choose(Compare::Eq, x, &zero, &one, &zero).folded(Self::Sum);
                let others = V::choose(Compare::Eq, x, &zero, &one, x);
                let product = others.folded(Self::Prod);
                let at_zero = V::choose(Compare::Eq, &zeros, &one, &product, &zero);
                let quotient = product.binary(Binary::Div, &others);
                let elsewhere = V::choose(Compare::Eq, &zeros, &zero, &quotient, &zero);
                Some(V::choose(Compare::Eq, x, &zero, &at_zero, &elsewhere))
            }
            Self::Max | Self::Min => Some(V::choose(Compare::Eq, x, y, &one, &zero)),
            Self::All | Self::Any => None,
        }
    }
}
