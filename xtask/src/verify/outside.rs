//! Each library built alone, as an outside user would, so that features which other
//! members turn on hide nothing.
//!
//! Method: a scratch package outside the workspace depends on the library by path, with
//! the workspace's lock file and profile, and shares its target folder; what clippy has
//! checked of the registry crates is then not checked again. `cargo check` suffices: a
//! library is not linked, and code that only generation would refuse is built by tests.
//! The lock file that cargo leaves behind is the whole resolution for all platforms, so
//! packages that must not come along are looked up there.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::edges;
use super::lints;
use super::reporter::Reporter;
use crate::process;
use crate::workspace::{Package, Workspace};

pub(super) fn faults(
    workspace: &Workspace,
    package: &Package,
    reporter: &Reporter,
) -> Result<Vec<String>> {
    let dir = workspace.target.join("outside").join(&package.name);
    write_scratch(workspace, package, &dir)?;
    let mut cargo = process::cargo();
    cargo
        .args(["check", "--manifest-path"])
        .arg(dir.join("Cargo.toml"))
        .env("CARGO_TARGET_DIR", &workspace.target);
    let faults = lints::faults(&mut cargo, reporter)?;
    if !faults.is_empty() {
        // The lock file may still be the whole workspace's.
        return Ok(faults);
    }
    let lock = fs::read_to_string(dir.join("Cargo.lock"))?;
    Ok(unwanted(&package.name, &lock))
}

fn write_scratch(workspace: &Workspace, package: &Package, dir: &Path) -> Result<()> {
    let root_manifest = fs::read_to_string(workspace.root.join("Cargo.toml"))?;
    let manifest = scratch_manifest(package, &profiles(&root_manifest));
    let at = || dir.display().to_string();
    fs::create_dir_all(dir.join("src")).with_context(at)?;
    fs::write(dir.join("Cargo.toml"), manifest).with_context(at)?;
    let krate = package.name.replace('-', "_");
    let source = format!("//! Depends on one crate.\npub use {krate};\n");
    fs::write(dir.join("src/lib.rs"), source).with_context(at)?;
    // Versions are the workspace's, so nothing is resolved anew and a warm run stays warm.
    fs::copy(workspace.root.join("Cargo.lock"), dir.join("Cargo.lock")).with_context(at)?;
    Ok(())
}

fn scratch_manifest(package: &Package, profiles: &str) -> String {
    // A literal TOML string keeps the backslashes of a Windows path.
    format!(
        "[package]\nname = \"outside\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
         [workspace]\n\n[dependencies]\n{} = {{ path = '{}' }}\n\n{profiles}",
        package.name,
        package.folder().display(),
    )
}

/// The `[profile.…]` tables of a manifest, so that artifacts of both builds are the same.
fn profiles(manifest: &str) -> String {
    let mut inside = false;
    let mut tables = String::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = line.starts_with("[profile.");
        }
        if inside {
            tables += line;
            tables.push('\n');
        }
    }
    tables
}

/// Packages of a lock file that the library must not bring along.
fn unwanted(library: &str, lock: &str) -> Vec<String> {
    let never = edges::never(library).iter();
    let locked = |name: &str| {
        let line = format!("name = \"{name}\"");
        lock.lines().any(|locked| locked == line)
    };
    never
        .filter(|name| locked(name))
        .map(|name| format!("{library} alone brings {name} along"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_profile_tables_are_copied() {
        let manifest = "[workspace]\nmembers = []\n\n[profile.dev]\nopt-level = 1\n\n\
            [lints]\nx = 1\n[profile.dev.package.\"*\"]\ndebug = false\n";
        assert_eq!(
            profiles(manifest),
            "[profile.dev]\nopt-level = 1\n\n[profile.dev.package.\"*\"]\ndebug = false\n"
        );
    }

    #[test]
    fn a_locked_package_that_must_not_come_along_is_named() {
        let lock = "[[package]]\nname = \"wgpu-types\"\n\n[[package]]\nname = \"wgpu\"\n";
        assert_eq!(
            unwanted("tensor-core", lock),
            ["tensor-core alone brings wgpu along"]
        );
        assert!(unwanted("tensor-core", "name = \"ndarray\"\n").is_empty());
        assert!(unwanted("gpu-wgsl", lock).is_empty());
    }
}
