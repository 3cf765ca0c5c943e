//! `cluster similarity`: which pairs of columns of a matrix are similar.
//!
//! Method: a task is a tile of the upper half of the matrix of all pairs. Each rank holds all
//! columns on its executor. With `--output`, the rank that computes a tile writes the packed bits
//! to a file before the tile counts as finished.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use cluster::Cluster;
use gpu_wgsl::{DeviceType, Gpu, Select};
use tensor_core::data::npy;
use tensor_core::rng::Philox;
use tensor_core::similarity::{PairCount, Similarity, Sink as _, Tile};
use tensor_core::{DType, Executor, Host, Tensor};

use super::options::{Common, allocated, pair, positive};
use super::summary::Summary;
use super::{Work, agree};

/// The largest number of a random matrix. With 256 rows and the limit 1, about half of the pairs
/// are similar.
const MAX_RANDOM: f32 = 1.05;

/// Count the pairs of columns of a matrix that differ by less than a limit in every row
///
/// Memory of each rank: three times the matrix at the start, then twice, and a tile of bits.
#[derive(Args, Debug)]
#[command(args_override_self = true, allow_negative_numbers = true)]
pub(super) struct Options {
    #[command(flatten)]
    input: Input,
    /// Seed of --random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Limit, above 0
    #[arg(long, value_name = "X", value_parser = limit_of, default_value_t = 1.0)]
    limit: f32,
    /// Rows and columns of a tile, rounded up to a multiple of 32
    #[arg(long = "tile", value_name = "N", value_parser = positive, default_value_t = 8192)]
    side: usize,
    /// Write each tile to FOLDER/tile-ROW-COLUMN.npy, by its first row and column
    ///
    /// Words of 32 bits, [rows, columns / 32]; bit c % 32 of word c / 32 is the result of column c.
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// `host`; `gpu`: each rank of a host has a GPU of its own; any other name: the adapter whose
    /// name contains NAME, which ranks share
    #[arg(long, value_name = "NAME", default_value = "host", value_parser = NonEmptyStringValueParser::new())]
    executor: String,
    #[command(flatten)]
    common: Common,
}

/// The matrix.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct Input {
    /// NPY file with a matrix of f32, [rows, columns], which every rank reads
    #[arg(long = "input", value_name = "FILE")]
    file: Option<PathBuf>,
    /// Random numbers instead: uniform between 0 and 1.05
    #[arg(long, value_name = "ROWSxCOLUMNS", value_parser = pair)]
    random: Option<[usize; 2]>,
}

impl Work for Options {
    fn common(&self) -> &Common {
        &self.common
    }

    fn run(&self, cluster: &Cluster) -> Result<Summary> {
        run(self, cluster, &self.common)
    }
}

/// Parses a limit.
fn limit_of(text: &str) -> Result<f32, String> {
    let limit = text
        .parse()
        .ok()
        .filter(|&limit: &f32| limit > 0.0 && limit.is_finite());
    limit.ok_or_else(|| "expected a finite number above 0".to_owned())
}

fn run(options: &Options, cluster: &Cluster, common: &Common) -> Result<Summary> {
    let prepared = prepare(options, cluster);
    let Prepared {
        matrix,
        executor,
        description,
    } = agree(cluster, prepared)?;
    let similarity = Similarity::within(options.limit).with_tile_size(options.side);
    let columns = similarity.columns(&*executor, &matrix);
    let columns = agree(cluster, columns.map_err(anyhow::Error::from))?;
    let places = columns.places();
    let job = common.job(&description, places.len());
    let area = |task: usize| {
        let place = places[task];
        place.rows as f64 * place.cols as f64
    };
    let job = job.with_cost(area);
    let mapped = cluster.map(&job, |task| -> Result<(u64, u64)> {
        let tile = columns.tile(&places[task])?;
        if let Some(folder) = &options.output {
            write(folder, &tile)?;
        }
        let mut count = PairCount::default();
        match count.take(tile) {
            Ok(()) => Ok((count.similar, count.pairs)),
            Err(never) => match never {},
        }
    })?;
    let (mut similar, mut pairs) = (0, 0);
    for (own_similar, own_pairs) in &mapped.results {
        similar += own_similar;
        pairs += own_pairs;
    }
    Ok(Summary::new()
        .with("executor", executor.name())
        .with("tiles", places.len())
        .with("pairs", pairs)
        .with("similar_pairs", similar)
        .with("pairs_per_s", pairs as f64 / mapped.elapsed.as_secs_f64())
        .with_times(&mapped)
        .with_predictions(common, |machine| mapped.predict(&job, machine)))
}

