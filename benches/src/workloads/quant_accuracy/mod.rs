//! The accuracy of networks with few bits: whole trainings, from random weights to the packed file.
//!
//! Role: the workload `quant-accuracy`, which takes minutes per size and only runs on request.
//! Method: a network of floats is trained. A network with levels starts from the float network of
//! its data set and seed, is trained, frozen, and packed; the packed network classifies the test
//! images. The recipe is that of the example `mnist` of `quant`. Seeds determine the weights and
//! the order of the images. Sizes with `from-random` train with levels from random weights, at the
//! rate of the float network and for as many epochs as both trainings together. Sizes with
//! `late-pool` have the max-pools after the activations instead of before the normalizations; their
//! trainings start from the usual float network. The figure shows the levels of the first layer
//! with levels over the histogram of its weights, before the training, after one epoch and at the
//! end.
//! Shapes: the result is the loss of each step, the accuracy on the test images, the numbers of
//! `NUMBERS`, and the class of each test image.
//! Accuracy: the test accuracy must reach the workload's minimum, and the classes of the packed
//! network those of the network in f32 but for `MAX_DIFFERENT` images.
//! Cost: the time includes the figure, the packing, and the classification of the test images by
//! the packed network, by the network in f32 and by the float network; the operations are those of
//! the training alone. `packed_images_per_s` is the rate of that classification.
//! Source: the class-project notes on low-bit nets; Zhang, Yang, Ye and Hua 2018, "LQ-Nets"; for
//! the published accuracies the wiki of `RedBit` (IT-Coimbra), LeNet-5 on MNIST after 100 epochs,
//! and the MNIST tutorial of the library Larq.

use crate::level_figure;
use crate::low_bit::{self, DataSet, FLOAT, LEVELS, Trainings};
use anyhow::{Result, ensure};
use charts::{Figure, Panel};
use gpu_wgsl::Gpu;
use harness::findings::{ChartPoint, Findings};
use harness::on_gpu;
use harness::workload::{Extent, Output, OutputElement, Problem, Task, Variant, Work, Workload};
use quant::train::{Images, Net, Recipe, Trained, Training};
use quant::{FrozenNetwork, Network, Quantizer, Weights};
use std::cell::RefCell;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Instant;
use tensor_core::{Executor, Host};
use tool_io::TemporaryFolder;

/// The seeds of the trainings.
const SEEDS: [u64; 3] = [1, 2, 3];
/// The levels of the trainings of another [`Kind`] than `Usual`.
const LEVELS_OF_OTHER_KINDS: &str = "w1a1";
/// Levels that are trained on Fashion-MNIST, next to floats.
const ON_FASHION: [&str; 2] = [FLOAT, "w2a2"];
/// The name of the number of test images that the packed network classifies differently from the
/// network in f32.
const N_DIFFERENT: &str = "predictions_that_differ_from_f32";
/// The largest number of test images that the packed network may classify differently from the
/// network in f32.
const MAX_DIFFERENT: f64 = 2.0;
/// The numbers of a result after losses and accuracy.
const NUMBERS: [&str; 5] = [
    "float_start_accuracy",
    N_DIFFERENT,
    "packed_bytes",
    "relative_error_of_weights",
    "packed_images_per_s",
];

/// A way to train a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The max-pools are before the normalizations; levels start from the float network.
    Usual,
    /// Levels from the first step on, with random weights.
    FromRandom,
    /// Max-pools after the activations.
    LatePool,
}

impl Kind {
    fn suffix(self) -> &'static str {
        match self {
            Self::Usual => "",
            Self::FromRandom => "-from-random",
            Self::LatePool => "-late-pool",
        }
    }

    /// Returns the name of the series in the chart of test errors, unless the levels determine it.
    fn series(self) -> Option<&'static str> {
        match self {
            Self::Usual => None,
            Self::FromRandom => Some("1/1 from random weights"),
            Self::LatePool => Some("1/1, max-pool after the sign"),
        }
    }
}

