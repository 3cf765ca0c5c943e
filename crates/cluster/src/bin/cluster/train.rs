//! `cluster train`: a network whose batches are divided among ranks.
//!
//! Method: each rank holds all images and computes the gradients of its shards of each batch. The
//! gradients are added in an order that depends on the number of shards alone, and each rank does
//! the same update. So the losses do not depend on the number of ranks, bit for bit.

use std::cell::Cell;
use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use cluster::{Cluster, Machine};
use quant::InputImage;
use quant::layers::{ActivationLevels, Levels, QuantLinear};
use quant::train::{Images, Net, NetLayer, Recipe, Schedule, Shards, Training};
use serde_json::json;
use tensor_core::rng::Philox;
use tensor_core::{Host, Tensor};
use tool_io::check_replaceable;

use super::options::{Common, allocated, positive};
use super::summary::Summary;
use super::{Work, agree};

/// The number of pixels of a random image.
const RANDOM_PIXELS: usize = 1000;

/// The operation in messages of errors.
const OPERATION: &str = "train";

/// Train a network of linear layers on labelled images
///
/// The last loss is printed with its bits. --journal is not for this command.
#[derive(Args, Debug)]
#[command(args_override_self = true, allow_negative_numbers = true)]
pub(super) struct Options {
    /// Images of bytes in the format IDX, also compressed (.gz), which every rank reads
    #[arg(
        long,
        value_name = "FILE",
        requires = "labels",
        required_unless_present = "n_random"
    )]
    images: Option<PathBuf>,
    /// Labels of the images, in the format IDX
    #[arg(long, value_name = "FILE", requires = "images")]
    labels: Option<PathBuf>,
    /// N random images of 1000 pixels in --classes classes instead
    #[arg(long = "random", value_name = "N", value_parser = positive, conflicts_with = "images")]
    n_random: Option<usize>,
    /// Number of classes, at most 65536, or at most 1000 with --random
    #[arg(long = "classes", value_name = "N", value_parser = classes, default_value_t = 10)]
    n_classes: usize,
    /// Units of the hidden layers, separated by commas
    #[arg(long, value_name = "LIST", value_parser = list, default_value = "100")]
    hidden: Units,
    /// Low-bit weights and activations, such as w2a2 [default: floats]
    #[arg(long, value_name = "NAME")]
    levels: Option<Levels>,
    /// Images of a step
    #[arg(long, value_name = "N", value_parser = positive, default_value_t = 1024)]
    batch: usize,
    /// Shards of a batch; the losses depend on this number, bit for bit
    #[arg(long = "shards", value_name = "N", value_parser = positive, default_value_t = 8)]
    n_shards: usize,
    /// Passes over the images
    #[arg(long = "epochs", value_name = "N", value_parser = positive, default_value_t = 5)]
    n_epochs: usize,
    /// First learning rate, which falls to 0
    #[arg(long, value_name = "X", value_parser = rate, default_value_t = 0.05)]
    rate: f32,
    /// Seed of the weights and of the order
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Write the training to FILE after each epoch, and continue from there
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

/// Numbers of units.
type Units = Vec<usize>;

impl Work for Options {
    fn common(&self) -> &Common {
        &self.common
    }

    fn check(&self) -> Result<(), String> {
        if self.common.journal.is_some() {
            return Err("--journal is not for `train`; use --checkpoint".to_owned());
        }
        if self.n_random.is_some() && self.n_classes > RANDOM_PIXELS {
            return Err(format!(
                "--classes {} is more than a random image has pixels ({RANDOM_PIXELS})",
                self.n_classes
            ));
        }
        if !self.batch.is_multiple_of(self.n_shards) {
            let (batch, n_shards) = (self.batch, self.n_shards);
            return Err(format!(
                "--batch {batch} is not a multiple of --shards {n_shards}"
            ));
        }
        Ok(())
    }

    fn run(&self, cluster: &Cluster) -> Result<Summary> {
        run(self, cluster, &self.common)
    }
}

/// Parses a number of classes. Time and memory of the last layer grow in proportion.
fn classes(text: &str) -> Result<usize, String> {
    const MAX_CLASSES: usize = 1 << 16;
    match positive(text)? {
        number if number <= MAX_CLASSES => Ok(number),
        _ => Err(format!("expected at most {MAX_CLASSES}")),
    }
}

