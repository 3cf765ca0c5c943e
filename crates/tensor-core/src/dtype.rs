//! Element types, scalars, and flat host memory of any element type.
//!
//! Role: the only list of the element types of tensors. [`Element`] maps a Rust type to its
//! [`DType`]; [`Scalar`] and [`HostData`] are the two types whose element type is known only at run
//! time.

use half::f16;

/// The type of a tensor's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// IEEE 754 single precision, the default type.
    F32,
    /// IEEE 754 double precision.
    F64,
    /// Signed 32-bit integers in two's complement; arithmetic wraps.
    I32,
    /// Unsigned 32-bit integers; arithmetic wraps.
    U32,
    /// Booleans, one byte each.
    Bool,
    /// IEEE 754 half precision, for storage only: views, selections and conversions support it,
    /// arithmetic does not.
    F16,
}

impl DType {
    /// All types.
    pub const ALL: [Self; 6] = [
        Self::F32,
        Self::F64,
        Self::I32,
        Self::U32,
        Self::Bool,
        Self::F16,
    ];

    /// Returns the size of one element in memory, in bytes.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::F64 => 8,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F16 => 2,
            Self::Bool => 1,
        }
    }

    /// Returns whether arithmetic rounds, which holds for `F32` and `F64`.
    #[must_use]
    pub fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64)
    }

    /// Returns whether arithmetic wraps, which holds for `I32` and `U32`.
    #[must_use]
    pub fn is_integer(self) -> bool {
        matches!(self, Self::I32 | Self::U32)
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::I32 => "i32",
            Self::U32 => "u32",
            Self::Bool => "bool",
            Self::F16 => "f16",
        })
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type of tensor elements: `f32`, `f64`, `i32`, `u32`, `bool` or `half::f16`.
pub trait Element:
    sealed::Sealed + Copy + Default + PartialEq + Send + Sync + std::fmt::Debug + 'static
{
    /// The [`DType`] that represents this type at run time.
    const DTYPE: DType;

    /// Wraps one element.
    fn into_scalar(self) -> Scalar;

    /// Unwraps one element; returns `None` if its type differs.
    fn from_scalar(scalar: Scalar) -> Option<Self>;

    /// Wraps elements without a copy.
    fn into_host(data: Vec<Self>) -> HostData;

    /// Borrows the elements; returns `None` if their type differs.
    fn slice(data: &HostData) -> Option<&[Self]>;

    /// Borrows the elements mutably; returns `None` if their type differs.
    fn slice_mut(data: &mut HostData) -> Option<&mut [Self]>;

    /// Unwraps elements without a copy.
    ///
    /// # Errors
    /// The unchanged data, if its type differs from `Self`.
    fn from_host(data: HostData) -> Result<Vec<Self>, HostData>;
}

/// A single element of any type. Equality and hash compare type and bits: a NaN equals a NaN with
/// the same bits, and -0.0 differs from 0.0.
#[derive(Debug, Clone, Copy)]
pub enum Scalar {
    /// An `f32`.
    F32(f32),
    /// An `f64`.
    F64(f64),
    /// An `i32`.
    I32(i32),
    /// A `u32`.
    U32(u32),
    /// A `bool`.
    Bool(bool),
    /// An `f16`.
    F16(f16),
}

/// A vector of elements of one type, in host memory.
#[derive(Debug, Clone)]
pub enum HostData {
    /// Elements of type `f32`.
    F32(Vec<f32>),
    /// Elements of type `f64`.
    F64(Vec<f64>),
    /// Elements of type `i32`.
    I32(Vec<i32>),
    /// Elements of type `u32`.
    U32(Vec<u32>),
    /// Elements of type `bool`.
    Bool(Vec<bool>),
    /// Elements of type `f16`.
    F16(Vec<f16>),
}

