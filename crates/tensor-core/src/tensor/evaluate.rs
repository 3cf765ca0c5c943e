//! Evaluation: computing tensors and reading their elements.

use std::borrow::Borrow;
use std::panic::Location;
use std::sync::Arc;

use ndarray::{ArrayD, IxDyn};

use super::{Op, Tensor};
use crate::array::from_checked;
use crate::dtype::{DType, Element};
use crate::error::{Error, Result};
use crate::exec::{self, Executor, HostStorage, Storage};
use crate::plan::Plan;

/// A list of tensors that are [realized together](Tensor::realize_all): an array, a slice or a
/// vector of tensors or references.
pub trait TensorList {
    /// The type of the results: an array for an array, otherwise a vector.
    type Realized;

    /// Returns the tensors, in order.
    fn tensors(&self) -> Vec<&Tensor>;

    /// Converts the realized tensors, one per tensor of the list, to the type of the results.
    fn realized(tensors: Vec<Tensor>) -> Self::Realized;
}

impl<T: Borrow<Tensor>, const N: usize> TensorList for [T; N] {
    type Realized = [Tensor; N];

    fn tensors(&self) -> Vec<&Tensor> {
        self.iter().map(Borrow::borrow).collect()
    }

    fn realized(tensors: Vec<Tensor>) -> Self::Realized {
        match tensors.try_into() {
            Ok(tensors) => tensors,
            Err(_) => unreachable!("there is one result per tensor"),
        }
    }
}

impl<T: Borrow<Tensor>, const N: usize> TensorList for &[T; N] {
    type Realized = [Tensor; N];

    fn tensors(&self) -> Vec<&Tensor> {
        (**self).tensors()
    }

    fn realized(tensors: Vec<Tensor>) -> Self::Realized {
        <[T; N]>::realized(tensors)
    }
}

impl<T: Borrow<Tensor>> TensorList for &[T] {
    type Realized = Vec<Tensor>;

    fn tensors(&self) -> Vec<&Tensor> {
        self.iter().map(Borrow::borrow).collect()
    }

    fn realized(tensors: Vec<Tensor>) -> Self::Realized {
        tensors
    }
}

impl<T: Borrow<Tensor>> TensorList for &Vec<T> {
    type Realized = Vec<Tensor>;

    fn tensors(&self) -> Vec<&Tensor> {
        self.iter().map(Borrow::borrow).collect()
    }

    fn realized(tensors: Vec<Tensor>) -> Self::Realized {
        tensors
    }
}

impl Tensor {
    /// Computes the tensor and returns its elements as an array.
    ///
    /// # Errors
    /// [`Error::ElementTypeMismatch`] if `T` is not the type of the elements; any error of building
    /// the tensor or of the executor, with the source line of the operation. An error that belongs
    /// to no operation has the line of this call.
    #[track_caller]
    pub fn eval<T: Element>(&self, executor: &dyn Executor) -> Result<ArrayD<T>> {
        self.expect::<T>("eval")?;
        let mut storages = computed(&[self], executor)?;
        match storages.pop() {
            // No other handle on the result exists, so reading it does not copy.
            Some(storage) => read("eval", &self.node().shape, storage),
            None => unreachable!("there is one result per tensor"),
        }
    }

    /// Computes the tensor and keeps the result in the memory of the executor. A tensor of host
    /// data is transferred once, instead of at every evaluation.
    ///
    /// # Errors
    /// As [`eval`](Tensor::eval).
    ///
    /// # Examples
    /// ```
    /// use tensor_core::ndarray::array;
    /// use tensor_core::{Host, Tensor};
    /// let host = Host::new();
    /// let weights = Tensor::arange(3).realize(&host)?;
    /// assert_eq!((&weights * 2).eval::<i32>(&host)?, array![0, 2, 4].into_dyn());
    /// assert_eq!(weights.to_host::<i32>()?, array![0, 1, 2].into_dyn());
    /// # Ok::<(), tensor_core::Error>(())
    /// ```
    #[track_caller]
    pub fn realize(&self, executor: &dyn Executor) -> Result<Self> {
        let [tensor] = Self::realize_all([self], executor)?;
        Ok(tensor)
    }

    /// Computes several tensors together, and their common subexpressions once. An example is a
    /// loss and its gradients, for which [`value_and_grad`](crate::value_and_grad) exists as well.
    ///
    /// `tensors` is an array, a slice or a vector, of tensors or of references. The result is an
    /// array for an array and a vector otherwise.
    ///
    /// # Errors
    /// As [`eval`](Tensor::eval).
    ///
    /// # Examples
    /// ```
    /// use tensor_core::ndarray::array;
    /// use tensor_core::{Host, Tensor};
    /// let host = Host::new();
    /// let x = Tensor::from_array(array![1.0_f32, 2.0, 3.0]);
    /// let [sum, squares] = Tensor::realize_all([&x.sum(..), &x.square()], &host)?;
    /// let powers: Vec<Tensor> = (0..4).map(|n| x.pow(n)).collect();
    /// let powers = Tensor::realize_all(&powers, &host)?;
    /// assert_eq!(powers[2].to_host::<f32>()?, squares.to_host::<f32>()?);
    /// assert_eq!(sum.item::<f32>(&host)?, 6.0);
    /// # Ok::<(), tensor_core::Error>(())
    /// ```
    #[track_caller]
    pub fn realize_all<L: TensorList>(tensors: L, executor: &dyn Executor) -> Result<L::Realized> {
        let line = Location::caller();
        let results = Self::realized(&tensors.tensors(), executor);
        results.map(L::realized).map_err(|error| error.at(line))
    }

