//! Checks and timings of kernels and tensor programs that run in a browser.
//!
//! Role: the checks of the page, without its HTML: [`run`] takes a device and returns one [`Row`]
//! per kernel or program. A browser translates the kernels for Vulkan, D3D or Metal: Chromium with
//! Tint, Firefox with naga, Safari with a compiler of its own. The same rows run on native adapters
//! in this crate's test.
//! Method: nothing blocks the thread. A program is checked step by step against the oracle; the
//! factors of hand-written matrix products are small whole numbers, so their results are compared
//! by bits.

use std::hint::black_box;

use gpu_wgsl::check::compare_steps_async;
use gpu_wgsl::{Error, Gpu};
use shaders::params::MatmulParams;
use shaders::{Kernel, layout};
use tensor_core::compare::{Tolerance, compare};
use tensor_core::random_programs::compare_on_async;
use tensor_core::rng::Philox;
use tensor_core::{DType, Tensor, grad};
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

/// Runs all checks and timings on a device, and passes each row to `show` once it is known.
pub async fn run(gpu: &Gpu, mut show: impl FnMut(Row)) {
    for kernel in layout::ALL {
        show(compiled(gpu, kernel).await);
    }
    show(random_programs(gpu).await);
    let is_software = gpu.adapter().device_type == gpu_wgsl::DeviceType::Cpu;
    for side in SIDES {
        if is_software && side > MAX_SIDE_ON_CPU {
            continue;
        }
        for kernel in [&layout::MATMUL_NAIVE, &layout::MATMUL_TILE] {
            show(product(gpu, kernel, side).await);
        }
        let [a, b] = factors(side).map(|factor| {
            let side = side as usize;
            Tensor::from_vec(&[side, side], factor)
        });
        let name = format!("matmul, tensor program {side}×{side}");
        let operations = 2.0 * f64::from(side).powi(3);
        show(program(gpu, name, &[a.matmul(&b)], operations).await);
    }
    show(similarity(gpu).await);
    show(training_step(gpu).await);
}

/// Compiles a fixed kernel.
async fn compiled(gpu: &Gpu, kernel: &Kernel) -> Row {
    let compiled = gpu.compile_async(kernel).await;
    Row {
        name: format!("compile {}", kernel.name),
        check: match compiled {
            Ok(()) => Ok("compiled".to_owned()),
            Err(error) => Err(error.to_string()),
        },
        seconds: None,
        operations: 0.0,
    }
}

