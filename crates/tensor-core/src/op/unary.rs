//! Unary operations: one table with name, types, evaluation on floats, error, cost and derivative
//! of each; [`Unary::eval`] has the few operations on integers and `bool`.

use super::calculus::Calculus;
use super::{Binary, Compare};
use crate::dtype::{DType, Scalar};
use std::f64::consts::FRAC_2_SQRT_PI;

/// The rounding error that an executor may make in a float result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounding {
    /// No error: the type contains the exact result.
    Exact,
    /// The error of one correctly rounded operation of IEEE 754. An executor's
    /// [`Accuracy`](crate::exec::Accuracy) may permit more.
    Ieee,
    /// A few units in the last place, as in a library function; the bits differ between executors.
    Function,
}

/// The way in which an error of the argument changes a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spread {
    /// The result changes most at an end of the interval of arguments: monotone functions and
    /// `abs`.
    Ends,
    /// The result changes by at most the error of the argument: the slope is between -1 and 1.
    Slope,
    /// As [`Spread::Ends`], but the change is unlimited if the interval contains 0.
    Pole,
}

/// Creates the enum of the operations and its table. Each row has every field, so an operation
/// without one of them does not compile.
macro_rules! unary_operations {
    ($(
        $(#[$doc:meta])*
        $op:ident {
            name: $name:literal,
            accepts: $accepts:expr,
            rounding: $rounding:ident,
            spread: $spread:ident,
            cost: $cost:literal,
            on_float: $on_float:expr,
            derivative: |$x:pat_param, $y:pat_param| $derivative:expr,
        }
    )*) => {
        /// An operation on one argument, whose result has the same type; the result of
        /// [`Unary::IsNan`] is a `bool`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Unary {
            $($(#[$doc])* $op,)*
        }

        impl Unary {
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

            /// Returns the rounding error of the operation on floats.
            #[must_use]
            pub fn rounding(self) -> Rounding {
                match self {
                    $(Self::$op => Rounding::$rounding,)*
                }
            }

            /// Returns the way in which an error of the argument changes the result.
            pub(crate) fn spread(self) -> Spread {
                match self {
                    $(Self::$op => Spread::$spread,)*
                }
            }

            /// Returns the estimated cost of one evaluation, in additions.
            #[must_use]
            pub fn cost(self) -> usize {
                match self {
                    $(Self::$op => $cost,)*
                }
            }

            fn on_float(self, x: f64) -> f64 {
                match self {
                    $(Self::$op => {
                        let on_float: fn(f64) -> f64 = $on_float;
                        on_float(x)
                    })*
                }
            }

            /// Returns the derivative at `x`, given the value `y`; `None` if it is 0 everywhere.
            ///
            /// The derivative of `abs` at 0 is 0, the midpoint of its subdifferential. The
            /// derivatives of `floor`, `ceil`, `round` and `trunc` are 0 at their steps as well.
            pub(crate) fn derivative<V: Calculus>(self, x: &V, y: &V) -> Option<V> {
                match self {
                    $(Self::$op => {
                        let ($x, $y) = (x, y);
                        $derivative
                    })*
                }
            }
        }
    };
}

unary_operations! {
    /// `-x`; integers wrap.
    Neg {
        name: "neg",
        accepts: is_signed,
        rounding: Exact,
        spread: Ends,
        cost: 1,
        on_float: |x| -x,
        derivative: |x, _| Some(x.number(-1.0)),
    }
    /// `|x|`; `i32::MIN` is unchanged.
    Abs {
        name: "abs",
        accepts: is_signed,
        rounding: Exact,
        spread: Ends,
        cost: 1,
        on_float: f64::abs,
        derivative: |x, _| Some(sign(x)),
    }
    /// The largest integer not above `x`.
    Floor {
        name: "floor",
        accepts: DType::is_float,
        rounding: Exact,
        spread: Ends,
        cost: 1,
        on_float: f64::floor,
        derivative: |_, _| None,
    }
    /// The smallest integer not below `x`.
    Ceil {
        name: "ceil",
        accepts: DType::is_float,
        rounding: Exact,
        spread: Ends,
        cost: 1,
        on_float: f64::ceil,
        derivative: |_, _| None,
    }
    /// The nearest integer; ties round to even.
    Round {
        name: "round",
        accepts: DType::is_float,
        rounding: Exact,
        spread: Ends,
        cost: 1,
        on_float: f64::round_ties_even,
        derivative: |_, _| None,
    }
    /// The integer part, rounded towards zero.
    Trunc {
        name: "trunc",
        accepts: DType::is_float,
        rounding: Exact,
        spread: Ends,
        cost: 1,
        on_float: f64::trunc,
        derivative: |_, _| None,
    }
    /// The square root; NaN below zero, -0.0 for -0.0.
    Sqrt {
        name: "sqrt",
        accepts: DType::is_float,
        rounding: Ieee,
        spread: Ends,
        cost: 4,
        on_float: f64::sqrt,
        derivative: |x, y| Some(x.number(0.5).binary(Binary::Div, y)),
    }
    /// `1 / x`.
    Recip {
        name: "recip",
        accepts: DType::is_float,
        rounding: Ieee,
        spread: Pole,
        cost: 4,
        on_float: f64::recip,
        derivative: |_, y| Some(y.binary(Binary::Mul, y).unary(Self::Neg)),
    }
    /// `e^x`.
    Exp {
        name: "exp",
        accepts: DType::is_float,
        rounding: Function,
        spread: Ends,
        cost: 16,
        on_float: f64::exp,
        derivative: |_, y| Some(y.clone()),
    }
    /// The natural logarithm: NaN below zero, minus infinity at zero.
    Ln {
        name: "ln",
        accepts: DType::is_float,
        rounding: Function,
        spread: Ends,
        cost: 16,
        on_float: f64::ln,
        derivative: |x, _| Some(x.unary(Self::Recip)),
    }
    /// The sine of an angle in radians; NaN for infinity.
    Sin {
        name: "sin",
        accepts: DType::is_float,
        rounding: Function,
        spread: Slope,
        cost: 16,
        on_float: f64::sin,
        derivative: |x, _| Some(x.unary(Self::Cos)),
    }
    /// The cosine of an angle in radians; NaN for infinity.
    Cos {
        name: "cos",
        accepts: DType::is_float,
        rounding: Function,
        spread: Slope,
        cost: 16,
        on_float: f64::cos,
        derivative: |x, _| Some(x.unary(Self::Sin).unary(Self::Neg)),
    }
    /// The hyperbolic tangent.
    Tanh {
        name: "tanh",
        accepts: DType::is_float,
        rounding: Function,
        spread: Ends,
        cost: 16,
        on_float: f64::tanh,
        derivative: |x, y| Some(x.number(1.0).binary(Binary::Sub, &y.binary(Binary::Mul, y))),
    }
    /// `1 / (1 + e^-x)`.
    Sigmoid {
        name: "sigmoid",
        accepts: DType::is_float,
        rounding: Function,
        spread: Ends,
        cost: 16,
        // Two forms of one function: below zero the first does not overflow and keeps the relative
        // accuracy of small results; above zero the second does.
        on_float: |x| {
            if x < 0.0 {
                x.exp() / (1.0 + x.exp())
            } else {
                1.0 / (1.0 + (-x).exp())
            }
        },
        derivative: |x, y| Some(y.binary(Binary::Mul, &x.number(1.0).binary(Binary::Sub, y))),
    }
    /// The error function `2/√π ∫₀ˣ e^(-t²) dt`.
    Erf {
        name: "erf",
        accepts: DType::is_float,
        rounding: Function,
        spread: Ends,
        cost: 32,
        on_float: libm::erf,
        derivative: |x, _| Some(gaussian(x, FRAC_2_SQRT_PI)),
    }
    /// The complementary error function `1 - erf(x)`, without cancellation for large `x`.
    Erfc {
        name: "erfc",
        accepts: DType::is_float,
        rounding: Function,
        spread: Ends,
        cost: 32,
        on_float: libm::erfc,
        derivative: |x, _| Some(gaussian(x, -FRAC_2_SQRT_PI)),
    }
    /// True if `x` is NaN.
    IsNan {
        name: "is_nan",
        accepts: DType::is_float,
        rounding: Exact,
        spread: Ends,
        cost: 1,
        on_float: |_| panic!("is_nan does not return a float"),
        derivative: |_, _| None,
    }
    /// Logical not of a `bool`, or bitwise not of an integer.
    Not {
        name: "not",
        accepts: |dtype| dtype.is_integer() || dtype == DType::Bool,
        rounding: Exact,
        spread: Ends,
        cost: 1,
        on_float: |_| panic!("not is not defined on floats"),
        derivative: |_, _| None,
    }
    /// The number of bits that are 1 in an integer of 32 bits; 32 for the `i32` -1.
    CountOnes {
        name: "count_ones",
        accepts: DType::is_integer,
        rounding: Exact,
        spread: Ends,
        // The bits are summed in pairs, nibbles and bytes where no instruction counts them.
        cost: 8,
        on_float: |_| panic!("count_ones is not defined on floats"),
        derivative: |_, _| None,
    }
}

fn is_signed(dtype: DType) -> bool {
    dtype.is_float() || dtype == DType::I32
}

/// Returns -1, 0 or 1. It is composed of two selections, so that the sign of 0 is 0.
fn sign<V: Calculus>(x: &V) -> V {
    let (zero, one) = (x.number(0.0), x.number(1.0));
    let not_above = V::choose(Compare::Lt, x, &zero, &x.number(-1.0), &zero);
    V::choose(Compare::Lt, &zero, x, &one, &not_above)
}

/// Returns `height e^(-x²)`.
fn gaussian<V: Calculus>(x: &V, height: f64) -> V {
    let exponent = x.binary(Binary::Mul, x).unary(Unary::Neg);
    x.number(height)
        .binary(Binary::Mul, &exponent.unary(Unary::Exp))
}

impl Unary {
    /// Returns the type of the result for an argument of type `dtype`.
    #[must_use]
    pub fn result(self, dtype: DType) -> DType {
        if self == Self::IsNan {
            DType::Bool
        } else {
            dtype
        }
    }

    /// Returns whether the definition rounds at most once, so that the planner may fold constants:
    /// the folded constant is the best result of any executor. An executor may deviate from it by
    /// [`Accuracy::quotient_ulps`](crate::exec::Accuracy::quotient_ulps).
    #[must_use]
    pub fn is_correctly_rounded(self) -> bool {
        self.rounding() != Rounding::Function
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
                Self::CountOnes => x.count_ones().cast_signed(),
                _ => panic!("{} is not defined on i32", self.name()),
            }),
            Scalar::U32(x) if self == Self::Not => Scalar::U32(!x),
            Scalar::U32(x) if self == Self::CountOnes => Scalar::U32(x.count_ones()),
            Scalar::Bool(x) if self == Self::Not => Scalar::Bool(!x),
            _ => panic!("{} is not defined on {}", self.name(), x.dtype()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::verify::CASES;

    #[test]
    fn every_function_of_the_table_is_compared_with_f64() {
        let functions = Unary::ALL
            .into_iter()
            .filter(|op| op.rounding() == Rounding::Function);
        for op in functions {
            let has_case = CASES.iter().any(|(name, ..)| *name == op.name());
            assert!(has_case, "{} has no case in math/verify", op.name());
        }
    }
}
