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
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail};

use crate::workspace::Workspace;
use crate::{adapters, data, process, rivals};
use tool_io::output::Pipe;

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

/// Runs a built program in the current folder. On Unix the function returns only if the start
/// fails.
pub(crate) fn run(workspace: &Workspace, program: &str, args: &[OsString]) -> Result<ExitCode> {
    let variables = adapters::compiler(workspace)?;
    run_with(workspace, program, args, variables.into_iter().collect())
}

/// Runs a built program as [`run`] does, with additional environment variables.
fn run_with(
    workspace: &Workspace,
    program: &str,
    args: &[OsString],
    variables: Vec<(&'static str, OsString)>,
) -> Result<ExitCode> {
    let path = workspace.release_program(program);
    let mut command = Command::new(&path);
    command
        .args(args)
        .envs([data::variable(workspace)?])
        .env(tool_io::TARGET_VARIABLE, &workspace.target)
        .env(tool_io::WORKSPACE_VARIABLE, &workspace.root)
        .envs(variables)
        .envs(rivals::variable());
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

/// Builds a program and runs it in the current folder.
pub(crate) fn forward(program: &str, args: &[OsString]) -> Result<ExitCode> {
    build(&[program])?;
    run(&Workspace::load()?, program, args)
}

/// Builds a program and runs it in the current folder, where it finds the software drivers that
/// `verify` uses.
pub(crate) fn forward_with_adapters(program: &str, args: &[OsString]) -> Result<ExitCode> {
    build(&[program])?;
    let workspace = Workspace::load()?;
    run_with(
        &workspace,
        program,
        args,
        adapters::environment(&workspace)?,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

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
