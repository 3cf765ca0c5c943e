//! Measurement of block sizes and variants of kernels on a device.
//!
//! Role: the library of `cargo xtask tune`: the candidate sizes for each shape class, checks and
//! time measurements of candidates, and the lines of the table of measured choices, `tiles.txt`.

use std::time::Duration;
use web_time::Instant;

use tensor_core::compare::{Mismatch, Tolerance, compare};
use tensor_core::exec::against_reference;
use tensor_core::gemm::oracle;
use tensor_core::plan::{Plan, Step};
use tensor_core::rng::Philox;
use tensor_core::{DType, Executor, Host, HostData, Tensor};

use crate::executor::{Array, Compiled};
use crate::nest::{self, GROUP, Schedule};
use crate::{Adapter, Choice, Combination, Error, Feature, Gpu, Result, ShapeClass, Tile};

/// Time for which a candidate runs before it is measured. A GPU lowers its clock while kernels are
/// compiled and results compared: on an H100, the same sizes were up to 3.5 times as slow then.
const WARM_UP: Duration = Duration::from_millis(200);
/// Seed of the random factors.
const SEED: u64 = 2019;

/// Returns the table line with a choice for an adapter.
#[must_use]
pub fn line(adapter: &Adapter, choice: &Choice) -> String {
    let driver = adapter.driver.split_whitespace().next().unwrap_or("*");
    let Adapter { vendor, device, .. } = adapter;
    format!("{vendor:#06x} {device:#06x} {driver} {choice}")
}

/// Returns the candidate sizes for a class.
#[must_use]
pub fn candidates(class: ShapeClass) -> Vec<Tile> {
    let inner = match class {
        ShapeClass::Matrices => [16, 32],
        _ => [8, 16],
    };
    let blocks: &[[u32; 4]] = match class {
        ShapeClass::Large | ShapeClass::Square => &[
            [32, 32, 4, 4],
            [64, 64, 4, 4],
            [64, 64, 8, 4],
            [128, 64, 8, 4],
            [64, 64, 8, 8],
            [128, 64, 8, 8],
            [128, 128, 8, 8],
        ],
        ShapeClass::Tall => &[
            [64, 16, 1, 16],
            [128, 16, 1, 16],
            [256, 16, 1, 16],
            [128, 16, 2, 16],
            [256, 16, 2, 16],
            [256, 16, 4, 16],
        ],
        ShapeClass::Wide => &[
            [16, 64, 16, 1],
            [16, 128, 16, 1],
            [16, 256, 16, 1],
            [16, 128, 16, 2],
            [16, 256, 16, 2],
            [16, 256, 16, 4],
        ],
        ShapeClass::Matrices => &[
            [64, 64, 8, 4],
            [32, 128, 8, 4],
            [128, 64, 8, 8],
            [64, 128, 8, 8],
        ],
        ShapeClass::Small => &[
            [16, 16, 2, 2],
            [16, 16, 4, 2],
            [32, 32, 4, 2],
            [32, 32, 4, 4],
        ],
    };
    let of = |[block_rows, block_cols, thread_rows, thread_cols]: [u32; 4]| {
        inner.map(|block_inner| Tile {
            block_rows,
            block_cols,
            block_inner,
            thread_rows,
            thread_cols,
        })
    };
    blocks.iter().copied().flat_map(of).collect()
}

/// A batch of matrix products used for measurement: `rows × inner` times `inner × cols`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Product {
    /// Number of products.
    pub batch: usize,
    /// Rows of the first factor.
    pub rows: usize,
    /// Terms of each sum.
    pub inner: usize,
    /// Columns of the second factor.
    pub cols: usize,
}

impl Product {
    /// Returns the product used to tune a class.
    #[must_use]
    pub fn for_class(class: ShapeClass) -> Self {
        let [batch, rows, inner, cols] = match class {
            ShapeClass::Large | ShapeClass::Matrices => [1, 4096, 4096, 4096],
            ShapeClass::Square => [1, 1000, 1000, 1000],
            ShapeClass::Tall => [1, 50_000, 784, 10],
            ShapeClass::Wide => [1, 10, 784, 50_000],
            ShapeClass::Small => [2048, 16, 64, 16],
        };
        Self {
            batch,
            rows,
            inner,
            cols,
        }
    }

