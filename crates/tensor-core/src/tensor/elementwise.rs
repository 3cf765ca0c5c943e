//! Elementwise operations: arithmetic, functions, comparisons, selection, conversion.
//!
//! Role: the methods and operators. Definitions, including NaN and infinities, are in
//! [`crate::op`]. `%` is [`Tensor::rem`], with the sign of the divisor as in Python and unlike
//! Rust; `&`, `|`, `^` and `!` are [`Tensor::and`], [`Tensor::or`], [`Tensor::xor`] and
//! [`Tensor::not`]. A number on the right of an operator may be an `f32`, `f64`, `i32`, `u32`,
//! `usize` or `bool`; on the left only an `f64` or `i32`, so for an `lr` of type `f32` write `&x *
//! lr`. With two float types on the left, Rust could not infer the type of the literal in `1.0 -
//! &x`, and `(1.0 - &x).ln()` would not compile. `x += &y` means `x = &x + &y`: the variable
//! changes, not the tensor.
//! Shapes: operands broadcast by `NumPy`'s rules.

use std::ops::{
    Add, AddAssign, BitAnd, BitAndAssign, BitOr, BitOrAssign, BitXor, BitXorAssign, Div, DivAssign,
    Mul, MulAssign, Neg, Not, Rem, RemAssign, Sub, SubAssign,
};

use super::hook;
use super::{Op, Operand, Tensor, or_error_node};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::{Binary, Compare, Unary};
use crate::shape::broadcast_all;

impl Tensor {
    /// Applies an elementwise operation of the table [`Unary`]. Each operation also has a method,
    /// for example [`exp`](Tensor::exp) for [`Unary::Exp`].
    #[must_use]
    #[track_caller]
    pub fn unary(&self, op: Unary) -> Self {
        let dtype = self.0.dtype;
        if self.check().is_ok() && !op.accepts(dtype) {
            return Self::error(Error::DTypeUnsupported {
                operation: op.name(),
                dtype,
            });
        }
        let shape = self.0.shape.clone();
        Self::new(Op::Unary(op), vec![self.clone()], shape, op.result(dtype))
    }

    /// Broadcasts operands to one shape. All must have one type, for which `accepts` returns true.
    #[track_caller]
    fn aligned<const N: usize>(
        name: &'static str,
        operands: [Self; N],
        accepts: impl Fn(DType) -> bool,
    ) -> Result<[Self; N]> {
        for operand in &operands {
            operand.check()?;
        }
        let dtype = operands[0].0.dtype;
        if let Some(other) = operands.iter().find(|operand| operand.0.dtype != dtype) {
            return Err(Error::DTypeMismatch {
                operation: name,
                left: dtype,
                right: other.0.dtype,
            });
        }
        if !accepts(dtype) {
            return Err(Error::DTypeUnsupported {
                operation: name,
                dtype,
            });
        }
        let shapes: Vec<&[usize]> = operands
            .iter()
            .map(|operand| &operand.0.shape[..])
            .collect();
        let shape = broadcast_all(name, &shapes)?;
        // A loop instead of `map`, because the nodes would record the closure as their caller.
        let mut aligned = operands;
        for operand in &mut aligned {
            *operand = operand.broadcast_to(&shape);
        }
        Ok(aligned)
    }

    #[track_caller]
    pub(crate) fn binary(&self, op: Binary, other: impl Operand) -> Self {
        let other = other.operand(op.name(), self.0.dtype);
        Self::binary_of(op, self.clone(), other)
    }

    #[track_caller]
    fn binary_of(op: Binary, a: Self, b: Self) -> Self {
        let aligned = Self::aligned(op.name(), [a, b], |dtype| op.accepts(dtype));
        let operands = or_error_node!(aligned);
        let (shape, dtype) = (operands[0].0.shape.clone(), operands[0].0.dtype);
        Self::new(Op::Binary(op), operands.to_vec(), shape, dtype)
    }

