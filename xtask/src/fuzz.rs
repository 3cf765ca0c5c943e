//! `cargo xtask fuzz`: runs the fuzz targets of the crate `fuzz` under libFuzzer.
//!
//! Role: builds the targets with counters at the edges of the code, runs each for a number of
//! executions, and reports executions, times, coverage and memory.
//! Method: `cargo fuzz` builds each target twice; the programs are then started directly. The
//! executions run without a sanitizer, which is faster, in slices of a few minutes: a run that was
//! interrupted goes on after its last finished slice. The corpus that grows during a run is in
//! cargo's target folder, in addition to the small corpus in `fuzz/corpus`. Each slice begins with
//! the corpus; these executions are not counted. A run begins with the failing inputs of earlier
//! runs, and fails as long as one of them fails. After the run, the whole corpus is replayed with
//! `AddressSanitizer`, which detects errors of memory and finds the names of the covered functions.
//! Edges count if their function is in a file of this workspace and at least one of its edges was
//! reached, so that code which a target never calls does not count.
//! Limits: a function that was compiled into a caller counts as part of the caller; a generic
//! function of this workspace counts once for each of its instances.

use std::collections::VecDeque;
use std::env;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use clap::{Args, value_parser};
use serde_json::{Map, Value, json};
use tool_io::{TemporaryFolder, commit, exit, output};

use crate::lock::Lock;
use crate::process::{self, Finished, Interrupted, OutputLine, nightly, spinner, tail};
use crate::record::{self, Record};
use crate::workspace::Workspace;

mod libfuzzer;
mod progress;

use libfuzzer::{Coverage, Statistics};
use progress::Progress;

/// The folder of the crate, relative to the root.
const FOLDER: &str = "fuzz";
/// The target triple that `cargo fuzz` builds for by default.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";
/// Duration of a slice, in s.
const SLICE_S: u32 = 300;
/// Time limit of one execution, in s.
const TIMEOUT_S: u32 = 20;
/// Limit of the memory of a process, in MiB.
const MEMORY_LIMIT_MIB: u32 = 2048;
/// Limit of one allocation, in MiB.
const ALLOCATION_LIMIT_MIB: u32 = 256;
/// Executions of empty inputs before the corpus, at most.
const EMPTY_INPUTS: u64 = 2;
/// Largest number of executions of a slice: libFuzzer reads a signed number of 32 bits.
const MAX_RUNS: u64 = i32::MAX as u64;
/// Maximum length of an input, in bytes.
const MAX_INPUT_BYTES: u32 = 4096;
/// Maximum number of files, and of bytes, that a target adds to the committed corpus.
const SAVED: (usize, u64) = (20, 20 << 10);
/// Number of hexadecimal digits in the names that libFuzzer gives to inputs.
const HASH_DIGITS: usize = 40;
/// Maximum number of displayed lines of a failing program's output.
const TAIL_LINES: usize = 60;
/// Outcome of a target that found no fault.
const PASSED: &str = "passed";
/// Outcome of a target that found a fault.
const FAILED: &str = "failed";
/// Program that finds the names and files of functions.
const SYMBOLIZER: &str = "llvm-symbolizer";

/// Arguments of `fuzz`.
#[derive(Args)]
#[command(after_help = "\
Requires the nightly toolchain (`rustup toolchain install nightly`), cargo-fuzz (`cargo install
cargo-fuzz --locked`), a C++ compiler, and llvm-symbolizer (on Debian `apt-get install llvm`).

The growing corpus and failing inputs are in fuzz/corpus and fuzz/artifacts of cargo's target
folder. Exit codes: 0; 1 if a target failed; 2 for wrong usage; 130 if interrupted.")]
pub(crate) struct Options {
    /// Targets to run [default: all]
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// Executions of each target
    #[arg(long, value_name = "N", default_value_t = 10_000_000, value_parser = value_parser!(u64).range(1..))]
    executions: u64,
    /// Targets that run at the same time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u16).range(1..))]
    jobs: u16,
    /// Print the targets, and run none
    #[arg(long, conflicts_with = "record")]
    list: bool,
    /// Replace the rows of the targets in xtask/record/fuzz.json
    #[arg(long)]
    record: bool,
    /// Replace the inputs in fuzz/corpus that have a hash as name by a small part of the corpus
    #[arg(long)]
    save_corpus: bool,
}

/// The two builds of each target.
#[derive(Clone, Copy)]
enum Build {
    /// The build that runs the executions: only panics, time and memory are checked.
    Fast,
    /// The build with `AddressSanitizer`, which detects errors of memory and finds the names of
    /// functions.
    Checked,
}

