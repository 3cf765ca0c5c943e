//! `cargo xtask trace`: power and utilisation while a command runs; `cargo xtask demo`: the same of a GPU that does not exist.
//!
//! Role: builds and runs the program `trace` of `benches`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;

use crate::program;
use crate::workspace::Workspace;

/// How long the demonstration samples.
const DEMO: &str = "10s";

pub(crate) fn run(args: Vec<OsString>) -> Result<ExitCode> {
    program::forward_here("trace", args)
}

/// Shows the whole path without a GPU; further arguments go to the program, and the last ones count.
pub(crate) fn demo(mut args: Vec<OsString>) -> Result<ExitCode> {
    if program::asks_for_help(&args) {
        return program::help(
            "trace",
            "`demo` is `trace --source demo --for 10s --out target/demo/trace.csv`.\n",
        );
    }
    program::drop_separator(&mut args);
    program::build(&["trace"])?;
    let workspace = Workspace::load()?;
    let folder = workspace.root.join("target/demo");
    std::fs::create_dir_all(&folder)?;
    let file: PathBuf = folder.join("trace.csv");
    let mut all: Vec<OsString> = ["--source", "demo", "--for", DEMO, "--out"]
        .map(Into::into)
        .into();
    all.push(file.into());
    all.extend(args);
    program::run(&workspace, "trace", &all)
}
