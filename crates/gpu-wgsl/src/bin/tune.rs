//! The tune command: finds the fastest tile sizes for matrix products, and the fastest combination
//! of partial results in reductions, on an adapter.
//!
//! Role: built and run by `cargo xtask tune`. `cargo xtask bench --bundle` also packs the program.
//! Method: the result of each candidate is checked before the candidate is timed
//! (`gpu_wgsl::tuning`); the candidate with the smallest median time is chosen.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use gpu_wgsl::tuning::{self, Product, ReductionTuner, Tuner};
use gpu_wgsl::{Choice, Combination, DeviceType, Feature, Gpu, Select, ShapeClass};
use indicatif::ProgressBar;
use serde::Serialize;
use tool_io::{check_replaceable, output, replace_file};

const HELP: &str = "\
tune: find the fastest tile sizes for matrix products and the fastest reductions on a GPU

usage: cargo xtask tune [--adapter NAME] [--only CLASS] [--table FILE] [--dry-run] [--json]

  --adapter NAME  use the adapter whose name contains NAME (default: the best one)
  --only CLASS    only tune this class: large, square, tall, wide, small (shapes of products),
                  matrices (products of f16 by cooperative matrices, where the GPU has them), or
                  reduction (sums over rows, by a tree in workgroup memory or by subgroups)
  --table FILE    write the best choices into this table
                  (default: crates/gpu-wgsl/src/tiles.txt)
  --dry-run       print only; do not write the table
  --json          print one JSON object per candidate: class, tile or combination, median_s, gflops,
                  and wrong (the error, if any)
  --help          print this help

Software drivers, which compute on the CPU, are rejected. Exit code: 0 if at least one candidate of each class ran.
";

/// Path of the table in the workspace.
const TABLE: &str = "crates/gpu-wgsl/src/tiles.txt";
/// Number of timed runs of each candidate.
const N_RUNS: usize = 11;

struct Arguments {
    select: Select,
    /// Empty: every class that the adapter supports.
    classes: Vec<Class>,
    table: PathBuf,
    writes: bool,
    json: bool,
}

/// A class of work with candidates of its own.
#[derive(Clone, Copy, PartialEq)]
enum Class {
    Product(ShapeClass),
    Reduction,
}

impl Class {
    fn all() -> impl Iterator<Item = Self> {
        let products = ShapeClass::ALL.into_iter().map(Self::Product);
        products.chain([Self::Reduction])
    }

    fn name(self) -> &'static str {
        match self {
            Self::Product(class) => class.name(),
            Self::Reduction => Choice::REDUCTION,
        }
    }
}

/// Result of a candidate; with `--json`, one output line.
#[derive(Serialize)]
struct Candidate {
    class: &'static str,
    /// Rows and columns of a block, terms staged at once, rows and columns of an invocation.
    #[serde(skip_serializing_if = "Option::is_none")]
    tile: Option<[u32; 5]>,
    /// The combination of partial results in a reduction.
    #[serde(skip_serializing_if = "Option::is_none")]
    combination: Option<&'static str>,
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
                let Some(class) = Class::all().find(|class| class.name() == name) else {
                    let names: Vec<_> = Class::all().map(Class::name).collect();
                    bail!(
                        "--only: unknown class {name:?} (expected one of: {})",
                        names.join(", ")
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
            "{} is a software driver, whose best choices are not those of a GPU",
            adapter.name
        );
    }
    let path = &arguments.table;
    let read = || std::fs::read_to_string(path).with_context(|| path.display().to_string());
    if arguments.writes {
        // Checked now, so that a table that cannot be used is reported before minutes of work.
        if let Err(fault) = tuning::check_table(&read()?) {
            bail!("{}: {fault}", path.display());
        }
        check_replaceable(path).with_context(|| path.display().to_string())?;
    }
    let has_subgroups = adapter.features.contains(&Feature::Subgroups);
    if arguments.classes.contains(&Class::Reduction) && !has_subgroups {
        bail!(
            "{}: the only combination is the tree, because the driver has no subgroups",
            adapter.name
        );
    }
    let mut classes = arguments.classes.clone();
    if classes.is_empty() {
        classes = Class::all().collect();
        classes.retain(|class| match class {
            Class::Product(ShapeClass::Matrices) => adapter.matrix_side.is_some(),
            Class::Reduction => has_subgroups,
            Class::Product(_) => true,
        });
    }
    let mut without = Vec::new();
    for class in classes {
        let (best, candidates) = match class {
            Class::Product(class @ ShapeClass::Matrices) => {
                let select = Select::Index(adapter.index);
                best_tile(&Gpu::open_with_matrices(select)?, class)?
            }
            Class::Product(class) => best_tile(&gpu, class)?,
            Class::Reduction => best_combination(&gpu)?,
        };
        for candidate in &candidates {
            output::print(&if arguments.json {
                serde_json::to_string(candidate)? + "\n"
            } else {
                candidate.line()
            })?;
        }
        let Some(choice) = best else {
            without.push(class.name());
            continue;
        };
        let line = tuning::line(adapter, &choice);
        if !arguments.json {
            output::print(format!("{line}\n"))?;
        }
        if arguments.writes {
            replace_file(path, &tuning::updated(&read()?, &[line]))?;
        }
    }
    if !without.is_empty() {
        bail!("no candidate ran for these classes: {}", without.join(", "));
    }
    Ok(())
}

