//! Convolution of a batch of images with kernels, without flipping the kernels, as usual in neural
//! nets.
//!
//! Role: the workload `conv`: a sum over windows, `bchwuv,ocuv->bohw`, which needs no copy of the
//! windows.
//! Shapes: `x` `[batch, channels, height, width]`, `kernels` `[outputs, channels, taps, taps]`,
//! result `[batch, outputs, rows, cols]`, row-major. A size such as `8x16x58x58-32x3x3-s2-p1` has
//! the shape of `x`, the outputs and the taps, the step if it is not 1, and the padding if any.
//! Accuracy: compared with sums in f64; the tolerance in epsilons of `Σ|x·kernel|` is that of a sum
//! of `channels · taps²` terms.
//! Source: the class-project notes on low-bit nets, whose nets consist of convolutions; one size is
//! that of a layer with 16 channels, as in their first block, another that of a layer of `ResNet`
//! with 64 channels.

pub mod layer;

use crate::roundings::{self, magnitudes};
use anyhow::Result;
use harness::program::{
    Array, Expression, Input, InputDistribution, Options, TensorWorkload, Truth,
};
use harness::script;
use harness::workload::Work;
use layer::{ConvLayer, len};
use std::rc::Rc;
use tensor_core::compare::Tolerance;
use tensor_core::{Tensor, einsum};

/// The layers that are measured.
pub const LAYERS: [ConvLayer; 4] = {
    let layer = ConvLayer::new([8, 16, 58, 58], [32, 3]);
    [
        layer,
        ConvLayer { step: 2, ..layer },
        ConvLayer {
            padding: 1,
            ..layer
        },
        ConvLayer::new([16, 64, 56, 56], [64, 3]),
    ]
};

/// Maximum number of operations on a software driver.
const SOFTWARE_OPERATIONS: f64 = 1e9;

/// Returns the convolution of images and kernels of normal numbers.
#[must_use]
pub fn program(layer: ConvLayer) -> TensorWorkload<f32, 2> {
    let windows: Expression<2> = Rc::new(move |[x, kernels]| sum_of_products(&layer, x, kernels));
    TensorWorkload {
        name: "conv",
        source: "S1",
        size: layer.size(),
        script: script!("conv.py"),
        inputs: [
            Input::new("x", InputDistribution::Normal, 1, &layer.image_axes()),
            Input::new(
                "kernels",
                InputDistribution::Normal,
                2,
                &layer.kernel_axes(),
            ),
        ],
        truth: Rc::new(move |arrays| truth(&layer, arrays)),
        loops: Rc::new(move |[x, kernels], out| {
            layer.convolve(&x.elements, &kernels.elements, out);
            Ok(())
        }),
        expression: Rc::new(move |[x, kernels]| convolution(&layer, x, kernels)),
        options: Options {
            libraries: &["numpy", "torch", "torch-onednn", "torch-compile", "jax"],
            sizes: vec![("step", layer.step), ("padding", layer.padding)],
            variants: vec![("windows", windows)],
            runs_on_software: layer.operations() <= SOFTWARE_OPERATIONS,
            ..Options::default()
        },
    }
}

/// Returns the convolution as a product of matrices, whose left factor is a view of the images.
#[must_use]
pub fn convolution(layer: &ConvLayer, x: &Tensor, kernels: &Tensor) -> Tensor {
    einsum("bchwuv,ocuv->bohw", &[&layer.windows(x), kernels])
}

/// Returns the convolution as its definition is written: a sum of products over the last three of
/// the axes (batch, output, row, column, channel, tap, tap).
fn sum_of_products(layer: &ConvLayer, x: &Tensor, kernels: &Tensor) -> Tensor {
    let windows = layer.windows(x).permute(&[0, 2, 3, 1, 4, 5]).expand_dims(1);
    let kernels = kernels.expand_dims(1).expand_dims(1);
    (windows * kernels).sum([4, 5, 6])
}

fn truth(layer: &ConvLayer, [x, kernels]: &[Array; 2]) -> Result<Truth> {
    let kernel_len = kernels.shape[1..].iter().product();
    let [x, kernels] = [x, kernels].map(Array::in_f64);
    let mut expected = vec![0.0; len(&layer.result_axes())];
    let mut of_magnitudes = expected.clone();
    layer.convolve(&x, &kernels, &mut expected);
    layer.convolve(&magnitudes(&x), &magnitudes(&kernels), &mut of_magnitudes);
    Ok(Truth {
        expected,
        tolerance: Tolerance::relative(roundings::of_sum(kernel_len)).scaled_by(of_magnitudes),
        work: Work::Operations(layer.operations()),
    })
}
