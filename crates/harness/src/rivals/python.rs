//! The Python interpreter that runs the rivals.
//!
//! Role: finds the interpreter, or returns what to do if there is none, and sets environment
//! variables so that a rival does not disturb other measurements.

use crate::record::NotRun;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Name of the environment variable with the path of the Python interpreter; it takes precedence
/// over the search path.
pub const PYTHON_VARIABLE: &str = "RIVALS_PYTHON";

/// Finds a Python interpreter: the one that [`PYTHON_VARIABLE`] names, otherwise `python3`,
/// otherwise `python`.
///
/// # Errors
/// None of these runs; the error describes what to do.
pub fn python() -> Result<PathBuf, NotRun> {
    let named = std::env::var_os(PYTHON_VARIABLE).map(PathBuf::from);
    let candidates = match &named {
        Some(path) => vec![path.clone()],
        None => vec![PathBuf::from("python3"), PathBuf::from("python")],
    };
    candidates
        .into_iter()
        .find(|path| runs(path))
        .ok_or_else(|| NotRun {
            what: "rivals in Python".to_owned(),
            why: named.map_or("no Python was found".to_owned(), |path| {
                format!("{} does not run (set by {PYTHON_VARIABLE})", path.display())
            }),
            how: format!("install Python 3, or set {PYTHON_VARIABLE} to its path"),
        })
}

/// Script that prints name and version of each installed package among its arguments.
const VERSIONS: &str = "\
import sys
from importlib.metadata import PackageNotFoundError, version
for name in sys.argv[1:]:
    try: print(name, version(name))
    except PackageNotFoundError: pass
";

/// Returns the versions of the installed ones of these packages, without importing them. The map is
/// empty if the interpreter does not answer.
#[must_use]
pub fn packages(python: &Path, names: &[&str]) -> BTreeMap<String, String> {
    let mut command = command(python);
    command.args(["-c", VERSIONS]).args(names);
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output();
    let text = output.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stdout).into_owned(),
    );
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    pairs
        .map(|(name, version)| (name.to_owned(), version.to_owned()))
        .collect()
}

/// Returns a command that runs this interpreter with our settings; the caller adds the script.
pub(super) fn command(python: &Path) -> Command {
    let mut command = Command::new(python);
    // OpenBLAS, used by NumPy, keeps a core busy for 100 ms after a call, so the next contestant
    // would have one core less. The timeout is 2²⁴ clock ticks, a few milliseconds, which still
    // bridges the gap between two runs of one turn.
    command.env("OPENBLAS_THREAD_TIMEOUT", "24");
    // No compiled copies of the scripts, and no buffering of lines.
    command
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PYTHONUNBUFFERED", "1");
    command
}

fn runs(python: &Path) -> bool {
    let mut command = Command::new(python);
    command
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
