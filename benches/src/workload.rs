//! A workload: one piece of work, the variants (implementations) that do it, and the check of a
//! result.
//!
//! Role: the only description of work for the runner, criterion and the report. A workload does no
//! timing and no formatting: `run` times it and `record` stores the numbers.
//! Method: a [`Task`] is a name and a size, cheap to list. It creates a [`Problem`], which owns the
//! inputs and the expected result, and from which a [`Workload`] borrows. Variants and rivals are
//! both [`Implementation`]s, so they take turns under the same rules and pass the same check.

use crate::mnist::Images;
use crate::on_cpu::OnCpu;
use crate::on_gpu::{self, DeviceResult, OnGpu};
use crate::on_host::OnHost;
use crate::record::{NotRun, Timer};
use crate::rivals::BaselineArguments;
use crate::staged::Staged;
use anyhow::Result;
use charts::Figure;
use gpu_wgsl::{Adapter, Gpu};
use tensor_core::{Executor, Tensor};

pub use crate::implementation::{Extent, Implementation, Output, OutputElement, Portion, Work};

/// An implementation of a workload.
#[allow(
    missing_debug_implementations,
    reason = "closures do not implement Debug"
)]
pub struct Variant<'a> {
    /// Executor: `host`, `wgsl`, or the name of the variant.
    pub executor: &'static str,
    /// Adapter that runs it; `None` on the CPU.
    pub adapter: Option<&'a Adapter>,
    /// Clock that measures its time.
    pub timer: Timer,
    /// Amount of work that it does.
    pub extent: Extent,
    /// Remark shown next to its numbers; empty if none. For example the tolerance of its check, if
    /// the result is not compared with the oracle element by element.
    pub note: String,
    /// Prepares memory and inputs. Compilation is not included: the first run pays for it.
    #[allow(
        clippy::type_complexity,
        reason = "a boxed constructor is clearer here than a type alias"
    )]
    pub start: Box<dyn FnOnce() -> Result<Box<dyn Implementation + 'a>> + 'a>,
}

impl<'a> Variant<'a> {
    /// Returns this variant with a remark shown next to its numbers.
    #[must_use]
    pub fn noted(self, note: String) -> Self {
        Self { note, ..self }
    }

    /// Creates a variant on this machine's CPU; `work` fills or replaces a result of `len`
    /// elements.
    pub fn on_cpu<T: OutputElement + 'a>(
        executor: &'static str,
        extent: Extent,
        len: usize,
        work: impl FnMut(&mut Vec<T>) -> Result<()> + 'a,
    ) -> Self {
        Self {
            executor,
            adapter: None,
            timer: Timer::Wall,
            extent,
            note: String::new(),
            start: Box::new(move || Ok(Box::new(OnCpu::new(len, work)))),
        }
    }

    /// Creates a variant on this machine's CPU whose result is a measure of quality, computed from
    /// what `work` produced. `start` prepares the state and `judge` evaluates it; only `work` is
    /// timed.
    pub fn scored<S: 'a, T: OutputElement + 'a>(
        executor: &'static str,
        extent: Extent,
        start: impl Fn() -> Result<S> + 'a,
        work: impl Fn(&mut S) -> Result<()> + 'a,
        judge: impl Fn(&S) -> Result<Vec<T>> + 'a,
    ) -> Self {
        Self {
            executor,
            adapter: None,
            timer: Timer::Wall,
            extent,
            note: String::new(),
            start: Box::new(move || Ok(Box::new(Staged::new(start, work, judge)))),
        }
    }

    /// Creates a variant that evaluates an expression on a CPU executor without compiling it in
    /// advance: each run builds the expression and evaluates it. Its leaf tensors exist before the
    /// run.
    pub fn evaluated<T: OutputElement>(
        name: &'static str,
        executor: impl Executor + 'a,
        extent: Extent,
        expression: impl Fn() -> Tensor + 'a,
    ) -> Self {
        // The length is 0 because the executor returns the result, which is moved and not copied.
        Self::on_cpu(name, extent, 0, move |result: &mut Vec<T>| {
            let array = expression().eval::<T>(&executor)?;
            (*result, _) = array.into_raw_vec_and_offset();
            Ok(())
        })
    }

    /// Creates a variant that runs an expression on the host executor as users do: the first call
    /// compiles it, as with `torch.compile` and JAX, and the result stays in the executor's memory.
    pub fn compiled<T: OutputElement + 'a>(
        name: &'static str,
        extent: Extent,
        arguments: Vec<Tensor>,
        expression: impl Fn(&[Tensor]) -> Tensor + 'a,
    ) -> Self {
        let function = move |arguments: &[Tensor]| Ok(vec![expression(arguments)]);
        Self {
            executor: name,
            adapter: None,
            timer: Timer::Wall,
            extent,
            note: String::new(),
            start: Box::new(|| Ok(Box::new(OnHost::<T, _>::new(arguments, function)))),
        }
    }

    /// Creates a variant that runs an expression on a GPU as users do: as [`Variant::compiled`],
    /// with inputs and result in device memory.
    pub fn on_gpu<T: OutputElement + 'a>(
        gpu: &'a Gpu,
        extent: Extent,
        arguments: Vec<Tensor>,
        expression: impl Fn(&[Tensor]) -> Tensor + 'a,
    ) -> Self {
        let function = move |arguments: &[Tensor]| Ok(vec![expression(arguments)]);
        Self::called_on_gpu(gpu, extent, move || {
            on_gpu::compiled::<T>(gpu, arguments, function)
        })
    }

    /// Creates a variant whose calls leave their result on a GPU; `start` uploads the inputs and
    /// returns the function to call.
    pub(crate) fn called_on_gpu<R: DeviceResult + 'a, F: Fn() -> Result<R> + 'a>(
        gpu: &'a Gpu,
        extent: Extent,
        start: impl FnOnce() -> Result<F> + 'a,
    ) -> Self {
        Self {
            executor: "wgsl",
            adapter: Some(gpu.adapter()),
            timer: on_gpu::timer(gpu),
            extent,
            note: String::new(),
            start: Box::new(move || Ok(Box::new(OnGpu::new(gpu, start()?)?))),
        }
    }
}

