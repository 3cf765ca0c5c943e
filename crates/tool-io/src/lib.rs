//! Standard output, stop signals, exit codes, output files, temporary folders and the commit of
//! command-line programs.
//!
//! Role: behaviour that all programs of the workspace share. A closed pipe is not an error, a file
//! is replaced as a whole or not at all, default output is in one folder, and a program learns of
//! Ctrl-C in time to finish its files.

use std::io;

pub use file::{check_replaceable, replace_file};
pub use places::{TARGET_VARIABLE, WORKSPACE_VARIABLE, target_folder, workspace_path};
pub use temporary::TemporaryFolder;

pub mod commit;
pub mod exit;
mod file;
pub mod output;
mod places;
pub mod signals;
mod temporary;

/// A failed action of a program, with the error of the operating system as its source.
#[derive(Debug, thiserror::Error)]
#[error("{action}")]
pub struct Error {
    action: String,
    source: io::Error,
}

/// A `Result` with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Returns a function that adds the description of an action to an error.
fn failed(action: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
    let action = action.into();
    |source| Error { action, source }
}
