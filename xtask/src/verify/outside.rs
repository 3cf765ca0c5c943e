//! Builds of each published library alone, as by an external user. They detect missing features
//! that other members of the workspace enable.
//!
//! Method: a scratch package outside of the workspace depends on the unpacked package of a library
//! by path. The scratch package uses the workspace's lock file, profile and target folder, so that
//! registry crates already checked by clippy are not checked again. `cargo check` is enough: a
//! library is not linked, and errors that occur only in code generation are detected by the tests.
//! The lock file that cargo writes contains all dependencies for all platforms, so it is searched
//! for unwanted packages.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::edges;
use super::lints;
use super::packages::Packages;
use super::reporter::Reporter;
use crate::process;
use crate::workspace::{Package, Workspace};

pub(super) fn faults(
    workspace: &Workspace,
    packages: &Packages<'_>,
    package: &Package,
    reporter: &Reporter,
) -> Result<Vec<String>> {
    if !packages.faults(reporter)?.is_empty() {
        return Ok(vec!["the check `packages` failed".to_owned()]);
    }
    let dir = workspace.target.join("outside").join(&package.name);
    write_scratch(workspace, packages, package, &dir)?;
    let mut cargo = process::cargo();
    cargo
        .args(["check", "--manifest-path"])
        .arg(dir.join("Cargo.toml"))
        .env("CARGO_TARGET_DIR", &workspace.target);
    let faults = lints::faults(&mut cargo, reporter)?;
    if !faults.is_empty() {
        // After a failed build the lock file may still be the lock file of the whole workspace.
        return Ok(faults);
    }
    let lock = fs::read_to_string(dir.join("Cargo.lock"))?;
    Ok(unwanted(&package.name, &lock))
}

fn write_scratch(
    workspace: &Workspace,
    packages: &Packages<'_>,
    package: &Package,
    dir: &Path,
) -> Result<()> {
    let root_manifest = fs::read_to_string(workspace.root.join("Cargo.toml"))?;
    let folder = packages.folder_of(package);
    let patches = packages
        .dependencies(package)
        .into_iter()
        .map(|used| (used.name.as_str(), packages.folder_of(used)));
    let patches: Vec<_> = patches.collect();
    let manifest = scratch_manifest(&package.name, &folder, &patches, &profiles(&root_manifest));
    let at = || dir.display().to_string();
    fs::create_dir_all(dir.join("src")).with_context(at)?;
    fs::write(dir.join("Cargo.toml"), manifest).with_context(at)?;
    let krate = package.name.replace('-', "_");
    let source = format!("//! Depends on one crate.\npub use {krate};\n");
    fs::write(dir.join("src/lib.rs"), source).with_context(at)?;
    // With the workspace's versions cargo need not resolve again, and repeated runs are fast.
    fs::copy(workspace.root.join("Cargo.lock"), dir.join("Cargo.lock")).with_context(at)?;
    Ok(())
}

/// Returns a manifest that depends on the package in a folder; `patches` are the folders of further
/// packages.
fn scratch_manifest(
    package: &str,
    folder: &Path,
    patches: &[(&str, PathBuf)],
    profiles: &str,
) -> String {
    // A literal TOML string preserves the backslashes of a Windows path.
    let path =
        |name: &str, folder: &Path| format!("{name} = {{ path = '{}' }}\n", folder.display());
    let mut manifest = format!(
        "[package]\nname = \"outside\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
         [workspace]\n\n[dependencies]\n{}\n",
        path(package, folder)
    );
    if !patches.is_empty() {
        let patches = patches.iter().map(|(name, folder)| path(name, folder));
        manifest += &format!("[patch.crates-io]\n{}\n", patches.collect::<String>());
    }
    manifest + profiles
}

/// Returns the `[profile.…]` tables of a manifest, so that both builds share artifacts.
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

/// Returns a fault for each unwanted package in the lock file of a library.
fn unwanted(library: &str, lock: &str) -> Vec<String> {
    let never = edges::never(library).iter();
    let locked = |name: &str| {
        let line = format!("name = \"{name}\"");
        lock.lines().any(|locked| locked == line)
    };
    never
        .filter(|name| locked(name))
        .map(|name| format!("{library} depends on {name}"))
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
            ["tensor-core depends on wgpu"]
        );
        assert!(unwanted("tensor-core", "name = \"ndarray\"\n").is_empty());
        assert!(unwanted("gpu-wgsl", lock).is_empty());
    }
}
