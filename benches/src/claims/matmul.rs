//! Claims of the fast.ai notebook "matmul": its numbers, broadcasting, the simulated kernel, and
//! its speedups.
//!
//! Method: numbers that the notebook prints are computed again. Its speedups are quotients of times
//! that it prints; the claims about them compare text and printed times, and the order of the
//! versions is measured on this machine.

use super::{Claim, Correction, Reading, Verdict, timing};
use crate::mnist;
use crate::workloads::matmul::cpu;
use anyhow::{Context, Result};
use harness::program::InputDistribution;
use shaders::params::MatmulParams;
use shaders::{layout, twin};
use tensor_core::ndarray::{Array2, array};
use tensor_core::plan::Plan;
use tensor_core::rng::{Philox, WichmannHill};
use tensor_core::{Executor, Host, Tensor, View, array as arrays, einsum, gemm, jit};

/// Number of decimals of numbers that are printed in full f64 precision.
const ALL_DECIMALS: i32 = 15;
/// Seed used in the notebook.
const SEED: u64 = 457_428_938_475;
/// Shape of the notebook's first product: five images times the weights of ten classes.
const FIRST: [usize; 3] = [5, mnist::N_PIXELS, 10];
/// Number of rows of the products that are timed or simulated here.
const ROWS: usize = 500;

