//! `cargo xtask readme`: rewrites the measured table and the picture of the README.
//!
//! Role: selects the record, and takes the picture of its page with a headless browser.
//! Method: a test of `benches` compares the table with the record that the README names; with
//! `BLESS=1` it writes the table. `verify` runs the same test, and needs no browser for it. The
//! picture has the name of the record, and shows the page down to the end of its first figure.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;

use crate::process::{self, spinner, tail, watch};
use crate::program;
use crate::web;
use crate::workspace::Workspace;
use tool_io::output;

/// The file with the table, relative to the root.
const README: &str = "README.md";
/// Beginning and end of the comment that names the record.
const MARKER: [&str; 2] = ["<!-- speed: ", " -->"];
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
    #[arg(value_name = "NAME")]
    record: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let workspace = Workspace::load()?;
    let browser = web::find_browser()?;
    let readme = workspace.root.join(README);
    let text = fs::read_to_string(&readme).context(README)?;
    let named = record_of(&text)?;
    let record = match &options.record {
        None => named.to_owned(),
        Some(path) => {
            let name = path
                .file_name()
                .context("readme: NAME is not a file name")?;
            format!("{RECORDS}/{}", name.to_string_lossy())
        }
    };
    let path = workspace.root.join(&record);
    ensure!(path.is_file(), "readme: there is no file {record}");
    take_picture(&workspace, &path, &browser)?;
    if record != named {
        let old = format!("{}{named}{}", MARKER[0], MARKER[1]);
        let new = format!("{}{record}{}", MARKER[0], MARKER[1]);
        fs::write(&readme, text.replace(&old, &new)).context(README)?;
        remove_picture(&workspace.root.join(named))?;
    }
    write_table()?;
    output::print_line(format_args!("{README}: the table of {record}"))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the path of the record that a README names.
fn record_of(readme: &str) -> Result<&str> {
    let [begin, end] = MARKER;
    let named = readme.split_once(begin);
    let path = named.and_then(|(_, rest)| rest.split_once(end));
    path.map(|(path, _)| path)
        .with_context(|| format!("readme: {README} has no line `{begin}RECORD{end}`"))
}

/// Removes the picture of another record.
fn remove_picture(record: &Path) -> Result<()> {
    let picture = record.with_extension("png");
    if picture.exists() {
        fs::remove_file(&picture).with_context(|| picture.display().to_string())?;
    }
    Ok(())
}

/// Writes the picture next to the record.
fn take_picture(workspace: &Workspace, record: &Path, browser: &Path) -> Result<()> {
    program::build(&["report"])?;
    let folder = workspace.target.join("readme");
    fs::create_dir_all(&folder)?;
    let page = folder.join("page.html");
    let mut report = Command::new(workspace.release_program("report"));
    run_quietly(report.arg(record).arg("--out").arg(&page))?;
    let frame = format!(
        "<!DOCTYPE html>\n<iframe src=\"page.html\" width=\"{WIDTH}\" height=\"900\"></iframe>\n\
         <script>{}</script>\n",
        include_str!("readme.js")
    );
    fs::write(folder.join("index.html"), frame)?;
    let height = web::page_report(&folder, &FILES, browser)?;
    let height: u32 = height
        .parse()
        .with_context(|| format!("readme: the page has no figure ({height:?})"))?;
    web::screenshot(
        &page,
        [WIDTH, height],
        &record.with_extension("png"),
        browser,
    )
}

/// Runs the test that writes the table.
fn write_table() -> Result<()> {
    let mut cargo = process::cargo();
    cargo
        .args(["test", "--package", "benches", "--test", "readme"])
        .env("BLESS", "1");
    let bar = spinner("writing the table");
    let done = run_quietly(&mut cargo);
    bar.finish_and_clear();
    done
}

/// Runs a command whose output is shown only if it fails.
fn run_quietly(command: &mut Command) -> Result<()> {
    let finished = watch(command, |_| ())?;
    if !finished.status.success() {
        let output = finished.err + &finished.out;
        bail!("{}\n{}", process::name(command), tail(&output, TAIL_LINES));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_readme_names_its_record() {
        let readme = "# a\n<!-- speed: benches/record/x.json -->\n| |\n";
        assert_eq!(record_of(readme).unwrap(), "benches/record/x.json");
        let error = record_of("# a").unwrap_err().to_string();
        assert!(error.contains("has no line"), "{error}");
    }
}
