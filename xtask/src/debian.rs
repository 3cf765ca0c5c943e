//! Debian packages that are unpacked into a folder, without root and without an installation.
//!
//! Role: the command lines of apt-get and dpkg-deb for data sets and drivers, and the check
//! whether Debian offers a package.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::process::{Finished, name, tail, watch};

/// The keys of Debian's archive, from the package `debian-archive-keyring`.
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The file with name and release of a Linux distribution.
const OS_RELEASE: &str = "/etc/os-release";

/// Returns why this system cannot use Debian's packages, or its backports; `None` if it can.
pub(crate) fn unsupported(is_backport: bool) -> Option<String> {
    let Ok(os_release) = fs::read_to_string(OS_RELEASE) else {
        return Some(format!("downloads need Debian (no {OS_RELEASE})"));
    };
    unsupported_by(&os_release, is_backport)
}

fn unsupported_by(os_release: &str, is_backport: bool) -> Option<String> {
    let id = value(os_release, "ID").unwrap_or_default();
    if id != "debian" {
        return Some(format!(
            "downloads need Debian ({OS_RELEASE}: ID={id}; expected ID=debian)"
        ));
    }
    let is_released = value(os_release, "VERSION_ID").is_some();
    (is_backport && !is_released)
        .then(|| "testing and unstable versions of Debian have no backports".to_owned())
}

/// Returns the value of a key of `/etc/os-release`.
fn value<'t>(os_release: &'t str, key: &str) -> Option<&'t str> {
    let mut lines = os_release.lines();
    let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
    Some(value.trim_matches(['"', '\'']))
}

/// Returns the folder in which packages for this architecture have their libraries. Right for
/// `x86_64` and `aarch64`; Debian has other names for some other architectures.
pub(crate) fn library_folder() -> String {
    format!("usr/lib/{}-linux-gnu", env::consts::ARCH)
}

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

/// Returns options with which apt-get reads only the backports of this machine's release, from the
/// server that the machine uses, and stores their list in `folder`. Returns the reason instead if
/// the server does not offer backports of the release, or if these do not contain the package.
///
/// # Errors
/// If the machine does not run Debian with package lists, or if the list cannot be downloaded.
pub(crate) fn backports(folder: &Path, package: &str) -> Result<Result<Vec<OsString>, String>> {
    let codename = codename()?;
    let server = server(&codename)?;
    let list = folder.join("backports.list");
    fs::create_dir_all(folder.join("lists").join("partial"))?;
    fs::write(
        &list,
        format!("deb [signed-by={KEYS}] {server} {codename}-backports main\n"),
    )?;
    let options = list_options(&list, folder);
    let mut update = Command::new("apt-get");
    update.args(&options).arg("update").env("LC_ALL", "C");
    let updated = watch(&mut update, |_| ())?;
    if is_absent(&updated.out, &updated.err) {
        return Ok(Err(format!("{server} has no {codename}-backports")));
    }
    succeeded(&update, updated)?;
    // The list of versions is empty if no list of packages contains the package.
    let versions = output(
        Command::new("apt-cache")
            .args(&options)
            .args(["madison", package]),
    )?;
    Ok(match versions.trim() {
        "" => Err(format!("{codename}-backports has no package {package}")),
        _ => Ok(options),
    })
}

/// Downloads a package from the backports of a release, with all packages that it needs, into
/// `folder`, and returns their paths. No package counts as installed, so the C library is among
/// them.
///
/// # Errors
/// If the machine does not run Debian with package lists, or if a download fails.
pub(crate) fn download_all(folder: &Path, release: &str, package: &str) -> Result<Vec<PathBuf>> {
    let server = server(&codename()?)?;
    let (list, status) = (folder.join("release.list"), folder.join("status"));
    let archives = folder.join("archives");
    fs::create_dir_all(folder.join("lists").join("partial"))?;
    fs::create_dir_all(archives.join("partial"))?;
    let line = |suite: &str| format!("deb [signed-by={KEYS}] {server} {suite} main\n");
    let backports = format!("{release}-backports");
    fs::write(&list, line(release) + &line(&backports))?;
    fs::write(&status, "")?;
    let mut options = list_options(&list, folder);
    let mut of_status = OsString::from("Dir::State::status=");
    of_status.push(&status);
    options.extend([
        "-o".into(),
        of_status,
        "-o".into(),
        "Debug::NoLocking=1".into(),
    ]);
    output(Command::new("apt-get").args(&options).arg("update"))?;
    output(
        Command::new("apt-get")
            .args(&options)
            .args([
                "install",
                "--yes",
                "--download-only",
                "--no-install-recommends",
            ])
            .arg(format!("{package}/{backports}")),
    )?;
    let mut packages = Vec::new();
    for entry in fs::read_dir(archives)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            packages.push(path);
        }
    }
    Ok(packages)
}

