//! Root and packages of the workspace, from `cargo metadata`.
//!
//! Role: the only module that reads cargo's metadata.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::process;

/// The workspace this program belongs to.
#[derive(Debug)]
pub(crate) struct Workspace {
    /// Folder of the root manifest.
    pub(crate) root: PathBuf,
    /// Build folder of cargo.
    pub(crate) target: PathBuf,
    /// Oldest supported version of the compiler; empty if no member names one.
    pub(crate) rust_version: String,
    /// Members of the workspace, in cargo's order.
    pub(crate) packages: Vec<Package>,
}

/// A member of the workspace.
#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) manifest: PathBuf,
    /// Whether the package may be uploaded to a registry.
    pub(crate) is_published: bool,
    pub(crate) features: Vec<String>,
    pub(crate) dependencies: Vec<Dependency>,
}

/// An entry of a member's dependency tables.
#[derive(Debug)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// Whether the dependency is only for tests, examples and benches.
    pub(crate) dev: bool,
    /// Whether the dependency is optional, that is, enabled only by a feature.
    pub(crate) optional: bool,
}

impl Workspace {
    /// Queries cargo for the members, without resolving or fetching dependencies.
    pub(crate) fn load() -> Result<Self> {
        let output = process::cargo()
            .args(["metadata", "--format-version", "1", "--no-deps"])
            .output()
            .context("could not start cargo")?;
        if !output.status.success() {
            bail!(
                "cargo metadata: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        let metadata = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
        Self::from_metadata(&metadata)
    }

    /// Parses the metadata that this program uses.
    pub(crate) fn from_metadata(metadata: &Value) -> Result<Self> {
        let packages = metadata["packages"]
            .as_array()
            .context("cargo metadata: no list of packages")?;
        Ok(Self {
            root: text(metadata, "workspace_root")?.into(),
            target: text(metadata, "target_directory")?.into(),
            rust_version: packages
                .iter()
                .find_map(|package| package["rust_version"].as_str())
                .unwrap_or_default()
                .to_owned(),
            packages: packages
                .iter()
                .map(Package::from_metadata)
                .collect::<Result<_>>()?,
        })
    }

    /// Returns the package of a name.
    ///
    /// # Errors
    /// No member has this name.
    pub(crate) fn package(&self, name: &str) -> Result<&Package> {
        let mut packages = self.packages.iter();
        let found = packages.find(|package| package.name == name);
        found.with_context(|| format!("the workspace has no package {name:?}"))
    }

    /// Returns the path of a program after a release build.
    pub(crate) fn release_program(&self, name: &str) -> PathBuf {
        let file = format!("{name}{}", env::consts::EXE_SUFFIX);
        self.target.join("release").join(file)
    }
}

impl Package {
    fn from_metadata(package: &Value) -> Result<Self> {
        let dependencies = package["dependencies"]
            .as_array()
            .context("cargo metadata: no list of dependencies")?;
        let features = package["features"].as_object();
        Ok(Self {
            name: text(package, "name")?,
            version: text(package, "version")?,
            // The list of registries; null for all.
            is_published: package["publish"]
                .as_array()
                .is_none_or(|list| !list.is_empty()),
            manifest: text(package, "manifest_path")?.into(),
            features: features
                .map(|features| features.keys().cloned().collect())
                .unwrap_or_default(),
            dependencies: dependencies
                .iter()
                .map(Dependency::from_metadata)
                .collect::<Result<_>>()?,
        })
    }

    /// Returns the folder of the package's manifest.
    pub(crate) fn folder(&self) -> &Path {
        self.manifest
            .parent()
            .expect("a manifest path has a parent folder")
    }
}

impl Dependency {
    fn from_metadata(dependency: &Value) -> Result<Self> {
        Ok(Self {
            name: text(dependency, "name")?,
            dev: dependency["kind"] == "dev",
            optional: dependency["optional"] == true,
        })
    }
}

/// Returns the folder of the root manifest, without a call of cargo.
pub(crate) fn root() -> PathBuf {
    // cargo sets the variable when it runs this program. The constant is the fallback for a direct
    // start.
    let manifest_dir = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest_dir
        .parent()
        .expect("xtask is a member, so its folder is in the workspace")
        .to_owned()
}

fn text(value: &Value, key: &str) -> Result<String> {
    value[key]
        .as_str()
        .map(str::to_owned)
        .with_context(|| format!("cargo metadata: missing key {key}"))
}
