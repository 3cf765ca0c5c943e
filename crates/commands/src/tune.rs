//! Options of `tune`.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// Find the fastest tile sizes for matrix products, and the fastest reductions, on a GPU
///
/// Software drivers, which compute on the CPU, are rejected.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "tune",
    version,
    args_override_self = true,
    after_help = "Exit codes: 0 if at least one candidate of each class ran; 1 otherwise; 2 for wrong usage."
)]
pub struct Tune {
    /// Use the adapter whose name contains NAME [default: the best one]
    #[arg(long, value_name = "NAME")]
    pub adapter: Option<String>,
    /// Only tune this class; may be given several times
    #[arg(long, value_name = "CLASS")]
    pub only: Vec<Class>,
    /// Write the best choices into this table [default: crates/gpu-wgsl/src/tiles.txt of the
    /// workspace]
    #[arg(long, value_name = "FILE")]
    pub table: Option<PathBuf>,
    /// Print only; do not write the table
    #[arg(long)]
    pub dry_run: bool,
    /// Print one JSON object per candidate: class, tile or combination, `median_s`, gflops, and
    /// wrong (the error, if any)
    #[arg(long)]
    pub json: bool,
}

/// Class of work with choices of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Class {
    /// Large products
    Large,
    /// Square products
    Square,
    /// Products of tall matrices
    Tall,
    /// Products of wide matrices
    Wide,
    /// Small products
    Small,
    /// Products of f16 by cooperative matrices, where the GPU has them
    Matrices,
    /// Sums over rows, by a tree in workgroup memory or by subgroups
    Reduction,
}
