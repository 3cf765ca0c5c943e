//! The first 200 steps of training a network with few bits.
//!
//! Role: the workload `train-quant`: the time of a training step with each kind of levels, next to
//! the same recipe in PyTorch.
//! Method: [`quant::train::Training`] from random weights, at a constant rate. Every contestant
//! starts with the same weights and levels, and reads the images in the same order. The recipes
//! differ in the gradient of max-pools alone, see below.
//! Shapes: images of 28 × 28 pixels; the result is the loss of each step.
//! Accuracy: the first two losses are those of [`quant::train::Oracle`], which computes in f64:
//! within `FLOAT_TOLERANCE` with floats, within `LEVELS_TOLERANCES` with levels. Rounding moves a
//! value near a threshold to the next level, and the values of all windows that show the background
//! are equal, so that one such value moves many levels. (The tests of `quant` compare each level.)
//! With levels, the gradients of the first step depend on rounding, too, because sums of a few
//! levels are often equal up to rounding: our max-pool divides a gradient among equal maxima, that
//! of PyTorch passes the gradient to the first of them. Later losses drift apart, as in any
//! library, so that only the mean of the last ones is checked, after `N_STEPS` steps or more.
//! Source: the class-project notes on low-bit nets; Zhang, Yang, Ye and Hua 2018, "LQ-Nets"; Lin,
//! Zhao and Pan 2017, "Towards Accurate Binary Convolutional Neural Network".

use crate::low_bit::{self, FLOAT, LEVELS};
use crate::mnist::LazyImages;
use anyhow::{Result, ensure};
use gpu_wgsl::Gpu;
use harness::on_gpu;
use harness::record::NotRun;
use harness::rivals::BaselineArguments;
use harness::script;
use harness::workload::{Extent, Output, OutputElement, Problem, Task, Variant, Work, Workload};
use quant::train::{Images, Net, Oracle, Recipe, Schedule, Trained, Training};
use std::cell::RefCell;
use std::ops::ControlFlow;
use std::rc::Rc;
use tensor_core::compare::{Tolerance, compare};
use tensor_core::{Executor, Host};

/// The number of steps; 210 with the project's digits, whose epochs have 15 steps.
const N_STEPS: usize = 200;
const BATCH: usize = 100;
const RATE: f32 = 0.02;
const MOMENTUM: f64 = 0.9;
const WEIGHT_DECAY: f64 = 1e-4;
/// The number of first losses that are compared with f64.
const N_FIRST: usize = 2;
/// The tolerance of the first losses of the float network, in epsilons.
const FLOAT_TOLERANCE: usize = 32;
/// The relative tolerances of the first losses of networks with levels.
const LEVELS_TOLERANCES: [f64; N_FIRST] = [0.01, 0.05];
/// The number of last losses whose mean is checked.
const N_LAST: usize = 20;
/// The largest mean of the last losses.
const LARGEST_LAST: f32 = 0.25;

/// Returns the tasks.
pub fn tasks(images: &Rc<LazyImages>) -> impl Iterator<Item = Task> {
    LEVELS.into_iter().map(|levels| {
        let images = Rc::clone(images);
        let size = format!("28x28-conv32-conv64-512-10-{levels}");
        Task::new("train-quant", "S1", size, move || {
            let coded = images.get()?.coded()?.ok_or_else(|| NotRun {
                what: "train-quant".to_owned(),
                why: "labels or test images are missing".to_owned(),
                how: "pass --data a folder with all four files of MNIST".to_owned(),
            })?;
            Start::new(levels, &coded[0].first(N_STEPS * BATCH), BATCH, N_STEPS)
        })
    })
}

/// The start of a training.
#[derive(Debug)]
pub struct Start {
    levels: &'static str,
    net: Net,
    recipe: Recipe,
    images: Images,
    trained: Trained,
    first_losses: Vec<f64>,
    arrays: Vec<Array>,
}

/// An array for the rivals.
#[derive(Debug)]
struct Array {
    name: String,
    numbers: Vec<f32>,
    /// The length of each axis, with its name.
    shape: Vec<(String, usize)>,
}

impl Array {
    fn new(name: &str, shape: &[usize], numbers: Vec<f32>) -> Self {
        let axes = shape.iter().enumerate();
        Self {
            name: name.to_owned(),
            numbers,
            shape: axes
                .map(|(axis, &len)| (format!("{name}_{axis}"), len))
                .collect(),
        }
    }
}

