//! NPY files, the format of `numpy.save` and `numpy.load`, with one array each.
//!
//! Role: reads and writes tensors of every type. Big-endian files and files in column-major order
//! can be read; files are written little-endian and row-major. Integers of 8, 16 and 64 bits are
//! converted on reading.
//! Layout: `\x93NUMPY`, two bytes of version, the length of the header, the header, the elements.
//! The header is a Python dictionary with three keys, for which a small parser is part of this
//! module; existing crates depend on a Python parser.
//! Source: NumPy Enhancement Proposal 1.
//! Memory: reading takes the size of the tensor, and half of this size in addition for a moment
//! when a quarter has arrived; for column-major order twice the size. Writing takes 64 KiB in
//! addition to the tensor.
//! Limits: structured types, complex numbers, strings and dates are not supported; convert them
//! with `astype` first. At most [`MAX_RANK`](crate::shape::MAX_RANK) axes.

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::Path;

use ndarray::{ArrayViewD, IxDyn, ShapeBuilder};

use super::elements::{self, ArrayHeader, FileElement};
use super::file::NewFile;
use crate::dtype::{DType, with_element};
use crate::error::DataError;
use crate::error::Result;
use crate::tensor::Tensor;
use header::Header;

mod header;

const FORMAT: &str = "npy";

/// Reads a whole file into a tensor in host memory.
///
/// Elements of a type that tensors do not support are converted to the closest type: `int64`,
/// `int16` and `int8` to `i32`; `uint64`, `uint16` and `uint8` to `u32`. Conversions never change a
/// value: a 64-bit integer that is not representable is an error. [`read_as`] converts to any other
/// type.
///
/// # Errors
/// [`DataError::InFile`] with the path; its fault is [`DataError::BadHeader`],
/// [`DataError::RankTooLarge`], [`DataError::UnsupportedDType`], [`DataError::Unrepresentable`]
/// with the first element that is not representable, [`DataError::TooLarge`],
/// [`DataError::OutOfMemory`], [`DataError::Truncated`], [`DataError::TrailingBytes`],
/// [`DataError::NotABool`] or [`DataError::Io`].
///
/// # Examples
/// ```
/// use tensor_core::data::npy;
/// use tensor_core::ndarray::array;
/// use tensor_core::{Host, Tensor};
/// let path = std::env::temp_dir().join(format!("tensor-core-doc-{}.npy", std::process::id()));
/// npy::write(&path, &Tensor::from_array(array![[1.0_f32, 2.0], [3.0, 4.0]]))?;
/// let x = npy::read(&path)?;
/// assert_eq!(x.sum(0).eval::<f32>(&Host::new())?, array![4.0, 6.0].into_dyn());
/// # std::fs::remove_file(path).ok();
/// # Ok::<(), tensor_core::Error>(())
/// ```
pub fn read(path: impl AsRef<Path>) -> Result<Tensor, DataError> {
    read_file(path.as_ref(), None)
}

/// Reads a whole file into a tensor of the requested type.
///
/// Conversions never change a value: an element that is not exactly representable in `dtype` is an
/// error. To round instead, use this function with a type that has all values, such as `f64`, and
/// then [`cast`](Tensor::cast).
///
/// # Errors
/// As [`read`].
///
/// # Examples
/// ```
/// use tensor_core::data::npy;
/// use tensor_core::ndarray::array;
/// use tensor_core::{DType, Tensor};
/// let path = std::env::temp_dir().join(format!("tensor-core-as-{}.npy", std::process::id()));
/// npy::write(&path, &Tensor::from_array(array![0_u32, 128, 255]))?;
/// let pixels = npy::read_as(&path, DType::F32)?;
/// assert_eq!(pixels.to_host::<f32>()?, array![0.0, 128.0, 255.0].into_dyn());
/// let error = npy::read_as(&path, DType::Bool).unwrap_err();
/// let message = "npy: element [1] is not representable in bool (value 128 of u32), in ";
/// assert!(error.to_string().starts_with(message));
/// # std::fs::remove_file(path).ok();
/// # Ok::<(), tensor_core::Error>(())
/// ```
pub fn read_as(path: impl AsRef<Path>, dtype: DType) -> Result<Tensor, DataError> {
    read_file(path.as_ref(), Some(dtype))
}

fn read_file(path: &Path, dtype: Option<DType>) -> Result<Tensor, DataError> {
    let whole = || {
        let mut input = BufReader::new(File::open(path).map_err(DataError::io(FORMAT))?);
        let tensor = read_array(&mut input, dtype)?;
        elements::check_end(FORMAT, &mut input)?;
        Ok(tensor)
    };
    whole().map_err(|fault| DataError::InFile {
        path: path.to_path_buf(),
        fault: Box::new(fault),
    })
}

