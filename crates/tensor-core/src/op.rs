//! The scalar operations: what each one computes, and on which types.
//!
//! Role: the one description of an operation. The reference executor evaluates these definitions, every other
//! executor is compared with them, and the planner folds constants by them.
//! Method: a float operation is defined in f64 and rounded to its type, so a result in f32 is the correctly
//! rounded one (up to the rounding of f64 functions); an integer operation is defined modulo 2^32.
//! Accuracy: an executor may be off by one unit in the last place in `+ - * /`, square root and reciprocal, by four in the
//! other functions and in quotients rounded down, and by what any order of additions gives in a sum; it keeps
//! subnormals. All else is exact.
//! NaN: arithmetic, `maximum`, `minimum` and every function but `is_nan` give NaN for NaN; comparisons with NaN are
//! false, except `ne`. Infinity follows IEEE 754 everywhere.
//! Source: `NumPy` 2 for everything that IEEE 754 leaves open.

use crate::dtype::{DType, Scalar};

/// An operation of one argument that keeps its type; [`Unary::IsNan`] gives `bool`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unary {
    /// `-x`; integers wrap.
    Neg,
    /// `|x|`; the smallest `i32` stays what it is.
    Abs,
    /// The largest integer not above `x`.
    Floor,
    /// The smallest integer not below `x`.
    Ceil,
    /// The nearest integer, ties to even.
    Round,
    /// The integer part.
    Trunc,
    /// The square root; NaN below zero, -0.0 stays.
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
    /// Whether `x` is NaN.
    IsNan,
    /// The complement: of a `bool`, or of each bit.
    Not,
}

/// An operation of two arguments of one type that keeps it.
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
    /// `a / b` rounded down; integers give 0 for `b = 0`.
    FloorDiv,
    /// `a - b * floor(a / b)`, with the sign of `b`; integers give 0 for `b = 0`.
    Rem,
    /// `a^b` of floats, with C's special cases: `x^0 = 1^y = 1` even for NaN.
    Pow,
    /// The larger one; NaN if either is.
    Maximum,
    /// The smaller one; NaN if either is.
    Minimum,
    /// Both: of `bool`s, or of each bit.
    And,
    /// Either or both: of `bool`s, or of each bit.
    Or,
    /// Either but not both: of `bool`s, or of each bit.
    Xor,
    /// Bits moved up by `b`; 0 for `b` of 32 or more (or negative).
    Shl,
    /// Bits moved down by `b`, with copies of the sign for `i32`; past 31 places nothing but those is left.
    Shr,
}

/// A comparison of two arguments of one type; gives `bool`.
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

impl Unary {
    /// All of them.
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

    /// The name of the method that applies it.
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

    /// Whether it is defined on a type.
    #[must_use]
    pub fn accepts(self, dtype: DType) -> bool {
        match self {
            Self::Neg | Self::Abs => dtype.is_float() || dtype == DType::I32,
            Self::Not => dtype.is_integer() || dtype == DType::Bool,
            _ => dtype.is_float(),
        }
    }

    /// The type of its result.
    #[must_use]
    pub fn result(self, dtype: DType) -> DType {
        if self == Self::IsNan {
            DType::Bool
        } else {
            dtype
        }
    }

    /// What one evaluation costs, in additions.
    #[must_use]
    pub fn cost(self) -> usize {
        match self {
            Self::Sqrt | Self::Recip => 4,
            Self::Exp | Self::Ln | Self::Sin | Self::Cos | Self::Tanh | Self::Sigmoid => 16,
            _ => 1,
        }
    }

    /// Evaluates it by its definition.
    ///
    /// # Panics
    /// If it does not accept the type of `x`.
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
            // On either side of zero the form that cannot overflow or lose its small result.
            Self::Sigmoid if x < 0.0 => x.exp() / (1.0 + x.exp()),
            Self::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            Self::IsNan | Self::Not => panic!("{} gives no float", self.name()),
        }
    }
}

impl Binary {
    /// All of them.
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

    /// The name of the method that applies it.
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

    /// Whether it is defined on a type.
    #[must_use]
    pub fn accepts(self, dtype: DType) -> bool {
        match self {
            Self::Div | Self::Pow => dtype.is_float(),
            Self::And | Self::Or | Self::Xor => dtype.is_integer() || dtype == DType::Bool,
            Self::Shl | Self::Shr => dtype.is_integer(),
            _ => dtype.is_float() || dtype.is_integer(),
        }
    }

    /// What one evaluation costs, in additions.
    #[must_use]
    pub fn cost(self) -> usize {
        match self {
            Self::Div | Self::FloorDiv | Self::Rem => 4,
            Self::Pow => 32,
            _ => 1,
        }
    }

    /// Evaluates it by its definition.
    ///
    /// # Panics
    /// If the types differ or it does not accept them.
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
            _ => panic!("{} of {} and {}", self.name(), a.dtype(), b.dtype()),
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
                // From the remainder that has the sign of `a`: that with the sign of `b` may be infinite.
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
}

impl Compare {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Lt, Self::Le, Self::Eq, Self::Ne];

    /// The name of the method that applies it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lt => "lt",
            Self::Le => "le",
            Self::Eq => "eq",
            Self::Ne => "ne",
        }
    }

    /// Whether it is defined on a type: order needs numbers, equality anything but `f16`.
    #[must_use]
    pub fn accepts(self, dtype: DType) -> bool {
        match self {
            Self::Lt | Self::Le => dtype.is_float() || dtype.is_integer(),
            Self::Eq | Self::Ne => dtype != DType::F16,
        }
    }

    /// Evaluates it by its definition.
    #[must_use]
    pub fn eval(self, a: Scalar, b: Scalar) -> bool {
        // Every element of every type is an f64, so this is exact.
        let (a, b) = (a.to_f64(), b.to_f64());
        match self {
            Self::Lt => a < b,
            Self::Le => a <= b,
            Self::Eq => a == b,
            Self::Ne => a != b,
        }
    }
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
}