/// The error of a target that found a fault.
#[derive(Debug)]
struct Fault {
    /// The executions up to the fault.
    progress: Progress,
    /// The last lines of the target's output, with the folder of the failing input.
    text: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Fault {}

/// The result of a target that found no fault.
struct Done {
    progress: Progress,
    coverage: Coverage,
    corpus_files: usize,
    corpus_bytes: u64,
}

/// Folders and build of the targets.
struct Programs {
    /// Folder of the executables, in a folder for each build.
    executables: PathBuf,
    /// Folder of the committed corpus.
    seeds: PathBuf,
    /// Folder of the growing corpus.
    corpus: PathBuf,
    /// Folder of failing inputs.
    artifacts: PathBuf,
    /// Folder of the files of [`Progress`].
    progress: PathBuf,
    /// Root of the workspace.
    root: PathBuf,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    match run_all(options) {
        Err(error) if error.is::<Interrupted>() => Ok(ExitCode::from(exit::INTERRUPTED)),
        done => done,
    }
}

fn run_all(options: &Options) -> Result<ExitCode> {
    let workspace = Workspace::load()?;
    let known = targets(&workspace.root)?;
    if let Some(unknown) = options.targets.iter().find(|name| !known.contains(name)) {
        output::note(format_args!(
            "error: fuzz: no target has the name {unknown:?} (targets: {})",
            known.join(" ")
        ));
        return Ok(ExitCode::from(exit::USAGE));
    }
    let is_selected = |name: &String| options.targets.is_empty() || options.targets.contains(name);
    let selected: Vec<String> = known.into_iter().filter(is_selected).collect();
    if options.list {
        selected.iter().try_for_each(output::print_line)?;
        return Ok(ExitCode::SUCCESS);
    }
    process::end_children_on_stop()?;
    let commit = commit::checked_out(&workspace.root);
    let circumstances = circumstances(commit.as_deref())?;
    let record = Record::open(&workspace, "fuzz", "target")?;
    if options.record {
        record.check_writable()?;
    }
    let _lock = Lock::take(&workspace.target.join(FOLDER), "fuzz")?;
    let programs = Programs::build(&workspace, &selected)?;
    let n_jobs = selected.len().min(options.jobs.into());
    let queue = Mutex::new(VecDeque::from(selected));
    let faults = thread::scope(|scope| {
        let work = || -> Result<Vec<String>> {
            let next = || {
                queue
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .pop_front()
            };
            let mut faults = vec![];
            while let Some(name) = next() {
                let row = match programs.run(&name, options.executions, commit.as_deref()) {
                    Ok(done) => done.row(),
                    // Other errors, such as a full disk, are no fault of the target.
                    Err(error) => {
                        let fault = error.downcast::<Fault>()?;
                        output::print_line(format_args!("{name}: {fault}"))?;
                        fault.row()
                    }
                };
                let row = named_row(&name, options.executions, &circumstances, row);
                if options.record {
                    let _lock = queue.lock();
                    record.put(row.clone())?;
                }
                if row["outcome"] == FAILED {
                    faults.push(name);
                    continue;
                }
                output::print_line(line(&row))?;
                if options.save_corpus {
                    programs.save_corpus(&name)?;
                }
            }
            Ok(faults)
        };
        let workers: Vec<_> = (0..n_jobs).map(|_| scope.spawn(work)).collect();
        let mut faults = vec![];
        for worker in workers {
            faults.extend(
                worker
                    .join()
                    .map_err(|_| anyhow::anyhow!("fuzz: a thread panicked"))??,
            );
        }
        anyhow::Ok(faults)
    })?;
    if faults.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    output::print_line(format_args!("failed: {}", faults.join(" ")))?;
    Ok(ExitCode::from(exit::FAILURE))
}

/// Returns the names of the targets, which are those of the programs' files.
fn targets(root: &Path) -> Result<Vec<String>> {
    let folder = root.join(FOLDER).join("fuzz_targets");
    let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    let mut names = vec![];
    for entry in entries {
        let name = entry?.file_name();
        let name = name.to_str().and_then(|name| name.strip_suffix(".rs"));
        names.extend(name.map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

/// Returns the entries of all rows of a run: commit, versions and machine.
fn circumstances(commit: Option<&str>) -> Result<Map<String, Value>> {
    let rustc = process::output(nightly("rustc").arg("--version"))
        .context("fuzz: the nightly toolchain is missing (`rustup toolchain install nightly`)")?;
    let cargo_fuzz = process::output(nightly("cargo").args(["fuzz", "--version"]))
        .context("fuzz: cargo-fuzz is missing (`cargo install cargo-fuzz --locked`)")?;
    ensure!(
        process::find_in_path(&[SYMBOLIZER]).is_some(),
        "fuzz: {SYMBOLIZER} was not found in PATH (Debian: `apt-get install llvm`)"
    );
    let mut entries = record::circumstances(commit, "cargo xtask fuzz");
    entries.insert("rustc".to_owned(), json!(rustc));
    entries.insert("cargo_fuzz".to_owned(), json!(cargo_fuzz));
    Ok(entries)
}

impl Build {
    const ALL: [Self; 2] = [Self::Checked, Self::Fast];

    /// Returns the sanitizer, as in the options of `cargo fuzz`.
    fn sanitizer(self) -> &'static str {
        match self {
            Self::Fast => "none",
            Self::Checked => "address",
        }
    }

    /// Returns the level of optimisation. The checked build runs the corpus only once. Compilation
    /// with more optimisation takes longer than it saves there.
    fn optimisation(self) -> &'static str {
        match self {
            Self::Fast => "3",
            Self::Checked => "1",
        }
    }

    /// Returns the options for comparisons. Their traces took half of the time of programs that
    /// compute with large integers.
    fn tracing(self) -> &'static [&'static str] {
        match self {
            Self::Fast => &["--no-trace-compares"],
            Self::Checked => &[],
        }
    }
}

impl Programs {
    /// Builds the selected targets.
    fn build(workspace: &Workspace, selected: &[String]) -> Result<Self> {
        let folder = workspace.target.join(FOLDER);
        let executables = folder.join("programs");
        fs::create_dir_all(folder.join("progress"))?;
        for build in Build::ALL {
            Self::compile(workspace, selected, build)?;
            // The next build has executables of the same names.
            let to = executables.join(build.sanitizer());
            fs::create_dir_all(&to)?;
            for name in selected {
                let built = workspace.target.join(TRIPLE).join("release").join(name);
                let to = to.join(name);
                let copied = fs::copy(&built, &to);
                let context = || format!("cannot copy {} to {}", built.display(), to.display());
                copied.with_context(context)?;
            }
        }
        Ok(Self {
            executables,
            seeds: workspace.root.join(FOLDER).join("corpus"),
            corpus: folder.join("corpus"),
            artifacts: folder.join("artifacts"),
            progress: folder.join("progress"),
            root: workspace.root.clone(),
        })
    }

