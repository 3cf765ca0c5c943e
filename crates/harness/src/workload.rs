//! A workload: one piece of work, the variants (implementations) that do it, and the check of a
//! result.
//!
//! Role: the only description of work for the runner, criterion and the report. A workload does no
//! timing and no formatting: `run` times it and `record` stores the numbers.
//! Method: a [`Task`] has a name and a size and is cheap to list. It creates a [`Problem`], which
//! owns the inputs and the expected result, and from which a [`Workload`] borrows. Variants and
//! rivals are both [`Implementation`]s, so they take turns under the same rules and pass the same
//! check.

use crate::findings::Findings;
use crate::on_cpu::OnCpu;
use crate::on_gpu::{self, OnGpu};
use crate::on_host::OnHost;
use crate::record::{NotRun, Timer};
use crate::rivals::BaselineArguments;
use crate::staged::Staged;
use anyhow::Result;
use charts::Figure;
use gpu_wgsl::{Adapter, Gpu};
use std::fmt;
use tensor_core::compare::{Tolerance, compare};
use tensor_core::{Executor, Tensor};

pub use crate::implementation::{
    Extent, Implementation, InputType, Output, OutputElement, Portion, Work,
};
pub use crate::on_gpu::DeviceResult;

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
    /// Function that prepares memory and inputs and returns the implementation. The time to compile
    /// belongs to the first run.
    #[allow(
        clippy::type_complexity,
        reason = "a boxed constructor is clearer here than a type alias"
    )]
    pub start: Box<dyn FnOnce() -> Result<Box<dyn Implementation + 'a>> + 'a>,
}

impl<'a> Variant<'a> {
    /// Creates a variant on this machine's CPU, timed by the host's clock; `start` prepares memory
    /// and inputs. The other constructors create the implementation from functions.
    pub fn new<I: Implementation + 'a>(
        executor: &'static str,
        extent: Extent,
        start: impl FnOnce() -> Result<I> + 'a,
    ) -> Self {
        Self {
            executor,
            adapter: None,
            timer: Timer::Wall,
            extent,
            note: String::new(),
            start: Box::new(|| Ok(Box::new(start()?))),
        }
    }

    /// Returns this variant with a remark shown next to its numbers.
    #[must_use]
    pub fn with_note(self, note: String) -> Self {
        Self { note, ..self }
    }

    /// Returns this variant under another name.
    #[must_use]
    pub fn with_executor(self, executor: &'static str) -> Self {
        Self { executor, ..self }
    }

    /// Returns this variant as one that runs on `adapter`; its timer does not change.
    #[must_use]
    pub fn with_adapter(self, adapter: &'a Adapter) -> Self {
        let adapter = Some(adapter);
        Self { adapter, ..self }
    }

    /// Creates a variant on this machine's CPU; `work` fills or replaces a result of `len`
    /// elements.
    pub fn on_cpu<T: OutputElement + 'a>(
        executor: &'static str,
        extent: Extent,
        len: usize,
        work: impl FnMut(&mut Vec<T>) -> Result<()> + 'a,
    ) -> Self {
        Self::started_on_cpu(executor, extent, len, || Ok(work))
    }

    /// Creates a variant as [`Variant::on_cpu`] whose work is a function that `start` returns, so
    /// that its preparation is not timed.
    pub fn started_on_cpu<T: OutputElement + 'a, F: FnMut(&mut Vec<T>) -> Result<()> + 'a>(
        executor: &'static str,
        extent: Extent,
        len: usize,
        start: impl FnOnce() -> Result<F> + 'a,
    ) -> Self {
        Self::new(executor, extent, move || Ok(OnCpu::new(len, start()?)))
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
        Self::new(executor, extent, move || {
            Ok(Staged::new(start, work, judge))
        })
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
        Self::new(name, extent, || {
            Ok(OnHost::<T, _>::new(arguments, function))
        })
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
    /// returns the function to call. The device's timer measures its time.
    pub fn called_on_gpu<R: DeviceResult + 'a, F: Fn() -> Result<R> + 'a>(
        gpu: &'a Gpu,
        extent: Extent,
        start: impl FnOnce() -> Result<F> + 'a,
    ) -> Self {
        let variant = Self::new("wgsl", extent, move || OnGpu::new(gpu, start()?));
        Self {
            timer: on_gpu::timer(gpu),
            ..variant.with_adapter(gpu.adapter())
        }
    }
}

