//! Convolution of a batch of images with kernels: stride 1, no padding, without flipping the
//! kernels, as usual in neural nets.
//!
//! Role: the workload `conv`: a sum over windows, `bchwuv,ocuv->bohw`, which needs no copy of the
//! windows.
//! Shapes: `x` `[batch, channels, height, width]`, `kernels` `[outputs, channels, taps, taps]`,
//! result `[batch, outputs, height - taps + 1, width - taps + 1]`, row-major.
//! Accuracy: compared with sums in f64; the tolerance in epsilons of `Σ|x·kernel|` is that of a sum
//! of `channels · taps²` terms.
//! Source: the class-project notes on low-bit nets, whose nets consist of convolutions; the size is
//! that of a layer with 16 channels, as in their first block.

use crate::roundings;
use anyhow::Result;
use harness::program::{
    Array, Expression, Input, InputDistribution, Options, TensorWorkload, Truth,
};
use harness::script;
use harness::workload::Work;
use std::rc::Rc;
use tensor_core::compare::Tolerance;
use tensor_core::{Tensor, einsum};

/// Returns the convolution of images `x` `[batch, channels, height, width]` with `outputs` kernels
/// of `taps` × `taps` elements, all of them normal numbers; `taps` must not exceed the height or
/// width.
#[must_use]
pub fn program(x: [usize; 4], [outputs, taps]: [usize; 2]) -> TensorWorkload<f32, 2> {
    let [batch, channels, height, width] = x;
    let taps_axis = ("taps", taps);
    let images = [
        ("batch", batch),
        ("channels", channels),
        ("height", height),
        ("width", width),
    ];
    let kernels = [("outputs", outputs), images[1], taps_axis, taps_axis];
    TensorWorkload {
        name: "conv",
        source: "S1",
        size: format!("{batch}x{channels}x{height}x{width}-{outputs}x{taps}x{taps}"),
        script: script!("conv.py"),
        inputs: [
            Input::new("x", InputDistribution::Normal, 1, &images),
            Input::new("kernels", InputDistribution::Normal, 2, &kernels),
        ],
        truth: Rc::new(truth),
        loops: Rc::new(loops),
        expression: Rc::new(|[x, kernels]| {
            einsum("bchwuv,ocuv->bohw", &[&windows(x, kernels), kernels])
        }),
        options: Options {
            variants: vec![("windows", Rc::new(sum_of_products) as Expression<2>)],
            ..Options::default()
        },
    }
}

/// Returns the windows `[batch, channels, row, column, tap, tap]` of the images, as views.
fn windows(x: &Tensor, kernels: &Tensor) -> Tensor {
    let taps = kernels.shape().expect("an input has a shape")[3];
    x.window(2, taps, 1).window(3, taps, 1)
}

/// Returns the convolution as its definition is written: a sum of products over the last three of
/// the axes (batch, output, row, column, channel, tap, tap).
fn sum_of_products([x, kernels]: &[Tensor; 2]) -> Tensor {
    let windows = windows(x, kernels)
        .permute(&[0, 2, 3, 1, 4, 5])
        .expand_dims(1);
    let kernels = kernels.expand_dims(1).expand_dims(1);
    (windows * kernels).sum([4, 5, 6])
}

fn truth([x, kernels]: &[Array; 2]) -> Result<Truth> {
    let kernel_len = kernels.shape[1..].iter().product();
    let (expected, magnitudes) = sums(x, kernels);
    Ok(Truth {
        work: Work::Operations(2.0 * expected.len() as f64 * kernel_len as f64),
        tolerance: Tolerance::relative(roundings::of_sum(kernel_len)).scaled_by(magnitudes),
        expected,
    })
}

/// Returns every element of the result, and the sum of the absolute values of its terms.
fn sums(x: &Array, kernels: &Array) -> (Vec<f64>, Vec<f64>) {
    let [_, _, height, width] = x.sides();
    let [_, _, taps, _] = kernels.sides();
    let (mut sums, mut magnitudes) = (Vec::new(), Vec::new());
    for (image, kernel) in planes(x, kernels) {
        for row in 0..=height - taps {
            for col in 0..=width - taps {
                let from = row * width + col;
                let (mut sum, mut magnitude) = (0.0, 0.0);
                for (tap, &weight) in kernel.iter().enumerate() {
                    let at = from + offset(tap, taps, [height, width]);
                    let term = f64::from(image[at]) * f64::from(weight);
                    sum += term;
                    magnitude += term.abs();
                }
                sums.push(sum);
                magnitudes.push(magnitude);
            }
        }
    }
    (sums, magnitudes)
}

/// For each tap, adds a whole row of the image, shifted and weighted, to a row of the result.
fn loops([x, kernels]: &[Array; 2], out: &mut [f32]) -> Result<()> {
    let [_, _, height, width] = x.sides();
    let [_, _, taps, _] = kernels.sides();
    let [out_rows, out_cols] = [height, width].map(|side| side + 1 - taps);
    let out = out.chunks_exact_mut(out_rows * out_cols);
    for ((image, kernel), plane) in planes(x, kernels).zip(out) {
        plane.fill(0.0);
        for (tap, &weight) in kernel.iter().enumerate() {
            let shifted = &image[offset(tap, taps, [height, width])..];
            for (row, sums) in plane.chunks_exact_mut(out_cols).enumerate() {
                for (sum, &x) in sums.iter_mut().zip(&shifted[row * width..]) {
                    *sum += weight * x;
                }
            }
        }
    }
    Ok(())
}

/// Iterates over the pairs of image and kernel, one pair for each plane of the result, in the order
/// of the result.
fn planes<'a>(x: &'a Array, kernels: &'a Array) -> impl Iterator<Item = (&'a [f32], &'a [f32])> {
    let with_each = |image| kernels.items().map(move |kernel| (image, kernel));
    x.items().flat_map(with_each)
}

/// Returns the offset in the image of the element for kernel element `tap`, relative to the first
/// element of the window. `tap` is an index into a kernel `[channels, taps, taps]`.
fn offset(tap: usize, taps: usize, [height, width]: [usize; 2]) -> usize {
    let (channel, u, v) = (tap / (taps * taps), tap / taps % taps, tap % taps);
    (channel * height + u) * width + v
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_windows_of_a_small_image_are_summed_by_hand() {
        let array = |shape: [usize; 4], elements: &[f32]| Array {
            shape: shape.into(),
            elements: elements.into(),
        };
        let x = array([1, 1, 2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let kernel = array([1, 1, 2, 2], &[1.0, -1.0, 10.0, 100.0]);
        let (sums, magnitudes) = sums(&x, &kernel);
        // 1 - 2 + 40 + 500 and 2 - 3 + 50 + 600.
        assert_eq!(sums, [539.0, 649.0]);
        assert_eq!(magnitudes, [543.0, 655.0]);
    }
}
