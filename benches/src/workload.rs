//! A workload: one piece of work, the rungs that do it, and how a result of it is judged.
//!
//! Role: the one way to describe work to the runner, to criterion and to the report. A workload knows no clock of
//! its own choosing and no table; `run` times it and `record` keeps the numbers.
//! Method: a [`Task`] is a name and a size, cheap to list; it makes a [`Problem`], which owns inputs and truth, and of
//! which a [`Workload`] borrows. Rungs and rivals are [`Contestant`]s alike, so they take turns under the same rules
//! and pass the same check.

use crate::figure::Figure;
use crate::mnist::Images;
use crate::on_cpu::OnCpu;
use crate::on_gpu::{self, Held, OnGpu};
use crate::on_host::OnHost;
use crate::record::{NotRun, Timer};
use crate::rivals::{Job, Rival};
use crate::staged::Staged;
use anyhow::{Result, bail};
use gpu_wgsl::{Adapter, Gpu};
use tensor_core::{Element, Executor, Tensor, compare};

/// A result, row-major, in the type that the workload asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Floats.
    F32(Vec<f32>),
    /// Floats of twice the width.
    F64(Vec<f64>),
    /// Counts.
    U32(Vec<u32>),
    /// Answers.
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

/// A type of which results are.
pub trait OutputElement: compare::Element + Element {
    /// Wraps a result.
    fn wrap(elements: Vec<Self>) -> Output;

    /// Gives the elements of a result of this type.
    ///
    /// # Errors
    /// The result is of another type.
    fn of(output: &Output) -> Result<&[Self]>;
}

