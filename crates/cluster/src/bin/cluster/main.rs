//! The program `cluster`: long jobs on the ranks of an MPI job.
//!
//! Role: started by `mpirun` or `srun`, it runs a list of tasks or a training on all ranks. Rank 0
//! prints the results.
//! Method: `options` contains the options that all commands share. Each command has a module with
//! its options, whose `Work` returns a `Summary`.

mod descriptors;
mod games;
mod options;
mod similarity;
mod summary;
mod sweep;
mod tasks;
mod trace;
mod train;

use std::env;
use std::ffi::OsString;
use std::io::{BufRead as _, Write as _};
use std::process::ExitCode;

use anyhow::{Context as _, Result, anyhow};
use clap::error::ErrorKind;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use cluster::Cluster;
use tool_io::{exit, output};

use options::Common;
use summary::Summary;
use trace::Tracing;

/// Run a long job on the ranks of an MPI job
///
/// Started by `mpirun -n RANKS cluster COMMAND` or by `srun cluster COMMAND`.
#[derive(Parser)]
#[command(
    name = "cluster",
    after_help = "`cluster COMMAND --help` prints the options of the command, and those that all commands share.\n\n\
                  Exit codes: 0 if all tasks succeeded; 1 otherwise; 2 for wrong usage."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Similarity(similarity::Options),
    Games(games::Options),
    Train(train::Options),
    Sweep(sweep::Options),
    Tasks(tasks::Options),
}

/// The work of a command, on every rank.
trait Work {
    /// Returns the options that all commands share.
    fn common(&self) -> &Common;

    /// Returns the reason if options contradict each other.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// Runs the command.
    fn run(&self, cluster: &Cluster) -> Result<Summary>;
}

/// A command line, before it is carried out.
enum Request {
    /// Print a text.
    Print(String),
    Run(Box<dyn Work>),
    /// The command line is wrong.
    Wrong(String),
}

fn main() -> ExitCode {
    let request = parse(env::args_os());
    let is_parallel = cluster::launched().is_some_and(|(_, n_processes)| n_processes > 1);
    match request {
        // A single process needs no MPI for these.
        Request::Print(text) if !is_parallel => print(&text),
        Request::Wrong(problem) if !is_parallel => wrong_usage(&problem),
        request => start(request),
    }
}

fn parse(args: impl IntoIterator<Item = OsString>) -> Request {
    match checked(args) {
        Ok(work) => Request::Run(work),
        Err(error) if error.use_stderr() => Request::Wrong(error.to_string()),
        // The text of the version has no line end.
        Err(help) => Request::Print(format!("{}\n", help.to_string().trim_end())),
    }
}

fn checked(args: impl IntoIterator<Item = OsString>) -> Result<Box<dyn Work>, clap::Error> {
    let version = format!("{} ({})", env!("CARGO_PKG_VERSION"), cluster::library());
    let mut cli = Cli::command().version(version);
    let matches = cli.try_get_matches_from_mut(args)?;
    let work: Box<dyn Work> = match Cli::from_arg_matches(&matches)?.command {
        Command::Similarity(options) => Box::new(options),
        Command::Games(options) => Box::new(options),
        Command::Train(options) => Box::new(options),
        Command::Sweep(options) => Box::new(options),
        Command::Tasks(options) => Box::new(options),
    };
    let Err(problem) = work.check() else {
        return Ok(work);
    };
    // The error shows the usage of the command.
    let name = matches.subcommand_name().unwrap_or_default();
    let error = |cli: &mut clap::Command| cli.error(ErrorKind::ArgumentConflict, &problem);
    Err(match cli.find_subcommand_mut(name) {
        Some(command) => error(command),
        None => error(&mut cli),
    })
}

/// Starts the cluster and carries out a request.
fn start(request: Request) -> ExitCode {
    let cluster = match Cluster::start() {
        Ok(cluster) => cluster,
        Err(error) => {
            output::note(format_args!("error: cluster: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let is_first = cluster.rank() == 0;
    let fail = |error: &anyhow::Error| {
        // All ranks have the error. The error of rank 0 may contain only the number of the failed
        // rank and its message.
        if is_first {
            output::note(format_args!("error: cluster: {}", text_of(error)));
        }
        ExitCode::FAILURE
    };
    // The command lines are compared before one of them is carried out, so that no rank waits for
    // a rank with another command line.
    let args = env::args_os().skip(1);
    // This form shows where an argument ends, and bytes that are not UTF-8.
    let args = format!("{:?}", args.collect::<Vec<_>>());
    if let Err(error) = cluster.check_same("cluster", "command line", &args) {
        return fail(&error.into());
    }
    match request {
        Request::Print(text) if is_first => print(&text),
        Request::Wrong(problem) if is_first => wrong_usage(&problem),
        Request::Print(_) => ExitCode::SUCCESS,
        Request::Wrong(_) => ExitCode::from(exit::USAGE),
        Request::Run(work) => match on_ranks(&cluster, &*work) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => fail(&error),
        },
    }
}

/// Runs a command and prints its summary on rank 0. Returns whether all tasks succeeded.
fn on_ranks(cluster: &Cluster, work: &dyn Work) -> Result<bool> {
    let common = work.common();
    agree(cluster, common.prepare(cluster))?;
    let mut is_good = true;
    loop {
        let tracing = Tracing::start(&common.trace, cluster)?;
        let before = cluster.traffic();
        let summary = work.run(cluster)?;
        let summary = summary.with_traffic(cluster.traffic() - before);
        let summary = summary.with_energy(tracing.end(cluster)?);
        is_good &= summary.is_good();
        let printed = match (cluster.rank(), common.is_json) {
            (0, true) => output::print(summary.json(cluster)).map_err(anyhow::Error::from),
            (0, false) => output::print(summary.text(cluster)).map_err(anyhow::Error::from),
            _ => Ok(()),
        };
        // The end of MPI waits in a loop that occupies a core, so all ranks get there together.
        agree(cluster, printed)?;
        if !(common.repeats && is_requested_again(cluster)?) {
            return Ok(is_good);
        }
    }
}

/// Returns `result` if it is `Ok` on all ranks, and an error on each rank otherwise.
fn agree<T>(cluster: &Cluster, result: Result<T>) -> Result<T> {
    cluster.agree("cluster", result.map_err(|error| anyhow!(text_of(&error))))
}

/// Returns the text of an error and of its causes. Many errors contain the text of their cause,
/// which is not repeated.
fn text_of(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Waits for a line of standard input on rank 0. Returns on all ranks whether it requests another
/// run.
fn is_requested_again(cluster: &Cluster) -> Result<bool> {
    let mut line = vec![];
    let read = match cluster.rank() {
        0 => std::io::stdin().lock().read_until(b'\n', &mut line),
        _ => Ok(0),
    };
    let n_bytes = agree(cluster, read.context("cannot read standard input"))?;
    let requests = n_bytes > 0 && !String::from_utf8_lossy(&line).contains("quit");
    Ok(cluster.exchange("cluster", &requests)?[0])
}

fn print(text: &str) -> ExitCode {
    match output::print(text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn wrong_usage(problem: &str) -> ExitCode {
    // A standard error that is closed or full does not change the exit code.
    let _ = std::io::stderr().write_all(problem.as_bytes());
    ExitCode::from(exit::USAGE)
}
