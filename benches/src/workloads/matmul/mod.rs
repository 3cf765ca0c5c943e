//! A matrix product in many versions, from three loops to register tiles on a GPU.
//!
//! Role: the workload `matmul`: its sizes, its variants in order, its oracle and tolerance.
//! Method: the variants up to `host` are in [`cpu`], those in WGSL in [`wgsl`]; each is one
//! readable function. A variant that would take more than about a second only computes the leading
//! rows, which are stated in the remark of its row.
//! Shapes: `a` `[rows, inner]`, `b` `[inner, cols]`, `c` `[rows, cols]`, row-major, contiguous.
//! Accuracy: every element is compared with a product in f64, with a tolerance of `min(inner / 2, 3
//! · √inner) + 1` epsilons of `Σ|a·b|`: small enough to distinguish f32 from TF32 (tested below).
//! Source: the fast.ai notebook "matmul".

pub mod cpu;
pub mod wgsl;

use crate::mnist::{self, LazyImages};
use crate::roundings;
use gpu_wgsl::Gpu;
use harness::program::InputDistribution;
use harness::rivals::{BaselineArguments, Script};
use harness::script;
use harness::workload::{Extent, OutputElement, Portion, Problem, Task, Work, Workload};
use std::rc::Rc;
use tensor_core::Tensor;
use tensor_core::compare::{Tolerance, compare};
use tensor_core::gemm;

const NAME: &str = "matmul";
/// Script of the rivals.
pub const SCRIPT: Script = script!("matmul.py");
/// Sides of the square products.
const SIDES: [usize; 4] = [512, 1024, 2048, 4096];
/// Largest side without a hardware GPU: a software driver would take minutes for twice this side.
const SOFTWARE_SIDE: usize = 2048;
/// Number of classes of MNIST, the columns of the narrow product.
const N_CLASSES: usize = 10;

/// Inputs of one product, with the expected result.
#[derive(Debug)]
pub struct Product {
    /// Sizes `[rows, inner, cols]`.
    pub shape: [usize; 3],
    /// Left operand.
    pub a: Vec<f32>,
    /// Right operand.
    pub b: Vec<f32>,
    oracle: gemm::Oracle,
}

impl Product {
    /// Creates a product of these operands and computes the expected result in f64.
    ///
    /// # Errors
    /// The shapes do not match; see [`gemm::oracle`].
    pub fn new(shape: [usize; 3], a: Vec<f32>, b: Vec<f32>) -> anyhow::Result<Self> {
        let oracle = gemm::oracle(&a, &b, shape)?;
        Ok(Self {
            shape,
            a,
            b,
            oracle,
        })
    }

    /// Returns the product of `rows` images of 28 × 28 pixels with random weights for ten classes.
    ///
    /// # Errors
    /// As [`Product::new`].
    pub fn from_images(images: &[f32], rows: usize) -> anyhow::Result<Self> {
        let inner = mnist::N_PIXELS;
        let a = images[..rows * inner].to_vec();
        let b = InputDistribution::Normal.draw(inner * N_CLASSES, 0);
        Self::new([rows, inner, N_CLASSES], a, b)
    }

    /// Returns a square product of uniform numbers in [-1, 1).
    ///
    /// # Errors
    /// As [`Product::new`].
    pub fn square(side: usize) -> anyhow::Result<Self> {
        let [a, b] = [1, 2].map(|stream| InputDistribution::Centred.draw(side * side, stream));
        Self::new([side; 3], a, b)
    }

    /// Returns the bytes of both operands and the result for a part of the rows; B is always read
    /// completely.
    #[must_use]
    pub fn bytes(&self, part: Portion) -> f64 {
        let [_, inner, cols] = self.shape;
        ((part.rows * inner + inner * cols + part.rows * cols) * size_of::<f32>()) as f64
    }

    /// Returns the floating-point operations of a part: one product and one sum per term.
    #[must_use]
    pub fn operations(&self, part: Portion) -> f64 {
        let [_, inner, cols] = self.shape;
        2.0 * part.rows as f64 * inner as f64 * cols as f64
    }

    /// Returns the part with about this number of operations: at least one row, at most all.
    #[must_use]
    pub fn part(&self, operations: f64) -> Portion {
        let rows = self.shape[0];
        let share = operations / self.operations(self.whole());
        let done = (rows as f64 * share).ceil().max(1.0);
        // A float above the range saturates in the conversion, and `min` limits it to `rows`.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "at least 1, at most rows"
        )]
        Portion {
            rows: if share >= 1.0 {
                rows
            } else {
                (done as usize).min(rows)
            },
            of: rows,
        }
    }

    /// Returns the part that consists of all rows.
    #[must_use]
    pub fn whole(&self) -> Portion {
        Portion::whole(self.shape[0])
    }

    /// Returns the extent of a part.
    #[must_use]
    pub fn extent(&self, part: Portion) -> Extent {
        Extent {
            part,
            work: Work::Operations(self.operations(part)),
            bytes: self.bytes(part),
        }
    }

    /// Compares a result for the leading rows with the oracle.
    ///
    /// # Errors
    /// An element is outside the tolerance, or the length is wrong.
    pub fn check(
        &self,
        result: &[f32],
        part: Portion,
    ) -> Result<(), tensor_core::compare::Mismatch> {
        let [_, inner, cols] = self.shape;
        let len = part.rows * cols;
        let magnitudes = self.oracle.magnitudes[..len].iter().copied();
        let tolerance = Tolerance::relative(roundings::of_sum(inner)).scaled_by(magnitudes);
        compare(result, &self.oracle.product[..len], &tolerance).map(drop)
    }
}

