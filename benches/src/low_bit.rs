//! The networks with few bits of the workloads.
//!
//! Role: the network 32C5-P2-64C5-P2-512-10 ([`Net::lenet5`]) of `train-quant`, `quant-accuracy`
//! and `infer-quant`, its levels and recipes, and the trained float networks from which trainings
//! with levels start.

use crate::mnist;
use anyhow::{Context, Result};
use harness::record::NotRun;
use quant::train::{Images, Net, NetLayer, Recipe, Trained, Training};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::rc::Rc;
use tensor_core::Host;

/// The names of the levels of the workloads, as [`quant::layers::Levels`] parses them.
pub const LEVELS: [&str; 6] = ["float", "w1a1", "w1a2", "w2a2", "u2a2", "abc2a2"];
/// The name of the float network.
pub const FLOAT: &str = "float";

/// Returns the network with levels of a name for these images.
///
/// # Errors
/// The name is unknown, or the images are smaller than 16 × 16 pixels.
pub fn net(levels: &str, images: &Images) -> Result<Net> {
    let float = Net::lenet5(images.standardized_input()?, images.n_classes())?;
    Ok(float.with_levels(levels.parse()?)?)
}

/// Returns a net with each max-pool after the activation that follows the max-pool.
///
/// # Errors
/// As [`Net::new`].
pub fn with_late_pools(net: &Net) -> Result<Net> {
    let mut layers: Vec<_> = net.layers().to_vec();
    let mut pool = None;
    for place in 0..layers.len() {
        match layers[place].1 {
            NetLayer::MaxPool(_) => pool = Some(place),
            // The layers between the pool and its new place move one place forward.
            NetLayer::Activation(_) => {
                if let Some(first) = pool.take() {
                    layers[first..=place].rotate_left(1);
                }
            }
            _ => {}
        }
    }
    let named = layers.iter();
    let named = named.map(|(name, layer)| (name.as_str(), layer.clone()));
    Ok(Net::new(net.input().clone(), named.collect())?)
}

/// A data set of [`Images`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataSet {
    /// Handwritten digits.
    Mnist,
    /// Photographs of clothes.
    Fashion,
}

impl DataSet {
    /// Returns the name of the data set in sizes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Mnist => "mnist",
            Self::Fashion => "fashion",
        }
    }

    fn folder(self) -> &'static str {
        match self {
            Self::Mnist => "mnist",
            Self::Fashion => "fashion-mnist",
        }
    }
}

/// The whole trainings of a run: their data, and the float networks that trainings with levels
/// start from.
#[derive(Debug, Default)]
pub struct Trainings {
    images: RefCell<HashMap<DataSet, Rc<[Images; 2]>>>,
    floats: RefCell<HashMap<(DataSet, u64), Rc<Trained>>>,
}

impl Trainings {
    /// Returns the recipe of a whole training, which is that of the example `mnist` of `quant`.
    #[must_use]
    pub fn recipe(levels: &str, seed: u64) -> Recipe {
        let recipe = if levels == FLOAT {
            Recipe::default()
        } else {
            Recipe::after_switch()
        };
        Recipe { seed, ..recipe }
    }

    /// Returns the training and the test images of a data set.
    ///
    /// # Errors
    /// [`NotRun`] if the data set was not fetched; a file cannot be read.
    pub fn images(&self, set: DataSet) -> Result<Rc<[Images; 2]>> {
        if let Some(images) = self.images.borrow().get(&set) {
            return Ok(Rc::clone(images));
        }
        let images = mnist::fetched(set.folder())?.with_context(|| NotRun {
            what: format!("trainings on {}", set.name()),
            why: format!(
                "the folder {} of the data sets has not all four files",
                set.folder()
            ),
            how: format!("cargo xtask data {}", set.name()),
        })?;
        let images = Rc::new(images);
        self.images.borrow_mut().insert(set, Rc::clone(&images));
        Ok(images)
    }

    /// Returns the trained float network of a data set and a seed. Trains the network on the host
    /// unless an earlier task did.
    ///
    /// # Errors
    /// As [`images`](Self::images); an error of the training.
    pub fn float(&self, set: DataSet, seed: u64) -> Result<Rc<Trained>> {
        if let Some(trained) = self.floats.borrow().get(&(set, seed)) {
            return Ok(Rc::clone(trained));
        }
        let images = self.images(set)?;
        let (net, host) = (net(FLOAT, &images[0])?, Host::new());
        let mut training = Training::new(net, Self::recipe(FLOAT, seed), &images[0], &host)?;
        training.run(|_, _| Ok(ControlFlow::Continue(())))?;
        let trained = training.trained()?;
        Ok(self.remember(set, seed, trained))
    }

    /// Stores the float network of a data set and a seed that was trained on the host, for
    /// trainings with levels. An existing network is not replaced.
    pub fn remember(&self, set: DataSet, seed: u64, trained: Trained) -> Rc<Trained> {
        let mut floats = self.floats.borrow_mut();
        let stored = floats
            .entry((set, seed))
            .or_insert_with(|| Rc::new(trained));
        Rc::clone(stored)
    }
}

/// Returns the number of additions and multiplications per image of a training step: those of the
/// products, forward and backward. The gradient of the first layer's input is not computed.
#[must_use]
pub fn training_operations(net: &Net) -> f64 {
    let products = net.n_products();
    let all: usize = products.iter().sum();
    let first = products.first().copied().unwrap_or(0);
    2.0 * (3 * all - first) as f64
}

/// Returns the bytes of inputs and outputs of a training: images with their labels, and the
/// parameters before and after the training.
#[must_use]
pub fn training_bytes(net: &Net, images: &[Images]) -> f64 {
    let images = images.iter();
    let images = images.map(|set| set.pixels().len() + size_of_val(set.labels()));
    let parameters = net.parameters().into_iter();
    let parameters = parameters.map(|(_, slot)| slot.shape.iter().product::<usize>());
    let n_parameters: usize = parameters.sum();
    (images.sum::<usize>() + 2 * n_parameters * size_of::<f32>()) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_pools_follow_their_activations() {
        let images = Images::new([16, 16, 1], vec![9; 256], vec![0], 2).unwrap();
        let net = with_late_pools(&net("w1a1", &images).unwrap()).unwrap();
        let names: Vec<&str> = net.layers().iter().map(|(name, _)| name.as_str()).collect();
        let expected = "conv1 norm1 act1 pool1 conv2 norm2 act2 pool2 hidden norm3 act3 classes";
        assert_eq!(names.join(" "), expected);
    }

    #[test]
    fn a_training_reads_and_writes_images_labels_and_parameters() {
        let images = Images::new([16, 16, 1], vec![9; 512], vec![0, 1], 2).unwrap();
        let net = net(FLOAT, &images).unwrap();
        let products = 32 * 25 + 64 * 25 * 32 + 512 * 64 + 2 * 512;
        // The bias of the last layer, and two numbers per output of the three normalizations.
        let n_parameters = products + 2 + 2 * (32 + 64 + 512);
        let expected = 512 + 2 * 4 + 2 * 4 * n_parameters;
        assert_eq!(training_bytes(&net, &[images]), f64::from(expected));
    }
}
