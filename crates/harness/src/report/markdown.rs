//! The answers of a record as Markdown, for the README.
//!
//! Role: the same numbers as the figure at the top of the page, as text.

use std::collections::BTreeSet;
use std::fmt::Write;

use charts::units;

use crate::record::{Machine, Record};
use crate::speedup::{Speedup, Tally, by_workload, median, rivals, speedups};

/// Returns the tally of a record with rivals, its machine, and a folded table with a row for each
/// workload; `None` if no rival was measured.
#[must_use]
pub fn render(record: &Record) -> Option<String> {
    let found = speedups(record);
    if found.is_empty() {
        return None;
    }
    let tally = Tally::count(found.iter().map(Speedup::decision));
    let mut text = format!(
        "On {}, this project is **{tally}**.\n\n{}\
         <details>\n<summary>Speed-up in each workload</summary>\n\n\
         The speed-up is the time of the fastest rival divided by the time of our fastest executor, at each size of a workload; \
         above 1 we are faster. A comparison is undecided if the 95 % confidence interval of its ratio contains 1, or if a workload \
         was timed once. ~: a part of the work was measured, and scaled to the whole.\n\n\
         | workload | sizes | faster, slower, undecided | median speed-up | range | best rivals |\n\
         |---|--:|--:|--:|--:|---|\n",
        devices(record),
        warnings(&record.machine),
    );
    for group in by_workload(&found) {
        let _ = writeln!(text, "{}", line(&group));
    }
    Some(text + "\n</details>\n")
}

/// Returns the devices, the rivals that were measured, and the commit.
fn devices(record: &Record) -> String {
    let machine = &record.machine;
    let mut text = format!("{} cores of {}", machine.cores, machine.cpu);
    for adapter in &machine.adapters {
        let _ = write!(text, " and {}", adapter.name);
    }
    let rivals = record.rows.iter().flat_map(|row| &row.rivals);
    let rivals = rivals.map(|(name, timing)| {
        // Variants of a rival have the name of the rival and a suffix.
        let name = name.split('-').next().unwrap_or(name);
        format!("{name} {}", timing.version)
    });
    let rivals: BTreeSet<String> = rivals.collect();
    let rivals: Vec<String> = rivals.into_iter().collect();
    let commit = machine.commit.as_deref().unwrap_or("an unknown commit");
    let _ = write!(text, ", at {commit}, compared with {}", rivals.join(", "));
    text
}

/// Returns the reasons why the times may be less reliable, as a list.
fn warnings(machine: &Machine) -> String {
    let Some(disturbed) = &machine.disturbed else {
        return String::new();
    };
    let reasons = disturbed.split("; ").map(|reason| format!("- {reason}\n"));
    format!("The run was disturbed:\n{}\n", reasons.collect::<String>())
}

/// Returns the row of a workload.
fn line(group: &[&Speedup<'_>]) -> String {
    let Tally {
        faster,
        slower,
        undecided,
    } = Tally::count(group.iter().map(|speedup| speedup.decision()));
    let (most, least) = (group[0].ratio, group[group.len() - 1].ratio);
    let range = match group.len() {
        1 => String::new(),
        _ => units::range([least, most]),
    };
    let is_scaled = |speedup: &&Speedup<'_>| {
        speedup
            .row
            .share_of_work
            .or(speedup.timing.share_of_work)
            .is_some()
    };
    let mark = if group.iter().any(is_scaled) { "~" } else { "" };
    format!(
        "| {} | {} | {faster}, {slower}, {undecided} | {mark}{} | {range} | {} |",
        group[0].row.workload,
        group.len(),
        units::times(median(group)),
        rivals(group).join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Check, RivalTiming, Row};
    use crate::report::sample;

    fn row(size: &str, rival: &str, ratio: f64, share_of_work: Option<f64>) -> Row {
        let timing = RivalTiming {
            version: "1.2".into(),
            check: Check::Ok,
            speedup: Some(ratio),
            low: Some(0.9 * ratio),
            high: Some(1.1 * ratio),
            share_of_work,
            ..RivalTiming::default()
        };
        Row {
            workload: "chain".into(),
            size: size.into(),
            executor: "host".into(),
            check: Check::Ok,
            rivals: [(rival.to_owned(), timing)].into(),
            ..Row::default()
        }
    }

    #[test]
    fn a_workload_has_its_counts_median_range_and_rivals() {
        let mut record = Record {
            rows: vec![
                row("10", "torch-compile", 8.0, None),
                row("20", "jax", 0.5, None),
            ],
            ..Record::default()
        };
        record.machine.disturbed = Some("one reason; another: with a colon".into());
        let text = render(&record).unwrap();
        for expected in [
            "compared with jax 1.2, torch 1.2, this project is **faster in 1 of 2, slower in 1, undecided in 0**.",
            "\n| chain | 2 | 1, 1, 0 | 2.00× | 0.500–8.00 | jax, torch-compile |\n",
            "The run was disturbed:\n- one reason\n- another: with a colon\n",
        ] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
        record.rows.truncate(1);
        record.rows[0] = row("10", "numpy", 3.0, Some(0.01));
        let text = render(&record).unwrap();
        assert!(
            text.contains("\n| chain | 1 | 1, 0, 0 | ~3.00× |  | numpy |\n"),
            "{text}"
        );
    }

    #[test]
    fn each_workload_with_a_rival_has_a_row() {
        let record = sample::record();
        let text = render(&record).unwrap();
        // The head, the line below it, and the rows.
        let n_lines = text.lines().filter(|line| line.starts_with('|')).count();
        assert_eq!(n_lines, 2 + by_workload(&speedups(&record)).len());
        assert_eq!(render(&Record::default()), None);
    }
}
