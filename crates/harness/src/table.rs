//! The terminal table of a record.
//!
//! Role: printed by the bench command at its end.
//! Method: one block per comparison, columns padded to their widest cell. Written by hand, because
//! the alignment takes ten lines and a table library would add borders.
//! Limits: plain text without colours. Remarks are wrapped at 120 columns; rows of numbers are as
//! wide as needed (about 125 columns).

use std::fmt::Write;

use crate::columns::{self, Column};
use crate::comparison::{self, Comparison, Contestant, Place};
use crate::implementation::{BIT_PRODUCT_UNIT, FLOP_UNIT};
use crate::record::{Check, Machine, NotRun, Record};
use crate::sources;
use crate::speedup::{Speedup, Tally, speedups};
use charts::units;

const WIDTH: usize = 120;
const GAP: &str = "  ";
const REMARK_INDENT: usize = 8;

/// Returns the whole table: the machine, the comparisons, what was not run, and the tally of the
/// speed-ups over the best rivals.
#[must_use]
pub fn render(record: &Record) -> String {
    let mut text = machine(&record.machine);
    for comparison in comparison::comparisons(record) {
        text.push('\n');
        text.push_str(&block(&comparison));
    }
    text + &summary(record)
}

/// Returns the end of the table: what was not run, and the tally.
#[must_use]
pub fn summary(record: &Record) -> String {
    let mut text = String::new();
    if !record.not_run.is_empty() {
        text.push('\n');
    }
    for item in record.not_run_by_reason() {
        text.push_str(&not_run(&item));
    }
    let tally = Tally::count(speedups(record).iter().map(Speedup::decision));
    if tally.total() > 0 {
        let _ = write!(text, "\nspeed against the best rival: {tally}\n");
    }
    text
}

/// Returns the line for a part that was left out: its name, the reason, and how to run it.
#[must_use]
pub fn not_run(item: &NotRun) -> String {
    let how = if item.how.is_empty() {
        String::new()
    } else {
        format!(" ({})", item.how)
    };
    wrapped(
        &format!("not run: {}: {}{how}", item.what, item.why),
        0,
        "         ".len(),
    )
}

/// Returns the lines about a machine and its measured peaks.
#[must_use]
pub fn machine(machine: &Machine) -> String {
    let Machine {
        cpu,
        cores,
        os,
        arch,
        ..
    } = machine;
    let mut text = wrapped(&format!("{cpu}, {cores} threads, {os} {arch}"), 0, 2);
    for (place, peaks) in comparison::peaks(machine) {
        let flops = peaks.flops.map(|rate| units::rate(rate, FLOP_UNIT));
        let bits = peaks.bit_products;
        let bits = bits.map(|rate| units::rate(rate, BIT_PRODUCT_UNIT));
        let copy = peaks.copy_bytes_per_s;
        let copy = copy.map(|bytes| format!("copy {}", units::rate(bytes, "B/s")));
        let known: Vec<String> = flops.into_iter().chain(bits).chain(copy).collect();
        text += &wrapped(
            &format!("measured peak of {}: {}", place.heading(), known.join(", ")),
            0,
            2,
        );
    }
    if let Some(origin) = &machine.data_origin {
        text += &wrapped(&format!("data: {origin}"), 0, 2);
    }
    if let Some(disturbed) = &machine.disturbed {
        text += &wrapped(&format!("disturbed: {disturbed}"), 0, 2);
    }
    text
}

/// Returns the block of a comparison.
#[must_use]
pub fn block(comparison: &Comparison) -> String {
    let columns = columns::columns(comparison);
    let names = comparison
        .contestants
        .iter()
        .map(|line| length(&line.name) + GAP.len());
    let name_width = names.max().unwrap_or(0).max(length("executor"));
    let widths: Vec<usize> = columns
        .iter()
        .map(|column| width(column, comparison))
        .collect();

    let mut text = format!("{} {}", comparison.workload, comparison.size);
    if !comparison.source.is_empty() {
        let _ = write!(text, " ({})", sources::title(&comparison.source));
    }
    text.push('\n');
    let titles = columns.iter().map(|column| column.title.clone());
    let head = aligned(titles, &widths);
    let _ = writeln!(
        text,
        "{GAP}{}{GAP}check  {head}",
        padded("executor", name_width)
    );
    let mut above: Option<&Place> = None;
    for line in &comparison.contestants {
        if above != Some(&line.place) {
            let _ = writeln!(text, "{GAP}{}", line.place.heading());
            above = Some(&line.place);
        }
        text += &row(line, name_width, &columns, &widths);
    }
    text
}

/// Returns the line of numbers of a variant or rival. Its remark follows on the same line if it
/// fits, else on lines below.
fn row(line: &Contestant, name_width: usize, columns: &[Column], widths: &[usize]) -> String {
    let check = match line.check {
        Check::Ok => "ok    ",
        Check::Skipped(_) => "none  ",
        Check::Failed(_) => "FAILED",
    };
    let name = padded(&format!("{GAP}{}", line.name), name_width);
    let cells: Vec<Option<String>> = columns.iter().map(|column| (column.cell)(line)).collect();
    let mut text = format!("{GAP}{name}{GAP}{check}");
    if cells.iter().any(Option::is_some) {
        let cells = cells
            .into_iter()
            .map(|cell| cell.unwrap_or_else(|| units::ABSENT.to_owned()));
        let _ = write!(text, " {}", aligned(cells, widths));
    }
    let remark = line.remark();
    if remark.is_empty() || length(&text) + GAP.len() + length(&remark) <= WIDTH {
        format!("{}\n", format!("{text}{GAP}{remark}").trim_end())
    } else {
        format!(
            "{}\n{}",
            text.trim_end(),
            wrapped(&remark, REMARK_INDENT, REMARK_INDENT)
        )
    }
}

