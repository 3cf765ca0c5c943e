//! Gradients of a convolution: by its weights (the kernels) and by its inputs (the images).
//!
//! Role: the workload `conv-gradients`: the programs that `grad` derives from the program of
//! `conv`, each alone. A size begins with `by-weights` or `by-inputs`.
//! Shapes: as in `conv`; `cotangent` has the shape of the convolution's result.
//! Accuracy: compared with sums in f64; the tolerance in epsilons of the sum of the absolute values
//! of the terms is that of a sum of `batch · rows · cols` or of `outputs · taps²` terms.
//! Source: as `conv`; the notes train their nets, so each convolution has two gradients.

use super::conv::convolution;
use super::conv::layer::{ConvLayer, Number, len};
use crate::roundings::{self, magnitudes};
use anyhow::Result;
use harness::program::{Array, Input, InputDistribution, Options, TensorWorkload, Truth};
use harness::script;
use harness::workload::{Task, Work};
use std::rc::Rc;
use tensor_core::compare::Tolerance;
use tensor_core::{DType, Tensor, grad};

/// The operand of the convolution by which the gradient is taken.
#[derive(Clone, Copy, Debug)]
pub enum By {
    /// The kernels.
    Weights,
    /// The images.
    Inputs,
}

impl By {
    /// Both operands.
    pub const ALL: [Self; 2] = [Self::Weights, Self::Inputs];

    /// Returns the axes of the operand, which are those of the gradient.
    fn axes(self, layer: &ConvLayer) -> [(&'static str, usize); 4] {
        match self {
            Self::Weights => layer.kernel_axes(),
            Self::Inputs => layer.image_axes(),
        }
    }
}

/// Returns the tasks at the size that is measured.
#[must_use]
pub fn tasks() -> [Task; 2] {
    let layer = ConvLayer::new([8, 16, 58, 58], [32, 3]);
    By::ALL.map(|by| program(layer, by).task())
}

/// Returns the gradient of `Σ y · cotangent`, for the result `y` of a layer with step 1 and without
/// padding. The inputs are the cotangent and the operand that is not `by`, because the gradient
/// does not depend on `by`.
#[must_use]
pub fn program(layer: ConvLayer, by: By) -> TensorWorkload<f32, 2> {
    let (case, other, axes) = match by {
        By::Weights => ("by-weights", "x", layer.image_axes()),
        By::Inputs => ("by-inputs", "kernels", layer.kernel_axes()),
    };
    TensorWorkload {
        name: "conv-gradients",
        source: "S1",
        size: format!("{case}-{}", layer.size()),
        script: script!("conv_gradients.py").with_case(case),
        inputs: [
            Input::new(other, InputDistribution::Normal, 1, &axes),
            Input::new(
                "cotangent",
                InputDistribution::Normal,
                2,
                &layer.result_axes(),
            ),
        ],
        truth: Rc::new(move |arrays| truth(&layer, by, arrays)),
        loops: Rc::new(move |[other, cotangent], out| {
            differentiate(&layer, by, &other.elements, &cotangent.elements, out);
            Ok(())
        }),
        expression: Rc::new(move |arguments| expression(&layer, by, arguments)),
        options: Options {
            runs_on_software: false,
            ..Options::default()
        },
    }
}

/// Returns the gradient as a user requests it. The operand `by` has to exist, but its values do not
/// matter.
fn expression(layer: &ConvLayer, by: By, [other, cotangent]: &[Tensor; 2]) -> Tensor {
    let operand = Tensor::zeros(&by.axes(layer).map(|(_, len)| len), DType::F32);
    let result = match by {
        By::Weights => convolution(layer, other, &operand),
        By::Inputs => convolution(layer, &operand, other),
    };
    let gradients = grad(&(result * cotangent).sum(..), &[&operand]);
    gradients.expect("the shapes are those of one layer")[0].clone()
}

fn truth(layer: &ConvLayer, by: By, [other, cotangent]: &[Array; 2]) -> Result<Truth> {
    let [batch, outputs, rows, cols] = cotangent.sides();
    let n_terms = match by {
        By::Weights => batch * rows * cols,
        By::Inputs => outputs * layer.taps * layer.taps,
    };
    let [other, cotangent] = [other, cotangent].map(Array::in_f64);
    let mut expected = vec![0.0; len(&by.axes(layer))];
    let mut of_magnitudes = expected.clone();
    differentiate(layer, by, &other, &cotangent, &mut expected);
    let [other, cotangent] = [other, cotangent].map(|x| magnitudes(&x));
    differentiate(layer, by, &other, &cotangent, &mut of_magnitudes);
    Ok(Truth {
        expected,
        tolerance: Tolerance::relative(roundings::of_sum(n_terms)).scaled_by(of_magnitudes),
        work: Work::Operations(layer.operations()),
    })
}

/// Computes the gradient by plain loops.
fn differentiate<T: Number>(
    layer: &ConvLayer,
    by: By,
    other: &[T],
    cotangent: &[T],
    gradient: &mut [T],
) {
    match by {
        By::Weights => layer.differentiate_by_kernels(other, cotangent, gradient),
        By::Inputs => layer.differentiate_by_images(other, cotangent, gradient),
    }
}
