//! Optimizers: update rules for parameters, given their gradients.
//!
//! Role: [`Sgd`] and [`Adam`], for small networks. An optimizer contains only its options;
//! parameters, gradients and its state are lists of tensors, passed in and returned. Hence the
//! loss, its gradients and the update form one program, which [`jit`](crate::jit()) plans once, and
//! a checkpoint of a training run is a list of tensors.
//! Method: PyTorch's definitions of the updates. Options are constants of the program, so other
//! options need another plan. The learning rate can also be an argument of the program
//! ([`Optimizer::step_with_rate`]), so that all rates of a schedule share one plan.
//! Accuracy: each operation of a step is rounded in the type of the parameter. The same program on
//! the same executor returns the same bits, so resuming an interrupted run gives the same result as
//! an uninterrupted run.
//!
//! # Examples
//! A network learns the exclusive or. The run is saved half way, and resumed from the file.
//! ```
//! use tensor_core::data::safetensors;
//! use tensor_core::ndarray::array;
//! use tensor_core::optim::{Adam, Optimizer};
//! use tensor_core::rng::Philox;
//! use tensor_core::{Host, Tensor, grad, init, jit, loss};
//!
//! let (host, seed) = (Host::new(), Philox::new(1));
//! let x = Tensor::from_array(array![[0.0_f32, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]);
//! let labels = Tensor::from_array(array![0_u32, 1, 1, 0]);
//! let hidden = init::glorot_uniform(seed.stream(0), &[2, 8], 2, 8);
//! let bias = Tensor::full(&[8], 0.0_f32);
//! let out = init::glorot_uniform(seed.stream(1), &[8, 2], 8, 2);
//!
//! let adam = Adam::new(0.05)?;
//! let mut at = vec![hidden, bias, out];
//! at.extend(adam.init(&at.iter().collect::<Vec<_>>())?);
//! let step = jit(|args: &[Tensor]| {
//!     let [hidden, bias, out, state @ .., x, labels] = args else { unreachable!() };
//!     let logits = (x.matmul(hidden) + bias).tanh().matmul(out);
//!     let loss = loss::softmax_cross_entropy(&logits, labels);
//!     let parameters = [hidden, bias, out];
//!     let gradients = grad(&loss, &parameters)?;
//!     let next = adam.step(&parameters, &gradients, state)?;
//!     Ok([vec![loss], next.parameters, next.state].concat())
//! });
//! let train = |at: Vec<Tensor>| -> tensor_core::Result<(f32, Vec<Tensor>)> {
//!     let (mut last, mut at) = (f32::NAN, at);
//!     for _ in 0..100 {
//!         let args: Vec<&Tensor> = at.iter().chain([&x, &labels]).collect();
//!         let mut results = step.call(&host, &args)?;
//!         last = results.remove(0).to_host::<f32>()?[[]];
//!         at = results;
//!     }
//!     Ok((last, at))
//! };
//! let (_, half_way) = train(at)?;
//!
//! // A checkpoint is a file of these tensors, each with a name.
//! let file = format!("tensor-core-xor-{}.safetensors", std::process::id());
//! let path = std::env::temp_dir().join(file);
//! let names: Vec<String> = (0..half_way.len()).map(|number| number.to_string()).collect();
//! let named: Vec<(&str, &Tensor)> = names.iter().map(String::as_str).zip(&half_way).collect();
//! safetensors::write(&path, &named)?;
//! let mut read = safetensors::read(&path)?;
//! let resumed: Vec<Tensor> = names.iter().filter_map(|name| read.remove(name)).collect();
//!
//! let (loss, _) = train(resumed)?;
//! assert!(loss < 0.01, "{loss}");
//! assert_eq!(loss, train(half_way)?.0);
//! assert_eq!(step.counters().misses, 1);
//! # std::fs::remove_file(path).ok();
//! # Ok::<(), tensor_core::Error>(())
//! ```

use std::panic::Location;

