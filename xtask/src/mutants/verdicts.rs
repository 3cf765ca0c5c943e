//! The verdicts on unfound mutants, which are written into the record by hand.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

/// Verdict on a mutant that changes no result.
pub(super) const EQUIVALENT: &str = "equivalent";
/// Verdict on a mutant that changes a result that no test checks.
#[cfg(test)]
pub(super) const OPEN: &str = "open";
/// Verdict on a mutant that a later test finds; the reason begins with the name of the test.
#[cfg(test)]
pub(super) const FOUND_SINCE: &str = "found since";

/// Checks that a sample contains all mutants with a verdict in a row of the record. The verdicts on
/// other mutants would be lost.
pub(super) fn check_sample(package: &str, sample: &[String], before: &Value) -> Result<()> {
    let is_in = |known: &str| {
        let mut sample = sample.iter();
        sample.any(|mutant| without_place(mutant) == without_place(known))
    };
    let judged = before["unfound"].as_array().into_iter().flatten();
    let judged = judged.filter_map(|known| known["mutant"].as_str());
    let lost: Vec<&str> = judged.filter(|known| !is_in(known)).collect();
    ensure!(
        lost.is_empty(),
        "mutants: the row of {package} in the record has verdicts, which were written by hand, on \
         mutants that are not in this sample ({} of them; first {:?}); remove these entries from \
         the record if they are no longer needed",
        lost.len(),
        lost[0]
    );
    Ok(())
}

/// Returns the entry of an unfound mutant, with verdict and reason of the same mutant in the row
/// before. A mutant whose line or column has changed since is recognised by file and text, if only
/// one of all places of the crate, and one entry of the row, has this text.
pub(super) fn judged(mutant: &str, fate: &str, sites: &[String], before: &Value) -> Value {
    let is_alike = |other: &str| without_place(other) == without_place(mutant);
    let name = |known: &Value| known["mutant"].as_str().unwrap_or_default().to_owned();
    let known = before["unfound"].as_array().map_or(&[][..], Vec::as_slice);
    let alike: Vec<&Value> = known
        .iter()
        .filter(|known| is_alike(&name(known)))
        .collect();
    let is_unique = sites.iter().filter(|site| is_alike(site)).count() == 1;
    let same = match alike[..] {
        [only] if is_unique => Some(only),
        _ => alike.into_iter().find(|known| name(known) == mutant),
    };
    let text = |key: &str| same.and_then(|same| same[key].as_str()).unwrap_or_default();
    json!({
        "mutant": mutant, "fate": fate, "verdict": text("verdict"), "reason": text("reason"),
    })
}

/// Returns file and change of a mutant, since its line and column change with the code around.
fn without_place(mutant: &str) -> Option<(&str, &str)> {
    let (file, rest) = mutant.split_once(':')?;
    Some((file, rest.split_once(": ")?.1))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::process::Command;

    use super::*;
    use crate::mutants::PARTS;
    use crate::record::Record;
    use crate::workspace::Workspace;

    #[test]
    fn a_verdict_stays_when_the_place_changes() {
        let before = json!({ "unfound": [
            { "mutant": "a.rs:7:3: `a < b`: `<` to `<=`", "verdict": "equivalent", "reason": "why" },
            { "mutant": "a.rs:8:3: `f(1, 1)`: `1` to `1 + 1`", "verdict": "equivalent", "reason": "x" },
            { "mutant": "a.rs:8:6: `f(1, 1)`: `1` to `1 + 1`", "verdict": "open", "reason": "y" },
        ] });
        let judged = |mutant: &str, others: &[&str]| {
            let sites = [others, &[mutant]].concat();
            let sites: Vec<String> = sites.into_iter().map(str::to_owned).collect();
            judged(mutant, "survived", &sites, &before)["reason"].clone()
        };
        let reason = |mutant: &str| judged(mutant, &[]);
        let other = "a.rs:7:3: `a < b`: `<` to `<=`";
        assert_eq!(reason("a.rs:9:1: `a < b`: `<` to `<=`"), "why");
        let of_two = judged("a.rs:9:1: `a < b`: `<` to `<=`", &[other]);
        assert_eq!(of_two, "", "another place has the text");
        let of_first = judged(other, &["a.rs:9:1: `a < b`: `<` to `<=`"]);
        assert_eq!(of_first, "why");
        assert_eq!(reason("b.rs:7:3: `a < b`: `<` to `<=`"), "");
        assert_eq!(reason("a.rs:8:6: `f(1, 1)`: `1` to `1 + 1`"), "y");
        assert_eq!(
            reason("a.rs:9:6: `f(1, 1)`: `1` to `1 + 1`"),
            "",
            "ambiguous"
        );
    }

    #[test]
    fn another_sample_does_not_replace_verdicts() {
        let row = json!({ "unfound": [{ "mutant": "a.rs:7:3: `a < b`: `<` to `<=`" }] });
        let check = |sample: &[&str], row: &Value| {
            let sample: Vec<String> = sample.iter().map(|&mutant| mutant.to_owned()).collect();
            check_sample("a", &sample, row)
        };
        assert!(check(&["a.rs:9:1: `a < b`: `<` to `<=`"], &row).is_ok());
        assert!(check(&[], &Value::Null).is_ok());
        let lost = check(&["a.rs:7:3: `a > b`: `>` to `>=`"], &row).unwrap_err();
        assert!(
            lost.to_string().contains("1 of them; first \"a.rs:7:3"),
            "{lost}"
        );
    }

    #[test]
    fn every_unfound_mutant_of_the_record_has_a_verdict_and_a_reason() {
        let workspace = Workspace::load().unwrap();
        let record = Record::open(&workspace, "mutants", "package").unwrap();
        let rows = record.rows().unwrap();
        let is_test = |name: &str| {
            let mut git = Command::new("git");
            git.current_dir(&workspace.root);
            git.args(["grep", "--quiet", "--fixed-strings", "--untracked"]);
            git.arg(format!("fn {name}()")).args(["--", "crates"]);
            git.status().unwrap().success()
        };
        let packages: BTreeSet<&str> = rows
            .iter()
            .filter_map(|row| row["package"].as_str())
            .collect();
        assert_eq!(packages, PARTS.map(|(package, _)| package).into());
        for row in rows {
            for one in row["unfound"].as_array().unwrap() {
                let text = |key: &str| one[key].as_str().unwrap();
                assert!(!text("reason").is_empty(), "{one}");
                match text("verdict") {
                    FOUND_SINCE => {
                        let name = text("reason").split([' ', ';', '.']).next().unwrap();
                        assert!(is_test(name), "{one}: no such test");
                    }
                    verdict => assert!([EQUIVALENT, OPEN].contains(&verdict), "{one}"),
                }
            }
        }
    }
}
