//! The MPI library that `crates/cluster` is built with, if this system has one.
//!
//! Role: decides whether `verify` builds and tests the feature `mpi` of `cluster`.
//! Method: the build of the crate `mpi` calls the compiler of the library, `mpicc`, and reads its
//! headers with libclang; the tests start ranks with `mpirun`. A library without its launcher, or
//! without libclang, counts as missing.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use crate::process;

/// The missing parts, as a message; `None` if everything is there.
static MISSING: LazyLock<Option<String>> = LazyLock::new(|| {
    let compiler = env::var("MPICC").unwrap_or_else(|_| "mpicc".to_owned());
    missing(
        process::find_in_path(&[&compiler]).is_some(),
        process::find_in_path(&["mpirun"]).is_some(),
        has_libclang(),
    )
});

/// Returns the arguments of cargo that build and test `cluster` with MPI; none without a library.
pub(crate) fn arguments() -> &'static [&'static str] {
    if MISSING.is_some() {
        &[]
    } else {
        &["--features", "cluster/mpi"]
    }
}

/// Returns the arguments of cargo that build the program `cluster` next to others; none without a
/// library.
pub(crate) fn build() -> &'static [&'static str] {
    if MISSING.is_some() {
        &[]
    } else {
        &[
            "--package",
            "cluster",
            "--features",
            "cluster/mpi",
            "--bin",
            "cluster",
        ]
    }
}

/// Returns what is missing for a build with MPI, and how to install it.
pub(crate) fn absence() -> Option<&'static str> {
    MISSING.as_deref()
}

fn missing(has_compiler: bool, has_launcher: bool, has_libclang: bool) -> Option<String> {
    let parts = [
        (has_compiler, "mpicc", "libmpich-dev"),
        (has_launcher, "mpirun", "mpich"),
        (has_libclang, "libclang", "libclang-dev"),
    ];
    let missing = parts.iter().filter(|part| !part.0);
    let (names, packages): (Vec<&str>, Vec<&str>) = missing.map(|part| (part.1, part.2)).unzip();
    (!names.is_empty()).then(|| {
        format!(
            "the tests of cluster on several ranks need {} (on Debian: apt-get install {})",
            names.join(" and "),
            packages.join(" ")
        )
    })
}

/// Returns whether bindgen finds libclang: in a folder that `LIBCLANG_PATH` names, or where
/// distributions have it.
fn has_libclang() -> bool {
    let named = env::var_os("LIBCLANG_PATH").map(PathBuf::from);
    let mut folders: Vec<PathBuf> = named.into_iter().collect();
    for parent in [
        "/usr/lib",
        "/usr/lib64",
        "/usr/local/lib",
        "/opt/homebrew/opt",
    ] {
        folders.push(parent.into());
        // Such as `x86_64-linux-gnu` and `llvm-14/lib`.
        let inside = fs::read_dir(parent).into_iter().flatten().flatten();
        for folder in inside.map(|entry| entry.path()) {
            folders.push(folder.join("lib"));
            folders.push(folder);
        }
    }
    folders.iter().any(|folder| contains_libclang(folder))
}

fn contains_libclang(folder: &Path) -> bool {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files.into_iter().any(|file| {
        let name = file.file_name();
        let name = name.to_string_lossy();
        let is_library = name.contains(".so") || name.ends_with(".dylib");
        // `libclang-cpp` is another library.
        let is_c = name.starts_with("libclang.") || name.starts_with("libclang-1");
        is_c && is_library
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_missing_part_is_named_with_its_package() {
        assert_eq!(missing(true, true, true), None);
        let text = missing(false, true, false).unwrap();
        assert!(text.contains("mpicc and libclang"), "{text}");
        assert!(
            text.ends_with("apt-get install libmpich-dev libclang-dev)"),
            "{text}"
        );
    }
}
