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

use crate::measure::{Ratio, Timing};
use crate::record::{Check, Machine, Record, Row};
use crate::speedup::{Decision, Tally};

/// Speed of a row before and after a change of the project.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Workload, size, executor and adapter: `matmul/5x784x10 wgsl on some GPU`.
    pub name: String,
    /// Median times before and after, in seconds; the medians over the pairs if there are several.
    pub seconds: [f64; 2],
    /// Time before divided by time after: above 1, the project became faster.
    pub ratio: f64,
    /// Interval of the ratio, at a confidence of at least 95 %; `None` for too few rounds.
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
    for ((what, before), (_, after)) in parts(before).into_iter().zip(parts(after)) {
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

/// Returns the parts of a machine that have to be equal in a comparison, with their names.
pub(crate) fn parts(machine: &Machine) -> [(&'static str, String); 3] {
    let adapters = machine.adapters.iter();
    let adapters = adapters.map(|adapter| format!("{} ({})", adapter.name, adapter.driver));
    [
        (
            "machine",
            format!("{}, {} threads", machine.cpu, machine.cores),
        ),
        ("system", format!("{} {}", machine.os, machine.arch)),
        (
            "adapters or drivers",
            adapters.collect::<Vec<_>>().join(", "),
        ),
    ]
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
    let adapter = row.adapter.iter();
    let adapter: String = adapter.map(|adapter| format!(" on {adapter}")).collect();
    format!("{}/{} {}{adapter}", row.workload, row.size, row.executor)
}

/// Returns the change of a row; `None` unless the row has a time and passed the check in all
/// records.
fn change(row: &Row, before: &[Record], after: &[Record]) -> Option<Change> {
    let timed = |record: &Record| {
        let mut rows = record.rows.iter();
        let found = rows.find(|other| is_same(row, other))?;
        let is_timed = found.check == Check::Ok && found.whole_median_s().is_some();
        is_timed.then(|| found.clone())
    };
    let all = |records: &[Record]| records.iter().map(timed).collect::<Option<Vec<Row>>>();
    let (before, after) = (all(before)?, all(after)?);
    let medians = |rows: &[Row]| {
        rows.iter()
            .map(Row::whole_median_s)
            .collect::<Option<Vec<f64>>>()
    };
    let (old, new) = (medians(&before)?, medians(&after)?);
    let in_pairs = Ratio::from_pairs(&new, &old);
    let ratio = match (&before[..], &after[..]) {
        ([before], [after]) => {
            let (before, after) = (before.whole_rounds_s(), after.whole_rounds_s());
            // Without rounds there is a ratio, and no interval.
            Ratio::from_independent(&before, &after).or(in_pairs)
        }
        _ => in_pairs,
    }?;
    let median = |times: &[f64]| Timing::from_samples(times).map(|timing| timing.median);
    Some(Change {
        name: name(row),
        seconds: [median(&old)?, median(&new)?],
        ratio: ratio.median,
        interval: ratio.interval,
    })
}

impl Change {
    /// Returns whether the project became faster or slower.
    #[must_use]
    pub fn decision(&self) -> Decision {
        Decision::from_interval(self.interval)
    }
}

impl Changes {
    /// Counts the decisions.
    #[must_use]
    pub fn tally(&self) -> Tally {
        Tally::count(self.rows.iter().map(Change::decision))
    }
}

/// Formats the rows as a table, with the decision of each changed row, and a line with the tally.
impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.rows.iter();
        let names: Vec<&str> = names.map(|row| row.name.as_str()).collect();
        let longest = names.iter().map(|name| name.chars().count());
        let width = longest.max().unwrap_or(0);
        writeln!(
            f,
            "{:width$}  {:>9}  {:>9}  {:>7}  interval",
            "", "before", "after", "ratio"
        )?;
        for (name, row) in names.iter().zip(&self.rows) {
            let [before, after] = row.seconds.map(units::seconds);
            let interval = row
                .interval
                .map_or_else(|| "unknown".to_owned(), units::range);
            let decision = match row.decision() {
                Decision::Undecided => "",
                Decision::Faster => "  faster",
                Decision::Slower => "  slower",
            };
            let ratio = units::times(row.ratio);
            writeln!(
                f,
                "{name:width$}  {before:>9}  {after:>9}  {ratio:>7}  {interval}{decision}"
            )?;
        }
        for name in &self.unmatched {
            writeln!(
                f,
                "not compared: {name} (not timed, or check not passed, in every record)"
            )?;
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
        let decisions: Vec<Decision> = changes.rows.iter().map(Change::decision).collect();
        assert_eq!(decisions, [Decision::Undecided, Decision::Faster]);
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
            (row.ratio - 1.1).abs() < 1e-9 && row.decision() == Decision::Faster,
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
        assert_eq!(found.rows[0].decision(), Decision::Undecided);
        after.rows[0].check = Check::Failed("off".into());
        let found = changes(&[before], &[after]).unwrap();
        assert!(found.rows.is_empty() && found.unmatched.len() == 1);
    }

    #[test]
    fn parts_of_the_work_are_compared_as_the_whole_and_adapters_apart() {
        let on = |adapter: &str, time: f64, share: Option<f64>| Row {
            adapter: Some(adapter.into()),
            share_of_work: share,
            ..record(&[("wgsl", time)]).rows.remove(0)
        };
        let with = |rows: Vec<Row>| Record {
            rows,
            ..Record::default()
        };
        let before = with(vec![on("a", 1.0, Some(0.5)), on("b", 8.0, None)]);
        let after = with(vec![on("a", 1.0, None), on("b", 4.0, None)]);
        let rows = changes(&[before], &[after]).unwrap().rows;
        assert!(
            rows.iter().all(|row| (row.ratio - 2.0).abs() < 1e-9),
            "{rows:?}"
        );
        assert_eq!(rows[0].seconds, [2.0, 1.0]);
        assert!(rows[0].name.ends_with("wgsl on a") && rows[1].name.ends_with("wgsl on b"));
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
