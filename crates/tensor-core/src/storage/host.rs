//! Arrays in host memory.

use std::any::Any;
use std::sync::Arc;

use super::pool::Pool;
use super::{Pending, Storage};
use crate::dtype::{DType, Element, HostData, with_element};
use crate::error::{Error, Result};

/// Returns `len` zeros in new memory.
///
/// # Errors
/// [`Error::OutOfMemory`] if the system has not enough memory.
pub(crate) fn zeros<T: Element>(executor: &'static str, len: usize) -> Result<Vec<T>> {
    // Two requests are needed: only `try_reserve_exact` can fail without aborting the process, and
    // only `vec!` gets pages from the system that are zero already.
    if Vec::<T>::new().try_reserve_exact(len).is_err() {
        return Err(Error::OutOfMemory {
            executor,
            len,
            dtype: T::DTYPE,
        });
    }
    Ok(vec![T::default(); len])
}

/// Elements in host memory.
#[derive(Debug)]
pub struct HostStorage {
    data: HostData,
    /// The pool that owns the memory; `None` for data from the caller.
    pool: Option<Arc<Pool>>,
}

impl HostStorage {
    /// Wraps data that a caller provided. No pool counts or reuses its memory.
    #[must_use]
    pub fn foreign(data: HostData) -> Self {
        Self { data, pool: None }
    }

    /// Wraps memory that returns to `pool` when the storage is dropped.
    pub(crate) fn pooled(data: HostData, pool: &Arc<Pool>) -> Self {
        let pool = Some(Arc::clone(pool));
        Self { data, pool }
    }

    /// Returns the elements.
    #[must_use]
    pub fn data(&self) -> &HostData {
        &self.data
    }

    /// Returns the elements for writing; an empty slice if `T` is not their type.
    pub(crate) fn elements_mut<T: Element>(&mut self) -> &mut [T] {
        T::slice_mut(&mut self.data).unwrap_or_default()
    }

    /// Returns the elements of a storage, or `None` if it is not in host memory.
    pub(crate) fn downcast(storage: &dyn Storage) -> Option<&HostData> {
        let any: &dyn Any = storage;
        any.downcast_ref::<Self>().map(Self::data)
    }

    /// Takes the elements out of the storage; their memory does not return to the pool.
    fn into_data(mut self) -> HostData {
        if let Some(pool) = self.pool.take() {
            pool.let_go(&self.data);
        }
        self.take()
    }

    fn take(&mut self) -> HostData {
        std::mem::replace(&mut self.data, HostData::Bool(Vec::new()))
    }
}

impl Drop for HostStorage {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.take() {
            pool.release(self.take());
        }
    }
}

impl Storage for HostStorage {
    fn dtype(&self) -> DType {
        self.data.dtype()
    }

    fn len(&self) -> usize {
        self.data.len()
    }

    fn read(self: Arc<Self>) -> Pending<'static, Result<HostData>> {
        Box::pin(async move {
            Ok(match Arc::try_unwrap(self) {
                Ok(only) => only.into_data(),
                Err(shared) => copied(&shared.data)?,
            })
        })
    }
}

/// Returns a copy in new memory, or [`Error::OutOfMemory`] if there is not enough.
fn copied(data: &HostData) -> Result<HostData> {
    with_element!(data.dtype(), T => {
        let elements = T::slice(data).unwrap_or_default();
        let mut copy = Vec::new();
        if copy.try_reserve_exact(elements.len()).is_err() {
            return Err(Error::OutOfMemory {
                executor: "host",
                len: elements.len(),
                dtype: T::DTYPE,
            });
        }
        copy.extend_from_slice(elements);
        Ok(T::into_host(copy))
    })
}

pub(super) fn bytes(data: &HostData) -> usize {
    data.len() * data.dtype().bytes()
}
