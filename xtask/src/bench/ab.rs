//! `cargo xtask bench --ab REV`: the speed of a commit and of the working tree, measured in turns.
//!
//! Role: shows whether a change of the code changed its speed, with an interval that contains the
//! noise between runs.
//! Method: the commit is checked out as a worktree in cargo's target folder and built there. Both
//! programs then run in turns, in the other order in every second round. `report` compares the
//! records in pairs.
//! Limits: options of the commit's program are those of its time; only `--only`, `--no-rivals`,
//! `--data` and `--out` are used, which all versions have.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Result, ensure};

use tool_io::exit;

use crate::process::OutputLine;
use crate::workspace::Workspace;
use crate::{data, process, program};

/// Number of rounds: the smallest for which a 95 % interval of the median of the ratios exists.
const N_ROUNDS: usize = 6;

/// A version of the program `bench`.
struct Version {
    program: PathBuf,
    /// Folder of its output, whose subfolder `bench` has its records.
    out: PathBuf,
}

pub(super) fn run(workspace: &Workspace, rev: &str, options: &commands::Bench) -> Result<ExitCode> {
    // An interrupt has to end the running program, too.
    process::end_children_on_stop()?;
    match compare(workspace, rev, options) {
        Err(error) if error.is::<process::Interrupted>() => Ok(ExitCode::from(exit::INTERRUPTED)),
        done => done,
    }
}

fn compare(workspace: &Workspace, rev: &str, options: &commands::Bench) -> Result<ExitCode> {
    let folder = workspace.target.join("ab");
    let tree = checkout(workspace, rev, &folder)?;
    // A folder of its own: in a common one, each build would replace the other.
    let target = folder.join("target");
    let mut cargo = process::cargo();
    cargo.env("CARGO_TARGET_DIR", &target);
    cargo.current_dir(&tree);
    cargo.args([
        "build",
        "--release",
        "--package",
        "benches",
        "--bin",
        "bench",
    ]);
    let built = process::watch(&mut cargo, print_errors)?;
    ensure!(built.status.success(), "bench: could not build {rev}");
    program::build(&["bench", "report"])?;
    let name = format!("bench{}", std::env::consts::EXE_SUFFIX);
    let versions = [
        (target.join("release").join(name), "before"),
        (workspace.release_program("bench"), "after"),
    ];
    let versions = versions.map(|(program, name)| Version {
        program,
        out: folder.join(name),
    });
    for version in &versions {
        // Records of an earlier comparison would form wrong pairs.
        match std::fs::remove_dir_all(&version.out) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    for round in 0..N_ROUNDS {
        tool_io::output::note(format_args!("round {} of {N_ROUNDS}", round + 1));
        let mut turns = [&versions[0], &versions[1]];
        // A steady drift of the machine's speed cancels.
        if round % 2 == 1 {
            turns.reverse();
        }
        for version in turns {
            version.measure(workspace, options)?;
        }
    }
    let [before, after] = versions.map(|version| version.out.join("bench").into_os_string());
    let mut args: Vec<OsString> = vec![before, after];
    if options.json {
        args.push("--json".into());
    }
    program::run(workspace, "report", &args)
}

/// Prints a line of a child's error output.
fn print_errors(line: &OutputLine) {
    if let OutputLine::Err(text) = line {
        tool_io::output::note(text);
    }
}

/// Checks out a commit into a worktree below `folder`; an existing worktree is reused.
fn checkout(workspace: &Workspace, rev: &str, folder: &Path) -> Result<PathBuf> {
    let tree = folder.join("tree");
    let git = |args: &[&str], path: &Path| -> Result<String> {
        let mut command = Command::new("git");
        let finished = process::watch(command.current_dir(path).args(args), print_errors)?;
        ensure!(
            finished.status.success(),
            "bench: git {} failed",
            args.join(" ")
        );
        Ok(finished.out.trim().to_owned())
    };
    // Inside the worktree, a name such as HEAD would mean the commit of the last comparison.
    let commit = format!("{rev}^{{commit}}");
    let commit = git(
        &["rev-parse", "--verify", "--end-of-options", &commit],
        &workspace.root,
    )?;
    if tree.join(".git").exists() {
        // A build may have changed Cargo.lock.
        git(
            &["checkout", "--quiet", "--force", "--detach", &commit],
            &tree,
        )?;
    } else {
        std::fs::create_dir_all(folder)?;
        let path = tree.to_string_lossy();
        git(&["worktree", "prune"], &workspace.root)?;
        git(
            &["worktree", "add", "--quiet", "--detach", &path, &commit],
            &workspace.root,
        )?;
    }
    Ok(tree)
}

impl Version {
    /// Measures the workloads once and adds a record to the folder.
    fn measure(&self, workspace: &Workspace, options: &commands::Bench) -> Result<()> {
        let mut command = Command::new(&self.program);
        command.arg("--no-rivals").arg("--out").arg(&self.out);
        for pattern in &options.only {
            command.args(["--only", pattern]);
        }
        if let Some(data) = &options.data {
            command.arg("--data").arg(std::path::absolute(data)?);
        }
        command.envs([data::variable(workspace)?]);
        let status = process::watch(&mut command, print_errors)?.status;
        // A failed check is a row that is not compared, not the end of the comparison.
        let is_measured = matches!(status.code(), Some(0 | 1));
        ensure!(
            is_measured,
            "bench: {} failed ({status})",
            self.program.display()
        );
        Ok(())
    }
}
