//! Unary operations: evaluation, supported types and derivatives.

use super::calculus::Calculus;
use super::{Binary, Compare};
use crate::dtype::{DType, Scalar};

/// An operation on one argument, whose result has the same type; the result of [`Unary::IsNan`] is
/// a `bool`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unary {
    /// `-x`; integers wrap.
    Neg,
    /// `|x|`; `i32::MIN` is unchanged.
    Abs,
    /// The largest integer not above `x`.
    Floor,
    /// The smallest integer not below `x`.
    Ceil,
    /// The nearest integer; ties round to even.
    Round,
    /// The integer part, rounded towards zero.
    Trunc,
    /// The square root; NaN below zero, -0.0 for -0.0.
    Sqrt,
    /// `1 / x`.
    Recip,
    /// `e^x`.
    Exp,
    /// The natural logarithm: NaN below zero, minus infinity at zero.
    Ln,
    /// The sine of an angle in radians; NaN for infinity.
    Sin,
    /// The cosine of an angle in radians; NaN for infinity.
    Cos,
    /// The hyperbolic tangent.
    Tanh,
    /// `1 / (1 + e^-x)`.
    Sigmoid,
    /// True if `x` is NaN.
    IsNan,
    /// Logical not of a `bool`, or bitwise not of an integer.
    Not,
}

impl Unary {
    /// All operations.
    pub const ALL: [Self; 16] = [
        Self::Neg,
        Self::Abs,
        Self::Floor,
        Self::Ceil,
        Self::Round,
        Self::Trunc,
        Self::Sqrt,
        Self::Recip,
        Self::Exp,
        Self::Ln,
        Self::Sin,
        Self::Cos,
        Self::Tanh,
        Self::Sigmoid,
        Self::IsNan,
        Self::Not,
    ];

    /// Returns the name of the tensor method that applies the operation.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Neg => "neg",
            Self::Abs => "abs",
            Self::Floor => "floor",
            Self::Ceil => "ceil",
            Self::Round => "round",
            Self::Trunc => "trunc",
            Self::Sqrt => "sqrt",
            Self::Recip => "recip",
            Self::Exp => "exp",
            Self::Ln => "ln",
            Self::Sin => "sin",
            Self::Cos => "cos",
            Self::Tanh => "tanh",
            Self::Sigmoid => "sigmoid",
            Self::IsNan => "is_nan",
            Self::Not => "not",
        }
    }

    /// Returns whether the operation is defined on a type.
    #[must_use]
    pub fn accepts(self, dtype: DType) -> bool {
        match self {
            Self::Neg | Self::Abs => dtype.is_float() || dtype == DType::I32,
            Self::Not => dtype.is_integer() || dtype == DType::Bool,
            _ => dtype.is_float(),
        }
    }

    /// Returns the type of the result for an argument of type `dtype`.
    #[must_use]
    pub fn result(self, dtype: DType) -> DType {
        if self == Self::IsNan {
            DType::Bool
        } else {
            dtype
        }
    }

    /// Returns whether every executor computes the same bits, because the operation is exact or
    /// correctly rounded. The other operations may differ in the last places between executors, and
    /// between an executor and a constant that the planner folded.
    #[must_use]
    pub fn is_correctly_rounded(self) -> bool {
        !matches!(
            self,
            Self::Exp | Self::Ln | Self::Sin | Self::Cos | Self::Tanh | Self::Sigmoid
        )
    }

    /// Returns the estimated cost of one evaluation, in additions.
    #[must_use]
    pub fn cost(self) -> usize {
        match self {
            Self::Sqrt | Self::Recip => 4,
            Self::Exp | Self::Ln | Self::Sin | Self::Cos | Self::Tanh | Self::Sigmoid => 16,
            _ => 1,
        }
    }

    /// Evaluates the operation by its definition.
    ///
    /// # Panics
    /// If the operation does not support the type of `x`.
    #[must_use]
    pub fn eval(self, x: Scalar) -> Scalar {
        match x {
            Scalar::F32(_) | Scalar::F64(_) => {
                if self == Self::IsNan {
                    return Scalar::Bool(x.to_f64().is_nan());
                }
                Scalar::F64(self.on_float(x.to_f64())).cast(x.dtype())
            }
            Scalar::I32(x) => Scalar::I32(match self {
                Self::Neg => x.wrapping_neg(),
                Self::Abs => x.wrapping_abs(),
                Self::Not => !x,
                _ => panic!("{} is not defined on i32", self.name()),
            }),
            Scalar::U32(x) if self == Self::Not => Scalar::U32(!x),
            Scalar::Bool(x) if self == Self::Not => Scalar::Bool(!x),
            _ => panic!("{} is not defined on {}", self.name(), x.dtype()),
        }
    }

    fn on_float(self, x: f64) -> f64 {
        match self {
            Self::Neg => -x,
            Self::Abs => x.abs(),
            Self::Floor => x.floor(),
            Self::Ceil => x.ceil(),
            Self::Round => x.round_ties_even(),
            Self::Trunc => x.trunc(),
            Self::Sqrt => x.sqrt(),
            Self::Recip => x.recip(),
            Self::Exp => x.exp(),
            Self::Ln => x.ln(),
            Self::Sin => x.sin(),
            Self::Cos => x.cos(),
            Self::Tanh => x.tanh(),
            // Two forms of one function: below zero the first does not overflow and keeps the
            // relative accuracy of small results; above zero the second does.
            Self::Sigmoid if x < 0.0 => x.exp() / (1.0 + x.exp()),
            Self::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            Self::IsNan | Self::Not => panic!("{} does not return a float", self.name()),
        }
    }

    /// Returns the derivative at `x`, given the value `y`; `None` if it is 0 everywhere.
    ///
    /// The derivative of `abs` at 0 is 0, the midpoint of its subdifferential. The derivatives of
    /// `floor`, `ceil`, `round` and `trunc` are 0 at their steps as well.
    pub(crate) fn derivative<V: Calculus>(self, x: &V, y: &V) -> Option<V> {
        let number = |value| x.number(value);
        Some(match self {
            Self::Neg => number(-1.0),
            Self::Abs => {
                let (zero, one) = (number(0.0), number(1.0));
                // Composed of two selections, so that the derivative at 0 is 0.
                let not_above = V::choose(Compare::Lt, x, &zero, &number(-1.0), &zero);
                V::choose(Compare::Lt, &zero, x, &one, &not_above)
            }
            Self::Sqrt => number(0.5).binary(Binary::Div, y),
            Self::Recip => y.binary(Binary::Mul, y).unary(Self::Neg),
            Self::Exp => y.clone(),
            Self::Ln => x.unary(Self::Recip),
            Self::Sin => x.unary(Self::Cos),
            Self::Cos => x.unary(Self::Sin).unary(Self::Neg),
            Self::Tanh => number(1.0).binary(Binary::Sub, &y.binary(Binary::Mul, y)),
            Self::Sigmoid => y.binary(Binary::Mul, &number(1.0).binary(Binary::Sub, y)),
            Self::Floor | Self::Ceil | Self::Round | Self::Trunc | Self::IsNan | Self::Not => {
                return None;
            }
        })
    }
}
