//! The report command: rebuilds the HTML report from recorded runs.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use harness::record::{Record, latest_in};
use harness::report;

const RECORDS: &str = "target/bench";
const PAGE: &str = "target/report/index.html";
const HELP: &str = "\
Rebuilds the HTML report from recorded runs.

Usage: report [--out FILE] [--json] [RECORD.json]...

  RECORD.json  records to show, in this order (default: the newest in target/bench)
  --out FILE   file to write (default: target/report/index.html)
  --json       print the result as one JSON object
  --help       print this help
";

struct Options {
    records: Vec<PathBuf>,
    out: PathBuf,
    json: bool,
}

#[expect(
    clippy::print_stdout,
    reason = "a program prints its result on standard output"
)]
fn main() -> Result<()> {
    let Some(options) = options()? else {
        print!("{HELP}");
        return Ok(());
    };
    let record = Record::read(&options.records[0])?;
    report::write(&record, &options.out)?;
    if options.json {
        println!(
            "{}",
            serde_json::json!({ "report": options.out, "records": options.records })
        );
    } else {
        println!("report of {} record(s) in {}", 1, options.out.display());
    }
    Ok(())
}

/// Parses the command line; returns `None` if help was requested.
fn options() -> Result<Option<Options>> {
    use lexopt::prelude::{Long, Short, Value};
    let mut options = Options {
        records: Vec::new(),
        out: PathBuf::from(PAGE),
        json: false,
    };
    let mut arguments = lexopt::Parser::from_env();
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("help") | Short('h') => return Ok(None),
            Long("out") => options.out = arguments.value()?.into(),
            Long("json") => options.json = true,
            Value(path) => options.records.push(path.into()),
            other => return Err(other.unexpected().into()),
        }
    }
    if options.records.is_empty() {
        let newest = latest_in(Path::new(RECORDS))?;
        let advice = || format!("report: no record in {RECORDS}; run the bench command first");
        options.records.push(newest.with_context(advice)?);
    }
    Ok(Some(options))
}
