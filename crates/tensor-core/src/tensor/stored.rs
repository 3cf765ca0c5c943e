//! Tensors whose elements are in memory: creating them and reading their elements.

use std::panic::Location;
use std::sync::Arc;

use ndarray::{ArrayD, IxDyn};

use super::{Op, Tensor, or_error_node};
use crate::array::from_checked;
use crate::dtype::{DType, Element, HostData};
use crate::error::{Error, Result};
use crate::shape::{check_rank, element_count};
use crate::storage::{HostStorage, Storage};

impl Tensor {
    /// Creates the tensor of an array in memory.
    #[track_caller]
    pub(crate) fn stored(storage: Arc<dyn Storage>, shape: Vec<usize>, dtype: DType) -> Self {
        Self::new(Op::Data(storage), Vec::new(), shape, dtype)
    }

    /// Creates a tensor whose elements are in the memory of an executor, in row-major order.
    ///
    /// Returns an error node of [`Error::LengthMismatch`] if the memory does not have as many
    /// elements as the shape, and of [`Error::TooLarge`] or [`Error::RankTooLarge`] for a shape
    /// that no tensor can have.
    #[track_caller]
    #[must_use]
    pub fn from_storage(storage: Arc<dyn Storage>, shape: &[usize]) -> Self {
        let operation = "from_storage";
        or_error_node!(check_rank(operation, shape.len()));
        let expected = or_error_node!(element_count(operation, shape));
        if storage.len() != expected {
            return Self::error(Error::LengthMismatch {
                operation,
                shape: shape.to_vec(),
                expected,
                actual: storage.len(),
            });
        }
        let dtype = storage.dtype();
        Self::stored(storage, shape.to_vec(), dtype)
    }

    /// Returns the memory of a tensor that was created from data or returned by
    /// [`realize`](Tensor::realize), also if it has another gradient
    /// ([`with_surrogate_gradient`](Tensor::with_surrogate_gradient)); `None` for any other tensor.
    #[must_use]
    pub fn storage(&self) -> Option<&Arc<dyn Storage>> {
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

    /// Returns the elements of a tensor that is in memory as [`to_host`](Tensor::to_host) does,
    /// without blocking the thread while a device transfers them. In a browser, whose main thread
    /// must not block, use this function instead of `to_host`.
    ///
    /// # Errors
    /// As [`to_host`](Tensor::to_host).
    ///
    /// # Examples
    /// ```
    /// use tensor_core::ndarray::array;
    /// use tensor_core::{Host, Tensor};
    /// # pollster::block_on(async {
    /// let doubled = Tensor::realize_all_async([Tensor::arange(3) * 2], &Host::new()).await?;
    /// assert_eq!(doubled[0].to_host_async::<i32>().await?, array![0, 2, 4].into_dyn());
    /// # Ok::<(), tensor_core::Error>(())
    /// # }).unwrap();
    /// ```
    #[track_caller]
    pub fn to_host_async<T: Element>(&self) -> impl Future<Output = Result<ArrayD<T>>> + use<T> {
        let operation = "to_host";
        // The source line of the caller is not available within the future.
        let line = Location::caller();
        let storage = self.in_memory::<T>(operation).cloned();
        let shape = self.node().shape.clone();
        async move {
            let data = storage?.read().await.map_err(|error| error.at(line))?;
            into_array(operation, &shape, data).map_err(|error| error.at(line))
        }
    }

    /// Calls `take` with the elements of a tensor in memory. Elements in host memory are borrowed,
    /// others are copied. `operation` is the name of the operation in errors.
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
        self.realized(operation)
    }

    /// Returns the array of a tensor that is in memory.
    #[track_caller]
    pub(crate) fn realized(&self, operation: &'static str) -> Result<&Arc<dyn Storage>> {
        let line = Location::caller();
        let missing = || Error::NotRealized { operation }.at(line);
        self.storage().ok_or_else(missing)
    }

    /// Checks that `T` is the type of the elements.
    #[track_caller]
    pub(crate) fn expect<T: Element>(&self, operation: &'static str) -> Result<()> {
        let (requested, actual) = (T::DTYPE, self.dtype()?);
        if requested == actual {
            return Ok(());
        }
        Err(Error::ElementTypeMismatch {
            operation,
            requested,
            actual,
        }
        .at(Location::caller()))
    }
}

/// Reads an array into host memory; `operation` is named in errors.
#[track_caller]
pub(crate) fn read<T: Element>(
    operation: &'static str,
    shape: &[usize],
    storage: Arc<dyn Storage>,
) -> Result<ArrayD<T>> {
    let line = Location::caller();
    let data = pollster::block_on(storage.read()).map_err(|error| error.at(line))?;
    into_array(operation, shape, data)
}

/// Returns host data as an array; `operation` is named in errors.
pub(crate) fn into_array<T: Element>(
    operation: &'static str,
    shape: &[usize],
    data: HostData,
) -> Result<ArrayD<T>> {
    let data = T::from_host(data).map_err(|other| Error::ElementTypeMismatch {
        operation,
        requested: T::DTYPE,
        actual: other.dtype(),
    })?;
    from_checked(operation, IxDyn(shape), data)
}
