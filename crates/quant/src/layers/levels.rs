//! Levels in training: their state, and their limits.

use tensor_core::Tensor;

use super::{NamedShape, Slot, Start};
use crate::average::debiased_of;
use crate::error::Result;
use crate::level_set::rounded;
use crate::qem::Qem;

/// The weight of the old average in each step, as in the published code of LQ-Nets.
pub(super) const DECAY: f32 = 0.9;

/// Levels whose basis is a moving average of the bases that fit the batches.
pub(super) struct LearnedLevels {
    pub(super) qem: Qem,
}

/// The levels of a batch.
pub(super) struct Quantized {
    /// The level of each element, `[channels, elements]`, by the basis of the state.
    pub(super) levels: Tensor,
    pub(super) state: Vec<Tensor>,
}

impl LearnedLevels {
    /// The names of the tensors of the state.
    pub(super) const STATE: [&str; 3] = ["basis", "basis_sum", "basis_bias"];

    /// Returns the shapes of the tensors of the state, with their names.
    pub(super) fn state_shapes(&self, n_channels: usize) -> Vec<NamedShape> {
        let basis = vec![n_channels, self.qem.basis_len()];
        let shapes = [basis.clone(), basis, Vec::new()];
        Self::STATE.into_iter().zip(shapes).collect()
    }

    /// Returns the state before the first step: the basis, and the average without bias after one
    /// update with this basis. `bases` are the bases of all channels.
    pub(super) fn state(&self, bases: &[Vec<f64>]) -> Vec<Slot> {
        let shape = [bases.len(), self.qem.basis_len()];
        let numbers: Vec<f32> = bases
            .iter()
            .flatten()
            .map(|&number| rounded(number))
            .collect();
        let sum = numbers
            .iter()
            .map(|number| number * (1.0 - DECAY))
            .collect();
        let [basis, basis_sum, basis_bias] = Self::STATE;
        vec![
            Slot::new(basis, &shape, Start::Numbers(numbers)),
            Slot::new(basis_sum, &shape, Start::Numbers(sum)),
            Slot::new(basis_bias, &[], Start::Constant(DECAY)),
        ]
    }

    /// Returns the levels of `[channels, elements]` and the next state.
    pub(super) fn apply(&self, x: &Tensor, state: &[Tensor]) -> Result<Quantized> {
        let step = self.qem.step_of(x, &state[0], None)?;
        let (levels, decay) = (step.levels, DECAY);
        #[cfg(test)]
        let (levels, decay) = {
            use crate::fault::{Fault, is_enabled};
            let of_new = || {
                self.qem
                    .step_of(x, &step.basis, None)
                    .map(|step| step.levels)
            };
            let is_new = is_enabled(Fault::NewBasis);
            let levels = if is_new { of_new()? } else { levels };
            (
                levels,
                if is_enabled(Fault::NoAverage) {
                    0.0
                } else {
                    decay
                },
            )
        };
        Ok(Quantized {
            levels,
            state: debiased_of(&state[1], &state[2], &step.basis, decay).into(),
        })
    }
}

/// Returns the distance of `2^bits` levels in a range.
pub(super) fn dorefa_step(bits: usize, range: f64) -> f32 {
    rounded(range / ((bits as f64).exp2() - 1.0))
}