/// Returns the tasks, the float network of each data set and seed first.
pub fn tasks(trainings: &Rc<Trainings>) -> Vec<Task> {
    let sets = [
        (DataSet::Mnist, &LEVELS[..]),
        (DataSet::Fashion, &ON_FASHION[..]),
    ];
    let usual = sets.into_iter().flat_map(|(set, levels)| {
        let sizes = SEEDS.map(|seed| levels.iter().map(move |&levels| (levels, seed)));
        let sizes = sizes.into_iter().flatten();
        sizes.map(move |(levels, seed)| (set, levels, seed, Kind::Usual))
    });
    let others = [Kind::FromRandom, Kind::LatePool];
    let others = others.map(|kind| (DataSet::Mnist, LEVELS_OF_OTHER_KINDS, SEEDS[0], kind));
    let task = |(set, levels, seed, kind): (DataSet, &'static str, u64, Kind)| {
        let trainings = Rc::clone(trainings);
        let size = format!("{}-{levels}-seed{seed}{}", set.name(), kind.suffix());
        let prepare = move || {
            let images = trainings.images(set)?;
            let has_start = levels != FLOAT && kind != Kind::FromRandom;
            let start = has_start.then(|| trainings.float(set, seed));
            let mut recipe = Trainings::recipe(levels, seed);
            if kind == Kind::FromRandom {
                recipe = Trainings::recipe(FLOAT, seed);
                recipe.n_epochs *= 2;
            }
            let net = low_bit::net(levels, &images[0])?;
            Ok(Whole {
                set,
                levels,
                kind,
                net: if kind == Kind::LatePool {
                    low_bit::with_late_pools(&net)?
                } else {
                    net
                },
                recipe,
                images,
                start: start.transpose()?,
                least_accuracy: least_accuracy(set, levels),
                trainings: Rc::clone(&trainings),
                panels: RefCell::default(),
            })
        };
        Task::new("quant-accuracy", "S1", size, prepare).long()
    };
    usual.chain(others).map(task).collect()
}

/// A whole training.
#[derive(Debug)]
pub struct Whole {
    set: DataSet,
    levels: &'static str,
    kind: Kind,
    net: Net,
    recipe: Recipe,
    images: Rc<[Images; 2]>,
    /// The float network that a training with levels starts from.
    start: Option<Rc<Trained>>,
    least_accuracy: f32,
    trainings: Rc<Trainings>,
    /// The panels of the figure, of the last training.
    panels: RefCell<Vec<Panel>>,
}

