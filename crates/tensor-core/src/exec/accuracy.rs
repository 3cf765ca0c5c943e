//! What an executor promises of its floats.

use super::analysis::{self, Approximate, FoldError, certain_if, spacing};
use crate::dtype::Scalar;
use crate::op::{Binary, Compare, Unary};

/// How near to the truth an executor's floats are. Integers, comparisons of exact numbers, sums, differences and products are as
/// [`crate::op`] says on every executor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Accuracy {
    /// By how many units in the last place a quotient, a reciprocal or a square root may be off.
    pub quotient_ulps: f64,
    /// Whether operations on NaN, infinities and numbers below the smallest normal one give what they should, and results that
    /// should be such are. Else nothing is said of any of them.
    pub keeps_extremes: bool,
}

impl Accuracy {
    /// That of IEEE 754, as CPUs have it.
    pub const IEEE: Self = Self {
        quotient_ulps: 1.0,
        keeps_extremes: true,
    };

    pub(crate) fn unary(self, op: Unary, x: Approximate, result: Scalar) -> f64 {
        let is_quotient = matches!(op, Unary::Recip | Unary::Sqrt);
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

    /// The error of a fold.
    pub(crate) fn folded(self, fold: &FoldError, result: Scalar) -> f64 {
        let error = fold.finish(result);
        let is_open = !self.keeps_extremes && (fold.has_extreme() || is_extreme(result));
        error.max(certain_if(!is_open))
    }

    /// What a quotient may be off beyond the rounding that every executor is granted.
    fn more(self, is_quotient: bool, result: Scalar) -> f64 {
        if is_quotient && self.quotient_ulps > 1.0 {
            (self.quotient_ulps - 1.0) * spacing(result.dtype(), result.to_f64())
        } else {
            0.0
        }
    }

    fn allowed(self, operands: &[Approximate], result: Scalar, error: f64) -> f64 {
        let has_extreme = || operands.iter().any(|x| is_extreme(x.value)) || is_extreme(result);
        error.max(certain_if(self.keeps_extremes || !has_extreme()))
    }
}

/// Whether a float is NaN, infinite, or too small to be normal.
pub(super) fn is_extreme(x: Scalar) -> bool {
    match x {
        Scalar::F32(x) => !(x.is_normal() || x == 0.0),
        Scalar::F64(x) => !(x.is_normal() || x == 0.0),
        Scalar::F16(x) => !x.is_finite(),
        Scalar::I32(_) | Scalar::U32(_) | Scalar::Bool(_) => false,
    }
}
