//! Results of one run of the bench command, as JSON.
//!
//! Role: the only description of a result; the terminal table, the report and `--json` are produced
//! from it.
//! Method: unknown keys are ignored and missing keys take their defaults, so that records of older
//! and newer programs can be read. Only `schema`, `rows` and each row's `workload` and `executor`
//! are required: without them, every JSON object would be a record. `schema` is incremented only if
//! a key changes its meaning.
//! Limits: numbers that are not finite are written as `null` and read back as absent.
//! Length: the types of a run and of a row are one schema, and a third of the file is tests of the
//! keys that other programs rely on.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use charts::{Figure, units};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use tool_io::replace_file;

use crate::claim;
use crate::findings::Findings;

mod machine;

pub use machine::{AdapterFacts, AdapterPeaks, Machine, Peaks};

/// Schema version, written into every record and row.
pub const SCHEMA: u32 = 1;
/// Ending of the name of a record's file.
const ENDING: &str = ".json";
/// Name of the executor that users run on the CPU.
pub const HOST: &str = "host";
/// Name of the executor that users run on a GPU.
pub const WGSL: &str = "wgsl";

/// Results of one run: the machine, the measurements, and what was left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    /// Schema version, [`SCHEMA`].
    pub schema: u32,
    /// Machine and time of the run.
    pub machine: Machine,
    /// Results in the order of measurement; the first row of a workload and size is its first
    /// variant.
    pub rows: Vec<Row>,
    /// The claims ledger; empty if the run did not compute it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<claim::Entry>,
    /// Parts that this run did not measure.
    pub not_run: Vec<NotRun>,
    /// Duration of each task in seconds, by `name/size`, in this run or else in an earlier one;
    /// later runs estimate their durations from these.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub durations_s: BTreeMap<String, f64>,
    /// Whether the run reached its end: `false` while it runs and after an interrupt; absent in
    /// records of older versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished: Option<bool>,
}

/// Results of one executor for one workload at one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Row {
    /// Schema version, [`SCHEMA`]; present here because rows are also printed one by one.
    pub schema: u32,
    /// Name of the workload: `matmul`.
    pub workload: String,
    /// Id of the document that the workload comes from: `S3`; [`crate::sources`] has the titles.
    pub source: String,
    /// Size as one word: `50000x784x10`.
    pub size: String,
    /// `host`, `wgsl`, `reference`, or the name of a variant.
    pub executor: String,
    /// Adapter that ran the work; absent on the CPU.
    pub adapter: Option<String>,
    /// Outcome of the comparison with the oracle.
    pub check: Check,
    /// Median time of one run in seconds.
    pub median_s: Option<f64>,
    /// First quartile of the times in seconds; absent, as is the third, if the work was timed once.
    pub low_s: Option<f64>,
    /// Third quartile of the times in seconds.
    pub high_s: Option<f64>,
    /// Median time of one run in each round, in seconds; empty if the work was timed once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rounds_s: Vec<f64>,
    /// Fraction of the work that a run does; absent if a run does all of it. All times are those of
    /// the fraction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share_of_work: Option<f64>,
    /// Time of the first call in seconds, compilation included.
    pub first_call_s: Option<f64>,
    /// Clock that measured the time.
    pub timer: Timer,
    /// Median time of one run by the host's clock, in seconds, including submission and waiting;
    /// absent if `timer` is that clock.
    pub wall_s: Option<f64>,
    /// Time to upload the inputs to the device, in seconds.
    pub upload_s: Option<f64>,
    /// Time to read the result back, in seconds.
    pub read_back_s: Option<f64>,
    /// Arithmetic operations of one run.
    pub operations: Option<f64>,
    /// Bytes of inputs and outputs of one run, each counted once.
    pub bytes: Option<f64>,
    /// Work per second at the median, in `rate_unit`.
    pub rate: Option<f64>,
    /// Unit of `rate`: `GFLOP/s`.
    pub rate_unit: String,
    /// Bytes moved per second at the median, in 10⁹ bytes: `bytes` divided by `median_s`.
    pub gb_per_s: Option<f64>,
    /// Rate divided by the rate of the first variant.
    pub speedup_over_first: Option<f64>,
    /// Rate as a fraction of the measured peak of the device that ran the work.
    pub share_of_peak: Option<f64>,
    /// Peak memory held in addition to inputs and outputs, in bytes.
    pub peak_extra_bytes: Option<u64>,
    /// Energy of one run in joules, including idle power; see [`crate::energy`].
    pub energy_j: Option<f64>,
    /// Error interval of the energy, in joules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_interval_j: Option<[f64; 2]>,
    /// Training losses of the steps 0, k, 2 k, …, where k is `loss_stride`; omitted if nothing is
    /// trained.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<f32>,
    /// Steps between entries of `losses`; absent if every step is stored, as for up to
    /// [`crate::curve::MOST_LOSSES`] steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_stride: Option<usize>,
    /// Fraction of the test data that the trained net classifies correctly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f32>,
    /// Named results, if the workload has some.
    #[serde(flatten)]
    pub findings: Findings,
    /// Figure of the result, if the workload has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub figure: Option<Figure>,
    /// Rivals measured in turns with this row, by name.
    pub rivals: BTreeMap<String, RivalTiming>,
    /// Remark for the reader: `rows 0..500 of 50000`, or the tolerance of `check` if the result was
    /// not compared with the oracle element by element.
    pub note: String,
}

