//! Linear layers in training.

use tensor_core::Tensor;

use super::outputs::{plus_bias, with_bias, with_frozen_bias};
use super::{Applied, Slot, WeightLevels, check_tensors, not_images, weight_slot};
use crate::error::{Result, check_outputs, product};
use crate::network::Layer;
use crate::window::Window;

/// A linear layer with quantised or float weights: each output is a sum over all elements of an
/// image.
///
/// Parameters: `weight`, `[outputs, height · width · channels]`, and `bias`, `[outputs]`, if the
/// layer has one. State: that of the levels of the weights.
#[derive(Clone, Debug, PartialEq)]
pub struct QuantLinear {
    /// The number of outputs.
    pub n_outputs: usize,
    /// The levels of the weights.
    pub levels: WeightLevels,
    /// Whether a bias is added.
    pub has_bias: bool,
}

impl QuantLinear {
    /// Creates a layer of float weights without bias.
    #[must_use]
    pub fn new(n_outputs: usize) -> Self {
        Self {
            n_outputs,
            levels: WeightLevels::Float,
            has_bias: false,
        }
    }

    /// Returns the layer with a bias.
    #[must_use]
    pub fn with_bias(self) -> Self {
        Self {
            has_bias: true,
            ..self
        }
    }

    /// Returns the size `[1, 1, outputs]` of the output.
    ///
    /// # Errors
    /// [`Error::InvalidNumber`](crate::Error::InvalidNumber) unless there are 1 to 2^20 outputs;
    /// [`Error::BitCount`](crate::Error::BitCount) for an unsupported number of bits;
    /// [`Error::Window`](crate::Error::Window) for an image that is larger than any window.
    pub fn output_size(&self, [height, width, _]: [usize; 3]) -> Result<[usize; 3]> {
        let operation = "QuantLinear";
        check_outputs(operation, self.n_outputs)?;
        self.levels.check(operation)?;
        Window::new([height, width]).output_size([height, width])?;
        Ok([1, 1, self.n_outputs])
    }

    /// Returns the parameters for an image of a size.
    #[must_use]
    pub fn parameters(&self, image: [usize; 3]) -> Vec<Slot> {
        let n_inputs = product(&image);
        let weight = weight_slot(&[self.n_outputs, n_inputs], n_inputs);
        with_bias(weight, self.n_outputs, self.has_bias)
    }

    /// Returns the state before the first step with these weights.
    ///
    /// # Errors
    /// [`Error::NotANumber`](crate::Error::NotANumber) and
    /// [`Error::InvalidNumber`](crate::Error::InvalidNumber) for weights
    /// that are not finite.
    pub fn state(&self, weights: &[f32]) -> Result<Vec<Slot>> {
        self.levels.state(weights, self.n_outputs)
    }

    /// Returns the output, `[batch, 1, 1, outputs]`, and the next state.
    ///
    /// # Errors
    /// [`Error::Length`](crate::Error::Length) and [`Error::Shape`](crate::Error::Shape) for other
    /// numbers or shapes of tensors; the errors of [`output_size`](Self::output_size);
    /// [`Error::Tensor`](crate::Error::Tensor) for an error of a tensor.
    pub fn apply(&self, x: &Tensor, parameters: &[Tensor], state: &[Tensor]) -> Result<Applied> {
        let operation = "QuantLinear::apply";
        let &[batch, height, width, n_channels] = x.shape()? else {
            return Err(not_images(operation, x));
        };
        let image = [height, width, n_channels];
        self.output_size(image)?;
        let slots = self.parameters(image);
        let shapes = self.levels.state_shapes(self.n_outputs)?;
        check_tensors(operation, &slots, parameters, &shapes, state)?;
        let rows = x.reshape(&[batch, height * width * n_channels]);
        let (levels, state) = self.levels.apply(&parameters[0], state)?;
        let sums = plus_bias(rows.matmul(&levels.t()), parameters);
        Ok(Applied {
            output: sums.reshape(&[batch, 1, 1, self.n_outputs]),
            state,
        })
    }

    /// Returns the layer of a network with trained weights: a convolution whose window is the whole
    /// image, without pooling and activation.
    pub(crate) fn frozen(
        &self,
        name: &str,
        [height, width, _]: [usize; 3],
        parameters: &[Vec<f32>],
        state: &[Vec<f32>],
    ) -> Result<Layer> {
        let weights = self
            .levels
            .frozen(parameters[0].clone(), self.n_outputs, state)?;
        let layer = Layer::new(name, self.n_outputs, Window::new([height, width]), weights);
        Ok(with_frozen_bias(layer, parameters))
    }
}
