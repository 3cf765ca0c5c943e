//! Reads a source at fixed times, on a thread of its own.
//!
//! Method: round `k` is due at `k` times the interval after the start, whatever earlier rounds took, so nothing drifts; rounds
//! that fell due while another ran are left out and counted. Rows go into memory, which is bounded, and to sinks, which
//! write what they hold at least once a second.
//! Limits: of a trace that outgrows its [`Sampler::capacity`], memory keeps the newest rows whole, and of the past one
//! row in twice the time, again and again ([`Trace::interval`] of the past) with its energies ([`Ledger`]); it keeps
//! 4096 regions of code. Sinks get all rows and all regions.

use crate::failure::message;
use crate::format::Sink;
use crate::source::{Select, Source};
use crate::trace::{Mark, Overhead, Row, Trace};
use crate::{Error, Failure, Ledger, Result, Snapshot};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The interval without another choice: the one at which most GPUs update their sensors.
const INTERVAL: Duration = Duration::from_millis(100);
/// Rows in memory without another choice, of all devices: 2.4 MiB.
const CAPACITY: usize = 1 << 14;
/// Regions of code in memory.
const MAX_MARKS: usize = 1 << 12;
/// Threads with a number of their own; all later ones share the next number.
const MAX_THREADS: usize = 1 << 12;
/// The time after which sinks are flushed.
const FLUSH: Duration = Duration::from_millis(900);

/// How a source is to be sampled.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use telemetry::{Metric, Sampler, synthetic::{Program, Synthetic}};
///
/// // A model is sampled without waiting.
/// let source = Synthetic::of(Program::square(20.0, 60.0, 1.0, 0.5))?;
/// let trace = Sampler::new(source).record(Duration::from_secs(10))?;
/// assert_eq!(trace.series(0, Metric::PowerInstant).len(), 101);
/// # Ok::<(), telemetry::Error>(())
/// ```
pub struct Sampler {
    source: Box<dyn Source>,
    interval: Duration,
    select: Select,
    capacity: usize,
    sinks: Vec<Box<dyn Sink>>,
}

/// Sampling that goes on.
///
/// Dropped without [`Self::stop`], it stops all the same, and sinks get their ends.
#[derive(Debug)]
pub struct Running {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What sampling came to.
#[derive(Debug)]
pub struct Stopped {
    /// What is in memory.
    pub trace: Trace,
    /// What sinks failed of; such a sink was given up, and the others went on.
    pub failures: Vec<io::Error>,
    /// Whether the source panicked, so that the trace ends there.
    pub has_panicked: bool,
}

struct Shared {
    start: Instant,
    sampling: Mutex<Sampling>,
    /// Whether to stop.
    stop: Mutex<bool>,
    stopping: Condvar,
}

/// The state of a trace in the making.
struct Sampling {
    source: Box<dyn Source>,
    /// Indices of the trace's devices within the source.
    selected: Vec<usize>,
    trace: Trace,
    sinks: Vec<Box<dyn Sink>>,
    /// Errors of sinks, which the caller of `stop` gets.
    errors: Vec<io::Error>,
    /// The same, and the panic of the source, as they are reported meanwhile.
    failures: Vec<Failure>,
    has_panicked: bool,
    /// Time of the newest reading or flush.
    now: Duration,
    /// The interval that was requested.
    interval: Duration,
    /// Starts of open regions.
    open: Vec<Duration>,
    overhead: Overhead,
    /// The newest row of each device.
    newest: Vec<Option<Row>>,
    capacity: usize,
    /// Threads that entered regions: the number of each, and of its open regions.
    threads: HashMap<ThreadId, (usize, usize)>,
    flushed: Duration,
    is_ended: bool,
}

impl Sampler {
    /// The shortest interval: NVML calls of several microseconds would fill a shorter one.
    pub const MIN_INTERVAL: Duration = Duration::from_micros(100);

    /// Samples all devices of a source every 100 ms.
    #[must_use]
    pub fn new(source: impl Source + 'static) -> Self {
        Self {
            source: Box::new(source),
            interval: INTERVAL,
            select: Select::All,
            capacity: CAPACITY,
            sinks: vec![],
        }
    }

