//! A chain of elementwise operations that ends in one number: the sum of
//! `sigmoid(relu(2 e + 1) · e - 3)`.
//!
//! Role: the workload `chain`: measures the effect of fusion, with which no intermediate array goes
//! through memory.
//! Shapes: `e` `[rows, cols]`; the result is one number.
//! Accuracy: compared with sums in f64. All terms are positive, so errors are relative to the sum:
//! `TERM_EPSILONS` for a term, plus those of a sum over rows of the sums over columns. A single
//! running sum in f32 would lose digits once it is 2²⁴ times a term; the tolerance does not allow
//! this.
//! Source: the lecture on Python performance, on the cost of a chain of whole-array operations
//! without fusion.

use crate::roundings;
use anyhow::Result;
use harness::program::{Array, Input, InputDistribution, Options, TensorWorkload, Truth};
use harness::script;
use harness::workload::Work;
use std::rc::Rc;
use tensor_core::compare::Tolerance;

/// Operations per element: two for `2 e + 1`, one for relu, two for `· e - 3`, four for the sigmoid
/// (with its exponential counted as one), and one for the sum.
const OPERATIONS_PER_ELEMENT: f64 = 10.0;
/// Relative error of one term, in epsilons: half an epsilon for each operation on the argument of
/// the sigmoid, whose magnitude is at most 3, and a few for a fast exponential.
const TERM_EPSILONS: usize = 16;

/// Returns the program for uniform numbers in [0, 1).
#[must_use]
pub fn program([rows, cols]: [usize; 2]) -> TensorWorkload<f32, 1> {
    let axes = [("rows", rows), ("cols", cols)];
    TensorWorkload {
        name: "chain",
        source: "S2",
        size: format!("{rows}x{cols}"),
        script: script!("chain.py"),
        inputs: [Input::new("e", InputDistribution::Uniform, 0, &axes)],
        truth: Rc::new(truth),
        loops: Rc::new(loops),
        expression: Rc::new(|[e]| ((e * 2.0 + 1.0).relu() * e - 3.0).sigmoid().sum(..)),
        options: Options::default(),
    }
}

fn truth([e]: &[Array; 1]) -> Result<Truth> {
    let term = |&e: &f32| {
        let e = f64::from(e);
        1.0 / (1.0 + (-((2.0 * e + 1.0).max(0.0) * e - 3.0)).exp())
    };
    let sums: usize = e.sides::<2>().map(roundings::of_sum).iter().sum();
    Ok(Truth {
        expected: vec![e.elements.iter().map(term).sum()],
        tolerance: Tolerance::relative(TERM_EPSILONS + sums),
        work: Work::Operations(OPERATIONS_PER_ELEMENT * e.elements.len() as f64),
    })
}

/// Sums each row separately and then the row sums, so that no running sum becomes large.
fn loops([e]: &[Array; 1], sum: &mut [f32]) -> Result<()> {
    let term = |&e: &f32| {
        let z = (2.0 * e + 1.0).max(0.0) * e - 3.0;
        1.0 / (1.0 + (-z).exp())
    };
    let rows = e.items().map(|row| row.iter().map(term).sum::<f32>());
    sum[0] = rows.sum();
    Ok(())
}