    /// Returns a small product of the same class, whose sides are not multiples of the block sides.
    fn sample(class: ShapeClass) -> Self {
        let [batch, rows, cols] = match class {
            ShapeClass::Large | ShapeClass::Square | ShapeClass::Matrices => [1, 263, 150],
            ShapeClass::Tall => [1, 530, 11],
            ShapeClass::Wide => [1, 11, 530],
            ShapeClass::Small => [9, 19, 25],
        };
        Self {
            batch,
            rows,
            inner: 37,
            cols,
        }
    }

    /// Returns the number of multiplications and additions.
    #[must_use]
    pub fn operations(&self) -> f64 {
        2.0 * [self.batch, self.rows, self.inner, self.cols]
            .map(|side| side as f64)
            .iter()
            .product::<f64>()
    }
}

/// Measurement of block sizes on a device.
///
/// Each candidate is checked before it is timed. A small product is compared with the oracle. For
/// the first candidate, the first and last rows of the timed product are compared with a product in
/// f64. The results of later candidates must equal the first result bit for bit, because every
/// candidate adds the terms of an element in the same order.
#[derive(Debug)]
pub struct Tuner<'a> {
    gpu: &'a Gpu,
    class: ShapeClass,
    sample: Trial,
    timed: Trial,
    expected: Option<Vec<f32>>,
}

impl<'a> Tuner<'a> {
    /// Creates the random factors and uploads them to the device.
    ///
    /// # Errors
    /// Errors from planning the products, and errors of the device.
    pub fn new(gpu: &'a Gpu, class: ShapeClass, product: Product) -> tensor_core::Result<Self> {
        Ok(Self {
            gpu,
            class,
            sample: Trial::new(gpu, class, Product::sample(class))?,
            timed: Trial::new(gpu, class, product)?,
            expected: None,
        })
    }

    /// Checks the sizes, then returns the seconds of each of `n_runs` runs.
    ///
    /// # Errors
    /// [`tensor_core::Error::VerifyFailed`] if a result is wrong; errors of the device, e.g. if its
    /// workgroups are too small for the sizes.
    pub fn time(&mut self, tile: Tile, n_runs: usize) -> tensor_core::Result<Vec<f64>> {
        let converted = |error| self.gpu.executor_error(error);
        // 1. The small product against the oracle.
        let sample = &self.sample;
        let small = sample
            .compiled(self.gpu, self.class, tile)
            .map_err(converted)?;
        sample.work.check(self.gpu, &small)?;
        // 2. The timed product: some rows against f64, or all elements against the first result.
        let timed = &self.timed;
        let large = timed
            .compiled(self.gpu, self.class, tile)
            .map_err(converted)?;
        let actual = timed.work.run(self.gpu, &large);
        let actual = actual.and_then(|array| array.f32s());
        let actual = actual.map_err(converted)?;
        let compared = match &self.expected {
            Some(expected) => compare(&actual, expected, &Tolerance::bits()).map(drop),
            None => timed.check_rows(&actual)?,
        };
        compared.map_err(|what| {
            let nest = &timed.work.step.nest;
            tensor_core::Error::VerifyFailed {
                executor: self.gpu.adapter().name.clone(),
                domain: nest.domain.clone(),
                reduce: nest.reduce.clone(),
                what: format!("{tile:?}: {what}"),
            }
        })?;
        self.expected.get_or_insert(actual);
        // 3. The time.
        timed.work.time(self.gpu, &large, n_runs).map_err(converted)
    }
}

/// Measurement of sums over the rows of a matrix. A workgroup shares each sum.
#[derive(Debug)]
pub struct ReductionTuner<'a> {
    gpu: &'a Gpu,
    work: Work,
}