    fn compile(workspace: &Workspace, selected: &[String], build: Build) -> Result<()> {
        let one = match selected {
            [name] => Some(name),
            _ => None,
        };
        let mut cargo = nightly("cargo");
        cargo
            .current_dir(&workspace.root)
            .args(["fuzz", "build", "--fuzz-dir", FOLDER])
            .args(["--sanitizer", build.sanitizer()])
            .args(build.tracing())
            .args([
                "--features",
                "libfuzzer",
                "--target",
                TRIPLE,
                "--target-dir",
            ])
            .arg(&workspace.target)
            .args(one)
            .env("CARGO_TERM_COLOR", "never")
            .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", build.optimisation())
            // The lines of a function contain the path of its crate.
            .env("CARGO_PROFILE_RELEASE_DEBUG", "line-tables-only")
            // Optimisation across crates takes longer than it saves in a run.
            .env("CARGO_PROFILE_RELEASE_LTO", "off")
            .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
        let bar = spinner("building the targets");
        let built = process::watch(&mut cargo, |line| {
            if let OutputLine::Err(text) = line {
                bar.set_message(text.clone());
            }
        })?;
        bar.finish_and_clear();
        ensure!(
            built.status.success(),
            "fuzz: the build failed\n{}",
            tail(&built.err, TAIL_LINES)
        );
        Ok(())
    }

