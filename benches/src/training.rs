//! A workload that trains a neural net.
//!
//! Role: the short way to define such a [`Workload`] by layers, data and stages. Initial weights,
//! the program, the oracle, the check and the rivals' jobs follow from these.
//! Method: [`quant::train::Steps`] does the steps. Batches come in the order of the data, and every
//! contestant starts with the same weights, so all loss curves agree up to rounding. The oracle
//! computes the first losses in f64 by plain loops.
//! Shapes: the result is the loss of each step and, for a classifier, its accuracy on the test
//! images.
//! Accuracy: the first losses must be within the tolerance of [`Recipe::first_losses`]. Later
//! losses drift apart by rounding, as in any library, so they are not compared. Instead the final
//! quality is checked: the accuracy of a classifier, or the last loss of a fit.

pub mod layer;
pub mod oracle;

use anyhow::{Context, Result, ensure};
use charts::Figure;
use gpu_wgsl::Gpu;
use harness::on_gpu;
use harness::program::InputDistribution;
use harness::rivals::{BaselineArguments, Script};
use harness::script;
use harness::workload::{Extent, Output, OutputElement, Problem, Variant, Work, Workload};
use layer::Layer;
use quant::train::{self, Model, SharedOptimizer, Steps};
use tensor_core::compare::{Tolerance, compare};
use tensor_core::optim::Sgd;
use tensor_core::{Executor, Host, Profiler, Tensor, jit, loss};

/// The module with the training loop of the rivals, which their scripts import.
const NET: Script = Script {
    name: "training.py",
    ..script!("training/training.py")
};
/// Names of weights and biases in the rivals' scripts.
const NAMES: [&str; 8] = ["w0", "b0", "w1", "b1", "w2", "b2", "w3", "b3"];
/// Number of test images evaluated at once.
const TEST_BATCH: usize = 1000;

/// Number of steps between reads of the losses from the device.
const READ_EVERY: usize = 50;
/// Maximum number of operations of a training on a software driver, which does some 10⁹ per second.
const SOFTWARE_OPERATIONS: f64 = 5e10;

/// Objective of a training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Sum of squared differences from targets.
    Targets,
    /// Mean cross-entropy of a softmax over classes.
    Classes,
}

/// A number of epochs at one learning rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stage {
    /// Number of passes over all batches.
    pub epochs: usize,
    /// Learning rate.
    pub rate: f32,
}

/// Definition of a training.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// Name of the workload, as in records: `train-mnist`.
    pub name: &'static str,
    /// Script of the rivals, which imports `training.py`.
    pub script: Script,
    /// Libraries of the rivals.
    pub libraries: &'static [&'static str],
    /// Layers of the net, from input to output.
    pub layers: Vec<Layer>,
    /// Objective.
    pub goal: Goal,
    /// Number of samples per step.
    pub batch: usize,
    /// Stages with their learning rates, in order.
    pub stages: Vec<Stage>,
    /// Momentum: the fraction of the velocity that remains after each step; 0 for plain gradient
    /// descent.
    pub momentum: f32,
    /// Number of losses that the oracle computes, and their tolerance.
    pub first_losses: (usize, Tolerance),
    /// Minimum accuracy on the test images, for a classifier.
    pub least_accuracy: f32,
    /// Expected last loss of a fit to targets with its tolerance, if known.
    pub last_loss: Option<(f64, Tolerance)>,
    /// Whether the training is also run under a profiler, which shows the profiler's overhead.
    pub is_profiled: bool,
}

/// Samples, one after the other, with the expected answers.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Inputs; each sample has the length that the first layer expects.
    pub inputs: Vec<f32>,
    /// Expected outputs for [`Goal::Targets`]; class numbers for [`Goal::Classes`].
    pub answers: Vec<f32>,
}

/// A training with its data and the reference losses of its first steps.
#[derive(Debug)]
pub struct Session {
    recipe: Recipe,
    /// Initial weights and biases, in the order of the layers.
    parameters: Vec<Vec<f32>>,
    train: Samples,
    test: Samples,
    first_losses: Vec<f64>,
    /// Epochs, rate and momentum of each stage, for the rivals.
    stages: Vec<f32>,
    /// Sizes for the rivals, by name: `batch`, and the length of each axis of each array as
    /// `<array>_<axis number>`.
    sizes: Vec<(String, usize)>,
}

