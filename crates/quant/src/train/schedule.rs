//! Learning rates during training.

use crate::error::{Result, check};

/// The learning rate as a function of the progress.
#[derive(Clone, Debug, PartialEq)]
pub enum Schedule {
    /// The same rate in all steps.
    Constant(f32),
    /// The first rate for as many epochs as stated, then the next; the last rate until the end.
    Stages(Vec<(usize, f32)>),
    /// A half period of a cosine, from the first rate before the first step to the last rate after
    /// the last step (Loshchilov and Hutter 2017, "SGDR", without restarts).
    Cosine {
        /// The rate of the first step.
        first: f32,
        /// The rate after the last step.
        last: f32,
    },
}

impl Schedule {
    /// Checks the rates.
    ///
    /// # Errors
    /// [`Error::InvalidNumber`](crate::Error::InvalidNumber) for a rate that is negative or not
    /// finite, or without rates.
    pub(super) fn check(&self, operation: &'static str) -> Result<()> {
        let rates: Vec<f32> = match self {
            Self::Constant(rate) => vec![*rate],
            Self::Stages(stages) => stages.iter().map(|&(_, rate)| rate).collect(),
            Self::Cosine { first, last } => vec![*first, *last],
        };
        let n_rates = rates.len() as f64;
        check(
            operation,
            "number of rates",
            n_rates,
            !rates.is_empty(),
            "at least 1",
        )?;
        for rate in rates {
            let is_valid = (0.0..=f32::MAX).contains(&rate);
            let expected = "a finite number of at least 0";
            check(operation, "learning rate", rate.into(), is_valid, expected)?;
        }
        Ok(())
    }

    /// Returns the rate of step `step` of `n_steps`, which has `steps_per_epoch` steps per epoch.
    #[must_use]
    pub fn rate(&self, step: usize, n_steps: usize, steps_per_epoch: usize) -> f32 {
        match self {
            Self::Constant(rate) => *rate,
            Self::Stages(stages) => {
                let epoch = step / steps_per_epoch.max(1);
                let mut end = 0;
                let stage = stages.iter().find(|(epochs, _)| {
                    end = epochs.saturating_add(end);
                    epoch < end
                });
                stage.or(stages.last()).map_or(0.0, |&(_, rate)| rate)
            }
            Self::Cosine { first, last } => {
                let progress = step as f64 / n_steps.max(1) as f64;
                let weight = (1.0 + libm::cos(std::f64::consts::PI * progress)) / 2.0;
                let [first, last] = [*first, *last].map(f64::from);
                crate::level_set::rounded(last + (first - last) * weight)
            }
        }
    }
}
