//! The folder written by `cargo xtask bench --bundle`.
//!
//! Role: packs programs and data for a machine with a GPU driver but no toolchain.
//! Limits: at most 100 MB, so that the folder can be copied to a cluster node quickly. The programs
//! run on machines with the same architecture and operating system.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::workspace::Workspace;
use crate::{artifact, data, mpi, process, program};
use tool_io::{commit, output};

/// Maximum size of a bundle, all files together, in bytes.
const LIMIT_BYTES: u64 = 100_000_000;

/// File with facts of the build, which the programs read from their own folder (`BuildFacts` of
/// harness).
const BUILD_FACTS: &str = "build.json";

const README: &str = "\
Numerics on this machine, without a toolchain.

  ./bench            checks and times every workload on every executor found
  ./bench --help     its options; the table and the JSON are the same as from `cargo xtask bench`
  ./doctor           lists adapters, drivers, limits and CPU features of this machine
  ./adapters         tests kernels, programs and errors on every
                     adapter (REQUIRE_GPU=1 ./adapters fails if there is none)
  ./trace            samples power, energy and utilization while a command runs: ./trace -- COMMAND
  ./tune             finds the fastest tile sizes for an adapter, checked before they are timed
  build.json         the commit and the compiler of this build
";
const WITH_MPI: &str = "\
  ./cluster          jobs on several ranks: mpirun -n 4 ./cluster --help; the
                     MPI library must be the one that `./cluster --version` names
";
const WITH_MNIST: &str = "\
  data/              MNIST, gzipped
";
const WITHOUT_MNIST: &str = "
MNIST could not be fetched, so ./bench uses its built-in UCI digits, enlarged, and
reports this. Use `--data DIR` for your own IDX files.
";

