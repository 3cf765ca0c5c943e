//! Evaluation: the methods of [`Tensor`] that compute it on an executor.

use std::borrow::Borrow;
use std::panic::Location;
use std::sync::Arc;

use ndarray::ArrayD;

use super::{Executor, Storage, run_and_wait};
use crate::dtype::Element;
use crate::error::{Error, Result};
use crate::exec;
use crate::plan::Plan;
use crate::tensor::Tensor;
use crate::tensor::stored::{into_array, read};

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

    /// Computes the tensor and returns its elements as an array, without blocking the thread while
    /// a device computes. In a browser, whose main thread must not block, use this function
    /// instead of [`eval`](Tensor::eval).
    ///
    /// # Errors
    /// As [`eval`](Tensor::eval).
    ///
    /// # Examples
    /// ```
    /// use tensor_core::ndarray::array;
    /// use tensor_core::{Host, Tensor};
    /// # pollster::block_on(async {
    /// let host = Host::new();
    /// let doubled = Tensor::arange(3) * 2;
    /// assert_eq!(doubled.eval_async::<i32>(&host).await?, array![0, 2, 4].into_dyn());
    /// # Ok::<(), tensor_core::Error>(())
    /// # }).unwrap();
    /// ```
    #[track_caller]
    pub fn eval_async<'a, T: Element>(
        &'a self,
        executor: &'a dyn Executor,
    ) -> impl Future<Output = Result<ArrayD<T>>> + 'a {
        // The source line of the caller is not available within the future.
        let (line, checked) = (Location::caller(), self.expect::<T>("eval"));
        async move {
            checked?;
            let evaluated = async {
                let (plan, data) = Plan::cached(&[self], &executor.target())?;
                let mut storages = exec::run(executor, &plan, &data).await?;
                let data = match storages.pop() {
                    Some(storage) => storage.read().await?,
                    None => unreachable!("there is one result per tensor"),
                };
                into_array("eval", &self.node().shape, data)
            };
            evaluated.await.map_err(|error: Error| error.at(line))
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
        let results = realized(&tensors.tensors(), executor);
        results.map(L::realized).map_err(|error| error.at(line))
    }

    /// Computes several tensors together as [`realize_all`](Tensor::realize_all) does, without
    /// blocking the thread.
    ///
    /// # Errors
    /// As [`eval`](Tensor::eval).
    #[track_caller]
    pub fn realize_all_async<'a, L: TensorList + 'a>(
        tensors: L,
        executor: &'a dyn Executor,
    ) -> impl Future<Output = Result<L::Realized>> + 'a {
        let line = Location::caller();
        async move {
            let list = tensors.tensors();
            let (plan, data) =
                Plan::cached(&list, &executor.target()).map_err(|error| error.at(line))?;
            let storages = exec::run(executor, &plan, &data).await;
            let storages = storages.map_err(|error| error.at(line))?;
            Ok(L::realized(in_memory(&list, storages)))
        }
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
}

/// Computes the tensors of a list together, for [`realize_all`](Tensor::realize_all). An error
/// that belongs to no operation has no source line.
pub(crate) fn realized(tensors: &[&Tensor], executor: &dyn Executor) -> Result<Vec<Tensor>> {
    Ok(in_memory(tensors, run(tensors, executor)?))
}

/// Returns tensors of computed arrays, with the shapes of the tensors that were computed.
fn in_memory(tensors: &[&Tensor], storages: Vec<Arc<dyn Storage>>) -> Vec<Tensor> {
    let mut results = Vec::with_capacity(tensors.len());
    for (tensor, storage) in tensors.iter().zip(storages) {
        let node = tensor.node();
        results.push(Tensor::stored(storage, node.shape.clone(), node.dtype));
    }
    results
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
    let (plan, data) = Plan::cached(tensors, &executor.target())?;
    run_and_wait(executor, &plan, &data)
}

#[cfg(test)]
mod tests {
    use std::any::Any;
    use std::fmt;

    use ndarray::array;
    use pollster::block_on;

    use super::*;
    use crate::dtype::{DType, HostData};
    use crate::exec::{Host, Reference};
    use crate::plan::{Step, Target};
    use crate::storage::Pending;