    #[track_caller]
    pub(crate) fn compared(op: Compare, a: Self, b: Self) -> Self {
        let aligned = Self::aligned(op.name(), [a, b], |dtype| op.accepts(dtype));
        let operands = or_error_node!(aligned);
        let shape = operands[0].0.shape.clone();
        Self::new(Op::Compare(op), operands.to_vec(), shape, DType::Bool)
    }

    /// Computes a comparison from another comparison with exchanged operands. Errors have the name
    /// `name` and the operands in the caller's order.
    #[track_caller]
    fn swapped(&self, name: &'static str, op: Compare, other: impl Operand) -> Self {
        let other = other.operand(name, self.0.dtype);
        let aligned = Self::aligned(name, [self.clone(), other], |dtype| op.accepts(dtype));
        let [a, b] = or_error_node!(aligned);
        Self::compared(op, b, a)
    }

    /// Returns `max(x, 0)`; NaN for NaN. The derivative at 0 is 0.
    #[track_caller]
    #[must_use]
    pub fn relu(&self) -> Self {
        let lazily = hook::pause();
        let above = self.gt(0).select(self, self.like(0.0));
        drop(lazily);
        self.maximum(0)
            .with_surrogate_gradient(&above)
            .composed("relu", &[self])
    }

    /// Returns this tensor, with the derivatives of another tensor of its shape and type, which is
    /// not computed. Used to train through step functions (straight-through estimators), and to
    /// supply a more accurate derivative.
    ///
    /// `surrogate` is broadcast to the shape of this tensor. Returns an error node of
    /// [`Error::NotBroadcastable`] or [`Error::DTypeMismatch`] if shapes or types do not match.
    ///
    /// # Examples
    /// ```
    /// use tensor_core::ndarray::array;
    /// use tensor_core::{Host, Tensor, grad};
    /// let x = Tensor::from_array(array![0.2_f32, 1.7]);
    /// let rounded = x.round().with_surrogate_gradient(&x);
    /// let gradient = &grad(&rounded.square().sum(..), &[&x])?[0];
    /// assert_eq!(gradient.eval::<f32>(&Host::new())?, array![0.0, 4.0].into_dyn());
    /// # Ok::<(), tensor_core::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn with_surrogate_gradient(&self, surrogate: &Self) -> Self {
        let operation = "with_surrogate_gradient";
        let operands = [self.clone(), surrogate.clone()];
        let [value, surrogate] = or_error_node!(Self::aligned(operation, operands, |_| true));
        if value.0.shape != self.0.shape {
            return Self::error(Error::NotBroadcastable {
                operation,
                from: surrogate.0.shape.clone(),
                to: self.0.shape.clone(),
            });
        }
        let (shape, dtype) = (value.0.shape.clone(), value.0.dtype);
        Self::new(Op::Surrogate, vec![value, surrogate], shape, dtype)
    }

    /// Returns the elements of this tensor, which is in memory, with the derivatives of `program`.
    /// Used where this tensor is the evaluated result of `program`.
    #[track_caller]
    pub(crate) fn standing_for(self, program: Self) -> Self {
        let (shape, dtype) = (self.0.shape.clone(), self.0.dtype);
        Self::new(Op::Surrogate, vec![self, program], shape, dtype)
    }

    /// Returns this tensor as a constant with respect to derivatives.
    #[track_caller]
    #[must_use]
    pub fn stop_gradient(&self) -> Self {
        if self.check().is_err() {
            return self.clone();
        }
        self.with_surrogate_gradient(&self.like(0.0))
    }

    /// Returns `x * x`.
    #[track_caller]
    #[must_use]
    pub fn square(&self) -> Self {
        (self * self).composed("square", &[self])
    }

    /// Limits the elements to `low..=high`: `min(max(x, low), high)`, broadcast, as `numpy.clip`.
    /// The result is `high` where `low > high`, and NaN where any of the three is NaN.
    #[track_caller]
    #[must_use]
    pub fn clip(&self, low: impl Operand, high: impl Operand) -> Self {
        let (operation, dtype) = ("clip", self.0.dtype);
        let (low, high) = (
            low.operand(operation, dtype),
            high.operand(operation, dtype),
        );
        self.maximum(&low)
            .minimum(&high)
            .composed(operation, &[self, &low, &high])
    }

    /// Returns the sign: -1 below zero, 1 above zero, 0 for 0.0 and -0.0, NaN for NaN, as
    /// `numpy.sign`.
    #[track_caller]
    #[must_use]
    pub fn sign(&self) -> Self {
        let sign = match self.0.dtype {
            DType::U32 => self.minimum(1),
            DType::I32 => self.maximum(-1).minimum(1),
            // Only zeros and NaN reach the last choice, and `abs` turns -0.0 into 0.0.
            _ => self.gt(0).select(1, self.lt(0).select(-1, self.abs())),
        };
        sign.composed("sign", &[self])
    }

    /// Returns whether `self > other`, as `bool`; equal to [`lt`](Tensor::lt) with exchanged
    /// operands.
    #[track_caller]
    #[must_use]
    pub fn gt(&self, other: impl Operand) -> Self {
        self.swapped("gt", Compare::Lt, other)
    }

    /// Returns whether `self >= other`, as `bool`; equal to [`le`](Tensor::le) with exchanged
    /// operands.
    #[track_caller]
    #[must_use]
    pub fn ge(&self, other: impl Operand) -> Self {
        self.swapped("ge", Compare::Le, other)
    }

    /// Selects elements by this tensor of `bool`: those of `yes` where it is true, those of `no`
    /// elsewhere, all broadcast.
    ///
    /// The element that is not selected may have any value, even NaN. Both choices are computed,
    /// however, so a [`gather`](Tensor::gather) in either must be in range. Only if the condition
    /// is a single constant is the other choice left out, and its indices are not checked. The
    /// condition is left out if both choices are equal.
    ///
    /// A number takes the type of the other choice. Two numbers become `f32`, whatever their Rust
    /// types, because the condition, a `bool`, does not determine a type. So `select(1, 0)` returns
    /// `f32`s and `select(true, false)` is an error. For other types [`cast`](Tensor::cast) the
    /// condition, or make one choice a [`scalar`](Tensor::scalar).
    ///
    /// # Examples
    /// ```
    /// use tensor_core::ndarray::array;
    /// use tensor_core::{Host, Tensor};
    /// let x = Tensor::from_array(array![-4.0_f32, 9.0]);
    /// let root = x.lt(0.0).select(0.0, x.sqrt());
    /// assert_eq!(root.eval::<f32>(&Host::new())?, array![0.0, 3.0].into_dyn());
    /// # Ok::<(), tensor_core::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn select(&self, yes: impl Choice, no: impl Choice) -> Self {
        let name = "select";
        // The type of the result is the type of the choice that is a tensor.
        let dtype = yes.dtype().or(no.dtype()).unwrap_or(DType::F32);
        let (yes, no) = (yes.operand(name, dtype), no.operand(name, dtype));
        if self.check().is_ok() && self.0.dtype != DType::Bool {
            return Self::error(Error::DTypeUnsupported {
                operation: name,
                dtype: self.0.dtype,
            });
        }
        let [yes, no] = or_error_node!(Self::aligned(name, [yes, no], |_| true));
        or_error_node!(self.check());
        let shape = or_error_node!(broadcast_all(name, &[&self.0.shape, &yes.0.shape]));
        let condition = self.broadcast_to(&shape);
        let operands = vec![condition, yes.broadcast_to(&shape), no.broadcast_to(&shape)];
        let (shape, dtype) = (operands[1].0.shape.clone(), operands[1].0.dtype);
        Self::new(Op::Select, operands, shape, dtype)
    }

    /// Converts the elements to another type, as [`Scalar::cast`](crate::Scalar::cast): to floats
    /// by rounding to nearest, from floats to integers by truncation and saturation (NaN becomes
    /// 0), between integers modulo 2^32, to `bool` by comparison with 0.
    #[track_caller]
    #[must_use]
    pub fn cast(&self, dtype: DType) -> Self {
        if self.0.dtype == dtype {
            return self.clone();
        }
        Self::new(Op::Cast, vec![self.clone()], self.0.shape.clone(), dtype)
    }
}

