//! Debian packages that are unpacked into a folder, without root and without an installation.
//!
//! Role: the command lines of apt-get and dpkg-deb for data sets and drivers.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::process::{name, tail, watch};

/// The keys of Debian's archive, from the package `debian-archive-keyring`.
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Returns the command that downloads a package into its current folder. `options` precede the
/// command of apt-get.
pub(crate) fn download(package: &str, options: &[OsString]) -> Command {
    let mut command = Command::new("apt-get");
    command.args(options).args(["download", "--quiet", package]);
    command
}

/// Returns the path of a downloaded package in a folder. Its name contains the version.
///
/// # Errors
/// An I/O error; [`io::ErrorKind::NotFound`] if the folder contains no version of the package.
pub(crate) fn downloaded(folder: &Path, package: &str) -> io::Result<PathBuf> {
    let prefix = format!("{package}_");
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(&prefix) && name.ends_with(".deb") {
            return Ok(entry.path());
        }
    }
    let why = format!("apt-get downloaded no package {package}");
    Err(io::Error::new(io::ErrorKind::NotFound, why))
}

/// Returns the version in the name of a downloaded package, `<package>_<version>_<machine>.deb`.
pub(crate) fn version(downloaded: &Path) -> Option<String> {
    let name = downloaded.file_name()?.to_str()?;
    // apt-get writes the colon after an epoch as `%3a`.
    Some(name.split('_').nth(1)?.replace("%3a", ":"))
}

/// Returns the command that unpacks a downloaded package into its current folder.
pub(crate) fn extract(downloaded: &Path) -> Command {
    let mut command = Command::new("dpkg-deb");
    command.arg("--extract").arg(downloaded).arg(".");
    command
}

/// Returns the first error of apt-get's output, or its last line if it contains no error.
pub(crate) fn reason(err: &str) -> String {
    let mut lines = err.lines().filter_map(|line| line.strip_prefix("E: "));
    lines.next().map_or_else(|| tail(err, 1), str::to_owned)
}

/// Options with which apt-get reads only the backports of this machine's release, from the server
/// that the machine uses, and stores their list in `folder`.
///
/// # Errors
/// If the machine does not run Debian with package lists, or if the list cannot be downloaded.
pub(crate) fn backports(folder: &Path) -> Result<Vec<OsString>> {
    let release = fs::read_to_string("/etc/os-release").context("/etc/os-release")?;
    let mut lines = release.lines();
    let codename = lines
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
        .context("/etc/os-release names no release of Debian")?;
    let targets = output(Command::new("apt-get").args([
        "indextargets",
        "--format",
        "$(REPO_URI) $(CODENAME) $(COMPONENT)",
        "Created-By: Packages",
    ]))?;
    let Some(server) = main_server(&targets, codename) else {
        bail!("apt-get has no server for {codename} main (run `apt-get update` as root)");
    };
    let list = folder.join("backports.list");
    fs::create_dir_all(folder.join("lists").join("partial"))?;
    fs::write(
        &list,
        format!("deb [signed-by={KEYS}] {server} {codename}-backports main\n"),
    )?;
    let set = |key: &str, value: &Path| {
        let mut option = OsString::from(format!("{key}="));
        option.push(value);
        ["-o".into(), option]
    };
    let options: Vec<OsString> = [
        set("Dir::Etc::SourceList", &list),
        set("Dir::Etc::SourceParts", Path::new("-")),
        set("Dir::State::Lists", &folder.join("lists")),
        set("Dir::Cache", folder),
    ]
    .into_iter()
    .flatten()
    .collect();
    output(Command::new("apt-get").args(&options).arg("update"))?;
    Ok(options)
}

/// Returns the server of the component `main` of a release, from the lines of
/// `apt-get indextargets`.
fn main_server<'t>(targets: &'t str, codename: &str) -> Option<&'t str> {
    targets.lines().find_map(|line| {
        let mut words = line.split(' ');
        let server = words.next()?;
        let is_main = words.next()? == codename && words.next()? == "main";
        is_main.then_some(server)
    })
}

/// Runs a command to its end and returns its output.
fn output(command: &mut Command) -> Result<String> {
    let finished = watch(command, |_| ())?;
    if !finished.status.success() {
        bail!("{}: {}", name(command), reason(&finished.err));
    }
    Ok(finished.out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_apts_first_error() {
        let err = "W: old lists\nE: Unable to locate package x\nE: No packages found\n";
        assert_eq!(reason(err), "Unable to locate package x");
        assert_eq!(reason("killed\n"), "killed");
    }

    #[test]
    fn the_version_is_in_the_name_of_the_package() {
        let path = Path::new("/x/mesa-vulkan-drivers_25.0.7-2~bpo12+1_amd64.deb");
        assert_eq!(version(path).as_deref(), Some("25.0.7-2~bpo12+1"));
        assert_eq!(
            version(Path::new("/x/odd_1%3a2-3_all.deb")).as_deref(),
            Some("1:2-3")
        );
        assert_eq!(version(Path::new("/x/none.deb")), None);
    }

    #[test]
    fn backports_come_from_the_server_of_the_release() {
        let targets = "http://a/ old-security main\nhttp://b/ old non-free\nhttp://c/ old main\n";
        assert_eq!(main_server(targets, "old"), Some("http://c/"));
        assert_eq!(main_server(targets, "none"), None);
    }
}
