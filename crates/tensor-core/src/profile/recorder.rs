//! What a profiler knows, behind one lock.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Instant;

use super::data::{Data, Ended, ExecutorPeak, Recorded, StepInfo, Subject, Totals, What};
use super::memory::ArraysOf;
use super::tracked::Held;
use super::{Span, SpanId};
use crate::exec::MemoryUse;
use crate::plan::{Plan, Step};

/// How many spans are kept; each takes about 50 bytes.
pub(super) const MAX_SPANS: usize = 1 << 18;
/// How many different steps and names have a row of their own.
const MAX_SUBJECTS: usize = 1 << 12;
/// How many plans are remembered; beyond, all are forgotten and those that run again are looked at again.
const MAX_PLANS: usize = 1 << 8;
/// The end of a span that has none yet.
const OPEN: u64 = u64::MAX;

/// Gathers what happens.
#[derive(Debug)]
pub(super) struct Recorder {
    /// Tells recorders apart, also from those that are gone.
    id: u64,
    start: Instant,
    /// A run of a plan.
    run: Known,
    state: Mutex<State>,
    plans: Mutex<HashMap<usize, KnownPlan>>,
}

#[derive(Debug, Default)]
struct State {
    data: Data,
    subjects: HashMap<What, u32>,
    tracks: HashMap<Place, u32>,
}

/// What is known of a step before it runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    pub(super) subject: u32,
    pub(super) read: u64,
    pub(super) written: u64,
    pub(super) operations: f64,
}

#[derive(Debug)]
struct KnownPlan {
    plan: Plan,
    steps: Arc<[Known]>,
}

/// Where a span happened.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Place {
    Thread(ThreadId),
    Named(Arc<str>),
}

/// A span that may have parts, so it has its place before them; it ends when this goes, as failed unless it was told otherwise.
#[derive(Debug)]
pub(super) struct Open<'r> {
    recorder: &'r Recorder,
    /// `None` if no more spans are kept.
    slot: Option<usize>,
    start: u64,
    known: Known,
    failed: bool,
}

/// A span in which an array is written. It has no parts and is kept when it ends, so that a short step takes the lock once.
#[derive(Debug)]
pub(super) struct Writing<'r> {
    recorder: &'r Arc<Recorder>,
    known: Known,
    /// Whether its time is that of queueing it.
    is_queued: bool,
    wave: u32,
    parent: Option<usize>,
    start: u64,
    is_over: bool,
}

/// The span is the innermost of its thread until this goes.
#[derive(Debug)]
pub(super) struct Entered(bool);

thread_local! {
    /// The spans that this thread has open, each with its recorder.
    static ENTERED: RefCell<Vec<(u64, usize)>> = const { RefCell::new(Vec::new()) };
    /// The recorder that this thread met last, and its track there.
    static TRACK: Cell<(u64, u32)> = const { Cell::new((u64::MAX, 0)) };
}

