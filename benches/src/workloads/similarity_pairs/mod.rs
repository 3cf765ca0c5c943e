//! Similarity of columns whose result exceeds memory: computed tile by tile, kept on the executor
//! or streamed to the host.
//!
//! Role: the workload `similarity-pairs`, the job of the second case study of the note at three
//! sizes; the largest one, with 9.2 GB of answers, runs only with a hardware GPU. Variants: `host`
//! and `wgsl` keep all tiles in the executor's memory; `wgsl-to-host` passes each tile to a
//! function on the host that counts.
//! Method: columns are normal numbers, but every fifth column is close to another one, so that some
//! pairs are similar and all of their rows are read. A result is the answers for a sample of pairs:
//! random squares, the diagonal, and pairs that were made similar. Pairs below the diagonal are
//! answered by the tile above it. The expected answers are computed by plain loops with the
//! comparison exactly as written, so every result must be equal to them.
//! Shapes: `x` `[n, d]`; the answers are `[d, d]`, of which the tiles on and above the diagonal are
//! computed.
//! Accuracy: exact. Operations are those of `similarity-all`: up to the first row in which a pair
//! is not similar, on average over the random squares, times half of all pairs. Times are measured
//! by the host's clock for all tiles, including waiting, with the columns already in the executor's
//! memory.
//! Source: the blog note "Tracing GPU Resources", case study 2 on power management.

use anyhow::{Context, Result, ensure};
use gpu_wgsl::Gpu;
use harness::on_gpu;
use harness::program::InputDistribution;
use harness::workload::{
    Extent, Implementation, Output, OutputElement, Problem, Task, Variant, Work, Workload,
};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;
use tensor_core::compare::{Tolerance, compare};
use tensor_core::rng::Philox;
use tensor_core::similarity::{Columns, Similarity, StreamError, Tile, TilePosition};
use tensor_core::{Executor, Host, Tensor};

/// Name of the workload.
pub const NAME: &str = "similarity-pairs";
/// Number of rows in the note.
const ROWS: usize = 256;
/// Numbers of columns: that of `similarity-all`, ten times as many, and that of the note.
const COLUMNS: [usize; 3] = [2000, 20_000, 270_725];
/// Distance below which two columns must be in every row to be similar.
const LIMIT: f32 = 1.0;
/// Operations per value: one each for subtraction, absolute value, comparison and the step of the
/// reduction.
const OPERATIONS_PER_VALUE: f64 = 4.0;
/// Spacing of the columns that are made similar to another column, their partner: those whose index
/// is a multiple of this number.
const EVERY: usize = 5;
/// Number of random squares of pairs in the sample.
const SQUARES: usize = 48;
/// Side of a square: a square is the pairs of this many adjacent columns with as many other
/// adjacent columns.
const SIDE: usize = 16;
/// Number of pairs in all squares.
const N_IN_SQUARES: usize = SQUARES * SIDE * SIDE;
/// Largest distance, in any row, between a column that is made similar and its partner; less than
/// [`LIMIT`].
const NEAR: f32 = 0.6;

/// Returns the tasks: the largest only with a hardware GPU.
pub fn tasks(real_gpu: bool) -> impl Iterator<Item = Task> {
    let n_sizes = if real_gpu {
        COLUMNS.len()
    } else {
        COLUMNS.len() - 1
    };
    COLUMNS.into_iter().take(n_sizes).map(|n_cols| {
        let size = format!("{ROWS}x{n_cols}");
        Task::new(NAME, "S0", size, move || Ok(Pairs::new(ROWS, n_cols)))
    })
}

/// The columns, a sample of pairs, and the expected answers for the sample.
#[derive(Debug)]
pub struct Pairs {
    n_rows: usize,
    n_cols: usize,
    /// Columns, row-major `[n_rows, n_cols]`.
    x: Vec<f32>,
    sample: Arc<[(usize, usize)]>,
    truth: Vec<u32>,
    /// Average number of values that are compared for a pair, if the comparison stops at the first
    /// row in which the pair is not similar.
    values_per_pair: f64,
}

impl Pairs {
    /// Draws the columns and the sample, and computes the answer for each pair of the sample.
    #[must_use]
    pub fn new(n_rows: usize, n_cols: usize) -> Self {
        let mut x = InputDistribution::Normal.draw(n_rows * n_cols, 0);
        let noise = InputDistribution::Centred.draw(n_rows * n_cols.div_ceil(EVERY), 1);
        for (near, noise) in noise.chunks_exact(n_rows).enumerate() {
            let (col, other) = (near * EVERY, partner(near * EVERY, n_cols));
            for (row, noise) in x.chunks_exact_mut(n_cols).zip(noise) {
                // The distance is at most `NEAR` in every row, so the pair is similar.
                row[col] = row[other] + NEAR * noise;
            }
        }
        let sample = sample(n_cols);
        let first_no = |i: usize, j: usize| {
            let mut rows = x.chunks_exact(n_cols);
            rows.position(|row| (row[i] - row[j]).abs() >= LIMIT)
        };
        let first_no: Vec<Option<usize>> = sample.iter().map(|&(i, j)| first_no(i, j)).collect();
        // Only the random squares represent all pairs; the rest of the sample was chosen.
        let read = first_no[..N_IN_SQUARES].iter();
        let read = read.map(|no| no.map_or(n_rows, |row| row + 1));
        Self {
            values_per_pair: read.sum::<usize>() as f64 / N_IN_SQUARES as f64,
            truth: first_no.iter().map(|no| u32::from(no.is_none())).collect(),
            sample: sample.into(),
            n_rows,
            n_cols,
            x,
        }
    }

