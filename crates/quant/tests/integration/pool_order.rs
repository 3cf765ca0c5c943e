//! Networks with a max-pool after the activation, which export with the max-pool before the
//! normalization.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use quant::layers::{ActivationLevels, BatchNorm, MaxPool, QuantConv2d, QuantLinear};
use quant::train::{Net, NetLayer};
use quant::{Activation, Error, InputImage, Layer, LevelSet, Network, Normalization};
use quant::{Quantizer, Weights, Window};
use tensor_core::compare::{Tolerance, assert_close};
use tensor_core::rng::Philox;
use tensor_core::{DType, Host, Tensor};

const N_OUTPUTS: usize = 6;
const SIDE: usize = 7;
const INPUT: [usize; 3] = [SIDE, SIDE, 2];

/// Returns small numbers of both signs.
fn numbers(seed: u64, n: usize) -> Vec<f32> {
    let numbers = Tensor::randn(Philox::new(seed), &[n]);
    let numbers = numbers.eval::<f32>(&Host::new()).unwrap();
    numbers.into_iter().collect()
}

fn pool() -> Window {
    Window::new([2, 2])
        .with_stride([2, 2])
        .with_padding([[1, 1], [0, 0]])
}

/// Returns a convolution with a normalization whose factors have both signs, and 0.
fn layer(weights: Weights, activation: Activation) -> Layer {
    let mut gamma = numbers(1, N_OUTPUTS);
    (gamma[0], gamma[1], gamma[2]) = (-0.7, 0.0, 0.4);
    let variance: Vec<f32> = numbers(2, N_OUTPUTS).iter().map(|x| x * x).collect();
    let [beta, mean, bias] = [3, 4, 5].map(|seed| numbers(seed, N_OUTPUTS));
    let norm = Normalization::batch(&gamma, &beta, &mean, &variance, 0.1).unwrap();
    Layer::new("conv", N_OUTPUTS, Window::new([3, 3]), weights)
        .with_normalization(norm.with_bias(&bias).unwrap())
        .with_activation(activation)
}

fn float_weights() -> Vec<f32> {
    numbers(6, N_OUTPUTS * 3 * 3 * INPUT[2])
}

fn quantized(sets: Vec<LevelSet>) -> Weights {
    let quantizer = Quantizer::new(sets).unwrap();
    let (codes, _) = quantizer.quantize(&float_weights()).unwrap();
    Weights::Levels { quantizer, codes }
}

fn codes() -> Tensor {
    let words = Tensor::rand(Philox::new(7), &[3, SIDE, SIDE, INPUT[2]]);
    (words * 255.0).cast(DType::U32)
}

#[test]
fn a_pool_after_the_activation_has_the_same_bits_before_the_normalization() {
    let per_output = |output: usize| LevelSet::signs(&[0.3 + output as f32 / 10.0, 0.9]).unwrap();
    let weights = [
        Weights::Float(float_weights()),
        quantized(vec![LevelSet::signs(&[0.4, 0.8]).unwrap()]),
        quantized((0..N_OUTPUTS).map(per_output).collect()),
        quantized(vec![LevelSet::ternary(0.8).unwrap()]),
    ];
    let levels = LevelSet::uniform_from_zero(2, 0.5).unwrap();
    let activations = [
        Activation::None,
        Activation::Relu,
        Activation::Levels(levels),
    ];
    let input = InputImage::unit(INPUT);
    for weights in weights {
        for activation in activations.clone() {
            let own = layer(weights.clone(), activation);
            let first = Network::new(input.clone(), vec![own.clone()]).unwrap();
            let after = first.outputs_of(&input.values_of(&codes())).unwrap();
            // The max-pool leaves positions outside of the image out.
            let padded = after.pad(1, 1, 1, f32::NEG_INFINITY);
            let expected = padded.window(1, 2, 2).window(2, 2, 2).max([-2, -1]);
            let pooled = own.with_pool_after_activation(pool()).unwrap();
            let network = Network::new(input.clone(), vec![pooled]).unwrap();
            let actual = network.outputs_of(&input.values_of(&codes())).unwrap();
            let host = Host::new();
            let actual = actual.eval::<f32>(&host).unwrap();
            assert_close(
                actual,
                expected.eval::<f32>(&host).unwrap(),
                Tolerance::exact(),
            );
        }
    }
}

#[test]
fn one_sided_levels_of_a_falling_channel_are_an_error() {
    let one_sided = vec![LevelSet::bits(&[0.5, 1.0]).unwrap()];
    let own = layer(quantized(one_sided), Activation::Relu);
    let error = own.with_pool_after_activation(pool()).unwrap_err();
    assert!(
        matches!(error, Error::OneSidedLevels { channel: 0, .. }),
        "{error}"
    );
}

#[test]
fn levels_that_do_not_ascend_are_an_error() {
    let abc = ActivationLevels::Abc { bases: 2 };
    let with_factors = |factors: &[f32]| {
        let [conv, act] = [
            NetLayer::Conv2d(QuantConv2d::new(2, Window::new([2, 2]))),
            NetLayer::Activation(abc),
        ];
        let pool = NetLayer::MaxPool(MaxPool::new(Window::new([2, 2])).unwrap());
        let layers = vec![("conv", conv), ("act", act), ("pool", pool)];
        let net = Net::new(InputImage::unit(INPUT), layers).unwrap();
        let parameters = [numbers(8, 16), vec![0.1, -0.4], factors.to_vec()];
        net.network(&parameters, &[])
    };
    assert!(with_factors(&[0.5, 0.25]).is_ok());
    let error = with_factors(&[0.5, -0.25]).unwrap_err();
    assert!(
        matches!(&error, Error::Layer { source, .. }
        if matches!(**source, Error::FallingLevels { .. })),
        "{error}"
    );
}

/// Returns a net with a max-pool at one of three places.
fn net(place: usize) -> Net {
    let window = Window::new([2, 2]).with_stride([2, 2]);
    let pool = NetLayer::MaxPool(MaxPool::new(window).unwrap());
    let mut layers = vec![
        (
            "conv",
            NetLayer::Conv2d(QuantConv2d::new(4, Window::new([2, 2]))),
        ),
        ("norm", NetLayer::BatchNorm(BatchNorm::default())),
        ("act", NetLayer::Activation(ActivationLevels::Relu)),
        ("classes", NetLayer::Linear(QuantLinear::new(3).with_bias())),
    ];
    layers.insert(place, ("pool", pool));
    Net::new(InputImage::unit(INPUT), layers).unwrap()
}

#[test]
fn nets_export_with_a_pool_at_each_place_after_the_convolution() {
    let parameters: Vec<Vec<f32>> = net(1)
        .parameters()
        .iter()
        .zip(10..)
        .map(|((_, slot), seed)| numbers(seed, slot.shape.iter().product()))
        .collect();
    let state = vec![
        numbers(20, 4),
        numbers(21, 4).iter().map(|x| x * x).collect(),
    ];
    let outputs = [1, 2, 3].map(|place| {
        let network = net(place).network(&parameters, &state).unwrap();
        let values = network.input().values_of(&codes());
        network
            .outputs_of(&values)
            .unwrap()
            .eval::<f32>(&Host::new())
            .unwrap()
    });
    // The place before the normalization differs where a factor is negative.
    assert_ne!(outputs[0], outputs[2]);
    assert_close(outputs[1].clone(), outputs[2].clone(), Tolerance::exact());
}
