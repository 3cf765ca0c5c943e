//! The element types of IDX files.

use ndarray::ArrayD;

use crate::error::IdxError;

/// The element type of an IDX file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DType {
    /// Unsigned bytes, code 0x08.
    U8,
    /// Signed bytes, code 0x09.
    I8,
    /// Signed 16-bit integers, code 0x0b.
    I16,
    /// Signed 32-bit integers, code 0x0c.
    I32,
    /// 32-bit floats, code 0x0d.
    F32,
    /// 64-bit floats, code 0x0e.
    F64,
}

impl DType {
    /// All types, in the order of their codes.
    pub const ALL: [Self; 6] = [
        Self::U8,
        Self::I8,
        Self::I16,
        Self::I32,
        Self::F32,
        Self::F64,
    ];

    /// Returns the code in the third byte of a file.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::U8 => 0x08,
            Self::I8 => 0x09,
            Self::I16 => 0x0b,
            Self::I32 => 0x0c,
            Self::F32 => 0x0d,
            Self::F64 => 0x0e,
        }
    }

    /// Returns the size of one element, in bytes.
    #[must_use]
    pub fn size_bytes(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::I16 => 2,
            Self::I32 | Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    pub(super) fn from_code(code: u8) -> Result<Self, IdxError> {
        let dtype = Self::ALL.into_iter().find(|dtype| dtype.code() == code);
        dtype.ok_or(IdxError::UnknownDType { code })
    }
}

/// An array with the element type of its file.
#[derive(Debug, Clone, PartialEq)]
pub enum IdxArray {
    /// Unsigned bytes.
    U8(ArrayD<u8>),
    /// Signed bytes.
    I8(ArrayD<i8>),
    /// Signed 16-bit integers.
    I16(ArrayD<i16>),
    /// Signed 32-bit integers.
    I32(ArrayD<i32>),
    /// 32-bit floats.
    F32(ArrayD<f32>),
    /// 64-bit floats.
    F64(ArrayD<f64>),
}

impl IdxArray {
    /// Returns the type of the elements.
    #[must_use]
    pub fn dtype(&self) -> DType {
        match self {
            Self::U8(_) => DType::U8,
            Self::I8(_) => DType::I8,
            Self::I16(_) => DType::I16,
            Self::I32(_) => DType::I32,
            Self::F32(_) => DType::F32,
            Self::F64(_) => DType::F64,
        }
    }

    /// Returns the shape of the array.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        match self {
            Self::U8(array) => array.shape(),
            Self::I8(array) => array.shape(),
            Self::I16(array) => array.shape(),
            Self::I32(array) => array.shape(),
            Self::F32(array) => array.shape(),
            Self::F64(array) => array.shape(),
        }
    }
}

/// An element type of IDX files.
pub trait IdxElement: Copy + sealed::Sealed {
    /// The [`DType`] that represents this type at run time.
    const DTYPE: DType;
    /// The byte array of one element.
    type Bytes: AsRef<[u8]> + AsMut<[u8]> + Default + Copy;
    /// Converts the element to bytes, most significant first.
    fn to_be(self) -> Self::Bytes;
    /// Converts bytes, most significant first, to an element.
    fn from_be(bytes: Self::Bytes) -> Self;
    /// Wraps an array of this type.
    fn wrap(array: ArrayD<Self>) -> IdxArray;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! element {
    ($type:ty, $dtype:ident) => {
        impl sealed::Sealed for $type {}
        impl IdxElement for $type {
            const DTYPE: DType = DType::$dtype;
            type Bytes = [u8; size_of::<$type>()];
            fn to_be(self) -> Self::Bytes {
                self.to_be_bytes()
            }
            fn from_be(bytes: Self::Bytes) -> Self {
                Self::from_be_bytes(bytes)
            }
            fn wrap(array: ArrayD<Self>) -> IdxArray {
                IdxArray::$dtype(array)
            }
        }
    };
}

element!(u8, U8);
element!(i8, I8);
element!(i16, I16);
element!(i32, I32);
element!(f32, F32);
element!(f64, F64);
