//! Frozen networks: their codes are those of the float network that they were made from.

#![expect(
    clippy::unwrap_used,
    reason = "an error in a helper fails the test that calls it"
)]
#![expect(
    clippy::cast_possible_truncation,
    reason = "random choices are small numbers"
)]

use quant::{
    Activation, Error, InputImage, Layer, LevelSet, Network, Normalization, PlaneLayout, Qem,
    Quantizer, Ties, Weights, Window,
};
use tensor_core::compare::{Tolerance, assert_close};
use tensor_core::rng::Philox;
use tensor_core::{DType, Executor, Host, Reference, Tensor};

/// A stream of random choices.
struct Random {
    stream: Philox,
    place: u64,
}

impl Random {
    fn new(seed: u64) -> Self {
        Self {
            stream: Philox::new(seed),
            place: 0,
        }
    }

    fn below(&mut self, n: usize) -> usize {
        self.place += 1;
        self.stream.word(self.place) as usize % n
    }

    fn choice<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }

    /// Returns multiples of 1/4 in -2 to 2.
    fn quarters(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.below(17) as f32 / 4.0 - 2.0).collect()
    }

    /// Returns approximately normal numbers.
    fn normal(&mut self, n: usize) -> Vec<f32> {
        let uniform = |random: &mut Self| random.below(1 << 20) as f32 / (1 << 19) as f32 - 1.0;
        (0..n)
            .map(|_| (0..3).map(|_| uniform(self)).sum())
            .collect()
    }

    /// Returns level sets whose levels are multiples of 1/8.
    fn levels(&mut self) -> LevelSet {
        let sets = [
            LevelSet::bits(&[0.5]),
            LevelSet::bits(&[0.5, 1.25]),
            // Codes out of integer order.
            LevelSet::bits(&[1.0, 0.5, 0.75]),
            LevelSet::signs(&[0.75]),
            LevelSet::signs(&[0.5, 0.75, 1.0]),
            LevelSet::ternary(1.5),
            LevelSet::signs(&[0.5, 1.0]).and_then(|set| set.with_offset(0.25)),
            LevelSet::bits(&[1.5]).and_then(|set| set.with_offset(-0.5)),
        ];
        let ties = self.choice(&[Ties::Down, Ties::Up]);
        self.choice(&sets).unwrap().with_ties(ties)
    }

    /// Returns weights whose values are multiples of 1/8.
    fn weights(&mut self, n_outputs: usize, per_output: usize) -> Weights {
        let n = n_outputs * per_output;
        if self.below(4) == 0 {
            return Weights::Float(self.quarters(n));
        }
        let levels = self.levels();
        let codes = (0..n).map(|_| self.choice(levels.codes())).collect();
        Weights::Levels {
            quantizer: Quantizer::new(vec![levels; n_outputs]).unwrap(),
            codes,
        }
    }

    fn window(&mut self) -> Window {
        let mut pair = |choices: &[usize]| [self.choice(choices), self.choice(choices)];
        Window::new(pair(&[1, 2, 3]))
            .with_stride(pair(&[1, 1, 2]))
            .with_dilation(pair(&[1, 1, 2]))
            .with_padding([pair(&[0, 1, 2]), pair(&[0, 1, 2])])
    }

    /// Returns a network all of whose sums are exact in f32, and pixels of two images.
    fn exact_network(&mut self) -> Option<(Network, Vec<u8>)> {
        let mut channels = self.choice(&[1, 2, 3]);
        let size = [self.below(6) + 1, self.below(6) + 1, channels];
        let mut input = InputImage::unit(size);
        input.scale = vec![0.25; channels];
        input.offset = self.quarters(channels);
        let mut layers = Vec::new();
        let n_layers = self.below(3) + 2;
        for number in 0..n_layers {
            let n_groups = if channels.is_multiple_of(2) {
                self.choice(&[1, 2])
            } else {
                1
            };
            let n_outputs = n_groups * self.choice(&[1, 2, 16, 33, 35]);
            let window = self.window();
            let per_output = window.n_taps() * channels / n_groups;
            let weights = self.weights(n_outputs, per_output);
            let factors: Vec<f32> = (0..n_outputs)
                .map(|_| self.choice(&[-0.5, 0.0, 0.25, 0.5]))
                .collect();
            let (shift, mean) = (self.quarters(n_outputs), self.quarters(n_outputs));
            let normalization =
                Normalization::batch(&factors, &shift, &mean, &vec![1.0; n_outputs], 0.0)
                    .and_then(|normalization| normalization.with_bias(&self.quarters(n_outputs)))
                    .unwrap();
            let activation = if number + 1 == n_layers {
                Activation::None
            } else {
                Activation::Levels(self.levels())
            };
            let pool = self.choice(&[
                Window::new([1, 1]),
                Window::new([2, 2]).with_stride([2, 2]),
                Window::new([3, 3])
                    .with_stride([2, 2])
                    .with_padding([[1, 1], [1, 1]]),
            ]);
            layers.push(
                Layer::new(&format!("layer {number}"), n_outputs, window, weights)
                    .with_groups(n_groups)
                    .with_padding_value(self.choice(&[0.0, -0.5, 1.25]))
                    .with_normalization(normalization)
                    .with_pool(pool)
                    .with_activation(activation),
            );
            channels = n_outputs;
        }
        // Small pixels keep the sums exact; a window may not fit the image.
        let pixels = (0..2 * size.iter().product::<usize>())
            .map(|_| self.below(9) as u8)
            .collect();
        Some((Network::new(input, layers).ok()?, pixels))
    }
}

