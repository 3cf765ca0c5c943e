//! Training steps with constants that change at every step, on an executor.
//!
//! Method: a step of the job trains two nets for some updates.
//! - A program that is built again for each update: two layers with a dropout, whose learning rate,
//!   decay and random stream are constants of the graph. Loss and parameters are compared with
//!   those of the reference executor for the same inputs. Plans and kernels depend on the structure
//!   alone, so that the caches must not grow with the constants.
//! - [`Steps`] of a float [`Net`], compiled once, with another learning rate at each update. Loss,
//!   parameters and state are compared with [`Oracle`], which starts each update from the program's
//!   numbers.
//!
//! Accuracy: the tolerances of both comparisons are those of `quant`'s tests on the CPU, ten times
//! as large for devices, whose built-in functions are less exact.

use anyhow::{Context as _, Result, ensure};
use quant::layers::{ActivationLevels, BatchNorm, MaxPool, QuantConv2d, QuantLinear, Slot, Start};
use quant::train::{Net, NetLayer, Oracle, SharedOptimizer, Steps};
use quant::{InputImage, Window};
use tensor_core::compare::{Tolerance, compare};
use tensor_core::optim::Sgd;
use tensor_core::rng::Philox;
use tensor_core::{Executor, Host, Reference, Tensor, grad};

use super::draws::Draws;
use super::memory::PoolReading;
use super::programs::on_each_adapter;
use super::{Counts, Job, Worker};

/// Number of updates of each net in a step.
const N_UPDATES: usize = 6;
/// Number of images of a batch of the [`Net`]; few, so that the bounds of sums are small.
const BATCH: usize = 4;
const SIDE: usize = 9;
const N_CLASSES: u32 = 5;
/// Absolute tolerance of numbers of magnitude 1.
const ABSOLUTE: f64 = 2e-6;
/// Relative tolerance, in epsilons.
const RELATIVE: usize = 64;
/// Additional tolerance of a parameter, as a share of the largest change of its tensor: the
/// normalization of few images amplifies the rounding of what it normalizes.
const SHARE_OF_GRADIENT: f64 = 1e-4;
/// Factor of the tolerances on devices.
const ON_DEVICES: usize = 10;
/// Largest share of the compiled net's parameters that are not compared.
const MOST_LEFT_OUT: f64 = 0.02;
/// Smallest number of parameters whose share is checked.
const LEAST_CHECKED: usize = 1000;
/// Batch, inputs, hidden values and outputs of the nets that are built for each update. Few sizes,
/// so that the caches hold the plans and kernels of all of them.
const SIZES: [[usize; 4]; 3] = [[16, 8, 12, 3], [1, 5, 7, 2], [33, 20, 16, 1]];

/// Returns the jobs: training on the host, and on each adapter.
pub(super) fn jobs() -> Vec<Job> {
    let host = Job::new("training/host", || {
        let host = Host::new();
        let counters = host.clone();
        let pool = move || PoolReading::from_host(&counters);
        Trainings::new(host, 1, pool)
    });
    let on_adapters = on_each_adapter("training", None, |gpu| {
        let counters = gpu.clone();
        Trainings::new(gpu, ON_DEVICES, move || PoolReading::from_device(&counters))
    });
    std::iter::once(host).chain(on_adapters).collect()
}

/// An executor with a compiled training.
struct Trainings<E, P> {
    executor: E,
    pool: P,
    tolerance: Tolerance,
    /// The absolute part of the tolerance.
    absolute: f64,
    net: Net,
    steps: Steps,
    /// Number of parameters of all updates of the compiled net.
    n_parameters: usize,
    /// Number of those that were not compared.
    n_left_out: usize,
}

impl<E: Executor, P: Fn() -> PoolReading> Trainings<E, P> {
    fn new(executor: E, factor: usize, pool: P) -> Result<Self> {
        let net = net()?;
        let absolute = ABSOLUTE * factor as f64;
        let [parameters, state] = start(&net, &mut Draws::new(0))?;
        let optimizer = |decay| -> Result<SharedOptimizer> {
            Ok(Box::new(Sgd::new(0.0)?.with_weight_decay(decay)?))
        };
        let optimizers = [optimizer(WEIGHT_DECAY)?, optimizer(0.0)?];
        let slots = slots(&net, &parameters)?;
        let [parameters, state] = tensors(&slots, &[parameters, state]);
        Ok(Self {
            executor,
            pool,
            tolerance: Tolerance::relative(RELATIVE * factor).or_absolute(absolute),
            absolute,
            steps: Steps::new(net.clone(), optimizers, parameters, state)?,
            net,
            n_parameters: 0,
            n_left_out: 0,
        })
    }