impl<'a> ReductionTuner<'a> {
    /// Rows and columns of the matrix used to tune reductions: few terms for each invocation, so
    /// that the combination takes a large part of the time.
    pub const SIDES: [usize; 2] = [4096, 1000];

    /// Creates a random matrix and uploads it to the device.
    ///
    /// # Errors
    /// Errors from planning the sums, and errors of the device.
    pub fn new(gpu: &'a Gpu, sides: [usize; 2]) -> tensor_core::Result<Self> {
        let matrix = random(0, &sides)?;
        let work = Work::new(gpu, &matrix.sum(1))?;
        Ok(Self { gpu, work })
    }

    /// Compares the sums with the oracle, then returns the seconds of each of `n_runs` runs.
    ///
    /// # Errors
    /// [`tensor_core::Error::VerifyFailed`] if a sum is wrong; errors of the device, e.g. if it has
    /// no subgroups.
    pub fn time(&self, combination: Combination, n_runs: usize) -> tensor_core::Result<Vec<f64>> {
        let converted = |error| self.gpu.executor_error(error);
        let schedule = match combination {
            Combination::Tree => Schedule::Lanes(GROUP),
            Combination::Subgroups => {
                let required = self.gpu.require("tune", &[Feature::Subgroups]);
                required.map_err(converted)?;
                Schedule::Subgroups(GROUP)
            }
        };
        let compiled = self.work.compiled(self.gpu, &schedule).map_err(converted)?;
        self.work.check(self.gpu, &compiled)?;
        self.work
            .time(self.gpu, &compiled, n_runs)
            .map_err(converted)
    }
}

/// Returns random numbers with the standard normal distribution, or an error for more elements than
/// a tensor can have.
fn random(stream: u64, shape: &[usize]) -> tensor_core::Result<Tensor> {
    let len = tensor_core::shape::allocatable_count::<f32>("tune", shape)?;
    let mut data = vec![0.0; len];
    Philox::new(SEED).fill_normal_f32(stream, &mut data);
    Ok(Tensor::from_vec(shape, data))
}

/// A step of a plan, with its arrays on the host and on the device.
#[derive(Debug)]
struct Work {
    step: Step,
    data: Vec<HostData>,
    arrays: Vec<Array>,
}

impl Work {
    /// Plans a program of one step, and uploads its inputs.
    fn new(gpu: &Gpu, program: &Tensor) -> tensor_core::Result<Self> {
        let (plan, data) = Plan::new(&[program], &gpu.target())?;
        let read = data.into_iter().map(|data| pollster::block_on(data.read()));
        let data: Vec<HostData> = read.collect::<tensor_core::Result<_>>()?;
        let arrays = data.iter().map(|data| Array::upload(gpu, data));
        let arrays = arrays
            .collect::<Result<_>>()
            .map_err(|error| gpu.executor_error(error))?;
        Ok(Self {
            step: plan.steps[0].clone(),
            data,
            arrays,
        })
    }

    fn compiled(&self, gpu: &Gpu, schedule: &Schedule) -> Result<Compiled> {
        let nest = &self.step.nest;
        let emitted = nest::emit(&nest::split(nest).0, schedule, None);
        Compiled::new(gpu, nest, schedule, &emitted)
    }

    fn run(&self, gpu: &Gpu, compiled: &Compiled) -> Result<Array> {
        let arrays: Vec<&Array> = self.arrays.iter().collect();
        let (_, numbers) = nest::split(&self.step.nest);
        compiled.run(gpu, &self.step.nest, &numbers, None, &arrays)
    }

    /// Compares the result with the oracle.
    fn check(&self, gpu: &Gpu, compiled: &Compiled) -> tensor_core::Result<()> {
        let actual = self.run(gpu, compiled);
        let actual = actual.map_err(|error| gpu.executor_error(error))?;
        let inputs: Vec<&HostData> = self.data.iter().collect();
        against_reference(gpu, &self.step, &inputs, &actual.into_data()?).map(drop)
    }

