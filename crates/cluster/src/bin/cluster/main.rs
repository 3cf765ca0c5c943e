//! The program `cluster`: long jobs on the ranks of an MPI job.
//!
//! Role: started by `mpirun` or `srun`, it runs a list of tasks or a training on all ranks. Rank 0
//! prints the results.
//! Method: `options` parses what all commands share. Each command has a module, which returns a
//! `Summary`.

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
use std::io::BufRead as _;
use std::process::ExitCode;

use anyhow::{Context as _, Result, anyhow};
use cluster::Cluster;
use tool_io::output;

use options::{Common, Usage};
use summary::Summary;
use trace::Tracing;

const HELP: &str = "\
cluster: run a long job on the ranks of an MPI job

usage: mpirun -n RANKS cluster COMMAND [OPTIONS]
       srun cluster COMMAND [OPTIONS]

  similarity   compare all pairs of columns of a matrix, in tiles
  games        solve random zero-sum games, for several rules and seeds
  train        train a network with batches that are divided among ranks
  sweep        run the lines of a file as commands
  tasks        measure how fast tasks are distributed, and what messages cost

options of all commands:
  --journal FILE     write finished results to FILE, and continue from there after an interruption, with any number
                     of ranks (not for `train`, which has --checkpoint)
  --threads N        threads of each rank, at most 1024 (default: the cores that the rank may use, divided among the
                     ranks that may use the same cores)
  --portable         use no instructions that some CPUs lack, so that results do not depend on the CPU; slower
  --json             print one JSON object instead of text
  --quiet            no progress on standard error
  --predict LIST     also predict the time on other machines: RANKS, or RANKS/CORES if ranks share cores, separated
                     by commas; the ranks of this run need a core each
  --network L,B      the network of --predict: latency in microseconds, bandwidth in GB/s (default: 2,12)
  --trace FOLDER     sample power and energy on each host into FOLDER/HOST.csv, which `trace` reads; the results contain
                     the energy of all hosts
  --nvml FILE        the NVML library of --trace, if it is not that of the system
  --repeat           run again for each line of standard input, with a result each time, until its end or a line with
                     the word `quit`
  --help             print this help, or that of a command

Exit status: 0 if all tasks succeeded; 1 otherwise; 2 for wrong usage.
";

/// A command of the program.
struct Command {
    name: &'static str,
    help: &'static str,
    parse: fn(Vec<OsString>) -> Parsed,
}

/// The options and the work of a command.
type Parsed = Result<(Common, Run), lexopt::Error>;

/// The work of a command, on every rank.
type Run = Box<dyn Fn(&Cluster, &Common) -> Result<Summary>>;

const COMMANDS: [Command; 5] = [
    Command {
        name: "similarity",
        help: similarity::HELP,
        parse: similarity::parse,
    },
    Command {
        name: "games",
        help: games::HELP,
        parse: games::parse,
    },
    Command {
        name: "train",
        help: train::HELP,
        parse: train::parse,
    },
    Command {
        name: "sweep",
        help: sweep::HELP,
        parse: sweep::parse,
    },
    Command {
        name: "tasks",
        help: tasks::HELP,
        parse: tasks::parse,
    },
];

/// Exit code for invalid usage.
const USAGE: u8 = 2;

/// A command line, before it is carried out.
enum Request {
    /// Print a text.
    Print(String),
    Run(Common, Run),
    /// The command line is wrong.
    Wrong(String),
}

fn main() -> ExitCode {
    let request = parse(env::args_os().skip(1).collect());
    let is_parallel = cluster::launched().is_some_and(|(_, n_processes)| n_processes > 1);
    match request {
        // A single process needs no MPI for these.
        Request::Print(text) if !is_parallel => print(&text),
        Request::Wrong(problem) if !is_parallel => wrong_usage(&problem),
        request => start(request),
    }
}

fn parse(args: Vec<OsString>) -> Request {
    match Usage::of(args, &COMMANDS.map(|command| command.name)) {
        Usage::Help(None) => Request::Print(HELP.to_owned()),
        Usage::Help(Some(number)) => Request::Print(COMMANDS[number].help.to_owned()),
        Usage::Version => {
            let (version, library) = (env!("CARGO_PKG_VERSION"), cluster::library());
            Request::Print(format!("cluster {version} ({library})\n"))
        }
        Usage::Wrong(problem) => Request::Wrong(problem),
        Usage::Command(number, args) => {
            let parsed = (COMMANDS[number].parse)(args);
            let checked = parsed.and_then(|(common, run)| Ok((common.checked()?, run)));
            match checked {
                Ok((common, run)) => Request::Run(common, run),
                Err(problem) => Request::Wrong(format!("{}: {problem}", COMMANDS[number].name)),
            }
        }
    }
}

/// Starts the cluster and carries out a request.
fn start(request: Request) -> ExitCode {
    let cluster = match Cluster::start() {
        Ok(cluster) => cluster,
        Err(error) => {
            eprintln!("error: cluster: {error}");
            return ExitCode::FAILURE;
        }
    };
    let is_first = cluster.rank() == 0;
    let fail = |error: &anyhow::Error| {
        // All ranks have the error. The error of rank 0 may contain only the number of the failed
        // rank and its message.
        if is_first {
            eprintln!("error: cluster: {}", text_of(error));
        }
        ExitCode::FAILURE
    };
    // The command lines are compared before one of them is carried out, so that no rank waits for
    // a rank with another command line.
    let args = env::args_os().skip(1);
    let args: Vec<String> = args.map(|arg| arg.to_string_lossy().into_owned()).collect();
    if let Err(error) = cluster.check_same("cluster", "command line", &args.join(" ")) {
        return fail(&error.into());
    }
    match request {
        Request::Print(text) if is_first => print(&text),
        Request::Wrong(problem) if is_first => wrong_usage(&problem),
        Request::Print(_) => ExitCode::SUCCESS,
        Request::Wrong(_) => ExitCode::from(USAGE),
        Request::Run(common, run) => match on_ranks(&cluster, &common, &run) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => fail(&error),
        },
    }
}

/// Runs a command and prints its summary on rank 0. Returns whether all tasks succeeded.
fn on_ranks(cluster: &Cluster, common: &Common, run: &Run) -> Result<bool> {
    agree(cluster, common.prepare(cluster))?;
    let mut is_good = true;
    loop {
        let tracing = Tracing::start(&common.trace, cluster)?;
        let before = cluster.traffic();
        let summary = run(cluster, common)?;
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
    eprintln!("error: cluster: {problem}");
    ExitCode::from(USAGE)
}
