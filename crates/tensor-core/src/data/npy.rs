//! NPY files, one array each: what `numpy.save` writes and `numpy.load` reads.
//!
//! Role: tensors of every type here, in and out. Big-endian files and those in column-major order are read;
//! little-endian row-major ones are written.
//! Layout: `\x93NUMPY`, two bytes of version, the length of the header, the header, the elements. The header is a Python
//! dictionary of three keys, so its few forms are read here by hand: crates for it bring a Python parser along.
//! Source: NumPy Enhancement Proposal 1.
//! Limits: no structured types, no 8-, 16- and 64-bit integers, no complex numbers; convert them with `astype` first.

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::Path;

use ndarray::{ArrayD, IxDyn, ShapeBuilder};

use super::elements::{self, FileElement};
use super::error::DataError;
use super::file::NewFile;
use crate::dtype::with_element;
use crate::error::Result;
use crate::tensor::Tensor;
use header::Header;

mod header;

const FORMAT: &str = "npy";

/// Reads a whole file into a tensor in host memory.
///
/// # Errors
/// [`DataError::InFile`] with the path; its fault is [`DataError::BadHeader`], [`DataError::UnsupportedDType`],
/// [`DataError::TooLarge`], [`DataError::Truncated`], [`DataError::TrailingBytes`], [`DataError::NotABool`] or
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
    let path = path.as_ref();
    read_file(path).map_err(|fault| DataError::InFile {
        path: path.to_path_buf(),
        fault: Box::new(fault),
    })
}

fn read_file(path: &Path) -> Result<Tensor, DataError> {
    let mut input = BufReader::new(File::open(path).map_err(DataError::io(FORMAT))?);
    let tensor = read_from(&mut input)?;
    elements::check_end(FORMAT, &mut input)?;
    Ok(tensor)
}

/// Reads one array from anything that gives bytes, and leaves what follows it: another one may.
///
/// # Errors
/// As [`read`], without the path and without [`DataError::TrailingBytes`].
pub fn read_from(mut input: impl Read) -> Result<Tensor, DataError> {
    let header = Header::read(&mut input)?;
    with_element!(header.dtype, T => typed::<T>(&mut input, &header))
}

fn typed<T: FileElement>(input: &mut impl Read, header: &Header) -> Result<Tensor, DataError> {
    let elements = elements::read::<T>(FORMAT, input, &header.shape, header.order)?;
    let shape = IxDyn(&header.shape).set_f(header.is_column_major);
    let array = ArrayD::from_shape_vec(shape, elements).map_err(|_| DataError::TooLarge {
        format: FORMAT,
        dtype: T::DTYPE,
        shape: header.shape.clone(),
    })?;
    Ok(Tensor::from_array(array))
}

/// Writes a tensor that is in memory: made from data, or by [`Tensor::realize`]. The file appears whole or not at all;
/// one that is there already is replaced.
///
/// # Errors
/// What the tensor stands for, if that is an error; [`Error::NotRealized`](crate::Error::NotRealized) if it would have to
/// be computed; [`DataError::InFile`] around [`DataError::Io`], or [`DataError::Unwritable`] if the shape does not
/// fit a header.
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
    let written = with_element!(dtype, T => elements::write::<T>("npy::write", &mut out, tensor))?;
    Ok(written.map_err(DataError::io(FORMAT))?)
}
