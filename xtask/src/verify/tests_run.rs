//! The tests: built once, then each executable is run, with one check per test.
//!
//! Method: every executable first lists its tests, so that a pattern may match any part of an id
//! and a test without a result at the end of its process is a failure. `LANES` executables run
//! at a time, because most of them end with one long test that leaves the other cores idle;
//! they send events to the thread that owns the reporter. The build is a check too, so that each
//! failure has an id that `--only` can select. Tests that passed before and whose package has not
//! changed since do not run again. Executables run in their package's folder, as under `cargo
//! test`. An example is one check: it passes if it ends with exit code 0, and is skipped if it also
//! writes `skipped: <name>: <why>` to standard error.
//! Limits: targets must use Rust's own test harness; all targets of the workspace do.

use std::collections::HashMap;
use std::ffi::OsString;
use std::process::{Command, ExitStatus};
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::doc_tests;
use super::reporter::{Outcome, Reporter};
use super::unchanged::{Known, Unchanged};
use crate::adapters;
use crate::artifact::{self, Executable};
use crate::libtest::{self, Report, Verdict};
use crate::matrix_driver::{self, MatrixDriver};
use crate::mpi;
use crate::process::{self, Finished, OutputLine, tail, watch};
use crate::record::Record;
use crate::workspace::{Package, Workspace};

/// Maximum number of displayed lines of a failed test's output, from its beginning, because the
/// message comes before the backtrace.
const HEAD_LINES: usize = 40;
/// Maximum number of displayed lines of a failed build or a crash, from its end.
pub(super) const TAIL_LINES: usize = 60;

/// Number of test executables that run at the same time.
const LANES: usize = 2;

/// Prefix of every id.
pub(super) const PREFIX: &str = "test/";

/// The selection of tests, and their environment.
pub(super) struct Selection<'a> {
    /// Text that the ids of the selected tests contain.
    pub(super) pattern: &'a str,
    /// Environment variables for every test.
    pub(super) envs: Vec<(&'static str, OsString)>,
    /// The tests that passed before.
    pub(super) unchanged: &'a Unchanged,
}

/// Builds all tests, examples and programs, and returns their executables; `None` if the build
/// failed. `pattern` selects the reported checks.
pub(super) fn build(pattern: &str, reporter: &mut Reporter) -> Result<Option<Vec<Executable>>> {
    const BUILD: &str = "test/build";
    reporter.begin_long(BUILD)?;
    let mut cargo = process::cargo();
    cargo
        .args(["test", "--workspace", "--no-run"])
        .args(mpi::arguments())
        .arg("--message-format=json-render-diagnostics");
    let built = watch(&mut cargo, |line| {
        if let OutputLine::Err(text) = line {
            reporter.note(text);
        }
    })?;
    if !built.status.success() {
        reporter.end(BUILD, Outcome::Failed(tail(&built.err, TAIL_LINES)))?;
        return Ok(None);
    }
    if BUILD.contains(pattern) {
        reporter.end(BUILD, Outcome::Passed)?;
    }
    Ok(Some(artifact::executables(&built.out)))
}

/// Runs the selected tests and examples, and reports each.
pub(super) fn run(
    workspace: &Workspace,
    executables: &[Executable],
    plan: &Selection<'_>,
    reporter: &mut Reporter,
) -> Result<()> {
    let job = |executable: &Executable| match executable.kind.as_str() {
        _ if executable.is_test => Some(Job::Tests(executable.clone())),
        "example" => Some(Job::Example(executable.clone())),
        _ => None,
    };
    let with_matrices = executables
        .iter()
        .filter(|executable| matrix_driver::has_tests(executable));
    let driver = MatrixDriver::find(&adapters::folder(workspace))?;
    let with_matrices = with_matrices.zip(&driver);
    let with_matrices = with_matrices.map(|(executable, driver)| Job::Matrices {
        executable: executable.clone(),
        driver: driver.clone(),
    });
    let jobs = [Job::DocTests]
        .into_iter()
        .chain(with_matrices)
        .chain(executables.iter().filter_map(job));
    let mut jobs: Vec<Job> = jobs.collect();
    // A long job at the end would leave a thread without work.
    let usual_s = usual_s(workspace)?;
    let of_job = |job: &Job| {
        let id = job.id(workspace).unwrap_or_default();
        usual_s.get(&id).copied().unwrap_or(0.0)
    };
    jobs.sort_by(|one, other| of_job(other).total_cmp(&of_job(one)));
    run_jobs(workspace, plan, jobs, reporter)
}

