//! Model files: a network returns unchanged, and a damaged file is an error.

#![expect(
    clippy::unwrap_used,
    reason = "an error in a helper fails the test that calls it"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use quant::{
    Activation, Error, FrozenNetwork, InputImage, Layer, LevelSet, Network, Normalization, Packing,
    Qem, Weights, Window,
};
use tensor_core::compare::{Tolerance, assert_close};
use tensor_core::data::safetensors::{self, Reader};
use tensor_core::rng::Philox;
use tensor_core::{Host, Tensor};

/// Returns a path for a test's own file.
fn file(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    folder.join(format!("{name}-{}.safetensors", std::process::id()))
}

const PACKINGS: [Packing; 2] = [Packing::Bits, Packing::Bytes];

/// Returns a network with every kind of layer: numbers of an image, bits and signs or bytes, and
/// numbers of bits or bytes; with groups, a border, a max-pool and flipped channels.
fn network(packing: Packing) -> FrozenNetwork {
    let wave =
        |n: usize, step: f32| -> Vec<f32> { (0..n).map(|i| (i as f32 * step).sin()).collect() };
    let three = Window::new([3, 3]).with_padding([[1, 1], [1, 0]]);
    let normalization = |n: usize| {
        let factors: Vec<f32> = (0..n).map(|i| [0.5, -0.25, 0.0, 1.0][i % 4]).collect();
        Normalization::batch(&factors, &wave(n, 0.9), &wave(n, 0.4), &vec![1.0; n], 0.0).unwrap()
    };
    let bits = LevelSet::bits(&[1.0, 0.5, 0.75]).unwrap();
    let signs = LevelSet::ternary(0.7).unwrap();
    let fit = |qem: Qem, n: usize, n_outputs: usize| {
        Weights::fit(&qem, &wave(n, 1.7), n_outputs).unwrap()
    };
    let layers = vec![
        Layer::new("first", 36, three, Weights::Float(wave(36 * 18, 0.31)))
            .with_normalization(normalization(36))
            .with_activation(Activation::Levels(bits)),
        Layer::new(
            "bits",
            6,
            three,
            fit(Qem::signs(2).unwrap().affine(), 6 * 9 * 18, 6),
        )
        .with_groups(2)
        .with_pool(Window::new([2, 2]).with_stride([2, 1]))
        .with_normalization(normalization(6))
        .with_activation(Activation::Levels(signs)),
        Layer::new("signs", 5, three, fit(Qem::signs(1).unwrap(), 5 * 9 * 6, 5))
            .with_activation(Activation::Levels(LevelSet::binary(1.0).unwrap())),
        Layer::new(
            "last",
            3,
            Window::new([2, 1]),
            Weights::Float(wave(3 * 2 * 5, 0.77)),
        )
        .with_normalization(Normalization::bias(&[0.1, 0.2, -0.3])),
    ];
    let network = Network::new(InputImage::unit([6, 5, 2]), layers).unwrap();
    network.freeze_to(packing).unwrap()
}

fn pixels() -> Vec<u8> {
    (0..60_u8).map(|i| i.wrapping_mul(41)).collect()
}

fn scores(network: &FrozenNetwork) -> Vec<f32> {
    network
        .run(&pixels(), &Host::new())
        .unwrap()
        .into_iter()
        .collect()
}

type Texts = BTreeMap<String, String>;
type Tensors = BTreeMap<String, Tensor>;

/// Returns the contents of a file.
fn contents(path: &PathBuf) -> (Texts, Tensors) {
    let texts = Reader::open(path).unwrap().metadata().clone();
    (texts, safetensors::read(path).unwrap())
}

/// Writes a file and reads it as a network.
fn read_back(path: &PathBuf, texts: &Texts, tensors: &Tensors) -> Result<FrozenNetwork, Error> {
    let tensors: Vec<_> = tensors.iter().map(|(name, t)| (name.as_str(), t)).collect();
    safetensors::write_with_metadata(path, &tensors, texts).unwrap();
    read_with_right_sum(path)
}