/// A size of the workload, before its inputs are created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// Product of this number of images with the weights of ten classes.
    Images(usize),
    /// A square product of this side.
    Square(usize),
}

impl Case {
    /// Returns the sizes to run: the small and the full number of images of the notebook, then
    /// squares; the largest square only with a hardware GPU.
    pub fn all(real_gpu: bool) -> impl Iterator<Item = Self> {
        let images = [5, mnist::N_IMAGES].map(Self::Images);
        let squares = SIDES
            .into_iter()
            .filter(move |&side| real_gpu || side <= SOFTWARE_SIDE);
        images.into_iter().chain(squares.map(Self::Square))
    }

    /// Returns the size as one word: `50000x784x10`.
    #[must_use]
    pub fn size(self) -> String {
        size(self.shape())
    }

    /// Returns `[rows, inner, cols]`.
    #[must_use]
    pub fn shape(self) -> [usize; 3] {
        match self {
            Self::Images(rows) => [rows, mnist::N_PIXELS, N_CLASSES],
            Self::Square(side) => [side; 3],
        }
    }

    /// Creates the inputs and computes the expected result.
    ///
    /// # Errors
    /// As [`Product::new`].
    pub fn product(self, images: &[f32]) -> anyhow::Result<Product> {
        match self {
            Self::Images(rows) => Product::from_images(images, rows),
            Self::Square(side) => Product::square(side),
        }
    }
}

fn size([rows, inner, cols]: [usize; 3]) -> String {
    format!("{rows}x{inner}x{cols}")
}

/// Returns the tasks of this workload.
pub fn tasks(real_gpu: bool, images: &Rc<LazyImages>) -> impl Iterator<Item = Task> + use<> {
    let images = Rc::clone(images);
    Case::all(real_gpu).map(move |case| {
        let images = Rc::clone(&images);
        Task::new(NAME, "S3", case.size(), move || {
            case.product(&images.get()?.pixels)
        })
        .with_program(move || {
            let [rows, inner, cols] = case.shape();
            let zeros =
                |shape: [usize; 2]| Tensor::from_vec(&shape, vec![0.0_f32; shape[0] * shape[1]]);
            zeros([rows, inner]).matmul(&zeros([inner, cols]))
        })
    })
}

impl Problem for Product {
    fn workload<'a>(&'a self, gpus: &'a [Gpu]) -> Workload<'a> {
        let [rows, inner, cols] = self.shape;
        // No `torch-compile`: a single product compiles to the same library call.
        let rivals = BaselineArguments::each(
            &["numpy", "torch", "jax"],
            SCRIPT,
            &[("m", rows), ("k", inner), ("n", cols)],
            &[("a", &self.a), ("b", &self.b)],
        );
        Workload::new(self.extent(self.whole()), |result, part| {
            Ok(self.check(f32::from_output(result)?, part)?)
        })
        .with_variants(cpu::variants(self))
        .with_variants(gpus.iter().flat_map(|gpu| wgsl::variants(self, gpu)))
        .with_rivals(rivals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds to ten bits of mantissa, as tensor cores do with f32 inputs by default.
    fn tf32(x: f32) -> f32 {
        f32::from_bits((x.to_bits() + 0x1000) & !0x1FFF)
    }

    fn multiply(a: &[f32], b: &[f32], [rows, inner, cols]: [usize; 3]) -> Vec<f32> {
        let mut c = vec![0.0; rows * cols];
        for (i, row) in c.chunks_exact_mut(cols).enumerate() {
            for k in 0..inner {
                for (sum, b) in row.iter_mut().zip(&b[k * cols..]) {
                    *sum += a[i * inner + k] * b;
                }
            }
        }
        c
    }

    #[test]
    fn the_check_passes_f32_and_rejects_ten_bits_of_mantissa() {
        for side in [16, 128, 512] {
            let product = Product::square(side).unwrap();
            let whole = product.whole();
            product
                .check(&multiply(&product.a, &product.b, product.shape), whole)
                .unwrap();
            let [a, b] =
                [&product.a, &product.b].map(|m| m.iter().map(|&x| tf32(x)).collect::<Vec<_>>());
            product
                .check(&multiply(&a, &b, product.shape), whole)
                .unwrap_err();
        }
    }

    #[test]
    fn the_check_rejects_rows_other_than_those_of_the_part() {
        let product = Product::square(16).unwrap();
        let c = multiply(&product.a, &product.b, product.shape);
        let part = Portion { rows: 4, of: 16 };
        product.check(&c[..4 * 16], part).unwrap();
        product.check(&c, part).unwrap_err();
        product.check(&c[16..5 * 16], part).unwrap_err();
    }

    #[test]
    fn parts_hold_at_least_a_row_and_at_most_all() {
        let product = Product::square(16).unwrap();
        assert_eq!(product.part(0.0), Portion { rows: 1, of: 16 });
        assert_eq!(product.part(f64::INFINITY), Portion { rows: 16, of: 16 });
        let half = product.part(product.operations(product.whole()) / 2.0);
        assert_eq!((half.rows, half.share()), (8, 0.5));
        // B is read completely, however few rows are computed.
        assert_eq!(
            product.bytes(half),
            f64::from(4 * (8 * 16 + 16 * 16 + 8 * 16))
        );
    }

    #[test]
    fn every_case_names_the_size_it_makes() {
        let images = vec![0.0; 5 * mnist::N_PIXELS];
        for case in [Case::Images(5), Case::Square(16)] {
            assert_eq!(case.size(), size(case.product(&images).unwrap().shape));
        }
    }
}