/// Times that the notebook prints, in s: three loops and broadcasting for five images.
const LOOPS_S: f64 = 416e-3;
const BROADCAST_FIVE_S: f64 = 72.4e-6;
/// Times for all images: broadcasting, the notebook's kernel and the library on a GPU.
const BROADCAST_S: f64 = 673e-3;
const KERNEL_S: f64 = 3.69e-3;
const LIBRARY_S: f64 = 429e-6;

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        id: "s3.wichmann-hill.state",
        claim: "the state of the Wichmann-Hill generator with seed 457428938475 is (4976, 20238, 499)",
        claimed: &[4976.0, 20238.0, 499.0],
        reading: Reading::Printed(0),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let (x, y, z) = WichmannHill::seed(SEED).state();
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
        measure: || Ok(Some(WichmannHill::seed(SEED).take(3).collect())),
    },
    Claim {
        id: "s3.fork",
        claim: "two copies of one generator return the same next number",
        claimed: &[0.9559050644103264, 0.9559050644103264],
        reading: Reading::Printed(ALL_DECIMALS),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let mut parent = WichmannHill::seed(SEED);
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
                Philox::new(SEED).uniform_f32((10 * i + j) as u64) - 0.5
            });
            let library = gemm::matmul(pixels.view(), weights.view())?.into_dyn();
            let difference = einsum::oracle("ik,kj->ij", &[&pixels, &weights])? - library;
            Ok(Some(vec![
                difference
                    .iter()
                    .map(|&d| f64::from(d.abs()))
                    .max_by(f64::total_cmp)
                    .unwrap_or(f64::NAN),
            ]))
        },
    },
    Claim {
        id: "s3.mnist.shape",
        claim: "MNIST has 50,000 training images of 784 pixels: both numbers, the first and the last three labels, and the \
            least and the largest label",
        claimed: &[50_000.0, 784.0, 5.0, 0.0, 4.0, 8.0, 4.0, 8.0, 0.0, 9.0],
        reading: Reading::Printed(0),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let Some(_) = mnist::found() else {
                return Ok(None);
            };
            let images = mnist::load(None)?;
            let labels = images.labelled.context("no labels")?.train_labels;
            let n = labels.len();
            let ends = [labels.iter().min(), labels.iter().max()];
            let shown = labels[..3].iter().chain(&labels[n - 3..]);
            let sizes = [n, images.pixels.len() / n].map(|size| size as f64);
            let shown = shown.chain(ends.into_iter().flatten());
            Ok(Some(
                sizes
                    .into_iter()
                    .chain(shown.map(|&label| f64::from(label)))
                    .collect(),
            ))
        },
    },
    Claim {
        id: "s3.broadcast.scalar",
        claim: "a scalar is broadcast to an array: (10, 6, -4) + 1, and the number of its elements above 0",
        claimed: &[11.0, 7.0, -3.0, 2.0],
        reading: Reading::Printed(0),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let a = Tensor::from_vec(&[3], vec![10.0_f32, 6.0, -4.0]);
            let above = a.gt(0.0).sum(..).eval::<u32>(&Host::new())?;
            let sums = elements(&(a + 1.0))?;
            Ok(Some(
                sums.into_iter()
                    .chain(above.iter().map(|&n| n.into()))
                    .collect(),
            ))
        },
    },
    Claim {
        id: "s3.broadcast.row",
        claim: "a vector is broadcast to the rows of a matrix: the 3 x 3 matrix with the elements 1 to 9 plus (10, 20, 30)",
        claimed: &[11.0, 22.0, 33.0, 14.0, 25.0, 36.0, 17.0, 28.0, 39.0],
        reading: Reading::Printed(0),
        correction: None,
        expected: Verdict::Holds,
        measure: || elements(&(matrix() + vector())).map(Some),
    },
    Claim {
        id: "s3.broadcast.column",
        claim: "with a last axis of length 1, the vector is broadcast to the columns: the same matrix plus (10, 20, 30)",
        claimed: &[11.0, 12.0, 13.0, 24.0, 25.0, 26.0, 37.0, 38.0, 39.0],
        reading: Reading::Printed(0),
        correction: None,
        expected: Verdict::Holds,
        measure: || elements(&(matrix() + vector().expand_dims(1))).map(Some),
    },
    Claim {
        id: "s3.broadcast.outer",
        claim: "a row times a column is the outer product, and their comparison a matrix: the product of (10, 20, 30) with \
            itself, and the number of pairs of which the first is larger",
        claimed: &[
            100.0, 200.0, 300.0, 200.0, 400.0, 600.0, 300.0, 600.0, 900.0, 3.0,
        ],
        reading: Reading::Printed(0),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let (row, column) = (vector().expand_dims(0), vector().expand_dims(1));
            let larger = row.gt(&column).sum(..).eval::<u32>(&Host::new())?;
            let product = elements(&(row * column))?;
            Ok(Some(
                product
                    .into_iter()
                    .chain(larger.iter().map(|&n| n.into()))
                    .collect(),
            ))
        },
    },
    Claim {
        id: "s3.broadcast.shapes",
        claim: "trailing axes are compared first: shapes of (256, 256, 3) times (3), and of (784, 1) times (784, 10)",
        claimed: &[256.0, 256.0, 3.0, 784.0, 10.0],
        reading: Reading::Printed(0),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let ones = |shape: &[usize]| Tensor::zeros(shape, tensor_core::DType::F32);
            let image = ones(&[256, 256, 3]) * ones(&[3]);
            let digit = ones(&[784]).expand_dims(1) * ones(&[784, 10]);
            let shapes = [image.shape()?, digit.shape()?].concat();
            Ok(Some(shapes.into_iter().map(|side| side as f64).collect()))
        },
    },
    Claim {
        id: "s3.expand.storage",
        claim: "no rows are copied: number of elements in memory, of a vector of three elements that is broadcast to 3 x 3",
        claimed: &[3.0],
        reading: Reading::Printed(0),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let sum = matrix() + vector().broadcast_to(&[3, 3]);
            let (plan, _) = Plan::new(&[&sum], &Host::new().target())?;
            let lens = plan.inputs.iter().map(|input| plan.buffers[input.0].len());
            let least = lens.min().context("no input")?;
            Ok(Some(vec![least as f64]))
        },
    },
    Claim {
        id: "s3.dot",
        claim: "a function is compiled at its first call, and the second call is faster: (1, 2, 3) times (2, 3, 4) twice, \
            compilations after no, one and two calls, and time of a later call divided by that of the first",
        claimed: &[20.0, 20.0, 0.0, 1.0, 1.0, 0.0],
        reading: Reading::Printed(0),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let (a, b) = (array![1.0, 2.0, 3.0], array![2.0, 3.0, 4.0]);
            let [a, b] = [a, b].map(|x: tensor_core::ndarray::Array1<f64>| Tensor::from_array(x));
            let (host, compiled) = (Host::new(), jit(dot));
            let mut found = (vec![], vec![compiled.counters().misses as f64]);
            for _ in 0..2 {
                let product = compiled.call(&host, &[&a, &b])?;
                let product = product.first().context("no result")?.to_host::<f64>()?;
                found.0.extend(product);
                found.1.push(compiled.counters().misses as f64);
            }
            let later = timing::later_by_first(dot, &[&a, &b])?;
            Ok(Some([found.0, found.1, vec![later]].concat()))
        },
    },
    Claim {
        id: "s3.kernel.first",
        claim: "one call of the simulated kernel writes one element, and a launch over the grid all: number of written elements \
            of the 5 x 10 results",
        claimed: &[1.0, 50.0],
        reading: Reading::Printed(0),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let [rows, inner, cols] = FIRST;
            let (a, b) = matrices(rows)?;
            let written = |n_rows: usize, n_cols: usize| {
                let mut c = Array2::from_elem((rows, cols), f32::NAN);
                let one = twin::Grid {
                    n_workgroups: 1,
                    workgroup_size: [n_cols, n_rows, 1]
                        .map(|side| u32::try_from(side).unwrap_or(0)),
                };
                twin::launch(one, |at| {
                    let [j, i, _] = at.lid.map(|id| id as usize);
                    c[[i, j]] = (0..inner).map(|k| a[[i, k]] * b[[k, j]]).sum();
                });
                c.iter().filter(|element| !element.is_nan()).count() as f64
            };
            Ok(Some(vec![written(1, 1), written(rows, cols)]))
        },
    },
    Claim {
        id: "s3.kernel.difference",
        claim: "the product of the kernel differs from the others by less than 1.03: largest difference over 500 images",
        claimed: &[1.03],
        reading: Reading::Below,
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let [_, inner, cols] = FIRST;
            let (a, b) = matrices(ROWS)?;
            let mut c = Array2::from_elem((ROWS, cols), f32::NAN);
            let sides = [ROWS, inner, cols].map(|side| u32::try_from(side).unwrap_or(0));
            let [a_slice, b_slice] = [&a, &b].map(|m| m.as_slice().unwrap_or_default());
            twin::matmul_naive(
                &layout::MATMUL_NAIVE,
                &MatmulParams::new(sides[0], sides[1], sides[2]),
                a_slice,
                b_slice,
                c.as_slice_mut().context("not contiguous")?,
            );
            let difference = gemm::matmul(a.view(), b.view())? - c;
            // NaN, which an element has that the kernel did not write, is above all numbers in the
            // total order.
            let largest = difference.iter().map(|d| d.abs()).max_by(f32::total_cmp);
            Ok(Some(vec![largest.unwrap_or(f32::NAN).into()]))
        },
    },
    Claim {
        id: "s3.order",
        claim: "the versions become faster from three loops to broadcasting and to the library: time of broadcasting divided by \
            that of three loops, and of the library by that of broadcasting",
        claimed: &[1.0, 1.0],
        reading: Reading::Below,
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let (a, b) = matrices(ROWS)?;
            let run = |version: Version| {
                let (a, b) = (a.view(), b.view());
                move || {
                    let mut c = Array2::zeros((ROWS, FIRST[2]));
                    version(a, b, c.view_mut())?;
                    Ok(c)
                }
            };
            Ok(Some(vec![
                timing::ratio(run(cpu::row_broadcast), run(cpu::three_loops))?,
                timing::ratio(run(cpu::library), run(cpu::row_broadcast))?,
            ]))
        },
    },
    Claim {
        id: "s3.speedup.broadcast",
        claim: "broadcasting is over 5000 times as fast as three loops: 5000 divided by the quotient of the printed times",
        claimed: &[1.0],
        reading: Reading::Below,
        correction: None,
        expected: Verdict::Holds,
        measure: || Ok(Some(vec![5000.0 / (LOOPS_S / BROADCAST_FIVE_S)])),
    },
    Claim {
        id: "s3.speedup.gpu",
        claim: "the notebook's kernel for GPUs is another 1000 times as fast as broadcasting: 1000 divided by the quotient of \
            the printed times",
        claimed: &[1.0],
        reading: Reading::Below,
        correction: Some(Correction {
            claim: "the library on the GPU is: quotients of the printed times for the notebook's kernel and for the library",
            verdict: Verdict::HoldsWithCorrection,
            claimed: &[182.0, 1569.0],
            reading: Reading::Printed(0),
            measure: || {
                Ok(Some(
                    [KERNEL_S, LIBRARY_S].map(|s| BROADCAST_S / s).to_vec(),
                ))
            },
        }),
        expected: Verdict::HoldsWithCorrection,
        measure: || Ok(Some(vec![1000.0 / (BROADCAST_S / KERNEL_S)])),
    },
    Claim {
        id: "s3.speedup.total",
        claim: "the total speedup is around 5 million: millions, from the time of three loops for five images, scaled to all \
            images, and that of the notebook's kernel",
        claimed: &[5.0],
        reading: Reading::Printed(0),
        correction: Some(Correction {
            claim: "5 million is the product of two rounded factors for two sizes; at one size, millions for the notebook's \
                kernel and for the library",
            verdict: Verdict::HoldsWithCorrection,
            claimed: &[1.1, 9.7],
            reading: Reading::Printed(1),
            measure: || Ok(Some([KERNEL_S, LIBRARY_S].map(total_millions).to_vec())),
        }),
        expected: Verdict::HoldsWithCorrection,
        measure: || Ok(Some(vec![total_millions(KERNEL_S)])),
    },
];