/// Returns the error of the contents of a file.
fn of_contents(error: Error) -> Error {
    match error {
        Error::File { source, .. } => *source,
        other => other,
    }
}

/// Returns the checksum that a file should have, if its checksum is the only fault.
fn right_sum(error: &Error) -> Option<String> {
    match error {
        Error::ModelFile { key, expected, .. } if key == "checksum" => {
            Some(expected.trim_matches('"').to_owned())
        }
        _ => None,
    }
}

/// Reads a network from a file. If the checksum is wrong, the file gets the right one first.
fn read_with_right_sum(path: &PathBuf) -> quant::Result<FrozenNetwork> {
    let error = match FrozenNetwork::read(path) {
        Ok(network) => return Ok(network),
        Err(error) => of_contents(error),
    };
    let Some(sum) = right_sum(&error) else {
        return Err(error);
    };
    let (mut texts, tensors) = contents(path);
    texts.insert("checksum".to_owned(), sum);
    let tensors: Vec<_> = tensors.iter().map(|(name, t)| (name.as_str(), t)).collect();
    safetensors::write_with_metadata(path, &tensors, &texts).unwrap();
    FrozenNetwork::read(path).map_err(of_contents)
}

#[test]
fn a_network_returns_from_its_file() {
    let path = file("whole");
    for packing in PACKINGS {
        let network = network(packing);
        network.write(&path).unwrap();
        let read = FrozenNetwork::read(&path).unwrap();
        assert!(read == network, "{packing:?}");
        assert_close(
            &scores(&read)[..],
            &scores(&network)[..],
            Tolerance::exact(),
        );
        // The bytes of the numbers are those that the formula states, but for the flags.
        let (texts, tensors) = contents(&path);
        let stored: usize = tensors
            .iter()
            .filter(|(name, _)| !name.ends_with("is_flipped"))
            .map(|(_, tensor)| 4 * tensor.shape().unwrap().iter().product::<usize>())
            .sum();
        let stated: usize = network
            .layers()
            .iter()
            .map(quant::FrozenLayer::n_bytes)
            .sum();
        assert_eq!(stored, stated, "{packing:?}");
        // The layer "bits" has 9 taps of 18 channels. As bits, these are 2 planes of signs and one
        // of ones, 1 word each, and 3 x 3 coefficients; as bytes, they are 5 words.
        let (version, weights) = match packing {
            Packing::Bits => ("1", 6 * 9 * 3 + 6 * 9),
            Packing::Bytes => ("2", 6 * 9 * 5),
        };
        assert_eq!(texts["version"], version);
        let n_classes = 3 * 2;
        assert_eq!(
            network.layers()[1].n_bytes(),
            4 * (weights + n_classes * 6 + 2 * 6)
        );
    }
    fs::remove_file(path).unwrap();
}

#[test]
fn a_missing_or_absurd_text_is_an_error_that_names_it() {
    let path = file("texts");
    for packing in PACKINGS {
        check_texts(&path, packing);
    }
    fs::remove_file(path).unwrap();
}

