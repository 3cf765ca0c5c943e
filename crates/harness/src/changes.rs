//! Changes of speed between two versions of the project, row by row.
//!
//! Role: `cargo xtask report A B` and `cargo xtask bench --ab`.
//! Method: two records are two independent samples of rounds. The interval of their ratio follows
//! from the intervals of both medians and contains only the noise within a run. Runs that alternate
//! are two lists of records of equal length: the ratio is taken within each pair, so that a slow
//! phase of the machine affects both, and its interval contains the noise between runs.
//! A change is a ratio whose interval does not contain 1.

use std::fmt;

use charts::units;

use crate::measure::Ratio;
use crate::record::{Check, Machine, Record, Row};
use crate::speedup::{Tally, Verdict};

/// Speed of a row before and after a change of the project.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Name of the workload.
    pub workload: String,
    /// Size as one word.
    pub size: String,
    /// Executor.
    pub executor: String,
    /// Adapter that ran the work; `None` on the CPU.
    pub adapter: Option<String>,
    /// Median times before and after, in seconds; the medians over the pairs if there are several.
    pub seconds: [f64; 2],
    /// Time before divided by time after: above 1, the project became faster.
    pub ratio: f64,
    /// Interval of the ratio, at a confidence of at least 95 %; `None` if a row was timed once.
    pub interval: Option<[f64; 2]>,
}

/// All rows of two versions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// Rows that both versions have, in the order of the first.
    pub rows: Vec<Change>,
    /// Names of rows that only the first or only the second version has, or whose check did not
    /// pass in one of them.
    pub unmatched: Vec<String>,
}

/// Reasons why two lists of records cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotComparable {
    /// The records are from different machines, adapters or drivers.
    #[error("compare: {what} differs ({before:?}; {after:?})")]
    Different {
        /// The part of the machine that differs.
        what: &'static str,
        /// Its value before.
        before: String,
        /// Its value after.
        after: String,
    },
    /// The lists do not form pairs.
    #[error("compare: records do not form pairs ({before} before; {after} after)")]
    Unpaired {
        /// Number of records before.
        before: usize,
        /// Number of records after.
        after: usize,
    },
}

/// Compares the records of two versions: one of each, or as many of each that were measured in
/// turns.
///
/// # Errors
/// The lists are empty or have different lengths.
pub fn changes(before: &[Record], after: &[Record]) -> Result<Changes, NotComparable> {
    if before.len() != after.len() || before.is_empty() {
        return Err(NotComparable::Unpaired {
            before: before.len(),
            after: after.len(),
        });
    }
    let mut changes = Changes::default();
    for row in &before[0].rows {
        match change(row, before, after) {
            Some(change) => changes.rows.push(change),
            None => changes.unmatched.push(name(row)),
        }
    }
    let is_new = |row: &&Row| !before[0].rows.iter().any(|old| is_same(old, row));
    let new = after[0].rows.iter().filter(is_new);
    changes.unmatched.extend(new.map(name));
    Ok(changes)
}

/// Checks that two records are from the same machine with the same adapters and drivers.
///
/// # Errors
/// The first difference.
pub fn check_same_machine(before: &Machine, after: &Machine) -> Result<(), NotComparable> {
    let cpu = |machine: &Machine| format!("{}, {} threads", machine.cpu, machine.cores);
    let system = |machine: &Machine| format!("{} {}", machine.os, machine.arch);
    let adapters = |machine: &Machine| {
        let named = machine.adapters.iter();
        let named = named.map(|adapter| format!("{} ({})", adapter.name, adapter.driver));
        named.collect::<Vec<_>>().join(", ")
    };
    let parts = [
        ("machine", cpu(before), cpu(after)),
        ("system", system(before), system(after)),
        ("adapters or drivers", adapters(before), adapters(after)),
    ];
    for (what, before, after) in parts {
        if before != after {
            return Err(NotComparable::Different {
                what,
                before,
                after,
            });
        }
    }
    Ok(())
}

fn is_same(one: &Row, other: &Row) -> bool {
    (&one.workload, &one.size, &one.executor, &one.adapter)
        == (
            &other.workload,
            &other.size,
            &other.executor,
            &other.adapter,
        )
}

fn name(row: &Row) -> String {
    format!("{}/{} {}", row.workload, row.size, row.executor)
}

/// Returns the change of a row; `None` unless the row has a time and passed the check in all
/// records.
fn change(row: &Row, before: &[Record], after: &[Record]) -> Option<Change> {
    let timed = |record: &'_ Record| -> Option<Row> {
        let mut rows = record.rows.iter();
        let found = rows.find(|other| is_same(row, other))?;
        let is_timed = found.check == Check::Ok && found.median_s.is_some_and(|time| time > 0.0);
        is_timed.then(|| found.clone())
    };
    let all = |records: &[Record]| records.iter().map(timed).collect::<Option<Vec<Row>>>();
    let (before, after) = (all(before)?, all(after)?);
    let medians =
        |rows: &[Row]| -> Option<Vec<f64>> { rows.iter().map(|row| row.median_s).collect() };
    let (old, new) = (medians(&before)?, medians(&after)?);
    let ratio = if let ([before], [after]) = (&before[..], &after[..]) {
        Ratio::from_independent(&before.rounds_s, &after.rounds_s)
            .or_else(|| Ratio::from_pairs(&new, &old))
    } else {
        Ratio::from_pairs(&new, &old)
    }?;
    Some(Change {
        workload: row.workload.clone(),
        size: row.size.clone(),
        executor: row.executor.clone(),
        adapter: row.adapter.clone(),
        seconds: [median(old), median(new)],
        ratio: ratio.median,
        interval: ratio.interval(),
    })
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

