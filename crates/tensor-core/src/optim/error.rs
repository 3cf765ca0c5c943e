//! The errors of optimisers.

use crate::dtype::DType;

/// What is wrong with an optimiser or with what it was given.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OptimError {
    /// A number that the method is not defined for.
    #[error("{optimizer}: {setting} is {value}, which is not {wanted}")]
    BadSetting {
        /// The optimiser.
        optimizer: &'static str,
        /// What the number is.
        setting: &'static str,
        /// The number.
        value: f64,
        /// What it must be.
        wanted: &'static str,
    },
    /// There are more or fewer tensors than the parameters ask for.
    #[error("{optimizer}: {parameters} parameters take {expected} {what}, got {actual}")]
    WrongCount {
        /// The optimiser.
        optimizer: &'static str,
        /// What the tensors are: `gradients`, or `tensors of state`.
        what: &'static str,
        /// The number of parameters.
        parameters: usize,
        /// How many tensors there must be.
        expected: usize,
        /// How many there are.
        actual: usize,
    },
    /// A parameter is not of a float type.
    #[error("{optimizer}: parameter {number} is of {dtype}, and not of f32 or f64")]
    NotTrainable {
        /// The optimiser.
        optimizer: &'static str,
        /// Which parameter.
        number: usize,
        /// Its type.
        dtype: DType,
    },
    /// A gradient, or a tensor of the state, is not what belongs to its parameter.
    #[error(
        "{optimizer}: {what} {number} is {} {:?}, and not {} {:?}",
        actual.0, actual.1, expected.0, expected.1
    )]
    Misfit {
        /// The optimiser.
        optimizer: &'static str,
        /// What the tensor is: `gradient`, `velocity`, ….
        what: &'static str,
        /// The number of its parameter; the place in the state of a tensor that belongs to none.
        number: usize,
        /// The type and shape that it must have.
        expected: (DType, Vec<usize>),
        /// The type and shape that it has.
        actual: (DType, Vec<usize>),
    },
}
