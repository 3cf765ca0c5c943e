//! The errors of NPY and safetensors files.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::dtype::DType;
use crate::file_type::FileType;

/// An error in reading or writing a file.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The header does not conform to the format.
    #[error("{format}: {why}")]
    BadHeader {
        /// The format: `npy` or `safetensors`.
        format: &'static str,
        /// A description of the problem.
        why: String,
    },
    /// The element type of the file is not supported by tensors.
    #[error(
        "{format}: elements of type {dtype} and shape {shape:?} are not supported{}",
        conversion(dtype)
    )]
    UnsupportedDType {
        /// The format: `npy` or `safetensors`.
        format: &'static str,
        /// The type in the file.
        dtype: FileType,
        /// The shape in the header.
        shape: Vec<usize>,
    },
    /// A value is not representable in the requested type.
    #[error("{format}: element {index:?} is not representable in {to} (value {value} of {from})")]
    Unrepresentable {
        /// The format: `npy` or `safetensors`.
        format: &'static str,
        /// The index of the first element with such a value.
        index: Vec<usize>,
        /// The value.
        value: String,
        /// The type in the file.
        from: FileType,
        /// The requested type.
        to: DType,
    },
    /// An array has more axes than a tensor supports.
    #[error("{format}: the array has too many axes (rank {rank}; limit {limit})")]
    RankTooLarge {
        /// The format: `npy` or `safetensors`.
        format: &'static str,
        /// The number of axes in the header.
        rank: usize,
        /// The largest supported number of axes.
        limit: usize,
    },
    /// There is not enough memory for the elements.
    #[error("{format}: out of memory for {bytes} bytes")]
    OutOfMemory {
        /// The format: `npy` or `safetensors`.
        format: &'static str,
        /// The size of the failed allocation, in bytes.
        bytes: usize,
    },
    /// The file has no tensor with the requested name.
    #[error("{format}: no tensor {name:?} (the file has {n_tensors} tensors)")]
    NoSuchTensor {
        /// The format: `npy` or `safetensors`.
        format: &'static str,
        /// The requested name.
        name: String,
        /// The number of tensors in the file.
        n_tensors: usize,
    },
    /// The number of elements in the header exceeds the address space.
    #[error("{format}: {dtype} elements of shape {shape:?} exceed the address space")]
    TooLarge {
        /// The format: `npy` or `safetensors`.
        format: &'static str,
        /// The type in the header.
        dtype: FileType,
        /// The shape in the header.
        shape: Vec<usize>,
    },
    /// The file ends before the last element.
    #[error(
        "{format}: {dtype} elements of shape {shape:?} need {expected_bytes} bytes, but the file ends after {actual_bytes}"
    )]
    Truncated {
        /// The format: `npy` or `safetensors`.
        format: &'static str,
        /// The type in the header.
        dtype: FileType,
        /// The shape in the header.
        shape: Vec<usize>,
        /// The size of all elements, in bytes.
        expected_bytes: u64,
        /// The number of element bytes in the file.
        actual_bytes: u64,
    },
    /// The file has additional bytes after the last element.
    #[error("{format}: trailing bytes after the last element")]
    TrailingBytes {
        /// The format: `npy` or `safetensors`.
        format: &'static str,
    },
    /// A byte of a `bool` array is neither 0 nor 1.
    #[error("{format}: invalid bool in elements of shape {shape:?} (byte {byte}; expected 0 or 1)")]
    NotABool {
        /// The format: `npy` or `safetensors`.
        format: &'static str,
        /// The invalid byte.
        byte: u8,
        /// The shape in the header.
        shape: Vec<usize>,
    },
    /// The tensors cannot be described in a header of the format.
    #[error("{format}: {why}")]
    Unwritable {
        /// The format: `npy` or `safetensors`.
        format: &'static str,
        /// A description of the problem.
        why: String,
    },
    /// The operating system returned an error.
    #[error("{format}: {source}")]
    Io {
        /// The format: `npy` or `safetensors`.
        format: &'static str,
        /// The error of the operating system.
        source: Arc<io::Error>,
    },
    /// An error in one tensor of the file, with the tensor's name.
    #[error("{fault}, in tensor {name:?}")]
    InTensor {
        /// The name of the tensor.
        name: String,
        /// The error.
        fault: Box<Self>,
    },
    /// An error with the path of the file.
    #[error("{fault}, in {}", path.display())]
    InFile {
        /// The path as passed by the caller.
        path: PathBuf,
        /// The error.
        fault: Box<Self>,
    },
}

/// Returns the part of the message that recommends a conversion; empty if no conversion from the
/// type exists.
fn conversion(dtype: &FileType) -> String {
    match dtype.closest() {
        Some(closest) => format!("; `read_as` converts them to {closest}"),
        None => String::new(),
    }
}

impl DataError {
    /// Returns a function that converts errors of the operating system.
    pub(crate) fn io(format: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io {
            format,
            source: Arc::new(source),
        }
    }

    /// Returns the error without the path and the name of the tensor.
    #[must_use]
    pub fn root(&self) -> &Self {
        match self {
            Self::InFile { fault, .. } | Self::InTensor { fault, .. } => fault.root(),
            fault => fault,
        }
    }
}
