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
//! the record by hand. A later run keeps them for the mutants that are unfound again. It is an
//! error if the sample of a run to record lacks a mutant with a verdict.
//! Limits: the tests need an adapter that is found without the drivers that `cargo xtask adapters`
//! fetches. Doc tests and the tests of other crates do not count. Constants, patterns, macros and
//! `const fn` have no mutants, because a switch cannot be there. A fault that changes no result,
//! such as one more round of a loop that has converged, cannot be found and still counts.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, Result};
use clap::{Args, value_parser};
use serde_json::{Value, json};

use crate::lock::Lock;
use crate::process;
use crate::record::{self, Record};
use crate::workspace::Workspace;
use tool_io::{commit, exit, output};

mod programs;
mod sites;
mod tree;
mod verdicts;

use programs::Fate;
use sites::{Site, Sources};
use tree::{MAX_SAMPLE, Tree};
use verdicts::EQUIVALENT;

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

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    match test_all(options) {
        // Finished mutants are in the file.
        Err(error) if error.is::<process::Interrupted>() => Ok(ExitCode::from(exit::INTERRUPTED)),
        done => done,
    }
}

/// Draws the samples of the selected crates, and prints or tests them.
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
    let samples = samples(&workspace, options)?;
    if let Some(pattern) = &options.only
        && samples.iter().all(|sample| sample.mutants.is_empty())
    {
        output::note(format_args!(
            "error: mutants: no mutant of the sample matches {pattern:?}"
        ));
        return Ok(ExitCode::from(exit::USAGE));
    }
    if options.list {
        for site in samples.iter().flat_map(|sample| &sample.mutants) {
            output::print_line(site)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    process::end_children_on_stop()?;
    let run = Run {
        commit: commit::checked_out(&workspace.root),
        record: Record::open(&workspace, "mutants", "package")?,
        options,
        workspace: &workspace,
    };
    if options.record {
        run.record.check_writable()?;
        for sample in &samples {
            let before = run.record.row(sample.package)?.unwrap_or_default();
            verdicts::check_sample(sample.package, &names(&sample.mutants), &before)?;
        }
    }
    // Two runs would share the copy of the workspace and the names of the test programs.
    let _lock = Lock::take(&workspace.target, "mutants")?;
    let mut all = Vec::new();
    for sample in samples {
        let (package, sites) = (sample.package, names(&sample.sources.sites));
        let tested = run.test(sample)?;
        if options.record {
            run.record(package, &sites, &tested)?;
        }
        all.extend(tested);
    }
    summarise(&all)?;
    Ok(ExitCode::SUCCESS)
}

/// The mutants of a crate that are tested.
struct Sample {
    package: &'static str,
    sources: Sources,
    mutants: Vec<Site>,
}

/// Draws the samples of the selected crates.
fn samples(workspace: &Workspace, options: &Options) -> Result<Vec<Sample>> {
    let is_selected = |name: &str| {
        options.package.is_empty() || options.package.iter().any(|package| package == name)
    };
    let selected = PARTS.into_iter().filter(|(name, _)| is_selected(name));
    let samples = selected.map(|(package, parts)| {
        let folder = workspace.package(package)?.folder();
        let sources = sites::find(&workspace.root, folder, parts)?;
        let mut mutants = sites::sample(&sources.sites, options.sample.into(), options.seed);
        if let Some(pattern) = &options.only {
            mutants.retain(|site| site.to_string().contains(pattern));
        }
        Ok(Sample {
            package,
            sources,
            mutants,
        })
    });
    samples.collect()
}

/// Returns the names of places, as in the record.
fn names(sites: &[Site]) -> Vec<String> {
    sites.iter().map(Site::to_string).collect()
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
    /// of the sample, without mutants that do not compile.
    fn test(&self, sample: Sample) -> Result<Vec<Value>> {
        let (package, texts, mut sample) = (sample.package, sample.sources.texts, sample.mutants);
        let out = match &self.options.out {
            Some(out) => out.clone(),
            None => self.workspace.target.join("mutants.jsonl"),
        };
        let (mut results, is_cut_off) = known(&out, self.commit.as_deref())?;
        if sample
            .iter()
            .all(|site| results.contains_key(&site.to_string()))
        {
            return Ok(of_sample(&sample, results));
        }
        if sample.is_empty() {
            return Ok(Vec::new());
        }
        let file = OpenOptions::new().create(true).append(true).open(&out);
        let mut file = file.with_context(|| format!("mutants: {}", out.display()))?;
        let tree = Tree::copy(self.workspace)?;
        let executables = programs::build(self.workspace, &tree, package, &texts, &mut sample)?;
        let mut programs = programs::run_without_mutants(self.workspace, executables)?;
        if is_cut_off {
            file.write_all(b"\n")?;
        }
        for (number, site) in sample.iter().enumerate() {
            let text = site.to_string();
            if results.contains_key(&text) {
                continue;
            }
            let start = Instant::now();
            let (fate, by) = programs::fate(&mut programs, number)?;
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
    fn record(&self, package: &str, sites: &[String], tested: &[Value]) -> Result<()> {
        let before = self.record.row(package)?.unwrap_or_default();
        let (mut counts, mut unfound, mut elapsed_s) = (BTreeMap::new(), Vec::new(), 0.0);
        for result in tested {
            let [mutant, fate] =
                ["mutant", "fate"].map(|key| result[key].as_str().unwrap_or_default());
            *counts.entry(fate.to_owned()).or_insert(0) += 1;
            elapsed_s += result["elapsed_s"].as_f64().unwrap_or(0.0);
            if !is_found(fate) {
                unfound.push(verdicts::judged(mutant, fate, sites, &before));
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

/// Returns the results of a sample, in its order.
fn of_sample(sample: &[Site], mut results: BTreeMap<String, Value>) -> Vec<Value> {
    sample
        .iter()
        .filter_map(|site| results.remove(&site.to_string()))
        .collect()
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
}