impl Change {
    /// Returns whether the project became faster or slower.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        Verdict::of(self.interval)
    }
}

impl Changes {
    /// Counts the verdicts.
    #[must_use]
    pub fn tally(&self) -> Tally {
        Tally::count(self.rows.iter().map(Change::verdict))
    }
}

/// Formats the rows as a table, with the verdict of each changed row, and a line with the tally.
impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.rows.iter().map(|row| {
            let Change {
                workload,
                size,
                executor,
                ..
            } = row;
            format!("{workload}/{size} {executor}")
        });
        let names: Vec<String> = names.collect();
        let longest = names.iter().map(|name| name.chars().count());
        let width = longest.max().unwrap_or(0);
        writeln!(
            f,
            "{:width$}  {:>9}  {:>9}  {:>7}  interval",
            "", "before", "after", "ratio"
        )?;
        for (name, row) in names.iter().zip(&self.rows) {
            let [before, after] = row.seconds.map(units::seconds);
            let interval = row.interval.map_or_else(
                || "unknown".to_owned(),
                |[low, high]| format!("{}–{}", units::digits(low), units::digits(high)),
            );
            let verdict = match row.verdict() {
                Verdict::Undecided => "",
                Verdict::Faster => "  faster",
                Verdict::Slower => "  slower",
            };
            let ratio = units::times(row.ratio);
            writeln!(
                f,
                "{name:width$}  {before:>9}  {after:>9}  {ratio:>7}  {interval}{verdict}"
            )?;
        }
        for name in &self.unmatched {
            writeln!(f, "not compared: {name}: not timed in both")?;
        }
        write!(f, "after the change: {}", self.tally())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(times: &[(&str, f64)]) -> Record {
        let row = |&(executor, time): &(&str, f64)| Row {
            workload: "chain".into(),
            size: "10".into(),
            executor: executor.into(),
            check: Check::Ok,
            median_s: Some(time),
            rounds_s: (0..9)
                .map(|k| time * (1.0 + 0.01 * f64::from(k - 4)))
                .collect(),
            ..Row::default()
        };
        Record {
            rows: times.iter().map(row).collect(),
            ..Record::default()
        }
    }

    #[test]
    fn a_change_is_marked_only_if_the_interval_excludes_1() {
        let before = record(&[("loops", 1.0), ("host", 2.0), ("gone", 1.0)]);
        let after = record(&[("loops", 1.02), ("host", 1.0), ("new", 1.0)]);
        let changes = changes(&[before], &[after]).unwrap();
        let verdicts: Vec<Verdict> = changes.rows.iter().map(Change::verdict).collect();
        assert_eq!(verdicts, [Verdict::Undecided, Verdict::Faster]);
        assert!((changes.rows[1].ratio - 2.0).abs() < 1e-9);
        assert_eq!(changes.unmatched, ["chain/10 gone", "chain/10 new"]);
        let text = changes.to_string();
        assert!(
            text.contains("2.00×")
                && text.ends_with("faster in 1 of 2, slower in 0, undecided in 1"),
            "{text}"
        );
    }

    #[test]
    fn runs_in_turns_are_compared_in_pairs() {
        // The machine becomes three times slower; the ratio within each pair stays 1.1.
        let speeds = [1.0, 1.0, 1.0, 3.0, 3.0, 3.0];
        let records = |factor: f64| -> Vec<Record> {
            speeds
                .iter()
                .map(|speed| record(&[("host", speed * factor)]))
                .collect()
        };
        let changes = changes(&records(1.1), &records(1.0)).unwrap();
        let row = &changes.rows[0];
        assert!(
            (row.ratio - 1.1).abs() < 1e-9 && row.verdict() == Verdict::Faster,
            "{row:?}"
        );
        assert!(super::changes(&records(1.0), &records(1.0)[..2]).is_err());
        assert!(super::changes(&[], &[]).is_err());
    }

    #[test]
    fn a_row_that_was_timed_once_or_failed_decides_nothing() {
        let (mut before, mut after) = (record(&[("host", 3.0)]), record(&[("host", 1.0)]));
        before.rows[0].rounds_s.clear();
        let found = changes(&[before.clone()], &[after.clone()]).unwrap();
        assert_eq!(found.rows[0].verdict(), Verdict::Undecided);
        after.rows[0].check = Check::Failed("off".into());
        let found = changes(&[before], &[after]).unwrap();
        assert!(found.rows.is_empty() && found.unmatched.len() == 1);
    }

    #[test]
    fn another_driver_is_another_machine() {
        use crate::record::AdapterFacts;
        let machine = |driver: &str| Machine {
            cpu: "a".into(),
            adapters: vec![AdapterFacts {
                name: "gpu".into(),
                driver: driver.into(),
                ..AdapterFacts::default()
            }],
            ..Machine::default()
        };
        assert!(check_same_machine(&machine("1"), &machine("1")).is_ok());
        let error = check_same_machine(&machine("1"), &machine("2")).unwrap_err();
        assert!(error.to_string().contains("drivers differs"), "{error}");
    }
}