macro_rules! elements {
    ($($type:ty, $variant:ident;)*) => {$(
        impl sealed::Sealed for $type {}
        impl Element for $type {
            const DTYPE: DType = DType::$variant;

            fn into_scalar(self) -> Scalar {
                Scalar::$variant(self)
            }

            fn from_scalar(scalar: Scalar) -> Option<Self> {
                match scalar {
                    Scalar::$variant(value) => Some(value),
                    _ => None,
                }
            }

            fn into_host(data: Vec<Self>) -> HostData {
                HostData::$variant(data)
            }

            fn slice(data: &HostData) -> Option<&[Self]> {
                match data {
                    HostData::$variant(data) => Some(data),
                    _ => None,
                }
            }

            fn slice_mut(data: &mut HostData) -> Option<&mut [Self]> {
                match data {
                    HostData::$variant(data) => Some(data),
                    _ => None,
                }
            }

            fn from_host(data: HostData) -> Result<Vec<Self>, HostData> {
                match data {
                    HostData::$variant(data) => Ok(data),
                    other => Err(other),
                }
            }
        }
    )*};
}
elements! {
    f32, F32;
    f64, F64;
    i32, I32;
    u32, U32;
    bool, Bool;
    f16, F16;
}

/// Evaluates `$body` with `$t` as an alias of the Rust type of a [`DType`].
macro_rules! with_element {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $dtype {
            $crate::DType::F32 => {
                type $t = f32;
                $body
            }
            $crate::DType::F64 => {
                type $t = f64;
                $body
            }
            $crate::DType::I32 => {
                type $t = i32;
                $body
            }
            $crate::DType::U32 => {
                type $t = u32;
                $body
            }
            $crate::DType::Bool => {
                type $t = bool;
                $body
            }
            $crate::DType::F16 => {
                type $t = half::f16;
                $body
            }
        }
    };
}
pub(crate) use with_element;

impl Scalar {
    /// Returns the type of the element.
    #[must_use]
    pub fn dtype(self) -> DType {
        match self {
            Self::F32(_) => DType::F32,
            Self::F64(_) => DType::F64,
            Self::I32(_) => DType::I32,
            Self::U32(_) => DType::U32,
            Self::Bool(_) => DType::Bool,
            Self::F16(_) => DType::F16,
        }
    }

    /// Returns the zero of a type; `false` for `Bool`.
    #[must_use]
    pub fn zero(dtype: DType) -> Self {
        with_element!(dtype, T => T::default().into_scalar())
    }

    /// Returns the bits of the element, zero-extended.
    #[must_use]
    pub fn bits(self) -> u64 {
        match self {
            Self::F32(x) => u64::from(x.to_bits()),
            Self::F64(x) => x.to_bits(),
            Self::I32(x) => u64::from(x.cast_unsigned()),
            Self::U32(x) => u64::from(x),
            Self::Bool(x) => u64::from(x),
            Self::F16(x) => u64::from(x.to_bits()),
        }
    }

    /// Converts the element to `f64`, which represents every value of every type exactly. `true`
    /// becomes 1.
    #[must_use]
    pub fn to_f64(self) -> f64 {
        match self {
            Self::F32(x) => f64::from(x),
            Self::F64(x) => x,
            Self::I32(x) => f64::from(x),
            Self::U32(x) => f64::from(x),
            Self::Bool(x) => f64::from(u8::from(x)),
            Self::F16(x) => f64::from(x),
        }
    }

    /// Converts to another type.
    ///
    /// Conversions to a float round to nearest, ties to even. Conversions from a float to an
    /// integer truncate, saturate, and turn NaN into 0; conversions between integers wrap. A
    /// conversion to `bool` is true for every value other than 0, NaN included.
    #[must_use]
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "this is where conversion is defined: `as` rounds, saturates and maps NaN to 0"
    )]
    pub fn cast(self, to: DType) -> Self {
        match to {
            DType::Bool => Self::Bool(self.to_f64() != 0.0),
            DType::F64 => Self::F64(self.to_f64()),
            DType::F32 => Self::F32(self.to_f64() as f32),
            DType::F16 => Self::F16(half_of(self.to_f64())),
            DType::I32 => Self::I32(match self {
                Self::U32(x) => x.cast_signed(),
                other => other.to_f64() as i32,
            }),
            DType::U32 => Self::U32(match self {
                Self::I32(x) => x.cast_unsigned(),
                other => other.to_f64() as u32,
            }),
        }
    }
}

