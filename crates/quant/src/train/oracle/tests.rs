//! Training steps of programs next to the oracle, which is given the levels of the programs.

use std::panic::catch_unwind;

use tensor_core::compare::{Tolerance, compare};
use tensor_core::optim::Sgd;
use tensor_core::rng::Philox;
use tensor_core::{Executor, Host, Reference, Tensor};

use super::*;
use crate::fault::{Fault, with_fault};
use crate::layers::{ActivationLevels, BatchNorm, MaxPool, QuantConv2d, QuantLinear, WeightLevels};
use crate::train::training::started;
use crate::train::{NetLayer, SharedOptimizer, Steps};
use crate::{InputImage, Window};

/// So few images that the bounds of sums are small, and no value is near an edge of a derivative in
/// most nets.
const BATCH: usize = 4;
const SIDE: usize = 9;
const N_CLASSES: u32 = 5;
const RATE: f32 = 0.05;
const MOMENTUM: f64 = 0.9;
const WEIGHT_DECAY: f64 = 1e-3;

/// Returns a net with padding, groups, a bias, and perhaps a max-pool of sums of levels. Many of
/// these sums are equal up to rounding, so that rounding decides which of them the pool's gradient
/// goes to.
fn net(levels: &str, has_second_pool: bool) -> Net {
    let window = |side| Window::new([side; 2]);
    let conv1 = QuantConv2d::new(4, window(3).with_padding([[1; 2]; 2]));
    let conv2 = QuantConv2d {
        n_groups: 2,
        padding_value: 0.5,
        ..QuantConv2d::new(6, window(2).with_padding([[1, 0]; 2]))
    };
    let pool = |stride| MaxPool::new(window(2).with_stride([stride; 2])).unwrap();
    let norm = || NetLayer::BatchNorm(BatchNorm::default());
    let relu = || NetLayer::Activation(ActivationLevels::Relu);
    let mut layers = vec![
        ("conv1", NetLayer::Conv2d(conv1)),
        ("pool1", NetLayer::MaxPool(pool(2))),
        ("norm1", norm()),
        ("act1", relu()),
        ("conv2", NetLayer::Conv2d(conv2)),
        ("pool2", NetLayer::MaxPool(pool(1))),
        ("norm2", norm()),
        ("act2", relu()),
        ("hidden", NetLayer::Linear(QuantLinear::new(12))),
        ("norm3", norm()),
        ("act3", relu()),
        (
            "classes",
            NetLayer::Linear(QuantLinear::new(N_CLASSES as usize).with_bias()),
        ),
    ];
    layers.retain(|(name, _)| has_second_pool || *name != "pool2");
    let net = Net::new(InputImage::unit([SIDE, SIDE, 2]), layers).unwrap();
    net.with_levels(levels.parse().unwrap()).unwrap()
}

/// The training of a net by a program, with the levels of each step as further results.
struct Program {
    net: Net,
    steps: Steps,
}

impl Program {
    fn new(net: &Net) -> Self {
        let parameters = net.parameters();
        let streams = (0..).map(|number| Philox::new(7).stream(number));
        let parameters: Vec<Vec<f32>> = parameters
            .iter()
            .zip(streams)
            .map(|((_, slot), stream)| started(slot, stream))
            .collect();
        let state = net.state(&parameters).unwrap();
        let state = state
            .iter()
            .map(|slot| Tensor::from_vec(&slot.shape, started(slot, Philox::new(0))));
        let slots = net.parameters();
        let tensors = slots.iter().zip(parameters);
        let tensors = tensors.map(|((_, slot), own)| Tensor::from_vec(&slot.shape, own));
        let optimizer = |decay| -> SharedOptimizer {
            let sgd = Sgd::new(0.0).unwrap().with_momentum(MOMENTUM).unwrap();
            Box::new(sgd.with_weight_decay(decay).unwrap())
        };
        let optimizers = [optimizer(WEIGHT_DECAY), optimizer(0.0)];
        let steps = Steps::new(net.clone(), optimizers, tensors.collect(), state.collect());
        Self {
            net: net.clone(),
            steps: steps.unwrap(),
        }
    }

    fn numbers(tensors: &[Tensor]) -> Vec<Vec<f32>> {
        let numbers = |tensor: &Tensor| tensor.eval::<f32>(&Reference).unwrap();
        tensors
            .iter()
            .map(|tensor| numbers(tensor).into_iter().collect())
            .collect()
    }

