//! Rust compilers for targets other than that of this computer, such as browsers.
//!
//! Method: a toolchain that has the target's standard library is used as usual. Debian's compiler
//! builds the standard library from its source, for any target.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::process;

/// The target triple of browsers.
pub(crate) const BROWSER: &str = "wasm32-unknown-unknown";
/// Oldest version of Rust that compiles the workspace.
const MIN_VERSION: &str = env!("CARGO_PKG_RUST_VERSION");
/// Linker for browsers, which rustup's toolchains contain under another name.
const LINKER: &str = "wasm-ld";

/// A Rust compiler for a target.
#[derive(Debug)]
pub(crate) struct Toolchain {
    target: &'static str,
    origin: Origin,
}

/// The origin of a compiler.
#[derive(Debug)]
enum Origin {
    /// The target is installed next to the compiler that runs this program.
    Installed,
    /// Debian's compiler with the source of the standard library, which is built for the target.
    Debian,
}

/// A missing part of Debian's compiler.
struct MissingPart {
    problem: String,
    /// The package that contains the part.
    package: &'static str,
}

impl Toolchain {
    /// Returns the first compiler that can build for a target.
    ///
    /// # Errors
    /// If there is no such compiler; the message contains commands that install one.
    pub(crate) fn find(target: &'static str) -> Result<Self> {
        let origin = Origin::Installed;
        if libraries("rustc").is_some_and(|libraries| libraries.join(target).is_dir()) {
            return Ok(Self { target, origin });
        }
        let version = process::output(Command::new(Self::DEBIAN).arg("--version"));
        let source = libraries(Self::DEBIAN).map(|libraries| libraries.join("src/rust/library"));
        let missing = missing_parts(
            version.as_deref(),
            source.is_some_and(|source| source.is_dir()),
            target != BROWSER || process::find_in_path(&[LINKER]).is_some(),
        );
        if missing.is_empty() {
            let origin = Origin::Debian;
            return Ok(Self { target, origin });
        }
        bail!("{}", missing_text(target, &missing));
    }

    const DEBIAN: &'static str = "/usr/bin/rustc";

    /// Returns a cargo command, such as `build`, for the target.
    pub(crate) fn cargo(&self, command: &str) -> Command {
        let mut cargo = process::cargo();
        cargo.args([command, "--target", self.target]);
        if let Origin::Debian = self.origin {
            cargo
                .env("RUSTC", Self::DEBIAN)
                // A released compiler builds the standard library only with this variable.
                .env("RUSTC_BOOTSTRAP", "1")
                .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", LINKER)
                .arg("-Zbuild-std=std,panic_abort");
        }
        cargo
    }
}

/// Returns the folder in which a compiler has the libraries of its targets.
fn libraries(rustc: &str) -> Option<PathBuf> {
    let sysroot = process::output(Command::new(rustc).args(["--print", "sysroot"]))?;
    Some(Path::new(&sysroot).join("lib").join("rustlib"))
}

/// Returns the missing parts of Debian's compiler. `version` is its output for `--version`.
fn missing_parts(version: Option<&str>, has_source: bool, has_linker: bool) -> Vec<MissingPart> {
    let rustc = Toolchain::DEBIAN;
    let version = version.and_then(|printed| printed.split_whitespace().nth(1));
    let compiler = match version {
        None => Some(format!("{rustc} is missing")),
        Some(version) if numbers(version) < numbers(MIN_VERSION) => Some(format!(
            "{rustc} has version {version}, expected {MIN_VERSION} or later"
        )),
        Some(_) => None,
    };
    let source = (!has_source).then(|| "the source of its standard library is missing".to_owned());
    let linker = (!has_linker).then(|| format!("{LINKER} is not in PATH"));
    [
        (compiler, "rustc-web"),
        (source, "rust-web-src"),
        (linker, "lld"),
    ]
    .into_iter()
    .filter_map(|(problem, package)| problem.map(|problem| MissingPart { problem, package }))
    .collect()
}

/// Returns the numbers of a version such as `1.96.0-nightly`.
fn numbers(version: &str) -> Vec<u32> {
    let parts = version.split(['.', '-']);
    parts.map_while(|part| part.parse().ok()).collect()
}

fn missing_text(target: &str, missing: &[MissingPart]) -> String {
    let list = |part: fn(&MissingPart) -> &str, separator: &str| {
        let parts: Vec<&str> = missing.iter().map(part).collect();
        parts.join(separator)
    };
    format!(
        "no compiler for {target} (the toolchain lacks the target; {}); run `rustup target add \
         {target}`, or on Debian `apt-get install {}`",
        list(|part| &part.problem, "; "),
        list(|part| part.package, " ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_missing_part_is_named_with_its_package() {
        let text = |version, has_source, has_linker| {
            missing_text(BROWSER, &missing_parts(version, has_source, has_linker))
        };
        let nothing = text(None, false, false);
        assert!(nothing.contains("/usr/bin/rustc is missing"), "{nothing}");
        let all = "`apt-get install rustc-web rust-web-src lld`";
        assert!(nothing.ends_with(all), "{nothing}");
        let old = text(Some("rustc 1.63.0\n"), true, true);
        assert!(old.contains("has version 1.63.0, expected"), "{old}");
        assert!(old.ends_with("`apt-get install rustc-web`"), "{old}");
        let no_linker = text(Some("rustc 999.0.0 (built from source)\n"), true, false);
        assert!(no_linker.contains("wasm-ld"), "{no_linker}");
        assert!(no_linker.ends_with("`apt-get install lld`"), "{no_linker}");
    }

    #[test]
    fn versions_are_compared_by_number() {
        let is_new = |version: &str| missing_parts(Some(version), true, true).is_empty();
        assert!(is_new(&format!("rustc {MIN_VERSION}.0\n")));
        assert!(is_new(&format!("rustc {MIN_VERSION}.1-nightly (0)\n")));
        assert!(numbers("1.100.0") > numbers("1.95"));
        assert!(!is_new("rustc 1.9.0\n") && !is_new("rustc odd\n"));
    }
}