/// Results of a rival on the same work, measured in turns with ours.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RivalTiming {
    /// Version of the rival.
    pub version: String,
    /// Number of threads that the rival uses.
    pub threads: usize,
    /// Whether the rival runs on a GPU rather than on the CPU.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub on_gpu: bool,
    /// Outcome of the comparison with the oracle: by the check of our result, or by a check of its
    /// own ([`crate::workload::Workload::with_rival_check`]).
    pub check: Check,
    /// Median time of one run in seconds.
    pub median_s: Option<f64>,
    /// First quartile in seconds.
    pub low_s: Option<f64>,
    /// Third quartile in seconds.
    pub high_s: Option<f64>,
    /// Median time of one run in each round, in seconds; empty if the work was timed once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rounds_s: Vec<f64>,
    /// Fraction of the work that a run does; absent if a run does all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share_of_work: Option<f64>,
    /// Time of the first call in seconds.
    pub first_call_s: Option<f64>,
    /// Peak memory held in addition to inputs and result, in bytes.
    pub peak_extra_bytes: Option<u64>,
    /// Energy of one run in joules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_j: Option<f64>,
    /// Work per second at the median, in the row's `rate_unit`.
    pub rate: Option<f64>,
    /// Bytes of inputs and outputs per second at the median, in 10⁹ bytes.
    pub gb_per_s: Option<f64>,
    /// Rate divided by the rate of the first variant.
    pub speedup_over_first: Option<f64>,
    /// Rate as a fraction of the CPU's measured peak; absent for a rival on a GPU, whose units
    /// (tensor cores, for example) our peak does not measure.
    pub share_of_peak: Option<f64>,
    /// Rival's time divided by ours, both by the host's clock; above 1, our executor is faster.
    pub speedup: Option<f64>,
    /// Lower end of the interval of `speedup`, as [`crate::measure::Ratio`] defines it.
    pub low: Option<f64>,
    /// Upper end of the interval of `speedup`; both ends are absent if one of the two was timed
    /// once.
    pub high: Option<f64>,
    /// Training losses of the steps 0, k, 2 k, …, where k is `loss_stride`; omitted if nothing is
    /// trained.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<f32>,
    /// Steps between entries of `losses`; absent if every step is stored, as for up to
    /// [`crate::curve::MOST_LOSSES`] steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_stride: Option<usize>,
    /// Fraction of the test data that the trained net classifies correctly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f32>,
    /// Remark for the reader: `one run`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// A part that this run left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NotRun {
    /// Name of the part: `torch`.
    pub what: String,
    /// Reason: `No module named 'torch'`.
    pub why: String,
    /// Instructions to include the part next time; may be empty.
    pub how: String,
}

