//! Rows in one file per rank: any index and any files are an array or an error.
//!
//! Method: the input chooses shapes, types and numbers of the index and of two files. An array that
//! is read must have the row at the place that the index names.

use std::fs::File;

use cluster::read_rows;
use tensor_core::data::npy;
use tensor_core::{DType, Tensor};

use crate::elements::numbers;
use crate::source::Source;
use crate::temporary::Temporary;

/// Largest size of an axis.
const MAX_SIDE: usize = 5;

/// Checks the reader of rows.
///
/// # Panics
/// On a fault of the code under test.
pub fn run(bytes: &[u8]) {
    let mut source = Source::new(bytes);
    let folder = Temporary::folder("rows");
    let write = |name: &str, tensor: &Tensor| {
        let file = File::create(folder.path().join(name)).expect("the folder is writable");
        npy::write_to(file, tensor).expect("the disk is not full");
    };
    let index = index(&mut source);
    write("x.index.npy", &index);
    let n_files = source.below(3);
    let width = source.below(MAX_SIDE);
    let files: Vec<Tensor> = (0..n_files).map(|_| file(&mut source, width)).collect();
    for (number, file) in files.iter().enumerate() {
        write(&format!("x.{number}.npy"), file);
    }
    match read_rows(folder.path().join("x.npy")) {
        Ok(rows) => check(&rows, &index, &files),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Creates an index, mostly pairs of a file and a place.
fn index(source: &mut Source<'_>) -> Tensor {
    let n_rows = source.below(MAX_SIDE + 1);
    let shape = match source.byte() {
        0..16 => vec![n_rows],
        16..32 => vec![n_rows, 3],
        32..48 => vec![n_rows, 2, 1],
        _ => vec![n_rows, 2],
    };
    let len = shape.iter().product();
    let number = |_| match source.byte() {
        byte @ 0..240 => u32::from(byte) % 3,
        byte @ 240..250 => u32::from(byte),
        _ => u32::MAX - u32::from(source.byte()),
    };
    let numbers: Vec<u32> = (0..len).map(number).collect();
    let dtype = match source.byte() {
        0..16 => DType::F32,
        16..32 => DType::I32,
        _ => DType::U32,
    };
    in_memory(&Tensor::from_vec(&shape, numbers).cast(dtype))
}

/// Creates a file of rows, mostly of a given width.
fn file(source: &mut Source<'_>, width: usize) -> Tensor {
    let n_rows = source.below(MAX_SIDE);
    let shape = match source.byte() {
        0..16 => vec![],
        16..32 => vec![n_rows],
        32..48 => vec![n_rows, width, 1],
        48..64 => vec![n_rows, width + 1],
        _ => vec![n_rows, width],
    };
    let len = shape.iter().product();
    let numbers = (0..len).map(|_| f32::from(source.byte())).collect();
    let dtype = match source.byte() {
        0..16 => DType::I32,
        _ => DType::F32,
    };
    in_memory(&Tensor::from_vec(&shape, numbers).cast(dtype))
}

fn in_memory(tensor: &Tensor) -> Tensor {
    let realized = tensor.realize(&tensor_core::Host::new());
    realized.expect("a conversion of small numbers has a value")
}

fn check(rows: &Tensor, index: &Tensor, files: &[Tensor]) {
    let shape = rows.shape().expect("the rows are in memory");
    let index = numbers(index);
    let pairs = index.as_chunks::<2>().0;
    assert_eq!(shape[0], pairs.len());
    let len: usize = shape[1..].iter().product();
    let contents: Vec<Vec<f64>> = files.iter().map(numbers).collect();
    let rows = numbers(rows);
    for (number, &[file, place]) in pairs.iter().enumerate() {
        // Numbers of an index that was accepted are small.
        let contents = &contents[small(file)];
        let expected = &contents[small(place) * len..][..len];
        assert_eq!(&rows[number * len..][..len], expected);
    }
}

fn small(number: f64) -> usize {
    let found = (0..1000_u16).find(|&small| f64::from(small) == number);
    found
        .expect("the index names a file and a row that exist")
        .into()
}
