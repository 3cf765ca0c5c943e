//! NPY and safetensors files: files from other programs, round trips of our own files, and
//! malformed files.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use ::safetensors::tensor::{Dtype, TensorView};
use half::f16;
use proptest::prelude::*;
use tensor_core::compare::{self, Tolerance, assert_close};
use tensor_core::data::safetensors::Reader;
use tensor_core::data::{DataError, FileType, npy, safetensors};
use tensor_core::ndarray::{ArrayD, array};
use tensor_core::{DType, Element, Error, Host, Tensor};

/// A temporary folder that is deleted on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tensor-core-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata/npy")
        .join(name)
}

/// Returns the elements of a tensor, which must be in memory.
fn host<T: Element>(tensor: &Tensor) -> ArrayD<T> {
    tensor.to_host().unwrap()
}

fn assert_holds<T: Element + compare::Element>(tensor: &Tensor, expected: &ArrayD<T>) {
    assert_close(host::<T>(tensor), expected, Tolerance::bits().allow_empty());
}

/// Returns two rows of floats that all float types can represent exactly, with values that reveal a
/// wrong byte order.
fn six() -> ArrayD<f32> {
    array![[1.5, -0.0, f32::INFINITY], [f32::NAN, 1.0 / 1024.0, -2.0]].into_dyn()
}

#[test]
fn files_of_numpy_are_read_in_every_type_byte_order_and_layout() {
    let read = |name: &str| npy::read(golden(name)).unwrap();
    let double = six().mapv(f64::from);
    for name in ["f64_column_major.npy", "f64_big_endian_column_major.npy"] {
        assert_holds(&read(name), &double);
    }
    for name in ["f32.npy", "f32_version_2.npy", "f32_version_3.npy"] {
        assert_holds(&read(name), &six());
    }
    let bits = host::<f16>(&read("f16.npy")).mapv(f16::to_bits);
    assert_close(
        bits,
        six().mapv(|x| f16::from_f32(x).to_bits()),
        Tolerance::exact(),
    );
    assert_holds(
        &read("i32_big_endian.npy"),
        &array![[[1], [-2]], [[3], [i32::MAX]], [[5], [i32::MIN]]].into_dyn(),
    );
    assert_holds(
        &read("u32_scalar.npy"),
        &ArrayD::from_elem(vec![], u32::MAX),
    );
    assert_holds(
        &read("bool_line.npy"),
        &array![true, false, true].into_dyn(),
    );
    assert_holds(&read("f32_empty.npy"), &ArrayD::<f32>::zeros(vec![2, 0, 3]));
}

#[test]
fn what_numpy_wrote_in_row_major_order_is_written_byte_for_byte() {
    for name in [
        "f32.npy",
        "f16.npy",
        "u32_scalar.npy",
        "bool_line.npy",
        "f32_empty.npy",
    ] {
        let expected = fs::read(golden(name)).unwrap();
        let mut actual = Vec::new();
        npy::write_to(&mut actual, &npy::read_from(&expected[..]).unwrap()).unwrap();
        assert_close(actual, expected, Tolerance::exact());
    }
}

#[test]
fn integers_of_other_widths_are_read_as_the_closest_type() {
    let read = |name: &str| npy::read(golden(name)).unwrap();
    assert_holds(&read("i64.npy"), &array![0_i32, 1, 2].into_dyn());
    assert_holds(
        &read("u8_column_major.npy"),
        &array![[0_u32, 1, 2], [127, 128, 255]].into_dyn(),
    );
    assert_holds(
        &read("i16_big_endian.npy"),
        &array![-32_768_i32, -1, 32_767].into_dyn(),
    );
    assert_holds(&read("u64.npy"), &array![0, u32::MAX].into_dyn());
    let pixels = npy::read_as(golden("u8_column_major.npy"), DType::F32).unwrap();
    assert_holds(
        &pixels,
        &array![[0.0_f32, 1.0, 2.0], [127.0, 128.0, 255.0]].into_dyn(),
    );
    let large = npy::read_as(golden("i64_large.npy"), DType::F64).unwrap();
    assert_holds(
        &large,
        &array![[1.0, -2_147_483_648.0], [2_147_483_647.0, 5e9]].into_dyn(),
    );
}

