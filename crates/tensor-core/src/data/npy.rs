//! NPY files, one array each: what `numpy.save` writes and `numpy.load` reads.
//!
//! Role: tensors of every type here, in and out. Big-endian files and those in column-major order
//! are read; little-endian row-major ones are written. Integers of 8, 16 and 64 bits are converted
//! as they are read.
//! Layout: `\x93NUMPY`, two bytes of version, the length of the header, the header, the elements. The header is a Python
//! dictionary of three keys, so its few forms are read here by hand: crates for it bring a Python parser along.
//! Source: NumPy Enhancement Proposal 1.
//! Memory: reading takes the tensor, twice in column-major order, and writing 64 KiB beside the
//! tensor.
//! Limits: no structured types, no complex numbers, no texts and dates; convert them with `astype`
//! first. At most [`MAX_RANK`](crate::shape::MAX_RANK) axes.

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::Path;

use ndarray::{ArrayViewD, IxDyn, ShapeBuilder};

use super::elements::{self, Claim, FileElement};
use super::error::DataError;
use super::file::NewFile;
use crate::dtype::{DType, with_element};
use crate::error::Result;
use crate::tensor::Tensor;
use header::Header;

mod header;

const FORMAT: &str = "npy";

/// Reads a whole file into a tensor in host memory.
///
/// Elements of a type that tensors lack are converted to the closest one: `int64`, `int16` and
/// `int8` become `i32`; `uint64`, `uint16` and `uint8` become `u32`. A conversion never changes a
/// value: a 64-bit integer that does not fit is an error. [`read_as`] converts to any other type.
///
/// # Errors
/// [`DataError::InFile`] with the path; its fault is [`DataError::BadHeader`],
/// [`DataError::RankTooLarge`], [`DataError::UnsupportedDType`], [`DataError::Unrepresentable`]
/// with the element that does not fit, [`DataError::TooLarge`], [`DataError::OutOfMemory`],
/// [`DataError::Truncated`], [`DataError::TrailingBytes`], [`DataError::NotABool`] or
/// [`DataError::Io`].
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

/// Reads a whole file as a tensor of one type, whatever type the file has.
///
/// A conversion never changes a value: an element that `dtype` does not have exactly is an error.
/// To round instead, read the file as it is and [`cast`](Tensor::cast).
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
/// assert!(error.to_string().starts_with("npy: element [1] does not fit bool (value 128 of u32), in "));
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

/// Reads one array from anything that gives bytes, and leaves what follows the array: another one
/// may.
///
/// # Errors
/// As [`read`], without the path and without [`DataError::TrailingBytes`].
pub fn read_from(mut input: impl Read) -> Result<Tensor, DataError> {
    read_array(&mut input, None)
}

/// Reads an array, as a tensor of the closest type if none is given.
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
    let claim = Claim {
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

/// Elements in column-major order, brought into row-major order.
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

/// Writes a tensor that is in memory: made from data, or by [`Tensor::realize`]. The file appears whole or not at all;
/// one that is there already is replaced.
///
/// # Errors
/// What the tensor stands for, if that is an error; [`Error::NotRealized`](crate::Error::NotRealized) if it would have to
/// be computed; [`DataError::InFile`] around [`DataError::Io`] or [`DataError::OutOfMemory`].
#[track_caller]
pub fn write(path: impl AsRef<Path>, tensor: &Tensor) -> Result<()> {
    let path = path.as_ref();
    let in_file = |fault: DataError| DataError::InFile {
        path: path.to_path_buf(),
        fault: Box::new(fault),
    };
    let io = |error| in_file(DataError::io(FORMAT)(error));
    let mut file = NewFile::beside(path).map_err(io)?;
    write_to(&mut file, tensor).map_err(|error| match error {
        crate::Error::Data(fault) => in_file(fault).into(),
        other => other,
    })?;
    Ok(file.place(path).map_err(io)?)
}

/// Writes a tensor that is in memory to anything that takes bytes.
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
