//! The public interface of each library, compared with the list in its folder.
//!
//! Role: the checks `api/<crate>`. A change of an interface is a change of `api.txt`, which a
//! review sees.
//! Method: rustdoc writes the interface as JSON, and the crate `public-api` returns a line for each
//! public item. The form of the JSON is not stable, so stable compilers need a variable to write
//! it. Only rustdoc has the variable: cargo and the compiler would build all dependencies again.
//! Limits: `public-api` reads the JSON of one version of the compiler. With other versions, the
//! check is skipped.

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result};

use super::reporter::Outcome;
use crate::process::{self, tail, watch};
use crate::workspace::{Package, Workspace};

/// File in the folder of a crate.
const FILE: &str = "api.txt";
/// Environment variable with which this program runs rustdoc.
pub(crate) const RUSTDOC_VARIABLE: &str = "XTASK_RUSTDOC";
/// Maximum number of displayed lines of a failing command's output, and of a difference.
const MAX_LINES: usize = 40;

/// Runs rustdoc with the arguments of this program, and permits unstable options.
pub(crate) fn rustdoc() -> Result<ExitCode> {
    let status = Command::new("rustdoc")
        .args(env::args_os().skip(1))
        .env("RUSTC_BOOTSTRAP", "1")
        .status()
        .context("could not start rustdoc")?;
    Ok(match status.success() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Compares the interface of a crate with its list; with `blesses`, writes the list.
pub(super) fn outcome(workspace: &Workspace, package: &Package, blesses: bool) -> Result<Outcome> {
    let mut cargo = process::cargo();
    cargo
        .args([
            "rustdoc",
            "--lib",
            "--all-features",
            "--package",
            &package.name,
        ])
        .args(["--", "-Z", "unstable-options", "--output-format", "json"])
        .env("RUSTDOC", env::current_exe()?)
        .env(RUSTDOC_VARIABLE, "1");
    let finished = watch(&mut cargo, |_| ())?;
    if !finished.status.success() {
        return Ok(Outcome::Failed(tail(&finished.err, MAX_LINES)));
    }
    let name = package.name.replace('-', "_");
    let json = workspace.target.join("doc").join(format!("{name}.json"));
    let fresh = match listing(&json)? {
        Ok(fresh) => fresh,
        Err(why) => return Ok(Outcome::Skipped(why)),
    };
    let file = package.folder().join(FILE);
    let listed = fs::read_to_string(&file).unwrap_or_default();
    if listed == fresh {
        return Ok(Outcome::Passed);
    }
    if blesses {
        fs::write(&file, fresh).with_context(|| file.display().to_string())?;
        return Ok(Outcome::Passed);
    }
    let shown = difference(&listed, &fresh);
    let file = file.display();
    Ok(Outcome::Failed(format!(
        "the public interface differs from {file} (`cargo xtask verify --only api --bless` writes it):\n{shown}"
    )))
}

/// Returns a line for each public item; the reason if the JSON is that of another compiler.
fn listing(json: &Path) -> Result<Result<String, String>> {
    let built = public_api::Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build();
    let api = match built {
        Ok(api) => api,
        Err(error) => {
            let version = format_of(json)?;
            return Ok(Err(format!(
                "public-api cannot read the JSON of this compiler (format {version}): {error}"
            )));
        }
    };
    Ok(Ok(api.items().map(|item| format!("{item}\n")).collect()))
}

/// Returns the version of a file's format.
fn format_of(json: &Path) -> Result<u64> {
    let text = fs::read_to_string(json).with_context(|| json.display().to_string())?;
    let value: serde_json::Value = serde_json::from_str(&text)?;
    value["format_version"]
        .as_u64()
        .context("rustdoc: JSON without a version")
}

/// Returns the lines that only one of two sorted lists contains, with `-` and `+`.
fn difference(listed: &str, fresh: &str) -> String {
    let without = |lines: &str, other: &str, sign: char| -> Vec<String> {
        let lines = lines.lines();
        let only = lines.filter(|line| !other.lines().any(|known| known == *line));
        only.map(|line| format!("{sign}{line}")).collect()
    };
    let mut lines = without(listed, fresh, '-');
    lines.extend(without(fresh, listed, '+'));
    let n_left_out = lines.len().saturating_sub(MAX_LINES);
    lines.truncate(MAX_LINES);
    if n_left_out > 0 {
        lines.push(format!("… and {n_left_out} more lines"));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_and_added_items_are_shown() {
        assert_eq!(difference("a\nb\n", "b\nc\n"), "-a\n+c");
        let many: String = (0..100).map(|n| format!("{n}\n")).collect();
        assert!(difference("", &many).ends_with("… and 60 more lines"));
    }
}
