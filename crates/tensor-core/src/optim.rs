//! Optimisers: from parameters and gradients to better parameters.
//!
//! Role: [`Sgd`] and [`Adam`], for small nets. An optimiser is its settings and nothing else: parameters, gradients and what
//! it remembers are lists of tensors, in and out. So the loss, its gradients and the update are one program, which
//! [`jit`](crate::jit()) plans once; and what is saved of a training is a list of tensors.
//! Method: PyTorch's definitions, update by update; settings are numbers of the program, so another rate is another plan.
//! Accuracy: a step rounds each operation in the type of the parameter. The same program on the same executor gives the
//! same bits, so a training that is interrupted and resumed goes on as if it had not been.
//!
//! # Examples
//! A net learns the exclusive or, is saved half way, and goes on from the file.
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
//! at.extend(adam.start(&at.iter().collect::<Vec<_>>())?);
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
//! // A checkpoint is those tensors under names.
//! let path = std::env::temp_dir().join(format!("tensor-core-xor-{}.safetensors", std::process::id()));
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

use crate::dtype::{DType, Element};
use crate::error::{Error, Result};
use crate::exec;
use crate::tensor::Tensor;

pub use adam::Adam;
pub use error::OptimError;
pub use sgd::Sgd;

mod adam;
mod error;
mod sgd;

/// A rule that makes parameters better by their gradients.
pub trait Optimizer {
    /// What is remembered before the first step: tensors in memory, whose number, order, shapes and types each optimiser
    /// documents.
    ///
    /// # Errors
    /// With the caller's line, [`OptimError::NotTrainable`] and [`Error::OutOfMemory`]; whatever went wrong while a parameter was
    /// built.
    #[track_caller]
    fn start(&self, parameters: &[&Tensor]) -> Result<Vec<Tensor>>;

    /// One update of `parameters`, given the gradient for each of them and what was remembered by the step before.
    /// Nothing is computed.
    ///
    /// # Errors
    /// With the caller's line, [`OptimError::NotTrainable`], [`OptimError::WrongCount`] or [`OptimError::Misfit`] if the lists do
    /// not belong together; whatever went wrong while one of the tensors was built.
    #[track_caller]
    fn step(
        &self,
        parameters: &[&Tensor],
        gradients: &[Tensor],
        state: &[Tensor],
    ) -> Result<Updated>;
}

/// What a step gives.
#[derive(Debug, Clone)]
pub struct Updated {
    /// The parameters, in the order in which they were given.
    pub parameters: Vec<Tensor>,
    /// What the next step is to be given.
    pub state: Vec<Tensor>,
}

/// The largest setting: an `f32` holds it, and the product of two.
const LARGEST: f64 = 1e18;

/// A setting that may be any number from 0 on.
#[track_caller]
fn not_negative(optimizer: &'static str, setting: &'static str, value: f64) -> Result<f64> {
    if (0.0..=LARGEST).contains(&value) {
        Ok(value)
    } else {
        let wanted = "a number from 0 to 1e18";
        Err(bad_setting(optimizer, setting, value, wanted))
    }
}

/// A setting that says how much of what is remembered stays.
#[track_caller]
fn fraction(optimizer: &'static str, setting: &'static str, value: f64) -> Result<f64> {
    if (0.0..1.0).contains(&value) {
        Ok(value)
    } else {
        Err(bad_setting(optimizer, setting, value, "in 0..1"))
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

/// The parameters of an optimiser, and tests of what is to belong to them.
struct Parameters<'a> {
    optimizer: &'static str,
    tensors: &'a [&'a Tensor],
}

impl<'a> Parameters<'a> {
    /// Tests that they are floats.
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

    /// Zeros in memory, in the shape and type of each.
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

    /// Tests how many tensors there are in a list.
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

    /// Tests that each tensor of a list, which is as long, has the type and shape of its parameter.
    fn check_each(&self, what: &'static str, list: &[Tensor]) -> Result<()> {
        for (number, (parameter, tensor)) in self.tensors.iter().zip(list).enumerate() {
            let expected = (parameter.dtype()?, parameter.shape()?);
            self.check_one(what, number, expected, tensor)?;
        }
        Ok(())
    }

    /// Tests the type and shape of one tensor.
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
    let zeros = exec::zeros::<T>(optimizer, shape.iter().product())?;
    Ok(Tensor::from_vec(shape, zeros))
}