use crate::dtype::{DType, Element, Scalar};
use crate::error::{Error, Result};
use crate::storage;
use crate::tensor::Tensor;

pub use crate::error::OptimError;
pub use adam::Adam;
pub use sgd::Sgd;

mod adam;
mod sgd;

/// An update rule for parameters, given their gradients.
pub trait Optimizer {
    /// Creates the initial state: tensors in memory, whose number, order, shapes and types are
    /// documented by each optimizer.
    ///
    /// # Errors
    /// [`OptimError::NotTrainable`] and [`Error::OutOfMemory`], with the source line of the caller;
    /// any error of building a parameter.
    #[track_caller]
    fn init(&self, parameters: &[&Tensor]) -> Result<Vec<Tensor>>;

    /// Creates the tensors of one update of `parameters`, given their gradients and the state after
    /// the previous step. Nothing is computed.
    ///
    /// # Errors
    /// [`OptimError::NotTrainable`], [`OptimError::WrongCount`] or [`OptimError::Misfit`] if the
    /// lists do not match, with the source line of the caller; any error of building one of the
    /// tensors.
    #[track_caller]
    fn step(
        &self,
        parameters: &[&Tensor],
        gradients: &[Tensor],
        state: &[Tensor],
    ) -> Result<StepResult> {
        self.step_with_rate(
            &Tensor::constant(Scalar::F64(self.rate())),
            parameters,
            gradients,
            state,
        )
    }

    /// Creates the tensors of one update, as [`step`](Self::step), with another learning rate: a
    /// float without axes, which is converted to the type of each parameter. If the rate is an
    /// argument of a [`jit`](crate::jit()) function, a step with another rate has the same plan.
    ///
    /// The value is not checked, because a program does not contain it: with a rate of NaN all
    /// parameters become NaN, and a negative rate increases the loss.
    ///
    /// # Errors
    /// As [`step`](Self::step), and [`OptimError::Misfit`] for a rate with axes or of another type.
    ///
    /// # Examples
    /// ```
    /// use tensor_core::optim::{Optimizer, Sgd};
    /// use tensor_core::{Host, Tensor, grad, jit};
    /// let sgd = Sgd::new(0.1)?;
    /// let step = jit(|args: &[Tensor]| {
    ///     let [rate, w] = args else { unreachable!() };
    ///     let gradients = grad(&w.square(), &[w])?;
    ///     Ok(sgd.step_with_rate(rate, &[w], &gradients, &[])?.parameters)
    /// });
    /// let mut w = Tensor::scalar(1.0_f32);
    /// for rate in [0.25_f32, 0.125] {
    ///     w = step.call(&Host::new(), &[&Tensor::scalar(rate), &w])?.remove(0);
    /// }
    /// assert_eq!(w.to_host::<f32>()?[[]], 0.375);
    /// assert_eq!(step.counters().misses, 1);
    /// # Ok::<(), tensor_core::Error>(())
    /// ```
    #[track_caller]
    fn step_with_rate(
        &self,
        rate: &Tensor,
        parameters: &[&Tensor],
        gradients: &[Tensor],
        state: &[Tensor],
    ) -> Result<StepResult>;

    /// Returns the learning rate of [`step`](Self::step).
    fn rate(&self) -> f64;
}

/// The result of [`Optimizer::step`].
#[derive(Debug, Clone)]
pub struct StepResult {
    /// The new parameters, in the order of the arguments.
    pub parameters: Vec<Tensor>,
    /// The state to pass to the next step.
    pub state: Vec<Tensor>,
}

/// The largest allowed option. The product of two such numbers is finite in `f32`.
const LARGEST: f64 = 1e18;

/// Checks an option that must be a number from 0 to [`LARGEST`].
#[track_caller]
fn not_negative(optimizer: &'static str, setting: &'static str, value: f64) -> Result<f64> {
    if (0.0..=LARGEST).contains(&value) {
        Ok(value)
    } else {
        let wanted = "a number from 0 to 1e18";
        Err(bad_setting(optimizer, setting, value, wanted))
    }
}

