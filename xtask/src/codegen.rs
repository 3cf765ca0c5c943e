//! `cargo xtask codegen`: reflection of the kernels into `shaders/src/layout.rs`.
//!
//! Role: runs the test that compares the committed file with a fresh reflection; with
//! `BLESS=1` that test writes the file. One reflection, so the two can't disagree, and
//! `verify` needs no check of freshness beside its tests.

use std::ffi::OsString;
use std::fs;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;

use crate::output;
use crate::process::{self, Finished, Line, spinner, tail, watch};
use crate::workspace;

const HELP: &str = "\
usage: cargo xtask codegen [--check] [--json]

Rewrites shaders/src/layout.rs by reflection of every kernel.

  --check   only compare; non-zero exit where the committed file is stale
  --json    one JSON object on stdout: file, outcome (fresh, rewritten, failed)
";

/// The file that is written, from the root.
const LAYOUT: &str = "shaders/src/layout.rs";
/// How much of a failing test's output is shown.
const TAIL_LINES: usize = 60;

#[derive(Default)]
struct Options {
    check: bool,
    json: bool,
}

pub(crate) fn run(args: Vec<OsString>) -> Result<ExitCode> {
    let Some(options) = parse(args)? else {
        output::print(HELP)?;
        return Ok(ExitCode::SUCCESS);
    };
    let path = workspace::root().join(LAYOUT);
    let before = fs::read(&path).ok();
    let Finished { status, out, err } = reflect(options.check)?;
    let outcome = if !status.success() {
        eprintln!("{}", tail(&(err + &out), TAIL_LINES));
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

/// Reads the arguments; `None` where they ask for help.
fn parse(args: Vec<OsString>) -> Result<Option<Options>> {
    let mut options = Options::default();
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(arg) = parser.next()? {
        match arg {
            lexopt::Arg::Long("check") => options.check = true,
            lexopt::Arg::Long("json") => options.json = true,
            lexopt::Arg::Long("help") | lexopt::Arg::Short('h') => return Ok(None),
            _ => return Err(arg.unexpected().into()),
        }
    }
    Ok(Some(options))
}

/// Runs the tests of the reflection, which write the file unless they only `check` it.
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
        if let Line::Err(text) = line {
            bar.set_message(text.trim().to_owned());
        }
    });
    bar.finish_and_clear();
    finished
}
