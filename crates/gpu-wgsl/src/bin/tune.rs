//! The tune command: finds the fastest tile sizes for matrix products, and the fastest combination
//! of partial results in reductions, on an adapter.
//!
//! Role: built and run by `cargo xtask tune`. `cargo xtask bench --bundle` also packs the program.
//! Method: the result of each candidate is checked before the candidate is timed
//! (`gpu_wgsl::tuning`); the candidate with the smallest median time is chosen.

use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use commands::Tune;
use commands::clap::Parser as _;
use gpu_wgsl::tuning::{self, Product, ReductionTuner, Tuner};
use gpu_wgsl::{Choice, Combination, DeviceType, Feature, Gpu, Select, ShapeClass};
use indicatif::ProgressBar;
use serde::Serialize;
use tool_io::exit;
use tool_io::{check_replaceable, output, replace_file, workspace_path};

/// Path of the table in the workspace.
const TABLE: &str = "crates/gpu-wgsl/src/tiles.txt";
/// Number of timed runs of each candidate.
const N_RUNS: usize = 11;

/// A class of work with candidates of its own.
#[derive(Clone, Copy, PartialEq)]
enum Class {
    Product(ShapeClass),
    Reduction,
}

impl From<commands::Class> for Class {
    fn from(class: commands::Class) -> Self {
        use commands::Class::{Large, Matrices, Reduction, Small, Square, Tall, Wide};
        Self::Product(match class {
            Large => ShapeClass::Large,
            Square => ShapeClass::Square,
            Tall => ShapeClass::Tall,
            Wide => ShapeClass::Wide,
            Small => ShapeClass::Small,
            Matrices => ShapeClass::Matrices,
            Reduction => return Self::Reduction,
        })
    }
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
    match run(&Tune::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::note(format_args!("tune: {error:#}"));
            ExitCode::from(exit::FAILURE)
        }
    }
}

fn run(options: &Tune) -> Result<()> {
    let adapter = options.adapter.clone();
    let gpu = Gpu::open(adapter.map_or(Select::Best, Select::Name))?;
    let mut classes: Vec<Class> = options.only.iter().map(|&class| class.into()).collect();
    let adapter = gpu.adapter();
    if adapter.device_type == DeviceType::Cpu {
        bail!(
            "{} is a software driver; select a GPU with `--adapter`",
            adapter.name
        );
    }
    let default = || workspace_path(TABLE);
    let path = &options.table.clone().unwrap_or_else(default);
    let read = || std::fs::read_to_string(path).with_context(|| path.display().to_string());
    let writes = !options.dry_run;
    if writes {
        // Checked now, so that a table that cannot be used is reported before minutes of work.
        if let Err(fault) = tuning::check_table(&read()?) {
            bail!("{}: {fault}", path.display());
        }
        check_replaceable(path).with_context(|| path.display().to_string())?;
    }
    let has_subgroups = adapter.features.contains(&Feature::Subgroups);
    if classes.contains(&Class::Reduction) && !has_subgroups {
        bail!(
            "reduction: {} does not support subgroups, so there is only one candidate",
            adapter.name
        );
    }
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
            output::print(&if options.json {
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
        if !options.json {
            output::print(format!("{line}\n"))?;
        }
        if writes {
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

#[cfg(test)]
mod tests {
    use commands::clap::ValueEnum as _;

    use super::*;

    #[test]
    fn the_command_line_has_every_class_under_its_name() {
        let values = commands::Class::value_variants();
        assert_eq!(values.len(), Class::all().count());
        for &value in values {
            let possible = value.to_possible_value().unwrap();
            assert_eq!(possible.get_name(), Class::from(value).name());
        }
    }
}