    /// Returns the seconds of each of `n_runs` runs, at the clock of a busy device.
    fn time(&self, gpu: &Gpu, compiled: &Compiled, n_runs: usize) -> Result<Vec<f64>> {
        let runs = || (0..n_runs).try_for_each(|_| self.run(gpu, compiled).map(drop));
        let begin = Instant::now();
        while begin.elapsed() < WARM_UP {
            runs().and_then(|()| gpu.finish())?;
        }
        let timings = gpu.time(runs)?;
        let elapsed = timings.iter().map(|timing| timing.elapsed.as_secs_f64());
        Ok(elapsed.collect())
    }
}

/// A matrix product, with its arrays on the device.
#[derive(Debug)]
struct Trial {
    product: Product,
    /// The two factors in row-major order, each for the whole batch.
    factors: [Vec<f32>; 2],
    work: Work,
}

impl Trial {
    fn new(gpu: &Gpu, class: ShapeClass, product: Product) -> tensor_core::Result<Self> {
        let Product {
            batch,
            rows,
            inner,
            cols,
        } = product;
        let random = [
            random(0, &[batch, rows, inner])?,
            random(1, &[batch, inner, cols])?,
        ];
        let [a, b] = match class {
            // Cooperative matrices multiply halves.
            ShapeClass::Matrices => {
                let [a, b] = random.map(|factor| factor.cast(DType::F16).realize(&Host::new()));
                [a?.cast(DType::F32), b?.cast(DType::F32)]
            }
            _ => random,
        };
        let numbers = |factor: &Tensor| -> tensor_core::Result<Vec<f32>> {
            Ok(factor
                .eval::<f32>(&Host::new())?
                .into_raw_vec_and_offset()
                .0)
        };
        let factors = [numbers(&a)?, numbers(&b)?];
        Ok(Self {
            product,
            factors,
            work: Work::new(gpu, &a.matmul(&b))?,
        })
    }

    fn compiled(&self, gpu: &Gpu, class: ShapeClass, tile: Tile) -> Result<Compiled> {
        let nest = &self.work.step.nest;
        let wrong = |why| Error::ShapeMismatch {
            operation: "tune",
            left: tile.block().map(|side| side as usize).to_vec(),
            right: tile.thread().map(|side| side as usize).to_vec(),
            why,
        };
        if let Some(fault) = tile.fault() {
            return Err(wrong(fault));
        }
        let Some(schedule) = Schedule::in_blocks(nest, class, tile, gpu.limits()) else {
            return Err(wrong(match class {
                ShapeClass::Matrices => {
                    "the device has no cooperative matrices, or they do not divide the block"
                }
                _ => "the product must have at least two rows and two columns",
            }));
        };
        self.work.compiled(gpu, &schedule)
    }

    /// Compares the first and the last row of the result with a product in f64.
    fn check_rows(&self, actual: &[f32]) -> tensor_core::Result<std::result::Result<(), Mismatch>> {
        let Product {
            batch,
            rows,
            inner,
            cols,
        } = self.product;
        for row in [0, batch * rows - 1] {
            let b = row / rows * inner * cols;
            let own = &self.factors[0][row * inner..(row + 1) * inner];
            let oracle = oracle(own, &self.factors[1][b..b + inner * cols], [1, inner, cols])?;
            let bound = Tolerance::relative(inner + 1).scaled_by(oracle.magnitudes);
            let actual = &actual[row * cols..(row + 1) * cols];
            if let Err(mismatch) = compare(actual, &oracle.product[..], &bound) {
                return Ok(Err(mismatch));
            }
        }
        Ok(Ok(()))
    }
}

/// Checks that each line of a table is a comment or can be parsed.
///
/// # Errors
/// The first invalid line and its fault.
pub fn check_table(table: &str) -> std::result::Result<(), String> {
    crate::tiles::check(table)
}

