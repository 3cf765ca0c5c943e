//! Frozen networks: their codes are those of the float network from which they were frozen.
//!
//! The file is long because all tests share the random networks and the float oracle for bits and
//! bytes.

#![expect(
    clippy::unwrap_used,
    reason = "an error in a helper fails the test that calls it"
)]
#![expect(
    clippy::cast_possible_truncation,
    reason = "random choices are small numbers"
)]

use quant::{
    Activation, InputImage, Layer, LevelSet, Network, Normalization, Packing, PlaneLayout, Qem,
    Quantizer, Sample, Ties, Weights, Window,
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

    /// Returns level sets whose levels are multiples of 1/8, or whose bytes are multiples of 1/64.
    fn levels(&mut self, packing: Packing) -> LevelSet {
        let ties = self.choice(&[Ties::Down, Ties::Up]);
        let set = match packing {
            Packing::Bits => self.levels_of_bits(),
            Packing::Bytes => self.levels_of_bytes(),
        };
        set.with_ties(ties)
    }

    /// Returns level sets whose largest level is 127/64, so that bytes are multiples of 1/64. The
    /// other levels are not.
    fn levels_of_bytes(&mut self) -> LevelSet {
        let largest = 127.0 / 64.0;
        let (a, b) = (self.fraction(), self.fraction());
        let sets = [
            LevelSet::bits(&[largest]),
            LevelSet::bits(&[a, largest - a]),
            LevelSet::bits(&[largest - a - b, a, b]),
            LevelSet::signs(&[largest]),
            LevelSet::signs(&[a, b, largest - a - b]),
            // Levels that are less far apart than bytes.
            LevelSet::signs(&[0.5, 0.25, 0.125, a / 64.0, b / 64.0])
                .and_then(|set| set.with_offset(largest - 0.875 - (a + b) / 64.0)),
            LevelSet::ternary(largest),
            LevelSet::bits(&[largest + a]).and_then(|set| set.with_offset(-a)),
        ];
        self.choice(&sets).unwrap()
    }

    /// Returns a multiple of 2^-12 from 0.25 to 0.5.
    fn fraction(&mut self) -> f32 {
        0.25 + self.below(1 << 10) as f32 / 4096.0
    }

    fn levels_of_bits(&mut self) -> LevelSet {
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
        self.choice(&sets).unwrap()
    }

    /// Returns weights of quarters or of the levels of [`levels`](Self::levels), which may differ
    /// between the outputs for bytes.
    fn weights(&mut self, packing: Packing, n_outputs: usize, per_output: usize) -> Weights {
        let n = n_outputs * per_output;
        if self.below(4) == 0 {
            return Weights::Float(self.quarters(n));
        }
        let sets: Vec<LevelSet> = match packing {
            Packing::Bits => vec![self.levels(packing); n_outputs],
            Packing::Bytes => (0..n_outputs).map(|_| self.levels(packing)).collect(),
        };
        let codes = (0..n).map(|weight| {
            let set: &LevelSet = &sets[weight / per_output];
            self.choice(set.codes())
        });
        let codes = codes.collect();
        Weights::Levels {
            quantizer: Quantizer::new(sets).unwrap(),
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

    /// Returns a network all of whose sums are exact in f32 when it is frozen to a packing, and
    /// pixels of two images.
    fn exact_network(&mut self, packing: Packing) -> Option<(Network, Vec<u8>)> {
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
            // Only the weights of layers between the first and the last are rounded to bytes.
            let of_weights = if number == 0 || number + 1 == n_layers {
                Packing::Bits
            } else {
                packing
            };
            let weights = self.weights(of_weights, n_outputs, per_output);
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
                Activation::Levels(self.levels(packing))
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

/// Returns the levels of a set, rounded to bytes by the definition, and their unit.
fn bytes_of(levels: &LevelSet) -> (f64, Vec<i8>) {
    let levels = levels.levels().iter().map(|&level| f64::from(level));
    let largest = levels.clone().fold(0.0, |most: f64, x| most.max(x.abs()));
    let bytes = levels.map(|level| (127.0 * level / largest).round() as i8);
    (largest / 127.0, bytes.collect())
}

/// Returns the values of codes whose levels are rounded to bytes.
fn rounded_values(levels: &LevelSet, codes: &[u8]) -> Vec<f32> {
    let (unit, bytes) = bytes_of(levels);
    let place = |code| levels.codes().iter().position(|other| other == code);
    let value = |code| unit * f64::from(bytes[place(code).unwrap()]);
    codes.iter().map(|code| value(code) as f32).collect()
}

/// Returns a layer whose weights are rounded to bytes.
fn with_rounded_weights(mut layer: Layer) -> Layer {
    if let Weights::Levels { quantizer, codes } = &layer.weights {
        let sets = quantizer.levels();
        let channels = codes.chunks(codes.len() / layer.n_outputs).enumerate();
        let values = channels
            .flat_map(|(output, codes)| rounded_values(&sets[output.min(sets.len() - 1)], codes));
        layer.weights = Weights::Float(values.collect());
    }
    layer
}

/// Returns the codes of all activations of a float network, one list for each layer but the last,
/// and its output. For bytes, the levels of activations and of the weights of all layers but the
/// first and the last are rounded, and the codes are the bytes.
fn float_codes(
    network: &Network,
    packing: Packing,
    codes: &Tensor,
    executor: &dyn Executor,
) -> (Vec<Vec<u8>>, Vec<f32>) {
    let mut x = network.input().values_of(codes);
    let last = network.layers().len() - 1;
    let mut all = Vec::new();
    for (number, layer) in network.layers().iter().enumerate() {
        let is_rounded = packing == Packing::Bytes && number != 0 && number != last;
        let layer = if is_rounded {
            with_rounded_weights(layer.clone())
        } else {
            layer.clone()
        };
        let activation = layer.activation.clone();
        let image = InputImage::unit(network.image_sizes()[number]);
        let layer = Network::new(image, vec![layer]).unwrap();
        let value = layer.values_of(&x).unwrap().remove(0);
        let value = value.eval::<f32>(executor).unwrap();
        let shape = value.shape().to_vec();
        let value: Vec<f32> = value.into_iter().collect();
        let Activation::Levels(levels) = activation else {
            assert_eq!(number, last, "a layer without levels");
            return (all, value);
        };
        let codes = levels.quantize_strict(&value).unwrap();
        let (values, codes) = match packing {
            Packing::Bits => (levels.dequantize(&codes).unwrap(), codes),
            Packing::Bytes => {
                let (unit, _) = bytes_of(&levels);
                let values = rounded_values(&levels, &codes);
                let byte = |value: &f32| (f64::from(*value) / unit).round() as i8;
                let bytes = values
                    .iter()
                    .map(|value| byte(value).cast_unsigned())
                    .collect();
                (values, bytes)
            }
        };
        all.push(codes);
        x = Tensor::from_vec(&shape, values);
    }
    panic!("the last layer has no output");
}

/// Returns the codes and the output that [`float_codes`] returns, from the outputs of a frozen
/// network's layers.
fn frozen_codes(
    network: &Network,
    packing: Packing,
    outputs: &[Tensor],
    executor: &dyn Executor,
) -> (Vec<Vec<u8>>, Vec<f32>) {
    let (last, others) = outputs.split_last().unwrap();
    let of_layer = |(number, words): (usize, &Tensor)| {
        let layer = &network.layers()[number];
        let Activation::Levels(levels) = &layer.activation else {
            panic!("a layer without levels");
        };
        let n_groups = network.layers()[number + 1].n_groups;
        let layout = match packing {
            Packing::Bits => PlaneLayout::new(layer.n_outputs, n_groups, levels.basis().len()),
            Packing::Bytes => PlaneLayout::bytes(layer.n_outputs, n_groups),
        };
        let layout = layout.unwrap();
        let words = words.eval::<u32>(executor).unwrap();
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

const PACKINGS: [Packing; 2] = [Packing::Bits, Packing::Bytes];

/// Returns the number of random networks: `usual`, or `full` with `VERIFY_FULL=1`.
fn n_seeds(usual: u64, full: u64) -> u64 {
    let is_full = std::env::var_os("VERIFY_FULL").is_some_and(|value| value == "1");
    if is_full { full } else { usual }
}

#[test]
#[cfg(feature = "gpu")]
fn devices_have_the_codes_and_outputs_of_the_float_network() {
    /// Number of networks that also run as programs. Their kernels are compiled for each network,
    /// which takes most of the time.
    const N_PROGRAMS: usize = 6;
    let mut adapters = gpu_wgsl::check::adapters_in_turn();
    for packing in PACKINGS {
        let mut n_networks = 0;
        for seed in 0..n_seeds(24, 60) {
            let Some((network, pixels)) = Random::new(seed).exact_network(packing) else {
                continue;
            };
            let frozen = network.freeze_to(packing).unwrap();
            let codes = frozen.codes(&pixels).unwrap();
            let expected = float_codes(&network, packing, &codes, &Reference);
            if let Some(gpu) = adapters.next() {
                let mut outputs = vec![frozen.upload(gpu).unwrap().layers_of(&codes).unwrap()];
                if n_networks < N_PROGRAMS {
                    outputs.push(frozen.layers_of(&codes).unwrap());
                }
                for outputs in outputs {
                    let actual = frozen_codes(&network, packing, &outputs, gpu);
                    let driver = &gpu.adapter().driver;
                    assert_eq!(actual.0, expected.0, "{packing:?}, seed {seed}, {driver}");
                    assert_close(&actual.1[..], &expected.1[..], Tolerance::exact());
                }
            }
            n_networks += 1;
        }
        assert!(n_networks > 5, "{packing:?}: {n_networks} networks");
    }
}

#[test]
fn exact_networks_have_the_codes_and_outputs_of_their_float_network() {
    for packing in PACKINGS {
        let [mut n_networks, mut n_pools, mut n_packed] = [0; 3];
        for seed in 0..n_seeds(60, 180) {
            let mut random = Random::new(seed);
            let Some((network, pixels)) = random.exact_network(packing) else {
                continue;
            };
            let frozen = network.freeze_to(packing).unwrap();
            let codes = frozen.codes(&pixels).unwrap();
            let expected = float_codes(&network, packing, &codes, &Reference);
            let executors: [&dyn Executor; 2] = [&Host::new(), &Reference];
            for executor in executors {
                let outputs = frozen.layers_of(&codes).unwrap();
                let actual = frozen_codes(&network, packing, &outputs, executor);
                assert_eq!(actual.0, expected.0, "{packing:?}, seed {seed}");
                assert_close(&actual.1[..], &expected.1[..], Tolerance::exact());
            }
            let layers = network.layers();
            n_networks += 1;
            n_pools += usize::from(layers[0].pool != Window::new([1, 1]));
            let middle = &layers[1..layers.len() - 1];
            let is_packed = |layer: &&Layer| matches!(layer.weights, Weights::Levels { .. });
            n_packed += middle.iter().filter(is_packed).count();
        }
        assert!(
            n_networks > 15 && n_pools > 6 && n_packed > 6,
            "{packing:?}: {n_networks} networks, {n_pools} with a max-pool in the first \
             layer, {n_packed} packed layers between the first and the last"
        );
    }
}

#[test]
fn bytes_are_within_half_a_unit_of_their_levels() {
    let mut random = Random::new(7);
    let mut sets = vec![
        LevelSet::uniform_from_zero(8, 0.3).unwrap(),
        LevelSet::signs(&[1e-30, 3e-30]).unwrap(),
        LevelSet::bits(&[1e37, 1e38]).unwrap(),
        LevelSet::bits(&[0.0]).unwrap(),
        LevelSet::binary(0.7).unwrap(),
    ];
    for bits in 1..=4 {
        let sample = random.normal(500);
        let sample = Sample::new(&sample).unwrap();
        for qem in [
            Qem::signs(bits).unwrap(),
            Qem::signs(bits).unwrap().affine(),
        ] {
            sets.push(qem.fit(&sample).unwrap().level_set().unwrap());
        }
    }
    for set in sets {
        let (unit, bytes) = set.to_bytes();
        let levels = set.levels().iter().map(|&level| f64::from(level));
        let largest = levels.clone().fold(0.0, |most: f64, x| most.max(x.abs()));
        for (byte, level) in bytes.iter().zip(levels) {
            let error = (unit * f64::from(*byte) - level).abs();
            // The rounding of f64 is beyond the bound.
            assert!(
                error <= largest / 254.0 * (1.0 + 1e-12),
                "{byte} for {level} of {set:?}"
            );
        }
        let most = bytes.iter().map(|byte| byte.unsigned_abs()).max().unwrap();
        assert_eq!(most, if largest > 0.0 { 127 } else { 0 });
    }
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
    for packing in PACKINGS {
        let [mut n_codes, mut n_different, mut n_compared] = [0; 3];
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
            let frozen = network.freeze_to(packing).unwrap();
            let codes = frozen.codes(&pixels).unwrap();
            let (expected, scores) = float_codes(&network, packing, &codes, &host);
            let outputs = frozen.layers_of(&codes).unwrap();
            let (actual, frozen_scores) = frozen_codes(&network, packing, &outputs, &host);
            let pairs = || actual.iter().flatten().zip(expected.iter().flatten());
            let different = pairs().filter(|(a, b)| a != b).count();
            if different == 0 {
                n_compared += 1;
                // Sums of 768 products with bytes leave 14 bits for the weights of the last layer;
                // the largest error is 1.3e-4.
                let tolerance = match packing {
                    Packing::Bits => 1e-4,
                    Packing::Bytes => 3e-4,
                };
                assert_close(
                    &frozen_scores[..],
                    &scores[..],
                    Tolerance::relative(0).or_absolute(tolerance),
                );
            }
            n_codes += pairs().count();
            n_different += different;
            let on_reference = frozen_codes(&network, packing, &outputs, &Reference);
            assert_eq!(on_reference.0, actual);
        }
        assert!(n_compared > 0, "{packing:?}: all networks differ in a code");
        assert!(
            n_different as f64 <= 1e-4 * n_codes as f64,
            "{packing:?}: {n_different} of {n_codes} codes differ"
        );
    }
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
