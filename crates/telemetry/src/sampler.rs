//! Sampler: reads a source at fixed times on a separate thread.
//!
//! Method: round `k` is due `k` intervals after the start, regardless of the duration of earlier
//! rounds, so the schedule does not drift. Rounds that become due while another one runs are
//! skipped and counted. Rows are stored in bounded memory and passed to sinks, which are flushed at
//! least once a second. When memory is full, energies are computed without holding the lock
//! ([`Ledger`](crate::Ledger)), so regions of code and scrapers do not wait for the computation,
//! unless memory reaches twice its capacity in the meantime.
//! Limits: if a trace outgrows its [`Sampler::capacity`], memory keeps all of the newest rows but
//! thins older rows to one per interval. The interval is doubled whenever necessary
//! ([`Trace::interval`]). The energies of older rows are stored before thinning. Memory has room
//! for 4096 regions of code. Sinks receive all rows and all regions.

mod batch;
mod state;

use crate::failure::message;
use crate::format::Sink;
use crate::source::{Select, Source};
use crate::trace::{Region, Trace};
use crate::{Error, Failure, Result, Snapshot};
use state::{FLUSH, Sampling};
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The default interval: most GPUs update their sensors at this interval.
const INTERVAL: Duration = Duration::from_millis(100);
/// The default capacity, in rows of all devices together: 2.4 MiB.
const CAPACITY: usize = 1 << 14;

/// A source with the settings for sampling.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use telemetry::{Metric, Sampler, synthetic::{PowerProfile, Synthetic}};
///
/// // A model has its own clock, so that recording does not wait.
/// let source = Synthetic::from_power(PowerProfile::square(20.0, 60.0, 1.0, 0.5))?;
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

/// A running sampler.
///
/// Dropping the value stops the sampler like [`Self::stop`], and ends the sinks.
#[derive(Debug)]
pub struct Running {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// The result of a stopped sampler.
#[derive(Debug)]
pub struct SamplerResult {
    /// The trace in memory.
    pub trace: Trace,
    /// Failures during sampling; failures that ended sampling come first. A sink that failed
    /// receives no more rows, but other sinks do.
    pub failures: Vec<Failure>,
}

/// State that the sampler's thread shares with [`Running`].
struct Shared {
    start: Instant,
    sampling: Mutex<Sampling>,
    request: Mutex<Request>,
    requested: Condvar,
}

/// Requests to the sampler's thread.
#[derive(Default)]
struct Request {
    stop: bool,
    make_room: bool,
}

impl Sampler {
    /// The shortest interval, 100 µs: NVML calls take several microseconds each, which would fill a
    /// shorter interval.
    pub const MIN_INTERVAL: Duration = Duration::from_micros(100);

    /// Creates a sampler that reads all devices of a source every 100 ms.
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

    /// Sets the interval, at least [`Self::MIN_INTERVAL`].
    #[must_use]
    pub fn interval(self, interval: Duration) -> Self {
        Self { interval, ..self }
    }

    /// Selects the devices to sample (default: all).
    #[must_use]
    pub fn select(self, select: Select) -> Self {
        Self { select, ..self }
    }

    /// Sets the number of rows that memory holds, of all devices together (default: 16,384).
    ///
    /// The minimum is two rows per device. While the energies of a full memory are computed, memory
    /// may hold up to twice as many rows.
    #[must_use]
    pub fn capacity(self, rows: usize) -> Self {
        Self {
            capacity: rows,
            ..self
        }
    }

    /// Adds a sink, such as a file, that receives all rows.
    #[must_use]
    pub fn with_sink(mut self, sink: impl Sink + 'static) -> Self {
        self.sinks.push(Box::new(sink));
        self
    }

    /// Starts sampling on a separate thread.
    ///
    /// # Errors
    /// [`Error::ParameterInvalid`] if the interval is too short; [`Error::NoDevice`] if a selected
    /// name does not match exactly one device; [`Error::Thread`] if the system cannot create a
    /// thread.
    pub fn start(self) -> Result<Running> {
        let mut sampling = self.begin()?;
        let start = Instant::now();
        sampling.tick(Duration::ZERO, || start.elapsed());
        let interval = sampling.trace.interval;
        let shared = Arc::new(Shared {
            start,
            sampling: Mutex::new(sampling),
            request: Mutex::default(),
            requested: Condvar::new(),
        });
        let theirs = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("telemetry".to_owned())
            .spawn(move || theirs.guarded(|| theirs.sample(interval)))
            .map_err(|why| Error::Thread {
                operation: "Sampler",
                why,
            })?;
        Ok(Running {
            shared,
            thread: Some(thread),
        })
    }

