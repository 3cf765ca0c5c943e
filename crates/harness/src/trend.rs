//! Speed over time: the records of a folder as one line for each workload, size and executor.
//!
//! Role: `cargo xtask report --trend`, over the records in `benches/record/`.
//! Method: only records of one machine are compared. Each line shows the speed relative to the
//! first record that has its row.

use std::collections::BTreeMap;

use charts::{Figure, Panel, Series};

use crate::changes::parts;
use crate::record::{Check, Record};

/// Seconds of a day.
const DAY_S: f64 = 86_400.0;

/// Trends of the workloads on one machine.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineTrend {
    /// Description of the machine.
    pub machine: String,
    /// Number of records.
    pub n_records: usize,
    /// A figure for each workload with at least two records, by name.
    pub figures: Vec<(String, Figure)>,
}

/// Returns the trends of each machine, in the order of their first records.
#[must_use]
pub fn trends(records: &[Record]) -> Vec<MachineTrend> {
    let mut machines: Vec<(String, Vec<(f64, &Record)>)> = Vec::new();
    for record in records {
        let name = parts(&record.machine).map(|(_, part)| part).join("; ");
        let Some(day) = days(&record.machine.date) else {
            continue;
        };
        match machines.iter_mut().find(|(known, _)| *known == name) {
            Some((_, records)) => records.push((day, record)),
            None => machines.push((name, vec![(day, record)])),
        }
    }
    let trend = |(machine, mut records): (String, Vec<(f64, &Record)>)| {
        records.sort_by(|one, other| one.0.total_cmp(&other.0));
        MachineTrend {
            machine,
            n_records: records.len(),
            figures: figures(&records),
        }
    };
    machines.into_iter().map(trend).collect()
}

/// Returns a date in RFC 3339 as days since 1970.
fn days(date: &str) -> Option<f64> {
    let time = humantime::parse_rfc3339(date).ok()?;
    let since = time.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(since.as_secs_f64() / DAY_S)
}

/// Pairs of day and time in seconds, by size, executor and adapter.
type Lines = BTreeMap<String, Vec<(f64, f64)>>;

fn figures(records: &[(f64, &Record)]) -> Vec<(String, Figure)> {
    let first = records.first().map_or(0.0, |(day, _)| *day);
    let mut times: BTreeMap<&str, Lines> = BTreeMap::new();
    for (day, record) in records {
        let rows = record.rows.iter().filter(|row| row.is_user_executor());
        for row in rows.filter(|row| row.check == Check::Ok) {
            let Some(time) = row.whole_median_s() else {
                continue;
            };
            let adapter = row.adapter.as_deref().unwrap_or_default();
            let name = format!("{} {} {adapter}", row.size, row.executor);
            let name = name.trim_end().to_owned();
            let lines = times.entry(&row.workload).or_default();
            lines.entry(name).or_default().push((day - first, time));
        }
    }
    let mut figures = Vec::new();
    for (workload, mut lines) in times {
        lines.retain(|_, points| points.len() > 1);
        if lines.is_empty() {
            continue;
        }
        let relative = lines.into_iter().map(|(name, points)| {
            let first_s = points[0].1;
            Series::through(
                name,
                points.into_iter().map(|(day, time)| (day, first_s / time)),
            )
        });
        let panel = Panel {
            x: "days since the first record".to_owned(),
            y: "speed relative to the first record".to_owned(),
            lines: relative.collect(),
            ..Panel::default()
        };
        let caption = format!("Speed of {workload} on executors that users run.");
        let figure = Figure {
            caption,
            panels: vec![panel],
            ..Figure::default()
        };
        figures.push((workload.to_owned(), figure));
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Machine, Row};

    fn record(date: &str, cores: usize, times: &[(&str, f64)]) -> Record {
        let row = |&(size, time): &(&str, f64)| Row {
            workload: "chain".into(),
            size: size.into(),
            executor: "host".into(),
            check: Check::Ok,
            median_s: Some(time),
            ..Row::default()
        };
        Record {
            machine: Machine {
                cores,
                date: date.into(),
                ..Machine::default()
            },
            rows: times.iter().map(row).collect(),
            ..Record::default()
        }
    }

    #[test]
    fn lines_are_relative_to_the_first_record_of_the_same_machine() {
        let records = [
            record("2026-11-03T00:00:00Z", 2, &[("10", 1.0), ("20", 5.0)]),
            record("2026-11-01T00:00:00Z", 2, &[("10", 4.0)]),
            record("2026-11-02T00:00:00Z", 16, &[("10", 0.1)]),
            record("not a date", 2, &[("10", 9.0)]),
        ];
        let trends = trends(&records);
        assert_eq!(trends.len(), 2);
        let figures = &trends[0].figures;
        assert_eq!((trends[0].n_records, figures.len()), (2, 1));
        let line = &figures[0].1.panels[0].lines;
        assert_eq!(line.len(), 1, "the other size has a single record");
        assert_eq!(line[0].points, [[0.0, 1.0], [2.0, 4.0]]);
        assert!(trends[1].figures.is_empty());
    }
}
