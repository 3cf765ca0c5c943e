//! Rules of style that a search of the text can check.
//!
//! Role: one function per rule, from the source tree to a list of faults.
//! Method: comments and code of a line are told apart at the first `//`, which is enough
//! for rules whose words nobody writes in strings.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

/// A rule's name and the search for breaches of it.
type Rule = (&'static str, fn(&Tree) -> Vec<String>);

/// All rules, in the order in which they run.
pub(super) const RULES: [Rule; 8] = [
    ("headers", headers),
    ("unfinished", unfinished),
    ("ignored", ignored),
    ("sleep", sleep),
    ("stems", stems),
    ("wgsl", wgsl),
    ("versions", versions),
    ("comparator", comparator),
];

/// Crates that would bring a second comparator along.
const COMPARATORS: [&str; 4] = ["approx", "assert_approx_eq", "float-cmp", "float_eq"];

/// The files that the rules look at.
pub(super) struct Tree {
    files: Vec<SourceFile>,
}

struct SourceFile {
    /// Relative to the root, with `/` on every system.
    path: String,
    text: String,
}

impl Tree {
    /// Reads Rust, WGSL and manifests below `root`, leaving out build output and hidden folders.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let mut files = Vec::new();
        collect(root, "", &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self { files })
    }

    fn with_extension(&self, extension: &str) -> impl Iterator<Item = &SourceFile> {
        self.files
            .iter()
            .filter(move |file| file.extension() == Some(extension))
    }

    fn has(&self, path: &str) -> bool {
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

    /// Lines with their number and the place of the comment in them, if any.
    fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        self.text.lines().enumerate().map(|(idx, text)| Line {
            place: format!("{}:{}", self.path, idx + 1),
            code: text.split("//").next().unwrap_or(""),
            comment: text.split_once("//").map_or("", |(_, comment)| comment),
        })
    }

    /// Lines that only tests compile: all of a test target, else what follows `cfg(test)`.
    fn test_lines(&self) -> impl Iterator<Item = Line<'_>> {
        let whole = self.path.contains("/tests/") || self.path.ends_with("/tests.rs");
        self.lines()
            .skip_while(move |line| !whole && line.code.trim() != "#[cfg(test)]")
    }
}

struct Line<'a> {
    /// `path:number`, as editors open it.
    place: String,
    code: &'a str,
    comment: &'a str,
}

/// Every file begins with a header.
fn headers(tree: &Tree) -> Vec<String> {
    let lacks = |extension: &'static str, mark: &'static str| {
        tree.with_extension(extension)
            .filter(move |file| !file.text.starts_with(mark))
            .map(move |file| format!("{}:1: begins without a `{mark}` header", file.path))
    };
    lacks("rs", "//!").chain(lacks("wgsl", "//")).collect()
}

/// A mark of unfinished work carries the number of an issue.
fn unfinished(tree: &Tree) -> Vec<String> {
    const MARKS: [&str; 3] = ["TODO", "FIXME", "XXX"];
    let mut faults = Vec::new();
    for file in tree.with_extension("rs").chain(tree.with_extension("wgsl")) {
        for line in file.lines() {
            for mark in MARKS {
                if words(line.comment).any(|(word, rest)| word == mark && !has_number(rest)) {
                    let place = &line.place;
                    faults.push(format!("{place}: {mark} without an issue: {mark}(#12)"));
                }
            }
        }
    }
    faults
}

/// Whether a text begins like `(#12)`.
fn has_number(text: &str) -> bool {
    let number = text
        .strip_prefix("(#")
        .and_then(|rest| rest.split_once(')'));
    number.is_some_and(|(digits, _)| digits.parse::<u32>().is_ok())
}

/// The words of a text, each with what follows it.
fn words(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(|c| !is_part(c));
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        (!word.is_empty()).then_some((word, after))
    })
}

/// No test is switched off.
fn ignored(tree: &Tree) -> Vec<String> {
    find(
        tree.with_extension("rs"),
        "a test is switched off",
        |code| code.trim_start().starts_with("#[ignore"),
    )
}

