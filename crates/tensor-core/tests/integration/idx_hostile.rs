//! Malformed and well-formed IDX files.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use std::io::{Read, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use ndarray::{Array, ArrayD, IxDyn, arr0, array};
use proptest::prelude::*;
use tensor_core::Error;
use tensor_core::data::idx::{self, DType, IdxArray, IdxError, Reader};
use tensor_core::ndarray;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn read(bytes: &[u8]) -> Result<IdxArray, IdxError> {
    Reader::new(bytes)?.read_all()
}

fn small_file() -> Vec<u8> {
    let mut file = Vec::new();
    idx::write(&mut file, &array![[1_u8, 2, 3], [4, 5, 6]]).unwrap();
    file
}

/// Returns a header with these sizes and no elements.
fn header(code: u8, sizes: &[u32]) -> Vec<u8> {
    let mut file = vec![0, 0, code, u8::try_from(sizes.len()).unwrap()];
    sizes
        .iter()
        .for_each(|size| file.extend(size.to_be_bytes()));
    file
}

/// A reader that yields one byte at a time, like a slow connection.
struct Dripping<'a>(&'a [u8]);

impl Read for Dripping<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let n = out.len().min(1);
        self.0.read(&mut out[..n])
    }
}

/// A reader that fails like a broken disk.
struct Broken;

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        Err(std::io::Error::other("the disk is gone"))
    }
}

#[test]
fn the_bytes_of_a_file_are_those_of_the_format() {
    assert_eq!(
        small_file(),
        [0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6]
    );
    let mut file = header(0x0c, &[2]);
    file.extend([0xff, 0xff, 0xff, 0xfe, 0x01, 0x02, 0x03, 0x04]);
    assert_eq!(
        read(&file).unwrap(),
        IdxArray::I32(array![-2, 0x0102_0304].into_dyn())
    );
    let mut file = header(0x0d, &[1]);
    file.extend([0x3f, 0xc0, 0, 0]);
    assert_eq!(read(&file).unwrap(), IdxArray::F32(array![1.5].into_dyn()));
}

#[test]
fn every_type_survives_a_round_trip_plain_and_gzipped() {
    let check = |file: Vec<u8>, expected: IdxArray| {
        assert_eq!(read(&file).unwrap(), expected);
        assert_eq!(read(&gzip(&file)).unwrap(), expected);
        assert_eq!(
            Reader::new(Dripping(&gzip(&file)))
                .unwrap()
                .read_all()
                .unwrap(),
            expected
        );
        assert_eq!(expected.dtype().code(), file[2]);
    };
    macro_rules! round_trip {
        ($variant:ident, $values:expr) => {{
            let array = Array::from_vec($values)
                .into_shape_with_order((1, 3, 1))
                .unwrap();
            let mut file = Vec::new();
            idx::write(&mut file, &array).unwrap();
            check(file, IdxArray::$variant(array.into_dyn()));
        }};
    }
    round_trip!(U8, vec![0, 7, u8::MAX]);
    round_trip!(I8, vec![i8::MIN, 0, i8::MAX]);
    round_trip!(I16, vec![i16::MIN, 0, i16::MAX]);
    round_trip!(I32, vec![i32::MIN, 0, i32::MAX]);
    round_trip!(F32, vec![f32::MIN, -0.0, f32::INFINITY]);
    round_trip!(F64, vec![f64::MIN, f64::MIN_POSITIVE, f64::NEG_INFINITY]);
}

#[test]
fn scalars_and_empty_arrays_are_files_too() {
    let mut scalar = Vec::new();
    idx::write(&mut scalar, &arr0(2.5_f64)).unwrap();
    assert_eq!(read(&scalar).unwrap(), IdxArray::F64(arr0(2.5).into_dyn()));
    let mut reader = Reader::new(&scalar[..]).unwrap();
    assert_eq!(reader.read_rows(9).unwrap().unwrap().shape(), [0_usize; 0]);
    assert_eq!(reader.read_rows(9).unwrap(), None);
    let empty = ArrayD::<i16>::zeros(IxDyn(&[0, 28, 28]));
    let mut file = Vec::new();
    idx::write(&mut file, &empty).unwrap();
    assert_eq!(read(&file).unwrap(), IdxArray::I16(empty));
    assert_eq!(Reader::new(&file[..]).unwrap().read_rows(1).unwrap(), None);
    let hollow = header(0x08, &[u32::MAX, 0]);
    let mut reader = Reader::new(&hollow[..]).unwrap();
    assert_eq!(
        reader.read_rows(1).unwrap().unwrap().shape(),
        [u32::MAX as usize, 0]
    );
    assert_eq!(reader.read_rows(1).unwrap(), None);
}

