//! The only module that uses wgpu: opens devices, manages memory and pipelines, and runs recorded
//! work.
//!
//! Role: translates plain descriptions ([`Kernel`], [`crate::Adapter`], shapes) to wgpu calls, and
//! wgpu errors to [`Error`]. `open` finds and opens adapters, `memory` allocates and uploads,
//! `staging` reads back, `kernels` compiles, `batch` records and submits, `timing` measures.
//! Method: device errors never cause a panic. Resources are created inside error scopes. Other wgpu
//! errors are collected and returned by the next call that compiles, uploads, submits or reads. The
//! device-lost callback sets a flag that every call checks first.

mod batch;
mod experimental;
mod generated;
mod kernels;
mod memory;
mod open;
mod staging;
mod timing;

/// Re-export of wgpu, for applications that open their own device.
#[cfg(feature = "existing-device")]
pub(crate) mod foreign {
    /// The wgpu version of the devices accepted by
    /// [`Gpu::from_existing`](crate::Gpu::from_existing).
    pub use wgpu;
}

pub(crate) use generated::Generated;
pub use memory::{AnyBuffer, Buffer, Scalar};
pub use open::adapters;
pub(crate) use staging::PendingRead;
pub use staging::Read;
pub(crate) use timing::Measuring;
pub use timing::{Timer, Timing};

use staging::Staging;

use crate::adapter::{Adapter, Feature, Select};
use crate::limits::KernelLimits;
use crate::pool::{Pool, PoolCounters};
use crate::{Error, Result};
use shaders::{Kernel, Params};
use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tensor_core::exec::Cache;

/// An open device: cheap to clone, usable from many threads.
///
/// Work is recorded by [`Gpu::dispatch`] and sent in one submission at [`Gpu::flush`] or when a
/// result is read. Threads that record concurrently share one submission, in the order of their
/// calls.
#[derive(Clone, Debug)]
pub struct Gpu {
    shared: Arc<Shared>,
}

/// State shared by all clones and buffers of a device.
#[derive(Debug)]
struct Shared {
    adapter: Adapter,
    device: wgpu::Device,
    queue: wgpu::Queue,
    timer: Timer,
    pool: Mutex<Pool<wgpu::Buffer>>,
    /// Compiled kernels that callers described.
    pipelines: Cache<Kernel, Arc<kernels::Pipeline>>,
    limits: KernelLimits,
    /// The state that the executor attaches to the device ([`Gpu::extension`]).
    extension: OnceLock<Box<dyn Any + Send + Sync>>,
    batch: Mutex<batch::Batch>,
    marks_unwritten: AtomicBool,
    staging: Mutex<Staging>,
    /// Reason of the device's loss, once it is lost.
    lost: Arc<OnceLock<String>>,
    /// Errors that wgpu reported outside of error scopes, oldest first.
    faults: Arc<Mutex<Vec<String>>>,
}

impl Gpu {
    /// Opens a device on the selected adapter, with the adapter's limits and all features of
    /// [`Feature`] that it supports, except cooperative matrices
    /// ([`Gpu::open_with_matrices`]).
    ///
    /// # Errors
    /// [`Error::NoAdapter`] if no adapter matches the selection; [`Error::Device`] if the driver
    /// cannot open the device.
    pub fn open(select: Select) -> Result<Self> {
        pollster::block_on(Self::open_async(select))
    }

    /// Opens a device without blocking; see [`Gpu::open`].
    ///
    /// # Errors
    /// As [`Gpu::open`].
    pub async fn open_async(select: Select) -> Result<Self> {
        open::open(select, FeatureSet::Stable).await
    }

    /// Opens a device whose kernels may use cooperative matrices; their products are unchecked.
    pub(crate) fn open_unchecked_matrices(select: Select) -> Result<Self> {
        pollster::block_on(open::open(select, FeatureSet::WithMatrices))
    }