/// Builds and writes the bundle, then prints its size.
pub(crate) fn write(dir: &Path) -> Result<ExitCode> {
    let workspace = Workspace::load()?;
    program::build_with(&["bench", "doctor"], mpi::build())?;
    program::build(&["trace", "tune"])?;
    let adapters = build_adapters()?;
    fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;

    let programs = ["bench", "doctor", "trace", "tune"].into_iter();
    let has_mpi = mpi::absence().is_none();
    let programs = programs.chain(has_mpi.then_some("cluster"));
    let built = programs.map(|name| (name, workspace.release_program(name)));
    let mut files = Vec::new();
    for (name, built) in built.chain([("adapters", adapters)]) {
        let file = dir.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
        fs::copy(&built, &file).with_context(|| built.display().to_string())?;
        strip(&file);
        files.push(file);
    }
    let images = pack_images(&data::MNIST.dir(&workspace)?, dir)?;
    for (name, text) in [
        (BUILD_FACTS, format!("{}\n", build_facts(&workspace.root))),
        ("README.txt", readme(has_mpi, !images.is_empty())),
    ] {
        let file = dir.join(name);
        fs::write(&file, text).with_context(|| file.display().to_string())?;
        files.push(file);
    }
    files.extend(images);
    weigh(dir, &files)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the size of every file and the total; returns an error if the total exceeds the limit.
fn weigh(dir: &Path, files: &[PathBuf]) -> Result<()> {
    let mut total = 0;
    for file in files {
        let len_bytes = fs::metadata(file)?.len();
        total += len_bytes;
        let name = file.strip_prefix(dir).unwrap_or(file);
        output::print_line(format_args!(
            "{:>9} kB  {}",
            len_bytes.div_ceil(1000),
            name.display()
        ))?;
    }
    output::print_line(format_args!(
        "{:>9} kB  in all, in {}",
        total.div_ceil(1000),
        dir.display()
    ))?;
    ensure!(
        total <= LIMIT_BYTES,
        "bundle: too large ({total} bytes; limit {LIMIT_BYTES})"
    );
    Ok(())
}

/// Builds the adapter tests of `gpu-wgsl` in release mode and returns the path of the executable.
fn build_adapters() -> Result<PathBuf> {
    let mut cargo = process::cargo();
    cargo
        .args(["test", "--release", "--package", "gpu-wgsl"])
        .args(["--test", "adapters", "--no-run"])
        .arg("--message-format=json-render-diagnostics")
        .stderr(Stdio::inherit());
    let output = cargo.output().context("could not start cargo")?;
    ensure!(output.status.success(), "could not build the adapter tests");
    let executables = artifact::executables(&String::from_utf8_lossy(&output.stdout));
    let adapters = executables.into_iter().find(|exe| exe.target == "adapters");
    Ok(adapters
        .context("cargo did not build the adapter tests")?
        .path)
}

/// Removes symbols from a program. If the tool `strip` is missing, the program is left unchanged.
fn strip(file: &Path) {
    let done = Command::new("strip").arg(file).status();
    if !done.is_ok_and(|status| status.success()) {
        output::note(format_args!(
            "{}: symbols not removed (strip is missing or failed)",
            file.display()
        ));
    }
}

/// Compresses the MNIST files, the only data that the programs need. Returns no files if MNIST is
/// not available; the programs then use their built-in digits.
fn pack_images(mnist: &Path, dir: &Path) -> Result<Vec<PathBuf>> {
    if let Err(fault) = data::MNIST.ensure(mnist) {
        output::note(format_args!(
            "bundle without MNIST, the programs will use built-in digits: {fault}"
        ));
        return Ok(Vec::new());
    }
    let folder = dir.join("data");
    fs::create_dir_all(&folder)?;
    let pack = |name: &str| -> Result<PathBuf> {
        let path = folder.join(format!("{name}.gz"));
        let mut encoder = GzEncoder::new(File::create(&path)?, Compression::best());
        io::copy(&mut File::open(mnist.join(name))?, &mut encoder)?;
        encoder.finish()?;
        Ok(path)
    };
    data::MNIST
        .files
        .iter()
        .map(|(name, _)| pack(name))
        .collect()
}

fn readme(has_mpi: bool, has_mnist: bool) -> String {
    let cluster = if has_mpi { WITH_MPI } else { "" };
    let data = if has_mnist { WITH_MNIST } else { WITHOUT_MNIST };
    format!("{README}{cluster}{data}")
}

/// Returns the commit (marked as dirty if files other than records are changed) and the compiler;
/// null if unknown.
fn build_facts(root: &Path) -> Value {
    json!({
        "commit": commit::checked_out(root),
        "rustc": process::output(process::rustc().current_dir(root).arg("--version")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_over_the_limit_is_an_error() {
        let dir = std::env::temp_dir().join(format!("xtask-bundle-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let heavy = dir.join("heavy");
        // A sparse file: it has the length, but uses no disk space.
        File::create(&heavy).unwrap().set_len(LIMIT_BYTES).unwrap();
        let light = dir.join("light");
        fs::write(&light, "x").unwrap();
        weigh(&dir, std::slice::from_ref(&heavy)).unwrap();
        let error = weigh(&dir, &[heavy, light]).unwrap_err();
        assert!(error.to_string().contains("100000001"), "{error}");
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_bundle_without_mnist_says_that_it_uses_digits() {
        assert!(readme(false, false).contains("UCI digits"));
        assert!(!readme(false, false).contains("data/"));
        assert!(!readme(true, true).contains("digits"));
        assert!(
            readme(true, true).contains("./cluster") && !readme(false, true).contains("./cluster")
        );
    }

    #[test]
    fn build_facts_are_those_that_the_programs_read() {
        let root = crate::workspace::root();
        let facts = build_facts(&root);
        assert!(facts["rustc"].as_str().unwrap().starts_with("rustc "));
        let reader = fs::read_to_string(root.join("crates/harness/src/machine.rs")).unwrap();
        assert!(reader.contains(&format!("\"{BUILD_FACTS}\"")));
        for key in facts.as_object().unwrap().keys() {
            assert!(
                reader.contains(&format!("pub {key}: Option<String>")),
                "{key}"
            );
        }
    }
}
