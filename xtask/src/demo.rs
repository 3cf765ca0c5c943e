//! `cargo xtask demo`: telemetry without a GPU.
//!
//! Role: runs `trace` on its simulated GPU.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;

use crate::program;
use crate::workspace::Workspace;

/// Duration of the demonstration.
const DURATION: &str = "10s";

/// Samples the simulated GPU for a fixed time. Further arguments are passed on and override the
/// defaults.
pub(crate) fn run(args: &[OsString]) -> Result<ExitCode> {
    let folder = Workspace::load()?.target.join("demo");
    std::fs::create_dir_all(&folder)?;
    let defaults = ["--source", "demo", "--for", DURATION, "--out"];
    let mut all: Vec<OsString> = defaults.map(Into::into).into();
    all.push(folder.join("trace.csv").into());
    all.extend_from_slice(args);
    program::forward("trace", &all)
}
