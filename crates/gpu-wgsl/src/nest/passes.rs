//! Passes through loops in the functions that a kernel calls.
//!
//! Role: a driver may end all loops of an invocation after a number of passes that they share, so
//! [`schedule`](super::schedule) and `scan` count the loops of functions, too.

use tensor_core::DType;
use tensor_core::ir::{LoopNest, Value};
use tensor_core::op::Binary;

/// Passes of the loop of `philox_block`: ten rounds, and the end of the loop.
const PHILOX: u64 = 10 + 1;
/// Largest number of passes of the loop of `float_long_division`: it shifts by up to 8 places in a
/// pass, and the exponents of two numbers differ by at most 253.
const LONG_DIVISION: u64 = 253_u64.div_ceil(8);

/// Returns the largest number of passes in one computation of the values for which `which` is true.
pub(super) fn of_calls(nest: &LoopNest, which: &[bool]) -> u64 {
    let values = nest.values.iter().zip(&nest.dtypes).zip(which);
    let of_value = |((value, dtype), is_computed): ((&Value, &DType), &bool)| match value {
        Value::Random { .. } if *is_computed => PHILOX,
        Value::Binary(Binary::FloorDiv | Binary::Rem, ..) if *is_computed => match dtype {
            DType::F16 | DType::F32 => LONG_DIVISION,
            _ => 0,
        },
        _ => 0,
    };
    values.map(of_value).sum()
}
