//! The records of a profiler, behind one lock.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use web_time::Instant;

use super::data::{Data, Ended, ExecutorPeak, Label, Recorded, StepInfo, Subject, Totals};
use super::memory::ArraysOf;
use super::tracked::LiveBytes;
use super::{Span, SpanId};
use crate::exec::MemoryUse;
use crate::plan::{Plan, Step};

/// The maximum number of stored spans; each takes about 50 bytes.
pub(super) const MAX_SPANS: usize = 1 << 18;
/// The maximum number of different steps and names with a row of their own.
const MAX_SUBJECTS: usize = 1 << 12;
/// The maximum number of cached plans. When it is reached, the cache is cleared.
const MAX_PLANS: usize = 1 << 8;
/// The end time of a span that is still open.
const OPEN: u64 = u64::MAX;

/// The recorder of all events of a profiler.
#[derive(Debug)]
pub(super) struct Recorder {
    /// A unique number of the recorder in this process; numbers are never reused.
    id: u64,
    start: Instant,
    /// The subject and the costs (none) of the span `run`, which contains a run of a plan.
    run: StepCosts,
    state: Mutex<Recording>,
    plans: Mutex<HashMap<usize, PlanCosts>>,
}

#[derive(Debug, Default)]
struct Recording {
    data: Data,
    subjects: HashMap<Label, u32>,
    tracks: HashMap<TrackId, u32>,
}

/// The costs of a step, which are known before it runs: bytes read and written, and operations in
/// additions. For other spans only the transferred bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepCosts {
    pub(super) subject: u32,
    pub(super) read: u64,
    pub(super) written: u64,
    pub(super) operations: f64,
}

/// The cached costs of the steps of a plan. While the entry holds the plan, no other plan can get
/// its address.
#[derive(Debug)]
struct PlanCosts {
    plan: Plan,
    steps: Arc<[StepCosts]>,
}

/// The place of a span: the thread that ran it, or a track by name.
#[derive(Debug, PartialEq, Eq, Hash)]
enum TrackId {
    Thread(ThreadId),
    Named(Arc<str>),
}

/// A span that may have parts, so it is stored when it begins. Dropping ends the span, as failed
/// unless `succeeded` was called.
#[derive(Debug)]
pub(super) struct Open<'r> {
    recorder: &'r Recorder,
    /// The index of the span; `None` if the limit of spans is reached.
    slot: Option<usize>,
    start: u64,
    costs: StepCosts,
    failed: bool,
}

/// A span in which an array is written. It has no parts, so it is stored when it ends, and a short
/// step takes the lock only once.
#[derive(Debug)]
pub(super) struct Writing<'r> {
    recorder: &'r Arc<Recorder>,
    costs: StepCosts,
    /// Whether the span only measures queueing.
    is_queued: bool,
    wave: u32,
    parent: Option<usize>,
    start: u64,
    is_over: bool,
}

/// A guard that makes a span the innermost of its thread until dropped; `false` if there is no span
/// because the limit of spans was reached.
#[derive(Debug)]
pub(super) struct Entered(bool);

thread_local! {
    /// The open spans of this thread, each with its recorder's number.
    static ENTERED: RefCell<Vec<(u64, usize)>> = const { RefCell::new(Vec::new()) };
    /// The number of the last recorder on this thread, and this thread's track in that recorder.
    static TRACK: Cell<(u64, u32)> = const { Cell::new((u64::MAX, 0)) };
}