    /// A device that fails in one function.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Faulty {
        Upload,
        Run,
        Submit,
        Read,
    }

    fn fault() -> Error {
        Error::Device {
            executor: "faulty".to_owned(),
            source: Arc::new(fmt::Error),
        }
    }

    impl Faulty {
        fn reach(self, function: Self) -> Result<()> {
            if self == function {
                return Err(fault());
            }
            Ok(())
        }
    }

    impl Executor for Faulty {
        fn name(&self) -> &'static str {
            "faulty"
        }

        fn target(&self) -> Target {
            Reference.target()
        }

        fn owns(&self, storage: &dyn Storage) -> bool {
            let is_own = (storage as &dyn Any).is::<Unreadable>();
            is_own || (*self != Self::Upload && Reference.owns(storage))
        }

        fn upload(&self, data: HostData) -> Result<Arc<dyn Storage>> {
            self.reach(Self::Upload)?;
            Reference.upload(data)
        }

        fn run(&self, step: &Step, inputs: &[Arc<dyn Storage>]) -> Result<Arc<dyn Storage>> {
            self.reach(Self::Run)?;
            let output = Reference.run(step, inputs)?;
            if *self == Self::Read {
                return Ok(Arc::new(Unreadable(output)));
            }
            Ok(output)
        }

        fn submit(&self) -> Result<()> {
            self.reach(Self::Submit)
        }
    }

    /// An array that the device cannot transfer.
    #[derive(Debug)]
    struct Unreadable(Arc<dyn Storage>);

    impl Storage for Unreadable {
        fn dtype(&self) -> DType {
            self.0.dtype()
        }

        fn len(&self) -> usize {
            self.0.len()
        }

        fn read(self: Arc<Self>) -> Pending<'static, Result<HostData>> {
            Box::pin(async { Err(fault()) })
        }
    }

    #[track_caller]
    fn assert_line(error: &Error, line: u32) {
        let location = error.location().unwrap();
        assert_eq!(
            (location.file(), location.line()),
            (file!(), line),
            "{error}"
        );
    }

    #[test]
    fn async_evaluation_has_the_line_of_the_operation_that_fails() {
        let x = Tensor::from_array(array![1.0_f32, 2.0]);
        let line = line!() + 1;
        let wrong_shape = &x + &Tensor::from_array(array![1.0_f32, 2.0, 3.0]);
        let wrong_index = x.gather(&Tensor::from_vec(&[1], vec![7]), 0);
        let sum = &x + 1;
        for (line, tensor, executor) in [
            (line, wrong_shape, &Host::new() as &dyn Executor),
            (line + 1, wrong_index, &Host::new()),
            (line + 2, sum, &Faulty::Run),
        ] {
            let error = block_on(tensor.eval_async::<f32>(executor)).unwrap_err();
            assert_line(&error, line);
            let same = tensor.eval::<f32>(executor).unwrap_err();
            assert_eq!(error.to_string(), same.to_string());
            let all = block_on(Tensor::realize_all_async([&tensor], executor)).unwrap_err();
            assert_line(&all, line);
        }
    }

    #[test]
    fn async_evaluation_has_the_line_of_its_call_for_errors_of_no_operation() {
        let x = Tensor::from_array(array![1.0_f32, 2.0]) + 1;
        for faulty in [Faulty::Upload, Faulty::Submit, Faulty::Read] {
            let line = line!() + 1;
            let evaluated = x.eval_async::<f32>(&faulty);
            let error = block_on(evaluated).unwrap_err();
            assert!(matches!(error.root(), Error::Device { .. }), "{error}");
            assert_line(&error, line);
        }
        for faulty in [Faulty::Upload, Faulty::Submit] {
            let line = line!() + 1;
            let realized = Tensor::realize_all_async([&x], &faulty);
            assert_line(&block_on(realized).unwrap_err(), line);
        }
        let host = Host::new();
        let line = line!() + 1;
        let evaluated = x.eval_async::<i32>(&host);
        let error = block_on(evaluated).unwrap_err();
        assert!(
            matches!(error.root(), Error::ElementTypeMismatch { .. }),
            "{error}"
        );
        assert_line(&error, line);
    }

    #[test]
    fn async_reads_have_the_line_of_their_call() {
        let x = Tensor::from_array(array![1.0_f32, 2.0]);
        assert_eq!(
            block_on(x.to_host_async::<f32>()).unwrap(),
            x.to_host().unwrap()
        );
        let sum = &x + 1;
        let unreadable = sum.realize(&Faulty::Read).unwrap();
        let first = line!() + 2;
        let reads = [
            unreadable.to_host_async::<f32>(),
            sum.to_host_async::<f32>(),
            x.cast(DType::I32).to_host_async::<f32>(),
        ];
        let errors = reads.map(|read| block_on(read).unwrap_err());
        for (line, error) in (first..).zip(&errors) {
            assert_line(error, line);
        }
        assert!(matches!(errors[0].root(), Error::Device { .. }));
        assert!(matches!(errors[1].root(), Error::NotRealized { .. }));
        assert!(matches!(
            errors[2].root(),
            Error::ElementTypeMismatch { .. }
        ));
    }
}
