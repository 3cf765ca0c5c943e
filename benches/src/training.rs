//! Training as a workload: a net, its data, and how it is trained.
//!
//! Role: the short way to describe such a [`Workload`]: who adds one names layers, data and stages. First weights, the program,
//! the oracle, the check and the rivals' jobs follow from that.
//! Method: one function of parameters, velocities and a batch gives the loss and the next parameters and velocities; it is
//! compiled once a stage and called once a step. Batches come in the order of the data, and every contestant starts from the
//! same weights: so all curves are one curve, up to rounding. The oracle computes its first steps in f64 by plain loops.
//! Shapes: the result is the loss of each step and, for a classifier, the share of test images that it names right.
//! Accuracy: of the first losses as [`Recipe::first_losses`] says; later ones drift apart with roundings, as they do in
//! any library, so of them it is only asked that the end be as good as it should: the accuracy of a classifier, the last loss of a fit.

pub mod layer;
pub mod oracle;

use crate::on_cpu::OnCpu;
use crate::on_gpu;
use crate::program::Law;
use crate::record::Timer;
use crate::rivals::{Job, Script};
use crate::workload::{Extent, Output, OutputElement, Part, Problem, Rung, Work, Workload};
use anyhow::{Context, Result, ensure};
use gpu_wgsl::Gpu;
use layer::Layer;
use tensor_core::compare::{Bound, compare};
use tensor_core::optim::{Optimizer, Sgd};
use tensor_core::{Executor, Host, Profiler, Tensor, grad, jit, loss};

/// What rivals call weights and biases.
const NAMES: [&str; 8] = ["w0", "b0", "w1", "b1", "w2", "b2", "w3", "b3"];
/// Images of the test that are judged at once.
const TEST_BATCH: usize = 1000;

/// Steps after which losses are read.
const READ_EVERY: usize = 50;
/// The most operations of a training on a driver that computes on the CPU, which does some billions in a second.
const SOFTWARE_OPERATIONS: f64 = 5e10;

/// What a net is trained to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Small squared differences from targets, summed.
    Targets,
    /// Large shares of the right classes in a softmax.
    Classes,
}

/// Some epochs at one learning rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stage {
    /// Times that all batches are seen.
    pub epochs: usize,
    /// Learning rate.
    pub rate: f32,
}

/// How a net is trained.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// Name of the workload, as in records: `train-mnist`.
    pub name: &'static str,
    /// Source it comes from: `S2`.
    pub source: &'static str,
    /// Size in one word.
    pub size: String,
    /// What the rivals run, and who they are.
    pub script: Script,
    /// The rivals.
    pub libraries: &'static [&'static str],
    /// The net.
    pub layers: Vec<Layer>,
    /// What it learns.
    pub goal: Goal,
    /// Samples of one step.
    pub batch: usize,
    /// Learning rates, in order.
    pub stages: Vec<Stage>,
    /// Share of the velocity that stays; 0 for plain descent.
    pub momentum: f32,
    /// How many losses the oracle computes, and how near to them a result must lie.
    pub first_losses: (usize, Bound),
    /// The least share of test images that must be named right, of a classifier.
    pub least_accuracy: f32,
    /// The last loss of a fit to targets, if it is known, and how near to it a result must lie.
    pub last_loss: Option<(f64, Bound)>,
    /// Whether it is also run under a profiler, beside the run without one, so that both show what that costs.
    pub is_profiled: bool,
}

/// Samples, one after the other, with what they are to give.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// The inputs, each as long as the first layer asks.
    pub inputs: Vec<f32>,
    /// For [`Goal::Targets`] the outputs; for [`Goal::Classes`] the number of the class.
    pub answers: Vec<f32>,
}

/// A training with its data and the truth about its beginning.
#[derive(Debug)]
pub struct Session {
    recipe: Recipe,
    /// First values of weights and biases, in the order of the layers.
    parameters: Vec<Vec<f32>>,
    train: Samples,
    test: Samples,
    first_losses: Vec<f64>,
    /// For the rivals: epochs, rate and momentum of each stage.
    stages: Vec<f32>,
    /// For the rivals: the length of each axis of each array, under the array's name and the axis's number.
    sizes: Vec<(String, usize)>,
}

