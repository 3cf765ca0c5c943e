//! The loop over independent tasks on several threads.
//!
//! Role: the only place that hands work to other threads, except for large products, which the GEMM
//! library divides itself.
//! Method: the calling thread takes tasks, and so do helper threads. A calling thread that only
//! waits for a pool of workers leaves the choice of cores to the system, which often puts both
//! workers of a machine with two cores on one core, because the calling thread last ran on the
//! other: reversing the rows of a matrix of 1000×1000 took 0.08 or 0.2 ms. Each thread has a queue
//! of consecutive tasks and takes tasks of other queues when its own is empty. A thread has the
//! same place in each loop, so that it returns to the same memory: the sums of the rows of a matrix
//! of 4096×1000 take 0.21 ms on two threads, and 0.23 to 0.26 ms with one queue for both.
//! Threads: a worker of a rayon pool is helped by its pool. Any other thread is helped by a pool of
//! this module, which has one thread less than rayon's global pool, so that all of them together
//! are as many as the cores.
//! Limits: a loop within a task runs on the thread of the task alone. A loop may have to wait until
//! a helper ends its current task of another loop. As rayon does, the module panics if the system
//! has no thread for rayon's global pool.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use rayon::{Scope, ThreadPool, ThreadPoolBuilder};

use crate::error::{Error, Result};

/// The number of times that the calling thread checks whether the helpers have ended before it
/// sleeps: some tens of microseconds, as long as waking up takes.
const SPINS: usize = 2000;

/// The helpers of threads that belong to no rayon pool, or `None` if the system has no more
/// threads.
static HELPERS: LazyLock<Option<ThreadPool>> = LazyLock::new(|| {
    let n_helpers = rayon::current_num_threads().saturating_sub(1).max(1);
    let builder = ThreadPoolBuilder::new().num_threads(n_helpers);
    let builder = builder.thread_name(|number| format!("tensor-core helper {number}"));
    builder.build().ok()
});

/// The number of threads that have ended their own tasks and wait for their helpers.
static N_WAITING: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Whether this thread runs a task.
    static IN_TASK: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether the current thread runs a task, so that all threads have work.
pub(crate) fn is_in_task() -> bool {
    IN_TASK.get()
}

/// Calls `run` for each task, on several threads. Each thread creates a state by `state` and passes
/// the state to all of its tasks.
///
/// # Errors
/// The error of the first task, in the order of the iterator, that fails. Tasks after a failed task
/// are skipped if they have not begun.
pub(crate) fn for_each<T: Send, S>(
    mut tasks: impl Iterator<Item = T>,
    state: impl Fn() -> S + Sync,
    run: impl Fn(&mut S, T) -> Result<()> + Sync,
) -> Result<()> {
    let n_threads = match is_in_task() {
        true => 1,
        false => rayon::current_num_threads(),
    };
    if n_threads == 1 {
        let mut state = state();
        return tasks.try_for_each(|task| run(&mut state, task));
    }
    let tasks: Vec<T> = tasks.collect();
    let n_threads = n_threads.min(tasks.len());
    if n_threads <= 1 {
        let mut state = state();
        return tasks.into_iter().try_for_each(|task| run(&mut state, task));
    }
    let tasks: Vec<Mutex<Option<T>>> = tasks
        .into_iter()
        .map(|task| Mutex::new(Some(task)))
        .collect();
    share(tasks.len(), n_threads, &|numbers| {
        let mut state = state();
        while let Some(number) = numbers.next() {
            // The lock ends before the task begins. No other thread gets the number.
            let task = lock(&tasks[number]).take();
            if let Some(Err(error)) = task.map(|task| run(&mut state, task)) {
                numbers.fail(number, error);
            }
        }
    })
}

