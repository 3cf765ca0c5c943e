//! The commit that a program was built from.
//!
//! Role: the only rule that decides whether the working tree of a record is changed.

use std::path::Path;
use std::process::{Command, Stdio};

/// Ending of the name of a commit with changes that are not committed.
pub const DIRTY: &str = "-dirty";
/// Everything except the records, which a run writes and no later run measures. Folders of this
/// name elsewhere, such as those of modules, are code.
const MEASURED: [&str; 3] = [
    ":/",
    ":(top,exclude)benches/record",
    ":(top,exclude)xtask/record",
];

/// Returns the short hash of the commit that is checked out in the repository of a folder, with
/// [`DIRTY`] at its end if files other than records are changed or new; `None` outside of a
/// repository.
#[must_use]
pub fn checked_out(folder: &Path) -> Option<String> {
    let hash = git(folder, &["rev-parse", "--short", "HEAD"])?;
    let status = ["status", "--porcelain", "--untracked-files=normal", "--"];
    let changes = git(folder, &[&status[..], &MEASURED].concat())?;
    let ending = if changes.is_empty() { "" } else { DIRTY };
    Some(hash + ending)
}

/// Returns the output of git in a folder, or `None` if git is absent or fails.
fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let mut git = Command::new("git");
    git.arg("-C").arg(folder).args(arguments);
    // A hook of git sets these to the repository that runs the hook, whatever the folder.
    for name in [
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_COMMON_DIR",
    ] {
        git.env_remove(name);
    }
    let output = git.stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::TemporaryFolder;

    #[test]
    fn only_changes_of_records_leave_a_commit_clean() {
        let folder = TemporaryFolder::create(&std::env::temp_dir(), "commit").unwrap();
        let root = folder.path();
        let write = |file: &str, text: &str| {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let files = [
            "benches/record/run.json",
            "xtask/record/fuzz.json",
            "crates/harness/src/record/machine.rs",
            "xtask/src/record/rows.rs",
            "README.md",
        ];
        files.iter().for_each(|file| write(file, "committed"));
        assert!(git(root, &["init", "--quiet"]).is_some());
        assert_eq!(checked_out(root), None, "nothing is committed");
        assert!(git(root, &["add", "--all"]).is_some());
        let settings = [
            "user.name=a",
            "user.email=a",
            "commit.gpgsign=false",
            "core.hooksPath=/dev/null",
        ];
        let settings = settings.iter().flat_map(|&setting| ["-c", setting]);
        let commit = ["commit", "--quiet", "--message=a"];
        let arguments: Vec<&str> = settings.chain(commit).collect();
        assert!(git(root, &arguments).is_some());
        let clean = checked_out(root).unwrap();
        assert!(!clean.ends_with(DIRTY), "{clean}");
        // The package of a program is a folder below the root.
        let below = root.join("crates/harness");
        for file in files
            .into_iter()
            .chain(["benches/record/new.json", "new.rs"])
        {
            write(file, "changed");
            let is_record = file.contains("/record/") && !file.contains("/src/");
            let expected = format!("{clean}{}", if is_record { "" } else { DIRTY });
            assert_eq!(checked_out(&below), Some(expected), "{file}");
            if file == "new.rs" {
                fs::remove_file(root.join(file)).unwrap();
            } else {
                write(file, "committed");
            }
        }
    }
}