#[test]
fn rows_come_in_batches_and_join_to_the_whole() {
    let whole = Array::from_iter((0..70_000).map(|i| i16::try_from(i % 30_011).unwrap()))
        .into_shape_with_order((700, 10, 10))
        .unwrap();
    let mut file = Vec::new();
    idx::write(&mut file, &whole).unwrap();
    let mut reader = Reader::new(Dripping(&file)).unwrap();
    assert_eq!(
        (reader.dtype(), reader.shape()),
        (DType::I16, &[700, 10, 10][..])
    );
    let mut rows = Vec::new();
    while let Some(IdxArray::I16(batch)) = reader.read_rows(64).unwrap() {
        assert_eq!(batch.shape()[1..], [10, 10]);
        rows.extend(batch);
    }
    assert!(rows.iter().eq(&whole));
}

#[test]
fn members_of_a_gzip_file_are_read_as_one() {
    let file = small_file();
    let (head, tail) = file.split_at(14);
    let members = [gzip(head), gzip(tail)].concat();
    assert_eq!(read(&members).unwrap(), read(&file).unwrap());
}

#[test]
fn bad_headers_are_named() {
    assert!(matches!(
        read(b"PK\x03\x04"),
        Err(IdxError::BadMagic {
            found: [0x50, 0x4b]
        })
    ));
    assert!(matches!(
        read(&header(0x0a, &[1])),
        Err(IdxError::UnknownDType { code: 0x0a })
    ));
    let cut = |n: usize| match read(&small_file()[..n]) {
        Err(IdxError::Truncated {
            part: "header",
            expected_bytes,
            actual_bytes,
        }) => (expected_bytes, actual_bytes),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        (cut(0), cut(1), cut(3), cut(4), cut(11)),
        ((4, 0), (4, 1), (4, 3), (12, 4), (12, 11))
    );
    let error = read(&header(0x0e, &[u32::MAX; 3])).unwrap_err();
    assert!(
        matches!(&error, IdxError::TooLarge { shape, element_bytes: 8 } if shape.len() == 3),
        "{error}"
    );
    assert!(matches!(
        read(&header(0x08, &[0, u32::MAX, u32::MAX, 9])),
        Err(IdxError::TooLarge { .. })
    ));
    assert!(matches!(
        read(&header(0x08, &[1; 255])),
        Err(IdxError::Truncated {
            part: "elements",
            ..
        })
    ));
}

#[test]
fn elements_that_lack_or_exceed_are_counted() {
    let file = small_file();
    let error = read(&file[..16]).unwrap_err();
    assert!(matches!(
        error,
        IdxError::Truncated {
            part: "elements",
            expected_bytes: 6,
            actual_bytes: 4
        }
    ));
    assert_eq!(
        error.to_string(),
        "idx: the file ends after 4 of 6 bytes of elements"
    );
    let longer = [&file[..], &[0]].concat();
    assert!(matches!(
        read(&longer),
        Err(IdxError::TrailingBytes { expected_bytes: 6 })
    ));
    assert!(matches!(
        read(&gzip(&longer)),
        Err(IdxError::TrailingBytes { .. })
    ));
    let mut reader = Reader::new(&longer[..]).unwrap();
    assert!(reader.read_rows(1).is_ok());
    assert!(matches!(
        reader.read_rows(1),
        Err(IdxError::TrailingBytes { .. })
    ));
    let empty_with_tail = [header(0x08, &[0]), vec![1]].concat();
    assert!(matches!(
        read(&empty_with_tail),
        Err(IdxError::TrailingBytes { expected_bytes: 0 })
    ));
}

#[test]
fn damaged_gzip_and_broken_disks_are_distinguished() {
    let packed = gzip(&small_file());
    for cut in 2..packed.len() {
        assert!(
            matches!(read(&packed[..cut]), Err(IdxError::CorruptGzip { .. })),
            "cut at {cut}"
        );
    }
    let mut flipped = packed.clone();
    let checksum = packed.len() - 6;
    flipped[checksum] ^= 1;
    assert!(matches!(read(&flipped), Err(IdxError::CorruptGzip { .. })));
    assert!(matches!(
        read(&[&packed[..], b"junk"].concat()),
        Err(IdxError::CorruptGzip { .. })
    ));
    assert!(matches!(Reader::new(Broken), Err(IdxError::Io { .. })));
    assert!(matches!(
        Reader::new(packed[..20].chain(Broken)).and_then(Reader::read_all),
        Err(IdxError::Io { .. })
    ));
}