/// Divides the numbers of tasks among the calling thread and helpers. Each thread that gets a
/// number calls `work` with its numbers. Compiled once, and not for each type of tasks.
fn share(n_tasks: usize, n_threads: usize, work: &(dyn Fn(&mut Numbers<'_>) + Sync)) -> Result<()> {
    let queues = Queues::new(n_tasks, n_threads);
    // Runs tasks, first those of one queue, while there are any; `between` is called after each.
    let work = |queue: usize, between: &dyn Fn()| {
        let Some(first) = queues.next(queue) else {
            return;
        };
        let _in_task = InTask::new();
        let _cleared_by_a_panic = ClearedByPanic(&queues);
        work(&mut Numbers {
            queues: &queues,
            queue,
            first: Some(first),
            between,
        });
    };
    // Each thread of a pool begins with the same queue in each loop.
    let index = || rayon::current_thread_index();
    let is_in_pool = index().is_some();
    let n_helpers = n_threads - 1;
    let (n_begun, n_ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
    // A caller may wait for a helper that has not begun because its thread runs another loop. In a
    // user's pool, yielding would run the user's jobs within a task.
    let begin_others = || {
        if !is_in_pool && N_WAITING.load(Ordering::Relaxed) > 0 {
            rayon::yield_now();
        }
    };
    let help = || {
        n_begun.fetch_add(1, Ordering::Relaxed);
        let queue = index().unwrap_or_default() + usize::from(!is_in_pool);
        work(queue, &begin_others);
        n_ended.fetch_add(1, Ordering::Release);
    };
    let take_part = || {
        work(index().unwrap_or_default(), &|| ());
        // A worker of a pool runs the helpers that have not begun itself.
        if is_in_pool {
            return None;
        }
        let have_ended = |_| {
            std::hint::spin_loop();
            n_ended.load(Ordering::Acquire) == n_helpers
        };
        if !(0..SPINS).any(have_ended) && n_begun.load(Ordering::Relaxed) < n_helpers {
            return Some(Waiting::new());
        }
        None
    };
    // The pool of helpers has the size of the global pool, so only threads outside of pools may
    // create it.
    let helpers = if is_in_pool { None } else { HELPERS.as_ref() };
    let _waiting = match helpers {
        Some(pool) => pool.in_place_scope(|scope| with_helpers(scope, n_helpers, &help, take_part)),
        None => rayon::in_place_scope(|scope| with_helpers(scope, n_helpers, &help, take_part)),
    };
    queues.into_result()
}

/// Starts helpers and calls `take_part`.
fn with_helpers<'s, R>(
    scope: &Scope<'s>,
    n_helpers: usize,
    help: &'s (impl Fn() + Sync),
    take_part: impl FnOnce() -> R,
) -> R {
    for _ in 0..n_helpers {
        scope.spawn(|_| help());
    }
    take_part()
}

/// The numbers of the tasks that a thread runs.
struct Numbers<'q> {
    queues: &'q Queues,
    /// The queue of the thread.
    queue: usize,
    /// The first number, until it was returned.
    first: Option<usize>,
    /// Called between two tasks.
    between: &'q dyn Fn(),
}

impl Numbers<'_> {
    /// Returns the number of the next task; `None` if no tasks are left.
    fn next(&mut self) -> Option<usize> {
        self.first.take().or_else(|| {
            (self.between)();
            self.queues.next(self.queue)
        })
    }

    /// Reports that a task has failed.
    fn fail(&self, number: usize, error: Error) {
        self.queues.fail(number, error);
    }
}

/// The mark that the current thread runs a task, until it is dropped.
struct InTask(bool);

impl InTask {
    fn new() -> Self {
        Self(IN_TASK.replace(true))
    }
}

impl Drop for InTask {
    fn drop(&mut self) {
        IN_TASK.set(self.0);
    }
}

/// Empties the queues if the thread panics.
struct ClearedByPanic<'q>(&'q Queues);

impl Drop for ClearedByPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.clear();
        }
    }
}

/// The mark that a thread outside of pools waits for its helpers, until it is dropped.
struct Waiting;

