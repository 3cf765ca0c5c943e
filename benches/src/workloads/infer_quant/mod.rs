//! Inference of a trained network with few bits, and of the float network of the same shape, on one
//! thread.
//!
//! Role: the workload `infer-quant`: the time from codes of pixels to scores. The float network is
//! compared with `PyTorch` and `OpenVINO`; the ratio of the times of two sizes is the speedup of
//! few bits. The rate of the float network is operations per second, which the peak of floats
//! limits. Networks with levels multiply packed bits, so their rate is images per second.
//! Method: networks with levels are those of `crates/quant/testdata`, frozen and packed; all their
//! sums but the last are integers. The float network has random weights. The host uses one thread,
//! because users run such networks on small devices. On an adapter, networks with levels run as a
//! tensor program (`wgsl`) and by the kernels of `quant::gpu` (`wgsl-packed`).
//! Shapes: images `[batch, 28, 28, 1]` of codes; the result is the scores `[batch, 10]`.
//! Accuracy: the scores of `N_CHECKED` images, from the first to the last, are those of the
//! reference executor within `TOLERANCE` (relative) and `ABSOLUTE`; the others must be finite. With
//! MNIST's images and a batch of 128, networks with levels must classify `LEAST_RIGHT` of the
//! images correctly. The scores of the rival `INT8` are rounded: they may differ by `INT8_ERROR` of
//! the largest.
//! Source: the class-project notes on low-bit nets.

use crate::low_bit::{self, FLOAT};
use crate::mnist::LazyImages;
use anyhow::{Context, Result, ensure};
use gpu_wgsl::Gpu;
use harness::record::NotRun;
use harness::rivals::BaselineArguments;
use harness::script;
use harness::workload::{Extent, Output, OutputElement, Problem, Task, Variant, Work, Workload};
use quant::train::{Images, Net, Recipe, Trained, Training};
use quant::{FrozenLayer, FrozenNetwork, Network};
use std::rc::Rc;
use tensor_core::compare::{Tolerance, compare};
use tensor_core::{Executor, Host, Reference, Tensor, jit};

/// The networks with levels.
const PACKED: [(&str, &[u8]); 2] = [
    (
        "w1a1",
        include_bytes!("../../../../crates/quant/testdata/mnist-w1a1.safetensors"),
    ),
    (
        "w2a2",
        include_bytes!("../../../../crates/quant/testdata/mnist-w2a2.safetensors"),
    ),
];
const BATCHES: [usize; 2] = [1, 128];
/// The number of images, from the first to the last, whose scores are compared with the reference
/// executor.
const N_CHECKED: usize = 4;
/// The relative tolerance of scores, in epsilons.
const TOLERANCE: usize = 256;
/// The absolute tolerance of scores, which are some units.
const ABSOLUTE: f64 = 1e-4;
/// The fraction of MNIST's test images that networks with levels must classify correctly.
const LEAST_RIGHT: f64 = 0.97;
const N_CLASSES: usize = 10;
/// The name of the array of codes for the rivals.
const CODES: &str = "codes";
/// The rival that computes in 8 bits, and the largest error of its scores, as a fraction of the
/// largest score.
const INT8: &str = "openvino-int8";
const INT8_ERROR: f64 = 0.05;

/// Returns the tasks.
pub fn tasks(images: &Rc<LazyImages>) -> Vec<Task> {
    let names = [FLOAT].into_iter().chain(PACKED.map(|(name, _)| name));
    let sizes = names.flat_map(|name| BATCHES.map(|batch| (name, batch)));
    let task = |(name, batch): (&'static str, usize)| {
        let images = Rc::clone(images);
        let size = format!("28x28-conv32-conv64-512-10-{name}-b{batch}");
        Task::new("infer-quant", "S1", size, move || {
            let images = images.get()?;
            let is_mnist = images.is_fetched;
            let [train, test] = images.coded()?.ok_or_else(|| NotRun {
                what: "infer-quant".to_owned(),
                why: "labels or test images are missing".to_owned(),
                how: "pass --data a folder with all four files of MNIST".to_owned(),
            })?;
            Inference::new(name, &train, test.first(batch), is_mnist)
        })
    };
    sizes.map(task).collect()
}

/// A network of either kind.
#[derive(Debug)]
enum Kind {
    Float(Box<Network>),
    Packed(FrozenNetwork),
}

/// A network with the images that it classifies.
#[derive(Debug)]
pub struct Inference {
    kind: Kind,
    net: Net,
    images: Images,
    /// Whether the labels of the images are checked.
    has_classes: bool,
    /// The scores of the checked images by the reference executor.
    expected: Vec<f64>,
    arrays: Vec<(String, Vec<f32>)>,
}

