//! Tests of unsafe code under sanitizers and in Miri, which detect undefined behaviour.
//!
//! Role: the checks `sanitizer/address`, `sanitizer/thread` and `miri` of `--full`.
//! Method: they need a nightly compiler. Tests are selected by the modules with unsafe code, and by
//! the modules with threads; a filter that selects no test is a fault. For the thread sanitizer,
//! the standard library is compiled with it; otherwise it would report the reference counts of the
//! library.
//! Limits: Miri cannot call C libraries and does not support all SIMD instructions of the GEMM
//! library, so Miri runs the loop of `tensor-core` that reads through pointers, without SIMD, and
//! the modules that own memory and positions. The unsafe code of `isa`, `gpu-wgsl`, `harness` and
//! `benches`, which calls drivers or needs a build of wgpu, and of `cluster`, whose library and
//! program need MPI, runs under no sanitizer.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use super::lints;
use super::reporter::{Outcome, Reporter};
use crate::process;
use crate::workspace::Workspace;

/// Folder of the source of the standard library in a toolchain.
const LIBRARY: &str = "lib/rustlib/src/rust/library";

/// A tool that detects undefined behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    /// Accesses outside of allocations, or after their end.
    Address,
    /// Accesses of two threads to the same memory without synchronisation.
    Thread,
    /// Undefined behaviour in an interpreter.
    Miri,
}

/// Tests of a package: arguments of cargo, and of the test programs.
type Tests = (&'static [&'static str], &'static [&'static str]);

impl Tool {
    pub(super) const ALL: [Self; 3] = [Self::Address, Self::Thread, Self::Miri];

    pub(super) fn id(self) -> &'static str {
        match self {
            Self::Address => "sanitizer/address",
            Self::Thread => "sanitizer/thread",
            Self::Miri => "miri",
        }
    }

    fn tests(self) -> &'static [Tests] {
        match self {
            Self::Address => &[
                (
                    &["--package", "tensor-core", "--lib"],
                    &["gemm::", "tiles::", "data::", "storage::"],
                ),
                (
                    &[
                        "--package",
                        "tensor-core",
                        "--test",
                        "peak_memory",
                        "--test",
                        "data_memory",
                    ],
                    &[],
                ),
                (
                    &["--package", "telemetry", "--test", "fake_nvml_codes"],
                    &[],
                ),
                (
                    &["--package", "telemetry", "--test", "integration"],
                    &["nvml::"],
                ),
            ],
            Self::Thread => &[
                (
                    &["--package", "tensor-core", "--lib"],
                    &["parallel::", "storage::", "cache::"],
                ),
                (
                    &["--package", "tensor-core", "--test", "integration"],
                    &["jit::"],
                ),
                (
                    &["--package", "telemetry", "--features", "http", "--lib"],
                    &["sampler::", "serve::", "ledger::"],
                ),
            ],
            Self::Miri => &[(
                &["--package", "tensor-core", "--lib"],
                &["tiles::kernel::", "storage::", "shape::"],
            )],
        }
    }

    /// Returns further arguments of the test programs.
    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Address | Self::Thread => &[],
            // Miri ends the program where memory is exhausted.
            Self::Miri => &["--skip", "memory_that_there_is_not"],
        }
    }

    /// Runs the tests. Returns a message instead of an outcome if the tool is not installed.
    pub(super) fn outcome(
        self,
        workspace: &Workspace,
        reporter: &Reporter,
    ) -> Result<std::result::Result<Outcome, String>> {
        if let Some(missing) = self.missing() {
            return Ok(Err(missing));
        }
        let mut faults = Vec::new();
        for (arguments, filters) in self.tests() {
            let mut cargo = process::nightly("cargo");
            cargo
                .current_dir(&workspace.root)
                .env("CARGO_TERM_COLOR", "never")
                .env("CARGO_TARGET_DIR", workspace.target.join(self.id()))
                // Tests request more memory than there is, and expect an error. The simulated NVML
                // keeps its state after it is closed; soak runs detect leaks.
                .env("ASAN_OPTIONS", "allocator_may_return_null=1:detect_leaks=0");
            match self {
                Self::Miri => cargo.args(["miri", "test"]),
                Self::Address => instrument(&mut cargo, "address")?,
                Self::Thread => instrument(&mut cargo, "thread")?.arg("-Zbuild-std"),
            };
            cargo.args(*arguments).arg("--").args(*filters);
            cargo.args(self.options());
            match lints::output(&mut cargo, reporter)? {
                Ok(out) => faults.extend(unused(filters, &out)),
                Err(fault) => faults.push(fault),
            }
        }
        Ok(Ok(Outcome::from_faults(&faults)))
    }

    /// Returns what is missing for the tool, with the command that installs it.
    fn missing(self) -> Option<String> {
        let (is_found, component) = match self {
            Self::Address => (
                process::output(process::nightly("cargo").arg("--version")).is_some(),
                "",
            ),
            Self::Thread => {
                let root = process::output(process::nightly("rustc").args(["--print", "sysroot"]));
                let source = root.map(|root| Path::new(&root).join(LIBRARY));
                let is_found = source.is_some_and(|source| source.is_dir());
                (is_found, " --component rust-src")
            }
            Self::Miri => {
                let version =
                    process::output(process::nightly("cargo").args(["miri", "--version"]));
                (version.is_some(), " --component miri --component rust-src")
            }
        };
        (!is_found).then(|| {
            let id = self.id();
            format!(
                "{id}: a part of the nightly toolchain is missing (`rustup toolchain install nightly{component}`)"
            )
        })
    }
}

/// Returns a fault for each filter that selected no test of test programs with this output.
fn unused(filters: &[&str], out: &str) -> Vec<String> {
    let tests: Vec<&str> = out
        .lines()
        .filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... ok"))
        .collect();
    if tests.is_empty() {
        return vec!["no test has run".to_owned()];
    }
    let is_unused = |filter: &&&str| !tests.iter().any(|test| test.contains(**filter));
    let unused = filters.iter().filter(is_unused);
    unused
        .map(|filter| format!("no test has {filter:?} in its name"))
        .collect()
}

/// Adds the arguments that compile tests with a sanitizer.
fn instrument<'a>(cargo: &'a mut Command, name: &str) -> Result<&'a mut Command> {
    // A library that a test loads uses the sanitizer of the program, which has to export it.
    let flags = format!("-Zsanitizer={name} -Clink-arg=-Wl,--export-dynamic");
    // With a target triple, build scripts and macros are compiled without the flags.
    Ok(cargo
        .args(["test", "--target", &host()?])
        .env("RUSTFLAGS", flags))
}

/// Returns the target triple of this computer.
fn host() -> Result<String> {
    let printed = process::watch(Command::new("rustc").arg("-vV"), |_| ())?;
    let mut lines = printed.out.lines();
    let host = lines.find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc -vV: no host")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_without_tests_is_a_fault() {
        let out = "running 1 test\ntest storage::tests::a_pool_is_small ... ok\n\n";
        assert!(unused(&["storage"], out).is_empty());
        assert!(unused(&[], out).is_empty());
        assert_eq!(unused(&["jit"], out), ["no test has \"jit\" in its name"]);
        let out = "running 0 tests\n\ntest result: ok. 0 passed; 0 failed\n";
        assert_eq!(unused(&[], out), ["no test has run"]);
    }
}