/// A version of the product, as the workload `matmul` runs it.
type Version = fn(
    tensor_core::ndarray::ArrayView2<'_, f32>,
    tensor_core::ndarray::ArrayView2<'_, f32>,
    tensor_core::ndarray::ArrayViewMut2<'_, f32>,
) -> Result<()>;

/// Returns the speedup compared with three loops for all images, in millions.
fn total_millions(seconds: f64) -> f64 {
    let loops_s = LOOPS_S * mnist::N_IMAGES as f64 / FIRST[0] as f64;
    loops_s / seconds / 1e6
}

/// Returns factors of a product with random elements, of the notebook's sizes except for the rows.
fn matrices(rows: usize) -> Result<(Array2<f32>, Array2<f32>)> {
    let [_, inner, cols] = FIRST;
    let draw = |shape: (usize, usize), stream| {
        let elements = InputDistribution::Centred.draw(shape.0 * shape.1, stream);
        Array2::from_shape_vec(shape, elements)
    };
    Ok((draw((rows, inner), 1)?, draw((inner, cols), 2)?))
}

/// Returns the notebook's 3 x 3 matrix with the elements 1 to 9.
fn matrix() -> Tensor {
    let elements = (1..=9_u8).map(f32::from).collect();
    Tensor::from_vec(&[3, 3], elements)
}

/// Returns the notebook's vector.
fn vector() -> Tensor {
    Tensor::from_vec(&[3], vec![10.0_f32, 20.0, 30.0])
}

fn dot(arguments: &[Tensor]) -> tensor_core::Result<Vec<Tensor>> {
    Ok(vec![(&arguments[0] * &arguments[1]).sum(..)])
}

/// Evaluates a tensor of f32 and returns its elements.
fn elements(tensor: &Tensor) -> Result<Vec<f64>> {
    let result = tensor.eval::<f32>(&Host::new())?;
    Ok(result.iter().map(|&element| element.into()).collect())
}
