//! Whether another campaign runs on this machine.
//!
//! Role: two campaigns at the same time share the cores, and both measure wrong times.
//! Method: a locked file in the system's folder for temporary files; the system unlocks it when the
//! process ends, however it ends.
//! Limits: only the campaign that begins second notices the other, although both measure wrong
//! times.

use std::fs::{File, OpenOptions};
use std::path::Path;

/// Name of the locked file.
const NAME: &str = "numerics-bench.lock";

/// A lock that is held while a campaign runs.
#[derive(Debug)]
pub(super) struct Lock {
    /// The locked file; `None` if another process has locked it, or if it cannot be opened.
    file: Option<File>,
    /// Whether no other process has locked the file.
    pub(super) is_alone: bool,
}

impl Lock {
    /// Locks the file of this machine.
    pub(super) fn take() -> Self {
        Self::take_in(&std::env::temp_dir())
    }

    fn take_in(folder: &Path) -> Self {
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true);
        // If the file cannot be opened, such as another user's, the run counts as alone.
        let Ok(file) = options.open(folder.join(NAME)) else {
            return Self {
                file: None,
                is_alone: true,
            };
        };
        let is_alone = !matches!(file.try_lock(), Err(std::fs::TryLockError::WouldBlock));
        Self {
            file: is_alone.then_some(file),
            is_alone,
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            // An error would only leave the file locked until the process ends.
            let _ = file.unlock();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_campaign_notices_the_first() {
        let folder = tool_io::TemporaryFolder::create(&std::env::temp_dir(), "alone").unwrap();
        let folder = folder.path();
        let first = Lock::take_in(folder);
        assert!(first.is_alone && !Lock::take_in(folder).is_alone);
        drop(first);
        assert!(Lock::take_in(folder).is_alone);
        assert!(Lock::take_in(Path::new("/nonexistent")).is_alone);
    }
}
