//! Output files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::{Result, failed};

/// Writes a text file atomically, so that no reader sees half of its text. A symbolic link is
/// followed, also if its target does not exist yet. A path that is not a regular file, such as a
/// pipe or a device, is written directly.
///
/// # Errors
/// Creating the folder, writing or renaming failed; the message contains the path.
pub fn replace_file(path: &Path, text: &str) -> Result<()> {
    let shown = path.display();
    let path = &target(path).map_err(failed(format!("cannot write {shown}")))?;
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)
            .map_err(failed(format!("cannot create the folder of {shown}")))?;
    }
    if path.exists() && !path.is_file() {
        return fs::write(path, text).map_err(failed(format!("cannot write {shown}")));
    }
    let neighbour = neighbour(path);
    let written = fs::write(&neighbour, text).and_then(|()| fs::rename(&neighbour, path));
    if written.is_err() {
        // The partial file is of no use. Errors of its removal are ignored, because the first error
        // matters.
        let _ = fs::remove_file(&neighbour);
    }
    written.map_err(failed(format!("cannot write {shown}")))
}

/// Checks that [`replace_file`] can write a file, before the work whose result the file is for.
/// Creates and removes a temporary file in the folder or, if the folder does not exist yet, in the
/// nearest folder above it. Does not check pipes and devices.
///
/// # Errors
/// The path is a folder, or the temporary file cannot be created; the message contains the path.
pub fn check_replaceable(path: &Path) -> Result<()> {
    let fault = || failed(format!("cannot write {}", path.display()));
    let is_named_as_folder = path.to_string_lossy().ends_with(std::path::is_separator);
    if path.is_dir() || is_named_as_folder {
        return Err(fault()(io::ErrorKind::IsADirectory.into()));
    }
    if path.exists() && !path.is_file() {
        return Ok(());
    }
    let whole = target(path).and_then(std::path::absolute);
    let neighbour = neighbour(&whole.map_err(fault())?);
    let mut folders = neighbour.ancestors().skip(1);
    let folder = folders.find(|folder| folder.symlink_metadata().is_ok());
    let name = neighbour.file_name().unwrap_or_default();
    let probe = folder.unwrap_or(&neighbour).join(name);
    fs::write(&probe, "").map_err(fault())?;
    fs::remove_file(&probe).map_err(fault())
}

/// Returns the path of the file that a path refers to, which need not exist: follows symbolic
/// links.
fn target(path: &Path) -> io::Result<PathBuf> {
    /// The limit of Linux.
    const MAX_LINKS: usize = 40;
    let mut target = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(link) = target.read_link() else {
            return Ok(target);
        };
        // A relative target starts at the folder of the link.
        target = target.parent().unwrap_or(Path::new("")).join(link);
    }
    // The system reports links that refer to each other.
    path.canonicalize()
}

/// Returns the path of the temporary file next to a file.
fn neighbour(path: &Path) -> PathBuf {
    let mut neighbour = path.as_os_str().to_owned();
    neighbour.push(format!(".{}.part", std::process::id()));
    PathBuf::from(neighbour)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_written_is_an_error_beforehand_and_the_check_leaves_no_trace() {
        let folder = std::env::temp_dir().join(format!("replaceable-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("file");
        fs::write(&file, "old").unwrap();
        let long_name = folder.join("x".repeat(300));
        for bad in [
            &folder,
            &file.join("below"),
            &folder.join("new/"),
            &long_name,
        ] {
            let error = check_replaceable(bad).expect_err(&bad.display().to_string());
            assert!(error.to_string().contains(&bad.display().to_string()));
            assert!(replace_file(bad, "text").is_err(), "{}", bad.display());
        }
        assert!(check_replaceable(Path::new("")).is_err());
        for good in [&file, &folder.join("new"), &folder.join("a/b/new")] {
            check_replaceable(good).unwrap();
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "old");
        let left: Vec<_> = fs::read_dir(&folder).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
        replace_file(&folder.join("a/b/new"), "text").unwrap();
        fs::remove_dir_all(folder).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_to_files_that_do_not_exist_and_circles_are_errors() {
        use std::os::unix::fs::symlink;
        let folder = std::env::temp_dir().join(format!("links-{}", std::process::id()));
        fs::create_dir_all(folder.join("far")).unwrap();
        symlink("far/second", folder.join("first")).unwrap();
        symlink("new/file", folder.join("far/second")).unwrap();
        let first = folder.join("first");
        for text in ["new", "replaced"] {
            check_replaceable(&first).unwrap();
            replace_file(&first, text).unwrap();
            let written = fs::read_to_string(folder.join("far/new/file")).unwrap();
            assert_eq!(written, text);
            assert!(first.is_symlink() && folder.join("far/second").is_symlink());
        }
        let circle = folder.join("circle");
        symlink("circle", &circle).unwrap();
        check_replaceable(&circle).unwrap_err();
        replace_file(&circle, "text").unwrap_err();
        assert!(circle.is_symlink());
        fs::remove_dir_all(folder).unwrap();
    }
}
