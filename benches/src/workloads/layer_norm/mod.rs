//! Layer normalization: each row less its mean, divided by its standard deviation, then scaled and
//! shifted by column.
//!
//! Role: the workload `layer-norm`: two reductions, of which the second needs the result of the
//! first, over rows that fit into a cache, and operands that repeat along the other axis.
//! Shapes: `x` and the result `[rows, cols]`, `scale` and `shift` `[cols]`, row-major.
//! Accuracy: compared with f64. For a row with the mean `m` and the standard deviation `s`, the
//! tolerance in epsilons of `|scale| · (|x| + Σ|x| / cols) / s + |shift|` is that of a sum of `cols`
//! terms (the mean; the variance has half of its relative effect) plus `ELEMENT_EPSILONS`.
//! Source: Ba, Kiros and Hinton 2016, "Layer Normalization".

use crate::roundings;
use anyhow::Result;
use harness::program::{Array, Input, InputDistribution, Options, TensorWorkload, Truth};
use harness::script;
use harness::workload::Work;
use std::rc::Rc;
use tensor_core::compare::Tolerance;
use tensor_core::{Axes, Tensor};

/// Added to the variance, so that a constant row is not divided by 0; the default of `PyTorch`.
const VARIANCE_OFFSET: f32 = 1e-5;
/// Operations per element: one for the mean, three for the variance, four for the result.
const OPERATIONS_PER_ELEMENT: f64 = 8.0;
/// Roundings of an element in addition to those of the sums: one each for the division of a sum by
/// its length, subtraction, square, offset, root, quotient, product and sum.
const ELEMENT_EPSILONS: usize = 8;

/// Returns the program for normal numbers.
#[must_use]
pub fn program([rows, cols]: [usize; 2]) -> TensorWorkload<f32, 3> {
    let axes = [("rows", rows), ("cols", cols)];
    TensorWorkload {
        name: "layer-norm",
        source: "S2",
        size: format!("{rows}x{cols}"),
        script: script!("layer_norm.py"),
        inputs: [
            Input::new("x", InputDistribution::Normal, 0, &axes),
            Input::new("scale", InputDistribution::Normal, 1, &axes[1..]),
            Input::new("shift", InputDistribution::Normal, 2, &axes[1..]),
        ],
        truth: Rc::new(truth),
        loops: Rc::new(loops),
        expression: Rc::new(expression),
        options: Options {
            runs_on_software: false,
            ..Options::default()
        },
    }
}

fn expression([x, scale, shift]: &[Tensor; 3]) -> Tensor {
    let mean = x.mean(Axes::keepdims(1));
    let deviation = (x.var(Axes::keepdims(1), 0) + VARIANCE_OFFSET).sqrt();
    (x - mean) / deviation * scale + shift
}

fn truth([x, scale, shift]: &[Array; 3]) -> Result<Truth> {
    let [_, cols] = x.sides();
    let (scale, shift) = (scale.in_f64(), shift.in_f64());
    let (mut expected, mut magnitudes) = (Vec::new(), Vec::new());
    for row in x.in_f64().chunks_exact(cols) {
        let mean = row.iter().sum::<f64>() / cols as f64;
        let mean_magnitude = row.iter().map(|x| x.abs()).sum::<f64>() / cols as f64;
        let squares = row.iter().map(|x| (x - mean).powi(2));
        let deviation = (squares.sum::<f64>() / cols as f64 + f64::from(VARIANCE_OFFSET)).sqrt();
        for ((x, scale), shift) in row.iter().zip(&scale).zip(&shift) {
            expected.push((x - mean) / deviation * scale + shift);
            let magnitude = (x.abs() + mean_magnitude) / deviation * scale.abs();
            magnitudes.push(magnitude + shift.abs());
        }
    }
    let epsilons = roundings::of_sum(cols) + ELEMENT_EPSILONS;
    Ok(Truth {
        work: Work::Operations(OPERATIONS_PER_ELEMENT * expected.len() as f64),
        tolerance: Tolerance::relative(epsilons).scaled_by(magnitudes),
        expected,
    })
}

/// Computes each row in three passes: mean, variance, result.
fn loops([x, scale, shift]: &[Array; 3], out: &mut [f32]) -> Result<()> {
    let [_, cols] = x.sides();
    for (row, out) in x.items().zip(out.chunks_exact_mut(cols)) {
        let mean = row.iter().sum::<f32>() / cols as f32;
        let squares = row.iter().map(|x| (x - mean) * (x - mean));
        let variance = squares.sum::<f32>() / cols as f32;
        let deviation = (variance + VARIANCE_OFFSET).sqrt();
        let columns = scale.elements.iter().zip(&shift.elements);
        for ((y, x), (scale, shift)) in out.iter_mut().zip(row).zip(columns) {
            *y = (x - mean) / deviation * scale + shift;
        }
    }
    Ok(())
}
