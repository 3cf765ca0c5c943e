//! The bias of convolutions and linear layers.

use tensor_core::Tensor;

use super::{Slot, Start};
use crate::network::{Layer, Normalization};

/// Returns the slots of a layer with weights and perhaps a bias.
pub(super) fn with_bias(weight: Slot, n_outputs: usize, has_bias: bool) -> Vec<Slot> {
    let bias = has_bias.then(|| Slot::new("bias", &[n_outputs], Start::Constant(0.0)));
    [weight].into_iter().chain(bias).collect()
}

/// Adds the bias to sums `[…, outputs]`, if the layer has one after its weights.
pub(super) fn plus_bias(sums: Tensor, parameters: &[Tensor]) -> Tensor {
    match parameters.get(1) {
        Some(bias) => sums + bias,
        None => sums,
    }
}

/// Returns the layer of a network with the bias, if there is one after the weights.
pub(super) fn with_frozen_bias(layer: Layer, parameters: &[Vec<f32>]) -> Layer {
    match parameters.get(1) {
        Some(bias) => layer.with_normalization(Normalization::bias(bias)),
        None => layer,
    }
}
