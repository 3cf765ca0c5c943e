//! The page `UNSAFE.md`: all unsafe code of the workspace, with the reasons that the code states.
//!
//! Role: the check `unsafe`. A change of unsafe code changes the page, so that a reviewer sees it.
//! Method: the page is written from the tokens of each file, so macros count, too, and from its
//! comments `SAFETY`. Clippy checks that each block has one. The page has no line numbers, because
//! they change with every edit.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::str::FromStr as _;

use anyhow::{Context as _, Result};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::reporter::Outcome;
use super::tidy::Tree;
use crate::workspace::Workspace;

/// The page, relative to the root.
const PAGE: &str = "UNSAFE.md";
/// The lint that a file must allow before it may contain unsafe code.
const LINT: &str = "unsafe_code";
/// Beginning of the comment above an unsafe block.
const COMMENT: &str = "// SAFETY:";

/// The unsafe code of a file.
#[derive(Debug, Default, PartialEq, Eq)]
struct Unsafe {
    blocks: usize,
    functions: usize,
    impls: usize,
    /// Symbols that the linker exports under the name of the function.
    symbols: usize,
    /// Blocks that declare functions of other languages.
    foreign: usize,
    /// Reasons why the file may contain unsafe code.
    reasons: Vec<String>,
    /// Comments above blocks, without repetitions.
    comments: Vec<String>,
}

/// Compares the page with the code; with `blesses`, writes the page.
pub(super) fn outcome(workspace: &Workspace, tree: &Tree, blesses: bool) -> Result<Outcome> {
    let fresh = page(tree)?;
    let file = workspace.root.join(PAGE);
    if fs::read_to_string(&file).is_ok_and(|found| found == fresh) {
        return Ok(Outcome::Passed);
    }
    if blesses {
        fs::write(&file, fresh).with_context(|| file.display().to_string())?;
        return Ok(Outcome::Passed);
    }
    Ok(Outcome::Failed(format!(
        "{PAGE} differs from the code (`cargo xtask verify --only unsafe --bless` writes it)"
    )))
}

/// Returns the text of the page.
fn page(tree: &Tree) -> Result<String> {
    let mut crates: BTreeMap<String, Vec<(String, Unsafe)>> = BTreeMap::new();
    for (path, text) in tree.rust_files() {
        let found = Unsafe::read(text).with_context(|| path.to_owned())?;
        if !found.is_empty() {
            let (package, path) = split(path);
            let files = crates.entry(package.to_owned()).or_default();
            files.push((path.to_owned(), found));
        }
    }
    let mut page = format!(
        "# Unsafe code\n\nAll uses of `unsafe` in the workspace, with the reasons that the code \
         states. The lint `{LINT}` is denied everywhere else. Written by \
         `cargo xtask verify --only unsafe --bless`.\n\n\
         | crate | files | blocks | functions | implementations | exported symbols | \
         foreign blocks |\n\
         |---|---:|---:|---:|---:|---:|---:|\n"
    );
    for (package, files) in &crates {
        let sum = |count: fn(&Unsafe) -> usize| -> usize {
            files.iter().map(|(_, found)| count(found)).sum()
        };
        writeln!(
            page,
            "| `{package}` | {} | {} | {} | {} | {} | {} |",
            files.len(),
            sum(|found| found.blocks),
            sum(|found| found.functions),
            sum(|found| found.impls),
            sum(|found| found.symbols),
            sum(|found| found.foreign)
        )?;
    }
    for (package, files) in &crates {
        write!(page, "\n## `{package}`\n")?;
        for (path, found) in files {
            write!(page, "\n### `{path}`\n\n{}.\n", found.counts())?;
            for reason in &found.reasons {
                write!(page, "\nReason: {reason}.\n")?;
            }
            if !found.comments.is_empty() {
                page.push('\n');
            }
            for comment in &found.comments {
                writeln!(page, "- {comment}")?;
            }
        }
    }
    Ok(page)
}

/// Splits a path into the folder of the crate and the path inside.
fn split(path: &str) -> (&str, &str) {
    for folder in [
        "/src/",
        "/tests/",
        "/benches/",
        "/examples/",
        "/fuzz_targets/",
    ] {
        if let Some(at) = path.find(folder) {
            return (&path[..at], &path[at + 1..]);
        }
    }
    ("", path)
}

impl Unsafe {
    /// Finds the unsafe code in the text of a file.
    fn read(text: &str) -> Result<Self> {
        let mut found = Self::default();
        // Most files have none, and need not be parsed.
        if !text.contains("unsafe") {
            return Ok(found);
        }
        let tokens = TokenStream::from_str(text).map_err(|error| anyhow::anyhow!("{error}"))?;
        found.count(tokens);
        if !found.is_empty() {
            found.comments = comments(text);
        }
        Ok(found)
    }

    fn is_empty(&self) -> bool {
        self.blocks + self.functions + self.impls + self.symbols + self.foreign == 0
    }

