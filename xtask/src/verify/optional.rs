//! Checks that need a tool that few machines have: another compiler, `cargo-deny`, a Docker engine.
//!
//! Method: a check whose tool is missing is skipped, also with `REQUIRE_TOOLS=1`, because these
//! tools are expected on few machines.

use std::process::Command;

use anyhow::{Context as _, Result};

use super::lints;
use super::reporter::{Outcome, Reporter};
use crate::process;
use crate::workspace::Workspace;

/// Dockerfile of the image with `trace`, relative to the root.
const DOCKERFILE: &str = "crates/telemetry/image/Dockerfile";

/// Checks the licences and sources of dependencies.
///
/// Advisories are left out: their list is on the network. `cargo deny check` reads it.
pub(super) fn deny(reporter: &Reporter) -> Result<Outcome> {
    if process::find_in_path(&["cargo-deny"]).is_none() {
        let why = "cargo-deny was not found in PATH (`cargo install cargo-deny --locked`)";
        return Ok(Outcome::Skipped(why.to_owned()));
    }
    let mut cargo = process::cargo();
    cargo.args(["deny", "--offline", "check", "bans", "licenses", "sources"]);
    outcome(&mut cargo, reporter)
}

/// Builds the workspace with the oldest compiler that it supports.
pub(super) fn oldest_compiler(workspace: &Workspace, reporter: &Reporter) -> Result<Outcome> {
    let oldest = &workspace.rust_version;
    let printed = process::watch(Command::new("rustc").arg("--version"), |_| ())?;
    let current = printed.out.split_whitespace().nth(1).unwrap_or_default();
    if is_release_of(current, oldest) {
        // All other checks build with it.
        return Ok(Outcome::Passed);
    }
    let toolchain = format!("+{oldest}");
    let mut has_toolchain = Command::new("cargo");
    let found = process::watch(has_toolchain.args([&toolchain, "--version"]), |_| ());
    if !found.is_ok_and(|found| found.status.success()) {
        return Ok(Outcome::Skipped(format!(
            "Rust {oldest} is not installed (`rustup toolchain install {oldest}`); this is {current}"
        )));
    }
    let mut cargo = Command::new("cargo");
    cargo
        .current_dir(&workspace.root)
        .args([&toolchain, "check", "--workspace"])
        .env_remove("RUSTUP_TOOLCHAIN")
        .env("CARGO_TARGET_DIR", workspace.target.join("oldest-compiler"));
    outcome(&mut cargo, reporter)
}

/// Returns whether a version, such as `1.95.2`, is a release of `1.95`.
fn is_release_of(version: &str, oldest: &str) -> bool {
    let rest = version.strip_prefix(oldest);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Builds the image of `trace`, and starts the program in it.
pub(super) fn image(workspace: &Workspace, reporter: &Reporter) -> Result<Outcome> {
    const TAG: &str = "trace-of-verify";
    let engine = process::watch(Command::new("docker").arg("info"), |_| ());
    if !engine.is_ok_and(|engine| engine.status.success()) {
        return Ok(Outcome::Skipped("no Docker engine is running".to_owned()));
    }
    let mut build = Command::new("docker");
    build
        .current_dir(&workspace.root)
        .args(["build", "--file", DOCKERFILE, "--tag", TAG, "."]);
    let built = outcome(&mut build, reporter)?;
    if !matches!(built, Outcome::Passed) {
        return Ok(built);
    }
    let mut start = Command::new("docker");
    start.args(["run", "--rm", TAG, "--version"]);
    outcome(&mut start, reporter)
}

/// Runs a command; the check fails if the command does.
fn outcome(command: &mut Command, reporter: &Reporter) -> Result<Outcome> {
    let name = process::name(command);
    let faults = lints::faults(command, reporter).with_context(|| name)?;
    Ok(Outcome::from_faults(&faults))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_of_a_version_have_its_numbers() {
        assert!(is_release_of("1.95.0", "1.95") && is_release_of("1.95", "1.95"));
        assert!(!is_release_of("1.950.0", "1.95") && !is_release_of("1.96.0", "1.95"));
    }
}