async fn random_programs(gpu: &Gpu) -> Row {
    let compared = compare_on_async(gpu, RANDOM_PROGRAMS, SEED).await;
    Row {
        name: format!("{RANDOM_PROGRAMS} random programs"),
        check: compared.map(|_| "all outputs within the bounds of the oracle".to_owned()),
        seconds: None,
        operations: 0.0,
    }
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
async fn product(gpu: &Gpu, kernel: &'static Kernel, side: u32) -> Row {
    let timed = timed_product(gpu, kernel, side).await;
    let (check, seconds) = match timed {
        Ok((check, seconds)) => (check, Some(seconds)),
        Err(error) => (Err(error.to_string()), None),
    };
    Row {
        name: format!("matmul, {} {side}×{side}", kernel.name),
        check,
        seconds,
        operations: 2.0 * f64::from(side).powi(3),
    }
}

async fn timed_product(
    gpu: &Gpu,
    kernel: &'static Kernel,
    side: u32,
) -> Result<(Result<String, String>, f64), Error> {
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
    let check = match compare(&actual, &expected, &Tolerance::bits()) {
        Ok(_) => Ok("equal bits".to_owned()),
        Err(difference) => Err(difference.to_string()),
    };
    Ok((check, seconds))
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

/// Flags of similar columns of a matrix, without an array of all differences.
async fn similarity(gpu: &Gpu) -> Row {
    const ROWS: usize = 64;
    const COLS: usize = 256;
    let random = Philox::new(SEED).stream(2);
    let number = |at: u64| (random.uniform_f32(at) * 256.0).floor() / 64.0;
    let x = Tensor::from_vec(
        &[ROWS, COLS],
        (0..(ROWS * COLS) as u64).map(number).collect(),
    );
    let similar = (x.expand_dims(2) - x.expand_dims(1)).abs().lt(3.0).all(0);
    let operations = 3.0 * (ROWS * COLS * COLS) as f64;
    program(
        gpu,
        format!("similarity {ROWS}×{COLS}"),
        &[similar],
        operations,
    )
    .await
}

/// Loss and gradients of a net with two layers, 64-1000-100-10 as in a lecture on Python's speed.
async fn training_step(gpu: &Gpu) -> Row {
    const BATCH: usize = 64;
    const SIZES: [usize; 3] = [1000, 100, 10];
    let random = |stream: u64, shape: &[usize], scale: f32| {
        let mut numbers = vec![0.0; shape.iter().product()];
        Philox::new(SEED).fill_normal_f32(stream, &mut numbers);
        numbers.iter_mut().for_each(|number| *number *= scale);
        Tensor::from_vec(shape, numbers)
    };
    let [n_in, n_hidden, n_out] = SIZES;
    let (x, y) = (
        random(3, &[BATCH, n_in], 1.0),
        random(4, &[BATCH, n_out], 1.0),
    );
    let first = random(5, &[n_in, n_hidden], (n_in as f32).sqrt().recip());
    let second = random(6, &[n_hidden, n_out], (n_hidden as f32).sqrt().recip());
    let loss = (x.matmul(&first).relu().matmul(&second) - y)
        .square()
        .sum(..);
    let name = format!("training step, {BATCH}×{n_in}-{n_hidden}-{n_out}");
    match grad(&loss, &[&first, &second]) {
        Ok(gradients) => {
            let rate = Tensor::scalar(1e-6_f32).cast(DType::F32);
            let updated = [&first, &second].into_iter().zip(&gradients);
            let mut results: Vec<Tensor> = updated
                .map(|(weights, gradient)| weights - gradient * &rate)
                .collect();
            results.insert(0, loss);
            // Two products forward; backward, one for each gradient of weights and one for the
            // hidden layer.
            let products = 2 * n_in * n_hidden + 3 * n_hidden * n_out;
            program(gpu, name, &results, 2.0 * (BATCH * products) as f64).await
        }
        Err(error) => Row {
            name,
            check: Err(error.to_string()),
            seconds: None,
            operations: 0.0,
        },
    }
}

/// Checks a tensor program step by step, and times it.
async fn program(gpu: &Gpu, name: String, tensors: &[Tensor], operations: f64) -> Row {
    let asked: Vec<&Tensor> = tensors.iter().collect();
    let compared = compare_steps_async(gpu, &asked).await;
    let timed = timed(gpu, tensors).await;
    let (check, seconds) = match (compared, timed) {
        (Err(difference), _) => (Err(difference), None),
        (_, Err(error)) => (Err(error.to_string()), None),
        (Ok(_), Ok(seconds)) => {
            let what = "each step within the bounds of the oracle".to_owned();
            (Ok(what), Some(seconds))
        }
    };
    Row {
        name,
        check,
        seconds,
        operations,
    }
}

async fn timed(gpu: &Gpu, tensors: &[Tensor]) -> tensor_core::Result<f64> {
    let mut seconds = f64::INFINITY;
    for _ in 0..RUNS {
        let start = Instant::now();
        let realized = Tensor::realize_all_async(tensors, gpu).await?;
        // All work has run once one of the results is read.
        let last = realized.last().and_then(Tensor::storage);
        if let Some(last) = last {
            black_box(std::sync::Arc::clone(last).read().await?);
        }
        seconds = seconds.min(start.elapsed().as_secs_f64());
    }
    Ok(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_of_the_page_pass_on_every_adapter() {
        for gpu in gpu_wgsl::check::every_adapter() {
            let mut n_rows = 0;
            pollster::block_on(run(gpu, |row| {
                n_rows += 1;
                assert!(row.check.is_ok(), "{}: {row:?}", gpu.adapter().driver);
            }));
            assert!(n_rows > layout::ALL.len() + 3);
        }
    }
}
