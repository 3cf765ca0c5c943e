//! The only module that names wgpu: opens a device, holds its memory and its pipelines, runs what was recorded.
//!
//! Role: turns our plain descriptions ([`Kernel`], [`crate::Adapter`], shapes) into wgpu calls and wgpu's faults
//! into [`Error`]. `open` finds and opens, `memory` allocates and uploads, `staging` reads back, `kernels` compiles, `batch` records
//! and submits, `timing` measures.
//! Method: nothing panics on a fault of the device. Creation runs inside error scopes; what else wgpu reports lands
//! in one place and is returned by the next call that waits; the device-lost callback sets a flag that every call
//! reads first.

mod batch;
mod generated;
mod kernels;
mod memory;
mod open;
mod staging;
mod timing;

/// What a device of an application is opened with.
#[cfg(feature = "existing-device")]
pub(crate) mod foreign {
    /// The version whose devices [`Gpu::from_existing`](crate::Gpu::from_existing) takes.
    pub use wgpu;
}

pub(crate) use generated::Generated;
pub use memory::{AnyBuffer, Buffer, Scalar};
pub use open::adapters;
pub(crate) use staging::Coming;
pub use staging::Read;
pub(crate) use timing::Measuring;
pub use timing::{Timer, Timing};

use staging::Staging;

use crate::adapter::{Adapter, Feature, Select};
use crate::executor::Nests;
use crate::nest::Room;
use crate::pool::{Pool, PoolCounters};
use crate::{Error, Result};
use shaders::{Kernel, Params};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// An open device: cheap to clone, usable from many threads.
///
/// Work is recorded by [`Gpu::dispatch`] and leaves in one submission at [`Gpu::flush`] or when a result is read.
/// Two threads that record at once share that submission, in the order of their calls.
#[derive(Clone, Debug)]
pub struct Gpu {
    shared: Arc<Shared>,
}

/// What every clone of a device and every buffer on it share.
#[derive(Debug)]
struct Shared {
    adapter: Adapter,
    device: wgpu::Device,
    queue: wgpu::Queue,
    timer: Timer,
    pool: Mutex<Pool<wgpu::Buffer>>,
    pipelines: Mutex<HashMap<Kernel, Arc<kernels::Pipeline>>>,
    nests: Nests,
    room: Room,
    batch: Mutex<batch::Batch>,
    marks_unwritten: AtomicBool,
    staging: Mutex<Staging>,
    /// Why the device was lost, once it was.
    lost: Arc<OnceLock<String>>,
    /// Faults that wgpu reported outside every error scope, oldest first.
    faults: Arc<Mutex<Vec<String>>>,
}

impl Gpu {
    /// Opens a device on the selected adapter, with all of its limits and the features of [`Feature`] that it has
    /// (cooperative matrices excepted).
    ///
    /// # Errors
    /// [`Error::NoAdapter`] where the selection fits none; [`Error::Device`] where the driver refuses to open it.
    pub fn open(select: Select) -> Result<Self> {
        pollster::block_on(Self::open_async(select))
    }

    /// Opens a device without blocking; see [`Gpu::open`].
    ///
    /// # Errors
    /// As [`Gpu::open`].
    pub async fn open_async(select: Select) -> Result<Self> {
        open::open(select).await
    }

    /// Opens a device on the same adapter anew, as after a loss, with all that the adapter has. What was on this one stays with it; host data are valid as ever.
    ///
    /// # Errors
    /// As [`Gpu::open`]; [`Error::NoAdapter`] where the adapter is gone.
    pub fn reopen(&self) -> Result<Self> {
        let own = &self.adapter().name;
        let found = adapters().into_iter().find(|adapter| adapter.name == *own);
        // A name that nobody bears says what was found instead.
        let by_name = || Select::Name(own.clone());
        Self::open(found.map_or_else(by_name, |adapter| Select::Index(adapter.index)))
    }

    /// Gives what is known of the adapter.
    #[must_use]
    pub fn adapter(&self) -> &Adapter {
        &self.shared.adapter
    }

    /// Tells how [`Gpu::time`] measures on this device.
    #[must_use]
    pub fn timer(&self) -> Timer {
        self.shared.timer
    }

    /// Tells whether both are the same open device.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// The kernels of nests that ran here.
    pub(crate) fn nests(&self) -> &Nests {
        &self.shared.nests
    }

    /// What kernels of nests have room for.
    pub(crate) fn room(&self) -> &Room {
        &self.shared.room
    }

    /// Gives the bytes and buffers of the device's pool.
    #[must_use]
    pub fn pool(&self) -> PoolCounters {
        lock(&self.shared.pool).counters()
    }

    /// Lets the peak of [`Gpu::pool`] start anew from what is live.
    pub fn reset_peak(&self) {
        lock(&self.shared.pool).reset_peak();
    }

    /// Refuses allocations beyond `bytes` of live buffers; `None` lifts the budget.
    pub fn set_budget(&self, bytes: Option<u64>) {
        lock(&self.shared.pool).set_budget(bytes);
    }

    /// Fills what is allocated from now on with the comparator's sentinel, so that a kernel that leaves out elements cannot be
    /// right by what lay there before. So it is from the start where `TENSOR_VERIFY=1` is set.
    pub fn mark_unwritten(&self, marks: bool) {
        self.shared.marks_unwritten.store(marks, Ordering::Relaxed);
    }

    /// Hands buffers that nobody holds back to the driver.
    pub fn trim(&self) {
        lock(&self.shared.pool).trim();
    }