    /// Runs a target until it has a number of executions of a commit. Without a commit, the
    /// executions of earlier runs do not count.
    ///
    /// # Errors
    /// A [`Fault`] that the target found; a target that executes no new input within a slice;
    /// errors of files and processes.
    fn run(&self, name: &str, executions: u64, commit: Option<&str>) -> Result<Done> {
        let corpus = self.corpus.join(name);
        let artifacts = self.artifacts.join(name);
        fs::create_dir_all(&corpus)?;
        fs::create_dir_all(&artifacts)?;
        let file = self.progress.join(format!("{name}.json"));
        let mut progress = Progress::read(&file, commit);
        if !files(&artifacts)?.is_empty() {
            let mut failing = self.replay(name, Build::Fast);
            self.finish(failing.arg(&artifacts), name, &progress)?;
        }
        while progress.executions < executions {
            let start = Instant::now();
            // The limit of libFuzzer includes the corpus.
            let n_inputs = files(&corpus)?.len() + files(&self.seeds.join(name))?.len();
            let limit = (executions - progress.executions)
                .saturating_add(n_inputs as u64 + EMPTY_INPUTS)
                .min(MAX_RUNS);
            let finished = self.finish(
                self.command(name, Build::Fast)
                    .args([&corpus, &self.seeds.join(name)])
                    .arg(format!("-runs={limit}"))
                    .arg(format!("-max_total_time={SLICE_S}"))
                    .arg(format!("-seed={}", progress.slices + 1))
                    .arg(format!("-max_len={MAX_INPUT_BYTES}"))
                    .arg("-print_final_stats=1"),
                name,
                &progress,
            )?;
            let slice = Statistics::parse(&finished.err)?;
            ensure!(
                slice.executions > 0,
                "fuzz: {name} executed no new input in {SLICE_S} s (corpus: {n_inputs} inputs)"
            );
            progress.add(&slice, start.elapsed());
            progress.write(&file, commit)?;
        }
        let mut replay = self.replay(name, Build::Checked);
        replay
            .args([&corpus, &self.seeds.join(name)])
            .arg("-print_coverage=1");
        let replayed = self.finish(&mut replay, name, &progress)?;
        let coverage = Coverage::parse(&(replayed.out + &replayed.err), &self.root)?;
        ensure!(
            coverage.functions > 0,
            "fuzz: {name}: the coverage has no function of {} (does {SYMBOLIZER} work?)",
            self.root.display()
        );
        let corpus = files(&corpus)?;
        Ok(Done {
            progress,
            coverage,
            corpus_files: corpus.len(),
            corpus_bytes: corpus.iter().map(|(len, _)| len).sum(),
        })
    }

    /// Runs a command of a target to its end, after some executions.
    ///
    /// # Errors
    /// A [`Fault`] that the target found.
    fn finish(&self, command: &mut Command, name: &str, progress: &Progress) -> Result<Finished> {
        let start = Instant::now();
        let bar = spinner(name.to_owned());
        let finished = process::watch(command, |line| {
            if let OutputLine::Err(text) = line {
                bar.set_message(format!("{name}: {text}"));
            }
        })?;
        bar.finish_and_clear();
        if finished.status.success() {
            return Ok(finished);
        }
        let mut progress = progress.clone();
        // Without statistics, the target has executed known inputs only.
        if let Ok(slice) = Statistics::parse(&finished.err) {
            progress.add(&slice, start.elapsed());
        }
        let text = format!(
            "the target failed; its input is in {}\n{}",
            self.artifacts.join(name).display(),
            tail(&finished.err, TAIL_LINES)
        );
        bail!(Fault { progress, text })
    }

    /// Adds a part of the grown corpus to the committed corpus: every n-th input, by length, of the
    /// smallest set with the same coverage. The longest inputs are left out if the part would
    /// exceed its limit of bytes.
    fn save_corpus(&self, name: &str) -> Result<()> {
        let seeds = self.seeds.join(name);
        let merged = TemporaryFolder::create(&self.artifacts, &format!("merged-{name}"))?;
        let mut merge = self.program(name, Build::Fast);
        merge.arg("-merge=1");
        merge.args([merged.path(), &seeds, &self.corpus.join(name)]);
        let finished = process::watch(&mut merge, |_| ())?;
        ensure!(
            finished.status.success(),
            "the merge failed\n{}",
            tail(&finished.err, TAIL_LINES)
        );
        let mut kept = vec![];
        for (_, path) in files(&seeds)? {
            if has_hash_name(&path) {
                fs::remove_file(path)?;
            } else {
                kept.push(fs::read(path)?);
            }
        }
        let (max_files, max_bytes) = SAVED;
        let mut found = files(merged.path())?;
        found.sort();
        let step = found.len().div_ceil(max_files).max(1);
        let mut n_bytes = 0;
        for (len, path) in found.into_iter().step_by(step) {
            n_bytes += len;
            if n_bytes > max_bytes {
                break;
            }
            if let Some(name) = path.file_name()
                && !kept.contains(&fs::read(&path)?)
            {
                fs::copy(&path, seeds.join(name))?;
            }
        }
        Ok(())
    }

    /// Creates the command of a target that executes the inputs of folders, and no new ones.
    fn replay(&self, name: &str, build: Build) -> Command {
        let mut command = self.command(name, build);
        command
            .arg("-runs=0")
            // The targets check everything for each input, not for a part of the inputs.
            .env("FUZZ_ALL", "1");
        command
    }

