//! Records of long runs in `xtask/record`: rows of JSON with command, commit and machine.
//!
//! Role: writes the records of `verify`, `mutants` and `fuzz`; `soak`, which is a program of
//! `benches`, has a record of its own, with the verdicts on memory. A row replaces the row of the
//! same name, so that a part can be repeated without the others.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::Command;
use std::thread;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Map, Value, json};
use tool_io::{check_replaceable, commit, replace_file};

use crate::workspace::Workspace;
use crate::{cpu, process};

/// Version of the form of all records.
const SCHEMA: u32 = 1;
/// Folder of the records, relative to the root.
const FOLDER: &str = "xtask/record";

/// A record: a file with rows that have a name each.
pub(crate) struct Record {
    path: PathBuf,
    /// Key under which a row has its name.
    key: &'static str,
}

impl Record {
    /// Opens the record with a name; the file need not exist.
    ///
    /// # Errors
    /// As [`Self::rows`].
    pub(crate) fn open(workspace: &Workspace, name: &str, key: &'static str) -> Result<Self> {
        let path = workspace.root.join(FOLDER).join(format!("{name}.json"));
        let record = Self { path, key };
        record.rows()?;
        Ok(record)
    }

    /// Checks that rows can be written, before the long run whose results they are for.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(crate) fn check_writable(&self) -> Result<()> {
        Ok(check_replaceable(&self.path)?)
    }

    /// Returns all rows, in the order of their names; none if there is no file.
    ///
    /// # Errors
    /// A file that cannot be read, and a file that is not a record of this version.
    pub(crate) fn rows(&self) -> Result<Vec<Value>> {
        let path = || self.path.display().to_string();
        let text = match fs::read_to_string(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            read => read.with_context(path)?,
        };
        let known: Value = serde_json::from_str(&text).with_context(path)?;
        let (schema, rows) = (&known["schema"], known["rows"].as_array());
        ensure!(
            *schema == SCHEMA && rows.is_some(),
            "{}: expected a record with schema {SCHEMA} and rows (found schema {schema})",
            path()
        );
        Ok(rows.cloned().unwrap_or_default())
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

/// Returns the entries of a row that repeat a run of a commit: command, commit, date, compiler and
/// machine.
pub(crate) fn circumstances(commit: Option<&str>, command: &str) -> Map<String, Value> {
    let mut date = Command::new("date");
    date.args(["-u", "+%Y-%m-%dT%H:%M:%SZ"]);
    let entries = [
        ("command", json!(command)),
        ("commit", json!(commit)),
        ("date", json!(process::output(&mut date))),
        (
            "rustc",
            json!(process::output(process::rustc().arg("--version"))),
        ),
        ("cpu", json!(cpu::model())),
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

/// Returns whether a commit has changes that are not committed.
pub(crate) fn is_dirty(commit: &str) -> bool {
    commit.ends_with(commit::DIRTY)
}

#[cfg(test)]
mod tests {
    use std::env;

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
    fn a_file_that_is_not_a_record_is_an_error_and_stays() {
        let folder = TemporaryFolder::create(&env::temp_dir(), "xtask-record").unwrap();
        let path = folder.path().join("fuzz.json");
        let texts: [&[u8]; 5] = [
            b"",
            b"{\"schema\": 1, \"rows\": [\xc3",
            b"{\"rows\": []}",
            b"{\"schema\": 2, \"rows\": []}",
            b"{\"schema\": 1}",
        ];
        for text in texts {
            fs::write(&path, text).unwrap();
            let record = Record {
                path: path.clone(),
                key: "target",
            };
            assert!(record.rows().is_err(), "{}", text.escape_ascii());
            assert!(record.put(json!({ "target": "npy" })).is_err());
            assert_eq!(fs::read(&path).unwrap(), text);
        }
    }

    #[test]
    fn a_row_names_its_command_and_its_compiler() {
        let entries = circumstances(Some("1a8f82f9"), "cargo xtask mutants");
        assert_eq!(entries["command"], "cargo xtask mutants");
        assert_eq!(entries["commit"], "1a8f82f9");
        let rustc = entries["rustc"].as_str().unwrap();
        assert!(rustc.starts_with("rustc "), "{rustc}");
    }
}