    /// Samples so often, at most every [`Self::MIN_INTERVAL`].
    #[must_use]
    pub fn interval(self, interval: Duration) -> Self {
        Self { interval, ..self }
    }

    /// Samples these devices only.
    #[must_use]
    pub fn select(self, select: Select) -> Self {
        Self { select, ..self }
    }

    /// Keeps at most so many rows in memory, of all devices together; at least two for each.
    #[must_use]
    pub fn capacity(self, rows: usize) -> Self {
        Self {
            capacity: rows,
            ..self
        }
    }

    /// Sends all rows to a sink as well, such as a file.
    #[must_use]
    pub fn to(mut self, sink: impl Sink + 'static) -> Self {
        self.sinks.push(Box::new(sink));
        self
    }

    /// Begins to sample, now and from now on.
    ///
    /// # Errors
    /// [`Error::ParameterInvalid`] if the interval is too short; [`Error::NoDevice`] if the selection is empty;
    /// [`Error::File`] if the system gives no thread.
    pub fn start(self) -> Result<Running> {
        let mut sampling = self.begin()?;
        let start = Instant::now();
        sampling.tick(Duration::ZERO, || start.elapsed());
        let interval = sampling.trace.interval;
        let shared = Arc::new(Shared {
            start,
            sampling: Mutex::new(sampling),
            stop: Mutex::new(false),
            stopping: Condvar::new(),
        });
        let theirs = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("telemetry".to_owned())
            .spawn(move || theirs.sample(interval))
            .map_err(|why| Error::File {
                path: "a thread".into(),
                why,
            })?;
        Ok(Running {
            shared,
            thread: Some(thread),
        })
    }

    /// Samples a source that knows what time it is told, such as a model or a recorded trace, without waiting.
    ///
    /// # Errors
    /// Those of [`Self::start`]; [`Error::Source`] if the source panicked; [`Error::Sink`] if a sink failed.
    pub fn record(self, duration: Duration) -> Result<Trace> {
        let mut sampling = self.begin()?;
        let interval = sampling.trace.interval;
        let times = (0..).map(|round| due(round, interval));
        for now in times.take_while(|&now| now <= duration) {
            sampling.tick(now, || now);
            if let Some(Failure::Source { why, .. }) = sampling.failure() {
                return Err(Error::Source(why));
            }
        }
        sampling.end();
        match sampling.errors.pop() {
            Some(error) => Err(Error::Sink(error)),
            None => Ok(sampling.trace),
        }
    }

    /// Does the same with regions of code whose times are known.
    #[cfg(test)]
    pub(crate) fn record_with(self, duration: Duration, regions: &[Mark]) -> Result<Trace> {
        let mut sampling = self.begin()?;
        let interval = sampling.trace.interval;
        let rounds = (0..).map(|round| due(round, interval));
        let mut last = None;
        for now in rounds.take_while(|&now| now <= duration) {
            let is_new = |time: &Duration| *time <= now && last.is_none_or(|last| *time > last);
            for region in regions.iter().filter(|region| is_new(&region.start)) {
                sampling.read(true, || region.start);
                sampling.open.push(region.start);
            }
            for region in regions.iter().filter(|region| is_new(&region.end)) {
                sampling.read(true, || region.end);
                sampling.left(region.clone());
            }
            sampling.tick(now, || now);
            last = Some(now);
        }
        Ok(sampling.trace)
    }

