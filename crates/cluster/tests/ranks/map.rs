//! `map`: results, failures, journals.

use std::convert::Infallible;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use cluster::{Error, Job};

use crate::job::{on_ranks, panics_on_ranks, work_for};

/// Notes a run of a task in a file.
fn note(folder: &Path, task: usize) {
    let mut log = OpenOptions::new();
    let log = log.create(true).append(true).open(folder.join("log"));
    // One write, which other processes cannot divide.
    log.unwrap()
        .write_all(format!("{task}\n").as_bytes())
        .unwrap();
}

/// Returns the tasks that ran, sorted.
fn noted(folder: &Path) -> Vec<usize> {
    let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
    let mut tasks: Vec<usize> = log.lines().map(|line| line.parse().unwrap()).collect();
    tasks.sort_unstable();
    tasks
}

#[test]
fn results_are_in_order_and_every_task_runs_once() {
    let numbers = [1, 2, 3, 5];
    on_ranks(
        concat!(
            module_path!(),
            "::results_are_in_order_and_every_task_runs_once"
        ),
        &numbers,
        |cluster, folder| {
            for n_tasks in [0_usize, 1, 7, 3000] {
                // Tasks of a few microseconds, and some of a millisecond.
                let job = Job::new("cubes", n_tasks).with_cost(|task| task as f64);
                let mapped = cluster.map(&job, |task| {
                    if n_tasks == 3000 {
                        note(folder, task);
                    }
                    if task % 100 == 0 {
                        work_for(Duration::from_millis(1));
                    }
                    Ok::<_, Infallible>((task.pow(3), f64::NAN, format!("task {task}")))
                });
                let mapped = mapped.unwrap();
                assert_eq!(mapped.working.len(), cluster.n_ranks());
                if cluster.rank() > 0 {
                    assert!(mapped.results.is_empty());
                    continue;
                }
                assert_eq!(mapped.results.len(), n_tasks);
                for (task, (cube, nan, text)) in (0..).zip(&mapped.results) {
                    assert_eq!((*cube, text), (task * task * task, &format!("task {task}")));
                    assert!(nan.is_nan());
                }
            }
        },
        |folder| assert!(noted(folder).into_iter().eq(0..3000)),
    );
}

#[test]
fn a_failure_of_a_task_is_an_error_on_all_ranks() {
    on_ranks(
        concat!(
            module_path!(),
            "::a_failure_of_a_task_is_an_error_on_all_ranks"
        ),
        &[1, 3],
        |cluster, folder| {
            let journal = folder.join("journal");
            for panics in [false, true] {
                let job = Job::new("fails", 100).with_journal(&journal);
                let outcome = cluster.map(&job, |task| {
                    assert!(task != 60 || !panics, "task {task} breaks");
                    if task == 60 { Err("no luck") } else { Ok(task) }
                });
                let text = outcome.unwrap_err().to_string();
                let expected = if panics {
                    "panic: task 60 breaks"
                } else {
                    "no luck"
                };
                assert!(text.contains("task 60 failed on rank"), "{text}");
                assert!(text.ends_with(expected), "{text}");
            }
            // The other results are in the journal.
            let job = Job::new("fails", 100).with_journal(&journal);
            let mapped = cluster.map(&job, |task| {
                note(folder, task);
                Ok::<_, Infallible>(task)
            });
            let mapped = mapped.unwrap();
            if cluster.rank() == 0 {
                assert!(mapped.results.into_iter().eq(0..100));
                assert!(mapped.n_resumed > 0);
            }
        },
        |folder| {
            let ran = noted(folder);
            assert!(ran.contains(&60) && ran.len() < 100, "{ran:?}");
        },
    );
}

#[test]
fn ranks_with_different_jobs_and_unusable_journals_are_errors_on_all_ranks() {
    on_ranks(
        concat!(
            module_path!(),
            "::ranks_with_different_jobs_and_unusable_journals_are_errors_on_all_ranks"
        ),
        &[1, 2, 3],
        |cluster, folder| {
            let work = |task: usize| Ok::<_, Infallible>(task);
            let n_tasks = if cluster.rank() == 1 { 10 } else { 11 };
            let outcome = cluster.map(&Job::new("numbers", n_tasks), work);
            match outcome {
                Ok(_) => assert_eq!(cluster.n_ranks(), 1),
                Err(Error::RanksDiffer { rank: 1, .. }) => {}
                Err(error) => panic!("{error}"),
            }
            let other = folder.join("other");
            cluster
                .map(&Job::new("a", 3).with_journal(&other), work)
                .unwrap();
            fs::write(folder.join("text"), "a file of a user").unwrap();
            for (journal, problem) in [
                (&other, "belongs to another job"),
                (&folder.join("text"), "is not a journal"),
                (&folder.join("nowhere/journal"), "nowhere/journal"),
                (&"/dev/full".into(), "not a regular file"),
            ] {
                let job = Job::new("b", 3).with_journal(journal);
                let error = cluster.map(&job, work).unwrap_err();
                let text = error.to_string();
                assert!(text.contains(problem), "{text}");
                let is_elsewhere = matches!(error, Error::OnRank { rank: 0, .. });
                assert_eq!(is_elsewhere, cluster.rank() > 0, "{text}");
            }
            // A pipe, which nobody writes.
            let pipe = folder.join("pipe");
            if cluster.rank() == 0 {
                Command::new("mkfifo").arg(&pipe).output().unwrap();
            }
            let job = Job::new("b", 3).with_journal(&pipe);
            let text = cluster.map(&job, work).unwrap_err().to_string();
            assert!(text.contains("not a regular file"), "{text}");
            let error = cluster.map(&Job::new("b", usize::MAX), work).unwrap_err();
            assert!(matches!(error, Error::ParameterInvalid { .. }), "{error}");
            // Results of another type.
            let job = Job::new("a", 3).with_journal(&other);
            let outcome = cluster.map(&job, |_| Ok::<_, Infallible>("text".to_owned()));
            let text = outcome.unwrap_err().to_string();
            assert!(text.contains("the result of task"), "{text}");
        },
        |folder| assert_eq!(fs::read(folder.join("text")).unwrap(), b"a file of a user"),
    );
}

#[test]
fn a_panic_of_an_observer_ends_the_job() {
    let name = concat!(module_path!(), "::a_panic_of_an_observer_ends_the_job");
    panics_on_ranks(name, 2, "the observer breaks", |cluster| {
        let job = Job::new("observed", 100).with_observer(|_| panic!("the observer breaks"));
        let _ = cluster.map(&job, |task: usize| Ok::<_, Infallible>(task));
    });
}

#[test]
fn large_results_arrive_whole() {
    on_ranks(
        concat!(module_path!(), "::large_results_arrive_whole"),
        &[2],
        |cluster, _| {
            // Each result is larger than what a worker collects, and than MPI's eager messages.
            let job = Job::new("large", 12);
            let work = |task: usize| Ok::<_, Infallible>(vec![task; 300_000]);
            let mapped = cluster.map(&job, work).unwrap();
            for (task, result) in (0..).zip(&mapped.results) {
                assert!(result.len() == 300_000 && result.iter().all(|&number| number == task));
            }
        },
        |_| (),
    );
}
