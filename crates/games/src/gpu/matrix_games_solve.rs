//! Wrapper of the kernels `matrix_games_solve_3`, `…_4` and `…_16`.

use super::{MAX_ITERATIONS, matching, most_iterations, scaled, ticks};
use crate::{Batch, BatchSolution, Error, Result, SolverConfig, Updates};
use gpu_wgsl::{Buffer, Gpu};
use shaders::params::{MatchingKeep, MatrixGamesParams};
use shaders::{Kernel, layout};

/// Name of the operation in errors.
const OPERATION: &str = "Batch::solve_on";
/// Largest number of actions of a player.
pub const MAX_ACTIONS: usize = 16;

/// Payoffs in one buffer, 16 MiB: every device can bind a buffer of this size, and a few such parts
/// saturate the device.
const PART_CELLS: usize = 1 << 22;
/// Invocations times iterations of one dispatch, small enough that no driver times out.
const DISPATCH_WORK: u64 = 1 << 28;
/// Largest number of iterations of one dispatch: an iteration may take longer than a microsecond,
/// however few the games are.
const DISPATCH_ITERATIONS: u64 = 65_535;

/// A batch of games on a GPU.
///
/// [`Batch::solve_on`] uploads and solves; this type allows solving the same uploaded games with
/// several configurations.
#[derive(Clone, Debug)]
pub struct Games<'a> {
    gpu: &'a Gpu,
    batch: &'a Batch,
    kernel: &'static Kernel,
    order: Order,
    parts: Vec<GamesBuffer>,
}

/// The memory order of cells, actions and games.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    /// Item 0 of all games, then item 1 of all games, and so on: neighbouring invocations read
    /// neighbouring addresses.
    ItemsFirst,
    /// All items of game 0, then all items of game 1, and so on.
    GamesFirst,
}

/// A part of the games, whose payoffs are in one buffer.
#[derive(Clone, Debug)]
struct GamesBuffer {
    n_games: usize,
    payoffs: Buffer<f32>,
}

impl<'a> Games<'a> {
    /// Uploads games to a GPU.
    ///
    /// # Errors
    /// [`Error::TooLarge`] beyond [`MAX_ACTIONS`] actions of a player; [`Error::Device`] if the
    /// device is out of memory.
    pub fn upload(gpu: &'a Gpu, batch: &'a Batch) -> Result<Self> {
        let (n_games, n_rows, n_cols) = batch.row_payoffs().dim();
        let (kernel, order) = match n_rows.max(n_cols) {
            ..=3 => (&layout::MATRIX_GAMES_SOLVE_3, Order::ItemsFirst),
            4 => (&layout::MATRIX_GAMES_SOLVE_4, Order::ItemsFirst),
            5..=MAX_ACTIONS => (&layout::MATRIX_GAMES_SOLVE_16, Order::GamesFirst),
            n_actions => return Err(too_large("actions", n_actions as u64, MAX_ACTIONS as u64)),
        };
        let n_cells = n_rows * n_cols;
        let n_together = PART_CELLS / n_cells;
        let mut parts = vec![];
        for first in (0..n_games).step_by(n_together) {
            let n_games = n_together.min(n_games - first);
            let mut gains = vec![0.0; n_games * n_cells];
            for game in 0..n_games {
                let centred: Vec<f64> = batch.centred(first + game).collect();
                let cells = scaled(&centred);
                for (cell, gain) in cells.into_iter().enumerate() {
                    gains[order.place(cell, n_cells, game, n_games)] = gain;
                }
            }
            let gains = gpu.upload("gains", &[gains.len()], &gains)?;
            parts.push(GamesBuffer {
                n_games,
                payoffs: gains,
            });
        }
        Ok(Self {
            gpu,
            batch,
            kernel,
            order,
            parts,
        })
    }

