//! Tests of the trace program on a simulated GPU: the files it writes, and its exit.

#[path = "../support/mod.rs"]
mod support;

mod commands;
mod output_files;
mod recordings;
mod sources;
mod terminal;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use telemetry::synthetic::Scenario;

/// A temporary folder that is removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("trace-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("the folder can be created");
        Self(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
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
fn trace_fake(folder: &Folder, scenario: &Scenario) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trace"));
    command
        .env(
            "FAKE_NVML_SCENARIO",
            scenario.to_json().expect("a scenario has no NaN"),
        )
        .current_dir(&folder.0)
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