/// Reads one array from a byte stream. Bytes after the array are not read, because another array
/// may follow.
///
/// # Errors
/// As [`read`], without the path and without [`DataError::TrailingBytes`].
pub fn read_from(mut input: impl Read) -> Result<Tensor, DataError> {
    read_array(&mut input, None)
}

/// Reads an array into a tensor of type `dtype`, or of the closest type if it is `None`.
fn read_array(input: &mut impl Read, dtype: Option<DType>) -> Result<Tensor, DataError> {
    let header = Header::read(input)?;
    let Some(dtype) = dtype.or(header.dtype.closest()) else {
        return Err(DataError::UnsupportedDType {
            format: FORMAT,
            dtype: header.dtype,
            shape: header.shape,
        });
    };
    with_element!(dtype, T => typed::<T>(input, &header))
}

fn typed<T: FileElement>(input: &mut impl Read, header: &Header) -> Result<Tensor, DataError> {
    let claim = ArrayHeader {
        format: FORMAT,
        dtype: &header.dtype,
        shape: &header.shape,
        order: header.order,
        is_column_major: header.is_column_major,
    };
    let mut elements = elements::read::<T>(input, &claim)?;
    if header.is_column_major {
        elements = row_major(&elements, header)?;
    }
    Ok(Tensor::from_vec(&header.shape, elements))
}

/// Converts elements from column-major to row-major order.
fn row_major<T: FileElement>(elements: &[T], header: &Header) -> Result<Vec<T>, DataError> {
    let shape = IxDyn(&header.shape).f();
    let array = ArrayViewD::from_shape(shape, elements).map_err(|_| DataError::TooLarge {
        format: FORMAT,
        dtype: header.dtype.clone(),
        shape: header.shape.clone(),
    })?;
    let mut ordered = Vec::new();
    elements::reserve(FORMAT, &mut ordered, elements.len())?;
    ordered.extend(array.iter().copied());
    Ok(ordered)
}

/// Writes a tensor that is in memory: created from data, or returned by [`Tensor::realize`]. The
/// file appears complete or not at all; an existing file is replaced.
///
/// # Errors
/// The error of an error node; [`Error::NotRealized`](crate::Error::NotRealized) if the tensor is
/// not in memory; [`DataError::InFile`] with [`DataError::Io`] or [`DataError::OutOfMemory`].
#[track_caller]
pub fn write(path: impl AsRef<Path>, tensor: &Tensor) -> Result<()> {
    let path = path.as_ref();
    let in_file = |fault: DataError| DataError::InFile {
        path: path.to_path_buf(),
        fault: Box::new(fault),
    };
    let io = |error| in_file(DataError::io(FORMAT)(error));
    let mut file = NewFile::next_to(path).map_err(io)?;
    write_to(&mut file, tensor).map_err(|error| match error {
        crate::Error::Data(fault) => in_file(fault).into(),
        other => other,
    })?;
    Ok(file.place(path).map_err(io)?)
}

/// Returns the bytes of a file before its elements, for programs that write the elements of a large
/// array in parts. The elements follow in row-major order, little-endian; a bool is a byte.
///
/// # Errors
/// [`DataError::Unwritable`] if the shape has too many sizes for a header.
///
/// # Examples
/// ```
/// use tensor_core::DType;
/// use tensor_core::data::npy;
///
/// let mut file = npy::header(DType::U32, &[2])?;
/// file.extend([7_u32, 8].iter().flat_map(|number| number.to_le_bytes()));
/// assert_eq!(npy::read_from(&file[..])?.to_host::<u32>()?[1], 8);
/// # Ok::<(), tensor_core::Error>(())
/// ```
pub fn header(dtype: DType, shape: &[usize]) -> Result<Vec<u8>, DataError> {
    header::written(dtype, shape)
}

/// Writes a tensor that is in memory to a byte stream.
///
/// # Errors
/// As [`write()`], without the path.
#[track_caller]
pub fn write_to(mut out: impl Write, tensor: &Tensor) -> Result<()> {
    let dtype = tensor.dtype()?;
    let header = header::written(dtype, tensor.shape()?)?;
    out.write_all(&header).map_err(DataError::io(FORMAT))?;
    with_element!(dtype, T => elements::write::<T>("npy::write", FORMAT, &mut out, tensor))
}
