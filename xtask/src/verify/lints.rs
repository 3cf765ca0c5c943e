//! Checks that consist of one cargo command: format and lints.

use std::process::Command;

use anyhow::Result;

use super::reporter::Reporter;
use crate::mpi;
use crate::process::{self, OutputLine, tail, watch};

/// Maximum number of displayed lines of a failing command's output.
const TAIL_LINES: usize = 60;

pub(super) fn fmt(reporter: &Reporter) -> Result<Vec<String>> {
    let mut cargo = process::cargo();
    cargo.args(["fmt", "--all", "--check", "--", "--color", "never"]);
    faults(&mut cargo, reporter)
}

pub(super) fn clippy(reporter: &Reporter) -> Result<Vec<String>> {
    let mut cargo = process::cargo();
    cargo
        .args(["clippy", "--workspace", "--all-targets"])
        .args(mpi::arguments())
        .args(["--", "-D", "warnings"]);
    faults(&mut cargo, reporter)
}

/// Runs a command to its end. Returns the last lines of its output as a fault if it fails.
pub(super) fn faults(command: &mut Command, reporter: &Reporter) -> Result<Vec<String>> {
    Ok(output(command, reporter)?.err().into_iter().collect())
}

/// Runs a command to its end. Returns its standard output, or the last lines of all its output if
/// it fails.
pub(super) fn output(
    command: &mut Command,
    reporter: &Reporter,
) -> Result<std::result::Result<String, String>> {
    let finished = watch(command, |line| {
        if let OutputLine::Err(text) = line {
            reporter.note(text);
        }
    })?;
    Ok(match finished.status.success() {
        true => Ok(finished.out),
        false => Err(tail(&(finished.out + &finished.err), TAIL_LINES)),
    })
}
