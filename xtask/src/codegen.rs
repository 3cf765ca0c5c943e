//! `cargo xtask codegen`: reflection of the kernels into `shaders/src/layout.rs`.
//!
//! Role: runs the test that compares the committed file with a fresh reflection; with
//! `BLESS=1` that test writes the file. One reflection, so the two can't disagree, and
//! `verify` needs no check of freshness beside its tests.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Context as _, Result};

use crate::process;

const HELP: &str = "\
usage: cargo xtask codegen [--check]

Rewrites shaders/src/layout.rs by reflection of every kernel.

  --check   only compare; non-zero exit where the committed file is stale
";

pub(crate) fn run(args: Vec<OsString>) -> Result<ExitCode> {
    let mut check = false;
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(arg) = parser.next()? {
        match arg {
            lexopt::Arg::Long("check") => check = true,
            lexopt::Arg::Long("help") | lexopt::Arg::Short('h') => {
                print!("{HELP}");
                return Ok(ExitCode::SUCCESS);
            }
            _ => return Err(arg.unexpected().into()),
        }
    }
    let mut cargo = process::cargo();
    cargo.args([
        "test",
        "--quiet",
        "--package",
        "shaders",
        "--test",
        "reflect",
    ]);
    if check {
        cargo.env_remove("BLESS");
    } else {
        cargo.env("BLESS", "1");
    }
    let status = cargo.status().context("cargo could not be started")?;
    Ok(process::exit_code(status))
}
