//! The scalar operations: their definitions, and the types they support.
//!
//! Role: the only definition of each operation. The reference executor evaluates these definitions,
//! every other executor is compared with them, and the planner uses them to fold constants.
//! Method: a float operation is evaluated in f64 and rounded to its type, so a result in f32 is
//! correctly rounded (up to the rounding of the f64 function). An integer operation is defined
//! modulo 2^32.
//! Accuracy: an executor may be off by one unit in the last place in `+ - *`, `floor_div` and
//! `rem`, by four in functions, and by the rounding of any order of additions in a sum. The
//! tolerance of quotients, reciprocals and square roots, and whether subnormal numbers may be
//! flushed to zero, are stated in the executor's [`Accuracy`](crate::exec::Accuracy). All other
//! operations are exact. The sign of a zero is unspecified if the zero is the sum or the extreme of
//! zeros of both signs.
//! NaN: arithmetic, `maximum`, `minimum` and every function except `is_nan` return NaN for NaN;
//! comparisons with NaN are false, except `ne`. Infinity follows IEEE 754. Tests compare every
//! executor with these rules.
//! Adding an operation of one argument, such as `erf`: a row in the table in `unary`, its functions
//! of f32 and f64 in [`math`](crate::math), an arm in `exec/host/lanes`, and a method in
//! `tensor/elementwise`; for devices a function in `shaders/wgsl/shared/float.wgsl`, its twin in
//! `shaders/src/twin/float.rs`, and an arm in `crates/gpu-wgsl/src/nest/expression.rs`. The
//! compiler demands every field of the row and every arm. The tests read [`Unary::ALL`] and fail
//! until the operation has a case in `math/verify`, a line of `NumPy` in `testdata/tensor.py`, and
//! an entry in the twins' list `UNARY`; random programs and their gradients need no change.
//! Source: `NumPy` 2 for every case that IEEE 754 leaves open.
//! Derivatives: defined in the same tables. At points without a derivative (the corner of
//! `abs`, a tie of `maximum`, the steps of `floor`) the documentation of each operation states the
//! value that is used. Only floats have gradients.

pub use binary::Binary;
pub(crate) use binary::dot4_i8;
pub use compare::Compare;
pub use reduce::Reduce;
pub use scan::Scan;
pub(crate) use sort::MAX_POSITIONS;
pub use sort::{Sort, Sorted};
pub(crate) use unary::Spread;
pub use unary::{Rounding, Unary};

pub(crate) mod calculus;

mod binary;
mod compare;
mod reduce;
mod scan;
mod sort;
mod unary;
