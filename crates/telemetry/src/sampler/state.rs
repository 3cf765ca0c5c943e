//! State of a trace during sampling: rounds, regions of code, sinks, failures and bounded memory.
//!
//! Role: shared by both ways of sampling. [`super::Running`] calls the methods while holding its
//! lock, with the real clock. [`super::Sampler::record`] calls them without a lock, with the due
//! times of the rounds as the clock.

use super::batch::RowBatch;
use crate::failure::message;
use crate::format::Sink;
use crate::source::Source;
use crate::trace::{Overhead, Region, Row, Trace};
use crate::{Failure, Ledger};
use std::collections::HashMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{self, ThreadId};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time between two flushes of the sinks.
pub(super) const FLUSH: Duration = Duration::from_millis(900);
/// Maximum number of regions of code in memory.
const MAX_MARKS: usize = 1 << 12;
/// Maximum number of threads with a separate number; all later threads share the next number.
const MAX_THREADS: usize = 1 << 12;
/// Maximum number of rows while energies are computed on another thread, as a multiple of the
/// capacity.
const MAX_EXCESS: usize = 2;

/// The state of memory when a [`RowBatch`] was created, used to detect an outdated batch.
#[derive(Clone, Copy)]
pub(super) struct Ticket {
    n_thinned: u64,
    n_rows: usize,
}

/// The state of a trace while it is sampled.
pub(super) struct Sampling {
    source: Box<dyn Source>,
    /// Indices of the trace's devices within the source.
    selected: Vec<usize>,
    pub(super) trace: Trace,
    sinks: Vec<Box<dyn Sink>>,
    /// Failures so far; failures that ended sampling come first.
    failures: Vec<Failure>,
    /// Time of the newest reading or flush.
    now: Duration,
    /// The requested interval.
    interval: Duration,
    /// Start times of open regions.
    open: Vec<Duration>,
    overhead: Overhead,
    /// The newest row of each device.
    newest: Vec<Option<Row>>,
    /// The newest row with a value of each device.
    newest_with_value: Vec<Option<Row>>,
    capacity: usize,
    /// Number of times that memory was thinned.
    n_thinned: u64,
    /// Threads that entered regions, each with its number and its count of open regions.
    threads: HashMap<ThreadId, (usize, usize)>,
    flushed: Duration,
    is_ended: bool,
}