    /// Samples a source that has its own clock, such as a model or a recorded trace, without
    /// waiting.
    ///
    /// # Errors
    /// The errors of [`Self::start`]; [`Error::Sampling`] if the source panicked or a sink failed.
    /// The sinks receive the rows until the failure, and are ended.
    pub fn record(self, duration: Duration) -> Result<Trace> {
        self.record_regions(duration, &[])
    }

    /// Samples like [`Self::record`], with regions of code whose times are known in advance.
    pub(crate) fn record_regions(self, duration: Duration, regions: &[Region]) -> Result<Trace> {
        let mut sampling = self.begin()?;
        let starts = regions.iter().map(|mark| (mark.start, None));
        let ends = regions.iter().map(|mark| (mark.end, Some(mark)));
        let mut edges: Vec<(Duration, Option<&Region>)> = starts.chain(ends).collect();
        edges.sort_by_key(|edge| edge.0);
        let mut edges = edges.into_iter().peekable();
        let interval = sampling.trace.interval;
        // Enter and leave each region between the rounds, at the time of its edge.
        let rounds = (0..).map(|round| due(round, interval));
        for now in rounds.take_while(|&now| now <= duration) {
            while let Some((time, left)) = edges.next_if(|edge| edge.0 <= now) {
                match left {
                    Some(mark) => sampling.leave(mark.clone(), || time),
                    None => drop(sampling.enter(|| time)),
                }
                sampling.make_room();
            }
            sampling.tick(now, || now);
            sampling.make_room();
            if sampling.is_over() {
                break;
            }
        }
        sampling.end();
        match sampling.failure() {
            Some(failure) => Err(Error::Sampling(failure)),
            None => Ok(sampling.trace),
        }
    }

    /// Checks the settings and creates the state of the trace.
    fn begin(self) -> Result<Sampling> {
        if self.interval < Self::MIN_INTERVAL {
            return Err(Error::ParameterInvalid {
                operation: "Sampler",
                parameter: "interval in s",
                value: self.interval.as_secs_f64(),
                must: "at least 0.0001",
            });
        }
        let selected = self.select.among(self.source.devices())?;
        Ok(Sampling::begin(
            self.source,
            selected,
            self.interval,
            self.capacity,
            self.sinks,
        ))
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

impl Shared {
    /// Runs the work of the sampler's thread, and converts a panic into a failure.
    fn guarded(&self, work: impl FnOnce()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
            let (time, why) = (self.start.elapsed(), message(panic));
            self.lock().fail(Failure::Sampler { time, why });
        }
    }

    /// Runs the rounds until a stop is requested.
    fn sample(&self, interval: Duration) {
        let (mut round, mut flushed) = (0_u64, Duration::ZERO);
        loop {
            let next = self.next_round(round, interval);
            let due = due(next, interval);
            // Flush between rounds too: rounds may be seconds apart, and the marks of regions that
            // end in between should reach the sinks.
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
            flushed = self
                .lock()
                .round(next - round, due, || self.start.elapsed());
            round = next;
            self.make_room();
        }
    }

    /// Returns the number of the next round that is not yet due, later than `round`. Late rounds
    /// are skipped, so that other threads can always lock the state between two rounds.
    fn next_round(&self, round: u64, interval: Duration) -> u64 {
        let passed = self.start.elapsed().as_nanos() / interval.as_nanos();
        u64::try_from(passed).unwrap_or(round).max(round) + 1
    }

    /// Waits until `due`, and returns true if a stop was requested. Requests to make room are
    /// handled while waiting.
    fn waits_until(&self, due: Duration) -> bool {
        let mut request = self.request();
        loop {
            if std::mem::take(&mut request.make_room) {
                drop(request);
                self.make_room();
                request = self.request();
            }
            let left = due.saturating_sub(self.start.elapsed());
            if request.stop || left.is_zero() {
                return request.stop;
            }
            let waited = self.requested.wait_timeout(request, left);
            request = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Frees a full memory. Energies are computed without holding the lock.
    fn make_room(&self) {
        let batch = self.lock().batch();
        if let Some((batch, ticket)) = batch {
            let ledger = batch.sum_up();
            self.lock().thin(ledger, ticket);
        }
    }

    /// Sends a request to the sampler's thread.
    fn send(&self, change: impl FnOnce(&mut Request)) {
        change(&mut self.request());
        self.requested.notify_all();
    }

    fn request(&self) -> MutexGuard<'_, Request> {
        self.request.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the state. Poisoning is ignored, because a panic leaves a usable trace.
    fn lock(&self) -> MutexGuard<'_, Sampling> {
        self.sampling.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    /// Returns the current time of the trace, since its start.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.shared.start.elapsed()
    }

    /// Calls `at` with the trace in memory so far, and returns its result.
    ///
    /// The sampler waits for `at`, so long work should be done on a copy of the trace. `at` must
    /// not use this `Running`, because that would deadlock.
    pub fn with_trace<R>(&self, at: impl FnOnce(&Trace) -> R) -> R {
        at(&self.shared.lock().trace)
    }

    /// Returns a trace with the newest row of each device only. This is cheap at any time.
    #[must_use]
    pub fn latest(&self) -> Trace {
        self.shared.lock().latest()
    }

    /// Returns the most important failure: one that ended sampling ([`Failure::ends_sampling`]), or
    /// else the first failure of a sink. Returns `None` if there was no failure.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        self.shared.lock().failure()
    }

    /// Returns all failures so far.
    pub(crate) fn failures(&self) -> Vec<Failure> {
        self.shared.lock().failures().to_vec()
    }

    /// Returns the newest rows with all failures so far, for an HTTP endpoint.
    ///
    /// The rows are those of [`Self::latest`] and, for each device whose newest row has no value,
    /// its newest row with a value.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let sampling = self.shared.lock();
        Snapshot {
            trace: sampling.latest_with_values(),
            failures: sampling.failures().to_vec(),
        }
    }

