//! The tune command: finds the sizes of blocks that serve an adapter best.
//!
//! Role: `cargo xtask tune` builds and runs this program; a bundle carries it along.
//! Method: each candidate's result is checked before it is timed (`gpu_wgsl::tuning`); the one with the smallest median wins.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use benches::{output, record::replace_file};
use gpu_wgsl::tuning::{self, Product, Tuner};
use gpu_wgsl::{DeviceType, Gpu, Select, ShapeClass, Tile};
use indicatif::ProgressBar;

const HELP: &str = "\
tune: find the sizes of blocks that serve a GPU best

usage: cargo xtask tune [--adapter NAME] [--only CLASS] [--table FILE] [--dry-run]

  --adapter NAME  the adapter whose name contains NAME; else the best one
  --only CLASS    only shapes of this class: large, square, tall, wide, small
  --table FILE    the table that the winners are written into
                  (default: crates/gpu-wgsl/src/tiles.txt)
  --dry-run       only print
  --help          print this

A driver that computes on the CPU is not tuned for. Exit: 0 if every class has a winner.
";

/// Where the table lies in the workspace.
const TABLE: &str = "crates/gpu-wgsl/src/tiles.txt";
/// Timed runs of each candidate.
const N_RUNS: usize = 11;

struct Arguments {
    select: Select,
    classes: Vec<ShapeClass>,
    table: PathBuf,
    writes: bool,
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
        classes: ShapeClass::ALL.to_vec(),
        table: TABLE.into(),
        writes: true,
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("adapter") => arguments.select = Select::Name(parser.value()?.string()?),
            Long("only") => {
                let name = parser.value()?.string()?;
                arguments.classes.retain(|class| class.name() == name);
                if arguments.classes.is_empty() {
                    bail!("there is no class {name:?}");
                }
            }
            Long("table") => arguments.table = parser.value()?.into(),
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
            "{} computes on the CPU, so sizes that serve it say nothing of a GPU",
            adapter.name
        );
    }
    let path = &arguments.table;
    let read = || std::fs::read_to_string(path).with_context(|| path.display().to_string());
    if arguments.writes {
        // Told now, and not after minutes of work.
        read()?;
    }
    let mut without = Vec::new();
    for &class in &arguments.classes {
        let (best, text) = winner(&gpu, class)?;
        output::print(&text)?;
        let Some(tile) = best else {
            without.push(class.name());
            continue;
        };
        let line = tuning::line(adapter, class, &tile);
        output::print(&format!("{line}\n"))?;
        if arguments.writes {
            replace_file(path, &tuning::updated(&read()?, &[line]))?;
        }
    }
    if !without.is_empty() {
        bail!("no sizes ran for shapes of class {}", without.join(", "));
    }
    Ok(())
}

/// The best sizes of a class, if any ran, and how each candidate did.
fn winner(gpu: &Gpu, class: ShapeClass) -> Result<(Option<Tile>, String)> {
    let product = Product::of(class);
    let mut tuner = Tuner::new(gpu, class, product)?;
    let candidates = tuning::candidates(class);
    let progress = ProgressBar::new(candidates.len() as u64);
    let mut text = format!(
        "{}: {} x {} x {} x {}\n",
        class.name(),
        product.batch,
        product.rows,
        product.inner,
        product.cols
    );
    let mut best: Option<(f64, Tile)> = None;
    for tile in candidates {
        let sizes = format!(
            "{:>4} x {:<4} {:>2} terms, {:>2} x {:<2}",
            tile.block_rows, tile.block_cols, tile.block_inner, tile.thread_rows, tile.thread_cols
        );
        match tuner.time(tile, N_RUNS) {
            Ok(mut seconds) => {
                seconds.sort_by(f64::total_cmp);
                let median = seconds[seconds.len() / 2];
                let rate = product.operations() / median / 1e9;
                writeln!(
                    text,
                    "  {sizes}  {:>10.1} us  {rate:>9.1} GFLOP/s",
                    median * 1e6
                )?;
                if best.is_none_or(|(least, _)| median < least) {
                    best = Some((median, tile));
                }
            }
            // A wrong result or a refusal rules a candidate out, and is told.
            Err(error) => writeln!(text, "  {sizes}  {error}")?,
        }
        progress.inc(1);
    }
    progress.finish_and_clear();
    Ok((best.map(|(_, tile)| tile), text))
}
