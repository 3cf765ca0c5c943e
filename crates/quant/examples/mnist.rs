//! Trains a network with few bits on handwritten digits, freezes it, and writes the packed file.
//!
//! `cargo run --release -p quant --example mnist -- w2a2 --seed 1` first trains a network of floats
//! (`mnist-float-seed1.safetensors`), then one with 2 bits per weight and activation
//! (`mnist-w2a2-seed1.safetensors`), and writes `mnist-w2a2-seed1-packed.safetensors`. Interrupted
//! trainings continue where they were saved. Feature `gpu` adds the option `--gpu`.
#![allow(clippy::print_stdout, reason = "the program prints its results")]

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use clap::{CommandFactory as _, Parser};
use quant::layers::Levels;
use quant::train::{Images, Net, Recipe, Trained, Training};
use quant::{FrozenNetwork, Network};
use tensor_core::data::idx::{IdxArray, Reader};
use tensor_core::{Executor, Host, Reference, Tensor};
use tool_io::{exit, output};

/// The smallest number of steps between checkpoints within an epoch.
const SAVE_EVERY: usize = 200;
/// The number of classes of MNIST and of the project's digits.
const N_DIGITS: usize = 10;
/// The number of test images whose codes are compared with the reference executor, which is slow.
const N_REFERENCE: usize = 20;
/// The number of images whose codes are compared at a time.
const COMPARED_BATCH: usize = 500;

/// Whether the program should save the training and end.
static STOPS: AtomicBool = AtomicBool::new(false);

/// Train a network with few bits on handwritten digits, freeze it, and write the packed file
///
/// A training with the same options continues where it was interrupted. The files of other options
/// or data are not replaced: remove them, or name another folder with --out.
#[derive(Parser)]
#[command(
    name = "mnist",
    version,
    args_override_self = true,
    allow_negative_numbers = true
)]
struct Options {
    /// `float`, or `w2a2` (LQ-Nets with 2 bits per weight and per activation), `u2a2` (equal
    /// distances), `d2a2` (DoReFa-Net), `abc2a2` (ABC-Net), with other numbers of bits or bases
    levels: Levels,
    /// Seed of the initial weights and of the order of the images
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Epochs with levels
    #[arg(long, value_name = "N", default_value_t = 8)]
    epochs: usize,
    /// Epochs with floats
    #[arg(long, value_name = "N", default_value_t = 8)]
    float_epochs: usize,
    /// Images per step
    #[arg(long, value_name = "N", value_parser = positive, default_value_t = 100)]
    batch: usize,
    /// Folder of four IDX files with the names of those of MNIST: images of at least 16 x 16
    /// pixels, labels below the number of classes [default: the folder where `cargo xtask data
    /// mnist` puts MNIST; without MNIST there, 1,797 digits are used]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Number of classes; the default images are digits
    #[arg(long = "classes", value_name = "N", value_parser = positive, default_value_t = N_DIGITS, requires = "data")]
    n_classes: usize,
    /// Folder of all files that are written
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Train and run on the GPU; requires the feature `gpu`
    #[arg(long = "gpu")]
    uses_gpu: bool,
}

/// Parses a whole number of at least 1.
fn positive(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|&number: &usize| number > 0);
    number.ok_or_else(|| "expected a whole number of at least 1".to_owned())
}