    fn count(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for (place, token) in tokens.iter().enumerate() {
            let next = tokens.get(place + 1);
            match token {
                TokenTree::Group(group) => self.count(group.stream()),
                TokenTree::Ident(word) if word == "unsafe" => self.count_use(&tokens[place + 1..]),
                TokenTree::Ident(word) if word == "allow" || word == "expect" => {
                    if let Some(TokenTree::Group(group)) = next {
                        self.reasons.extend(reason(group.stream()));
                    }
                }
                _ => {}
            }
        }
    }

    /// Counts a use of the keyword from the tokens after it.
    fn count_use(&mut self, rest: &[TokenTree]) {
        match rest {
            [TokenTree::Group(group), ..] if group.delimiter() == Delimiter::Brace => {
                self.blocks += 1;
            }
            [TokenTree::Group(_), ..] => self.symbols += 1,
            [TokenTree::Ident(word), ..] if word == "impl" => self.impls += 1,
            [TokenTree::Ident(word), TokenTree::Group(_), ..]
            | [
                TokenTree::Ident(word),
                TokenTree::Literal(_),
                TokenTree::Group(_),
                ..,
            ] if word == "extern" => {
                self.foreign += 1;
            }
            // The type of a function, such as `unsafe extern "C" fn()`, has no name.
            _ => {
                let mut words = rest.iter().skip_while(|token| token.to_string() != "fn");
                if let (Some(_), Some(TokenTree::Ident(_))) = (words.next(), words.next()) {
                    self.functions += 1;
                }
            }
        }
    }

    /// Returns the counts that are not 0, as text.
    fn counts(&self) -> String {
        let counts = [
            (self.blocks, "block", "blocks"),
            (self.functions, "function", "functions"),
            (self.impls, "implementation", "implementations"),
            (self.symbols, "exported symbol", "exported symbols"),
            (
                self.foreign,
                "block of foreign functions",
                "blocks of foreign functions",
            ),
        ];
        let counts = counts.into_iter().filter(|(count, _, _)| *count > 0);
        let texts = counts.map(|(count, one, many)| match count {
            1 => format!("1 {one}"),
            _ => format!("{count} {many}"),
        });
        texts.collect::<Vec<_>>().join(", ")
    }
}

/// Returns the reason of an attribute such as `allow(unsafe_code, reason = "…")`.
fn reason(arguments: TokenStream) -> Option<String> {
    let tokens: Vec<TokenTree> = arguments.into_iter().collect();
    let is_word =
        |token: &TokenTree, word: &str| matches!(token, TokenTree::Ident(found) if found == word);
    tokens.iter().find(|token| is_word(token, LINT))?;
    let place = tokens.iter().position(|token| is_word(token, "reason"))?;
    let literal = tokens.get(place + 2)?.to_string();
    Some(literal.trim_matches('"').to_owned())
}

/// Returns the comments above unsafe blocks, each once, in the order of the file.
fn comments(text: &str) -> Vec<String> {
    let mut comments: Vec<String> = Vec::new();
    let mut lines = text.lines().map(str::trim).peekable();
    while let Some(line) = lines.next() {
        let Some(first) = line.strip_prefix(COMMENT) else {
            continue;
        };
        let mut comment = first.trim().to_owned();
        while let Some(more) = lines.next_if(|line| line.starts_with("//")) {
            comment.push(' ');
            comment.push_str(more.trim_start_matches('/').trim());
        }
        if !comments.contains(&comment) {
            comments.push(comment);
        }
    }
    comments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_use_counts_once_with_its_reason_and_its_comment() {
        let text = r#"
            #![expect(dead_code, unsafe_code, reason = "a C library")]
            type Call = unsafe extern "C" fn(u32) -> u32;
            unsafe impl Send for Handle {}
            macro_rules! export { ($name:ident) => {
                #[unsafe(no_mangle)]
                pub extern "C" fn $name() {}
            } }
            unsafe extern "C" {
                safe fn trim(pad: usize) -> i32;
            }
            pub unsafe fn read(x: *const u8) -> u8 {
                // SAFETY: the caller's
                // promise.
                unsafe { *x }
            }
            fn text() -> &'static str {
                // unsafe { }
                "unsafe { }"
            }
        "#;
        let found = Unsafe::read(text).unwrap();
        let expected = Unsafe {
            blocks: 1,
            functions: 1,
            impls: 1,
            symbols: 1,
            foreign: 1,
            reasons: vec!["a C library".to_owned()],
            comments: vec!["the caller's promise.".to_owned()],
        };
        assert_eq!(found, expected);
        assert_eq!(
            found.counts(),
            "1 block, 1 function, 1 implementation, 1 exported symbol, 1 block of foreign functions"
        );
        let none = Unsafe::read("#![deny(unsafe_code)]\nfn safe() {}").unwrap();
        assert!(none.is_empty());
    }

    #[test]
    fn a_path_is_that_of_a_crate_and_of_a_file() {
        let split_path = split("crates/telemetry/src/nvml/raw.rs");
        assert_eq!(split_path, ("crates/telemetry", "src/nvml/raw.rs"));
    }
}
