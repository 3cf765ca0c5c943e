//! Reports of quantised networks, compared with calculations by hand.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use quant::{
    Activation, Error, InputImage, Layer, LevelSet, Network, Normalization, Quantizer, Weights,
    Window,
};
use tensor_core::compare::{Tolerance, assert_close};
use tensor_core::{Executor, Host, Reference, Tensor};

/// Returns a float network whose images have one pixel with two channels, and its quantised form.
fn networks() -> [Network; 2] {
    let one = Window::new([1, 1]);
    let network = |second: Weights, activations: [Activation; 2]| {
        let [first, middle] = activations;
        let identity = Weights::Float(vec![1.0, 0.0, 0.0, 1.0]);
        let layers = vec![
            Layer::new("first", 2, one, identity).with_activation(first),
            Layer::new("second", 3, one, second)
                .with_normalization(Normalization::bias(&[0.5, 0.0, 0.0]))
                .with_activation(middle),
            Layer::new("last", 1, one, Weights::Float(vec![1.0, -1.0, 0.5])),
        ];
        Network::new(InputImage::unit([1, 1, 2]), layers).unwrap()
    };
    let weights = vec![1.0, -3.0, 2.0, 2.0, 0.5, -1.5];
    let signs = [2.0, 2.0, 1.0].map(|scale| LevelSet::binary(scale).unwrap());
    let levels = Weights::Levels {
        quantizer: Quantizer::new(signs.to_vec()).unwrap(),
        codes: vec![1, 0, 1, 1, 1, 0],
    };
    let bits = LevelSet::bits(&[1.0, 2.0]).unwrap();
    [
        network(
            Weights::Float(weights),
            [Activation::Relu, Activation::Relu],
        ),
        network(
            levels,
            [
                Activation::Levels(bits),
                Activation::Levels(LevelSet::bits(&[2.0]).unwrap()),
            ],
        ),
    ]
}

#[test]
fn a_report_has_the_bits_errors_and_bytes_of_each_layer() {
    let [float, quantized] = networks();
    // Two images. The first layer's levels are 1 and 0, and 3 and 1: its errors are 1/4, 0, 0 and
    // 1/16. The second layer's sums are then 2.5, 2, 1, and 4.5, 8, 2, with the levels 2, 2, 0 (a
    // tie stays), and 2, 2, 2.
    let images = Tensor::from_vec(&[2, 1, 1, 2], vec![1.5_f32, -7.0, 3.0, 0.75]);
    let executors: [&dyn Executor; 2] = [&Host::new(), &Reference];
    for executor in executors {
        let report = quantized.report(&float, &images, executor).unwrap();
        let [first, second, last] = &report.layers[..] else {
            panic!("{report:?}");
        };
        assert_eq!(
            (first.weights, last.weights, last.activations),
            (None, None, None)
        );
        let found = |quantizer: Option<quant::QuantizerReport>| {
            let quantizer = quantizer.unwrap();
            let numbers = [quantizer.mean_square_error, quantizer.mean_square];
            (quantizer.bits, numbers)
        };
        let close = |found: (usize, [f64; 2]), bits, numbers: [f64; 2]| {
            assert_eq!(found.0, bits);
            assert_close(found.1, numbers, Tolerance::exact().or_absolute(1e-6));
        };
        close(
            found(first.activations),
            2,
            [0.3125 / 4.0, (2.25 + 9.0 + 0.5625) / 4.0],
        );
        close(
            found(second.weights),
            1,
            [
                (1.0 + 1.0 + 0.25 + 0.25) / 6.0,
                (1.0 + 9.0 + 8.0 + 2.5) / 6.0,
            ],
        );
        let errors = [0.5, 0.0, 1.0, 2.5, 6.0, 0.0_f64]
            .map(|x| x * x)
            .iter()
            .sum::<f64>()
            / 6.0;
        let squares = [2.5, 2.0, 1.0, 4.5, 8.0, 2.0_f64]
            .map(|x| x * x)
            .iter()
            .sum::<f64>()
            / 6.0;
        close(found(second.activations), 1, [errors, squares]);
        let relative = second.activations.unwrap().relative_error();
        assert_close(
            [relative],
            [errors / squares],
            Tolerance::exact().or_absolute(1e-6),
        );
        // In f32 the weights, and bias, mean, factor and shift of each output.
        let bytes = report
            .layers
            .iter()
            .map(|layer| layer.n_bytes_f32)
            .collect::<Vec<_>>();
        assert_eq!(bytes, [4 * (4 + 4 * 2), 4 * (6 + 4 * 3), 4 * (3 + 4)]);
    }
}

