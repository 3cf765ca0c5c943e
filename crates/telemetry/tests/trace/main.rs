//! Tests of the program `trace`, one module per topic.

#[path = "../support/mod.rs"]
mod support;

mod commands;
mod output_files;
mod recordings;
mod sources;
mod terminal;

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use telemetry::synthetic::Scenario;
use tool_io::TemporaryFolder;

/// Creates a temporary folder.
fn folder(name: &str) -> TemporaryFolder {
    TemporaryFolder::create(&std::env::temp_dir(), &format!("trace-{name}"))
        .expect("the folder can be created")
}

/// Returns the command of the program, which samples the demo source into a file.
fn trace(out: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trace"));
    command.args([
        "--source",
        "demo",
        "--interval",
        "20ms",
        "--quiet",
        "--json",
        "--out",
    ]);
    command.arg(out).stdin(Stdio::null());
    command
}

/// Returns the command of the program, which samples the fake NVML library.
fn trace_fake(folder: &TemporaryFolder, scenario: &Scenario) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trace"));
    command
        .env(
            "FAKE_NVML_SCENARIO",
            scenario.to_json().expect("a scenario has no NaN"),
        )
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .args(["--quiet", "--interval", "20ms", "--nvml"])
        .arg(support::fake());
    command
}

fn json(output: &Output) -> serde_json::Value {
    let said = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&said).unwrap_or_else(|error| {
        let complaint = String::from_utf8_lossy(&output.stderr);
        panic!("{error}: {said:?} {complaint:?}")
    })
}

/// Returns the length of the time range of a device's energy, in s.
fn length_s(energy: &serde_json::Value) -> f64 {
    let time = |name: &str| energy[name].as_f64().expect("times are numbers");
    time("end_s") - time("start_s")
}

fn wait_for(is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30));
        std::thread::yield_now();
    }
}
