//! Builds and runs of the workspace's programs.
//!
//! Role: `bench`, `doctor`, `trace`, `solve` and other commands use the heavy crates through these
//! programs, without linking them. Each program is a binary of the crate whose job it does.
//! Method: on Unix a program replaces this process, so that only the program receives Ctrl-C, and
//! the shell waits until it has finished.
//! Limits: on other systems this process waits for the program, and an interrupt may end this
//! process first.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail};

use crate::workspace::Workspace;
use crate::{adapters, data, process, rivals};
use tool_io::output::{self, Pipe};

/// Programs outside of `benches`, with their crates; each needs the crate's feature `cli`.
const CLI_PROGRAMS: [(&str, &str); 3] = [
    ("trace", "telemetry"),
    ("solve", "games"),
    ("tune", "gpu-wgsl"),
];

/// Returns the crate of a program outside of `benches`.
fn cli_crate(program: &str) -> Option<&'static str> {
    let mut programs = CLI_PROGRAMS.iter();
    programs
        .find(|(name, _)| *name == program)
        .map(|(_, home)| *home)
}

/// Builds programs in release mode and shows cargo's progress.
pub(crate) fn build(programs: &[&str]) -> Result<()> {
    build_with(programs, &[])
}

/// Builds programs in release mode, with additional cargo arguments.
pub(crate) fn build_with(programs: &[&str], options: &[&str]) -> Result<()> {
    let (cli, benches): (Vec<&str>, Vec<&str>) = programs
        .iter()
        .partition(|program| cli_crate(program).is_some());
    if !benches.is_empty() {
        cargo_build(&["--package", "benches"], &benches, options)?;
    }
    for program in cli {
        let home = cli_crate(program).unwrap_or_default();
        cargo_build(
            &["--package", home, "--features", "cli"],
            &[program],
            options,
        )?;
    }
    Ok(())
}

fn cargo_build(package: &[&str], programs: &[&str], options: &[&str]) -> Result<()> {
    let mut cargo = process::cargo();
    // cargo decides about colors here, because its output goes directly to the user.
    cargo.env_remove("CARGO_TERM_COLOR");
    cargo.args(["build", "--release"]).args(package);
    for program in programs {
        cargo.args(["--bin", program]);
    }
    cargo.args(options);
    // cargo prints to stderr only; stdout is reserved for the program, which may print JSON.
    if !cargo.status().context("could not start cargo")?.success() {
        bail!("could not build {}", programs.join(", "));
    }
    Ok(())
}

/// Runs a built program in the workspace root. On Unix the function returns only if the start
/// fails.
pub(crate) fn run(workspace: &Workspace, program: &str, args: &[OsString]) -> Result<ExitCode> {
    run_in(Some(&workspace.root), workspace, program, args)
}

/// Runs a built program in the current folder. On Unix the function returns only if the start
/// fails.
pub(crate) fn run_here(
    workspace: &Workspace,
    program: &str,
    args: &[OsString],
) -> Result<ExitCode> {
    run_in(None, workspace, program, args)
}

/// Runs a built program in `folder`, or in the current folder if `None`. On Unix the function
/// returns only if the start fails.
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
        .env(tool_io::TARGET_VARIABLE, &workspace.target)
        .env(tool_io::WORKSPACE_VARIABLE, &workspace.root)
        .envs(adapters::compiler(workspace)?)
        .envs(rivals::variable());
    if let Some(folder) = folder {
        command.current_dir(folder);
    }
    // Buffered output must be written before this process is replaced.
    Pipe(io::stdout()).flush()?;
    hand_over(command).with_context(|| format!("could not start {}", path.display()))
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

/// Runs a command that only starts a program: prints the help if it is requested, otherwise builds
/// and runs the program in the workspace root.
pub(crate) fn forward(program: &str, mut args: Vec<OsString>) -> Result<ExitCode> {
    if is_help_request(&args) {
        return help(program, "");
    }
    drop_separator(&mut args);
    build(&[program])?;
    run(&Workspace::load()?, program, &args)
}

/// Builds a program and runs it in the current folder. For programs whose arguments
/// are commands or files of the caller.
pub(crate) fn forward_here(program: &str, mut args: Vec<OsString>) -> Result<ExitCode> {
    if is_help_request(&args) {
        return help_here(program, program, "");
    }
    drop_separator(&mut args);
    build(&[program])?;
    run_here(&Workspace::load()?, program, &args)
}

/// Prints the help of a command whose program runs in the current folder, then runs the program
/// with `--help`.
pub(crate) fn help_here(command: &str, program: &str, added: &str) -> Result<ExitCode> {
    print_help(command, program, "current folder", added)?;
    build(&[program])?;
    run_here(&Workspace::load()?, program, &["--help".into()])
}

/// Prints the help of a command, then runs the program with `--help`.
///
/// The options are defined by the program, so its help requires a build. The help of the command is
/// printed first.
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
    let home = cli_crate(program).unwrap_or("benches");
    output::print_line(format_args!(
        "`cargo xtask {command}` builds the program `{program}` of {home} in release mode and runs it in the\n\
         {folder}. Arguments after `--` are passed on unchanged.\n{added}"
    ))?;
    Ok(())
}

/// Returns whether the arguments before `--` request help.
pub(crate) fn is_help_request(args: &[OsString]) -> bool {
    args.iter()
        .take_while(|arg| *arg != "--")
        .any(|arg| arg == "--help" || arg == "-h")
}

/// Removes the first `--`, which separates xtask's own arguments from those of the started program.
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
        assert!(is_help_request(&args(&["--json", "-h"])));
        assert!(!is_help_request(&args(&["--json", "--", "--help"])));
        let mut hidden = args(&["--", "--help"]);
        drop_separator(&mut hidden);
        assert_eq!(hidden, args(&["--help"]));
    }

    #[cfg(unix)]
    #[test]
    fn a_program_takes_the_place_of_this_process() {
        const SELF: &str = "program::tests::a_program_takes_the_place_of_this_process";
        /// Environment variable of the copy of this test whose process is replaced by the shell.
        const INNER: &str = "XTASK_TEST_HANDS_OVER";
        if std::env::var_os(INNER).is_some() {
            let mut shell = Command::new("sh");
            shell.args(["-c", "echo \"shell $$.\"; exit 130"]);
            panic!("could not start the shell: {:?}", hand_over(shell));
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
