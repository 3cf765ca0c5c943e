//! IDX files: any bytes are a file or an error, read at once or in batches of any size.
//!
//! Method: the first byte is the number of rows of a batch, the rest is the file. Both ways must
//! agree, and the elements must be the same after they are written and read again.

use tensor_core::data::idx::{self, IdxArray, IdxError, Reader};

/// Checks the reader and the writer of IDX files.
///
/// # Panics
/// On a fault of the code under test.
pub fn run(bytes: &[u8]) {
    let Some((&batch, file)) = bytes.split_first() else {
        return;
    };
    let whole = Reader::new(file).and_then(Reader::read_all);
    let n_rows = rows_in_batches(file, usize::from(batch).max(1));
    assert_eq!(whole.is_ok(), n_rows.is_ok(), "{whole:?}, {n_rows:?}");
    let (Ok(array), Ok(n_rows)) = (whole, n_rows) else {
        return;
    };
    assert_eq!(array.shape().first().copied().unwrap_or(1), n_rows);
    let written = write(&array);
    let again = Reader::new(&written[..]).and_then(Reader::read_all);
    let again = again.expect("a written file can be read");
    // Files are compared, because a NaN is not equal to itself.
    assert_eq!(write(&again), written);
}

fn rows_in_batches(file: &[u8], max_rows: usize) -> Result<usize, IdxError> {
    let mut reader = Reader::new(file)?;
    let mut n_rows = 0;
    while let Some(batch) = reader.read_rows(max_rows)? {
        n_rows += batch.shape().first().copied().unwrap_or(1);
    }
    Ok(n_rows)
}

fn write(array: &IdxArray) -> Vec<u8> {
    let mut file = Vec::new();
    match array {
        IdxArray::U8(array) => idx::write(&mut file, array),
        IdxArray::I8(array) => idx::write(&mut file, array),
        IdxArray::I16(array) => idx::write(&mut file, array),
        IdxArray::I32(array) => idx::write(&mut file, array),
        IdxArray::F32(array) => idx::write(&mut file, array),
        IdxArray::F64(array) => idx::write(&mut file, array),
    }
    .expect("an array that was read has a header");
    file
}
