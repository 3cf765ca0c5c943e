//! Operands: tensors, or numbers that take the type of a tensor.

use super::Tensor;
use crate::dtype::{DType, Scalar};
use crate::error::Error;

/// The other operand of an operation on a tensor: a `Tensor`, a `&Tensor`, or a number.
///
/// A number takes the type of the tensor, as in `NumPy` 2. Integers convert to floats, and to
/// integer types that can represent them; floats convert to floats; `bool`s to `bool`. Conversions
/// to floats round. Two tensors must have the same type, because tensors are converted only by
/// [`cast`](Tensor::cast).
pub trait Operand {
    /// Converts a number to a tensor of type `dtype`; returns a tensor unchanged. `operation` is
    /// the name of the operation in errors.
    #[track_caller]
    fn operand(self, operation: &'static str, dtype: DType) -> Tensor;
}

impl Operand for Tensor {
    fn operand(self, _: &'static str, _: DType) -> Tensor {
        self
    }
}

impl Operand for &Tensor {
    fn operand(self, _: &'static str, _: DType) -> Tensor {
        self.clone()
    }
}

/// A count or a size. Conversions to floats round; integer types must be able to represent the
/// number.
impl Operand for usize {
    #[track_caller]
    #[allow(
        clippy::cast_precision_loss,
        reason = "a conversion to a float rounds, as documented at `Operand`"
    )]
    fn operand(self, operation: &'static str, dtype: DType) -> Tensor {
        let fits = match dtype {
            DType::F32 | DType::F64 => true,
            DType::I32 => i32::try_from(self).is_ok(),
            DType::U32 => u32::try_from(self).is_ok(),
            DType::Bool | DType::F16 => false,
        };
        if fits {
            Tensor::constant(Scalar::F64(self as f64).cast(dtype))
        } else {
            let value = self.to_string();
            Tensor::error(Error::Unrepresentable {
                operation,
                value,
                dtype,
            })
        }
    }
}

macro_rules! numbers {
    ($($type:ty, $fits:expr;)*) => {$(
        impl Operand for $type {
            #[track_caller]
            fn operand(self, operation: &'static str, dtype: DType) -> Tensor {
                let scalar = crate::Element::into_scalar(self);
                let fits: fn(Scalar, DType) -> bool = $fits;
                if fits(scalar, dtype) {
                    Tensor::constant(scalar.cast(dtype))
                } else {
                    Tensor::error(Error::Unrepresentable { operation, value: scalar.to_string(), dtype })
                }
            }
        }
    )*};
}
numbers! {
    f32, |_, dtype| dtype.is_float();
    f64, |_, dtype| dtype.is_float();
    bool, |_, dtype| dtype == DType::Bool;
    i32, |value, dtype| dtype.is_float() || dtype == DType::I32 || (dtype == DType::U32 && value.to_f64() >= 0.0);
    u32, |value, dtype| dtype.is_float() || dtype == DType::U32 || (dtype == DType::I32 && value.to_f64() <= f64::from(i32::MAX));
}
