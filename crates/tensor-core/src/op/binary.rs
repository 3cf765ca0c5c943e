//! Binary operations: one table with name, types, evaluation, error, cost and derivatives of each.

use super::calculus::Calculus;
use super::{Compare, Rounding, Unary};
use crate::dtype::{DType, Scalar};

/// Creates the enum of the operations and its table, as in `unary`. The evaluation on a type is
/// `None` if the operation is not defined on it.
macro_rules! binary_operations {
    ($(
        $(#[$doc:meta])*
        $op:ident {
            name: $name:literal,
            accepts: $accepts:expr,
            rounding: $rounding:ident,
            cost: $cost:literal,
            on_float: $on_float:expr,
            on_i32: $on_i32:expr,
            on_u32: $on_u32:expr,
            derivatives: |$a:pat_param, $b:pat_param, $y:pat_param| $derivatives:expr,
        }
    )*) => {
        /// An operation on two arguments of one type, whose result has the same type.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Binary {
            $($(#[$doc])* $op,)*
        }

        impl Binary {
            /// All operations.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$op),*];

            /// Returns the name of the tensor method that applies the operation.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$op => $name,)*
                }
            }

            /// Returns whether the operation is defined on a type.
            #[must_use]
            pub fn accepts(self, dtype: DType) -> bool {
                let accepts: fn(DType) -> bool = match self {
                    $(Self::$op => $accepts,)*
                };
                accepts(dtype)
            }

            /// Returns the rounding error of the operation on floats. `floor_div` and `rem` are
            /// functions here, but executors are held to one rounding (see [`op`](crate::op)).
            #[must_use]
            pub fn rounding(self) -> Rounding {
                match self {
                    $(Self::$op => Rounding::$rounding,)*
                }
            }

            /// Returns the estimated cost of one evaluation, in additions.
            #[must_use]
            pub fn cost(self) -> usize {
                match self {
                    $(Self::$op => $cost,)*
                }
            }

            // Each arm calls a known function, so a loop over one operation is compiled for it.
            pub(crate) fn on_float(self, a: f64, b: f64) -> f64 {
                match self {
                    $(Self::$op => self.defined::<fn(f64, f64) -> f64>($on_float, "floats")(a, b),)*
                }
            }

            pub(crate) fn on_i32(self, a: i32, b: i32) -> i32 {
                match self {
                    $(Self::$op => self.defined::<fn(i32, i32) -> i32>($on_i32, "i32")(a, b),)*
                }
            }

            pub(crate) fn on_u32(self, a: u32, b: u32) -> u32 {
                match self {
                    $(Self::$op => self.defined::<fn(u32, u32) -> u32>($on_u32, "u32")(a, b),)*
                }
            }

            /// Returns the derivatives with respect to `a` and to `b`, given the value `y`; `None`
            /// for a derivative that is 0 everywhere.
            ///
            /// `maximum` and `minimum` assign one half to each of two equal arguments. The
            /// derivative of `pow` with respect to the exponent is 0 for `a <= 0`: for `a < 0` only
            /// whole exponents have a value. The derivative with respect to `a` is 0 for the
            /// exponent 0. `floor_div` is treated as constant.
            pub(crate) fn derivatives<V: Calculus>(self, a: &V, b: &V, y: &V) -> [Option<V>; 2] {
                match self {
                    $(Self::$op => {
                        let ($a, $b, $y) = (a, b, y);
                        $derivatives
                    })*
                }
            }
        }
    };
}