impl Start {
    /// Draws the initial weights for at least `n_steps` steps, which are whole epochs, and computes
    /// the first losses in f64.
    ///
    /// # Errors
    /// The levels are unknown, there are fewer images than one batch, or the images are smaller
    /// than 16 × 16 pixels.
    pub fn new(
        levels: &'static str,
        images: &Images,
        batch: usize,
        n_steps: usize,
    ) -> Result<Self> {
        let net = low_bit::net(levels, images)?;
        let steps_per_epoch = images.len().checked_div(batch).unwrap_or(0);
        ensure!(
            steps_per_epoch > 0,
            "train-quant: too few images for a batch ({}; expected {batch})",
            images.len()
        );
        let recipe = Recipe {
            batch,
            n_epochs: n_steps.div_ceil(steps_per_epoch),
            schedule: Schedule::Constant(RATE),
            weight_decay: WEIGHT_DECAY,
            seed: 1,
            ..Recipe::default()
        };
        let trained =
            Training::new(net.clone(), recipe.clone(), images, &Host::new())?.trained()?;
        let mut start = Self {
            levels,
            net,
            recipe,
            images: images.clone(),
            trained,
            first_losses: Vec::new(),
            arrays: Vec::new(),
        };
        start.first_losses = start.oracle()?;
        start.arrays = start.arrays()?;
        Ok(start)
    }

    fn n_losses(&self) -> usize {
        self.images.len() / self.recipe.batch * self.recipe.n_epochs
    }

    /// Returns the images of all steps, in their order.
    fn order(&self) -> Vec<u32> {
        let n_images = self.images.len();
        let per_epoch = n_images / self.recipe.batch * self.recipe.batch;
        let epochs = (0..self.recipe.n_epochs).map(|epoch| self.recipe.order(epoch, n_images));
        epochs
            .flat_map(|order| order.into_iter().take(per_epoch))
            .collect()
    }

    /// Returns the first losses in f64.
    fn oracle(&self) -> Result<Vec<f64>> {
        let (parameters, state) = (self.trained.parameters(), self.trained.state());
        let mut oracle = Oracle::new(&self.net, [MOMENTUM, WEIGHT_DECAY], parameters, state)?;
        let input = self.net.input();
        let image_len: usize = input.size.iter().product();
        let [scale, offset] = [input.scale[0], input.offset[0]];
        let batches = self.order();
        let batches = batches.chunks(self.recipe.batch).take(N_FIRST);
        let losses = batches.map(|batch| {
            let pixels = batch.iter().flat_map(|&image| {
                &self.images.pixels()[image as usize * image_len..][..image_len]
            });
            let values: Vec<f32> = pixels
                .map(|&code| f32::from(code) * scale + offset)
                .collect();
            let labels = batch
                .iter()
                .map(|&image| self.images.labels()[image as usize]);
            let labels: Vec<u32> = labels.collect();
            Ok(oracle.step(&values, &labels, RATE.into())?.loss)
        });
        losses.collect()
    }

