//! Softmax over rows: `exp(x - max) / Σ exp(x - max)`.
//!
//! Role: the workload `softmax`: two reductions, each of which must be complete before the next
//! step, over rows that fit into a cache.
//! Shapes: `x` and the result `[rows, cols]`, row-major.
//! Accuracy: compared with f64, relative: `ELEMENT_EPSILONS` for an element, plus those of the sum
//! of a row.
//! Source: the usual definition; subtracting the maximum prevents overflow of the exponential.

use crate::roundings;
use anyhow::Result;
use harness::program::{Array, Input, InputDistribution, Options, TensorWorkload, Truth};
use harness::script;
use harness::workload::Work;
use std::rc::Rc;
use tensor_core::compare::Tolerance;

/// Operations per element: one each for maximum, subtraction, exponential, sum and division.
const OPERATIONS_PER_ELEMENT: f64 = 5.0;
/// Relative error of one element, in epsilons: up to 8 from the rounding of `x - max`, whose
/// magnitude is below 16; a few for a fast exponential; one for the division.
const ELEMENT_EPSILONS: usize = 16;

/// Returns the program for normal numbers.
#[must_use]
pub fn program([rows, cols]: [usize; 2]) -> TensorWorkload<f32, 1> {
    let axes = [("rows", rows), ("cols", cols)];
    TensorWorkload {
        name: "softmax",
        source: "S2",
        size: format!("{rows}x{cols}"),
        script: script!("softmax.py"),
        inputs: [Input::new("x", InputDistribution::Normal, 0, &axes)],
        truth: Rc::new(truth),
        loops: Rc::new(loops),
        expression: Rc::new(|[x]| x.softmax(1)),
        options: Options::default(),
    }
}

fn truth([x]: &[Array; 1]) -> Result<Truth> {
    let [_, cols] = x.sides();
    let mut expected = Vec::with_capacity(x.elements.len());
    for row in x.items() {
        let powers: Vec<f64> = row.iter().map(|&x| f64::from(x).exp()).collect();
        let sum: f64 = powers.iter().sum();
        expected.extend(powers.iter().map(|power| power / sum));
    }
    Ok(Truth {
        work: Work::Operations(OPERATIONS_PER_ELEMENT * expected.len() as f64),
        tolerance: Tolerance::relative(ELEMENT_EPSILONS + roundings::of_sum(cols)),
        expected,
    })
}

/// Computes each row in three passes: maximum; exponentials and their sum; division.
fn loops([x]: &[Array; 1], out: &mut [f32]) -> Result<()> {
    let [_, cols] = x.sides();
    for (row, out) in x.items().zip(out.chunks_exact_mut(cols)) {
        let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let mut sum = 0.0;
        for (power, x) in out.iter_mut().zip(row) {
            *power = (x - max).exp();
            sum += *power;
        }
        out.iter_mut().for_each(|power| *power /= sum);
    }
    Ok(())
}
