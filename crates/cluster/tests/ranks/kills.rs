//! Deaths of ranks: a job continues from its journal, and loses and repeats nothing.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use cluster::{Job, Journal};
use tensor_core::rng::Philox;

use crate::job::{
    Folder, check, folder_of_job, on_ranks, panics_on_ranks, start, start_test, work_for,
};

const N_TASKS: usize = 400;

/// A result whose bits would differ if another task had been run.
fn result_of(task: usize) -> (u64, f64) {
    (task as u64, (task as f64).sqrt().sin())
}

/// Runs the job and, at its end, writes the results.
fn run(folder: &Path) {
    let cluster = start();
    fs::write(
        folder.join(format!("pid.{}", cluster.rank())),
        std::process::id().to_string(),
    )
    .unwrap();
    let job = Job::new("kills", N_TASKS).with_journal(folder.join("journal"));
    let mapped = cluster.map(&job, |task| {
        let mut log = OpenOptions::new();
        let log = log.create(true).append(true).open(folder.join("log"));
        // One write, which other processes cannot divide.
        log.unwrap()
            .write_all(format!("{task}\n").as_bytes())
            .unwrap();
        work_for(Duration::from_micros(500 + task as u64 * 7919 % 3000));
        Ok::<_, Infallible>(result_of(task))
    });
    let mapped = mapped.unwrap();
    if cluster.rank() == 0 {
        fs::write(folder.join("results"), format!("{:?}", mapped.results)).unwrap();
    }
}

/// Returns the length of the journal.
fn journal_len(folder: &Path) -> u64 {
    fs::metadata(folder.join("journal")).map_or(0, |file| file.len())
}

/// Returns how often each task has run.
fn runs(folder: &Path) -> HashMap<usize, usize> {
    let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
    let mut runs = HashMap::new();
    for line in log.lines() {
        *runs.entry(line.parse().unwrap()).or_default() += 1;
    }
    runs
}

#[test]
fn a_job_that_is_killed_at_random_moments_loses_and_repeats_nothing() {
    /// The number of kills in each run of the test, and with `verify --full`.
    const N_KILLS: [usize; 2] = [6, 100];
    /// Somewhat less than the results of all tasks.
    const LONGEST_GROWTH: u32 = 11_000;
    let name = concat!(
        module_path!(),
        "::a_job_that_is_killed_at_random_moments_loses_and_repeats_nothing"
    );
    if let Some(folder) = folder_of_job() {
        return run(&folder);
    }
    let is_full = std::env::var_os("VERIFY_FULL").is_some();
    let n_kills = N_KILLS[usize::from(is_full)];
    let random = Philox::new(20);
    let (mut n_killed, mut n_jobs, mut n_starts, mut word) = (0, 0, 0, 0);
    let mut draw = |n: u32| {
        word += 1;
        random.word(word) % n
    };
    while n_killed < n_kills {
        n_jobs += 1;
        let folder = Folder::new(name);
        // The results in the journal after the latest kill, and the runs so far.
        let (mut finished, mut before) = (Vec::<usize>::new(), HashMap::new());
        loop {
            n_starts += 1;
            assert!(
                n_starts < 10 * n_kills + 10,
                "too few of {n_starts} jobs were killed"
            );
            let n_ranks = 1 + draw(4) as usize;
            let mut job = start_test(n_ranks, name, &folder);
            let rank = draw(u32::try_from(n_ranks).unwrap());
            // The job is killed when its journal has grown to a random length.
            let len = journal_len(&folder.0) + u64::from(draw(LONGEST_GROWTH));
            while journal_len(&folder.0) < len && job.try_wait().unwrap().is_none() {
                thread::yield_now();
            }
            let pid = fs::read_to_string(folder.0.join(format!("pid.{rank}")));
            let is_over = job.try_wait().unwrap().is_some();
            let mut is_killed = false;
            if let (false, Ok(pid)) = (is_over, pid)
                && !pid.is_empty()
            {
                let killed = Command::new("kill").args(["-KILL", &pid]).output().unwrap();
                is_killed = killed.status.success();
            }
            let output = job.wait_with_output().unwrap();
            // A rank that has done its work can die without harm.
            n_killed += usize::from(is_killed && !output.status.success());
            for number in 0..4 {
                let _ = fs::remove_file(folder.0.join(format!("pid.{number}")));
            }
            // No task of the journal has run again.
            let now = runs(&folder.0);
            for task in &finished {
                assert_eq!(now.get(task), before.get(task), "task {task} ran again");
            }
            if output.status.success() || !is_killed {
                check(&output, n_ranks);
                break;
            }
            let identity = format!("kills; {N_TASKS} tasks");
            let journal = folder.0.join("journal");
            if journal.exists() {
                let (_journal, done) = Journal::open(journal, &identity).unwrap();
                // No result is lost.
                assert!(
                    finished
                        .iter()
                        .all(|task| done.contains_key(&(*task as u64)))
                );
                finished = done
                    .into_keys()
                    .map(|task| task.try_into().unwrap())
                    .collect();
            }
            before = now;
        }
        let results: Vec<_> = (0..N_TASKS).map(result_of).collect();
        let written = fs::read_to_string(folder.0.join("results")).unwrap();
        assert_eq!(written, format!("{results:?}"));
    }
    eprintln!("{n_killed} kills in {n_jobs} jobs");
}

#[test]
fn a_panic_of_one_rank_ends_the_job() {
    let name = concat!(module_path!(), "::a_panic_of_one_rank_ends_the_job");
    panics_on_ranks(name, 3, "this rank breaks", |cluster| {
        assert_ne!(cluster.rank(), 1, "this rank breaks");
        // The other ranks wait for rank 1.
        let _ = cluster.exchange("wait", &0_u8);
    });
}

#[test]
fn waiting_ranks_leave_the_cores_to_others() {
    on_ranks(
        concat!(module_path!(), "::waiting_ranks_leave_the_cores_to_others"),
        &[3],
        |cluster, _| {
            // Rank 0 works while the others wait.
            const BUSY: Duration = Duration::from_millis(600);
            if cluster.rank() == 0 {
                work_for(BUSY);
            }
            let before = cpu_time();
            cluster.exchange("wait", &0_u8).unwrap();
            let used = cpu_time() - before;
            assert!(used < BUSY / 4, "rank {} used {used:?}", cluster.rank());
        },
        |_| (),
    );
}

/// Returns the processor time of this process.
fn cpu_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    // Fields 14 and 15, counted from 1, in ticks of 10 ms; the name of the program, in parentheses,
    // can contain blanks.
    let fields = stat.rsplit_once(')').unwrap().1.split_whitespace();
    let ticks: u64 = fields
        .skip(11)
        .take(2)
        .map(|field| field.parse::<u64>().unwrap())
        .sum();
    Duration::from_millis(10 * ticks)
}