impl Recipe {
    /// Draws the initial weights and computes the reference losses. Samples that do not fill a
    /// whole batch are left out.
    ///
    /// # Errors
    /// There are fewer samples than one batch, their lengths do not match the net, or the net has
    /// no layers, an empty layer, a convolution without windows or too many parameter arrays.
    pub fn session(self, train: Samples, test: Samples) -> Result<Session> {
        ensure!(
            self.layers.iter().all(Layer::has_windows),
            "{}: a convolution has no windows (at least 1 tap, at most the side; step at least 1)",
            self.name
        );
        let [inputs, outputs] = self.sides()?;
        let is_whole = |layer: &Layer| layer.inputs() > 0 && layer.outputs() > 0;
        ensure!(
            self.layers.iter().all(is_whole),
            "{}: a layer has no inputs or no outputs",
            self.name
        );
        for samples in [&train, &test] {
            let n = samples.inputs.len() / inputs;
            let answers = if self.goal == Goal::Targets {
                n * outputs
            } else {
                n
            };
            ensure!(
                samples.inputs.len() == n * inputs && samples.answers.len() == answers,
                "{}: lengths do not match the net ({} inputs, {} answers; a sample has {inputs} inputs and the net {outputs} outputs)",
                self.name,
                samples.inputs.len(),
                samples.answers.len()
            );
        }
        let n_parameters: usize = self
            .layers
            .iter()
            .map(|layer| layer.parameters().len())
            .sum();
        ensure!(
            n_parameters <= NAMES.len(),
            "{}: too many weights and biases for the rivals' scripts ({n_parameters}; at most {})",
            self.name,
            NAMES.len()
        );
        ensure!(
            self.batch > 0 && train.inputs.len() >= self.batch * inputs,
            "{}: not enough samples for a batch of {}",
            self.name,
            self.batch
        );
        let drawn = self.layers.iter().flat_map(Layer::parameters);
        // Each parameter array has its own stream of the generator, so its values do not depend on
        // the other layers.
        let parameters: Vec<Vec<f32>> = (1..)
            .zip(drawn)
            .map(|(stream, (shape, scale))| {
                let len = shape.iter().product();
                let numbers = InputDistribution::Centred.draw(len, stream);
                numbers.into_iter().map(|x| x * scale).collect()
            })
            .collect();
        let first_losses = oracle::losses(&self, &parameters, &train)?;
        let stages = self.stages.iter();
        let stages = stages.flat_map(|stage| [stage.epochs as f32, stage.rate, self.momentum]);
        let mut session = Session {
            stages: stages.collect(),
            recipe: self,
            parameters,
            train,
            test,
            first_losses,
            sizes: Vec::new(),
        };
        session.sizes = session.sizes();
        Ok(session)
    }

    /// Returns the lengths of the net's inputs and outputs.
    fn sides(&self) -> Result<[usize; 2]> {
        let (first, last) = (self.layers.first(), self.layers.last());
        let (first, last) = first.zip(last).context("the net has no layers")?;
        Ok([first.inputs(), last.outputs()])
    }

    fn n_steps(&self, batches: usize) -> usize {
        let epochs: usize = self.stages.iter().map(|stage| stage.epochs).sum();
        epochs * batches
    }
}

/// The loss of a net, as the training loop calls it.
#[derive(Debug)]
struct Net {
    layers: Vec<Layer>,
    goal: Goal,
}

impl Model for Net {
    fn loss(
        &self,
        parameters: &[Tensor],
        _: &[Tensor],
        batch: &[Tensor],
    ) -> quant::Result<train::Loss> {
        let outputs = layer::outputs(&self.layers, parameters, &batch[0]);
        let loss = match self.goal {
            Goal::Targets => (outputs - &batch[1]).square().sum(..),
            Goal::Classes => loss::softmax_cross_entropy(&outputs, &batch[1]),
        };
        Ok(train::Loss {
            loss,
            state: Vec::new(),
            are_finite: Vec::new(),
        })
    }
}

impl Session {
    fn batches(&self) -> usize {
        self.train.inputs.len() / self.recipe.layers[0].inputs() / self.recipe.batch
    }

    fn n_losses(&self) -> usize {
        self.recipe.n_steps(self.batches())
    }

