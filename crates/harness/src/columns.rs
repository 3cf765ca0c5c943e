//! The numeric columns of every comparison, for the terminal table and the HTML report.
//!
//! Role: defines each column's title, meaning and cell in one place.

use crate::comparison::{Comparison, Contestant};
use charts::units;

/// A numeric column.
#[derive(Clone, Debug)]
pub struct Column {
    /// Title, short enough for a terminal.
    pub title: String,
    /// Explanation of the title, one sentence.
    pub meaning: &'static str,
    /// Returns the cell of a line, or `None` if the line has no such number.
    pub cell: fn(&Contestant) -> Option<String>,
}

/// Returns the columns in which at least one line of this comparison has a number.
#[must_use]
pub fn columns(comparison: &Comparison) -> Vec<Column> {
    let filled = |column: &Column| {
        comparison
            .contestants
            .iter()
            .any(|line| (column.cell)(line).is_some())
    };
    all(&comparison.rate_unit)
        .into_iter()
        .filter(filled)
        .collect()
}

/// Returns all columns, with `rate_unit` as the title of the rate. The legend explains these
/// columns once for the tables of all comparisons.
#[must_use]
pub fn all(rate_unit: &str) -> Vec<Column> {
    let rate = if rate_unit.is_empty() {
        "rate"
    } else {
        rate_unit
    };
    let column = |title: &str, meaning, cell| Column {
        title: title.to_owned(),
        meaning,
        cell,
    };
    vec![
        column(
            "median",
            "Median time of one run. After ~: a part was run, and its time is scaled to the whole.",
            |line: &Contestant| line.time.map(|[median, ..]| time(median, line.is_scaled)),
        ),
        column("spread", "First to third quartile of the times.", |line| {
            line.time
                .map(|[_, low, high]| units::seconds_range(low, high))
        }),
        column(rate, "Work per second at the median.", |line| {
            line.rate.map(units::si)
        }),
        column("× first", "Rate relative to the first variant.", |line| {
            line.speedup_over_first.map(units::times)
        }),
        column(
            "of peak",
            "Rate as a share of the measured peak of the device that ran it.",
            |line| line.share_of_peak.map(units::percent),
        ),
        column(
            "B/s",
            "Bytes of inputs and outputs, each counted once, divided by the median time.",
            |line| line.gb_per_s.map(|rate| units::si(1e9 * rate)),
        ),
        column(
            "first call",
            "Time of the first call, including compilation.",
            |line| line.first_call_s.map(units::seconds),
        ),
        column(
            "memory",
            "Peak memory held in addition to inputs and result.",
            |line| {
                line.peak_extra_bytes
                    .map(|bytes| units::bytes(bytes as f64))
            },
        ),
        column(
            "energy",
            "Energy of one run, including idle power, with its error interval.",
            |line| line.energy.map(energy),
        ),
    ]
}

/// Formats a time of the whole work, with a mark if it is scaled from a part.
pub(crate) fn time(seconds: f64, is_scaled: bool) -> String {
    let mark = if is_scaled { "~" } else { "" };
    format!("{mark}{}", units::seconds(seconds))
}

/// Formats an energy: `1.20 J (1.10–1.30)`.
fn energy((joules, interval): (f64, Option<[f64; 2]>)) -> String {
    let interval = interval.map(|ends| ends.map(units::digits));
    let interval = interval.map_or_else(String::new, |[low, high]| format!(" ({low}–{high})"));
    format!("{} J{interval}", units::digits(joules))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::comparisons;
    use crate::record::{Record, Row};

    #[test]
    fn columns_without_a_number_are_left_out() {
        let row = Row {
            median_s: Some(0.5),
            rate: Some(2.0),
            rate_unit: "draws/s".into(),
            ..Row::default()
        };
        let comparison = comparisons(&Record {
            rows: vec![row],
            ..Record::default()
        })
        .remove(0);
        let titles: Vec<String> = columns(&comparison)
            .into_iter()
            .map(|column| column.title)
            .collect();
        assert_eq!(titles, ["median", "spread", "draws/s"]);
    }
}