/// Returns the codes of all activations of a network, one list for each layer but the last, and its
/// output.
fn float_codes(
    network: &Network,
    codes: &Tensor,
    executor: &dyn Executor,
) -> (Vec<Vec<u8>>, Vec<f32>) {
    let values = network
        .values_of(&network.input().values_of(codes))
        .unwrap();
    let (last, others) = values.split_last().unwrap();
    let layers = network.layers().iter().zip(others);
    let of_layer = |(layer, value): (&Layer, &Tensor)| {
        let Activation::Levels(levels) = &layer.activation else {
            panic!("a layer without levels");
        };
        let value = value.eval::<f32>(executor).unwrap();
        levels
            .quantize_strict(&value.into_iter().collect::<Vec<_>>())
            .unwrap()
    };
    let output = last.eval::<f32>(executor).unwrap();
    (layers.map(of_layer).collect(), output.into_iter().collect())
}

/// The same of the outputs of a frozen network's layers.
fn frozen_codes(
    network: &Network,
    outputs: &[Tensor],
    executor: &dyn Executor,
) -> (Vec<Vec<u8>>, Vec<f32>) {
    let (last, others) = outputs.split_last().unwrap();
    let of_layer = |(number, planes): (usize, &Tensor)| {
        let layer = &network.layers()[number];
        let Activation::Levels(levels) = &layer.activation else {
            panic!("a layer without levels");
        };
        let n_groups = network.layers()[number + 1].n_groups;
        let layout = PlaneLayout::new(layer.n_outputs, n_groups, levels.basis().len()).unwrap();
        let words = planes.eval::<u32>(executor).unwrap();
        let words: Vec<u32> = words.into_iter().collect();
        let codes = layout.unpack(&words).unwrap();
        assert_eq!(layout.pack(&codes).unwrap(), words, "unused bits are 0");
        codes
    };
    let output = last.eval::<f32>(executor).unwrap();
    (
        others.iter().enumerate().map(of_layer).collect(),
        output.into_iter().collect(),
    )
}

#[test]
#[cfg(feature = "gpu")]
fn devices_have_the_codes_and_outputs_of_the_float_network() {
    let mut n_networks = 0;
    for seed in 0..60 {
        let Some((network, pixels)) = Random::new(seed).exact_network() else {
            continue;
        };
        let frozen = network.freeze().unwrap();
        let codes = frozen.codes(&pixels).unwrap();
        let expected = float_codes(&network, &codes, &Reference);
        for gpu in gpu_wgsl::check::every_adapter() {
            let mut outputs = vec![frozen.upload(gpu).unwrap().layers_of(&codes).unwrap()];
            // The kernels of a program are compiled for each network, which takes most of the time.
            if n_networks < 4 {
                outputs.push(frozen.layers_of(&codes).unwrap());
            }
            for outputs in outputs {
                let actual = frozen_codes(&network, &outputs, gpu);
                assert_eq!(actual.0, expected.0, "seed {seed}");
                assert_close(&actual.1[..], &expected.1[..], Tolerance::exact());
            }
        }
        n_networks += 1;
    }
    assert!(n_networks > 15, "{n_networks} networks");
}