impl Sampling {
    /// Creates the state of a new trace of the selected devices, and begins the sinks.
    pub(super) fn begin(
        source: Box<dyn Source>,
        selected: Vec<usize>,
        interval: Duration,
        capacity: usize,
        sinks: Vec<Box<dyn Sink>>,
    ) -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        let nanoseconds = since_1970.map_or(0, |since| since.as_nanos());
        let devices = source.devices();
        let trace = Trace {
            source: source.name().to_owned(),
            began_unix_ns: u64::try_from(nanoseconds).unwrap_or(u64::MAX),
            interval,
            devices: selected.iter().map(|&i| devices[i].clone()).collect(),
            ..Trace::default()
        };
        let mut sampling = Self {
            source,
            capacity: capacity.max(2 * selected.len()),
            newest: vec![None; selected.len()],
            newest_with_value: vec![None; selected.len()],
            selected,
            trace,
            sinks,
            failures: vec![],
            now: Duration::ZERO,
            interval,
            open: vec![],
            overhead: Overhead::default(),
            n_thinned: 0,
            threads: HashMap::new(),
            flushed: Duration::ZERO,
            is_ended: false,
        };
        sampling.each_sink(|sink, trace| sink.begin(trace));
        sampling
    }

    /// Runs one round: reads every device once, and returns the time of the last flush.
    ///
    /// `n_rounds` is the number of rounds that became due since the previous round. All but this
    /// one were missed.
    pub(super) fn round(
        &mut self,
        n_rounds: u64,
        due: Duration,
        clock: impl Fn() -> Duration,
    ) -> Duration {
        self.overhead.missed += n_rounds - 1;
        self.overhead.cpu = thread_cpu_time();
        self.tick(due, clock);
        self.flushed
    }

    /// Reads every device once and updates the statistics of overhead. `due` is the due time.
    pub(super) fn tick(&mut self, due: Duration, clock: impl Fn() -> Duration) {
        let begun = clock();
        if self.is_over() {
            // Sampling has ended, but marks of regions that end now still have to be written.
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

    /// Flushes the sinks if the time for a flush has come.
    fn flush_when_due(&mut self, now: Duration) {
        // Flush at the round nearest to the due time, so that no extra wake-up is needed.
        let half = self.interval.min(FLUSH) / 2;
        if now + half >= self.flushed + FLUSH {
            self.flush(now);
        }
    }

    /// Flushes the sinks and records the time.
    pub(super) fn flush(&mut self, now: Duration) {
        (self.flushed, self.now) = (now, now);
        self.each_sink(|sink, trace| sink.flush(trace));
    }

    /// Reads every device. Sinks receive every row. Memory stores a row at the edge of a region
    /// (`is_edge`), and otherwise at most once per interval.
    ///
    /// A panic of the source is caught, because callers may be regions of code in the middle of
    /// other work. The panic becomes a failure, and the source is not read again.
    pub(super) fn read(&mut self, is_edge: bool, clock: impl Fn() -> Duration) {
        let slot = self.interval;
        for device in 0..self.selected.len() {
            if self.is_over() {
                return;
            }
            let time = clock();
            self.now = time;
            let (source, selected) = (&mut self.source, self.selected[device]);
            let reading = match catch_unwind(AssertUnwindSafe(|| source.read(selected, time))) {
                Ok(reading) => reading,
                Err(panic) => {
                    let why = message(panic);
                    return self.fail(Failure::Source { time, why });
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
            self.each_sink(|sink, trace| sink.row(trace, &row));
            if row.has_value() {
                self.newest_with_value[device] = Some(row);
            }
            let last = self.newest[device].replace(row);
            if is_edge || last.is_none_or(|last| slot_of(last.time, slot) < slot_of(time, slot)) {
                self.trace.rows.push(row);
            }
        }
        if self.trace.rows.len() > self.capacity.saturating_mul(MAX_EXCESS) {
            self.make_room();
        }
    }

    /// Reads all devices before a region. Returns the start of the region, its depth within its
    /// thread, and the number of the thread.
    pub(super) fn enter(&mut self, clock: impl Fn() -> Duration) -> (Duration, usize, usize) {
        self.read(true, &clock);
        let n_threads = self.threads.len();
        let (depth, number) = if n_threads < MAX_THREADS {
            let entry = self.threads.entry(thread::current().id());
            let (number, n_open) = entry.or_insert((n_threads, 0));
            *n_open += 1;
            (*n_open - 1, *number)
        } else {
            let known = self.threads.get_mut(&thread::current().id());
            known.map_or((0, MAX_THREADS), |(number, n_open)| {
                *n_open += 1;
                (*n_open - 1, *number)
            })
        };
        // The region starts after the reading, so that its time does not include the reading.
        let start = clock();
        self.open.push(start);
        (start, depth, number)
    }

    /// Reads all devices after a region has ended, and adds the region to the trace.
    pub(super) fn leave(&mut self, mark: Region, clock: impl Fn() -> Duration) {
        self.read(true, clock);
        if let Some((_, n_open)) = self.threads.get_mut(&thread::current().id()) {
            *n_open = n_open.saturating_sub(1);
        }
        if let Some(place) = self.open.iter().position(|&start| start == mark.start) {
            self.open.swap_remove(place);
        }
        self.each_sink(|sink, trace| sink.mark(trace, &mark));
        let marks = &mut self.trace.regions;
        if marks.len() < MAX_MARKS {
            // Regions may end in a different order than they began; marks are sorted by start.
            let place = marks.partition_point(|earlier| earlier.start <= mark.start);
            marks.insert(place, mark);
        } else {
            self.trace.n_regions_left_out += 1;
        }
    }

    /// Ends the sinks, once.
    pub(super) fn end(&mut self) {
        if !self.is_ended {
            self.is_ended = true;
            self.each_sink(|sink, trace| sink.end(trace));
        }
    }

    /// Returns whether the number of rows in memory exceeds the capacity.
    pub(super) fn is_full(&self) -> bool {
        self.trace.rows.len() > self.capacity
    }

    /// Returns a copy of the rows whose energies must be computed before thinning, with the ticket
    /// for [`Self::thin`]. Returns `None` if memory has room.
    pub(super) fn batch(&self) -> Option<(RowBatch, Ticket)> {
        let ticket = Ticket {
            n_thinned: self.n_thinned,
            n_rows: self.trace.rows.len(),
        };
        let batch = || self.trace.batch(&self.open, self.capacity);
        self.is_full().then(|| (batch(), ticket))
    }

    /// Frees a full memory, computing the energies on the calling thread.
    ///
    /// A panic becomes a failure, because callers include regions of code and the end of sampling.
    pub(super) fn make_room(&mut self) {
        let Some((batch, ticket)) = self.batch() else {
            return;
        };
        match catch_unwind(AssertUnwindSafe(|| batch.sum_up())) {
            Ok(ledger) => self.thin(ledger, ticket),
            Err(panic) => {
                let (time, why) = (self.now, message(panic));
                self.fail(Failure::Sampler { time, why });
            }
        }
    }

    /// Frees memory: stores the ledger of a batch, and thins old rows to one per device and
    /// interval. If more than half of the capacity is still in use, doubles the interval and thins
    /// again. Computes no energy.
    ///
    /// An outdated batch, from before the last thinning, is dropped; its rows will be part of the
    /// next batch.
    pub(super) fn thin(&mut self, ledger: Ledger, ticket: Ticket) {
        if ticket.n_thinned != self.n_thinned {
            return;
        }
        self.n_thinned += 1;
        let n_newer = self.trace.rows.len() - ticket.n_rows;
        let before = ledger.complete_from();
        self.trace.ledger = ledger;
        if self.thin_to(self.trace.interval, before) > n_newer + self.capacity / 2 {
            self.trace.interval = self.trace.interval.saturating_mul(2);
            self.thin_to(self.trace.interval, before);
        }
        // The capacity is so small that the rows that should be kept fill it: thin all rows.
        while self.trace.rows.len() > n_newer + self.capacity {
            self.trace.ledger.thin_before(self.now);
            self.trace.interval = self.trace.interval.saturating_mul(2);
            self.thin_to(self.trace.interval, Duration::MAX);
        }
    }

    /// Thins the rows before a time to the first row of each device in every slot of time, and
    /// returns the number of remaining rows.
    fn thin_to(&mut self, slot: Duration, before: Duration) -> usize {
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

    /// Returns a trace with the newest row of each device only.
    pub(super) fn latest(&self) -> Trace {
        let mut rows: Vec<Row> = self.newest.iter().copied().flatten().collect();
        rows.sort_by_key(|row| row.time);
        self.trace.with_rows(rows)
    }

    /// Returns [`Self::latest`] with the newest row with a value of each device whose newest row
    /// has none.
    pub(super) fn latest_with_values(&self) -> Trace {
        let without = |newest: &Option<Row>| newest.is_some_and(|row| !row.has_value());
        let pairs = self.newest.iter().zip(&self.newest_with_value);
        let earlier = pairs.filter_map(|(newest, valued)| valued.filter(|_| without(newest)));
        let mut rows: Vec<Row> = earlier
            .chain(self.newest.iter().copied().flatten())
            .collect();
        rows.sort_by_key(|row| row.time);
        self.trace.with_rows(rows)
    }

    /// Adds a failure; a failure that ends sampling is inserted at the front.
    pub(super) fn fail(&mut self, failure: Failure) {
        let place = if failure.ends_sampling() {
            0
        } else {
            self.failures.len()
        };
        self.failures.insert(place, failure);
    }

    /// Returns the failures so far; failures that ended sampling come first.
    pub(super) fn failures(&self) -> &[Failure] {
        &self.failures
    }

    /// Returns the most important failure, or `None` if nothing failed.
    pub(super) fn failure(&self) -> Option<Failure> {
        self.failures.first().cloned()
    }

    /// Returns whether a failure ended sampling.
    pub(super) fn is_over(&self) -> bool {
        self.failures.first().is_some_and(Failure::ends_sampling)
    }

    /// Calls all sinks, and removes each sink that returns an error or panics.
    fn each_sink(&mut self, mut call: impl FnMut(&mut dyn Sink, &Trace) -> io::Result<()>) {
        let (trace, time) = (&self.trace, self.now);
        let failures = &mut self.failures;
        self.sinks.retain_mut(|sink| {
            // Formatting an error may run code of the sink and panic, so it is inside
            // `catch_unwind`.
            let done = catch_unwind(AssertUnwindSafe(|| {
                let done = call(sink.as_mut(), trace);
                done.map_err(|error| Failure::of_sink(time, &error))
            }));
            failures.push(match done {
                Ok(Ok(())) => return true,
                Ok(Err(failure)) => failure,
                Err(panic) => Failure::Sink {
                    time,
                    kind: io::ErrorKind::Other,
                    why: format!("the sink panicked: {}", message(panic)),
                },
            });
            false
        });
    }
}

/// Returns the number of the slot of time that contains `time`; slots are `slot` long.
fn slot_of(time: Duration, slot: Duration) -> u128 {
    time.as_nanos() / slot.as_nanos().max(1)
}

/// Returns the CPU time of this thread; `None` if the system does not report CPU time.
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
