//! Layers of networks in training.
//!
//! Role: each layer is a function of an input, parameters and a state; it returns an output and the
//! next state. All are tensor programs, so that a training step is one plan, which runs on any
//! executor. [`Net`](crate::train::Net) connects layers.
//! Method: forward, weights and activations have the values of their levels; backward, a quantiser
//! has the derivative of a function without steps (straight-through estimator). The levels are part
//! of the state. The output of a step uses the levels of the state, and the next state contains
//! levels that were fitted to the batch.
//! Shapes: inputs and outputs are `[batch, height, width, channels]` of f32. A linear layer reads
//! all elements of an image, in this order.
//! Source: Zhang, Yang, Ye and Hua 2018, "LQ-Nets"; Bengio, Léonard and Courville 2013, "Estimating
//! or propagating gradients through stochastic neurons for conditional computation".

use tensor_core::Tensor;

use crate::error::{Error, Result, check_count};

pub use activations::ActivationLevels;
pub use batch_norm::BatchNorm;
pub use max_pool::MaxPool;
pub use names::Levels;
pub use quant_conv2d::QuantConv2d;
pub use quant_linear::QuantLinear;
pub use weights::WeightLevels;

mod activations;
mod batch_norm;
mod levels;
mod max_pool;
mod names;
mod outputs;
mod quant_conv2d;
mod quant_linear;
mod weights;

#[cfg(test)]
mod tests;

/// The name of weights within their layer.
const WEIGHT: &str = "weight";

/// A tensor that a layer needs: a parameter, which is changed by gradients, or a part of the state.
#[derive(Clone, Debug, PartialEq)]
pub struct Slot {
    /// The name within the layer.
    pub name: &'static str,
    /// The shape. The type is f32.
    pub shape: Vec<usize>,
    /// The values before the first step.
    pub start: Start,
}

/// The name of a tensor within its layer, and its shape.
pub(crate) type NamedShape = (&'static str, Vec<usize>);

/// The values of a tensor before the first step.
#[derive(Clone, Debug, PartialEq)]
pub enum Start {
    /// The same number everywhere.
    Constant(f32),
    /// The numbers of all elements, row-major.
    Numbers(Vec<f32>),
    /// Normally distributed numbers with mean 0.
    Normal {
        /// The standard deviation.
        deviation: f32,
    },
}

/// The results of a layer in a training step.
#[derive(Clone, Debug)]
pub struct Applied {
    /// The output, `[batch, height, width, channels]`.
    pub output: Tensor,
    /// The next state, in the order of the layer's slots.
    pub state: Vec<Tensor>,
}

impl Slot {
    /// Returns whether weight decay changes the parameter: only weights decay.
    pub(crate) fn is_decayed(&self) -> bool {
        self.name == WEIGHT
    }

    fn new(name: &'static str, shape: &[usize], start: Start) -> Self {
        Self {
            name,
            shape: shape.to_vec(),
            start,
        }
    }
}

/// Returns the slot of weights with the standard deviation `√(2 / n)` for `n` inputs per output:
/// the rule of He, Zhang, Ren and Sun 2015, "Delving Deep into Rectifiers", for layers before a
/// `ReLU`.
fn weight_slot(shape: &[usize], n_inputs: usize) -> Slot {
    #[allow(clippy::cast_possible_truncation, reason = "rounding is intended")]
    let deviation = (2.0 / n_inputs.max(1) as f64).sqrt() as f32;
    Slot::new(WEIGHT, shape, Start::Normal { deviation })
}

/// Returns the shapes of slots, with their names.
pub(crate) fn shapes_of(slots: &[Slot]) -> Vec<NamedShape> {
    let shapes = slots.iter().map(|slot| (slot.name, slot.shape.clone()));
    shapes.collect()
}

/// Checks the numbers and the shapes of a layer's parameters and of the tensors of its state.
fn check_tensors(
    operation: &'static str,
    slots: &[Slot],
    parameters: &[Tensor],
    state_shapes: &[NamedShape],
    state: &[Tensor],
) -> Result<()> {
    check_count(operation, "parameters", parameters.len(), slots.len())?;
    check_count(operation, "state", state.len(), state_shapes.len())?;
    let shapes = shapes_of(slots);
    let shapes = shapes.iter().chain(state_shapes);
    for ((name, expected), tensor) in shapes.zip(parameters.iter().chain(state)) {
        let actual = tensor.shape()?;
        if actual != expected {
            return Err(Error::Shape {
                operation,
                quantity: name,
                actual: actual.to_vec(),
                expected: format!("{expected:?}"),
            });
        }
    }
    Ok(())
}

/// Returns the error of a tensor that is no batch of images.
fn not_images(operation: &'static str, x: &Tensor) -> Error {
    Error::Shape {
        operation,
        quantity: "the input",
        actual: x.shape().map_or_else(|_| Vec::new(), <[usize]>::to_vec),
        expected: "[batch, height, width, channels]".to_owned(),
    }
}

/// Returns a tensor of one axis, which is multiplied with or added to channels.
fn row(numbers: &[f32]) -> Tensor {
    Tensor::from_vec(&[numbers.len()], numbers.to_vec())
}
