//! Memory of arrays: the trait that every executor implements for its memory, and host memory.
//!
//! Role: the layer below tensors and plans. A tensor in memory holds a [`Storage`] and does not
//! depend on the executor that created the storage.

use std::any::Any;
use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;

use crate::dtype::{DType, HostData};
use crate::error::Result;

pub use host::HostStorage;
pub(crate) use host::zeros;
pub(crate) use pool::Pool;

mod host;
mod pool;

/// A boxed future that can be sent between threads.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Memory that holds the elements of one array, on the host or on a device.
///
/// Elements are contiguous. A storage never changes after its executor has returned it, and its
/// memory is freed when the last handle is dropped. An executor that queues work keeps the inputs
/// of that work alive itself.
pub trait Storage: Any + Debug + Send + Sync {
    /// Returns the type of the elements.
    fn dtype(&self) -> DType;

    /// Returns the number of elements.
    fn len(&self) -> usize;

    /// Returns `true` if there are no elements.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the elements in host memory, without a copy if this handle is the only owner and the
    /// elements are in host memory already. The work may begin at the call or when the future is
    /// first polled. The work must not depend on the rayon pool of the polling thread.
    ///
    /// # Errors
    /// Errors of the device; [`NoData`](crate::Error::NoData) for a placeholder of
    /// [`jit`](crate::jit()).
    fn read(self: Arc<Self>) -> Pending<'static, Result<HostData>>;
}

/// The memory that an executor uses, in bytes: the arrays that it created and the temporary memory
/// of its steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryUse {
    /// Bytes in use now.
    pub live_bytes: usize,
    /// Peak of the bytes in use at one time.
    pub peak_bytes: usize,
}
