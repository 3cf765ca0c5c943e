//! The layers of nets: what a program, an oracle and a count of operations are made from.

use tensor_core::{Tensor, einsum};

/// A layer; each sample goes through by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layer {
    /// `x · w + b`: weights `[inputs, outputs]`. Images become rows on the way.
    Dense {
        /// Length of a sample.
        inputs: usize,
        /// Length of a result.
        outputs: usize,
    },
    /// Windows of an image, each multiplied with every filter, and a bias for each: weights `[outputs, inputs, taps, taps]`.
    Conv {
        /// Channels of the image.
        inputs: usize,
        /// Filters.
        outputs: usize,
        /// Sides of a square image.
        side: usize,
        /// Sides of a window.
        taps: usize,
        /// Steps from one window to the next.
        step: usize,
    },
    /// `max(x, 0)` of so many elements.
    Relu(usize),
}

impl Layer {
    /// The sides of what a convolution makes.
    #[must_use]
    pub fn side_after(side: usize, taps: usize, step: usize) -> usize {
        (side - taps) / step + 1
    }

    /// Length of a sample.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.input_shape().iter().product()
    }

    /// Shape of a sample.
    #[must_use]
    pub fn input_shape(&self) -> Vec<usize> {
        match *self {
            Self::Dense { inputs, .. } | Self::Relu(inputs) => vec![inputs],
            Self::Conv { inputs, side, .. } => vec![inputs, side, side],
        }
    }

    /// Length of a result.
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

    /// Shapes of weights and biases, and the size that first values are below: one over the root of the inputs of one output,
    /// as PyTorch's layers have it.
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

    /// Additions and multiplications of one sample, forward.
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
                let windows = x.window(2, taps, step).window(3, taps, step);
                let sums = einsum("bchwuv,ocuv->bohw", &[&windows, &parameters[0]]);
                sums + parameters[1].reshape(&[outputs, 1, 1])
            }
            Self::Relu(_) => x.relu(),
        }
    }
}

/// What a net makes of a batch.
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