impl Recorder {
    pub(super) fn new(memory: Option<MemoryUse>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut state = State::default();
        let run = state.subject(What::Named("run".into()));
        state.data.executor = memory.map(|before| ExecutorPeak {
            before,
            peak: before.peak_bytes,
            subject: None,
        });
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            start: Instant::now(),
            run: Known::transfer(run, 0),
            state: Mutex::new(state),
            plans: Mutex::default(),
        }
    }

    pub(super) fn clock_ns(&self, time: Instant) -> u64 {
        let since = time.saturating_duration_since(self.start);
        // The last value stands for spans that are open.
        u64::try_from(since.as_nanos()).map_or(OPEN - 1, |ns| ns.min(OPEN - 1))
    }

    fn now(&self) -> u64 {
        self.clock_ns(Instant::now())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that is done under the lock can leave it in an order that later readers could not bear.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The innermost span of this thread.
    pub(super) fn current(&self) -> Option<usize> {
        ENTERED.with_borrow(|entered| {
            let mut inner_first = entered.iter().rev();
            let found = inner_first.find(|(recorder, _)| *recorder == self.id);
            found.map(|(_, slot)| *slot)
        })
    }

    /// Makes a span the innermost of this thread; one that is not kept changes nothing.
    pub(super) fn enter(&self, slot: Option<usize>) -> Entered {
        if let Some(slot) = slot {
            ENTERED.with_borrow_mut(|entered| entered.push((self.id, slot)));
        }
        Entered(slot.is_some())
    }

    /// Begins a run of a plan.
    pub(super) fn open_run(&self, parent: Option<usize>) -> Open<'_> {
        self.open(&mut self.lock(), self.run, parent)
    }

    /// Begins a span by name, in which some bytes travel.
    pub(super) fn open_named(&self, name: &str, bytes: u64, parent: Option<usize>) -> Open<'_> {
        let mut state = self.lock();
        let subject = state.subject(What::Named(name.into()));
        self.open(&mut state, Known::transfer(subject, bytes), parent)
    }

    /// Takes the time last.
    fn open(&self, state: &mut State, known: Known, parent: Option<usize>) -> Open<'_> {
        let slot = state.keep(|state| Recorded {
            subject: known.subject,
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
            known,
            failed: true,
        }
    }

    /// Begins something that writes an array.
    pub(super) fn write(
        self: &Arc<Self>,
        known: Known,
        wave: usize,
        parent: Option<usize>,
    ) -> Writing<'_> {
        Writing {
            recorder: self,
            known,
            is_queued: false,
            wave: u32::try_from(wave).unwrap_or(u32::MAX),
            parent,
            start: self.now(),
            is_over: false,
        }
    }

    /// Begins to queue something that writes an array; when it runs is told by [`Self::ran`].
    pub(super) fn queue(
        self: &Arc<Self>,
        known: Known,
        wave: usize,
        parent: Option<usize>,
    ) -> Writing<'_> {
        let mut queueing = self.write(known, wave, parent);
        queueing.is_queued = true;
        queueing
    }

    /// A step ran on a device.
    pub(super) fn ran(
        &self,
        device: &str,
        known: &Known,
        wave: usize,
        parent: Option<usize>,
        [start, end]: [u64; 2],
    ) {
        let mut state = self.lock();
        let end = end.max(start).min(OPEN - 1);
        state.count(known, end - start.min(end), false);
        state.keep(|state| Recorded {
            subject: known.subject,
            track: state.track(Place::Named(device.into()), || device.into()),
            parent: number(parent),
            wave: u32::try_from(wave).unwrap_or(u32::MAX),
            start: start.min(end),
            end,
            state: Ended::Well,
            args: None,
        });
    }

    pub(super) fn record(&self, span: Span) -> Option<usize> {
        let mut state = self.lock();
        let subject = state.subject(What::Named(span.name));
        let end = span.end_ns.max(span.start_ns).min(OPEN - 1);
        let known = Known::transfer(subject, 0);
        state.count(&known, end - span.start_ns.min(end), false);
        let parent = span.parent.map(|SpanId(parent)| parent);
        state.keep(|state| Recorded {
            subject,
            track: state.track(Place::Named(Arc::clone(&span.track)), || span.track),
            parent: number(parent.filter(|&parent| parent < state.data.spans.len())),
            wave: 0,
            start: span.start_ns.min(end),
            end,
            state: Ended::Well,
            args: (!span.args.is_empty()).then(|| Box::new(span.args)),
        })
    }

    pub(super) fn released(&self, subject: u32, bytes: u64) {
        let now = self.now();
        let mut state = self.lock();
        let Data {
            arrays, subjects, ..
        } = &mut state.data;
        arrays.released(now, subjects, subject as usize, bytes);
    }

    pub(super) fn refused(&self) {
        self.lock().data.refused += 1;
    }

    /// What is known of the steps of a plan, which was checked.
    pub(super) fn known_steps(&self, plan: &Plan) -> Arc<[Known]> {
        let place = plan.steps.as_ptr().addr();
        let lock = || self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&place)
            && known.is_of(plan)
        {
            return Arc::clone(&known.steps);
        }
        let lens = |step: &Step| -> Vec<usize> {
            let buffers = step.inputs.iter();
            buffers.map(|input| plan.buffers[input.0].len()).collect()
        };
        let steps: Arc<[Known]> = plan
            .steps
            .iter()
            .map(|step| self.known(step, &lens(step)))
            .collect();
        let known = KnownPlan {
            plan: plan.clone(),
            steps: Arc::clone(&steps),
        };
        let mut plans = lock();
        if plans.len() >= MAX_PLANS {
            plans.clear();
        }
        plans.insert(place, known);
        steps
    }

    /// Bytes that the executor takes up.
    pub(super) fn known_upload(&self, bytes: u64) -> Known {
        let subject = self.lock().subject(What::Named("upload".into()));
        Known::transfer(subject, bytes)
    }

    /// What is known of a step on inputs of these lengths.
    pub(super) fn known(&self, step: &Step, lens: &[usize]) -> Known {
        let info = StepInfo::of(step, lens);
        let (read, written) = (info.read, info.written);
        let operations = f64::from_bits(info.operations);
        Known {
            subject: self.lock().subject(What::Step(Arc::new(info))),
            read,
            written,
            operations,
        }
    }

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