    /// Opens a new device on the same adapter, for example after a loss. Buffers of this device are
    /// not transferred; host data stays valid.
    ///
    /// # Errors
    /// As [`Gpu::open`]; [`Error::NoAdapter`] if the adapter no longer exists.
    pub fn reopen(&self) -> Result<Self> {
        let own = &self.adapter().name;
        let found = adapters().into_iter().find(|adapter| adapter.name == *own);
        // If the adapter is gone, opening by name returns the error that lists the existing
        // adapters.
        let by_name = || Select::Name(own.clone());
        let select = found.map_or_else(by_name, |adapter| Select::Index(adapter.index));
        match self.limits().matrices {
            None => Self::open(select),
            // The products of this adapter were compared when the first device was opened.
            Some(_) => Self::open_unchecked_matrices(select),
        }
    }

    /// Returns the description of the adapter.
    #[must_use]
    pub fn adapter(&self) -> &Adapter {
        &self.shared.adapter
    }

    /// Returns the method that [`Gpu::time`] uses on this device.
    #[must_use]
    pub fn timer(&self) -> Timer {
        self.shared.timer
    }

    /// Returns whether both handles refer to the same open device.
    #[must_use]
    pub fn is_same_device(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Returns the limits for kernels of nests.
    pub(crate) fn limits(&self) -> &KernelLimits {
        &self.shared.limits
    }

    /// Returns the state that a layer above the device shares among all clones of this device; the
    /// first call creates it. The type is erased so that the device does not depend on that layer.
    ///
    /// # Panics
    /// If calls use different types.
    pub(crate) fn extension<T: Default + Send + Sync + 'static>(&self) -> &T {
        let state = self.shared.extension.get_or_init(|| Box::<T>::default());
        state
            .downcast_ref()
            .expect("one type per device, the executor's state")
    }

    /// Returns the byte and buffer counts of the device's pool.
    #[must_use]
    pub fn pool(&self) -> PoolCounters {
        lock(&self.shared.pool).counters()
    }

    /// Resets the peak of [`Gpu::pool`] to the current live bytes, and frees unused buffers of the
    /// pool beyond this peak or 16 MiB, whichever is larger.
    pub fn reset_peak(&self) {
        lock(&self.shared.pool).reset_peak();
    }

    /// Sets the maximum of live bytes; larger allocations return [`Error::OutOfMemory`]. `None`
    /// removes the limit.
    pub fn set_budget(&self, bytes: Option<u64>) {
        lock(&self.shared.pool).set_budget(bytes);
    }

    /// Sets whether new buffers are filled with the comparator's sentinel (default: only with
    /// `TENSOR_VERIFY=1`). A kernel that does not write all elements then cannot produce correct
    /// results from old contents.
    pub fn poison_allocations(&self, marks: bool) {
        self.shared.marks_unwritten.store(marks, Ordering::Relaxed);
    }

    /// Frees the unused buffers of the pool on the device.
    pub fn trim(&self) {
        lock(&self.shared.pool).trim();
    }

    /// Checks that the device has all features of `needs`; errors refer to `operation`.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with the first missing feature.
    pub fn require(&self, operation: &str, needs: &[Feature]) -> Result<()> {
        match needs
            .iter()
            .find(|feature| !self.adapter().features.contains(feature))
        {
            None => Ok(()),
            Some(&feature) => Err(Error::Unsupported {
                operation: operation.to_owned(),
                feature,
                adapter: self.adapter().name.clone(),
            }),
        }
    }