    /// Trains the net that is built again for each update.
    fn train_built(&self, draws: &mut Draws) -> Result<()> {
        let sizes = draws.choice(&SIZES);
        let [batch, n_inputs, n_hidden, n_outputs] = sizes;
        let mut array = |shape: &[usize]| {
            let len: usize = shape.iter().product();
            let numbers = (0..len).map(|_| draws.single(-1.0, 1.0)).collect();
            Array {
                shape: shape.to_vec(),
                numbers,
            }
        };
        let data = [array(&[batch, n_inputs]), array(&[batch, n_outputs])];
        let mut parameters = [
            &[n_inputs, n_hidden][..],
            &[n_hidden],
            &[n_hidden, n_outputs],
        ]
        .map(array);
        for number in 0..N_UPDATES {
            let constants = Constants {
                rate: draws.single(0.0, 0.2),
                decay: draws.single(0.0, 0.01),
                keep: draws.single(0.5, 1.0),
                stream: Philox::new(draws.integer(0, 1 << 30) as u64),
            };
            let arrays: Vec<&Array> = data.iter().chain(&parameters).collect();
            let program = || constants.update(&arrays);
            let actual = evaluated(&program()?, &self.executor)?;
            let expected = evaluated(&program()?, &Reference)?;
            for (result, (actual, expected)) in actual.iter().zip(&expected).enumerate() {
                compare(&actual[..], &expected[..], &self.tolerance).with_context(|| {
                    format!("built net {sizes:?}, update {number}, result {result}: {constants:?}")
                })?;
            }
            for (parameter, numbers) in parameters.iter_mut().zip(actual.into_iter().skip(1)) {
                parameter.numbers = numbers;
            }
        }
        Ok(())
    }

    /// Trains the compiled net.
    fn train_compiled(&mut self, draws: &mut Draws, counts: &mut Counts) -> Result<()> {
        let begun = start(&self.net, draws)?;
        let slots = slots(&self.net, &begun[0])?;
        let [parameters, state] = tensors(&slots, &begun);
        self.steps.restart(parameters, state)?;
        let [mut parameters, mut state] = begun;
        for number in 0..N_UPDATES {
            let rate = draws.single(0.0, 0.2);
            let images: Vec<f32> = (0..BATCH * SIDE * SIDE * 2)
                .map(|_| draws.single(0.0, 1.0))
                .collect();
            let labels: Vec<u32> = (0..BATCH)
                .map(|_| u32::try_from(draws.integer(0, N_CLASSES as usize - 1)))
                .collect::<std::result::Result<_, _>>()?;
            let batch = [
                Tensor::from_vec(&[BATCH, SIDE, SIDE, 2], images.clone()),
                Tensor::from_vec(&[BATCH], labels.clone()),
            ];
            let [image, label] = &batch;
            self.steps.step(&self.executor, &[image, label], rate)?;
            let loss = self.steps.read(&self.executor)?;
            let options = [0.0, WEIGHT_DECAY];
            let mut oracle = Oracle::new(&self.net, options, &parameters, &state)?;
            let expected = oracle.step(&images, &labels, rate.into())?;
            let at = || format!("compiled net, update {number}, rate {rate}");
            compare(&loss[..], &[expected.loss][..], &self.tolerance).with_context(at)?;
            parameters = numbers(self.steps.parameters())?;
            state = numbers(self.steps.state())?;
            let names = self.net.parameters().into_iter().map(|(name, _)| name);
            let names = names.chain(self.net.state_names());
            let actual = parameters.iter().chain(&state);
            let reference = oracle.parameters().iter().chain(oracle.state());
            let pairs = names.zip(actual).zip(reference);
            // Where a derivative jumps within the rounding of a value, its side is not known.
            self.n_parameters += expected.gradients.len();
            self.n_left_out += expected.n_uncertain;
            counts.add("parameters left out", expected.n_uncertain);
            for (index, ((name, actual), reference)) in pairs.enumerate().skip(expected.n_uncertain)
            {
                // The state has no gradients.
                let gradient = expected.gradients.get(index).map_or(&[][..], Vec::as_slice);
                let largest = gradient.iter().fold(0.0, |most, g| g.abs().max(most));
                let absolute = self.absolute + SHARE_OF_GRADIENT * f64::from(rate) * largest;
                let tolerance = self.tolerance.clone().or_absolute(absolute);
                compare(&actual[..], &reference[..], &tolerance)
                    .with_context(|| format!("{}, {name}", at()))?;
            }
        }
        Ok(())
    }
}

/// Decay of the weights of the compiled net.
const WEIGHT_DECAY: f64 = 1e-3;

impl<E: Executor, P: Fn() -> PoolReading> Worker for Trainings<E, P> {
    fn step(&mut self, seed: u64, counts: &mut Counts) -> Result<()> {
        let mut draws = Draws::new(seed);
        self.train_built(&mut draws)?;
        self.train_compiled(&mut draws, counts)?;
        counts.add("updates", 2 * N_UPDATES);
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        let (n_left_out, n_parameters) = (self.n_left_out, self.n_parameters);
        let share = n_left_out as f64 / n_parameters.max(1) as f64;
        ensure!(
            n_parameters < LEAST_CHECKED || share <= MOST_LEFT_OUT,
            "{n_left_out} of {n_parameters} parameters were not compared (limit {MOST_LEFT_OUT})"
        );
        Ok(())
    }

