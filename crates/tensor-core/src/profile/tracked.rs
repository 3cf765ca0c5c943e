//! A storage wrapper that records its release.

use std::any::Any;
use std::sync::Arc;

use super::recorder::Recorder;
use crate::dtype::{DType, HostData};
use crate::error::Result;
use crate::exec::{Pending, Storage};

/// An array of the wrapped executor, with the guard that records its release.
#[derive(Debug)]
pub(super) struct Tracked {
    // Dropped before `held`, so that the live bytes of the profiler never fall below those of the
    // executor.
    inner: Arc<dyn Storage>,
    held: LiveBytes,
}

/// Bytes that count as live until this value is dropped.
#[derive(Debug)]
pub(super) struct LiveBytes {
    recorder: Arc<Recorder>,
    subject: u32,
    bytes: u64,
}

impl Tracked {
    pub(super) fn new(inner: Arc<dyn Storage>, held: LiveBytes) -> Self {
        Self { inner, held }
    }

    /// Returns the executor's own storage if `storage` is a wrapper of any profiler.
    pub(super) fn inside(storage: &dyn Storage) -> Option<&dyn Storage> {
        let any: &dyn Any = storage;
        any.downcast_ref::<Self>()
            .map(|tracked| tracked.inner.as_ref())
    }
}

/// Returns the executor's own storage, without a wrapper.
pub(super) fn bare(storage: &Arc<dyn Storage>) -> Arc<dyn Storage> {
    let any: &dyn Any = storage.as_ref();
    Arc::clone(any.downcast_ref().map_or(storage, |it: &Tracked| &it.inner))
}

impl LiveBytes {
    /// Creates a guard for bytes that are already recorded as allocated.
    pub(super) fn new(recorder: &Arc<Recorder>, subject: u32, bytes: u64) -> Self {
        Self {
            recorder: Arc::clone(recorder),
            subject,
            bytes,
        }
    }
}

impl Drop for LiveBytes {
    fn drop(&mut self) {
        self.recorder.released(self.subject, self.bytes);
    }
}

impl Storage for Tracked {
    fn dtype(&self) -> DType {
        self.inner.dtype()
    }

    fn len(&self) -> usize {
        self.inner.len()
    }

    fn read(self: Arc<Self>) -> Pending<'static, Result<HostData>> {
        Box::pin(async move {
            let recorder = Arc::clone(&self.held.recorder);
            let parent = recorder.current();
            let mut open = recorder.open_named("read", self.held.bytes, parent);
            let result = match Arc::try_unwrap(self) {
                // The only owner passes its array on, so that reading needs no copy. The array
                // counts as live until then.
                Ok(Self { inner, held }) => {
                    let result = inner.read().await;
                    drop(held);
                    result
                }
                Err(shared) => Arc::clone(&shared.inner).read().await,
            };
            if result.is_ok() {
                open.succeeded();
            }
            drop(open);
            result
        })
    }
}
