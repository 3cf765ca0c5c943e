//! Executors: the devices that run the steps of a plan, and the memory of their arrays.
//!
//! Role: the contract between plans and devices. An executor takes one [`Step`] at a time and
//! returns a [`Storage`]. `schedule` walks a plan, uploads inputs where they are needed, and drops
//! arrays as soon as no later step reads them.
//! Method, for the author of another executor: implement [`Storage`] for the memory of the device
//! and [`Executor`] for the device. A step is self-contained: its [`LoopNest`](crate::ir::LoopNest)
//! lists the values in order and the inputs by number; the output is contiguous and row-major.
//! [`Executor::run`] may queue the work and return at once; only [`Storage::read`] has to wait. The
//! results must agree with those of [`Reference`] within the error that the descriptions of the
//! operations allow; `TENSOR_VERIFY=1` compares every step.
//!
//! Bands: an executor may also set [`Target::min_band`] and implement [`Executor::run_band`]. A
//! plan then lists groups of steps that run together on a few rows at a time ([`Band`]), so that
//! the executor needs no memory for the arrays between these steps. A device may run a band as one
//! kernel whose temporaries are in the memory of a workgroup. By default the steps run one by one;
//! so do the steps of a plan for several executors, and those that a
//! [`Profiler`](crate::profile::Profiler) measures.
//!
//! Reproducibility: a value that depends on no reduction has the same bits in every step of one
//! executor if the same operations compute it from the same elements, whatever else the step
//! computes. Plans rely on this guarantee because they compute values again where that is cheaper
//! than storing them, and [`Tensor::argmax`](crate::Tensor::argmax) searches for an extreme among
//! values that are computed again. Therefore an executor must contract `a * b + c` into a fused
//! operation everywhere or nowhere. A sum or product over axes may differ between steps as far as a
//! different order of summation may change it.
//!
//! Limits: values that a plan leaves out are not computed, and their errors are not detected. An
//! example is a [`gather`](crate::Tensor::gather) in the branch that a constant condition never
//! takes, or at positions that a view skips.

use std::fmt::Debug;
use std::sync::Arc;
use web_time::Instant;

use crate::dtype::{DType, HostData};
use crate::error::Result;
use crate::plan::{Band, Plan, Step, Target};

pub use crate::cache::Cache;
pub use crate::level::Level;
pub use crate::storage::{HostStorage, MemoryUse, Pending, Storage};
pub use accuracy::Accuracy;
pub use cache::NestCache;
pub use evaluate::TensorList;
pub(crate) use evaluate::{computed, realized};
pub use host::Host;
pub use reference::Reference;
pub(crate) use schedule::run_and_wait;
pub use schedule::{run, run_with};
pub use verify::{Coverage, against_reference};

mod accuracy;
pub(crate) mod analysis;
mod cache;
mod evaluate;
mod host;
mod reference;
mod schedule;
pub(crate) mod verify;

/// A recorder of the times at which queued steps run on a device.
pub trait DeviceTimes: Debug + Send + Sync {
    /// Runs a step as [`Executor::run`] does, and labels its times with `number`, which must be
    /// unique among the steps of this recorder.
    ///
    /// # Errors
    /// As [`Executor::run`].
    fn run(
        &self,
        number: usize,
        step: &Step,
        inputs: &[Arc<dyn Storage>],
    ) -> Result<Arc<dyn Storage>>;

    /// Waits until all steps of this recorder have run. Returns the number of each step for which
    /// the device did any work, with the start and the end of that work on the host's clock.
    ///
    /// # Errors
    /// Errors of the device.
    fn finish(&self) -> Result<Vec<(usize, [Instant; 2])>>;
}

/// A device that runs the steps of a plan.
pub trait Executor: Debug + Send + Sync {
    /// Returns the name of the executor: `host`, `reference`, or the name of the device.
    fn name(&self) -> &str;

    /// Returns the limits of one step on this executor. [`Plan::new`] takes these limits as its
    /// target.
    fn target(&self) -> Target;

    /// Returns the accuracy of the executor's floats, which comparisons with [`Reference`] take
    /// into account.
    fn accuracy(&self) -> Accuracy {
        Accuracy::IEEE
    }

    /// Returns `true` if the executor can run a step on inputs of these lengths. If not, because
    /// the device lacks a type, a size or an operation, the scheduler runs the step on [`Host`].
    fn accepts(&self, _step: &Step, _input_lens: &[usize]) -> bool {
        true
    }

