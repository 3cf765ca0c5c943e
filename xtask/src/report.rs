//! `cargo xtask report`: the HTML report from recorded JSON.
//!
//! Role: builds and runs the program `report` of `benches`.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;

use crate::program;

pub(crate) fn run(args: Vec<OsString>) -> Result<ExitCode> {
    program::forward("report", args)
}
