//! Atomic creation of files: a file appears complete or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A file under a temporary name in the folder of its final path. The file is deleted if it is
/// dropped before [`NewFile::place`].
#[derive(Debug)]
pub(super) struct NewFile {
    out: BufWriter<File>,
    temporary: PathBuf,
    is_placed: bool,
}

impl NewFile {
    /// Creates the temporary file in the folder of `path`, because renaming is atomic only within a
    /// file system.
    pub(super) fn next_to(path: &Path) -> io::Result<Self> {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
        loop {
            let mut hidden = std::ffi::OsString::from(".");
            hidden.push(name);
            let number = COUNTER.fetch_add(1, Ordering::Relaxed);
            hidden.push(format!(".{}-{number}.tmp", std::process::id()));
            let temporary = path.with_file_name(hidden);
            match File::create_new(&temporary) {
                Ok(file) => {
                    return Ok(Self {
                        out: BufWriter::new(file),
                        temporary,
                        is_placed: false,
                    });
                }
                // A killed process with the same number has left a file of this name.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Renames the finished file to `path`, and replaces an existing file.
    pub(super) fn place(mut self, path: &Path) -> io::Result<()> {
        self.out.flush()?;
        self.out.get_ref().sync_all()?;
        fs::rename(&self.temporary, path)?;
        self.is_placed = true;
        Ok(())
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_placed {
            // The caller already has an error that is more important than a failure to delete this
            // file.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_file_of_a_killed_process_is_passed_over() {
        let folder = std::env::temp_dir().join(format!("new-file-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("data");
        // The next names; other tests may use some of the numbers meanwhile.
        for number in 0..1000 {
            let name = format!(".data.{}-{number}.tmp", std::process::id());
            fs::write(folder.join(name), "old").unwrap();
        }
        let mut file = NewFile::next_to(&path).unwrap();
        file.write_all(b"new").unwrap();
        file.place(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        fs::remove_dir_all(&folder).unwrap();
    }
}