/// A piece of work at one size.
#[allow(
    missing_debug_implementations,
    reason = "closures do not implement Debug"
)]
pub struct Workload<'a> {
    /// Name, as in records: `matmul`.
    pub name: &'static str,
    /// Id of the document that the workload comes from: `S3`; [`crate::sources`] has the titles.
    pub source: &'static str,
    /// Size as one word, such as `512x512x512`.
    pub size: String,
    /// Extent of the complete work.
    pub whole: Extent,
    /// Number of leading elements of an f32 result that are training losses, one per step; one more
    /// element may follow, the accuracy on test data. 0 if nothing is trained.
    pub n_losses: usize,
    /// The variants, simplest first.
    pub variants: Vec<Variant<'a>>,
    /// Jobs of the rivals, with the same inputs.
    pub rivals: Vec<BaselineArguments<'a>>,
    /// Parts that are left out on this machine, with the reasons.
    pub left_out: Vec<NotRun>,
    /// Draws the figure of a correct result, if the workload has one.
    #[allow(
        clippy::type_complexity,
        reason = "a boxed closure is clearer here than a type alias"
    )]
    pub figure: Option<Box<dyn Fn(&Output) -> Result<Figure> + 'a>>,
    /// Compares a result, of which only `part` was computed, with the oracle.
    #[allow(
        clippy::type_complexity,
        reason = "a boxed closure is clearer here than a type alias"
    )]
    pub check: Box<dyn Fn(&Output, Portion) -> Result<()> + 'a>,
}

/// Inputs of a piece of work, with the expected result.
pub trait Problem {
    /// Describes the work: the variants on the CPU, then those of each GPU.
    fn workload<'a>(&'a self, gpus: &'a [Gpu]) -> Workload<'a>;
}

/// A workload at one size, before its inputs are created.
#[allow(
    missing_debug_implementations,
    reason = "closures do not implement Debug"
)]
pub struct Task {
    /// Name of the workload.
    pub name: &'static str,
    /// Size as one word.
    pub size: String,
    /// Whether the task is skipped if the images have no labels.
    pub needs_labels: bool,
    /// The program on tensors of zeros, if the workload is a single program.
    pub program: Option<Box<dyn Fn() -> Tensor>>,
    /// Creates the inputs, from real images or at random, and computes the expected result.
    #[allow(
        clippy::type_complexity,
        reason = "a boxed constructor is clearer here than a type alias"
    )]
    pub prepare: Box<dyn Fn(&Images) -> Result<Box<dyn Problem>>>,
}

impl Task {
    /// Returns the task's id on the command line: `matmul/512x512x512`.
    #[must_use]
    pub fn id(&self) -> String {
        format!("{}/{}", self.name, self.size)
    }
}
