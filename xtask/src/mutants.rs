//! `cargo xtask mutants`: small faults of the code, and the tests that find them.
//!
//! Role: draws faults ("mutants") in the parts of the libraries that compute results, runs the
//! tests of the crate with each of them, and lists the faults that no test has found.
//! Method: all mutants of a crate are compiled once, each behind a switch that an environment
//! variable sets (mutant schemata: Untch, Offutt and Harrold 1993). One run without a mutant
//! records which test program reaches which mutant; a mutant is then tested by the programs that
//! reach it, the fastest first, until a test fails or the time limit ends. As in `verify`, the
//! tests of cooperative matrices also run on a driver with them, if it was fetched (`cargo xtask
//! adapters`). Results are appended to a file, so an interrupted run of the same commit goes on
//! where it was.
//! Record: `--record` writes the score of each crate and its unfound mutants to
//! `xtask/record/mutants.json`. The verdict on an unfound mutant, and its reason, are written into
//! the record by hand. A later run of the same sample keeps them for the mutants that are unfound
//! again. A run of another sample is not recorded, because it would remove them.
//! Limits: the tests need an adapter that is found without the drivers that `cargo xtask adapters`
//! fetches. Doc tests and the tests of other crates do not count. Constants, patterns, macros and
//! `const fn` have no mutants, because a switch cannot be there. A fault that changes no result,
//! such as one more round of a loop that has converged, cannot be found and still counts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use clap::{Args, value_parser};
use serde_json::{Value, json};

use crate::artifact::{self, Executable};
use crate::lock::Lock;
use crate::matrix_driver::{self, MatrixDriver};
use crate::process::{self, OutputLine, spinner, tail};
use crate::record::{self, Record};
use crate::workspace::Workspace;
use crate::{adapters, libtest};
use tool_io::{commit, exit, output};

mod sites;
mod tree;

use sites::Site;
use tree::Tree;

/// Crates with the paths below `src` in which mutants are drawn.
const PARTS: [(&str, &[&str]); 6] = [
    ("tensor-core", &["plan", "exec"]),
    ("gpu-wgsl", &["nest"]),
    (
        "quant",
        &[
            "qem",
            "lloyd_max",
            "abc",
            "least_squares",
            "level_set",
            "planes",
            "conv",
            "frozen",
            "border",
        ],
    ),
    (
        "distributions",
        &[
            "inverse_gaussian",
            "distribution",
            "special",
            "point",
            "quadrature",
            "root",
        ],
    ),
    ("games", &["regret", "simd", "run", "profile", "exact"]),
    ("telemetry", &["energy", "updates", "sensor"]),
];
/// Environment variable with the number of the mutant that is switched on.
const MUTANT: &str = "MUTANT";
/// Environment variable with the file to which a test program writes the mutants that it reaches.
const REACHED: &str = "MUTANTS_REACHED";
/// Verdict on a mutant that changes no result.
const EQUIVALENT: &str = "equivalent";
/// Verdict on a mutant that changes a result that no test checks.
#[cfg(test)]
const OPEN: &str = "open";
/// Largest sample, which is the number of switches in the copy.
const MAX_SAMPLE: i64 = 1000;
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

/// Arguments of `mutants`.
#[derive(Args)]
#[command(
    after_help = "Exit codes: 0, also with mutants that no test found; 1 on an error; 2 for wrong usage; 130 if \
                        interrupted, with the results so far in the file."
)]
pub(crate) struct Options {
    /// Crate whose mutants are tested; repeatable [default: all crates with a list of parts]
    #[arg(long, value_name = "CRATE")]
    package: Vec<String>,
    /// Mutants of each crate, at most 1000
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = value_parser!(u16).range(1..=MAX_SAMPLE))]
    sample: u16,
    /// Seed of the sample
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Test only the mutants of the sample whose text contains this pattern
    #[arg(long, value_name = "PATTERN", conflicts_with = "record")]
    only: Option<String>,
    /// Print the sample, and test no mutant
    #[arg(long, conflicts_with = "record")]
    list: bool,
    /// Write the score and the unfound mutants to xtask/record/mutants.json
    #[arg(long)]
    record: bool,
    /// File of the results, one JSON object per mutant [default: mutants.jsonl in cargo's target
    /// folder]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// The outcome of the tests of a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
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
    fn name(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::TimedOut => "timed out",
            Self::Survived => "survived",
            Self::NotReached => "not reached",
        }
    }
}

