//! Numbered tasks, distributed on demand, with results in a journal.
//!
//! Role: [`Cluster::map`]. This module has the loops of the ranks, `dispatch` the decisions of the
//! coordinator, and `batch` the messages.
//! Method: rank 0 coordinates on its main thread and works on a second thread, so that a job on
//! one rank works like all others. The queue forms batches, the largest tasks first. A worker with
//! a short batch receives the next batch in advance, so that it need not wait. Its results travel
//! as records of the journal; the coordinator appends them before it sends the next batch.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};
use crate::journal::{self, Journal, Results};
use crate::ranks::{Cluster, Idle, Traffic};

use batch::{Failure, Order, Report};
use dispatch::Dispatch;

pub use prediction::Machine;

mod batch;
mod dispatch;
mod prediction;

/// The tag of orders to workers.
const ORDER: mpi::Tag = 1;
/// The tag of reports to the coordinator.
const REPORT: mpi::Tag = 2;

/// The largest number of tasks: about a billion, whose list takes 16 GiB on rank 0.
pub const MAX_TASKS: usize = 1 << 30;

/// The size of results, in bytes, that a worker collects before it sends them.
const REPORT_BYTES: usize = 1 << 20;

/// A list of tasks.
#[allow(
    missing_debug_implementations,
    reason = "closures do not implement `Debug`"
)]
pub struct Job<'a> {
    description: String,
    n_tasks: usize,
    cost: Box<dyn Fn(usize) -> f64 + 'a>,
    journal: Option<PathBuf>,
    observe: Box<dyn Fn(Progress) + 'a>,
}

/// The progress of a job, on rank 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The number of tasks whose results are in the journal.
    pub n_done: usize,
    /// The number of all tasks.
    pub n_tasks: usize,
}

/// The results of a job, and the times of its ranks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mapped<R> {
    /// The results in the order of the tasks; empty on ranks other than 0.
    pub results: Vec<R>,
    /// The number of results that the journal contained before; 0 on ranks other than 0.
    pub n_resumed: usize,
    /// The time in which tasks were distributed and computed, until the last result was in the
    /// journal.
    pub elapsed: Duration,
    /// The messages of this rank in this time.
    pub traffic: Traffic,
    /// The time in which the coordinator had nothing to do; zero on ranks other than 0.
    pub coordinator_idle: Duration,
    /// The times in which the workers of all ranks ran tasks.
    pub working: Vec<Duration>,
    /// The bytes of all messages with results; 0 on ranks other than 0.
    pub report_bytes: u64,
    /// The tasks that this run computed, in ascending order; empty on ranks other than 0.
    pub computed: Vec<u64>,
}

/// The counters of the coordinator.
#[derive(Clone, Debug, Default)]
struct Coordinated {
    computed: Vec<u64>,
    idle: Duration,
    report_bytes: u64,
}

impl<'a> Job<'a> {
    /// Creates a job with the tasks 0 to `n_tasks - 1`, of equal cost. `description` names
    /// everything that the results depend on: a journal is continued by a job with the same
    /// description and number of tasks only.
    #[must_use]
    pub fn new(description: impl Into<String>, n_tasks: usize) -> Self {
        Self {
            description: description.into(),
            n_tasks,
            cost: Box::new(|_| 1.0),
            journal: None,
            observe: Box::new(|_| ()),
        }
    }

    /// Sets the costs of tasks, in any unit. Tasks are distributed in the order of falling cost.
    #[must_use]
    pub fn with_cost(self, cost: impl Fn(usize) -> f64 + 'a) -> Self {
        Self {
            cost: Box::new(cost),
            ..self
        }
    }

    /// Sets the journal, a file that only rank 0 opens. Without a journal, an interrupted job
    /// starts again.
    #[must_use]
    pub fn with_journal(self, path: impl Into<PathBuf>) -> Self {
        Self {
            journal: Some(path.into()),
            ..self
        }
    }

    /// Sets a function that rank 0 calls after each report of a worker.
    #[must_use]
    pub fn with_observer(self, observe: impl Fn(Progress) + 'a) -> Self {
        Self {
            observe: Box::new(observe),
            ..self
        }
    }

    fn identity(&self) -> String {
        format!("{}; {} tasks", self.description, self.n_tasks)
    }
}

