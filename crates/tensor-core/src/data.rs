//! Data files: IDX, NPY and safetensors.
//!
//! Role: reads untrusted files into arrays and tensors, or returns errors that describe the
//! problem, and writes tensors in formats that other programs read.
//! Method: the header is read and checked first. Then the elements are read in chunks, so memory
//! grows with the bytes that were read and not with the size that the header claims. A file is
//! written under a temporary name in the same folder and then renamed, so that no reader sees a
//! partial file.

pub use crate::error::DataError;
pub use crate::file_type::FileType;

mod elements;
mod file;
pub mod idx;
pub mod npy;
pub mod safetensors;
mod scan;