#[test]
fn packed_bytes_are_those_of_the_documented_formula() {
    let [float, quantized] = networks();
    let images = Tensor::from_vec(&[1, 1, 1, 2], vec![1.5_f32, 1.0]);
    let report = quantized.report(&float, &images, &Host::new()).unwrap();
    let bytes = report
        .layers
        .iter()
        .map(|layer| layer.n_bytes_packed)
        .collect::<Vec<_>>();
    // The first layer has 2 · 1 · 1 · 2 numbers, 2 offsets and 2 · 3 thresholds. The second has a
    // word and the coefficients of two planes for each of 3 outputs, 3 offsets and 3 thresholds.
    // The last has 3 numbers, an offset, and 5 numbers of its output.
    assert_eq!(
        bytes,
        [4 * (4 + 2 + 6), 4 * (3 + 3 * 2 + 3 + 3), 4 * (3 + 1 + 5)]
    );
}

#[test]
fn a_report_is_a_table() {
    let [float, quantized] = networks();
    let images = Tensor::from_vec(&[2, 1, 1, 2], vec![1.5_f32, -7.0, 3.0, 0.75]);
    let report = quantized.report(&float, &images, &Host::new()).unwrap();
    let expected = "\
layer   weight bits  error %  activation bits  error %  bytes as f32  bytes packed
first         float        -                2     2.65            48            48
second            1    12.20                1    43.72            72            60
last          float        -            float        -            28            36
total                                                            148           144";
    assert_eq!(report.to_string(), expected);
}

#[test]
fn errors_of_quantised_networks_fall_with_their_bits() {
    let wave =
        |n: usize, step: f32| -> Vec<f32> { (0..n).map(|i| (i as f32 * step).sin()).collect() };
    let three = Window::new([3, 3]).with_padding([[1, 1], [1, 1]]);
    let layer = |name: &str, n_outputs: usize, n: usize| {
        let weights = Weights::Float(wave(n_outputs * n * 9, 1.3));
        Layer::new(name, n_outputs, three, weights).with_activation(Activation::Relu)
    };
    let mut last = layer("last", 2, 6);
    last.activation = Activation::None;
    let layers = vec![layer("first", 4, 1), layer("second", 6, 4), last];
    let float = Network::new(InputImage::unit([5, 5, 1]), layers).unwrap();
    let images = Tensor::from_vec(&[3, 5, 5, 1], wave(75, 0.7));
    let host = Host::new();
    let mut before = [f64::INFINITY; 2];
    for bits in 1..=4 {
        let quantized = float.quantized(bits, bits, &images, &host).unwrap();
        let second = &quantized.report(&float, &images, &host).unwrap().layers[1];
        let (weights, activations) = (second.weights.unwrap(), second.activations.unwrap());
        assert_eq!((weights.bits, activations.bits), (bits, bits));
        let errors = [weights.relative_error(), activations.relative_error()];
        assert!(
            errors[0] < before[0] && errors[1] < before[1],
            "{errors:?}, {before:?}"
        );
        before = errors;
    }
}

#[test]
fn networks_that_do_not_match_are_errors() {
    let [float, quantized] = networks();
    let images = Tensor::from_vec(&[1, 1, 1, 2], vec![1.5_f32, 1.0]);
    let host = Host::new();
    let one = Window::new([1, 1]);
    let short = Layer::new("only", 1, one, Weights::Float(vec![1.0; 2]));
    let short = Network::new(InputImage::unit([1, 1, 2]), vec![short]).unwrap();
    assert_eq!(
        quantized
            .report(&short, &images, &host)
            .unwrap_err()
            .to_string(),
        "Network::report: layers has 3 elements (expected 1)"
    );
    assert_eq!(
        quantized
            .report(&quantized, &images, &host)
            .unwrap_err()
            .to_string(),
        "layer \"first\": Network::report: the activation is a level set (expected none or relu)"
    );
    // A float network has no packed form.
    assert!(matches!(
        float.report(&float, &images, &host),
        Err(Error::Layer { .. })
    ));
    let wrong = Tensor::from_vec(&[1, 1, 2, 1], vec![1.5_f32, 1.0]);
    let error = quantized.report(&float, &wrong, &host).unwrap_err();
    assert_eq!(
        error.to_string(),
        "layer \"first\": Network::values_of: the input has shape [1, 1, 2, 1] (expected [batch, 1, 1, 2])"
    );
}
