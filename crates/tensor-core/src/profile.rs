//! Where time and memory go: by step, operation and source line.
//!
//! Role: a [`Profiler`] stands in front of any executor and is one itself. It counts every step, traces when it ran, and follows
//! every array from its allocation to its release; [`Profiler::profile`] gives a [`Profile`]: [tables](Profile::table), who held
//! the [memory](Profile::memory) at its peak, a [trace](Profile::trace_json) for Perfetto and an
//! [icicle graph](Profile::icicle_svg). Without one, nothing here is in the path of a run.
//! Method: `recorder` keeps `data` behind one lock, held for moments at the ends of steps and of lives of arrays. What a step
//! reads and computes is worked out once for each plan, which is told by its place in memory and kept there, so that no other
//! plan is mistaken for it. Arrays are handed out inside a storage that tells when they go
//! (`tracked`). `table`, `memory`, `trace` and `icicle` are views of what was recorded.
//! Time: nanoseconds of [`Instant`]'s monotonic clock since [`Profiler::new`]. A step's time is that of
//! [`Executor::run`] on its thread, and of asking the executor for its memory. Where an executor only queues work and can tell when the
//! device did it ([`Executor::device_times`]), a step's time is the device's, on a track of its own, and what queueing took stands in
//! spans `queue`; each run of a plan then ends with a wait for the device. A device that cannot tell shows as the time of a step what queueing took, and the wait in the
//! span `read`.
//! Lines: a fused step computes operations of several lines at once, and how its time divides among them cannot be measured. So
//! nothing is divided: all of it counts for the line whose result the step writes (the last of [`Step::origins`]), and these times
//! add up; the column `within` of another line is the time of all steps that do any of its work, and does not add up.
//! Memory: arrays that the executor made or took up; what a caller gave ([`Tensor::from_vec`](crate::Tensor::from_vec)) is
//! counted nowhere, as in [`Host::live_bytes`](crate::Host::live_bytes). What a step takes on the way (packed matrices) is known
//! from [`Executor::memory`] alone, and stands apart.
//! Cost: for each step three looks at the clock, twice the lock, a handle around the array. In the record 2026-11-21t16-57-42z
//! the workload `two-layer-net`, whose steps take 13 microseconds, takes 1.6 % longer with a profiler (its row `profiled`) than
//! without. An executor that no profiler stands before pays one call a run that gives nothing.
//! Limits: the first 262 144 spans and as many points of the memory's curve are kept; what is left out is counted and said. Tables
//! leave nothing out, but merge: beyond 4096 different steps and names, steps of one line and operation make one row, and names one
//! more. A thread that waits in a step may take up other work of its pool, and then that lies inside the step's time. Steps that
//! an executor does not accept run on the scheduler's own [`Host`](crate::Host), unseen: a table tells how many there were.
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
use std::time::Instant;

use crate::dtype::{DType, HostData};
use crate::error::Result;
use crate::exec::{Accuracy, DeviceTimes, Executor, MemoryUse, Storage};
use crate::plan::{Plan, Step, Target};
use recorder::{Known, Open, Recorder};
use tracked::{Tracked, bare};

pub use memory::{Memory, MemoryRow};
pub use table::{By, Column, Peak, Row, Table};

mod data;
mod icicle;
mod memory;
mod recorder;
mod table;
mod trace;
mod tracked;

/// An executor that records what another one does.
///
/// Clones record into the same place. Arrays computed through it are read in place by it and by other profilers of the same
/// executor; the executor itself brings a copy to where it can read them.
#[derive(Debug, Clone)]
pub struct Profiler<'e> {
    inner: &'e dyn Executor,
    recorder: Arc<Recorder>,
}

/// The place of a span in [`Profile::spans`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId(pub usize);

/// Something that took time. All fields are plain, so what was measured elsewhere can be [recorded](Profiler::record) too.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// What happened.
    pub name: Arc<str>,
    /// The thread, queue or device on which it happened.
    pub track: Arc<str>,
    /// When it began, on the profiler's clock.
    pub start_ns: u64,
    /// When it ended, on the profiler's clock.
    pub end_ns: u64,
    /// The span that it is a part of.
    pub parent: Option<SpanId>,
    /// What else is known of it.
    pub args: Vec<(Cow<'static, str>, Arg)>,
}

/// Something known of a span.
#[derive(Debug, Clone, PartialEq)]
pub enum Arg {
    /// A whole number.
    Count(u64),
    /// A number; infinities and NaN have no place in JSON and become `null` there.
    Number(f64),
    /// A text.
    Text(String),
}

/// What a [`Profiler`] knew at one time.
#[derive(Debug, Clone)]
pub struct Profile {
    data: data::Data,
    elapsed_ns: u64,
}

impl<'e> Profiler<'e> {
    /// Starts to record, in front of an executor; its clock starts at 0.
    #[must_use]
    pub fn new(executor: &'e dyn Executor) -> Self {
        Self {
            inner: executor,
            recorder: Arc::new(Recorder::new(executor.memory())),
        }
    }

    /// Does some work inside a span of this name. What is evaluated through this profiler by the same thread meanwhile, on
    /// whatever threads it runs, is a part of it, and so are spans opened in it.
    pub fn span<T>(&self, name: &str, work: impl FnOnce() -> T) -> T {
        let parent = self.recorder.current();
        let mut open = self.recorder.open_named(name, 0, parent);
        let entered = self.recorder.enter(open.slot());
        let result = work();
        drop(entered);
        open.succeeded();
        result
    }

