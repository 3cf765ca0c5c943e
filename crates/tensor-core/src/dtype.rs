//! Element types, one element of any of them, and flat host memory of any of them.
//!
//! Role: the only list of the types that tensors hold. [`Element`] ties a Rust type to its [`DType`];
//! [`Scalar`] and [`HostData`] are the two places where the type is known only at run time.

use half::f16;

/// The type of a tensor's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// IEEE 754 single precision: the default.
    F32,
    /// IEEE 754 double precision.
    F64,
    /// Two's complement integers of 32 bits; arithmetic wraps.
    I32,
    /// Unsigned integers of 32 bits; arithmetic wraps.
    U32,
    /// True or false.
    Bool,
    /// IEEE 754 half precision: storage only. It can be viewed, selected and converted, not calculated with.
    F16,
}

impl DType {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::F32,
        Self::F64,
        Self::I32,
        Self::U32,
        Self::Bool,
        Self::F16,
    ];

    /// The size of one element in memory, in bytes.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::F64 => 8,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F16 => 2,
            Self::Bool => 1,
        }
    }

    /// Whether arithmetic rounds: `F32` and `F64`.
    #[must_use]
    pub fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64)
    }

    /// Whether arithmetic wraps: `I32` and `U32`.
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

/// A Rust type that tensors hold: `f32`, `f64`, `i32`, `u32`, `bool` or `half::f16`.
pub trait Element:
    sealed::Sealed + Copy + Default + PartialEq + Send + Sync + std::fmt::Debug + 'static
{
    /// Its run-time name.
    const DTYPE: DType;

    /// Wraps one element.
    fn into_scalar(self) -> Scalar;

    /// Unwraps one element; `None` if it is of another type.
    fn from_scalar(scalar: Scalar) -> Option<Self>;

    /// Wraps elements without a copy.
    fn into_host(data: Vec<Self>) -> HostData;

    /// Borrows elements; `None` if they are of another type.
    fn slice(data: &HostData) -> Option<&[Self]>;

    /// Borrows elements to write them; `None` if they are of another type.
    fn slice_mut(data: &mut HostData) -> Option<&mut [Self]>;

    /// Unwraps elements without a copy.
    ///
    /// # Errors
    /// The data itself if they are of another type.
    fn from_host(data: HostData) -> Result<Vec<Self>, HostData>;
}

/// One element of any type. Equality and hash go by type and bits: NaN equals itself, -0.0 is not 0.0.
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

/// Elements of one type in host memory.
#[derive(Debug, Clone)]
pub enum HostData {
    /// `f32`s.
    F32(Vec<f32>),
    /// `f64`s.
    F64(Vec<f64>),
    /// `i32`s.
    I32(Vec<i32>),
    /// `u32`s.
    U32(Vec<u32>),
    /// `bool`s.
    Bool(Vec<bool>),
    /// `f16`s.
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

/// Runs `$body` with `$t` standing for the Rust type of a [`DType`].
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
    /// The type of the element.
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

    /// The element 0 (`false`) of a type.
    #[must_use]
    pub fn zero(dtype: DType) -> Self {
        with_element!(dtype, T => T::default().into_scalar())
    }

    /// The bits of the element, zero-extended.
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

    /// The element as an `f64`, which holds every value of every type; `true` is 1.
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
    /// To a float it rounds to nearest, ties to even. From a float to an integer it truncates,
    /// saturates, and turns NaN into 0; between integers it wraps. To `bool`: is it different from 0
    /// (NaN is).
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

/// Rounds to half precision once, to nearest, ties to even.
///
/// By way of `f32` it would round twice. So the step to `f32` rounds to odd: towards zero, and the last bit set if
/// anything was lost, which keeps every tie of the second step from arising by accident.
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
    /// Elements of a type; those of another are left out.
    #[cfg(any(test, feature = "random-programs"))]
    pub(crate) fn from_scalars(dtype: DType, scalars: &[Scalar]) -> Self {
        with_element!(dtype, T => {
            T::into_host(scalars.iter().filter_map(|&scalar| T::from_scalar(scalar)).collect())
        })
    }

    /// One element.
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

    /// The type of the elements.
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

    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        with_element!(self.dtype(), T => T::slice(self).map_or(0, <[T]>::len))
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element at `index`; `None` past the end.
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
        // Rounded to f32 first, this value would tie and go the other way.
        let tie = 1.0 + f64::powi(2.0, -11) + f64::powi(2.0, -40);
        assert_eq!(
            Scalar::F64(tie).cast(DType::F16).to_f64(),
            1.0 + f64::powi(2.0, -10)
        );
    }
}