/// A test program of a crate.
struct Program {
    executable: Executable,
    /// The driver on which only the tests of cooperative matrices run; `None` for all tests.
    driver: Option<MatrixDriver>,
    /// Duration without a mutant.
    usual: Duration,
    reached: BTreeSet<usize>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    match test_all(options) {
        // Finished mutants are in the file.
        Err(error) if error.is::<process::Interrupted>() => Ok(ExitCode::from(exit::INTERRUPTED)),
        done => done,
    }
}

fn test_all(options: &Options) -> Result<ExitCode> {
    let workspace = Workspace::load()?;
    let is_known = |name: &String| PARTS.iter().any(|(package, _)| package == name);
    if let Some(unknown) = options.package.iter().find(|name| !is_known(name)) {
        let known = PARTS.map(|(package, _)| package).join(" ");
        output::note(format_args!(
            "error: mutants: no parts are listed for the crate {unknown:?} (crates: {known})"
        ));
        return Ok(ExitCode::from(exit::USAGE));
    }
    let is_selected = |name: &str| {
        options.package.is_empty() || options.package.iter().any(|package| package == name)
    };
    process::end_children_on_stop()?;
    let out = options.out.clone();
    let out = out.unwrap_or_else(|| workspace.target.join("mutants.jsonl"));
    let run = Run {
        commit: commit::checked_out(&workspace.root),
        record: Record::open(&workspace, "mutants", "package")?,
        options,
        workspace: &workspace,
    };
    if options.record {
        run.record.check_writable()?;
        for (package, _) in PARTS.iter().filter(|(name, _)| is_selected(name)) {
            let before = run.record.row(package)?;
            check_same_sample(&run.command(package), before.as_ref())?;
        }
    }
    // Two runs would share the copy of the workspace and the names of the test programs.
    let _lock = match options.list {
        true => None,
        false => Some(Lock::take(&workspace.target, "mutants")?),
    };
    let (mut all, mut n_sampled) = (Vec::new(), 0);
    for (name, parts) in PARTS.iter().filter(|(name, _)| is_selected(name)) {
        let found = workspace
            .packages
            .iter()
            .find(|package| package.name == *name);
        let folder = found
            .context("mutants: a crate of the list is not a member")?
            .folder();
        let sources = sites::find(&workspace.root, folder, parts)?;
        let mut sample = sites::sample(&sources.sites, options.sample.into(), options.seed);
        if let Some(pattern) = &options.only {
            sample.retain(|site| site.to_string().contains(pattern));
        }
        n_sampled += sample.len();
        if options.list {
            for site in &sample {
                output::print_line(site)?;
            }
            continue;
        }
        let tested = run.test(name, &sources.texts, sample, &out)?;
        if options.record {
            run.record(name, &sources.sites, &tested)?;
        }
        all.extend(tested);
    }
    if let Some(pattern) = options.only.as_ref().filter(|_| n_sampled == 0) {
        output::note(format_args!(
            "error: mutants: no mutant of the sample matches {pattern:?}"
        ));
        return Ok(ExitCode::from(exit::USAGE));
    }
    if !options.list {
        summarise(&all)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The parts of a run that all crates share.
struct Run<'a> {
    /// The commit at the start of the run.
    commit: Option<String>,
    record: Record,
    options: &'a Options,
    workspace: &'a Workspace,
}

impl Run<'_> {
    /// Tests the mutants of a crate that the file of results does not contain. Returns the results
    /// of the sample, without mutants that do not compile. `texts` has the files of the sample.
    fn test(
        &self,
        package: &str,
        texts: &BTreeMap<PathBuf, String>,
        mut sample: Vec<Site>,
        out: &Path,
    ) -> Result<Vec<Value>> {
        let (mut results, is_cut_off) = known(out, self.commit.as_deref())?;
        if sample
            .iter()
            .all(|site| results.contains_key(&site.to_string()))
        {
            return Ok(of_sample(&sample, results));
        }
        if sample.is_empty() {
            return Ok(Vec::new());
        }
        let file = OpenOptions::new().create(true).append(true).open(out);
        let mut file = file.with_context(|| format!("mutants: {}", out.display()))?;
        let tree = Tree::copy(self.workspace)?;
        let executables = build(self.workspace, &tree, package, texts, &mut sample)?;
        let mut programs = run_without_mutants(self.workspace, executables)?;
        if is_cut_off {
            file.write_all(b"\n")?;
        }
        for (number, site) in sample.iter().enumerate() {
            let text = site.to_string();
            if results.contains_key(&text) {
                continue;
            }
            let start = Instant::now();
            let (fate, by) = fate(&mut programs, number)?;
            let elapsed_s = start.elapsed().as_secs_f64();
            let line = json!({
                "commit": self.commit,
                "package": package,
                "mutant": text,
                "fate": fate.name(),
                "by": by,
                "elapsed_s": (elapsed_s * 10.0).round() / 10.0,
            });
            file.write_all(format!("{line}\n").as_bytes())?;
            output::print_line(format_args!("{:11} {elapsed_s:6.1} s  {site}", fate.name()))?;
            results.insert(text, line);
        }
        Ok(of_sample(&sample, results))
    }

    /// Returns the command of the row of a crate.
    fn command(&self, package: &str) -> String {
        format!(
            "cargo xtask mutants --package {package} --sample {} --seed {} --record",
            self.options.sample, self.options.seed
        )
    }

    /// Writes the row of a crate to the record. Verdicts and reasons are those of the row before.
    fn record(&self, package: &str, sites: &[Site], tested: &[Value]) -> Result<()> {
        let before = self.record.row(package)?.unwrap_or_default();
        let sites: Vec<String> = sites.iter().map(Site::to_string).collect();
        let (mut counts, mut unfound, mut elapsed_s) = (BTreeMap::new(), Vec::new(), 0.0);
        for result in tested {
            let [mutant, fate] =
                ["mutant", "fate"].map(|key| result[key].as_str().unwrap_or_default());
            *counts.entry(fate.to_owned()).or_insert(0) += 1;
            elapsed_s += result["elapsed_s"].as_f64().unwrap_or(0.0);
            if !is_found(fate) {
                unfound.push(judged(mutant, fate, &sites, &before));
            }
        }
        let mut row = record::circumstances(self.commit.as_deref(), &self.command(package));
        let n_equivalent = unfound
            .iter()
            .filter(|one| one["verdict"] == EQUIVALENT)
            .count();
        let entries = [
            ("package", json!(package)),
            ("places", json!(sites.len())),
            ("sample", json!(tested.len())),
            ("fates", json!(counts)),
            ("equivalent", json!(n_equivalent)),
            ("elapsed_s", json!(elapsed_s.round())),
            ("unfound", json!(unfound)),
        ];
        row.extend(entries.map(|(key, value)| (key.to_owned(), value)));
        self.record.put(row.into())
    }
}