impl Recipe {
    /// Draws the first weights and computes the first losses. Samples that fill no whole batch are left out.
    ///
    /// # Errors
    /// The samples do not fill a batch, or are not as long as the net asks.
    pub fn session(self, train: Samples, test: Samples) -> Result<Session> {
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
                "{}: {} inputs and {} answers are no samples of {inputs} inputs and {outputs} outputs",
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
            "{}: {n_parameters} weights and biases; scripts of rivals name {} at most",
            self.name,
            NAMES.len()
        );
        ensure!(
            self.batch > 0 && train.inputs.len() >= self.batch * inputs,
            "{}: fewer samples than one batch of {}",
            self.name,
            self.batch
        );
        let drawn = self.layers.iter().flat_map(Layer::parameters);
        let parameters: Vec<Vec<f32>> = (1..)
            .zip(drawn)
            .map(|(stream, (shape, scale))| {
                let len = shape.iter().product();
                let numbers = Law::Centred.draw(len, stream);
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

    /// How long inputs and outputs of the net are.
    fn sides(&self) -> Result<[usize; 2]> {
        let (first, last) = (self.layers.first(), self.layers.last());
        let (first, last) = first.zip(last).context("a net has layers")?;
        Ok([first.inputs(), last.outputs()])
    }

    fn n_steps(&self, batches: usize) -> usize {
        let epochs: usize = self.stages.iter().map(|stage| stage.epochs).sum();
        epochs * batches
    }

    /// One step: parameters, velocities and a batch in; loss, parameters and velocities out.
    fn step(&self, sgd: Sgd, args: &[Tensor]) -> tensor_core::Result<Vec<Tensor>> {
        let n: usize = self
            .layers
            .iter()
            .map(|layer| layer.parameters().len())
            .sum();
        let (parameters, rest) = args.split_at(n);
        let (velocities, batch) = rest.split_at(rest.len() - 2);
        let outputs = layer::outputs(&self.layers, parameters, &batch[0]);
        let loss = match self.goal {
            Goal::Targets => (outputs - &batch[1]).square().sum(..),
            Goal::Classes => loss::softmax_cross_entropy(&outputs, &batch[1]),
        };
        let parameters: Vec<&Tensor> = parameters.iter().collect();
        let gradients = grad(&loss, &parameters)?;
        let next = sgd.step(&parameters, &gradients, velocities)?;
        Ok([vec![loss], next.parameters, next.state].concat())
    }
}

impl Session {
    fn batches(&self) -> usize {
        self.train.inputs.len() / self.recipe.layers[0].inputs() / self.recipe.batch
    }

    fn n_losses(&self) -> usize {
        self.recipe.n_steps(self.batches())
    }

    /// Operations are those of the layers, forward and backward: neither updates nor the judging of the test count.
    fn whole(&self) -> Extent {
        let forward: f64 = self.recipe.layers.iter().map(Layer::operations).sum();
        // Backward, each weight meets every sample twice more; but nobody asks for the gradient by the inputs.
        let first = self.recipe.layers.first().map_or(0.0, Layer::operations);
        let a_sample = 3.0 * forward - first;
        let numbers = self.train.inputs.len() + self.train.answers.len();
        let parameters: usize = self.parameters.iter().map(Vec::len).sum();
        Extent {
            part: Part::whole(1),
            work: Work::Operations(a_sample * (self.n_losses() * self.recipe.batch) as f64),
            bytes: ((numbers + 2 * parameters) * size_of::<f32>()) as f64,
        }
    }

    /// The batches as tensors: inputs, and targets or classes. The last one may be smaller.
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

    /// What a user of the host executor runs, under a profiler or without.
    fn host(&self, is_profiled: bool) -> Result<impl FnMut(&mut Vec<f32>) -> Result<()> + '_> {
        let host = Host::new();
        let mut train = self.training(&host)?;
        Ok(move |result: &mut Vec<f32>| {
            // Each training finds memory as a first one does; what waits from the last would not show in its peak.
            host.release_kept();
            if is_profiled {
                train(&Profiler::new(&host), result)
            } else {
                train(&host, result)
            }
        })
    }

    /// The same on a device: data and parameters stay there, and losses come back some steps at a time.
    fn device<'a>(&'a self, gpu: &'a Gpu) -> Result<impl FnMut(&mut Vec<f32>) -> Result<()> + 'a> {
        let mut train = self.training(gpu)?;
        gpu.finish()?;
        Ok(move |result: &mut Vec<f32>| train(gpu, result))
    }

    /// A training from the first weights to the last judgement, with the data where an executor has it; it is run on that one, or one
    /// that stands before it.
    fn training<'s>(
        &'s self,
        home: &dyn Executor,
    ) -> Result<impl FnMut(&dyn Executor, &mut Vec<f32>) -> Result<()> + use<'s>> {
        let recipe = &self.recipe;
        let shapes = recipe.layers.iter().flat_map(Layer::parameters);
        let first: Vec<Tensor> = shapes
            .zip(&self.parameters)
            .map(|((shape, _), numbers)| Tensor::from_vec(&shape, numbers.clone()))
            .collect();
        let mut stages = Vec::new();
        for stage in &recipe.stages {
            let sgd = Sgd::new(stage.rate.into())?.with_momentum(recipe.momentum.into())?;
            let step = jit(move |args: &[Tensor]| recipe.step(sgd, args));
            stages.push((stage.epochs, sgd, step));
        }
        let judge = jit(|args: &[Tensor]| {
            let (parameters, batch) = args.split_at(args.len() - 2);
            let outputs = layer::outputs(&recipe.layers, parameters, &batch[0]);
            Ok(vec![loss::accuracy(&outputs, &batch[1])])
        });
        let mut batches = self.tensors(&self.train, recipe.batch);
        batches.truncate(self.batches());
        let n_test = self.test.inputs.len() / recipe.layers[0].inputs();
        let tests = self.tensors(&self.test, TEST_BATCH);
        let at_home = |batches: Vec<[Tensor; 2]>| -> Result<Vec<[Tensor; 2]>> {
            let realized = batches
                .iter()
                .map(|[inputs, answers]| Tensor::realize_all([inputs, answers], home));
            Ok(realized.collect::<tensor_core::Result<_>>()?)
        };
        let (batches, tests) = (at_home(batches)?, at_home(tests)?);
        let together = jit(|losses: &[Tensor]| {
            let losses: Vec<&Tensor> = losses.iter().collect();
            Ok(vec![Tensor::stack(&losses, 0)])
        });
        Ok(move |executor: &dyn Executor, result: &mut Vec<f32>| {
            let mut at = first.clone();
            if let Some((_, sgd, _)) = stages.first() {
                at.extend(sgd.start(&first.iter().collect::<Vec<_>>())?);
            }
            result.clear();
            let mut losses = Vec::with_capacity(READ_EVERY);
            let read = |losses: &mut Vec<Tensor>, result: &mut Vec<f32>| -> Result<()> {
                let losses = std::mem::take(losses);
                let losses: Vec<&Tensor> = losses.iter().collect();
                if !losses.is_empty() {
                    let losses = together.call(executor, &losses)?.remove(0);
                    result.extend(losses.to_host::<f32>()?);
                }
                Ok(())
            };
            for (epochs, _, step) in &stages {
                for batch in (0..*epochs).flat_map(|_| &batches) {
                    let args: Vec<&Tensor> = at.iter().chain(batch).collect();
                    let mut next = step.call(executor, &args)?;
                    losses.push(next.remove(0));
                    at = next;
                    if losses.len() == READ_EVERY {
                        read(&mut losses, result)?;
                    }
                }
            }
            read(&mut losses, result)?;
            let mut right = 0.0;
            for batch in &tests {
                let args: Vec<&Tensor> = at[..first.len()].iter().chain(batch).collect();
                let share = judge.call(executor, &args)?.remove(0).to_host::<f32>()?[[]];
                right += share * batch[1].shape()?[0] as f32 / n_test as f32;
            }
            result.extend((recipe.goal == Goal::Classes).then_some(right));
            Ok(())
        })
    }

    fn check(&self, result: &Output) -> Result<()> {
        let (result, n) = (f32::of(result)?, self.n_losses());
        let accuracy = usize::from(self.recipe.goal == Goal::Classes);
        ensure!(
            result.len() == n + accuracy,
            "{} numbers are not {n} losses and {accuracy} accuracy",
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

    /// The arrays that rivals get, by name, with the lengths of their axes.
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
            // Samples that fill no whole batch are left out of the training.
            let n = if inputs == "inputs" {
                self.batches() * self.recipe.batch
            } else {
                samples.inputs.len() / layers[0].inputs()
            };
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

    fn rivals(&self) -> Vec<Job<'_>> {
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
        Job::each(self.recipe.libraries, self.recipe.script, &sizes, &arrays)
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
        let rung = |executor: &'static str, is_profiled: bool| Rung {
            executor,
            adapter: None,
            timer: Timer::Wall,
            extent: whole,
            note: String::new(),
            start: Box::new(move || Ok(Box::new(OnCpu::new(0, self.host(is_profiled)?)))),
        };
        let profiled = self.recipe.is_profiled.then(|| rung("profiled", true));
        let is_fit =
            |gpu: &&Gpu| !on_gpu::is_software(gpu) || whole.work.amount() <= SOFTWARE_OPERATIONS;
        let too_slow = |gpu: &Gpu| {
            let why = format!(
                "a training of more than {SOFTWARE_OPERATIONS:.0e} operations takes a driver that computes on the CPU minutes"
            );
            on_gpu::too_slow(gpu, why)
        };
        let on_devices = gpus.iter().filter(is_fit).map(|gpu| Rung {
            executor: "wgsl",
            adapter: Some(gpu.adapter()),
            timer: Timer::Wall,
            extent: whole,
            note: String::new(),
            start: Box::new(move || Ok(Box::new(OnCpu::new(0, self.device(gpu)?)))),
        });
        let on_host = [rung("host", false)].into_iter().chain(profiled);
        Workload {
            name: self.recipe.name,
            source: self.recipe.source,
            size: self.recipe.size.clone(),
            whole,
            n_losses: self.n_losses(),
            figure: None,
            rungs: on_host.chain(on_devices).collect(),
            rivals: self.rivals(),
            left_out: gpus
                .iter()
                .filter(|gpu| !is_fit(gpu))
                .map(too_slow)
                .collect(),
            check: Box::new(|result, _| self.check(result)),
        }
    }
}