    fn pool(&self) -> Option<PoolReading> {
        Some((self.pool)())
    }
}

/// Numbers on the host with their shape.
struct Array {
    shape: Vec<usize>,
    numbers: Vec<f32>,
}

impl Array {
    fn tensor(&self) -> Tensor {
        Tensor::from_vec(&self.shape, self.numbers.clone())
    }
}

/// The constants of an update.
#[derive(Debug)]
struct Constants {
    rate: f32,
    decay: f32,
    /// Share of the hidden values that the dropout keeps.
    keep: f32,
    stream: Philox,
}

impl Constants {
    /// Returns the programs of the loss and of the next parameters. The arrays are inputs, targets,
    /// and the three parameters.
    fn update(&self, arrays: &[&Array]) -> Result<Vec<Tensor>> {
        let tensors: Vec<Tensor> = arrays.iter().map(|array| array.tensor()).collect();
        let [x, y, w, b, v] = &tensors[..] else {
            anyhow::bail!("{} arrays (expected 5)", tensors.len());
        };
        let hidden = (x.matmul(w) + b).tanh();
        let kept = Tensor::rand(self.stream, hidden.shape()?).lt(self.keep);
        let hidden = kept.select(&(&hidden / self.keep), &(&hidden * 0.0));
        let loss = (hidden.matmul(v) - y).square().mean(..);
        let loss = loss + (w.square().sum(..) + v.square().sum(..)) * self.decay;
        let gradients = grad(&loss, &[w, b, v])?;
        let next = [w, b, v].into_iter().zip(&gradients);
        let next = next.map(|(parameter, gradient)| parameter - gradient * self.rate);
        Ok(std::iter::once(loss.clone()).chain(next).collect())
    }
}

/// Evaluates tensors together on an executor.
fn evaluated(tensors: &[Tensor], executor: &dyn Executor) -> Result<Vec<Vec<f32>>> {
    let all: Vec<&Tensor> = tensors.iter().collect();
    numbers(&Tensor::realize_all(&all, executor)?)
}

fn numbers(tensors: &[Tensor]) -> Result<Vec<Vec<f32>>> {
    let numbers = |tensor: &Tensor| Ok(tensor.to_host::<f32>()?.into_iter().collect());
    tensors.iter().map(numbers).collect()
}

/// Returns a small net with a convolution, a max-pool, a normalization and a linear layer.
fn net() -> Result<Net> {
    let window = |side| Window::new([side; 2]);
    let relu = || NetLayer::Activation(ActivationLevels::Relu);
    let norm = || NetLayer::BatchNorm(BatchNorm::default());
    let conv = QuantConv2d::new(4, window(3).with_padding([[1; 2]; 2]));
    let layers = vec![
        ("conv1", NetLayer::Conv2d(conv)),
        (
            "pool1",
            NetLayer::MaxPool(MaxPool::new(window(2).with_stride([2; 2]))?),
        ),
        ("norm1", norm()),
        ("act1", relu()),
        (
            "classes",
            NetLayer::Linear(QuantLinear::new(N_CLASSES as usize).with_bias()),
        ),
    ];
    Ok(Net::new(InputImage::unit([SIDE, SIDE, 2]), layers)?)
}

/// Returns the slots of the parameters and of the state.
fn slots(net: &Net, parameters: &[Vec<f32>]) -> Result<[Vec<Slot>; 2]> {
    let of_parameters = net.parameters().into_iter().map(|(_, slot)| slot);
    Ok([of_parameters.collect(), net.state(parameters)?])
}

/// Draws the parameters and the state before the first update.
fn start(net: &Net, draws: &mut Draws) -> Result<[Vec<Vec<f32>>; 2]> {
    let mut drawn = |slots: Vec<Slot>| -> Vec<Vec<f32>> {
        let numbers = |slot: &Slot| {
            let len = slot.shape.iter().product();
            match &slot.start {
                Start::Constant(number) => vec![*number; len],
                Start::Numbers(numbers) => numbers.clone(),
                // The uniform distribution with this deviation.
                Start::Normal { deviation } => {
                    let largest = f64::from(*deviation) * 3.0_f64.sqrt();
                    (0..len).map(|_| draws.single(-largest, largest)).collect()
                }
            }
        };
        slots.iter().map(numbers).collect()
    };
    let parameters = drawn(net.parameters().into_iter().map(|(_, slot)| slot).collect());
    let state = drawn(net.state(&parameters)?);
    Ok([parameters, state])
}

/// Returns parameters and state as tensors.
fn tensors(slots: &[Vec<Slot>; 2], numbers: &[Vec<Vec<f32>>; 2]) -> [Vec<Tensor>; 2] {
    let of = |group: usize| {
        let pairs = slots[group].iter().zip(&numbers[group]);
        let tensors = pairs.map(|(slot, own)| Tensor::from_vec(&slot.shape, own.clone()));
        tensors.collect()
    };
    [of(0), of(1)]
}
