//! The errors of IDX files.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// An error in reading or writing an IDX file.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum IdxError {
    /// The first two bytes are not zero.
    #[error("idx: the file does not begin with two zero bytes (found {found:02x?})")]
    BadMagic {
        /// The first two bytes, after decompression.
        found: [u8; 2],
    },
    /// The third byte is not the code of a type.
    #[error("idx: unknown type code 0x{code:02x}")]
    UnknownDType {
        /// The third byte.
        code: u8,
    },
    /// The number of elements in the header exceeds the address space.
    #[error(
        "idx: shape {shape:?} with elements of {element_bytes} bytes exceeds the address space"
    )]
    TooLarge {
        /// The shape in the header.
        shape: Vec<usize>,
        /// The size of one element, in bytes.
        element_bytes: usize,
    },
    /// There is not enough memory for the elements.
    #[error("idx: out of memory for {bytes} bytes")]
    OutOfMemory {
        /// The size of the elements that were read and of the next chunk, in bytes.
        bytes: usize,
    },
    /// The file ends too early.
    #[error("idx: the file ends after {actual_bytes} of {expected_bytes} bytes of {part}")]
    Truncated {
        /// The incomplete part: `header` or `elements`.
        part: &'static str,
        /// The expected size of the part, in bytes.
        expected_bytes: u64,
        /// The actual size of the part, in bytes.
        actual_bytes: u64,
    },
    /// The file has additional bytes after the last element.
    #[error("idx: trailing bytes after the {expected_bytes} bytes of elements")]
    TrailingBytes {
        /// The size of the elements, in bytes.
        expected_bytes: u64,
    },
    /// The compressed stream is corrupt or truncated.
    #[error("idx: the gzip stream is corrupt: {source}")]
    CorruptGzip {
        /// The error of the decompressor.
        source: Arc<io::Error>,
    },
    /// The operating system returned an error.
    #[error("idx: {source}")]
    Io {
        /// The error of the operating system.
        source: Arc<io::Error>,
    },
    /// An error with the path of the file.
    #[error("{fault}, in {}", path.display())]
    InFile {
        /// The path as passed by the caller.
        path: PathBuf,
        /// The error.
        fault: Box<Self>,
    },
    /// The shape cannot be described in a header of the format.
    #[error("idx: shape {shape:?} does not fit the header (limit: 255 sizes of 32 bits each)")]
    Unwritable {
        /// The shape of the array.
        shape: Vec<usize>,
    },
}

impl From<io::Error> for IdxError {
    fn from(source: io::Error) -> Self {
        Self::Io {
            source: Arc::new(source),
        }
    }
}
