//! Float layers from files with PyTorch's names and layout.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use std::path::PathBuf;

use quant::{Error, Layer, Normalization, StateDict, Window};
use tensor_core::compare::{Tolerance, assert_close};
use tensor_core::data::safetensors;
use tensor_core::{DType, Host, Tensor};

/// Writes tensors of counted numbers, and opens the file, which is removed.
fn state_dict(name: &str, tensors: &[(&str, &[usize], DType)]) -> StateDict {
    let file = format!("{name}-{}.safetensors", std::process::id());
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(file);
    let tensors: Vec<(&str, Tensor)> = tensors
        .iter()
        .map(|&(name, shape, dtype)| {
            let len = shape.iter().product();
            let counted = Tensor::arange(len).reshape(shape) + 1;
            (name, counted.cast(dtype).realize(&Host::new()).unwrap())
        })
        .collect();
    let named: Vec<_> = tensors
        .iter()
        .map(|(name, tensor)| (*name, tensor))
        .collect();
    safetensors::write(&path, &named).unwrap();
    let opened = StateDict::open(&path);
    std::fs::remove_file(path).unwrap();
    opened.unwrap()
}

fn weights(layer: &Layer) -> Vec<f32> {
    layer.weights.values().unwrap()
}

#[test]
fn channels_become_the_last_axis() {
    let mut file = state_dict(
        "layout",
        &[
            ("conv.weight", &[2, 3, 1, 2], DType::F32),
            // A number that PyTorch adds to each batch normalization, and no layer reads.
            ("bn.num_batches_tracked", &[], DType::I32),
            ("fc.weight", &[2, 6], DType::F16),
            ("double.weight", &[1, 1, 1, 1], DType::F64),
        ],
    );
    let window = Window::new([1, 2]).with_stride([1, 2]);
    let layer = file.layer("conv", None, window).unwrap();
    assert_eq!(
        (layer.name.as_str(), layer.n_outputs, layer.window),
        ("conv", 2, window)
    );
    // Output 0, channels 0 to 2: the columns 0 are 1, 3, 5, the columns 1 are 2, 4, 6.
    let expected = [
        1.0_f32, 3.0, 5.0, 2.0, 4.0, 6.0, 7.0, 9.0, 11.0, 8.0, 10.0, 12.0,
    ];
    assert_close(weights(&layer), expected, Tolerance::exact());
    assert_eq!(layer.normalization, Normalization::identity(2));
    // A linear layer after an image [1, 2, 3]: PyTorch flattens it channel by channel.
    let layer = file.layer("fc", None, window).unwrap();
    assert_close(weights(&layer), expected, Tolerance::exact());
    let layer = file.layer("double", None, Window::new([1, 1])).unwrap();
    assert_close(weights(&layer), [1.0_f32], Tolerance::exact());
}

#[test]
fn bias_and_batch_normalization_are_those_of_the_file() {
    let mut file = state_dict(
        "normalization",
        &[
            ("conv.weight", &[2, 1, 1, 1], DType::F32),
            ("conv.bias", &[2], DType::F32),
            ("plain.weight", &[2, 1, 1, 1], DType::F32),
            ("bn.weight", &[2], DType::F32),
            ("bn.bias", &[2], DType::F32),
            ("bn.running_mean", &[2], DType::F32),
            ("bn.running_var", &[2], DType::F32),
        ],
    )
    .with_epsilon(1e-3);
    let row = [1.0, 2.0];
    let normalization = Normalization::batch(&row, &row, &row, &row, 1e-3).unwrap();
    let one = Window::new([1, 1]);
    let found = |file: &mut StateDict, name: &str, batch_norm| {
        file.layer(name, batch_norm, one).unwrap().normalization
    };
    assert_eq!(found(&mut file, "conv", None), Normalization::bias(&row));
    assert_eq!(found(&mut file, "plain", Some("bn")), normalization);
    let with_bias = normalization.with_bias(&row).unwrap();
    assert_eq!(found(&mut file, "conv", Some("bn")), with_bias);
}

#[test]
fn missing_and_wrong_tensors_are_errors_that_name_them() {
    let mut file = state_dict(
        "wrong",
        &[
            ("conv.weight", &[2, 3, 3, 3], DType::F32),
            ("fc.weight", &[2, 10], DType::F32),
            ("fc.bias", &[3], DType::F32),
            ("row.weight", &[2], DType::F32),
            ("integers.weight", &[2, 1, 1, 1], DType::I32),
            ("bn.weight", &[2], DType::F32),
            ("bn.bias", &[2], DType::F32),
            ("bn.running_mean", &[2], DType::F32),
        ],
    );
    let (one, three) = (Window::new([1, 1]), Window::new([3, 3]));
    let mut message = |name: &str, batch_norm, window| {
        let error = file.layer(name, batch_norm, window).unwrap_err();
        let Error::File { path, source } = error else {
            panic!("{error}")
        };
        assert!(path.contains("wrong-"), "{path}");
        assert!(matches!(*source, Error::ModelFile { .. }), "{source}");
        source.to_string()
    };
    assert_eq!(
        message("absent", None, one),
        "StateDict::layer: absent.weight is missing (expected [outputs, channels, 1, 1] or [outputs, channels · 1 · 1])"
    );
    assert_eq!(
        message("conv", None, one),
        "StateDict::layer: conv.weight is a tensor of f32 [2, 3, 3, 3] (expected [outputs, channels, 1, 1] or [outputs, channels · 1 · 1])"
    );
    assert!(message("fc", None, three).contains("channels · 3 · 3"));
    assert_eq!(
        message("fc", None, one),
        "StateDict::layer: fc.bias is a tensor of f32 [3] (expected [2])"
    );
    assert!(
        message("row", None, one)
            .starts_with("StateDict::layer: row.weight is a tensor of f32 [2]")
    );
    assert_eq!(
        message("integers", None, one),
        "StateDict::layer: integers.weight is a tensor of i32 [2, 1, 1, 1] (expected a tensor of floats)"
    );
    assert!(message("conv", None, Window::new([usize::MAX; 2])).contains("conv.weight"));
    assert_eq!(
        message("conv", Some("bn"), three),
        "StateDict::layer: bn.running_var is missing (expected [2])"
    );
    assert!(matches!(
        StateDict::open("absent.safetensors"),
        Err(Error::Tensor(_))
    ));
}

#[test]
fn absurd_numbers_of_outputs_and_channels_take_no_memory() {
    let mut file = state_dict(
        "absurd",
        &[
            ("outputs.weight", &[1 << 40, 0, 1, 1], DType::F32),
            ("channels.weight", &[0, 1 << 40, 1, 1], DType::F32),
            ("rows.weight", &[1 << 40, 0], DType::F32),
            ("none.weight", &[0, 0], DType::F32),
        ],
    );
    for name in ["outputs", "channels", "rows", "none"] {
        let error = file.layer(name, None, Window::new([1, 1])).unwrap_err();
        let message = error.to_string();
        assert!(
            message.ends_with("(expected 1 to 2^20 outputs and channels)"),
            "{message}"
        );
    }
}
