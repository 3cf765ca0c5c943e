//! Data files: IDX, NPY and safetensors.
//!
//! Role: turns files that nobody vouches for into arrays and tensors, or into errors that say what is wrong, and
//! writes tensors so that others read them.
//! Method: a header is read and checked first; then elements come in as the file yields them, so memory grows with what
//! was read and never with what the header claims. A file is written beside its place and then moved there, so nobody
//! sees half of one.

pub use error::DataError;
pub use file_type::FileType;

mod elements;
mod error;
mod file;
mod file_type;
pub mod idx;
pub mod npy;
pub mod safetensors;
mod scan;
