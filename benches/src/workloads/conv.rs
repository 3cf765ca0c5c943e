//! Convolution of a batch of images with kernels: stride 1, no padding, as neural nets mean it (no flip).
//!
//! Role: the workload `conv`: a sum over windows, `bchwuv,ocuv->bohw`, which needs no copy of the windows.
//! Shapes: `x` `[batch, channels, height, width]`, `kernels` `[outputs, channels, taps, taps]`, the result
//! `[batch, outputs, height - taps + 1, width - taps + 1]`, row-major.
//! Accuracy: against sums in f64, as many epsilons of `Σ|x·kernel|` as a sum of `channels · taps²` terms allows.
//! Source: S1, whose nets are made of it; a layer of 16 channels as in its first block.

use super::{LIBRARIES, SEED};
use crate::rivals::Script;
use crate::roundings;
use crate::workload::{Extent, OutputElement, Part, Problem, RivalWork, Rung, Task, Workload};
use anyhow::Result;
use gpu_wgsl::Gpu;
use tensor_core::compare::{Bound, compare};
use tensor_core::rng::Philox;
use tensor_core::{Host, Tensor, einsum};

const NAME: &str = "conv";
const SCRIPT: Script = Script {
    name: "conv.py",
    text: include_str!("../../rivals/conv.py"),
};
/// The only size.
const SHAPE: Shape = Shape {
    batch: 8,
    channels: 16,
    height: 58,
    width: 58,
    outputs: 32,
    taps: 3,
};

/// Sides of inputs and kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Images.
    pub batch: usize,
    /// Channels of an image.
    pub channels: usize,
    /// Rows of an image.
    pub height: usize,
    /// Columns of an image.
    pub width: usize,
    /// Kernels, and so channels of the result.
    pub outputs: usize,
    /// Rows and columns of a kernel; at most those of an image.
    pub taps: usize,
}

impl Shape {
    fn image_len(self) -> usize {
        self.channels * self.height * self.width
    }

    fn kernel_len(self) -> usize {
        self.channels * self.taps * self.taps
    }

    /// Rows and columns of the result.
    fn windows(self) -> [usize; 2] {
        [self.height, self.width].map(|side| side + 1 - self.taps)
    }

    fn out_len(self) -> usize {
        self.batch * self.outputs * self.windows().iter().product::<usize>()
    }

    /// Walks the terms of one element of the result: indices into one image and one kernel.
    fn terms(self, row: usize, col: usize) -> impl Iterator<Item = (usize, usize)> {
        (0..self.kernel_len()).map(move |term| {
            let (channel, v) = (term / (self.taps * self.taps), term % self.taps);
            let u = term / self.taps % self.taps;
            let image = (channel * self.height + row + u) * self.width + col + v;
            (image, term)
        })
    }

    fn size(self) -> String {
        let Self {
            batch,
            channels,
            height,
            width,
            outputs,
            taps,
        } = self;
        format!("{batch}x{channels}x{height}x{width}-{outputs}x{taps}x{taps}")
    }
}

/// Inputs of one size, with the truth about them.
#[derive(Debug)]
pub struct Conv {
    shape: Shape,
    x: Vec<f32>,
    kernels: Vec<f32>,
    truth: Vec<f64>,
    magnitudes: Vec<f64>,
}

impl Conv {
    /// Gives normal numbers, as images and as kernels.
    #[must_use]
    pub fn new(shape: Shape) -> Self {
        let mut x = vec![0.0; shape.batch * shape.image_len()];
        let mut kernels = vec![0.0; shape.outputs * shape.kernel_len()];
        let random = Philox::new(SEED);
        random.stream(1).fill_normal_f32(0, &mut x);
        random.stream(2).fill_normal_f32(0, &mut kernels);
        let (truth, magnitudes) = truth(shape, &x, &kernels);
        Self {
            shape,
            x,
            kernels,
            truth,
            magnitudes,
        }
    }

    /// For every tap, adds a whole row of the image, shifted and weighted, to a row of the result.
    fn loops(&self, out: &mut [f32]) {
        let Shape {
            height,
            width,
            taps,
            ..
        } = self.shape;
        let [out_rows, out_cols] = self.shape.windows();
        let images = self.x.chunks_exact(self.shape.image_len());
        let kernels = || self.kernels.chunks_exact(self.shape.kernel_len());
        let pairs = images.flat_map(|image| kernels().map(move |kernel| (image, kernel)));
        for ((image, kernel), plane) in pairs.zip(out.chunks_exact_mut(out_rows * out_cols)) {
            plane.fill(0.0);
            for (term, &weight) in kernel.iter().enumerate() {
                let (channel, u, v) = (term / (taps * taps), term / taps % taps, term % taps);
                for (row, sums) in plane.chunks_exact_mut(out_cols).enumerate() {
                    let from = (channel * height + row + u) * width + v;
                    for (sum, &x) in sums.iter_mut().zip(&image[from..]) {
                        *sum += weight * x;
                    }
                }
            }
        }
    }

