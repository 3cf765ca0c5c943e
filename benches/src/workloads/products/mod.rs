//! Small matrix products: batches of square ones, and those of a classifier's last layer.
//!
//! Role: the workload `products`: products for which the overhead of a call, packing and threads
//! matters. Sizes: `4096x8x8x8` is a batch of products `[8, 8] · [8, 8]`, `100x784x10` a product
//! `[100, 784] · [784, 10]`, and `transposed-784x100x10` a product `xᵀ · y` of `x` `[100, 784]` and
//! `y` `[100, 10]`.
//! Shapes: row-major; only batches have an axis `batch`.
//! Accuracy: compared with products in f64; the tolerance is that of one sum, in epsilons of
//! `Σ|x·y|`.
//! Source: the notebook on matrix multiplication: a classifier of images of 784 pixels in 10
//! classes; the transposed product is the gradient of its weights.

use super::WITHOUT_COMPILER;
use super::matmul::cpu::row_broadcast;
use crate::roundings;
use anyhow::Result;
use harness::program::{Array, Input, InputDistribution, Options, TensorWorkload, Truth};
use harness::script;
use harness::workload::{Task, Work};
use std::rc::Rc;
use tensor_core::compare::Tolerance;
use tensor_core::ndarray::{ArrayView2, ArrayViewMut2};
use tensor_core::{Tensor, gemm};

/// The way in which the operands of a product are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A batch of this many pairs of matrices.
    Batch(usize),
    /// One pair of matrices.
    Single,
    /// One pair of matrices, of which the left one is stored transposed.
    Transposed,
}

/// Returns the tasks at the sizes that are measured.
pub fn tasks() -> impl Iterator<Item = Task> {
    let cases = [
        (Form::Batch(4096), [8, 8, 8]),
        (Form::Batch(4096), [16, 16, 16]),
        (Form::Batch(256), [64, 64, 64]),
        (Form::Single, [100, 784, 10]),
        (Form::Transposed, [784, 100, 10]),
    ];
    cases
        .into_iter()
        .map(|(form, shape)| program(form, shape).task())
}

/// Returns the product of matrices `[rows, inner]` and `[inner, cols]` of uniform numbers in
/// [-1, 1).
#[must_use]
pub fn program(form: Form, [rows, inner, cols]: [usize; 3]) -> TensorWorkload<f32, 2> {
    let shape = format!("{rows}x{inner}x{cols}");
    let (case, size) = match form {
        Form::Batch(batch) => ("batch", format!("{batch}x{shape}")),
        Form::Single => ("single", shape),
        Form::Transposed => ("transposed", format!("transposed-{shape}")),
    };
    let mut left = vec![("rows", rows), ("inner", inner)];
    let mut right = vec![("inner", inner), ("cols", cols)];
    match form {
        Form::Batch(batch) => {
            left.insert(0, ("batch", batch));
            right.insert(0, ("batch", batch));
        }
        Form::Single => {}
        Form::Transposed => left.reverse(),
    }
    TensorWorkload {
        name: "products",
        source: "S3",
        size,
        script: script!("products.py").with_case(case),
        inputs: [
            Input::new("x", InputDistribution::Centred, 1, &left),
            Input::new("y", InputDistribution::Centred, 2, &right),
        ],
        truth: Rc::new(move |arrays| truth(form, [rows, inner, cols], arrays)),
        loops: Rc::new(move |arrays, out| loops(form, [rows, inner, cols], arrays, out)),
        expression: Rc::new(move |[x, y]: &[Tensor; 2]| match form {
            Form::Transposed => x.t().matmul(y),
            Form::Batch(_) | Form::Single => x.matmul(y),
        }),
        options: Options {
            libraries: WITHOUT_COMPILER,
            runs_on_software: false,
            ..Options::default()
        },
    }
}

/// Iterates over the pairs of matrices, as views.
fn pairs<'a>(
    form: Form,
    [rows, inner, cols]: [usize; 3],
    [x, y]: &'a [Array; 2],
) -> impl Iterator<Item = Result<[ArrayView2<'a, f32>; 2]>> {
    let items = x
        .elements
        .chunks_exact(rows * inner)
        .zip(y.elements.chunks_exact(inner * cols));
    items.map(move |(x, y)| {
        let x = match form {
            Form::Transposed => ArrayView2::from_shape([inner, rows], x)?.reversed_axes(),
            Form::Batch(_) | Form::Single => ArrayView2::from_shape([rows, inner], x)?,
        };
        Ok([x, ArrayView2::from_shape([inner, cols], y)?])
    })
}

fn truth(form: Form, shape: [usize; 3], arrays: &[Array; 2]) -> Result<Truth> {
    let (mut expected, mut magnitudes) = (Vec::new(), Vec::new());
    for pair in pairs(form, shape, arrays) {
        let [x, y] = pair?.map(|matrix| matrix.iter().copied().collect::<Vec<f32>>());
        let oracle = gemm::oracle(&x, &y, shape)?;
        expected.extend(oracle.product);
        magnitudes.extend(oracle.magnitudes);
    }
    let [_, inner, _] = shape;
    Ok(Truth {
        work: Work::Operations(2.0 * (inner * expected.len()) as f64),
        tolerance: Tolerance::relative(roundings::of_sum(inner)).scaled_by(magnitudes),
        expected,
    })
}

/// Computes one product after the other, a row at a time.
fn loops(form: Form, shape: [usize; 3], arrays: &[Array; 2], out: &mut [f32]) -> Result<()> {
    let [rows, _, cols] = shape;
    for (pair, out) in pairs(form, shape, arrays).zip(out.chunks_exact_mut(rows * cols)) {
        let [x, y] = pair?;
        row_broadcast(x, y, ArrayViewMut2::from_shape([rows, cols], out)?)?;
    }
    Ok(())
}