binary_operations! {
    /// `a + b`; integers wrap.
    Add {
        name: "add",
        accepts: is_number,
        rounding: Ieee,
        cost: 1,
        on_float: Some(|a, b| a + b),
        on_i32: Some(i32::wrapping_add),
        on_u32: Some(u32::wrapping_add),
        derivatives: |a, _, _| [Some(a.number(1.0)), Some(a.number(1.0))],
    }
    /// `a - b`; integers wrap.
    Sub {
        name: "sub",
        accepts: is_number,
        rounding: Ieee,
        cost: 1,
        on_float: Some(|a, b| a - b),
        on_i32: Some(i32::wrapping_sub),
        on_u32: Some(u32::wrapping_sub),
        derivatives: |a, _, _| [Some(a.number(1.0)), Some(a.number(-1.0))],
    }
    /// `a * b`; integers wrap.
    Mul {
        name: "mul",
        accepts: is_number,
        rounding: Ieee,
        cost: 1,
        on_float: Some(|a, b| a * b),
        on_i32: Some(i32::wrapping_mul),
        on_u32: Some(u32::wrapping_mul),
        derivatives: |a, b, _| [Some(b.clone()), Some(a.clone())],
    }
    /// `a / b` of floats.
    Div {
        name: "div",
        accepts: DType::is_float,
        rounding: Ieee,
        cost: 4,
        on_float: Some(|a, b| a / b),
        on_i32: None,
        on_u32: None,
        derivatives: |_, b, y| [Some(b.unary(Unary::Recip)), Some(y.binary(Self::Div, b).unary(Unary::Neg))],
    }
    /// `a / b` rounded down; for integers 0 if `b = 0`.
    FloorDiv {
        name: "floor_div",
        accepts: is_number,
        rounding: Function,
        cost: 4,
        on_float: Some(floor_div),
        on_i32: Some(floor_div_i32),
        on_u32: Some(|a, b| a.checked_div(b).unwrap_or(0)),
        derivatives: |_, _, _| [None, None],
    }
    /// `a - b * floor(a / b)`, with the sign of `b`; for integers 0 if `b = 0`.
    Rem {
        name: "rem",
        accepts: is_number,
        rounding: Function,
        cost: 4,
        on_float: Some(rem),
        on_i32: Some(rem_i32),
        on_u32: Some(|a, b| a.checked_rem(b).unwrap_or(0)),
        derivatives: |a, b, _| [Some(a.number(1.0)), Some(a.binary(Self::FloorDiv, b).unary(Unary::Neg))],
    }
    /// `a^b` of floats, with C's special cases: `x^0 = 1^y = 1` even for NaN.
    Pow {
        name: "pow",
        accepts: DType::is_float,
        rounding: Function,
        cost: 32,
        on_float: Some(f64::powf),
        on_i32: None,
        on_u32: None,
        derivatives: |a, b, y| slopes_of_pow(a, b, y),
    }
    /// The larger argument; NaN if either argument is NaN.
    Maximum {
        name: "maximum",
        accepts: is_number,
        rounding: Exact,
        cost: 1,
        on_float: Some(|a, b| if a.is_nan() || a > b { a } else { b }),
        on_i32: Some(i32::max),
        on_u32: Some(u32::max),
        derivatives: |a, b, _| [Some(wins(b, a)), Some(wins(a, b))],
    }
    /// The smaller argument; NaN if either argument is NaN.
    Minimum {
        name: "minimum",
        accepts: is_number,
        rounding: Exact,
        cost: 1,
        on_float: Some(|a, b| if a.is_nan() || a < b { a } else { b }),
        on_i32: Some(i32::min),
        on_u32: Some(u32::min),
        derivatives: |a, b, _| [Some(wins(a, b)), Some(wins(b, a))],
    }
    /// Logical and of `bool`s, or bitwise and of integers.
    And {
        name: "and",
        accepts: is_bits,
        rounding: Exact,
        cost: 1,
        on_float: None,
        on_i32: Some(|a, b| a & b),
        on_u32: Some(|a, b| a & b),
        derivatives: |_, _, _| [None, None],
    }
    /// Logical or of `bool`s, or bitwise or of integers.
    Or {
        name: "or",
        accepts: is_bits,
        rounding: Exact,
        cost: 1,
        on_float: None,
        on_i32: Some(|a, b| a | b),
        on_u32: Some(|a, b| a | b),
        derivatives: |_, _, _| [None, None],
    }
    /// Logical exclusive or of `bool`s, or bitwise exclusive or of integers.
    Xor {
        name: "xor",
        accepts: is_bits,
        rounding: Exact,
        cost: 1,
        on_float: None,
        on_i32: Some(|a, b| a ^ b),
        on_u32: Some(|a, b| a ^ b),
        derivatives: |_, _, _| [None, None],
    }
    /// `a` shifted left by `b` bits; 0 if `b` is negative, or 32 or more.
    Shl {
        name: "shl",
        accepts: DType::is_integer,
        rounding: Exact,
        cost: 1,
        on_float: None,
        on_i32: Some(|a, b| a.checked_shl(b.cast_unsigned()).unwrap_or(0)),
        on_u32: Some(|a, b| a.checked_shl(b).unwrap_or(0)),
        derivatives: |_, _, _| [None, None],
    }
    /// `a` shifted right by `b` bits; the sign bit is copied for `i32`. If `b` is negative, or 32
    /// or more, the result is 0, or -1 for a negative `a`.
    Shr {
        name: "shr",
        accepts: DType::is_integer,
        rounding: Exact,
        cost: 1,
        on_float: None,
        on_i32: Some(|a, b| a >> b.cast_unsigned().min(31)),
        on_u32: Some(|a, b| a.checked_shr(b).unwrap_or(0)),
        derivatives: |_, _, _| [None, None],
    }
    /// The sum of the products of the four signed bytes of `a` and `b`; for `u32` modulo 2^32.
    Dot4I8 {
        name: "dot4_i8",
        accepts: DType::is_integer,
        rounding: Exact,
        // Four products, whose factors are shifted twice.
        cost: 16,
        on_float: None,
        on_i32: Some(dot4_i8),
        on_u32: Some(|a, b| dot4_i8(a.cast_signed(), b.cast_signed()).cast_unsigned()),
        derivatives: |_, _, _| [None, None],
    }
}

