//! The decisions of the coordinator.
//!
//! Role: which worker receives which batch and when the job is over, without messages, so that
//! tests can play the workers.
//! Method: a worker holds one batch, or two if batches are short. After a failure no further batch
//! is sent; the job is over when all workers have reported.

use std::collections::VecDeque;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::journal::{self, Results};
use crate::queue::Queue;

use super::batch::{Order, Report};

/// The longest time of a batch for which a worker receives the next batch in advance. A worker
/// that runs longer would keep its second batch from a worker that becomes idle.
const SHORT_BATCH: Duration = Duration::from_millis(50);

/// The state of a job.
#[derive(Debug)]
pub(super) struct Dispatch {
    queue: Queue,
    results: Results,
    workers: Vec<Worker>,
    /// The number of workers that have not received their last order.
    n_working: usize,
    /// The first failure.
    failure: Option<Error>,
    /// Set after a batch that was not short.
    is_slow: bool,
}

#[derive(Clone, Debug, Default)]
struct Worker {
    /// The costs of the batches that the worker has not finished.
    batches: VecDeque<f64>,
    has_ended: bool,
}

impl Dispatch {
    pub(super) fn new(
        n_tasks: u64,
        cost: impl Fn(u64) -> f64,
        mut done: Results,
        n_workers: usize,
    ) -> Self {
        // A journal of the same job has no other tasks.
        done.retain(|&task, _| task < n_tasks);
        let open = (0..n_tasks).filter(|task| !done.contains_key(task));
        Self {
            queue: Queue::new(open.map(|task| (task, cost(task))), n_workers),
            results: done,
            workers: vec![Worker::default(); n_workers],
            n_working: n_workers,
            failure: None,
            // Until the first measurement a worker holds one batch.
            is_slow: true,
        }
    }

    /// Returns the number of results.
    pub(super) fn n_done(&self) -> usize {
        self.results.len()
    }

    /// Returns whether all workers have received their last order.
    pub(super) fn is_over(&self) -> bool {
        self.n_working == 0
    }

    /// Returns the tasks that no worker has received yet, in ascending order.
    pub(super) fn open_tasks(&self) -> Vec<u64> {
        let mut tasks: Vec<u64> = self.queue.tasks().collect();
        tasks.sort_unstable();
        tasks
    }

    /// Returns the orders that a worker can take: at the start, and after each of its reports. A
    /// worker without a batch receives one or, if none is left, its last order; so no worker waits
    /// for the report of another.
    pub(super) fn orders(&mut self, rank: usize) -> Vec<Order> {
        let n_batches = if self.is_slow { 1 } else { 2 };
        let worker = &mut self.workers[rank];
        let mut orders = vec![];
        while self.failure.is_none() && self.queue.len() > 0 && worker.batches.len() < n_batches {
            let (tasks, cost) = self.queue.take();
            worker.batches.push_back(cost);
            orders.push(Order::Run(tasks));
        }
        if worker.batches.is_empty() && !worker.has_ended {
            worker.has_ended = true;
            self.n_working -= 1;
            orders.push(Order::End);
        }
        orders
    }

    /// Takes a worker's report. `write` stores records in the journal.
    pub(super) fn take_report(
        &mut self,
        rank: usize,
        bytes: &[u8],
        write: impl FnOnce(&[u8]) -> Result<()>,
    ) {
        let report = Report::from_bytes(bytes);
        // After a failed write, later results would be lost with the journal's end.
        let is_written = match &self.failure {
            Some(Error::TaskFailed { .. }) | None => write(&report.records),
            Some(_) => Ok(()),
        };
        match is_written {
            Ok(()) => self.results.extend(journal::records(&report.records)),
            Err(error) => self.failure = Some(error),
        }
        if let Some(failure) = report.failure {
            self.failure.get_or_insert(Error::TaskFailed {
                task: failure.task,
                rank,
                message: failure.message,
            });
        }
        if report.is_last {
            self.finish(rank, report.elapsed);
        }
    }

    /// Notes that a worker has finished its oldest batch.
    pub(super) fn finish(&mut self, rank: usize, elapsed: Duration) {
        if let Some(cost) = self.workers[rank].batches.pop_front() {
            self.queue.learn(cost, elapsed);
            self.is_slow = elapsed > SHORT_BATCH;
        }
    }

