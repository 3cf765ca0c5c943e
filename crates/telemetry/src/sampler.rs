//! Reads a source at fixed times, on a thread of its own.
//!
//! Method: round `k` is due at `k` times the interval after the start, whatever earlier rounds took, so nothing drifts; rounds
//! that fell due while another ran are left out and counted. Rows go into memory, which is bounded, and to sinks, which
//! write what they hold at least once a second.
//! Limits: of a trace that outgrows its [`Sampler::capacity`] every other round is given up, again and again; sinks get all rows.

use crate::format::Sink;
use crate::source::{Select, Source};
use crate::trace::{Mark, Overhead, Row, Trace};
use crate::{Error, Result};
use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The interval without another choice: the one at which most GPUs update their sensors.
const INTERVAL: Duration = Duration::from_millis(100);
/// The shortest interval: NVML calls of several microseconds would fill a shorter one.
const MIN_INTERVAL: Duration = Duration::from_micros(100);
/// Rows in memory without another choice: about 2 MiB.
const CAPACITY: usize = 1 << 14;
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
    failures: Vec<io::Error>,
    overhead: Overhead,
    capacity: usize,
    /// In memory is every so manieth round.
    stride: u64,
    flushed: Duration,
    is_ended: bool,
}

impl Sampler {
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

    /// Samples so often; at the shortest every 100 µs.
    #[must_use]
    pub fn interval(self, interval: Duration) -> Self {
        Self { interval, ..self }
    }

    /// Samples these devices only.
    #[must_use]
    pub fn select(self, select: Select) -> Self {
        Self { select, ..self }
    }

    /// Keeps at most so many rows in memory; at least two for each device.
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
            .map_err(|source| Error::File {
                path: "a thread".into(),
                source,
            })?;
        Ok(Running {
            shared,
            thread: Some(thread),
        })
    }

    /// Samples a source that knows what time it is told, such as a model or a recorded trace, without waiting.
    ///
    /// # Errors
    /// Those of [`Self::start`]; [`Error::Sink`] if a sink failed.
    pub fn record(self, duration: Duration) -> Result<Trace> {
        let mut sampling = self.begin()?;
        let interval = sampling.trace.interval;
        let times = (0..).map(|round| due(round, interval));
        for now in times.take_while(|&now| now <= duration) {
            sampling.tick(now, || now);
        }
        sampling.end();
        match sampling.failures.pop() {
            Some(failure) => Err(Error::Sink(failure)),
            None => Ok(sampling.trace),
        }
    }

    fn begin(self) -> Result<Sampling> {
        if self.interval < MIN_INTERVAL {
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
            devices: selected.iter().map(|&i| devices[i].clone()).collect(),
            ..Trace::default()
        };
        let mut sampling = Sampling {
            source: self.source,
            capacity: self.capacity.max(2 * selected.len()),
            selected,
            trace,
            sinks: self.sinks,
            failures: vec![],
            overhead: Overhead::default(),
            stride: 1,
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
        let keeps = self.overhead.ticks.is_multiple_of(self.stride);
        self.read(keeps, &clock);
        let now = clock();
        self.overhead.ticks += 1;
        self.overhead.wall = now;
        self.overhead.latest = self.overhead.latest.max(begun.saturating_sub(due));
        self.overhead.longest = self.overhead.longest.max(now - begun);
        self.trace.overhead = Some(self.overhead);
        if now - self.flushed >= FLUSH {
            self.flushed = now;
            self.tell(|sink, trace| sink.flush(trace));
        }
    }

    /// Reads every device, and keeps its row in memory or only sends it to the sinks.
    fn read(&mut self, keeps: bool, clock: impl Fn() -> Duration) {
        for device in 0..self.selected.len() {
            let time = clock();
            let reading = self.source.read(self.selected[device], time);
            for &(metric, fault) in &reading.faults {
                self.trace.count(device, metric, fault, time);
            }
            let row = Row {
                device,
                time,
                values: reading.values,
            };
            self.tell(|sink, trace| sink.row(trace, &row));
            if keeps {
                self.trace.rows.push(row);
            }
        }
        if self.trace.rows.len() > self.capacity {
            self.thin();
        }
    }

    /// Gives up every other row of each device.
    fn thin(&mut self) {
        self.stride *= 2;
        let mut seen = vec![0_usize; self.selected.len()];
        self.trace.rows.retain(|row| {
            seen[row.device] += 1;
            seen[row.device] % 2 == 1
        });
    }

    /// Tells all sinks; those that fail are given up.
    fn tell(&mut self, mut what: impl FnMut(&mut dyn Sink, &Trace) -> io::Result<()>) {
        let Self {
            sinks,
            trace,
            failures,
            ..
        } = self;
        sinks.retain_mut(|sink| match what(sink.as_mut(), trace) {
            Ok(()) => true,
            Err(failure) => {
                failures.push(failure);
                false
            }
        });
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
        let mut round = 0_u64;
        loop {
            let next = self.next_round(round, interval);
            let due = due(next, interval);
            if self.waits_until(due) {
                return;
            }
            let mut sampling = self.lock();
            sampling.overhead.missed += next - round - 1;
            sampling.overhead.cpu = thread_cpu_time();
            sampling.tick(due, || self.start.elapsed());
            round = next;
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

    /// A source that panicked in a reading left the trace as it was before: it may be used.
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

    /// Looks at what is in memory so far.
    pub fn look<R>(&self, at: impl FnOnce(&Trace) -> R) -> R {
        at(&self.shared.lock().trace)
    }

    /// Reads all devices now, beside the rounds, and gives the time.
    pub(crate) fn read_now(&self) -> Duration {
        let mut sampling = self.shared.lock();
        let now = self.now();
        sampling.read(true, || self.now());
        now
    }

    /// Begins a region of code, and gives its position.
    pub(crate) fn enter(&self, name: String, start: Duration) -> usize {
        let marks = &mut self.shared.lock().trace.marks;
        marks.push(Mark {
            name,
            start,
            end: None,
            depth: marks.iter().filter(|mark| mark.end.is_none()).count(),
        });
        marks.len() - 1
    }

    /// Ends a region of code.
    pub(crate) fn leave(&self, mark: usize, end: Duration) {
        let mut sampling = self.shared.lock();
        sampling.trace.marks[mark].end = Some(end);
        sampling.tell(|sink, trace| sink.mark(trace, &trace.marks[mark]));
    }

    /// Reads once more, ends the sinks, and gives the trace.
    #[must_use]
    pub fn stop(mut self) -> Stopped {
        self.halt();
        let mut sampling = self.shared.lock();
        Stopped {
            trace: std::mem::take(&mut sampling.trace),
            failures: std::mem::take(&mut sampling.failures),
        }
    }

    fn halt(&mut self) {
        *self
            .shared
            .stop
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.stopping.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported where it happened; what was sampled before is whole.
            let _ = thread.join();
            self.read_now();
            self.shared.lock().end();
        }
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
