//! A profiler: time and memory by step, operation and source line.
//!
//! Role: a [`Profiler`] wraps another executor and is an executor itself. It counts every step,
//! traces the time at which the step ran, and follows every array from its allocation to its
//! release. [`Profiler::profile`] returns a [`Profile`] with [tables](Profile::table), the arrays
//! in [memory](Profile::memory) at its peak, a [trace](Profile::trace_json) for Perfetto and
//! [folded stacks](Profile::folded_stacks) for flame graphs. Without a profiler, no code of this
//! module runs.
//! Method: `recorder` stores `data` behind one lock, which is held briefly at the end of each step
//! and of the life of each array. The bytes and operations of a step are computed once per plan.
//! The lookup uses the plan's address; the recorder holds a clone of the plan, so that no other
//! plan can get this address. Each array is wrapped in a storage that records its release
//! (`tracked`). `table`, `memory`, `trace` and `folded` are views of the recorded data.
//! Time: nanoseconds of [`Instant`]'s monotonic clock since [`Profiler::new`]. The time of a step
//! is the time of [`Executor::run`] on its thread, including the query of the executor's memory. If
//! an executor only queues work and supports device times ([`Executor::device_times`]), the time of
//! a step is the device's time, on a separate track, and the time of queueing is recorded in spans
//! named `queue`; each run of a plan then ends with a wait for the device. For a device without
//! such times, a step's time is the time of queueing, and the wait is in the span `read`.
//! Lines: a fused step computes operations of several source lines, and the share of each in the
//! step's time cannot be measured. Therefore the whole time counts for the line whose result the
//! step writes (the last of [`Step::origins`]); these times add up to the total. The column
//! `within` of a line is the time of all steps that compute any operation of the line; these times
//! do not add up.
//! Memory: arrays that the executor created or uploaded. Data from the caller
//! ([`Tensor::from_vec`](crate::Tensor::from_vec)) is not counted, as in
//! [`Host::live_bytes`](crate::Host::live_bytes). The temporary memory of steps (packed matrices)
//! is known from [`Executor::memory`] alone, and is reported separately.
//! Cost: for each step three clock readings, two locks, and a wrapper of the array. In the record
//! 2026-11-21t16-57-42z the workload `two-layer-net`, whose steps take 13 microseconds, takes 1.6 %
//! longer with a profiler (its row `profiled`) than without. Without a profiler the cost is one
//! call per run that returns `None`.
//! Limits: the first 262 144 spans and as many points of the memory curve are stored; later ones
//! are counted as dropped. Tables include everything, but merge: beyond 4096 different steps and
//! names, steps with an equal line and operation share one row, and names share another row. While
//! a thread waits in a step, it may run other work of its pool, whose time is then included in the
//! step's time. Steps that an executor does not accept run on the scheduler's own
//! [`Host`](crate::Host), outside the profiler; tables report their number.
//!
//! # Examples
//! ```
//! use tensor_core::profile::{By, Column, Profiler};
//! use tensor_core::{Host, Tensor};
//!
//! let host = Host::new();
//! let profiler = Profiler::new(&host);
//! let x = Tensor::from_vec(&[200, 300], vec![0.5_f32; 60_000]);
//! let norms = profiler.span("three runs", || {
//!     (0..3).map(|_| (&x * 2.0).square().sum(1).realize(&profiler)).collect::<Result<Vec<_>, _>>()
//! })?;
//! let profile = profiler.profile();
//! let table = profile.table(By::Step, Column::Time);
//! let row = table.rows.iter().find(|row| row.name.starts_with("sum ")).unwrap();
//! assert_eq!((row.calls, row.bytes_written), (3, 3 * 200 * 4));
//! println!("{table}{}", profile.memory(By::Line));
//! assert_eq!(profile.live_bytes(), host.live_bytes() as u64);
//! let trace = profile.trace_json(); // to a file, and from there to ui.perfetto.dev
//! # assert!(trace.contains("three runs"));
//! # drop(norms);
//! # Ok::<(), tensor_core::Error>(())
//! ```

use std::borrow::Cow;
use std::sync::Arc;
use web_time::Instant;