impl Whole {
    /// Creates a training on any images, `[training, test]`, from random weights and without a
    /// minimum accuracy.
    ///
    /// # Errors
    /// The levels are unknown, or the images are smaller than 16 × 16 pixels.
    pub fn from_random(levels: &'static str, images: [Images; 2], recipe: Recipe) -> Result<Self> {
        Ok(Self {
            set: DataSet::Mnist,
            levels,
            kind: Kind::FromRandom,
            net: low_bit::net(levels, &images[0])?,
            recipe,
            images: Rc::new(images),
            start: None,
            least_accuracy: 0.0,
            trainings: Rc::default(),
            panels: RefCell::default(),
        })
    }

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
        let panel = |training: &mut Training<'_>, time: &str| -> quant::Result<Option<Panel>> {
            let trained = training.trained()?;
            let title = format!("weight / standard deviation, {time}");
            Ok(levels_over_weights(&trained.network()?, &trained, &title))
        };
        let mut panels = Vec::from_iter(panel(&mut training, "before the training")?);
        result.clear();
        training.run(|training, progress| {
            result.extend(progress.losses);
            if progress.is_end_of_epoch && progress.n_epochs == 1 {
                panels.extend(panel(training, "after one epoch")?);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        panels.extend(panel(&mut training, "at the end")?);
        self.panels.replace(panels);
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
        let start = Instant::now();
        let classes = test.predictions(executor, |codes| packed.outputs_of(codes))?;
        let elapsed = start.elapsed();
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
            narrow(test.len() as f64 / elapsed.as_secs_f64()),
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
        let least = self.least_accuracy;
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
        let numbers = NUMBERS.iter().zip(&result[n_losses + 1..]);
        let mut different = numbers.filter(|(name, _)| **name == N_DIFFERENT);
        let n_different = different.next().map_or(f64::NAN, |(_, &n)| n.into());
        ensure!(
            self.levels == FLOAT || n_different <= MAX_DIFFERENT,
            "{n_different} predictions of the packed network differ (at most {MAX_DIFFERENT})"
        );
        Ok(())
    }

    /// Returns the accuracy that was published for a similar network after 100 epochs, in percent,
    /// with the name of its row in the source.
    fn published(&self) -> Option<(f64, &'static str)> {
        match (self.set, self.kind, self.levels) {
            (DataSet::Mnist, Kind::Usual, FLOAT) => Some((99.59, "fp")),
            (DataSet::Mnist, Kind::Usual, "w1a1") => Some((98.90, "QNN 1/1")),
            (DataSet::Mnist, Kind::Usual, "w1a2") => Some((99.22, "QNN 1/2")),
            (DataSet::Mnist, Kind::Usual, "w2a2") => Some((99.45, "QNN 2/2")),
            _ => None,
        }
    }

    /// Returns the remark of a row: the images, and the published accuracies.
    fn note(&self) -> String {
        let images = format!("{} images of {}", self.images[0].len(), self.set.name());
        let Some((percent, row)) = self.published() else {
            return images;
        };
        let other = match self.levels {
            "w1a1" => "; about 98 % for the smaller 1/1 net of Larq's tutorial",
            _ => "",
        };
        format!("{images}; published for LeNet-5: {percent:.2} % (RedBit, {row}){other}")
    }

    /// Returns the place of the test error in the chart. `x` is the number of bits of a weight
    /// times that of an activation.
    fn chart_point(&self) -> ChartPoint {
        let (series, bits) = match self.levels {
            "w1a1" => ("LQ-Nets", Some([1, 1])),
            "w1a2" => ("LQ-Nets", Some([1, 2])),
            "w2a2" => ("LQ-Nets", Some([2, 2])),
            "u2a2" => ("uniform levels", Some([2, 2])),
            "abc2a2" => ("ABC-Net", Some([2, 2])),
            _ => (FLOAT, None),
        };
        let x = bits.map(|[weight, activation]| f64::from(weight * activation));
        ChartPoint {
            panel: self.set.name().to_owned(),
            series: self.kind.series().unwrap_or(series).to_owned(),
            x,
            x_label: "bits of a weight × bits of an activation".to_owned(),
            published: self.published().map(|(percent, _)| percent / 100.0),
        }
    }

    fn figure(&self) -> Figure {
        Figure {
            caption: "Levels of the first layer with levels over the histogram of its weights, in the course of the training. \
                Weights and levels are divided by the standard deviation of the weights of their output; the levels are means over the outputs.".into(),
            panels: self.panels.borrow().clone(),
            ..Figure::default()
        }
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
            seed: Some(self.recipe.seed),
            chart_point: Some(self.chart_point()),
        })
    }
}

/// Returns the minimum accuracy: some tenths of a percent below those that were measured.
fn least_accuracy(set: DataSet, levels: &str) -> f32 {
    match (set, levels) {
        (DataSet::Mnist, FLOAT) => 0.992,
        (DataSet::Mnist, "w1a1") => 0.983,
        (DataSet::Mnist, _) => 0.987,
        (DataSet::Fashion, _) => 0.88,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "rounding is intended")]
fn narrow(number: f64) -> f32 {
    number as f32
}

/// Returns the classes by a network in f32.
fn predictions(network: &Network, test: &Images, executor: &dyn Executor) -> Result<Vec<u32>> {
    Ok(test.predictions(executor, |codes| network.outputs_of_codes(codes))?)
}

/// Writes the packed network to a file, and returns the network that is read back with the size of
/// the file.
fn packed(network: &Network) -> Result<(FrozenNetwork, u64)> {
    let folder = TemporaryFolder::create(&std::env::temp_dir(), "quant-accuracy")?;
    let path = folder.path().join("packed.safetensors");
    network.freeze()?.write(&path)?;
    Ok((FrozenNetwork::read(&path)?, std::fs::metadata(&path)?.len()))
}

/// A layer with levels.
struct LeveledLayer<'a> {
    n_outputs: usize,
    /// The weights of the training.
    weights: &'a [f32],
    quantizer: &'a Quantizer,
    codes: &'a [u8],
}