/// Returns the durations of slow processes in the record of `verify`, in s, by name.
fn usual_s(workspace: &Workspace) -> Result<HashMap<String, f64>> {
    let rows = Record::open(workspace, "verify", "run")?.rows()?;
    let slowest = rows
        .iter()
        .flat_map(|row| row["slowest"].as_array().into_iter().flatten());
    let duration =
        |slow: &Value| Some((slow["check"].as_str()?.into(), slow["elapsed_s"].as_f64()?));
    Ok(slowest.filter_map(duration).collect())
}

/// The work of one process.
enum Job {
    Tests(Executable),
    Example(Executable),
    DocTests,
    /// The tests of cooperative matrices, on a driver that has them.
    Matrices {
        executable: Executable,
        driver: MatrixDriver,
    },
}

impl Job {
    /// Returns the id of the process.
    fn id(&self, workspace: &Workspace) -> Result<String> {
        let prefix = |executable| Ok(prefix(package(workspace, executable)?, executable));
        match self {
            Self::Tests(executable) | Self::Example(executable) => prefix(executable),
            Self::DocTests => Ok(doc_tests::ID.to_owned()),
            Self::Matrices { executable, .. } => Ok(on_matrices(&prefix(executable)?)),
        }
    }
}

/// Returns the id of the process that runs tests on a driver with cooperative matrices.
fn on_matrices(prefix: &str) -> String {
    format!("{prefix} on {}", matrix_driver::ID)
}

/// A message from a thread that runs jobs to the thread that owns the reporter.
pub(super) enum Event {
    /// The name of a process that was started.
    Started(String),
    /// The latest progress of a process.
    Progress(String),
    /// The id and the outcome of a check.
    Ended(String, Outcome),
    /// The name and the duration of a process.
    Took(String, Duration),
}

/// Runs all jobs, `LANES` at a time, and reports each outcome when its process has ended.
fn run_jobs(
    workspace: &Workspace,
    plan: &Selection<'_>,
    jobs: Vec<Job>,
    reporter: &mut Reporter,
) -> Result<()> {
    let queue = Mutex::new(jobs.into_iter());
    let next = || {
        let mut jobs = queue
            .lock()
            .expect("no worker thread panics while it takes a job");
        jobs.next()
    };
    let lane = |events: Sender<Event>| -> Result<()> {
        while let Some(job) = next() {
            match job {
                Job::Tests(executable) => run_tests(workspace, &executable, plan, None, &events)?,
                Job::Matrices { executable, driver } => {
                    run_tests(workspace, &executable, plan, Some(&driver), &events)?;
                }
                Job::Example(executable) => run_example(workspace, &executable, plan, &events)?,
                Job::DocTests => doc_tests::run(workspace, plan, &events)?,
            }
        }
        Ok(())
    };
    let (sender, events) = channel();
    thread::scope(|scope| {
        let start = |events: Sender<Event>| scope.spawn(|| lane(events));
        let lanes: Vec<_> = vec![sender; LANES].into_iter().map(start).collect();
        for event in events {
            match event {
                Event::Started(what) => reporter.begin_long(&what)?,
                Event::Progress(what) => reporter.note(&what),
                Event::Ended(id, outcome) => reporter.add(&id, outcome)?,
                Event::Took(what, duration) => reporter.took(&what, duration),
            }
        }
        lanes.into_iter().try_for_each(|lane| {
            lane.join()
                .unwrap_or_else(|_| bail!("verify: a thread that runs tests panicked"))
        })
    })
}

