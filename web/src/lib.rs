//! Checks and timings of kernels and tensor programs that run in a browser.
//!
//! Role: the checks of the page, without its HTML: [`run`] takes a device and returns one [`Row`]
//! per [`Check`], each of a kernel or a program. A browser translates the kernels for Vulkan, D3D
//! or Metal: Chromium with Tint, Firefox with naga, Safari with a compiler of its own. The same
//! rows run on native adapters in this crate's test.
//! Method: nothing blocks the thread. A program is checked step by step against the oracle; the
//! factors of hand-written matrix products are small whole numbers, so their results are compared
//! by bits. Inputs are in the device's memory before a run is timed.

use std::hint::black_box;
use std::sync::Arc;

use gpu_wgsl::check::compare_steps_async;
use gpu_wgsl::{DeviceType, Error, Gpu};
use shaders::params::MatmulParams;
use shaders::{Kernel, layout};
use tensor_core::compare::{Tolerance, compare};
use tensor_core::exec::Accuracy;
use tensor_core::random_programs::{Tally, compare_on_async};
use tensor_core::rng::Philox;
use tensor_core::{DType, Executor, Tensor, grad};
use web_time::Instant;

#[cfg(target_arch = "wasm32")]
pub mod page;

/// Sides of the square matrices of the ladder of matrix products.
const SIDES: [u32; 3] = [64, 256, 1024];
/// Largest side on a software adapter, which takes seconds for the next one.
const MAX_SIDE_ON_CPU: u32 = 256;
/// Number of random programs.
const RANDOM_PROGRAMS: u32 = 100;
/// Seed of the random programs and of all inputs.
const SEED: u64 = 2019;
/// Number of timed runs; the shortest counts, because a page shares the machine with others.
const RUNS: u32 = 5;

/// Shape of the matrix of the similarity.
const ROWS: usize = 64;
const COLS: usize = 256;
/// Batch and layers of the net of the training step: 1000-100-10 as in a lecture on Python's speed.
const BATCH: usize = 64;
const N_IN: usize = 1000;
const N_HIDDEN: usize = 100;
const N_OUT: usize = 10;

/// The result of a check, with the time of the checked computation.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Name of the kernel or program, with its size.
    pub name: String,
    /// Comparison that passed, or the first difference.
    pub check: Result<String, String>,
    /// Seconds of one run, if it was timed.
    pub seconds: Option<f64>,
    /// Number of operations of one run.
    pub operations: f64,
}

