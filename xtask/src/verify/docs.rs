//! The documentation of all crates, without warnings, and the public interfaces of the libraries.
//!
//! Role: the check `docs`, and the files that `api` reads.
//! Method: one command writes the documentation as JSON. The lints of rustdoc are the same for JSON
//! and for pages, and a second command for the pages would read all crates again. For this reason,
//! `--only api/games` also reads all crates. The form of the JSON is not stable, so stable
//! compilers need a variable to write it. Only rustdoc has the variable, because cargo and the
//! compiler would build all dependencies again if they had it.

use std::cell::OnceCell;
use std::env;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result};

use super::lints;
use super::reporter::Reporter;
use crate::mpi;
use crate::process;
use crate::workspace::{Package, Workspace};

/// Environment variable with which this program runs rustdoc.
pub(crate) const RUSTDOC_VARIABLE: &str = "XTASK_RUSTDOC";

/// Runs rustdoc with the arguments of this program, and permits unstable options.
pub(crate) fn rustdoc() -> Result<ExitCode> {
    let status = Command::new("rustdoc")
        .args(env::args_os().skip(1))
        .env("RUSTC_BOOTSTRAP", "1")
        .status()
        .context("could not start rustdoc")?;
    Ok(match status.success() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// The documentation of all crates, which one command writes.
pub(super) struct Docs<'w> {
    workspace: &'w Workspace,
    /// The faults of the command, once it has run.
    written: OnceCell<Vec<String>>,
}

impl<'w> Docs<'w> {
    pub(super) fn new(workspace: &'w Workspace) -> Self {
        Self {
            workspace,
            written: OnceCell::new(),
        }
    }

    /// Writes the documentation with all features of the published crates, once. Returns the faults
    /// of the command.
    pub(super) fn faults(&self, reporter: &Reporter) -> Result<Vec<String>> {
        if let Some(faults) = self.written.get() {
            return Ok(faults.clone());
        }
        let packages = self.workspace.packages.iter();
        let published = packages.filter(|package| package.is_published);
        let features = published.flat_map(|package| {
            let features = package.features.iter();
            features.map(move |feature| format!("{}/{feature}", package.name))
        });
        let mut cargo = process::cargo();
        cargo
            .args(["doc", "--workspace", "--no-deps", "--features"])
            .arg(features.collect::<Vec<_>>().join(","))
            .args(mpi::arguments())
            .env(
                "RUSTDOCFLAGS",
                "-D warnings -Z unstable-options --output-format json",
            )
            .env("RUSTDOC", env::current_exe()?)
            .env(RUSTDOC_VARIABLE, "1");
        let faults = lints::faults(&mut cargo, reporter)?;
        Ok(self.written.get_or_init(|| faults).clone())
    }

    /// Returns the file of the public interface of a crate.
    pub(super) fn interface_of(&self, package: &Package) -> PathBuf {
        let name = package.name.replace('-', "_");
        let folder = self.workspace.target.join("doc");
        folder.join(format!("{name}.json"))
    }
}