/// Returns the package of an executable.
fn package<'w>(workspace: &'w Workspace, executable: &Executable) -> Result<&'w Package> {
    let mut packages = workspace.packages.iter();
    packages
        .find(|package| package.manifest == executable.manifest)
        .context("cargo built an executable of a package that is not a workspace member")
}

/// Runs an example without arguments.
fn run_example(
    workspace: &Workspace,
    executable: &Executable,
    plan: &Selection<'_>,
    events: &Sender<Event>,
) -> Result<()> {
    let package = package(workspace, executable)?;
    let id = prefix(package, executable);
    if !id.contains(plan.pattern) {
        return Ok(());
    }
    if plan
        .unchanged
        .known(package, &id)
        .is_some_and(|known| known.is_good())
    {
        events.send(Event::Ended(id, Outcome::Unchanged))?;
        return Ok(());
    }
    events.send(Event::Started(id.clone()))?;
    let begun = Instant::now();
    let finished = watch(&mut command(executable, package, plan), |_| ())?;
    events.send(Event::Took(id.clone(), begun.elapsed()))?;
    let outcome = example_outcome(&finished);
    let ran = [(executable.target.clone(), outcome == Outcome::Passed)];
    let all = [executable.target.clone()];
    plan.unchanged.store(package, &id, &all, ran)?;
    events.send(Event::Ended(id, outcome))?;
    Ok(())
}

fn example_outcome(finished: &Finished) -> Outcome {
    if !finished.status.success() {
        let output = format!("{}{}", finished.out, finished.err);
        return Outcome::Failed(tail(&output, TAIL_LINES));
    }
    let skip = libtest::skips(&finished.err).pop();
    skip.map_or(Outcome::Passed, |skip| Outcome::Skipped(skip.why))
}

/// Runs the selected tests of an executable. With a driver, only those of cooperative matrices run,
/// and only on this driver; a skip is a failure then.
fn run_tests(
    workspace: &Workspace,
    executable: &Executable,
    plan: &Selection<'_>,
    driver: Option<&MatrixDriver>,
    events: &Sender<Event>,
) -> Result<()> {
    let package = package(workspace, executable)?;
    let mut prefix = prefix(package, executable);
    if driver.is_some() {
        prefix = on_matrices(&prefix);
    }
    let known = match plan.unchanged.known(package, &prefix) {
        Some(known) => known,
        None => {
            let mut list = command(executable, package, plan);
            let listed = watch(list.args(["--list", "--format", "terse"]), |_| ())?;
            if !listed.status.success() {
                let output = tail(&(listed.out + &listed.err), TAIL_LINES);
                events.send(Event::Ended(prefix, Outcome::Failed(output)))?;
                return Ok(());
            }
            Known::none_of(libtest::listing(&listed.out))
        }
    };
    let all = &known.all;
    let is_selected = |name: &&String| {
        let is_meant = driver.is_none() || name.starts_with(matrix_driver::TESTS);
        is_meant && format!("{prefix}/{name}").contains(plan.pattern)
    };
    let selected = all.iter().filter(is_selected);
    let (unchanged, selected): (Vec<_>, Vec<_>) =
        selected.partition(|name| known.passed.contains(*name));
    for name in unchanged {
        let id = format!("{prefix}/{name}");
        events.send(Event::Ended(id, Outcome::Unchanged))?;
    }
    if selected.is_empty() {
        return Ok(());
    }

    let mut tests = match driver {
        None => command(executable, package, plan),
        Some(driver) => driver.wrap(&command(executable, package, plan)),
    };
    if selected.len() < all.len() {
        tests.arg("--exact").args(&selected);
    }
    let begun = Instant::now();
    let finished = watch_tests(&mut tests, &prefix, selected.len(), events)?;
    events.send(Event::Took(prefix.clone(), begun.elapsed()))?;
    let outcomes = outcomes(&selected, &finished);
    // After a failure or a skip of an unknown test, no result is trusted.
    let is_explained = outcomes.len() == selected.len();
    let ran = outcomes.iter().map(|(name, outcome)| {
        let has_passed = is_explained && *outcome == Outcome::Passed;
        (name.clone(), has_passed)
    });
    plan.unchanged.store(package, &prefix, all, ran)?;
    for (name, outcome) in outcomes {
        let outcome = match outcome {
            Outcome::Skipped(why) if driver.is_some() => Outcome::Failed(why),
            outcome => outcome,
        };
        events.send(Event::Ended(format!("{prefix}/{name}"), outcome))?;
    }
    Ok(())
}