impl Recorder {
    pub(super) fn new(memory: Option<MemoryUse>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut state = Recording::default();
        let run = state.subject(Label::Named("run".into()));
        state.data.executor = memory.map(|before| ExecutorPeak {
            before,
            peak: before.peak_bytes,
            subject: None,
        });
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            start: Instant::now(),
            run: StepCosts::transfer(run, 0),
            state: Mutex::new(state),
            plans: Mutex::default(),
        }
    }

    /// Returns a time in nanoseconds since the recorder's start.
    pub(super) fn clock_ns(&self, time: Instant) -> u64 {
        let since = time.saturating_duration_since(self.start);
        // The largest value is reserved for open spans.
        u64::try_from(since.as_nanos()).map_or(OPEN - 1, |ns| ns.min(OPEN - 1))
    }

    fn now(&self) -> u64 {
        self.clock_ns(Instant::now())
    }

    fn lock(&self) -> MutexGuard<'_, Recording> {
        // Each change under the lock leaves the records readable, so a poisoned lock is still
        // usable.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the innermost span of this recorder on this thread.
    pub(super) fn current(&self) -> Option<usize> {
        ENTERED.with_borrow(|entered| {
            // Several profilers may have spans open on one thread.
            let mut inner_first = entered.iter().rev();
            let found = inner_first.find(|(recorder, _)| *recorder == self.id);
            found.map(|(_, slot)| *slot)
        })
    }

    /// Enters a span, which becomes the innermost of this thread. Does nothing for `None`, a span
    /// that was dropped because of the limit of spans.
    pub(super) fn enter(&self, slot: Option<usize>) -> Entered {
        if let Some(slot) = slot {
            ENTERED.with_borrow_mut(|entered| entered.push((self.id, slot)));
        }
        Entered(slot.is_some())
    }

    /// Starts the span of a run of a plan.
    pub(super) fn open_run(&self, parent: Option<usize>) -> Open<'_> {
        self.open(&mut self.lock(), self.run, parent)
    }

    /// Starts a span by name, in which some bytes are transferred.
    pub(super) fn open_named(&self, name: &str, bytes: u64, parent: Option<usize>) -> Open<'_> {
        let mut state = self.lock();
        let subject = state.subject(Label::Named(name.into()));
        self.open(&mut state, StepCosts::transfer(subject, bytes), parent)
    }

    /// Starts a span. The clock is read last, so that the time of storing the span is not included.
    fn open(&self, state: &mut Recording, costs: StepCosts, parent: Option<usize>) -> Open<'_> {
        let slot = state.keep(|state| Recorded {
            subject: costs.subject,
            track: state.track_of_thread(self.id),
            parent: number(parent),
            wave: 0,
            start: 0,
            end: OPEN,
            state: Ended::NotYet,
            args: None,
        });
        let start = self.now();
        if let Some(slot) = slot {
            state.data.spans[slot].start = start;
        }
        Open {
            recorder: self,
            slot,
            start,
            costs,
            failed: true,
        }
    }

    /// Starts the span of an operation that writes an array.
    pub(super) fn write(
        self: &Arc<Self>,
        costs: StepCosts,
        wave: usize,
        parent: Option<usize>,
    ) -> Writing<'_> {
        Writing {
            recorder: self,
            costs,
            is_queued: false,
            wave: u32::try_from(wave).unwrap_or(u32::MAX),
            parent,
            start: self.now(),
            is_over: false,
        }
    }

    /// Starts the span of queueing an operation that writes an array. [`Self::ran`] later records
    /// the device's times.
    pub(super) fn queue(
        self: &Arc<Self>,
        costs: StepCosts,
        wave: usize,
        parent: Option<usize>,
    ) -> Writing<'_> {
        let mut queueing = self.write(costs, wave, parent);
        queueing.is_queued = true;
        queueing
    }

    /// Records the times at which a step ran on a device.
    pub(super) fn ran(
        &self,
        device: &str,
        costs: &StepCosts,
        wave: usize,
        parent: Option<usize>,
        [start, end]: [u64; 2],
    ) {
        let mut state = self.lock();
        // Device clocks are converted, so an end could come out before its start.
        let end = end.max(start).min(OPEN - 1);
        state.count(costs, end - start.min(end), false);
        state.keep(|state| Recorded {
            subject: costs.subject,
            track: state.track(TrackId::Named(device.into()), || device.into()),
            parent: number(parent),
            wave: u32::try_from(wave).unwrap_or(u32::MAX),
            start: start.min(end),
            end,
            state: Ended::Well,
            args: None,
        });
    }

    /// Adds a span that was measured elsewhere.
    pub(super) fn record(&self, span: Span) -> Option<usize> {
        let mut state = self.lock();
        let subject = state.subject(Label::Named(span.name));
        let end = span.end_ns.max(span.start_ns).min(OPEN - 1);
        let costs = StepCosts::transfer(subject, 0);
        state.count(&costs, end - span.start_ns.min(end), false);
        // A parent must have been stored before its part.
        let parent = span.parent.map(|SpanId(parent)| parent);
        state.keep(|state| Recorded {
            subject,
            track: state.track(TrackId::Named(Arc::clone(&span.track)), || span.track),
            parent: number(parent.filter(|&parent| parent < state.data.spans.len())),
            wave: 0,
            start: span.start_ns.min(end),
            end,
            state: Ended::Well,
            args: (!span.args.is_empty()).then(|| Box::new(span.args)),
        })
    }

    /// Records the release of an array.
    pub(super) fn released(&self, subject: u32, bytes: u64) {
        let now = self.now();
        let mut state = self.lock();
        let Data {
            arrays, subjects, ..
        } = &mut state.data;
        arrays.released(now, subjects, subject as usize, bytes);
    }

    /// Counts a step that fell back to the host.
    pub(super) fn rejected(&self) {
        self.lock().data.n_rejected += 1;
    }

    /// Returns the costs of the steps of a plan, which must have passed [`Plan::check`]. The costs
    /// are cached by the address of the list of steps.
    pub(super) fn step_costs(&self, plan: &Plan) -> Arc<[StepCosts]> {
        let place = plan.steps.as_ptr().addr();
        let lock = || self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(costs) = lock().get(&place)
            && costs.is_of(plan)
        {
            return Arc::clone(&costs.steps);
        }
        let lens = |step: &Step| -> Vec<usize> {
            let buffers = step.inputs.iter();
            buffers.map(|input| plan.buffers[input.0].len()).collect()
        };
        let steps: Arc<[StepCosts]> = plan
            .steps
            .iter()
            .map(|step| self.costs(step, &lens(step)))
            .collect();
        let costs = PlanCosts {
            plan: plan.clone(),
            steps: Arc::clone(&steps),
        };
        let mut plans = lock();
        if plans.len() >= MAX_PLANS {
            plans.clear();
        }
        plans.insert(place, costs);
        steps
    }

    /// Returns the costs of an upload of some bytes.
    pub(super) fn upload_costs(&self, bytes: u64) -> StepCosts {
        let subject = self.lock().subject(Label::Named("upload".into()));
        StepCosts::transfer(subject, bytes)
    }

    /// Returns the costs of a step on inputs of these lengths.
    pub(super) fn costs(&self, step: &Step, lens: &[usize]) -> StepCosts {
        let info = StepInfo::from_step(step, lens);
        let (read, written) = (info.read, info.written);
        let operations = f64::from_bits(info.operations);
        StepCosts {
            subject: self.lock().subject(Label::Step(Arc::new(info))),
            read,
            written,
            operations,
        }
    }

    /// Returns a copy of the records and the time of the copy. Open spans end at this time.
    pub(super) fn snapshot(&self) -> (Data, u64) {
        let state = self.lock();
        let (mut data, now) = (state.data.clone(), self.now());
        drop(state);
        for span in &mut data.spans {
            if span.end == OPEN {
                span.end = now.max(span.start);
            }
        }
        data.arrays.settle(&data.subjects);
        (data, now)
    }
}