impl Inference {
    /// Creates the inference of a network, `float`, `w1a1` or `w2a2`, for images of 28 × 28 pixels.
    /// The input of the float network is standardized by `train`. With `is_mnist`, networks with
    /// levels must classify the images correctly.
    ///
    /// # Errors
    /// The name is unknown, or the images have another size.
    pub fn new(name: &str, train: &Images, images: Images, is_mnist: bool) -> Result<Self> {
        let net = low_bit::net(name, train)?;
        let (kind, arrays) = match PACKED.iter().find(|(own, _)| *own == name) {
            Some((_, bytes)) => (Kind::Packed(FrozenNetwork::from_bytes(bytes)?), Vec::new()),
            None => {
                let recipe = Recipe {
                    batch: 1,
                    ..Recipe::default()
                };
                let start = Training::new(net.clone(), recipe, &images, &Host::new())?.trained()?;
                let arrays = arrays(&start, &images);
                (Kind::Float(Box::new(start.network()?)), arrays)
            }
        };
        let codes = images.codes(0..images.len());
        let mut inference = Self {
            has_classes: is_mnist && matches!(kind, Kind::Packed(_)),
            kind,
            net,
            images,
            expected: Vec::new(),
            arrays,
        };
        let checked = Tensor::from_vec(&[N_CHECKED], inference.checked());
        let scores = inference.scores_of(&codes.gather(&checked, 0))?;
        let scores = scores.eval::<f32>(&Reference)?;
        inference.expected = scores.into_iter().map(f64::from).collect();
        Ok(inference)
    }

    /// Returns the images whose scores are compared, the last image included.
    fn checked(&self) -> Vec<u32> {
        let last = self.images.len() - 1;
        let images = (0..N_CHECKED).map(|number| number * last / (N_CHECKED - 1));
        images
            .map(|image| u32::try_from(image).unwrap_or(u32::MAX))
            .collect()
    }

    /// Returns the scores of codes as a tensor program.
    fn scores_of(&self, codes: &Tensor) -> Result<Tensor> {
        let scores = match &self.kind {
            Kind::Packed(network) => network.outputs_of(codes)?,
            Kind::Float(network) => network.outputs_of_codes(codes)?,
        };
        let n_images = codes.shape()?[0];
        Ok(scores.reshape(&[n_images, N_CLASSES]))
    }

