//! Files of records.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde::de::IgnoredAny;
use tool_io::replace_file;

use super::{Record, Row, SCHEMA};

/// Ending of the name of a record's file.
const ENDING: &str = ".json";

impl Record {
    /// Writes the record to a file, creating folders as needed.
    ///
    /// The text is written to a temporary file in the same folder that is then renamed, so an
    /// interrupted run leaves either the complete old record or the complete new one.
    ///
    /// # Errors
    /// Creating the folder, writing or renaming failed; the message contains the path.
    pub fn write(&self, path: &Path) -> Result<()> {
        let text =
            serde_json::to_string_pretty(self).context("record: cannot serialize as JSON")?;
        Ok(replace_file(path, &text)?)
    }

    /// Writes the record to a new file in a folder, and returns the path of the file. The name is
    /// [`Self::file_name`]; if a file of this name exists, as that of a run that began in the same
    /// second, a number is added: `…-2-run2.json`.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_new(&self, folder: &Path) -> Result<PathBuf> {
        fs::create_dir_all(folder)
            .with_context(|| format!("record: cannot create {}", folder.display()))?;
        let name = self.file_name();
        let stem = name.strip_suffix(ENDING).unwrap_or(&name);
        let mut path = folder.join(&name);
        let mut n_runs = 1;
        // Creating the empty file reserves its name against other processes.
        while let Err(error) = fs::File::create_new(&path) {
            if error.kind() != ErrorKind::AlreadyExists {
                return Err(error)
                    .with_context(|| format!("record: cannot write {}", path.display()));
            }
            n_runs += 1;
            path = folder.join(format!("{stem}-run{n_runs}{ENDING}"));
        }
        let written = self.write(&path);
        if written.is_err() {
            // An empty file is not a record. The first error matters.
            let _ = fs::remove_file(&path);
        }
        written.map(|()| path)
    }

    /// Reads a record that this or another version of the program wrote.
    ///
    /// # Errors
    /// The file cannot be read, is not JSON of this form, has a schema other than 1 to [`SCHEMA`],
    /// or has no rows, or a row without a workload or an executor. The message contains the path.
    pub fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let text =
            fs::read_to_string(path).with_context(|| format!("record: cannot read {shown}"))?;
        Self::from_json(&text).with_context(|| format!("record: {shown}"))
    }

    /// Parses the text of a record.
    ///
    /// # Errors
    /// As [`read`](Self::read), without the path.
    pub fn from_json(text: &str) -> Result<Self> {
        const NOT_A_RECORD: &str = "not a record";
        let Required { schema, rows } = serde_json::from_str(text).context(NOT_A_RECORD)?;
        // The schema is checked first, because a later one may have other keys.
        ensure!(
            (1..=SCHEMA).contains(&schema),
            "schema {schema} is not supported (newest supported: {SCHEMA})"
        );
        ensure!(rows.is_some(), "not a record: missing field `rows`");
        let record: Self = serde_json::from_str(text).context(NOT_A_RECORD)?;
        let is_unnamed = |row: &Row| row.workload.is_empty() || row.executor.is_empty();
        if let Some(index) = record.rows.iter().position(is_unnamed) {
            bail!("not a record: row {index} has no workload or no executor");
        }
        Ok(record)
    }

    /// Returns the default file name of the record: `2026-11-21t05-00-28z-amd-epyc-2.json`.
    ///
    /// Its parts are the start time of the run, the CPU model and the number of threads. Two runs
    /// that begin in the same second have the same name; see [`Self::write_new`].
    #[must_use]
    pub fn file_name(&self) -> String {
        let words = [
            &self.machine.date,
            &self.machine.cpu,
            &self.machine.cores.to_string(),
        ]
        .map(|word| slug(word));
        let present: Vec<&str> = words
            .iter()
            .map(String::as_str)
            .filter(|word| !word.is_empty())
            .collect();
        format!("{}{ENDING}", present.join("-"))
    }
}

/// The keys of a record that have no defaults.
#[derive(Deserialize)]
struct Required {
    schema: u32,
    rows: Option<IgnoredAny>,
}

/// Returns the most recently written record in a folder, or `None` if there is none.
///
/// # Errors
/// The folder exists and cannot be listed.
pub fn latest_in(folder: &Path) -> Result<Option<PathBuf>> {
    if !folder.exists() {
        return Ok(None);
    }
    let listing = fs::read_dir(folder)
        .with_context(|| format!("record: cannot list {}", folder.display()))?;
    let records = listing
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "json"));
    Ok(records.max_by_key(|path| (modified(path), path.clone())))
}

fn modified(path: &Path) -> Option<std::time::SystemTime> {
    fs::metadata(path).and_then(|facts| facts.modified()).ok()
}

