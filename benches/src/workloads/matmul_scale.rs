//! A matrix product with an epilogue: `(x · y) · 100 + 10`.
//!
//! Role: the workload `matmul-scale`: whether scale and shift cost a pass over memory of their own.
//! Shapes: `x`, `y` and the result `[side, side]`, row-major.
//! Accuracy: against the product in f64, as many epsilons as the sum allows and two for the epilogue, of
//! `Σ|x·y| · 100 + 10`.
//! Source: S2, lecture on performance in Python.

use super::LIBRARIES;
use super::matmul::{cpu::row_broadcast, square};
use crate::rivals::Script;
use crate::roundings;
use crate::workload::{Extent, OutputElement, Part, Problem, RivalWork, Rung, Task, Workload};
use anyhow::Result;
use gpu_wgsl::Gpu;
use tensor_core::compare::{Bound, compare};
use tensor_core::gemm;
use tensor_core::ndarray::{ArrayView2, ArrayViewMut2};
use tensor_core::{Host, Tensor};

const NAME: &str = "matmul-scale";
const SCRIPT: Script = Script {
    name: "matmul_scale.py",
    text: include_str!("../../rivals/matmul_scale.py"),
};
/// Side of the only size.
const SIDE: usize = 1000;
const SCALE: f32 = 100.0;
const SHIFT: f32 = 10.0;

/// Inputs of one size, with the truth about them.
#[derive(Debug)]
pub struct Scaled {
    side: usize,
    x: Vec<f32>,
    y: Vec<f32>,
    truth: Vec<f64>,
    magnitudes: Vec<f64>,
}

impl Scaled {
    /// Gives matrices of uniform numbers in [-1, 1).
    ///
    /// # Errors
    /// A product of that side does not fit memory.
    pub fn new(side: usize) -> Result<Self> {
        let (x, y) = (square(side, 1), square(side, 2));
        let oracle = gemm::oracle(&x, &y, [side; 3])?;
        let epilogue = |product: f64| product * f64::from(SCALE) + f64::from(SHIFT);
        Ok(Self {
            side,
            x,
            y,
            truth: oracle.product.into_iter().map(epilogue).collect(),
            magnitudes: oracle.magnitudes.into_iter().map(epilogue).collect(),
        })
    }

    /// The product a row at a time, then one pass over it.
    fn loops(&self, out: &mut [f32]) -> Result<()> {
        let shape = [self.side; 2];
        let x = ArrayView2::from_shape(shape, &self.x)?;
        let y = ArrayView2::from_shape(shape, &self.y)?;
        row_broadcast(x, y, ArrayViewMut2::from_shape(shape, &mut *out)?)?;
        out.iter_mut().for_each(|z| *z = *z * SCALE + SHIFT);
        Ok(())
    }

    fn rungs(&self, whole: Extent) -> Vec<Rung<'_>> {
        let loops = |out: &mut Vec<f32>| self.loops(out);
        let [x, y] = [&self.x, &self.y].map(|m| Tensor::from_vec(&[self.side; 2], m.clone()));
        vec![
            Rung::on_cpu("loops", whole, self.side * self.side, loops),
            Rung::evaluated::<f32>("host", Host::new(), whole, move || expression(&x, &y)),
        ]
    }

    fn whole(&self) -> Extent {
        let side = self.side as f64;
        Extent {
            part: Part::whole(self.side),
            operations: 2.0 * side * side * (side + 1.0),
            bytes: 3.0 * side * side * size_of::<f32>() as f64,
        }
    }

    fn check(&self, result: &[f32]) -> Result<()> {
        let bound = Bound::relative(roundings::of_sum(self.side) + 2)
            .scaled_by(self.magnitudes.iter().copied());
        compare(result, &self.truth, &bound)?;
        Ok(())
    }
}

/// Gives `(x · y) · 100 + 10` as a tensor.
#[must_use]
pub fn expression(x: &Tensor, y: &Tensor) -> Tensor {
    x.matmul(y) * SCALE + SHIFT
}

impl Problem for Scaled {
    fn workload<'a>(&'a self, _gpus: &'a [Gpu]) -> Workload<'a> {
        let whole = self.whole();
        Workload {
            name: NAME,
            source: "S2",
            size: size(self.side),
            whole,
            rungs: self.rungs(whole),
            rivals: RivalWork::of(
                &LIBRARIES,
                SCRIPT,
                &[("n", self.side)],
                &[("x", &self.x), ("y", &self.y)],
            ),
            check: Box::new(|result, _| self.check(f32::of(result)?)),
        }
    }
}

fn size(side: usize) -> String {
    format!("{side}x{side}x{side}")
}

/// Gives the only task.
#[must_use]
pub fn task() -> Task {
    Task::random(NAME, size(SIDE), || Scaled::new(SIDE))
}