    /// Returns the inference on an executor. The codes are stored in its memory before the run.
    fn on<'a>(
        &'a self,
        executor: &'a dyn Executor,
    ) -> Result<impl FnMut(&mut Vec<f32>) -> Result<()> + use<'a>> {
        let codes = self.images.codes(0..self.images.len()).realize(executor)?;
        let program = jit(|args: &[Tensor]| {
            let scores = self.scores_of(&args[0]);
            Ok(vec![scores.map_err(|error| {
                tensor_core::Error::BadStep {
                    what: error.to_string(),
                }
            })?])
        });
        Ok(move |result: &mut Vec<f32>| {
            let scores = program.call(executor, &[&codes])?.remove(0);
            result.clear();
            result.extend(scores.to_host::<f32>()?);
            Ok(())
        })
    }

    /// Returns the inference by the kernels for packed layers. The codes and the packed weights are
    /// stored on the device before the run.
    fn packed_on<'a>(
        &'a self,
        network: &'a FrozenNetwork,
        gpu: &'a Gpu,
    ) -> Result<impl FnMut(&mut Vec<f32>) -> Result<()> + use<'a>> {
        let codes = self.images.codes(0..self.images.len()).realize(gpu)?;
        let network = network.upload(gpu)?;
        Ok(move |result: &mut Vec<f32>| {
            let scores = network.outputs_of(&codes)?;
            result.clear();
            result.extend(scores.to_host::<f32>()?);
            Ok(())
        })
    }

    /// Returns the variants of a device: the tensor program, and the kernels for packed layers.
    fn variants_on<'a>(&'a self, gpu: &'a Gpu, whole: Extent) -> Vec<Variant<'a>> {
        let program = Variant::started_on_cpu("wgsl", whole, 0, move || self.on(gpu));
        let mut variants = vec![program.with_adapter(gpu.adapter())];
        if let Kind::Packed(network) = &self.kind {
            let start = move || self.packed_on(network, gpu);
            let packed = Variant::started_on_cpu("wgsl-packed", whole, 0, start);
            variants.push(packed.with_adapter(gpu.adapter()));
        }
        variants
    }

    /// Returns the work: operations on floats, or images.
    fn work(&self) -> Work {
        let n_images = self.images.len();
        match &self.kind {
            Kind::Float(_) => {
                let n_products: usize = self.net.n_products().iter().sum();
                Work::Operations(2.0 * (n_products * n_images) as f64)
            }
            Kind::Packed(_) => Work::Images(n_images as f64),
        }
    }

    /// Returns the bytes of inputs and outputs: codes of pixels, numbers of the network and scores.
    fn bytes(&self) -> f64 {
        let network = match &self.kind {
            Kind::Float(_) => {
                let arrays = self.arrays.iter().filter(|(name, _)| name != CODES);
                arrays.map(|(_, numbers)| size_of_val(&numbers[..])).sum()
            }
            Kind::Packed(network) => {
                let layers = network.layers().iter();
                layers.map(FrozenLayer::n_bytes).sum::<usize>()
            }
        };
        let scores = self.images.len() * N_CLASSES * size_of::<f32>();
        (self.images.pixels().len() + network + scores) as f64
    }

    /// Compares the scores of the checked images with the expected scores. All scores must be
    /// finite.
    fn compare(&self, scores: &[f32], tolerance: &Tolerance) -> Result<()> {
        let expected = self.images.len() * N_CLASSES;
        ensure!(
            scores.len() == expected,
            "result has {} elements (expected {expected})",
            scores.len()
        );
        ensure!(
            scores.iter().all(|score| score.is_finite()),
            "a score is not finite"
        );
        let checked = self.checked().into_iter();
        let checked = checked.flat_map(|image| {
            let first = image as usize * N_CLASSES;
            scores[first..first + N_CLASSES].iter().copied()
        });
        compare(
            &checked.collect::<Vec<f32>>()[..],
            &self.expected[..],
            tolerance,
        )?;
        Ok(())
    }

    fn check(&self, result: &Output) -> Result<()> {
        let result = f32::from_output(result)?;
        let tolerance = Tolerance::relative(TOLERANCE).or_absolute(ABSOLUTE);
        self.compare(result, &tolerance)?;
        if self.has_classes && self.images.len() > N_CHECKED {
            let best = |scores: &[f32]| {
                let scores = (0..).zip(scores);
                scores
                    .max_by(|a, b| a.1.total_cmp(b.1))
                    .map_or(u32::MAX, |(class, _)| class)
            };
            let classes: Vec<u32> = result.chunks(N_CLASSES).map(best).collect();
            let right = self.images.accuracy(&classes)?;
            ensure!(
                right >= LEAST_RIGHT,
                "accuracy {right} is below {LEAST_RIGHT}"
            );
        }
        Ok(())
    }

    /// Compares the scores of the rival in 8 bits.
    fn check_int8(&self, result: &Output) -> Result<()> {
        let largest = self.expected.iter().fold(0.0, |a: f64, b| a.max(b.abs()));
        let tolerance = Tolerance::exact().or_absolute(INT8_ERROR * largest);
        self.compare(f32::from_output(result)?, &tolerance)
    }

    fn rivals(&self) -> Vec<BaselineArguments<'_>> {
        let arrays = self.arrays.iter();
        let arrays: Vec<(&str, &[f32])> = arrays
            .map(|(name, numbers)| (name.as_str(), &numbers[..]))
            .collect();
        if arrays.is_empty() {
            return Vec::new();
        }
        let libraries = [
            "torch",
            "torch-channels-last",
            "torch-compile",
            "openvino",
            INT8,
        ];
        let sizes = [("batch", self.images.len())];
        BaselineArguments::each(&libraries, script!("infer_quant.py"), &sizes, &arrays)
    }
}

/// Returns the arrays for the rivals: the codes, the input's scale and offset, and all numbers of
/// the network.
fn arrays(trained: &Trained, images: &Images) -> Vec<(String, Vec<f32>)> {
    let (net, pixels) = (
        trained.net(),
        images.pixels().iter().copied().map(f32::from),
    );
    let input = net.input();
    let parameters = net.parameters().into_iter().map(|(name, _)| name);
    let names = parameters
        .chain(net.state_names())
        .map(|name| name.replace('.', "_"));
    let numbers = trained.parameters().iter().chain(trained.state()).cloned();
    let own = [
        (CODES.to_owned(), pixels.collect()),
        ("input_scale".to_owned(), input.scale.clone()),
        ("input_offset".to_owned(), input.offset.clone()),
    ];
    own.into_iter().chain(names.zip(numbers)).collect()
}

impl Problem for Inference {
    fn workload<'a>(&'a self, gpus: &'a [Gpu]) -> Workload<'a> {
        let whole = Extent::new(self.work(), self.bytes());
        static HOST: std::sync::LazyLock<Host> = std::sync::LazyLock::new(Host::new);
        let on_host = Variant::started_on_cpu("host", whole, 0, move || {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
            let pool = pool.context("cannot start a thread")?;
            let mut work = self.on(&*HOST)?;
            Ok(move |result: &mut Vec<f32>| pool.install(|| work(result)))
        });
        let on_device = |gpu: &'a Gpu| self.variants_on(gpu, whole);
        Workload::new(whole, |result, _| self.check(result))
            .with_variants([on_host.with_note("one thread".to_owned())])
            .with_variants(gpus.iter().flat_map(on_device))
            .with_rivals(self.rivals())
            .with_rival_check(INT8, |result| self.check_int8(result))
    }
}
