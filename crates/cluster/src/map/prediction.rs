//! The time that a job would take on another number of ranks.
//!
//! Role: [`Mapped::predict`], from the measured times of a run.
//! Method: a simulation. The decisions are those of the coordinator itself (`dispatch`); workers
//! and messages are replaced by times. A task takes a time in proportion to its cost, such that all
//! tasks together take as long as they did. The coordinator handles one report at a time; a report
//! occupies the coordinator for the latency of a message and, for each result, for the average time
//! per result in the run. A message takes the latency and, by its size, the bandwidth of the
//! network.
//! Limits: the times of equal tasks are equal; the coordinator's time per result is that of this
//! machine; memory and caches that cores share are not considered.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::Duration;

use super::batch::Order;
use super::dispatch::Dispatch;
use super::{Job, Mapped, to_index};
use crate::journal::Results;
use crate::queue;

/// A machine for which a time is predicted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// The number of ranks.
    pub n_ranks: usize,
    /// The number of cores that the ranks share, each with one thread; at least `n_ranks` for ranks
    /// with a core of their own.
    pub n_cores: usize,
    /// The time of an empty message.
    pub latency: Duration,
    /// The bandwidth of messages, in bytes per second.
    pub bandwidth: f64,
}

/// The end of a batch: the arrival of its report at the coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Arrival {
    /// In nanoseconds from the start.
    time: u64,
    /// The order of events at the same time.
    number: u64,
    rank: usize,
    /// The time that the batch took, in nanoseconds.
    elapsed: u64,
    n_tasks: usize,
}

impl<R> Mapped<R> {
    /// Predicts how long the tasks that this run computed would take on another machine. Only rank
    /// 0 has the measurements.
    ///
    /// The ranks of this run need a core each; otherwise the measured times of tasks contain
    /// waits.
    ///
    /// A time beyond the range of a duration is [`Duration::MAX`], and so is the time on a machine
    /// without ranks.
    ///
    /// Cost: time in proportion to the number of tasks and to the number of ranks, and memory for
    /// each rank.
    #[must_use]
    pub fn predict(&self, job: &Job<'_>, machine: &Machine) -> Duration {
        if machine.n_ranks == 0 {
            return Duration::MAX;
        }
        let n_tasks = self.computed.len();
        // The simulation numbers the tasks that this run computed.
        let cost = |number: u64| {
            let task = self.computed.get(to_index(number)).copied().unwrap_or(0);
            queue::clamped((job.cost)(to_index(task)))
        };
        let total: f64 = (0..n_tasks as u64).map(cost).sum();
        let working: Duration = self.working.iter().sum();
        // More ranks than cores share the cores.
        let crowding = (machine.n_ranks as f64 / machine.n_cores.max(1) as f64).max(1.0);
        let of_cost = working.as_secs_f64() / total * crowding;
        let busy = self.elapsed.saturating_sub(self.coordinator_idle);
        let n = n_tasks.max(1) as f64;
        let transfer = self.report_bytes as f64 / n / machine.bandwidth;
        let of_result = busy.as_secs_f64() / n + transfer;
        let latency = machine.latency.as_secs_f64();

        let mut dispatch = Dispatch::new(n_tasks as u64, cost, Results::new(), machine.n_ranks);
        let mut arrivals = BinaryHeap::new();
        // When each worker has finished its batches.
        let mut free = HashMap::new();
        let (mut now, mut number) = (0.0_f64, 0);
        let mut ranks: Vec<usize> = (0..machine.n_ranks).collect();
        loop {
            for rank in ranks.drain(..) {
                for order in dispatch.orders(rank) {
                    let Order::Run(tasks) = order else { continue };
                    let elapsed = of_cost * tasks.iter().copied().map(cost).sum::<f64>();
                    let free = free.entry(rank).or_insert(0.0_f64);
                    *free = free.max(now + latency) + elapsed;
                    let arrival = *free + latency + transfer * tasks.len() as f64;
                    number += 1;
                    arrivals.push(Reverse(Arrival {
                        time: to_nanos(arrival),
                        number,
                        rank,
                        elapsed: to_nanos(elapsed),
                        n_tasks: tasks.len(),
                    }));
                }
            }
            let Some(Reverse(arrival)) = arrivals.pop() else {
                return Duration::try_from_secs_f64(now).unwrap_or(Duration::MAX);
            };
            let service = latency + of_result * arrival.n_tasks as f64;
            now = now.max(arrival.time as f64 / 1e9) + service;
            dispatch.finish(arrival.rank, Duration::from_nanos(arrival.elapsed));
            ranks.push(arrival.rank);
        }
    }
}

