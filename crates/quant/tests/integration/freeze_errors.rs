//! Networks that cannot be created, quantised or frozen: the errors name the layer.

use quant::{
    Activation, Error, InputImage, Layer, LevelSet, Network, Normalization, Packing, Quantizer,
    Weights, Window,
};
use tensor_core::{DType, Host, Tensor};

#[test]
fn a_sum_of_too_many_products_is_an_error() {
    // The rounding of 2^23 products of 8-bit numbers is half of the range of i32.
    let image = [1, 9, 1 << 20];
    let n = image.iter().product();
    let layer = Layer::new("long", 1, Window::new([1, 9]), Weights::Float(vec![0.5; n]));
    let network = Network::new(InputImage::unit(image), vec![layer]).unwrap();
    let error = network.freeze().map(|_| ()).unwrap_err().to_string();
    let expected = format!(
        "layer \"long\": Network::freeze: the sums of output channel 0 do not fit i32 ({n} products;"
    );
    assert!(error.starts_with(&expected), "{error}");
}

#[test]
fn sums_of_bytes_that_may_leave_i32_are_errors() {
    // 133,144 products of 127 and 127 are the most that i32 holds.
    let most = i32::MAX as usize / (127 * 127);
    let one = Window::new([1, 1]);
    let network = |n: usize| {
        let levels = LevelSet::binary(1.0).unwrap();
        let activation = Activation::Levels(LevelSet::bits(&[1.0]).unwrap());
        let sum = Weights::Levels {
            quantizer: Quantizer::new(vec![levels]).unwrap(),
            codes: vec![1; n],
        };
        let layers = vec![
            Layer::new("copies", n, one, Weights::Float(vec![1.0; n]))
                .with_activation(activation.clone()),
            Layer::new("sum", 1, one, sum).with_activation(activation),
            Layer::new("last", 1, one, Weights::Float(vec![1.0])),
        ];
        Network::new(InputImage::unit([1, 1, 1]), layers).unwrap()
    };
    assert!(network(most).freeze_to(Packing::Bytes).is_ok());
    let error = network(most + 1).freeze_to(Packing::Bytes).unwrap_err();
    assert_eq!(
        error.to_string(),
        "layer \"sum\": Network::freeze: the sums of output channel 0 do not fit i32 (133145 \
         products; bound on the sum 2^31.0, expected below 2^31)"
    );
    assert!(network(most + 1).freeze().is_ok());
}

#[test]
fn wrong_networks_are_errors_that_name_the_layer() {
    let input = || InputImage::unit([4, 4, 2]);
    let one = Window::new([1, 1]);
    let layer = |n: usize| Layer::new("a", 3, one, Weights::Float(vec![0.5; n]));
    let message = |layers: Vec<Layer>| Network::new(input(), layers).unwrap_err().to_string();
    assert_eq!(
        message(vec![]),
        "Network::new: the input is empty (expected at least one element)"
    );
    assert_eq!(
        message(vec![layer(7)]),
        "layer \"a\": Network::new: weights has 7 elements (expected 6)"
    );
    assert_eq!(
        message(vec![layer(6).with_groups(2)]),
        "layer \"a\": Network::new: 3 channels cannot be divided into 2 groups"
    );
    assert!(message(vec![layer(6).with_groups(0)]).contains("into 0 groups"));
    let normalization = Normalization::identity(2);
    assert_eq!(
        message(vec![layer(6).with_normalization(normalization)]),
        "layer \"a\": Network::new: normalization has 2 elements (expected 3)"
    );
    let nan = Layer::new("b", 1, one, Weights::Float(vec![0.0, f32::NAN]));
    assert_eq!(
        message(vec![nan]),
        "layer \"b\": Network::new: weight is NaN (expected a finite number)"
    );
    for window in [
        Window::new([5, 1]),
        Window::new([0, 1]),
        one.with_stride([0, 1]),
        one.with_dilation([1, 0]),
        one.with_padding([[usize::MAX, 1], [0, 0]]),
        one.with_stride([usize::MAX, 1]),
        Window::new([usize::MAX, usize::MAX]).with_dilation([usize::MAX, 2]),
    ] {
        let layer = Layer::new("c", 1, window, Weights::Float(vec![]));
        let error = Network::new(input(), vec![layer]).unwrap_err();
        let Error::Layer { source, .. } = error else {
            panic!("{error}");
        };
        assert!(matches!(*source, Error::Window { .. }), "{source}");
    }
    let float = Network::new(
        input(),
        vec![
            layer(6),
            Layer::new("d", 1, one, Weights::Float(vec![1.0; 3])),
        ],
    );
    assert_eq!(
        float.unwrap().freeze().unwrap_err().to_string(),
        "layer \"a\": Network::freeze: the activation is none (expected a level set)"
    );
    let last = layer(6).with_activation(Activation::Relu);
    let frozen = Network::new(input(), vec![last]).unwrap().freeze();
    assert_eq!(
        frozen.unwrap_err().to_string(),
        "layer \"a\": Network::freeze: the activation is relu (expected none in the last layer)"
    );
    let network = Network::new(input(), vec![layer(6)]).unwrap();
    assert_eq!(
        network
            .outputs_of(&Tensor::zeros(&[1, 4, 4, 3], DType::F32))
            .unwrap_err()
            .to_string(),
        "Network::values_of: the input has shape [1, 4, 4, 3] (expected [batch, 4, 4, 2])"
    );
    let frozen = network.freeze().unwrap();
    assert!(matches!(
        frozen.run(&[0; 33], &Host::new()),
        Err(Error::Length {
            actual: 33,
            expected: 64,
            ..
        })
    ));
    let numbers = Tensor::zeros(&[1, 4, 4, 2], DType::F32);
    assert_eq!(
        frozen.outputs_of(&numbers).unwrap_err().to_string(),
        "FrozenNetwork::layers_of: the input has type f32 (expected i32)"
    );
    let codes = Tensor::zeros(&[1, 4, 4, 2], DType::I32);
    assert_eq!(
        network.outputs_of(&codes).unwrap_err().to_string(),
        "Network::values_of: the input has type i32 (expected f32)"
    );
    // No image is no error.
    assert_eq!(frozen.run(&[], &Host::new()).unwrap().shape(), [0, 4, 4, 3]);
}

