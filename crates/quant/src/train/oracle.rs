//! Training steps in f64 by plain loops: the reference for the tensor programs.
//!
//! Role: computes loss, gradients, update and next state of a [`Net`] for tests and benchmarks. No
//! tensor program is used; the description of the net, the fit of [`abc`](crate::abc()) and the
//! solution of small systems are those of the crate.
//! Method: the forward pass stores the values that the backward pass needs. Next to each value, the
//! forward pass computes a bound on the error of an f32 program, from the unit roundoff and the
//! number of terms of each sum. A program and the oracle can choose different levels for a value
//! near a threshold, and then their losses differ by more than rounding. With
//! [`Oracle::step_with`], the oracle takes over the levels of the program, and checks each level: a
//! level is right if it is that of the value in f64, or if the value is within its bound of a
//! threshold. The gradient of a max-pool is divided among equal maxima, as in
//! [`MaxPool`](crate::layers::MaxPool).
//! Accuracy: bounds are of first order in the unit roundoff, times 1.01. Sums may be added in
//! any order, so that their bounds grow with the number of terms.

use std::collections::HashMap;

use super::net::Net;
use crate::error::{Error, Result, check, check_count, finite, product};
use backward::backward;
use forward::{Stored, forward};

mod backward;
mod forward;
mod scale;

/// The unit roundoff of f32.
const UNIT: f64 = 0.5 * f32::EPSILON as f64;
/// The factor of bounds of first order that covers the terms of higher order.
const SAFETY: f64 = 1.01;
/// The threshold of the bases of ABC-Net's activations.
const ABC_THRESHOLD: f64 = 0.5;

/// The levels that a program chose: the quantised weights or the output of an activation, by the
/// name of the layer.
pub type ChosenLevels = HashMap<String, Vec<f32>>;

/// A training in f64.
#[derive(Clone, Debug)]
pub struct Oracle {
    net: Net,
    momentum: f64,
    weight_decay: f64,
    parameters: Vec<Vec<f64>>,
    velocities: Vec<Vec<f64>>,
    state: Vec<Vec<f64>>,
}

/// The results of a step before the update.
#[derive(Clone, Debug, Default)]
pub struct OracleStep {
    /// The mean cross-entropy of the batch.
    pub loss: f64,
    /// The largest difference from the loss of an f32 program with the same levels.
    pub loss_bound: f64,
    /// The gradients of the parameters, in their order.
    pub gradients: Vec<Vec<f64>>,
    /// The number of parameters, counted from the first, whose gradients can depend on rounding: in
    /// a layer after these parameters, the derivative of a max-pool or of an activation jumps
    /// within the bound of a value.
    pub n_uncertain: usize,
    /// The number of elements that have levels.
    pub n_quantized: usize,
    /// The number of elements whose chosen level is not that of the value in f64, but whose value
    /// is within its bound of the thresholds between both levels.
    pub n_near: usize,
    /// The number of elements with any other wrong level.
    pub n_wrong: usize,
}

/// Values `[batch, height, width, channels]` with the bounds of their errors.
#[derive(Clone, Debug, Default)]
struct Values {
    x: Vec<f64>,
    bounds: Vec<f64>,
}

impl Oracle {
    /// Creates a training by gradient descent with momentum and with decay of the weights.
    ///
    /// # Errors
    /// [`Error::Length`] for another number of parameters or tensors of the state than the net has;
    /// [`Error::Layer`] with [`Error::Length`] for a tensor of another length;
    /// [`Error::InvalidNumber`] for a momentum or a weight decay that is negative or not finite.
    pub fn new(
        net: &Net,
        [momentum, weight_decay]: [f64; 2],
        parameters: &[Vec<f32>],
        state: &[Vec<f32>],
    ) -> Result<Self> {
        let operation = "Oracle::new";
        net.check_lens(operation, parameters, state)?;
        for (quantity, number) in [("momentum", momentum), ("weight decay", weight_decay)] {
            let is_valid = number >= 0.0 && number.is_finite();
            let expected = "a finite number of at least 0";
            check(operation, quantity, number, is_valid, expected)?;
        }
        let wide = |tensors: &[Vec<f32>]| -> Vec<Vec<f64>> {
            let wide = |numbers: &Vec<f32>| numbers.iter().copied().map(f64::from).collect();
            tensors.iter().map(wide).collect()
        };
        let parameters = wide(parameters);
        Ok(Self {
            net: net.clone(),
            momentum,
            weight_decay,
            velocities: parameters.iter().map(|own| vec![0.0; own.len()]).collect(),
            parameters,
            state: wide(state),
        })
    }

    /// Does a step with a batch of images, as values `[image, height, width, channels]`, and their
    /// labels.
    ///
    /// # Errors
    /// [`Error::Empty`] without images; [`Error::Length`] unless there is an image for each label;
    /// [`Error::InvalidNumber`] for a value of an image or a rate that is not finite;
    /// [`Error::Label`]; [`Error::Layer`] with an error of [`abc`](crate::abc()).
    pub fn step(&mut self, images: &[f32], labels: &[u32], rate: f64) -> Result<OracleStep> {
        self.step_with(&ChosenLevels::new(), images, labels, rate)
    }

