//! Safetensors files: named tensors in one file.
//!
//! Role: reads and writes tensors of every type. [`read`] reads a whole file; [`Reader`] lists the
//! tensors of a file, reads them one at a time, and converts types that tensors do not support; it
//! also returns the texts that a file may contain as metadata.
//! Layout: the length of the header as a little-endian u64, the header, the elements of one tensor
//! after the other. The header is JSON: for each name the type, the shape, and the range of the
//! element bytes.
//! Method: the header must account for every byte that follows. Then the tensors are read one at a
//! time. The JSON is an object of objects, so a small parser is part of this module. Tests exchange
//! files with the crate `safetensors` of the format's authors, but the library does not depend on
//! that crate: it adds lengths that may overflow, and its JSON library brings further
//! implementations of `PartialEq` for floats into scope, with which a literal in a user's
//! `assert_eq!` next to a float no longer has a unique type.
//! Source: the format's description in the repository huggingface/safetensors.
//! Memory: reading takes the size of the tensors, and half of a tensor's size in addition for a
//! moment when a quarter of it has arrived; writing takes 64 KiB in addition to the tensors.
//! Limits: integers of 8, 16 and 64 bits and bfloat16 can be read only by [`Reader::read_as`].
//! Floats of 8 bits and less and complex numbers are listed but cannot be read. At most
//! [`MAX_RANK`](crate::shape::MAX_RANK) axes.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::Path;

use super::elements::{self, ArrayHeader};
use super::file::NewFile;
use crate::dtype::{DType, with_element};
use crate::error::DataError;
use crate::error::Result;
use crate::file_type::ByteOrder;
use crate::tensor::Tensor;

pub use header::Entry;
pub use reader::Reader;

mod header;
mod reader;

const FORMAT: &str = "safetensors";

/// Reads all tensors of a file into host memory. Use a [`Reader`] for a file that contains a type
/// that tensors do not support (`BF16`, `I64`).
///
/// # Errors
/// [`DataError::InFile`] with the path; its fault is [`DataError::BadHeader`],
/// [`DataError::TrailingBytes`], [`DataError::Io`], or, under [`DataError::InTensor`] with the
/// name, [`DataError::UnsupportedDType`], [`DataError::RankTooLarge`], [`DataError::TooLarge`],
/// [`DataError::OutOfMemory`], [`DataError::Truncated`] or [`DataError::NotABool`].
///
/// # Examples
/// ```
/// use tensor_core::data::safetensors;
/// use tensor_core::ndarray::array;
/// use tensor_core::{Host, Tensor};
/// let file = format!("tensor-core-doc-{}.safetensors", std::process::id());
/// let path = std::env::temp_dir().join(file);
/// let weight = Tensor::from_array(array![[1.0_f32, 2.0], [3.0, 4.0]]);
/// let bias = Tensor::from_array(array![0.5_f32, -0.5]);
/// safetensors::write(&path, &[("layer.weight", &weight), ("layer.bias", &bias)])?;
///
/// let layer = safetensors::read(&path)?;
/// let x = Tensor::from_array(array![1.0_f32, 1.0]);
/// let y = layer["layer.weight"].matmul(&x) + &layer["layer.bias"];
/// assert_eq!(y.eval::<f32>(&Host::new())?, array![3.5, 6.5].into_dyn());
/// # std::fs::remove_file(path).ok();
/// # Ok::<(), tensor_core::Error>(())
/// ```
pub fn read(path: impl AsRef<Path>) -> Result<BTreeMap<String, Tensor>, DataError> {
    let path = path.as_ref();
    let opened = File::open(path).map_err(DataError::io(FORMAT));
    opened
        .and_then(|file| read_from(BufReader::new(file)))
        .map_err(in_file(path))
}

/// Reads all tensors from a byte stream.
///
/// # Errors
/// As [`read`], without the path.
pub fn read_from(mut input: impl Read) -> Result<BTreeMap<String, Tensor>, DataError> {
    let mut tensors = BTreeMap::new();
    for entry in header::read(&mut input)?.entries {
        let tensor = read_same(&mut input, &entry).map_err(|fault| entry.fault(fault))?;
        tensors.insert(entry.name, tensor);
    }
    elements::check_end(FORMAT, &mut input)?;
    Ok(tensors)
}