    /// Returns the results of all tasks, or the first failure.
    pub(super) fn into_results(self) -> Result<Results> {
        self.failure.map_or(Ok(self.results), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::super::batch::Failure;
    use super::*;

    /// Runs an order as a worker would; a task in `fails` fails.
    fn report(order: &Order, fails: &[u64], elapsed: Duration) -> Report {
        let Order::Run(tasks) = order else {
            panic!("no work")
        };
        let mut report = Report {
            is_last: true,
            elapsed,
            ..Report::default()
        };
        for &task in tasks {
            if fails.contains(&task) {
                let message = "no".to_owned();
                report.failure = Some(Failure { task, message });
                break;
            }
            journal::add_record(&mut report.records, task, &task.to_le_bytes()).unwrap();
        }
        report
    }

    /// Plays all workers, which answer in the order of `turn`. Returns the outcome and the tasks
    /// that ran.
    fn play(
        dispatch: &mut Dispatch,
        fails: &[u64],
        elapsed: Duration,
        mut turn: impl FnMut(usize) -> usize,
    ) -> Vec<u64> {
        let (mut held, mut ran) = (vec![], vec![]);
        let mut order = |dispatch: &mut Dispatch, held: &mut Vec<(usize, Order)>, rank: usize| {
            for order in dispatch.orders(rank) {
                if let Order::Run(tasks) = &order {
                    ran.extend(tasks);
                    held.push((rank, order));
                }
            }
        };
        for rank in 0..dispatch.workers.len() {
            order(dispatch, &mut held, rank);
        }
        while !held.is_empty() {
            // A worker answers its oldest order.
            let rank = held[turn(held.len())].0;
            let place = held.iter().position(|(own, _)| *own == rank).unwrap();
            let (rank, oldest) = held.remove(place);
            let bytes = report(&oldest, fails, elapsed).to_bytes();
            dispatch.take_report(rank, &bytes, |_| Ok(()));
            order(dispatch, &mut held, rank);
        }
        assert!(dispatch.is_over());
        ran
    }

    #[test]
    fn every_task_runs_once_whatever_the_order_of_the_answers() {
        for (n_tasks, n_workers, elapsed) in [
            (0, 3, 1),
            (1, 3, 1),
            (100, 1, 1),
            (1000, 7, 1),
            (1000, 7, 1_000_000),
        ] {
            for stride in [0, 1, 5] {
                let done = Results::from([(2, vec![9])]);
                let mut dispatch = Dispatch::new(n_tasks, |task| task as f64, done, n_workers);
                let elapsed = Duration::from_micros(elapsed);
                let mut ran = play(&mut dispatch, &[], elapsed, |n| stride % n);
                ran.sort_unstable();
                let expected: Vec<u64> = (0..n_tasks).filter(|&task| task != 2).collect();
                assert_eq!(ran, expected);
                let results = dispatch.into_results().unwrap();
                assert!(results.keys().copied().eq(0..n_tasks));
                let is_old = |task| results.get(&task) == Some(&vec![9]);
                assert!(n_tasks < 3 || is_old(2));
            }
        }
    }

    #[test]
    fn after_a_failure_running_tasks_end_and_no_others_start() {
        let mut dispatch = Dispatch::new(1000, |_| 1.0, Results::new(), 4);
        let ran = play(&mut dispatch, &[40], Duration::from_millis(10), |_| 0);
        assert!(ran.contains(&40) && ran.len() < 60, "{ran:?}");
        assert_eq!(dispatch.n_done(), ran.len() - 1);
        let error = dispatch.into_results().unwrap_err();
        assert!(
            matches!(error, Error::TaskFailed { task: 40, .. }),
            "{error}"
        );
    }

    #[test]
    fn a_failed_write_ends_the_job_and_its_results_do_not_count() {
        let mut dispatch = Dispatch::new(10, |_| 1.0, Results::new(), 1);
        let orders = dispatch.orders(0);
        let bytes = report(&orders[0], &[], Duration::ZERO).to_bytes();
        let full = || Error::file("journal", "x")(std::io::ErrorKind::StorageFull.into());
        dispatch.take_report(0, &bytes, |_| Err(full()));
        assert_eq!(dispatch.orders(0), [Order::End]);
        assert_eq!(dispatch.n_done(), 0);
        assert!(dispatch.is_over());
        let error = dispatch.into_results().unwrap_err();
        assert!(matches!(error, Error::File { .. }), "{error}");
    }

    #[test]
    fn a_worker_holds_a_second_batch_only_while_batches_are_short() {
        let mut dispatch = Dispatch::new(100, |_| 1.0, Results::new(), 2);
        let first = [0, 1].map(|rank| dispatch.orders(rank).remove(0));
        let short = report(&first[0], &[], Duration::from_millis(10)).to_bytes();
        dispatch.take_report(0, &short, |_| Ok(()));
        assert_eq!(dispatch.orders(0).len(), 2);
        let long = report(&first[1], &[], Duration::from_secs(1)).to_bytes();
        dispatch.take_report(1, &long, |_| Ok(()));
        assert_eq!(dispatch.orders(1).len(), 1);
    }
}