/// The input of a rank.
struct Prepared {
    matrix: Tensor,
    executor: Box<dyn Executor + Sync>,
    /// The identity of the job.
    description: String,
}

/// Returns the input of this rank.
fn prepare(options: &Options, cluster: &Cluster) -> Result<Prepared> {
    let executor = executor(&options.executor, cluster)?;
    let matrix = match (&options.input.file, options.input.random) {
        (Some(path), _) => npy::read(path)
            .with_context(|| format!("similarity: cannot read {}", path.display()))?,
        (None, random) => {
            let shape = random.unwrap_or_default();
            let what = format!("similarity: a matrix of {}x{} f32", shape[0], shape[1]);
            let mut numbers = allocated(&what, shape[0].checked_mul(shape[1]))?;
            Philox::new(options.seed).fill_uniform_f32(0, &mut numbers);
            numbers.iter_mut().for_each(|x| *x *= MAX_RANDOM);
            Tensor::from_vec(&shape, numbers)
        }
    };
    if let Some(folder) = &options.output {
        let shown = folder.display();
        std::fs::create_dir_all(folder)
            .with_context(|| format!("similarity: cannot create the folder {shown}"))?;
    }
    let (shape, dtype) = (matrix.shape()?, matrix.dtype()?);
    ensure!(
        shape.len() == 2 && dtype == DType::F32,
        "similarity: the input has shape {shape:?} and type {dtype} (expected [rows, columns] and f32)"
    );
    let description = format!(
        "similarity within {} of {} columns with {} rows, checksum {:08x}, tiles of {}, output {}",
        options.limit,
        shape[1],
        shape[0],
        checksum(&matrix)?,
        options.side,
        // A tile that only another folder contains is computed again.
        options
            .output
            .as_ref()
            .map_or("none".into(), |folder| folder.display().to_string())
    );
    Ok(Prepared {
        matrix,
        executor,
        description,
    })
}

/// Opens the executor of this rank.
fn executor(name: &str, cluster: &Cluster) -> Result<Box<dyn Executor + Sync>> {
    let select = match name {
        "host" => return Ok(Box::new(Host::new())),
        "gpu" => {
            let adapters = gpu_wgsl::adapters().into_iter();
            let gpus = adapters.filter(|adapter| adapter.device_type != DeviceType::Cpu);
            let gpus: Vec<_> = gpus.collect();
            let member = cluster.member();
            let Some(own) = gpus.get(member.local_rank) else {
                bail!(
                    "no GPU for rank {} (host {} has {} GPUs and {} ranks)",
                    cluster.rank(),
                    member.host,
                    gpus.len(),
                    member.n_local_ranks
                );
            };
            Select::Index(own.index)
        }
        name => Select::Name(name.to_owned()),
    };
    Ok(Box::new(Gpu::open(select)?))
}

/// Returns the checksum of the elements of a matrix.
fn checksum(matrix: &Tensor) -> Result<u32> {
    let mut bytes = Checksum::default();
    npy::write_to(&mut bytes, matrix)?;
    Ok(bytes.0.finalize())
}

/// A writer that computes a checksum.
#[derive(Default)]
struct Checksum(crc32fast::Hasher);

impl std::io::Write for Checksum {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Writes a tile; the file is complete or not there.
fn write(folder: &Path, tile: &Tile) -> Result<()> {
    let place = tile.place;
    let name = format!("tile-{}-{}.npy", place.row, place.col);
    let words = Tensor::from_vec(&[place.rows, tile.words_per_row], tile.words.clone());
    Ok(npy::write(folder.join(name), &words)?)
}