/// Returns the id of an executable: `test/<package>/<target>`.
fn prefix(package: &Package, executable: &Executable) -> String {
    let target = match executable.kind.as_str() {
        "test" => executable.target.clone(),
        "bin" | "bench" | "example" => format!("{}-{}", executable.kind, executable.target),
        // All crate types of a library.
        _ => "lib".into(),
    };
    format!("test/{}/{target}", package.name)
}

fn command(executable: &Executable, package: &Package, plan: &Selection<'_>) -> Command {
    let mut command = Command::new(&executable.path);
    command
        .current_dir(package.folder())
        .env("CARGO_MANIFEST_DIR", package.folder())
        .env("CARGO_PKG_NAME", &package.name)
        .envs(plan.envs.iter().map(|(name, value)| (name, value)));
    command
}

/// Runs tests to their end and shows how many are finished.
fn watch_tests(
    tests: &mut Command,
    prefix: &str,
    n_tests: usize,
    events: &Sender<Event>,
) -> Result<Finished> {
    events.send(Event::Started(format!("{prefix} ({n_tests} tests)")))?;
    let mut n_done = 0;
    watch(tests, |line| {
        if let OutputLine::Out(text) = line
            && libtest::is_result(text)
        {
            n_done += 1;
            progress(events, format!("{prefix} {n_done}/{n_tests}"));
        }
    })
}

/// Sends progress. If the reporter has ended, the message is dropped.
pub(super) fn progress(events: &Sender<Event>, what: String) {
    let _ = events.send(Event::Progress(what));
}

/// Id, within its executable, of the check that the process of the tests ends well.
const PROCESS: &str = "process";

/// Returns one outcome for every selected test, then the skips whose test name is unknown, then a
/// failure of the process that no test explains.
fn outcomes(selected: &[&String], finished: &Finished) -> Vec<(String, Outcome)> {
    let reports = libtest::parse(&finished.out);
    let reports: HashMap<_, _> = reports
        .iter()
        .map(|report| (&report.name, report))
        .collect();
    let skips = libtest::skips(&finished.err);
    let mut outcomes = Vec::new();
    for &name in selected {
        let outcome = match reports.get(name) {
            Some(report) => outcome(report),
            None => Outcome::Failed(no_result(finished)),
        };
        let skip = skips.iter().find(|skip| skip.name == *name);
        let outcome = match (outcome, skip) {
            (Outcome::Passed, Some(skip)) => Outcome::Skipped(skip.why.clone()),
            (outcome, _) => outcome,
        };
        outcomes.push((name.clone(), outcome));
    }
    // A skip must be reported even if its line does not contain the name of a test.
    let strays = skips.iter().filter(|skip| !selected.contains(&&skip.name));
    outcomes.extend(strays.map(|skip| (skip.name.clone(), Outcome::Skipped(skip.why.clone()))));
    let mut failures = outcomes.iter();
    let is_explained = failures.any(|(_, outcome)| matches!(outcome, Outcome::Failed(_)));
    if !finished.status.success() && !is_explained {
        outcomes.push((PROCESS.into(), Outcome::Failed(late_end(finished))));
    }
    outcomes
}

pub(super) fn outcome(report: &Report) -> Outcome {
    match report.verdict {
        Verdict::Ok => Outcome::Passed,
        Verdict::Failed => Outcome::Failed(head(&report.output)),
        Verdict::Ignored => Outcome::Failed("test is ignored (`#[ignore]` is not allowed)".into()),
    }
}

fn no_result(finished: &Finished) -> String {
    format!(
        "no result: test process ended with {}\n{}",
        ending(finished.status),
        tail(&finished.err, TAIL_LINES)
    )
}

