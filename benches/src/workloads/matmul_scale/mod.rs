//! A matrix product with an epilogue: `(x · y) · 100 + 10`.
//!
//! Role: the workload `matmul-scale`: measures whether scale and shift need an additional pass over
//! memory.
//! Shapes: `x`, `y` and the result `[side, side]`, row-major.
//! Accuracy: compared with the product in f64; the tolerance is that of the sum plus two epsilons
//! for the epilogue, in epsilons of `Σ|x·y| · 100 + 10`.
//! Source: the lecture on Python performance.

use super::matmul::cpu::row_broadcast;
use crate::roundings;
use anyhow::Result;
use harness::program::{Array, Input, InputDistribution, Options, TensorWorkload, Truth};
use harness::script;
use harness::workload::Work;
use std::rc::Rc;
use tensor_core::compare::Tolerance;
use tensor_core::ndarray::ArrayViewMut2;
use tensor_core::{Tensor, gemm};

const SCALE: f32 = 100.0;
const SHIFT: f32 = 10.0;

/// Returns the program for matrices of uniform numbers in [-1, 1).
#[must_use]
pub fn program(side: usize) -> TensorWorkload<f32, 2> {
    let square =
        |name, stream| Input::new(name, InputDistribution::Centred, stream, &[("n", side); 2]);
    TensorWorkload {
        name: "matmul-scale",
        source: "S2",
        size: format!("{side}x{side}x{side}"),
        script: script!("matmul_scale.py"),
        inputs: [square("x", 1), square("y", 2)],
        truth: Rc::new(truth),
        loops: Rc::new(loops),
        expression: Rc::new(expression),
        options: Options::default(),
    }
}

/// Returns `(x · y) · 100 + 10` as a tensor.
#[must_use]
pub fn expression([x, y]: &[Tensor; 2]) -> Tensor {
    x.matmul(y) * SCALE + SHIFT
}

fn truth([x, y]: &[Array; 2]) -> Result<Truth> {
    let [side, _] = x.sides();
    let oracle = gemm::oracle(&x.elements, &y.elements, [side; 3])?;
    let epilogue = |product: f64| product * f64::from(SCALE) + f64::from(SHIFT);
    let magnitudes = oracle.magnitudes.into_iter().map(epilogue);
    let n = side as f64;
    Ok(Truth {
        expected: oracle.product.into_iter().map(epilogue).collect(),
        tolerance: Tolerance::relative(roundings::of_sum(side) + 2).scaled_by(magnitudes),
        work: Work::Operations(n * n * (2.0 * n + 2.0)),
    })
}

/// Computes the product a row at a time, then the epilogue in one pass.
fn loops([x, y]: &[Array; 2], out: &mut [f32]) -> Result<()> {
    let product = ArrayViewMut2::from_shape(x.sides::<2>(), &mut *out)?;
    row_broadcast(x.matrix()?, y.matrix()?, product)?;
    out.iter_mut().for_each(|z| *z = *z * SCALE + SHIFT);
    Ok(())
}