    /// Returns the extent of the work. Operations are those of the layers, forward and backward;
    /// updates and the evaluation of the test data are not counted.
    fn whole(&self) -> Extent {
        let forward: f64 = self.recipe.layers.iter().map(Layer::operations).sum();
        // The backward pass uses each weight in two more products per sample: one for the gradient
        // with respect to the weight, one for the gradient with respect to the layer's input. The
        // latter is not computed for the first layer.
        let first = self.recipe.layers.first().map_or(0.0, Layer::operations);
        let a_sample = 3.0 * forward - first;
        let numbers = self.train.inputs.len() + self.train.answers.len();
        let parameters: usize = self.parameters.iter().map(Vec::len).sum();
        let operations = a_sample * (self.n_losses() * self.recipe.batch) as f64;
        let bytes = (numbers + 2 * parameters) * size_of::<f32>();
        Extent::new(Work::Operations(operations), bytes as f64)
    }

    /// Splits samples into batches of tensors: inputs, and targets or classes. The last batch may
    /// be smaller.
    fn tensors(&self, samples: &Samples, batch: usize) -> Vec<[Tensor; 2]> {
        let layer = &self.recipe.layers[0];
        let inputs = samples.inputs.chunks(batch * layer.inputs());
        let outputs = self.recipe.layers.last().map_or(1, Layer::outputs);
        let width = if self.recipe.goal == Goal::Targets {
            outputs
        } else {
            1
        };
        let answers = samples.answers.chunks(batch * width);
        let pair = |(inputs, answers): (&[f32], &[f32])| {
            let batch = answers.len() / width;
            let shape = [vec![batch], layer.input_shape()].concat();
            let answers = match self.recipe.goal {
                Goal::Targets => Tensor::from_vec(&[batch, width], answers.to_vec()),
                Goal::Classes => Tensor::from_vec(&[batch], classes(answers)),
            };
            [Tensor::from_vec(&shape, inputs.to_vec()), answers]
        };
        inputs.zip(answers).map(pair).collect()
    }

    /// Trains on the host executor, and returns the weights and biases in the order of the layers.
    ///
    /// # Errors
    /// The host is out of memory.
    pub fn trained_parameters(&self) -> Result<Vec<Vec<f32>>> {
        let host = Host::new();
        let parameters = self.training(&host)?(&host, &mut Vec::new())?;
        let numbers = parameters.iter().map(|parameter| {
            let numbers = parameter.to_host::<f32>()?;
            Ok(numbers.into_iter().collect())
        });
        numbers.collect()
    }

