//! `cargo xtask completions`: prints completions for a shell.
//!
//! Role: completions of `cargo xtask` itself, for an alias such as `alias xtask='cargo xtask'`, and
//! of the programs that can be installed alone.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, CommandFactory as _, ValueEnum};
use clap_complete::{Shell, generate};
use tool_io::output;

use crate::Cli;

/// Arguments of `completions`.
#[derive(Args)]
pub(crate) struct Options {
    /// Shell that reads the completions
    shell: Shell,
    /// Program to complete
    #[arg(default_value = "xtask")]
    program: Program,
}

/// A program with completions.
#[derive(Clone, Copy, ValueEnum)]
enum Program {
    /// This program, as the alias `xtask` of `cargo xtask`
    Xtask,
    /// `bench` of a bundle
    Bench,
    /// `solve`
    Solve,
    /// `trace`
    Trace,
    /// `tune`
    Tune,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    output::print(text(options))?;
    Ok(ExitCode::SUCCESS)
}

fn text(options: &Options) -> String {
    let (mut command, name) = match options.program {
        Program::Xtask => (Cli::command().bin_name("xtask"), "xtask"),
        Program::Bench => (commands::Bench::command(), "bench"),
        Program::Solve => (commands::Solve::command(), "solve"),
        Program::Trace => (commands::Trace::command(), "trace"),
        Program::Tune => (commands::Tune::command(), "tune"),
    };
    let mut text = Vec::new();
    generate(options.shell, &mut command, name, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_completes_every_program() {
        for shell in Shell::value_variants() {
            for program in Program::value_variants() {
                let options = Options {
                    shell: *shell,
                    program: *program,
                };
                assert!(text(&options).contains("--help"), "{shell}");
            }
        }
    }
}
