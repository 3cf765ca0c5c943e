//! `cargo xtask report`: the HTML report from recorded JSON.
//!
//! Role: builds and runs the program `report` of `benches`.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;

use crate::program;

const HELP: &str = "\
usage: cargo xtask report [arguments]

Rebuilds target/report/index.html from recorded JSON without running anything again.
Paths are relative to the workspace root.

  --   what follows goes to the program unread (`-- --help` asks it itself)
";

pub(crate) fn run(args: Vec<OsString>) -> Result<ExitCode> {
    program::forward("report", HELP, args)
}
