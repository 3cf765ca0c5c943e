//! The page and the README's table that the program `report` writes from committed records.
//!
//! Role: the check `report/page`: no text over text, no sideways scroll, a figure on the first
//! screen, and links that resolve, as wide as a desk and as a phone. The check `report/readme`: the
//! table of the README is that of the record that the README names.
//! Method: the program `report`, which the build of the tests contains, writes the page. A second
//! page shows it in two frames, and its script (`report_page.js`) sends a list of faults.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use super::reporter::{Outcome, Reporter};
use crate::artifact::Executable;
use crate::browser;
use crate::process::{Interrupted, tail, watch};
use crate::readme;
use crate::workspace::Workspace;

/// Id of the check of the page.
const PAGE: &str = "report/page";
/// Id of the check of the README.
const README: &str = "report/readme";
/// Ids of the checks.
pub(super) const IDS: [&str; 2] = [README, PAGE];
/// Beginning of the ids, which selects no other check that needs a build.
pub(super) const PREFIX: &str = "report/";
/// The record: a quick run with all rivals.
const RECORD: &str = "benches/record/2026-11-29t20-43-36z-amd-epyc-2.json";
/// Files that the server sends, with their media types.
const FILES: [(&str, &str); 3] = [
    ("index.html", "text/html; charset=utf-8"),
    ("page.html", "text/html; charset=utf-8"),
    ("check.js", "text/javascript; charset=utf-8"),
];
/// The page with the frames.
const FRAMES: &str = "<!DOCTYPE html>\n<script src=\"check.js\"></script>\n\
    <iframe src=\"page.html\" width=\"1280\" height=\"900\"></iframe>\n\
    <iframe src=\"page.html\" width=\"390\" height=\"844\"></iframe>\n";
/// Maximum number of displayed lines of a failing program's output.
const TAIL_LINES: usize = 20;

/// Runs the checks whose ids contain the pattern, and reports them; `missing` is the outcome if
/// there is no browser.
pub(super) fn run(
    workspace: &Workspace,
    executables: &[Executable],
    pattern: &str,
    reporter: &mut Reporter,
    missing: impl Fn(&str) -> Outcome,
) -> Result<()> {
    let mut built = executables.iter();
    let program = built
        .find(|executable| executable.target == "report" && !executable.is_test)
        .context("report: not built")?;
    if README.contains(pattern) {
        reporter.begin_long(README)?;
        let outcome = outcome(readme::faults(workspace, &program.path))?;
        reporter.end(README, outcome)?;
    }
    match PAGE.contains(pattern) {
        true => page(workspace, program, reporter, missing),
        false => Ok(()),
    }
}

/// Checks the page.
fn page(
    workspace: &Workspace,
    program: &Executable,
    reporter: &mut Reporter,
    missing: impl Fn(&str) -> Outcome,
) -> Result<()> {
    reporter.begin_long(PAGE)?;
    let browser = match browser::find() {
        Ok(browser) => browser,
        Err(error) => return reporter.end(PAGE, missing(&format!("{error:#}"))),
    };
    let folder = workspace.target.join("verify").join("report");
    fs::create_dir_all(&folder)?;
    let mut command = Command::new(&program.path);
    command
        .arg(workspace.root.join(RECORD))
        .arg("--out")
        .arg(folder.join("page.html"));
    let finished = watch(&mut command, |_| ())?;
    if !finished.status.success() {
        let output = finished.out + &finished.err;
        return reporter.end(PAGE, Outcome::Failed(tail(&output, TAIL_LINES)));
    }
    reporter.end(PAGE, outcome(check(&folder, &browser))?)
}

/// Returns the outcome of a check that lists faults. An error is a failure, except an interrupt.
fn outcome(checked: Result<Vec<String>>) -> Result<Outcome> {
    match checked {
        Ok(faults) => Ok(Outcome::from_faults(&faults)),
        Err(error) if error.is::<Interrupted>() => Err(error),
        Err(error) => Ok(Outcome::Failed(format!("{error:#}"))),
    }
}

/// Returns the faults of the page in a folder.
fn check(folder: &Path, browser: &Path) -> Result<Vec<String>> {
    fs::write(folder.join("index.html"), FRAMES)?;
    fs::write(folder.join("check.js"), include_str!("report_page.js"))?;
    let faults = browser::report(folder, &FILES, browser)?;
    serde_json::from_str(&faults).context("report: the page sent invalid JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the faults of a page with this body; `None` without a browser.
    fn faults(name: &str, body: &str) -> Option<Vec<String>> {
        let browser = browser::find().ok()?;
        let folder =
            std::env::temp_dir().join(format!("report-page-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let page =
            format!("<!DOCTYPE html><div id=\"answers\"><i class=\"lane\">.</i></div>{body}");
        fs::write(folder.join("page.html"), page).unwrap();
        let faults = check(&folder, &browser).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        Some(faults)
    }

    #[test]
    fn each_kind_of_fault_is_found() {
        let Some(none) = faults("good", "<p><a href=\"#answers\">a link</a></p>") else {
            const NAME: &str = "verify::report::tests::each_kind_of_fault_is_found";
            eprintln!("skipped: {NAME}: no browser was found");
            return;
        };
        assert_eq!(none, [""; 0]);
        let wide = faults("wide", "<div style=\"width:600px\">wide</div>").unwrap();
        assert!(
            wide.iter().all(|fault| fault.starts_with("390 pixels: ")),
            "{wide:?}"
        );
        assert_eq!(wide.len(), 2, "{wide:?}");
        let over = "<p style=\"margin:0\">below</p><p style=\"margin:-18px 0 0\">above</p>";
        let over = faults("over", over).unwrap();
        assert!(
            over.len() == 2 && over[0].contains("\"above\" over \"below\""),
            "{over:?}"
        );
        let link = faults("link", "<a href=\"#nowhere\">x</a>").unwrap();
        assert!(link.len() == 2 && link[0].contains("#nowhere"), "{link:?}");
    }
}