    fn begin(self) -> Result<Sampling> {
        if self.interval < Self::MIN_INTERVAL {
            return Err(Error::ParameterInvalid {
                operation: "Sampler",
                parameter: "interval in s",
                value: self.interval.as_secs_f64(),
                must: "at least 0.0001",
            });
        }
        let devices = self.source.devices();
        let selected = self.select.among(devices)?;
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        let nanoseconds = since_1970.map_or(0, |since| since.as_nanos());
        let trace = Trace {
            source: self.source.name().to_owned(),
            began_unix_ns: u64::try_from(nanoseconds).unwrap_or(u64::MAX),
            interval: self.interval,
            ledger: Ledger::default(),
            devices: selected.iter().map(|&i| devices[i].clone()).collect(),
            ..Trace::default()
        };
        let mut sampling = Sampling {
            source: self.source,
            capacity: self.capacity.max(2 * selected.len()),
            newest: vec![None; selected.len()],
            selected,
            trace,
            sinks: self.sinks,
            errors: vec![],
            failures: vec![],
            has_panicked: false,
            now: Duration::ZERO,
            interval: self.interval,
            open: vec![],
            overhead: Overhead::default(),
            threads: HashMap::new(),
            flushed: Duration::ZERO,
            is_ended: false,
        };
        sampling.tell(|sink, trace| sink.begin(trace));
        Ok(sampling)
    }
}

impl fmt::Debug for Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Sampler");
        shown.field("source", &self.source.name());
        shown.field("interval", &self.interval);
        shown.field("select", &self.select);
        shown.finish_non_exhaustive()
    }
}

impl Sampling {
    /// Reads every device once.
    fn tick(&mut self, due: Duration, clock: impl Fn() -> Duration) {
        let begun = clock();
        if self.has_panicked {
            // Regions of code still end, and their marks are written.
            return self.flush_when_due(begun);
        }
        self.read(false, &clock);
        let now = clock();
        self.overhead.ticks += 1;
        self.overhead.wall = now;
        self.overhead.latest = self.overhead.latest.max(begun.saturating_sub(due));
        self.overhead.longest = self.overhead.longest.max(now - begun);
        self.trace.overhead = Some(self.overhead);
        self.flush_when_due(now);
    }

    fn flush_when_due(&mut self, now: Duration) {
        // At the round that is nearest, so that no time between rounds is needed for it.
        let half = self.trace.interval.min(FLUSH) / 2;
        if now + half >= self.flushed + FLUSH {
            self.flush(now);
        }
    }

    /// Has the sinks write what they hold.
    fn flush(&mut self, now: Duration) {
        (self.flushed, self.now) = (now, now);
        self.tell(|sink, trace| sink.flush(trace));
    }

    /// Reads every device. Sinks get its row, and memory does if it is an `edge` of a region or the first of its time.
    ///
    /// A source that panicked is not read again, and its panic ends here: callers are in the midst of other work.
    fn read(&mut self, is_edge: bool, clock: impl Fn() -> Duration) {
        let slot = self.interval;
        for device in 0..self.selected.len() {
            if self.has_panicked {
                return;
            }
            let time = clock();
            self.now = time;
            let (source, selected) = (&mut self.source, self.selected[device]);
            let reading = match catch_unwind(AssertUnwindSafe(|| source.read(selected, time))) {
                Ok(reading) => reading,
                Err(panic) => {
                    self.has_panicked = true;
                    let why = message(panic.as_ref());
                    self.failures.insert(0, Failure::Source { time, why });
                    return;
                }
            };
            for &(metric, fault) in &reading.faults {
                self.trace.count(device, metric, fault, time);
            }
            let row = Row {
                device,
                time,
                values: reading.values,
            };
            self.tell(|sink, trace| sink.row(trace, &row));
            let last = self.newest[device].replace(row);
            if is_edge || last.is_none_or(|last| slot_of(last.time, slot) < slot_of(time, slot)) {
                self.trace.rows.push(row);
            }
        }
        if self.trace.rows.len() > self.capacity {
            self.thin();
        }
    }

    /// Makes room: sums the energies of the past up, and then keeps one row of each device in every interval of it; if
    /// that leaves much, in every other one from now on.
    fn thin(&mut self) {
        let before = self.trace.sum_up(&self.open, self.capacity);
        let before = before.unwrap_or(self.now);
        self.trace.is_whole_from(before);
        if self.keep_one_in(self.trace.interval, before) > self.capacity / 2 {
            self.trace.interval = self.trace.interval.saturating_mul(2);
            self.keep_one_in(self.trace.interval, before);
        }
        // A memory that is so small that the rows which should stay whole fill it.
        while self.trace.rows.len() > self.capacity {
            self.trace.is_whole_from(self.now);
            self.trace.interval = self.trace.interval.saturating_mul(2);
            self.keep_one_in(self.trace.interval, Duration::MAX);
        }
    }

