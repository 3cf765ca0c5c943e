//! `cargo xtask explain`: a workload's program at each level, from the plan to SPIR-V.
//!
//! Role: builds and runs the program `explain` of `benches`.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;

use crate::program;

pub(crate) fn run(args: Vec<OsString>) -> Result<ExitCode> {
    program::forward("explain", args)
}