/// Returns the table with new lines in front. A new line replaces the line with the same vendor,
/// device, driver and class.
#[must_use]
pub fn updated(table: &str, lines: &[String]) -> String {
    let key = |line: &str| {
        line.split_whitespace()
            .take(4)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let new: Vec<Vec<String>> = lines.iter().map(|line| key(line)).collect();
    let is_remark = |line: &&str| line.starts_with('#') || line.is_empty();
    let remarks = table.lines().take_while(is_remark).map(str::to_owned);
    let others = table.lines().skip_while(is_remark);
    let others = others
        .filter(|line| !new.contains(&key(line)))
        .map(str::to_owned);
    let all: Vec<String> = remarks.chain(lines.iter().cloned()).chain(others).collect();
    all.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_takes_the_place_of_the_one_before_it() {
        let table = "# remark\n0x10de 0x1 nvidia tall 1 2 3 4 5\n* * * square 64 64 16 4 4\n";
        let lines = ["0x10de 0x1 nvidia tall 9 9 9 9 9".to_owned()];
        let expected = "# remark\n0x10de 0x1 nvidia tall 9 9 9 9 9\n* * * square 64 64 16 4 4\n";
        assert_eq!(updated(table, &lines), expected);
        assert_eq!(updated(expected, &lines), expected);
    }

    #[test]
    fn sizes_that_overflow_are_an_error() {
        if let Some(gpu) = crate::check::adapter_of_the_day() {
            let product = Product {
                batch: usize::MAX,
                ..Product::sample(ShapeClass::Small)
            };
            assert!(Tuner::new(gpu, ShapeClass::Small, product).is_err());
            assert!(ReductionTuner::new(gpu, [usize::MAX, 2]).is_err());
        }
        let tile = Tile {
            block_rows: 1 << 16,
            block_cols: 1 << 16,
            block_inner: 4,
            thread_rows: 1,
            thread_cols: 1,
        };
        assert_eq!(tile.invocations(), u32::MAX);
    }

    #[test]
    fn trees_and_subgroups_are_checked_and_then_timed() {
        for shared in crate::check::every_adapter() {
            // A device runs only one measurement at a time, and another test measures, too.
            let gpu = &shared.reopen().unwrap();
            gpu.poison_allocations(true);
            let tuner = ReductionTuner::new(gpu, [300, 1030]).unwrap();
            let seconds = tuner.time(Combination::Tree, 3).unwrap();
            assert_eq!(seconds.len(), 3);
            let has_subgroups = gpu.require("tune", &[Feature::Subgroups]).is_ok();
            let timed = tuner.time(Combination::Subgroups, 3);
            assert_eq!(timed.is_ok(), has_subgroups, "{timed:?}");
        }
    }

    #[test]
    fn candidates_are_checked_and_then_timed() {
        /// One in this many candidates is compiled without `VERIFY_FULL=1`, because a software
        /// driver needs seconds to compile the largest ones. `tune` compares each candidate before
        /// it times it. The number is odd, so that both numbers of staged terms occur.
        const ONE_IN: usize = 3;
        let is_full = std::env::var_os("VERIFY_FULL").is_some_and(|value| value == "1");
        let step = if is_full { 1 } else { ONE_IN };
        // `Large` has the candidates of `Square`. `Matrices` needs another device
        // (`executor/matrices.rs`).
        let left_out = [ShapeClass::Large, ShapeClass::Matrices];
        let classes = ShapeClass::ALL.into_iter();
        let classes = classes.filter(|class| !left_out.contains(class));
        for (gpu, class) in crate::check::on_adapters_in_turn(classes) {
            let product = Product {
                inner: 20,
                ..Product::sample(class)
            };
            // The results of all tiles of a tuner are compared with each other.
            let mut tuner = Tuner::new(gpu, class, product).unwrap();
            for tile in candidates(class).into_iter().step_by(step) {
                match tuner.time(tile, 3) {
                    Ok(seconds) => assert_eq!(seconds.len(), 3),
                    Err(error) => panic!("{}: {class:?} {tile:?}: {error}", gpu.adapter().driver),
                }
            }
            let uneven = Tile {
                thread_rows: 3,
                ..crate::tiles::default(ShapeClass::Square)
            };
            assert!(tuner.time(uneven, 3).is_err());
        }
    }
}