    /// Creates the command of a target with its limits and the folder of failing inputs.
    fn command(&self, name: &str, build: Build) -> Command {
        let artifacts = self.artifacts.join(name);
        let mut command = self.program(name, build);
        command
            .arg(format!("-timeout={TIMEOUT_S}"))
            .arg(format!("-rss_limit_mb={MEMORY_LIMIT_MIB}"))
            .arg(format!("-malloc_limit_mb={ALLOCATION_LIMIT_MIB}"))
            .arg(format!("-artifact_prefix={}/", artifacts.display()));
        command
    }

    /// Creates the command of a target without options.
    fn program(&self, name: &str, build: Build) -> Command {
        let executables = self.executables.join(build.sanitizer());
        let mut command = Command::new(executables.join(name));
        command
            // A process is measured alone, and its results do not depend on timing.
            .env("RAYON_NUM_THREADS", "1")
            .env("ASAN_OPTIONS", "detect_odr_violation=0");
        // Some readers open files. A file system in memory is faster than a disk.
        let memory = Path::new("/dev/shm");
        if env::var_os("TMPDIR").is_none() && memory.is_dir() {
            command.env("TMPDIR", memory);
        }
        command
    }
}

/// Returns the length, in bytes, and the path of each file in a folder.
fn files(folder: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let mut files = vec![];
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        files.push((entry.metadata()?.len(), entry.path()));
    }
    Ok(files)
}

/// Returns whether a file has a name that libFuzzer gave.
fn has_hash_name(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| {
        name.len() == HASH_DIGITS && name.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

impl Done {
    /// Returns the entries of the record that depend on the target.
    fn row(&self) -> Value {
        let coverage = &self.coverage;
        let own = json!({
            "outcome": PASSED,
            "edges_covered": coverage.edges,
            "edges_of_reached_functions": coverage.all_edges,
            "functions_reached": coverage.functions,
            "edges_covered_with_libraries": coverage.edges_with_libraries,
            "corpus_files": self.corpus_files,
            "corpus_bytes": self.corpus_bytes,
        });
        joined(self.progress.row(), own)
    }
}

impl Fault {
    /// Returns the entries of the record that depend on the target.
    fn row(&self) -> Value {
        joined(self.progress.row(), json!({ "outcome": FAILED }))
    }
}

/// Returns the row of a target for a number of requested executions.
fn named_row(name: &str, requested: u64, circumstances: &Map<String, Value>, own: Value) -> Value {
    let command = format!("cargo xtask fuzz {name} --executions {requested} --record");
    let named = json!({ "target": name, "command": command });
    joined(joined(circumstances.clone().into(), named), own)
}

/// Returns an object with the entries of two objects; an entry of the second replaces one of the
/// same name.
fn joined(mut one: Value, other: Value) -> Value {
    if let (Value::Object(entries), Value::Object(more)) = (&mut one, other) {
        entries.extend(more);
    }
    one
}

/// Returns the line that is printed for a row.
fn line(row: &Value) -> String {
    let number = |key: &str| row[key].to_string();
    format!(
        "{:20} {:>10} executions in {:>8} s ({:>9}/s), {:>6} of {:>6} edges in {:>5} functions, {:>5} MiB, corpus {} files",
        row["target"].as_str().unwrap_or_default(),
        number("executions"),
        number("elapsed_s"),
        number("executions_per_s"),
        number("edges_covered"),
        number("edges_of_reached_functions"),
        number("functions_reached"),
        number("peak_memory_mib"),
        number("corpus_files"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_is_a_target() {
        let names = targets(&crate::workspace::root()).unwrap();
        assert!(names.contains(&"idx".to_owned()), "{names:?}");
    }

    #[test]
    fn every_target_has_passed_in_the_record() {
        let workspace = Workspace::load().unwrap();
        let record = Record::open(&workspace, "fuzz", "target").unwrap();
        let rows = record.rows().unwrap();
        let names: Vec<&str> = rows
            .iter()
            .filter_map(|row| row["target"].as_str())
            .collect();
        assert_eq!(names, targets(&workspace.root).unwrap());
        assert!(rows.iter().all(|row| row["outcome"] == PASSED));
    }

    #[test]
    fn names_that_libfuzzer_gives_are_recognised() {
        let hash = "a/0123456789abcdef0123456789abcdef01234567";
        assert!(has_hash_name(Path::new(hash)));
        for name in ["stag_hunt", "0123456789abcdef", ""] {
            assert!(!has_hash_name(Path::new(name)), "{name}");
        }
    }
}