/// Converts text to lower case and replaces each run of other characters than letters and digits by
/// one hyphen.
fn slug(text: &str) -> String {
    let lower = text.to_lowercase();
    let words = lower
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Machine;
    use crate::report::sample;
    use tool_io::TemporaryFolder;

    fn folder(name: &str) -> TemporaryFolder {
        TemporaryFolder::create(&std::env::temp_dir(), &format!("record-{name}")).unwrap()
    }

    #[test]
    fn a_written_record_reads_back_equal() {
        let folder = folder("round-trip");
        let path = folder.path().join("deeper/record.json");
        let record = sample::record();
        record.write(&path).unwrap();
        record.write(&path).unwrap();
        assert!(
            Record::read(&path).unwrap() == record,
            "the record changed when it was written and read"
        );
        let left: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
        assert_eq!(left.len(), 1, "the temporary file was not removed");
    }

    #[test]
    fn a_later_schema_is_rejected_by_its_number() {
        let folder = folder("later");
        let path = folder.path().join("later.json");
        fs::write(&path, r#"{"schema":2}"#).unwrap();
        let message = format!("{:#}", Record::read(&path).unwrap_err());
        assert!(message.contains("schema 2 is not supported"), "{message}");
        fs::write(&path, "[").unwrap();
        assert!(Record::read(&path).is_err());
    }

    #[test]
    fn json_that_is_no_record_is_rejected_and_an_empty_run_is_not() {
        let folder = folder("no-record");
        let path = folder.path().join("no-record.json");
        for (text, reason) in [
            ("{}", "missing field `schema`"),
            (r#"{"rows":[]}"#, "missing field `schema`"),
            (r#"{"schema":1}"#, "missing field `rows`"),
            (r#"{"schema":1,"rows":null}"#, "missing field `rows`"),
            (r#"{"schema":0,"rows":[]}"#, "schema 0 is not supported"),
            (r#"{"schema":"1","rows":[]}"#, "invalid type"),
            (r#"{"schema":1,"rows":{}}"#, "invalid type"),
            (r#"{"schema":1,"rows":[{}]}"#, "row 0 has no workload"),
            (
                r#"{"schema":1,"rows":[{"workload":"matmul","executor":"host"},{"workload":"matmul"}]}"#,
                "row 1 has no workload or no executor",
            ),
            ("null", "invalid type"),
            ("[]", "not a record"),
            ("", "not a record"),
        ] {
            fs::write(&path, text).unwrap();
            let message = format!("{:#}", Record::read(&path).expect_err(text));
            assert!(message.contains(reason), "{text}: {message}");
            assert!(message.contains("no-record.json"), "{text}: {message}");
        }
        fs::write(&path, r#"{"schema":1,"rows":[]}"#).unwrap();
        assert!(Record::read(&path).unwrap().rows.is_empty());
    }

    #[test]
    fn file_names_contain_start_machine_and_threads() {
        let machine = Machine {
            cpu: "Some CPU (R) 9000 @ 3.1 GHz".into(),
            cores: 2,
            date: "2026-11-21T03:53:00Z".into(),
            ..Machine::default()
        };
        assert_eq!(
            Record::new(machine).file_name(),
            "2026-11-21t03-53-00z-some-cpu-r-9000-3-1-ghz-2.json"
        );
    }

    #[test]
    fn records_of_the_same_second_are_different_files() {
        let folder = folder("same-second");
        let folder = folder.path().join("new");
        let mut record = sample::record();
        let mut paths = Vec::new();
        for finished in [None, Some(false), Some(true)] {
            record.finished = finished;
            let path = record.write_new(&folder).unwrap();
            paths.push((path, record.clone()));
        }
        let names: Vec<_> = paths
            .iter()
            .map(|(path, _)| path.file_name().unwrap().to_str().unwrap())
            .collect();
        let stem = "2000-01-01t00-00-00z-sample-cpu-2000-2";
        let endings = [".json", "-run2.json", "-run3.json"];
        let expected = endings.map(|ending| format!("{stem}{ending}"));
        assert_eq!(names, expected);
        for (path, written) in &paths {
            assert!(
                Record::read(path).unwrap() == *written,
                "{}",
                path.display()
            );
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), paths.len());
        let file = &paths[0].0;
        let message = format!("{:#}", record.write_new(file).unwrap_err());
        assert!(message.contains(&file.display().to_string()), "{message}");
    }

    #[test]
    fn the_newest_record_of_a_folder_is_found() {
        let folder = folder("newest");
        assert_eq!(latest_in(&folder.path().join("absent")).unwrap(), None);
        assert_eq!(latest_in(folder.path()).unwrap(), None);
        for (name, second) in [("b.json", 20), ("c.json", 10), ("d.txt", 30)] {
            let file = fs::File::create(folder.path().join(name)).unwrap();
            file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(second))
                .unwrap();
        }
        assert_eq!(
            latest_in(folder.path()).unwrap(),
            Some(folder.path().join("b.json"))
        );
    }
}
