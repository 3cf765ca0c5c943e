//! The accuracy that an executor guarantees for its floats.

use super::analysis::{self, Approximate, FoldError, certain_if, spacing};
use crate::dtype::Scalar;
use crate::op::{Binary, Compare, Rounding, Unary};

/// The accuracy of an executor's floats. On every executor integers, comparisons of exact numbers,
/// sums, differences, products, NaN and infinities are as defined in [`crate::op`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Accuracy {
    /// The largest error of a quotient, a reciprocal or a square root, in units in the last place.
    pub quotient_ulps: f64,
    /// Whether operations take and return subnormal `f32` and `f64` numbers. If `false`, a device
    /// may flush subnormal numbers to zero, and results that are subnormal or computed from
    /// subnormal operands are not compared.
    pub keeps_subnormals: bool,
}

impl Accuracy {
    /// The accuracy of IEEE 754, which CPUs provide.
    pub const IEEE: Self = Self {
        quotient_ulps: 1.0,
        keeps_subnormals: true,
    };

    pub(crate) fn unary(self, op: Unary, x: Approximate, result: Scalar) -> f64 {
        let is_quotient = op.rounding() == Rounding::Ieee;
        let error = analysis::unary(op, x, result) + self.more(is_quotient, result);
        self.allowed(&[x], result, error)
    }

    pub(crate) fn binary(self, op: Binary, a: Approximate, b: Approximate, result: Scalar) -> f64 {
        let error = analysis::binary(op, a, b, result) + self.more(op == Binary::Div, result);
        self.allowed(&[a, b], result, error)
    }

    pub(crate) fn compare(self, op: Compare, a: Approximate, b: Approximate) -> f64 {
        self.allowed(&[a, b], Scalar::Bool(true), analysis::compare(op, a, b))
    }

    pub(crate) fn select(
        self,
        condition: Approximate,
        taken: Approximate,
        other: Approximate,
    ) -> f64 {
        let error = analysis::select(condition, taken, other);
        self.allowed(&[taken], taken.value, error)
    }

    pub(crate) fn cast(self, x: Approximate, result: Scalar) -> f64 {
        self.allowed(&[x], result, analysis::cast(x, result))
    }

    /// Returns a bound on the error of a reduction.
    pub(crate) fn folded(self, fold: &mut FoldError, result: Scalar) -> f64 {
        let flushed = if self.keeps_subnormals {
            0.0
        } else {
            fold.flushed(result)
        };
        let error = fold.finish(result) + flushed;
        let is_open = !self.keeps_subnormals && (fold.has_subnormal() || is_subnormal(result));
        error.max(certain_if(!is_open))
    }

    /// Returns the error of a quotient, reciprocal or square root beyond the one unit in the last
    /// place that every executor may make.
    fn more(self, is_quotient: bool, result: Scalar) -> f64 {
        if is_quotient && self.quotient_ulps > 1.0 {
            (self.quotient_ulps - 1.0) * spacing(result.dtype(), result.to_f64())
        } else {
            0.0
        }
    }

    /// Returns `error`, or infinity if the executor may flush subnormal numbers and an operand
    /// or the result is subnormal.
    fn allowed(self, operands: &[Approximate], result: Scalar, error: f64) -> f64 {
        let has_subnormal =
            || operands.iter().any(|x| is_subnormal(x.value)) || is_subnormal(result);
        error.max(certain_if(self.keeps_subnormals || !has_subnormal()))
    }
}

/// Returns `true` if a float is subnormal in the type in which devices compute with it; halves are
/// computed in `f32`, where they are normal.
pub(super) fn is_subnormal(x: Scalar) -> bool {
    match x {
        Scalar::F32(x) => x.is_subnormal(),
        Scalar::F64(x) => x.is_subnormal(),
        Scalar::F16(_) | Scalar::I32(_) | Scalar::U32(_) | Scalar::Bool(_) => false,
    }
}
