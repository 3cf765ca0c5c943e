//! Similarity of columns: `|x[n, i] - x[n, j]| < 1`, counted over the rows or required in all of
//! them.
//!
//! Role: the workloads `similarity-sum` and `similarity-all`: a program whose intermediate `(n, d,
//! d)` no executor should hold in memory.
//! Method: the expected result is computed in f32, with the single rounded operation and the
//! comparison exactly as written, so every result must be equal to it.
//! Shapes: `x` `[n, d]`; the result `[d, d]`, counts in u32 or truth values in bool, row-major.
//! Accuracy: exact. Subtraction, absolute value, comparison and sum count as one operation each.
//! For `similarity-all`, operations count up to the first row in which a pair is not similar: about
//! two rows on average with normal numbers.
//! Source: the blog note "Tracing GPU Resources", on a fused similarity of 2000 columns.

use anyhow::Result;
use charts::Figure;
use charts::bricks::{Axis, Brick};
use harness::program::{Array, Input, InputDistribution, Options, TensorWorkload, Truth};
use harness::script;
use harness::workload::Work;
use std::rc::Rc;
use tensor_core::compare::Tolerance;
use tensor_core::{Tensor, View};

/// Rows and columns of the benchmark's size.
pub const SHAPE: [usize; 2] = [256, 2000];
/// Rows and columns of the size of the quick selection.
pub const SMALL: [usize; 2] = [256, 500];
/// Distance below which two columns are similar in a row.
const LIMIT: f32 = 1.0;
/// Operations per value: one each for subtraction, absolute value, comparison and the step of the
/// reduction.
const OPERATIONS_PER_VALUE: f64 = 4.0;

/// Returns the workload `similarity-sum` for normal numbers `[n, d]`: the number of rows in which
/// each pair of columns is similar.
#[must_use]
pub fn sum([n, d]: [usize; 2]) -> TensorWorkload<u32, 1> {
    TensorWorkload {
        name: "similarity-sum",
        source: "S0",
        size: format!("{n}x{d}"),
        script: script!("similarity_sum.py"),
        inputs: [Input::new(
            "x",
            InputDistribution::Normal,
            0,
            &[("n", n), ("d", d)],
        )],
        truth: Rc::new(|[x]| {
            let [n, d] = x.sides();
            Ok(truth(&pairs(x).counts, n * d * d))
        }),
        loops: Rc::new(count),
        expression: Rc::new(|[x]| similar(x).sum(0)),
        options: Options {
            figure: broadcasting([n, d]),
            ..Options::default()
        },
    }
}

/// Returns the picture of the arrays of `similarity-sum`; `None` without columns.
fn broadcasting([n, d]: [usize; 2]) -> Option<Figure> {
    let whole = [n, d, d];
    let brick = |operator: &str, name: &str, shape: [usize; 3], reduced| {
        let view = View::contiguous(&shape).ok()?.broadcast_to(&whole).ok()?;
        let axes = [("n", 0), ("d", 1), ("d", 2)];
        Some(Brick {
            operator: operator.to_owned(),
            name: name.to_owned(),
            axes: axes.map(|(name, at)| Axis {
                name: name.to_owned(),
                len: view.shape()[at],
                stride: view.strides()[at],
            }),
            reduced,
        })
    };
    let mut result = brick("=", "counts of similar rows", whole, None)?;
    result.axes[0].len = 1;
    let bricks = vec![
        brick("", "x as (n, d, 1)", [n, d, 1], None)?,
        brick("−", "x as (n, 1, d)", [n, 1, d], None)?,
        brick("→", "|difference| < 1, summed over n", whole, Some(0))?,
        result,
    ];
    Some(Figure {
        caption: "Broadcasting: an axis of stride 0 (hatched) repeats the elements in memory (solid). The array of all \
            differences (cylinder, along the axis over which it is summed) is never in memory."
            .to_owned(),
        bricks,
        ..Figure::default()
    })
}