    /// Checks that the device has every feature of `needs`, in the name of `op`.
    ///
    /// # Errors
    /// [`Error::Unsupported`] names the first that is missing.
    pub fn require(&self, op: &str, needs: &[Feature]) -> Result<()> {
        match needs
            .iter()
            .find(|feature| !self.adapter().features.contains(feature))
        {
            None => Ok(()),
            Some(&feature) => Err(Error::Unsupported {
                op: op.to_owned(),
                feature,
                adapter: self.adapter().name.clone(),
            }),
        }
    }

    /// Records one run of `kernel` over the domain of `params`.
    ///
    /// Buffers come in the order of the kernel's bindings. Nothing runs before [`Gpu::flush`] or a read; an empty
    /// domain records nothing. The text is compiled at its first use and kept.
    ///
    /// # Errors
    /// [`Error::Interface`] where parameters or buffers do not fit the kernel (a buffer may be longer than needed), [`Error::TooLarge`] where the grid
    /// exceeds the device's limits, [`Error::Shader`] where the text is refused, [`Error::ForeignBuffer`],
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

    /// Destroys the device: its memory is freed at once, every later call gives [`Error::Lost`].
    pub fn destroy(&self) {
        self.shared.device.destroy();
        // The driver tells only once it has nothing left to run.
        let _ = self.shared.lost.set("destroyed by its owner".to_owned());
        // The callback that marks the loss runs inside a poll; an error of the poll says the same.
        let _ = self.shared.device.poll(wgpu::PollType::Poll);
    }

    /// Returns the loss of the device, if it happened.
    fn alive(&self, op: &'static str) -> Result<()> {
        match self.shared.lost.get() {
            None => Ok(()),
            Some(reason) => Err(Error::Lost {
                op,
                adapter: self.adapter().name.clone(),
                reason: reason.clone(),
            }),
        }
    }

    /// Returns the loss of the device or the faults that wgpu reported since the last call.
    fn sound(&self, op: &'static str) -> Result<()> {
        self.alive(op)?;
        let faults = std::mem::take(&mut *lock(&self.shared.faults));
        if faults.is_empty() {
            return Ok(());
        }
        // What a lost device refuses, it may refuse before it tells that it is lost.
        let _ = self.shared.device.poll(wgpu::PollType::Poll);
        self.alive(op)?;
        Err(Error::Device {
            op,
            message: faults.join("; "),
        })
    }

    /// Runs `create` inside error scopes and gives what it made, or the first fault as text.
    fn scoped<T>(&self, create: impl FnOnce(&wgpu::Device) -> T) -> std::result::Result<T, Fault> {
        let device = &self.shared.device;
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

    fn check_loops(&self, kernel: &Kernel, needed: u64, domain: [u64; 3]) -> Result<()> {
        match self.adapter().max_loop_iterations {
            Some(limit) if needed > limit => Err(Error::TooLarge {
                op: "dispatch",
                name: kernel.name.to_string(),
                shape: domain.to_vec(),
                needed,
                unit: "iterations of a loop",
                limit_name: "driver's limit before it ends a loop in silence",
                limit,
            }),
            _ => Ok(()),
        }
    }

    /// Checks that a kernel can be given a buffer whole.
    fn check_bound(&self, buffer: &AnyBuffer) -> Result<()> {
        let limit = self.adapter().limits.max_storage_buffer_binding_size;
        if buffer.bytes() <= limit {
            return Ok(());
        }
        Err(Error::TooLarge {
            op: "dispatch",
            name: buffer.name().to_owned(),
            shape: buffer.shape().iter().map(|&side| side as u64).collect(),
            needed: buffer.bytes(),
            unit: "bytes",
            limit_name: "maxStorageBufferBindingSize",
            limit,
        })
    }

    fn check_owner(&self, op: &'static str, buffer: &AnyBuffer) -> Result<()> {
        if std::ptr::eq(Arc::as_ptr(&self.shared), buffer.shared().as_ptr()) {
            Ok(())
        } else {
            Err(Error::ForeignBuffer {
                op,
                name: buffer.name().to_owned(),
            })
        }
    }
}

/// What wgpu said when it could not create something.
#[derive(Debug)]
enum Fault {
    OutOfMemory(String),
    Refused(String),
}

impl From<wgpu::Error> for Fault {
    fn from(error: wgpu::Error) -> Self {
        match error {
            wgpu::Error::OutOfMemory { source } => Self::OutOfMemory(source.to_string()),
            other => Self::Refused(other.to_string()),
        }
    }
}

impl Fault {
    fn into_message(self) -> String {
        match self {
            Self::OutOfMemory(message) | Self::Refused(message) => message,
        }
    }
}

/// Locks; a thread that panicked while it held the lock left nothing half done that the next could not see.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_without_room_is_told_from_one_that_refuses() {
        let room = wgpu::Error::OutOfMemory {
            source: "heap 0 is full".into(),
        };
        assert!(matches!(Fault::from(room), Fault::OutOfMemory(text) if text == "heap 0 is full"));
        let refused = wgpu::Error::Validation {
            source: "no".into(),
            description: "usage".to_owned(),
        };
        assert!(matches!(Fault::from(refused), Fault::Refused(_)));
    }

    #[test]
    fn a_device_and_its_buffers_cross_threads() {
        fn crosses<T: Send + Sync>() {}
        crosses::<Gpu>();
        crosses::<Buffer<f32>>();
    }
}