impl LeveledLayer<'_> {
    /// Returns the weights of each output.
    fn outputs(&self) -> impl Iterator<Item = &[f32]> {
        self.weights.chunks(self.weights.len() / self.n_outputs)
    }
}

/// Returns the layers with levels of a network that was exported from a training.
fn leveled_layers<'a>(network: &'a Network, trained: &'a Trained) -> Vec<LeveledLayer<'a>> {
    let names = trained.net().parameters();
    let leveled = network.layers().iter().filter_map(|layer| {
        let Weights::Levels { quantizer, codes } = &layer.weights else {
            return None;
        };
        let name = format!("{}.weight", layer.name);
        let place = names.iter().position(|(own, _)| *own == name)?;
        Some(LeveledLayer {
            n_outputs: layer.n_outputs,
            weights: &trained.parameters()[place],
            quantizer,
            codes,
        })
    });
    leveled.collect()
}

/// Returns the sum of the squares of the differences between the weights of a network and their
/// levels, relative to the sum of the squares of these weights; layers of floats are left out.
fn relative_error(network: &Network, trained: &Trained) -> Result<f32> {
    let (mut errors, mut squares) = (0.0, 0.0);
    for layer in leveled_layers(network, trained) {
        let levels = layer.quantizer.dequantize(layer.codes)?;
        let levels = levels.chunks(levels.len() / layer.n_outputs);
        for (weights, levels) in layer.outputs().zip(levels) {
            let error = |sign: f64| -> f64 {
                let pairs = weights.iter().zip(levels);
                pairs
                    .map(|(&w, &level)| (f64::from(w) - sign * f64::from(level)).powi(2))
                    .sum()
            };
            // The export of a late max-pool changes the signs of some outputs. The wrong sign gives
            // an error larger than the sum of the squares of the weights.
            errors += error(1.0).min(error(-1.0));
            squares += weights.iter().map(|&w| f64::from(w).powi(2)).sum::<f64>();
        }
    }
    Ok(narrow(errors / squares))
}

/// Returns the panel with the levels of the first layer with levels; `None` without such a layer.
/// Weights and levels are divided by the standard deviation of the weights of their output.
fn levels_over_weights(network: &Network, trained: &Trained, title: &str) -> Option<Panel> {
    let layers = leveled_layers(network, trained);
    let layer = layers.first()?;
    let mut all_weights = Vec::with_capacity(layer.weights.len());
    let mut means: Vec<f64> = Vec::new();
    // One level set per output, or one for all.
    let sets = layer.quantizer.levels().iter().cycle();
    for (weights, set) in layer.outputs().zip(sets) {
        let n = weights.len() as f64;
        let mean = weights.iter().map(|&w| f64::from(w)).sum::<f64>() / n;
        let squares = weights.iter().map(|&w| (f64::from(w) - mean).powi(2));
        let deviation = (squares.sum::<f64>() / n).sqrt();
        let scaled = |&x: &f32| f64::from(x) / deviation;
        all_weights.extend(weights.iter().map(scaled));
        means.resize(set.levels().len(), 0.0);
        for (mean, level) in means.iter_mut().zip(set.levels()) {
            *mean += scaled(level) / layer.n_outputs as f64;
        }
    }
    Some(level_figure::panel(title.to_owned(), &all_weights, &means))
}

impl Problem for Whole {
    fn workload<'a>(&'a self, gpus: &'a [Gpu]) -> Workload<'a> {
        let n_images = self.n_losses() * self.recipe.batch;
        let operations = low_bit::training_operations(&self.net) * n_images as f64;
        let bytes = low_bit::training_bytes(&self.net, &self.images[..]);
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
        let workload = Workload::new(whole, |result, _| self.check(result))
            .with_variants([on_host.with_note(self.note())])
            .with_variants(devices.into_iter().map(on_device))
            .with_left_out(left_out)
            .with_losses(self.n_losses())
            .with_findings(|result| self.findings(result))
            .once();
        if self.levels == FLOAT {
            return workload;
        }
        workload.with_figure(|_| Ok(self.figure()))
    }
}