/// Converts seconds to whole nanoseconds.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float becomes the nearest time that fits"
)]
fn to_nanos(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of `n` equal tasks of a time.
    fn run(n: u64, task: Duration) -> Mapped<()> {
        let working = task * u32::try_from(n).unwrap();
        Mapped {
            elapsed: working + Duration::from_micros(5 * n),
            coordinator_idle: working,
            working: vec![working],
            report_bytes: 40 * n,
            computed: (0..n).collect(),
            ..Mapped::default()
        }
    }

    fn machine(n_ranks: usize, n_cores: usize) -> Machine {
        Machine {
            n_ranks,
            n_cores,
            latency: Duration::from_micros(2),
            bandwidth: 12e9,
        }
    }

    #[test]
    fn equal_tasks_take_whole_rounds() {
        let job = Job::new("", 1000);
        let run = run(1000, Duration::from_secs(1));
        for (n_ranks, rounds) in [
            (1, 1000.0),
            (8, 125.0),
            (7, 143.0),
            (1000, 1.0),
            (1024, 1.0),
        ] {
            let time = run.predict(&job, &machine(n_ranks, n_ranks)).as_secs_f64();
            assert!(
                (time - rounds).abs() < 0.01 * rounds,
                "{n_ranks} ranks: {time}"
            );
        }
        let shared = run.predict(&job, &machine(4, 2)).as_secs_f64();
        assert!((shared - 500.0).abs() < 5.0, "{shared}");
    }

    #[test]
    fn only_the_tasks_of_the_run_count_and_odd_machines_are_no_panic() {
        // The run computed the last ten tasks, each of which is a hundred times as long.
        let cost = |task| if task < 990 { 1.0 } else { 100.0 };
        let job = Job::new("", 1000).with_cost(cost);
        let resumed = Mapped {
            computed: (990..1000).collect(),
            ..run(10, Duration::from_secs(1))
        };
        let time = resumed.predict(&job, &machine(5, 5)).as_secs_f64();
        assert!((time - 2.0).abs() < 0.01, "{time}");
        let none = Mapped::<()>::default();
        assert_eq!(none.predict(&job, &machine(3, 0)), Duration::ZERO);
        let stuck = Machine {
            bandwidth: 0.0,
            ..machine(2, 2)
        };
        assert_eq!(resumed.predict(&job, &stuck), Duration::MAX);
        assert_eq!(resumed.predict(&job, &machine(0, 2)), Duration::MAX);
        let free = Job::new("", 10).with_cost(|_| f64::NAN);
        let time = run(10, Duration::from_secs(1)).predict(&free, &machine(2, 2));
        assert!((time.as_secs_f64() - 5.0).abs() < 0.01, "{time:?}");
    }

    #[test]
    fn the_coordinator_limits_short_tasks() {
        // The coordinator needs 5 µs for each result, so half a second for all of them.
        let job = Job::new("", 100_000);
        let run = run(100_000, Duration::from_micros(10));
        let time = run.predict(&job, &machine(1024, 1024)).as_secs_f64();
        assert!(time > 0.5 && time < 0.55, "{time}");
        let slow = Machine {
            bandwidth: 1e6,
            ..machine(1024, 1024)
        };
        // In addition 4 MB of results at 1 MB/s.
        let time = run.predict(&job, &slow).as_secs_f64();
        assert!(time > 4.5 && time < 4.6, "{time}");
    }
}