/// Parses a learning rate.
fn rate(text: &str) -> Result<f32, String> {
    let rate = text
        .parse()
        .ok()
        .filter(|&rate: &f32| rate > 0.0 && rate.is_finite());
    rate.ok_or_else(|| "expected a finite number above 0".to_owned())
}

/// Parses positive numbers.
fn list(text: &str) -> Result<Units, String> {
    text.split(',').map(positive).collect()
}

fn run(options: &Options, cluster: &Cluster, common: &Common) -> Result<Summary> {
    let images = agree(cluster, images(options))?;
    let host = Host::new();
    // The time of all sums, and the bytes of a sum.
    let (reduced, n_bytes) = (Cell::new(Duration::ZERO), Cell::new(0));
    let sum = |own: &[Vec<Tensor>]| {
        let from = Instant::now();
        let sums = cluster.all_reduce(options.n_shards, own);
        let sums = sums.map_err(|error| error.to_string())?;
        reduced.set(reduced.get() + from.elapsed());
        let elements = sums
            .iter()
            .map(|sum| Ok(sum.shape()?.iter().product::<usize>()));
        let elements = elements.sum::<tensor_core::Result<usize>>();
        n_bytes.set(size_of::<f32>() * elements.map_err(|error| error.to_string())?);
        Ok(sums)
    };
    let own = cluster.shards(options.n_shards);
    let training = || -> Result<Training<'_>> {
        ensure!(
            options.batch <= images.len(),
            "train: --batch {} is more than there are images ({})",
            options.batch,
            images.len()
        );
        let recipe = Recipe {
            schedule: Schedule::Cosine {
                first: options.rate,
                last: 0.0,
            },
            batch: options.batch,
            n_epochs: options.n_epochs,
            seed: options.seed,
            ..Recipe::default()
        };
        let training = Training::new(net(options, &images)?, recipe, &images, &host)?;
        let shards = Shards::new(options.n_shards, own.clone(), Box::new(&sum))?;
        let mut training = training.with_shards(shards)?;
        if let Some(path) = &options.checkpoint {
            // An error now, and not after an epoch.
            check_replaceable(path)?;
        }
        if let Some(path) = options.checkpoint.as_ref().filter(|path| path.exists()) {
            training.resume(path)?;
        }
        Ok(training)
    };
    let mut training = agree(cluster, training())?;
    let first = training.step();
    let first_steps = cluster.exchange(OPERATION, &first)?;
    ensure!(
        first_steps.iter().all(|&step| step == first),
        "train: ranks have different checkpoints (steps {first_steps:?}); the file must be on a disk that all share"
    );
    let mut epochs = vec![];
    let (mut last, mut saves) = (f32::NAN, Ok(()));
    let (from, before) = (Instant::now(), cluster.traffic());
    let trained = training.run(|training, progress| {
        last = progress.losses.last().copied().unwrap_or(last);
        if !progress.is_end_of_epoch {
            return Ok(ControlFlow::Continue(()));
        }
        epochs.push(vec![
            json!(progress.n_epochs),
            json!(last),
            json!(format!("{:08x}", last.to_bits())),
        ]);
        if cluster.rank() == 0 && !common.is_quiet {
            // A closed standard error does not end the job.
            let _ = writeln!(io::stderr(), "epoch {}: loss {last}", progress.n_epochs);
        }
        let saved = match (&options.checkpoint, cluster.rank()) {
            (Some(path), 0) => training.save(path).map_err(anyhow::Error::from),
            _ => Ok(()),
        };
        saves = agree(cluster, saved);
        Ok(if saves.is_ok() {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        })
    });
    match trained {
        Ok(()) => saves?,
        // All ranks have the same sums and the same losses, so they have the same error.
        Err(error @ (quant::Error::ShardSum { .. } | quant::Error::NotFinite { .. })) => {
            return Err(error.into());
        }
        Err(error) => {
            // The other ranks wait for the gradients of this one.
            tool_io::output::note(format_args!(
                "error: cluster: train on rank {}: {error}",
                cluster.rank()
            ));
            cluster.abort(1);
        }
    }
    let elapsed = from.elapsed().as_secs_f64();
    let messages = (cluster.traffic() - before).elapsed;
    let n_steps = training.step() - first;
    let accuracy = match cluster.rank() {
        0 => accuracy(&mut training, &images, &host),
        _ => Ok(f64::NAN),
    };
    let accuracy = agree(cluster, accuracy)?;
    let reduced = reduced.get().as_secs_f64();
    let step = elapsed / n_steps.max(1) as f64;
    // On one rank, sums are computations.
    let computed = match cluster.n_ranks() {
        1 => elapsed,
        _ => elapsed - reduced,
    };
    let of_shard = computed / n_steps.max(1) as f64 / own.len().max(1) as f64;
    Ok(Summary::new()
        .with_table(vec!["epoch", "loss", "bits"], epochs)
        .with("steps", n_steps)
        .with("resumed_steps", first)
        .with("shards", options.n_shards)
        .with("accuracy_on_training_images", accuracy)
        .with("elapsed_s", elapsed)
        .with("step_s", step)
        .with_predictions(common, |machine| {
            let step = predicted_step(options.n_shards, of_shard, n_bytes.get() as f64, machine);
            Duration::from_secs_f64(step * n_steps as f64)
        })
        .with("bytes_per_sum", n_bytes.get())
        .with("share_all_reduce", reduced / elapsed)
        .with("share_communication", messages.as_secs_f64() / elapsed))
}

