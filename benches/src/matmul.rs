//! S3's ladder: one matrix product, from three loops to register tiles on a GPU.
//!
//! Role: the workload `matmul`: its cases, its rungs in order, its oracle and bound.
//! Method: rungs up to `host` are in [`cpu`], the WGSL ones in [`wgsl`]; each is one readable function. A rung that
//! would take more than about a second does only the leading rows and says so.
//! Shapes: `a` `[rows, inner]`, `b` `[inner, cols]`, `c` `[rows, cols]`, row-major, contiguous.
//! Accuracy: every result is compared, element by element, with a product in f64, within
//! `(inner + 2) · f32::EPSILON · Σ|a·b|`: one rounding a product and one a sum, and two to spare for the last.
//! Source: fast.ai "matmul" notebook (S3).

pub mod cpu;
pub mod wgsl;

use crate::rivals;
use crate::workload::{Part, RivalWork, Rung, Workload};
use gpu_wgsl::Gpu;
use tensor_core::compare::{Bound, compare};
use tensor_core::gemm;
use tensor_core::rng::Philox;

/// Seed of the weights and of the square matrices.
const SEED: u64 = 457_428_938_475;
/// Sides of the square products; the last is too slow for a driver that computes on the CPU.
const SIDES: [usize; 4] = [512, 1024, 2048, 4096];
/// Classes of MNIST: the columns of the skinny product.
const N_CLASSES: usize = 10;

/// Inputs of one product, with the truth about it.
#[derive(Debug)]
pub struct Product {
    /// `[rows, inner, cols]`.
    pub shape: [usize; 3],
    /// Left operand.
    pub a: Vec<f32>,
    /// Right operand.
    pub b: Vec<f32>,
    oracle: gemm::Oracle,
}

impl Product {
    /// Gives the product of these operands; its truth is computed here, in f64.
    ///
    /// # Errors
    /// Whatever [`gemm::oracle`] finds wrong with the shapes.
    pub fn new(shape: [usize; 3], a: Vec<f32>, b: Vec<f32>) -> anyhow::Result<Self> {
        let oracle = gemm::oracle(&a, &b, shape)?;
        Ok(Self {
            shape,
            a,
            b,
            oracle,
        })
    }

    /// Gives `rows` images of 28 × 28 pixels times weights for ten classes.
    ///
    /// # Errors
    /// As [`Product::new`].
    pub fn of_images(images: &[f32], rows: usize) -> anyhow::Result<Self> {
        let inner = crate::mnist::N_PIXELS;
        let a = images[..rows * inner].to_vec();
        let mut b = vec![0.0; inner * N_CLASSES];
        Philox::new(SEED).fill_normal_f32(0, &mut b);
        Self::new([rows, inner, N_CLASSES], a, b)
    }

    /// Gives a square product of uniform numbers in [-1, 1).
    ///
    /// # Errors
    /// As [`Product::new`].
    pub fn square(side: usize) -> anyhow::Result<Self> {
        let random = Philox::new(SEED);
        let uniform = |stream| -> Vec<f32> {
            let random = random.stream(stream);
            (0..(side * side) as u64)
                .map(|i| 2.0 * random.uniform_f32(i) - 1.0)
                .collect()
        };
        Self::new([side; 3], uniform(1), uniform(2))
    }

    /// Gives the bytes of both operands and the result.
    #[must_use]
    pub fn bytes(&self) -> f64 {
        let [rows, inner, cols] = self.shape;
        ((rows * inner + inner * cols + rows * cols) * size_of::<f32>()) as f64
    }

    /// Gives the floating-point operations: one product and one sum a term.
    #[must_use]
    pub fn operations(&self) -> f64 {
        2.0 * self.shape.iter().map(|&side| side as f64).product::<f64>()
    }

    /// Gives the leading rows that take about `operations`, at least one, never more than there are.
    #[must_use]
    pub fn part(&self, operations: f64) -> Part {
        let rows = self.shape[0];
        let share = operations / self.operations();
        let done = (rows as f64 * share).ceil().max(1.0);
        // A float that large saturates, and `min` brings it back.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "at least 1, at most rows"
        )]
        Part {
            rows: if share >= 1.0 {
                rows
            } else {
                (done as usize).min(rows)
            },
            of: rows,
        }
    }

    fn whole(&self) -> Part {
        Part {
            rows: self.shape[0],
            of: self.shape[0],
        }
    }

    /// Compares a result of the leading rows with the oracle.
    ///
    /// # Errors
    /// What the comparator found.
    pub fn check(&self, result: &[f32], part: Part) -> Result<(), tensor_core::compare::Mismatch> {
        let [_, inner, cols] = self.shape;
        let len = part.rows * cols;
        let magnitudes = self.oracle.magnitudes[..len].iter().copied();
        let bound = Bound::relative(inner + 2).scaled_by(magnitudes);
        compare(result, &self.oracle.product[..len], &bound).map(drop)
    }
}

/// Gives the sizes to run: S3's small and full case on images, then squares; 4096 only where a real GPU is there.
///
/// # Errors
/// As [`Product::new`].
pub fn products<'a>(
    images: &'a [f32],
    real_gpu: bool,
) -> impl Iterator<Item = (String, Box<dyn FnOnce() -> anyhow::Result<Product> + 'a>)> {
    let n_images = images.len() / crate::mnist::N_PIXELS;
    let of_images = [5, n_images].map(|rows| {
        let make: Box<dyn FnOnce() -> _> = Box::new(move || Product::of_images(images, rows));
        (size([rows, crate::mnist::N_PIXELS, N_CLASSES]), make)
    });
    let squares = SIDES
        .into_iter()
        .filter(move |&side| real_gpu || side < 4096)
        .map(|side| {
            let make: Box<dyn FnOnce() -> _> = Box::new(move || Product::square(side));
            (size([side; 3]), make)
        });
    of_images.into_iter().chain(squares)
}

fn size([rows, inner, cols]: [usize; 3]) -> String {
    format!("{rows}x{inner}x{cols}")
}

/// Describes one product as a workload: the CPU's rungs, then those of each device.
#[must_use]
pub fn workload<'a>(product: &'a Product, gpus: &'a [Gpu]) -> Workload<'a> {
    let [rows, inner, cols] = product.shape;
    let mut rungs: Vec<Rung<'a>> = cpu::rungs(product);
    rungs.extend(gpus.iter().flat_map(|gpu| wgsl::rungs(product, gpu)));
    let rivals = ["numpy", "torch"].map(|library| RivalWork {
        library,
        script: rivals::MATMUL,
        sizes: vec![("m", rows), ("k", inner), ("n", cols)],
        arrays: vec![("a", &product.a), ("b", &product.b)],
    });
    Workload {
        name: "matmul",
        source: "S3",
        size: size(product.shape),
        operations: product.operations(),
        bytes: product.bytes(),
        whole: product.whole(),
        rungs,
        rivals: rivals.to_vec(),
        check: Box::new(|result, part| product.check(result, part)),
    }
}
