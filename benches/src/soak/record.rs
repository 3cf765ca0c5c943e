//! The record of soak runs: the last outcome of each job, as JSON.
//!
//! Role: `soak --record` writes `xtask/record/soak.json`. An outcome replaces that of the same
//! job; the outcomes of other jobs stay as they are, each with its own commit, machine and
//! command.
//! Limits: two programs that write at the same moment may lose an outcome; `soak --jobs` runs
//! several jobs in one program.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use harness::machine;
use harness::record::Machine;
use serde::{Deserialize, Serialize};
use tool_io::replace_file;

use super::driver::Outcome;
use super::memory::Growth;

/// Schema version; it is incremented only if a key changes its meaning.
pub const SCHEMA: u32 = 1;
/// Shortest duration of a run that must have a verdict on its memory, in seconds.
const LONG_S: f64 = 600.0;
/// Path of the record in the workspace.
pub const PATH: &str = "xtask/record/soak.json";

/// The outcomes of all jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Schema version, [`SCHEMA`].
    pub schema: u32,
    /// The last outcome of each job, in the order of their names.
    pub jobs: Vec<Entry>,
}

/// An outcome with its origin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Entry {
    /// The outcome.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Whether all results were right and the memory was flat; `null` if the run was too short for
    /// a verdict on the memory, and `false` if a long run has no verdict.
    pub ok: Option<bool>,
    /// Command that repeats the run.
    pub command: String,
    /// Origin of the outcome.
    #[serde(flatten)]
    pub origin: Origin,
}

/// Commit, machine and time of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Origin {
    /// Commit of the project, with `-dirty` if the working tree had changes.
    pub commit: Option<String>,
    /// Start of the program in UTC, RFC 3339.
    pub date: String,
    /// Model of the CPU.
    pub cpu: String,
    /// Number of threads that the process may run at once.
    pub cores: usize,
    /// Main memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Operating system.
    pub os: String,
    /// Version line of the compiler that built the program.
    pub rustc: Option<String>,
}

impl Origin {
    /// Describes this machine, the commit and the time.
    #[must_use]
    pub fn here() -> Self {
        let Machine {
            commit,
            date,
            cpu,
            cores,
            memory_bytes,
            os,
            rustc,
            ..
        } = machine::describe();
        Self {
            commit,
            date,
            cpu,
            cores,
            memory_bytes,
            os,
            rustc,
        }
    }
}

impl Entry {
    /// Creates the entry of an outcome of a run of so many minutes.
    #[must_use]
    pub fn new(outcome: Outcome, minutes: f64, origin: &Origin) -> Self {
        let (job, seed) = (&outcome.job, outcome.seed);
        let is_flat = outcome.is_flat();
        let is_judged = is_flat.is_some() || !outcome.is_good() || outcome.seconds >= LONG_S;
        Self {
            ok: is_judged.then(|| outcome.is_good() && is_flat == Some(true)),
            command: format!(
                "cargo xtask soak --only {job} --minutes {minutes} --seed {seed} --record"
            ),
            origin: origin.clone(),
            outcome,
        }
    }

    /// Returns the outcome as a line of a table: name, minutes, counts, memory and verdict.
    #[must_use]
    pub fn line(&self) -> String {
        let outcome = &self.outcome;
        let memory = [
            ("resident", &outcome.memory.resident),
            ("allocated", &outcome.memory.allocated),
            ("pools", &outcome.memory.pooled),
        ];
        let memory = memory.into_iter().filter_map(|(name, growth)| {
            growth
                .as_ref()
                .map(|growth| format!("{name} {}", shown(growth)))
        });
        let memory: String = memory.map(|kind| kind + "; ").collect();
        let verdict = match (outcome.n_faults, self.ok) {
            (0, None) => "ok, too short for the memory".to_owned(),
            (0, Some(true)) => "ok".to_owned(),
            (0, Some(false)) if outcome.is_flat().is_none() => "memory not judged".to_owned(),
            (0, Some(false)) => "memory grows".to_owned(),
            (1, _) => "1 fault".to_owned(),
            (n_faults, _) => format!("{n_faults} faults"),
        };
        format!(
            "{:<40} {:>6.1} min  {} steps, {}; {memory}{verdict}",
            outcome.job,
            outcome.seconds / 60.0,
            outcome.steps,
            outcome.counts,
        )
    }
}

