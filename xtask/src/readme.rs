//! `cargo xtask readme`: rewrites the measured table and the picture of the README.
//!
//! Role: the only module that reads and writes the block between the markers of the README.
//! `verify` compares the block with the record that it names, and the snippets with those of the
//! crates' READMEs (`report/readme`), without a browser.
//! Method: the program `report` prints the table of a record. The picture has the name of the
//! record, and shows the page down to the end of its first figure.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;

use crate::browser;
use crate::process::{tail, watch};
use crate::program;
use crate::workspace::Workspace;
use tool_io::{output, replace_file};

/// The file with the table, relative to the root.
const README: &str = "README.md";
/// Beginning of the line above the block; the path of the record and [`CLOSE`] follow.
const BEGIN: &str = "<!-- speed: ";
/// End of a comment.
const CLOSE: &str = " -->";
/// The line below the block.
const END: &str = "<!-- end of speed -->";
/// Folder of the records, relative to the root.
const RECORDS: &str = "benches/record";
/// Width of the picture, in pixels.
const WIDTH: u32 = 1280;
/// Files of the page that measures the height of the figure.
const FILES: [(&str, &str); 2] = [
    ("index.html", "text/html; charset=utf-8"),
    ("page.html", "text/html; charset=utf-8"),
];
/// Maximum number of displayed lines of a failing program's output.
const TAIL_LINES: usize = 40;

/// Arguments of `readme`.
///
/// The table is written from a record in benches/record/; the picture requires Chromium or Chrome.
#[derive(Args)]
pub(crate) struct Options {
    /// File name of a record in benches/record/ [default: the record that the README names]
    #[arg(value_name = "NAME", value_parser = file_name)]
    record: Option<String>,
}

/// Parses the name of a record's file.
fn file_name(text: &str) -> Result<String, String> {
    let is_name = !text.contains(['/', '\\']) && text.ends_with(".json") && !text.contains(CLOSE);
    match is_name {
        true => Ok(text.to_owned()),
        false => Err("expected a file name that ends with .json".to_owned()),
    }
}

/// A README, split at its markers.
#[derive(Debug, PartialEq, Eq)]
struct Split<'t> {
    /// Text before the path of the record.
    before: &'t str,
    /// Path of the record, relative to the root.
    record: &'t str,
    block: &'t str,
    /// Text that begins with the marker of the end.
    after: &'t str,
}

impl<'t> Split<'t> {
    fn parse(readme: &'t str) -> Result<Self> {
        let missing = || {
            format!("readme: {README} has no line `{BEGIN}RECORD{CLOSE}`, or none `{END}` after it")
        };
        let (before, rest) = readme.split_once(BEGIN).with_context(missing)?;
        let (record, rest) = rest.split_once(CLOSE).with_context(missing)?;
        let at = rest.find(END).with_context(missing)?;
        ensure!(
            !rest.contains(BEGIN),
            "readme: {README} has two lines `{BEGIN}RECORD{CLOSE}`"
        );
        let (block, after) = rest.split_at(at);
        Ok(Self {
            before,
            record,
            block,
            after,
        })
    }

