//! Binary operations: evaluation, supported types and derivatives.

use super::calculus::Calculus;
use super::{Compare, Unary};
use crate::dtype::{DType, Scalar};

/// An operation on two arguments of one type, whose result has the same type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Binary {
    /// `a + b`; integers wrap.
    Add,
    /// `a - b`; integers wrap.
    Sub,
    /// `a * b`; integers wrap.
    Mul,
    /// `a / b` of floats.
    Div,
    /// `a / b` rounded down; for integers 0 if `b = 0`.
    FloorDiv,
    /// `a - b * floor(a / b)`, with the sign of `b`; for integers 0 if `b = 0`.
    Rem,
    /// `a^b` of floats, with C's special cases: `x^0 = 1^y = 1` even for NaN.
    Pow,
    /// The larger argument; NaN if either argument is NaN.
    Maximum,
    /// The smaller argument; NaN if either argument is NaN.
    Minimum,
    /// Logical and of `bool`s, or bitwise and of integers.
    And,
    /// Logical or of `bool`s, or bitwise or of integers.
    Or,
    /// Logical exclusive or of `bool`s, or bitwise exclusive or of integers.
    Xor,
    /// `a` shifted left by `b` bits; 0 if `b` is negative, or 32 or more.
    Shl,
    /// `a` shifted right by `b` bits; the sign bit is copied for `i32`. If `b` is negative, or 32
    /// or more, the result is 0, or -1 for a negative `a`.
    Shr,
}

impl Binary {
    /// All operations.
    pub const ALL: [Self; 14] = [
        Self::Add,
        Self::Sub,
        Self::Mul,
        Self::Div,
        Self::FloorDiv,
        Self::Rem,
        Self::Pow,
        Self::Maximum,
        Self::Minimum,
        Self::And,
        Self::Or,
        Self::Xor,
        Self::Shl,
        Self::Shr,
    ];

