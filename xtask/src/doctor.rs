//! `cargo xtask doctor`: lists adapters, CPU features, drivers and data of this machine.
//!
//! Role: builds and runs the program `doctor` of `benches`.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;

use crate::program;

pub(crate) fn run(args: Vec<OsString>) -> Result<ExitCode> {
    program::forward("doctor", args)
}
