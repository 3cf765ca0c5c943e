//! The pool of helper threads, which exists once in a process. This file has a single test, because
//! the first loop of the process creates the pool.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use std::{fs, io};

use tensor_core::{Host, Tensor};

/// Returns the number of threads of this process that are helpers.
fn n_helpers() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    // A thread that has ended since the list was read has no name.
    let name = |task: io::Result<fs::DirEntry>| fs::read_to_string(task?.path().join("comm"));
    let names = tasks.filter_map(|task| name(task).ok());
    // The system keeps 15 characters of a name.
    names
        .filter(|name| name.starts_with("tensor-core hel"))
        .count()
}

#[test]
fn the_pool_of_the_first_loop_does_not_set_the_number_of_helpers() {
    let x = Tensor::from_vec(&[1 << 20], vec![0.5_f32; 1 << 20]);
    let run = || x.exp().eval::<f32>(&Host::new()).unwrap();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(5);
    pool.build().unwrap().install(run);
    assert_eq!(n_helpers(), 0);
    run();
    let n_threads = rayon::current_num_threads();
    let expected = n_threads.saturating_sub(1);
    assert_eq!(n_helpers(), expected);
}