/// Returns the name of this machine's release.
pub(crate) fn codename() -> Result<String> {
    let os_release = fs::read_to_string(OS_RELEASE).context(OS_RELEASE)?;
    let codename = value(&os_release, "VERSION_CODENAME");
    let codename = codename.with_context(|| format!("{OS_RELEASE}: no VERSION_CODENAME"))?;
    Ok(codename.to_owned())
}

/// Returns the server from which apt-get gets the packages of this machine's release.
fn server(codename: &str) -> Result<String> {
    let targets = output(Command::new("apt-get").args([
        "indextargets",
        "--format",
        "$(REPO_URI) $(CODENAME) $(COMPONENT)",
        "Created-By: Packages",
    ]))?;
    let Some(server) = main_server(&targets, codename) else {
        bail!("apt-get has no server for {codename} main (run `apt-get update` as root)");
    };
    Ok(server.to_owned())
}

/// Returns options with which apt-get reads only `list`, and stores files in `folder`.
fn list_options(list: &Path, folder: &Path) -> Vec<OsString> {
    let set = |key: &str, value: &Path| {
        let mut option = OsString::from(format!("{key}="));
        option.push(value);
        ["-o".into(), option]
    };
    [
        set("Dir::Etc::SourceList", list),
        set("Dir::Etc::SourceParts", Path::new("-")),
        set("Dir::State::Lists", &folder.join("lists")),
        set("Dir::Cache", folder),
        // By default a server that does not answer is only a warning.
        set("APT::Update::Error-Mode", Path::new("any")),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns whether the output of `apt-get update` contains the answer of a server that the release
/// does not exist. Other faults, such as a network that does not work, may be temporary.
fn is_absent(out: &str, err: &str) -> bool {
    out.contains(" 404 ") && err.contains("does not have a Release file")
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
    succeeded(command, finished)
}

/// Returns the output of a command that succeeded; an error contains the command's reason.
fn succeeded(command: &Command, finished: Finished) -> Result<String> {
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
    fn only_debian_offers_packages_and_only_its_releases_have_backports() {
        let bookworm = "VERSION_ID=\"12\"\nVERSION_CODENAME=bookworm\nID=debian\n";
        assert_eq!(value(bookworm, "VERSION_ID"), Some("12"));
        assert_eq!(value(bookworm, "VERSION"), None);
        let testing = "VERSION_CODENAME=forky\nID=debian\n";
        let ubuntu = "ID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"26.04\"\n";
        for is_backport in [false, true] {
            assert_eq!(unsupported_by(bookworm, is_backport), None);
            assert_eq!(unsupported_by(testing, is_backport).is_some(), is_backport);
            let why = unsupported_by(ubuntu, is_backport).unwrap();
            assert!(why.contains("ID=ubuntu"), "{why}");
        }
    }

    #[test]
    fn only_an_answer_of_the_server_shows_that_it_has_no_backports() {
        let err =
            "E: The repository 'http://a sid-backports Release' does not have a Release file.\n";
        let out = "Err:2 http://a sid-backports Release\n  404  Not Found [IP: 192.0.2.1 80]\n";
        assert!(is_absent(out, err));
        let out = "Err:1 http://a sid-backports InRelease\n  Could not resolve 'a'\n";
        assert!(!is_absent(out, err));
        assert!(!is_absent(out, "E: Failed to fetch http://a\n"));
    }

    #[test]
    fn backports_come_from_the_server_of_the_release() {
        let targets = "http://a/ old-security main\nhttp://b/ old non-free\nhttp://c/ old main\n";
        assert_eq!(main_server(targets, "old"), Some("http://c/"));
        assert_eq!(main_server(targets, "none"), None);
    }
}
