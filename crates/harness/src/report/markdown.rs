//! The answers of a record as Markdown, for the README.
//!
//! Role: the same numbers as the figure at the top of the page, as text.

use std::fmt::Write;

use charts::units;

use crate::record::{Machine, Record};
use crate::speedup::{Speedup, Tally, by_workload, lower_median, rivals, speedups};

/// Returns the tally of a record with rivals, its machine, and a table with a row for each
/// workload; one sentence if there is no rival.
#[must_use]
pub fn render(record: &Record) -> String {
    let found = speedups(record);
    if found.is_empty() {
        return "No other library was measured.\n".to_owned();
    }
    let tally = Tally::count(found.iter().map(Speedup::decision));
    let disturbed = record.machine.disturbed.as_ref();
    let warning =
        disturbed.map_or_else(String::new, |why| format!(" The run was disturbed: {why}."));
    let mut text = format!(
        "On {}, this project is **{tally}**.{warning}\n\n\
         | workload | sizes | faster, slower, undecided | speed-up: median | range | best rivals |\n\
         |---|--:|--:|--:|--:|---|\n",
        machine(&record.machine)
    );
    for group in by_workload(&found) {
        let _ = writeln!(text, "{}", line(&group));
    }
    text
}

/// Returns the devices and the rivals.
fn machine(machine: &Machine) -> String {
    let mut text = format!("{} cores of {}", machine.cores, machine.cpu);
    for adapter in &machine.adapters {
        let _ = write!(text, " and {}", adapter.name);
    }
    let rivals = machine.rivals.iter();
    let rivals: Vec<String> = rivals
        .map(|(name, version)| format!("{name} {version}"))
        .collect();
    if !rivals.is_empty() {
        let _ = write!(text, ", compared with {}", rivals.join(", "));
    }
    text
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
        _ => format!("{}–{}", units::digits(least), units::digits(most)),
    };
    format!(
        "| {} | {} | {faster}, {slower}, {undecided} | {} | {range} | {} |",
        group[0].row.workload,
        group.len(),
        units::times(lower_median(group)),
        rivals(group).join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn each_workload_with_a_rival_has_a_row() {
        let record = sample::record();
        let text = render(&record);
        let found = speedups(&record);
        let tally = Tally::count(found.iter().map(Speedup::decision));
        assert!(text.contains(&format!("**{tally}**")), "{text}");
        // The head, the line below it, and the rows.
        let n_lines = text.lines().filter(|line| line.starts_with('|')).count();
        assert_eq!(n_lines, 2 + by_workload(&found).len());
        assert_eq!(
            render(&Record::default()),
            "No other library was measured.\n"
        );
    }
}
