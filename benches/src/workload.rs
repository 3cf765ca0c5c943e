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
use crate::rivals::{BaselineArguments, Rival};
use crate::staged::Staged;
use anyhow::{Result, bail};
use charts::Figure;
use gpu_wgsl::{Adapter, Gpu};
use tensor_core::{Element, Executor, Tensor, compare};

/// A result, row-major, in the element type of the workload.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Single-precision floats.
    F32(Vec<f32>),
    /// Double-precision floats.
    F64(Vec<f64>),
    /// Unsigned integers, such as counts.
    U32(Vec<u32>),
    /// Truth values.
    Bool(Vec<bool>),
}

impl Output {
    fn type_name(&self) -> &'static str {
        match self {
            Self::F32(_) => "f32",
            Self::F64(_) => "f64",
            Self::U32(_) => "u32",
            Self::Bool(_) => "bool",
        }
    }
}

/// An element type of results.
pub trait OutputElement: compare::Element + Element {
    /// Wraps the elements of a result.
    fn wrap(elements: Vec<Self>) -> Output;

    /// Returns the elements of a result of this type.
    ///
    /// # Errors
    /// The result has another element type.
    fn from_output(output: &Output) -> Result<&[Self]>;
}

macro_rules! output_element {
    ($type:ty, $variant:ident) => {
        impl OutputElement for $type {
            fn wrap(elements: Vec<Self>) -> Output {
                Output::$variant(elements)
            }

            fn from_output(output: &Output) -> Result<&[Self]> {
                match output {
                    Output::$variant(elements) => Ok(elements),
                    other => bail!(
                        "result has element type {} (expected {})",
                        other.type_name(),
                        <Self as compare::Element>::NAME
                    ),
                }
            }
        }
    };
}

output_element!(f32, F32);
output_element!(f64, F64);
output_element!(u32, U32);
output_element!(bool, Bool);

/// Something that does the work of a workload repeatedly and returns its result.
pub trait Implementation {
    /// Does the work `times` times and returns the seconds of each run, measured by its own
    /// [`Timer`].
    ///
    /// # Errors
    /// Any failure during the work.
    fn run(&mut self, times: usize) -> Result<Vec<f64>>;

    /// Does the work `times` times and returns the seconds of each run by the host's clock, from
    /// the call until the result is complete in its memory (for a GPU, device memory). Returns
    /// `None` if [`Implementation::run`] measures the same.
    ///
    /// # Errors
    /// As [`Implementation::run`].
    fn wall(&mut self, _times: usize) -> Result<Option<Vec<f64>>> {
        Ok(None)
    }

    /// Does the work once and returns the peak memory held in addition to inputs and result, in
    /// bytes, or `None` if no counter is available.
    ///
    /// # Errors
    /// As [`Implementation::run`].
    fn peak_extra_bytes(&mut self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Returns the result of the last run, row-major.
    ///
    /// # Errors
    /// The result cannot be read.
    fn result(&mut self) -> Result<Output>;
}

impl Implementation for Rival {
    fn run(&mut self, times: usize) -> Result<Vec<f64>> {
        Self::run(self, times)
    }

    fn peak_extra_bytes(&mut self) -> Result<Option<u64>> {
        Self::peak_extra_bytes(self)
    }

    fn result(&mut self) -> Result<Output> {
        Self::result(self)
    }
}

/// The leading rows of the work, for a slow variant that does not do all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portion {
    /// Number of rows done.
    pub rows: usize,
    /// Total number of rows.
    pub of: usize,
}

impl Portion {
    /// Returns the part that consists of all `rows` rows.
    #[must_use]
    pub fn whole(rows: usize) -> Self {
        Self { rows, of: rows }
    }

    /// Returns the fraction of the whole work, from 0 to 1; 1 if there are no rows.
    #[must_use]
    pub fn share(self) -> f64 {
        if self.of == 0 {
            1.0
        } else {
            self.rows as f64 / self.of as f64
        }
    }

    /// Returns the remark shown next to the numbers of a partial result; empty for the whole.
    #[must_use]
    pub fn note(self) -> String {
        if self.rows == self.of {
            String::new()
        } else {
            format!("rows 0..{} of {}", self.rows, self.of)
        }
    }
}

/// An amount of work, in the unit in which users of the workload count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Work {
    /// Arithmetic operations, including comparisons and selections.
    Operations(f64),
    /// Function values, regardless of the cost of each.
    Values(f64),
    /// Games that are solved or evaluated.
    Games(f64),
    /// Iterations of a learning algorithm.
    Iterations(f64),
}

impl Work {
    /// Returns the amount as a plain number.
    #[must_use]
    pub fn amount(self) -> f64 {
        match self {
            Self::Operations(amount)
            | Self::Values(amount)
            | Self::Games(amount)
            | Self::Iterations(amount) => amount,
        }
    }

    /// Returns the amount multiplied by `share`, in the same unit.
    #[must_use]
    pub fn share(self, share: f64) -> Self {
        match self {
            Self::Operations(amount) => Self::Operations(share * amount),
            Self::Values(amount) => Self::Values(share * amount),
            Self::Games(amount) => Self::Games(share * amount),
            Self::Iterations(amount) => Self::Iterations(share * amount),
        }
    }

    /// Returns the number of arithmetic operations, or `None` if another unit is counted.
    #[must_use]
    pub fn operations(self) -> Option<f64> {
        match self {
            Self::Operations(amount) => Some(amount),
            Self::Values(_) | Self::Games(_) | Self::Iterations(_) => None,
        }
    }

    /// Returns the work per second, in [`Work::rate_unit`].
    #[must_use]
    pub fn rate(self, seconds: f64) -> f64 {
        let unit = match self {
            Self::Operations(_) => 1e9,
            Self::Values(_) => 1e6,
            Self::Games(_) | Self::Iterations(_) => 1.0,
        };
        self.amount() / seconds / unit
    }

    /// Returns the unit of [`Work::rate`]: 10⁹ operations, 10⁶ values, single games or single
    /// iterations per second.
    #[must_use]
    pub fn rate_unit(self) -> &'static str {
        match self {
            Self::Operations(_) => "GFLOP/s",
            Self::Values(_) => "Mvalue/s",
            Self::Games(_) => "games/s",
            Self::Iterations(_) => "iterations/s",
        }
    }
}

/// Amount of work done, and its memory traffic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extent {
    /// Rows of the result that are computed.
    pub part: Portion,
    /// Amount of work, in the unit of its rate.
    pub work: Work,
    /// Bytes of inputs and outputs, each counted once.
    pub bytes: f64,
}

impl Extent {
    /// Returns the extent of a part, assuming that every row costs the same.
    #[must_use]
    pub fn of_part(self, part: Portion) -> Self {
        let share = part.share();
        Self {
            part,
            work: self.work.share(share),
            bytes: share * self.bytes,
        }
    }
}

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
