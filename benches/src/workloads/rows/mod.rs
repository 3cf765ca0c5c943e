//! Reductions of a matrix along one axis: sums and largest elements.
//!
//! Role: the workload `rows`: reductions that memory bandwidth limits, along contiguous elements
//! (`axis1`) and across rows (`axis0`). A size is, for example, `sum-axis0-4096x1000`.
//! Shapes: `x` `[rows, cols]`, row-major; the result is a vector.
//! Accuracy: sums are compared with sums in f64; the tolerance in epsilons of `Σ|x|` is that of a
//! sum of as many terms. Largest elements are exact.
//! Source: the lecture on Python performance, whose examples reduce arrays by NumPy and PyTorch.

use super::WITHOUT_COMPILER;
use crate::roundings;
use anyhow::Result;
use harness::program::{Array, Input, InputDistribution, Options, TensorWorkload, Truth};
use harness::script;
use harness::workload::Work;
use std::rc::Rc;
use tensor_core::Tensor;
use tensor_core::compare::Tolerance;

/// The numbers of rows and columns that are measured.
pub const SHAPE: [usize; 2] = [4096, 1000];

/// A reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fold {
    Sum,
    Max,
}

/// Returns the programs for normal numbers: both reductions along both axes.
pub fn programs([rows, cols]: [usize; 2]) -> impl Iterator<Item = TensorWorkload<f32, 1>> {
    const CASES: [(&str, Fold, usize); 4] = [
        ("sum-axis0", Fold::Sum, 0),
        ("sum-axis1", Fold::Sum, 1),
        ("max-axis0", Fold::Max, 0),
        ("max-axis1", Fold::Max, 1),
    ];
    CASES.into_iter().map(move |(case, fold, axis)| {
        let axes = [("rows", rows), ("cols", cols)];
        TensorWorkload {
            name: "rows",
            source: "S2",
            size: format!("{case}-{rows}x{cols}"),
            script: script!("rows.py").with_case(case),
            inputs: [Input::new("x", InputDistribution::Normal, 0, &axes)],
            truth: Rc::new(move |arrays| truth(fold, axis, arrays)),
            loops: Rc::new(move |arrays, out| loops(fold, axis, arrays, out)),
            expression: Rc::new(move |[x]: &[Tensor; 1]| match fold {
                Fold::Sum => x.sum(axis),
                Fold::Max => x.max(axis),
            }),
            options: Options {
                libraries: WITHOUT_COMPILER,
                runs_on_software: false,
                ..Options::default()
            },
        }
    })
}

fn truth(fold: Fold, axis: usize, [x]: &[Array; 1]) -> Result<Truth> {
    let sides: [usize; 2] = x.sides();
    let (n_results, n_terms) = (sides[1 - axis], sides[axis]);
    let start = if fold == Fold::Sum {
        0.0
    } else {
        f64::NEG_INFINITY
    };
    let (mut expected, mut magnitudes) = (vec![start; n_results], vec![0.0; n_results]);
    for (at, &x) in x.elements.iter().enumerate() {
        let (x, result) = (f64::from(x), [at / sides[1], at % sides[1]][1 - axis]);
        magnitudes[result] += x.abs();
        expected[result] = match fold {
            Fold::Sum => expected[result] + x,
            Fold::Max => expected[result].max(x),
        };
    }
    Ok(Truth {
        expected,
        tolerance: match fold {
            Fold::Sum => Tolerance::relative(roundings::of_sum(n_terms)).scaled_by(magnitudes),
            Fold::Max => Tolerance::exact(),
        },
        work: Work::Operations(x.elements.len() as f64),
    })
}

/// Reduces the matrix row by row: along axis 1 each row to a number, along axis 0 all rows to a
/// single row.
fn loops(fold: Fold, axis: usize, [x]: &[Array; 1], out: &mut [f32]) -> Result<()> {
    let (start, step): (f32, fn(f32, f32) -> f32) = match fold {
        Fold::Sum => (0.0, |sum, x| sum + x),
        Fold::Max => (f32::NEG_INFINITY, f32::max),
    };
    out.fill(start);
    for (at, row) in x.items().enumerate() {
        if axis == 1 {
            out[at] = row.iter().copied().fold(start, step);
        } else {
            out.iter_mut()
                .zip(row)
                .for_each(|(result, &x)| *result = step(*result, x));
        }
    }
    Ok(())
}
