//! Which columns are alike: `|x[n, i] - x[n, j]| < 1`, counted over the rows or asked of all of them.
//!
//! Role: the workloads `similarity-sum` and `similarity-all`: the values `(n, d, d)` that no executor should hold.
//! Method: the truth is counted in f32, the one rounded step and the comparison exactly as written, so every result
//! must be equal to it.
//! Shapes: `x` `[n, d]`; the result `[d, d]`, counts in u32 or answers in bool, row-major.
//! Accuracy: none is lost. Subtraction, absolute value, comparison and sum count one operation each. Of a multiply-add,
//! which counts two, nothing here makes use, so half the measured peak is the most that can be reached. For `all` the
//! operations are those up to the first row that says no: with normal numbers about two rows of all.
//! Source: S0, notes on a fused similarity of 2000 columns.

use crate::program::{Array, Input, Law, Program, Truth};
use crate::rivals::script;
use anyhow::Result;
use tensor_core::Tensor;
use tensor_core::compare::Bound;

/// Rows and columns of the bench's size.
pub const SHAPE: [usize; 2] = [256, 2000];
/// Columns closer than this in a row are alike there.
const LIMIT: f32 = 1.0;
/// Subtraction, absolute value, comparison and the step of the reduction.
const OPERATIONS_PER_VALUE: f64 = 4.0;

/// Gives the workload `similarity-sum` over normal numbers `[n, d]`: rows are counted.
#[must_use]
pub fn sum([n, d]: [usize; 2]) -> Program<u32, 1> {
    Program {
        name: "similarity-sum",
        source: "S0",
        size: format!("{n}x{d}"),
        script: script!("similarity_sum.py"),
        inputs: [Input::new("x", Law::Normal, 0, &[("n", n), ("d", d)])],
        truth: |[x]| {
            let [n, d] = x.sides();
            Ok(truth(&pairs(x).counts, n * d * d))
        },
        loops: count,
        expression: |[x]| alike(x).sum(0),
        variants: &[],
    }
}

/// Gives the workload `similarity-all`, likewise: all rows must say yes.
#[must_use]
pub fn all([n, d]: [usize; 2]) -> Program<bool, 1> {
    Program {
        name: "similarity-all",
        source: "S0",
        size: format!("{n}x{d}"),
        script: script!("similarity_all.py"),
        inputs: [Input::new("x", Law::Normal, 0, &[("n", n), ("d", d)])],
        truth: |[x]| {
            let pairs = pairs(x);
            let is_all = |&count: &usize| usize::from(count == x.shape[0]);
            let answers: Vec<usize> = pairs.counts.iter().map(is_all).collect();
            Ok(truth(&answers, pairs.values_until_no))
        },
        loops: ask,
        expression: |[x]| alike(x).all(0),
        variants: &[],
    }
}

/// Gives, as a tensor `[n, d, d]`, in which rows which columns of `x` `[n, d]` are alike.
#[must_use]
pub fn alike(x: &Tensor) -> Tensor {
    (x.expand_dims(2) - x.expand_dims(1)).abs().lt(LIMIT)
}

/// Counts the way it is written down: a row at a time, all pairs of it.
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

/// Asks every pair for itself and leaves at the first no.
fn ask([x]: &[Array; 1], alike: &mut [bool]) -> Result<()> {
    let [_, d] = x.sides();
    for (i, alike) in alike.chunks_exact_mut(d).enumerate() {
        for (j, alike) in alike.iter_mut().enumerate() {
            *alike = x.items().all(|row| (row[i] - row[j]).abs() < LIMIT);
        }
    }
    Ok(())
}

/// What becomes of each pair of columns.
struct Pairs {
    /// Rows in which they are alike.
    counts: Vec<usize>,
    /// Values of all pairs up to and with the first that is not below the limit.
    values_until_no: usize,
}

/// Counts pair by pair, along columns that lie together.
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
        bound: Bound::exact(),
        operations: OPERATIONS_PER_VALUE * n_values as f64,
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
        // Pairs with themselves take both rows, (0, 1) too, pairs with column 2 leave at the first.
        assert_eq!(pairs.values_until_no, 3 * 2 + 2 * 2 + 4);
    }
}
