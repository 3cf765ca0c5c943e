//! The project's commands: `cargo xtask COMMAND`.
//!
//! Role: dispatches to one module per command. Does not depend on GPU crates and builds in seconds.
//! Method: heavy commands are programs of other crates, built in release mode and run with the same
//! arguments. Their command lines are those of the crate `commands`, so that help and wrong usage
//! need no build.

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory as _, Parser, Subcommand};
use tool_io::exit;

mod adapters;
mod artifact;
mod bench;
mod browser;
mod bundle;
mod codegen;
mod completions;
mod cpu;
mod data;
mod debian;
mod demo;
mod fuzz;
mod libtest;
mod lock;
mod matrix_driver;
mod mpi;
mod mutants;
mod process;
mod program;
mod readme;
mod record;
mod rivals;
mod toolchain;
mod verify;
mod web;
mod workspace;

/// The project's commands
///
/// Commands run in the current folder, to which their paths are relative. Output that can be made
/// again is in cargo's target folder.
#[derive(Parser)]
#[command(
    name = "xtask",
    bin_name = "cargo xtask",
    version,
    after_help = "Exit codes: 0; 1 if the command or a check failed; 2 for wrong usage, before anything is \
                  measured or written; 130 if interrupted, with finished results on disk."
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Run workloads on every executor found, checked before they are timed
    Bench(bench::Options),
    /// Check everything that must hold: format, lints, docs, edges, tests, kernels, claims
    Verify(verify::Options),
    /// List adapters, CPU features, drivers and data of this machine
    Doctor(commands::Doctor),
    /// Sample power, energy and utilization while a command runs
    Trace(commands::Trace),
    /// Demonstrate `trace` on a simulated GPU for ten seconds
    ///
    /// Runs `trace --source demo --for 10s --out FILE`, where FILE is demo/trace.csv in cargo's
    /// target folder. Further arguments are those of `trace` and override these.
    Demo(commands::Trace),
    /// Rebuild the report of a record, compare two records, or show the trend of many
    Report(commands::Report),
    /// Fetch a data set outside of git and check its sha256
    Data(data::Options),
    /// Set up a Python environment with NumPy, PyTorch and others for comparison rows
    Rivals(rivals::Options),
    /// Repeat jobs for hours, and check that their results are right and their memory stays flat
    Soak(commands::Soak),
    /// Find the equilibrium of a game file (.nfg, .efg), with a proof if possible
    Solve(commands::Solve),
    /// Show a workload's program at each level: plan, kernels, machine code
    Explain(commands::Explain),
    /// Find the fastest tile sizes for a GPU and write them to the table
    Tune(commands::Tune),
    /// List or fetch software Vulkan drivers for more tests of the GPU path
    Adapters(adapters::Options),
    /// Serve a page that runs and checks kernels in a browser, or test it
    Web(web::Options),
    /// Rewrite shaders/src/layout.rs by reflection of the kernels
    Codegen(codegen::Options),
    /// Find out which small faults of the code no test finds
    Mutants(mutants::Options),
    /// Run the fuzz targets: hostile files, programs, games and traces
    Fuzz(fuzz::Options),
    /// Rewrite the README's measured table and picture from a record
    Readme(readme::Options),
    /// Print completions of this program, or of one of the programs that it runs
    Completions(completions::Options),
}

fn main() -> ExitCode {
    if env::var_os(verify::docs::RUSTDOC_VARIABLE).is_some() {
        return end(verify::docs::rustdoc());
    }
    let cli = Cli::parse();
    // The programs parse these arguments again, with the types that have accepted them here.
    let args: Vec<OsString> = env::args_os().skip(2).collect();
    if let Some(Command::Trace(options) | Command::Demo(options)) = &cli.command {
        options.check().unwrap_or_else(|error| error.exit());
    }
    let done = match cli.command {
        None => help(),
        Some(Command::Bench(options)) => bench::run(&options, args),
        Some(Command::Verify(options)) => verify::run(&options),
        Some(Command::Doctor(_)) => program::forward("doctor", &args),
        Some(Command::Trace(_)) => program::forward("trace", &args),
        Some(Command::Demo(_)) => demo::run(&args),
        Some(Command::Report(_)) => program::forward("report", &args),
        Some(Command::Data(options)) => data::run(options),
        Some(Command::Rivals(options)) => rivals::run(&options),
        Some(Command::Soak(_)) => program::forward_with_adapters("soak", &args),
        Some(Command::Solve(_)) => program::forward("solve", &args),
        Some(Command::Explain(_)) => program::forward("explain", &args),
        Some(Command::Tune(_)) => program::forward("tune", &args),
        Some(Command::Adapters(options)) => adapters::run(&options),
        Some(Command::Web(options)) => web::run(options),
        Some(Command::Codegen(options)) => codegen::run(&options),
        Some(Command::Mutants(options)) => mutants::run(&options),
        Some(Command::Fuzz(options)) => fuzz::run(&options),
        Some(Command::Readme(options)) => readme::run(&options),
        Some(Command::Completions(options)) => completions::run(&options),
    };
    end(done)
}

/// Prints the error of a command, and returns its exit code.
fn end(done: Result<ExitCode>) -> ExitCode {
    done.unwrap_or_else(|error| {
        tool_io::output::note(format_args!("error: {error:#}"));
        ExitCode::from(exit::FAILURE)
    })
}

/// Prints the help of this program.
fn help() -> Result<ExitCode> {
    tool_io::output::print(Cli::command().render_help())?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn wrong_use_is_found_without_a_build() {
        for line in [
            "nosuch",
            "bench --nosuch",
            "bench --quick --full",
            "bench --bundle x --only y",
            "bench --ab HEAD",
            "report a b c",
            "report --trend a b",
            "verify --fast",
            "data cifar",
            "web --out a --test",
            "web --json",
            "web --port 99999",
            "explain --table",
            "soak --minutes -1",
            "soak --jobs 0",
            "solve",
        ] {
            let line = ["xtask"].into_iter().chain(line.split(' '));
            let error = Cli::try_parse_from(line.clone()).err();
            let code = error.map(|error| error.exit_code());
            assert_eq!(code, Some(exit::USAGE.into()), "{line:?}");
        }
    }
}