use crate::dtype::{DType, HostData};
use crate::error::Result;
use crate::exec::{Accuracy, DeviceTimes, Executor, MemoryUse, Storage};
use crate::plan::{Plan, Step, Target};
use recorder::{Open, Recorder, StepCosts};
use tracked::{Tracked, bare};

pub use memory::{Memory, MemoryRow};
pub use table::{By, Column, Peak, Row, Table};

mod data;
mod folded;
mod memory;
mod recorder;
mod table;
mod trace;
mod tracked;

/// An executor that records the activity of another executor.
///
/// Clones share their records. Arrays computed through a profiler are read in place by this
/// profiler and by other profilers of the same executor; the executor itself uploads a copy.
#[derive(Debug, Clone)]
pub struct Profiler<'e> {
    inner: &'e dyn Executor,
    recorder: Arc<Recorder>,
}

/// The index of a span in [`Profile::spans`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId(pub usize);

/// A named interval of time. All fields are public, so measurements from elsewhere can be
/// [recorded](Profiler::record), too.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// The name of the activity.
    pub name: Arc<str>,
    /// The thread, queue or device of the activity.
    pub track: Arc<str>,
    /// The start, in nanoseconds on the profiler's clock.
    pub start_ns: u64,
    /// The end, in nanoseconds on the profiler's clock.
    pub end_ns: u64,
    /// The index of the enclosing span; `None` at the top level.
    pub parent: Option<SpanId>,
    /// Named details.
    pub args: Vec<(Cow<'static, str>, Arg)>,
}

/// A detail of a span.
#[derive(Debug, Clone, PartialEq)]
pub enum Arg {
    /// An integer.
    Count(u64),
    /// A number. JSON has no infinities and NaN; they are written as `null`.
    Number(f64),
    /// A text.
    Text(String),
}

/// A snapshot of the records of a [`Profiler`].
#[derive(Debug, Clone)]
pub struct Profile {
    data: data::Data,
    elapsed_ns: u64,
}

impl<'e> Profiler<'e> {
    /// Creates a profiler for an executor; its clock starts at 0.
    #[must_use]
    pub fn new(executor: &'e dyn Executor) -> Self {
        Self {
            inner: executor,
            recorder: Arc::new(Recorder::new(executor.memory())),
        }
    }

    /// Runs `work` inside a span of this name. The evaluations that `work` starts on this thread
    /// through this profiler become parts of the span, whichever threads run their steps. Spans
    /// that `work` opens on this thread become parts as well.
    pub fn span<T>(&self, name: &str, work: impl FnOnce() -> T) -> T {
        let parent = self.recorder.current();
        let mut open = self.recorder.open_named(name, 0, parent);
        let entered = self.recorder.enter(open.slot());
        let result = work();
        drop(entered);
        open.succeeded();
        result
    }

    /// Adds a span that was measured elsewhere, for example a device's own times or the energy over
    /// an interval. An end before the start is replaced by the start, and a parent that does not
    /// exist by `None`. Returns the index of the span, or `None` if the limit of spans is reached.
    pub fn record(&self, span: Span) -> Option<SpanId> {
        self.recorder.record(span).map(SpanId)
    }

    /// Returns the innermost open span of this thread; `None` outside of spans, or if the span was
    /// dropped because the limit of spans was reached.
    #[must_use]
    pub fn current_span(&self) -> Option<SpanId> {
        self.recorder.current().map(SpanId)
    }

    /// Returns a time on the profiler's clock, in nanoseconds; 0 for times before its start.
    #[must_use]
    pub fn clock_ns(&self, time: Instant) -> u64 {
        self.recorder.clock_ns(time)
    }

    /// Returns a snapshot of the records. A span that is still open ends at the time of the
    /// snapshot and is marked as open.
    #[must_use]
    pub fn profile(&self) -> Profile {
        let (data, elapsed_ns) = self.recorder.snapshot();
        Profile { data, elapsed_ns }
    }

    /// Runs a step in a span, and wraps its array. The inputs are unwrapped first, because the
    /// executor only reads its own storages.
    fn run_with_costs(
        &self,
        step: &Step,
        inputs: &[Arc<dyn Storage>],
        costs: StepCosts,
        parent: Option<usize>,
    ) -> Result<Arc<dyn Storage>> {
        let inputs: Vec<Arc<dyn Storage>> = inputs.iter().map(bare).collect();
        let writing = self.recorder.write(costs, step.wave, parent);
        let inner = self.inner.run(step, &inputs)?;
        let held = writing.wrote(self.inner.memory());
        Ok(Arc::new(Tracked::new(inner, held)))
    }

