//! Softmax over rows: `exp(x - max) / Σ exp(x - max)`.
//!
//! Role: the workload `softmax`: two reductions, each needed whole before the next step, over rows that fit a cache.
//! Shapes: `x` and the result `[rows, cols]`, row-major.
//! Accuracy: against f64, relative: `ELEMENT_EPSILONS` for an element and those of the sum of a row.
//! Source: the usual definition; the maximum keeps the exponential from overflow.

use super::{LIBRARIES, SEED};
use crate::rivals::Script;
use crate::roundings;
use crate::workload::{Extent, OutputElement, Part, Problem, RivalWork, Rung, Task, Workload};
use anyhow::Result;
use gpu_wgsl::Gpu;
use tensor_core::compare::{Bound, compare};
use tensor_core::rng::Philox;
use tensor_core::{Host, Tensor};

const NAME: &str = "softmax";
const SCRIPT: Script = Script {
    name: "softmax.py",
    text: include_str!("../../rivals/softmax.py"),
};
/// Rows and columns of the only size.
const SHAPE: [usize; 2] = [4096, 1000];
/// Maximum, subtraction, exponential, sum, division.
const OPERATIONS_PER_ELEMENT: f64 = 5.0;
/// Epsilons of one element: the rounding of `x - max`, which is below 16 and goes into the exponent whole, a few for a
/// fast exponential, one for the division.
const ELEMENT_EPSILONS: usize = 16;

/// Input of one size, with the truth about it.
#[derive(Debug)]
pub struct Softmax {
    /// `[rows, cols]`.
    shape: [usize; 2],
    x: Vec<f32>,
    truth: Vec<f64>,
}

impl Softmax {
    /// Gives normal numbers.
    #[must_use]
    pub fn new(shape: [usize; 2]) -> Self {
        let mut x = vec![0.0; shape[0] * shape[1]];
        Philox::new(SEED).fill_normal_f32(0, &mut x);
        let mut truth = Vec::with_capacity(x.len());
        for row in x.chunks_exact(shape[1]) {
            let powers: Vec<f64> = row.iter().map(|&x| f64::from(x).exp()).collect();
            let sum: f64 = powers.iter().sum();
            truth.extend(powers.iter().map(|power| power / sum));
        }
        Self { shape, x, truth }
    }

    /// Three passes over each row: maximum; exponentials and their sum; division.
    fn loops(&self, out: &mut [f32]) {
        let [_, cols] = self.shape;
        for (row, out) in self.x.chunks_exact(cols).zip(out.chunks_exact_mut(cols)) {
            let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let mut sum = 0.0;
            for (power, x) in out.iter_mut().zip(row) {
                *power = (x - max).exp();
                sum += *power;
            }
            out.iter_mut().for_each(|power| *power /= sum);
        }
    }

    fn rungs(&self, whole: Extent) -> Vec<Rung<'_>> {
        let loops = |out: &mut Vec<f32>| {
            self.loops(out);
            Ok(())
        };
        let x = Tensor::from_vec(&self.shape, self.x.clone());
        vec![
            Rung::on_cpu("loops", whole, self.x.len(), loops),
            Rung::evaluated::<f32>("host", Host::new(), whole, move || x.softmax(1)),
        ]
    }

    fn whole(&self) -> Extent {
        let n = self.x.len() as f64;
        Extent {
            part: Part::whole(self.shape[0]),
            operations: OPERATIONS_PER_ELEMENT * n,
            bytes: 2.0 * n * size_of::<f32>() as f64,
        }
    }

    fn check(&self, result: &[f32]) -> Result<()> {
        let bound = Bound::relative(ELEMENT_EPSILONS + roundings::of_sum(self.shape[1]));
        compare(result, &self.truth, &bound)?;
        Ok(())
    }
}

impl Problem for Softmax {
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
                &[("x", &self.x)],
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
    Task::random(NAME, size(SHAPE), || Ok(Softmax::new(SHAPE)))
}