#[test]
fn exact_networks_have_the_codes_and_outputs_of_their_float_network() {
    let (mut n_networks, mut n_flipped_pools) = (0, 0);
    for seed in 0..180 {
        let mut random = Random::new(seed);
        let Some((network, pixels)) = random.exact_network() else {
            continue;
        };
        let frozen = network.freeze().unwrap();
        let codes = frozen.codes(&pixels).unwrap();
        let expected = float_codes(&network, &codes, &Reference);
        let executors: [&dyn Executor; 2] = [&Host::new(), &Reference];
        for executor in executors {
            let actual = frozen_codes(&network, &frozen.layers_of(&codes).unwrap(), executor);
            assert_eq!(actual.0, expected.0, "seed {seed}");
            assert_close(&actual.1[..], &expected.1[..], Tolerance::exact());
        }
        n_networks += 1;
        n_flipped_pools += usize::from(network.layers()[0].pool != Window::new([1, 1]));
    }
    assert!(
        n_networks > 50 && n_flipped_pools > 20,
        "{n_networks} networks, {n_flipped_pools} with a max-pool in the first layer"
    );
}

/// Returns a float network for images of 8 x 8 pixels and 3 channels.
fn float_network(random: &mut Random) -> Network {
    let three = Window::new([3, 3]).with_padding([[1, 1], [1, 1]]);
    let mut layer = |name: &str, n_outputs: usize, window: Window, channels: usize| {
        let n = n_outputs * window.n_taps() * channels;
        let deviation = (window.n_taps() as f32 * channels as f32).sqrt();
        let weights = random.normal(n).iter().map(|x| x / deviation).collect();
        let gamma: Vec<f32> = random
            .normal(n_outputs)
            .iter()
            .map(|x| 1.0 + 0.8 * x)
            .collect();
        let (beta, mean) = (random.normal(n_outputs), random.normal(n_outputs));
        let variance: Vec<f32> = random
            .normal(n_outputs)
            .iter()
            .map(|x| 0.3 + x * x)
            .collect();
        Layer::new(name, n_outputs, window, Weights::Float(weights))
            .with_normalization(
                Normalization::batch(&gamma, &beta, &mean, &variance, 1e-5).unwrap(),
            )
            .with_activation(Activation::Relu)
    };
    let pool = Window::new([2, 2]).with_stride([2, 2]);
    let mut layers = vec![
        layer("first", 24, three, 3),
        layer("second", 40, three, 24).with_pool(pool),
        layer("third", 48, three, 40),
        layer("last", 10, Window::new([4, 4]), 48),
    ];
    layers[3].activation = Activation::None;
    let input = InputImage::standardized([8, 8, 3], &[0.4, 0.5, 0.6], &[0.25; 3]).unwrap();
    Network::new(input, layers).unwrap()
}

#[test]
fn at_most_one_code_in_ten_thousand_differs_from_the_float_network() {
    let host = Host::new();
    let (mut n_codes, mut n_different) = (0, 0);
    for (weight_bits, activation_bits) in [(1, 1), (1, 2), (2, 2), (3, 3)] {
        let mut random = Random::new(40 + weight_bits as u64);
        let float = float_network(&mut random);
        let pixels: Vec<u8> = (0..6 * 192).map(|_| random.below(256) as u8).collect();
        let images = Tensor::from_vec(
            &[6, 8, 8, 3],
            pixels.iter().map(|&p| i32::from(p)).collect(),
        );
        let images = float.input().values_of(&images);
        let network = float
            .quantized(weight_bits, activation_bits, &images, &host)
            .unwrap();
        let frozen = network.freeze().unwrap();
        let codes = frozen.codes(&pixels).unwrap();
        let (expected, scores) = float_codes(&network, &codes, &host);
        let (actual, frozen_scores) =
            frozen_codes(&network, &frozen.layers_of(&codes).unwrap(), &host);
        let pairs = || actual.iter().flatten().zip(expected.iter().flatten());
        let different = pairs().filter(|(a, b)| a != b).count();
        if different == 0 {
            assert_close(
                &frozen_scores[..],
                &scores[..],
                Tolerance::relative(0).or_absolute(1e-4),
            );
        }
        n_codes += pairs().count();
        n_different += different;
        let on_reference = frozen_codes(&network, &frozen.layers_of(&codes).unwrap(), &Reference);
        assert_eq!(on_reference.0, actual);
    }
    assert!(
        n_different as f64 <= 1e-4 * n_codes as f64,
        "{n_different} of {n_codes} codes differ"
    );
}

