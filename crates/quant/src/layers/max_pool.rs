//! Max-pooling in training.

use tensor_core::Tensor;

use crate::error::{Error, Result};
use crate::network::check_pool;
use crate::window::Window;

/// A max-pool: the maximum of each window. Positions outside of the image do not count.
///
/// Elements of a window that are all equal to its maximum share the gradient in equal parts.
/// (PyTorch passes the gradient to the first of them.) Such ties are rare among floats, but usual
/// in networks whose weights and activations have one bit: sums of few products of two levels have
/// few values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxPool {
    window: Window,
}

impl MaxPool {
    /// Creates a max-pool.
    ///
    /// # Errors
    /// [`Error::InvalidNumber`] for a size or a stride of 0, a dilation other than 1, and a padding
    /// that is not smaller than the window.
    pub fn new(window: Window) -> Result<Self> {
        check_pool("MaxPool::new", &window)?;
        Ok(Self { window })
    }

    /// Returns the window.
    #[must_use]
    pub fn window(&self) -> Window {
        self.window
    }

    /// Returns the size `[height, width, channels]` of the output for an image of a size.
    ///
    /// # Errors
    /// As [`Window::output_size`].
    pub fn output_size(&self, [height, width, n_channels]: [usize; 3]) -> Result<[usize; 3]> {
        let [height, width] = self.window.output_size([height, width])?;
        Ok([height, width, n_channels])
    }

    /// Returns the maxima of `[batch, height, width, channels]`.
    ///
    /// # Errors
    /// [`Error::Tensor`] for an error of `x`.
    pub fn apply(&self, x: &Tensor) -> Result<Tensor> {
        x.shape().map_err(Error::from)?;
        Ok(self.window.maxima(x, f32::NEG_INFINITY))
    }
}
