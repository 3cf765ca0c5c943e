//! Folders that `cargo xtask` passes to the programs.
//!
//! Role: a program runs in the caller's folder, to which the paths of its arguments are relative.
//! Only its default output, and files of the project, are elsewhere.
//! Method: environment variables, which a program without `cargo xtask` does not have; the defaults
//! are then relative to the current folder.

use std::env;
use std::path::{Path, PathBuf};

/// Environment variable with cargo's target folder.
pub const TARGET_VARIABLE: &str = "NUMERICS_TARGET";
/// Environment variable with the root of the workspace.
pub const WORKSPACE_VARIABLE: &str = "NUMERICS_WORKSPACE";

/// Returns the folder for output that can be created again: cargo's target folder, or `target`.
#[must_use]
pub fn target_folder() -> PathBuf {
    folder(env::var_os(TARGET_VARIABLE).map(PathBuf::from)).unwrap_or_else(|| "target".into())
}

/// Returns a path of the workspace, or in the current folder outside of a workspace.
#[must_use]
pub fn workspace_path(relative: impl AsRef<Path>) -> PathBuf {
    let root = folder(env::var_os(WORKSPACE_VARIABLE).map(PathBuf::from));
    root.unwrap_or_default().join(relative)
}

/// Returns a folder unless its name is empty.
fn folder(named: Option<PathBuf>) -> Option<PathBuf> {
    named.filter(|named| !named.as_os_str().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_name_is_no_folder() {
        assert_eq!(folder(Some("".into())), None);
        assert_eq!(folder(Some("a".into())), Some("a".into()));
    }
}
