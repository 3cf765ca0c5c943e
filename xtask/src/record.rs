//! Records of long runs in `xtask/record`: rows of JSON with command, commit and machine.
//!
//! Role: writes the records of `verify`, `mutants` and `fuzz`; `soak`, which is a program of
//! `benches`, has a record of its own, with the verdicts on memory. A row replaces the row of the
//! same name, so that a part can be repeated without the others.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::{Context as _, Result};
use serde_json::{Map, Value, json};
use tool_io::replace_file;

use crate::workspace::Workspace;

/// Version of the form of all records.
const SCHEMA: u32 = 1;
/// Folder of the records, relative to the root.
const FOLDER: &str = "xtask/record";
/// Ending of the name of a commit with changes that are not committed.
const DIRTY: &str = "-dirty";

/// A record: a file with rows that have a name each.
pub(crate) struct Record {
    path: PathBuf,
    /// Key under which a row has its name.
    key: &'static str,
}

impl Record {
    /// Opens the record with a name; the file need not exist.
    pub(crate) fn open(workspace: &Workspace, name: &str, key: &'static str) -> Self {
        let path = workspace.root.join(FOLDER).join(format!("{name}.json"));
        Self { path, key }
    }

    /// Returns all rows, in the order of their names.
    pub(crate) fn rows(&self) -> Result<Vec<Value>> {
        let Ok(text) = fs::read_to_string(&self.path) else {
            return Ok(Vec::new());
        };
        let known: Value =
            serde_json::from_str(&text).with_context(|| self.path.display().to_string())?;
        Ok(known["rows"].as_array().cloned().unwrap_or_default())
    }

    /// Returns the row with a name.
    pub(crate) fn row(&self, name: &str) -> Result<Option<Value>> {
        let mut rows = self.rows()?.into_iter();
        Ok(rows.find(|row| row[self.key] == name))
    }

    /// Replaces or adds a row.
    pub(crate) fn put(&self, row: Value) -> Result<()> {
        let mut rows = self.rows()?;
        rows.retain(|known| known[self.key] != row[self.key]);
        rows.push(row);
        rows.sort_by_key(|row| row[self.key].to_string());
        let text = serde_json::to_string_pretty(&json!({ "schema": SCHEMA, "rows": rows }))?;
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        Ok(replace_file(&self.path, &(text + "\n"))?)
    }
}

/// Returns the entries of a row that repeat a run: command, commit, date, compiler and machine.
pub(crate) fn circumstances(root: &Path, command: &str) -> Map<String, Value> {
    let mut date = Command::new("date");
    date.args(["-u", "+%Y-%m-%dT%H:%M:%SZ"]);
    let entries = [
        ("command", json!(command)),
        ("commit", json!(commit(root))),
        ("date", json!(output(&mut date))),
        ("rustc", json!(output(rustc().arg("--version")))),
        ("cpu", json!(cpu())),
        (
            "cores",
            json!(thread::available_parallelism().map_or(1, usize::from)),
        ),
    ];
    let entries = entries.into_iter();
    entries
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

/// Returns the short hash of the commit that is checked out, with an ending if files other than
/// records are changed; `None` outside of a repository.
pub(crate) fn commit(root: &Path) -> Option<String> {
    let git = |arguments: &[&str]| output(Command::new("git").current_dir(root).args(arguments));
    let hash = git(&["rev-parse", "--short", "HEAD"])?;
    let others = format!(":!{FOLDER}");
    let changes = git(&[
        "status",
        "--porcelain",
        "--untracked-files=no",
        "--",
        ".",
        &others,
    ])?;
    let ending = if changes.is_empty() { "" } else { DIRTY };
    Some(hash + ending)
}

/// Returns whether a commit has changes that are not committed.
pub(crate) fn is_dirty(commit: &str) -> bool {
    commit.ends_with(DIRTY)
}

/// Returns the command of the compiler that cargo uses.
pub(crate) fn rustc() -> Command {
    Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
}

/// Returns the output of a command; `None` if the command is missing or fails.
pub(crate) fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok();
    let output = output.filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Returns the model of the CPU; `None` if unknown.
fn cpu() -> Option<String> {
    of_cpu("model name")
}

/// Returns the model of the CPU and its instruction sets, as far as Linux reports them.
pub(crate) fn cpu_features() -> [Option<String>; 3] {
    ["model name", "flags", "Features"].map(of_cpu)
}

/// Returns an entry of the first CPU; `None` if unknown.
fn of_cpu(key: &str) -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let mut lines = text.lines();
    let entry = lines.find_map(|line| line.strip_prefix(key))?;
    Some(entry.split_once(':')?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tool_io::TemporaryFolder;

    #[test]
    fn a_row_is_replaced_and_others_are_kept() {
        let folder = TemporaryFolder::create(&env::temp_dir(), "xtask-record").unwrap();
        let record = Record {
            path: folder.path().join("new/fuzz.json"),
            key: "target",
        };
        assert_eq!(record.row("npy").unwrap(), None);
        for (target, executions) in [("npy", 1), ("idx", 2), ("npy", 3)] {
            record
                .put(json!({ "target": target, "executions": executions }))
                .unwrap();
        }
        let [idx, npy] = [
            json!({ "target": "idx", "executions": 2 }),
            json!({ "target": "npy", "executions": 3 }),
        ];
        assert_eq!(record.rows().unwrap(), [idx, npy.clone()]);
        assert_eq!(record.row("npy").unwrap(), Some(npy));
    }

    #[test]
    fn a_row_names_its_command_and_its_compiler() {
        let entries = circumstances(&crate::workspace::root(), "cargo xtask mutants");
        assert_eq!(entries["command"], "cargo xtask mutants");
        let rustc = entries["rustc"].as_str().unwrap();
        assert!(rustc.starts_with("rustc "), "{rustc}");
    }
}
