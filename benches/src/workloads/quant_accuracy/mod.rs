//! The accuracy of networks with few bits: whole trainings, from random weights to the packed file.
//!
//! Role: the workload `quant-accuracy`, which takes minutes per size and only runs on request.
//! Method: a network of floats is trained. A network with levels starts from the float network of
//! its data set and seed, is trained, frozen, and packed; the packed network classifies the test
//! images. The recipe is that of the example `mnist` of `quant`. Seeds determine the weights and
//! the order of the images. Sizes with `from-random` train with levels from random weights, at the
//! rate of the float network and for as many epochs as both trainings together.
//! Shapes: the result is the loss of each step, the accuracy on the test images, the numbers of
//! `NUMBERS`, and the class of each test image.
//! Accuracy: the test accuracy must reach the workload's minimum, and the classes of the packed
//! network those of the network in f32 but for `MAX_DIFFERENT` images.
//! Cost: the time includes the packing and the classification of the test images; the operations
//! are those of the training alone.
//! Source: the class-project notes on low-bit nets; Zhang, Yang, Ye and Hua 2018, "LQ-Nets";
//! for the published accuracies the wiki of `RedBit` (IT-Coimbra): LeNet-5 on MNIST, 100 epochs.

use crate::low_bit::{self, DataSet, FLOAT, LEVELS, Trainings};
use anyhow::{Result, ensure};
use gpu_wgsl::Gpu;
use harness::on_gpu;
use harness::record::Findings;
use harness::workload::{Extent, Output, OutputElement, Problem, Task, Variant, Work, Workload};
use quant::train::{Images, Net, Recipe, Trained, Training};
use quant::{FrozenNetwork, Network};
use std::ops::ControlFlow;
use std::path::Path;
use std::rc::Rc;
use tensor_core::{Executor, Host};

/// The seeds of the trainings.
const SEEDS: [u64; 3] = [1, 2, 3];
/// The levels and the seed of a training that starts from random weights instead of the float
/// network.
const FROM_RANDOM: (&str, u64) = ("w1a1", 1);
/// Levels that are trained on Fashion-MNIST, next to floats.
const ON_FASHION: [&str; 2] = [FLOAT, "w2a2"];
/// The largest number of test images that the packed network may classify differently from the
/// network in f32.
const MAX_DIFFERENT: f64 = 2.0;
/// The numbers of a result after losses and accuracy.
const NUMBERS: [&str; 4] = [
    "float_start_accuracy",
    "predictions_that_differ_from_f32",
    "packed_bytes",
    "relative_error_of_weights",
];

/// Returns the tasks, the float network of each data set and seed first.
pub fn tasks(trainings: &Rc<Trainings>) -> Vec<Task> {
    let sizes = [
        (DataSet::Mnist, &LEVELS[..]),
        (DataSet::Fashion, &ON_FASHION[..]),
    ];
    let sizes = sizes.into_iter().flat_map(|(set, levels)| {
        SEEDS.map(|seed| levels.iter().map(move |&levels| (set, levels, seed)))
    });
    let task = |(set, levels, seed, is_from_random): (DataSet, &'static str, u64, bool)| {
        let trainings = Rc::clone(trainings);
        let suffix = if is_from_random { "-from-random" } else { "" };
        let size = format!("{}-{levels}-seed{seed}{suffix}", set.name());
        let prepare = move || {
            let images = trainings.images(set)?;
            let has_start = levels != FLOAT && !is_from_random;
            let start = has_start.then(|| trainings.float(set, seed));
            let mut recipe = Trainings::recipe(levels, seed);
            if is_from_random {
                recipe = Trainings::recipe(FLOAT, seed);
                recipe.n_epochs *= 2;
            }
            Ok(Whole {
                set,
                levels,
                net: low_bit::net(levels, &images[0])?,
                recipe,
                images,
                start: start.transpose()?,
                trainings: Rc::clone(&trainings),
            })
        };
        Task::new("quant-accuracy", "S1", size, prepare).long()
    };
    let (levels, seed) = FROM_RANDOM;
    let from_random = (DataSet::Mnist, levels, seed, true);
    let sizes = sizes
        .flatten()
        .map(|(set, levels, seed)| (set, levels, seed, false));
    sizes.chain([from_random]).map(task).collect()
}

/// A whole training.
#[derive(Debug)]
struct Whole {
    set: DataSet,
    levels: &'static str,
    net: Net,
    recipe: Recipe,
    images: Rc<[Images; 2]>,
    /// The float network that a training with levels starts from.
    start: Option<Rc<Trained>>,
    trainings: Rc<Trainings>,
}