    /// Returns the training on the host executor, with or without a profiler.
    fn host(&self, is_profiled: bool) -> Result<impl FnMut(&mut Vec<f32>) -> Result<()> + '_> {
        let host = Host::new();
        let mut train = self.training(&host)?;
        Ok(move |result: &mut Vec<f32>| {
            // Clear the executor's memory cache, so that each training allocates like the first
            // one; reused memory would not count in the peak.
            host.clear_cache();
            if is_profiled {
                train(&Profiler::new(&host), result)?;
            } else {
                train(&host, result)?;
            }
            Ok(())
        })
    }

    /// Returns where a training on the host executor spends its time, as an icicle.
    fn icicle(&self) -> Result<Figure> {
        let host = Host::new();
        let profiler = Profiler::new(&host);
        self.training(&host)?(&profiler, &mut Vec::new())?;
        let stacks = profiler.profile().folded_stacks();
        Ok(Figure {
            caption: "Time of the training's parts on the host executor, under the profiler: spans from the outermost at the \
                top, with their share of the whole. Each step of the plan has the names of its operations."
                .to_owned(),
            stacks: stacks.lines().map(str::to_owned).collect(),
            ..Figure::default()
        })
    }

    /// Returns the training on a device. Data and parameters stay there, and losses are read every
    /// [`READ_EVERY`] steps.
    fn device<'a>(&'a self, gpu: &'a Gpu) -> Result<impl FnMut(&mut Vec<f32>) -> Result<()> + 'a> {
        let mut train = self.training(gpu)?;
        gpu.finish()?;
        Ok(move |result: &mut Vec<f32>| train(gpu, result).map(drop))
    }

    /// Returns a function that trains from the initial weights, evaluates the test data and returns
    /// the trained parameters. The data is stored on executor `home`; the function must be called
    /// with `home` or with an executor that wraps `home`.
    #[allow(
        clippy::type_complexity,
        reason = "a closure has no name that a type alias could contain"
    )]
    fn training<'s>(
        &'s self,
        home: &dyn Executor,
    ) -> Result<impl FnMut(&dyn Executor, &mut Vec<f32>) -> Result<Vec<Tensor>> + use<'s>> {
        let recipe = &self.recipe;
        let shapes = recipe.layers.iter().flat_map(Layer::parameters);
        let first: Vec<Tensor> = shapes
            .zip(&self.parameters)
            .map(|((shape, _), numbers)| Tensor::from_vec(&shape, numbers.clone()))
            .collect();
        let net = Net {
            layers: recipe.layers.clone(),
            goal: recipe.goal,
        };
        let optimizer = || -> Result<SharedOptimizer> {
            // The rate is an argument of each step.
            Ok(Box::new(
                Sgd::new(0.0)?.with_momentum(recipe.momentum.into())?,
            ))
        };
        let mut steps = Steps::new(net, [optimizer()?, optimizer()?], first.clone(), Vec::new())?;
        // Evaluates one batch of test data with the parameters.
        let judge = jit(|args: &[Tensor]| {
            let (parameters, batch) = args.split_at(args.len() - 2);
            let outputs = layer::outputs(&recipe.layers, parameters, &batch[0]);
            Ok(vec![loss::accuracy(&outputs, &batch[1])])
        });
        let mut batches = self.tensors(&self.train, recipe.batch);
        batches.truncate(self.batches());
        let n_test = self.test.inputs.len() / recipe.layers[0].inputs();
        let tests = self.tensors(&self.test, TEST_BATCH);
        // Copies the data to the executor once, before the measured time.
        let at_home = |batches: Vec<[Tensor; 2]>| -> Result<Vec<[Tensor; 2]>> {
            let realized = batches
                .iter()
                .map(|[inputs, answers]| Tensor::realize_all([inputs, answers], home));
            Ok(realized.collect::<tensor_core::Result<_>>()?)
        };
        let (batches, tests) = (at_home(batches)?, at_home(tests)?);
        Ok(move |executor: &dyn Executor, result: &mut Vec<f32>| {
            steps.restart(first.clone(), Vec::new())?;
            result.clear();
            for stage in &recipe.stages {
                for [inputs, answers] in (0..stage.epochs).flat_map(|_| &batches) {
                    steps.step(executor, &[inputs, answers], stage.rate)?;
                    // Reading after every step would wait for the device each time.
                    if steps.n_unread() == READ_EVERY {
                        result.extend(steps.read(executor)?);
                    }
                }
            }
            result.extend(steps.read(executor)?);
            let mut right = 0.0;
            for batch in &tests {
                let args: Vec<&Tensor> = steps.parameters().iter().chain(batch).collect();
                let share = judge.call(executor, &args)?.remove(0).to_host::<f32>()?[[]];
                // The last batch may be smaller, so weight each batch by its number of images.
                right += share * batch[1].shape()?[0] as f32 / n_test as f32;
            }
            result.extend((recipe.goal == Goal::Classes).then_some(right));
            Ok(steps.parameters().to_vec())
        })
    }

    fn check(&self, result: &Output) -> Result<()> {
        let (result, n) = (f32::from_output(result)?, self.n_losses());
        let accuracy = usize::from(self.recipe.goal == Goal::Classes);
        ensure!(
            result.len() == n + accuracy,
            "result has {} elements (expected {n} losses and {accuracy} accuracy)",
            result.len()
        );
        let first = self.first_losses.len();
        compare(
            &result[..first],
            &self.first_losses,
            &self.recipe.first_losses.1,
        )?;
        ensure!(
            result.iter().all(|number| number.is_finite()),
            "a loss is not finite"
        );
        if let Some((last, bound)) = &self.recipe.last_loss {
            compare(&result[n - 1..n], &[*last][..], bound)?;
        }
        if let Some(&accuracy) = result.get(n) {
            let least = self.recipe.least_accuracy;
            ensure!(accuracy >= least, "accuracy {accuracy} is below {least}");
        }
        Ok(())
    }

    /// Returns the arrays for the rivals: name, elements and shape.
    fn arrays(&self) -> Vec<(&'static str, &[f32], Vec<usize>)> {
        let layers = &self.recipe.layers;
        let sample = layers[0].input_shape();
        let is_classifier = self.recipe.goal == Goal::Classes;
        let sets: &[(&str, &str, &Samples)] = if is_classifier {
            &[
                ("inputs", "answers", &self.train),
                ("test_inputs", "test_answers", &self.test),
            ]
        } else {
            &[("inputs", "answers", &self.train)]
        };
        let mut arrays = Vec::new();
        for &(inputs, answers, samples) in sets {
            // Samples that do not fill a whole batch are not used for training.
            let n = if inputs == "inputs" {
                self.batches() * self.recipe.batch
            } else {
                samples.inputs.len() / layers[0].inputs()
            };
            // Number of answers per sample: the outputs of a fit, 1 for a classifier.
            let width = samples.answers.len() * layers[0].inputs() / samples.inputs.len().max(1);
            let shape = [vec![n], sample.clone()].concat();
            let of_answers = if is_classifier {
                vec![n]
            } else {
                vec![n, width]
            };
            arrays.push((inputs, &samples.inputs[..n * layers[0].inputs()], shape));
            arrays.push((answers, &samples.answers[..n * width], of_answers));
        }
        arrays.push(("stages", &self.stages, vec![self.recipe.stages.len(), 3]));
        let shapes = layers.iter().flat_map(Layer::parameters);
        let parameters = NAMES.into_iter().zip(&self.parameters).zip(shapes);
        arrays.extend(parameters.map(|((name, own), (shape, _))| (name, &own[..], shape)));
        arrays
    }

    fn sizes(&self) -> Vec<(String, usize)> {
        let of = |(name, _, shape): (&str, &[f32], Vec<usize>)| {
            let axes = shape.into_iter().enumerate();
            let axes = axes.map(|(axis, len)| (format!("{name}_{axis}"), len));
            axes.collect::<Vec<_>>()
        };
        let sizes = self.arrays().into_iter().flat_map(of);
        sizes
            .chain([("batch".to_owned(), self.recipe.batch)])
            .collect()
    }

    fn rivals(&self) -> Vec<BaselineArguments<'_>> {
        let arrays: Vec<(&str, &[f32])> = self
            .arrays()
            .into_iter()
            .map(|(name, elements, _)| (name, elements))
            .collect();
        let sizes: Vec<(&str, usize)> = self
            .sizes
            .iter()
            .map(|(name, len)| (name.as_str(), *len))
            .collect();
        let script = Script {
            imports: &[NET],
            ..self.recipe.script
        };
        BaselineArguments::each(self.recipe.libraries, script, &sizes, &arrays)
    }
}

