//! Rules of language that a search of the comments can check.
//!
//! Role: the rules of the style guide's section on language that a text search can check: first
//! words and last words of doc comments, the width of comments, and short codes of sources that
//! nobody defined.
//! Limits: a comment that passes may still be hard to read.

use super::tree::{SourceFile, Tree, words};

/// Widest line with a comment, in columns, indent included.
const MAX_COLUMNS: usize = 100;
/// First words of a doc comment that hide its verb or its noun.
const FIRST_WORDS: [&str; 6] = ["Gives", "Makes", "Says", "Tells", "What", "Who"];
/// Last words that a short first sentence must not have.
const LAST_WORDS: [&str; 5] = ["that", "it", "them", "one", "those"];
/// Length in words from which a sentence is assumed to contain the noun to which its last word
/// refers.
const LONG_SENTENCE: usize = 8;
/// Short codes that only README, the report and ids of claims define.
const SOURCE_CODES: [&str; 4] = ["S0", "S1", "S2", "S3"];

/// Returns the faults of all comments in Rust and WGSL files.
pub(super) fn faults(tree: &Tree) -> Vec<String> {
    let files = tree.with_extension("rs").chain(tree.with_extension("wgsl"));
    files
        .flat_map(|file| {
            let mut faults = lines(file);
            faults.extend(first_sentences(file));
            faults
        })
        .collect()
}

/// Returns the faults of single lines: width and undefined codes.
fn lines(file: &SourceFile) -> Vec<String> {
    let mut faults = Vec::new();
    for (text, line) in file.text.lines().zip(file.lines()) {
        if !text.trim_start().starts_with("//") {
            continue;
        }
        let n_columns = text.chars().count();
        // Neither an address nor a row of a table can be wrapped.
        let is_whole = text.contains("://") || text.contains("| ");
        if n_columns > MAX_COLUMNS && !is_whole {
            let place = &line.place;
            faults.push(format!(
                "{place}: the comment has {n_columns} columns (limit {MAX_COLUMNS})"
            ));
        }
        // A code in backticks is the id itself, not a short form of the title.
        let code = words(line.comment)
            .find(|(word, rest)| SOURCE_CODES.contains(word) && !rest.starts_with('`'));
        if let Some((code, _)) = code {
            let place = &line.place;
            faults.push(format!("{place}: {code} instead of the source's title"));
        }
    }
    faults
}

/// Returns the faults of the first sentences of doc comments.
fn first_sentences(file: &SourceFile) -> Vec<String> {
    let mut faults = Vec::new();
    let mut lines = file.text.lines().zip(file.lines()).peekable();
    let mut is_inside = false;
    while let Some((text, line)) = lines.next() {
        let Some(first) = doc_text(text) else {
            is_inside = false;
            continue;
        };
        if std::mem::replace(&mut is_inside, true) {
            continue;
        }
        let mut sentence = first.to_owned();
        while let Some(next) = lines
            .peek()
            .and_then(|(text, _)| doc_text(text))
            .filter(|next| !next.is_empty() && !sentence.ends_with('.'))
        {
            sentence = format!("{sentence} {next}");
            lines.next();
        }
        let sentence = sentence.split(". ").next().unwrap_or_default();
        let place = line.place;
        let all: Vec<(&str, &str)> = words(sentence).collect();
        let first = all.first().map(|(word, _)| *word);
        // A word in backticks or brackets is a name.
        let is_last = |(_, rest): &&(&str, &str)| all.len() < LONG_SENTENCE && rest.len() <= 1;
        let last = all.last().filter(is_last);
        if let Some(word) = first.filter(|word| FIRST_WORDS.contains(word)) {
            faults.push(format!("{place}: a doc comment begins with {word:?}"));
        }
        if let Some((word, _)) = last.filter(|(word, _)| LAST_WORDS.contains(word)) {
            faults.push(format!("{place}: a first sentence ends in {word:?}"));
        }
    }
    faults
}

/// Returns the text of a line that is a doc comment.
fn doc_text(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let rest = line.strip_prefix("///").or(line.strip_prefix("//!"))?;
    // Four slashes are a plain comment.
    (!rest.starts_with('/')).then(|| rest.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_and_last_words_of_doc_comments_are_checked() {
        // The margin keeps these lines from being comments of this file.
        let text = "\
            |//! What a module is for.
            |
            |/// Gives the mean.
            |fn a() {}
            |/// Returns the mean of the numbers and of the squares, and reports errors
            |/// of those that use it.
            |fn b() {}
            |/// Computes the root of
            |/// it. More.
            |fn c() {}
            |/// Returns the `one`.
            |/// Gives nothing away, for this is not a first sentence.
            |fn d() {}
            |//// Gives a plain comment.
            |// Gives another."
            .replace("            |", "")
            .replace('|', "");
        let faults = faults(&Tree::from_files(&[("a.rs", &text)]));
        let expected = [
            "a.rs:1: a doc comment begins with \"What\"",
            "a.rs:3: a doc comment begins with \"Gives\"",
            "a.rs:8: a first sentence ends in \"it\"",
        ];
        assert_eq!(faults, expected);
    }

    #[test]
    fn wide_comments_and_undefined_codes_are_named() {
        let wide = "a".repeat(MAX_COLUMNS);
        let text = format!(
            "//! A table.\n// {wide}\n// https://{wide}\n/// | a | {wide}\nlet x = \"{wide}\";\n\
             /\u{2f} As in S2; not S20, `S1`.\nlet s3 = \"S3\"; // S3\n"
        );
        let faults = faults(&Tree::from_files(&[("a.rs", &text)]));
        let expected = [
            "a.rs:2: the comment has 103 columns (limit 100)",
            "a.rs:6: S2 instead of the source's title",
        ];
        assert_eq!(faults, expected);
    }
}
