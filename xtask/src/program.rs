//! Building and running the programs of `benches`.
//!
//! Role: how `bench`, `doctor`, `report`, `trace` and others reach the heavy code without linking
//! it.
//! Method: on Unix a program replaces this process, so Ctrl-C reaches it alone and the
//! shell waits until it has finished what runs.
//! Limits: elsewhere this process waits beside the program, and an interrupt may end it first.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail};

use crate::output::{self, Pipe};
use crate::workspace::Workspace;
use crate::{data, process, rivals};

/// Builds programs of `benches` in release; cargo's own progress is shown.
pub(crate) fn build(programs: &[&str]) -> Result<()> {
    build_with(programs, &[])
}

/// Builds programs of `benches` in release, with further arguments of cargo.
pub(crate) fn build_with(programs: &[&str], options: &[&str]) -> Result<()> {
    let mut cargo = process::cargo();
    // Colours are left to cargo here: its output goes straight to the user.
    cargo.env_remove("CARGO_TERM_COLOR");
    cargo.args(["build", "--release", "--package", "benches"]);
    for program in programs {
        cargo.args(["--bin", program]);
    }
    cargo.args(options);
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

/// Runs a built program in the workspace root; on Unix it returns only if that fails.
pub(crate) fn run(workspace: &Workspace, program: &str, args: &[OsString]) -> Result<ExitCode> {
    run_in(Some(&workspace.root), workspace, program, args)
}

/// Runs a built program in the current folder; on Unix it returns only if that fails.
pub(crate) fn run_here(
    workspace: &Workspace,
    program: &str,
    args: &[OsString],
) -> Result<ExitCode> {
    run_in(None, workspace, program, args)
}

/// Runs a built program in a folder, without one in the current folder; on Unix it returns only if
/// that fails.
fn run_in(
    folder: Option<&Path>,
    workspace: &Workspace,
    program: &str,
    args: &[OsString],
) -> Result<ExitCode> {
    let path = workspace.release_program(program);
    let mut command = Command::new(&path);
    command
        .args(args)
        .envs([data::variable(workspace)?])
        .envs(rivals::variable());
    if let Some(folder) = folder {
        command.current_dir(folder);
    }
    // What was printed must not vanish with this process.
    Pipe(io::stdout()).flush()?;
    hand_over(command).with_context(|| format!("{} could not be started", path.display()))
}

#[cfg(unix)]
fn hand_over(mut command: Command) -> io::Result<ExitCode> {
    Err(std::os::unix::process::CommandExt::exec(&mut command))
}

#[cfg(not(unix))]
fn hand_over(mut command: Command) -> io::Result<ExitCode> {
    let code = command.status()?.code();
    let code = code.and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// A command that is nothing but a program of `benches`: help, build, run.
pub(crate) fn forward(program: &str, mut args: Vec<OsString>) -> Result<ExitCode> {
    if asks_for_help(&args) {
        return help(program, "");
    }
    drop_separator(&mut args);
    build(&[program])?;
    run(&Workspace::load()?, program, &args)
}

/// Builds a program of `benches` and runs it in the current folder, for programs that take the
/// caller's commands or files.
pub(crate) fn forward_here(program: &str, mut args: Vec<OsString>) -> Result<ExitCode> {
    if asks_for_help(&args) {
        return help_here(program, program, "");
    }
    drop_separator(&mut args);
    build(&[program])?;
    run_here(&Workspace::load()?, program, &args)
}

/// Prints the description of a command whose program runs in the current folder, then runs the
/// program with `--help`.
pub(crate) fn help_here(command: &str, program: &str, added: &str) -> Result<ExitCode> {
    print_help(command, program, "current folder", added)?;
    build(&[program])?;
    run_here(&Workspace::load()?, program, &["--help".into()])
}

/// Prints what this command does, then runs the program with `--help`.
///
/// The program alone knows its arguments, so its help costs a build; the lines of this command come
/// first.
pub(crate) fn help(program: &str, added: &str) -> Result<ExitCode> {
    print_help(
        program,
        program,
        "workspace root, to which paths are relative",
        added,
    )?;
    build(&[program])?;
    run(&Workspace::load()?, program, &["--help".into()])
}

fn print_help(command: &str, program: &str, folder: &str, added: &str) -> Result<()> {
    output::print_line(format_args!(
        "`cargo xtask {command}` builds the program `{program}` of benches in release and runs it in the\n\
         {folder}. Arguments after `--` are passed on unread.\n{added}"
    ))?;
    Ok(())
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

    #[cfg(unix)]
    #[test]
    fn a_program_takes_the_place_of_this_process() {
        const SELF: &str = "program::tests::a_program_takes_the_place_of_this_process";
        /// Set in the copy of this test whose process the shell takes over.
        const INNER: &str = "XTASK_TEST_HANDS_OVER";
        if std::env::var_os(INNER).is_some() {
            let mut shell = Command::new("sh");
            shell.args(["-c", "echo \"shell $$.\"; exit 130"]);
            panic!("the shell was not started: {:?}", hand_over(shell));
        }
        let inner = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", SELF, "--nocapture"])
            .env(INNER, "1")
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let shell = format!("shell {}.", inner.id());
        let output = inner.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains(&shell), "{said}");
        assert_eq!(output.status.code(), Some(130));
    }
}