impl fmt::Display for NotRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

impl std::error::Error for NotRun {}

/// Outcome of a comparison with the oracle; in JSON `ok`, `skipped: <reason>` or `failed:
/// <reason>`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Check {
    /// The result is within the tolerance.
    Ok,
    /// No comparison was made; holds the reason.
    Skipped(String),
    /// The result is wrong or missing; holds the reason.
    Failed(String),
}

impl Default for Check {
    /// Returns `Skipped`: a row without a check was not checked.
    fn default() -> Self {
        Self::Skipped("not compared".to_owned())
    }
}

/// Clock that measured a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Timer {
    /// The host's clock around the call.
    #[default]
    #[serde(rename = "wall")]
    Wall,
    /// Timestamps that the GPU writes around each dispatch.
    #[serde(rename = "gpu in-pass timestamps")]
    GpuInPass,
    /// Timestamps that the GPU writes at the ends of a compute pass.
    #[serde(rename = "gpu pass timestamps")]
    GpuPass,
    /// A timer that this version of the program does not support.
    #[serde(rename = "unknown", other)]
    Unknown,
}

impl Default for Record {
    fn default() -> Self {
        Self {
            schema: SCHEMA,
            machine: Machine::default(),
            rows: Vec::new(),
            claims: Vec::new(),
            not_run: Vec::new(),
            durations_s: BTreeMap::new(),
            finished: None,
        }
    }
}

impl Default for Row {
    fn default() -> Self {
        Self {
            schema: SCHEMA,
            workload: String::new(),
            source: String::new(),
            size: String::new(),
            executor: String::new(),
            adapter: None,
            check: Check::default(),
            median_s: None,
            low_s: None,
            high_s: None,
            rounds_s: Vec::new(),
            share_of_work: None,
            first_call_s: None,
            timer: Timer::Wall,
            wall_s: None,
            upload_s: None,
            read_back_s: None,
            operations: None,
            bytes: None,
            rate: None,
            rate_unit: String::new(),
            gb_per_s: None,
            speedup_over_first: None,
            share_of_peak: None,
            peak_extra_bytes: None,
            energy_j: None,
            energy_interval_j: None,
            losses: Vec::new(),
            loss_stride: None,
            accuracy: None,
            findings: Findings::default(),
            figure: None,
            rivals: BTreeMap::new(),
            note: String::new(),
        }
    }
}

impl From<String> for Check {
    /// Parses the text form. Text in another form counts as a failure, so that an unknown outcome
    /// never passes as checked.
    fn from(text: String) -> Self {
        if text == "ok" {
            Self::Ok
        } else if let Some(why) = text.strip_prefix("skipped:") {
            Self::Skipped(why.trim().to_owned())
        } else {
            let why = text.strip_prefix("failed:").unwrap_or(&text);
            Self::Failed(why.trim().to_owned())
        }
    }
}

impl From<Check> for String {
    fn from(check: Check) -> Self {
        match check {
            Check::Ok => "ok".to_owned(),
            Check::Skipped(why) => format!("skipped: {why}"),
            Check::Failed(why) => format!("failed: {why}"),
        }
    }
}

impl Row {
    /// Returns whether the executor is one that users of this project run; only these are compared
    /// with rivals.
    #[must_use]
    pub fn is_user_executor(&self) -> bool {
        matches!(self.executor.as_str(), HOST | WGSL)
    }

    /// Returns a time of the row as that of the whole work.
    #[must_use]
    pub fn of_whole(&self, seconds: f64) -> f64 {
        seconds / self.share_of_work.unwrap_or(1.0)
    }

    /// Returns the median time of the whole work in seconds; `None` if it is not a positive number.
    #[must_use]
    pub fn whole_median_s(&self) -> Option<f64> {
        let median = self.median_s.map(|median| self.of_whole(median));
        median.filter(|median| *median > 0.0 && median.is_finite())
    }