/// Predicts the time of a step in seconds: that of the shards of the rank with the most shards, and
/// that of the exchange of all gradients, in two messages to each other rank. The update of the
/// parameters counts as work of the shards.
fn predicted_step(n_shards: usize, of_shard: f64, n_bytes: f64, machine: &Machine) -> f64 {
    let n_ranks = machine.n_ranks as f64;
    let crowding = (n_ranks / machine.n_cores.max(1) as f64).max(1.0);
    let computing = n_shards.div_ceil(machine.n_ranks) as f64 * of_shard * crowding;
    let latency = 2.0 * (n_ranks - 1.0) * machine.latency.as_secs_f64();
    let transfer = 2.0 * n_bytes * (n_ranks - 1.0) / n_ranks / machine.bandwidth;
    computing + latency + transfer
}

/// Returns the share of the images whose class the network finds.
fn accuracy(training: &mut Training<'_>, images: &Images, host: &Host) -> Result<f64> {
    let network = training.trained()?.network()?;
    let predictions = images.predictions(host, |codes| network.outputs_of_codes(codes))?;
    Ok(images.accuracy(&predictions)?)
}

/// Returns the images of the command line.
fn images(options: &Options) -> Result<Images> {
    if let (Some(images), Some(labels)) = (&options.images, &options.labels) {
        return Ok(Images::read_idx(images, labels, options.n_classes)?);
    }
    let n = options.n_random.unwrap_or(1);
    let random = Philox::new(options.seed);
    let what = format!("train: {n} random images of {RANDOM_PIXELS} pixels");
    let mut pixels = allocated(&what, n.checked_mul(RANDOM_PIXELS))?;
    let byte = |place: usize| random.word(place as u64).to_le_bytes()[0];
    for (place, pixel) in pixels.iter_mut().enumerate() {
        *pixel = byte(place);
    }
    // The class is that of the brightest of the first pixels, so that there is something to learn.
    let brightest = |image: usize| {
        let pixels = (0..options.n_classes).map(|class| byte(image * RANDOM_PIXELS + class));
        let place = pixels.enumerate().max_by_key(|&(_, pixel)| pixel);
        place.map_or(0, |(class, _)| u32::try_from(class).unwrap_or(0))
    };
    let labels = (0..n).map(brightest).collect();
    Ok(Images::new(
        [1, 1, RANDOM_PIXELS],
        pixels,
        labels,
        options.n_classes,
    )?)
}

/// Returns the network of the command line.
fn net(options: &Options, images: &Images) -> Result<Net> {
    let mut layers = vec![];
    for (number, &units) in (1..).zip(&options.hidden) {
        let linear = QuantLinear::new(units).with_bias();
        layers.push((format!("hidden{number}"), NetLayer::Linear(linear)));
        let relu = NetLayer::Activation(ActivationLevels::Relu);
        layers.push((format!("relu{number}"), relu));
    }
    let classes = QuantLinear::new(options.n_classes).with_bias();
    layers.push(("classes".to_owned(), NetLayer::Linear(classes)));
    let names = layers
        .iter()
        .map(|(name, layer)| (name.as_str(), layer.clone()));
    let net = Net::new(InputImage::unit(images.size()), names.collect())?;
    match &options.levels {
        None => Ok(net),
        Some(levels) => Ok(net.with_levels(*levels)?),
    }
}