#[test]
fn fused_thresholds_are_those_of_the_known_table() {
    // Batch normalization and sign of a sum of 27 signs: the table of golden test G8, where a count
    // x of different bits is positive up to tau; sums are 27 - 2x.
    let table = [
        (0.5_f32, -3.0_f32, 10),
        (1.0, -3.0, 12),
        (-1.0, -3.0, 12),
        (-0.5, 2.25, 15),
    ];
    for (gamma, beta, tau) in table {
        let sign = LevelSet::binary(1.0).unwrap();
        let weights = Weights::Levels {
            quantizer: Quantizer::new(vec![sign.clone()]).unwrap(),
            codes: vec![1; 27],
        };
        let normalization = Normalization::batch(&[gamma], &[beta], &[0.0], &[1.0], 0.0).unwrap();
        let up = sign.clone().with_ties(Ties::Up);
        // The first layer copies the signs of its pixels, the last copies the sign of the sum.
        let copy = |n: usize, name: &str| {
            let mut identity = vec![0.0; n * n];
            (0..n).for_each(|i| identity[i * n + i] = 1.0);
            Layer::new(name, n, Window::new([1, 1]), Weights::Float(identity))
        };
        let mut input = InputImage::unit([1, 1, 27]);
        input.scale = vec![2.0; 27];
        input.offset = vec![-1.0; 27];
        let layers = vec![
            copy(27, "signs").with_activation(Activation::Levels(sign)),
            Layer::new("sum", 1, Window::new([1, 1]), weights)
                .with_normalization(normalization)
                .with_activation(Activation::Levels(up)),
            copy(1, "sign"),
        ];
        let frozen = Network::new(input, layers).unwrap().freeze().unwrap();
        for x in 0..=27 {
            let pixels: Vec<u8> = (0..27).map(|i| u8::from(i >= x)).collect();
            let output = frozen.run(&pixels, &Host::new()).unwrap();
            // On flipped weights the count of different bits is 27 - x.
            let count = if gamma < 0.0 { 27 - x } else { x };
            let expected = if count <= tau { 1.0 } else { -1.0 };
            assert_eq!(output[[0, 0, 0, 0]], expected, "gamma {gamma}, x {x}");
        }
    }
}

#[test]
fn numbers_of_any_size_are_fixed_point_numbers_of_their_channel() {
    // Weights near the largest and the smallest f32, in one layer.
    let weights = vec![3e38_f32, -1e38, 2e-30, 1e-30];
    let only = |weights: &[f32], scale: f32| {
        let mut input = InputImage::unit([1, 1, 2]);
        input.scale = vec![scale; 2];
        let weights = Weights::Float(weights.to_vec());
        let layer = Layer::new("only", 2, Window::new([1, 1]), weights);
        Network::new(input, vec![layer]).unwrap().freeze()
    };
    let frozen = only(&weights, 1.0 / 256.0).unwrap();
    let output = frozen.run(&[128, 64], &Host::new()).unwrap();
    assert_close(
        output.into_iter().collect::<Vec<_>>(),
        [1.25e38_f32, 1.25e-30],
        Tolerance::relative(16),
    );
    // Channels of zeros are zeros.
    let zeros = only(&[0.0; 4], 1.0).unwrap();
    let output = zeros.run(&[255, 255], &Host::new()).unwrap();
    assert_close(
        output.into_iter().collect::<Vec<_>>(),
        [0.0_f32; 2],
        Tolerance::exact(),
    );
    // A sum beyond the largest f32 has no unit.
    let error = only(&weights, 1e38).unwrap_err().to_string();
    assert!(
        error.starts_with(
            "layer \"only\": Network::freeze: the sums of output channel 0 do not fit i32 (2 products;"
        ),
        "{error}"
    );
}

#[test]
fn a_sum_of_too_many_products_is_an_error() {
    // The rounding of 2^23 products of 8-bit numbers is half of the range of i32.
    let n = (1 << 23) + (1 << 17);
    let layer = Layer::new("long", 1, Window::new([1, 1]), Weights::Float(vec![0.5; n]));
    let network = Network::new(InputImage::unit([1, 1, n]), vec![layer]).unwrap();
    let error = network.freeze().map(|_| ()).unwrap_err().to_string();
    let expected = format!(
        "layer \"long\": Network::freeze: the sums of output channel 0 do not fit i32 ({n} products;"
    );
    assert!(error.starts_with(&expected), "{error}");
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
            expected: 32,
            ..
        })
    ));
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
fn quantized_networks_are_not_quantized_again() {
    let host = Host::new();
    let float = float_network(&mut Random::new(3));
    let images = Tensor::ones(&[2, 8, 8, 3], DType::F32);
    assert!(float.quantized(9, 1, &images, &host).is_err());
    assert!(float.quantized(1, 0, &images, &host).is_err());
    let quantized = float.quantized(1, 1, &images, &host).unwrap();
    let error = quantized.quantized(1, 1, &images, &host).unwrap_err();
    assert_eq!(
        error.to_string(),
        "layer \"first\": Network::quantized: the activation is a level set (expected none or relu)"
    );
    let qem = Qem::signs(1).unwrap();
    assert!(Weights::fit(&qem, &[1.0, f32::NAN], 1).is_err());
}
