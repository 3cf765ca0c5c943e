//! `cargo xtask doctor`: what this machine has.
//!
//! Role: builds and runs the program `doctor` of `benches`.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;

use crate::program;

const HELP: &str = "\
usage: cargo xtask doctor [--json]

Tells what this machine has: adapters with driver, backend, limits and features,
CPU features, power counters, and whether the data sets are there.

  --json   one JSON object instead of text
  --       what follows goes to the program unread (`-- --help` asks it itself)
";

pub(crate) fn run(args: Vec<OsString>) -> Result<ExitCode> {
    program::forward("doctor", HELP, args)
}
