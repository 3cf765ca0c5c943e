//! The element types of files.
//!
//! Role: files support more types than tensors. [`FileType`] lists all of them and converts the
//! numbers of the supported types.
//! Method: conversions use [`Number`] as an intermediate type, which holds every value of every
//! supported type. They never change a value: an element that the target type cannot represent is
//! an error.

use std::fmt;

use half::{bf16, f16};

use crate::dtype::{DType, Element, Scalar};

/// The order of the bytes of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ByteOrder {
    Little,
    Big,
}

/// Creates the function that decodes an element of a type to a [`Number`].
macro_rules! decoder {
    ($type:ty, $kind:ident($wide:ty)) => {
        |bytes, order| {
            let mut element = [0; size_of::<$type>()];
            element.copy_from_slice(bytes);
            let element = match order {
                ByteOrder::Little => <$type>::from_le_bytes(element),
                ByteOrder::Big => <$type>::from_be_bytes(element),
            };
            Ok(Number::$kind(<$wide>::from(element)))
        }
    };
}

/// The element type of a file.
///
/// # Examples
/// ```
/// use tensor_core::DType;
/// use tensor_core::data::FileType;
/// assert_eq!(FileType::from(DType::F32).dtype(), Some(DType::F32));
/// assert_eq!((FileType::I64.dtype(), FileType::I64.closest()), (None, Some(DType::I32)));
/// assert_eq!(FileType::Bf16.to_string(), "bf16");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileType {
    /// A type that tensors support.
    Tensor(DType),
    /// A bfloat16, the upper half of an `f32`: 8 bits of precision.
    Bf16,
    /// Signed 64-bit integers.
    I64,
    /// Unsigned 64-bit integers.
    U64,
    /// Signed 16-bit integers.
    I16,
    /// Unsigned 16-bit integers.
    U16,
    /// Signed 8-bit integers.
    I8,
    /// Unsigned 8-bit integers.
    U8,
    /// An unsupported type, with its name in the file.
    Other(String),
}

impl FileType {
    /// All supported types.
    pub(crate) const READ: [Self; 13] = [
        Self::Tensor(DType::F32),
        Self::Tensor(DType::F64),
        Self::Tensor(DType::I32),
        Self::Tensor(DType::U32),
        Self::Tensor(DType::Bool),
        Self::Tensor(DType::F16),
        Self::Bf16,
        Self::I64,
        Self::U64,
        Self::I16,
        Self::U16,
        Self::I8,
        Self::U8,
    ];

    /// Returns the type of a tensor with these elements; `None` if they have to be converted or are
    /// not supported.
    #[must_use]
    pub fn dtype(&self) -> Option<DType> {
        match self {
            Self::Tensor(dtype) => Some(*dtype),
            _ => None,
        }
    }

    /// Returns the best tensor type for these elements: `f32` for [`Bf16`](Self::Bf16), `i32` for
    /// signed integers, `u32` for unsigned integers. With these types only 64-bit integers may have
    /// values that are not representable. `None` for [`Other`](Self::Other).
    #[must_use]
    pub fn closest(&self) -> Option<DType> {
        match self {
            Self::Tensor(dtype) => Some(*dtype),
            Self::Bf16 => Some(DType::F32),
            Self::I64 | Self::I16 | Self::I8 => Some(DType::I32),
            Self::U64 | Self::U16 | Self::U8 => Some(DType::U32),
            Self::Other(_) => None,
        }
    }

    /// Returns the size of one element in a file, in bytes; `None` for [`Other`](Self::Other).
    #[must_use]
    pub fn bytes(&self) -> Option<usize> {
        match self {
            Self::Tensor(dtype) => Some(dtype.bytes()),
            Self::I64 | Self::U64 => Some(8),
            Self::Bf16 | Self::I16 | Self::U16 => Some(2),
            Self::I8 | Self::U8 => Some(1),
            Self::Other(_) => None,
        }
    }