    fn rungs(&self, whole: Extent) -> Vec<Rung<'_>> {
        let loops = |out: &mut Vec<f32>| {
            self.loops(out);
            Ok(())
        };
        let Shape {
            batch,
            channels,
            height,
            width,
            outputs,
            taps,
        } = self.shape;
        let x = Tensor::from_vec(&[batch, channels, height, width], self.x.clone());
        let windows = x.window(2, taps, 1).window(3, taps, 1);
        let kernels = Tensor::from_vec(&[outputs, channels, taps, taps], self.kernels.clone());
        vec![
            Rung::on_cpu("loops", whole, self.shape.out_len(), loops),
            Rung::evaluated::<f32>("windows", Host::new(), whole, {
                let (windows, kernels) = (windows.clone(), kernels.clone());
                move || sum_of_products(&windows, &kernels)
            }),
            Rung::evaluated::<f32>("host", Host::new(), whole, move || {
                einsum("bchwuv,ocuv->bohw", &[&windows, &kernels])
            }),
        ]
    }

    fn whole(&self) -> Extent {
        let out_len = self.shape.out_len();
        let n_numbers = self.x.len() + self.kernels.len() + out_len;
        Extent {
            part: Part::whole(self.shape.batch),
            operations: 2.0 * out_len as f64 * self.shape.kernel_len() as f64,
            bytes: (n_numbers * size_of::<f32>()) as f64,
        }
    }

    fn check(&self, result: &[f32]) -> Result<()> {
        let bound = Bound::relative(roundings::of_sum(self.shape.kernel_len()))
            .scaled_by(self.magnitudes.iter().copied());
        compare(result, &self.truth, &bound)?;
        Ok(())
    }
}

/// What the convolution is, written down: a sum over the last three of the axes (batch, output, row, column, channel,
/// tap, tap).
fn sum_of_products(windows: &Tensor, kernels: &Tensor) -> Tensor {
    let windows = windows.permute(&[0, 2, 3, 1, 4, 5]).expand_dims(1);
    let kernels = kernels.expand_dims(1).expand_dims(1);
    (windows * kernels).sum([4, 5, 6])
}

/// Gives every element of the result as the sum of its terms, and the sum of their sizes.
fn truth(shape: Shape, x: &[f32], kernels: &[f32]) -> (Vec<f64>, Vec<f64>) {
    let [out_rows, out_cols] = shape.windows();
    let (mut truth, mut magnitudes) = (Vec::new(), Vec::new());
    for image in x.chunks_exact(shape.image_len()) {
        for kernel in kernels.chunks_exact(shape.kernel_len()) {
            for place in 0..out_rows * out_cols {
                let (mut sum, mut magnitude) = (0.0, 0.0);
                for (at, tap) in shape.terms(place / out_cols, place % out_cols) {
                    let term = f64::from(image[at]) * f64::from(kernel[tap]);
                    sum += term;
                    magnitude += term.abs();
                }
                truth.push(sum);
                magnitudes.push(magnitude);
            }
        }
    }
    (truth, magnitudes)
}

impl Problem for Conv {
    fn workload<'a>(&'a self, _gpus: &'a [Gpu]) -> Workload<'a> {
        let shape = self.shape;
        let whole = self.whole();
        Workload {
            name: NAME,
            source: "S1",
            size: shape.size(),
            whole,
            rungs: self.rungs(whole),
            rivals: RivalWork::of(
                &LIBRARIES,
                SCRIPT,
                &[
                    ("batch", shape.batch),
                    ("channels", shape.channels),
                    ("height", shape.height),
                    ("width", shape.width),
                    ("outputs", shape.outputs),
                    ("taps", shape.taps),
                ],
                &[("x", &self.x), ("kernels", &self.kernels)],
            ),
            check: Box::new(|result, _| self.check(f32::of(result)?)),
        }
    }
}

/// Gives the only task.
#[must_use]
pub fn task() -> Task {
    Task::random(NAME, SHAPE.size(), || Ok(Conv::new(SHAPE)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_windows_of_a_small_image_are_summed_by_hand() {
        let shape = Shape {
            batch: 1,
            channels: 1,
            height: 2,
            width: 3,
            outputs: 1,
            taps: 2,
        };
        let (x, kernel) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0, -1.0, 10.0, 100.0]);
        let (truth, magnitudes) = truth(shape, &x, &kernel);
        // 1 - 2 + 40 + 500 and 2 - 3 + 50 + 600.
        assert_eq!(truth, [539.0, 649.0]);
        assert_eq!(magnitudes, [543.0, 655.0]);
    }
}