    /// Queues a step whose times the device reports later.
    fn queue_with_costs(
        &self,
        times: &dyn DeviceTimes,
        (number, step): (usize, &Step),
        inputs: &[Arc<dyn Storage>],
        costs: StepCosts,
        parent: Option<usize>,
    ) -> Result<Arc<dyn Storage>> {
        let inputs: Vec<Arc<dyn Storage>> = inputs.iter().map(bare).collect();
        let queueing = self.recorder.queue(costs, step.wave, parent);
        let inner = times.run(number, step, &inputs)?;
        let held = queueing.wrote(self.inner.memory());
        Ok(Arc::new(Tracked::new(inner, held)))
    }

    /// Uploads data in a span, and wraps the array.
    fn upload_in(&self, data: HostData, parent: Option<usize>) -> Result<Arc<dyn Storage>> {
        let bytes = (data.len() * data.dtype().bytes()) as u64;
        let costs = self.recorder.upload_costs(bytes);
        let writing = self.recorder.write(costs, 0, parent);
        let inner = self.inner.upload(data)?;
        let held = writing.wrote(self.inner.memory());
        Ok(Arc::new(Tracked::new(inner, held)))
    }
}

impl Executor for Profiler<'_> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn target(&self) -> Target {
        self.inner.target()
    }

    fn accuracy(&self) -> Accuracy {
        self.inner.accuracy()
    }

    fn accepts(&self, step: &Step, input_lens: &[usize]) -> bool {
        let accepts = self.inner.accepts(step, input_lens);
        if !accepts {
            self.recorder.rejected();
        }
        accepts
    }

    fn check_capacity(&self, dtype: DType, len: usize) -> Result<()> {
        self.inner.check_capacity(dtype, len)
    }

    fn check_step(&self, step: &Step, input_lens: &[usize]) -> Result<()> {
        self.inner.check_step(step, input_lens)
    }

    fn owns(&self, storage: &dyn Storage) -> bool {
        self.inner.owns(Tracked::inside(storage).unwrap_or(storage))
    }

    fn upload(&self, data: HostData) -> Result<Arc<dyn Storage>> {
        self.upload_in(data, self.recorder.current())
    }

    fn run(&self, step: &Step, inputs: &[Arc<dyn Storage>]) -> Result<Arc<dyn Storage>> {
        let lens: Vec<usize> = inputs.iter().map(|input| input.len()).collect();
        let costs = self.recorder.costs(step, &lens);
        self.run_with_costs(step, inputs, costs, self.recorder.current())
    }

    fn submit(&self) -> Result<()> {
        self.inner.submit()
    }

    fn for_run<'a>(&'a self, plan: &'a Plan) -> Option<Box<dyn Executor + 'a>> {
        let parent = self.recorder.current();
        let mut open = self.recorder.open_run(parent);
        open.succeeded();
        Some(Box::new(Run {
            profiler: self,
            plan,
            costs: self.recorder.step_costs(plan),
            times: self.inner.device_times(),
            open,
        }))
    }

    fn shares_its_steps(&self) -> bool {
        self.inner.shares_its_steps()
    }

    fn memory(&self) -> Option<MemoryUse> {
        self.inner.memory()
    }
}

/// The profiler during one run of a plan. Steps run on threads of a pool, on which no span is open;
/// this struct remembers the run's span as their parent.
#[derive(Debug)]
struct Run<'a> {
    profiler: &'a Profiler<'a>,
    plan: &'a Plan,
    costs: Arc<[StepCosts]>,
    times: Option<Box<dyn DeviceTimes + 'a>>,
    open: Open<'a>,
}

