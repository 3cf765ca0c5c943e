//! `cargo xtask bench`: runs the benchmarks.
//!
//! Role: fetches the data, builds the program `bench` and runs it with the same arguments.
//! `--bundle` packs the program for machines without cargo, and `--ab` compares two commits.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::workspace::Workspace;
use crate::{bundle, data, mpi, program};

mod ab;

/// Arguments of `bench`.
#[derive(Args)]
#[command(args_override_self = true)]
pub(crate) struct Options {
    #[command(flatten)]
    bench: commands::Bench,
    /// Write a folder with ./bench for a machine without cargo, and do not run the benchmarks
    #[arg(long, value_name = "DIR", exclusive = true)]
    bundle: Option<PathBuf>,
    /// Measure the commit REV and the working tree in turns, and print the changes; needs --only
    #[arg(long, value_name = "REV", requires = "only", conflicts_with_all = ["list", "record", "sample", "out", "quick", "full", "long"])]
    ab: Option<String>,
}

/// Cargo options that add line tables. The machine code does not change, but the size of the
/// program triples, so they are only used for sampling.
const LINE_TABLES: [&str; 4] = [
    "--config",
    "profile.release.package.tensor-core.debug=\"line-tables-only\"",
    "--config",
    "profile.release.package.benches.debug=\"line-tables-only\"",
];

pub(crate) fn run(options: &Options, args: Vec<OsString>) -> Result<ExitCode> {
    if let Some(dir) = &options.bundle {
        return bundle::write(&std::path::absolute(dir)?);
    }
    let workspace = Workspace::load()?;
    let bench = &options.bench;
    if bench.data.is_none() && !bench.list {
        fetch(&data::MNIST.dir(&workspace)?);
    }
    if let Some(rev) = &options.ab {
        return ab::run(&workspace, rev, bench);
    }
    let line_tables = match &bench.sample {
        Some(_) => &LINE_TABLES[..],
        None => &[],
    };
    program::build_with(&["bench"], &[mpi::build(), line_tables].concat())?;
    program::run(&workspace, "bench", &args)
}

/// Fetches MNIST if it is missing. A failure is reported in one line and is not an error.
fn fetch(dir: &Path) {
    match data::MNIST.ensure(dir) {
        Ok(data::Source::Present) => (),
        Ok(data::Source::Fetched) => {
            tool_io::output::note(format_args!("fetched MNIST into {}", dir.display()))
        }
        Err(fault) => tool_io::output::note(format_args!("could not fetch MNIST: {fault}")),
    }
}
