//! Temporary folders that are removed on drop.
//!
//! Role: downloads are unpacked in such a folder, and a browser under test has its profile there.
//! Method: the name of a folder contains the id of its process. A process that is ended by a signal
//! leaves its folder; the next process with the same place and name removes the folder.
//! Limits: `/proc` shows whether a process is running. On a system without `/proc`, the folder of
//! an ended process stays until a process has the same id.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;

/// A temporary folder, removed on drop.
#[derive(Debug)]
pub(crate) struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    /// Creates an empty folder in `place`, and `place` itself if it is missing. A process may have
    /// one folder of a name in a place.
    ///
    /// # Errors
    /// An I/O error, such as that the folder exists and belongs to another user.
    pub(crate) fn create(place: &Path, name: &str) -> io::Result<Self> {
        fs::create_dir_all(place)?;
        remove_left(place, name)?;
        let path = place.join(format!("{name}-{}", process::id()));
        fs::create_dir(&path)?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // A folder that cannot be removed only takes up disk space.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Removes the folders of ended processes.
fn remove_left(place: &Path, name: &str) -> io::Result<()> {
    for entry in fs::read_dir(place)? {
        let entry = entry?;
        let file_name = entry.file_name();
        let id = file_name.to_str().and_then(|file_name| {
            let id = file_name.strip_prefix(name)?.strip_prefix('-')?;
            id.parse().ok()
        });
        if id.is_some_and(has_ended) {
            // A folder of another user stays.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}

/// Returns whether the process that created the folder with an id has ended. A folder with the id
/// of this process is from an earlier process.
fn has_ended(id: u32) -> bool {
    let processes = Path::new("/proc");
    id == process::id()
        || (processes.join("self").exists() && !processes.join(id.to_string()).exists())
}

#[cfg(test)]
mod tests {
    use std::env;

    use super::*;

    #[test]
    fn a_folder_is_new_and_removed_on_drop() {
        let place = env::temp_dir().join(format!("xtask-temporary-{}", process::id()));
        let left = place.join(format!("x-{}", process::id()));
        fs::create_dir_all(left.join("below")).unwrap();
        let folder = TemporaryFolder::create(&place, "x").unwrap();
        assert_eq!(folder.path(), left);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        drop(folder);
        assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
        fs::remove_dir_all(&place).unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn only_folders_of_ended_processes_are_removed() {
        let place = env::temp_dir().join(format!("xtask-left-{}", process::id()));
        // `cat` runs until its input is closed.
        let mut other = process::Command::new("cat")
            .stdin(process::Stdio::piped())
            .spawn()
            .unwrap();
        let folder = place.join(format!("x-{}", other.id()));
        let others = ["x", "x-", "x-y", "y-1"].map(|name| place.join(name));
        for folder in others.iter().chain([&folder]) {
            fs::create_dir_all(folder).unwrap();
        }
        let create = || drop(TemporaryFolder::create(&place, "x").unwrap());
        create();
        assert!(folder.exists());
        drop(other.stdin.take());
        other.wait().unwrap();
        create();
        assert!(!folder.exists());
        assert!(others.iter().all(|folder| folder.exists()));
        fs::remove_dir_all(&place).unwrap();
    }
}