/// An argument of [`Tensor::select`]: a tensor, whose type is fixed, or a number, whose type is
/// not.
pub trait Choice: Operand {
    /// Returns the type of a tensor; `None` for a number.
    fn dtype(&self) -> Option<DType>;
}

impl Choice for Tensor {
    fn dtype(&self) -> Option<DType> {
        Some(self.0.dtype)
    }
}

impl Choice for &Tensor {
    fn dtype(&self) -> Option<DType> {
        Some(self.0.dtype)
    }
}

macro_rules! number_choices {
    ($($type:ty)*) => {$(
        impl Choice for $type {
            fn dtype(&self) -> Option<DType> {
                None
            }
        }
    )*};
}
number_choices! { f32 f64 i32 u32 usize bool }

macro_rules! unary_methods {
    ($($(#[$doc:meta])* $method:ident $op:ident;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// Applied elementwise; see
            #[doc = concat!("[`Unary::", stringify!($op), "`](crate::op::Unary::", stringify!($op), ").")]
            #[track_caller]
            #[must_use]
            pub fn $method(&self) -> Self {
                self.unary(Unary::$op)
            }
        )*}
    };
}
unary_methods! {
    /// Returns the absolute value.
    abs Abs;
    /// Returns the largest integer not above each element.
    floor Floor;
    /// Returns the smallest integer not below each element.
    ceil Ceil;
    /// Rounds to the nearest integer, ties to even.
    round Round;
    /// Rounds towards zero.
    trunc Trunc;
    /// Returns the square root.
    sqrt Sqrt;
    /// Returns the reciprocal.
    recip Recip;
    /// Returns the exponential function `e^x`.
    exp Exp;
    /// Returns the natural logarithm.
    ln Ln;
    /// Returns the sine of an angle in radians.
    sin Sin;
    /// Returns the cosine of an angle in radians.
    cos Cos;
    /// Returns the hyperbolic tangent.
    tanh Tanh;
    /// Returns the logistic function `1 / (1 + e^-x)`.
    sigmoid Sigmoid;
    /// Returns the error function `2/√π ∫₀ˣ e^(-t²) dt`, from -1 to 1. On the CPU the error is at
    /// most 1.15 units in the last place of `f32`, and that of the crate `libm` for `f64`.
    erf Erf;
    /// Returns the complementary error function `1 - erf(x)`, from 2 to 0; the relative error is
    /// small also where the result is close to 0.
    erfc Erfc;
    /// Returns whether each element is NaN, as `bool`.
    is_nan IsNan;
    /// Returns the logical not of `bool`s or the bitwise not of integers; also `!a`.
    not Not;
    /// Returns the number of bits that are 1 in each integer.
    count_ones CountOnes;
}