fn width(column: &Column, comparison: &Comparison) -> usize {
    let cells = comparison
        .contestants
        .iter()
        .filter_map(|line| (column.cell)(line));
    cells
        .map(|cell| length(&cell))
        .max()
        .unwrap_or(0)
        .max(length(&column.title))
}

/// Aligns cells to the right edges of their columns.
fn aligned(cells: impl Iterator<Item = String>, widths: &[usize]) -> String {
    let padded = cells
        .zip(widths)
        .map(|(cell, &width)| format!("{cell:>width$}"));
    padded.collect::<Vec<_>>().join(GAP)
}

fn padded(text: &str, width: usize) -> String {
    format!("{text:<width$}")
}

/// Breaks text between words at [`WIDTH`] columns; the result ends with a line break.
fn wrapped(text: &str, first_indent: usize, indent: usize) -> String {
    let mut out = " ".repeat(first_indent);
    let mut column = first_indent;
    for (idx, word) in text.split_whitespace().enumerate() {
        if idx > 0 && column + 1 + length(word) > WIDTH {
            let _ = write!(out, "\n{}", " ".repeat(indent));
            column = indent;
        } else if idx > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length(word);
    }
    out + "\n"
}

fn length(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{RivalTiming, Row};
    use crate::report::sample;

    fn small_record() -> Record {
        let row = |executor: &str, median: f64| Row {
            workload: "matmul".into(),
            source: "S3".into(),
            size: "5x784x10".into(),
            executor: executor.into(),
            median_s: Some(median),
            low_s: Some(0.9 * median),
            high_s: Some(1.2 * median),
            rate: Some(1e-4 / median),
            rate_unit: "GFLOP/s".into(),
            speedup_over_first: Some(1e-3 / median),
            check: Check::Ok,
            ..Row::default()
        };
        let mut fast = row("host", 1e-5);
        let torch = RivalTiming {
            version: "2.15.0".into(),
            check: Check::Ok,
            median_s: Some(2e-5),
            rate: Some(5.0),
            speedup_over_first: Some(50.0),
            speedup: Some(2.0),
            low: Some(1.9),
            high: Some(2.1),
            ..RivalTiming::default()
        };
        fast.rivals.insert("torch".into(), torch);
        let failed = Row {
            executor: "tiles".into(),
            adapter: Some("some GPU".into()),
            check: Check::Failed("element [3, 4] is off by 0.5".into()),
            median_s: None,
            rate: None,
            speedup_over_first: None,
            ..row("", 1.0)
        };
        let sliced = Row {
            note: "rows 0..2 of 5".into(),
            share_of_work: Some(0.4),
            ..row("three loops", 1e-3)
        };
        Record {
            machine: Machine {
                cpu: "Some CPU".into(),
                cores: 2,
                os: "linux".into(),
                arch: "x86_64".into(),
                ..Machine::default()
            },
            rows: vec![sliced, fast, failed],
            not_run: vec![NotRun {
                what: "numpy".into(),
                why: "no Python was found".into(),
                how: "install Python 3".into(),
            }],
            ..Record::default()
        }
    }

    #[test]
    fn a_small_record_looks_like_this() {
        let expected = "\
Some CPU, 2 threads, linux x86_64

matmul 5x784x10 (fast.ai notebook “matmul”)
  executor        check    median        spread  FLOP/s  × first
  CPU
    three loops   ok     ~2.50 ms  2.25–3.00 ms   100 M    1.00×  rows 0..2 of 5
    host          ok      10.0 µs  9.00–12.0 µs  10.0 G     100×
  some GPU
    tiles         FAILED  element [3, 4] is off by 0.5
  other libraries
    torch 2.15.0  ok      20.0 µs       20.0 µs  5.00 G    50.0×  host runs at 2.00× its speed (1.90–2.10)

not run: numpy: no Python was found (install Python 3)

speed against the best rival: faster in 1 of 1, slower in 0, undecided in 0
";
        let text = render(&small_record());
        assert_eq!(text, expected, "\n{text}");
    }

    #[test]
    fn no_line_of_a_large_record_is_too_wide() {
        let text = render(&sample::record());
        for line in text.lines() {
            assert!(length(line) <= 140, "{} columns: {line}", length(line));
        }
    }

    #[test]
    fn every_executor_and_every_reason_is_shown() {
        let record = sample::record();
        let text = render(&record);
        // Wrapping breaks long reasons, so compare without white space.
        let bare = |text: &str| text.split_whitespace().collect::<String>();
        for row in &record.rows {
            assert!(text.contains(&row.executor), "{} is missing", row.executor);
            if let Check::Failed(why) | Check::Skipped(why) = &row.check {
                assert!(bare(&text).contains(&bare(why)), "{why} is missing");
            }
        }
        for item in &record.not_run {
            assert!(
                bare(&text).contains(&bare(&item.why)),
                "{} is missing",
                item.what
            );
        }
    }

    #[test]
    fn an_empty_record_gives_the_machine_alone() {
        assert_eq!(render(&Record::default()).lines().count(), 1);
    }
}
