//! Rust compilers for browsers.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::process;

/// The target triple of browsers.
pub(super) const TARGET: &str = "wasm32-unknown-unknown";

/// A Rust compiler for browsers.
pub(super) enum Toolchain {
    /// The target is installed next to the compiler that runs this program.
    Installed,
    /// Debian's compiler with the source of the standard library, which is built for the target.
    Debian,
}

impl Toolchain {
    pub(super) fn find() -> Result<Self> {
        let sysroot = |rustc: &str| -> Option<PathBuf> {
            let printed = Command::new(rustc)
                .args(["--print", "sysroot"])
                .output()
                .ok()?;
            let path = String::from_utf8(printed.stdout).ok()?;
            Some(Path::new(path.trim()).join("lib").join("rustlib"))
        };
        if sysroot("rustc").is_some_and(|libraries| libraries.join(TARGET).is_dir()) {
            return Ok(Self::Installed);
        }
        let has_source =
            sysroot(Self::DEBIAN).is_some_and(|path| path.join("src/rust/library").is_dir());
        if has_source {
            return Ok(Self::Debian);
        }
        bail!(
            "the target {TARGET} is not installed (run `rustup target add {TARGET}`, or install \
             Debian's packages rustc-web, rust-web-src and lld)"
        );
    }

    const DEBIAN: &'static str = "/usr/bin/rustc";

    /// Returns a cargo command that builds for the target.
    pub(super) fn cargo(&self) -> Command {
        let mut cargo = process::cargo();
        cargo.args(["build", "--target", TARGET]);
        if let Self::Debian = self {
            cargo
                .env("RUSTC", Self::DEBIAN)
                // A released compiler builds the standard library only with this variable.
                .env("RUSTC_BOOTSTRAP", "1")
                .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", "wasm-ld")
                .arg("-Zbuild-std=std,panic_abort");
        }
        cargo
    }
}
