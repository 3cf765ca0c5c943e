//! Claims about tensors: fusion, memory use, random generators, and numbers printed in the fast.ai
//! notebook "matmul".

use super::{Claim, Reading, Verdict};
use crate::mnist;
use crate::workloads::{matmul_pair, matmul_scale, similarity};
use anyhow::Result;
use harness::memory;
use shaders::params::MatmulParams;
use shaders::{layout, twin};
use tensor_core::ndarray::{Array2, array};
use tensor_core::plan::{Plan, Step};
use tensor_core::rng::{Philox, WichmannHill};
use tensor_core::{Executor, Host, Tensor, View, array as arrays, einsum, gemm};

/// Number of decimals of numbers that are printed in full f64 precision.
const ALL_DECIMALS: i32 = 15;
/// Seed used in the fast.ai notebook.
const S3_SEED: u64 = 457_428_938_475;

/// Limit of the extra memory, in bytes, below which no array `(256, 2000, 2000)` was allocated; in
/// f32 this array has 4.1 GB.
const NO_INTERMEDIATE: f64 = 4e6;
/// Side of the matrices in the programs of the lecture on Python performance.
const S2_SIDE: usize = 1000;

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        id: "s0.similarity.memory",
        claim: "the fused similarity of 2000 columns over 256 rows holds no intermediate (n, d, d): peak bytes in addition to the result",
        claimed: &[NO_INTERMEDIATE],
        reading: Reading::Below,
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let (host, x) = (Host::new(), normal(&similarity::SHAPE));
            let (counts, peak) =
                memory::peak_extra_bytes(|| similarity::similar(&x).sum(0).eval::<u32>(&host));
            Ok(Some(vec![
                peak as f64 - (counts?.len() * size_of::<u32>()) as f64,
            ]))
        },
    },
    Claim {
        id: "s2.fusion",
        claim: "(x y) 100 + 10 runs as one step without an array between the product and its scale and shift: number of steps, and bytes of intermediate arrays",
        claimed: &[1.0, 0.0],
        reading: Reading::Printed(0),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let [x, y, _] = s2_matrices();
            let plan = on_host(&matmul_scale::expression(&[x, y]))?;
            Ok(Some(vec![
                plan.steps.len() as f64,
                plan.peak_bytes() as f64,
            ]))
        },
    },
    Claim {
        id: "s2.out-of-order",
        claim: "the two products of (x y + 100) + (x z + 1000) can run in parallel: number of products in each wave of the plan",
        claimed: &[2.0, 0.0],
        reading: Reading::Printed(0),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let plan = on_host(&matmul_pair::expression(&s2_matrices()))?;
            let is_product = |step: &&Step| step.nest.contract.is_some();
            let n_products = |wave: &[Step]| wave.iter().filter(is_product).count() as f64;
            Ok(Some(plan.waves().map(n_products).collect()))
        },
    },
    Claim {
        id: "s3.wichmann-hill.state",
        claim: "the state of the Wichmann-Hill generator with seed 457428938475 is (4976, 20238, 499)",
        claimed: &[4976.0, 20238.0, 499.0],
        reading: Reading::Printed(0),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let (x, y, z) = WichmannHill::seed(S3_SEED).state();
            Ok(Some([x, y, z].map(f64::from).to_vec()))
        },
    },
    Claim {
        id: "s3.wichmann-hill.stream",
        claim: "the first three numbers of the Wichmann-Hill generator with seed 457428938475",
        claimed: &[0.7645251082582081, 0.7920889799553945, 0.06912886811267205],
        reading: Reading::Printed(ALL_DECIMALS),
        correction: None,
        expected: Verdict::Holds,
        measure: || Ok(Some(WichmannHill::seed(S3_SEED).take(3).collect())),
    },
    Claim {
        id: "s3.fork",
        claim: "two copies of one generator return the same next number",
        claimed: &[0.9559050644103264, 0.9559050644103264],
        reading: Reading::Printed(ALL_DECIMALS),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let mut parent = WichmannHill::seed(S3_SEED);
            parent.by_ref().take(3).for_each(drop);
            let mut child = parent.clone();
            Ok(Some(vec![parent.next_f64(), child.next_f64()]))
        },
    },
    Claim {
        id: "s3.mnist.pixels",
        claim: "first training image of MNIST: pixels 200 to 205, and the pixel in row 20, column 15",
        claimed: &[0.0, 0.0, 0.0, 0.19140625, 0.9296875, 0.98828125, 0.98828125],
        reading: Reading::Printed(8),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let Some(_) = mnist::found() else {
                return Ok(None);
            };
            let pixels = mnist::load(None)?.pixels;
            let shown = (200..206).chain([20 * 28 + 15]);
            Ok(Some(shown.map(|i| f64::from(pixels[i])).collect()))
        },
    },
    Claim {
        id: "s3.elementwise",
        claim: "(10, 6, -4) + (2, 8, 7), and the mean of the comparison (10, 6, -4) < (2, 8, 7)",
        claimed: &[12.0, 14.0, 3.0, 0.67],
        reading: Reading::Printed(2),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let (a, b) = (array![10.0, 6.0, -4.0], array![2.0, 8.0, 7.0]);
            let sum = arrays::zip_with("add", &a, &b, |a: &f64, b: &f64| a + b)?;
            let less =
                arrays::zip_with("lt", &a, &b, |a: &f64, b: &f64| f64::from(u8::from(a < b)))?;
            Ok(Some(sum.iter().copied().chain(less.mean()).collect()))
        },
    },
    Claim {
        id: "s3.frobenius",
        claim: "the Frobenius norm of the 3 x 3 matrix with the elements 1 to 9",
        claimed: &[16.88],
        reading: Reading::Printed(2),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let m = Array2::from_shape_fn((3, 3), |(i, j)| (3 * i + j + 1) as f64);
            Ok(Some(
                einsum::oracle("ij,ij->", &[&m, &m])?
                    .iter()
                    .map(|square| square.sqrt())
                    .collect(),
            ))
        },
    },
    Claim {
        id: "s3.expand.strides",
        claim: "a vector of three elements, broadcast to 3 x 3, has strides (0, 1)",
        claimed: &[0.0, 1.0],
        reading: Reading::Printed(0),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let view = View::contiguous(&[3])?.broadcast_to(&[3, 3])?;
            Ok(Some(
                view.strides().iter().map(|&stride| stride as f64).collect(),
            ))
        },
    },
    Claim {
        id: "s3.grid",
        claim: "blocks of 16 x 16 threads cover 50000 x 10 elements: number of blocks, 3125 x 1",
        claimed: &[3125.0],
        reading: Reading::Printed(0),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let grid =
                twin::Grid::for_kernel(&layout::MATMUL_NAIVE, &MatmulParams::new(50_000, 784, 10));
            Ok(Some(vec![grid.n_workgroups as f64]))
        },
    },
    Claim {
        id: "s3.einsum",
        claim: "einsum and the library's product of the images differ by less than 1e-3: largest difference",
        claimed: &[1e-3],
        reading: Reading::Below,
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let images = mnist::load(None)?;
            let pixels = Array2::from_shape_vec((50_000, mnist::N_PIXELS), images.pixels)?;
            let weights = Array2::from_shape_fn((mnist::N_PIXELS, 10), |(i, j)| {
                Philox::new(S3_SEED).uniform_f32((10 * i + j) as u64) - 0.5
            });
            let library = gemm::matmul(pixels.view(), weights.view())?.into_dyn();
            let difference = einsum::oracle("ik,kj->ij", &[&pixels, &weights])? - library;
            Ok(Some(vec![
                difference
                    .iter()
                    .map(|&d| f64::from(d.abs()))
                    .fold(0.0, f64::max),
            ]))
        },
    },
];

/// Returns a tensor of normally distributed random numbers.
fn normal(shape: &[usize]) -> Tensor {
    let mut x = vec![0.0; shape.iter().product()];
    Philox::new(S3_SEED).fill_normal_f32(0, &mut x);
    Tensor::from_vec(shape, x)
}

/// Returns matrices for planning; a plan does not depend on their elements.
fn s2_matrices() -> [Tensor; 3] {
    [(); 3].map(|()| Tensor::from_vec(&[S2_SIDE; 2], vec![0.0_f32; S2_SIDE * S2_SIDE]))
}

fn on_host(tensor: &Tensor) -> Result<Plan> {
    let (plan, _) = Plan::new(&[tensor], &Host::new().target())?;
    Ok(plan)
}
