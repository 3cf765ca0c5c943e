//! Results of one run of the bench command, as JSON.
//!
//! Role: the only description of a result; the terminal table, the report and `--json` are produced
//! from it.
//! Method: unknown keys are ignored and missing keys take their defaults, so that records of older
//! and newer programs can be read. Only `schema`, `rows` and each row's `workload` and `executor`
//! are required: without them, every JSON object would be a record. `schema` is incremented only if
//! a key changes its meaning.
//! Limits: numbers that are not finite are written as `null` and read back as absent.

use std::collections::BTreeMap;
use std::fmt;

use charts::units;
use serde::{Deserialize, Serialize};

use crate::claim;

mod file;
mod machine;
mod row;

pub use file::latest_in;
pub use machine::{AdapterFacts, AdapterPeaks, Machine, Peaks};
pub use row::{Check, HOST, RivalTiming, Row, Timer, WGSL};

/// Schema version, written into every record and row.
pub const SCHEMA: u32 = 1;

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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::implementation::BIT_PRODUCT_UNIT;

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
}
