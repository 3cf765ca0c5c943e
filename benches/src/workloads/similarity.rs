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

use super::{LIBRARIES, SEED};
use crate::rivals::Script;
use crate::workload::{Extent, OutputElement, Part, Problem, RivalWork, Rung, Task, Workload};
use anyhow::Result;
use gpu_wgsl::Gpu;
use tensor_core::compare::{Bound, compare};
use tensor_core::rng::Philox;
use tensor_core::{Host, Tensor};

/// Rows and columns of the only size.
pub const SHAPE: [usize; 2] = [256, 2000];
/// Columns closer than this in a row are alike there.
const LIMIT: f32 = 1.0;
/// Subtraction, absolute value, comparison and the step of the reduction.
const OPERATIONS_PER_VALUE: f64 = 4.0;

/// What becomes of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// They are counted.
    Sum,
    /// They must all say yes.
    All,
}

impl Reduction {
    fn name(self) -> &'static str {
        match self {
            Self::Sum => "similarity-sum",
            Self::All => "similarity-all",
        }
    }

    fn script(self) -> Script {
        match self {
            Self::Sum => Script {
                name: "similarity_sum.py",
                text: include_str!("../../rivals/similarity_sum.py"),
            },
            Self::All => Script {
                name: "similarity_all.py",
                text: include_str!("../../rivals/similarity_all.py"),
            },
        }
    }
}

/// Input of one size, with the truth about it.
#[derive(Debug)]
pub struct Similarity {
    reduction: Reduction,
    /// `[n, d]`.
    shape: [usize; 2],
    x: Vec<f32>,
    truth: Truth,
}

/// What is right, and what it takes to know.
#[derive(Debug)]
struct Truth {
    counts: Vec<u32>,
    /// Values of all pairs up to and with the first that is not below the limit.
    values_until_no: usize,
}

impl Similarity {
    /// Gives `shape` = `[n, d]` normal numbers.
    #[must_use]
    pub fn new(reduction: Reduction, shape: [usize; 2]) -> Self {
        let mut x = vec![0.0; shape[0] * shape[1]];
        Philox::new(SEED).fill_normal_f32(0, &mut x);
        let truth = truth(&x, shape);
        Self {
            reduction,
            shape,
            x,
            truth,
        }
    }

    /// Counts the way it is written down: a row at a time, all pairs of it.
    fn count(&self, counts: &mut [u32]) {
        let [_, d] = self.shape;
        counts.fill(0);
        for row in self.x.chunks_exact(d) {
            for (counts, left) in counts.chunks_exact_mut(d).zip(row) {
                for (count, right) in counts.iter_mut().zip(row) {
                    *count += u32::from((left - right).abs() < LIMIT);
                }
            }
        }
    }

    /// Asks every pair for itself and leaves at the first no.
    fn ask(&self, alike: &mut [bool]) {
        let [_, d] = self.shape;
        for (i, alike) in alike.chunks_exact_mut(d).enumerate() {
            for (j, alike) in alike.iter_mut().enumerate() {
                let mut rows = self.x.chunks_exact(d);
                *alike = rows.all(|row| (row[i] - row[j]).abs() < LIMIT);
            }
        }
    }

    fn rungs(&self, whole: Extent) -> [Rung<'_>; 2] {
        let [_, d] = self.shape;
        let x = Tensor::from_vec(&self.shape, self.x.clone());
        let host = Host::new();
        match self.reduction {
            Reduction::Sum => [
                Rung::on_cpu("loops", whole, d * d, |counts| {
                    self.count(counts);
                    Ok(())
                }),
                Rung::evaluated::<u32>("host", host, whole, move || alike(&x).sum(0)),
            ],
            Reduction::All => [
                Rung::on_cpu("loops", whole, d * d, |alike| {
                    self.ask(alike);
                    Ok(())
                }),
                Rung::evaluated::<bool>("host", host, whole, move || alike(&x).all(0)),
            ],
        }
    }

    fn whole(&self) -> Extent {
        let [n, d] = self.shape;
        let (values, out_bytes) = match self.reduction {
            Reduction::Sum => (n * d * d, size_of::<u32>()),
            Reduction::All => (self.truth.values_until_no, size_of::<bool>()),
        };
        Extent {
            part: Part::whole(d),
            operations: OPERATIONS_PER_VALUE * values as f64,
            bytes: (size_of::<f32>() * n * d + out_bytes * d * d) as f64,
        }
    }
}

/// Gives, as a tensor `[n, d, d]`, in which rows which columns of `x` `[n, d]` are alike.
#[must_use]
pub fn alike(x: &Tensor) -> Tensor {
    (x.expand_dims(2) - x.expand_dims(1)).abs().lt(LIMIT)
}

/// Counts pair by pair, along columns that lie together.
fn truth(x: &[f32], [n, d]: [usize; 2]) -> Truth {
    let columns: Vec<Vec<f32>> = (0..d)
        .map(|j| (0..n).map(|row| x[row * d + j]).collect())
        .collect();
    let mut truth = Truth {
        counts: Vec::with_capacity(d * d),
        values_until_no: 0,
    };
    for left in &columns {
        for right in &columns {
            let is_alike = |(left, right): (&f32, &f32)| (left - right).abs() < LIMIT;
            let values = || left.iter().zip(right).map(is_alike);
            truth.counts.push(values().map(u32::from).sum());
            truth.values_until_no += values().position(|alike| !alike).map_or(n, |at| at + 1);
        }
    }
    truth
}

impl Problem for Similarity {
    fn workload<'a>(&'a self, _gpus: &'a [Gpu]) -> Workload<'a> {
        let [n, d] = self.shape;
        let whole = self.whole();
        Workload {
            name: self.reduction.name(),
            source: "S0",
            size: size(self.shape),
            whole,
            rungs: self.rungs(whole).into(),
            rivals: RivalWork::of(
                &LIBRARIES,
                self.reduction.script(),
                &[("n", n), ("d", d)],
                &[("x", &self.x)],
            ),
            check: Box::new(move |result, _| -> Result<()> {
                let counts = &self.truth.counts;
                match self.reduction {
                    Reduction::Sum => compare(u32::of(result)?, counts, &Bound::exact())?,
                    Reduction::All => {
                        let alike: Vec<bool> = counts.iter().map(|&k| k as usize == n).collect();
                        compare(bool::of(result)?, alike, &Bound::exact())?
                    }
                };
                Ok(())
            }),
        }
    }
}

fn size([n, d]: [usize; 2]) -> String {
    format!("{n}x{d}")
}

/// Gives the tasks of both workloads.
pub fn tasks() -> impl Iterator<Item = Task> {
    [Reduction::Sum, Reduction::All]
        .into_iter()
        .map(|reduction| {
            Task::random(reduction.name(), size(SHAPE), move || {
                Ok(Similarity::new(reduction, SHAPE))
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_truth_of_three_columns_is_counted_by_hand() {
        let x = [0.0, 0.5, 2.0, /* next row */ 0.0, 1.0, 0.5];
        let truth = truth(&x, [2, 3]);
        assert_eq!(truth.counts, [2, 1, 1, 1, 2, 1, 1, 1, 2]);
        // Pairs with themselves take both rows, (0, 1) too, pairs with column 2 leave at the first.
        assert_eq!(truth.values_until_no, 3 * 2 + 2 * 2 + 4);
    }
}