fn check_texts(path: &PathBuf, packing: Packing) {
    network(packing).write(path).unwrap();
    let (texts, tensors) = contents(path);
    let absurd = [
        "",
        "0",
        "-1",
        "nan",
        "1 1 1 1 1 1 1 1 1 1 1",
        "99999999999999999999",
        "18446744073709551615 18446744073709551615",
        "1048576 1048576 1048576",
        "4294967295 1 1 1 1 1 0 0 0 0",
        "1 1 1 1 1 1 18446744073709551615 18446744073709551615 0 0",
        "signs 0",
        "bits 4096",
        "-128 127",
    ];
    for key in texts.keys().filter(|key| *key != "checksum") {
        let mut without = texts.clone();
        without.remove(key);
        let error = read_back(path, &without, &tensors).unwrap_err();
        let Error::ModelFile {
            key: named, actual, ..
        } = &error
        else {
            panic!("{error}");
        };
        assert_eq!((named, actual.as_str()), (key, "missing"));
        for text in absurd.iter().filter(|_| !key.ends_with("name")) {
            let mut changed = texts.clone();
            changed.insert(key.clone(), (*text).to_owned());
            assert!(
                read_back(path, &changed, &tensors).is_err(),
                "{packing:?}, {key}: {text}"
            );
        }
    }
    // The second version states the packing of either kind.
    let mut stated = texts.clone();
    stated.insert("version".to_owned(), "2".to_owned());
    let name = format!("{packing:?}").to_lowercase();
    stated.insert("packing".to_owned(), name);
    assert!(read_back(path, &stated, &tensors).unwrap() == network(packing));
    // One code and no thresholds fit together, but are no levels.
    let mut changed = (texts.clone(), tensors.clone());
    changed.0.insert("layer.1.codes".to_owned(), "0".to_owned());
    let none = tensors["layer.1.thresholds"]
        .slice(0, ..0)
        .realize(&Host::new());
    changed
        .1
        .insert("layer.1.thresholds".to_owned(), none.unwrap());
    let error = read_back(path, &changed.0, &changed.1)
        .unwrap_err()
        .to_string();
    assert!(error.contains("expected 2 to 256 numbers"), "{error}");
    // So do 256 thresholds and 257 codes.
    let codes = vec!["0"; 257].join(" ");
    changed.0.insert("layer.1.codes".to_owned(), codes);
    let n_outputs = tensors["layer.1.is_flipped"].shape().unwrap()[0];
    let many = Tensor::full(&[256, n_outputs], 0_i32).realize(&Host::new());
    changed
        .1
        .insert("layer.1.thresholds".to_owned(), many.unwrap());
    let error = read_back(path, &changed.0, &changed.1)
        .unwrap_err()
        .to_string();
    assert!(error.contains("expected 2 to 256 numbers"), "{error}");
    // Texts of the other packing.
    for (key, text) in [
        ("version", "2"),
        ("version", "1"),
        ("layer.1.product", "bytes"),
        ("layer.1.product", "bits 1"),
    ] {
        let mut changed = texts.clone();
        let before = changed.insert(key.to_owned(), text.to_owned());
        let is_same = before.as_deref() == Some(text);
        assert_eq!(
            read_back(path, &changed, &tensors).is_ok(),
            is_same,
            "{key}: {text}"
        );
    }
}

#[test]
fn a_missing_or_changed_tensor_is_an_error_that_names_it() {
    let path = file("tensors");
    for packing in PACKINGS {
        check_tensors(&path, packing);
    }
    fs::remove_file(path).unwrap();
}