#[test]
fn weights_of_different_kinds_cannot_share_a_layer() {
    let sets = vec![
        LevelSet::binary(1.0).unwrap(),
        LevelSet::ternary(1.0).unwrap(),
    ];
    let weights = Weights::Levels {
        quantizer: Quantizer::new(sets).unwrap(),
        codes: vec![1, 1],
    };
    let one = Window::new([1, 1]);
    let first = Layer::new("first", 1, one, Weights::Float(vec![1.0]))
        .with_activation(Activation::Levels(LevelSet::bits(&[1.0]).unwrap()));
    let layers = vec![first, Layer::new("mixed", 2, one, weights)];
    let network = Network::new(InputImage::unit([1, 1, 1]), layers).unwrap();
    assert_eq!(
        network.freeze().unwrap_err().to_string(),
        "layer \"mixed\": Network::freeze: channel 1 has other bits or factors than channel 0"
    );
}

#[test]
fn sizes_beyond_those_of_files_are_errors() {
    let one = Window::new([1, 1]);
    let network = |size: [usize; 3], n_outputs: usize| {
        let input = InputImage {
            size,
            scale: vec![1.0],
            offset: vec![0.0],
        };
        let weights = Weights::Float(vec![1.0; n_outputs]);
        Network::new(input, vec![Layer::new("a", n_outputs, one, weights)])
    };
    // Compact classes of the border: no memory for each of the positions.
    let largest = network([1 << 20, 1 << 20, 1], 1).unwrap();
    assert!(largest.freeze().is_ok());
    for size in [
        [(1 << 20) + 1, 1, 1],
        [usize::MAX, usize::MAX, 1],
        [0, 1, 1],
    ] {
        let error = network(size, 1).unwrap_err();
        assert!(matches!(error, Error::InvalidNumber { .. }), "{error}");
    }
    let error = network([1, 1, 1], (1 << 20) + 1).unwrap_err();
    assert!(
        error.to_string().contains("number of outputs is 1048577"),
        "{error}"
    );
}

#[test]
fn wrong_numbers_of_bits_are_errors_in_every_network() {
    // No layer of this network has weights that are quantised.
    let one = Window::new([1, 1]);
    let layer = |name| Layer::new(name, 1, one, Weights::Float(vec![0.5]));
    let layers = vec![layer("a").with_activation(Activation::Relu), layer("b")];
    let network = Network::new(InputImage::unit([1, 1, 1]), layers).unwrap();
    let images = Tensor::from_vec(&[2, 1, 1, 1], vec![0.25_f32, 1.0]);
    for bits in [[0, 1], [9, 1], [1, 0], [1, 9]] {
        let error = network.quantized(bits[0], bits[1], &images, &Host::new());
        assert!(matches!(
            error.unwrap_err(),
            Error::BitCount { limit: 8, .. }
        ));
    }
}