    /// Returns a copy of the trace's rows in a window, and of the rows around the window that its
    /// energy may depend on.
    pub(crate) fn excerpt(&self, window: &Range<Duration>) -> Trace {
        self.shared.lock().trace.excerpt(window)
    }

    /// Reads all devices before a region of code begins, in addition to the rounds. Returns the
    /// start of the region, its depth within its thread, and the number of the thread.
    pub(crate) fn enter(&self) -> (Duration, usize, usize) {
        let mut sampling = self.shared.lock();
        let entered = sampling.enter(|| self.now());
        self.release(sampling);
        entered
    }

    /// Reads all devices after a region of code has ended, and adds the region to the trace.
    pub(crate) fn leave(&self, mark: Region) {
        let mut sampling = self.shared.lock();
        sampling.leave(mark, || self.now());
        self.release(sampling);
    }

    /// Releases the lock, and requests the sampler's thread to make room if memory is full.
    fn release(&self, sampling: MutexGuard<'_, Sampling>) {
        let is_full = sampling.is_full();
        drop(sampling);
        if is_full {
            self.shared.send(|request| request.make_room = true);
        }
    }

    /// Stops sampling after a last reading, ends the sinks, and returns the trace with all
    /// failures.
    #[must_use]
    pub fn stop(mut self) -> SamplerResult {
        self.halt();
        let mut sampling = self.shared.lock();
        SamplerResult {
            trace: std::mem::take(&mut sampling.trace),
            failures: sampling.failures().to_vec(),
        }
    }

    /// Stops the thread, reads once more and ends the sinks; does nothing the second time.
    fn halt(&mut self) {
        self.shared.send(|request| request.stop = true);
        let Some(thread) = self.thread.take() else {
            return;
        };
        // A panic of the thread has already been recorded as a failure.
        let _ = thread.join();
        let mut sampling = self.shared.lock();
        sampling.read(true, || self.now());
        sampling.make_room();
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

/// Returns the time at which a round is due, at most 584 years (`u64::MAX` ns) after the start.
fn due(round: u64, interval: Duration) -> Duration {
    let interval = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(interval.saturating_mul(round))
}

#[cfg(test)]
mod tests;
