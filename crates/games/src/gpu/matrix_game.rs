//! Wrapper of the kernels `matrix_game_value` and `matrix_game_update`.

use super::{matching, narrowed, scaled, shares};
use crate::{MatrixGame, Profile, Result, SolverConfig, Updates};
use gpu_wgsl::{Buffer, Gpu};
use shaders::layout;
use shaders::params::{MatchingKeep, MatrixGameUpdateParams, MatrixGameValueParams};

/// Name of the operation in errors.
const OPERATION: &str = "gpu::Learner";
/// Cells of the matrix, times iterations, per submission; small enough that no driver times out.
const SUBMISSION_CELLS: u64 = 1 << 32;

/// A learner for one zero-sum game on a GPU, for games with hundreds of actions or more.
///
/// All numbers stay on the device until the average is requested. Each player has a copy of the
/// payoffs with one row for each of its actions (together eight bytes per cell), so that every step
/// reads each copy once and in order.
///
/// Accuracy: f32. Rounding limits NashConv much earlier than in f64.
/// [`nash_conv`](crate::nash_conv) evaluates an average in f64, so its result holds regardless of
/// the rounding during learning.
///
/// # Examples
/// ```
/// use games::{SolverConfig, MatrixGame, gpu::Learner, nash_conv, ndarray::Array2};
/// use gpu_wgsl::{Error, Gpu, Select};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let gpu = match Gpu::open(Select::Best) {
///     Err(Error::NoAdapter { .. }) => return Ok(()), // this machine has none; `solve` still works
///     other => other?,
/// };
/// // The player who names the higher number wins, unless it is higher by exactly one.
/// let gains = Array2::from_shape_fn((100, 100), |(row, col)| match row as i32 - col as i32 {
///     1 => -2,
///     -1 => 2,
///     difference => difference.signum(),
/// });
/// let game = MatrixGame::zero_sum(gains)?;
/// let mut learner = Learner::new(&gpu, &game, &SolverConfig::default())?;
/// learner.advance(200)?;
/// assert!(nash_conv(&game, &learner.average()?)? < 0.01);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Learner<'a> {
    gpu: &'a Gpu,
    config: SolverConfig,
    keep: MatchingKeep,
    predictive: f32,
    players: [Player; 2],
    iteration: u64,
    /// The sum of the weights so far.
    weight: f64,
}

/// The GPU buffers of one player.
#[derive(Clone, Debug)]
struct Player {
    n_actions: u32,
    payoffs: Buffer<f32>,
    values: Buffer<f32>,
    strategy: Buffer<f32>,
    regrets: Buffer<f32>,
    average: Buffer<f32>,
}

impl<'a> Learner<'a> {
    /// Uploads a game to a GPU. The stop conditions of the configuration are ignored.
    ///
    /// # Errors
    /// [`Error::ParameterInvalid`](crate::Error::ParameterInvalid) if a parameter of the
    /// configuration is out of range; [`Error::RuleNotOnDevice`](crate::Error::RuleNotOnDevice) for
    /// any rule but regret matching; [`Error::Device`](crate::Error::Device) if the device is out
    /// of memory or cannot bind the payoffs in one buffer.
    pub fn new(gpu: &'a Gpu, game: &MatrixGame, config: &SolverConfig) -> Result<Self> {
        let (keep, predictive) = matching(OPERATION, config)?;
        let (n_rows, n_cols) = (game.n_rows(), game.n_cols());
        let gains = scaled(game.centred_gains());
        let mut losses = vec![0.0; gains.len()];
        for (row, gains) in gains.chunks_exact(n_cols).enumerate() {
            for (col, gain) in gains.iter().enumerate() {
                losses[col * n_rows + row] = -gain;
            }
        }
        Ok(Self {
            gpu,
            config: *config,
            keep,
            predictive,
            players: [
                Player::new(gpu, n_rows, &gains)?,
                Player::new(gpu, n_cols, &losses)?,
            ],
            iteration: 0,
            weight: 0.0,
        })
    }

    /// Returns the number of iterations done.
    #[must_use]
    pub fn iteration(&self) -> u64 {
        self.iteration
    }

    /// Runs `iterations` further iterations; the GPU may still be busy when the function returns.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) if the device was lost or cannot run a kernel.
    pub fn advance(&mut self, iterations: u64) -> Result<()> {
        let n_cells = self.players[0].payoffs.len() as u64;
        let together = (SUBMISSION_CELLS / n_cells).max(1);
        for _ in 0..iterations {
            self.iteration += 1;
            self.weight += self.config.weight(self.iteration);
            // With alternating updates, the second player responds to the first player's new
            // strategy.
            self.value(0)?;
            if self.config.updates == Updates::Alternating {
                self.update(0)?;
                self.value(1)?;
            } else {
                self.value(1)?;
                self.update(0)?;
            }
            self.update(1)?;
            if self.iteration.is_multiple_of(together) {
                self.gpu.flush()?;
            }
        }
        Ok(())
    }

    /// Returns the average strategies; the initial strategies before the first iteration.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) if the device was lost or cannot run a kernel.
    pub fn average(&self) -> Result<Profile> {
        let mut profile = vec![];
        for player in &self.players {
            let average = self.gpu.read(&player.average)?;
            let average: Vec<f64> = average.into_iter().map(f64::from).collect();
            // Division by the sum removes the rounding error of the weights.
            let total: f64 = average.iter().sum();
            profile.push(average.into_iter().map(|p| p / total).collect());
        }
        Ok(profile)
    }

    /// Records the computation of a player's action values against the other player's strategy.
    fn value(&self, player: usize) -> Result<()> {
        let (own, other) = (&self.players[player], &self.players[1 - player]);
        let params = MatrixGameValueParams {
            actions: own.n_actions,
            others: other.n_actions,
            ..MatrixGameValueParams::default()
        };
        let buffers = [&*own.payoffs, &*other.strategy, &*own.values];
        self.gpu
            .dispatch(&layout::MATRIX_GAME_VALUE, &params, &buffers)?;
        Ok(())
    }

    /// Records the update of a player from its action values.
    fn update(&self, player: usize) -> Result<()> {
        let own = &self.players[player];
        let params = MatrixGameUpdateParams {
            actions: own.n_actions,
            keep: self.keep as u32,
            predictive: self.predictive,
            share: narrowed(self.config.weight(self.iteration) / self.weight),
            kept: shares(&self.config, self.iteration).map(narrowed),
            ..MatrixGameUpdateParams::default()
        };
        let buffers = [&*own.values, &*own.strategy, &*own.regrets, &*own.average];
        self.gpu
            .dispatch(&layout::MATRIX_GAME_UPDATE, &params, &buffers)?;
        Ok(())
    }
}

impl Player {
    fn new(gpu: &Gpu, n_actions: usize, payoffs: &[f32]) -> Result<Self> {
        let equal = vec![narrowed(1.0 / n_actions as f64); n_actions];
        let line = |name: &str, numbers: &[f32]| gpu.upload(name, &[n_actions], numbers);
        Ok(Self {
            // A number of actions above u32 would not fit on a device; saturation leads to an error
            // there.
            n_actions: u32::try_from(n_actions).unwrap_or(u32::MAX),
            payoffs: gpu.upload("payoffs", &[n_actions, payoffs.len() / n_actions], payoffs)?,
            values: gpu.alloc("values", &[n_actions])?,
            strategy: line("strategy", &equal)?,
            regrets: line("regrets", &vec![0.0; n_actions])?,
            average: line("average", &equal)?,
        })
    }
}
