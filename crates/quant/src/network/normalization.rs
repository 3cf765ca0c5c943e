//! The bias and the batch normalization of a layer.

use tensor_core::Tensor;

use crate::error::{Error, Result, finite, positive};
use crate::level_set::rounded;

/// A bias and a batch normalization with fixed statistics, per channel:
/// `((x + bias) - mean) * factor + shift`, each operation rounded to f32.
#[derive(Clone, Debug, PartialEq)]
pub struct Normalization {
    pub(crate) bias: Vec<f32>,
    pub(crate) mean: Vec<f32>,
    pub(crate) factor: Vec<f32>,
    pub(crate) shift: Vec<f32>,
}

impl Normalization {
    /// Creates the identity.
    #[must_use]
    pub fn identity(n_channels: usize) -> Self {
        Self::bias(&vec![0.0; n_channels])
    }

    /// Creates the addition of a bias.
    #[must_use]
    pub fn bias(bias: &[f32]) -> Self {
        Self {
            bias: bias.to_vec(),
            mean: vec![0.0; bias.len()],
            factor: vec![1.0; bias.len()],
            shift: vec![0.0; bias.len()],
        }
    }

    /// Creates a batch normalization: `(x - mean) * gamma / sqrt(variance + epsilon) + beta`.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] for slices of different lengths; [`Error::InvalidNumber`] for a
    /// number that is not finite, and unless `variance + epsilon` is positive.
    pub fn batch(
        gamma: &[f32],
        beta: &[f32],
        mean: &[f32],
        variance: &[f32],
        epsilon: f32,
    ) -> Result<Self> {
        let operation = "Normalization::batch";
        for other in [beta, mean, variance] {
            if other.len() != gamma.len() {
                return Err(Error::LengthMismatch {
                    operation,
                    left: gamma.len(),
                    right: other.len(),
                });
            }
        }
        let factors = gamma.iter().zip(variance).map(|(&gamma, &variance)| {
            let width = f64::from(variance) + f64::from(epsilon);
            positive(operation, "variance + epsilon", width)?;
            Ok(rounded(f64::from(gamma) / width.sqrt()))
        });
        let normalization = Self {
            bias: vec![0.0; gamma.len()],
            mean: mean.to_vec(),
            factor: factors.collect::<Result<_>>()?,
            shift: beta.to_vec(),
        };
        normalization.check(operation)?;
        Ok(normalization)
    }

    /// Returns the normalization of `x + bias`.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] for another number of channels.
    pub fn with_bias(self, bias: &[f32]) -> Result<Self> {
        if bias.len() == self.bias.len() {
            let bias = bias.to_vec();
            return Ok(Self { bias, ..self });
        }
        Err(Error::LengthMismatch {
            operation: "Normalization::with_bias",
            left: self.bias.len(),
            right: bias.len(),
        })
    }

    /// Changes the normalization of some channels so that it computes the same numbers from sums of
    /// the opposite sign.
    pub(super) fn negate(&mut self, channels: &[bool]) {
        for numbers in [&mut self.bias, &mut self.mean, &mut self.factor] {
            for (number, _) in numbers.iter_mut().zip(channels).filter(|(_, is)| **is) {
                *number = -*number;
            }
        }
    }

    /// Returns the bias, the mean, the factor and the shift of all channels.
    pub(crate) fn rows(&self) -> [&[f32]; 4] {
        [&self.bias, &self.mean, &self.factor, &self.shift]
    }

    /// Checks that all numbers are finite.
    pub(crate) fn check(&self, operation: &'static str) -> Result<()> {
        let quantities = ["bias", "mean", "factor", "shift"];
        for (quantity, numbers) in quantities.into_iter().zip(self.rows()) {
            for &number in numbers {
                finite(operation, quantity, number.into())?;
            }
        }
        Ok(())
    }

    /// Returns the normalised value of a number of one channel.
    pub(crate) fn apply(&self, channel: usize, x: f32) -> f32 {
        (x + self.bias[channel] - self.mean[channel]) * self.factor[channel] + self.shift[channel]
    }

    /// Returns the normalised values of a tensor `[…, channel]`.
    pub(crate) fn program(&self, x: &Tensor) -> Tensor {
        let row = |numbers: &[f32]| Tensor::from_vec(&[numbers.len()], numbers.to_vec());
        (x + row(&self.bias) - row(&self.mean)) * row(&self.factor) + row(&self.shift)
    }
}
