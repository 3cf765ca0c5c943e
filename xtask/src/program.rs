//! Building and running the programs of `benches`.
//!
//! Role: how `bench`, `doctor` and `report` reach the heavy code without linking it.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail};

use crate::process;
use crate::workspace::Workspace;

/// Builds programs of `benches` in release; cargo's own progress is shown.
pub(crate) fn build(programs: &[&str]) -> Result<()> {
    let mut cargo = process::cargo();
    // Colours are left to cargo here: its output goes straight to the user.
    cargo.env_remove("CARGO_TERM_COLOR");
    cargo.args(["build", "--release", "--package", "benches"]);
    for program in programs {
        cargo.args(["--bin", program]);
    }
    // stdout belongs to the program that is built, which may print JSON there.
    if !cargo
        .status()
        .context("cargo could not be started")?
        .success()
    {
        bail!("could not build {}", programs.join(", "));
    }
    Ok(())
}

/// Runs a built program from the workspace root and passes its exit code on.
pub(crate) fn run(
    workspace: &Workspace,
    program: &str,
    args: &[OsString],
    envs: &[(&str, OsString)],
) -> Result<ExitCode> {
    let path = workspace.release_program(program);
    let status = Command::new(&path)
        .args(args)
        .envs(envs.iter().map(|(key, value)| (key, value)))
        .current_dir(&workspace.root)
        .status()
        .with_context(|| format!("{} could not be started", path.display()))?;
    Ok(process::exit_code(status))
}

/// A command that is nothing but a program of `benches`: help, build, run.
pub(crate) fn forward(program: &str, help: &str, mut args: Vec<OsString>) -> Result<ExitCode> {
    if asks_for_help(&args) {
        print!("{help}");
        return Ok(ExitCode::SUCCESS);
    }
    drop_separator(&mut args);
    build(&[program])?;
    run(&Workspace::load()?, program, &args, &[])
}

/// Whether the arguments before `--` ask for help.
pub(crate) fn asks_for_help(args: &[OsString]) -> bool {
    args.iter()
        .take_while(|arg| *arg != "--")
        .any(|arg| arg == "--help" || arg == "-h")
}

/// Removes the first `--`, which only hides what follows from this program.
pub(crate) fn drop_separator(args: &mut Vec<OsString>) {
    if let Some(place) = args.iter().position(|arg| arg == "--") {
        args.remove(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_after_the_separator_is_for_the_program() {
        let args = |list: &[&str]| list.iter().map(OsString::from).collect::<Vec<_>>();
        assert!(asks_for_help(&args(&["--json", "-h"])));
        assert!(!asks_for_help(&args(&["--json", "--", "--help"])));
        let mut hidden = args(&["--", "--help"]);
        drop_separator(&mut hidden);
        assert_eq!(hidden, args(&["--help"]));
    }
}