/// Reads a tensor in the element type of the file.
fn read_same(input: &mut impl Read, entry: &Entry) -> Result<Tensor, DataError> {
    match entry.dtype.dtype() {
        Some(dtype) => read_converted(input, entry, dtype),
        None => Err(DataError::UnsupportedDType {
            format: FORMAT,
            dtype: entry.dtype.clone(),
            shape: entry.shape.clone(),
        }),
    }
}

/// Reads a tensor and converts its elements to `dtype`.
fn read_converted(input: &mut impl Read, entry: &Entry, dtype: DType) -> Result<Tensor, DataError> {
    let claim = ArrayHeader {
        format: FORMAT,
        dtype: &entry.dtype,
        shape: &entry.shape,
        order: ByteOrder::Little,
        is_column_major: false,
    };
    with_element!(dtype, T => {
        Ok(Tensor::from_vec(&entry.shape, elements::read::<T>(input, &claim)?))
    })
}

fn in_file(path: &Path) -> impl Fn(DataError) -> DataError {
    move |fault| DataError::InFile {
        path: path.to_path_buf(),
        fault: Box::new(fault),
    }
}

/// Writes tensors that are in memory: created from data, or returned by [`Tensor::realize`]. The
/// file appears complete or not at all; an existing file is replaced.
///
/// # Errors
/// The error of an error node; [`Error::NotRealized`](crate::Error::NotRealized) if a tensor is not
/// in memory; [`DataError::InFile`] with [`DataError::Io`], [`DataError::OutOfMemory`], or
/// [`DataError::Unwritable`] if two tensors have the same name or a tensor has the name
/// `__metadata__`.
#[track_caller]
pub fn write(path: impl AsRef<Path>, tensors: &[(&str, &Tensor)]) -> Result<()> {
    write_with_metadata(path, tensors, &BTreeMap::new())
}

/// Writes tensors that are in memory, and texts, which [`Reader::metadata`] returns.
///
/// # Errors
/// As [`write()`]; also [`DataError::Unwritable`] if names and texts exceed 100 MB.
#[track_caller]
pub fn write_with_metadata(
    path: impl AsRef<Path>,
    tensors: &[(&str, &Tensor)],
    metadata: &BTreeMap<String, String>,
) -> Result<()> {
    let path = path.as_ref();
    let in_file = in_file(path);
    let io = |error| in_file(DataError::io(FORMAT)(error));
    let mut file = NewFile::next_to(path).map_err(io)?;
    write_all(&mut file, tensors, metadata).map_err(|error| match error {
        crate::Error::Data(fault) => in_file(fault).into(),
        other => other,
    })?;
    Ok(file.place(path).map_err(io)?)
}

/// Writes tensors that are in memory to a byte stream.
///
/// # Errors
/// As [`write()`], without the path.
#[track_caller]
pub fn write_to(out: impl Write, tensors: &[(&str, &Tensor)]) -> Result<()> {
    write_all(out, tensors, &BTreeMap::new())
}

#[track_caller]
fn write_all(
    mut out: impl Write,
    tensors: &[(&str, &Tensor)],
    metadata: &BTreeMap<String, String>,
) -> Result<()> {
    let operation = "safetensors::write";
    let mut described = Vec::with_capacity(tensors.len());
    for &(name, tensor) in tensors {
        let (dtype, shape) = (tensor.dtype()?, tensor.shape()?);
        // The header adds up the bytes of all tensors, which are sure to fit if they are in memory.
        tensor.realized(operation)?;
        described.push(((name, dtype, shape), tensor));
    }
    // Sort by decreasing element size, so that each tensor begins at a multiple of its element
    // size.
    described.sort_by_key(|&((name, dtype, _), _)| (Reverse(dtype.bytes()), name));
    let header = header::written(described.iter().map(|(tensor, _)| *tensor), metadata)?;
    out.write_all(&header).map_err(DataError::io(FORMAT))?;
    for ((_, dtype, _), tensor) in described {
        with_element!(dtype, T => elements::write::<T>(operation, FORMAT, &mut out, tensor))?;
    }
    Ok(())
}