fn check_tensors(path: &PathBuf, packing: Packing) {
    network(packing).write(path).unwrap();
    let (texts, tensors) = contents(path);
    let named = |error: Error| match error {
        Error::ModelFile { key, .. } => key,
        other => panic!("{other}"),
    };
    for name in tensors.keys() {
        let mut changed = tensors.clone();
        let tensor = changed.remove(name).unwrap();
        assert_eq!(&named(read_back(path, &texts, &changed).unwrap_err()), name);
        let host = Host::new();
        let n: usize = tensor.shape().unwrap().iter().product();
        for other in [
            tensor.reshape(&[n, 1, 1]),
            tensor.cast(tensor_core::DType::F64),
        ] {
            changed.insert(name.clone(), other.realize(&host).unwrap());
            assert_eq!(&named(read_back(path, &texts, &changed).unwrap_err()), name);
        }
    }
    // Numbers whose sums leave i32, infinities, and bits beyond the channels.
    let with = |name: &str, change: &dyn Fn(&Tensor) -> Tensor| {
        let mut changed = tensors.clone();
        let tensor = change(&tensors[name]).realize(&Host::new()).unwrap();
        changed.insert(name.to_owned(), tensor);
        read_back(path, &texts, &changed).unwrap_err().to_string()
    };
    // Bytes are too small for sums that leave i32.
    let coefficients = (packing == Packing::Bits).then_some(("bits", "layer.1.coefficients"));
    for (layer, name) in [("first", "layer.0.numbers")]
        .into_iter()
        .chain(coefficients)
    {
        let error = with(name, &|t| Tensor::full(t.shape().unwrap(), 1 << 27));
        let start = format!(
            "layer \"{layer}\": FrozenNetwork: the sums of output channel 0 do not fit i32"
        );
        assert!(error.starts_with(&start), "{error}");
    }
    let error = with("layer.1.offsets", &|t| {
        Tensor::full(t.shape().unwrap(), i32::MIN)
    });
    assert!(error.contains("do not fit i32"), "{error}");
    let error = with("layer.3.affine", &|t| t + f32::INFINITY);
    assert_eq!(
        error,
        "layer \"last\": FrozenNetwork::read: affine is inf (expected a finite number)"
    );
    let error = with("layer.3.exponents", &|t| {
        Tensor::full(t.shape().unwrap(), 127)
    });
    assert!(
        error.contains("expected numbers from -127 to 126"),
        "{error}"
    );
    let error = with("layer.1.thresholds", &|t| {
        let shape = t.shape().unwrap();
        -Tensor::arange(shape[0] * shape[1]).reshape(shape)
    });
    assert!(
        error.contains("expected ascending numbers of each output"),
        "{error}"
    );
    let error = with("layer.1.words", &|t| t | (1_u32 << 31));
    assert!(
        error.contains("expected zeros in the unused bits"),
        "{error}"
    );
    // A type that is read with a conversion only.
    let _ = with("layer.3.affine", &|t| t.cast(tensor_core::DType::F16));
    let bytes = fs::read(path).unwrap();
    let (length, rest) = bytes.split_at(8);
    let length = usize::try_from(u64::from_le_bytes(length.try_into().unwrap())).unwrap();
    let header = std::str::from_utf8(&rest[..length]).unwrap();
    let header = header.replace("\"F16\"", "\"BF16\"");
    let changed = [
        &(header.len() as u64).to_le_bytes(),
        header.as_bytes(),
        &rest[length..],
    ];
    fs::write(path, changed.concat()).unwrap();
    let error = of_contents(FrozenNetwork::read(path).unwrap_err());
    assert_eq!(named(error), "layer.3.affine");
}

#[test]
fn an_error_of_a_layers_tensor_names_the_path_once() {
    let path = file("path");
    network(Packing::Bits).write(&path).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    // The largest elements are first in a file, so a bool is the last.
    *bytes.last_mut().unwrap() = 2;
    fs::write(&path, bytes).unwrap();
    let error = FrozenNetwork::read(&path).unwrap_err();
    fs::remove_file(&path).unwrap();
    assert!(matches!(error, Error::Layer { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("layer.2.is_flipped"), "{text}");
    assert_eq!(text.matches(path.to_str().unwrap()).count(), 1, "{text}");
}

#[test]
fn a_truncated_or_damaged_file_never_panics() {
    let path = file("damaged");
    for packing in PACKINGS {
        check_damage(&path, packing);
    }
    fs::remove_file(path).unwrap();
    assert!(matches!(
        FrozenNetwork::read(file("absent")),
        Err(Error::Tensor(_))
    ));
}

fn check_damage(path: &PathBuf, packing: Packing) {
    network(packing).write(path).unwrap();
    let whole = fs::read(path).unwrap();
    for len in (0..whole.len()).step_by(211) {
        fs::write(path, &whole[..len]).unwrap();
        assert!(FrozenNetwork::read(path).is_err(), "{len} bytes");
    }
    let stream = Philox::new(29);
    let (mut n_read, mut n_other) = (0, 0);
    for round in 0..120 {
        let mut damaged = whole.clone();
        let place = stream.word(2 * round) as usize % whole.len();
        damaged[place] ^= 1 << (stream.word(2 * round + 1) % 8);
        fs::write(path, &damaged).unwrap();
        let error = of_contents(FrozenNetwork::read(path).unwrap_err());
        if right_sum(&error).is_none() {
            n_other += 1;
            continue;
        }
        // Without the checksum, a changed weight would be a valid weight.
        let network = read_with_right_sum(path).unwrap();
        n_read += 1;
        let _ = network.run(&pixels(), &Host::new());
    }
    assert!(n_read > 12 && n_other > 12, "{n_read} read, {n_other}");
}