fn is_number(dtype: DType) -> bool {
    dtype.is_float() || dtype.is_integer()
}

fn is_bits(dtype: DType) -> bool {
    dtype.is_integer() || dtype == DType::Bool
}

impl Binary {
    /// Returns whether the definition rounds at most once, as [`Unary::is_correctly_rounded`].
    #[must_use]
    pub fn is_correctly_rounded(self) -> bool {
        self.rounding() != Rounding::Function
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
                "{} is not defined on {} and {}",
                self.name(),
                a.dtype(),
                b.dtype()
            ),
        }
    }

    fn defined<F>(self, evaluate: Option<F>, types: &str) -> F {
        evaluate.unwrap_or_else(|| panic!("{} is not defined on {types}", self.name()))
    }
}

fn floor_div(a: f64, b: f64) -> f64 {
    if b == 0.0 {
        return a / b;
    }
    // Subtract the remainder first, so that the quotient is a whole number up to rounding. Use
    // Rust's `%`, which has the sign of `a`: the remainder with the sign of `b` (`rem + b`) is
    // infinite for an infinite `b`. `below` corrects the quotient if the signs differ.
    let rem = a % b;
    let below = f64::from(u8::from(rem != 0.0 && (rem < 0.0) != (b < 0.0)));
    let quotient = ((a - rem) / b - below).round_ties_even();
    if quotient == 0.0 {
        0.0_f64.copysign(a / b)
    } else {
        quotient
    }
}

fn rem(a: f64, b: f64) -> f64 {
    let rem = a % b;
    if rem != 0.0 && (rem < 0.0) != (b < 0.0) {
        rem + b
    } else if rem == 0.0 {
        0.0_f64.copysign(b)
    } else {
        rem
    }
}

fn floor_div_i32(a: i32, b: i32) -> i32 {
    if b == 0 {
        return 0;
    }
    // `wrapping_div` truncates. Round down instead if the signs differ and the division is inexact.
    let is_inexact = a.wrapping_rem(b) != 0 && (a < 0) != (b < 0);
    a.wrapping_div(b) - i32::from(is_inexact)
}

fn rem_i32(a: i32, b: i32) -> i32 {
    if b == 0 {
        return 0;
    }
    let rem = a.wrapping_rem(b);
    if rem != 0 && (rem < 0) != (b < 0) {
        rem + b
    } else {
        rem
    }
}

/// Returns the sum of the products of four signed bytes. Inlined, so that loops of the host are
/// compiled for its vector instructions.
#[inline(always)]
pub(crate) fn dot4_i8(a: i32, b: i32) -> i32 {
    // The shift to the right copies the sign of the byte. Four products fit in 17 bits.
    let byte = |word: i32, number: u32| word << (24 - 8 * number) >> 24;
    (0..4).map(|number| byte(a, number) * byte(b, number)).sum()
}

fn slopes_of_pow<V: Calculus>(a: &V, b: &V, y: &V) -> [Option<V>; 2] {
    let (zero, one) = (a.number(0.0), a.number(1.0));
    // The branch that is not selected must be finite as well, because second derivatives multiply
    // it by 0. Hence the base is replaced by 1 where `a` and `b` are 0: 0 to the power of -1 is
    // infinite. (For a subnormal base in f32 the power may be infinite as well; the derivative for
    // the exponent 0 is then NaN.)
    let not_zero = V::choose(Compare::Eq, a, &zero, &one, a);
    let base = V::choose(Compare::Eq, b, &zero, &not_zero, a);
    let slope = b.binary(
        Binary::Mul,
        &base.binary(Binary::Pow, &b.binary(Binary::Sub, &one)),
    );
    // Likewise, take the logarithm of 1 instead of an argument at or below 0.
    let above = V::choose(Compare::Lt, &zero, a, a, &one);
    let by_exponent = y.binary(Binary::Mul, &above.unary(Unary::Ln));
    [
        Some(slope),
        Some(V::choose(Compare::Lt, &zero, a, &by_exponent, &zero)),
    ]
}

/// Returns 1 where `less < more`, 0 where `less > more`, and one half elsewhere.
fn wins<V: Calculus>(less: &V, more: &V) -> V {
    let (zero, half, one) = (less.number(0.0), less.number(0.5), less.number(1.0));
    let not_less = V::choose(Compare::Lt, more, less, &zero, &half);
    V::choose(Compare::Lt, less, more, &one, &not_less)
}
