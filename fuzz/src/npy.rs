//! NPY files: any bytes are an array or an error.
//!
//! Method: the first byte is the length of a chunk, the second a type to convert to, the rest is
//! the file. Reading in chunks must return the same array or the same error as reading at once. An
//! array must be the same after it is written and read again, and a conversion while reading must
//! not change a value.

use tensor_core::Tensor;
use tensor_core::data::npy;

use crate::chunks::Chunks;
use crate::elements::{TYPES, assert_same_numbers};
use crate::temporary::Temporary;

/// Checks the reader and the writer of NPY files.
///
/// # Panics
/// On a fault of the code under test.
pub fn run(bytes: &[u8]) {
    let &[len, dtype, ref file @ ..] = bytes else {
        return;
    };
    let whole = npy::read_from(file).map_err(|error| error.to_string());
    let chunks = Chunks {
        bytes: file,
        len: len.into(),
    };
    let in_chunks = npy::read_from(chunks).map_err(|error| error.to_string());
    assert_eq!(
        in_chunks.as_ref().map(write),
        whole.as_ref().map(write),
        "reading in chunks differs"
    );
    let Ok(tensor) = whole else {
        return;
    };
    let written = write(&tensor);
    let again = npy::read_from(&written[..]).expect("a written file can be read");
    assert_eq!(write(&again), written);
    // Only files without further arrays can be read by path.
    let placed = Temporary::file("x.npy", file);
    let dtype = TYPES[usize::from(dtype) % TYPES.len()];
    if let Ok(converted) = npy::read_as(placed.path(), dtype) {
        assert_eq!(converted.dtype().ok(), Some(dtype));
        assert_same_numbers(&converted, &tensor);
    }
}

fn write(tensor: &Tensor) -> Vec<u8> {
    let mut file = vec![];
    npy::write_to(&mut file, tensor).expect("a tensor that was read can be written");
    file
}