/// Converts to half precision with a single rounding, to nearest, ties to even.
///
/// A plain conversion through `f32` would round twice. Therefore the step to `f32` rounds to odd:
/// towards zero, with the last bit set if the step was inexact. A value that is not halfway between
/// two `f16` values cannot become halfway in that step, so the second rounding is correct.
#[allow(
    clippy::cast_possible_truncation,
    reason = "the rounding of this conversion is corrected below"
)]
pub(crate) fn half_of(x: f64) -> f16 {
    let nearest = x as f32;
    let exact = f64::from(nearest);
    if exact == x || !nearest.is_finite() {
        return f16::from_f32(nearest);
    }
    // For numbers of one sign the bit patterns are ordered by magnitude, so subtracting 1 steps to
    // the neighbour nearer to zero.
    let towards_zero = if exact.abs() > x.abs() {
        nearest.to_bits() - 1
    } else {
        nearest.to_bits()
    };
    f16::from_f32(f32::from_bits(towards_zero | 1))
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        (self.dtype(), self.bits()) == (other.dtype(), other.bits())
    }
}

impl Eq for Scalar {}

impl std::hash::Hash for Scalar {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (self.dtype(), self.bits()).hash(state);
    }
}

impl std::fmt::Display for Scalar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::F32(x) => write!(f, "{x:?}"),
            Self::F64(x) => write!(f, "{x:?}"),
            Self::I32(x) => write!(f, "{x}"),
            Self::U32(x) => write!(f, "{x}"),
            Self::Bool(x) => write!(f, "{x}"),
            Self::F16(x) => write!(f, "{x}"),
        }
    }
}

impl HostData {
    /// Creates host data of a type from scalars; scalars of another type are skipped.
    #[cfg(any(test, feature = "random-programs"))]
    pub(crate) fn from_scalars(dtype: DType, scalars: &[Scalar]) -> Self {
        with_element!(dtype, T => {
            T::into_host(scalars.iter().filter_map(|&scalar| T::from_scalar(scalar)).collect())
        })
    }

    /// Creates host data of one element.
    pub(crate) fn from_scalar(scalar: Scalar) -> Self {
        match scalar {
            Scalar::F32(x) => Self::F32(vec![x]),
            Scalar::F64(x) => Self::F64(vec![x]),
            Scalar::I32(x) => Self::I32(vec![x]),
            Scalar::U32(x) => Self::U32(vec![x]),
            Scalar::Bool(x) => Self::Bool(vec![x]),
            Scalar::F16(x) => Self::F16(vec![x]),
        }
    }

    /// Returns the type of the elements.
    #[must_use]
    pub fn dtype(&self) -> DType {
        match self {
            Self::F32(_) => DType::F32,
            Self::F64(_) => DType::F64,
            Self::I32(_) => DType::I32,
            Self::U32(_) => DType::U32,
            Self::Bool(_) => DType::Bool,
            Self::F16(_) => DType::F16,
        }
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        with_element!(self.dtype(), T => T::slice(self).map_or(0, <[T]>::len))
    }

    /// Returns whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the element at `index`; `None` past the end.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<Scalar> {
        with_element!(self.dtype(), T => {
            T::slice(self)?.get(index).map(|&element| element.into_scalar())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_round_saturate_and_wrap_as_documented() {
        let cases = [
            (Scalar::F32(-1.5), DType::I32, Scalar::I32(-1)),
            (Scalar::F32(f32::NAN), DType::I32, Scalar::I32(0)),
            (Scalar::F64(1e300), DType::U32, Scalar::U32(u32::MAX)),
            (Scalar::F64(1e300), DType::F32, Scalar::F32(f32::INFINITY)),
            (Scalar::I32(-1), DType::U32, Scalar::U32(u32::MAX)),
            (Scalar::U32(u32::MAX), DType::I32, Scalar::I32(-1)),
            (
                Scalar::U32(16_777_217),
                DType::F32,
                Scalar::F32(16_777_216.0),
            ),
            (Scalar::F32(f32::NAN), DType::Bool, Scalar::Bool(true)),
            (Scalar::F32(-0.0), DType::Bool, Scalar::Bool(false)),
            (Scalar::Bool(true), DType::F64, Scalar::F64(1.0)),
        ];
        for (from, to, expected) in cases {
            assert_eq!(from.cast(to), expected, "{from:?} to {to}");
        }
        assert_eq!(Scalar::F32(f32::NAN), Scalar::F32(f32::NAN));
        assert_ne!(Scalar::F32(0.0), Scalar::F32(-0.0));
        // This value is just above the midpoint of two f16 values. Rounded to f32 first, it would
        // become the midpoint and round down.
        let tie = 1.0 + f64::powi(2.0, -11) + f64::powi(2.0, -40);
        assert_eq!(
            Scalar::F64(tie).cast(DType::F16).to_f64(),
            1.0 + f64::powi(2.0, -10)
        );
    }
}