    /// Returns the programs of all levels, with the names of their layers.
    fn levels(&self, images: &Tensor) -> Vec<(String, Tensor)> {
        let (parameters, state) = (self.steps.parameters(), self.steps.state());
        let mut levels = Vec::new();
        for (number, place) in self.net.places().iter().enumerate() {
            let (own, own_state) = (place.own(parameters), place.own_state(state));
            let (kind, n_outputs) = match place.layer {
                NetLayer::Conv2d(layer) => (layer.levels, layer.n_outputs),
                NetLayer::Linear(layer) => (layer.levels, layer.n_outputs),
                NetLayer::Activation(kind) if *kind != ActivationLevels::Relu => {
                    let layers = self.net.layers()[..=number].iter();
                    let layers = layers.map(|(name, layer)| (name.as_str(), layer.clone()));
                    let first = Net::new(self.net.input().clone(), layers.collect()).unwrap();
                    let n_parameters = first.parameters().len();
                    let n_state = first.state_names().len();
                    let output =
                        first.apply(images, &parameters[..n_parameters], &state[..n_state]);
                    levels.push((place.name.to_owned(), output.unwrap().output));
                    continue;
                }
                _ => continue,
            };
            if kind != WeightLevels::Float {
                let len: usize = own[0].shape().unwrap().iter().product();
                let rows = own[0].reshape(&[n_outputs, len / n_outputs]);
                let (weights, _) = kind.apply(&rows, own_state).unwrap();
                levels.push((place.name.to_owned(), weights));
            }
        }
        levels
    }

    /// Does a step, and returns its loss and its levels.
    fn step(
        &mut self,
        executor: &dyn Executor,
        images: &Tensor,
        labels: &Tensor,
    ) -> (f32, ChosenLevels) {
        let step = self.steps.programs(&[images, labels], RATE).unwrap();
        let levels = self.levels(images);
        let all: Vec<&Tensor> = step
            .iter()
            .chain(levels.iter().map(|(_, levels)| levels))
            .collect();
        let mut values = Tensor::realize_all(&all, executor).unwrap();
        let of_levels = values.split_off(step.len());
        let loss = values.remove(0).to_host::<f32>().unwrap()[[0]];
        let names = levels.into_iter().map(|(name, _)| name);
        let chosen = names.zip(Self::numbers(&of_levels)).collect();
        self.steps.set(self.steps.n_steps() + 1, values);
        (loss, chosen)
    }
}

fn wide(tensors: &[Vec<f32>]) -> Vec<Vec<f64>> {
    let wide = |numbers: &Vec<f32>| numbers.iter().copied().map(f64::from).collect();
    tensors.iter().map(wide).collect()
}

/// Trains some steps by the program and by the oracle, which continues at each step from the
/// program's numbers. Returns the number of parameters of the net, and the number of those whose
/// gradients were compared in all steps.
fn check_steps(levels: &str, has_second_pool: bool, executor: &dyn Executor) -> [usize; 2] {
    const N_STEPS: u64 = 4;
    /// The tolerance of parameters and state: relative in epsilons, and absolute. Measured
    /// differences were at most 2e-7.
    const TOLERANCE: (usize, f64) = (16, 1e-6);
    let net = net(levels, has_second_pool);
    let mut program = Program::new(&net);
    let numbers = |program: &Program| {
        let steps = &program.steps;
        [steps.parameters(), steps.state()].map(Program::numbers)
    };
    let [parameters, state] = numbers(&program);
    let options = [MOMENTUM, WEIGHT_DECAY];
    let mut oracle = Oracle::new(&net, options, &parameters, &state).unwrap();
    let (mut n_quantized, mut n_near, mut n_uncertain) = (0, 0, 0);
    for number in 0..N_STEPS {
        let step = format!("{levels}, step {number}");
        let stream = Philox::new(11).stream(number);
        let mut images = vec![0.0_f32; BATCH * SIDE * SIDE * 2];
        stream.fill_uniform_f32(0, &mut images);
        let labels = (0..).map(|image| stream.word(1 << 20 | image) % N_CLASSES);
        let labels: Vec<u32> = labels.take(BATCH).collect();
        let tensors = [
            Tensor::from_vec(&[BATCH, SIDE, SIDE, 2], images.clone()),
            Tensor::from_vec(&[BATCH], labels.clone()),
        ];
        let (loss, chosen) = program.step(executor, &tensors[0], &tensors[1]);
        let expected = oracle.step_with(&chosen, &images, &labels, RATE.into());
        let expected = expected.unwrap();
        assert_eq!(expected.n_wrong, 0, "{step}: levels of other cells");
        n_quantized += expected.n_quantized;
        n_near += expected.n_near;
        // In a net of floats the bounds of all layers add up to more than the loss.
        let is_float = expected.n_quantized == 0;
        let bound = if is_float { 1e-6 } else { expected.loss_bound };
        let tolerance = Tolerance::relative(0).or_absolute(bound);
        compare(&[loss][..], &[expected.loss][..], &tolerance).expect(&step);
        if !is_float {
            assert!(bound < 1e-4, "{step}: bound {bound}");
            // Momentum carries a difference on to later steps.
            n_uncertain = n_uncertain.max(expected.n_uncertain);
        }
        let [parameters, state] = numbers(&program);
        let tolerance = Tolerance::relative(TOLERANCE.0).or_absolute(TOLERANCE.1);
        let names = net.parameters().into_iter().map(|(name, _)| name);
        let names = names.chain(net.state_names());
        let actual = parameters.iter().chain(&state);
        let reference = oracle.parameters().iter().chain(oracle.state());
        for ((name, actual), expected) in names.zip(actual).zip(reference).skip(n_uncertain) {
            let compared = compare(&actual[..], &expected[..], &tolerance);
            compared.unwrap_or_else(|error| panic!("{step}, {name}: {error}"));
        }
        (oracle.parameters, oracle.state) = (wide(&parameters), wide(&state));
    }
    assert!(
        n_near * 1000 <= n_quantized,
        "{levels}: {n_near} of {n_quantized} levels differ"
    );
    let n_parameters = net.parameters().len();
    [n_parameters, n_parameters - n_uncertain]
}

