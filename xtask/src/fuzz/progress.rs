//! The executions of a fuzz target so far, in a file, so that an interrupted run can go on.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use tool_io::replace_file;

use super::libfuzzer::Statistics;
use crate::record;

/// The sums of the finished slices of a target, and their largest numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Progress {
    pub(super) slices: u64,
    pub(super) executions: u64,
    pub(super) elapsed_s: f64,
    pub(super) peak_memory_mib: u64,
    pub(super) slowest_s: u64,
}

impl Progress {
    /// Reads the file of a target. Executions of another commit, of files that are not committed,
    /// and outside of a repository do not count.
    pub(super) fn read(file: &Path, commit: Option<&str>) -> Self {
        let Some(commit) = commit else {
            return Self::default();
        };
        let text = fs::read_to_string(file).unwrap_or_default();
        let row: Value = serde_json::from_str(&text).unwrap_or_default();
        if row["commit"] != commit || record::is_dirty(commit) {
            return Self::default();
        }
        let number = |key: &str| row[key].as_u64().unwrap_or_default();
        Self {
            slices: number("slices"),
            executions: number("executions"),
            elapsed_s: row["elapsed_s"].as_f64().unwrap_or_default(),
            peak_memory_mib: number("peak_memory_mib"),
            slowest_s: number("slowest_s"),
        }
    }

    pub(super) fn write(&self, file: &Path, commit: Option<&str>) -> Result<()> {
        let row = json!({
            "commit": commit,
            "slices": self.slices,
            "executions": self.executions,
            "elapsed_s": self.elapsed_s,
            "peak_memory_mib": self.peak_memory_mib,
            "slowest_s": self.slowest_s,
        });
        Ok(replace_file(file, &row.to_string())?)
    }

    /// Returns the entries of a record.
    pub(super) fn row(&self) -> Value {
        let round = |number: f64| (number * 10.0).round() / 10.0;
        json!({
            "executions": self.executions,
            "slices": self.slices,
            "elapsed_s": round(self.elapsed_s),
            "executions_per_s": round(self.executions as f64 / self.elapsed_s),
            "peak_memory_mib": self.peak_memory_mib,
            "slowest_execution_s": self.slowest_s,
        })
    }

    /// Adds a slice.
    pub(super) fn add(&mut self, slice: &Statistics, elapsed: Duration) {
        self.slices += 1;
        self.executions += slice.executions;
        self.elapsed_s += elapsed.as_secs_f64();
        self.peak_memory_mib = self.peak_memory_mib.max(slice.peak_memory_mib);
        self.slowest_s = self.slowest_s.max(slice.slowest_s);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tool_io::TemporaryFolder;

    fn slice(executions: u64, peak_memory_mib: u64) -> Statistics {
        Statistics {
            executions,
            peak_memory_mib,
            slowest_s: 0,
        }
    }

    #[test]
    fn slices_of_the_same_commit_are_added() {
        let folder = TemporaryFolder::create(&std::env::temp_dir(), "progress").unwrap();
        let file = folder.path().join("npy.json");
        let mut progress = Progress::read(&file, Some("a"));
        assert_eq!(progress, Progress::default());
        progress.add(&slice(10, 50), Duration::from_secs(2));
        progress.add(&slice(5, 40), Duration::from_secs(1));
        assert_eq!((progress.slices, progress.executions), (2, 15));
        assert_eq!(progress.peak_memory_mib, 50);
        progress.write(&file, Some("a")).unwrap();
        assert_eq!(Progress::read(&file, Some("a")), progress);
        assert_eq!(Progress::read(&file, Some("b")), Progress::default());
        progress.write(&file, Some("a-dirty")).unwrap();
        assert_eq!(Progress::read(&file, Some("a-dirty")), Progress::default());
        progress.write(&file, None).unwrap();
        assert_eq!(Progress::read(&file, None), Progress::default());
    }

    #[test]
    fn a_file_that_was_cut_off_counts_nothing() {
        let folder = TemporaryFolder::create(&std::env::temp_dir(), "progress").unwrap();
        let file = folder.path().join("npy.json");
        fs::write(&file, "{\"commit\": \"a\", \"exec").unwrap();
        assert_eq!(Progress::read(&file, Some("a")), Progress::default());
    }
}
