//! The layers of nets, from which the tensor program, the oracle and the count of operations are
//! derived.

use tensor_core::{Tensor, einsum};

/// A layer, applied to each sample independently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layer {
    /// `x · w + b` with weights `[inputs, outputs]`. Samples of any shape are flattened to rows
    /// first.
    Dense {
        /// Length of an input sample.
        inputs: usize,
        /// Length of an output sample.
        outputs: usize,
    },
    /// Convolution without padding: each window of a square image times each filter, plus a bias
    /// per filter. Weights are `[outputs, inputs, taps, taps]`.
    Conv {
        /// Number of channels of the image.
        inputs: usize,
        /// Number of filters.
        outputs: usize,
        /// Side of the image, in pixels.
        side: usize,
        /// Side of a window, in pixels.
        taps: usize,
        /// Distance from one window to the next, in pixels (the stride).
        step: usize,
    },
    /// `max(x, 0)` of each element of a sample; holds the number of elements.
    Relu(usize),
}

impl Layer {
    /// Returns the side of a convolution's output.
    ///
    /// # Panics
    /// If the windows are larger than the image, or their distance is 0.
    #[must_use]
    pub fn side_after(side: usize, taps: usize, step: usize) -> usize {
        (side - taps) / step + 1
    }

    /// Returns whether a convolution has at least one window, at positive distances from each
    /// other; `true` for other layers.
    #[must_use]
    pub fn has_windows(&self) -> bool {
        match *self {
            Self::Dense { .. } | Self::Relu(_) => true,
            Self::Conv {
                side, taps, step, ..
            } => (1..=side).contains(&taps) && step > 0,
        }
    }

    /// Returns the length of an input sample.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.input_shape().iter().product()
    }

    /// Returns the shape of an input sample.
    #[must_use]
    pub fn input_shape(&self) -> Vec<usize> {
        match *self {
            Self::Dense { inputs, .. } | Self::Relu(inputs) => vec![inputs],
            Self::Conv { inputs, side, .. } => vec![inputs, side, side],
        }
    }

    /// Returns the length of an output sample.
    ///
    /// # Panics
    /// As [`Layer::side_after`].
    #[must_use]
    pub fn outputs(&self) -> usize {
        match *self {
            Self::Dense { outputs, .. } | Self::Relu(outputs) => outputs,
            Self::Conv {
                outputs,
                side,
                taps,
                step,
                ..
            } => outputs * Self::side_after(side, taps, step).pow(2),
        }
    }

    /// Returns the shapes of weights and biases, each with the largest absolute initial value. As
    /// in PyTorch's layers, this value is `1 / √n` for `n` inputs per output.
    #[must_use]
    pub fn parameters(&self) -> Vec<(Vec<usize>, f32)> {
        let (weights, outputs, fan_in) = match *self {
            Self::Dense { inputs, outputs } => (vec![inputs, outputs], outputs, inputs),
            Self::Conv {
                inputs,
                outputs,
                taps,
                ..
            } => (
                vec![outputs, inputs, taps, taps],
                outputs,
                inputs * taps * taps,
            ),
            Self::Relu(_) => return Vec::new(),
        };
        let scale = 1.0 / (fan_in as f32).sqrt();
        vec![(weights, scale), (vec![outputs], scale)]
    }

    /// Returns the number of additions and multiplications of the forward pass for one sample.
    ///
    /// # Panics
    /// As [`Layer::side_after`].
    #[must_use]
    pub fn operations(&self) -> f64 {
        let fan_in = match *self {
            Self::Dense { inputs, .. } => inputs,
            Self::Conv { inputs, taps, .. } => inputs * taps * taps,
            Self::Relu(_) => return 0.0,
        };
        2.0 * (fan_in * self.outputs()) as f64
    }

    fn apply(&self, x: &Tensor, parameters: &[Tensor]) -> Tensor {
        let rows = |x: &Tensor| match x.shape() {
            Ok(shape) => x.reshape(&[shape[0], self.inputs()]),
            Err(_) => x.clone(),
        };
        match *self {
            Self::Dense { .. } => rows(x).matmul(&parameters[0]) + &parameters[1],
            Self::Conv {
                outputs,
                taps,
                step,
                ..
            } => {
                // `window` adds an axis: `[batch, channels, h, w]` becomes `[batch, channels, rows,
                // cols, u, v]`, with `[u, v]` inside the window.
                let windows = x.window(2, taps, step).window(3, taps, step);
                let sums = einsum("bchwuv,ocuv->bohw", &[&windows, &parameters[0]]);
                sums + parameters[1].reshape(&[outputs, 1, 1])
            }
            Self::Relu(_) => x.relu(),
        }
    }
}

/// Returns the output of a net for a batch. `parameters` holds weights and biases in the order of
/// the layers.
#[must_use]
pub fn outputs(layers: &[Layer], parameters: &[Tensor], batch: &Tensor) -> Tensor {
    let (mut x, mut rest) = (batch.clone(), parameters);
    for layer in layers {
        let (own, others) = rest.split_at(layer.parameters().len());
        x = layer.apply(&x, own);
        rest = others;
    }
    x
}