#[test]
fn an_integer_that_does_not_fit_is_named_with_its_index() {
    let error = npy::read(golden("i64_large.npy")).unwrap_err();
    assert!(
        matches!(error.root(), DataError::Unrepresentable { index, to: DType::I32, .. } if index == &[1, 1]),
        "{error}"
    );
    let message = "npy: element [1, 1] is not representable in i32 (value 5000000000 of i64), in ";
    assert!(error.to_string().starts_with(message), "{error}");
    let error = npy::read_as(golden("u8_column_major.npy"), DType::Bool).unwrap_err();
    let message = "npy: element [1, 0] is not representable in bool (value 127 of u8), in ";
    assert!(error.to_string().starts_with(message), "{error}");
}

#[test]
fn types_that_cannot_be_converted_are_rejected_by_name() {
    for name in ["<c8", "('a', '<f4'), ('b', '<i4')"] {
        let file = if name == "<c8" {
            "c64.npy"
        } else {
            "record.npy"
        };
        for error in [
            npy::read(golden(file)).unwrap_err(),
            npy::read_as(golden(file), DType::F32).unwrap_err(),
        ] {
            assert!(
                matches!(error.root(), DataError::UnsupportedDType { dtype: FileType::Other(dtype), shape, .. } if dtype == name && shape == &[2]),
                "{error}"
            );
            assert!(error.to_string().contains(file), "{error}");
        }
    }
}

/// Returns a tensor of each type and of several shapes; one is longer than a chunk.
fn all_sorts() -> BTreeMap<String, Tensor> {
    let floats: Vec<f32> = six().into_iter().collect();
    let mut tensors = BTreeMap::new();
    let mut add = |name: &str, tensor: Tensor| tensors.insert(name.to_owned(), tensor);
    add("f32", Tensor::from_vec(&[3, 2], floats.clone()));
    add(
        "f64",
        Tensor::from_vec(&[1, 6, 1], floats.iter().copied().map(f64::from).collect()),
    );
    add(
        "f16",
        Tensor::from_vec(&[6], floats.iter().copied().map(f16::from_f32).collect()),
    );
    add(
        "i32",
        Tensor::from_vec(&[2, 2], vec![i32::MIN, -1, 0, i32::MAX]),
    );
    add(
        "u32 \"long\"\n",
        Tensor::from_vec(&[7, 5003], (0..7 * 5003_u32).collect()),
    );
    add("bool", Tensor::from_vec(&[2, 1], vec![true, false]));
    add("scalar", Tensor::from_vec(&[], vec![0.1_f64]));
    add("empty", Tensor::from_vec(&[4, 0], Vec::<u32>::new()));
    tensors
}

/// Compares type, shape and bits.
fn assert_same(actual: &Tensor, expected: &Tensor) {
    assert_eq!(actual.dtype().unwrap(), expected.dtype().unwrap());
    match expected.dtype().unwrap() {
        DType::F32 => assert_holds(actual, &host::<f32>(expected)),
        DType::F64 => assert_holds(actual, &host::<f64>(expected)),
        DType::I32 => assert_holds(actual, &host::<i32>(expected)),
        DType::U32 => assert_holds(actual, &host::<u32>(expected)),
        DType::Bool => assert_holds(actual, &host::<bool>(expected)),
        DType::F16 => assert_close(
            host::<f16>(actual).mapv(f16::to_bits),
            host::<f16>(expected).mapv(f16::to_bits),
            Tolerance::exact(),
        ),
    }
}

#[test]
fn every_type_and_shape_comes_back_from_a_file() {
    let folder = Folder::new("round-trip");
    let tensors = all_sorts();
    for tensor in tensors.values() {
        npy::write(folder.file("x.npy"), tensor).unwrap();
        assert_same(&npy::read(folder.file("x.npy")).unwrap(), tensor);
    }
    let named: Vec<(&str, &Tensor)> = tensors
        .iter()
        .map(|(name, tensor)| (&name[..], tensor))
        .collect();
    safetensors::write(folder.file("x.safetensors"), &named).unwrap();
    let back = safetensors::read(folder.file("x.safetensors")).unwrap();
    assert!(back.keys().eq(tensors.keys()));
    for (name, tensor) in &tensors {
        assert_same(&back[name], tensor);
    }
    let mut names = folder.names();
    names.sort();
    assert_eq!(names, ["x.npy", "x.safetensors"]);
}