/// Returns the workload `similarity-all` for normal numbers `[n, d]`: whether each pair of columns
/// is similar in all rows.
#[must_use]
pub fn all([n, d]: [usize; 2]) -> TensorWorkload<bool, 1> {
    TensorWorkload {
        name: "similarity-all",
        source: "S0",
        size: format!("{n}x{d}"),
        script: script!("similarity_all.py"),
        inputs: [Input::new(
            "x",
            InputDistribution::Normal,
            0,
            &[("n", n), ("d", d)],
        )],
        truth: Rc::new(|[x]| {
            let pairs = pairs(x);
            let is_all = |&count: &usize| usize::from(count == x.shape[0]);
            let answers: Vec<usize> = pairs.counts.iter().map(is_all).collect();
            Ok(truth(&answers, pairs.values_until_no))
        }),
        loops: Rc::new(all_similar),
        expression: Rc::new(|[x]| similar(x).all(0)),
        options: Options::default(),
    }
}

/// Returns, as a tensor `[n, d, d]`, whether each pair of columns of `x` `[n, d]` is similar in
/// each row.
#[must_use]
pub fn similar(x: &Tensor) -> Tensor {
    (x.expand_dims(2) - x.expand_dims(1)).abs().lt(LIMIT)
}

/// Counts the rows in which each pair is similar as in the definition: one row at a time, with all
/// pairs of columns.
fn count([x]: &[Array; 1], counts: &mut [u32]) -> Result<()> {
    let [_, d] = x.sides();
    counts.fill(0);
    for row in x.items() {
        for (counts, left) in counts.chunks_exact_mut(d).zip(row) {
            for (count, right) in counts.iter_mut().zip(row) {
                *count += u32::from((left - right).abs() < LIMIT);
            }
        }
    }
    Ok(())
}

/// Compares each pair of columns and stops at the first row in which they are not similar.
fn all_similar([x]: &[Array; 1], alike: &mut [bool]) -> Result<()> {
    let [_, d] = x.sides();
    for (i, alike) in alike.chunks_exact_mut(d).enumerate() {
        for (j, alike) in alike.iter_mut().enumerate() {
            *alike = x.items().all(|row| (row[i] - row[j]).abs() < LIMIT);
        }
    }
    Ok(())
}

/// Results for all pairs of columns.
struct Pairs {
    /// Number of rows in which each pair is similar.
    counts: Vec<usize>,
    /// Number of values that are compared, over all pairs, if the comparison of a pair stops at the
    /// first row in which the pair is not similar.
    values_until_no: usize,
}

/// Compares pair by pair, on transposed data, so that the elements of a column are contiguous.
fn pairs(x: &Array) -> Pairs {
    let [n, d] = x.sides();
    let column = |j: usize| x.items().map(|row| row[j]).collect();
    let columns: Vec<Vec<f32>> = (0..d).map(column).collect();
    let mut pairs = Pairs {
        counts: Vec::with_capacity(d * d),
        values_until_no: 0,
    };
    for left in &columns {
        for right in &columns {
            let is_alike = |(left, right): (&f32, &f32)| (left - right).abs() < LIMIT;
            let values = || left.iter().zip(right).map(is_alike);
            pairs.counts.push(values().filter(|alike| *alike).count());
            pairs.values_until_no += values().position(|alike| !alike).map_or(n, |at| at + 1);
        }
    }
    pairs
}

fn truth(expected: &[usize], n_values: usize) -> Truth {
    Truth {
        expected: expected.iter().map(|&count| count as f64).collect(),
        tolerance: Tolerance::exact(),
        work: Work::Operations(OPERATIONS_PER_VALUE * n_values as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_truth_of_three_columns_is_counted_by_hand() {
        let x = Array {
            shape: vec![2, 3],
            elements: vec![0.0, 0.5, 2.0, /* next row */ 0.0, 1.0, 0.5],
        };
        let pairs = pairs(&x);
        assert_eq!(pairs.counts, [2, 1, 1, 1, 2, 1, 1, 1, 2]);
        // The three pairs of a column with itself need both rows, as does the pair (0, 1) in both
        // orders; the four pairs with column 2 stop at the first row.
        assert_eq!(pairs.values_until_no, 3 * 2 + 2 * 2 + 4);
    }
}
