//! Source files, prepared for the style rules.
//!
//! Role: reads all files once, and distinguishes lines, code, comments, words and tests.
//! Method: the first `//` of a line separates code and comment. This is enough for rules whose
//! words do not occur in strings.
//! An item after `#[cfg(test)]` is a test, up to the closing brace in its column.
//! Limits: the end of an item is found in code as rustfmt writes it.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

/// The files that the rules check.
pub(crate) struct Tree {
    files: Vec<SourceFile>,
}

pub(super) struct SourceFile {
    /// Path relative to the root, with `/` on every system.
    pub(super) path: String,
    pub(super) text: String,
}

impl Tree {
    /// Reads Rust files, WGSL files and manifests below `root`, except build output and hidden
    /// folders.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let mut files = Vec::new();
        collect(root, "", &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self { files })
    }

    /// Creates a tree from paths and texts, for the tests of rules.
    #[cfg(test)]
    pub(super) fn from_files(files: &[(&str, &str)]) -> Self {
        let file = |&(path, text): &(&str, &str)| SourceFile {
            path: path.into(),
            text: text.into(),
        };
        Self {
            files: files.iter().map(file).collect(),
        }
    }

    /// Returns path and text of each Rust file.
    pub(crate) fn rust_files(&self) -> impl Iterator<Item = (&str, &str)> {
        let files = self.with_extension("rs");
        files.map(|file| (file.path.as_str(), file.text.as_str()))
    }

    pub(super) fn with_extension(&self, extension: &str) -> impl Iterator<Item = &SourceFile> {
        self.files
            .iter()
            .filter(move |file| file.extension() == Some(extension))
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.files.iter().any(|file| file.path == path)
    }
}

fn collect(folder: &Path, prefix: &str, files: &mut Vec<SourceFile>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        let kind = entry.file_type()?;
        if kind.is_dir() {
            if !name.starts_with('.') && name != "target" {
                collect(&entry.path(), &format!("{path}/"), files)?;
            }
        } else if kind.is_file() && is_source(&name) {
            let bytes = fs::read(entry.path()).with_context(|| path.clone())?;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            files.push(SourceFile { path, text });
        }
    }
    Ok(())
}

fn is_source(name: &str) -> bool {
    let extension = Path::new(name).extension().and_then(|text| text.to_str());
    name == "Cargo.toml" || matches!(extension, Some("rs" | "wgsl"))
}

impl SourceFile {
    fn extension(&self) -> Option<&str> {
        Path::new(&self.path).extension()?.to_str()
    }

    /// Returns the lines, each split into code and comment.
    pub(super) fn lines(&self) -> impl Iterator<Item = SourceLine<'_>> {
        self.text.lines().enumerate().map(|(idx, text)| SourceLine {
            place: format!("{}:{}", self.path, idx + 1),
            code: text.split("//").next().unwrap_or(""),
            comment: text.split_once("//").map_or("", |(_, comment)| comment),
        })
    }

    /// Returns whether the whole file is a test: a file of a test target, or a module `tests`.
    fn is_test(&self) -> bool {
        self.path.contains("/tests/") || self.path.ends_with("/tests.rs")
    }

    /// Returns the lines that only tests compile: all lines of a test file, else those of items
    /// after `cfg(test)`.
    pub(super) fn test_lines(&self) -> impl Iterator<Item = SourceLine<'_>> {
        self.lines()
            .zip(self.are_tests())
            .filter_map(|(line, is_test)| is_test.then_some(line))
    }

    /// Returns the lines that are not only compiled for tests.
    pub(super) fn shipped_lines(&self) -> impl Iterator<Item = SourceLine<'_>> {
        self.lines()
            .zip(self.are_tests())
            .filter_map(|(line, is_test)| (!is_test).then_some(line))
    }

    /// Returns for each line whether only tests compile it.
    fn are_tests(&self) -> Vec<bool> {
        /// The position relative to a test item, with the column of its `#[cfg(test)]`.
        enum Place {
            Outside,
            Attributes(usize),
            Body(usize),
        }
        if self.is_test() {
            return vec![true; self.text.lines().count()];
        }
        let mut place = Place::Outside;
        let is_test = |line: SourceLine<'_>| {
            let item = line.code.trim();
            let column = line.code.len() - line.code.trim_start().len();
            let was_outside = matches!(place, Place::Outside);
            place = match place {
                Place::Outside if item == "#[cfg(test)]" => Place::Attributes(column),
                Place::Outside => Place::Outside,
                Place::Attributes(own)
                    if item.is_empty() || column > own || item.starts_with(['#', ')']) =>
                {
                    Place::Attributes(own)
                }
                Place::Attributes(_) if item.ends_with([';', ',', '}']) => Place::Outside,
                Place::Attributes(own) => Place::Body(own),
                Place::Body(own) if column == own && item.starts_with('}') => Place::Outside,
                Place::Body(own) => Place::Body(own),
            };
            !was_outside || !matches!(place, Place::Outside)
        };
        self.lines().map(is_test).collect()
    }
}

pub(super) struct SourceLine<'a> {
    /// Path and line number as `path:number`, the format that editors open.
    pub(super) place: String,
    pub(super) code: &'a str,
    pub(super) comment: &'a str,
}

/// Returns the words of a text, each with the rest of the text after the word.
pub(super) fn words(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(|c| !is_part(c));
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        (!word.is_empty()).then_some((word, after))
    })
}

/// Returns whether code contains `module::item`, both as whole identifiers.
pub(super) fn names(code: &str, module: &str, item: &str) -> bool {
    words(code).any(|(word, rest)| {
        let after = rest
            .strip_prefix("::")
            .and_then(|rest| rest.strip_prefix(item));
        word == module && after.is_some_and(|after| !after.starts_with(is_part))
    })
}

/// Returns whether a character may be part of an identifier.
fn is_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_named_by_whole_identifiers_only() {
        assert!(names("dispatch(&layout::MATMUL, x)", "layout", "MATMUL"));
        assert!(names("shaders::layout::MATMUL", "layout", "MATMUL"));
        for other in [
            "layout::MATMUL_NAIVE",
            "my_layout::MATMUL",
            "MATMUL",
            "layout::{MATMUL}",
        ] {
            assert!(!names(other, "layout", "MATMUL"), "{other}");
        }
    }

    #[test]
    fn every_line_is_shipped_or_of_a_test() {
        let tree = Tree::from_files(&[
            ("a/src/x.rs", "one\n#[cfg(test)]\nmod two {\n}\nthree\n"),
            ("a/src/w.rs", "#[cfg(test)]\nmod four;\nfive\n"),
            ("a/src/x/tests.rs", "six\n"),
            ("a/tests/y.rs", "seven\n"),
        ]);
        let texts = |lines: &mut dyn Iterator<Item = SourceLine<'_>>| {
            lines.map(|line| line.code.to_owned()).collect::<Vec<_>>()
        };
        let shipped = texts(&mut tree.files.iter().flat_map(SourceFile::shipped_lines));
        assert_eq!(shipped, ["one", "three", "five"]);
        let tests = texts(&mut tree.files.iter().flat_map(SourceFile::test_lines));
        let expected = [
            "#[cfg(test)]",
            "mod two {",
            "}",
            "#[cfg(test)]",
            "mod four;",
            "six",
            "seven",
        ];
        assert_eq!(tests, expected);
    }
}