/// A piece of work at one size: its variants, its rivals and the check of a result.
#[allow(
    missing_debug_implementations,
    reason = "closures do not implement Debug"
)]
pub struct Workload<'a> {
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
    /// Whether the work is too long to be repeated: each contestant runs once, and this run, with
    /// its compilation, is the measured time.
    pub runs_once: bool,
    /// Function that computes named results of a correct result, if the workload has some.
    #[allow(
        clippy::type_complexity,
        reason = "a boxed closure is clearer here than a type alias"
    )]
    pub findings: Option<Box<dyn Fn(&Output) -> Result<Findings> + 'a>>,
    /// Function that draws the figure of a correct result, if the workload has one.
    #[allow(
        clippy::type_complexity,
        reason = "a boxed closure is clearer here than a type alias"
    )]
    pub figure: Option<Box<dyn Fn(&Output) -> Result<Figure> + 'a>>,
    /// Function that compares a result, of which only `part` was computed, with the oracle.
    #[allow(
        clippy::type_complexity,
        reason = "a boxed closure is clearer here than a type alias"
    )]
    pub check: Box<dyn Fn(&Output, Portion) -> Result<()> + 'a>,
    /// Checks that replace `check` for single rivals, by name; these rivals compute in fewer bits.
    #[allow(
        clippy::type_complexity,
        reason = "a boxed closure is clearer here than a type alias"
    )]
    pub rival_checks: Vec<(&'static str, Box<dyn Fn(&Output) -> Result<()> + 'a>)>,
}

impl<'a> Workload<'a> {
    /// Creates a workload without variants. `check` compares a result, of which only a part was
    /// computed, with the oracle.
    pub fn new(whole: Extent, check: impl Fn(&Output, Portion) -> Result<()> + 'a) -> Self {
        Self {
            whole,
            n_losses: 0,
            variants: Vec::new(),
            rivals: Vec::new(),
            left_out: Vec::new(),
            runs_once: false,
            findings: None,
            figure: None,
            check: Box::new(check),
            rival_checks: Vec::new(),
        }
    }

    /// Creates a workload whose result, computed as a whole, must equal `expected` within a
    /// tolerance.
    pub fn with_expected<T: OutputElement>(
        whole: Extent,
        expected: &'a [f64],
        tolerance: Tolerance,
    ) -> Self {
        Self::new(whole, move |result, _| {
            compare(T::from_output(result)?, expected, &tolerance)?;
            Ok(())
        })
    }

    /// Returns this workload with more variants, after those that it has.
    #[must_use]
    pub fn with_variants(mut self, variants: impl IntoIterator<Item = Variant<'a>>) -> Self {
        self.variants.extend(variants);
        self
    }

    /// Returns this workload with these rivals.
    #[must_use]
    pub fn with_rivals(self, rivals: Vec<BaselineArguments<'a>>) -> Self {
        Self { rivals, ..self }
    }

    /// Returns this workload with a separate check for `rival`, a library that computes in fewer
    /// bits than the variants.
    #[must_use]
    pub fn with_rival_check(
        mut self,
        rival: &'static str,
        check: impl Fn(&Output) -> Result<()> + 'a,
    ) -> Self {
        self.rival_checks.push((rival, Box::new(check)));
        self
    }

    /// Compares a result with the oracle. `rival` is the name of the rival that computed the
    /// result; `None` for a variant.
    ///
    /// # Errors
    /// The error of the check.
    pub fn judge(&self, rival: Option<&str>, result: &Output, part: Portion) -> Result<()> {
        let mut own = self.rival_checks.iter();
        match own.find(|(name, _)| rival == Some(*name)) {
            Some((_, check)) => check(result),
            None => (self.check)(result, part),
        }
    }

    /// Returns this workload with a list of parts that are left out on this machine.
    #[must_use]
    pub fn with_left_out(self, left_out: Vec<NotRun>) -> Self {
        Self { left_out, ..self }
    }