/// How a span names its parent.
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
    /// Ends with an array, which counts as alive until what is given back goes; `memory` is what the executor's came to.
    pub(super) fn wrote(mut self, memory: Option<MemoryUse>) -> Held {
        self.end(Ended::Well, memory);
        Held::new(self.recorder, self.known.subject, self.known.written)
    }

    fn end(&mut self, how: Ended, memory: Option<MemoryUse>) {
        self.is_over = true;
        let (recorder, known, start) = (self.recorder, &self.known, self.start);
        let end = recorder.now();
        let mut state = recorder.lock();
        let timed = if self.is_queued {
            Known::transfer(state.subject(What::Named("queue".into())), 0)
        } else {
            *known
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
            state.wrote(end, known, memory);
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

impl KnownPlan {
    /// Whether it is this one. The steps, by whose place it was found, are those that are held here; nothing else can take that
    /// place. Whoever changes buffers gets a copy of them.
    fn is_of(&self, plan: &Plan) -> bool {
        Arc::ptr_eq(&self.plan.buffers, &plan.buffers)
    }
}

impl Known {
    /// Something without steps, in which some bytes travel.
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
        state.count(&self.known, end - self.start, self.failed);
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
            // Spans are entered and left in the order of a stack, also when a panic passes through.
            ENTERED.with_borrow_mut(Vec::pop);
        }
    }
}

impl State {
    /// The number of a subject, which gets one if it is new.
    fn subject(&mut self, what: What) -> u32 {
        if let Some(&number) = self.subjects.get(&what) {
            return number;
        }
        let what = if self.data.subjects.len() < MAX_SUBJECTS {
            what
        } else {
            what.without_details()
        };
        let next = u32::try_from(self.data.subjects.len())
            .expect("there are few subjects beyond `MAX_SUBJECTS`: one for each line of a program");
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

    fn track_of_thread(&mut self, recorder: u64) -> u32 {
        let (last, track) = TRACK.get();
        if last == recorder {
            return track;
        }
        let thread = thread::current();
        let track = self.track(Place::Thread(thread.id()), || {
            match (thread.name(), rayon::current_thread_index()) {
                (Some(name), _) => name.into(),
                (None, Some(index)) => format!("pool thread {index}").into(),
                (None, None) => "thread".into(),
            }
        });
        TRACK.set((recorder, track));
        track
    }

    /// The number of a track. Two threads of one name have two tracks.
    fn track(&mut self, place: Place, name: impl FnOnce() -> Arc<str>) -> u32 {
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

    /// Counts an array, and looks how much the executor has come to.
    fn wrote(&mut self, now: u64, known: &Known, memory: Option<MemoryUse>) {
        let data = &mut self.data;
        let arrays_of = &mut data.subjects[known.subject as usize].arrays;
        data.arrays.allocated(now, arrays_of, known.written);
        if let (Some(executor), Some(memory)) = (&mut data.executor, memory)
            && memory.peak_bytes > executor.peak
        {
            executor.peak = memory.peak_bytes;
            executor.subject = Some(known.subject);
        }
    }

    fn count(&mut self, known: &Known, time: u64, failed: bool) {
        let totals = &mut self.data.subjects[known.subject as usize].totals;
        // Of what failed nobody knows how much was done.
        let done = |bytes: u64| if failed { 0 } else { bytes };
        totals.add(&Totals {
            calls: 1,
            failed: u64::from(failed),
            time,
            read: done(known.read),
            written: done(known.written),
            operations: if failed { 0.0 } else { known.operations },
        });
    }
}
