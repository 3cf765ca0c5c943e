//! Claims of the source documents, one check each, with claim, measurement and verdict.
//!
//! Role: runs the program `claims` of benches and reports its lines. The build of the tests
//! contains the program. A build of its own would compile most dependencies again, because cargo
//! enables other features for one package than for the whole workspace. A check passes if the
//! verdict equals the expected verdict, even if the claim does not hold. A check fails if the
//! verdicts differ, or if an entry lacks one of them.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::reporter::{Outcome, Reporter};
use crate::adapters;
use crate::artifact::Executable;
use crate::data;
use crate::process::{Finished, OutputLine, tail, watch};
use crate::workspace::Workspace;

/// Prefix of every id.
pub(super) const PREFIX: &str = "claims/";
/// Verdict on a claim that requires hardware which this machine does not have.
const NOT_MEASURED: &str = "not-measured";
/// Maximum number of displayed lines of a failing program's output.
const TAIL_LINES: usize = 20;

/// Runs the claims program and reports the claims whose id contains the pattern.
pub(super) fn run(
    workspace: &Workspace,
    executables: &[Executable],
    pattern: &str,
    reporter: &mut Reporter,
) -> Result<()> {
    reporter.begin_long("claims")?;
    let mut built = executables.iter();
    let program = built
        .find(|executable| executable.target == "claims" && !executable.is_test)
        .context("claims: not built")?;
    let mut command = Command::new(&program.path);
    command
        .current_dir(&workspace.root)
        .envs([data::variable(workspace)?])
        .envs(adapters::environment(workspace)?);
    let begun = Instant::now();
    let Finished { status, out, err } = watch(&mut command, |line| {
        if let OutputLine::Err(text) = line {
            reporter.note(text);
        }
    })?;
    if !status.success() {
        return reporter.end("claims", Outcome::Failed(tail(&(out + &err), TAIL_LINES)));
    }
    reporter.took("claims", begun.elapsed());
    for line in out.lines() {
        let entry: Value = serde_json::from_str(line).context("claims: invalid line")?;
        let id = format!("{PREFIX}{}", entry["id"].as_str().unwrap_or("unnamed"));
        if id.contains(pattern) {
            report(&id, &entry, reporter)?;
        }
    }
    Ok(())
}

fn report(id: &str, entry: &Value, reporter: &mut Reporter) -> Result<()> {
    match outcome(entry) {
        // The measured values are printed even if the verdict is as expected.
        Outcome::Passed => reporter.pass(id, &finding(entry)),
        other => reporter.add(id, other),
    }
}

fn outcome(entry: &Value) -> Outcome {
    let [verdict, expected] = ["verdict", "expected"].map(|key| entry[key].as_str());
    match (verdict, expected) {
        (Some(NOT_MEASURED), Some(_)) => {
            Outcome::Skipped(format!("{}: not measured here", text(entry, "claim")))
        }
        (Some(verdict), Some(expected)) if verdict == expected => Outcome::Passed,
        (Some(_), Some(expected)) => {
            let expected = expected.replace('-', " ");
            Outcome::Failed(format!("{}; expected: {expected}", finding(entry)))
        }
        _ => Outcome::Failed(format!(
            "claims: entry without verdict or expected verdict: {entry}"
        )),
    }
}

/// Returns claim, numbers and verdict in one line.
fn finding(entry: &Value) -> String {
    let (claimed, measured) = (&entry["claimed"], &entry["measured"]);
    let verdict = text(entry, "verdict").replace('-', " ");
    let claim = text(entry, "claim");
    let correction = match text(entry, "correction") {
        "" => String::new(),
        correction => format!("; instead: {correction}"),
    };
    format!("{claim}{correction}: claimed {claimed}, measured {measured}: {verdict}")
}

fn text<'a>(entry: &'a Value, key: &str) -> &'a str {
    entry[key].as_str().unwrap_or("")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(verdict: &str, expected: &str) -> Value {
        json!({"claim": "pi is 3", "claimed": [3.0], "measured": [3.5],
            "verdict": verdict, "expected": expected})
    }

    #[test]
    fn a_claim_passes_with_the_verdict_that_is_expected_of_it() {
        for verdict in ["holds", "does-not-hold", "holds-with-correction"] {
            assert_eq!(outcome(&entry(verdict, verdict)), Outcome::Passed);
        }
        assert_eq!(
            finding(&entry("does-not-hold", "does-not-hold")),
            "pi is 3: claimed [3.0], measured [3.5]: does not hold"
        );
    }

    #[test]
    fn another_verdict_fails_and_says_both() {
        let detail = "pi is 3: claimed [3.0], measured [3.5]: does not hold; expected: holds";
        assert_eq!(
            outcome(&entry("does-not-hold", "holds")),
            Outcome::Failed(detail.into())
        );
        let better = outcome(&entry("holds", "does-not-hold"));
        assert!(matches!(better, Outcome::Failed(_)), "{better:?}");
    }

    #[test]
    fn what_was_not_measured_is_skipped() {
        let skipped = Outcome::Skipped("pi is 3: not measured here".into());
        assert_eq!(outcome(&entry("not-measured", "holds")), skipped);
    }

    #[test]
    fn an_entry_without_verdict_or_expectation_fails() {
        for half in [json!({"verdict": "holds"}), json!({"expected": "holds"})] {
            assert!(matches!(outcome(&half), Outcome::Failed(_)), "{half}");
        }
    }
}