    /// Returns the name of the tensor method that applies the operation.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Sub => "sub",
            Self::Mul => "mul",
            Self::Div => "div",
            Self::FloorDiv => "floor_div",
            Self::Rem => "rem",
            Self::Pow => "pow",
            Self::Maximum => "maximum",
            Self::Minimum => "minimum",
            Self::And => "and",
            Self::Or => "or",
            Self::Xor => "xor",
            Self::Shl => "shl",
            Self::Shr => "shr",
        }
    }

    /// Returns whether the operation is defined on a type.
    #[must_use]
    pub fn accepts(self, dtype: DType) -> bool {
        match self {
            Self::Div | Self::Pow => dtype.is_float(),
            Self::And | Self::Or | Self::Xor => dtype.is_integer() || dtype == DType::Bool,
            Self::Shl | Self::Shr => dtype.is_integer(),
            _ => dtype.is_float() || dtype.is_integer(),
        }
    }

    /// Returns whether every executor computes the same bits, as [`Unary::is_correctly_rounded`].
    #[must_use]
    pub fn is_correctly_rounded(self) -> bool {
        !matches!(self, Self::Pow | Self::FloorDiv | Self::Rem)
    }

    /// Returns the estimated cost of one evaluation, in additions.
    #[must_use]
    pub fn cost(self) -> usize {
        match self {
            Self::Div | Self::FloorDiv | Self::Rem => 4,
            Self::Pow => 32,
            _ => 1,
        }
    }

    /// Evaluates the operation by its definition.
    ///
    /// # Panics
    /// If the types differ or the operation does not support them.
    #[must_use]
    pub fn eval(self, a: Scalar, b: Scalar) -> Scalar {
        match (a, b) {
            (Scalar::F32(_), Scalar::F32(_)) | (Scalar::F64(_), Scalar::F64(_)) => {
                Scalar::F64(self.on_float(a.to_f64(), b.to_f64())).cast(a.dtype())
            }
            (Scalar::I32(a), Scalar::I32(b)) => Scalar::I32(self.on_i32(a, b)),
            (Scalar::U32(a), Scalar::U32(b)) => Scalar::U32(self.on_u32(a, b)),
            (Scalar::Bool(a), Scalar::Bool(b)) => Scalar::Bool(match self {
                Self::And => a && b,
                Self::Or => a || b,
                Self::Xor => a != b,
                _ => panic!("{} is not defined on bool", self.name()),
            }),
            _ => panic!(
                "{}: operand types differ ({} and {})",
                self.name(),
                a.dtype(),
                b.dtype()
            ),
        }
    }

    pub(crate) fn on_float(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Add => a + b,
            Self::Sub => a - b,
            Self::Mul => a * b,
            Self::Div => a / b,
            Self::FloorDiv if b == 0.0 => a / b,
            Self::FloorDiv => {
                // Subtract the remainder first, so that the quotient is a whole number up to
                // rounding. Use Rust's `%`, which has the sign of `a`: the remainder with the sign
                // of `b` (`rem + b`) is infinite for an infinite `b`. `below` corrects the quotient
                // if the signs differ.
                let rem = a % b;
                let below = f64::from(u8::from(rem != 0.0 && (rem < 0.0) != (b < 0.0)));
                let quotient = ((a - rem) / b - below).round_ties_even();
                if quotient == 0.0 {
                    0.0_f64.copysign(a / b)
                } else {
                    quotient
                }
            }
            Self::Rem => {
                let rem = a % b;
                if rem != 0.0 && (rem < 0.0) != (b < 0.0) {
                    rem + b
                } else if rem == 0.0 {
                    0.0_f64.copysign(b)
                } else {
                    rem
                }
            }
            Self::Pow => a.powf(b),
            Self::Maximum if a.is_nan() || a > b => a,
            Self::Minimum if a.is_nan() || a < b => a,
            Self::Maximum | Self::Minimum => b,
            _ => panic!("{} is not defined on floats", self.name()),
        }
    }

    pub(crate) fn on_i32(self, a: i32, b: i32) -> i32 {
        match self {
            Self::Add => a.wrapping_add(b),
            Self::Sub => a.wrapping_sub(b),
            Self::Mul => a.wrapping_mul(b),
            Self::FloorDiv if b == 0 => 0,
            Self::FloorDiv => {
                // `wrapping_div` truncates. Round down instead if the signs differ and the division
                // is inexact.
                let quotient = a.wrapping_div(b);
                let inexact = a.wrapping_rem(b) != 0 && (a < 0) != (b < 0);
                quotient - i32::from(inexact)
            }
            Self::Rem if b == 0 => 0,
            Self::Rem => {
                let rem = a.wrapping_rem(b);
                if rem != 0 && (rem < 0) != (b < 0) {
                    rem + b
                } else {
                    rem
                }
            }
            Self::Maximum => a.max(b),
            Self::Minimum => a.min(b),
            Self::And => a & b,
            Self::Or => a | b,
            Self::Xor => a ^ b,
            Self::Shl => a.checked_shl(b.cast_unsigned()).unwrap_or(0),
            Self::Shr => a >> b.cast_unsigned().min(31),
            Self::Div | Self::Pow => panic!("{} is not defined on i32", self.name()),
        }
    }

    pub(crate) fn on_u32(self, a: u32, b: u32) -> u32 {
        match self {
            Self::Add => a.wrapping_add(b),
            Self::Sub => a.wrapping_sub(b),
            Self::Mul => a.wrapping_mul(b),
            Self::FloorDiv => a.checked_div(b).unwrap_or(0),
            Self::Rem => a.checked_rem(b).unwrap_or(0),
            Self::Maximum => a.max(b),
            Self::Minimum => a.min(b),
            Self::And => a & b,
            Self::Or => a | b,
            Self::Xor => a ^ b,
            Self::Shl => a.checked_shl(b).unwrap_or(0),
            Self::Shr => a.checked_shr(b).unwrap_or(0),
            Self::Div | Self::Pow => panic!("{} is not defined on u32", self.name()),
        }
    }

    /// Returns the derivatives with respect to `a` and to `b`, given the value `y`; `None` for a
    /// derivative that is 0 everywhere.
    ///
    /// `maximum` and `minimum` assign one half to each of two equal arguments. The derivative of
    /// `pow` with respect to the exponent is 0 for `a <= 0`, where only whole exponents have a
    /// value; with respect to `a` it is 0 for the exponent 0. `floor_div` is treated as constant.
    pub(crate) fn derivatives<V: Calculus>(self, a: &V, b: &V, y: &V) -> [Option<V>; 2] {
        let number = |value| a.number(value);
        match self {
            Self::Add => [Some(number(1.0)), Some(number(1.0))],
            Self::Sub => [Some(number(1.0)), Some(number(-1.0))],
            Self::Mul => [Some(b.clone()), Some(a.clone())],
            Self::Div => [
                Some(b.unary(Unary::Recip)),
                Some(y.binary(Self::Div, b).unary(Unary::Neg)),
            ],
            Self::Rem => [
                Some(number(1.0)),
                Some(a.binary(Self::FloorDiv, b).unary(Unary::Neg)),
            ],
            Self::Pow => {
                let (zero, one) = (number(0.0), number(1.0));
                // The branch that is not selected must be finite as well, because second
                // derivatives multiply it by 0. Hence the base is replaced by 1 where `a` or `b` is
                // 0.
                let not_zero = V::choose(Compare::Eq, a, &zero, &one, a);
                let base = V::choose(Compare::Eq, b, &zero, &not_zero, a);
                let slope = b.binary(
                    Self::Mul,
                    &base.binary(Self::Pow, &b.binary(Self::Sub, &one)),
                );
                // Likewise, take the logarithm of 1 instead of an argument at or below 0.
                let above = V::choose(Compare::Lt, &zero, a, a, &one);
                let by_exponent = y.binary(Self::Mul, &above.unary(Unary::Ln));
                [
                    Some(slope),
                    Some(V::choose(Compare::Lt, &zero, a, &by_exponent, &zero)),
                ]
            }
            Self::Maximum => [Some(wins(b, a)), Some(wins(a, b))],
            Self::Minimum => [Some(wins(a, b)), Some(wins(b, a))],
            Self::FloorDiv | Self::And | Self::Or | Self::Xor | Self::Shl | Self::Shr => {
                [None, None]
            }
        }
    }
}

/// Returns 1 where `less < more`, 0 where `less > more`, and one half elsewhere.
fn wins<V: Calculus>(less: &V, more: &V) -> V {
    let (zero, half, one) = (less.number(0.0), less.number(0.5), less.number(1.0));
    let not_less = V::choose(Compare::Lt, more, less, &zero, &half);
    V::choose(Compare::Lt, less, more, &one, &not_less)
}
