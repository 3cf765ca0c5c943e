//! Cumulative sums and maxima of a matrix along one axis.
//!
//! Role: the workload `scans`: running folds that memory bandwidth limits, along contiguous
//! elements (`axis1`) and across rows (`axis0`), of many lines and of a single long line. A size
//! is, for example, `sum-axis0-4096x1000`.
//! Shapes: `x` and the result are `[rows, cols]`, row-major.
//! Accuracy: sums are compared with sums in f64; the tolerance in epsilons of `Σ|x|` over the
//! elements that a result covers is that of a sum over a whole line. Maxima are exact.

use super::WITHOUT_COMPILER;
use crate::roundings;
use anyhow::Result;
use harness::program::{Array, Input, InputDistribution, Options, TensorWorkload, Truth};
use harness::script;
use harness::workload::Work;
use std::rc::Rc;
use tensor_core::Tensor;
use tensor_core::compare::Tolerance;

/// The numbers of rows and columns that are measured: a matrix, and a single line.
pub const SHAPES: [[usize; 2]; 2] = [[4096, 1000], [1, 1 << 20]];

/// A running fold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fold {
    Sum,
    Max,
}

/// Returns the programs for normal numbers: sums along both axes and maxima along rows of a matrix,
/// and sums and maxima of a line.
pub fn programs([matrix, line]: [[usize; 2]; 2]) -> impl Iterator<Item = TensorWorkload<f32, 1>> {
    let cases = [
        ("sum-axis0", Fold::Sum, 0, matrix),
        ("sum-axis1", Fold::Sum, 1, matrix),
        ("max-axis1", Fold::Max, 1, matrix),
        ("sum-axis1", Fold::Sum, 1, line),
        ("max-axis1", Fold::Max, 1, line),
    ];
    cases.into_iter().map(|(case, fold, axis, [rows, cols])| {
        let axes = [("rows", rows), ("cols", cols)];
        TensorWorkload {
            name: "scans",
            source: "S2",
            size: format!("{case}-{rows}x{cols}"),
            script: script!("scans.py").with_case(case),
            inputs: [Input::new("x", InputDistribution::Normal, 0, &axes)],
            truth: Rc::new(move |arrays| truth(fold, axis, arrays)),
            loops: Rc::new(move |arrays, out| loops(fold, axis, arrays, out)),
            expression: Rc::new(move |[x]: &[Tensor; 1]| match fold {
                Fold::Sum => x.cumsum(axis),
                Fold::Max => x.cummax(axis),
            }),
            options: Options {
                libraries: WITHOUT_COMPILER,
                runs_on_software: false,
                ..Options::default()
            },
        }
    })
}

/// Returns the distance from an element to the element before it in its line, or `None` for the
/// first element of a line.
fn to_earlier(axis: usize, at: usize, cols: usize) -> Option<usize> {
    match axis {
        0 => (at >= cols).then_some(cols),
        _ => (!at.is_multiple_of(cols)).then_some(1),
    }
}

fn truth(fold: Fold, axis: usize, [x]: &[Array; 1]) -> Result<Truth> {
    let sides: [usize; 2] = x.sides();
    let mut expected: Vec<f64> = x.elements.iter().map(|&x| x.into()).collect();
    let mut magnitudes = roundings::magnitudes(&expected);
    for at in 0..expected.len() {
        let Some(distance) = to_earlier(axis, at, sides[1]) else {
            continue;
        };
        magnitudes[at] += magnitudes[at - distance];
        expected[at] = match fold {
            Fold::Sum => expected[at] + expected[at - distance],
            Fold::Max => expected[at].max(expected[at - distance]),
        };
    }
    Ok(Truth {
        expected,
        tolerance: match fold {
            Fold::Sum => Tolerance::relative(roundings::of_sum(sides[axis])).scaled_by(magnitudes),
            Fold::Max => Tolerance::exact(),
        },
        work: Work::Operations(x.elements.len() as f64),
    })
}

/// Combines each element with the result before it.
fn loops(fold: Fold, axis: usize, [x]: &[Array; 1], out: &mut [f32]) -> Result<()> {
    let [_, cols] = x.sides();
    for (at, &x) in x.elements.iter().enumerate() {
        out[at] = match (to_earlier(axis, at, cols), fold) {
            (None, _) => x,
            (Some(distance), Fold::Sum) => out[at - distance] + x,
            (Some(distance), Fold::Max) => out[at - distance].max(x),
        };
    }
    Ok(())
}
