//! The Adam optimizer, with coupled or decoupled weight decay.

use std::panic::Location;

use super::{LARGEST, Optimizer, Parameters, StepResult, bad_setting, fraction, not_negative};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

const NAME: &str = "adam";

/// The Adam optimizer: steps of about the learning rate in each element, based on running means of
/// the gradient and of its square.
///
/// With the gradient `g`, step `t = 1, 2, …` computes:
/// ```text
/// m ← β₁ m + (1 - β₁) g          v ← β₂ v + (1 - β₂) g²
/// p ← p - rate / (1 - β₁ᵗ) · m / (sqrt(v / (1 - β₂ᵗ)) + ε)
/// ```
/// State: the number of steps so far, a `u32` without axes; then `m` of all parameters, then `v` of
/// all parameters, each with the shape and type of its parameter. All are zero initially. The
/// number saturates at the largest `u32`; by then the corrections have long been 1.
///
/// Accuracy: `1 - βᵗ` is computed as `-tanh(y / 2) (1 + eʸ)` with `y = t ln β`, in the type of the
/// parameter. This form is accurate for β close to 1, and does not need `f64` on devices.
///
/// # Source
/// Kingma and Ba 2015, "Adam: a method for stochastic optimization", ICLR; Loshchilov and Hutter
/// 2019, "Decoupled weight decay regularization", ICLR; PyTorch's `torch.optim.Adam` and `AdamW`,
/// where ε is added to the corrected root.
///
/// # Examples
/// ```
/// use tensor_core::optim::{Adam, Optimizer};
/// use tensor_core::{Host, Tensor, grad};
/// let adam = Adam::new(1e-3)?.with_decoupled_weight_decay(0.01)?;
/// let w = Tensor::scalar(2.0_f64);
/// let state = adam.init(&[&w])?;
/// let gradients = grad(&w.square(), &[&w])?;
/// let next = adam.step(&[&w], &gradients, &state)?;
/// let moved = next.parameters[0].eval::<f64>(&Host::new())?[[]] - 2.0;
/// assert!((moved + 1e-3 * (1.0 + 0.01 * 2.0)).abs() < 1e-11);
/// # Ok::<(), tensor_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Adam {
    rate: f64,
    betas: [f64; 2],
    epsilon: f64,
    decay: Decay,
}

/// The kind of weight decay, with its factor.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Decay {
    /// Coupled decay: added to the gradient, so that it enters the running means.
    Coupled(f64),
    /// Decoupled decay, applied to the parameter (`AdamW`).
    Decoupled(f64),
}

impl Adam {
    /// Creates the optimizer with a learning rate, β₁ = 0.9, β₂ = 0.999 and ε = 1e-8, without
    /// weight decay.
    ///
    /// # Errors
    /// [`OptimError::BadSetting`](super::OptimError::BadSetting) unless the rate is in `0..=1e18`.
    #[track_caller]
    pub fn new(rate: f64) -> Result<Self> {
        Ok(Self {
            rate: not_negative(NAME, "rate", rate)?,
            betas: [0.9, 0.999],
            epsilon: 1e-8,
            decay: Decay::Coupled(0.0),
        })
    }

    /// Sets β₁ and β₂, the decay factors of the running means (default 0.9 and 0.999).
    ///
    /// # Errors
    /// [`OptimError::BadSetting`](super::OptimError::BadSetting) unless both are in `0..1`.
    #[track_caller]
    pub fn with_betas(self, beta1: f64, beta2: f64) -> Result<Self> {
        Ok(Self {
            betas: [
                fraction(NAME, "beta1", beta1)?,
                fraction(NAME, "beta2", beta2)?,
            ],
            ..self
        })
    }

    /// Sets ε, which prevents division by zero (default 1e-8).
    ///
    /// # Errors
    /// [`OptimError::BadSetting`](super::OptimError::BadSetting) unless `epsilon` is between the
    /// smallest normal `f32`, about 1.2e-38, and 1e18.
    #[track_caller]
    pub fn with_epsilon(self, epsilon: f64) -> Result<Self> {
        if (f64::from(f32::MIN_POSITIVE)..=LARGEST).contains(&epsilon) {
            Ok(Self { epsilon, ..self })
        } else {
            let wanted = "a number from 1.2e-38, the smallest normal f32, to 1e18";
            Err(bad_setting(NAME, "epsilon", epsilon, wanted))
        }
    }

    /// Sets coupled weight decay, which adds `decay · p` to the gradient. Replaces any other weight
    /// decay.
    ///
    /// # Errors
    /// [`OptimError::BadSetting`](super::OptimError::BadSetting) unless `weight_decay` is in
    /// `0..=1e18`.
    #[track_caller]
    pub fn with_weight_decay(self, weight_decay: f64) -> Result<Self> {
        Ok(Self {
            decay: Decay::Coupled(not_negative(NAME, "weight decay", weight_decay)?),
            ..self
        })
    }

    /// Sets decoupled weight decay (`AdamW`): `p ← (1 - rate · decay) p` before the step. Replaces
    /// any other weight decay.
    ///
    /// # Errors
    /// [`OptimError::BadSetting`](super::OptimError::BadSetting) unless `weight_decay` is in
    /// `0..=1e18`.
    #[track_caller]
    pub fn with_decoupled_weight_decay(self, weight_decay: f64) -> Result<Self> {
        Ok(Self {
            decay: Decay::Decoupled(not_negative(NAME, "weight decay", weight_decay)?),
            ..self
        })
    }