#[test]
fn the_crate_of_the_format_reads_what_we_write_and_the_other_way_round() {
    let tensors = all_sorts();
    let named: Vec<(&str, &Tensor)> = tensors
        .iter()
        .map(|(name, tensor)| (&name[..], tensor))
        .collect();
    let mut ours = Vec::new();
    safetensors::write_to(&mut ours, &named).unwrap();
    let views = ::safetensors::SafeTensors::deserialize(&ours).unwrap();
    assert_eq!(views.len(), tensors.len());
    let long = views.tensor("u32 \"long\"\n").unwrap();
    assert_eq!((long.dtype(), long.shape()), (Dtype::U32, &[7, 5003][..]));
    let expected: Vec<u8> = (0..7 * 5003_u32).flat_map(u32::to_le_bytes).collect();
    assert_close(long.data(), expected, Tolerance::exact());

    let theirs = ::safetensors::serialize(views.iter(), None).unwrap();
    let back = safetensors::read_from(&theirs[..]).unwrap();
    for (name, tensor) in &tensors {
        assert_same(&back[name], tensor);
    }
}

#[test]
fn metadata_is_exchanged_with_the_crate_of_the_format() {
    let folder = Folder::new("metadata");
    let path = folder.file("net.safetensors");
    let tensor = Tensor::from_array(array![1.5_f32]);
    let metadata: BTreeMap<String, String> = [
        ("format", "pt"),
        ("model \"ü\"", "line 1\nline 2\u{1}"),
        ("", ""),
    ]
    .map(|(key, text)| (key.to_owned(), text.to_owned()))
    .into();
    safetensors::write_with_metadata(&path, &[("w", &tensor)], &metadata).unwrap();
    assert_eq!(Reader::open(&path).unwrap().metadata(), &metadata);
    let bytes = fs::read(&path).unwrap();
    let (_, theirs) = ::safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    let expected = metadata.clone().into_iter().collect();
    assert_eq!(theirs.metadata().as_ref(), Some(&expected));

    let view = TensorView::new(Dtype::F32, vec![1], &bytes[bytes.len() - 4..]).unwrap();
    let theirs = ::safetensors::serialize([("w", view)], Some(expected)).unwrap();
    let reader = Reader::new(Cursor::new(&theirs)).unwrap();
    assert_eq!(reader.metadata(), &metadata);
    // A file without metadata has none.
    safetensors::write(&path, &[("w", &tensor)]).unwrap();
    assert!(Reader::open(&path).unwrap().metadata().is_empty());
}

/// Returns a file like that of a net with a batch norm, bfloat16 weights, and a tensor of an
/// unsupported type.
fn checkpoint() -> Vec<u8> {
    let bf16: Vec<u8> = [1.5_f32, -0.0, f32::INFINITY, 1.0 / 3.0]
        .into_iter()
        .flat_map(|x| half::bf16::from_f32(x).to_le_bytes())
        .collect();
    let steps = 5_000_000_000_i64.to_le_bytes();
    let labels: Vec<u8> = [3_i64, -7].into_iter().flat_map(i64::to_le_bytes).collect();
    let floats: Vec<u8> = [0.25_f32, 4.0]
        .into_iter()
        .flat_map(f32::to_le_bytes)
        .collect();
    let views = [
        ("layer.weight", Dtype::BF16, vec![2, 2], &bf16[..]),
        ("bn.num_batches_tracked", Dtype::I64, vec![], &steps),
        ("labels", Dtype::I64, vec![2], &labels),
        ("pixels", Dtype::U8, vec![3], &[0, 128, 255]),
        ("bytes", Dtype::I8, vec![2], &[255, 1]),
        ("tiny", Dtype::F8_E4M3, vec![2], &[0, 1]),
        ("bn.scale", Dtype::F32, vec![2], &floats),
    ];
    let views = views
        .map(|(name, dtype, shape, bytes)| (name, TensorView::new(dtype, shape, bytes).unwrap()));
    ::safetensors::serialize(views, None).unwrap()
}

