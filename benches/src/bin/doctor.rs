//! The doctor command: reports hardware, drivers and data of this machine, with stable ids.
//!
//! Role: built and run by `cargo xtask doctor`; also part of a bundle.

use benches::doctor;
use std::process::ExitCode;

use commands::Doctor;
use commands::clap::Parser as _;
use telemetry::doctor::Status;
use tool_io::exit;
use tool_io::{output, replace_file};

fn main() -> ExitCode {
    run(&Doctor::parse()).unwrap_or_else(|error| {
        output::note(format_args!("doctor: {error:#}"));
        ExitCode::from(exit::FAILURE)
    })
}

fn run(options: &Doctor) -> anyhow::Result<ExitCode> {
    let findings = doctor::examine();
    let lines = findings
        .iter()
        .map(serde_json::to_string)
        .collect::<Result<Vec<_>, _>>()?
        .join("\n")
        + "\n";
    if let Some(path) = &options.out {
        replace_file(path, &lines)?;
    }
    output::print(&if options.json {
        lines
    } else {
        doctor::table(&findings)
    })?;
    let worst = findings.iter().map(|finding| finding.state).max();
    Ok(match worst {
        Some(Status::Failed | Status::Warning) => ExitCode::from(exit::FAILURE),
        _ => ExitCode::SUCCESS,
    })
}