    /// Returns the median time of each round for the whole work, in seconds.
    #[must_use]
    pub fn whole_rounds_s(&self) -> Vec<f64> {
        self.rounds_s
            .iter()
            .map(|&round| self.of_whole(round))
            .collect()
    }
}

impl Record {
    /// Creates an empty record of a run on this machine.
    #[must_use]
    pub fn new(machine: Machine) -> Self {
        Self {
            machine,
            ..Self::default()
        }
    }

    /// Sets every share of peak from the measured peaks; only rates of operations and of products
    /// of bits have one.
    pub fn fill_shares(&mut self) {
        let peaks = &self.machine.peaks;
        let cpu = peaks.cpu();
        for row in &mut self.rows {
            let scale = units::split_prefix(&row.rate_unit).0;
            let share = |rate: Option<f64>, peak: Option<f64>| Some(scale * rate? / peak?);
            let on_cpu = cpu.per_second(&row.rate_unit);
            let peak = match &row.adapter {
                None => on_cpu,
                Some(adapter) => {
                    let peaks = peaks.adapters.get(adapter);
                    peaks.and_then(|peaks| peaks.per_second(&row.rate_unit))
                }
            };
            row.share_of_peak = share(row.rate, peak);
            for rival in row.rivals.values_mut() {
                let peak = on_cpu.filter(|_| !rival.on_gpu);
                rival.share_of_peak = share(rival.rate, peak);
            }
        }
    }

    /// Returns the parts that were not run, those with the same reason and remedy as one.
    #[must_use]
    pub fn not_run_by_reason(&self) -> Vec<NotRun> {
        let mut grouped: Vec<NotRun> = Vec::new();
        for item in &self.not_run {
            let mut known = grouped.iter_mut();
            match known.find(|group| group.why == item.why && group.how == item.how) {
                Some(group) => group.what = format!("{}, {}", group.what, item.what),
                None => grouped.push(item.clone()),
            }
        }
        grouped
    }

    /// Returns the largest share of a measured peak that any row reached; call it after
    /// [`Self::fill_shares`]. Rivals are left out, because some compute in other number types than
    /// the peak's, such as bytes.
    #[must_use]
    pub fn largest_share(&self) -> Option<f64> {
        let shares = self.rows.iter().filter_map(|row| row.share_of_peak);
        shares.max_by(f64::total_cmp)
    }

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
    use crate::implementation::BIT_PRODUCT_UNIT;
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
    fn rows_have_the_keys_that_outsiders_rely_on() {
        let mut row = Row {
            check: Check::Failed("off by one".into()),
            ..Row::default()
        };
        row.rivals.insert("torch".into(), RivalTiming::default());
        let value = serde_json::to_value(&row).unwrap();
        for key in [
            "schema",
            "workload",
            "source",
            "size",
            "executor",
            "adapter",
            "check",
            "median_s",
            "low_s",
            "high_s",
            "first_call_s",
            "rate",
            "rate_unit",
            "share_of_peak",
            "peak_extra_bytes",
            "energy_j",
            "rivals",
        ] {
            assert!(value.get(key).is_some(), "key {key} is missing");
        }
        for key in ["losses", "loss_stride", "accuracy"] {
            let rival = &value["rivals"]["torch"];
            let absent = value.get(key).is_none() && rival.get(key).is_none();
            assert!(absent, "key {key} is there without a training");
        }
        assert_eq!(value["check"], "failed: off by one");
        assert_eq!(value["timer"], "wall");
        for key in ["version", "median_s", "speedup", "low", "high"] {
            assert!(
                value["rivals"]["torch"].get(key).is_some(),
                "rival key {key} is missing"
            );
        }
    }