    /// Returns this workload with a figure, drawn from a correct result.
    #[must_use]
    pub fn with_figure(self, figure: impl Fn(&Output) -> Result<Figure> + 'a) -> Self {
        Self {
            figure: Some(Box::new(figure)),
            ..self
        }
    }

    /// Returns this workload with named results, computed from a correct result.
    #[must_use]
    pub fn with_findings(self, findings: impl Fn(&Output) -> Result<Findings> + 'a) -> Self {
        Self {
            findings: Some(Box::new(findings)),
            ..self
        }
    }

    /// Returns this workload as one whose contestants run once.
    #[must_use]
    pub fn once(self) -> Self {
        Self {
            runs_once: true,
            ..self
        }
    }

    /// Returns this workload as a training whose result begins with `n_losses` losses.
    #[must_use]
    pub fn with_losses(self, n_losses: usize) -> Self {
        Self { n_losses, ..self }
    }
}

/// Inputs of a piece of work, with the expected result.
pub trait Problem {
    /// Describes the work: the variants on the CPU, then those of each GPU.
    fn workload<'a>(&'a self, gpus: &'a [Gpu]) -> Workload<'a>;
}

impl<P: Problem + ?Sized> Problem for Box<P> {
    fn workload<'a>(&'a self, gpus: &'a [Gpu]) -> Workload<'a> {
        (**self).workload(gpus)
    }
}

/// Identity of a task, as in records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskId {
    /// Name of the workload: `matmul`.
    pub name: &'static str,
    /// Id of the document that the workload comes from: `S3`; [`crate::sources`] has the titles.
    pub source: &'static str,
    /// Size as one word, such as `512x512x512`.
    pub size: String,
}

/// Writes the id on the command line: `matmul/512x512x512`.
impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.name, self.size)
    }
}

/// A workload at one size, before its inputs are created.
#[allow(
    missing_debug_implementations,
    reason = "closures do not implement Debug"
)]
pub struct Task {
    /// Name, source and size.
    pub id: TaskId,
    #[allow(
        clippy::type_complexity,
        reason = "a boxed constructor is clearer here than a type alias"
    )]
    prepare: Box<dyn Fn() -> Result<Box<dyn Problem>>>,
    program: Option<Box<dyn Fn() -> Tensor>>,
    /// How the task is requested.
    pub level: Selection,
}

/// How a task is requested; each level includes those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Selection {
    /// Always runs.
    Quick,
    /// Runs with `--full`.
    #[default]
    Full,
    /// Takes minutes, and runs with `--long`.
    Long,
}

impl Task {
    /// Creates a task. `prepare` creates the inputs and computes the expected result; if the work
    /// cannot be done on this machine, `prepare` returns a [`NotRun`] as its error.
    pub fn new<P: Problem + 'static>(
        name: &'static str,
        source: &'static str,
        size: impl Into<String>,
        prepare: impl Fn() -> Result<P> + 'static,
    ) -> Self {
        let size = size.into();
        Self {
            id: TaskId { name, source, size },
            prepare: Box::new(move || Ok(Box::new(prepare()?))),
            program: None,
            level: Selection::default(),
        }
    }

    /// Returns this task as one that takes minutes and only runs on request.
    #[must_use]
    pub fn long(self) -> Self {
        Self {
            level: Selection::Long,
            ..self
        }
    }

    /// Returns this task as a single tensor program; `program` returns the expression on tensors of
    /// zeros.
    #[must_use]
    pub fn with_program(mut self, program: impl Fn() -> Tensor + 'static) -> Self {
        self.program = Some(Box::new(program));
        self
    }

    /// Creates the inputs and computes the expected result.
    ///
    /// # Errors
    /// An error of the task, with its id; [`NotRun`] if this machine cannot do the work.
    pub fn prepare(&self) -> Result<Box<dyn Problem>> {
        (self.prepare)().map_err(|error| match error.downcast::<NotRun>() {
            Ok(not_run) => not_run.into(),
            Err(error) => error.context(self.id.to_string()),
        })
    }

    /// Returns the program on tensors of zeros, if the workload is a single program.
    #[must_use]
    pub fn program(&self) -> Option<Tensor> {
        self.program.as_ref().map(|program| program())
    }
}