    /// Records one run of `kernel` over the domain of `params`.
    ///
    /// The buffers are in the order of the kernel's bindings. Nothing runs before [`Gpu::flush`] or
    /// a read. An empty domain records nothing. The kernel is compiled at its first use and cached.
    ///
    /// # Errors
    /// [`Error::Interface`] if parameters or buffers do not match the kernel (a buffer may be
    /// longer than needed), [`Error::TooLarge`] if the grid, a buffer, a loop or the workgroup
    /// exceeds a limit of the device, [`Error::Shader`] if the text does not compile,
    /// [`Error::Device`] for errors that the driver reported so far, [`Error::ForeignBuffer`],
    /// [`Error::Lost`].
    pub fn dispatch<P: Params>(
        &self,
        kernel: &Kernel,
        params: &P,
        buffers: &[&AnyBuffer],
    ) -> Result<()> {
        self.alive("dispatch")?;
        kernels::check_interface(kernel, params, buffers)?;
        for buffer in buffers {
            self.check_owner("dispatch", buffer)?;
            self.check_bound(buffer)?;
        }
        let domain = params.domain();
        let limit = self.adapter().limits.max_compute_workgroups_per_dimension;
        let grid = crate::linear_grid(&kernel.name, &domain, kernel.n_workgroups(domain), limit)?;
        if grid == [0, 0] {
            return Ok(());
        }
        self.check_loops(kernel, params.loop_iterations(), domain)?;
        let pipeline = self.pipeline(kernel)?;
        self.record(batch::Run::new(
            pipeline,
            bytemuck::bytes_of(params).to_vec(),
            buffers,
            grid,
        ))
    }

    /// Destroys the device and frees its memory at once. Every later call returns [`Error::Lost`].
    pub fn destroy(&self) {
        self.shared.device.destroy();
        // The driver reports the loss only when no work is left, so the flag is set here.
        let _ = self.shared.lost.set("destroyed by its owner".to_owned());
        // The loss callback runs inside a poll. An error of the poll has the same cause, so it is
        // ignored.
        let _ = self.shared.device.poll(wgpu::PollType::Poll);
    }

    /// Returns [`Error::Lost`] if the device is lost.
    fn alive(&self, operation: &'static str) -> Result<()> {
        match self.shared.lost.get() {
            None => Ok(()),
            Some(reason) => Err(Error::Lost {
                operation,
                adapter: self.adapter().name.clone(),
                reason: reason.clone(),
            }),
        }
    }

    /// Returns an error if the device is lost or if wgpu reported errors since the last call.
    fn sound(&self, operation: &'static str) -> Result<()> {
        self.alive(operation)?;
        let faults = std::mem::take(&mut *lock(&self.shared.faults));
        if faults.is_empty() {
            return Ok(());
        }
        // A lost device may reject calls before it reports its loss, so check for the loss again.
        let _ = self.shared.device.poll(wgpu::PollType::Poll);
        self.alive(operation)?;
        Err(Error::Device {
            operation,
            message: faults.join("; "),
        })
    }

    /// Runs `create` inside error scopes; returns its result, or the first error. In a browser an
    /// error is known only after a return to the event loop, so there the next read of the device
    /// returns the error ([`Gpu::sound`]).
    fn scoped<T>(
        &self,
        create: impl FnOnce(&wgpu::Device) -> T,
    ) -> std::result::Result<T, ResourceError> {
        let device = &self.shared.device;
        if cfg!(target_arch = "wasm32") {
            return Ok(create(device));
        }
        let memory = device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let internal = device.push_error_scope(wgpu::ErrorFilter::Internal);
        let validation = device.push_error_scope(wgpu::ErrorFilter::Validation);
        let made = create(device);
        let faults = [validation.pop(), internal.pop(), memory.pop()].map(pollster::block_on);
        match faults.into_iter().flatten().next() {
            None => Ok(made),
            Some(fault) => Err(fault.into()),
        }
    }

    /// Checks that the driver does not end the kernel's loops early.
    fn check_loops(&self, kernel: &Kernel, needed: u64, domain: [u64; 3]) -> Result<()> {
        match self.adapter().max_loop_iterations {
            Some(limit) if needed > limit => Err(Error::TooLarge {
                operation: "dispatch",
                name: kernel.name.to_string(),
                shape: domain.to_vec(),
                needed,
                unit: "loop iterations",
                limit_name: "max loop iterations",
                limit,
            }),
            _ => Ok(()),
        }
    }

