//! The soak command: repeats jobs for hours, checks their results, and watches their memory.
//!
//! Role: built and run by `cargo xtask soak`.
//! Method: each job runs in a child process, this program with the option `--job`, which prints
//! its outcome as JSON. A child ends when its standard input is closed, so that no child is left
//! when this program ends in any way.

use std::io::{self, Read as _};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, ensure};
use benches::soak::driver::{self, Outcome, Plan};
use benches::soak::jobs;
use benches::soak::record::{self, Entry, Origin, Record};
use commands::Soak;
use commands::clap::Parser as _;
use tool_io::{exit, output, signals, workspace_path};

/// Number of lines about the progress of a job.
const N_PROGRESS: f64 = 10.0;
/// Settings of the allocator of glibc for the process of a job. It shares memory between threads,
/// and returns large blocks and free memory at once, so that resident memory follows allocated
/// memory. With the default settings, fragmentation would look like a leak.
const ALLOCATOR: [(&str, &str); 3] = [
    ("MALLOC_ARENA_MAX", "1"),
    ("MALLOC_MMAP_THRESHOLD_", "131072"),
    ("MALLOC_TRIM_THRESHOLD_", "131072"),
];

fn main() -> ExitCode {
    let options = Soak::parse();
    soak(&options).unwrap_or_else(|error| {
        eprintln!("soak: {error:#}");
        ExitCode::from(exit::FAILURE)
    })
}

fn soak(options: &Soak) -> Result<ExitCode> {
    if let Some(name) = &options.job {
        return run_here(name, options);
    }
    let mut names: Vec<String> = jobs().into_iter().map(|job| job.name).collect();
    let mut patterns = options.only.iter();
    if let Some(pattern) = patterns.find(|only| !names.iter().any(|name| name.contains(*only))) {
        eprintln!(
            "soak: no job matches {pattern:?} (found: {})",
            names.join(", ")
        );
        return Ok(ExitCode::from(exit::USAGE));
    }
    let is_chosen = |name: &String| options.only.iter().any(|only| name.contains(only));
    names.retain(|name| options.only.is_empty() || is_chosen(name));
    if options.list {
        output::print(
            names
                .iter()
                .map(|name| format!("{name}\n"))
                .collect::<String>(),
        )?;
        return Ok(ExitCode::SUCCESS);
    }
    let path = workspace_path(record::PATH);
    if options.record {
        // Errors of the record should not wait until the end of the first job.
        Record::read(&path)?;
        tool_io::check_replaceable(&path)?;
    }
    // Outcomes are recorded as soon as they exist, so nothing is lost.
    signals::on_stop(|_| exit::at_once(exit::INTERRUPTED))?;
    let (origin, mut is_good) = (Origin::here(), true);
    run_all(&names, options, |outcome| {
        let entry = Entry::new(outcome, options.minutes, &origin);
        is_good &= entry.ok != Some(false);
        if options.record {
            let mut record = Record::read(&path)?;
            record.insert(entry.clone());
            record.write(&path)?;
        }
        if options.json {
            output::print_line(serde_json::to_string(&entry)?)?;
            return Ok(());
        }
        output::print_line(entry.line())?;
        for fault in &entry.outcome.faults {
            output::print_line(format_args!("  seed {}: {}", fault.seed, fault.text))?;
        }
        Ok(())
    })?;
    Ok(match is_good {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(exit::FAILURE),
    })
}

/// Runs jobs in child processes, as many at a time as the options say, and calls `finished` with
/// each outcome.
fn run_all(
    names: &[String],
    options: &Soak,
    mut finished: impl FnMut(Outcome) -> Result<()>,
) -> Result<()> {
    let seed = options.seed.unwrap_or_else(seed_of_time);
    let queue = Mutex::new(names.iter());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let (sender, outcomes) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..options.jobs {
            let sender = sender.clone();
            scope.spawn(move || {
                while let Some(name) = next() {
                    let outcome = run_child(name, options.minutes, seed)
                        .unwrap_or_else(|error| Outcome::failed(name, seed, &format!("{error:#}")));
                    if sender.send(outcome).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        outcomes.into_iter().try_for_each(&mut finished)
    })
}

/// Runs a job in a child process and returns its outcome.
fn run_child(name: &str, minutes: f64, seed: u64) -> Result<Outcome> {
    let program = std::env::current_exe().context("the program has no path")?;
    let mut child = Command::new(program)
        .args(["--job", name, "--minutes", &minutes.to_string()])
        .args(["--seed", &seed.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .envs(ALLOCATOR)
        .spawn()
        .context("cannot start the process of the job")?;
    // Open until the child has ended.
    let _open = child.stdin.take();
    let output = child
        .wait_with_output()
        .context("cannot wait for the process of the job")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success(),
        "the process ended with {}",
        output.status
    );
    serde_json::from_str(&text).with_context(|| format!("the process printed {text:?}"))
}

/// Runs a job in this process and prints its outcome.
fn run_here(name: &str, options: &Soak) -> Result<ExitCode> {
    thread::spawn(|| {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        exit::at_once(exit::INTERRUPTED);
    });
    let mut jobs = jobs().into_iter();
    let job = jobs.find(|job| job.name == name);
    let job = job.with_context(|| format!("no job has the name {name:?}"))?;
    let plan = Plan {
        time: Duration::from_secs_f64(60.0 * options.minutes),
        seed: options.seed.unwrap_or_else(seed_of_time),
    };
    let part_s = plan.time.as_secs_f64() / N_PROGRESS;
    let mut next_s = part_s;
    let outcome = driver::run(&job, plan, &mut |outcome| {
        if outcome.seconds >= next_s && part_s > 1.0 {
            next_s = outcome.seconds + part_s;
            let (minutes, faults) = (outcome.seconds / 60.0, outcome.n_faults);
            eprintln!(
                "{name}: {minutes:.1} min, {}, {faults} faults",
                outcome.counts
            );
        }
    });
    output::print_line(serde_json::to_string(&outcome)?)?;
    Ok(ExitCode::SUCCESS)
}

fn seed_of_time() -> u64 {
    let since_1970 = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    since_1970.as_secs()
}
