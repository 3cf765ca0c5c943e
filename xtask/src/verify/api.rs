//! The public interface of each library, compared with the list in its folder.
//!
//! Role: the checks `api/<crate>`. A change of an interface changes `api.txt`, so that a
//! reviewer sees it.
//! Method: rustdoc has written the interface as JSON for the check `docs`, and the crate
//! `public-api` returns a line for each public item.
//! Limits: the list has the items of all features; a feature that an item requires is not shown.
//! `public-api` reads the JSON of one version of the compiler. With other versions, the
//! check is skipped.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::docs::Docs;
use super::reporter::{Outcome, Reporter};
use crate::workspace::Package;

/// File in the folder of a crate.
const FILE: &str = "api.txt";
/// Format of rustdoc's JSON that `public-api` reads, in the version of the root manifest.
const FORMAT: u64 = 57;
/// Maximum number of displayed lines of a difference.
const MAX_LINES: usize = 40;

/// Compares the interface of a crate with its list; with `blesses`, writes the list.
pub(super) fn outcome(
    docs: &Docs<'_>,
    package: &Package,
    blesses: bool,
    reporter: &Reporter,
) -> Result<Outcome> {
    if let Some(fault) = docs.faults(reporter)?.first() {
        return Ok(Outcome::Failed(format!(
            "the documentation has faults; the first is\n{fault}"
        )));
    }
    let json = docs.interface_of(package);
    let fresh = match listing(&json)? {
        Ok(fresh) => fresh,
        Err(why) => return Ok(Outcome::Skipped(why)),
    };
    let file = package.folder().join(FILE);
    let listed = match fs::read_to_string(&file) {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        read => read.with_context(|| file.display().to_string())?,
    };
    if listed == fresh {
        return Ok(Outcome::Passed);
    }
    if blesses {
        fs::write(&file, fresh).with_context(|| file.display().to_string())?;
        return Ok(Outcome::Passed);
    }
    let shown = difference(&listed, &fresh);
    let file = file.display();
    if listed.is_empty() {
        return Ok(Outcome::Failed(format!(
            "there is no {file} (`cargo xtask verify --only api --bless` writes it)"
        )));
    }
    Ok(Outcome::Failed(format!(
        "the public interface differs from {file} (`cargo xtask verify --only api --bless` writes it):\n{shown}"
    )))
}

/// Returns a line for each public item, or the reason why the JSON of this compiler cannot be read.
fn listing(json: &Path) -> Result<Result<String, String>> {
    let format = format_of(json)?;
    if format != FORMAT {
        return Ok(Err(format!(
            "public-api cannot read the JSON of this compiler (format {format}, expected {FORMAT})"
        )));
    }
    let api = public_api::Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .build()
        .with_context(|| json.display().to_string())?;
    let lines = api.items().map(|item| format!("{item}\n"));
    Ok(Ok(lines.filter(|line| !is_auto_trait(line)).collect()))
}

/// Returns whether a line is the implementation of an auto trait. Negative implementations
/// (`impl !…`) are listed.
fn is_auto_trait(line: &str) -> bool {
    const TRAITS: [&str; 7] = [
        "core::marker::Freeze",
        "core::marker::Send",
        "core::marker::Sync",
        "core::marker::Unpin",
        "core::marker::UnsafeUnpin",
        "core::panic::unwind_safe::RefUnwindSafe",
        "core::panic::unwind_safe::UnwindSafe",
    ];
    let has = |name: &&str| line.contains(&format!(" {name} for "));
    line.starts_with("impl") && TRAITS.iter().any(has)
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
    if lines.is_empty() {
        lines.push("the same lines in another order or number".to_owned());
    }
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
    fn only_auto_traits_that_a_type_lacks_are_listed() {
        assert!(is_auto_trait(
            "impl<T> core::marker::Send for a::B<T> where T: core::marker::Send"
        ));
        assert!(!is_auto_trait("impl !core::marker::Send for a::B"));
        assert!(!is_auto_trait("impl core::clone::Clone for a::B"));
        assert!(!is_auto_trait("pub fn a::send(x: impl core::marker::Send)"));
    }

    #[test]
    fn removed_and_added_items_are_shown() {
        assert_eq!(difference("a\nb\n", "b\nc\n"), "-a\n+c");
        assert!(difference("a\na\n", "a\n").starts_with("the same lines"));
        let many: String = (0..100).map(|n| format!("{n}\n")).collect();
        assert!(difference("", &many).ends_with("… and 60 more lines"));
    }
}
