//! `cargo xtask codegen`: generates `shaders/src/layout.rs` by reflection of the kernels.
//!
//! Role: runs the test that compares the committed file with a fresh reflection. With `BLESS=1` the
//! test writes the file. There is only one implementation of the reflection, and `verify` needs no
//! separate check, because it runs the test.

use std::fs;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::json;

use crate::process::{self, Finished, OutputLine, spinner, tail, watch};
use crate::workspace;
use tool_io::output;

/// The generated file, relative to the root.
const LAYOUT: &str = "shaders/src/layout.rs";
/// Maximum number of displayed lines of a failing test's output.
const TAIL_LINES: usize = 60;

/// Arguments of `codegen`.
#[derive(Args)]
pub(crate) struct Options {
    /// Only compare; the exit code is 1 if the committed file is stale
    #[arg(long)]
    check: bool,
    /// Print one JSON object: file, outcome (fresh, rewritten, failed)
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let path = workspace::root().join(LAYOUT);
    let before = fs::read(&path).ok();
    let Finished { status, out, err } = reflect(options.check)?;
    let outcome = if !status.success() {
        output::note(format_args!("{}", tail(&(err + &out), TAIL_LINES)));
        "failed"
    } else if before == fs::read(&path).ok() {
        "fresh"
    } else {
        "rewritten"
    };
    if options.json {
        output::print_line(json!({"file": LAYOUT, "outcome": outcome}))?;
    } else {
        output::print_line(format_args!("{LAYOUT}: {outcome}"))?;
    }
    Ok(ExitCode::from(u8::from(!status.success())))
}

/// Runs the reflection tests, which write the file unless `check` is set.
fn reflect(check: bool) -> Result<Finished> {
    let mut cargo = process::cargo();
    cargo.args(["test", "--package", "shaders", "--test", "reflect"]);
    if check {
        cargo.env_remove("BLESS");
    } else {
        cargo.env("BLESS", "1");
    }
    let bar = spinner("reflecting the kernels");
    let finished = watch(&mut cargo, |line| {
        if let OutputLine::Err(text) = line {
            bar.set_message(text.trim().to_owned());
        }
    });
    bar.finish_and_clear();
    finished
}