    /// Keeps the first row of each device in every so long time before another, and returns the number of rows left.
    fn keep_one_in(&mut self, slot: Duration, before: Duration) -> usize {
        let mut last = vec![None; self.selected.len()];
        self.trace.rows.retain(|row| {
            if row.time >= before {
                return true;
            }
            let found = Some(slot_of(row.time, slot));
            last[row.device]
                .replace(found)
                .is_none_or(|last| last < found)
        });
        self.trace.rows.len()
    }

    /// Calls all sinks; removes those that return an error or panic.
    fn tell(&mut self, mut what: impl FnMut(&mut dyn Sink, &Trace) -> io::Result<()>) {
        let Self {
            sinks,
            trace,
            errors,
            failures,
            now,
            ..
        } = self;
        sinks.retain_mut(|sink| {
            let done = catch_unwind(AssertUnwindSafe(|| what(sink.as_mut(), trace)));
            let done = done.unwrap_or_else(|panic| {
                let why = message(panic.as_ref());
                Err(io::Error::other(format!("the sink panicked: {why}")))
            });
            let Err(error) = done else { return true };
            failures.push(Failure::of_sink(*now, &error));
            errors.push(error);
            false
        });
    }

    /// Returns the failure that matters most: that of the source, or else the first of a sink.
    fn failure(&self) -> Option<Failure> {
        self.failures.first().cloned()
    }

    /// Keeps a region that was left.
    fn left(&mut self, mark: Mark) {
        let open = &mut self.open;
        if let Some(place) = open.iter().position(|&start| start == mark.start) {
            open.swap_remove(place);
        }
        self.tell(|sink, trace| sink.mark(trace, &mark));
        let marks = &mut self.trace.marks;
        if marks.len() < MAX_MARKS {
            // Regions end in another order than they begin.
            let place = marks.partition_point(|earlier| earlier.start <= mark.start);
            marks.insert(place, mark);
        } else {
            self.trace.n_marks_left_out += 1;
        }
    }

    fn end(&mut self) {
        if !self.is_ended {
            self.is_ended = true;
            self.tell(|sink, trace| sink.end(trace));
        }
    }
}

impl Shared {
    /// The loop of the thread.
    fn sample(&self, interval: Duration) {
        let (mut round, mut flushed) = (0_u64, Duration::ZERO);
        loop {
            let next = self.next_round(round, interval);
            let due = due(next, interval);
            // Regions of code end between rounds, and rounds may be seconds apart.
            while flushed + FLUSH < due {
                if self.waits_until(flushed + FLUSH) {
                    return;
                }
                flushed = self.start.elapsed();
                self.lock().flush(flushed);
            }
            if self.waits_until(due) {
                return;
            }
            let mut sampling = self.lock();
            sampling.overhead.missed += next - round - 1;
            sampling.overhead.cpu = thread_cpu_time();
            sampling.tick(due, || self.start.elapsed());
            (round, flushed) = (next, sampling.flushed);
        }
    }

    /// Gives the first round after one that is still to come: what is late is left out, so there is always time between two
    /// rounds in which others get at the trace.
    fn next_round(&self, round: u64, interval: Duration) -> u64 {
        let passed = self.start.elapsed().as_nanos() / interval.as_nanos();
        u64::try_from(passed).unwrap_or(round).max(round) + 1
    }

    /// Waits, and says whether sampling is to stop.
    fn waits_until(&self, due: Duration) -> bool {
        let mut stop = self.stop.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let left = due.saturating_sub(self.start.elapsed());
            if *stop || left.is_zero() {
                return *stop;
            }
            let waited = self.stopping.wait_timeout(stop, left);
            stop = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// A thread that panicked while it held the lock left the trace as it was before: it may be used.
    fn lock(&self) -> MutexGuard<'_, Sampling> {
        self.sampling.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    /// Gives the time of the trace.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.shared.start.elapsed()
    }

