//! The report command: the page of a record, the comparison of two records, or the trend of many.
//!
//! Role: built and run by `cargo xtask report`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use commands::Report;
use commands::clap::Parser as _;
use harness::changes::{Change, Changes, changes, check_same_machine};
use harness::record::{Record, latest_in};
use harness::{report, trend};
use serde_json::json;
use tool_io::exit;
use tool_io::output::{self, print, print_line};
use tool_io::{target_folder, workspace_path};

fn main() -> ExitCode {
    match run(&Report::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::note(format_args!("report: {error:#}"));
            ExitCode::from(exit::FAILURE)
        }
    }
}

fn run(options: &Report) -> Result<()> {
    if let Some(folder) = &options.trend {
        let default = || workspace_path("benches/record");
        return show_trend(&folder.clone().unwrap_or_else(default), options);
    }
    match (&options.before, &options.after) {
        (Some(record), _) if options.markdown => {
            print(markdown(record)?)?;
            Ok(())
        }
        (Some(before), Some(after)) => compare(before, after, options),
        (record, _) => page(record.as_deref(), options),
    }
}

/// Returns the speed-ups of a record as Markdown.
fn markdown(path: &Path) -> Result<String> {
    let record = Record::read(path)?;
    let at = path.display();
    ensure!(
        record.finished != Some(false),
        "{at}: the run was interrupted"
    );
    report::markdown::render(&record).with_context(|| format!("{at}: no rival was measured"))
}

/// Writes the page of a record.
fn page(record: Option<&Path>, options: &Report) -> Result<()> {
    let record = match record {
        Some(path) => path.to_owned(),
        None => {
            let folder = target_folder().join("bench");
            let newest = latest_in(&folder)?;
            newest.with_context(|| {
                let folder = folder.display();
                format!("no record in {folder}; run the bench command first")
            })?
        }
    };
    let out = out(options);
    report::write(&Record::read(&record)?, &out)?;
    done(options, &out, json!([record]))
}

/// Prints the result of a page, with the path that was written.
fn done(options: &Report, out: &Path, records: serde_json::Value) -> Result<()> {
    if options.json {
        print_line(json!({ "report": out, "records": records }))?;
    } else {
        print_line(format_args!("report: {}", out.display()))?;
    }
    Ok(())
}

fn out(options: &Report) -> PathBuf {
    let default = || target_folder().join("report").join("index.html");
    options.out.clone().unwrap_or_else(default)
}

/// Compares two records, or two folders of records in pairs, and prints the changes.
fn compare(before: &Path, after: &Path, options: &Report) -> Result<()> {
    let (old, new) = (read_all(before)?, read_all(after)?);
    if !options.any_machine {
        let first = old.first().context("no record before the change")?;
        for other in old.iter().chain(&new) {
            let same = check_same_machine(&first.machine, &other.machine);
            same.context("--any-machine compares them anyway")?;
        }
    }
    let changes = changes(&old, &new)?;
    if let Some(out) = &options.out {
        report::write_changes(&changes, out)?;
    }
    if options.json {
        for row in &changes.rows {
            print_line(as_json(row))?;
        }
        return Ok(());
    }
    let title = format!("{} → {}", before.display(), after.display());
    print_line(format_args!(
        "{title}\n{changes}{}",
        single_run(&changes, &old)
    ))?;
    Ok(())
}

/// Returns the warning for a comparison of two single runs.
fn single_run(changes: &Changes, old: &[Record]) -> &'static str {
    if old.len() == 1 && changes.tally().total() > 0 {
        "\nThe intervals contain the noise within each run, not that between runs; \
         `cargo xtask bench --ab REV` measures two commits in turns."
    } else {
        ""
    }
}

fn as_json(row: &Change) -> serde_json::Value {
    let [before_s, after_s] = row.seconds;
    json!({
        "name": row.name,
        "before_s": before_s,
        "after_s": after_s,
        "ratio": row.ratio,
        "low": row.interval.map(|ends| ends[0]),
        "high": row.interval.map(|ends| ends[1]),
        // Scripts read the key `verdict`.
        "verdict": row.decision().to_string(),
    })
}

/// Writes the page with the trends of all records in a folder.
fn show_trend(folder: &Path, options: &Report) -> Result<()> {
    let records = read_all(folder)?;
    let out = out(options);
    report::write_trend(&trend::trends(&records), &out)?;
    done(options, &out, json!([folder]))
}

/// Reads a record, or all records of a folder in the order of their names.
fn read_all(path: &Path) -> Result<Vec<Record>> {
    if !path.is_dir() {
        return Ok(vec![Record::read(path)?]);
    }
    let listing = fs::read_dir(path).with_context(|| path.display().to_string())?;
    let mut files: Vec<PathBuf> = listing.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "json"));
    files.sort();
    ensure!(!files.is_empty(), "no record in {}", path.display());
    files.iter().map(|path| Record::read(path)).collect()
}