/// Checks that a row of the record, if there is one, is of the sample of a command.
fn check_same_sample(command: &str, before: Option<&Value>) -> Result<()> {
    let Some(before) = before.and_then(|row| row["command"].as_str()) else {
        return Ok(());
    };
    ensure!(
        before == command,
        "mutants: the row of the record is of another sample (`{before}`; expected `{command}`); \
         its verdicts were written by hand, so remove the row first if they are no longer needed"
    );
    Ok(())
}

/// Returns the results of a sample, in its order.
fn of_sample(sample: &[Site], mut results: BTreeMap<String, Value>) -> Vec<Value> {
    sample
        .iter()
        .filter_map(|site| results.remove(&site.to_string()))
        .collect()
}

/// Builds the tests with all mutants behind switches. Mutants that do not compile are removed from
/// the sample.
fn build(
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
fn run_without_mutants(
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
fn fate(programs: &mut [Program], number: usize) -> Result<(Fate, Option<&str>)> {
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

/// Reads the results of a commit from a file, by mutant. Results of other commits, and of files
/// that are not committed, do not count. Also returns whether the last line was cut off by an
/// interrupt; such a line does not count.
fn known(out: &Path, commit: Option<&str>) -> Result<(BTreeMap<String, Value>, bool)> {
    let mut results = BTreeMap::new();
    let text = match fs::read(out) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok((results, false)),
        read => read.with_context(|| out.display().to_string())?,
    };
    let commit = commit.filter(|commit| !record::is_dirty(commit));
    for line in text.split(|&byte| byte == b'\n') {
        let Ok(result) = serde_json::from_slice::<Value>(line) else {
            continue;
        };
        if let (Some(mutant), Some(commit)) = (result["mutant"].as_str(), commit)
            && result["commit"] == commit
            && result["fate"].is_string()
        {
            results.insert(mutant.to_owned(), result);
        }
    }
    let is_cut_off = text.last().is_some_and(|&last| last != b'\n');
    Ok((results, is_cut_off))
}

/// Returns the entry of an unfound mutant, with verdict and reason of the same mutant in the row
/// before. A mutant whose line or column has changed since is recognised by file and text, if only
/// one of all places of the crate, and one entry of the row, has this text.
fn judged(mutant: &str, fate: &str, sites: &[String], before: &Value) -> Value {
    let is_alike = |other: &str| without_place(other) == without_place(mutant);
    let name = |known: &Value| known["mutant"].as_str().unwrap_or_default().to_owned();
    let known = before["unfound"].as_array().map_or(&[][..], Vec::as_slice);
    let alike: Vec<&Value> = known
        .iter()
        .filter(|known| is_alike(&name(known)))
        .collect();
    let is_unique = sites.iter().filter(|site| is_alike(site)).count() == 1;
    let same = match alike[..] {
        [only] if is_unique => Some(only),
        _ => alike.into_iter().find(|known| name(known) == mutant),
    };
    let text = |key: &str| same.and_then(|same| same[key].as_str()).unwrap_or_default();
    json!({
        "mutant": mutant, "fate": fate, "verdict": text("verdict"), "reason": text("reason"),
    })
}

/// Returns file and change of a mutant, since its line and column change with the code around.
fn without_place(mutant: &str) -> Option<(&str, &str)> {
    let (file, rest) = mutant.split_once(':')?;
    Some((file, rest.split_once(": ")?.1))
}

/// Returns whether a test has found a mutant with a fate.
fn is_found(fate: &str) -> bool {
    fate == Fate::Found.name() || fate == Fate::TimedOut.name()
}

/// Prints the score of each crate, and the mutants that no test has found.
fn summarise(results: &[Value]) -> Result<()> {
    let mut counts: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    let text = |result: &'_ Value, key: &str| result[key].as_str().unwrap_or_default().to_owned();
    for result in results {
        let fate = text(result, "fate");
        let [found, all] = counts
            .entry(result["package"].as_str().unwrap_or_default())
            .or_default();
        *found += usize::from(is_found(&fate));
        *all += 1;
        if !is_found(&fate) {
            output::print_line(format_args!("{fate}: {}", text(result, "mutant")))?;
        }
    }
    for (package, [found, all]) in counts {
        let share = 100.0 * found as f64 / all.max(1) as f64;
        output::print_line(format_args!(
            "{package}: {found} of {all} found ({share:.0} %)"
        ))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_stays_when_the_place_changes() {
        let before = json!({ "unfound": [
            { "mutant": "a.rs:7:3: `a < b`: `<` to `<=`", "verdict": "equivalent", "reason": "why" },
            { "mutant": "a.rs:8:3: `f(1, 1)`: `1` to `1 + 1`", "verdict": "equivalent", "reason": "x" },
            { "mutant": "a.rs:8:6: `f(1, 1)`: `1` to `1 + 1`", "verdict": "open", "reason": "y" },
        ] });
        let judged = |mutant: &str, others: &[&str]| {
            let sites = [others, &[mutant]].concat();
            let sites: Vec<String> = sites.into_iter().map(str::to_owned).collect();
            judged(mutant, "survived", &sites, &before)["reason"].clone()
        };
        let reason = |mutant: &str| judged(mutant, &[]);
        let other = "a.rs:7:3: `a < b`: `<` to `<=`";
        assert_eq!(reason("a.rs:9:1: `a < b`: `<` to `<=`"), "why");
        let of_two = judged("a.rs:9:1: `a < b`: `<` to `<=`", &[other]);
        assert_eq!(of_two, "", "another place has the text");
        let of_first = judged(other, &["a.rs:9:1: `a < b`: `<` to `<=`"]);
        assert_eq!(of_first, "why");
        assert_eq!(reason("b.rs:7:3: `a < b`: `<` to `<=`"), "");
        assert_eq!(reason("a.rs:8:6: `f(1, 1)`: `1` to `1 + 1`"), "y");
        assert_eq!(
            reason("a.rs:9:6: `f(1, 1)`: `1` to `1 + 1`"),
            "",
            "ambiguous"
        );
    }

    #[test]
    fn another_sample_does_not_replace_verdicts() {
        let row = json!({ "command": "cargo xtask mutants --sample 50" });
        assert!(check_same_sample("cargo xtask mutants --sample 50", Some(&row)).is_ok());
        assert!(check_same_sample("cargo xtask mutants --sample 50", None).is_ok());
        let other = check_same_sample("cargo xtask mutants --sample 60", Some(&row));
        assert!(other.unwrap_err().to_string().contains("--sample 50`"));
    }

    #[test]
    fn only_results_of_the_same_commit_are_known() {
        let folder = tool_io::TemporaryFolder::create(&std::env::temp_dir(), "mutants").unwrap();
        let out = folder.path().join("mutants.jsonl");
        let line = |commit: &str| json!({ "commit": commit, "mutant": format!("of {commit}"), "fate": "found" });
        let without_fate = json!({ "commit": "a", "mutant": "without a fate" });
        let text = format!(
            "{}\n{without_fate}\n{}\n{{\"commit\": \"a",
            line("a"),
            line("b-dirty")
        );
        fs::write(&out, text).unwrap();
        let names = |commit| {
            let (results, is_cut_off) = known(&out, Some(commit)).unwrap();
            assert!(is_cut_off);
            results.into_keys().collect::<Vec<_>>()
        };
        assert_eq!(names("a"), ["of a"]);
        assert!(names("b-dirty").is_empty() && names("c").is_empty());
        fs::write(
            &out,
            [&b"\xff\n"[..], line("a").to_string().as_bytes(), b"\n"].concat(),
        )
        .unwrap();
        let (results, is_cut_off) = known(&out, Some("a")).unwrap();
        assert_eq!((results.len(), is_cut_off), (1, false));
    }

    #[test]
    fn every_unfound_mutant_of_the_record_has_a_verdict_and_a_reason() {
        let workspace = Workspace::load().unwrap();
        let record = Record::open(&workspace, "mutants", "package").unwrap();
        let rows = record.rows().unwrap();
        let packages: BTreeSet<&str> = rows
            .iter()
            .filter_map(|row| row["package"].as_str())
            .collect();
        assert_eq!(packages, PARTS.map(|(package, _)| package).into());
        for row in rows {
            for one in row["unfound"].as_array().unwrap() {
                let text = |key: &str| one[key].as_str().unwrap();
                assert!([EQUIVALENT, OPEN].contains(&text("verdict")), "{one}");
                assert!(!text("reason").is_empty(), "{one}");
            }
        }
    }
}
