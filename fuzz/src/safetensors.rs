//! Safetensors files: any bytes are named tensors or an error.
//!
//! Method: the first byte is the length of a chunk, the second a type to convert to, the rest is
//! the file. Reading at once, in chunks and tensor by tensor must agree. Tensors must be the same
//! after they are written and read again, and a conversion while reading must not change a value.

use std::collections::BTreeMap;
use std::io::Cursor;

use tensor_core::Tensor;
use tensor_core::data::safetensors::{self, Reader};

use crate::chunks::Chunks;
use crate::elements::{TYPES, assert_same_numbers};

/// Checks the readers and the writer of safetensors files.
///
/// # Panics
/// On a fault of the code under test.
pub fn run(bytes: &[u8]) {
    let &[len, dtype, ref file @ ..] = bytes else {
        return;
    };
    let whole = safetensors::read_from(file).map_err(|error| error.to_string());
    let chunks = Chunks {
        bytes: file,
        len: len.into(),
    };
    let in_chunks = safetensors::read_from(chunks).map_err(|error| error.to_string());
    assert_eq!(
        in_chunks.as_ref().map(write),
        whole.as_ref().map(write),
        "reading in chunks differs"
    );
    let reader = Reader::new(Cursor::new(file));
    if let Ok(tensors) = &whole {
        let written = write(tensors);
        let again = safetensors::read_from(&written[..]).expect("a written file can be read");
        assert_eq!(write(&again), written);
        assert!(reader.is_ok(), "{reader:?}");
    }
    let Ok(mut reader) = reader else {
        return;
    };
    let dtype = TYPES[usize::from(dtype) % TYPES.len()];
    let mut n_read = 0;
    for entry in reader.entries().to_vec() {
        let read = reader.read(&entry.name);
        n_read += usize::from(read.is_ok());
        if let (Ok(tensors), Ok(tensor)) = (&whole, &read) {
            assert_same_numbers(tensor, &tensors[&entry.name]);
        }
        let closest = entry.dtype.closest();
        let closest = closest.and_then(|dtype| reader.read_as(&entry.name, dtype).ok());
        if let (Ok(converted), Some(closest)) = (reader.read_as(&entry.name, dtype), closest) {
            assert_eq!(converted.dtype().ok(), Some(dtype));
            assert_same_numbers(&converted, &closest);
        }
    }
    let is_complete = n_read == reader.entries().len();
    assert_eq!(is_complete, whole.is_ok(), "{n_read} tensors, {whole:?}");
}

fn write(tensors: &BTreeMap<String, Tensor>) -> Vec<u8> {
    let named: Vec<_> = tensors
        .iter()
        .map(|(name, tensor)| (name.as_str(), tensor))
        .collect();
    let mut file = vec![];
    safetensors::write_to(&mut file, &named).expect("tensors that were read can be written");
    file
}
