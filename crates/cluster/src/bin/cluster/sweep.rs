//! `cluster sweep`: the lines of a file as commands.
//!
//! Method: a task is a line, which the shell runs. Standard output and errors go to two files of
//! the task. Variables of the launcher are removed, because a program that is built with MPI would
//! otherwise start as a rank of this job.

use std::env;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use cluster::{Cluster, LAUNCHER_SIZES};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::options::Common;
use super::summary::Summary;
use super::{Work, agree, descriptors};

/// The exit code of shells for a command that cannot be run.
const CANNOT_RUN: i32 = 126;

/// Shells report a program that a signal ended by this code plus the number of the signal.
const ENDED_BY_SIGNAL: i32 = 128;

/// The signals by which users and schedulers end processes.
const HANGUP: i32 = 1;
const INTERRUPT: i32 = 2;
const KILL: i32 = 9;
const TERMINATE: i32 = 15;

/// The beginnings of the names of launchers' variables. The variables of [`LAUNCHER_SIZES`] are
/// removed as well. Other variables of SLURM stay, because they describe the job to its commands.
const LAUNCHER: [&str; 8] = [
    "OMPI_", "PMIX_", "PMI_", "PRTE_", "HYDRA_", "HYDI_", "MPI_", "MPIR_",
];

/// Run the lines of a file as commands, as many at a time as there are ranks
///
/// A command that ends with another code than 0 is a finished task: with --journal it does not run
/// again. A command that the signal HUP, INT, KILL or TERM ends is not finished, and ends the job;
/// the exit codes 129, 130, 137 and 143, by which shells report these signals, count as well.
/// The exit code is 0 if all commands ended with code 0.
#[derive(Args, Debug)]
#[command(args_override_self = true, allow_negative_numbers = true)]
pub(super) struct Options {
    /// File with a command in each line, in UTF-8
    ///
    /// Empty lines and lines that begin with # do not count. `sh -c` runs a line in the current
    /// folder, with its number, from 1, in the variable TASK.
    file: PathBuf,
    /// Write standard output and standard error of line N to FOLDER/N.out and FOLDER/N.err
    #[arg(long, value_name = "FOLDER", default_value = "sweep")]
    output: PathBuf,
    #[command(flatten)]
    common: Common,
}

impl Work for Options {
    fn common(&self) -> &Common {
        &self.common
    }

    fn check(&self) -> Result<(), String> {
        self.common.without_predictions()
    }

    fn run(&self, cluster: &Cluster) -> Result<Summary> {
        run(self, cluster, &self.common)
    }
}

/// The result of a task.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Ended {
    /// The exit code; `None` if a signal ended the command.
    code: Option<i32>,
    elapsed_s: f64,
}

fn run(options: &Options, cluster: &Cluster, common: &Common) -> Result<Summary> {
    let lines = agree(cluster, prepare(options))?;
    let text = lines.join("\n");
    let checksum = crc32fast::hash(text.as_bytes());
    let description = format!(
        "sweep of {} commands, checksum {checksum:08x}, output {}",
        lines.len(),
        options.output.display()
    );
    let job = common.job(&description, lines.len());
    let mapped = cluster.map(&job, |task| {
        let number = task + 1;
        shell(&lines[task], number, &options.output)
    })?;
    let mut n_failed = 0;
    let results = (1_usize..).zip(&mapped.results);
    let rows = results.map(|(number, ended)| {
        n_failed += u64::from(ended.code != Some(0));
        let code = ended
            .code
            .map_or_else(|| json!("signal"), |code| json!(code));
        vec![json!(number), code, json!(ended.elapsed_s)]
    });
    let rows = rows.collect();
    Ok(Summary::new()
        .with_table(vec!["command", "exit_code", "elapsed_s"], rows)
        .with("commands", lines.len())
        .with("failed_commands", n_failed)
        .with_times(&mapped)
        .with_outcome(n_failed == 0))
}

/// Returns the commands, and creates the folder of their output.
fn prepare(options: &Options) -> Result<Vec<String>> {
    let shown = options.file.display();
    let bytes = fs::read(&options.file).with_context(|| format!("sweep: cannot read {shown}"))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + valid.iter().filter(|&&byte| byte == b'\n').count();
        anyhow!("sweep: {shown}: line {line} is not UTF-8")
    })?;
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let folder = options.output.display();
    fs::create_dir_all(&options.output)
        .with_context(|| format!("sweep: cannot create the folder {folder}"))?;
    close_on_start();
    Ok(lines.map(str::to_owned).collect())
}

/// Marks the open files of this process, other than the standard ones, as closed in commands: a
/// command that goes on in the background would hold the connections of MPI open.
fn close_on_start() {
    let entries = fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    for number in numbers.filter(|&number: &i32| number > 2) {
        descriptors::close_on_start(number);
    }
}

/// Runs a command.
fn shell(line: &str, number: usize, folder: &Path) -> Result<Ended> {
    let file = |extension: &str| {
        let path = folder.join(format!("{number}.{extension}"));
        let context = || format!("command {number}: cannot write {}", path.display());
        File::create(&path).with_context(context)
    };
    let mut errors = file("err")?;
    let mut command = Command::new("sh");
    command
        .args(["-c", line])
        .env("TASK", number.to_string())
        .stdin(Stdio::null())
        .stdout(file("out")?)
        .stderr(errors.try_clone()?);
    for (name, _) in env::vars_os() {
        let mut begins = LAUNCHER.into_iter().chain(LAUNCHER_SIZES);
        if begins.any(|begin| name.to_string_lossy().starts_with(begin)) {
            command.env_remove(name);
        }
    }
    let from = Instant::now();
    let status = match command.status() {
        Ok(status) => status,
        // A line with a zero byte, or too long for the system: as in shells, an exit code.
        Err(error) => {
            writeln!(errors, "cannot start `sh` with this line: {error}")?;
            return Ok(Ended {
                code: Some(CANNOT_RUN),
                elapsed_s: from.elapsed().as_secs_f64(),
            });
        }
    };
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    // A signal that ended a program of the line, and not the shell itself.
    let reported = || status.code().map(|code| code - ENDED_BY_SIGNAL);
    let signal = signal.or_else(reported);
    if let Some(signal @ (HANGUP | INTERRUPT | KILL | TERMINATE)) = signal {
        // Such a signal ends a job, not a command by itself: the line has to run again.
        bail!("command {number} was ended by signal {signal}");
    }
    Ok(Ended {
        code: status.code(),
        elapsed_s: from.elapsed().as_secs_f64(),
    })
}