    /// Does a step as [`step`](Self::step) with the levels that a program chose.
    ///
    /// # Errors
    /// As [`step`](Self::step); [`Error::Layer`] with [`Error::Length`] for another number of
    /// levels than a layer has, and for a name that is not that of a layer with levels.
    pub fn step_with(
        &mut self,
        chosen: &ChosenLevels,
        images: &[f32],
        labels: &[u32],
        rate: f64,
    ) -> Result<OracleStep> {
        let mut step = OracleStep::default();
        self.check_batch(images, labels)?;
        finite("Oracle::step", "learning rate", rate)?;
        for (name, levels) in chosen {
            if !self.net.has_levels(name) {
                let error = Error::Length {
                    operation: "Oracle::step_with",
                    quantity: "levels",
                    actual: levels.len(),
                    expected: 0,
                };
                return Err(error.in_layer(name));
            }
        }
        let mut inputs = vec![Values {
            x: images.iter().copied().map(f64::from).collect(),
            bounds: vec![0.0; images.len()],
        }];
        let (mut stored, mut next_state): (Vec<Stored>, _) = (Vec::new(), Vec::new());
        let places = self.net.places();
        for place in &places {
            let (own, state) = (place.own(&self.parameters), place.own_state(&self.state));
            let input = &inputs[inputs.len() - 1];
            let chosen = chosen.get(place.name).map(Vec::as_slice);
            let passed = forward(place, input, own, state, chosen, &mut step);
            let (output, own_stored, next) = passed.map_err(|error| error.in_layer(place.name))?;
            inputs.push(output);
            stored.push(own_stored);
            next_state.extend(next);
        }
        let scores = inputs.pop().unwrap_or_default();
        let mut by_output = cross_entropy(&scores, labels, &mut step);
        step.gradients = self.parameters.iter().map(|_| Vec::new()).collect();
        for ((place, input), stored) in places.iter().zip(&inputs).zip(&stored).rev() {
            let own = place.own(&self.parameters);
            let back = backward(place, input, stored, own, &by_output)?;
            by_output = back.by_input;
            let first = place.parameters.start;
            if back.is_uncertain {
                step.n_uncertain = step.n_uncertain.max(place.parameters.end);
            }
            for (offset, gradient) in back.gradients.into_iter().enumerate() {
                step.gradients[first + offset] = gradient;
            }
        }
        self.update(&step.gradients, rate);
        self.state = next_state;
        Ok(step)
    }

    /// Returns the parameters.
    #[must_use]
    pub fn parameters(&self) -> &[Vec<f64>] {
        &self.parameters
    }

    /// Returns the state.
    #[must_use]
    pub fn state(&self) -> &[Vec<f64>] {
        &self.state
    }

    fn check_batch(&self, images: &[f32], labels: &[u32]) -> Result<()> {
        let operation = "Oracle::step";
        if labels.is_empty() {
            return Err(Error::Empty { operation });
        }
        let expected = labels.len().saturating_mul(product(&self.net.input().size));
        check_count(operation, "images", images.len(), expected)?;
        for &value in images {
            finite(operation, "value of an image", value.into())?;
        }
        let n_classes = product(&self.net.output_size());
        let wrong = labels.iter().position(|&label| label as usize >= n_classes);
        match wrong {
            None => Ok(()),
            Some(index) => Err(Error::Label {
                operation,
                index,
                label: labels[index],
                n_classes,
            }),
        }
    }

    /// Changes the parameters by gradient descent with momentum, and with decay of the weights.
    fn update(&mut self, gradients: &[Vec<f64>], rate: f64) {
        let names = self.net.parameters();
        let parameters = self.parameters.iter_mut().zip(&mut self.velocities);
        for (((_, slot), (own, velocity)), gradient) in names.iter().zip(parameters).zip(gradients)
        {
            let decay = if slot.is_decayed() {
                self.weight_decay
            } else {
                0.0
            };
            for ((w, v), g) in own.iter_mut().zip(velocity).zip(gradient) {
                *v = self.momentum * *v + g + decay * *w;
                *w -= rate * *v;
            }
        }
    }
}

/// Computes the mean cross-entropy of a softmax, and returns its derivatives by the scores.
fn cross_entropy(scores: &Values, labels: &[u32], step: &mut OracleStep) -> Vec<f64> {
    let n_classes = scores.x.len() / labels.len().max(1);
    let n = labels.len() as f64;
    let mut by_scores = Vec::with_capacity(scores.x.len());
    let (mut largest_score, mut bound) = (0.0_f64, 0.0);
    let rows = scores.x.chunks(n_classes.max(1));
    let rows = rows.zip(scores.bounds.chunks(n_classes.max(1))).zip(labels);
    for ((row, bounds), &label) in rows {
        // Subtracting the largest score prevents an overflow of `exp`.
        let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = row.iter().map(|x| libm::exp(x - largest)).sum();
        step.loss += (libm::log(sum) + largest - row[label as usize]) / n;
        by_scores.extend(row.iter().enumerate().map(|(class, x)| {
            let expected = f64::from(u8::from(class == label as usize));
            (libm::exp(x - largest) / sum - expected) / n
        }));
        largest_score = row.iter().fold(largest_score, |most, x| most.max(x.abs()));
        // A change of all scores by at most `e` changes the loss of an image by at most `2 e`.
        bound += 2.0 * bounds.iter().copied().fold(0.0, f64::max) / n;
    }
    // The sums of exponentials and of losses, and a few functions within some roundings.
    let n_roundings = (n_classes + labels.len() + 16) as f64;
    bound += n_roundings * UNIT * (1.0 + step.loss + largest_score);
    step.loss_bound = SAFETY * bound;
    by_scores
}

#[cfg(test)]
mod tests;