#[test]
fn faults_of_a_file_name_its_path() {
    let missing = Error::from(idx::read("no/such/file").unwrap_err()).to_string();
    assert!(
        missing.starts_with("idx: ") && missing.ends_with(", in no/such/file"),
        "{missing}"
    );
    let name = format!("tensor-core-idx-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, b"PK\x03\x04").unwrap();
    let outcome = idx::read(&path);
    std::fs::remove_file(&path).unwrap();
    let Err(IdxError::InFile { path: named, fault }) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(named, path);
    assert!(matches!(*fault, IdxError::BadMagic { .. }), "{fault}");
}

#[test]
fn zero_rows_are_an_empty_batch_and_not_the_end() {
    let file = small_file();
    let mut reader = Reader::new(&file[..]).unwrap();
    for rows_before in 0..2 {
        let batch = reader.read_rows(0).unwrap().unwrap();
        assert_eq!(batch.shape(), [0, 3], "after {rows_before} rows");
        assert_eq!(reader.read_rows(1).unwrap().unwrap().shape(), [1, 3]);
    }
    assert_eq!(reader.read_rows(0).unwrap(), None);
    assert_eq!(reader.read_all().unwrap().shape(), [0, 3]);
    let mut scalar = Vec::new();
    idx::write(&mut scalar, &arr0(7_u8)).unwrap();
    let mut reader = Reader::new(&scalar[..]).unwrap();
    assert_eq!(reader.read_rows(0).unwrap().unwrap().shape(), [0]);
    assert_eq!(
        reader.read_rows(1).unwrap(),
        Some(IdxArray::U8(arr0(7).into_dyn()))
    );
    assert_eq!(reader.read_rows(0).unwrap(), None);
    assert_eq!(reader.read_all().unwrap().shape(), [0]);
}

#[test]
fn shapes_without_a_header_are_not_written() {
    let deep = ArrayD::<u8>::zeros(vec![1; 256]);
    assert!(matches!(
        idx::write(Vec::new(), &deep),
        Err(IdxError::Unwritable { .. })
    ));
    let one = arr0(1_u8);
    let long = one.broadcast(1 << 33).unwrap();
    assert!(matches!(
        idx::write(Vec::new(), &long),
        Err(IdxError::Unwritable { .. })
    ));
}

/// Reads the data both at once and in batches. Neither may panic, and both must agree.
fn read_both_ways(bytes: &[u8]) -> Result<(), TestCaseError> {
    let whole = read(bytes);
    let mut batches = Reader::new(bytes);
    let mut n_rows = 0;
    let end = loop {
        match batches.as_mut().map(|reader| reader.read_rows(3)) {
            Ok(Ok(Some(batch))) => n_rows += batch.shape().first().copied().unwrap_or(1),
            Ok(Ok(None)) => break true,
            Ok(Err(_)) | Err(_) => break false,
        }
    };
    prop_assert_eq!(whole.is_ok(), end);
    if let Ok(array) = whole {
        prop_assert_eq!(array.shape().first().copied().unwrap_or(1), n_rows);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        read_both_ways(&bytes)?;
        read_both_ways(&gzip(&bytes))?;
        read_both_ways(&[&[0x1f, 0x8b, 8, 0], &bytes[..]].concat())?;
    }

    #[test]
    fn arbitrary_headers_never_panic(
        code in 7_u8..16,
        sizes in prop::collection::vec(prop_oneof![0_u32..5, any::<u32>()], 0..5),
        elements in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        read_both_ways(&[header(code, &sizes), elements].concat())?;
    }

    #[test]
    fn mutated_files_never_panic(
        rows in 0_usize..5,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
        zipped in any::<bool>(),
    ) {
        let mut file = Vec::new();
        idx::write(&mut file, &ArrayD::<f32>::zeros(IxDyn(&[rows, 3]))).unwrap();
        let mut file = if zipped { gzip(&file) } else { file };
        for (at, byte) in changes {
            let at = at.index(file.len());
            file[at] = byte;
        }
        read_both_ways(&file)?;
        file.truncate(cut.index(file.len() + 1));
        read_both_ways(&file)?;
    }
}
