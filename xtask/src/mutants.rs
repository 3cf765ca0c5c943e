//! `cargo xtask mutants`: small faults of the code, and the tests that find them.
//!
//! Role: draws faults ("mutants") in the parts of the libraries that compute results, runs the
//! tests of the crate with each of them, and lists the faults that no test has found.
//! Method: all mutants of a crate are compiled once, each behind a switch that an environment
//! variable sets (mutant schemata: Untch, Offutt and Harrold 1993). One run without a mutant
//! records which test program reaches which mutant; a mutant is then tested by the programs that
//! reach it, the fastest first, until a test fails or the time limit ends. Results are appended to
//! a file, so an interrupted run goes on where it was.
//! Record: `--record` writes the score of each crate and its unfound mutants to
//! `xtask/record/mutants.json`. The verdict on an unfound mutant, and its reason, are written into
//! the record by hand; a later run keeps them.
//! Limits: doc tests and the tests of other crates do not count. Constants, patterns, macros and
//! `const fn` have no mutants, because a switch cannot be there. A fault that changes no result,
//! such as one more round of a loop that has converged, cannot be found and still counts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use clap::{Args, value_parser};
use serde_json::{Value, json};

use crate::artifact::{self, Executable};
use crate::process::{self, OutputLine, spinner, tail};
use crate::record::{self, Record};
use crate::workspace::Workspace;
use tool_io::{exit, output};

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
/// Number of attempts to build; each removes the mutants that do not compile.
const MAX_BUILDS: usize = 8;
/// Maximum number of displayed lines of a failing program's output.
const TAIL_LINES: usize = 40;

/// Arguments of `mutants`.
#[derive(Args)]
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
    /// Print the sample, and test no mutant
    #[arg(long)]
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
    /// Duration without a mutant.
    usual: Duration,
    reached: BTreeSet<usize>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    match test_all(options) {
        // Finished mutants are in the file.
        Err(error) if error.is::<process::Interrupted>() => Ok(ExitCode::from(exit::INTERRUPTED)),
        done => done.map(|()| ExitCode::SUCCESS),
    }
}

fn test_all(options: &Options) -> Result<()> {
    let workspace = Workspace::load()?;
    let is_known = |name: &String| PARTS.iter().any(|(package, _)| package == name);
    if let Some(unknown) = options.package.iter().find(|name| !is_known(name)) {
        bail!("mutants: no parts are listed for the crate {unknown}");
    }
    let is_selected = |name: &str| {
        options.package.is_empty() || options.package.iter().any(|package| package == name)
    };
    process::end_children_on_stop()?;
    let out = options
        .out
        .clone()
        .unwrap_or_else(|| workspace.target.join("mutants.jsonl"));
    for (name, parts) in PARTS.iter().filter(|(name, _)| is_selected(name)) {
        let found = workspace
            .packages
            .iter()
            .find(|package| package.name == *name);
        let folder = found
            .context("mutants: a crate of the list is not a member")?
            .folder();
        let sites = sites::find(&workspace.root, folder, parts)?;
        let n_sites = sites.len();
        let sample = sites::sample(sites, options.sample.into(), options.seed);
        if options.list {
            for site in &sample {
                output::print_line(site)?;
            }
            continue;
        }
        let header = json!({
            "package": name, "seed": options.seed, "sample": sample.len(), "sites": n_sites,
        });
        let tested = test(&workspace, name, sample, &header, &out)?;
        if options.record {
            record(&workspace, options, name, n_sites, &tested, &out)?;
        }
    }
    if !options.list {
        summarise(&out)?;
    }
    Ok(())
}

/// Tests the mutants of a crate that the file of results does not contain. Returns the texts of the
/// sample, without mutants that do not compile.
fn test(
    workspace: &Workspace,
    package: &str,
    mut sample: Vec<Site>,
    header: &Value,
    out: &Path,
) -> Result<BTreeSet<String>> {
    let done = known(out)?;
    let is_new = |site: &Site| !done.contains(&site.to_string());
    if !sample.iter().any(is_new) {
        return Ok(sample.iter().map(Site::to_string).collect());
    }
    let tree = Tree::copy(workspace)?;
    let executables = build(workspace, &tree, package, &mut sample)?;
    let programs = run_without_mutants(workspace, executables)?;
    let mut file = OpenOptions::new().create(true).append(true).open(out)?;
    writeln!(file, "{header}")?;
    for (number, site) in sample.iter().enumerate().filter(|(_, site)| is_new(site)) {
        let start = Instant::now();
        let (fate, by) = fate(&programs, number)?;
        let elapsed_s = start.elapsed().as_secs_f64();
        let line = json!({
            "package": package,
            "mutant": site.to_string(),
            "fate": fate.name(),
            "by": by,
            "elapsed_s": (elapsed_s * 10.0).round() / 10.0,
        });
        writeln!(file, "{line}")?;
        output::print_line(format_args!("{:11} {elapsed_s:6.1} s  {site}", fate.name()))?;
    }
    Ok(sample.iter().map(Site::to_string).collect())
}

