//! Results of one executor, and of its rivals.

use std::collections::BTreeMap;

use charts::Figure;
use serde::{Deserialize, Serialize};

use super::SCHEMA;
use crate::findings::Findings;

/// Name of the executor that users run on the CPU.
pub const HOST: &str = "host";
/// Name of the executor that users run on a GPU.
pub const WGSL: &str = "wgsl";

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_is_no_outcome_counts_as_failed() {
        assert_eq!(Check::from("fine".to_owned()), Check::Failed("fine".into()));
        assert_eq!(Check::from("ok".to_owned()), Check::Ok);
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
    fn numbers_that_are_not_finite_become_absent() {
        let row = Row {
            median_s: Some(f64::NAN),
            rate: Some(f64::INFINITY),
            ..Row::default()
        };
        let back: Row = serde_json::from_str(&serde_json::to_string(&row).unwrap()).unwrap();
        assert_eq!((back.median_s, back.rate), (None, None));
    }
}