impl Cluster {
    /// Runs the tasks of a job on all ranks, and returns the results on rank 0. All ranks call the
    /// function with the same job; the cost, the journal and the observer count on rank 0 only.
    ///
    /// `work` is called on each rank for the tasks that the rank receives, one at a time; on rank 0
    /// on another thread than the caller's. The compiler rejects a `work` that uses the cluster.
    ///
    /// A result that is in the journal is not computed again, neither by this call nor after the
    /// death of any process, whatever the number of ranks. Results stay in the memory of rank 0
    /// until the end.
    ///
    /// Cost: a task of 10 ms or more is a message of its own; shorter tasks share messages, and so
    /// do the writes of the journal.
    ///
    /// # Errors
    /// On all ranks, after all running tasks have ended and their results are in the journal.
    /// [`Error::RanksDiffer`] if the ranks have different jobs; [`Error::ParameterInvalid`] for
    /// more than [`MAX_TASKS`] tasks. On rank 0, and as [`Error::OnRank`] with the same message on
    /// the others: [`Error::TaskFailed`] for an error or a panic of `work`, or for a result beyond
    /// [`MAX_RESULT_BYTES`](crate::MAX_RESULT_BYTES); errors of [`Journal::open`] and
    /// [`Journal::append`]; [`Error::Encoding`] if a result of the journal is no `R`.
    ///
    /// # Examples
    /// Squares, on any number of ranks:
    /// ```no_run
    /// use cluster::{Cluster, Job};
    ///
    /// let cluster = Cluster::start()?;
    /// let job = Job::new("squares", 1000).with_journal("squares.journal");
    /// let mapped = cluster.map(&job, |task| Ok::<_, std::convert::Infallible>(task * task))?;
    /// if cluster.rank() == 0 {
    ///     assert_eq!(mapped.results[999], 998_001);
    /// }
    /// # Ok::<(), cluster::Error>(())
    /// ```
    pub fn map<R, E>(
        &self,
        job: &Job<'_>,
        work: impl Fn(usize) -> Result<R, E> + Sync,
    ) -> Result<Mapped<R>>
    where
        R: Serialize + DeserializeOwned,
        E: std::fmt::Display,
    {
        self.check_same("map", "job", &job.identity())?;
        if job.n_tasks > MAX_TASKS {
            return Err(Error::ParameterInvalid {
                operation: "map",
                parameter: "number of tasks",
                actual: job.n_tasks.to_string(),
                must: format!("at most {MAX_TASKS}"),
            });
        }
        let run = |task| {
            // The form `#` adds the causes, if the error has any.
            let result = work(to_index(task)).map_err(|error| format!("{error:#}"))?;
            postcard::to_allocvec(&result).map_err(|error| error.to_string())
        };
        let opened = match (self.rank(), &job.journal) {
            (0, Some(path)) => {
                let opened = Journal::open(path, &job.identity());
                opened.and_then(|(journal, results)| {
                    // Results of another type are an error now, not after the last task.
                    decoded::<R>(&results)?;
                    Ok((Some(journal), results))
                })
            }
            _ => Ok((None, Results::new())),
        };
        let (mut journal, done) = self.agree("map", opened)?;
        let (from, before) = (Instant::now(), self.traffic());
        let (working, outcome) = if self.rank() == 0 {
            let (working, coordinated) = self.coordinate(job, &mut journal, done, &run);
            let outcome = coordinated.and_then(|(results, coordinated)| {
                if let Some(journal) = &mut journal {
                    journal.sync()?;
                }
                let elapsed = from.elapsed();
                debug_assert!(results.keys().copied().eq(0..job.n_tasks as u64));
                Ok((decoded(&results)?, coordinated, elapsed))
            });
            (working, outcome)
        } else {
            let mut link = self;
            let working = serve(&mut link, &run);
            (
                working,
                Ok((vec![], Coordinated::default(), from.elapsed())),
            )
        };
        let traffic = self.traffic() - before;
        let (results, coordinated, elapsed) = self.agree("map", outcome)?;
        let n_resumed = results.len() - coordinated.computed.len();
        Ok(Mapped {
            results,
            n_resumed,
            elapsed,
            traffic,
            coordinator_idle: coordinated.idle,
            report_bytes: coordinated.report_bytes,
            computed: coordinated.computed,
            working: self.exchange("map", &working)?,
        })
    }

    /// Distributes tasks until all have results. Returns the time in which this rank's worker ran
    /// tasks, and the results with the coordinator's counters.
    fn coordinate(
        &self,
        job: &Job<'_>,
        journal: &mut Option<Journal>,
        done: Results,
        run: &(impl Fn(u64) -> Result<Vec<u8>, String> + Sync),
    ) -> (Duration, Result<(Results, Coordinated)>) {
        let cost = |task| (job.cost)(to_index(task));
        let mut dispatch = Dispatch::new(job.n_tasks as u64, cost, done, self.n_ranks());
        thread::scope(|scope| {
            // If the observer panics, the channel ends, and so does the worker.
            let (orders, own_orders) = channel();
            let (own_reports, reports) = channel();
            let worker = scope.spawn(move || {
                let mut link = (own_orders, own_reports);
                serve(&mut link, run)
            });
            let mut coordinated = Coordinated {
                computed: dispatch.open_tasks(),
                ..Coordinated::default()
            };
            let mut idle = Idle::new();
            for rank in 0..self.n_ranks() {
                self.send_orders(&mut dispatch, rank, &orders);
            }
            while !dispatch.is_over() {
                let Some((rank, bytes)) =
                    self.next_report(&reports, idle.next(), &mut coordinated.idle)
                else {
                    continue;
                };
                idle = Idle::new();
                coordinated.report_bytes += bytes.len() as u64;
                dispatch.take_report(rank, &bytes, |records| match journal {
                    Some(journal) => journal.append_records(records),
                    None => Ok(()),
                });
                self.send_orders(&mut dispatch, rank, &orders);
                (job.observe)(Progress {
                    n_done: dispatch.n_done(),
                    n_tasks: job.n_tasks,
                });
            }
            let working = worker
                .join()
                .expect("panics of tasks are caught by the worker");
            let outcome = dispatch.into_results();
            (working, outcome.map(|results| (results, coordinated)))
        })
    }

