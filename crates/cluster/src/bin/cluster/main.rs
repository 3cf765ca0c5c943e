//! The program `cluster`: long jobs on the ranks of an MPI job.
//!
//! Role: started by `mpirun` or `srun`, it runs a list of tasks or a training on all ranks. Rank 0
//! prints the results.
//! Method: `options` parses what all commands share. Each command has a module, which returns a
//! `Summary`.

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
use std::process::ExitCode;

use anyhow::Result;
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
  --threads N        threads of each rank (default: the cores of the host, divided among its ranks)
  --portable         use no instructions that some CPUs lack, so that results do not depend on the CPU; slower
  --json             print one JSON object instead of text
  --quiet            no progress on standard error
  --predict LIST     also predict the time on other machines: RANKS, or RANKS/CORES if ranks share cores, separated
                     by commas; the ranks of this run need a core each
  --network L,B      the network of --predict: latency in microseconds, bandwidth in GB/s (default: 2,12)
  --trace FOLDER     sample power and energy on each host into FOLDER/HOST.csv, which `trace` reads; the results contain
                     the energy of all hosts
  --nvml FILE        the NVML library of --trace, if it is not that of the system
  --repeat           run again for each line of standard input, with a result each time, until its end
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

fn main() -> ExitCode {
    let args: Vec<OsString> = env::args_os().skip(1).collect();
    match Usage::of(args, &COMMANDS.map(|command| command.name)) {
        Usage::Help(None) => print_on_first(HELP),
        Usage::Help(Some(number)) => print_on_first(COMMANDS[number].help),
        Usage::Version => print_on_first(&format!(
            "cluster {} ({})\n",
            env!("CARGO_PKG_VERSION"),
            cluster::library()
        )),
        Usage::Wrong(problem) => wrong_usage(&problem),
        Usage::Command(number, args) => match (COMMANDS[number].parse)(args) {
            Ok((common, run)) => start(&common, &run),
            Err(problem) => wrong_usage(&format!("{}: {problem}", COMMANDS[number].name)),
        },
    }
}

/// Starts the cluster and runs a command.
fn start(common: &Common, run: &Run) -> ExitCode {
    let cluster = match Cluster::start() {
        Ok(cluster) => cluster,
        Err(error) => {
            eprintln!("error: cluster: {error}");
            return ExitCode::FAILURE;
        }
    };
    match on_ranks(&cluster, common, run) {
        Ok(is_good) if is_good => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            // All ranks have the error; that of rank 0 may only name the rank that has more to say.
            if cluster.rank() == 0 {
                eprintln!("error: cluster: {error:#}");
            }
            ExitCode::FAILURE
        }
    }
}

/// Runs a command and prints its summary on rank 0. Returns whether all tasks succeeded.
fn on_ranks(cluster: &Cluster, common: &Common, run: &Run) -> Result<bool> {
    let args: Vec<String> = env::args_os()
        .skip(1)
        .map(|arg| arg.to_string_lossy().into_owned())
        .collect();
    cluster.check_same("cluster", "command line", &args.join(" "))?;
    common.prepare(cluster)?;
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
        cluster.agree("cluster", printed)?;
        if !(common.repeats && is_asked_again(cluster)?) {
            return Ok(is_good);
        }
    }
}

/// Waits for a line of standard input on rank 0. Returns on all ranks whether there is one.
fn is_asked_again(cluster: &Cluster) -> Result<bool> {
    let mut line = String::new();
    let read = match cluster.rank() {
        0 => std::io::stdin().read_line(&mut line),
        _ => Ok(0),
    };
    let n_bytes = cluster.exchange("cluster", &read.unwrap_or(0))?;
    Ok(n_bytes[0] > 0)
}

/// Returns whether this process prints what all ranks would print, before MPI is started.
fn is_first() -> bool {
    let ranks = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"];
    let rank = ranks.iter().find_map(|variable| env::var(variable).ok());
    rank.is_none_or(|rank| rank == "0")
}

fn print_on_first(text: &str) -> ExitCode {
    if is_first() && output::print(text).is_err() {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn wrong_usage(problem: &str) -> ExitCode {
    if is_first() {
        eprintln!("error: cluster: {problem}");
    }
    ExitCode::from(USAGE)
}