impl Executor for Run<'_> {
    fn name(&self) -> &str {
        self.profiler.name()
    }

    fn shares_its_steps(&self) -> bool {
        self.profiler.inner.shares_its_steps()
    }

    fn target(&self) -> Target {
        self.profiler.target()
    }

    fn accuracy(&self) -> Accuracy {
        self.profiler.accuracy()
    }

    fn accepts(&self, step: &Step, input_lens: &[usize]) -> bool {
        self.profiler.accepts(step, input_lens)
    }

    fn check_capacity(&self, dtype: DType, len: usize) -> Result<()> {
        self.profiler.check_capacity(dtype, len)
    }

    fn check_step(&self, step: &Step, input_lens: &[usize]) -> Result<()> {
        self.profiler.check_step(step, input_lens)
    }

    fn owns(&self, storage: &dyn Storage) -> bool {
        self.profiler.owns(storage)
    }

    fn upload(&self, data: HostData) -> Result<Arc<dyn Storage>> {
        self.profiler.upload_in(data, self.open.slot())
    }

    fn run(&self, step: &Step, inputs: &[Arc<dyn Storage>]) -> Result<Arc<dyn Storage>> {
        match self.plan.steps.element_offset(step) {
            Some(number) => {
                let (costs, parent) = (self.costs[number], self.open.slot());
                match &self.times {
                    None => self.profiler.run_with_costs(step, inputs, costs, parent),
                    Some(times) => {
                        let step = (number, step);
                        let times = times.as_ref();
                        self.profiler
                            .queue_with_costs(times, step, inputs, costs, parent)
                    }
                }
            }
            None => self.profiler.run(step, inputs),
        }
    }

    fn submit(&self) -> Result<()> {
        self.profiler.submit()?;
        let Some(times) = &self.times else {
            return Ok(());
        };
        let recorder = &self.profiler.recorder;
        for (number, [start, end]) in times.finish()? {
            let costs = &self.costs[number];
            let span = [start, end].map(|time| recorder.clock_ns(time));
            recorder.ran(
                self.name(),
                costs,
                self.plan.steps[number].wave,
                self.open.slot(),
                span,
            );
        }
        Ok(())
    }

    fn memory(&self) -> Option<MemoryUse> {
        self.profiler.memory()
    }
}

impl Profile {
    /// Returns the time between the creation of the profiler and the snapshot, in nanoseconds.
    #[must_use]
    pub fn elapsed_ns(&self) -> u64 {
        self.elapsed_ns
    }

    /// Returns the stored spans. The order is that in which spans are stored. A span that may have
    /// parts is stored when it begins, so it precedes its parts. A step or an upload is stored
    /// after its end, and a [recorded](Profiler::record) span at the call that records the span.
    pub fn spans(&self) -> impl Iterator<Item = Span> + '_ {
        self.data.spans.iter().map(|span| self.data.public(span))
    }

    /// Returns the number of spans that were dropped because of the limit.
    #[must_use]
    pub fn dropped_spans(&self) -> u64 {
        self.data.dropped_spans
    }

    /// Returns the live bytes of arrays at the time of the snapshot.
    #[must_use]
    pub fn live_bytes(&self) -> u64 {
        self.data.arrays.live
    }

    /// Returns the peak of the live bytes of arrays.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.data.arrays.peak
    }

    /// Returns a table of calls, times, bytes and operations, summed by step, operation, line or
    /// name of a span.
    #[must_use]
    pub fn table(&self, by: By, sorted_by: Column) -> Table {
        table::summarize(self, by, sorted_by)
    }

    /// Returns the memory by step, operation, line or name of a span: at the peak, at the snapshot,
    /// and allocated in total.
    #[must_use]
    pub fn memory(&self, by: By) -> Memory {
        memory::summarize(self, by)
    }

    /// Returns the live bytes of arrays after each allocation and release, as pairs of time in
    /// nanoseconds and bytes.
    #[must_use]
    pub fn memory_curve(&self) -> &[(u64, u64)] {
        &self.data.arrays.curve
    }

    /// Returns the spans and the memory curve in Chrome's trace event format, which Perfetto opens.
    /// Times are in microseconds of the profiler's clock. Viewers expect the spans of one `tid` to
    /// nest, so spans of a track that overlap without nesting are moved to additional tracks.
    #[must_use]
    pub fn trace_json(&self) -> String {
        trace::json(self)
    }

    /// Returns the tree of spans as folded stacks, from which tools such as inferno and speedscope
    /// draw flame and icicle graphs: one line `outermost;…;innermost nanoseconds` for each path of
    /// names, with the time that its spans took without their parts.
    #[must_use]
    pub fn folded_stacks(&self) -> String {
        folded::stacks(self)
    }
}
