//! The Python that runs the rivals.
//!
//! Role: finds it, or says what to do where there is none; sets it up so that it disturbs no measurement.

use crate::record::NotRun;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Names the Python to use before any on the search path.
pub const PYTHON_VARIABLE: &str = "RIVALS_PYTHON";

/// Finds a Python: the one that [`PYTHON_VARIABLE`] names, else `python3`, else `python`.
///
/// # Errors
/// None of them runs; the error says what to do.
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
                format!(
                    "{PYTHON_VARIABLE} names {}, which does not run",
                    path.display()
                )
            }),
            how: format!("install Python 3, or name one in {PYTHON_VARIABLE}"),
        })
}

/// Gives a command that is this Python with its settings, and still lacks a script.
pub(super) fn command(python: &Path) -> Command {
    let mut command = Command::new(python);
    // OpenBLAS under NumPy keeps a core busy for 100 ms after a call, so that whoever runs next is measured on one core
    // less. With 2²⁴ ticks of the clock, a few milliseconds, its threads still bridge the gap between two runs of one
    // turn.
    command.env("OPENBLAS_THREAD_TIMEOUT", "24");
    // No compiled copies of the scripts, and no lines held back.
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
