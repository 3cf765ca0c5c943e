//! Two matrix products that do not wait for each other: `(x · y + 100) + (x · z + 1000)`.
//!
//! Role: the workload `matmul-pair`: S2's program for out-of-order scheduling.
//! Shapes: `x`, `y`, `z` and the result `[side, side]`, row-major.
//! Accuracy: against the products in f64, as many epsilons as one sum allows and three for what follows, of
//! `Σ|x·y| + Σ|x·z| + 1100`.
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

const NAME: &str = "matmul-pair";
const SCRIPT: Script = Script {
    name: "matmul_pair.py",
    text: include_str!("../../rivals/matmul_pair.py"),
};
/// Side of the only size.
const SIDE: usize = 1000;
/// What is added to the first product and to the second.
const SHIFTS: [f32; 2] = [100.0, 1000.0];

/// Inputs of one size, with the truth about them.
#[derive(Debug)]
pub struct Pair {
    side: usize,
    x: Vec<f32>,
    y: Vec<f32>,
    z: Vec<f32>,
    truth: Vec<f64>,
    magnitudes: Vec<f64>,
}

impl Pair {
    /// Gives matrices of uniform numbers in [-1, 1).
    ///
    /// # Errors
    /// A product of that side does not fit memory.
    pub fn new(side: usize) -> Result<Self> {
        let [x, y, z] = [1, 2, 3].map(|stream| square(side, stream));
        let first = gemm::oracle(&x, &y, [side; 3])?;
        let second = gemm::oracle(&x, &z, [side; 3])?;
        let shift: f64 = SHIFTS.map(f64::from).iter().sum();
        let sum = |one: Vec<f64>, other: Vec<f64>| {
            let pairs = one.into_iter().zip(other);
            pairs.map(|(one, other)| one + other + shift).collect()
        };
        Ok(Self {
            side,
            x,
            y,
            z,
            truth: sum(first.product, second.product),
            magnitudes: sum(first.magnitudes, second.magnitudes),
        })
    }

    /// One product after the other, a row at a time, then one pass over both.
    fn loops(&self, out: &mut [f32]) -> Result<()> {
        let shape = [self.side; 2];
        let [x, y, z] = [&self.x, &self.y, &self.z].map(|m| ArrayView2::from_shape(shape, m));
        let mut second = vec![0.0; out.len()];
        row_broadcast(x.clone()?, y?, ArrayViewMut2::from_shape(shape, &mut *out)?)?;
        row_broadcast(x?, z?, ArrayViewMut2::from_shape(shape, &mut second)?)?;
        for (first, second) in out.iter_mut().zip(second) {
            *first = (*first + SHIFTS[0]) + (second + SHIFTS[1]);
        }
        Ok(())
    }

    fn rungs(&self, whole: Extent) -> Vec<Rung<'_>> {
        let loops = |out: &mut Vec<f32>| self.loops(out);
        let leaf = |m: &Vec<f32>| Tensor::from_vec(&[self.side; 2], m.clone());
        let [x, y, z] = [&self.x, &self.y, &self.z].map(leaf);
        vec![
            Rung::on_cpu("loops", whole, self.side * self.side, loops),
            Rung::evaluated::<f32>("host", Host::new(), whole, move || expression(&x, &y, &z)),
        ]
    }

    fn whole(&self) -> Extent {
        let side = self.side as f64;
        Extent {
            part: Part::whole(self.side),
            operations: side * side * (4.0 * side + 3.0),
            bytes: 4.0 * side * side * size_of::<f32>() as f64,
        }
    }

    fn check(&self, result: &[f32]) -> Result<()> {
        let bound = Bound::relative(roundings::of_sum(self.side) + 3)
            .scaled_by(self.magnitudes.iter().copied());
        compare(result, &self.truth, &bound)?;
        Ok(())
    }
}

/// Gives `(x · y + 100) + (x · z + 1000)` as a tensor.
#[must_use]
pub fn expression(x: &Tensor, y: &Tensor, z: &Tensor) -> Tensor {
    (x.matmul(y) + SHIFTS[0]) + (x.matmul(z) + SHIFTS[1])
}

impl Problem for Pair {
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
                &[("x", &self.x), ("y", &self.y), ("z", &self.z)],
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
    Task::random(NAME, size(SIDE), || Pair::new(SIDE))
}