    fn training<'a>(&self, executor: &'a dyn Executor) -> Result<Training<'a>> {
        let (net, recipe) = (self.net.clone(), self.recipe.clone());
        Ok(Training::new(net, recipe, &self.images, executor)?)
    }

    /// Returns a variant that trains on an executor; the start is not timed.
    fn variant<'a>(&'a self, name: &'static str, executor: &'a dyn Executor) -> Variant<'a> {
        type State<'a> = RefCell<(Training<'a>, Vec<f32>)>;
        Variant::scored(
            name,
            self.whole(),
            move || Ok(RefCell::new((self.training(executor)?, Vec::new()))),
            |state: &mut State<'a>| {
                let (training, losses) = state.get_mut();
                training.run(|_, progress| {
                    losses.extend(progress.losses);
                    Ok(ControlFlow::Continue(()))
                })?;
                Ok(())
            },
            |state| Ok(state.borrow().1.clone()),
        )
    }

    fn whole(&self) -> Extent {
        let n_images = self.n_losses() * self.recipe.batch;
        let operations = low_bit::training_operations(&self.net) * n_images as f64;
        let images = std::slice::from_ref(&self.images);
        let bytes = low_bit::training_bytes(&self.net, images);
        Extent::new(Work::Operations(operations), bytes)
    }

    fn check(&self, result: &Output) -> Result<()> {
        let (result, n_losses) = (f32::from_output(result)?, self.n_losses());
        ensure!(
            result.len() == n_losses,
            "result has {} elements (expected {n_losses} losses)",
            result.len()
        );
        for (number, expected) in self.first_losses.iter().enumerate() {
            let tolerance = if self.levels == FLOAT {
                Tolerance::relative(FLOAT_TOLERANCE)
            } else {
                Tolerance::relative(0).or_absolute(LEVELS_TOLERANCES[number] * expected)
            };
            compare(&result[number..=number], &[*expected][..], &tolerance)?;
        }
        ensure!(
            result.iter().all(|loss| loss.is_finite()),
            "a loss is not finite"
        );
        if n_losses < N_STEPS {
            return Ok(());
        }
        let last = &result[n_losses - N_LAST..];
        let mean = last.iter().sum::<f32>() / N_LAST as f32;
        ensure!(
            mean <= LARGEST_LAST,
            "mean of the last {N_LAST} losses is {mean} (at most {LARGEST_LAST})"
        );
        Ok(())
    }

    /// Returns the arrays for the rivals: images, labels, order, parameters and state.
    fn arrays(&self) -> Result<Vec<Array>> {
        let [height, width, channels] = self.images.size();
        let pixels = self.images.pixels().iter().copied().map(f32::from);
        let labels = self.images.labels().iter().map(|&label| label as f32);
        let order: Vec<f32> = self.order().iter().map(|&image| image as f32).collect();
        let n_images = self.images.len();
        let mut arrays = vec![
            Array::new(
                "images",
                &[n_images, height, width, channels],
                pixels.collect(),
            ),
            Array::new("labels", &[n_images], labels.collect()),
            Array::new("order", &[order.len()], order),
        ];
        let state = self.net.state(self.trained.parameters())?;
        let slots = self
            .net
            .parameters()
            .into_iter()
            .map(|(name, slot)| (name, slot.shape));
        let state = state.into_iter().map(|slot| slot.shape);
        let slots = slots.chain(self.net.state_names().into_iter().zip(state));
        let numbers = self.trained.parameters().iter().chain(self.trained.state());
        arrays.extend(slots.zip(numbers).map(|((name, shape), numbers)| {
            Array::new(&name.replace('.', "_"), &shape, numbers.clone())
        }));
        let input = self.net.input();
        arrays.push(Array::new("input_scale", &[1], input.scale.clone()));
        arrays.push(Array::new("input_offset", &[1], input.offset.clone()));
        Ok(arrays)
    }

    fn rivals(&self) -> Vec<BaselineArguments<'_>> {
        let shapes = self.arrays.iter().flat_map(|array| &array.shape);
        let sizes: Vec<(&str, usize)> = shapes
            .map(|(name, len)| (name.as_str(), *len))
            .chain([("batch", self.recipe.batch)])
            .collect();
        let arrays = self.arrays.iter();
        let arrays: Vec<(&str, &[f32])> = arrays
            .map(|array| (array.name.as_str(), &array.numbers[..]))
            .collect();
        let script = script!("train_quant.py").with_case(self.levels);
        let libraries = ["torch", "torch-channels-last", "torch-compile"];
        BaselineArguments::each(&libraries, script, &sizes, &arrays)
    }
}

impl Problem for Start {
    fn workload<'a>(&'a self, gpus: &'a [Gpu]) -> Workload<'a> {
        static HOST: std::sync::LazyLock<Host> = std::sync::LazyLock::new(Host::new);
        let why = "200 steps would take minutes on a software driver";
        let (devices, left_out) = on_gpu::hardware(gpus, why);
        let on_device = |gpu: &'a Gpu| self.variant("wgsl", gpu).with_adapter(gpu.adapter());
        Workload::new(self.whole(), |result, _| self.check(result))
            .with_variants([self.variant("host", &*HOST)])
            .with_variants(devices.into_iter().map(on_device))
            .with_rivals(self.rivals())
            .with_left_out(left_out)
            .with_losses(self.n_losses())
    }
}