#[test]
fn a_reader_lists_all_tensors_and_reads_them_one_by_one() {
    let file = checkpoint();
    let mut reader = Reader::new(Cursor::new(&file)).unwrap();
    let mut listed: Vec<(&str, String, &[usize])> = reader
        .entries()
        .iter()
        .map(|entry| (&entry.name[..], entry.dtype.to_string(), &entry.shape[..]))
        .collect();
    listed.sort();
    let expected: [(&str, &str, &[usize]); 7] = [
        ("bn.num_batches_tracked", "i64", &[]),
        ("bn.scale", "f32", &[2]),
        ("bytes", "i8", &[2]),
        ("labels", "i64", &[2]),
        ("layer.weight", "bf16", &[2, 2]),
        ("pixels", "u8", &[3]),
        ("tiny", "F8_E4M3", &[2]),
    ];
    let listed: Vec<_> = listed
        .iter()
        .map(|(name, dtype, shape)| (*name, &dtype[..], *shape))
        .collect();
    assert_eq!(listed, expected);

    assert_holds(
        &reader.read("bn.scale").unwrap(),
        &array![0.25_f32, 4.0].into_dyn(),
    );
    let mut read = |name: &str, dtype| reader.read_as(name, dtype).unwrap();
    let third = half::bf16::from_f32(1.0 / 3.0).to_f32();
    assert_holds(
        &read("layer.weight", DType::F32),
        &array![[1.5, -0.0, f32::INFINITY, third]]
            .into_shape_with_order(vec![2, 2])
            .unwrap(),
    );
    assert_holds(&read("labels", DType::I32), &array![3, -7].into_dyn());
    assert_holds(
        &read("pixels", DType::U32),
        &array![0_u32, 128, 255].into_dyn(),
    );
    assert_holds(&read("bytes", DType::I32), &array![-1, 1].into_dyn());
    assert_holds(
        &read("bn.num_batches_tracked", DType::F64),
        &ArrayD::from_elem(vec![], 5e9),
    );
}

#[test]
fn what_a_reader_cannot_read_is_named_and_leaves_the_rest() {
    let file = checkpoint();
    let mut reader = Reader::new(Cursor::new(&file)).unwrap();
    let mut message = |name: &str, dtype| match reader.read_as(name, dtype) {
        Ok(tensor) => format!("{tensor:?}"),
        Err(error) => error.to_string(),
    };
    assert_eq!(
        message("bn.num_batches_tracked", DType::I32),
        "safetensors: element [] is not representable in i32 (value 5000000000 of i64), in tensor \"bn.num_batches_tracked\""
    );
    assert_eq!(
        message("labels", DType::U32),
        "safetensors: element [1] is not representable in u32 (value -7 of i64), in tensor \"labels\""
    );
    assert_eq!(
        message("tiny", DType::F32),
        "safetensors: elements of type F8_E4M3 and shape [2] are not supported, in tensor \"tiny\""
    );
    assert_eq!(
        message("head", DType::F32),
        "safetensors: no tensor \"head\" (the file has 7 tensors)"
    );
    let error = reader.read("layer.weight").unwrap_err();
    assert_eq!(
        error.to_string(),
        "safetensors: elements of type bf16 and shape [2, 2] are not supported; `read_as` converts them to f32, in tensor \"layer.weight\""
    );
    assert!(reader.read("bn.scale").is_ok());
    // Reading the whole file at once fails because of the unsupported tensor.
    assert!(matches!(
        safetensors::read_from(&file[..]).unwrap_err().root(),
        DataError::UnsupportedDType { .. }
    ));
}

