//! Temporary files for readers that take a path.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;

/// A temporary file or folder, removed on drop.
#[derive(Debug)]
pub(crate) struct Temporary(PathBuf);

impl Temporary {
    /// Creates a file, or replaces the file of an earlier run of the same process.
    ///
    /// # Panics
    /// If the file cannot be written.
    pub(crate) fn file(name: &str, bytes: &[u8]) -> Self {
        let path = path(name);
        fs::write(&path, bytes).expect("the folder of temporary files is writable");
        Self(path)
    }

    /// Creates an empty folder.
    ///
    /// # Panics
    /// If the folder cannot be created.
    pub(crate) fn folder(name: &str) -> Self {
        let path = path(name);
        // A folder of an ended process with the same id.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).expect("the folder of temporary files is writable");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // A file that cannot be removed is no fault of the code under test.
        let _ = fs::remove_file(&self.0).or_else(|_| fs::remove_dir_all(&self.0));
    }
}

fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("fuzz-{}-{name}", process::id()))
}