/// Returns the index of a parent in its stored form.
fn number(slot: Option<usize>) -> Option<u32> {
    slot.and_then(|slot| u32::try_from(slot).ok())
}

impl Open<'_> {
    pub(super) fn slot(&self) -> Option<usize> {
        self.slot
    }

    pub(super) fn succeeded(&mut self) {
        self.failed = false;
    }
}

impl Writing<'_> {
    /// Ends the span successfully. The array counts as live until the returned value is dropped.
    /// `memory` is the executor's memory use after the operation.
    pub(super) fn wrote(mut self, memory: Option<MemoryUse>) -> LiveBytes {
        self.end(Ended::Well, memory);
        LiveBytes::new(self.recorder, self.costs.subject, self.costs.written)
    }

    /// Ends the span. The span of a queued step has the name `queue`, because the device reports
    /// the time of the step itself later.
    fn end(&mut self, how: Ended, memory: Option<MemoryUse>) {
        self.is_over = true;
        let (recorder, costs, start) = (self.recorder, &self.costs, self.start);
        let end = recorder.now();
        let mut state = recorder.lock();
        let timed = if self.is_queued {
            StepCosts::transfer(state.subject(Label::Named("queue".into())), 0)
        } else {
            *costs
        };
        state.count(&timed, end - start, how == Ended::Failed);
        state.keep(|state| Recorded {
            subject: timed.subject,
            track: state.track_of_thread(recorder.id),
            parent: number(self.parent),
            wave: self.wave,
            start,
            end,
            state: how,
            args: None,
        });
        if how == Ended::Well {
            state.wrote(end, costs, memory);
        }
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.end(Ended::Failed, None);
        }
    }
}

impl PlanCosts {
    /// Returns `true` if this entry belongs to `plan`. The entry was found by the address of its
    /// list of steps. The entry keeps this list alive, so no other list can have the same address.
    /// The buffers are compared as well, because a plan with changed buffers shares the steps.
    fn is_of(&self, plan: &Plan) -> bool {
        Arc::ptr_eq(&self.plan.buffers, &plan.buffers)
    }
}

