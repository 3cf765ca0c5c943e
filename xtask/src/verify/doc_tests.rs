//! The doc tests of all packages, which cargo builds and runs in one command.
//!
//! Method: the name of a doc test begins with the path of its file, which leads to the package; a
//! filter by paths leaves out the packages that have not changed. The build and the run are a check
//! of their own, too.

use std::path::Path;
use std::process::Command;
use std::sync::mpsc::Sender;
use std::time::Instant;

use anyhow::Result;

use super::reporter::Outcome;
use super::tests_run::{Event, Selection, TAIL_LINES, outcome, progress};
use crate::libtest::{self, Verdict};
use crate::mpi;
use crate::process::{self, OutputLine, tail, watch};
use crate::workspace::{Package, Workspace};

/// Id of the check that the doc tests are built and run.
pub(super) const ID: &str = "test/doc";

/// Runs the doc tests of the packages that have changed.
pub(super) fn run(
    workspace: &Workspace,
    plan: &Selection<'_>,
    events: &Sender<Event>,
) -> Result<()> {
    let mut changed = Vec::new();
    for package in &workspace.packages {
        let process = doc_prefix(package);
        match plan.unchanged.known(package, &process) {
            Some(known) if known.is_good() => {
                for name in &known.all {
                    events.send(Event::Ended(doc_id(workspace, name), Outcome::Unchanged))?;
                }
            }
            _ => changed.push(package),
        }
    }
    let end = |outcome| events.send(Event::Ended(ID.into(), outcome));
    let is_selected = ID.contains(plan.pattern);
    if changed.is_empty() {
        if is_selected {
            end(Outcome::Unchanged)?;
        }
        return Ok(());
    }
    // Names begin with the folder of the package.
    let mut folders = Vec::new();
    if changed.len() < workspace.packages.len() {
        let inside = changed.iter().filter_map(|package| {
            let folder = package.folder().strip_prefix(&workspace.root).ok()?;
            folder.to_str()
        });
        folders.extend(inside);
    }
    let is_chosen = |name: &str| doc_id(workspace, name).contains(plan.pattern);
    events.send(Event::Started(ID.into()))?;
    if !is_selected {
        let mut list = doc_command(plan, &["--list", "--format", "terse"]);
        let listed = watch(&mut list, |_| ())?;
        if !listed.status.success() {
            let output = tail(&(listed.out + &listed.err), TAIL_LINES);
            return Ok(end(Outcome::Failed(output))?);
        }
        let all = libtest::listing(&listed.out);
        if !all.iter().any(|name| is_chosen(name)) {
            return Ok(());
        }
    }
    let begun = Instant::now();
    let finished = watch(&mut doc_command(plan, &folders), |line| {
        if let OutputLine::Out(text) = line
            && libtest::is_result(text)
        {
            progress(events, text.clone());
        }
    })?;
    events.send(Event::Took(ID.into(), begun.elapsed()))?;
    let reports = libtest::parse(&finished.out);
    let is_explained = reports
        .iter()
        .any(|report| report.verdict == Verdict::Failed);
    // If a test failed, other packages may have tests that did not run.
    if finished.status.success() {
        for package in changed {
            let process = doc_prefix(package);
            let own = reports.iter().filter(|report| {
                let id = doc_id(workspace, &report.name);
                id.strip_prefix(&process)
                    .is_some_and(|rest| rest.starts_with('/'))
            });
            let ran = own.map(|report| (report.name.clone(), report.verdict == Verdict::Ok));
            let ran: Vec<_> = ran.collect();
            let all: Vec<_> = ran.iter().map(|(name, _)| name.clone()).collect();
            plan.unchanged.store(package, &process, &all, ran)?;
        }
    }
    for report in reports.iter().filter(|report| is_chosen(&report.name)) {
        let id = doc_id(workspace, &report.name);
        events.send(Event::Ended(id, outcome(report)))?;
    }
    if finished.status.success() {
        if is_selected {
            end(Outcome::Passed)?;
        }
    } else if !is_explained {
        end(Outcome::Failed(tail(&finished.err, TAIL_LINES)))?;
    }
    Ok(())
}

fn doc_command(plan: &Selection<'_>, harness_args: &[&str]) -> Command {
    let mut cargo = process::cargo();
    cargo
        .args(["test", "--workspace", "--doc", "--no-fail-fast"])
        .args(mpi::arguments())
        .arg("--")
        .args(harness_args)
        .envs(plan.envs.iter().map(|(name, value)| (name, value)));
    cargo
}

/// Returns the id of the doc tests of a package.
fn doc_prefix(package: &Package) -> String {
    format!("test/{}/doc", package.name)
}

/// Returns the id of a doc test: `test/<package>/doc/<file> - <item> (line N)`.
fn doc_id(workspace: &Workspace, name: &str) -> String {
    for package in &workspace.packages {
        let folder = package.folder().strip_prefix(&workspace.root);
        let inside = folder.ok().and_then(|folder| below(name, folder));
        if let Some(inside) = inside {
            return format!("{}/{inside}", doc_prefix(package));
        }
    }
    format!("test/doc/{name}")
}

/// Returns the part of the path `name` below a folder.
fn below<'a>(name: &'a str, folder: &Path) -> Option<&'a str> {
    name.strip_prefix(folder.to_str()?)?
        .strip_prefix(['/', '\\'])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn doc_tests_are_filed_under_their_package() {
        let package = |name: &str, folder: &str| {
            let manifest = format!("/w/{folder}/Cargo.toml");
            json!({"name": name, "version": "0.1.0", "manifest_path": manifest, "dependencies": []})
        };
        let workspace = Workspace::from_metadata(&json!({
            "workspace_root": "/w",
            "target_directory": "/w/target",
            "packages": [package("alpha", "crates/alpha"), package("alpha-two", "crates/alpha-two")],
        }))
        .unwrap();
        assert_eq!(
            doc_id(&workspace, "crates/alpha-two/src/lib.rs - add (line 3)"),
            "test/alpha-two/doc/src/lib.rs - add (line 3)"
        );
        assert_eq!(doc_id(&workspace, "odd (line 3)"), "test/doc/odd (line 3)");
    }
}