/// The fastest choice, if any candidate ran without an error, and the results of all candidates.
type Measured = (Option<Choice>, Vec<Candidate>);

/// Measures the tiles of a class of products.
fn best_tile(gpu: &Gpu, class: ShapeClass) -> Result<Measured> {
    let product = Product::for_class(class);
    let mut tuner = Tuner::new(gpu, class, product)?;
    let tiles = tuning::candidates(class).into_iter();
    let choices = tiles.map(|tile| (tile, Choice::Tile(class, tile)));
    let operations = product.operations();
    Ok(winner(choices, operations, |tile| tuner.time(tile, N_RUNS)))
}

/// Measures the combinations of partial results in reductions.
fn best_combination(gpu: &Gpu) -> Result<Measured> {
    let tuner = ReductionTuner::new(gpu, ReductionTuner::SIDES)?;
    let combinations = Combination::ALL.into_iter();
    let choices = combinations.map(|combination| (combination, Choice::Reduction(combination)));
    let additions = ReductionTuner::SIDES.iter().product::<usize>() as f64;
    Ok(winner(choices, additions, |combination| {
        tuner.time(combination, N_RUNS)
    }))
}

/// Times candidates, each with its entry in the table.
fn winner<T>(
    candidates: impl ExactSizeIterator<Item = (T, Choice)>,
    operations: f64,
    mut time: impl FnMut(T) -> tensor_core::Result<Vec<f64>>,
) -> Measured {
    let progress = ProgressBar::new(candidates.len() as u64);
    let mut best: Option<(f64, Choice)> = None;
    let mut measured = Vec::new();
    for (candidate, choice) in candidates {
        let mut result = Candidate::new(choice);
        match time(candidate) {
            Ok(mut seconds) => {
                seconds.sort_by(f64::total_cmp);
                let median = seconds[seconds.len() / 2];
                result.median_s = Some(median);
                result.gflops = Some(operations / median / 1e9);
                if best.is_none_or(|(least, _)| median < least) {
                    best = Some((median, choice));
                }
            }
            // A wrong result or an error excludes a candidate; the output contains the reason.
            Err(error) => result.wrong = Some(error.to_string()),
        }
        measured.push(result);
        progress.inc(1);
    }
    progress.finish_and_clear();
    (best.map(|(_, choice)| choice), measured)
}

impl Candidate {
    /// Creates the result of a candidate that has not been measured yet.
    fn new(choice: Choice) -> Self {
        let (class, tile, combination) = match choice {
            Choice::Tile(class, tile) => (
                class.name(),
                Some([
                    tile.block_rows,
                    tile.block_cols,
                    tile.block_inner,
                    tile.thread_rows,
                    tile.thread_cols,
                ]),
                None,
            ),
            Choice::Reduction(combination) => (Choice::REDUCTION, None, Some(combination.name())),
        };
        Self {
            class,
            tile,
            combination,
            median_s: None,
            gflops: None,
            wrong: None,
        }
    }

    fn line(&self) -> String {
        let variant = match (self.tile, self.combination) {
            (Some([rows, cols, terms, thread_rows, thread_cols]), _) => format!(
                "{rows:>4} x {cols:<4} {terms:>2} terms, {thread_rows:>2} x {thread_cols:<2}"
            ),
            (None, combination) => combination.unwrap_or_default().to_owned(),
        };
        let start = format!("{:<9} {variant:<29}", self.class);
        match (self.median_s, self.gflops, &self.wrong) {
            (Some(median_s), Some(gflops), _) => {
                let us = median_s * 1e6;
                format!("{start}  {us:>10.1} us  {gflops:>9.1} GFLOP/s\n")
            }
            (_, _, wrong) => format!("{start}  {}\n", wrong.as_deref().unwrap_or_default()),
        }
    }
}