impl Whole {
    fn n_losses(&self) -> usize {
        self.images[0].len() / self.recipe.batch * self.recipe.n_epochs
    }

    fn training<'a>(&self, executor: &'a dyn Executor) -> Result<Training<'a>> {
        let (net, recipe, images) = (self.net.clone(), self.recipe.clone(), &self.images[0]);
        Ok(match &self.start {
            Some(start) => Training::from_trained(net, start, recipe, images, executor)?,
            None => Training::new(net, recipe, images, executor)?,
        })
    }

    /// Trains to the end, and writes losses, accuracy, numbers and classes to `result`.
    /// Trainings with levels start from the float network that the host trained.
    fn train(&self, executor: &dyn Executor, is_host: bool, result: &mut Vec<f32>) -> Result<()> {
        let mut training = self.training(executor)?;
        result.clear();
        training.run(|_, progress| {
            result.extend(progress.losses);
            Ok(ControlFlow::Continue(()))
        })?;
        let trained = training.trained()?;
        let test = &self.images[1];
        let network = trained.network()?;
        let of_f32 = predictions(&network, test, executor)?;
        if self.levels == FLOAT {
            result.push(narrow(test.accuracy(&of_f32)?));
            result.extend([f32::NAN; NUMBERS.len()]);
            result.extend(of_f32.iter().map(|&class| class as f32));
            if is_host {
                let seed = self.recipe.seed;
                self.trainings.remember(self.set, seed, trained);
            }
            return Ok(());
        }
        let (packed, n_bytes) = packed(&network)?;
        let classes = test.predictions(executor, |codes| packed.outputs_of(codes))?;
        let pairs = classes.iter().zip(&of_f32);
        let n_different = pairs.filter(|(packed, of_f32)| packed != of_f32).count();
        let of_start = match &self.start {
            Some(start) => test.accuracy(&predictions(&start.network()?, test, executor)?)?,
            None => f64::NAN,
        };
        result.push(narrow(test.accuracy(&classes)?));
        result.extend([
            narrow(of_start),
            n_different as f32,
            n_bytes as f32,
            relative_error(&network, &trained)?,
        ]);
        result.extend(classes.iter().map(|&class| class as f32));
        Ok(())
    }

    fn check(&self, result: &Output) -> Result<()> {
        let (result, n_losses) = (f32::from_output(result)?, self.n_losses());
        let expected = n_losses + 1 + NUMBERS.len() + self.images[1].len();
        ensure!(
            result.len() == expected,
            "result has {} elements (expected {expected})",
            result.len()
        );
        ensure!(
            result[..=n_losses].iter().all(|number| number.is_finite()),
            "a loss is not finite"
        );
        let least = self.least_accuracy();
        let accuracy = result[n_losses];
        let classes = result[n_losses + 1 + NUMBERS.len()..].iter();
        let pairs = classes.zip(self.images[1].labels());
        let n_right = pairs
            .filter(|(class, label)| **class == **label as f32)
            .count();
        let of_classes = narrow(n_right as f64 / self.images[1].len() as f64);
        ensure!(
            accuracy == of_classes,
            "accuracy {accuracy} is not that of the classes ({of_classes})"
        );
        ensure!(accuracy >= least, "accuracy {accuracy} is below {least}");
        // The second of the numbers.
        let n_different = f64::from(result[n_losses + 1..][1]);
        ensure!(
            self.levels == FLOAT || n_different <= MAX_DIFFERENT,
            "{n_different} predictions of the packed network differ (at most {MAX_DIFFERENT})"
        );
        Ok(())
    }

    /// Returns the minimum accuracy: some tenths of a percent below those that were measured.
    fn least_accuracy(&self) -> f32 {
        match (self.set, self.levels) {
            (DataSet::Mnist, FLOAT) => 0.992,
            (DataSet::Mnist, "w1a1") => 0.983,
            (DataSet::Mnist, _) => 0.987,
            (DataSet::Fashion, _) => 0.88,
        }
    }

    /// Returns the remark of a row: the images, and a published accuracy of a similar network after
    /// 100 epochs.
    fn note(&self) -> String {
        let images = format!("{} images of {}", self.images[0].len(), self.set.name());
        let (percent, row) = match (self.set, self.levels) {
            (DataSet::Mnist, FLOAT) => (99.59, "fp"),
            (DataSet::Mnist, "w1a1") => (98.90, "QNN 1/1"),
            (DataSet::Mnist, "w1a2") => (99.22, "QNN 1/2"),
            (DataSet::Mnist, "w2a2") => (99.45, "QNN 2/2"),
            _ => return images,
        };
        format!("{images}; published for LeNet-5: {percent:.2} % (RedBit, {row})")
    }

    fn findings(&self, result: &Output) -> Result<Findings> {
        let (result, n_losses) = (f32::from_output(result)?, self.n_losses());
        let (numbers, classes) = result[n_losses + 1..].split_at(NUMBERS.len());
        let labels = self.images[1].labels().iter();
        let wrong = (0..).zip(classes.iter().zip(labels));
        let wrong = wrong.filter(|(_, (class, label))| **class != **label as f32);
        let own = NUMBERS.into_iter().zip(numbers);
        let own = own.filter(|(_, number)| number.is_finite());
        let own = own.map(|(name, &number)| (name.to_owned(), f64::from(number)));
        let n_epochs = ("epochs".to_owned(), self.recipe.n_epochs as f64);
        Ok(Findings {
            numbers: own.chain([n_epochs]).collect(),
            wrong: wrong.map(|(index, _)| index).collect(),
        })
    }
}

