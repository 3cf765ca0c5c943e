//! Reductions.

use super::calculus::Calculus;
use super::{Binary, Compare};
use crate::dtype::{DType, Scalar};

/// A reduction over axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reduce {
    /// The sum; integers wrap, `bool`s are counted in `u32`. 0 for no elements.
    Sum,
    /// The product; integers wrap. 1 for no elements.
    Prod,
    /// The largest; NaN if any is. Undefined for no elements.
    Max,
    /// The smallest; NaN if any is. Undefined for no elements.
    Min,
    /// Whether all are true; `true` for no elements.
    All,
    /// Whether any is true; `false` for no elements.
    Any,
}

impl Reduce {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Sum,
        Self::Prod,
        Self::Max,
        Self::Min,
        Self::All,
        Self::Any,
    ];

    /// The name of the method that applies it.
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

    /// Whether it is defined on a type.
    #[must_use]
    pub fn accepts(self, dtype: DType) -> bool {
        match self {
            Self::Sum => dtype != DType::F16,
            Self::Prod | Self::Max | Self::Min => dtype.is_float() || dtype.is_integer(),
            Self::All | Self::Any => dtype == DType::Bool,
        }
    }

    /// The type of its result: that of its argument, but `u32` for a sum of `bool`s.
    #[must_use]
    pub fn result(self, dtype: DType) -> DType {
        if self == Self::Sum && dtype == DType::Bool {
            DType::U32
        } else {
            dtype
        }
    }

    /// What the reduction of no elements gives; `None` where it is undefined. An extreme of no elements is refused when a
    /// program is built and never reaches an executor.
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

    /// What accumulators may start from: no element that is folded into it changes by it. It is the
    /// [`identity`](Reduce::identity) where there is one; for the extremes the least and the greatest number of the type.
    ///
    /// # Panics
    /// If it does not accept the type.
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

    /// The operation that joins two results; a `bool` counts as the integer it is summed as.
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

    /// The result that no further element can change; a loop in which every reduction has its own may stop. None has to.
    #[must_use]
    pub fn annihilator(self) -> Option<bool> {
        match self {
            Self::All => Some(false),
            Self::Any => Some(true),
            _ => None,
        }
    }

    /// The derivative of its result `y` by each element of `x`, with `y` repeated along what was folded; `None` if that is 0.
    ///
    /// `max` and `min` share 1 evenly among equal extremes. That of `prod` is the product of all other elements; where it is
    /// 0, because of a 0 elsewhere in the line, it counts as constant, so second derivatives there are 0 too.
    pub(crate) fn derivative<V: Calculus>(self, x: &V, y: &V) -> Option<V> {
        let (zero, one) = (x.number(0.0), x.number(1.0));
        match self {
            Self::Sum => Some(one),
            Self::Prod => {
                let zeros = V::choose(Compare::Eq, x, &zero, &one, &zero).folded(Self::Sum);
                let others = V::choose(Compare::Eq, x, &zero, &one, x);
                let product = others.folded(Self::Prod);
                let at_zero = V::choose(Compare::Eq, &zeros, &one, &product, &zero);
                let quotient = product.binary(Binary::Div, &others);
                let elsewhere = V::choose(Compare::Eq, &zeros, &zero, &quotient, &zero);
                Some(V::choose(Compare::Eq, x, &zero, &at_zero, &elsewhere))
            }
            Self::Max | Self::Min => {
                let hit = V::choose(Compare::Eq, x, y, &one, &zero);
                Some(hit.binary(Binary::Div, &hit.folded(Self::Sum)))
            }
            Self::All | Self::Any => None,
        }
    }
}
