//! `cluster sweep`: the lines of a file as commands.
//!
//! Method: a task is a line, which the shell runs. Standard output and errors go to two files of
//! the task. Variables of the launcher are removed, because a program that is built with MPI would
//! otherwise take itself for a rank of this job.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result};
use cluster::Cluster;
use lexopt::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::options::Common;
use super::summary::Summary;
use super::{Parsed, Run};

pub(super) const HELP: &str = "\
cluster sweep: run the lines of a file as commands, as many at a time as there are ranks

usage: mpirun -n RANKS cluster sweep FILE [--output FOLDER] [OPTIONS]

  FILE               a command in each line; empty lines and lines that begin with # do not count. `sh -c` runs a line
                     in the current folder, with its number, from 1, in the variable TASK
  --output FOLDER    write standard output and standard error of line N to FOLDER/N.out and FOLDER/N.err
                     (default: sweep)

and the options of all commands (cluster --help). A command that ends with another code than 0 is a finished task:
with --journal it does not run again. Exit status: 0 if all commands ended with code 0.
";

/// The beginnings of the names of launchers' variables.
const LAUNCHER: [&str; 6] = ["OMPI_", "PMIX_", "PMI_", "PRTE_", "HYDRA_", "HYDI_"];

#[derive(Debug)]
struct Options {
    file: PathBuf,
    output: PathBuf,
}

/// The result of a task.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Ended {
    /// The exit code; `None` if a signal ended the command.
    code: Option<i32>,
    elapsed_s: f64,
}

pub(super) fn parse(args: Vec<OsString>) -> Parsed {
    let mut common = Common::default();
    let (mut file, mut output) = (None, PathBuf::from("sweep"));
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(argument) = parser.next()? {
        match argument {
            Value(value) if file.is_none() => file = Some(value.into()),
            Long("output") => output = parser.value()?.into(),
            Long(other) => {
                let other = other.to_owned();
                common.take(&other, &mut parser)?;
            }
            other => return Err(other.unexpected()),
        }
    }
    let options = Options {
        file: file.ok_or("the file of commands is missing")?,
        output,
    };
    let run: Run = Box::new(move |cluster, common| run(&options, cluster, common));
    Ok((common, run))
}

fn run(options: &Options, cluster: &Cluster, common: &Common) -> Result<Summary> {
    let lines = cluster.agree("sweep", prepare(options))?;
    let text = lines.join("\n");
    let checksum = crc32fast::hash(text.as_bytes());
    let description = format!("sweep of {} commands, checksum {checksum:08x}", lines.len());
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
    let text = fs::read_to_string(&options.file).with_context(|| format!("cannot read {shown}"))?;
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let folder = options.output.display();
    fs::create_dir_all(&options.output).with_context(|| format!("cannot create {folder}"))?;
    Ok(lines.map(str::to_owned).collect())
}

/// Runs a command.
fn shell(line: &str, number: usize, folder: &Path) -> Result<Ended> {
    let file = |extension: &str| {
        let path = folder.join(format!("{number}.{extension}"));
        File::create(&path).with_context(|| format!("cannot write {}", path.display()))
    };
    let mut command = Command::new("sh");
    command
        .args(["-c", line])
        .env("TASK", number.to_string())
        .stdin(Stdio::null())
        .stdout(file("out")?)
        .stderr(file("err")?);
    for (name, _) in env::vars_os() {
        if LAUNCHER
            .iter()
            .any(|begin| name.to_string_lossy().starts_with(begin))
        {
            command.env_remove(name);
        }
    }
    let from = Instant::now();
    let status = command.status().context("cannot start `sh`")?;
    Ok(Ended {
        code: status.code(),
        elapsed_s: from.elapsed().as_secs_f64(),
    })
}