    /// Checks that the executor has room for an array of this type and length. The scheduler checks
    /// each output of a plan before it runs the first step, so nothing is computed for an array
    /// that no memory can hold.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) with the limit of the device.
    fn check_capacity(&self, _dtype: DType, _len: usize) -> Result<()> {
        Ok(())
    }

    /// Checks that the executor has room for the array that a step writes, given the lengths of the
    /// step's inputs. The scheduler checks each step of a plan before it runs the first one. A step
    /// that falls back to the host for a reason other than its size passes.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) with the limit of the device.
    fn check_step(&self, _step: &Step, _input_lens: &[usize]) -> Result<()> {
        Ok(())
    }

    /// Returns `true` if the steps of this executor can read a storage. The storage of another
    /// instance of the same device does not qualify.
    fn owns(&self, storage: &dyn Storage) -> bool;

    /// Copies or moves elements into memory that the executor's steps can read. Supports every type
    /// and any length, 0 included.
    ///
    /// # Errors
    /// Errors of the device's memory, such as [`Error::Device`](crate::Error::Device).
    fn upload(&self, data: HostData) -> Result<Arc<dyn Storage>>;

    /// Runs or queues a step and returns the array that the step writes. The inputs are storages of
    /// this executor in the order of [`Step::inputs`], without duplicates; the output shares no
    /// memory with them. Several threads may call this function at once, for steps of one wave and
    /// for different plans; each input was returned by an earlier call.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`](crate::Error::IndexOutOfRange) from a gather, with one of the
    /// offending positions. If this function only queues the work, the error is returned when the
    /// array, or any array computed from it, is read; it then has the source line of
    /// [`Step::origins`] ([`Error::at`](crate::Error::at)). [`Error::Device`](crate::Error::Device)
    /// for errors of the device.
    fn run(&self, step: &Step, inputs: &[Arc<dyn Storage>]) -> Result<Arc<dyn Storage>>;

    /// Runs the steps of a band piece by piece: each step for the rows of one piece, then the next
    /// piece. The inputs are storages of this executor in the order of [`Band::inputs`]. Returns
    /// the arrays of [`Band::outputs`], in order, which must have the same bits as if the steps ran
    /// one by one. Returns `None` if the steps have to run one by one; the default always does. The
    /// scheduler calls this function if this executor alone runs the plan and accepts all steps of
    /// the band.
    ///
    /// # Errors
    /// As [`run`](Self::run), with the source line of the step. If several steps fail, the error of
    /// one of these steps is returned.
    fn run_band(
        &self,
        _plan: &Plan,
        _band: &Band,
        _inputs: &[Arc<dyn Storage>],
    ) -> Result<Option<Vec<Arc<dyn Storage>>>> {
        Ok(None)
    }

    /// Starts the queued work without waiting for its end. The scheduler calls this function after
    /// it has handed out all steps of a plan, and after a step that runs at the same time as steps
    /// of other executors.
    ///
    /// # Errors
    /// Errors of the device.
    fn submit(&self) -> Result<()> {
        Ok(())
    }

    /// Returns a separate executor for one run of a plan, or `None` to use this executor. The
    /// scheduler calls this function once per run, on the thread that started the run, and drops
    /// the returned executor at the end of the run. A [`Profiler`](crate::profile::Profiler) uses
    /// it to observe runs as a whole.
    fn for_run<'a>(&'a self, _plan: &'a Plan) -> Option<Box<dyn Executor + 'a>> {
        None
    }

    /// Returns `true` if [`run`](Self::run) computes on the CPU before it returns. The scheduler
    /// then runs small steps that do not depend on each other on several threads at the same time.
    /// Steps of other executors begin on the calling thread.
    fn shares_its_steps(&self) -> bool {
        false
    }

    /// Starts to record the times at which queued steps run on the device. Returns `None` if the
    /// device does not support such times, or if another recorder is active. A
    /// [`Profiler`](crate::profile::Profiler) calls this function for each run of a plan.
    fn device_times(&self) -> Option<Box<dyn DeviceTimes + '_>> {
        None
    }

    /// Returns the memory use of the executor, or `None` if the executor does not count its memory.
    fn memory(&self) -> Option<MemoryUse> {
        None
    }
}