impl StepCosts {
    /// Returns the costs of a span that is not a step and transfers some bytes.
    pub(super) fn transfer(subject: u32, bytes: u64) -> Self {
        Self {
            subject,
            read: 0,
            written: bytes,
            operations: 0.0,
        }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let end = self.recorder.now();
        let mut state = self.recorder.lock();
        state.count(&self.costs, end - self.start, self.failed);
        if let Some(slot) = self.slot {
            let span = &mut state.data.spans[slot];
            span.end = end;
            span.state = if self.failed {
                Ended::Failed
            } else {
                Ended::Well
            };
        }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if self.0 {
            // Spans are entered and left in stack order, also during a panic.
            ENTERED.with_borrow_mut(Vec::pop);
        }
    }
}

impl Recording {
    /// Returns the number of a subject, which is added if it is new. Once there are
    /// [`MAX_SUBJECTS`], new subjects lose their details, so that they merge.
    fn subject(&mut self, what: Label) -> u32 {
        if let Some(&number) = self.subjects.get(&what) {
            return number;
        }
        let what = if self.data.subjects.len() < MAX_SUBJECTS {
            what
        } else {
            what.without_details()
        };
        let next = u32::try_from(self.data.subjects.len())
            .expect("subjects beyond `MAX_SUBJECTS` are merged, so they are far fewer than 2^32");
        let number = *self.subjects.entry(what.clone()).or_insert(next);
        if number == next {
            self.data.subjects.push(Subject {
                what,
                totals: Totals::default(),
                arrays: ArraysOf::default(),
            });
        }
        number
    }

    /// Returns the track of the current thread; cached in the thread for its last recorder.
    fn track_of_thread(&mut self, recorder: u64) -> u32 {
        let (last, track) = TRACK.get();
        if last == recorder {
            return track;
        }
        let thread = thread::current();
        let track = self.track(TrackId::Thread(thread.id()), || {
            match (thread.name(), rayon::current_thread_index()) {
                (Some(name), _) => name.into(),
                (None, Some(index)) => format!("pool thread {index}").into(),
                (None, None) => "thread".into(),
            }
        });
        TRACK.set((recorder, track));
        track
    }

    /// Returns the number of a track, which is added if it is new. Two threads of equal names have
    /// separate tracks.
    fn track(&mut self, place: TrackId, name: impl FnOnce() -> Arc<str>) -> u32 {
        if let Some(&number) = self.tracks.get(&place) {
            return number;
        }
        let tracks = &mut self.data.tracks;
        let number = u32::try_from(tracks.len()).unwrap_or(u32::MAX);
        let name = name();
        let taken = |name: &Arc<str>| tracks.contains(name);
        let mut unique = Arc::clone(&name);
        let mut count = 2;
        while taken(&unique) {
            unique = format!("{name} #{count}").into();
            count += 1;
        }
        tracks.push(unique);
        self.tracks.insert(place, number);
        number
    }

    /// Stores a span, or counts it as dropped if the limit is reached.
    fn keep(&mut self, span: impl FnOnce(&mut Self) -> Recorded) -> Option<usize> {
        let slot = self.data.spans.len();
        if slot >= MAX_SPANS {
            self.data.dropped_spans += 1;
            return None;
        }
        let span = span(self);
        self.data.spans.push(span);
        Some(slot)
    }

    /// Records an allocated array, and the executor's peak if it rose.
    fn wrote(&mut self, now: u64, costs: &StepCosts, memory: Option<MemoryUse>) {
        let data = &mut self.data;
        let arrays_of = &mut data.subjects[costs.subject as usize].arrays;
        data.arrays.allocated(now, arrays_of, costs.written);
        if let (Some(executor), Some(memory)) = (&mut data.executor, memory)
            && memory.peak_bytes > executor.peak
        {
            executor.peak = memory.peak_bytes;
            executor.subject = Some(costs.subject);
        }
    }

    /// Adds a call to the totals of its subject.
    fn count(&mut self, costs: &StepCosts, time: u64, failed: bool) {
        let totals = &mut self.data.subjects[costs.subject as usize].totals;
        // It is unknown how much of a failed call was completed, so its bytes and operations count
        // as 0.
        let done = |bytes: u64| if failed { 0 } else { bytes };
        totals.add(&Totals {
            calls: 1,
            failed: u64::from(failed),
            time,
            read: done(costs.read),
            written: done(costs.written),
            operations: if failed { 0.0 } else { costs.operations },
        });
    }
}