    /// Looks at what is in memory so far. The sampler waits meanwhile, so what takes long is better done on a copy.
    ///
    /// `at` must not use this `Running`, which would wait for itself for ever.
    pub fn look<R>(&self, at: impl FnOnce(&Trace) -> R) -> R {
        at(&self.shared.lock().trace)
    }

    /// Gives the trace with the newest row of each device only, which costs little at any time.
    #[must_use]
    pub fn newest(&self) -> Trace {
        let sampling = self.shared.lock();
        let mut rows: Vec<Row> = sampling.newest.iter().copied().flatten().collect();
        rows.sort_by_key(|row| row.time);
        sampling.trace.with_rows(rows)
    }

    /// Returns the failure that matters most: of the source, which ends the trace, or else the first of a sink; none as
    /// long as everything works.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        self.shared.lock().failure()
    }

    /// Returns [`Self::newest`] with all failures so far, for an endpoint.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let trace = self.newest();
        let failures = self.shared.lock().failures.clone();
        Snapshot { trace, failures }
    }

    /// Gives a copy of a window of the trace, and of the time around it that its energy may depend on.
    pub(crate) fn excerpt(&self, window: &Range<Duration>) -> Trace {
        self.shared.lock().trace.excerpt(window)
    }

    /// Reads all devices before a region of code begins, next to the rounds, and returns its start, its depth within its
    /// thread and the number of the thread.
    pub(crate) fn enter(&self) -> (Duration, usize, usize) {
        let mut sampling = self.shared.lock();
        sampling.read(true, || self.now());
        let threads = &mut sampling.threads;
        let n_threads = threads.len();
        let (depth, number) = if n_threads < MAX_THREADS {
            let entry = threads.entry(thread::current().id());
            let (number, n_open) = entry.or_insert((n_threads, 0));
            *n_open += 1;
            (*n_open - 1, *number)
        } else {
            let known = threads.get_mut(&thread::current().id());
            known.map_or((0, MAX_THREADS), |(number, n_open)| {
                *n_open += 1;
                (*n_open - 1, *number)
            })
        };
        // The region begins once the lock is free, and that is now.
        let start = self.now();
        sampling.open.push(start);
        drop(sampling);
        (start, depth, number)
    }

    /// Reads all devices after a region of code that has ended, and keeps it.
    pub(crate) fn leave(&self, mark: Mark) {
        let mut sampling = self.shared.lock();
        sampling.read(true, || self.now());
        if let Some((_, n_open)) = sampling.threads.get_mut(&thread::current().id()) {
            *n_open = n_open.saturating_sub(1);
        }
        sampling.left(mark);
    }

    /// Reads once more, ends the sinks, and gives the trace.
    #[must_use]
    pub fn stop(mut self) -> Stopped {
        self.halt();
        let mut sampling = self.shared.lock();
        Stopped {
            trace: std::mem::take(&mut sampling.trace),
            failures: std::mem::take(&mut sampling.errors),
            has_panicked: sampling.has_panicked,
        }
    }

    fn halt(&mut self) {
        *self
            .shared
            .stop
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.stopping.notify_all();
        let Some(thread) = self.thread.take() else {
            return;
        };
        let has_panicked = thread.join().is_err();
        let mut sampling = self.shared.lock();
        sampling.has_panicked |= has_panicked;
        sampling.read(true, || self.now());
        sampling.end();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.halt();
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// Gives when a round is due, up to 584 years from the start.
fn due(round: u64, interval: Duration) -> Duration {
    let interval = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(interval.saturating_mul(round))
}

/// Gives the number of a stretch of time.
fn slot_of(time: Duration, slot: Duration) -> u128 {
    time.as_nanos() / slot.as_nanos().max(1)
}

/// Gives the time that this thread has spent on a processor.
fn thread_cpu_time() -> Option<Duration> {
    #[cfg(unix)]
    {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::try_from(time).ok()
    }
    #[cfg(not(unix))]
    {
        None
    }
}
