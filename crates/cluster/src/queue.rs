//! The queue of tasks: which tasks a worker runs next.
//!
//! Role: the order and the size of batches, without messages.
//! Method: tasks in the order of falling cost, so that no large task is left for the end. A worker
//! receives a batch: as many tasks as take [`BATCH_TIME`], by the speed measured so far, but no
//! more than a share of the remaining cost, so that the last batches are small and all workers end
//! together (guided self-scheduling). Tasks of 10 ms thus travel one by one, and tasks of a
//! microsecond by the thousand.
//! Source: Polychronopoulos and Kuck 1987, "Guided self-scheduling: a practical scheduling scheme
//! for parallel supercomputers".

use std::time::Duration;

/// The time that a batch should take: long compared with the tens of microseconds of a message.
const BATCH_TIME: Duration = Duration::from_millis(5);

/// The largest number of tasks in a batch, which bounds the size of a message.
pub(crate) const MAX_BATCH: usize = 1024;

/// The number of batches per worker into which the remaining cost is divided at least.
const SHARE: f64 = 4.0;

/// The tasks that no worker has received yet.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Tasks and their costs, the cheapest first.
    tasks: Vec<(u64, f64)>,
    /// The sum of the costs of `tasks`.
    cost: f64,
    n_workers: f64,
    /// The time of a unit of cost, in seconds; `None` before the first measurement.
    speed: Option<f64>,
}

impl Queue {
    /// Creates a queue. A cost that is not a positive number counts as the smallest one.
    pub(crate) fn new(tasks: impl IntoIterator<Item = (u64, f64)>, n_workers: usize) -> Self {
        let tasks = tasks.into_iter();
        let mut tasks: Vec<_> = tasks.map(|(task, cost)| (task, clamped(cost))).collect();
        // Of equal tasks the first is last in the list, so that it is taken first.
        tasks.sort_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
        Self {
            cost: tasks.iter().map(|task| task.1).sum(),
            tasks,
            n_workers: n_workers.max(1) as f64,
            speed: None,
        }
    }

    /// Returns the number of tasks that no worker has received yet.
    pub(crate) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Returns the tasks that no worker has received yet, in no particular order.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = u64> {
        self.tasks.iter().map(|task| task.0)
    }

    /// Removes and returns the next batch, and its cost; an empty batch if no tasks are left.
    pub(crate) fn take(&mut self) -> (Vec<u64>, f64) {
        let fair = self.cost / (SHARE * self.n_workers);
        // Before the first measurement a batch is a single task.
        let fast = self
            .speed
            .map_or(0.0, |speed| BATCH_TIME.as_secs_f64() / speed);
        let limit = fair.min(fast);
        let (mut batch, mut cost) = (vec![], 0.0);
        while let Some(&(task, own)) = self.tasks.last() {
            let is_full = batch.len() >= MAX_BATCH || cost + own > limit;
            if is_full && !batch.is_empty() {
                break;
            }
            self.tasks.pop();
            batch.push(task);
            cost += own;
        }
        self.cost -= cost;
        (batch, cost)
    }

    /// Updates the measured speed by the time of a batch.
    pub(crate) fn learn(&mut self, cost: f64, elapsed: Duration) {
        /// The weight of the latest batch in the running mean.
        const WEIGHT: f64 = 0.25;
        let speed = (elapsed.as_secs_f64() / cost).max(f64::MIN_POSITIVE);
        if !speed.is_finite() {
            return;
        }
        self.speed = Some(match self.speed {
            Some(mean) => mean + WEIGHT * (speed - mean),
            None => speed,
        });
    }
}

/// Returns the cost that counts: that of a task without a positive cost is the smallest one.
pub(crate) fn clamped(cost: f64) -> f64 {
    if cost > 0.0 {
        // The sum of a billion costs is finite.
        cost.min(f64::MAX / 1e12)
    } else {
        f64::MIN_POSITIVE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_is_taken_once_and_the_largest_first() {
        let costs = [3.0, f64::NAN, 9.0, -1.0, 9.0, f64::INFINITY, 0.0, 4.0];
        let mut queue = Queue::new((0..).zip(costs), 2);
        let mut order = vec![];
        while queue.len() > 0 {
            let (batch, cost) = queue.take();
            assert!(!batch.is_empty() && cost > 0.0);
            queue.learn(cost, Duration::from_millis(1));
            order.extend(batch);
        }
        assert_eq!(order, [5, 2, 4, 7, 0, 1, 3, 6]);
        assert_eq!(queue.take().0, []);
    }

    #[test]
    fn short_tasks_travel_together_and_long_ones_alone() {
        let tasks = || (0..100_000).map(|task| (task, 1.0));
        let mut queue = Queue::new(tasks(), 3);
        assert_eq!(queue.take().0, [0]);
        queue.learn(1.0, Duration::from_millis(10));
        assert_eq!(queue.take().0, [1]);
        let mut queue = Queue::new(tasks(), 3);
        queue.learn(1.0, Duration::from_micros(5));
        let n_tasks = queue.take().0.len();
        assert!((999..=1000).contains(&n_tasks), "{n_tasks} tasks of 5 µs");
        queue.learn(1.0, Duration::ZERO);
        (0..100).for_each(|_| queue.learn(1.0, Duration::ZERO));
        assert_eq!(queue.take().0.len(), MAX_BATCH);
    }

    #[test]
    fn the_last_batches_are_small() {
        let mut queue = Queue::new((0..1000).map(|task| (task, 1.0)), 4);
        queue.learn(1.0, Duration::from_nanos(1));
        let mut sizes = vec![];
        while queue.len() > 0 {
            sizes.push(queue.take().0.len());
        }
        assert!(sizes[0] <= 1000 / 16 + 1, "{sizes:?}");
        assert!(sizes.is_sorted_by(|a, b| a >= b), "{sizes:?}");
        assert_eq!(sizes.last(), Some(&1), "{sizes:?}");
    }
}
