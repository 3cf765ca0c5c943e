//! What can be wrong with an NPY or safetensors file.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::file_type::FileType;
use crate::dtype::DType;
use crate::shape::MAX_RANK;

/// Why a file could not be read or written.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The header is not what the format says.
    #[error("{format}: {why}")]
    BadHeader {
        /// The format: `npy` or `safetensors`.
        format: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// Tensors do not hold elements of this type.
    #[error(
        "{format}: elements of type {dtype} and shape {shape:?} are not supported{}",
        conversion(dtype)
    )]
    UnsupportedDType {
        /// The format.
        format: &'static str,
        /// The type in the file.
        dtype: FileType,
        /// The shape in the header.
        shape: Vec<usize>,
    },
    /// An element has a value that the wanted type lacks.
    #[error("{format}: element {index:?} does not fit {to} (value {value} of {from})")]
    Unrepresentable {
        /// The format.
        format: &'static str,
        /// The index of the first such element.
        index: Vec<usize>,
        /// The value.
        value: String,
        /// The type in the file.
        from: FileType,
        /// The wanted type.
        to: DType,
    },
    /// An array has more axes than a tensor.
    #[error("{format}: the array has too many axes (rank {rank}; limit {limit})")]
    RankTooLarge {
        /// The format.
        format: &'static str,
        /// The number of axes in the header.
        rank: usize,
        /// The largest number of axes.
        limit: usize,
    },
    /// There is no memory for the elements.
    #[error("{format}: no memory for {bytes} bytes")]
    OutOfMemory {
        /// The format.
        format: &'static str,
        /// The size of the allocation that failed.
        bytes: usize,
    },
    /// The file has no tensor of this name.
    #[error("{format}: no tensor {name:?} (the file has {n_tensors} tensors)")]
    NoSuchTensor {
        /// The format.
        format: &'static str,
        /// The wanted name.
        name: String,
        /// The number of tensors in the file.
        n_tensors: usize,
    },
    /// The header claims more elements than a machine can address.
    #[error("{format}: {dtype} elements of shape {shape:?} exceed the address space")]
    TooLarge {
        /// The format.
        format: &'static str,
        /// The type in the header.
        dtype: FileType,
        /// The shape in the header.
        shape: Vec<usize>,
    },
    /// The file ends before its last element.
    #[error(
        "{format}: {dtype} elements of shape {shape:?} take {expected_bytes} bytes, the file ends after {actual_bytes}"
    )]
    Truncated {
        /// The format.
        format: &'static str,
        /// The type in the header.
        dtype: FileType,
        /// The shape in the header.
        shape: Vec<usize>,
        /// How many bytes the elements should have.
        expected_bytes: u64,
        /// How many there are.
        actual_bytes: u64,
    },
    /// The file goes on after its last element.
    #[error("{format}: the file goes on after its last element")]
    TrailingBytes {
        /// The format.
        format: &'static str,
    },
    /// A byte that should be a `bool` is neither 0 nor 1.
    #[error("{format}: byte {byte} stands for a bool, in elements of shape {shape:?}")]
    NotABool {
        /// The format.
        format: &'static str,
        /// The byte.
        byte: u8,
        /// The shape in the header.
        shape: Vec<usize>,
    },
    /// The format has no header for what is to be written.
    #[error("{format}: {why}")]
    Unwritable {
        /// The format.
        format: &'static str,
        /// What does not fit.
        why: String,
    },
    /// The operating system could not read or write.
    #[error("{format}: {source}")]
    Io {
        /// The format.
        format: &'static str,
        /// What it said.
        source: Arc<io::Error>,
    },
    /// One of the faults above, in one of several tensors.
    #[error("{fault}, in tensor {name:?}")]
    InTensor {
        /// The name of the tensor.
        name: String,
        /// What is wrong with it.
        fault: Box<Self>,
    },
    /// One of the faults above, in a file that was given by its path.
    #[error("{fault}, in {}", path.display())]
    InFile {
        /// The path as given.
        path: PathBuf,
        /// What is wrong with the file.
        fault: Box<Self>,
    },
}

/// The conversion that makes a type readable.
fn conversion(dtype: &FileType) -> String {
    match dtype.closest() {
        Some(closest) => format!("; `read_as` converts them to {closest}"),
        None => String::new(),
    }
}

impl DataError {
    /// Checks the number of axes in a header.
    pub(super) fn check_rank(format: &'static str, rank: usize) -> Result<(), Self> {
        if rank <= MAX_RANK {
            return Ok(());
        }
        let limit = MAX_RANK;
        Err(Self::RankTooLarge {
            format,
            rank,
            limit,
        })
    }

    pub(super) fn io(format: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io {
            format,
            source: Arc::new(source),
        }
    }

    /// The fault itself, without the file and the tensor that it was found in.
    #[must_use]
    pub fn root(&self) -> &Self {
        match self {
            Self::InFile { fault, .. } | Self::InTensor { fault, .. } => fault.root(),
            fault => fault,
        }
    }
}