/// A check of the page.
#[derive(Clone, Copy, Debug)]
pub enum Check {
    /// The compilation of a fixed kernel.
    Compile(&'static Kernel),
    /// Random programs.
    RandomPrograms,
    /// A product of two square matrices of this side by a fixed kernel.
    Product(&'static Kernel, u32),
    /// A product of two square matrices of this side as a tensor program.
    ProductProgram(u32),
    /// Flags of similar columns of a matrix.
    Similarity,
    /// Loss and updated weights of a net.
    TrainingStep,
}

/// A comparison that passed, and the seconds of one run if it was timed; or the first difference.
type Outcome = Result<(String, Option<f64>), String>;

/// Returns the checks for a device, in the order of their rows.
#[must_use]
pub fn checks(gpu: &Gpu) -> Vec<Check> {
    let mut checks: Vec<Check> = layout::ALL.iter().copied().map(Check::Compile).collect();
    checks.push(Check::RandomPrograms);
    let is_software = gpu.adapter().device_type == DeviceType::Cpu;
    let sides = SIDES.into_iter();
    for side in sides.filter(|&side| !is_software || side <= MAX_SIDE_ON_CPU) {
        checks.push(Check::Product(&layout::MATMUL_NAIVE, side));
        checks.push(Check::Product(&layout::MATMUL_TILE, side));
        checks.push(Check::ProductProgram(side));
    }
    checks.extend([Check::Similarity, Check::TrainingStep]);
    checks
}

/// Runs all checks and timings on a device, and passes each row to `show` once it is known.
pub async fn run(gpu: &Gpu, mut show: impl FnMut(Row)) {
    for check in checks(gpu) {
        show(check.run(gpu).await);
    }
}

impl Check {
    /// Returns the name of the kernel or program, with its size.
    fn name(&self) -> String {
        match self {
            Self::Compile(kernel) => format!("compile {}", kernel.name),
            Self::RandomPrograms => format!("{RANDOM_PROGRAMS} random programs"),
            Self::Product(kernel, side) => format!("matmul, {} {side}×{side}", kernel.name),
            Self::ProductProgram(side) => format!("matmul, tensor program {side}×{side}"),
            Self::Similarity => format!("similarity {ROWS}×{COLS}"),
            Self::TrainingStep => format!("training step, {BATCH}×{N_IN}-{N_HIDDEN}-{N_OUT}"),
        }
    }

    /// Returns the number of operations of one run; 0 for a check without a time.
    fn operations(&self) -> f64 {
        match self {
            Self::Compile(_) | Self::RandomPrograms => 0.0,
            Self::Product(_, side) | Self::ProductProgram(side) => 2.0 * f64::from(*side).powi(3),
            Self::Similarity => 3.0 * (ROWS * COLS * COLS) as f64,
            Self::TrainingStep => {
                // Two products forward; backward, one for each gradient of weights and one for the
                // hidden layer.
                let products = 2 * N_IN * N_HIDDEN + 3 * N_HIDDEN * N_OUT;
                2.0 * (BATCH * products) as f64
            }
        }
    }

    async fn run(&self, gpu: &Gpu) -> Row {
        let outcome = match *self {
            Self::Compile(kernel) => compiled(gpu, kernel).await,
            Self::RandomPrograms => random_programs(gpu).await,
            Self::Product(kernel, side) => product(gpu, kernel, side).await,
            Self::ProductProgram(side) => program(gpu, product_inputs(side), product_of).await,
            Self::Similarity => program(gpu, similarity_inputs(), similarity).await,
            Self::TrainingStep => program(gpu, training_inputs(), training_step).await,
        };
        let (check, seconds) = match outcome {
            Ok((passed, seconds)) => (Ok(passed), seconds),
            Err(difference) => (Err(difference), None),
        };
        Row {
            name: self.name(),
            check,
            seconds,
            operations: self.operations(),
        }
    }
}

/// Compiles a fixed kernel.
async fn compiled(gpu: &Gpu, kernel: &Kernel) -> Outcome {
    let compiled = gpu.compile_async(kernel).await;
    compiled.map_err(|error| error.to_string())?;
    Ok(("compiled".to_owned(), None))
}

async fn random_programs(gpu: &Gpu) -> Outcome {
    let tally = compare_on_async(gpu, RANDOM_PROGRAMS, SEED).await?;
    compared(&tally, gpu.accuracy())
}

/// Returns a failure if too few elements of random programs have an error bound, because then the
/// comparison means little.
fn compared(tally: &Tally, accuracy: Accuracy) -> Outcome {
    let too_little = |shares| format!("too little was compared: {shares}");
    tally.check_compared(accuracy).map_err(too_little)?;
    let passed = "all outputs within the bounds of the oracle".to_owned();
    Ok((passed, None))
}

/// Returns two square matrices of whole numbers from -8 to 7, so that sums of 1,024 products are
/// exact in `f32`.
fn factors(side: u32) -> [Vec<f32>; 2] {
    [0, 1].map(|stream| {
        let random = Philox::new(SEED).stream(stream);
        let number = |at: u64| (random.uniform_f32(at) * 16.0).floor() - 8.0;
        (0..u64::from(side) * u64::from(side)).map(number).collect()
    })
}

/// Computes a product of two square matrices by a fixed kernel.
async fn product(gpu: &Gpu, kernel: &'static Kernel, side: u32) -> Outcome {
    let timed = timed_product(gpu, kernel, side).await;
    let (actual, expected, seconds) = timed.map_err(|error| error.to_string())?;
    let compared = compare(&actual, &expected, &Tolerance::bits());
    compared.map_err(|difference| difference.to_string())?;
    Ok(("equal bits".to_owned(), Some(seconds)))
}

/// Returns the product by a fixed kernel, the exact product, and the seconds of the shortest run.
async fn timed_product(
    gpu: &Gpu,
    kernel: &'static Kernel,
    side: u32,
) -> Result<(Vec<f32>, Vec<f32>, f64), Error> {
    let [a, b] = factors(side);
    let n = side as usize;
    let expected = exact_product(&a, &b, n);
    let shape = [n, n];
    let (a, b) = (gpu.upload("a", &shape, &a)?, gpu.upload("b", &shape, &b)?);
    let c = gpu.alloc::<f32>("c", &shape)?;
    let params = MatmulParams::new(side, side, side);
    let mut seconds = f64::INFINITY;
    let mut actual = Vec::new();
    for _ in 0..RUNS {
        let start = Instant::now();
        gpu.dispatch(kernel, &params, &[&a, &b, &c])?;
        actual = gpu.read_async(&c).await?;
        seconds = seconds.min(start.elapsed().as_secs_f64());
    }
    Ok((actual, expected, seconds))
}

/// Returns the product of two `n`×`n` matrices of small whole numbers, which is exact.
fn exact_product(a: &[f32], b: &[f32], n: usize) -> Vec<f32> {
    let mut product = vec![0.0; n * n];
    for (row, out) in a.chunks(n).zip(product.chunks_mut(n)) {
        for (&a, row) in row.iter().zip(b.chunks(n)) {
            for (out, &b) in out.iter_mut().zip(row) {
                *out += a * b;
            }
        }
    }
    product
}

/// Returns the factors of a product program.
fn product_inputs(side: u32) -> Vec<Tensor> {
    let shape = [side as usize; 2];
    let tensors = factors(side).map(|factor| Tensor::from_vec(&shape, factor));
    tensors.into()
}

fn product_of(inputs: &[Tensor]) -> tensor_core::Result<Vec<Tensor>> {
    Ok(vec![inputs[0].matmul(&inputs[1])])
}

/// Returns the matrix of the similarity, of multiples of 1/64 below 4.
fn similarity_inputs() -> Vec<Tensor> {
    let random = Philox::new(SEED).stream(2);
    let number = |at: u64| (random.uniform_f32(at) * 256.0).floor() / 64.0;
    let numbers = (0..(ROWS * COLS) as u64).map(number).collect();
    vec![Tensor::from_vec(&[ROWS, COLS], numbers)]
}

/// Returns the flags of similar columns of a matrix, without an array of all differences.
fn similarity(inputs: &[Tensor]) -> tensor_core::Result<Vec<Tensor>> {
    let x = &inputs[0];
    let differences = x.expand_dims(2) - x.expand_dims(1);
    Ok(vec![differences.abs().lt(3.0).all(0)])
}

/// Returns inputs, targets and the weights of both layers of a net.
fn training_inputs() -> Vec<Tensor> {
    let random = |stream: u64, shape: &[usize], scale: f32| {
        let mut numbers = vec![0.0; shape.iter().product()];
        let stream = Philox::new(SEED).stream(stream);
        stream.fill_normal_f32(0, &mut numbers);
        numbers.iter_mut().for_each(|number| *number *= scale);
        Tensor::from_vec(shape, numbers)
    };
    vec![
        random(3, &[BATCH, N_IN], 1.0),
        random(4, &[BATCH, N_OUT], 1.0),
        random(5, &[N_IN, N_HIDDEN], (N_IN as f32).sqrt().recip()),
        random(6, &[N_HIDDEN, N_OUT], (N_HIDDEN as f32).sqrt().recip()),
    ]
}

/// Returns the loss of the net and its weights after a step.
fn training_step(inputs: &[Tensor]) -> tensor_core::Result<Vec<Tensor>> {
    let [x, y, first, second] = [0, 1, 2, 3].map(|input| &inputs[input]);
    let scores = x.matmul(first).relu().matmul(second);
    let loss = (scores - y).square().sum(..);
    let gradients = grad(&loss, &[first, second])?;
    let rate = Tensor::scalar(1e-6_f32).cast(DType::F32);
    let updated = [first, second].into_iter().zip(&gradients);
    let updated = updated.map(|(weights, gradient)| weights - gradient * &rate);
    Ok([loss].into_iter().chain(updated).collect())
}

/// Checks a tensor program step by step, and times it on inputs in the device's memory.
async fn program(
    gpu: &Gpu,
    inputs: Vec<Tensor>,
    build: fn(&[Tensor]) -> tensor_core::Result<Vec<Tensor>>,
) -> Outcome {
    let text = |error: tensor_core::Error| error.to_string();
    let inputs = Tensor::realize_all_async(&inputs, gpu).await;
    let tensors = build(&inputs.map_err(text)?).map_err(text)?;
    let outputs: Vec<&Tensor> = tensors.iter().collect();
    compare_steps_async(gpu, &outputs).await?;
    let seconds = timed(gpu, &tensors).await.map_err(text)?;
    let passed = "each step within the bounds of the oracle".to_owned();
    Ok((passed, Some(seconds)))
}

/// Returns the seconds of the shortest run.
async fn timed(gpu: &Gpu, tensors: &[Tensor]) -> tensor_core::Result<f64> {
    let mut seconds = f64::INFINITY;
    for _ in 0..RUNS {
        let start = Instant::now();
        let realized = Tensor::realize_all_async(tensors, gpu).await?;
        // All work has run once one of the results is read.
        let last = realized.last().and_then(Tensor::storage);
        if let Some(last) = last {
            black_box(Arc::clone(last).read().await?);
        }
        seconds = seconds.min(start.elapsed().as_secs_f64());
    }
    Ok(seconds)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_check_of_the_page_passes_with_one_row() {
        // One adapter is enough, because the page also runs in a browser, on SwiftShader.
        if let Some(gpu) = gpu_wgsl::check::adapter_of_the_day() {
            let mut rows = Vec::new();
            pollster::block_on(run(gpu, |row| {
                assert!(row.check.is_ok(), "{}: {row:?}", gpu.adapter().driver);
                rows.push(row.name);
            }));
            let names: Vec<String> = checks(gpu).iter().map(Check::name).collect();
            assert_eq!(rows, names);
            // Random programs, the similarity, the training step, and three products of each side.
            let is_software = gpu.adapter().device_type == DeviceType::Cpu;
            let n_sides = if is_software { 2 } else { 3 };
            assert_eq!(rows.len(), layout::ALL.len() + 3 + 3 * n_sides);
        }
    }

    #[test]
    fn inputs_and_targets_of_the_training_are_different_numbers() {
        let inputs = training_inputs();
        let numbers = |tensor: &Tensor| -> Vec<u32> {
            let numbers = tensor.to_host::<f32>().unwrap();
            numbers.into_iter().map(f32::to_bits).collect()
        };
        let (x, y) = (numbers(&inputs[0]), numbers(&inputs[1]));
        let pairs: HashSet<&[u32]> = x.windows(2).collect();
        assert!(y.windows(2).all(|pair| !pairs.contains(pair)));
    }

    #[test]
    fn random_programs_that_compare_too_little_fail() {
        let failed = compared(&Tally::default(), Accuracy::IEEE).unwrap_err();
        assert!(
            failed.starts_with("too little was compared: open"),
            "{failed}"
        );
    }
}