    /// Checks the arguments of a step, and returns the parts of the state: number of steps, first
    /// moments, second moments.
    fn parts<'s>(
        rate: &Tensor,
        parameters: &[&Tensor],
        gradients: &[Tensor],
        state: &'s [Tensor],
    ) -> Result<(&'s Tensor, &'s [Tensor], &'s [Tensor])> {
        let n = parameters.len();
        let parameters = Parameters::new(NAME, parameters)?;
        parameters.check_rate(rate)?;
        parameters.check_len(n, "gradients", gradients)?;
        parameters.check_each("gradient", gradients)?;
        parameters.check_len(1 + 2 * n, "tensors of state", state)?;
        let (count, moments) = (&state[0], &state[1..]);
        let (first, second) = moments.split_at(n);
        parameters.check_one("tensor of state", 0, (DType::U32, &[]), count)?;
        parameters.check_each("first moment", first)?;
        parameters.check_each("second moment", second)?;
        Ok((count, first, second))
    }

    /// Returns the new values of a parameter and of its moments, in step number `step`.
    fn updated(
        &self,
        [rate, step]: [&Tensor; 2],
        parameter: &Tensor,
        gradient: &Tensor,
        moments: [&Tensor; 2],
    ) -> (Tensor, [Tensor; 2]) {
        let [beta1, beta2] = self.betas;
        let [rate, step] = [rate, step].map(|number| number.cast(parameter.node().dtype));
        let (mut gradient, mut parameter) = (gradient.clone(), parameter.clone());
        match self.decay {
            Decay::Coupled(decay) if decay > 0.0 => gradient += &parameter * decay,
            Decay::Decoupled(decay) => parameter *= 1.0 - &rate * decay,
            Decay::Coupled(_) => {}
        }
        let first = moments[0] * beta1 + &gradient * (1.0 - beta1);
        let second = moments[1] * beta2 + gradient.square() * (1.0 - beta2);
        // Apply the corrections to the rate and to the root instead of the moments. The correction
        // of the rate is then a scalar operation.
        let rate = rate / correction(beta1, &step);
        let root = second.sqrt() / correction(beta2, &step).sqrt();
        let next = parameter - &first * rate / (root + self.epsilon);
        (next, [first, second])
    }
}

impl Optimizer for Adam {
    fn init(&self, parameters: &[&Tensor]) -> Result<Vec<Tensor>> {
        let caller = Location::caller();
        let start = || {
            let parameters = Parameters::new(NAME, parameters)?;
            let count = Tensor::from_vec(&[], vec![0_u32]);
            Ok([vec![count], parameters.zeros()?, parameters.zeros()?].concat())
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
        let (count, first, second) =
            Self::parts(rate, parameters, gradients, state).map_err(|error| error.at(caller))?;
        Ok(Tensor::by_caller(|| {
            let step = count.minimum(u32::MAX - 1) + 1;
            let (mut next, mut firsts, mut seconds) = (Vec::new(), Vec::new(), Vec::new());
            for (number, (parameter, gradient)) in parameters.iter().zip(gradients).enumerate() {
                let moments = [&first[number], &second[number]];
                let (parameter, [first, second]) =
                    self.updated([rate, &step], parameter, gradient, moments);
                next.push(parameter);
                firsts.push(first);
                seconds.push(second);
            }
            StepResult {
                parameters: next,
                state: [vec![step], firsts, seconds].concat(),
            }
        }))
    }
}

/// Returns `1 - βᵗ`, the bias correction: the value of a running mean of ones after `t` steps from
/// zero.
fn correction(beta: f64, step: &Tensor) -> Tensor {
    let y = step * beta.ln();
    -(&y * 0.5).tanh() * (y.exp() + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Host;
    use crate::compare::{Tolerance, assert_close};

    /// Betas close to 1, common values, and 0.
    const BETAS: [f64; 6] = [0.999_999_9, 0.9999, 0.999, 0.9, 0.5, 0.0];

    #[test]
    fn corrections_keep_their_digits() {
        let steps = [1, 2, 3, 10, 100, 1000, 100_000, 10_000_000, u32::MAX];
        for beta in BETAS {
            let expected = steps.map(|step| -(f64::from(step) * beta.ln()).exp_m1());
            let step = Tensor::from_vec(&[steps.len()], steps.to_vec());
            // The machine epsilon of each type, in units of that of f64.
            for (dtype, epsilon) in [(DType::F32, 1 << 29), (DType::F64, 1)] {
                let actual = correction(beta, &step.cast(dtype)).cast(DType::F64);
                let actual = actual.eval::<f64>(&Host::new()).unwrap();
                // Six roundings: of ln β, its product with the step, both functions, the sum and
                // the final product.
                let bound = Tolerance::relative(3 * epsilon);
                assert_close(actual, &expected[..], bound);
            }
        }
    }

    #[test]
    fn the_number_of_steps_ends_at_the_largest() {
        let w = Tensor::scalar(1.0_f32);
        let adam = Adam::new(0.1).unwrap();
        let mut state = adam.init(&[&w]).unwrap();
        state[0] = Tensor::scalar(u32::MAX);
        let next = adam.step(&[&w], std::slice::from_ref(&w), &state).unwrap();
        let count = next.state[0].eval::<u32>(&Host::new()).unwrap()[[]];
        assert_eq!(count, u32::MAX);
        let moved = next.parameters[0].eval::<f32>(&Host::new()).unwrap()[[]];
        assert!(moved.is_finite());
    }
}