fn classes(answers: &[f32]) -> Vec<u32> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "classes are small whole numbers"
    )]
    let class = |&answer: &f32| answer as u32;
    answers.iter().map(class).collect()
}

impl Problem for Session {
    fn workload<'a>(&'a self, gpus: &'a [Gpu]) -> Workload<'a> {
        let whole = self.whole();
        let on_host = |executor: &'static str, is_profiled: bool| {
            Variant::started_on_cpu(executor, whole, 0, move || self.host(is_profiled))
        };
        let profiled = self.recipe.is_profiled.then(|| on_host("profiled", true));
        let (devices, left_out) = if whole.work.amount() <= SOFTWARE_OPERATIONS {
            (gpus.iter().collect(), Vec::new())
        } else {
            let why = format!(
                "a training of more than {SOFTWARE_OPERATIONS:.0e} operations would take minutes on a software driver"
            );
            on_gpu::hardware(gpus, &why)
        };
        let on_device = |gpu: &'a Gpu| {
            Variant::started_on_cpu("wgsl", whole, 0, move || self.device(gpu))
                .with_adapter(gpu.adapter())
        };
        let workload = Workload::new(whole, |result, _| self.check(result))
            .with_variants([on_host("host", false)])
            .with_variants(profiled)
            .with_variants(devices.into_iter().map(on_device))
            .with_rivals(self.rivals())
            .with_left_out(left_out)
            .with_losses(self.n_losses());
        if self.recipe.is_profiled {
            workload.with_figure(|_| self.icicle())
        } else {
            workload
        }
    }
}