macro_rules! output_element {
    ($type:ty, $variant:ident) => {
        impl OutputElement for $type {
            fn wrap(elements: Vec<Self>) -> Output {
                Output::$variant(elements)
            }

            fn of(output: &Output) -> Result<&[Self]> {
                match output {
                    Output::$variant(elements) => Ok(elements),
                    other => bail!(
                        "the result is {}, not {}",
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

/// Something that does the work of a workload again and again, and shows its result.
pub trait Contestant {
    /// Does the work `times` times and gives the seconds of each, by its own [`Timer`].
    ///
    /// # Errors
    /// Whatever keeps it from finishing.
    fn run(&mut self, times: usize) -> Result<Vec<f64>>;

    /// Does the work `times` times and gives the seconds of each by the host's clock, from the call until the result
    /// is finished where it lies; `None` where that is what [`Contestant::run`] measures anyway.
    ///
    /// # Errors
    /// As [`Contestant::run`].
    fn wall(&mut self, _times: usize) -> Result<Option<Vec<f64>>> {
        Ok(None)
    }

    /// Does the work once and gives the most memory it held beyond inputs and result, in bytes; `None` where nothing
    /// counts it.
    ///
    /// # Errors
    /// As [`Contestant::run`].
    fn peak_extra_bytes(&mut self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Gives the result of the last run, row-major.
    ///
    /// # Errors
    /// Whatever keeps it from being read.
    fn result(&mut self) -> Result<Output>;
}

impl Contestant for Rival {
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

/// The leading rows that a slow rung does instead of the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Rows done.
    pub rows: usize,
    /// Rows there are.
    pub of: usize,
}

impl Part {
    /// Gives the whole of so many rows.
    #[must_use]
    pub fn whole(rows: usize) -> Self {
        Self { rows, of: rows }
    }

    /// Gives the share of the whole work, 1 where there is none.
    #[must_use]
    pub fn share(self) -> f64 {
        if self.of == 0 {
            1.0
        } else {
            self.rows as f64 / self.of as f64
        }
    }

    /// Gives the note that stands beside a partial row; empty for the whole.
    #[must_use]
    pub fn note(self) -> String {
        if self.rows == self.of {
            String::new()
        } else {
            format!("rows 0..{} of {}", self.rows, self.of)
        }
    }
}

/// An amount of work in a unit that users of the workload count in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Work {
    /// Arithmetic operations, comparisons and selections included.
    Operations(f64),
    /// Values of a function, whatever each takes.
    Values(f64),
    /// Games that are solved or judged.
    Games(f64),
    /// Iterations of learning.
    Iterations(f64),
}

impl Work {
    /// Gives the number, in its unit.
    #[must_use]
    pub fn amount(self) -> f64 {
        match self {
            Self::Operations(amount)
            | Self::Values(amount)
            | Self::Games(amount)
            | Self::Iterations(amount) => amount,
        }
    }

    /// Gives this share of it.
    #[must_use]
    pub fn share(self, share: f64) -> Self {
        match self {
            Self::Operations(amount) => Self::Operations(share * amount),
            Self::Values(amount) => Self::Values(share * amount),
            Self::Games(amount) => Self::Games(share * amount),
            Self::Iterations(amount) => Self::Iterations(share * amount),
        }
    }

    /// Gives the arithmetic operations, if those were counted.
    #[must_use]
    pub fn operations(self) -> Option<f64> {
        match self {
            Self::Operations(amount) => Some(amount),
            Self::Values(_) | Self::Games(_) | Self::Iterations(_) => None,
        }
    }

    /// Gives work per second in [`Work::rate_unit`].
    #[must_use]
    pub fn rate(self, seconds: f64) -> f64 {
        let unit = match self {
            Self::Operations(_) => 1e9,
            Self::Values(_) => 1e6,
            Self::Games(_) | Self::Iterations(_) => 1.0,
        };
        self.amount() / seconds / unit
    }

    /// Gives the unit of rates: 10⁹ operations or 10⁶ values per second, or plainly games or iterations.
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

/// How much of the work is done, and what that takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extent {
    /// Rows of the result.
    pub part: Part,
    /// How much that is, in the unit of its rate.
    pub work: Work,
    /// Bytes of inputs and outputs, each counted once.
    pub bytes: f64,
}

impl Extent {
    /// Gives what a part of this is, where every row takes as much.
    #[must_use]
    pub fn of_part(self, part: Part) -> Self {
        let share = part.share();
        Self {
            part,
            work: self.work.share(share),
            bytes: share * self.bytes,
        }
    }
}

/// One way to do the work.
#[allow(
    missing_debug_implementations,
    reason = "a closure has nothing to show"
)]
pub struct Rung<'a> {
    /// `host`, `wgsl`, or the name of the rung.
    pub executor: &'static str,
    /// The adapter; `None` on the CPU.
    pub adapter: Option<&'a Adapter>,
    /// What measures its time.
    pub timer: Timer,
    /// What it does.
    pub extent: Extent,
    /// What a reader must know beside its numbers, such as what it is held to where that is less than the oracle's every
    /// number; else empty.
    pub note: String,
    /// Makes it ready: memory and inputs, not compilation, which the first run pays.
    #[allow(
        clippy::type_complexity,
        reason = "a constructor in a box; an alias would hide it"
    )]
    pub start: Box<dyn FnOnce() -> Result<Box<dyn Contestant + 'a>> + 'a>,
}

impl<'a> Rung<'a> {
    /// Gives this rung with a note beside its numbers.
    #[must_use]
    pub fn noted(self, note: String) -> Self {
        Self { note, ..self }
    }

    /// Gives a rung on this machine's CPU: `work` fills, or replaces, a result of `len` elements.
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

    /// Gives a rung on this machine's CPU whose result is not what it computes but how good that is: `start` makes it ready
    /// and `judge` looks at it, both out of the time of `work`.
    pub fn judged<S: 'a, T: OutputElement + 'a>(
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

    /// Gives the rung of an executor of tensors on the CPU that nobody would compile for: each run builds the expression
    /// and evaluates it; the tensors it is built from are made before.
    pub fn evaluated<T: OutputElement>(
        name: &'static str,
        executor: impl Executor + 'a,
        extent: Extent,
        expression: impl Fn() -> Tensor + 'a,
    ) -> Self {
        // No length: the executor brings the result, and it is taken without a copy.
        Self::on_cpu(name, extent, 0, move |result: &mut Vec<T>| {
            let array = expression().eval::<T>(&executor)?;
            (*result, _) = array.into_raw_vec_and_offset();
            Ok(())
        })
    }

    /// Gives a rung of the host executor as users run it: the expression is compiled by the first call, as `torch.compile` and
    /// JAX do with theirs, and the result stays where the executor has it.
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

    /// Gives the rung of a device as users run it: as [`Rung::compiled`], with inputs and result on the device.
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

    /// Gives the rung of a device whose calls leave their result there; `start` brings the inputs and gives the call.
    pub(crate) fn called_on_gpu<R: Held + 'a, F: Fn() -> Result<R> + 'a>(
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

/// One piece of work at one size.
#[allow(
    missing_debug_implementations,
    reason = "a closure has nothing to show"
)]
pub struct Workload<'a> {
    /// Name, as in records: `matmul`.
    pub name: &'static str,
    /// Source it comes from: `S3`.
    pub source: &'static str,
    /// Size in one word.
    pub size: String,
    /// All of the work.
    pub whole: Extent,
    /// So many leading elements of an f32 result are the losses of a training, step by step; at most one more follows,
    /// the accuracy on test data. 0 where nothing is trained.
    pub n_losses: usize,
    /// The rungs, slowest idea first.
    pub rungs: Vec<Rung<'a>>,
    /// What the rivals do, from the same inputs.
    pub rivals: Vec<Job<'a>>,
    /// What was left out here, and why.
    pub left_out: Vec<NotRun>,
    /// What a right result shows.
    #[allow(
        clippy::type_complexity,
        reason = "a closure in a box; an alias would hide it"
    )]
    pub figure: Option<Box<dyn Fn(&Output) -> Result<Figure> + 'a>>,
    /// Compares a result, of which only `part` was done, with the oracle.
    #[allow(
        clippy::type_complexity,
        reason = "a closure in a box; an alias would hide it"
    )]
    pub check: Box<dyn Fn(&Output, Part) -> Result<()> + 'a>,
}

/// Inputs of a piece of work, with the truth about it.
pub trait Problem {
    /// Describes the work: the CPU's rungs, then those of each device.
    fn workload<'a>(&'a self, gpus: &'a [Gpu]) -> Workload<'a>;
}

/// A workload at one size, before its inputs are made.
#[allow(
    missing_debug_implementations,
    reason = "a closure has nothing to show"
)]
pub struct Task {
    /// Name of the workload.
    pub name: &'static str,
    /// Size in one word.
    pub size: String,
    /// Whether it is left out where images have no labels.
    pub needs_labels: bool,
    /// The program on tensors of zeros, where it is a single one.
    pub program: Option<Box<dyn Fn() -> Tensor>>,
    /// Makes the inputs, from real images or at random, and computes the truth about them.
    #[allow(
        clippy::type_complexity,
        reason = "a constructor in a box; an alias would hide it"
    )]
    pub prepare: Box<dyn Fn(&Images) -> Result<Box<dyn Problem>>>,
}

impl Task {
    /// Gives what the command line calls it: `matmul/512x512x512`.
    #[must_use]
    pub fn id(&self) -> String {
        format!("{}/{}", self.name, self.size)
    }
}
