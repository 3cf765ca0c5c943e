//! Safetensors files: named tensors in one file.
//!
//! Role: tensors of every type here, in and out. The text that a file may carry beside them is checked and dropped.
//! Layout: the length of the header as a little-endian u64, the header, the elements of one tensor after the other. The
//! header is JSON: for each name a type, a shape, and where its elements begin and end.
//! Method: the header must account for every byte that follows; then the tensors are read one by one. The JSON is read
//! here by hand: it is one object of objects. Tests exchange files with the crate of the format's authors, but nothing
//! else depends on it: it adds up lengths that may overflow, and with its JSON library in the graph a literal beside a
//! float in a user's `assert_eq!` no longer has one type to be.
//! Source: the format's description in the repository huggingface/safetensors.
//! Limits: no 8-, 16- and 64-bit integers, no bfloat16, no floats of 8 bits and less, no complex numbers.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::Path;

use super::elements::{self, ByteOrder};
use super::error::DataError;
use super::file::NewFile;
use crate::dtype::with_element;
use crate::error::Result;
use crate::tensor::Tensor;
use header::Entry;

mod header;

const FORMAT: &str = "safetensors";

/// Reads all tensors of a file into host memory.
///
/// # Errors
/// [`DataError::InFile`] with the path; its fault is [`DataError::BadHeader`], [`DataError::TrailingBytes`],
/// [`DataError::Io`], or, under [`DataError::InTensor`] with the name, [`DataError::UnsupportedDType`],
/// [`DataError::TooLarge`], [`DataError::Truncated`] or [`DataError::NotABool`].
///
/// # Examples
/// ```
/// use tensor_core::data::safetensors;
/// use tensor_core::ndarray::array;
/// use tensor_core::{Host, Tensor};
/// let path = std::env::temp_dir().join(format!("tensor-core-doc-{}.safetensors", std::process::id()));
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
        .map_err(|fault| DataError::InFile {
            path: path.to_path_buf(),
            fault: Box::new(fault),
        })
}

/// Reads all tensors from anything that gives the bytes of a file.
///
/// # Errors
/// As [`read`], without the path.
pub fn read_from(mut input: impl Read) -> Result<BTreeMap<String, Tensor>, DataError> {
    let mut tensors = BTreeMap::new();
    for entry in header::read(&mut input)? {
        let tensor = read_tensor(&mut input, &entry).map_err(|fault| entry.fault(fault))?;
        tensors.insert(entry.name, tensor);
    }
    elements::check_end(FORMAT, &mut input)?;
    Ok(tensors)
}

fn read_tensor(input: &mut impl Read, entry: &Entry) -> Result<Tensor, DataError> {
    with_element!(entry.dtype, T => {
        let elements = elements::read::<T>(FORMAT, input, &entry.shape, ByteOrder::Little)?;
        Ok(Tensor::from_vec(&entry.shape, elements))
    })
}

/// Writes tensors that are in memory: made from data, or by [`Tensor::realize`]. The file appears whole or not at all;
/// one that is there already is replaced.
///
/// # Errors
/// What a tensor stands for, if that is an error; [`Error::NotRealized`](crate::Error::NotRealized) if one would have to
/// be computed; [`DataError::InFile`] around [`DataError::Io`], or [`DataError::Unwritable`] if two have one name
/// or one the name `__metadata__`.
#[track_caller]
pub fn write(path: impl AsRef<Path>, tensors: &[(&str, &Tensor)]) -> Result<()> {
    let path = path.as_ref();
    let in_file = |fault: DataError| DataError::InFile {
        path: path.to_path_buf(),
        fault: Box::new(fault),
    };
    let io = |error| in_file(DataError::io(FORMAT)(error));
    let mut file = NewFile::beside(path).map_err(io)?;
    write_to(&mut file, tensors).map_err(|error| match error {
        crate::Error::Data(fault) => in_file(fault).into(),
        other => other,
    })?;
    Ok(file.place(path).map_err(io)?)
}

/// Writes tensors that are in memory to anything that takes bytes.
///
/// # Errors
/// As [`write()`], without the path.
#[track_caller]
pub fn write_to(mut out: impl Write, tensors: &[(&str, &Tensor)]) -> Result<()> {
    let mut entries = Vec::with_capacity(tensors.len());
    for &(name, tensor) in tensors {
        let (dtype, shape) = (tensor.dtype()?, tensor.shape()?.to_vec());
        entries.push((
            Entry {
                name: name.to_owned(),
                dtype,
                shape,
            },
            tensor,
        ));
    }
    // Wide types first, so that each tensor begins at a multiple of its element.
    entries.sort_by(|(a, _), (b, _)| {
        (Reverse(a.dtype.bytes()), &a.name).cmp(&(Reverse(b.dtype.bytes()), &b.name))
    });
    let header = header::written(entries.iter().map(|(entry, _)| entry))?;
    out.write_all(&header).map_err(DataError::io(FORMAT))?;
    for (entry, tensor) in entries {
        let written = with_element!(entry.dtype, T => elements::write::<T>("safetensors::write", &mut out, tensor))?;
        written.map_err(DataError::io(FORMAT))?;
    }
    Ok(())
}
