//! The claims ledger: one check per claim of the sources, with claim, measurement and verdict.
//!
//! Role: runs the program `claims` of benches and reports its lines. A claim that does not hold is a finding and
//! passes; a claim that could not be settled is a failure of ours.

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::reporter::{Outcome, Reporter};
use crate::process::{self, Finished, Line, tail, watch};

/// What every id begins with.
pub(super) const PREFIX: &str = "claims/";
/// How much of a failing program's output is shown.
const TAIL_LINES: usize = 20;

/// Tells whether the pattern of `--only` asks for claims.
pub(super) fn wanted(pattern: &str) -> bool {
    PREFIX.contains(pattern) || pattern.starts_with(PREFIX)
}

/// Settles the claims whose id contains the pattern.
pub(super) fn run(pattern: &str, reporter: &mut Reporter) -> Result<()> {
    reporter.begin_long("claims")?;
    let mut cargo = process::cargo();
    cargo.args(["run", "--quiet", "--package", "benches", "--bin", "claims"]);
    let Finished { status, out, err } = watch(&mut cargo, |line| {
        if let Line::Err(text) = line {
            reporter.note(text);
        }
    })?;
    if !status.success() {
        return reporter.end("claims", Outcome::Failed(tail(&(out + &err), TAIL_LINES)));
    }
    for line in out.lines() {
        let entry: Value = serde_json::from_str(line).context("a line of the ledger")?;
        let id = format!("{PREFIX}{}", entry["id"].as_str().unwrap_or("unnamed"));
        if id.contains(pattern) {
            report(&id, &entry, reporter)?;
        }
    }
    Ok(())
}

fn report(id: &str, entry: &Value, reporter: &mut Reporter) -> Result<()> {
    let claim = entry["claim"].as_str().unwrap_or("");
    let verdict = entry["verdict"].as_str().unwrap_or("no verdict");
    match verdict {
        "not-measured" => reporter.add(id, Outcome::Skipped(format!("{claim}: not measured here"))),
        "holds" | "does-not-hold" => {
            let (claimed, measured) = (&entry["claimed"], &entry["measured"]);
            let verdict = verdict.replace('-', " ");
            reporter.pass(
                id,
                &format!("{claim}: claimed {claimed}, measured {measured}: {verdict}"),
            )
        }
        other => reporter.add(id, Outcome::Failed(format!("the ledger says {other:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_that_name_claims_want_them() {
        for pattern in ["", "claims", "claims/s3", "cl"] {
            assert!(wanted(pattern), "{pattern}");
        }
        for pattern in ["test/", "clippy", "s3.einsum"] {
            assert!(!wanted(pattern), "{pattern}");
        }
    }
}
