//! The test programs of a crate, and the fates of mutants under them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use super::sites::Site;
use super::tree::{MUTANT, REACHED, Tree};
use crate::artifact::{self, Executable};
use crate::matrix_driver::{self, MatrixDriver};
use crate::process::{self, OutputLine, spinner, tail};
use crate::workspace::Workspace;
use crate::{adapters, libtest};
use tool_io::output;

/// A test program with a mutant may take this many times its usual time, and [`MIN_LIMIT`] more.
const TIME_FACTOR: u32 = 4;
/// Shortest time limit of a test program.
const MIN_LIMIT: Duration = Duration::from_secs(20);
/// Number of runs that exceed the time limit before a mutant counts as found.
const TIMEOUTS: u32 = 2;
/// Number of attempts to build; each removes the mutants that do not compile.
const MAX_BUILDS: usize = 8;
/// Maximum number of displayed lines of a failing program's output.
const TAIL_LINES: usize = 40;

/// The outcome of the tests of a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// A test failed, or its process ended early.
    Found,
    /// A test did not end in time.
    TimedOut,
    /// All tests passed.
    Survived,
    /// No test program reaches the mutant.
    NotReached,
}

impl Fate {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::TimedOut => "timed out",
            Self::Survived => "survived",
            Self::NotReached => "not reached",
        }
    }
}

/// A test program of a crate.
pub(super) struct Program {
    executable: Executable,
    /// The driver on which only the tests of cooperative matrices run; `None` for all tests.
    driver: Option<MatrixDriver>,
    /// Duration without a mutant.
    usual: Duration,
    reached: BTreeSet<usize>,
}

/// Builds the tests with all mutants behind switches. Mutants that do not compile are removed from
/// the sample.
pub(super) fn build(
    workspace: &Workspace,
    tree: &Tree,
    package: &str,
    texts: &BTreeMap<PathBuf, String>,
    sample: &mut Vec<Site>,
) -> Result<Vec<Executable>> {
    let files: BTreeSet<PathBuf> = sample.iter().map(|site| site.file.clone()).collect();
    for _ in 0..MAX_BUILDS {
        let placed = tree.mutate(workspace, package, &files, texts, sample)?;
        let mut cargo = tree.cargo(workspace);
        cargo
            .args([
                "test",
                "--no-run",
                "--package",
                package,
                "--message-format=json",
                // As in `verify`, where other crates of the workspace need all features.
                "--all-features",
            ])
            .args(["--lib", "--bins", "--tests"]);
        let bar = spinner(format!(
            "building the tests of {package} with {} mutants",
            sample.len()
        ));
        let built = process::watch(&mut cargo, |_| ())?;
        bar.finish_and_clear();
        if built.status.success() {
            let executables = artifact::executables(&built.out).into_iter();
            return Ok(executables
                .filter(|executable| executable.is_test)
                .collect());
        }
        let wrong = placed.wrong(&built.out);
        ensure!(
            !wrong.is_empty(),
            "mutants: the build failed\n{}",
            tail(&built.err, TAIL_LINES)
        );
        for site in wrong.iter().filter_map(|&number| sample.get(number)) {
            output::print_line(format_args!("does not compile, not counted: {site}"))?;
        }
        let mut number = 0;
        sample.retain(|_| {
            number += 1;
            !wrong.contains(&(number - 1))
        });
    }
    bail!("mutants: the tests of {package} do not compile after {MAX_BUILDS} attempts")
}

