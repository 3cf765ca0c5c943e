//! A chain of elementwise steps that ends in one number: the sum of `sigmoid(relu(2 e + 1) · e - 3)`.
//!
//! Role: the workload `chain`: what is left of the time when nothing between the steps goes through memory.
//! Shapes: `e` `[rows, cols]`; the result is one number.
//! Accuracy: against sums in f64. All terms are positive, so errors are relative to the sum: `TERM_EPSILONS` for a
//! term and those of a sum over rows of the sums over columns. One running sum in f32 would lose digits once it is
//! 2²⁴ times a term; the bound does not allow for that.
//! Source: S2, on what a chain of whole-array steps costs unless it is fused.

use super::{LIBRARIES, SEED};
use crate::rivals::Script;
use crate::roundings;
use crate::workload::{Extent, OutputElement, Part, Problem, RivalWork, Rung, Task, Workload};
use anyhow::Result;
use gpu_wgsl::Gpu;
use tensor_core::compare::{Bound, compare};
use tensor_core::rng::Philox;
use tensor_core::{Host, Tensor};

const NAME: &str = "chain";
const SCRIPT: Script = Script {
    name: "chain.py",
    text: include_str!("../../rivals/chain.py"),
};
/// Rows and columns of the only size.
const SHAPE: [usize; 2] = [4096; 2];
/// Two for `2 e + 1`, one for relu, two for `· e - 3`, four for the sigmoid (its exponential counts as one), one for
/// the sum.
const OPERATIONS_PER_ELEMENT: f64 = 10.0;
/// Epsilons of one term: half of one for each step on `z`, of size 3 at most, and a few for a fast exponential.
const TERM_EPSILONS: usize = 16;

/// Input of one size, with the truth about it.
#[derive(Debug)]
pub struct Chain {
    /// `[rows, cols]`.
    shape: [usize; 2],
    e: Vec<f32>,
    truth: f64,
}

impl Chain {
    /// Gives uniform numbers in [0, 1).
    #[must_use]
    pub fn new(shape: [usize; 2]) -> Self {
        let mut e = vec![0.0; shape[0] * shape[1]];
        Philox::new(SEED).fill_uniform_f32(0, &mut e);
        let term = |&e: &f32| {
            let e = f64::from(e);
            1.0 / (1.0 + (-((2.0 * e + 1.0).max(0.0) * e - 3.0)).exp())
        };
        let truth = e.iter().map(term).sum();
        Self { shape, e, truth }
    }

    /// Sums each row for itself and then the rows, so that the running sum stays small.
    fn loops(&self) -> f32 {
        let term = |&e: &f32| {
            let z = (2.0 * e + 1.0).max(0.0) * e - 3.0;
            1.0 / (1.0 + (-z).exp())
        };
        let rows = self.e.chunks_exact(self.shape[1]);
        rows.map(|row| row.iter().map(term).sum::<f32>()).sum()
    }

    fn rungs(&self, whole: Extent) -> Vec<Rung<'_>> {
        let loops = |sum: &mut Vec<f32>| {
            sum[0] = self.loops();
            Ok(())
        };
        let e = Tensor::from_vec(&self.shape, self.e.clone());
        vec![
            Rung::on_cpu("loops", whole, 1, loops),
            Rung::evaluated::<f32>("host", Host::new(), whole, move || expression(&e)),
        ]
    }

    fn whole(&self) -> Extent {
        let n = self.e.len() as f64;
        Extent {
            part: Part::whole(1),
            operations: OPERATIONS_PER_ELEMENT * n,
            bytes: (n + 1.0) * size_of::<f32>() as f64,
        }
    }

    fn check(&self, result: &[f32]) -> Result<()> {
        let sums: usize = self.shape.map(roundings::of_sum).iter().sum();
        compare(result, [self.truth], &Bound::relative(TERM_EPSILONS + sums))?;
        Ok(())
    }
}

/// The chain as a tensor.
fn expression(e: &Tensor) -> Tensor {
    ((e * 2.0 + 1.0).relu() * e - 3.0).sigmoid().sum(..)
}

impl Problem for Chain {
    fn workload<'a>(&'a self, _gpus: &'a [Gpu]) -> Workload<'a> {
        let [rows, cols] = self.shape;
        let whole = self.whole();
        Workload {
            name: NAME,
            source: "S2",
            size: size(self.shape),
            whole,
            rungs: self.rungs(whole),
            rivals: RivalWork::of(
                &LIBRARIES,
                SCRIPT,
                &[("rows", rows), ("cols", cols)],
                &[("e", &self.e)],
            ),
            check: Box::new(|result, _| self.check(f32::of(result)?)),
        }
    }
}

fn size([rows, cols]: [usize; 2]) -> String {
    format!("{rows}x{cols}")
}

/// Gives the only task.
#[must_use]
pub fn task() -> Task {
    Task::random(NAME, size(SHAPE), || Ok(Chain::new(SHAPE)))
}
