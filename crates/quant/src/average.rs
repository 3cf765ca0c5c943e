//! The moving average of a basis during training.

use tensor_core::Tensor;

use crate::error::{Error, Result, check};

/// An exponential moving average of bases, plain or without the bias toward its start.
///
/// The published code of LQ-Nets uses TensorFlow's average without bias, in which the first update
/// replaces the start completely: after `t` updates the newest basis has the weight
/// `(1 - decay) / (1 - decay^t)`.
///
/// # Examples
/// ```
/// use quant::MovingBasis;
///
/// let mut average = MovingBasis::debiased(&[1.0, 2.0], 0.9)?;
/// assert!((average.update(&[2.0, 3.0])?[0] - 2.0).abs() < 1e-15);
/// assert!((average.update(&[3.0, 4.0])?[0] - 2.526_315_789).abs() < 1e-9);
/// # Ok::<(), quant::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct MovingBasis {
    average: Vec<f64>,
    decay: f64,
    /// The sum of all updates with their weights, and `decay^t`; `None` for a plain average.
    unbiased: Option<(Vec<f64>, f64)>,
}

impl MovingBasis {
    /// Creates a plain average: each update moves it by `1 - decay` of the distance to the new
    /// basis.
    ///
    /// # Errors
    /// [`Error::InvalidNumber`] unless the decay is at least 0 and less than 1.
    pub fn plain(start: &[f64], decay: f64) -> Result<Self> {
        let is_valid = (0.0..1.0).contains(&decay);
        check(
            "MovingBasis",
            "decay",
            decay,
            is_valid,
            "at least 0 and less than 1",
        )?;
        Ok(Self {
            average: start.to_vec(),
            decay,
            unbiased: None,
        })
    }

    /// Creates an average without bias; `start` is its value before the first update.
    ///
    /// # Errors
    /// As [`MovingBasis::plain`].
    pub fn debiased(start: &[f64], decay: f64) -> Result<Self> {
        Ok(Self {
            unbiased: Some((vec![0.0; start.len()], 1.0)),
            ..Self::plain(start, decay)?
        })
    }

    /// Returns the average.
    #[must_use]
    pub fn basis(&self) -> &[f64] {
        &self.average
    }

    /// Adds a basis and returns the new average.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] unless the basis has as many numbers as the average.
    pub fn update(&mut self, basis: &[f64]) -> Result<&[f64]> {
        if basis.len() != self.average.len() {
            return Err(Error::LengthMismatch {
                operation: "MovingBasis::update",
                left: self.average.len(),
                right: basis.len(),
            });
        }
        let decay = self.decay;
        let toward = |old: f64, new: f64| decay * old + (1.0 - decay) * new;
        match &mut self.unbiased {
            None => {
                for (average, &new) in self.average.iter_mut().zip(basis) {
                    *average = toward(*average, new);
                }
            }
            Some((sum, bias)) => {
                *bias *= self.decay;
                for ((average, sum), &new) in self.average.iter_mut().zip(sum).zip(basis) {
                    *sum = toward(*sum, new);
                    *average = *sum / (1.0 - *bias);
                }
            }
        }
        Ok(&self.average)
    }
}

/// Returns the next state of an average without bias as tensor programs, as
/// [`MovingBasis::update`]: the average, the sum of all updates with their weights, and `decay^t`
/// after `t` updates.
pub(crate) fn debiased_of(sum: &Tensor, bias: &Tensor, new: &Tensor, decay: f32) -> [Tensor; 3] {
    let sum = sum * decay + new * (1.0 - decay);
    let bias = bias * decay;
    [&sum / (1.0 - &bias), sum, bias]
}
