//! Output files.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Result, failed};

/// Writes a text file atomically, so that no reader sees half of its text. A symbolic link is
/// followed. A path that is not a regular file, such as a pipe or a device, is written directly.
///
/// # Errors
/// Creating the folder, writing or renaming failed; the message contains the path.
pub fn replace_file(path: &Path, text: &str) -> Result<()> {
    let shown = path.display();
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)
            .map_err(failed(format!("cannot create the folder of {shown}")))?;
    }
    if path.exists() && !path.is_file() {
        return fs::write(path, text).map_err(failed(format!("cannot write {shown}")));
    }
    let path = &path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut neighbour = path.as_os_str().to_owned();
    neighbour.push(format!(".{}.part", std::process::id()));
    let neighbour = PathBuf::from(neighbour);
    let written = fs::write(&neighbour, text).and_then(|()| fs::rename(&neighbour, path));
    if written.is_err() {
        // The partial file is of no use. Errors of its removal are ignored, because the first error
        // matters.
        let _ = fs::remove_file(&neighbour);
    }
    written.map_err(failed(format!("cannot write {shown}")))
}