#[expect(clippy::cast_possible_truncation, reason = "rounding is intended")]
fn narrow(number: f64) -> f32 {
    number as f32
}

/// Returns the classes by a network in f32.
fn predictions(network: &Network, test: &Images, executor: &dyn Executor) -> Result<Vec<u32>> {
    let scores_of = |codes: &_| network.outputs_of(&network.input().values_of(codes));
    Ok(test.predictions(executor, scores_of)?)
}

/// Writes the packed network to a file, and returns the network that is read back with the size of
/// the file.
fn packed(network: &Network) -> Result<(FrozenNetwork, u64)> {
    let folder = std::env::temp_dir().join(format!("quant-accuracy-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let path = folder.join("packed.safetensors");
    let read = write_and_read(network, &path);
    std::fs::remove_dir_all(&folder)?;
    read
}

fn write_and_read(network: &Network, path: &Path) -> Result<(FrozenNetwork, u64)> {
    network.freeze()?.write(path)?;
    Ok((FrozenNetwork::read(path)?, std::fs::metadata(path)?.len()))
}

/// Returns the sum of the squares of the differences between the weights of a network and their
/// levels, relative to the sum of the squares of these weights; layers of floats are left out.
fn relative_error(network: &Network, trained: &Trained) -> Result<f32> {
    let names = trained.net().parameters();
    let (mut errors, mut squares) = (0.0, 0.0);
    for layer in network.layers() {
        let name = format!("{}.weight", layer.name);
        let weights = names.iter().zip(trained.parameters());
        let weights = weights.filter(|((own, _), _)| *own == name);
        for (weight, level) in weights
            .flat_map(|(_, own)| own)
            .zip(layer.weights.values()?)
        {
            let (weight, level) = (f64::from(*weight), f64::from(level));
            if matches!(layer.weights, quant::Weights::Levels { .. }) {
                errors += (weight - level) * (weight - level);
                squares += weight * weight;
            }
        }
    }
    Ok(narrow(errors / squares))
}

impl Problem for Whole {
    fn workload<'a>(&'a self, gpus: &'a [Gpu]) -> Workload<'a> {
        let n_images = self.n_losses() * self.recipe.batch;
        let operations = low_bit::training_operations(&self.net) * n_images as f64;
        let bytes = self.images[0].pixels().len() as f64;
        let whole = Extent::new(Work::Operations(operations), bytes);
        let on_host = Variant::on_cpu("host", whole, 0, |result: &mut Vec<f32>| {
            self.train(&Host::new(), true, result)
        });
        let why = "a whole training would take hours on a software driver";
        let (devices, left_out) = on_gpu::hardware(gpus, why);
        let on_device = |gpu: &'a Gpu| {
            Variant::on_cpu("wgsl", whole, 0, move |result: &mut Vec<f32>| {
                self.train(gpu, false, result)
            })
            .with_adapter(gpu.adapter())
        };
        Workload::new(whole, |result, _| self.check(result))
            .with_variants([on_host.with_note(self.note())])
            .with_variants(devices.into_iter().map(on_device))
            .with_left_out(left_out)
            .with_losses(self.n_losses())
            .with_findings(|result| self.findings(result))
            .once()
    }
}
