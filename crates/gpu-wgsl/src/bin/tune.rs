//! The tune command: finds the fastest tile sizes for matrix products on an adapter.
//!
//! Role: built and run by `cargo xtask tune`. `cargo xtask bench --bundle` also packs the program.
//! Method: the result of each candidate is checked before the candidate is timed
//! (`gpu_wgsl::tuning`); the candidate with the smallest median time is chosen.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use gpu_wgsl::tuning::{self, Product, Tuner};
use gpu_wgsl::{DeviceType, Gpu, Select, ShapeClass, Tile};
use indicatif::ProgressBar;
use serde::Serialize;
use tool_io::{output, replace_file};

const HELP: &str = "\
tune: find the fastest tile sizes for matrix products on a GPU

usage: cargo xtask tune [--adapter NAME] [--only CLASS] [--table FILE] [--dry-run] [--json]

  --adapter NAME  use the adapter whose name contains NAME (default: the best one)
  --only CLASS    only tune for shapes of this class: large, square, tall, wide, small, matrices
                  (products of f16 by cooperative matrices, where the GPU has them)
  --table FILE    write the best tiles into this table
                  (default: crates/gpu-wgsl/src/tiles.txt)
  --dry-run       print only; do not write the table
  --json          print one JSON object per candidate: class, tile, median_s, gflops, and wrong (the error, if any)
  --help          print this help

Software drivers, which compute on the CPU, are rejected. Exit code: 0 if a tile was found for every class.
";

/// Path of the table in the workspace.
const TABLE: &str = "crates/gpu-wgsl/src/tiles.txt";
/// Number of timed runs of each candidate.
const N_RUNS: usize = 11;

struct Arguments {
    select: Select,
    /// Empty: every class that the adapter supports.
    classes: Vec<ShapeClass>,
    table: PathBuf,
    writes: bool,
    json: bool,
}

/// Result of a candidate; with `--json`, one output line.
#[derive(Serialize)]
struct Candidate {
    class: &'static str,
    /// Rows and columns of a block, terms staged at once, rows and columns of an invocation.
    tile: [u32; 5],
    median_s: Option<f64>,
    gflops: Option<f64>,
    wrong: Option<String>,
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(Some(arguments)) => arguments,
        Ok(None) => return ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tune: {error:#}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tune: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn arguments() -> Result<Option<Arguments>> {
    use lexopt::prelude::*;
    let mut arguments = Arguments {
        select: Select::Best,
        classes: Vec::new(),
        table: TABLE.into(),
        writes: true,
        json: false,
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("adapter") => arguments.select = Select::Name(parser.value()?.string()?),
            Long("only") => {
                let name = parser.value()?.string()?;
                let mut classes = ShapeClass::ALL.into_iter();
                let Some(class) = classes.find(|class| class.name() == name) else {
                    bail!(
                        "--only: unknown class {name:?} (expected large, square, tall, wide, small or matrices)"
                    );
                };
                arguments.classes.push(class);
            }
            Long("table") => arguments.table = parser.value()?.into(),
            Long("json") => arguments.json = true,
            Long("dry-run") => arguments.writes = false,
            Long("help") | Short('h') => {
                output::print(HELP)?;
                return Ok(None);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(Some(arguments))
}

fn run(arguments: &Arguments) -> Result<()> {
    let gpu = Gpu::open(arguments.select.clone())?;
    let adapter = gpu.adapter();
    if adapter.device_type == DeviceType::Cpu {
        bail!(
            "{} is a software driver, whose best tiles are not those of a GPU",
            adapter.name
        );
    }
    let path = &arguments.table;
    let read = || std::fs::read_to_string(path).with_context(|| path.display().to_string());
    if arguments.writes {
        // Checked now, so that an unreadable table is reported before minutes of work.
        read()?;
    }
    let mut classes = arguments.classes.clone();
    if classes.is_empty() {
        classes = ShapeClass::ALL.to_vec();
        if adapter.matrix_side.is_none() {
            classes.retain(|class| *class != ShapeClass::Matrices);
        }
    }
    let mut without = Vec::new();
    for class in classes {
        let (best, candidates) = match class {
            ShapeClass::Matrices => {
                let select = Select::Index(adapter.index);
                winner(&Gpu::open_with_matrices(select)?, class)?
            }
            _ => winner(&gpu, class)?,
        };
        for candidate in &candidates {
            output::print(&if arguments.json {
                serde_json::to_string(candidate)? + "\n"
            } else {
                candidate.line()
            })?;
        }
        let Some(tile) = best else {
            without.push(class.name());
            continue;
        };
        let line = tuning::line(adapter, class, &tile);
        if !arguments.json {
            output::print(format!("{line}\n"))?;
        }
        if arguments.writes {
            replace_file(path, &tuning::updated(&read()?, &[line]))?;
        }
    }
    if !without.is_empty() {
        bail!("no tile ran for shapes of class {}", without.join(", "));
    }
    Ok(())
}

/// Returns the fastest tile of a class, if any candidate ran without an error, and the results of
/// all candidates.
fn winner(gpu: &Gpu, class: ShapeClass) -> Result<(Option<Tile>, Vec<Candidate>)> {
    let product = Product::for_class(class);
    let mut tuner = Tuner::new(gpu, class, product)?;
    let tiles = tuning::candidates(class);
    let progress = ProgressBar::new(tiles.len() as u64);
    let mut best: Option<(f64, Tile)> = None;
    let mut candidates = Vec::new();
    for tile in tiles {
        let mut candidate = Candidate {
            class: class.name(),
            tile: [
                tile.block_rows,
                tile.block_cols,
                tile.block_inner,
                tile.thread_rows,
                tile.thread_cols,
            ],
            median_s: None,
            gflops: None,
            wrong: None,
        };
        match tuner.time(tile, N_RUNS) {
            Ok(mut seconds) => {
                seconds.sort_by(f64::total_cmp);
                let median = seconds[seconds.len() / 2];
                candidate.median_s = Some(median);
                candidate.gflops = Some(product.operations() / median / 1e9);
                if best.is_none_or(|(least, _)| median < least) {
                    best = Some((median, tile));
                }
            }
            // A wrong result or an error excludes a candidate; the output contains the reason.
            Err(error) => candidate.wrong = Some(error.to_string()),
        }
        candidates.push(candidate);
        progress.inc(1);
    }
    progress.finish_and_clear();
    Ok((best.map(|(_, tile)| tile), candidates))
}

impl Candidate {
    fn line(&self) -> String {
        let [rows, cols, terms, thread_rows, thread_cols] = self.tile;
        let class = self.class;
        let sizes = format!(
            "{class:<8} {rows:>4} x {cols:<4} {terms:>2} terms, {thread_rows:>2} x {thread_cols:<2}"
        );
        match (self.median_s, self.gflops, &self.wrong) {
            (Some(median_s), Some(gflops), _) => {
                let us = median_s * 1e6;
                format!("{sizes}  {us:>10.1} us  {gflops:>9.1} GFLOP/s\n")
            }
            (_, _, wrong) => format!("{sizes}  {}\n", wrong.as_deref().unwrap_or_default()),
        }
    }
}