    #[test]
    fn unknown_and_missing_keys_are_tolerated() {
        let text = r#"{"schema":1,"colour":"red","rows":[{"workload":"matmul","weight":3,
            "median_s":null,"timer":"sundial","check":"skipped: no oracle"}]}"#;
        let record: Record = serde_json::from_str(text).unwrap();
        let row = &record.rows[0];
        assert_eq!(row.workload, "matmul");
        assert_eq!(row.median_s, None);
        assert_eq!(row.timer, Timer::Unknown);
        assert_eq!(row.check, Check::Skipped("no oracle".into()));
        assert_eq!(record.machine, Machine::default());
    }

    #[test]
    fn text_that_is_no_outcome_counts_as_failed() {
        assert_eq!(Check::from("fine".to_owned()), Check::Failed("fine".into()));
        assert_eq!(Check::from("ok".to_owned()), Check::Ok);
    }

    #[test]
    fn numbers_that_are_not_finite_become_absent() {
        let row = Row {
            median_s: Some(f64::NAN),
            rate: Some(f64::INFINITY),
            ..Row::default()
        };
        let back: Row = serde_json::from_str(&serde_json::to_string(&row).unwrap()).unwrap();
        assert_eq!((back.median_s, back.rate), (None, None));
    }

    #[test]
    fn a_later_schema_is_refused_by_number() {
        let folder = folder("later");
        let path = folder.path().join("later.json");
        fs::write(&path, r#"{"schema":2}"#).unwrap();
        let message = format!("{:#}", Record::read(&path).unwrap_err());
        assert!(message.contains("schema 2 is not supported"), "{message}");
        fs::write(&path, "[").unwrap();
        assert!(Record::read(&path).is_err());
    }

    #[test]
    fn json_that_is_no_record_is_refused_and_an_empty_run_is_not() {
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
    fn shares_follow_from_the_measured_peaks() {
        let rate = |rate: f64, adapter: Option<&str>| Row {
            rate: Some(rate),
            rate_unit: "GFLOP/s".into(),
            adapter: adapter.map(Into::into),
            ..Row::default()
        };
        let torch = RivalTiming {
            rate: Some(5.0),
            ..RivalTiming::default()
        };
        let on_gpu = RivalTiming {
            rate: Some(5000.0),
            on_gpu: true,
            ..RivalTiming::default()
        };
        let mut host = rate(10.0, None);
        host.rivals.insert("torch".into(), torch);
        host.rivals.insert("torch-cuda".into(), on_gpu);
        let draws = Row {
            rate_unit: "draws/s".into(),
            ..rate(10.0, None)
        };
        let bits = |adapter| Row {
            rate_unit: BIT_PRODUCT_UNIT.into(),
            ..rate(10.0, adapter)
        };
        let mut record = Record {
            rows: vec![
                host,
                rate(10.0, Some("gpu")),
                rate(10.0, Some("unmeasured")),
                draws,
                bits(None),
                bits(Some("gpu")),
            ],
            ..Record::default()
        };
        let peaks = &mut record.machine.peaks;
        peaks.cpu_flops = Some(20e9);
        // The best instruction set counts.
        let sets = [("baseline", 20e9), ("wide", 100e9)];
        peaks.cpu_bit_products = sets.map(|(name, peak)| (name.to_owned(), peak)).into();
        let gpu = AdapterPeaks {
            flops: Some(40e9),
            copy_bytes_per_s: None,
            bit_products: Some(80e9),
        };
        record.machine.peaks.adapters.insert("gpu".into(), gpu);
        record.fill_shares();
        let shares: Vec<_> = record.rows.iter().map(|row| row.share_of_peak).collect();
        let of_operations = [Some(0.5), Some(0.25), None, None];
        assert_eq!(shares[..4], of_operations);
        assert_eq!(shares[4..], [Some(0.1), Some(0.125)]);
        assert_eq!(record.rows[0].rivals["torch"].share_of_peak, Some(0.25));
        assert_eq!(record.rows[0].rivals["torch-cuda"].share_of_peak, None);
        let torch = record.rows[0].rivals.get_mut("torch").unwrap();
        torch.share_of_peak = Some(1.24);
        assert_eq!(record.largest_share(), Some(0.5));
    }

    #[test]
    fn file_names_hold_start_machine_and_threads() {
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