    /// Returns the README with another block.
    fn with(&self, record: &str, block: &str) -> String {
        [self.before, BEGIN, record, CLOSE, block, self.after].concat()
    }
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let workspace = Workspace::load()?;
    let browser = browser::find()?;
    let file = workspace.root.join(README);
    let text = fs::read_to_string(&file).context(README)?;
    let now = Split::parse(&text)?;
    let record = match &options.record {
        None => now.record.to_owned(),
        Some(name) => format!("{RECORDS}/{name}"),
    };
    let path = workspace.root.join(&record);
    ensure!(path.is_file(), "readme: there is no file {record}");
    program::build(&["report"])?;
    let report = workspace.release_program("report");
    let fresh = now.with(&record, &block(&report, &workspace.root, &record)?);
    take_picture(&workspace, &report, &path, &browser)?;
    replace_file(&file, &fresh)?;
    let old = picture_of(&workspace.root.join(now.record));
    if record != now.record && old.exists() {
        fs::remove_file(&old).with_context(|| old.display().to_string())?;
    }
    output::print_line(format_args!("{README}: the table of {record}"))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the faults of the README's block; `report` is the program.
pub(crate) fn faults(workspace: &Workspace, report: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(workspace.root.join(README)).context(README)?;
    let now = Split::parse(&text)?;
    let mut faults = Vec::new();
    if now.block != block(report, &workspace.root, now.record)? {
        faults.push(format!("{README}: the table is not that of {}", now.record));
    }
    if !picture_of(&workspace.root.join(now.record)).exists() {
        faults.push(format!("{README}: there is no picture of {}", now.record));
    }
    if !faults.is_empty() {
        faults.push("`cargo xtask readme` writes both".to_owned());
    }
    for package in &workspace.packages {
        let own = fs::read_to_string(package.folder().join(README)).unwrap_or_default();
        if first_snippet(&own).is_some_and(|snippet| !text.contains(snippet)) {
            let name = &package.name;
            faults.push(format!(
                "{README}: lacks the first snippet of the README of {name}"
            ));
        }
    }
    Ok(faults)
}

/// Returns the first Rust program of a README.
fn first_snippet(readme: &str) -> Option<&str> {
    let (_, rest) = readme.split_once("```rust\n")?;
    rest.split_once("\n```").map(|(snippet, _)| snippet)
}

/// Returns the block of a record: the picture, the table, and how to repeat both.
fn block(report: &Path, root: &Path, record: &str) -> Result<String> {
    let mut command = Command::new(report);
    command.arg(root.join(record)).arg("--markdown");
    let table = run_quietly(&mut command)?;
    let picture = picture_of(Path::new(record));
    let picture = picture.display();
    Ok(format!(
        "\n[![Speed of this project, relative to the best rival, in each workload]({picture})]({picture})\n\n\
         {table}\n\
         From the [record]({record}). `cargo xtask report {record}` writes its page, and `cargo xtask readme` this block.\n"
    ))
}

/// Returns the path of a record's picture.
fn picture_of(record: &Path) -> PathBuf {
    record.with_extension("png")
}

/// Writes the picture next to the record.
fn take_picture(workspace: &Workspace, report: &Path, record: &Path, browser: &Path) -> Result<()> {
    let folder = workspace.target.join("readme");
    fs::create_dir_all(&folder)?;
    let page = folder.join("page.html");
    run_quietly(Command::new(report).arg(record).arg("--out").arg(&page))?;
    let frame = format!(
        "<!DOCTYPE html>\n<iframe src=\"page.html\" width=\"{WIDTH}\" height=\"900\"></iframe>\n\
         <script>{}</script>\n",
        include_str!("readme.js")
    );
    fs::write(folder.join("index.html"), frame)?;
    let height = browser::report(&folder, &FILES, browser)?;
    let height: u32 = height
        .parse()
        .with_context(|| format!("readme: the page has no figure ({height:?})"))?;
    browser::screenshot(&page, [WIDTH, height], &picture_of(record), browser)
}

/// Runs a program and returns its standard output; an error contains the last lines of its output.
fn run_quietly(command: &mut Command) -> Result<String> {
    let finished = watch(command, |_| ())?;
    if !finished.status.success() {
        let output = finished.err + &finished.out;
        bail!("{}", tail(&output, TAIL_LINES));
    }
    Ok(finished.out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_readme_is_split_at_its_markers_and_joined_again() {
        let readme = "a\n<!-- speed: r.json -->\n| table |\n<!-- end of speed -->\nb\n";
        let split = Split::parse(readme).unwrap();
        assert_eq!((split.record, split.block), ("r.json", "\n| table |\n"));
        assert_eq!(split.with(split.record, split.block), readme);
        let other = "a\n<!-- speed: s.json -->\nnew\n<!-- end of speed -->\nb\n";
        assert_eq!(split.with("s.json", "\nnew\n"), other);
    }

    #[test]
    fn the_first_snippet_is_found() {
        let readme = "a\n```sh\nls\n```\n```rust\nlet a = 1;\n```\n```rust\nb\n```\n";
        assert_eq!(first_snippet(readme), Some("let a = 1;"));
        assert_eq!(first_snippet("# a"), None);
    }

    #[test]
    fn a_readme_without_a_marker_or_with_two_is_rejected() {
        for (readme, problem) in [
            ("# a", "has no line"),
            ("<!-- speed: r.json -->\n| table |", "has no line"),
            (
                "<!-- end of speed -->\n<!-- speed: r.json -->",
                "has no line",
            ),
            (
                "<!-- speed: a --><!-- speed: b --><!-- end of speed -->",
                "has two lines",
            ),
        ] {
            let error = Split::parse(readme).unwrap_err().to_string();
            assert!(error.contains(problem), "{readme}: {error}");
        }
    }
}