#[test]
fn a_reader_of_a_damaged_file_reads_what_is_whole() {
    let folder = Folder::new("reader");
    let path = folder.file("cut.safetensors");
    let mut file = checkpoint();
    // Safetensors sorts tensors by alignment, so the narrowest elements are at the end.
    fs::write(&path, &file[..file.len() - 1]).unwrap();
    let mut reader = Reader::open(&path).unwrap();
    let names: Vec<String> = reader
        .entries()
        .iter()
        .map(|entry| entry.name.clone())
        .collect();
    let (last, whole) = names.split_last().unwrap();
    for name in whole {
        assert!(
            !matches!(reader.read_as(name, DType::F64), Err(error) if matches!(error.root(), DataError::Truncated { .. })),
            "{name}"
        );
    }
    let error = reader.read_as(last, DType::F64).unwrap_err();
    assert!(error.to_string().ends_with("cut.safetensors"), "{error}");
    file.push(0);
    let error = Reader::new(Cursor::new(&file)).unwrap_err();
    assert!(matches!(error, DataError::TrailingBytes { .. }), "{error}");
}

#[test]
fn more_axes_than_a_tensor_has_are_rejected_before_they_cost_memory() {
    let rank = 32_000;
    let sizes = "1,".repeat(rank);
    let text = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({sizes})}}");
    let length = u32::try_from(text.len()).unwrap().to_le_bytes();
    let npy = [b"\x93NUMPY\x02\x00", &length[..], text.as_bytes(), &[0; 4]].concat();
    let error = npy::read_from(&npy[..]).unwrap_err();
    let expected = "npy: the array has too many axes (rank 32000; limit 64)";
    assert_eq!(error.to_string(), expected);

    let sizes = &sizes[..sizes.len() - 1];
    let text = format!(r#"{{"w":{{"dtype":"F32","shape":[{sizes}],"data_offsets":[0,4]}}}}"#);
    let length = (text.len() as u64).to_le_bytes();
    let file = [&length[..], text.as_bytes(), &[0; 4]].concat();
    for error in [
        safetensors::read_from(&file[..]).unwrap_err(),
        Reader::new(Cursor::new(&file)).unwrap_err(),
    ] {
        assert!(
            matches!(
                error.root(),
                DataError::RankTooLarge {
                    rank: 32_000,
                    limit: 64,
                    ..
                }
            ),
            "{error}"
        );
    }
}