    /// Sends a worker the orders that it can take.
    fn send_orders(&self, dispatch: &mut Dispatch, rank: usize, own: &Sender<Vec<u8>>) {
        for order in dispatch.orders(rank) {
            let bytes = order.to_bytes();
            if rank == 0 {
                // The worker ends only after its last order.
                let _ = own.send(bytes);
            } else {
                self.post(rank, ORDER, &bytes);
            }
        }
    }

    /// Waits up to `limit` for a report of any worker.
    fn next_report(
        &self,
        own: &Receiver<Vec<u8>>,
        limit: Duration,
        idle_time: &mut Duration,
    ) -> Option<(usize, Vec<u8>)> {
        if let Some(received) = self.try_receive(REPORT) {
            return Some(received);
        }
        let from = Instant::now();
        let report = own.recv_timeout(limit);
        if limit.is_zero() && report.is_err() {
            thread::yield_now();
        }
        *idle_time += from.elapsed();
        report.ok().map(|bytes| (0, bytes))
    }
}

/// Converts a task number to `usize`; task numbers are below the number of tasks, which is a
/// `usize`.
fn to_index(task: u64) -> usize {
    usize::try_from(task).unwrap_or(usize::MAX)
}

/// The connection of a worker to the coordinator.
trait Link {
    /// Waits for the next order; `None` if the coordinator has ended.
    fn next_order(&mut self) -> Option<Vec<u8>>;

    fn report(&mut self, bytes: Vec<u8>);
}

impl Link for &Cluster {
    fn next_order(&mut self) -> Option<Vec<u8>> {
        Some(self.receive(ORDER).1)
    }

    fn report(&mut self, bytes: Vec<u8>) {
        self.send(0, REPORT, &bytes);
    }
}

impl Link for (Receiver<Vec<u8>>, Sender<Vec<u8>>) {
    fn next_order(&mut self) -> Option<Vec<u8>> {
        self.0.recv().ok()
    }

    fn report(&mut self, bytes: Vec<u8>) {
        // Fails only if the coordinator panicked, and then the result does not matter.
        let _ = self.1.send(bytes);
    }
}

/// Runs tasks until the last order. Returns the time in which tasks ran.
fn serve(link: &mut impl Link, run: &impl Fn(u64) -> Result<Vec<u8>, String>) -> Duration {
    let mut working = Duration::ZERO;
    while let Some(bytes) = link.next_order() {
        let Order::Run(tasks) = Order::from_bytes(&bytes) else {
            break;
        };
        let from = Instant::now();
        let mut report = Report::default();
        for task in tasks {
            if let Err(message) = add_result(&mut report, task, run) {
                report.failure = Some(Failure { task, message });
                break;
            }
            if report.records.len() >= REPORT_BYTES {
                link.report(report.to_bytes());
                report = Report::default();
            }
        }
        report.is_last = true;
        report.elapsed = from.elapsed();
        working += report.elapsed;
        link.report(report.to_bytes());
    }
    working
}

/// Runs a task and adds the record of its result to a report.
fn add_result(
    report: &mut Report,
    task: u64,
    run: &impl Fn(u64) -> Result<Vec<u8>, String>,
) -> Result<(), String> {
    let outcome = catch_unwind(AssertUnwindSafe(|| run(task)));
    let result = outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Err(format!("panic: {}", text.unwrap_or_default()))
    })?;
    journal::add_record(&mut report.records, task, &result).map_err(|error| error.to_string())
}

/// Returns results in the order of their tasks.
fn decoded<R: DeserializeOwned>(results: &Results) -> Result<Vec<R>> {
    let results = results.iter().map(|(task, bytes)| {
        let fault = |problem: String| Error::Encoding {
            operation: "map",
            value: format!("the result of task {task}"),
            problem,
        };
        match postcard::take_from_bytes(bytes) {
            Ok((result, [])) => Ok(result),
            Ok((_, rest)) => Err(fault(format!("{} bytes too many", rest.len()))),
            Err(error) => Err(fault(error.to_string())),
        }
    });
    results.collect()
}
