//! `cargo xtask tune`: finds the fastest block sizes for a GPU.
//!
//! Role: builds and runs the program `tune` of `benches` in the workspace root, where the table is
//! stored.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;

use crate::program;

pub(crate) fn run(args: Vec<OsString>) -> Result<ExitCode> {
    program::forward("tune", args)
}
