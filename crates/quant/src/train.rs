//! Training of networks with float and with quantised weights and activations.
//!
//! Role: [`Net`] describes a network as data, [`Training`] trains it on [`Images`], and
//! [`Trained::network`] returns the [`Network`] that is frozen and packed. [`Steps`] is the loop
//! for other models and data.
//! Method: a step is one tensor program (see [`layers`](crate::layers)), so that training runs on
//! any executor. The images are stored on the executor once; each step gathers its batch there, in
//! an order that is drawn for each epoch from the seed. A quantised network usually starts from a
//! trained float network ([`Training::from_trained`]), so that one float training serves several
//! kinds of levels. A start from random weights is possible, too: with 1 bit on MNIST and as many
//! epochs in all, the accuracy was 99.22 % from random weights and 99.10 % after the switch (one
//! seed, record `2026-11-28t20-31-30z-amd-epyc-2.json`).
//! Accuracy: the same seed and executor lead to the same losses, bit by bit, on any number of
//! threads and across a checkpoint. A checkpoint states the net, the recipe and the start of its
//! training and the images; [`Training::resume`] rejects a checkpoint of another training and a
//! damaged one.
//!
//! # Examples
//! A small network is trained with floats, then with two bits per weight and activation, and
//! frozen.
//! ```
//! use std::ops::ControlFlow;
//!
//! use quant::layers::{ActivationLevels, BatchNorm, QuantConv2d, QuantLinear};
//! use quant::train::{Images, Net, NetLayer, Recipe, Schedule, Training};
//! use quant::{InputImage, Window};
//! use tensor_core::Host;
//!
//! // Images of vertical and of horizontal stripes.
//! let pixel = |at: usize| {
//!     let (image, y, x) = (at / 36, at / 6 % 6, at % 6);
//!     let stripe = if image % 2 == 0 { x } else { y };
//!     if (stripe + image / 2) % 3 == 0 { 255 } else { 20 }
//! };
//! let labels = (0..40).map(|image| image % 2).collect();
//! let images = Images::new([6, 6, 1], (0..40 * 36).map(pixel).collect(), labels, 2)?;
//! let float = Net::new(
//!     InputImage::unit([6, 6, 1]),
//!     vec![
//!         ("conv1", NetLayer::Conv2d(QuantConv2d::new(8, Window::new([3, 3])))),
//!         ("norm1", NetLayer::BatchNorm(BatchNorm::default())),
//!         ("relu1", NetLayer::Activation(ActivationLevels::Relu)),
//!         ("conv2", NetLayer::Conv2d(QuantConv2d::new(8, Window::new([3, 3])))),
//!         ("norm2", NetLayer::BatchNorm(BatchNorm::default())),
//!         ("relu2", NetLayer::Activation(ActivationLevels::Relu)),
//!         ("classes", NetLayer::Linear(QuantLinear::new(2).with_bias())),
//!     ],
//! )?;
//! let recipe = Recipe {
//!     batch: 10,
//!     n_epochs: 10,
//!     schedule: Schedule::Cosine { first: 0.1, last: 0.0 },
//!     ..Recipe::default()
//! };
//! let host = Host::new();
//! let mut training = Training::new(float.clone(), recipe.clone(), &images, &host)?;
//! training.run(|_, _| Ok(ControlFlow::Continue(())))?;
//!
//! let two_bits = float.with_levels("w2a2".parse()?)?;
//! let trained = training.trained()?;
//! let mut training = Training::from_trained(two_bits, &trained, recipe, &images, &host)?;
//! training.run(|_, _| Ok(ControlFlow::Continue(())))?;
//!
//! let frozen = training.trained()?.network()?.freeze()?;
//! let predictions = images.predictions(&host, |codes| frozen.outputs_of(codes))?;
//! assert_eq!(images.accuracy(&predictions)?, 1.0);
//! # Ok::<(), quant::Error>(())
//! ```

use tensor_core::{Tensor, loss};

use crate::error::{Error, Result};
use crate::network::Network;

pub use early_stop::EarlyStop;
pub use images::Images;
pub use net::{Net, NetLayer, NetOutput};
pub use oracle::{ChosenLevels, Oracle, OracleStep};
pub use recipe::{Recipe, Update};
pub use schedule::Schedule;
pub use shards::{ShardSum, Shards};
pub use steps::{Loss, Model, SharedOptimizer, Steps};
pub use training::Training;

mod checkpoint;
mod early_stop;
mod images;
mod net;
mod oracle;
mod recipe;
mod schedule;
mod shards;
mod steps;
mod training;

/// A network with trained parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Trained {
    net: Net,
    parameters: Vec<Vec<f32>>,
    state: Vec<Vec<f32>>,
}

impl Trained {
    /// Returns the description of the network.
    #[must_use]
    pub fn net(&self) -> &Net {
        &self.net
    }

    /// Returns the parameters, in the order of [`Net::parameters`].
    #[must_use]
    pub fn parameters(&self) -> &[Vec<f32>] {
        &self.parameters
    }

    /// Returns the state, in the order of [`Net::state`].
    #[must_use]
    pub fn state(&self) -> &[Vec<f32>] {
        &self.state
    }

    /// Returns the network for inference in f32, which [`Network::freeze`] turns into integers if
    /// its activations have levels.
    ///
    /// # Errors
    /// As [`Net::network`].
    pub fn network(&self) -> Result<Network> {
        self.net.network(&self.parameters, &self.state)
    }
}

/// The progress of a training, for a callback.
#[derive(Clone, Debug)]
pub struct Progress {
    /// The number of steps so far.
    pub step: usize,
    /// The number of all steps.
    pub n_steps: usize,
    /// The number of complete epochs.
    pub n_epochs: usize,
    /// The losses since the last call.
    pub losses: Vec<f32>,
    /// The learning rate of the last step.
    pub rate: f32,
    /// Whether an epoch ended with the last step.
    pub is_end_of_epoch: bool,
}

impl Model for Net {
    fn loss(&self, parameters: &[Tensor], state: &[Tensor], batch: &[Tensor]) -> Result<Loss> {
        let [images, labels] = batch else {
            return Err(Error::Length {
                operation: "Net::loss",
                quantity: "batch",
                actual: batch.len(),
                expected: 2,
            });
        };
        let outputs = self.apply(images, parameters, state)?;
        let shape = outputs.output.shape()?;
        let rows = [shape[0], shape[1..].iter().product()];
        let scores = outputs.output.reshape(&rows);
        Ok(Loss {
            loss: loss::softmax_cross_entropy(&scores, labels),
            state: outputs.state,
            are_finite: outputs.are_finite,
        })
    }

    fn checked_layers(&self) -> Vec<String> {
        self.product_names()
            .into_iter()
            .map(str::to_owned)
            .collect()
    }

    fn is_decayed(&self, parameter: usize) -> bool {
        let parameters = self.parameters();
        parameters
            .get(parameter)
            .is_some_and(|(_, slot)| slot.is_decayed())
    }
}
