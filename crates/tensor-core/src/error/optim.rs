//! The errors of optimizers.

use crate::dtype::DType;

/// An invalid option of an optimizer, or tensors that do not match.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OptimError {
    /// An option is outside its range.
    #[error("{optimizer}: invalid {setting} ({value}; expected {wanted})")]
    BadSetting {
        /// The name of the optimizer.
        optimizer: &'static str,
        /// The name of the option.
        setting: &'static str,
        /// The value of the option.
        value: f64,
        /// The allowed values.
        wanted: &'static str,
    },
    /// The number of tensors in a list does not match the number of parameters.
    #[error(
        "{optimizer}: wrong number of {what} for {parameters} parameters (got {actual}, expected {expected})"
    )]
    WrongCount {
        /// The name of the optimizer.
        optimizer: &'static str,
        /// The kind of tensors: `gradients`, or `tensors of state`.
        what: &'static str,
        /// The number of parameters.
        parameters: usize,
        /// The expected number of tensors.
        expected: usize,
        /// The actual number of tensors.
        actual: usize,
    },
    /// The type of a parameter is not a float.
    #[error("{optimizer}: parameter {number} has type {dtype} (expected f32 or f64)")]
    NotTrainable {
        /// The name of the optimizer.
        optimizer: &'static str,
        /// The index of the parameter, from 0.
        number: usize,
        /// The type of the parameter.
        dtype: DType,
    },
    /// The type or shape of a gradient, or of a tensor of the state, differs from that of its
    /// parameter.
    #[error(
        "{optimizer}: {what} {number} has the wrong type or shape (got {} {:?}, expected {} {:?})",
        actual.0, actual.1, expected.0, expected.1
    )]
    Misfit {
        /// The name of the optimizer.
        optimizer: &'static str,
        /// The kind of tensor: `gradient`, `velocity`, ….
        what: &'static str,
        /// The index of its parameter; for a tensor that belongs to no parameter, its index in the
        /// state.
        number: usize,
        /// The expected type and shape.
        expected: (DType, Vec<usize>),
        /// The actual type and shape.
        actual: (DType, Vec<usize>),
    },
}