fn late_end(finished: &Finished) -> String {
    format!(
        "test process ended with {} after its last test\n{}",
        ending(finished.status),
        tail(&finished.err, TAIL_LINES)
    )
}

fn ending(status: ExitStatus) -> String {
    // `ExitStatus` prints as `exit status: 1` or `signal: 6 (SIGABRT)`.
    status.to_string()
}

fn head(output: &str) -> String {
    let lines: Vec<_> = output.trim().lines().collect();
    match lines.len().checked_sub(HEAD_LINES) {
        Some(n_cut @ 1..) => {
            format!("{}\n… {n_cut} more lines", lines[..HEAD_LINES].join("\n"))
        }
        _ => lines.join("\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: &str = include_str!("../../testdata/unit.txt");
    const CRASH: &str = include_str!("../../testdata/crash.txt");

    #[cfg(unix)]
    fn finished(raw_status: i32, out: &str, err: &str) -> Finished {
        Finished {
            status: std::os::unix::process::ExitStatusExt::from_raw(raw_status),
            out: out.into(),
            err: err.into(),
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_test_without_a_result_fails_with_the_signal() {
        let names = ["fine".to_owned(), "aborts".to_owned()];
        let outcomes = outcomes(&names.each_ref(), &finished(6, CRASH, "boom\n"));
        assert_eq!(outcomes[0], ("fine".into(), Outcome::Passed));
        let Outcome::Failed(detail) = &outcomes[1].1 else {
            panic!("{:?}", outcomes[1]);
        };
        assert!(
            detail.contains("signal: 6") && detail.contains("boom"),
            "{detail}"
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_process_that_dies_after_its_last_test_fails() {
        let out = "\nrunning 1 test\ntest fine ... ok\n\ntest result: ok. 1 passed; 0 failed\n";
        let names = ["fine".to_owned()];
        let passed = ("fine".to_owned(), Outcome::Passed);
        let of = |raw_status| outcomes(&names.each_ref(), &finished(raw_status, out, "boom\n"));
        assert_eq!(of(0), std::slice::from_ref(&passed));
        for (raw_status, ending) in [(11, "signal: 11"), (3 << 8, "exit status: 3")] {
            let all = of(raw_status);
            let [first, (name, Outcome::Failed(detail))] = &all[..] else {
                panic!("{all:?}");
            };
            assert_eq!((first, name.as_str()), (&passed, PROCESS));
            assert!(
                detail.contains(ending) && detail.contains("boom"),
                "{detail}"
            );
        }
    }

    #[cfg(unix)]
    #[test]
    fn skips_count_only_where_the_test_passed_and_ignored_tests_fail() {
        let names = ["tests::no_adapter", "tests::result", "tests::lazy"].map(str::to_owned);
        let err = "skipped: tests::no_adapter: none found\nskipped: tests::result: none\n\
            skipped: elsewhere: odd\n";
        let outcomes = outcomes(&names.each_ref(), &finished(0, UNIT, err));
        assert_eq!(outcomes[0].1, Outcome::Skipped("none found".into()));
        assert!(matches!(&outcomes[1].1, Outcome::Failed(text) if text.contains("no luck")));
        assert!(matches!(&outcomes[2].1, Outcome::Failed(text) if text.contains("ignored")));
        assert_eq!(
            outcomes[3],
            ("elsewhere".into(), Outcome::Skipped("odd".into()))
        );
    }

    #[cfg(unix)]
    #[test]
    fn an_example_without_an_adapter_is_skipped_unless_it_fails() {
        let err = "skipped: program: no adapter (none found)\n";
        let skipped = Outcome::Skipped("no adapter (none found)".into());
        assert_eq!(example_outcome(&finished(0, "", err)), skipped);
        assert_eq!(example_outcome(&finished(0, "done\n", "")), Outcome::Passed);
        let failed = example_outcome(&finished(1 << 8, "", err));
        assert!(matches!(failed, Outcome::Failed(_)), "{failed:?}");
    }
}