/// Builds the tests with all mutants behind switches. Mutants that do not compile are removed from
/// the sample.
fn build(
    workspace: &Workspace,
    tree: &Tree,
    package: &str,
    sample: &mut Vec<Site>,
) -> Result<Vec<Executable>> {
    let files: BTreeSet<PathBuf> = sample.iter().map(|site| site.file.clone()).collect();
    for _ in 0..MAX_BUILDS {
        let placed = tree.mutate(workspace, package, &files, sample)?;
        let mut cargo = tree.cargo(workspace);
        cargo
            .args([
                "test",
                "--no-run",
                "--package",
                package,
                "--message-format=json",
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
    let mut programs = Vec::new();
    for executable in executables {
        // A file that is not there is an empty list.
        let _ = fs::remove_file(&reached);
        let start = Instant::now();
        let bar = spinner(format!("running {}", executable.target));
        let finished = process::watch(command(&executable).env(REACHED, &reached), |_| ())?;
        bar.finish_and_clear();
        ensure!(
            finished.status.success(),
            "mutants: the tests of {} fail without a mutant\n{}",
            executable.target,
            tail(&finished.out, TAIL_LINES)
        );
        let numbers = fs::read_to_string(&reached).unwrap_or_default();
        programs.push(Program {
            executable,
            usual: start.elapsed(),
            reached: numbers
                .lines()
                .filter_map(|line| line.parse().ok())
                .collect(),
        });
    }
    programs.sort_by_key(|program| program.usual);
    Ok(programs)
}

/// Returns the command of a test program, in the folder of its package.
fn command(executable: &Executable) -> Command {
    let mut command = Command::new(&executable.path);
    // The same random programs each time, so that a score can be repeated.
    command.env("PROGRAM_SEED", "1");
    if let Some(folder) = executable.manifest.parent() {
        command
            .current_dir(folder)
            .env("CARGO_MANIFEST_DIR", folder);
    }
    command
}

/// Tests a mutant. Returns the program that found it, too.
fn fate(programs: &[Program], number: usize) -> Result<(Fate, Option<&str>)> {
    let mut is_reached = false;
    for program in programs
        .iter()
        .filter(|program| program.reached.contains(&number))
    {
        is_reached = true;
        let limit = program.usual * TIME_FACTOR + MIN_LIMIT;
        let mut command = command(&program.executable);
        command.env(MUTANT, number.to_string());
        let mut has_failed = false;
        let status = process::run_until(&mut command, limit, |line| {
            has_failed |= matches!(line, OutputLine::Out(text) if is_failure(text));
            has_failed
        })?;
        let by = Some(program.executable.target.as_str());
        match status {
            _ if has_failed => return Ok((Fate::Found, by)),
            None => return Ok((Fate::TimedOut, by)),
            Some(status) if !status.success() => return Ok((Fate::Found, by)),
            Some(_) => {}
        }
    }
    let fate = if is_reached {
        Fate::Survived
    } else {
        Fate::NotReached
    };
    Ok((fate, None))
}

/// Returns whether a line of a test program reports a failed test.
fn is_failure(line: &str) -> bool {
    line.starts_with("test ") && line.ends_with("... FAILED")
}

/// Returns the mutants of a file of results.
fn known(out: &Path) -> Result<BTreeSet<String>> {
    Ok(lines(out)?
        .iter()
        .filter_map(|line| Some(line["mutant"].as_str()?.to_owned()))
        .collect())
}

/// Reads a file of results; a line that was cut off by an interrupt is left out.
fn lines(out: &Path) -> Result<Vec<Value>> {
    let Ok(file) = File::open(out) else {
        return Ok(Vec::new());
    };
    let lines = BufReader::new(file).lines();
    let lines = lines
        .collect::<Result<Vec<_>, _>>()
        .with_context(|| out.display().to_string())?;
    Ok(lines
        .iter()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect())
}

/// Writes the row of a crate to the record. Verdicts and reasons are those of the row before.
fn record(
    workspace: &Workspace,
    options: &Options,
    package: &str,
    n_sites: usize,
    tested: &BTreeSet<String>,
    out: &Path,
) -> Result<()> {
    let record = Record::open(workspace, "mutants", "package");
    let before = record.row(package)?.unwrap_or_default();
    let (mut counts, mut unfound, mut elapsed_s) = (BTreeMap::new(), Vec::new(), 0.0);
    for line in lines(out)? {
        let (Some(mutant), Some(fate)) = (line["mutant"].as_str(), line["fate"].as_str()) else {
            continue;
        };
        if !tested.contains(mutant) {
            continue;
        }
        *counts.entry(fate.to_owned()).or_insert(0) += 1;
        elapsed_s += line["elapsed_s"].as_f64().unwrap_or(0.0);
        if !is_found(fate) {
            unfound.push(judged(mutant, fate, &before));
        }
    }
    let command = format!(
        "cargo xtask mutants --package {package} --sample {} --seed {} --record",
        options.sample, options.seed
    );
    let mut row = record::circumstances(&workspace.root, &command);
    let n_equivalent = unfound
        .iter()
        .filter(|one| one["verdict"] == EQUIVALENT)
        .count();
    let entries = [
        ("package", json!(package)),
        ("places", json!(n_sites)),
        ("sample", json!(tested.len())),
        ("fates", json!(counts)),
        ("equivalent", json!(n_equivalent)),
        ("elapsed_s", json!(elapsed_s.round())),
        ("unfound", json!(unfound)),
    ];
    row.extend(entries.map(|(key, value)| (key.to_owned(), value)));
    record.put(row.into())
}

/// Returns the entry of an unfound mutant, with verdict and reason of the same mutant in the row
/// before.
fn judged(mutant: &str, fate: &str, before: &Value) -> Value {
    let known = before["unfound"].as_array().into_iter().flatten();
    let known = known.into_iter().find(|known| {
        let text = known["mutant"].as_str().unwrap_or_default();
        without_line(text) == without_line(mutant)
    });
    let text = |key: &str| {
        known
            .and_then(|known| known[key].as_str())
            .unwrap_or_default()
    };
    json!({
        "mutant": mutant, "fate": fate, "verdict": text("verdict"), "reason": text("reason"),
    })
}

/// Returns file and change of a mutant, since its line changes with the code above.
fn without_line(mutant: &str) -> Option<(&str, &str)> {
    let (file, rest) = mutant.split_once(':')?;
    Some((file, rest.split_once(':')?.1))
}

/// Returns whether a test has found a mutant with a fate.
fn is_found(fate: &str) -> bool {
    fate == Fate::Found.name() || fate == Fate::TimedOut.name()
}

/// Prints the score of each crate, and the mutants that no test has found.
fn summarise(out: &Path) -> Result<()> {
    let mut counts: BTreeMap<String, [usize; 2]> = BTreeMap::new();
    let mut left: Vec<String> = Vec::new();
    for line in lines(out)? {
        let (Some(package), Some(mutant), Some(fate)) = (
            line["package"].as_str(),
            line["mutant"].as_str(),
            line["fate"].as_str(),
        ) else {
            continue;
        };
        let is_found = is_found(fate);
        let [found, all] = counts.entry(package.to_owned()).or_default();
        *found += usize::from(is_found);
        *all += 1;
        if !is_found {
            left.push(format!("{fate}: {mutant}"));
        }
    }
    for line in left {
        output::print_line(line)?;
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
    fn a_verdict_stays_when_the_line_changes() {
        let before = json!({ "unfound": [
            { "mutant": "a.rs:7: `<` to `<=`", "verdict": "equivalent", "reason": "why" },
        ] });
        let known = judged("a.rs:9: `<` to `<=`", "survived", &before);
        assert_eq!([&known["verdict"], &known["reason"]], ["equivalent", "why"]);
        let new = judged("b.rs:7: `<` to `<=`", "survived", &before);
        assert_eq!([&new["verdict"], &new["reason"]], ["", ""]);
    }

    #[test]
    fn only_a_reported_failure_ends_a_test_program() {
        assert!(is_failure("test plan::a_plan_is_small ... FAILED"));
        assert!(!is_failure("test plan::a_plan_is_small ... ok"));
        assert!(!is_failure("FAILED"));
    }

    #[test]
    fn every_unfound_mutant_of_the_record_has_a_verdict_and_a_reason() {
        let workspace = Workspace::load().unwrap();
        for row in Record::open(&workspace, "mutants", "package")
            .rows()
            .unwrap()
        {
            for one in row["unfound"].as_array().unwrap() {
                let text = |key: &str| one[key].as_str().unwrap();
                assert!([EQUIVALENT, OPEN].contains(&text("verdict")), "{one}");
                assert!(!text("reason").is_empty(), "{one}");
            }
        }
    }
}