macro_rules! binary_methods {
    ($($(#[$doc:meta])* $method:ident $op:ident;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// Applied elementwise with broadcasting; see
            #[doc = concat!("[`Binary::", stringify!($op), "`](crate::op::Binary::", stringify!($op), ").")]
            #[track_caller]
            #[must_use]
            pub fn $method(&self, other: impl Operand) -> Self {
                self.binary(Binary::$op, other)
            }
        )*}
    };
}
binary_methods! {
    /// Returns the quotient rounded down.
    floor_div FloorDiv;
    /// Returns the remainder of [`floor_div`](Tensor::floor_div), with the sign of the divisor;
    /// also `a % b`.
    rem Rem;
    /// Raises this tensor to the power of another.
    pow Pow;
    /// Returns the larger of two elements.
    maximum Maximum;
    /// Returns the smaller of two elements.
    minimum Minimum;
    /// Returns the logical or bitwise and; also `a & b`.
    and And;
    /// Returns the logical or bitwise or; also `a | b`.
    or Or;
    /// Returns the logical or bitwise exclusive or; also `a ^ b`.
    xor Xor;
    /// Shifts the bits left.
    shl Shl;
    /// Shifts the bits right, with copies of the sign bit for `i32`.
    shr Shr;
    /// Returns the sum of the products of the four signed bytes of two integers.
    dot4_i8 Dot4I8;
}

