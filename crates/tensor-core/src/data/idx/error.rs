//! What can be wrong with an IDX file.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Why a file could not be read or written.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum IdxError {
    /// The first two bytes are not zero.
    #[error("idx: the file begins with {found:02x?}, not with two zero bytes")]
    BadMagic {
        /// The first two bytes, after decompression.
        found: [u8; 2],
    },
    /// The third byte names no type.
    #[error("idx: type code 0x{code:02x} is unknown")]
    UnknownDType {
        /// The third byte.
        code: u8,
    },
    /// The header claims more elements than a machine can address.
    #[error(
        "idx: shape {shape:?} with elements of {element_bytes} bytes exceeds the address space"
    )]
    TooLarge {
        /// The shape in the header.
        shape: Vec<usize>,
        /// The size of one element, in bytes.
        element_bytes: usize,
    },
    /// The file ends early.
    #[error(
        "idx: the file should have {expected_bytes} bytes of {part}, it ends after {actual_bytes}"
    )]
    Truncated {
        /// What is cut off: the header or the elements.
        part: &'static str,
        /// How many bytes that part should have.
        expected_bytes: u64,
        /// How many it has.
        actual_bytes: u64,
    },
    /// The file goes on after its last element.
    #[error("idx: the file goes on after the {expected_bytes} bytes of its elements")]
    TrailingBytes {
        /// How many bytes the elements take.
        expected_bytes: u64,
    },
    /// The compressed stream is damaged or cut off.
    #[error("idx: the gzip stream is corrupt: {source}")]
    CorruptGzip {
        /// What the decompressor found.
        source: Arc<io::Error>,
    },
    /// The operating system could not read or write.
    #[error("idx: {source}")]
    Io {
        /// What it said.
        source: Arc<io::Error>,
    },
    /// One of the faults above, in a file that was opened by its path.
    #[error("{fault}, in {}", path.display())]
    InFile {
        /// The path as given.
        path: PathBuf,
        /// What is wrong with the file.
        fault: Box<Self>,
    },
    /// The format has no header for this shape.
    #[error("idx: shape {shape:?} does not fit a header of up to 255 sizes of 32 bits each")]
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
