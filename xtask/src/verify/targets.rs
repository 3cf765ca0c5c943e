//! Builds for other systems, which are checked but not linked.
//!
//! Role: the checks `target/<triple>` of `--full`.
//! Method: `cargo check` parses, resolves and type-checks all code behind `cfg` of the target, and
//! needs neither its linker nor its libraries.

use anyhow::Result;

use super::lints;
use super::reporter::{Outcome, Reporter};
use crate::toolchain::Toolchain;
use crate::workspace::Workspace;

/// The targets, besides that of this computer and that of browsers.
pub(super) const TARGETS: [&str; 3] = [
    "x86_64-pc-windows-msvc",
    "aarch64-apple-darwin",
    "aarch64-unknown-linux-gnu",
];

/// Checks all crates for a target, with their programs but without MPI. Returns the reason if there
/// is no compiler for the target.
pub(super) fn outcome(
    workspace: &Workspace,
    target: &'static str,
    reporter: &Reporter,
) -> Result<Result<Outcome, String>> {
    let toolchain = match Toolchain::find(target) {
        Ok(toolchain) => toolchain,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let mut cargo = toolchain.cargo("check");
    cargo
        .arg("--workspace")
        .args(["--features", "telemetry/cli,games/cli,gpu-wgsl/cli"])
        // Another compiler in the same folder would rebuild every build script and macro.
        .env("CARGO_TARGET_DIR", workspace.target.join("targets"));
    Ok(Ok(Outcome::from_faults(&lints::faults(
        &mut cargo, reporter,
    )?)))
}
