//! The soak command: repeats jobs for hours, checks their results, and watches their memory.
//!
//! Role: built and run by `cargo xtask soak`.
//! Method: each job runs in a child process, this program with the option `--job`, which prints
//! its outcome as JSON. A child ends when its standard input is closed, so that no child is left
//! when this program ends in any way.

use std::env;
use std::io::{self, Read as _};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
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
/// Time before the first reading of the memory. A run that is not longer has no verdict on its
/// memory.
const START: Duration = Duration::from_secs(60);
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
        output::note(format_args!("soak: {error:#}"));
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
        output::note(format_args!(
            "soak: no job matches {pattern:?} (found: {})",
            names.join(", ")
        ));
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
        print(&entry, options.json)?;
        if options.record {
            let mut record = Record::read(&path)?;
            record.insert(entry);
            record.write(&path)?;
        }
        Ok(())
    })?;
    Ok(match is_good {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(exit::FAILURE),
    })
}

/// Prints an entry.
fn print(entry: &Entry, as_json: bool) -> Result<()> {
    if as_json {
        output::print_line(serde_json::to_string(entry)?)?;
        return Ok(());
    }
    output::print_line(entry.line())?;
    for fault in &entry.outcome.faults {
        output::print_line(format_args!("  seed {}: {}", fault.seed, fault.text))?;
    }
    Ok(())
}

/// Runs jobs in child processes, as many at a time as the options say, and calls `finished` with
/// each outcome.
///
/// # Errors
/// A job that cannot be started, and an error of `finished`. Running jobs end with this process.
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
        for _ in 0..usize::from(options.jobs).min(names.len()) {
            let sender = sender.clone();
            scope.spawn(move || {
                while let Some(name) = next() {
                    let outcome = start_child(name, options.minutes, seed).map(|child| {
                        outcome_of(child).unwrap_or_else(|error| {
                            Outcome::failed(name, seed, &format!("{error:#}"))
                        })
                    });
                    if sender.send(outcome).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let mut outcomes = outcomes.into_iter();
        if let Err(error) = outcomes.try_for_each(|outcome| finished(outcome?)) {
            // The scope would wait for the other jobs, which may take an hour.
            output::note(format_args!("soak: {error:#}"));
            exit::at_once(exit::FAILURE);
        }
    });
    Ok(())
}

/// Starts the process of a job.
fn start_child(name: &str, minutes: f64, seed: u64) -> Result<Child> {
    /// The running program, also after its file was replaced by a build.
    const OWN: &str = "/proc/self/exe";
    let program = match Path::new(OWN).exists() {
        true => OWN.into(),
        false => env::current_exe().context("the program has no path")?,
    };
    let mut command = Command::new(program);
    command
        .args(["--job", name, &format!("--minutes={minutes}")])
        .args(["--seed", &seed.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .envs(ALLOCATOR);
    // Ctrl-C ends this process, and with it the children. A child that ends first would look like
    // one that crashed.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let child = command.spawn();
    child.with_context(|| format!("cannot start the process of the job {name}"))
}

/// Waits for the process of a job and returns its outcome.
fn outcome_of(mut child: Child) -> Result<Outcome> {
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
        start: START,
        seed: options.seed.unwrap_or_else(seed_of_time),
    };
    let part_s = plan.time.as_secs_f64() / N_PROGRESS;
    let mut next_s = part_s;
    let outcome = driver::run(&job, plan, &mut |outcome| {
        if outcome.seconds >= next_s && part_s > 1.0 {
            next_s = outcome.seconds + part_s;
            let (minutes, faults) = (outcome.seconds / 60.0, outcome.n_faults);
            output::note(format_args!(
                "{name}: {minutes:.1} min, {}, {faults} faults",
                outcome.counts
            ));
        }
    });
    output::print_line(serde_json::to_string(&outcome)?)?;
    Ok(ExitCode::SUCCESS)
}

fn seed_of_time() -> u64 {
    let since_1970 = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    since_1970.as_secs()
}