macro_rules! compare_methods {
    ($($(#[$doc:meta])* $method:ident $op:ident;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// Applied elementwise with broadcasting. Comparisons with NaN are false, except `ne`.
            #[track_caller]
            #[must_use]
            pub fn $method(&self, other: impl Operand) -> Self {
                let other = other.operand(stringify!($method), self.0.dtype);
                Self::compared(Compare::$op, self.clone(), other)
            }
        )*}
    };
}
compare_methods! {
    /// Returns whether `self < other`, as `bool`.
    lt Lt;
    /// Returns whether `self <= other`, as `bool`.
    le Le;
    /// Returns whether `self == other`, as `bool`.
    eq Eq;
    /// Returns whether `self != other`, as `bool`.
    ne Ne;
}

macro_rules! operators {
    ($($trait:ident $method:ident $assign:ident $assign_method:ident $op:ident $numbers:tt;)*) => {$(
        impl<O: Operand> $assign<O> for Tensor {
            #[track_caller]
            fn $assign_method(&mut self, other: O) {
                *self = self.binary(Binary::$op, other);
            }
        }
        impl<O: Operand> $trait<O> for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: O) -> Tensor {
                self.binary(Binary::$op, other)
            }
        }
        impl<O: Operand> $trait<O> for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: O) -> Tensor {
                self.binary(Binary::$op, other)
            }
        }
        operators! { @numbers $trait $method $op $numbers }
    )*};
    (@numbers $trait:ident $method:ident $op:ident [$($number:ty)*]) => {$(
        impl $trait<&Tensor> for $number {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, tensor: &Tensor) -> Tensor {
                let number = self.operand(Binary::$op.name(), tensor.0.dtype);
                Tensor::binary_of(Binary::$op, number, tensor.clone())
            }
        }
        impl $trait<Tensor> for $number {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, tensor: Tensor) -> Tensor {
                self.$method(&tensor)
            }
        }
    )*};
}
// Numbers on the left: one type for literals with a decimal point and one for literals without, so
// that `1.0 - &x` needs no annotation.
operators! {
    Add add AddAssign add_assign Add [f64 i32];
    Sub sub SubAssign sub_assign Sub [f64 i32];
    Mul mul MulAssign mul_assign Mul [f64 i32];
    Div div DivAssign div_assign Div [f64 i32];
    Rem rem RemAssign rem_assign Rem [f64 i32];
    BitAnd bitand BitAndAssign bitand_assign And [i32 bool];
    BitOr bitor BitOrAssign bitor_assign Or [i32 bool];
    BitXor bitxor BitXorAssign bitxor_assign Xor [i32 bool];
}

macro_rules! prefix_operators {
    ($($trait:ident $method:ident;)*) => {$(
        impl $trait for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self) -> Tensor {
                self.unary(Unary::$trait)
            }
        }
        impl $trait for Tensor {
            type Output = Self;
            #[track_caller]
            fn $method(self) -> Self {
                self.unary(Unary::$trait)
            }
        }
    )*};
}
prefix_operators! {
    Neg neg;
    Not not;
}