#[test]
fn an_empty_array_that_is_too_large_for_a_wider_type_is_an_error() {
    // 2^61 elements of two bytes fit into an address space, those of four bytes do not.
    let side = 1_u64 << 61;
    let text = format!("{{'descr': '<i2', 'fortran_order': False, 'shape': ({side}, 0)}}");
    let length = u32::try_from(text.len()).unwrap().to_le_bytes();
    let npy = [b"\x93NUMPY\x02\x00", &length[..], text.as_bytes()].concat();
    let error = npy::read_from(&npy[..]).unwrap_err();
    let expected = format!("npy: i16 elements of shape [{side}, 0] exceed the address space");
    assert_eq!(error.to_string(), expected);

    let text = format!(r#"{{"w":{{"dtype":"F16","shape":[{side},0],"data_offsets":[0,0]}}}}"#);
    let length = (text.len() as u64).to_le_bytes();
    let file = [&length[..], text.as_bytes()].concat();
    let mut reader = Reader::new(Cursor::new(&file)).unwrap();
    assert_eq!(reader.read("w").unwrap().shape().unwrap()[1], 0);
    let error = reader.read_as("w", DType::F32).unwrap_err();
    assert!(
        matches!(error.root(), DataError::TooLarge { .. }),
        "{error}"
    );
}

#[test]
fn what_cannot_be_written_leaves_the_old_file_and_nothing_else() {
    let folder = Folder::new("failed-write");
    let x = Tensor::from_array(array![1.0_f32, 2.0]);
    npy::write(folder.file("x.npy"), &x).unwrap();
    safetensors::write(folder.file("x.safetensors"), &[("x", &x)]).unwrap();

    let lazy = &x + 1.0;
    let line = line!() + 1;
    let error = npy::write(folder.file("x.npy"), &lazy).unwrap_err();
    assert_eq!(
        error.root().to_string(),
        "npy::write: the tensor has not been computed; call realize or eval first"
    );
    let location = error.location().unwrap();
    assert_eq!((location.file(), location.line()), (file!(), line));
    // The bytes of the large tensor exceed the address space.
    let large = Tensor::zeros(&[1 << 61], DType::F64);
    for missing in [&lazy, &large] {
        let pair: &[(&str, &Tensor)] = &[("x", &x), ("y", missing)];
        let line = line!() + 1;
        let error = safetensors::write(folder.file("x.safetensors"), pair).unwrap_err();
        assert!(
            matches!(
                error.root(),
                Error::NotRealized {
                    operation: "safetensors::write"
                }
            ),
            "{error}"
        );
        assert_eq!(error.location().unwrap().line(), line);
    }
    let wrong = x.reshape(&[3]);
    let error = npy::write(folder.file("x.npy"), &wrong).unwrap_err();
    assert!(
        matches!(error.root(), Error::ElementCount { .. }),
        "{error}"
    );
    for names in [["x", "x"], ["x", "__metadata__"]] {
        let error = safetensors::write(folder.file("x.safetensors"), &names.map(|name| (name, &x)))
            .unwrap_err();
        assert!(
            matches!(&error, Error::Data(fault) if matches!(fault.root(), DataError::Unwritable { .. })),
            "{error}"
        );
    }

    let mut names = folder.names();
    names.sort();
    assert_eq!(names, ["x.npy", "x.safetensors"]);
    assert_same(&npy::read(folder.file("x.npy")).unwrap(), &x);
    assert_same(
        &safetensors::read(folder.file("x.safetensors")).unwrap()["x"],
        &x,
    );
    let realized = lazy.realize(&Host::new()).unwrap();
    npy::write(folder.file("x.npy"), &realized).unwrap();
    assert_holds(
        &npy::read(folder.file("x.npy")).unwrap(),
        &array![2.0_f32, 3.0].into_dyn(),
    );
}

#[test]
fn errors_name_the_file() {
    let folder = Folder::new("errors");
    let missing = folder.file("missing.npy");
    for error in [
        npy::read(&missing).unwrap_err(),
        safetensors::read(&missing).unwrap_err(),
    ] {
        assert!(matches!(error.root(), DataError::Io { .. }), "{error}");
        assert!(error.to_string().ends_with("missing.npy"), "{error}");
    }
    let nowhere = folder.file("no/such/folder.npy");
    let error = npy::write(
        &nowhere,
        &Tensor::scalar(1.0_f32).realize(&Host::new()).unwrap(),
    )
    .unwrap_err();
    assert!(error.to_string().ends_with("no/such/folder.npy"), "{error}");

    let mut bytes = fs::read(golden("f32.npy")).unwrap();
    bytes.push(0);
    fs::write(folder.file("long.npy"), &bytes).unwrap();
    let error = npy::read(folder.file("long.npy")).unwrap_err();
    assert!(
        matches!(error.root(), DataError::TrailingBytes { .. }),
        "{error}"
    );
    fs::write(folder.file("short.npy"), &bytes[..bytes.len() - 2]).unwrap();
    let error = npy::read(folder.file("short.npy")).unwrap_err().to_string();
    let what = "npy: f32 elements of shape [2, 3] need 24 bytes, but the file ends after 23, in ";
    assert!(
        error.starts_with(what) && error.ends_with("short.npy"),
        "{error}"
    );
}

#[test]
fn a_bool_that_is_neither_0_nor_1_is_rejected() {
    let mut bytes = fs::read(golden("bool_line.npy")).unwrap();
    *bytes.last_mut().unwrap() = 2;
    let error = npy::read_from(&bytes[..]).unwrap_err();
    assert!(
        matches!(error, DataError::NotABool { byte: 2, .. }),
        "{error}"
    );
}

#[test]
fn offsets_whose_sum_overflows_are_rejected() {
    // The last tensor ends at the end of the address space, so adding the length of the header
    // overflows.
    let (size, mut start, mut entries) = (usize::MAX >> 1, 0_usize, Vec::new());
    for number in 0..2 {
        let end = start + size;
        entries.push(format!(
            r#""{number}":{{"dtype":"BOOL","shape":[{size}],"data_offsets":[{start},{end}]}}"#
        ));
        start = end;
    }
    let text = format!("{{{}}}", entries.join(","));
    let file = [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    let error = safetensors::read_from(&file[..]).unwrap_err();
    assert!(
        matches!(
            error.root(),
            DataError::Truncated {
                actual_bytes: 0,
                ..
            }
        ),
        "{error}"
    );
}

/// Returns a small file of each format: NPY and safetensors.
fn small_files() -> [Vec<u8>; 2] {
    let x = Tensor::from_array(array![[1.0_f32, 2.0], [3.0, 4.0]]);
    let mut safetensors = Vec::new();
    safetensors::write_to(
        &mut safetensors,
        &[("a", &x), ("b", &Tensor::from_array(array![true]))],
    )
    .unwrap();
    let mut npy = Vec::new();
    npy::write_to(&mut npy, &x).unwrap();
    [npy, safetensors]
}

#[test]
fn a_file_that_ends_anywhere_is_rejected() {
    let [npy, safetensors] = small_files();
    for end in 0..npy.len() {
        assert!(npy::read_from(&npy[..end]).is_err(), "{end}");
    }
    for end in 0..safetensors.len() {
        assert!(
            safetensors::read_from(&safetensors[..end]).is_err(),
            "{end}"
        );
    }
    assert!(npy::read_from(&npy[..]).is_ok() && safetensors::read_from(&safetensors[..]).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2048, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_file_is_read_or_rejected(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let [mut npy, mut safetensors] = small_files();
        for file in [&mut npy, &mut safetensors] {
            for (at, byte) in &changes {
                let at = at.index(file.len());
                file[at] = *byte;
            }
            if let Some(cut) = cut {
                file.drain(..cut.index(file.len()));
            }
        }
        // The result may be an error, but not a panic.
        let _ = (npy::read_from(&npy[..]), safetensors::read_from(&safetensors[..]));
        read_one_by_one(&safetensors);
    }

    #[test]
    fn any_header_is_read_or_rejected(
        text in prop_oneof!["[\\[\\](){}'\",: 0-9a-z\\\\]{0,80}", any::<String>()],
        version in 0_u8..4,
    ) {
        let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
        let npy = [b"\x93NUMPY", &[version, 0][..], &length.to_le_bytes(), text.as_bytes(), &[1; 64]].concat();
        let safetensors = [&(text.len() as u64).to_le_bytes()[..], text.as_bytes(), &[1; 64]].concat();
        let _ = (npy::read_from(&npy[..]), safetensors::read_from(&safetensors[..]));
        read_one_by_one(&safetensors);
    }

    #[test]
    fn elements_of_any_type_are_converted_or_rejected(
        dtype in prop::sample::select(vec!["f4", "f8", "f2", "i8", "u8", "i4", "u4", "i2", "u2", "i1", "u1", "b1", "c8"]),
        order in prop::sample::select(vec!["<", ">", "=", "|", ""]),
        is_column_major in any::<bool>(),
        bytes in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let width: usize = dtype[1..].parse().unwrap();
        let n = bytes.len() / width / 2;
        let layout = if is_column_major { "True" } else { "False" };
        let text = format!("{{'descr': '{order}{dtype}', 'fortran_order': {layout}, 'shape': (2, {n})}}");
        let length = u16::try_from(text.len()).unwrap().to_le_bytes();
        let file = [b"\x93NUMPY\x01\x00", &length[..], text.as_bytes(), &bytes].concat();
        if let Ok(tensor) = npy::read_from(&file[..]) {
            prop_assert_eq!(tensor.shape().unwrap(), [2, n]);
        }
    }
}

/// Reads every tensor of a file that may be damaged, as every type.
fn read_one_by_one(file: &[u8]) {
    if let Ok(mut reader) = Reader::new(Cursor::new(file)) {
        for entry in reader.entries().to_vec() {
            let _ = reader.read(&entry.name);
            for dtype in DType::ALL {
                let _ = reader.read_as(&entry.name, dtype);
            }
        }
    }
}