    fn extent(&self) -> Extent {
        let pairs = self.n_cols as f64 * (self.n_cols + 1) as f64 / 2.0;
        let operations = OPERATIONS_PER_VALUE * self.values_per_pair * pairs;
        let bytes = (self.x.len() * size_of::<f32>()) as f64 + pairs / 8.0;
        Extent::new(Work::Operations(operations), bytes)
    }

    fn columns<'e>(&self, executor: &'e dyn Executor) -> Result<Columns<'e>> {
        let x = Tensor::from_vec(&[self.n_rows, self.n_cols], self.x.clone());
        Ok(Similarity::within(LIMIT).columns(executor, &x)?)
    }

    /// Returns a variant that keeps all tiles in the executor's memory; `finish` waits for the
    /// executor.
    fn stored<'a>(
        &'a self,
        name: &'static str,
        executor: &'a dyn Executor,
        finish: impl Fn() -> Result<()> + 'a,
    ) -> Variant<'a> {
        Variant::new(name, self.extent(), move || {
            let ready = StoredTiles {
                columns: self.columns(executor)?,
                sample: Arc::clone(&self.sample),
                finish,
                tiles: Vec::new(),
            };
            (ready.finish)()?;
            Ok(ready)
        })
    }

    /// Returns the variant that streams tiles to the host.
    fn streamed<'a>(&'a self, gpu: &'a Gpu) -> Variant<'a> {
        let variant = Variant::new("wgsl-to-host", self.extent(), move || {
            let streamed = Streamed {
                columns: self.columns(gpu)?,
                sample: Arc::clone(&self.sample),
                pairs_in_tile: Vec::new(),
                answers: Vec::new(),
            };
            gpu.finish()?;
            Ok(streamed)
        });
        variant.with_adapter(gpu.adapter())
    }
}

/// Returns the partner of a column, to which the column is made similar. The partner has no partner
/// itself if `n_cols - 1` is no multiple of [`EVERY`], as for all sizes here.
fn partner(col: usize, n_cols: usize) -> usize {
    const SPREAD: usize = 7919;
    let other = (col + 1 + col * SPREAD) % n_cols;
    match other.is_multiple_of(EVERY) {
        true => (other + 1) % n_cols,
        false => other,
    }
}

/// Returns the sampled pairs: random squares, the diagonal, and pairs that were made similar.
fn sample(n_cols: usize) -> Vec<(usize, usize)> {
    const SINGLES: usize = 256;
    let random = Philox::new(7).stream(0);
    let draw = |at: usize| usize::try_from(random.word(at as u64)).unwrap_or(0) % n_cols;
    let mut pairs = Vec::new();
    for square in 0..SQUARES {
        let [row, col] = [2 * square, 2 * square + 1].map(draw);
        for i in 0..SIDE {
            pairs.extend((0..SIDE).map(|j| ((row + i) % n_cols, (col + j) % n_cols)));
        }
    }
    for single in 2 * SQUARES..2 * SQUARES + SINGLES {
        let any = draw(single);
        let near = any - any % EVERY;
        let other = partner(near, n_cols);
        pairs.extend([(any, any), (near, other), (other, near)]);
    }
    pairs
}

/// A contestant that keeps all tiles in the executor's memory.
struct StoredTiles<'e, F> {
    columns: Columns<'e>,
    sample: Arc<[(usize, usize)]>,
    finish: F,
    tiles: Vec<(TilePosition, Tensor)>,
}

impl<F: Fn() -> Result<()>> Implementation for StoredTiles<'_, F> {
    fn run(&mut self, times: usize) -> Result<Vec<f64>> {
        let once = |_| {
            self.tiles.clear();
            let start = Instant::now();
            let kept = self.columns.each(|place, bits| {
                self.tiles.push((place, bits));
                Ok::<(), StreamError<Infallible>>(())
            });
            kept?;
            (self.finish)()?;
            Ok(start.elapsed().as_secs_f64())
        };
        (0..times).map(once).collect()
    }

    fn result(&mut self) -> Result<Output> {
        ensure!(
            !self.tiles.is_empty(),
            "similarity-pairs: no result before the first run"
        );
        let mut answers = vec![None; self.sample.len()];
        for (place, bits) in &self.tiles {
            let own = pairs_in_tile(&self.sample, *place);
            if own.is_empty() {
                continue;
            }
            let bits = bits.to_host::<bool>()?;
            for (number, i, j) in own {
                answers[number] = Some(u32::from(bits[[i, j]]));
            }
        }
        let answers: Option<Vec<u32>> = answers.into_iter().collect();
        Ok(Output::U32(
            answers.context("a sampled pair is in none of the tiles")?,
        ))
    }
}

