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
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result, ensure};

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
    let folder = workspace.target.join("ab");
    let tree = checkout(workspace, rev, &folder)?;
    // A folder of its own: the same path would compile both versions again in every session.
    let target = folder.join("target");
    let mut cargo = process::cargo();
    cargo
        .env_remove("CARGO_TERM_COLOR")
        .env("CARGO_TARGET_DIR", &target);
    cargo.current_dir(&tree);
    cargo.args([
        "build",
        "--release",
        "--package",
        "benches",
        "--bin",
        "bench",
    ]);
    let is_built = cargo.status().context("could not start cargo")?.success();
    ensure!(is_built, "bench: could not build {rev}");
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
        eprintln!("round {} of {N_ROUNDS}", round + 1);
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

/// Checks out a commit into a worktree below `folder`; an existing worktree is reused.
fn checkout(workspace: &Workspace, rev: &str, folder: &Path) -> Result<PathBuf> {
    let tree = folder.join("tree");
    let git = |args: &[&str], path: &Path| -> Result<()> {
        let mut command = Command::new("git");
        command.current_dir(path).args(args).stdout(Stdio::null());
        let status = command.status().context("could not start git")?;
        ensure!(status.success(), "bench: git {} failed", args.join(" "));
        Ok(())
    };
    // `--` would make the commit a path, so a name that begins with a hyphen is rejected.
    ensure!(!rev.starts_with('-'), "bench: {rev:?} is not a commit");
    if tree.join(".git").exists() {
        git(&["checkout", "--quiet", "--detach", rev], &tree)?;
    } else {
        std::fs::create_dir_all(folder)?;
        let path = tree.to_string_lossy();
        git(&["worktree", "prune"], &workspace.root)?;
        git(
            &["worktree", "add", "--quiet", "--detach", &path, rev],
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
        command
            .envs([data::variable(workspace)?])
            .stdout(Stdio::null());
        let status = command.status();
        let status =
            status.with_context(|| format!("could not start {}", self.program.display()))?;
        ensure!(
            status.success(),
            "bench: {} failed ({status})",
            self.program.display()
        );
        Ok(())
    }
}