    /// Checks that a buffer can be bound whole.
    fn check_bound(&self, buffer: &AnyBuffer) -> Result<()> {
        let limit = self.adapter().limits.max_storage_buffer_binding_size;
        if buffer.bytes() <= limit {
            return Ok(());
        }
        Err(Error::TooLarge {
            operation: "dispatch",
            name: buffer.name().to_owned(),
            shape: buffer.shape().iter().map(|&side| side as u64).collect(),
            needed: buffer.bytes(),
            unit: "bytes",
            limit_name: "maxStorageBufferBindingSize",
            limit,
        })
    }

    pub(crate) fn check_owner(&self, operation: &'static str, buffer: &AnyBuffer) -> Result<()> {
        if std::ptr::eq(Arc::as_ptr(&self.shared), buffer.shared().as_ptr()) {
            Ok(())
        } else {
            Err(Error::ForeignBuffer {
                operation,
                name: buffer.name().to_owned(),
            })
        }
    }
}

/// The features with which a device is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FeatureSet {
    /// The stable features of the adapter.
    Stable,
    /// The stable features and cooperative matrices.
    WithMatrices,
}

/// Error of wgpu while creating a resource.
#[derive(Debug)]
enum ResourceError {
    OutOfMemory(String),
    /// The allocation would exceed the budget of the caller.
    OverBudget(String),
    Rejected(String),
}

impl From<wgpu::Error> for ResourceError {
    fn from(error: wgpu::Error) -> Self {
        match error {
            wgpu::Error::OutOfMemory { source } => Self::OutOfMemory(source.to_string()),
            other => Self::Rejected(other.to_string()),
        }
    }
}

impl ResourceError {
    fn into_message(self) -> String {
        match self {
            Self::OutOfMemory(message) | Self::OverBudget(message) | Self::Rejected(message) => {
                message
            }
        }
    }
}

/// Locks a mutex and ignores poisoning: a panic of another thread leaves no half-updated state
/// behind these mutexes.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_without_memory_and_one_that_rejects_differ() {
        let exhausted = wgpu::Error::OutOfMemory {
            source: "heap 0 is full".into(),
        };
        assert!(
            matches!(ResourceError::from(exhausted), ResourceError::OutOfMemory(text) if text == "heap 0 is full")
        );
        let rejected = wgpu::Error::Validation {
            source: "no".into(),
            description: "usage".to_owned(),
        };
        assert!(matches!(
            ResourceError::from(rejected),
            ResourceError::Rejected(_)
        ));
    }

    #[test]
    fn a_failed_allocation_holds_no_memory() {
        use shaders::{layout, params::BufferCopyParams};
        for shared in crate::check::every_adapter() {
            let gpu = shared.reopen().unwrap();
            gpu.poison_allocations(true);
            let [x, y] = ["x", "y"].map(|name| gpu.upload(name, &[4], &[1.0_f32; 4]).unwrap());
            gpu.dispatch(&layout::BUFFER_COPY, &BufferCopyParams::new(1), &[&x, &y])
                .unwrap();
            // The next buffer reuses the memory of `y`, which recorded work writes, so that work is
            // submitted first. This reports the fault.
            drop(y);
            let before = gpu.pool().live_bytes();
            lock(&gpu.shared.faults).push("a fault".to_owned());
            let failed = gpu.alloc::<f32>("z", &[4]);
            assert!(matches!(failed, Err(Error::Device { .. })), "{failed:?}");
            assert_eq!(gpu.pool().live_bytes(), before);
        }
    }

    #[test]
    fn a_device_and_its_buffers_cross_threads() {
        fn crosses<T: Send + Sync>() {}
        crosses::<Gpu>();
        crosses::<Buffer<f32>>();
    }
}