/// Returns the growth as text, in MiB.
fn shown(growth: &Growth) -> String {
    let mib = |bytes: f64| bytes / f64::from(1 << 20);
    format!(
        "{:.1} {:+.1} MiB (at most {:.1})",
        mib(growth.start_bytes),
        mib(growth.growth_bytes.max(growth.slope_bytes)),
        mib(growth.bound_bytes)
    )
}

impl Record {
    /// Reads a record; a file that does not exist is an empty record.
    ///
    /// # Errors
    /// The file cannot be read, is not a record, or has another schema.
    pub fn read(path: &Path) -> Result<Self> {
        if !path.exists() {
            return Ok(Self {
                schema: SCHEMA,
                jobs: Vec::new(),
            });
        }
        let shown = path.display();
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
        let record: Self =
            serde_json::from_str(&text).with_context(|| format!("{shown} is not a record"))?;
        let schema = record.schema;
        ensure!(
            schema == SCHEMA,
            "{shown}: schema {schema} is not supported (expected {SCHEMA})"
        );
        Ok(record)
    }

    /// Inserts an entry in place of that of the same job.
    pub fn insert(&mut self, entry: Entry) {
        let name = entry.outcome.job.clone();
        self.jobs.retain(|other| other.outcome.job != name);
        let at = self.jobs.partition_point(|other| other.outcome.job < name);
        self.jobs.insert(at, entry);
    }

    /// Writes the record.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        Ok(replace_file(
            path,
            &(serde_json::to_string_pretty(self)? + "\n"),
        )?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(job: &str, seconds: f64) -> Entry {
        let outcome = Outcome {
            job: job.to_owned(),
            seconds,
            ..Outcome::default()
        };
        Entry::new(outcome, 1.5, &Origin::default())
    }

    #[test]
    fn every_job_of_the_committed_record_has_passed() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../xtask/record/soak.json");
        let record = Record::read(&path).unwrap();
        let names: Vec<&str> = record.jobs.iter().map(|job| &*job.outcome.job).collect();
        for name in ["games", "programs/host", "sampler", "training/host"] {
            assert!(names.contains(&name), "{names:?}");
        }
        for job in &record.jobs {
            assert_eq!(job.ok, Some(true), "{}", job.line());
        }
    }

    #[test]
    fn a_later_outcome_replaces_only_that_of_the_same_job() {
        let name = format!("soak-record-{}.json", std::process::id());
        let path = std::env::temp_dir().join(name);
        for (job, seconds) in [("b", 1.0), ("a", 2.0), ("b", 3.0)] {
            let mut record = Record::read(&path).unwrap();
            record.insert(entry(job, seconds));
            record.write(&path).unwrap();
        }
        let record = Record::read(&path).unwrap();
        assert_eq!(record.jobs, [entry("a", 2.0), entry("b", 3.0)]);
        fs::write(&path, r#"{"schema":2,"jobs":[]}"#).unwrap();
        let message = Record::read(&path).unwrap_err().to_string();
        assert!(message.contains("schema 2 is not supported"), "{message}");
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn an_entry_has_its_verdict_and_its_command() {
        let short = entry("programs/host", 60.0);
        assert_eq!(short.ok, None);
        let long = entry("programs/host", 3600.0);
        assert_eq!(long.ok, Some(false));
        assert!(
            long.line().ends_with("; memory not judged"),
            "{}",
            long.line()
        );
        let command = "cargo xtask soak --only programs/host --minutes 1.5 --seed 0 --record";
        assert_eq!(short.command, command);
        let mut flat = short.outcome.clone();
        flat.memory.resident = Some(Growth {
            flat: true,
            ..Growth::default()
        });
        let judged = |outcome: &Outcome| Entry::new(outcome.clone(), 1.0, &Origin::default());
        assert!(judged(&flat).line().ends_with("; ok"));
        let mut grown = flat.clone();
        grown.memory.resident = Some(Growth::default());
        assert_eq!(judged(&grown).ok, Some(false));
        assert!(judged(&grown).line().ends_with("; memory grows"));
        let failed = judged(&Outcome::failed("games", 7, "ended by signal 11"));
        assert!(failed.ok == Some(false) && failed.line().ends_with("; 1 fault"));
        assert_eq!(failed.outcome.faults[0].seed, 7);
    }
}
