//! The scalar operations: what each one computes, and on which types.
//!
//! Role: the one description of an operation. The reference executor evaluates these definitions, every other
//! executor is compared with them, and the planner folds constants by them.
//! Method: a float operation is defined in f64 and rounded to its type, so a result in f32 is the correctly
//! rounded one (up to the rounding of f64 functions); an integer operation is defined modulo 2^32.
//! Accuracy: an executor may be off by one unit in the last place in `+ - *`, by four in functions
//! and in quotients rounded down, and by the rounding of any order of additions in a sum.
//! Quotients, reciprocals and square roots, and whether subnormal numbers may be flushed to zero,
//! are in the executor's [`Accuracy`](crate::exec::Accuracy). All else is exact. The sign of a zero
//! is free where a sum or an extreme of zeros of both signs gives it.
//! NaN: arithmetic, `maximum`, `minimum` and every function but `is_nan` return NaN for NaN;
//! comparisons with NaN are false, except `ne`. Infinity follows IEEE 754. Every executor is
//! compared with these rules.
//! Source: `NumPy` 2 for everything that IEEE 754 leaves open.
//! Derivatives stand beside the definitions. Where there is none (the corner of `abs`, a tie of `maximum`, the steps of
//! `floor`) they give what the doc of each says; gradients flow through floats alone.

pub use binary::Binary;
pub use compare::Compare;
pub use reduce::Reduce;
pub use unary::Unary;

pub(crate) mod calculus;

mod binary;
mod compare;
mod reduce;
mod unary;