const ALL_LEVELS: [&str; 10] = [
    "float", "w1a1", "w1a2", "w2a2", "w3a3", "u2a2", "d1a2", "d2a2", "abc1a1", "abc2a2",
];

#[test]
fn steps_on_the_host_agree_with_the_oracle_given_their_levels() {
    /// The parameters of the second normalization, the hidden layer, its normalization and the
    /// classes.
    const N_AFTER_POOL: usize = 7;
    let (mut n_complete, mut n_after_pool) = (0, 0);
    for levels in ALL_LEVELS {
        let [n_parameters, n_compared] = check_steps(levels, false, &Host::new());
        n_complete += usize::from(n_compared == n_parameters);
        // At least the parameters after the second pool, but for the nets with uncertain layers.
        let [_, n_compared] = check_steps(levels, true, &Host::new());
        n_after_pool += usize::from(n_compared >= N_AFTER_POOL);
    }
    assert!(
        n_after_pool + 3 >= ALL_LEVELS.len(),
        "{n_after_pool} nets with the gradients after the pool"
    );
    // In two nets with one bit per weight, some values are at an edge of a derivative.
    assert!(
        n_complete + 2 >= ALL_LEVELS.len(),
        "{n_complete} nets with all gradients"
    );
}

#[test]
fn planted_faults_are_found() {
    let faults = [
        (Fault::NewBasis, "w2a2"),
        (Fault::NoAverage, "w2a2"),
        (Fault::UnclippedGradient, "w2a2"),
        (Fault::DifferentiatedFactors, "abc2a2"),
    ];
    for (fault, levels) in faults {
        let check = || with_fault(fault, || check_steps(levels, false, &Host::new()));
        assert!(catch_unwind(check).is_err(), "{fault:?}");
    }
}

#[cfg(feature = "gpu")]
#[test]
fn steps_on_adapters_agree_with_the_oracle_given_their_levels() {
    let levels = ["w1a1", "w2a2", "u2a2", "d2a2", "abc2a2"];
    for (gpu, levels) in gpu_wgsl::check::on_adapters_in_turn(levels) {
        let [_, n_compared] = check_steps(levels, false, gpu);
        assert!(n_compared > 0, "{levels}: no gradient was compared");
    }
}

#[test]
fn bad_batches_and_tensors_are_errors() {
    let net = net("w2a2", true);
    let program = Program::new(&net);
    let steps = &program.steps;
    let [parameters, state] = [steps.parameters(), steps.state()].map(Program::numbers);
    let options = [MOMENTUM, WEIGHT_DECAY];
    let mut short = state.clone();
    short[1].clear();
    let error = Oracle::new(&net, options, &parameters, &short).unwrap_err();
    assert!(
        error.to_string().contains("variance has 0 elements"),
        "{error}"
    );
    assert!(Oracle::new(&net, options, &parameters[1..], &state).is_err());
    let mut oracle = Oracle::new(&net, options, &parameters, &state).unwrap();
    let image = vec![0.5; SIDE * SIDE * 2];
    let error = oracle.step(&[], &[], 0.1).unwrap_err();
    assert!(matches!(error, Error::Empty { .. }), "{error}");
    let error = oracle.step(&image[1..], &[0], 0.1).unwrap_err();
    assert!(matches!(error, Error::Length { .. }), "{error}");
    let error = oracle.step(&image, &[N_CLASSES], 0.1).unwrap_err();
    assert!(matches!(error, Error::Label { .. }), "{error}");
    let large = InputImage::unit([1 << 20; 3]);
    let relu = ("relu", NetLayer::Activation(ActivationLevels::Relu));
    let large = Net::new(large, vec![relu]).unwrap();
    // The 2^64 numbers of 16 images.
    let mut oracle_of_large = Oracle::new(&large, options, &[], &[]).unwrap();
    let error = oracle_of_large.step(&[], &[0; 16], 0.1).unwrap_err();
    assert!(matches!(error, Error::Length { .. }), "{error}");
    let chosen = [("act9".to_owned(), vec![0.0])].into();
    let error = oracle.step_with(&chosen, &image, &[0], 0.1).unwrap_err();
    assert!(matches!(error, Error::Layer { .. }), "{error}");
}