    /// Computes a tensor of one element, of any rank, and returns the element.
    ///
    /// # Errors
    /// [`Error::NotAScalar`] if there is not exactly one element; otherwise as
    /// [`eval`](Tensor::eval).
    ///
    /// # Examples
    /// ```
    /// use tensor_core::{Host, Tensor};
    /// let x = Tensor::from_vec(&[2], vec![3.0_f32, 4.0]);
    /// assert_eq!(x.square().sum(..).sqrt().item::<f32>(&Host::new())?, 5.0);
    /// # Ok::<(), tensor_core::Error>(())
    /// ```
    #[track_caller]
    pub fn item<T: Element>(&self, executor: &dyn Executor) -> Result<T> {
        let operation = "item";
        self.expect::<T>(operation)?;
        let line = Location::caller();
        let shape = self.shape()?;
        let not_one = || {
            Error::NotAScalar {
                operation,
                shape: shape.to_vec(),
            }
            .at(line)
        };
        if shape.iter().product::<usize>() != 1 {
            return Err(not_one());
        }
        let elements = self.eval::<T>(executor)?;
        elements.first().copied().ok_or_else(not_one)
    }

    /// Computes the tensors of a list together, for [`realize_all`](Tensor::realize_all). An error
    /// that belongs to no operation has no source line.
    pub(crate) fn realized(tensors: &[&Self], executor: &dyn Executor) -> Result<Vec<Self>> {
        let storages = run(tensors, executor)?.into_iter();
        let mut results = Vec::with_capacity(tensors.len());
        for (tensor, storage) in tensors.iter().zip(storages) {
            let node = tensor.node();
            results.push(Self::stored(storage, node.shape.clone(), node.dtype));
        }
        Ok(results)
    }

    /// Creates the tensor of an array in memory.
    #[track_caller]
    pub(crate) fn stored(storage: Arc<dyn Storage>, shape: Vec<usize>, dtype: DType) -> Self {
        Self::new(Op::Data(storage), Vec::new(), shape, dtype)
    }

    /// Returns the array of a tensor, if it is in memory.
    pub(crate) fn storage(&self) -> Option<&Arc<dyn Storage>> {
        match &self.node().op {
            Op::Data(storage) => Some(storage),
            Op::Surrogate => self.node().inputs[0].storage(),
            _ => None,
        }
    }

    /// Returns the elements of a tensor that is in memory: created from data, or returned by
    /// [`realize`](Tensor::realize).
    ///
    /// # Errors
    /// With the source line of the caller: [`Error::NotRealized`] if the tensor is not in memory;
    /// [`Error::ElementTypeMismatch`] if `T` is not the type of the elements; [`Error::NoData`] for
    /// an argument of a function that is being traced; any error of the device.
    #[track_caller]
    pub fn to_host<T: Element>(&self) -> Result<ArrayD<T>> {
        let operation = "to_host";
        let storage = self.in_memory::<T>(operation)?;
        read(operation, &self.node().shape, Arc::clone(storage))
    }

    /// Calls `take` with the elements of a tensor in memory. Elements in host memory are borrowed,
    /// others are copied. `op` is the name of the operation in errors.
    ///
    /// # Errors
    /// As [`to_host`](Tensor::to_host).
    #[track_caller]
    pub(crate) fn with_elements<T: Element, R>(
        &self,
        operation: &'static str,
        take: impl FnOnce(&[T]) -> R,
    ) -> Result<R> {
        let storage = self.in_memory::<T>(operation)?;
        if let Some(elements) = HostStorage::downcast(&**storage).and_then(T::slice) {
            return Ok(take(elements));
        }
        let line = Location::caller();
        let read = pollster::block_on(Arc::clone(storage).read());
        let data = read.map_err(|error| error.at(line))?;
        Ok(take(T::slice(&data).unwrap_or_default()))
    }

    /// Returns the array of a tensor that is in memory and has elements of type `T`.
    #[track_caller]
    fn in_memory<T: Element>(&self, operation: &'static str) -> Result<&Arc<dyn Storage>> {
        self.expect::<T>(operation)?;
        let line = Location::caller();
        let missing = || Error::NotRealized { operation }.at(line);
        self.storage().ok_or_else(missing)
    }

    #[track_caller]
    fn expect<T: Element>(&self, operation: &'static str) -> Result<()> {
        let (asked, actual) = (T::DTYPE, self.dtype()?);
        if asked == actual {
            return Ok(());
        }
        Err(Error::ElementTypeMismatch {
            operation,
            asked,
            actual,
        }
        .at(Location::caller()))
    }
}

/// Computes tensors and returns the arrays, in the memory of the executor. An error that belongs to
/// no operation has the line of the caller.
#[track_caller]
pub(crate) fn computed(
    tensors: &[&Tensor],
    executor: &dyn Executor,
) -> Result<Vec<Arc<dyn Storage>>> {
    let line = Location::caller();
    run(tensors, executor).map_err(|error| error.at(line))
}

fn run(tensors: &[&Tensor], executor: &dyn Executor) -> Result<Vec<Arc<dyn Storage>>> {
    let (plan, data) = Plan::new(tensors, &executor.target())?;
    exec::run_and_wait(executor, &plan, &data)
}

#[track_caller]
fn read<T: Element>(
    operation: &'static str,
    shape: &[usize],
    storage: Arc<dyn Storage>,
) -> Result<ArrayD<T>> {
    let line = Location::caller();
    let data = pollster::block_on(storage.read()).map_err(|error| error.at(line))?;
    let data = T::from_host(data).map_err(|other| Error::ElementTypeMismatch {
        operation,
        asked: T::DTYPE,
        actual: other.dtype(),
    })?;
    from_checked(operation, IxDyn(shape), data)
}
