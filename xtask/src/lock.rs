//! Locks of the folders that two runs of a command cannot share.
//!
//! Method: a locked file; the system unlocks it when the process ends, however it ends.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::Path;

use anyhow::{Context as _, Result, bail};

/// The lock of a command in a folder, held until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Locks a folder for a command.
    ///
    /// # Errors
    /// Another run that holds the lock.
    pub(crate) fn take(folder: &Path, command: &str) -> Result<Self> {
        let path = folder.join(format!("{command}.lock"));
        let context = || format!("{command}: {}", path.display());
        fs::create_dir_all(folder).with_context(context)?;
        let mut options = OpenOptions::new();
        let file = options.create(true).truncate(false).write(true).open(&path);
        let file = file.with_context(context)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => {
                bail!("{command}: another run uses {}", folder.display())
            }
            Err(TryLockError::Error(error)) => Err(error).with_context(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tool_io::TemporaryFolder;

    #[test]
    fn a_second_run_is_an_error_until_the_first_ends() {
        let folder = TemporaryFolder::create(&std::env::temp_dir(), "xtask-lock").unwrap();
        let take = |command| Lock::take(&folder.path().join("target"), command);
        let first = take("mutants").unwrap();
        let message = take("mutants").unwrap_err().to_string();
        assert!(
            message.starts_with("mutants: another run uses"),
            "{message}"
        );
        take("fuzz").unwrap();
        drop(first);
        take("mutants").unwrap();
    }
}