impl Waiting {
    fn new() -> Self {
        N_WAITING.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        N_WAITING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The numbers of the tasks that no thread has taken, and the first task that failed.
struct Queues {
    /// Consecutive tasks for each thread.
    tasks: Vec<Mutex<VecDeque<usize>>>,
    failed: Mutex<Option<(usize, Error)>>,
}

impl Queues {
    /// Divides tasks into queues of nearly equal length.
    fn new(n_tasks: usize, n_queues: usize) -> Self {
        let start = |queue: usize| n_tasks * queue / n_queues;
        let queue = |queue| Mutex::new((start(queue)..start(queue + 1)).collect());
        Self {
            tasks: (0..n_queues).map(queue).collect(),
            failed: Mutex::new(None),
        }
    }

    /// Takes the next task of a queue or, if the queue is empty, the last task of another queue.
    /// Tasks after a failed task are left out.
    fn next(&self, queue: usize) -> Option<usize> {
        let n_queues = self.tasks.len();
        loop {
            let own = lock(&self.tasks[queue % n_queues]).pop_front();
            let others = || {
                let others = (queue + 1..queue + n_queues).map(|other| other % n_queues);
                others
                    .filter_map(|other| lock(&self.tasks[other]).pop_back())
                    .next()
            };
            let number = own.or_else(others)?;
            if lock(&self.failed)
                .as_ref()
                .is_none_or(|(failed, _)| number < *failed)
            {
                return Some(number);
            }
        }
    }

    /// Removes all tasks that no thread has taken.
    fn clear(&self) {
        self.tasks.iter().for_each(|tasks| lock(tasks).clear());
    }

    /// Stores the error of a task, unless an earlier task has failed. Since no task before a failed
    /// task is left out, the error at the end does not depend on the threads.
    fn fail(&self, number: usize, error: Error) {
        let mut failed = lock(&self.failed);
        if failed.as_ref().is_none_or(|(first, _)| number < *first) {
            *failed = Some((number, error));
        }
    }

    fn into_result(self) -> Result<()> {
        let failed = self.failed.into_inner();
        let failed = failed.unwrap_or_else(PoisonError::into_inner);
        failed.map_or(Ok(()), |(_, error)| Err(error))
    }
}

/// Locks a mutex. No code panics while it holds one of this module.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::thread;

    use super::*;

    fn error(number: usize) -> Error {
        Error::BadStep {
            what: number.to_string(),
        }
    }

    /// Runs `f` outside of any pool, and in pools of 1, 2, 3 and 8 threads.
    fn on_all_pools(f: impl Fn() + Sync) {
        f();
        for n_threads in [1, 2, 3, 8] {
            let pool = ThreadPoolBuilder::new().num_threads(n_threads);
            pool.build().unwrap().install(&f);
        }
    }

    #[test]
    fn each_task_runs_once() {
        on_all_pools(|| {
            for n_tasks in [0, 1, 2, 3, 100] {
                let mut runs = vec![0; n_tasks];
                let add = |(): &mut (), runs: &mut usize| {
                    *runs += 1;
                    Ok(())
                };
                for_each(runs.iter_mut(), || (), add).unwrap();
                assert_eq!(runs, vec![1; n_tasks]);
            }
        });
    }

    #[test]
    fn the_calling_thread_and_all_helpers_take_tasks_at_the_same_time() {
        for n_threads in [2, 3] {
            let pool = ThreadPoolBuilder::new().num_threads(n_threads);
            let run = || {
                // Helpers may leave for loops of other tests, so that not all threads meet in each
                // loop. Each task waits for the others a limited number of times.
                let all_meet = || {
                    let (ids, n_here) = (Mutex::new(HashSet::new()), AtomicUsize::new(0));
                    let meet = |(): &mut (), _| {
                        ids.lock().unwrap().insert(thread::current().id());
                        n_here.fetch_add(1, Ordering::Relaxed);
                        let is_alone = |_: &usize| n_here.load(Ordering::Relaxed) < n_threads;
                        (0..1000)
                            .take_while(is_alone)
                            .for_each(|_| thread::yield_now());
                        Ok(())
                    };
                    for_each(0..n_threads, || (), meet).unwrap();
                    let ids = ids.into_inner().unwrap();
                    ids.len() == n_threads && ids.contains(&thread::current().id())
                };
                assert!((0..1000).any(|_| all_meet()));
            };
            pool.build().unwrap().install(run);
        }
    }

    #[test]
    fn the_error_is_that_of_the_first_task_that_fails() {
        on_all_pools(|| {
            for first in [0, 1, 17, 99] {
                let fail = |(): &mut (), number| match number {
                    _ if number >= first => Err(error(number)),
                    _ => Ok(()),
                };
                let failed = for_each(0..100, || (), fail).unwrap_err();
                assert_eq!(failed.to_string(), error(first).to_string());
            }
        });
    }

    #[test]
    fn a_loop_within_a_task_runs_on_its_thread() {
        on_all_pools(|| {
            let outer = |(): &mut (), _| {
                let id = thread::current().id();
                let inner = |(): &mut (), _| {
                    assert_eq!(thread::current().id(), id);
                    Ok(())
                };
                for_each(0..10, || (), inner)
            };
            for_each(0..10, || (), outer).unwrap();
            assert!(!is_in_task());
        });
    }

    #[test]
    fn a_panic_of_a_task_reaches_the_caller() {
        on_all_pools(|| {
            let run = || {
                for_each(
                    0..100,
                    || (),
                    |(): &mut (), number| {
                        assert!(number != 50, "task 50");
                        Ok(())
                    },
                )
            };
            let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_err();
            assert_eq!(panic.downcast_ref::<&str>(), Some(&"task 50"));
            assert!(!is_in_task());
            each_task_runs_again();
        });
    }

    fn each_task_runs_again() {
        let sum = AtomicUsize::new(0);
        let add = |(): &mut (), number| {
            sum.fetch_add(number, Ordering::Relaxed);
            Ok(())
        };
        for_each(0..100, || (), add).unwrap();
        assert_eq!(sum.into_inner(), 4950);
    }

    #[test]
    fn loops_of_many_threads_end() {
        thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| (0..50).for_each(|_| each_task_runs_again()));
            }
        });
    }

    #[test]
    fn no_task_begins_after_a_panic_on_the_same_thread() {
        let pool = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        let n_runs = AtomicUsize::new(0);
        let run = || {
            let fail = |(): &mut (), _| {
                n_runs.fetch_add(1, Ordering::Relaxed);
                panic!("a task");
            };
            for_each(0..100, || (), fail)
        };
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| pool.install(run)));
        assert!(caught.is_err());
        // Each of both threads may have begun a task.
        assert!(n_runs.into_inner() <= 2);
    }

    #[test]
    fn threads_without_a_task_create_no_state() {
        on_all_pools(|| {
            let (n_states, n_tasks) = (AtomicUsize::new(0), 5);
            let state = || {
                n_states.fetch_add(1, Ordering::Relaxed);
                0
            };
            let n_used = AtomicUsize::new(0);
            let run = |n_own: &mut usize, _| {
                *n_own += 1;
                n_used.fetch_add(usize::from(*n_own == 1), Ordering::Relaxed);
                Ok(())
            };
            for_each(0..n_tasks, state, run).unwrap();
            assert_eq!(n_states.into_inner(), n_used.into_inner());
        });
    }
}
