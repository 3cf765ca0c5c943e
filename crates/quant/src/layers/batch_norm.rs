//! Batch normalization in training.

use std::fmt;

use tensor_core::{Axes, Tensor};

use super::{Applied, Slot, Start, check_tensors, not_images, shapes_of};
use crate::error::{Result, check, positive};
use crate::network::Normalization;

/// A batch normalization: `(x - mean) / √(variance + epsilon) · gamma + beta` with the mean and the
/// variance of each channel over the batch, its rows and columns.
///
/// Parameters: `gamma` and `beta`, `[channels]`, initially 1 and 0. State: `mean` and `variance`,
/// `[channels]`: exponential moving averages of the batches' means and variances, initially 0 and
/// 1, which an exported network uses. As in PyTorch, the variance of a batch is divided by the
/// number of elements for the output, and by this number less 1 for the average. The variance of
/// a single element is divided by 1.
///
/// # Source
/// Ioffe and Szegedy 2015, "Batch normalization: accelerating deep network training by reducing
/// internal covariate shift".
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchNorm {
    epsilon: f32,
    decay: f32,
}

impl fmt::Display for BatchNorm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "batch norm epsilon {}, decay {}",
            self.epsilon, self.decay
        )
    }
}

impl Default for BatchNorm {
    /// Creates a batch normalization with PyTorch's options: epsilon 1e-5 and decay 0.9.
    fn default() -> Self {
        Self {
            epsilon: 1e-5,
            decay: 0.9,
        }
    }
}

impl BatchNorm {
    /// Creates a batch normalization. `decay` is the weight of the old averages in each step.
    ///
    /// # Errors
    /// [`Error::InvalidNumber`](crate::Error::InvalidNumber) unless epsilon is positive and finite,
    /// and the decay at least 0 and less than 1.
    pub fn new(epsilon: f32, decay: f32) -> Result<Self> {
        let operation = "BatchNorm::new";
        positive(operation, "epsilon", epsilon.into())?;
        let expected = "at least 0 and less than 1";
        let is_valid = (0.0..1.0).contains(&decay);
        check(operation, "decay", decay.into(), is_valid, expected)?;
        Ok(Self { epsilon, decay })
    }

    /// Returns the number that is added to the variance.
    #[must_use]
    pub fn epsilon(&self) -> f32 {
        self.epsilon
    }

    /// Returns the weight of the old averages in each step.
    #[must_use]
    pub fn decay(&self) -> f32 {
        self.decay
    }

    /// Returns the parameters for a number of channels.
    #[must_use]
    pub fn parameters(&self, n_channels: usize) -> Vec<Slot> {
        vec![
            Slot::new("gamma", &[n_channels], Start::Constant(1.0)),
            Slot::new("beta", &[n_channels], Start::Constant(0.0)),
        ]
    }

    /// The names of the tensors of the state.
    pub(crate) const STATE: [&str; 2] = ["mean", "variance"];

    /// Returns the state for a number of channels.
    #[must_use]
    pub fn state(&self, n_channels: usize) -> Vec<Slot> {
        let [mean, variance] = Self::STATE;
        vec![
            Slot::new(mean, &[n_channels], Start::Constant(0.0)),
            Slot::new(variance, &[n_channels], Start::Constant(1.0)),
        ]
    }

    /// Returns the output and the next state.
    ///
    /// # Errors
    /// [`Error::Length`](crate::Error::Length) and [`Error::Shape`](crate::Error::Shape) for other
    /// numbers or shapes of tensors, and for an input without axes;
    /// [`Error::Tensor`](crate::Error::Tensor) for an error of a tensor.
    pub fn apply(&self, x: &Tensor, parameters: &[Tensor], state: &[Tensor]) -> Result<Applied> {
        let operation = "BatchNorm::apply";
        let Some((&n_channels, outer)) = x.shape()?.split_last() else {
            return Err(not_images(operation, x));
        };
        let [slots, shapes] = [self.parameters(n_channels), self.state(n_channels)];
        check_tensors(operation, &slots, parameters, &shapes_of(&shapes), state)?;
        let [gamma, beta] = [&parameters[0], &parameters[1]];
        let n_elements: usize = outer.iter().product();
        let axes: Vec<isize> = (0..outer.len()).map(usize::cast_signed).collect();
        let mean = x.mean(Axes::keepdims(axes.clone()));
        let variance = x.var(Axes::keepdims(axes), 0);
        let output = (x - &mean) / (&variance + self.epsilon).sqrt() * gamma + beta;
        let unbiased = n_elements as f64 / n_elements.saturating_sub(1).max(1) as f64;
        let averaged = |old: &Tensor, new: &Tensor| {
            let new = new.stop_gradient().reshape(&[n_channels]);
            old * self.decay + new * (1.0 - self.decay)
        };
        Ok(Applied {
            output,
            state: vec![
                averaged(&state[0], &mean),
                averaged(&state[1], &(variance * unbiased)),
            ],
        })
    }

    /// Returns the normalization with the averages of the state.
    ///
    /// # Errors
    /// As [`Normalization::batch`].
    pub(crate) fn frozen(
        &self,
        parameters: &[Vec<f32>],
        state: &[Vec<f32>],
    ) -> Result<Normalization> {
        Normalization::batch(
            &parameters[0],
            &parameters[1],
            &state[0],
            &state[1],
            self.epsilon,
        )
    }
}
