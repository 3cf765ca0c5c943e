//! Executors: what runs the steps of a plan, and where its arrays live.
//!
//! Role: the contract between plans and devices. An executor takes one [`Step`] at a time and gives a [`Storage`];
//! `schedule` walks a plan, brings inputs to where they are needed, and lets go of arrays as soon as nothing reads them.
//! Method, for whoever writes another executor: implement [`Storage`] for memory of the device and
//! [`Executor`] for the device. A step says all there is to know: its [`LoopNest`](crate::ir::LoopNest) names
//! the values in order, the inputs by number, the output as contiguous and row-major. [`Executor::run`] may queue the
//! work and return at once; only [`Storage::read`] has to wait. Whatever it computes must be what [`Reference`]
//! computes, within the error that the operations' descriptions allow: `TENSOR_VERIFY=1` compares every step.
//!
//! A value in which nothing is folded, computed by the same operations from the same elements, has the same bits in every step
//! of one executor, whatever else the step computes: plans compute values again where that is cheaper than to keep them, and
//! [`Tensor::argmax`](crate::Tensor::argmax) looks for an extreme among values computed again. So what a compiler may contract
//! (`a * b + c`) is contracted everywhere or nowhere. A sum or product over axes may differ from step to step, as far as
//! another order of it may.
//!
//! What a plan leaves out is not computed, and its errors are not found: a [`gather`](crate::Tensor::gather) in the choice that
//! a constant condition never takes, or at positions that a view skips.

use std::any::Any;
use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use crate::dtype::{DType, HostData};
use crate::error::Result;
use crate::plan::{Plan, Step, Target};

pub use accuracy::Accuracy;
pub use host::Host;
pub use kept::Kept;
pub use reference::Reference;
pub(crate) use reference::low_bits;
pub(crate) use schedule::run_and_wait;
pub use schedule::{run, run_with};
pub use storage::HostStorage;
pub(crate) use storage::zeros;
pub use verify::against_reference;

mod accuracy;
pub(crate) mod analysis;
mod host;
mod kept;
mod pool;
mod reference;
mod schedule;
mod storage;
pub(crate) mod verify;

/// A boxed future.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Memory that holds the elements of one array, on the host or on a device.
///
/// Elements are contiguous. A storage never changes once its executor has given it away, and its memory is free when the
/// last handle goes; an executor that queues work keeps what that work reads alive itself.
pub trait Storage: Any + Debug + Send + Sync {
    /// The type of the elements.
    fn dtype(&self) -> DType;

    /// The number of elements.
    fn len(&self) -> usize;

    /// Whether there are no elements.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gives the elements in host memory, without a copy if this is their only owner and they are there already. The work
    /// may begin at the call or when first polled; it must not need the polling thread's rayon pool.
    fn read(self: Arc<Self>) -> Pending<'static, Result<HostData>>;
}

/// What an executor counts of its memory: arrays that it made, and what its steps take on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryUse {
    /// The bytes alive now.
    pub live_bytes: usize,
    /// The most bytes alive at one time.
    pub peak_bytes: usize,
}

/// Notes when steps that are queued run on a device.
pub trait DeviceTimes: Debug + Send + Sync {
    /// Runs a step as [`Executor::run`] does, under a number that no other has.
    ///
    /// # Errors
    /// As [`Executor::run`].
    fn run(
        &self,
        number: usize,
        step: &Step,
        inputs: &[Arc<dyn Storage>],
    ) -> Result<Arc<dyn Storage>>;

    /// Waits until all of these have run, and gives the numbers of those for which the device did anything, with the start and the
    /// end of that on the host's clock.
    ///
    /// # Errors
    /// What the device says.
    fn finish(&self) -> Result<Vec<(usize, [Instant; 2])>>;
}

/// Something that runs steps.
pub trait Executor: Debug + Send + Sync {
    /// Its name: `host`, `reference`, or that of the device.
    fn name(&self) -> &str;

    /// What it takes in one step; plans are made for it.
    fn target(&self) -> Target;

    /// How near to the truth its floats are; what it computes is compared with that in mind.
    fn accuracy(&self) -> Accuracy {
        Accuracy::IEEE
    }

    /// Whether it can run a step on inputs of these lengths; else the scheduler runs it on [`Host`]. For types, sizes or
    /// operations that the device lacks.
    fn accepts(&self, _step: &Step, _input_lens: &[usize]) -> bool {
        true
    }

    /// Checks that the executor has room for an array of this type and length. The scheduler checks
    /// each output of a plan before it runs the first step, so nothing is computed for an array that
    /// no memory can hold.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) with the limit of the device.
    fn check_room(&self, _dtype: DType, _len: usize) -> Result<()> {
        Ok(())
    }

    /// Checks that the executor has room for the array that a step writes, given the lengths of the
    /// step's inputs. The scheduler checks each step of a plan before it runs the first one. A step
    /// that runs on the host for another reason than its size passes.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) with the limit of the device.
    fn check_step(&self, _step: &Step, _input_lens: &[usize]) -> Result<()> {
        Ok(())
    }

    /// Whether a storage lies where steps of this executor read it; not so for another instance of the same device.
    fn owns(&self, storage: &dyn Storage) -> bool;

    /// Brings elements to where its steps read them: of every type and any length, 0 included.
    ///
    /// # Errors
    /// What the device's memory says.
    fn upload(&self, data: HostData) -> Result<Arc<dyn Storage>>;

    /// Runs a step, or queues it, and gives the array that it writes. The inputs are its own storages, in the order of
    /// [`Step::inputs`], none twice; the output shares no memory with them. It is called from several threads at a time,
    /// for steps of one wave and for different plans; an input was always given away by an earlier call.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`](crate::Error::IndexOutOfRange) from a gather, with one of the offending positions. Where
    /// the work is only queued, reading this array, or any computed from it, reports it, with the line of
    /// [`Step::origins`] ([`Error::at`](crate::Error::at)). [`Error::Device`](crate::Error::Device) for what the device
    /// says.
    fn run(&self, step: &Step, inputs: &[Arc<dyn Storage>]) -> Result<Arc<dyn Storage>>;

    /// Starts what has been queued, without waiting. The scheduler calls it when all steps of a plan are handed out, and
    /// after a step beside which others run elsewhere.
    ///
    /// # Errors
    /// What the device says.
    fn submit(&self) -> Result<()> {
        Ok(())
    }

    /// The executor for one run of a plan, where that is another than itself. The scheduler asks once a run, on the thread that
    /// asked for the run, and lets go of it at the run's end. For what looks at runs as a whole, as a
    /// [`Profiler`](crate::profile::Profiler) does.
    fn for_run<'a>(&'a self, _plan: &'a Plan) -> Option<Box<dyn Executor + 'a>> {
        None
    }

    /// Whether its steps deal out work to rayon's pool. Then whoever waits for a large plan does so within the pool; else steps
    /// begin on the thread that asked.
    fn shares_its_steps(&self) -> bool {
        false
    }

    /// Begins to note when steps run on the device, where they are only queued and the device can tell; `None` also while others
    /// do so. A [`Profiler`](crate::profile::Profiler) asks for each run of a plan.
    fn device_times(&self) -> Option<Box<dyn DeviceTimes + '_>> {
        None
    }

    /// What it counts of its memory, if it does.
    fn memory(&self) -> Option<MemoryUse> {
        None
    }
}
