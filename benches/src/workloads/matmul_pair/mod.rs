//! Two independent matrix products: `(x · y + 100) + (x · z + 1000)`.
//!
//! Role: the workload `matmul-pair`, an example of out-of-order scheduling: both products may run
//! in parallel.
//! Shapes: `x`, `y`, `z` and the result `[side, side]`, row-major.
//! Accuracy: compared with products in f64; the tolerance is that of one sum plus three epsilons
//! for the additions, in epsilons of `Σ|x·y| + Σ|x·z| + 1100`.
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

/// Constants added to the first and to the second product.
const SHIFTS: [f32; 2] = [100.0, 1000.0];

/// Returns the program for matrices of uniform numbers in [-1, 1).
#[must_use]
pub fn program(side: usize) -> TensorWorkload<f32, 3> {
    let square =
        |name, stream| Input::new(name, InputDistribution::Centred, stream, &[("n", side); 2]);
    TensorWorkload {
        name: "matmul-pair",
        source: "S2",
        size: format!("{side}x{side}x{side}"),
        script: script!("matmul_pair.py"),
        inputs: [square("x", 1), square("y", 2), square("z", 3)],
        truth: Rc::new(truth),
        loops: Rc::new(loops),
        expression: Rc::new(expression),
        options: Options::default(),
    }
}

/// Returns `(x · y + 100) + (x · z + 1000)` as a tensor.
#[must_use]
pub fn expression([x, y, z]: &[Tensor; 3]) -> Tensor {
    (x.matmul(y) + SHIFTS[0]) + (x.matmul(z) + SHIFTS[1])
}

fn truth([x, y, z]: &[Array; 3]) -> Result<Truth> {
    let [side, _] = x.sides();
    let first = gemm::oracle(&x.elements, &y.elements, [side; 3])?;
    let second = gemm::oracle(&x.elements, &z.elements, [side; 3])?;
    let shift: f64 = SHIFTS.map(f64::from).iter().sum();
    let sum = |one: Vec<f64>, other: Vec<f64>| -> Vec<f64> {
        let pairs = one.into_iter().zip(other);
        pairs.map(|(one, other)| one + other + shift).collect()
    };
    let magnitudes = sum(first.magnitudes, second.magnitudes);
    let n = side as f64;
    Ok(Truth {
        expected: sum(first.product, second.product),
        tolerance: Tolerance::relative(roundings::of_sum(side) + 3).scaled_by(magnitudes),
        work: Work::Operations(n * n * (4.0 * n + 3.0)),
    })
}

/// Computes one product after the other, a row at a time, then adds them in one pass.
fn loops([x, y, z]: &[Array; 3], out: &mut [f32]) -> Result<()> {
    let mut second = vec![0.0; out.len()];
    for (right, product) in [(y, &mut *out), (z, &mut second[..])] {
        let product = ArrayViewMut2::from_shape(x.sides::<2>(), product)?;
        row_broadcast(x.matrix()?, right.matrix()?, product)?;
    }
    for (first, second) in out.iter_mut().zip(second) {
        *first = (*first + SHIFTS[0]) + (second + SHIFTS[1]);
    }
    Ok(())
}