    /// Runs the iterations of the configuration in every game, and evaluates the average
    /// strategies.
    ///
    /// # Errors
    /// As [`Batch::solve_on`].
    pub fn solve(&self, config: &SolverConfig) -> Result<BatchSolution> {
        checked(config)?;
        if config.stop.iterations == 0 {
            // Without iterations there is no kernel to run; the CPU returns the initial strategies.
            return self.batch.solve(config);
        }
        let mut averages = vec![];
        for part in self.learn(config)? {
            averages.push(self.gpu.read(&part)?);
        }
        let n_together = self.parts.first().map_or(1, |part| part.n_games);
        let (_, n_rows, n_cols) = self.batch.row_payoffs().dim();
        Ok(self.batch.evaluate(|player, game, action| {
            let part = game / n_together;
            let (before, n) = [(0, n_rows), (n_rows, n_cols)][player];
            let n_games = self.parts[part].n_games;
            let weight = |action| {
                let item = before + action;
                let place = (self.order).place(item, n_rows + n_cols, game % n_together, n_games);
                f64::from(averages[part][place])
            };
            weight(action) / (0..n).map(weight).sum::<f64>()
        }))
    }

    /// Runs the iterations of the configuration in every game and leaves the results on the GPU,
    /// which may still be busy when the function returns.
    ///
    /// Shapes: one buffer for each part of the games, with average strategies whose sums still have
    /// rounding errors: `[rows + cols, games]` for up to four actions per player, otherwise
    /// `[games, rows + cols]`.
    ///
    /// # Errors
    /// As [`Batch::solve_on`]; [`Error::ParameterInvalid`] without iterations, because
    /// there is then no average.
    pub fn learn(&self, config: &SolverConfig) -> Result<Vec<Buffer<f32>>> {
        let (keep, predictive) = checked(config)?;
        let iterations = config.stop.iterations;
        if iterations == 0 {
            return Err(Error::ParameterInvalid {
                operation: "gpu::Games::learn",
                parameter: "iterations",
                value: 0.0,
                must: "at least 1",
            });
        }
        let ticks = ticks(config);
        let ticks = self.gpu.upload("ticks", &[ticks.len()], &ticks)?;
        let (_, n_rows, n_cols) = self.batch.row_payoffs().dim();
        let mut averages = vec![];
        for part in &self.parts {
            let n_items = part.n_games * (n_rows + n_cols);
            let state = self.gpu.alloc::<f32>("state", &[2 * n_items])?;
            let average = self.gpu.alloc::<f32>("averages", &[n_items])?;
            let [x, y, z] = self.kernel.workgroup_size.map(u64::from);
            let group = if self.order == Order::GamesFirst {
                x * y * z
            } else {
                1
            };
            let params = |done: u64, n_iterations: u32| MatrixGamesParams {
                games: small(part.n_games as u64),
                rows: small(n_rows as u64),
                cols: small(n_cols as u64),
                done: small(done),
                iterations: n_iterations,
                keep: keep as u32,
                alternating: u32::from(config.updates == Updates::Alternating),
                predictive,
            };
            let most = (DISPATCH_WORK / (part.n_games as u64 * group))
                .clamp(1, DISPATCH_ITERATIONS)
                .min(most_iterations(self.gpu, |n| params(0, n)));
            let mut done = 0;
            while done < iterations {
                let n_iterations = most.min(iterations - done);
                let params = params(done, small(n_iterations));
                let buffers = [&*ticks, &*part.payoffs, &*state, &*average];
                self.gpu.dispatch(self.kernel, &params, &buffers)?;
                // One flush per dispatch, because a driver may time out on a submission of several.
                self.gpu.flush()?;
                done += n_iterations;
            }
            averages.push(average);
        }
        Ok(averages)
    }
}

impl Order {
    fn place(self, item: usize, n_items: usize, game: usize, n_games: usize) -> usize {
        match self {
            Self::ItemsFirst => item * n_games + game,
            Self::GamesFirst => game * n_items + item,
        }
    }
}

/// Returns the kernel parameters of a configuration, or an error if the kernel does not support
/// the configuration.
fn checked(config: &SolverConfig) -> Result<(MatchingKeep, f32)> {
    let rule = matching(OPERATION, config)?;
    let iterations = config.stop.iterations;
    if iterations > MAX_ITERATIONS {
        return Err(too_large("iterations", iterations, MAX_ITERATIONS));
    }
    Ok(rule)
}

fn too_large(what: &'static str, needed: u64, limit: u64) -> Error {
    Error::TooLarge {
        operation: OPERATION,
        what,
        needed: needed.into(),
        limit: limit.into(),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "games of a part, their actions and iterations are below 2^24"
)]
fn small(count: u64) -> u32 {
    count as u32
}
