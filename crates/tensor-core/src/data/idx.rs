//! IDX files, the format of MNIST: reading, plain or gzipped, and writing.
//!
//! Role: reads an untrusted file into arrays, or returns an error that describes the problem.
//! Method: the header is read and checked first. Then the elements are read in chunks, so memory
//! grows with the bytes that were read and not with the size that the header claims. Gzip is
//! recognized by its first two bytes, not by the file name; files of several gzip members are read
//! as one.
//! Layout: two zero bytes, the type, the rank, one big-endian u32 per dimension, then the elements
//! in row-major order, big-endian. Rank 0 is a single element.
//! Source: the home page of the MNIST database of handwritten digits, section on file formats.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use ndarray::{ArrayRef, Dimension};

pub use crate::error::IdxError;
pub use element::{DType, IdxArray, IdxElement};
pub use reader::Reader;

mod element;
mod reader;

/// Reads a whole file, plain or gzipped.
///
/// # Errors
/// [`IdxError::InFile`] with the path; its fault can be any variant except
/// [`IdxError::Unwritable`].
///
/// # Examples
/// ```no_run
/// use tensor_core::data::idx::{self, IdxArray};
/// let IdxArray::U8(images) = idx::read("train-images-idx3-ubyte.gz")? else {
///     panic!("the images have type u8");
/// };
/// assert_eq!(images.shape(), [60_000, 28, 28]);
/// # Ok::<(), tensor_core::Error>(())
/// ```
pub fn read(path: impl AsRef<Path>) -> Result<IdxArray, IdxError> {
    let path = path.as_ref();
    read_file(path).map_err(|fault| IdxError::InFile {
        path: path.to_path_buf(),
        fault: Box::new(fault),
    })
}

fn read_file(path: &Path) -> Result<IdxArray, IdxError> {
    Reader::new(File::open(path)?)?.read_all()
}

/// Writes an array, uncompressed, to a byte stream.
///
/// # Errors
/// [`IdxError::Unwritable`] if the rank exceeds 255 or a size exceeds `u32::MAX`; [`IdxError::Io`]
/// if writing fails.
///
/// # Examples
/// ```
/// use tensor_core::data::idx::{self, IdxArray, Reader};
/// use tensor_core::ndarray::array;
/// let mut file = Vec::new();
/// idx::write(&mut file, &array![[1_i16, -2], [3, 4]])?;
/// assert_eq!(file[..8], [0, 0, 0x0b, 2, 0, 0, 0, 2]);
/// let back = Reader::new(&file[..])?.read_all()?;
/// assert_eq!(back, IdxArray::I16(array![[1, -2], [3, 4]].into_dyn()));
/// # Ok::<(), tensor_core::Error>(())
/// ```
pub fn write<T: IdxElement, D: Dimension>(
    out: impl Write,
    array: &ArrayRef<T, D>,
) -> Result<(), IdxError> {
    let unwritable = || IdxError::Unwritable {
        shape: array.shape().to_vec(),
    };
    let rank = u8::try_from(array.ndim()).map_err(|_| unwritable())?;
    let mut out = BufWriter::new(out);
    out.write_all(&[0, 0, T::DTYPE.code(), rank])?;
    for &size in array.shape() {
        let size = u32::try_from(size).map_err(|_| unwritable())?;
        out.write_all(&size.to_be_bytes())?;
    }
    for element in array {
        out.write_all(element.to_be().as_ref())?;
    }
    Ok(out.flush()?)
}
