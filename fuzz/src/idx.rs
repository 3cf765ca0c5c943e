//! IDX files: any bytes are a file or an error, read at once or in batches of any size.
//!
//! Method: the first byte is the number of rows of a batch, the rest is the file. Both ways must
//! return the same elements or an error each, and the elements must be the same after they are
//! written and read again.

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
    let in_batches = elements_in_batches(file, usize::from(batch).max(1));
    assert_eq!(
        whole.is_ok(),
        in_batches.is_ok(),
        "{whole:?}, {in_batches:?}"
    );
    let (Ok(array), Ok(in_batches)) = (whole, in_batches) else {
        return;
    };
    let n_rows = array.shape().first().copied().unwrap_or(1);
    assert_eq!((n_rows, elements(&array)), in_batches);
    let written = write(&array);
    let again = Reader::new(&written[..]).and_then(Reader::read_all);
    let again = again.expect("a written file can be read");
    // Files are compared, because a NaN is not equal to itself.
    assert_eq!(write(&again), written);
}

/// Returns the number of rows and the bytes of the elements of a file that is read in batches.
fn elements_in_batches(file: &[u8], max_rows: usize) -> Result<(usize, Vec<u8>), IdxError> {
    let mut reader = Reader::new(file)?;
    let (mut n_rows, mut all) = (0, vec![]);
    while let Some(batch) = reader.read_rows(max_rows)? {
        n_rows += batch.shape().first().copied().unwrap_or(1);
        all.extend(elements(&batch));
    }
    Ok((n_rows, all))
}

/// Returns the bytes of the elements: those of a written file after its header, which has a word
/// for the type and a word for each axis.
fn elements(array: &IdxArray) -> Vec<u8> {
    write(array).split_off(4 * (1 + array.shape().len()))
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