/// No test waits for time to pass.
fn sleep(tree: &Tree) -> Vec<String> {
    let lines = tree.with_extension("rs").flat_map(SourceFile::test_lines);
    // Written in two parts, or this file would be a breach.
    let call = concat!("thread::", "sleep");
    lines
        .filter(|line| line.code.contains(call))
        .map(|line| format!("{}: a test sleeps", line.place))
        .collect()
}

/// Every fixed kernel has its twin and a kernel test.
fn stems(tree: &Tree) -> Vec<String> {
    let mut faults = Vec::new();
    for file in tree.with_extension("wgsl") {
        let Some(name) = file.path.strip_prefix("shaders/wgsl/") else {
            continue;
        };
        let Some(stem) = name
            .strip_suffix(".wgsl")
            .filter(|stem| !stem.contains('/'))
        else {
            continue;
        };
        if !tree.has(&format!("shaders/src/twin/{stem}.rs")) {
            faults.push(format!("{stem}: no twin in shaders/src/twin/{stem}.rs"));
        }
        let constant = stem.to_uppercase();
        let mut test_lines = tree
            .with_extension("rs")
            .filter(|file| file.path.starts_with("crates/"))
            .flat_map(SourceFile::test_lines);
        let is_tested =
            test_lines.any(|line| words(line.code).any(|(word, _)| word.starts_with(&constant)));
        if !is_tested {
            faults.push(format!(
                "{stem}: no test below crates/ names layout::{constant}"
            ));
        }
    }
    faults
}

/// Shader text is read by its own crate only, and holds nothing that naga refuses.
fn wgsl(tree: &Tree) -> Vec<String> {
    // This program reads every text of the tree, and names such files in its tests.
    let is_stranger =
        |file: &&SourceFile| !file.path.starts_with("shaders/") && !file.path.starts_with("xtask/");
    let strangers = tree.with_extension("rs").filter(is_stranger);
    let mut faults = find(strangers, "reads shader text by path", |code| {
        code.contains(".wgsl\"")
    });
    // Written in two parts, or this file would be a breach.
    let refused = concat!("enable ", "subgroups;");
    let all = tree.with_extension("rs").chain(tree.with_extension("wgsl"));
    let why = "naga refuses this directive; the built-ins work without it";
    faults.extend(find(all, why, |code| code.contains(refused)));
    faults
}

/// Versions stand in the root manifest only.
fn versions(tree: &Tree) -> Vec<String> {
    let members = tree
        .with_extension("toml")
        .filter(|file| file.path != "Cargo.toml");
    let mut faults = Vec::new();
    for file in members {
        for (place, line) in dependency_lines(file) {
            if !line.replace(' ', "").contains("workspace=true") {
                faults.push(format!("{place}: `{line}` is not inherited from the root"));
            }
        }
    }
    faults
}

/// `tensor_core::compare` is the only comparator.
fn comparator(tree: &Tree) -> Vec<String> {
    let manifests = tree.with_extension("toml");
    manifests
        .flat_map(dependency_lines)
        .filter_map(|(place, line)| {
            let name = line.split(['.', '=', ' ']).next()?;
            let fault = format!("{place}: {name} is a second comparator");
            COMPARATORS.contains(&name).then_some(fault)
        })
        .collect()
}

/// Lines of the dependency tables of a manifest, with their places.
fn dependency_lines(manifest: &SourceFile) -> Vec<(String, &str)> {
    let mut inside = false;
    let mut lines = Vec::new();
    for (idx, line) in manifest.text.lines().enumerate() {
        if line.starts_with('[') {
            inside = line.trim_end().ends_with("dependencies]");
        } else if inside && !line.trim().is_empty() && !line.starts_with('#') {
            lines.push((format!("{}:{}", manifest.path, idx + 1), line.trim()));
        }
    }
    lines
}

