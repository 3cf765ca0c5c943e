//! Arrays in host memory, and how many bytes of them there are.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Pending, Storage};
use crate::dtype::{DType, Element, HostData};
use crate::error::{Error, Result};

/// Counts the bytes of arrays that live at one time.
#[derive(Debug, Default)]
pub(super) struct Meter {
    live: AtomicUsize,
    peak: AtomicUsize,
}

impl Meter {
    pub(super) fn add(&self, bytes: usize) {
        let live = self.live.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak.fetch_max(live, Ordering::Relaxed);
    }

    pub(super) fn sub(&self, bytes: usize) {
        self.live.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(super) fn live(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    pub(super) fn peak(&self) -> usize {
        self.peak.load(Ordering::Relaxed)
    }

    pub(super) fn reset_peak(&self) {
        self.peak.store(self.live(), Ordering::Relaxed);
    }
}

/// Bytes that are counted as long as it lives.
#[derive(Debug)]
pub(super) struct Held<'m> {
    meter: &'m Meter,
    bytes: usize,
}

impl Meter {
    /// Counts bytes that are about to be allocated.
    pub(super) fn hold(&self, bytes: usize) -> Held<'_> {
        self.add(bytes);
        Held { meter: self, bytes }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.meter.sub(self.bytes);
    }
}

/// Zeros in new memory, if there is enough.
pub(super) fn zeros<T: Element>(executor: &'static str, len: usize) -> Result<Vec<T>> {
    // Asked for twice: only this way of asking can be refused, only the other gives pages that are zero already.
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
    /// The counter of the executor that computed it; data that a caller gave is counted nowhere.
    meter: Option<Arc<Meter>>,
}

impl HostStorage {
    /// Takes data that a caller gave.
    #[must_use]
    pub fn foreign(data: HostData) -> Self {
        Self { data, meter: None }
    }

    /// Takes data that was computed; `meter` counts it until it goes.
    pub(super) fn counted(data: HostData, meter: &Arc<Meter>) -> Self {
        meter.add(bytes(&data));
        Self {
            data,
            meter: Some(Arc::clone(meter)),
        }
    }

    /// The elements.
    #[must_use]
    pub fn data(&self) -> &HostData {
        &self.data
    }

    /// The elements of a storage that is in host memory.
    pub(super) fn of(storage: &dyn Storage) -> Option<&HostData> {
        let any: &dyn Any = storage;
        any.downcast_ref::<Self>().map(Self::data)
    }
}

impl Drop for HostStorage {
    fn drop(&mut self) {
        if let Some(meter) = &self.meter {
            meter.sub(bytes(&self.data));
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
                Ok(mut only) => {
                    if let Some(meter) = only.meter.take() {
                        meter.sub(bytes(&only.data));
                    }
                    std::mem::replace(&mut only.data, HostData::Bool(Vec::new()))
                }
                Err(shared) => shared.data.clone(),
            })
        })
    }
}

fn bytes(data: &HostData) -> usize {
    data.len() * data.dtype().bytes()
}
