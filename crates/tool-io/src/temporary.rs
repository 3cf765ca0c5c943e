//! Temporary folders that are removed on drop.
//!
//! Method: the name of a folder contains the id of its process and a number. A process that is
//! ended by a signal leaves its folders; the next process that creates a folder with the same place
//! and name removes them.
//! Limits: `/proc` shows whether a process is running. On a system without `/proc`, the folders of
//! ended processes stay. Containers that share a folder but not their process ids see each other's
//! processes as ended, and would remove folders that are in use; give each a place of its own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// A temporary folder, removed with its contents on drop.
///
/// # Examples
/// ```
/// let folder = tool_io::TemporaryFolder::create(&std::env::temp_dir(), "example")?;
/// let path = folder.path().to_owned();
/// std::fs::write(path.join("file"), "text")?;
/// drop(folder);
/// assert!(!path.exists());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    /// Creates an empty folder in `place`, and `place` itself if it is missing. Every call creates
    /// another folder. Removes the folders with this place and name that ended processes left.
    ///
    /// # Errors
    /// An I/O error, such as that `place` belongs to another user.
    pub fn create(place: &Path, name: &str) -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        fs::create_dir_all(place)?;
        remove_left(place, name)?;
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = place.join(format!("{name}-{}-{number}", process::id()));
            match fs::create_dir(&path) {
                // An earlier process with the same id left this folder.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                created => return created.map(|()| Self(path)),
            }
        }
    }

    /// Returns the path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
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
            let rest = file_name.strip_prefix(name)?.strip_prefix('-')?;
            let (id, number) = rest.split_once('-')?;
            number.parse::<u32>().ok()?;
            id.parse().ok()
        });
        if id.is_some_and(has_ended) {
            // A folder of another user stays.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}

/// Returns whether the process with an id has ended.
fn has_ended(id: u32) -> bool {
    let processes = Path::new("/proc");
    processes.join("self").exists() && !processes.join(id.to_string()).exists()
}

#[cfg(test)]
mod tests {
    use std::env;

    use super::*;

    #[test]
    fn a_folder_is_new_and_removed_on_drop() {
        let place = env::temp_dir().join(format!("tool-io-temporary-{}", process::id()));
        let create = || TemporaryFolder::create(&place, "x").unwrap();
        let (one, two) = (create(), create());
        assert_ne!(one.path(), two.path());
        for folder in [&one, &two] {
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
            fs::create_dir_all(folder.path().join("below")).unwrap();
        }
        drop(one);
        assert!(two.path().exists());
        drop(two);
        assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
        fs::remove_dir_all(&place).unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn only_folders_of_ended_processes_are_removed() {
        let place = env::temp_dir().join(format!("tool-io-left-{}", process::id()));
        // `cat` runs until its input is closed.
        let mut other = process::Command::new("cat")
            .stdin(process::Stdio::piped())
            .spawn()
            .unwrap();
        let folder = place.join(format!("x-{}-0", other.id()));
        let others = ["x", "x-", "x-y", "x-0-y", "y-1-0"].map(|name| place.join(name));
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