/// Runs all test programs without a mutant. The fastest program is the first.
pub(super) fn run_without_mutants(
    workspace: &Workspace,
    executables: Vec<Executable>,
) -> Result<Vec<Program>> {
    let reached = workspace.target.join("mutants-reached");
    let driver = MatrixDriver::find(&adapters::folder(workspace))?;
    let on_matrices = executables
        .iter()
        .filter(|executable| matrix_driver::has_tests(executable))
        .zip(driver)
        .map(|(executable, driver)| (executable.clone(), Some(driver)))
        .collect::<Vec<_>>();
    let all = executables.into_iter().map(|executable| (executable, None));
    let mut programs = Vec::new();
    for (executable, driver) in all.chain(on_matrices) {
        // A file that is not there is an empty list.
        let _ = fs::remove_file(&reached);
        let mut program = Program {
            executable,
            driver,
            usual: Duration::ZERO,
            reached: BTreeSet::new(),
        };
        program.usual = program.run_without_mutant(Some(&reached))?;
        let numbers = fs::read_to_string(&reached).unwrap_or_default();
        program.reached = numbers
            .lines()
            .filter_map(|line| line.parse().ok())
            .collect();
        programs.push(program);
    }
    programs.sort_by_key(|program| program.usual);
    Ok(programs)
}

impl Program {
    /// Runs the program without a mutant, and returns its duration. The mutants that it reaches are
    /// written to a file.
    ///
    /// # Errors
    /// A test that fails.
    fn run_without_mutant(&self, reached: Option<&Path>) -> Result<Duration> {
        let start = Instant::now();
        let target = &self.executable.target;
        let bar = spinner(format!("running {target}"));
        let mut command = self.command();
        if let Some(reached) = reached {
            command.env(REACHED, reached);
        }
        let finished = process::watch(&mut command, |_| ())?;
        bar.finish_and_clear();
        ensure!(
            finished.status.success(),
            "mutants: the tests of {target} fail without a mutant\n{}",
            tail(&finished.out, TAIL_LINES)
        );
        let skips = libtest::skips(&finished.err);
        if let (Some(_), Some(skip)) = (&self.driver, skips.first()) {
            bail!("mutants: {} was skipped: {}", skip.name, skip.why);
        }
        Ok(start.elapsed())
    }

    /// Returns the command of the program, in the folder of its package.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.executable.path);
        // The same random numbers and the same adapter each time, so that a score can be repeated.
        // Without an adapter, tests would pass because they do nothing.
        command
            .env("PROGRAM_SEED", "1")
            .env("PROPTEST_RNG_SEED", "1")
            .env("FIRST_ADAPTER", "0")
            .env("REQUIRE_GPU", "1");
        if let Some(folder) = self.executable.manifest.parent() {
            command
                .current_dir(folder)
                .env("CARGO_MANIFEST_DIR", folder);
        }
        if let Some(driver) = &self.driver {
            command = driver.wrap(&command);
            command.arg(matrix_driver::TESTS);
        }
        command
    }
}

/// Tests a mutant. Returns the program that found it, too.
pub(super) fn fate(programs: &mut [Program], number: usize) -> Result<(Fate, Option<&str>)> {
    let mut fate = Fate::NotReached;
    for program in programs
        .iter_mut()
        .filter(|program| program.reached.contains(&number))
    {
        fate = run_with_mutant(program, number)?;
        if fate != Fate::Survived {
            return Ok((fate, Some(&program.executable.target)));
        }
    }
    Ok((fate, None))
}

/// Runs a test program with a mutant. A program that does not end in time is measured again without
/// the mutant, because the machine may have become slow, and then run once more.
fn run_with_mutant(program: &mut Program, number: usize) -> Result<Fate> {
    let mut n_timeouts = 0;
    while n_timeouts < TIMEOUTS {
        let limit = program.usual * TIME_FACTOR + MIN_LIMIT;
        let mut command = program.command();
        command.env(MUTANT, number.to_string());
        let mut has_failed = false;
        let status = process::run_until(&mut command, limit, |line| {
            has_failed |= matches!(line, OutputLine::Out(text) if libtest::is_failure(text));
            has_failed
        })?;
        match status {
            _ if has_failed => return Ok(Fate::Found),
            Some(status) if status.success() => return Ok(Fate::Survived),
            Some(_) => return Ok(Fate::Found),
            None => n_timeouts += 1,
        }
        if n_timeouts < TIMEOUTS {
            program.usual = program.run_without_mutant(None)?;
        }
    }
    Ok(Fate::TimedOut)
}