/// Returns the folder where `cargo xtask data mnist` puts MNIST.
fn default_data() -> PathBuf {
    let folder = |variable| std::env::var_os(variable).filter(|it| !it.is_empty());
    let data = folder("DATA_DIR").map(PathBuf::from);
    let target = || PathBuf::from(folder("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()));
    data.unwrap_or_else(|| target().join("data")).join("mnist")
}

/// An error of a library or of the options.
type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    // Without arguments, print the help and exit with 0, because `verify` runs each example without
    // arguments.
    if std::env::args_os().len() == 1 {
        return match output::print(Options::command().render_help()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    run(&Options::parse()).unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

/// Trains a network, freezes it, writes the packed file and checks the file.
fn run(options: &Options) -> Result<ExitCode, Failure> {
    tool_io::signals::on_stop(|_| STOPS.store(true, Ordering::Relaxed))?;
    let device = Device::open(options)?;
    let [train, test] = match &options.data {
        Some(folder) => read_images(folder, options.n_classes)?,
        None => default_images()?,
    };
    if test.size() != train.size() {
        let [size, of_train] = [test.size(), train.size()];
        return Err(format!(
            "mnist: sizes of images differ (test {size:?}, training {of_train:?})"
        )
        .into());
    }
    std::fs::create_dir_all(&options.out)
        .map_err(|error| format!("{}: {error}", options.out.display()))?;
    let run = Run {
        options,
        #[cfg(feature = "gpu")]
        device: &device,
        executor: device.executor(),
        train,
        test,
    };
    let Some(trained) = run.trained()? else {
        return Ok(ExitCode::from(exit::INTERRUPTED));
    };
    if options.levels == Levels::default() {
        return Ok(ExitCode::SUCCESS);
    }
    let network = trained.network()?;
    let path = run.file(options.levels, "-packed");
    network.freeze()?.write(&path)?;
    run.report(&network, &path)?;
    Ok(ExitCode::SUCCESS)
}

/// The device that trains and classifies.
enum Device {
    Host(Host),
    #[cfg(feature = "gpu")]
    Gpu(Box<gpu_wgsl::Gpu>),
}

impl Device {
    fn open(options: &Options) -> Result<Self, Failure> {
        #[cfg(feature = "gpu")]
        if options.uses_gpu {
            let gpu = gpu_wgsl::Gpu::open(gpu_wgsl::Select::default())?;
            output::print_line(format_args!("adapter: {}", gpu.adapter().name))?;
            return Ok(Self::Gpu(Box::new(gpu)));
        }
        #[cfg(not(feature = "gpu"))]
        if options.uses_gpu {
            return Err("--gpu: the program was built without the feature gpu".into());
        }
        Ok(Self::Host(Host::new()))
    }

    fn executor(&self) -> &dyn Executor {
        match self {
            Self::Host(host) => host,
            #[cfg(feature = "gpu")]
            Self::Gpu(gpu) => &**gpu,
        }
    }
}

/// Returns the path of a file, which may be compressed.
fn idx_file(folder: &Path, name: &str) -> PathBuf {
    let (plain, compressed) = (folder.join(name), folder.join(format!("{name}.gz")));
    if compressed.is_file() && !plain.is_file() {
        compressed
    } else {
        plain
    }
}

/// Returns the images to train with and the test images of a folder.
fn read_images(folder: &Path, n_classes: usize) -> Result<[Images; 2], Failure> {
    let read = |set: &str| {
        let [images, labels] = ["images-idx3-ubyte", "labels-idx1-ubyte"]
            .map(|name| idx_file(folder, &format!("{set}-{name}")));
        Images::read_idx(images, labels, n_classes)
    };
    Ok([read("train")?, read("t10k")?])
}

/// Returns MNIST, or the project's digits if the default folder does not contain MNIST.
fn default_images() -> Result<[Images; 2], Failure> {
    let folder = default_data();
    if idx_file(&folder, "train-images-idx3-ubyte").is_file() {
        return read_images(&folder, N_DIGITS);
    }
    output::print_line(format_args!(
        "no MNIST in {}: training on the project's 1,797 digits\n\
         (`cargo xtask data mnist` fetches MNIST; --data DIR reads other IDX files)",
        folder.display()
    ))?;
    digits()
}

/// Returns the project's digits, enlarged from 8 × 8 to 28 × 28 pixels by nearest neighbour.
fn digits() -> Result<[Images; 2], Failure> {
    const SIDE: usize = 28;
    const N_TO_TRAIN: usize = 1500;
    let read = |bytes: &[u8]| -> Result<Vec<u8>, Failure> {
        match Reader::new(bytes)?.read_all()? {
            IdxArray::U8(array) => Ok(array.iter().copied().collect()),
            _ => Err("the project's digits are no bytes".into()),
        }
    };
    let small = read(include_bytes!("../testdata/digits-images.idx.gz"))?;
    let labels = read(include_bytes!("../testdata/digits-labels.idx.gz"))?;
    let pixel = |at: usize| {
        let (image, row, col) = (at / SIDE / SIDE, at / SIDE % SIDE, at % SIDE);
        // 17 levels, 0 to 16.
        small[image * 64 + row * 8 / SIDE * 8 + col * 8 / SIDE].saturating_mul(16)
    };
    let pixels = (0..labels.len() * SIDE * SIDE).map(pixel).collect();
    let labels = labels.into_iter().map(u32::from).collect();
    Ok(Images::new([SIDE, SIDE, 1], pixels, labels, N_DIGITS)?.split_at(N_TO_TRAIN)?)
}

/// Returns the words of codes of all layers but the last, whose outputs are floats.
fn codes_of(layers: &[Tensor], executor: &dyn Executor) -> Result<Vec<u32>, Failure> {
    let packed = layers.split_last().map_or(&[][..], |(_, packed)| packed);
    let mut words = Vec::new();
    for layer in packed {
        words.extend(layer.eval::<u32>(executor)?);
    }
    Ok(words)
}

struct Run<'a> {
    options: &'a Options,
    #[cfg(feature = "gpu")]
    device: &'a Device,
    executor: &'a dyn Executor,
    train: Images,
    test: Images,
}

impl Run<'_> {
    fn file(&self, levels: Levels, suffix: &str) -> PathBuf {
        let seed = self.options.seed;
        let name = format!("mnist-{levels}-seed{seed}{suffix}.safetensors");
        self.options.out.join(name)
    }

    /// Trains the network of floats, then the network with levels. Returns `None` if the program
    /// should end.
    fn trained(&self) -> Result<Option<Trained>, Failure> {
        let input = self.train.standardized_input()?;
        let float = Net::lenet5(input, self.train.n_classes())?;
        let recipe = Recipe {
            n_epochs: self.options.float_epochs,
            batch: self.options.batch,
            seed: self.options.seed,
            ..Recipe::default()
        };
        let start = || Training::new(float.clone(), recipe.clone(), &self.train, self.executor);
        let of_floats = self.train_to_end(Levels::default(), start)?;
        let levels = self.options.levels;
        if levels == Levels::default() {
            return Ok(of_floats);
        }
        let Some(of_floats) = of_floats else {
            return Ok(None);
        };
        let net = float.with_levels(levels)?;
        let recipe = Recipe {
            n_epochs: self.options.epochs,
            batch: self.options.batch,
            seed: self.options.seed,
            ..Recipe::after_switch()
        };
        let start = || {
            let net = net.clone();
            Training::from_trained(net, &of_floats, recipe.clone(), &self.train, self.executor)
        };
        self.train_to_end(levels, start)
    }

    /// Resumes the training from its checkpoint, or starts it, and trains to the end.
    fn train_to_end<'t>(
        &'t self,
        levels: Levels,
        start: impl FnOnce() -> quant::Result<Training<'t>>,
    ) -> Result<Option<Trained>, Failure> {
        let path = self.file(levels, "");
        let mut training = start()?;
        if path.exists() {
            training.resume(&path).map_err(|error| {
                format!("{error}; remove the file, or name another folder with --out")
            })?;
        }
        let (step, n_steps) = (training.step(), training.n_steps());
        output::print_line(format_args!("{levels}: step {step} of {n_steps}"))?;
        let began = Instant::now();
        let (mut sum, mut n_losses, mut last_saved) = (0.0, 0, step);
        let mut printed = Ok(());
        training.run(|training, progress| {
            sum += progress.losses.iter().sum::<f32>();
            n_losses += progress.losses.len();
            let stops = STOPS.load(Ordering::Relaxed);
            if stops || progress.is_end_of_epoch || progress.step >= last_saved + SAVE_EVERY {
                training.save(&path)?;
                last_saved = progress.step;
            }
            if stops {
                printed = output::print_line(format_args!(
                    "{levels}: stopped at step {}, saved in {}",
                    progress.step,
                    path.display()
                ));
                return Ok(ControlFlow::Break(()));
            }
            if progress.is_end_of_epoch {
                let network = training.trained()?.network()?;
                let accuracy = self.test.accuracy(&self.predictions(&network)?)?;
                printed = output::print_line(format_args!(
                    "{levels}: epoch {}, loss {:.4}, test accuracy {:.2} %, {:.0} s",
                    progress.n_epochs,
                    sum / n_losses as f32,
                    100.0 * accuracy,
                    began.elapsed().as_secs_f64(),
                ));
                (sum, n_losses) = (0.0, 0);
            }
            Ok(match printed {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            })
        })?;
        printed?;
        let is_complete = training.step() == training.n_steps();
        Ok(if is_complete {
            Some(training.trained()?)
        } else {
            None
        })
    }

    /// Returns the classes by a network in f32.
    fn predictions(&self, network: &Network) -> quant::Result<Vec<u32>> {
        let scores_of = |codes: &_| network.outputs_of_codes(codes);
        self.test.predictions(self.executor, scores_of)
    }

    /// Reads the packed file, and compares its network with the frozen one and with the network in
    /// f32.
    fn report(&self, network: &Network, path: &Path) -> Result<(), Failure> {
        let (frozen, packed) = (network.freeze()?, FrozenNetwork::read(path)?);
        if packed != frozen {
            return Err(format!("{}: another network than was written", path.display()).into());
        }
        let of_floats = self.predictions(network)?;
        let of_packed = self
            .test
            .predictions(self.executor, |codes| packed.outputs_of(codes))?;
        let n_different = of_floats
            .iter()
            .zip(&of_packed)
            .filter(|(a, b)| a != b)
            .count();
        output::print_line(format_args!(
            "packed: {} bytes in {}, test accuracy {:.2} %; {n_different} of {} predictions differ \
             from the network in f32",
            std::fs::metadata(path)?.len(),
            path.display(),
            100.0 * self.test.accuracy(&of_packed)?,
            self.test.len(),
        ))?;
        self.compare_codes(&packed)
    }

    /// Compares the codes of the packed layers with those of the reference executor for some
    /// images, and on a GPU those of the kernels for packed layers with those of the host for all
    /// test images. The codes are functions of integers, so none may differ.
    fn compare_codes(&self, packed: &FrozenNetwork) -> Result<(), Failure> {
        let on =
            |executor: &dyn Executor, codes: &Tensor| codes_of(&packed.layers_of(codes)?, executor);
        let n_images = N_REFERENCE.min(self.test.len());
        let by_executor = |codes: &Tensor| on(self.executor, codes);
        let by_reference = |codes: &Tensor| on(&Reference, codes);
        self.compare(
            n_images,
            "the reference executor",
            by_executor,
            by_reference,
        )?;
        #[cfg(feature = "gpu")]
        if let Device::Gpu(gpu) = self.device {
            let network = packed.upload(gpu)?;
            let by_kernels = |codes: &Tensor| codes_of(&network.layers_of(codes)?, &**gpu);
            let by_host = |codes: &Tensor| on(&Host::new(), codes);
            self.compare(self.test.len(), "the host", by_kernels, by_host)?;
        }
        Ok(())
    }

    /// Compares the codes of some test images, and prints the result.
    fn compare(
        &self,
        n_images: usize,
        other: &str,
        of_one: impl Fn(&Tensor) -> Result<Vec<u32>, Failure>,
        of_other: impl Fn(&Tensor) -> Result<Vec<u32>, Failure>,
    ) -> Result<(), Failure> {
        let mut n_words = 0;
        for first in (0..n_images).step_by(COMPARED_BATCH) {
            let codes = self.test.codes(first..n_images.min(first + COMPARED_BATCH));
            let [one, other_words] = [of_one(&codes)?, of_other(&codes)?];
            n_words += one.len();
            if one != other_words {
                return Err(format!("codes: different from those of {other}").into());
            }
        }
        output::print_line(format_args!(
            "codes: all {n_words} words of the packed layers for {n_images} test images are those of {other}"
        ))?;
        Ok(())
    }
}
