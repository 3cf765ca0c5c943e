//! The doctor command: reports hardware, drivers and data of this machine, with stable ids.
//!
//! Role: built and run by `cargo xtask doctor`; also part of a bundle.

use benches::doctor;
use std::path::PathBuf;
use std::process::ExitCode;
use telemetry::doctor::Status;
use tool_io::{output, replace_file};

const HELP: &str = "\
doctor: report hardware, drivers and data of this machine, and incompatibilities

usage: cargo xtask doctor [--json] [--out FILE]

  --json      print one JSON object per finding: id, state (found, missing, warning, failed), detail
  --out FILE  also write those objects to FILE
  --help      print this help

Exit code: 0; 1 if a finding affects the accuracy of numbers or the speed (`!`); 2 if something does not work or is
incompatible (`x`), and for wrong usage. A machine without a GPU is not an error.
";

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("doctor: {error:#}\n\n{HELP}");
            ExitCode::from(2)
        }
    }
}

fn run() -> anyhow::Result<ExitCode> {
    use lexopt::prelude::*;
    let (mut json, mut out) = (false, None::<PathBuf>);
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("json") => json = true,
            Long("out") => out = Some(parser.value()?.into()),
            Long("help") | Short('h') => {
                output::print(HELP)?;
                return Ok(ExitCode::SUCCESS);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let findings = doctor::examine();
    let lines = findings
        .iter()
        .map(serde_json::to_string)
        .collect::<Result<Vec<_>, _>>()?
        .join("\n")
        + "\n";
    if let Some(path) = out {
        replace_file(&path, &lines)?;
    }
    output::print(&if json {
        lines
    } else {
        doctor::table(&findings)
    })?;
    let worst = findings.iter().map(|finding| finding.state).max();
    Ok(match worst {
        Some(Status::Failed) => ExitCode::from(2),
        Some(Status::Warning) => ExitCode::from(1),
        _ => ExitCode::SUCCESS,
    })
}