/// A contestant whose tiles are counted on the host.
struct Streamed<'e> {
    columns: Columns<'e>,
    sample: Arc<[(usize, usize)]>,
    /// Sampled pairs in each tile, as returned by [`pairs_in_tile`]; determined in the first run.
    pairs_in_tile: Vec<Vec<(usize, usize, usize)>>,
    /// For each pair of the sample, 1 if the pair is similar, else 0; `None` until the pair's tile
    /// was computed.
    answers: Vec<Option<u32>>,
}

impl Implementation for Streamed<'_> {
    fn run(&mut self, times: usize) -> Result<Vec<f64>> {
        let once = |_| {
            self.answers = vec![None; self.sample.len()];
            let start = Instant::now();
            let mut sink = |tile: Tile| {
                // Tiles come in the same order in every run, so the lookup is done in the first run
                // only.
                if tile.place.number >= self.pairs_in_tile.len() {
                    self.pairs_in_tile
                        .push(pairs_in_tile(&self.sample, tile.place));
                }
                for &(number, i, j) in &self.pairs_in_tile[tile.place.number] {
                    self.answers[number] = tile.get(i, j).map(u32::from);
                }
                // A minimal use of all answers, which the compiler cannot remove.
                std::hint::black_box(tile.words.iter().map(|word| word.count_ones()).sum::<u32>());
                Ok::<(), Infallible>(())
            };
            self.columns.stream(&mut sink)?;
            Ok(start.elapsed().as_secs_f64())
        };
        (0..times).map(once).collect()
    }

    fn result(&mut self) -> Result<Output> {
        let answers: Option<Vec<u32>> = self.answers.iter().copied().collect();
        Ok(Output::U32(
            answers.context("a sampled pair is in none of the tiles")?,
        ))
    }
}

/// Returns the sampled pairs whose answer is in a tile, each as its number in the sample and its
/// row and column within the tile. A pair below the diagonal is answered by its mirror image above
/// the diagonal.
fn pairs_in_tile(sample: &[(usize, usize)], place: TilePosition) -> Vec<(usize, usize, usize)> {
    let rows = place.row..place.row + place.rows;
    let cols = place.col..place.col + place.cols;
    let within = |(number, &(i, j)): (usize, &(usize, usize))| {
        // The relation is symmetric, so a tile answers a pair or its mirror image.
        let own = [(i, j), (j, i)];
        let own = own
            .into_iter()
            .find(|(i, j)| rows.contains(i) && cols.contains(j));
        own.map(|(i, j)| (number, i - place.row, j - place.col))
    };
    sample.iter().enumerate().filter_map(within).collect()
}

impl Problem for Pairs {
    fn workload<'a>(&'a self, gpus: &'a [Gpu]) -> Workload<'a> {
        // The time grows with the square of the number of columns, from 0.3 s (record
        // 2026-11-21t21-33-28z) to nearly a minute.
        let is_long = self.n_cols >= COLUMNS[2];
        let (devices, left_out) = if is_long {
            on_gpu::hardware(gpus, "a run would take minutes on a software driver")
        } else {
            (gpus.iter().collect(), Vec::new())
        };
        let on_host = (!is_long).then(|| self.stored("host", host(), || Ok(())));
        let on_device = |gpu: &'a Gpu| {
            let stored = self.stored("wgsl", gpu, || Ok(gpu.finish()?));
            [stored.with_adapter(gpu.adapter()), self.streamed(gpu)]
        };
        Workload::new(self.extent(), |result, _| {
            compare(
                u32::from_output(result)?,
                &self.truth[..],
                &Tolerance::exact(),
            )?;
            Ok(())
        })
        .with_variants(on_host)
        .with_variants(devices.into_iter().flat_map(on_device))
        .with_left_out(left_out)
    }
}

/// Returns the host executor, which all runs share.
fn host() -> &'static Host {
    static HOST: std::sync::LazyLock<Host> = std::sync::LazyLock::new(Host::new);
    &HOST
}

#[cfg(test)]
mod tests {
    use super::*;
    use harness::workload::Portion;

    #[test]
    fn the_sample_has_answers_of_both_kinds_and_each_is_looked_at() {
        let pairs = Pairs::new(40, 500);
        let n_alike = pairs.truth.iter().filter(|answer| **answer == 1).count();
        // At least the diagonal and the pairs that were made similar; some more are similar by
        // chance.
        assert!(n_alike >= 512, "{n_alike}");
        assert!(pairs.truth.len() - n_alike > 5000);
        let workload = pairs.workload(&[]);
        for variant in workload.variants {
            let mut contestant = (variant.start)().unwrap();
            contestant.run(1).unwrap();
            (workload.check)(&contestant.result().unwrap(), Portion::whole(1)).unwrap();
        }
        let mut wrong = pairs.truth.clone();
        wrong[1000] ^= 1;
        assert!((pairs.workload(&[]).check)(&Output::U32(wrong), Portion::whole(1)).is_err());
    }
}
