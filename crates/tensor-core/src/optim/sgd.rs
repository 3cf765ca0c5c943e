//! Stochastic gradient descent with momentum.

use std::panic::Location;

use super::{Optimizer, Parameters, StepResult, fraction, not_negative};
use crate::error::{Error, Result};
use crate::tensor::Tensor;

const NAME: &str = "sgd";

/// The optimizer of stochastic gradient descent: `p ← p - rate · d`.
///
/// Let `g` be the gradient, to which weight decay adds `decay · p`. Without momentum `d = g`. With
/// momentum `d` is the velocity `v ← momentum · v + g`; with Nesterov momentum `d = g + momentum ·
/// v` with the new `v`.
///
/// State: the velocity of each parameter, with its shape and type, initially zero; empty without
/// momentum.
///
/// # Source
/// PyTorch's `torch.optim.SGD` without dampening; Sutskever, Martens, Dahl and Hinton 2013, "On the
/// importance of initialization and momentum in deep learning", ICML, where the velocity includes
/// the learning rate.
///
/// # Examples
/// ```
/// use tensor_core::optim::{Optimizer, Sgd};
/// use tensor_core::{Host, Tensor, grad};
/// let sgd = Sgd::new(0.1)?.with_momentum(0.9)?.with_weight_decay(1e-4)?;
/// let w = Tensor::scalar(3.0_f64);
/// let state = sgd.init(&[&w])?;
/// let gradients = grad(&w.square(), &[&w])?;
/// let next = sgd.step(&[&w], &gradients, &state)?;
/// assert_eq!(next.parameters[0].eval::<f64>(&Host::new())?[[]], 3.0 - 0.1 * (6.0 + 1e-4 * 3.0));
/// assert!(Sgd::new(f64::NAN).is_err());
/// # Ok::<(), tensor_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sgd {
    rate: f64,
    weight_decay: f64,
    momentum: f64,
    nesterov: bool,
}

impl Sgd {
    /// Creates the optimizer with a learning rate, without momentum and weight decay.
    ///
    /// # Errors
    /// [`OptimError::BadSetting`](super::OptimError::BadSetting) unless the rate is in `0..=1e18`.
    #[track_caller]
    pub fn new(rate: f64) -> Result<Self> {
        Ok(Self {
            rate: not_negative(NAME, "rate", rate)?,
            weight_decay: 0.0,
            momentum: 0.0,
            nesterov: false,
        })
    }

    /// Sets momentum (default 0).
    ///
    /// # Errors
    /// [`OptimError::BadSetting`](super::OptimError::BadSetting) unless `momentum` is in `0..1`.
    #[track_caller]
    pub fn with_momentum(self, momentum: f64) -> Result<Self> {
        Ok(Self {
            momentum: fraction(NAME, "momentum", momentum)?,
            nesterov: false,
            ..self
        })
    }

    /// Sets Nesterov momentum.
    ///
    /// # Errors
    /// [`OptimError::BadSetting`](super::OptimError::BadSetting) unless `momentum` is in `0..1`.
    #[track_caller]
    pub fn with_nesterov_momentum(self, momentum: f64) -> Result<Self> {
        Ok(Self {
            nesterov: true,
            ..self.with_momentum(momentum)?
        })
    }

    /// Sets weight decay, which adds `decay · p` to the gradient (default 0).
    ///
    /// # Errors
    /// [`OptimError::BadSetting`](super::OptimError::BadSetting) unless `weight_decay` is in
    /// `0..=1e18`.
    #[track_caller]
    pub fn with_weight_decay(self, weight_decay: f64) -> Result<Self> {
        Ok(Self {
            weight_decay: not_negative(NAME, "weight decay", weight_decay)?,
            ..self
        })
    }

    fn has_velocity(&self) -> bool {
        self.momentum > 0.0
    }

    /// Returns the new values of a parameter and, with momentum, of its velocity.
    fn updated(
        &self,
        parameter: &Tensor,
        gradient: &Tensor,
        velocity: Option<&Tensor>,
        rate: &Tensor,
    ) -> (Tensor, Option<Tensor>) {
        let mut gradient = gradient.clone();
        if self.weight_decay > 0.0 {
            gradient += parameter * self.weight_decay;
        }
        let velocity = velocity.map(|velocity| velocity * self.momentum + &gradient);
        // Nesterov momentum looks ahead by one more step of the velocity.
        let direction = match &velocity {
            Some(velocity) if self.nesterov => gradient + velocity * self.momentum,
            Some(velocity) => velocity.clone(),
            None => gradient,
        };
        (
            parameter - direction * rate.cast(parameter.node().dtype),
            velocity,
        )
    }

    fn check(
        &self,
        rate: &Tensor,
        parameters: &[&Tensor],
        gradients: &[Tensor],
        state: &[Tensor],
    ) -> Result<()> {
        let n = parameters.len();
        let parameters = Parameters::new(NAME, parameters)?;
        parameters.check_rate(rate)?;
        parameters.check_len(n, "gradients", gradients)?;
        parameters.check_each("gradient", gradients)?;
        let n_velocities = if self.has_velocity() { n } else { 0 };
        parameters.check_len(n_velocities, "tensors of state", state)?;
        parameters.check_each("velocity", state)
    }
}

impl Optimizer for Sgd {
    fn init(&self, parameters: &[&Tensor]) -> Result<Vec<Tensor>> {
        let caller = Location::caller();
        let start = || {
            let parameters = Parameters::new(NAME, parameters)?;
            if self.has_velocity() {
                parameters.zeros()
            } else {
                Ok(Vec::new())
            }
        };
        start().map_err(|error: Error| error.at(caller))
    }

    fn rate(&self) -> f64 {
        self.rate
    }

    fn step_with_rate(
        &self,
        rate: &Tensor,
        parameters: &[&Tensor],
        gradients: &[Tensor],
        state: &[Tensor],
    ) -> Result<StepResult> {
        let caller = Location::caller();
        self.check(rate, parameters, gradients, state)
            .map_err(|error| error.at(caller))?;
        Ok(Tensor::by_caller(|| {
            let mut next = StepResult {
                parameters: Vec::with_capacity(parameters.len()),
                state: Vec::with_capacity(state.len()),
            };
            for (number, (&parameter, gradient)) in parameters.iter().zip(gradients).enumerate() {
                let velocity = state.get(number);
                let (parameter, velocity) = self.updated(parameter, gradient, velocity, rate);
                next.parameters.push(parameter);
                next.state.extend(velocity);
            }
            next
        }))
    }
}