    /// Returns the function that decodes one element; `None` for [`Other`](Self::Other).
    pub(crate) fn decoder(&self) -> Option<Decode> {
        Some(match self {
            Self::Tensor(DType::F32) => decoder!(f32, Float(f64)),
            Self::Tensor(DType::F64) => decoder!(f64, Float(f64)),
            Self::Tensor(DType::F16) => decoder!(f16, Float(f64)),
            Self::Bf16 => decoder!(bf16, Float(f64)),
            Self::I64 => decoder!(i64, Integer(i128)),
            Self::U64 => decoder!(u64, Integer(i128)),
            Self::Tensor(DType::I32) => decoder!(i32, Integer(i128)),
            Self::Tensor(DType::U32) => decoder!(u32, Integer(i128)),
            Self::I16 => decoder!(i16, Integer(i128)),
            Self::U16 => decoder!(u16, Integer(i128)),
            Self::I8 => decoder!(i8, Integer(i128)),
            Self::U8 => decoder!(u8, Integer(i128)),
            Self::Tensor(DType::Bool) => |bytes, _| match bytes[0] {
                bit @ (0 | 1) => Ok(Number::Integer(i128::from(bit))),
                byte => Err(byte),
            },
            Self::Other(_) => return None,
        })
    }
}

impl From<DType> for FileType {
    fn from(dtype: DType) -> Self {
        Self::Tensor(dtype)
    }
}

impl fmt::Display for FileType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tensor(dtype) => return dtype.fmt(f),
            Self::Bf16 => "bf16",
            Self::I64 => "i64",
            Self::U64 => "u64",
            Self::I16 => "i16",
            Self::U16 => "u16",
            Self::I8 => "i8",
            Self::U8 => "u8",
            Self::Other(name) => name,
        })
    }
}

/// The value of an element of any supported type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Number {
    Integer(i128),
    Float(f64),
}

/// A function that decodes the bytes of one element. Its error is an invalid byte of a `bool`.
pub(crate) type Decode = fn(&[u8], ByteOrder) -> Result<Number, u8>;

impl Number {
    /// Returns the element of type `T` with exactly this value, if it exists; NaN is a value of all
    /// floats.
    pub(crate) fn exactly<T: Element>(self) -> Option<T> {
        let x = match self {
            Self::Float(x) => x,
            Self::Integer(n) => exact_float(n)?,
        };
        let nearest = Scalar::F64(x).cast(T::DTYPE);
        let is_exact = nearest.to_f64() == x || x.is_nan() && nearest.to_f64().is_nan();
        T::from_scalar(nearest).filter(|_| is_exact)
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(n) => n.fmt(f),
            Self::Float(x) => write!(f, "{x:?}"),
        }
    }
}

/// Returns the float that equals an integer of at most 64 bits, if it exists.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a float converted from 64 bits has no fraction and fits 128 bits"
)]
fn exact_float(n: i128) -> Option<f64> {
    let x = n as f64;
    (x as i128 == n).then_some(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_converts_only_to_its_own_value() {
        let big = Number::Integer(1 << 53);
        assert_eq!(big.exactly::<f64>(), Some(9_007_199_254_740_992.0));
        assert_eq!(Number::Integer((1 << 53) + 1).exactly::<f64>(), None);
        assert_eq!(big.exactly::<i32>(), None);
        for (n, fits) in [
            (-1, false),
            (0, true),
            (4_294_967_295, true),
            (1 << 32, false),
        ] {
            assert_eq!(Number::Integer(n).exactly::<u32>().is_some(), fits, "{n}");
        }
        assert_eq!(Number::Integer(1).exactly::<bool>(), Some(true));
        assert_eq!(Number::Integer(2).exactly::<bool>(), None);
        assert_eq!(Number::Float(0.1).exactly::<f32>(), None);
        assert_eq!(Number::Float(0.5).exactly::<i32>(), None);
        assert_eq!(Number::Float(-3.0).exactly::<i32>(), Some(-3));
        assert!(Number::Float(f64::NAN).exactly::<f32>().unwrap().is_nan());
        assert_eq!(Number::Float(f64::NAN).exactly::<i32>(), None);
        assert_eq!(
            Number::Float(f64::INFINITY).exactly::<f32>(),
            Some(f32::INFINITY)
        );
        assert_eq!(Number::Float(1e300).exactly::<f32>(), None);
    }

    #[test]
    fn every_type_that_is_read_has_a_size_and_a_type_of_tensors() {
        for file_type in FileType::READ {
            let bytes = vec![0; file_type.bytes().unwrap()];
            let zero = file_type.decoder().unwrap()(&bytes, ByteOrder::Little).unwrap();
            assert_eq!(zero.exactly::<f64>(), Some(0.0), "{file_type}");
            assert!(file_type.closest().is_some());
        }
        let other = FileType::Other("F8_E4M3".into());
        assert_eq!((other.bytes(), other.closest()), (None, None));
    }
}
