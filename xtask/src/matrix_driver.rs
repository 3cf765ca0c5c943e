//! A software Vulkan driver with cooperative matrices: Mesa's llvmpipe of a later Debian release.
//!
//! Role: runs tests of cooperative matrices, which the drivers of `adapters` lack.
//! Method: the driver needs the C library of its release, and a process has one C library. The
//! packages of the driver and of all libraries that it needs are unpacked into cargo's target
//! folder, and a test program is started by the dynamic loader among them. Programs for an older C
//! library run with a newer one.
//! Limits: only on Debian 12, for `x86_64`. The releases after it have such a Mesa in their own
//! backports, which `adapters` fetches.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::adapters::{self, Absence};
use crate::artifact::Executable;
use crate::debian;
use crate::process::{name, spinner, watch};
use tool_io::TemporaryFolder;

/// Name of the driver in lists.
pub(crate) const ID: &str = "mesa-matrices";
/// The module of the tests that need cooperative matrices.
pub(crate) const TESTS: &str = "executor::matrices::";
/// The end of the manifest of the package with these tests.
const MANIFEST: &str = "gpu-wgsl/Cargo.toml";
/// The release whose packages are used, and the release on which they are useful.
const RELEASE: &str = "trixie";
const USED_ON: &str = "bookworm";
const PACKAGE: &str = "mesa-vulkan-drivers";
const SIZE: &str = "64 MB";
/// The dynamic loader within the unpacked packages, and its architecture.
const LOADER: &str = "usr/lib64/ld-linux-x86-64.so.2";
const MACHINE: &str = "x86_64";
const DRIVER: &str = "libvulkan_lvp.so";
/// Version of Vulkan that the driver implements.
const API_VERSION: &str = "1.4.0";

/// The unpacked packages.
#[derive(Clone, Debug)]
pub(crate) struct MatrixDriver {
    library: PathBuf,
    loader: PathBuf,
    libraries: PathBuf,
    /// The file with which the Vulkan loader finds the driver.
    loader_file: PathBuf,
}

impl MatrixDriver {
    /// Returns the fetched driver; `None` if it is missing.
    pub(crate) fn find(folder: &Path) -> Result<Option<Self>> {
        let root = folder.join(ID);
        let libraries = root.join(debian::library_folder());
        let library = libraries.join(DRIVER);
        if !library.is_file() {
            return Ok(None);
        }
        let loader_file = adapters::write_loader_file(folder, ID, &library, API_VERSION)?;
        Ok(Some(Self {
            library,
            loader: root.join(LOADER),
            libraries,
            loader_file,
        }))
    }

    /// Returns the driver's library.
    pub(crate) fn library(&self) -> &Path {
        &self.library
    }

    /// Returns a command that runs the program of `command` by the dynamic loader, with this driver
    /// as the only one. Folder and variables are those of `command`, which has no arguments yet.
    pub(crate) fn wrap(&self, command: &Command) -> Command {
        let mut wrapped = Command::new(&self.loader);
        wrapped
            .arg("--library-path")
            .arg(&self.libraries)
            .arg(command.get_program());
        if let Some(folder) = command.get_current_dir() {
            wrapped.current_dir(folder);
        }
        let set = command.get_envs();
        wrapped.envs(set.filter_map(|(name, value)| Some((name, value?))));
        wrapped
            .env_remove(adapters::FILES)
            .env_remove(adapters::REQUIRED)
            .env(adapters::CHOSEN[0], &self.loader_file);
        wrapped
    }
}

/// Returns whether an executable contains the tests of the module [`TESTS`].
pub(crate) fn has_tests(executable: &Executable) -> bool {
    executable.is_test && executable.kind == "lib" && executable.manifest.ends_with(MANIFEST)
}

/// Returns the reason why the driver is missing.
pub(crate) fn absence() -> Absence {
    match unsupported() {
        Some(why) => Absence::NotOffered(format!("not offered: {why}")),
        None => Absence::Missing(format!(
            "missing; `cargo xtask adapters --fetch` downloads it ({SIZE}, Debian package \
             {PACKAGE} of {RELEASE} and the packages that it needs)"
        )),
    }
}

/// Returns the reason why this system cannot use the driver.
fn unsupported() -> Option<String> {
    let unsupported = debian::unsupported(false);
    unsupported.or_else(|| match (debian::codename(), env::consts::ARCH) {
        (Ok(codename), MACHINE) if codename == USED_ON => None,
        (Ok(codename), machine) => Some(format!(
            "used only on {USED_ON} for {MACHINE} (found {codename}, {machine})"
        )),
        (Err(error), _) => Some(format!("{error:#}")),
    })
}

/// Downloads and unpacks the packages, unless they are there or this system cannot use them.
pub(crate) fn fetch_missing(folder: &Path) -> Result<()> {
    if unsupported().is_some() || MatrixDriver::find(folder)?.is_some() {
        return Ok(());
    }
    let incoming = TemporaryFolder::create(folder, ".incoming-release")?;
    let bar = spinner(format!("apt-get: fetching {PACKAGE} of {RELEASE} ({SIZE})"));
    let root = incoming.path().join("root");
    fs::create_dir(&root)?;
    for package in debian::download_all(incoming.path(), RELEASE, PACKAGE)? {
        let mut command = debian::extract(&package);
        let finished = watch(command.current_dir(&root), |_| ())?;
        if !finished.status.success() {
            bail!("{}: {}", name(&command), debian::reason(&finished.err));
        }
    }
    bar.finish_and_clear();
    // A folder without the driver would be left by an earlier version of this program.
    let place = folder.join(ID);
    if place.exists() {
        fs::remove_dir_all(&place)?;
    }
    fs::rename(&root, &place)?;
    Ok(())
}
