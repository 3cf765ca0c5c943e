//! The packages of the published crates, as `cargo publish` would upload them.
//!
//! Role: the check `packages`. The builds `outside/<crate>` use the unpacked packages instead of
//! the source folders, so that a file that is missing in a package is a failed build.
//! Method: `cargo package` writes an archive for each crate. A changed archive is unpacked again;
//! an equal one is not, so that cargo need not build its files again.

use std::cell::OnceCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, anyhow};

use super::lints;
use super::reporter::Reporter;
use crate::process;
use crate::workspace::{Package, Workspace};

/// The packages of a workspace, which are written when they are first used.
pub(super) struct Packages<'w> {
    workspace: &'w Workspace,
    /// Faults of `cargo package`.
    written: OnceCell<Vec<String>>,
}

impl<'w> Packages<'w> {
    pub(super) fn new(workspace: &'w Workspace) -> Self {
        Self {
            workspace,
            written: OnceCell::new(),
        }
    }

    /// Returns the published crates.
    pub(super) fn published(&self) -> impl Iterator<Item = &'w Package> + use<'w> {
        let packages = self.workspace.packages.iter();
        packages.filter(|package| package.is_published)
    }

    /// Writes and unpacks the packages, once. Returns the faults of `cargo package`.
    pub(super) fn faults(&self, reporter: &Reporter) -> Result<Vec<String>> {
        if let Some(faults) = self.written.get() {
            return Ok(faults.clone());
        }
        let faults = match self.write(reporter) {
            Err(error) if error.is::<process::Interrupted>() => return Err(error),
            written => written.unwrap_or_else(|error| vec![format!("{error:#}")]),
        };
        Ok(self.written.get_or_init(|| faults).clone())
    }

    fn write(&self, reporter: &Reporter) -> Result<Vec<String>> {
        let mut cargo = process::cargo();
        // The outside builds verify the packages; changes that are not committed are the normal
        // case.
        cargo.args(["package", "--no-verify", "--allow-dirty"]);
        for package in self.published() {
            cargo.args(["--package", &package.name]);
        }
        let faults = lints::faults(&mut cargo, reporter)?;
        if faults.is_empty() {
            for package in self.published() {
                self.unpack(package)?;
            }
        }
        Ok(faults)
    }

    /// Unpacks the archive of a crate if it has changed.
    fn unpack(&self, package: &Package) -> Result<()> {
        let name = file_stem(package);
        let archive = self
            .workspace
            .target
            .join("package")
            .join(format!("{name}.crate"));
        let unpacked = self.folder_of(package);
        let used = unpacked.with_extension("crate");
        let context = || archive.display().to_string();
        let bytes = fs::read(&archive).with_context(context)?;
        if unpacked.exists() && fs::read(&used).is_ok_and(|used| used == bytes) {
            return Ok(());
        }
        // The second folder is that of an interrupted run.
        for old in [&unpacked, &self.folder().join(&name)] {
            if old.exists() {
                fs::remove_dir_all(old).with_context(context)?;
            }
        }
        extract(&archive, &self.folder(), &name, &unpacked)?;
        fs::write(used, bytes).with_context(context)
    }

    fn folder(&self) -> PathBuf {
        self.workspace.target.join("outside").join("packages")
    }

    /// Returns the folder of an unpacked package.
    pub(super) fn folder_of(&self, package: &Package) -> PathBuf {
        self.folder().join(&package.name)
    }

    /// Returns the published crates of the workspace that a package may use.
    pub(super) fn dependencies(&self, package: &Package) -> Vec<&'w Package> {
        let mut found: Vec<&Package> = Vec::new();
        let mut open = vec![package];
        while let Some(next) = open.pop() {
            let used = next.dependencies.iter().filter(|used| !used.dev);
            for used in used {
                let mut published = self.published();
                let Some(used) = published.find(|package| package.name == used.name) else {
                    continue;
                };
                if !found.iter().any(|known| known.name == used.name) {
                    found.push(used);
                    open.push(used);
                }
            }
        }
        found
    }
}

/// Returns the name of a crate's archive, without its ending.
fn file_stem(package: &Package) -> String {
    format!("{}-{}", package.name, package.version)
}

/// Unpacks an archive, whose files are in a folder `name`, into `unpacked`.
fn extract(archive: &Path, folder: &Path, name: &str, unpacked: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    let mut tar = Command::new("tar");
    // The files of an archive have a fixed date, which would hide changes from cargo.
    tar.args(["-x", "-z", "-m", "-f"])
        .arg(archive)
        .arg("-C")
        .arg(folder);
    let finished = process::watch(&mut tar, |_| ())?;
    if !finished.status.success() {
        return Err(anyhow!("{}: {}", archive.display(), finished.err.trim()));
    }
    fs::rename(folder.join(name), unpacked).with_context(|| unpacked.display().to_string())
}