    /// Adds a span that was measured elsewhere: a device's own times, energy over an interval. An end before its start counts
    /// as the start, and a parent that does not exist as none. Gives its place, or `None` if no more spans are kept.
    pub fn record(&self, span: Span) -> Option<SpanId> {
        self.recorder.record(span).map(SpanId)
    }

    /// The innermost span that this thread has open; `None` outside spans, and where it is not kept.
    #[must_use]
    pub fn current_span(&self) -> Option<SpanId> {
        self.recorder.current().map(SpanId)
    }

    /// A time on the profiler's clock; 0 for what lies before its start.
    #[must_use]
    pub fn clock_ns(&self, time: Instant) -> u64 {
        self.recorder.clock_ns(time)
    }

    /// What is known so far. A span that is still open ends now, and says so.
    #[must_use]
    pub fn profile(&self) -> Profile {
        let (data, elapsed_ns) = self.recorder.snapshot();
        Profile { data, elapsed_ns }
    }

    fn run_known(
        &self,
        step: &Step,
        inputs: &[Arc<dyn Storage>],
        known: Known,
        parent: Option<usize>,
    ) -> Result<Arc<dyn Storage>> {
        let inputs: Vec<Arc<dyn Storage>> = inputs.iter().map(bare).collect();
        let writing = self.recorder.write(known, step.wave, parent);
        let inner = self.inner.run(step, &inputs)?;
        let held = writing.wrote(self.inner.memory());
        Ok(Arc::new(Tracked::new(inner, held)))
    }

    /// Queues a step whose time the device will tell.
    fn queue_known(
        &self,
        times: &dyn DeviceTimes,
        (number, step): (usize, &Step),
        inputs: &[Arc<dyn Storage>],
        known: Known,
        parent: Option<usize>,
    ) -> Result<Arc<dyn Storage>> {
        let inputs: Vec<Arc<dyn Storage>> = inputs.iter().map(bare).collect();
        let queueing = self.recorder.queue(known, step.wave, parent);
        let inner = times.run(number, step, &inputs)?;
        let held = queueing.wrote(self.inner.memory());
        Ok(Arc::new(Tracked::new(inner, held)))
    }

    fn upload_in(&self, data: HostData, parent: Option<usize>) -> Result<Arc<dyn Storage>> {
        let bytes = (data.len() * data.dtype().bytes()) as u64;
        let known = self.recorder.known_upload(bytes);
        let writing = self.recorder.write(known, 0, parent);
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
            self.recorder.refused();
        }
        accepts
    }

    fn check_room(&self, dtype: DType, len: usize) -> Result<()> {
        self.inner.check_room(dtype, len)
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
        let known = self.recorder.known(step, &lens);
        self.run_known(step, inputs, known, self.recorder.current())
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
            known: self.recorder.known_steps(plan),
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

/// The profiler during one run of a plan. Steps run on threads of a pool, which do not know who asked for them; this does.
#[derive(Debug)]
struct Run<'a> {
    profiler: &'a Profiler<'a>,
    plan: &'a Plan,
    known: Arc<[Known]>,
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

    fn check_room(&self, dtype: DType, len: usize) -> Result<()> {
        self.profiler.check_room(dtype, len)
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
                let (known, parent) = (self.known[number], self.open.slot());
                match &self.times {
                    None => self.profiler.run_known(step, inputs, known, parent),
                    Some(times) => {
                        let step = (number, step);
                        let times = times.as_ref();
                        self.profiler
                            .queue_known(times, step, inputs, known, parent)
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
            let known = &self.known[number];
            let span = [start, end].map(|time| recorder.clock_ns(time));
            recorder.ran(
                self.name(),
                known,
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
    /// The time since the profiler was made.
    #[must_use]
    pub fn elapsed_ns(&self) -> u64 {
        self.elapsed_ns
    }

    /// The spans that were kept: those that may have parts in the order in which they began, so a parent comes before its parts,
    /// and among them steps, uploads and what was [recorded](Profiler::record), when they had ended.
    pub fn spans(&self) -> impl Iterator<Item = Span> + '_ {
        self.data.spans.iter().map(|span| self.data.public(span))
    }

    /// How many spans were not kept.
    #[must_use]
    pub fn dropped_spans(&self) -> u64 {
        self.data.dropped_spans
    }

    /// The bytes of arrays that were alive.
    #[must_use]
    pub fn live_bytes(&self) -> u64 {
        self.data.arrays.live
    }

    /// The most such bytes at one time.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.data.arrays.peak
    }

    /// Calls, time, bytes and operations, summed by step, operation, line or name of a span.
    #[must_use]
    pub fn table(&self, by: By, sorted_by: Column) -> Table {
        table::of(self, by, sorted_by)
    }

    /// Who held memory at its peak, who holds it now, and who allocated how much.
    #[must_use]
    pub fn memory(&self, by: By) -> Memory {
        memory::of(self, by)
    }

    /// The bytes of arrays alive after each allocation and each release, with its time.
    #[must_use]
    pub fn memory_curve(&self) -> &[(u64, u64)] {
        &self.data.arrays.curve
    }

    /// The spans and the curve of memory in Chrome's trace event format, which Perfetto opens. Times are in microseconds of the
    /// profiler's clock. Spans of one `tid` nest; where a track's own do not, the rest stands on tracks beside it.
    #[must_use]
    pub fn trace_json(&self) -> String {
        trace::json(self)
    }

    /// The tree of spans as a picture: time from left to right as widths, parts under what they are a part of, equal paths
    /// merged.
    #[must_use]
    pub fn icicle_svg(&self) -> String {
        icicle::svg(self)
    }
}
