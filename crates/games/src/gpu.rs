//! Games on a GPU, in f32 (feature `gpu`): many small matrix games, large ones, and many variants
//! of an extensive game.
//!
//! Role: wraps the kernels `matrix_games_solve_…`, `matrix_game_…` and `extensive_games_solve`; the
//! only place in the crate that uses a device.
//! Method: the payoffs of a matrix game are centred, as on the CPU, and scaled by a power of two in
//! f64. Regret matching depends on neither, and small integers stay exact. Many small games are
//! solved entirely in registers (up to four actions per player) or in the memory of a workgroup (up
//! to sixteen, [`Games`]). In a large game ([`Learner`]) an iteration is one matrix-vector product
//! per player. Of the variants of an extensive game, each workgroup solves one
//! ([`solve_variants`]). Strategies are read back once and evaluated by best responses in f64
//! against the original payoffs.
//! Accuracy: NashConv and values are those of the returned strategies, in f64. The distance from an
//! f64 run depends on the game: rounding usually changes a strategy by millionths, but where all
//! regrets of a player vanish at the same time, the next strategy depends on rounding, as it does
//! in f64. [`Batch::solve_on`] states measured differences.
//! Limits: regret matching in all its forms.

mod extensive_games_solve;
mod matrix_game;
mod matrix_games_solve;

pub use extensive_games_solve::solve_variants;
pub use matrix_game::Learner;
pub use matrix_games_solve::{Games, MAX_ACTIONS};

use crate::centre::largest_size;
use crate::regret::{Keep, Step};
use crate::{Batch, BatchSolution, Error, Result, SolverConfig};
use gpu_wgsl::Gpu;
use shaders::Params;
use shaders::params::MatchingKeep;

/// Largest number of iterations; the factors of all iterations are in one buffer of 128 MiB.
pub const MAX_ITERATIONS: u64 = 1 << 23;
/// Bit mask of the exponent of an f64.
const EXPONENT_BITS: u64 = 0x7ff0_0000_0000_0000;

impl Batch {
    /// Solves the batch on a GPU, as [`Self::solve`] does on the CPU.
    ///
    /// Accuracy: for random games with three actions per player, at least 90 % of the average
    /// strategies are within 1e-5 of those in f64 after 500 iterations, both for regret matching
    /// with simultaneous updates and for the default configuration. NashConv is within 1e-4 in at
    /// least 99 % of the games.
    ///
    /// # Errors
    /// [`Error::ParameterInvalid`] if a parameter of the configuration is out of range;
    /// [`Error::RuleNotOnDevice`] for any rule but regret matching;
    /// [`Error::TooLarge`] beyond [`MAX_ACTIONS`] or [`MAX_ITERATIONS`];
    /// [`Error::Device`] if the device is out of memory, was lost, or cannot run the kernel.
    ///
    /// # Examples
    /// ```
    /// use games::{Batch, SolverConfig, ndarray::Array3};
    /// use gpu_wgsl::{Error, Gpu, Select};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let gpu = match Gpu::open(Select::Best) {
    ///     // Without an adapter, `Batch::solve` still works.
    ///     Err(Error::NoAdapter { .. }) => return Ok(()),
    ///     other => other?,
    /// };
    /// // Matching pennies, for ever higher stakes.
    /// let gains = Array3::from_shape_fn((1000, 2, 2), |(game, row, col)| {
    ///     if row == col { game as f64 } else { -1.0 }
    /// });
    /// let solution = Batch::zero_sum(gains)?.solve_on(&gpu, &SolverConfig::default())?;
    /// assert!(solution.nash_conv.iter().all(|&nash_conv| nash_conv < 0.01));
    /// # Ok(())
    /// # }
    /// ```
    pub fn solve_on(&self, gpu: &Gpu, config: &SolverConfig) -> Result<BatchSolution> {
        Games::upload(gpu, self)?.solve(config)
    }
}

/// Returns the discount of the configuration, and the additional weight of the last regret; returns
/// an error for rules other than regret matching.
fn matching(operation: &'static str, config: &SolverConfig) -> Result<(MatchingKeep, f32)> {
    // The range of payoffs only matters to rules that are rejected next.
    config.check(operation, 0.0)?;
    let Step::Match { keep, predictive } = config.step(1, 0.0) else {
        return Err(Error::RuleNotOnDevice {
            operation,
            rule: config.rule,
        });
    };
    let keep = match keep {
        Keep::All => MatchingKeep::All,
        Keep::Positive => MatchingKeep::Positive,
        Keep::Shares { .. } => MatchingKeep::Shares,
    };
    Ok((keep, if predictive { 1.0 } else { 0.0 }))
}

/// Returns the factors of positive and negative sums of regrets after iteration `t`.
fn shares(config: &SolverConfig, t: u64) -> [f64; 2] {
    match config.step(t, 0.0) {
        Step::Match {
            keep: Keep::Shares { positive, negative },
            ..
        } => [positive, negative],
        _ => [1.0; 2],
    }
}

/// Returns a game's centred payoffs in a unit that makes absolute values less than 2. Regret
/// matching does not depend on the unit.
///
/// The unit is a power of two, so that payoffs that are small integers stay exact.
fn scaled(centred: &[f64]) -> Vec<f32> {
    let unit = power_of_two_below(largest_size(centred));
    let scaled = centred.iter().map(|gain| narrowed(gain / unit));
    scaled.collect()
}

/// Returns the largest power of two that is at most a positive number, or the smallest positive
/// normal f64 if that is larger.
fn power_of_two_below(size: f64) -> f64 {
    f64::from_bits(size.to_bits() & EXPONENT_BITS).max(f64::MIN_POSITIVE)
}

/// Returns for each iteration its weight, normalised to a sum of 1, and the factors of positive and
/// negative sums of regrets.
fn ticks(config: &SolverConfig) -> Vec<f32> {
    let iterations = 1..=config.stop.iterations;
    let total: f64 = iterations.clone().map(|t| config.weight(t)).sum();
    let tick = |t| {
        let [positive, negative] = shares(config, t);
        [config.weight(t) / total, positive, negative, 0.0].map(narrowed)
    };
    iterations.flat_map(tick).collect()
}

/// Returns the largest number of iterations of one dispatch for which the driver does not end loops
/// early, and at least 1. `params` returns the parameters of a dispatch of some iterations.
fn most_iterations<P: Params>(gpu: &Gpu, params: impl Fn(u32) -> P) -> u64 {
    let Some(limit) = gpu.adapter().max_loop_iterations else {
        return u64::MAX;
    };
    let [none, one] = [0, 1].map(|iterations| params(iterations).loop_iterations());
    let each = one.saturating_sub(none).max(1);
    (limit.saturating_sub(none) / each).max(1)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "rounding to f32 is intended"
)]
fn narrowed(x: f64) -> f32 {
    x as f32
}