/// Places whose code breaks a rule.
fn find<'a>(
    files: impl Iterator<Item = &'a SourceFile>,
    fault: &str,
    breaks: impl Fn(&str) -> bool,
) -> Vec<String> {
    files
        .flat_map(SourceFile::lines)
        .filter(|line| breaks(line.code))
        .map(|line| format!("{}: {fault}", line.place))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Tree {
        let file = |&(path, text): &(&str, &str)| SourceFile {
            path: path.into(),
            text: text.into(),
        };
        Tree {
            files: files.iter().map(file).collect(),
        }
    }

    #[test]
    fn a_file_without_a_header_is_named() {
        let tree = tree(&[
            ("a.rs", "//! Header.\n"),
            ("b.rs", "// Comment.\n"),
            ("c.wgsl", "// Header.\n"),
            ("d.wgsl", "fn f() {}\n"),
        ]);
        assert_eq!(
            headers(&tree),
            [
                "b.rs:1: begins without a `//!` header",
                "d.wgsl:1: begins without a `//` header",
            ]
        );
    }

    #[test]
    fn unfinished_work_needs_a_number() {
        let text = ["TODO: x", "TODO(#12): x", "AUTODOC", "FIXME(me)", "XXX"]
            .map(|comment| format!("let a = 1; // {comment}\n"))
            .concat();
        let faults = unfinished(&tree(&[("a.rs", &text)]));
        let places: Vec<_> = faults.iter().map(|fault| &fault[..6]).collect();
        assert_eq!(places, ["a.rs:1", "a.rs:4", "a.rs:5"]);
    }

    #[test]
    fn tests_may_neither_be_off_nor_sleep() {
        let nap = concat!("std::thread::", "sleep(d);\n");
        let off = concat!("    #[ig", "nore]\n");
        let tested = format!("{nap}#[cfg(test)]\nmod tests {{\n{off}{nap}}}\n");
        let tree = tree(&[("a/src/x.rs", &tested), ("a/tests/y.rs", nap)]);
        assert_eq!(ignored(&tree), ["a/src/x.rs:4: a test is switched off"]);
        assert_eq!(
            sleep(&tree),
            [
                "a/src/x.rs:5: a test sleeps",
                "a/tests/y.rs:1: a test sleeps"
            ]
        );
    }

    #[test]
    fn a_stem_without_twin_or_test_is_named() {
        let tree = tree(&[
            ("shaders/wgsl/row_sum.wgsl", ""),
            ("shaders/wgsl/row_max.wgsl", ""),
            ("shaders/wgsl/shared/grid.wgsl", ""),
            ("shaders/src/twin/row_sum.rs", ""),
            (
                "crates/g/tests/kernels.rs",
                "kernel: &layout::ROW_SUM_F32,\n",
            ),
            ("crates/g/src/sum.rs", "&layout::ROW_MAX\n"),
        ]);
        assert_eq!(
            stems(&tree),
            [
                "row_max: no twin in shaders/src/twin/row_max.rs",
                "row_max: no test below crates/ names layout::ROW_MAX",
            ]
        );
    }

    #[test]
    fn shader_text_stays_in_its_crate_and_free_of_the_directive() {
        let read = "include_str!(\"a.wgsl\")\n";
        let directive = concat!("enable ", "subgroups;\n");
        let tree = tree(&[
            ("shaders/src/source.rs", read),
            ("crates/g/src/x.rs", read),
            ("shaders/wgsl/a.wgsl", directive),
            ("shaders/wgsl/b.wgsl", &format!("// Never {directive}")),
        ]);
        let faults = wgsl(&tree);
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(faults[0].starts_with("crates/g/src/x.rs:1: reads"));
        assert!(faults[1].starts_with("shaders/wgsl/a.wgsl:1: naga"));
    }

    #[test]
    fn members_inherit_versions_and_compare_one_way() {
        let member = "[package]\nversion.workspace = true\n[dependencies]\n# Why.\n\
            a.workspace = true\nb = { workspace = true, optional = true }\nc = \"1\"\n\n\
            [target.'cfg(unix)'.dev-dependencies]\napprox.workspace = true\nd = { path = \"x\" }\n";
        let root = "[workspace.dependencies]\na = \"1\"\nfloat-cmp = \"0.10\"\n";
        let tree = tree(&[("Cargo.toml", root), ("m/Cargo.toml", member)]);
        assert_eq!(
            versions(&tree),
            [
                "m/Cargo.toml:7: `c = \"1\"` is not inherited from the root",
                "m/Cargo.toml:11: `d = { path = \"x\" }` is not inherited from the root",
            ]
        );
        assert_eq!(
            comparator(&tree),
            [
                "Cargo.toml:3: float-cmp is a second comparator",
                "m/Cargo.toml:10: approx is a second comparator",
            ]
        );
    }
}
