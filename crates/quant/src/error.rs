//! Errors of this crate.

/// A `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a constructor, a fit or a quantiser.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A number of bits, or of basis numbers, is 0 or too large.
    #[error("{operation}: unsupported number of bits ({bits}; expected 1 to {limit})")]
    BitCount {
        /// The name of the operation.
        operation: &'static str,
        /// The number of bits.
        bits: usize,
        /// The largest supported number of bits.
        limit: usize,
    },
    /// A basis, offset, step or scale is not finite, or not positive where it must be.
    #[error("{operation}: {quantity} is {value} (expected {expected})")]
    InvalidNumber {
        /// The name of the operation.
        operation: &'static str,
        /// The name of the quantity.
        quantity: &'static str,
        /// The value.
        value: f64,
        /// The valid values, in words.
        expected: &'static str,
    },
    /// A NaN in data that must not contain one.
    #[error("{operation}: element {index} is NaN")]
    NotANumber {
        /// The name of the operation.
        operation: &'static str,
        /// The position of the first NaN.
        index: usize,
    },
    /// Input without elements: data, levels or channels.
    #[error("{operation}: the input is empty (expected at least one element)")]
    Empty {
        /// The name of the operation.
        operation: &'static str,
    },
    /// Two slices that must have the same length do not.
    #[error("{operation}: lengths differ ({left} and {right})")]
    LengthMismatch {
        /// The name of the operation.
        operation: &'static str,
        /// The length of the first slice.
        left: usize,
        /// The length of the second slice.
        right: usize,
    },
    /// Data that is not divisible into channels of equal length.
    #[error("{operation}: {len} elements cannot be divided into {n_channels} channels")]
    UnevenChannels {
        /// The name of the operation.
        operation: &'static str,
        /// The number of elements.
        len: usize,
        /// The number of channels.
        n_channels: usize,
    },
    /// A code that the level set does not have.
    #[error("{operation}: element {index} has code {code}, which the level set does not contain")]
    UnknownCode {
        /// The name of the operation.
        operation: &'static str,
        /// The position of the code.
        index: usize,
        /// The code.
        code: u8,
    },
    /// A least-squares problem without a unique solution, because the data is in too few cells.
    #[error(
        "{operation}: the least squares of {n_bases} bases have no unique solution (number of cells that contain data: {n_cells})"
    )]
    Singular {
        /// The name of the operation.
        operation: &'static str,
        /// The number of unknowns.
        n_bases: usize,
        /// The number of cells that contain data.
        n_cells: usize,
    },
    /// A device failed.
    #[cfg(feature = "gpu")]
    #[error(transparent)]
    Device(Box<gpu_wgsl::Error>),
}

#[cfg(feature = "gpu")]
impl From<gpu_wgsl::Error> for Error {
    fn from(error: gpu_wgsl::Error) -> Self {
        Self::Device(Box::new(error))
    }
}

/// Checks a number; `expected` describes the valid numbers.
pub(crate) fn check(
    operation: &'static str,
    quantity: &'static str,
    value: f64,
    is_valid: bool,
    expected: &'static str,
) -> Result<()> {
    if is_valid {
        return Ok(());
    }
    Err(Error::InvalidNumber {
        operation,
        quantity,
        value,
        expected,
    })
}

/// Checks that a number is finite.
pub(crate) fn finite(operation: &'static str, quantity: &'static str, value: f64) -> Result<()> {
    check(
        operation,
        quantity,
        value,
        value.is_finite(),
        "a finite number",
    )
}

/// Checks that a number is positive and finite.
pub(crate) fn positive(operation: &'static str, quantity: &'static str, value: f64) -> Result<()> {
    let is_valid = value > 0.0 && value.is_finite();
    check(
        operation,
        quantity,
        value,
        is_valid,
        "a positive finite number",
    )
}
