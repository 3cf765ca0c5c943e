//! The options of a training, and the order in which it reads images.

use tensor_core::optim::{Adam, Sgd};
use tensor_core::rng::Philox;

use super::schedule::Schedule;
use super::steps::SharedOptimizer;
use crate::error::Result;

/// The rule that changes parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Update {
    /// Gradient descent with momentum, as [`Sgd`].
    Sgd {
        /// The fraction of the velocity that is left after a step.
        momentum: f64,
    },
    /// [`Adam`] with PyTorch's options and decoupled weight decay.
    Adam,
}

/// The options of a training.
#[derive(Clone, Debug, PartialEq)]
pub struct Recipe {
    /// The number of images per step. Images that do not fill a batch are left out of the epoch.
    pub batch: usize,
    /// The number of passes over the images.
    pub n_epochs: usize,
    /// The learning rates.
    pub schedule: Schedule,
    /// The rule that changes parameters.
    pub update: Update,
    /// The weight decay of weights; biases, normalizations and levels have none.
    pub weight_decay: f64,
    /// The seed of the initial weights and of the order of the images.
    pub seed: u64,
    /// The number of steps between reads of the losses.
    pub read_every: usize,
}

impl Default for Recipe {
    /// Returns a recipe for small convolutional networks: 100 images per step, momentum 0.9, a rate
    /// of 0.05 that falls to 0 in 8 epochs, and weight decay 1e-4.
    fn default() -> Self {
        Self {
            batch: 100,
            n_epochs: 8,
            schedule: Schedule::Cosine {
                first: 0.05,
                last: 0.0,
            },
            update: Update::Sgd { momentum: 0.9 },
            weight_decay: 1e-4,
            seed: 0,
            read_every: 50,
        }
    }
}

impl Recipe {
    /// Returns the default recipe for networks with levels that start from a trained float network:
    /// with a rate of 0.02 that falls to 0.
    #[must_use]
    pub fn after_switch() -> Self {
        Self {
            schedule: Schedule::Cosine {
                first: 0.02,
                last: 0.0,
            },
            ..Self::default()
        }
    }

    /// Returns the order in which an epoch of this recipe reads its images.
    #[must_use]
    pub fn order(&self, epoch: usize, n_images: usize) -> Vec<u32> {
        order(self.seed, epoch, n_images)
    }

    /// Returns the optimizers of the parameters with and without weight decay.
    pub(super) fn optimizers(&self) -> Result<[SharedOptimizer; 2]> {
        let optimizer = |weight_decay: f64| -> Result<SharedOptimizer> {
            // The rate is an argument of each step.
            Ok(match self.update {
                Update::Sgd { momentum } => {
                    let sgd = Sgd::new(0.0)?.with_momentum(momentum)?;
                    Box::new(sgd.with_weight_decay(weight_decay)?)
                }
                Update::Adam => {
                    Box::new(Adam::new(0.0)?.with_decoupled_weight_decay(weight_decay)?)
                }
            })
        };
        Ok([optimizer(self.weight_decay)?, optimizer(0.0)?])
    }
}

/// Returns the order of the images in an epoch: a permutation by Fisher and Yates.
fn order(seed: u64, epoch: usize, n_images: usize) -> Vec<u32> {
    /// The streams of the orders follow those of the parameters.
    const FIRST_STREAM: u64 = 1 << 32;
    let stream = Philox::new(seed).stream(FIRST_STREAM.wrapping_add(epoch as u64));
    let mut order: Vec<u32> = (0..).take(n_images).collect();
    for last in (1..n_images).rev() {
        // The high word of the product is below `last + 1`; its bias is below 2^-32 times that.
        let word = u64::from(stream.word(last as u64));
        let place = (word * (last as u64 + 1)) >> 32;
        order.swap(last, usize::try_from(place).unwrap_or(last));
    }
    order
}