/// Checks an option that is a decay factor, such as the momentum, which must be in `0..1`.
#[track_caller]
fn fraction(optimizer: &'static str, setting: &'static str, value: f64) -> Result<f64> {
    if (0.0..1.0).contains(&value) {
        Ok(value)
    } else {
        Err(bad_setting(optimizer, setting, value, "a number in 0..1"))
    }
}

#[track_caller]
fn bad_setting(
    optimizer: &'static str,
    setting: &'static str,
    value: f64,
    wanted: &'static str,
) -> Error {
    let error = OptimError::BadSetting {
        optimizer,
        setting,
        value,
        wanted,
    };
    Error::from(error).at(Location::caller())
}

/// The parameters of an optimizer, with the checks of gradients and state.
struct Parameters<'a> {
    optimizer: &'static str,
    tensors: &'a [&'a Tensor],
}

impl<'a> Parameters<'a> {
    /// Checks that the parameters are floats.
    fn new(optimizer: &'static str, tensors: &'a [&'a Tensor]) -> Result<Self> {
        for (number, tensor) in tensors.iter().enumerate() {
            let dtype = tensor.dtype()?;
            if !dtype.is_float() {
                let error = OptimError::NotTrainable {
                    optimizer,
                    number,
                    dtype,
                };
                return Err(error.into());
            }
        }
        Ok(Self { optimizer, tensors })
    }

    /// Creates zeros in memory, with the shape and type of each parameter.
    fn zeros(&self) -> Result<Vec<Tensor>> {
        let mut all = Vec::with_capacity(self.tensors.len());
        for tensor in self.tensors {
            let shape = &tensor.node().shape;
            all.push(match tensor.node().dtype {
                DType::F64 => zeros::<f64>(self.optimizer, shape)?,
                _ => zeros::<f32>(self.optimizer, shape)?,
            });
        }
        Ok(all)
    }

    /// Checks that a learning rate is a float without axes.
    fn check_rate(&self, rate: &Tensor) -> Result<()> {
        let dtype = rate.dtype()?;
        let expected = if dtype.is_float() { dtype } else { DType::F32 };
        self.check_one("rate", 0, (expected, &[]), rate)
    }

    /// Checks the number of tensors in a list.
    fn check_len(&self, expected: usize, what: &'static str, list: &[Tensor]) -> Result<()> {
        if list.len() == expected {
            return Ok(());
        }
        let error = OptimError::WrongCount {
            optimizer: self.optimizer,
            what,
            parameters: self.tensors.len(),
            expected,
            actual: list.len(),
        };
        Err(error.into())
    }

    /// Checks that each tensor of a list has the type and shape of its parameter. The list must be
    /// as long as the list of parameters.
    fn check_each(&self, what: &'static str, list: &[Tensor]) -> Result<()> {
        for (number, (parameter, tensor)) in self.tensors.iter().zip(list).enumerate() {
            let expected = (parameter.dtype()?, parameter.shape()?);
            self.check_one(what, number, expected, tensor)?;
        }
        Ok(())
    }

    /// Checks the type and shape of one tensor.
    fn check_one(
        &self,
        what: &'static str,
        number: usize,
        (dtype, shape): (DType, &[usize]),
        tensor: &Tensor,
    ) -> Result<()> {
        let actual = (tensor.dtype()?, tensor.shape()?);
        if actual == (dtype, shape) {
            return Ok(());
        }
        let error = OptimError::Misfit {
            optimizer: self.optimizer,
            what,
            number,
            expected: (dtype, shape.to_vec()),
            actual: (actual.0, actual.1.to_vec()),
        };
        Err(error.into())
    }
}

fn zeros<T: Element>(optimizer: &'static str, shape: &[usize]) -> Result<Tensor> {
    let zeros = storage::zeros::<T>(optimizer, shape.iter().product())?;
    Ok(Tensor::from_vec(shape, zeros))
}
