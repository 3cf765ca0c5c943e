//! Convolutions in training.

use tensor_core::Tensor;

use super::outputs::{plus_bias, with_bias, with_frozen_bias};
use super::{Applied, Slot, WeightLevels, check_tensors, not_images, weight_slot};
use crate::error::{Result, check_groups, check_outputs, finite, product};
use crate::network::{Layer, convolved};
use crate::window::Window;

/// A convolution with quantised or float weights.
///
/// Parameters: `weight`, `[outputs, height, width, channels of a group]`, and `bias`, `[outputs]`,
/// if the layer has one. State: that of the levels of the weights.
#[derive(Clone, Debug, PartialEq)]
pub struct QuantConv2d {
    /// The number of output channels.
    pub n_outputs: usize,
    /// The window.
    pub window: Window,
    /// The number of groups into which input and output channels are divided.
    pub n_groups: usize,
    /// The value of the positions outside of the image.
    pub padding_value: f32,
    /// The levels of the weights.
    pub levels: WeightLevels,
    /// Whether a bias is added.
    pub has_bias: bool,
}

impl QuantConv2d {
    /// Creates a convolution of float weights with one group and padding value 0, without bias.
    #[must_use]
    pub fn new(n_outputs: usize, window: Window) -> Self {
        Self {
            n_outputs,
            window,
            n_groups: 1,
            padding_value: 0.0,
            levels: WeightLevels::Float,
            has_bias: false,
        }
    }

    /// Returns the size `[height, width, channels]` of the output for an image of a size.
    ///
    /// # Errors
    /// [`Error::Groups`](crate::Error::Groups) for channels that the groups do not divide;
    /// [`Error::Window`](crate::Error::Window) for a window that does not fit;
    /// [`Error::BitCount`](crate::Error::BitCount) for an unsupported number of bits;
    /// [`Error::InvalidNumber`](crate::Error::InvalidNumber) for more than 2^20 outputs or a
    /// padding value that is not finite.
    pub fn output_size(&self, [height, width, n_channels]: [usize; 3]) -> Result<[usize; 3]> {
        let operation = "QuantConv2d";
        check_groups(operation, self.n_groups, [n_channels, self.n_outputs])?;
        check_outputs(operation, self.n_outputs)?;
        finite(operation, "padding value", self.padding_value.into())?;
        self.levels.check(operation)?;
        let [rows, cols] = self.window.output_size([height, width])?;
        Ok([rows, cols, self.n_outputs])
    }

    /// Returns the parameters for an image of a size.
    #[must_use]
    pub fn parameters(&self, [_, _, n_channels]: [usize; 3]) -> Vec<Slot> {
        let [taps_y, taps_x] = self.window.size;
        let shape = [
            self.n_outputs,
            taps_y,
            taps_x,
            n_channels / self.n_groups.max(1),
        ];
        let n_inputs = product(&shape[1..]);
        with_bias(weight_slot(&shape, n_inputs), self.n_outputs, self.has_bias)
    }

    /// Returns the state before the first step with these weights.
    ///
    /// # Errors
    /// [`Error::NotANumber`](crate::Error::NotANumber) and
    /// [`Error::InvalidNumber`](crate::Error::InvalidNumber) for weights that are not finite.
    pub fn state(&self, weights: &[f32]) -> Result<Vec<Slot>> {
        self.levels.state(weights, self.n_outputs)
    }

    /// Returns the output and the next state.
    ///
    /// # Errors
    /// [`Error::Length`](crate::Error::Length) and [`Error::Shape`](crate::Error::Shape) for other
    /// numbers or shapes of tensors; the errors of [`output_size`](Self::output_size);
    /// [`Error::Tensor`](crate::Error::Tensor) for an error of a tensor.
    pub fn apply(&self, x: &Tensor, parameters: &[Tensor], state: &[Tensor]) -> Result<Applied> {
        let operation = "QuantConv2d::apply";
        let &[batch, height, width, n_channels] = x.shape()? else {
            return Err(not_images(operation, x));
        };
        let image = [height, width, n_channels];
        let [rows, cols, _] = self.output_size(image)?;
        let slots = self.parameters(image);
        let shapes = self.levels.state_shapes(self.n_outputs)?;
        check_tensors(operation, &slots, parameters, &shapes, state)?;
        let weights = &parameters[0];
        let shape = weights.shape()?;
        let flat = weights.reshape(&[self.n_outputs, shape[1..].iter().product()]);
        let (levels, state) = self.levels.apply(&flat, state)?;
        let windows = self.window.views(x, self.padding_value);
        let levels = levels.reshape(shape);
        let sums = convolved(&windows, &levels, [batch, rows, cols], self.n_groups);
        Ok(Applied {
            output: plus_bias(sums, parameters),
            state,
        })
    }

    /// Returns the layer of a network with trained weights, without pooling and activation.
    pub(crate) fn frozen(
        &self,
        name: &str,
        parameters: &[Vec<f32>],
        state: &[Vec<f32>],
    ) -> Result<Layer> {
        let weights = self
            .levels
            .frozen(parameters[0].clone(), self.n_outputs, state)?;
        let layer = Layer::new(name, self.n_outputs, self.window, weights)
            .with_groups(self.n_groups)
            .with_padding_value(self.padding_value);
        Ok(with_frozen_bias(layer, parameters))
    }
}
