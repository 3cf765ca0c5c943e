//! Large zero-sum games, solved until NashConv is a millionth of the range of payoffs.
//!
//! Role: the workload `matrix-game`. Variants: `unpolished`, iterative learning only; `host`,
//! learning that is completed by linear algebra; `wgsl`, learning in f32 on a GPU, evaluated on the
//! host in f64, and not run on software drivers. Rivals: SciPy, which solves the linear program
//! with `HiGHS`, and the same learning in NumPy.
//! Method: any pair of strategies with a sufficiently small NashConv is correct; NashConv is
//! computed by plain loops.
//! Shapes: payoffs (`gains`) are `[n, n]`, uniform in [-1, 1); the result is the strategy of the
//! row player, then that of the column player.
//! Source: the blog note "Approximate Nash Equilibrium by Regret Matching".

use super::convergence;
use anyhow::{Result, bail, ensure};
use charts::Figure;
use games::gpu::Learner;
use games::ndarray::Array2;
use games::{MatrixGame, SolverConfig, Updates, solve};
use gpu_wgsl::Gpu;
use harness::on_gpu;
use harness::program::InputDistribution;
use harness::rivals::BaselineArguments;
use harness::script;
use harness::workload::{Extent, OutputElement, Problem, Task, Variant, Work, Workload};

/// Sides of the payoff matrices.
const SIDES: [usize; 3] = [100, 400, 1000];
/// Required NashConv divided by the range of payoffs.
const ACCURACY: f64 = 1e-6;
/// Tolerance for negative probabilities, and for the difference of their sum from 1.
const ROUNDING: f64 = 1e-9;
/// Relative tolerance of NashConv, for rounding differences between the solver's and the plain
/// loops' value.
const JUDGEMENT: f64 = 1e-6;
/// Maximum number of iterations, far above the number needed.
const MANY: u64 = 1_000_000;
/// Maximum number of iterations in f32. More iterations would not help, because rounding errors
/// would then exceed the progress of learning.
const MANY_IN_F32: u64 = 100_000;
/// Smallest number of iterations on a device between two evaluations of the strategies.
const STRETCH: u64 = 64;
/// Divisor of the number of iterations done so far. The quotient is added to [`STRETCH`], so that
/// evaluations remain a constant share of the work.
const STRETCH_SHARE: u64 = 8;
/// Number of iterations in the figure, for the smallest game.
const SHOWN: u64 = 10_000;

/// Returns the tasks.
#[must_use]
pub fn tasks() -> Vec<Task> {
    let task = |side| {
        let size = format!("{side}x{side}");
        Task::new("matrix-game", "S0", size, move || Square::new(side))
    };
    SIDES.map(task).into()
}

/// A random game.
#[derive(Debug)]
pub struct Square {
    side: usize,
    gains: Vec<f32>,
    game: MatrixGame,
    /// Difference between the largest and the smallest payoff.
    range: f64,
}

impl Square {
    /// Draws a game.
    ///
    /// # Errors
    /// The game has no rows.
    pub fn new(side: usize) -> Result<Self> {
        let gains = InputDistribution::Centred.draw(side * side, 0);
        let game = MatrixGame::zero_sum(Array2::from_shape_vec([side; 2], gains.clone())?)?;
        let ends = |(low, high): (f64, f64), &gain: &f64| (low.min(gain), high.max(gain));
        let (low, high) = game
            .row_payoffs()
            .iter()
            .fold((f64::INFINITY, f64::NEG_INFINITY), ends);
        Ok(Self {
            side,
            gains,
            game,
            range: high - low,
        })
    }

    fn extent(&self) -> Extent {
        let bytes = self.side * (self.side + 2) * size_of::<f64>();
        Extent::new(Work::Games(1.0), bytes as f64)
    }

    fn variant(&self, executor: &'static str, config: SolverConfig) -> Variant<'_> {
        let config = config.iterations(MANY).tolerance(ACCURACY * self.range);
        Variant::on_cpu(executor, self.extent(), 0, move |out: &mut Vec<f64>| {
            *out = solve(&self.game, &config)?.strategies.concat();
            Ok(())
        })
    }

    /// Returns the variant of a device, timed by the host's clock because evaluating the strategies
    /// is part of the work.
    fn on_gpu<'a>(&'a self, gpu: &'a Gpu) -> Variant<'a> {
        let work = |out: &mut Vec<f64>| {
            *out = self.learn_on(gpu)?;
            Ok(())
        };
        Variant::on_cpu("wgsl", self.extent(), 0, work).with_adapter(gpu.adapter())
    }

    fn learn_on(&self, gpu: &Gpu) -> Result<Vec<f64>> {
        let mut learner = Learner::new(gpu, &self.game, &SolverConfig::default())?;
        while learner.iteration() < MANY_IN_F32 {
            // Growing intervals keep the cost of evaluations a constant share of the work.
            learner.advance(STRETCH + learner.iteration() / STRETCH_SHARE)?;
            let average = learner.average()?;
            if games::nash_conv(&self.game, &average)? <= ACCURACY * self.range {
                return Ok(average.concat());
            }
        }
        bail!("matrix-game: NashConv did not reach {ACCURACY:e} of the payoff range in f32")
    }

    fn check(&self, result: &[f64]) -> Result<()> {
        ensure!(
            result.len() == 2 * self.side,
            "result has {} probabilities (expected {})",
            result.len(),
            2 * self.side
        );
        let (rows, cols) = result.split_at(self.side);
        for strategy in [rows, cols] {
            let sum: f64 = strategy.iter().sum();
            ensure!(
                strategy.iter().all(|&p| p >= -ROUNDING) && (sum - 1.0).abs() <= ROUNDING,
                "a strategy is not a probability distribution (sum {sum})"
            );
        }
        let gain = |row: usize, col: usize| f64::from(self.gains[row * self.side + col]);
        let found = nash_conv(gain, rows, cols) / self.range;
        ensure!(
            found <= ACCURACY * (1.0 + JUDGEMENT),
            "NashConv divided by the range of payoffs is {found:e} (at most {ACCURACY:e})"
        );
        Ok(())
    }

    /// Draws the figure that compares the convergence of learning rules.
    fn figure(&self) -> Result<Figure> {
        let textbook = SolverConfig::regret_matching().updates(Updates::Simultaneous);
        let ways = [
            ("regret matching", textbook),
            ("RM+", SolverConfig::regret_matching_plus()),
            (
                "predictive RM+",
                SolverConfig::predictive_regret_matching_plus(),
            ),
            (
                "discounted RM(1.5, 0, 2)",
                SolverConfig::discounted(1.5, 0.0, 2.0),
            ),
            ("Hedge", SolverConfig::hedge()),
            ("fictitious play", SolverConfig::fictitious_play()),
        ];
        let caption = format!(
            "NashConv of the average strategies in a random game of {side} by {side} actions, computed by best responses, over \
             iterations (left) and over time (right). Regret matching, Hedge and fictitious play as in textbooks: both \
             players update simultaneously, and averages are uniform.",
            side = self.side
        );
        convergence::figure(&self.game, caption, SHOWN, &ways)
    }
}

/// Returns NashConv of a zero-sum game by plain loops; `gain(row, col)` is the row player's payoff.
pub(super) fn nash_conv(gain: impl Fn(usize, usize) -> f64, rows: &[f64], cols: &[f64]) -> f64 {
    let of_row = |row| {
        let each = cols.iter().enumerate();
        each.map(|(col, p)| gain(row, col) * p).sum::<f64>()
    };
    let of_col = |col| {
        let each = rows.iter().enumerate();
        each.map(|(row, p)| gain(row, col) * p).sum::<f64>()
    };
    // `f64::max` and `f64::min` ignore NaN. A NaN in a strategy makes all sums of the other player
    // NaN.
    let best_row = (0..rows.len()).map(of_row).max_by(f64::total_cmp);
    let best_col = (0..cols.len()).map(of_col).min_by(f64::total_cmp);
    best_row.unwrap_or(f64::NAN) - best_col.unwrap_or(f64::NAN)
}

impl Problem for Square {
    fn workload<'a>(&'a self, gpus: &'a [Gpu]) -> Workload<'a> {
        let (devices, left_out) = on_gpu::hardware(
            gpus,
            "learning in large games needs thousands of iterations with four dispatches each, which is too slow on a \
             software driver",
        );
        let on_cpu = [
            self.variant("unpolished", SolverConfig::default().without_polish()),
            self.variant("host", SolverConfig::default()),
        ];
        let workload = Workload::new(self.extent(), |result, _| {
            self.check(f64::from_output(result)?)
        })
        .with_variants(on_cpu)
        .with_variants(devices.into_iter().map(|gpu| self.on_gpu(gpu)))
        .with_left_out(left_out)
        .with_rivals(BaselineArguments::each(
            &["numpy", "scipy"],
            script!("matrix_game.py"),
            &[("rows", self.side), ("cols", self.side)],
            &[("gains", &self.gains)],
        ));
        if self.side == SIDES[0] {
            workload.with_figure(|_| self.figure())
        } else {
            workload
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpu_wgsl::check::every_adapter;

    #[test]
    fn only_strategies_that_are_good_enough_pass() {
        let square = Square::new(20).unwrap();
        let config = SolverConfig::default().tolerance(ACCURACY * square.range);
        let found = solve(&square.game, &config).unwrap().strategies.concat();
        assert!(square.check(&found).is_ok());
        let mut changed = found.clone();
        changed.swap(0, 1);
        changed.swap(2, 3);
        assert!(square.check(&changed).is_err());
        assert!(square.check(&[0.05; 40]).is_err());
        assert!(square.check(&[0.0; 40]).is_err());
        assert!(square.check(&[f64::NAN; 40]).is_err());
        assert!(square.check(&found[1..]).is_err());
    }

    #[test]
    fn what_devices_learn_passes_and_every_device_is_run_or_left_out() {
        let square = Square::new(5).unwrap();
        let gpus = every_adapter();
        for gpu in gpus {
            let mut contestant = (square.on_gpu(gpu).start)().unwrap();
            contestant.run(1).unwrap();
            let found = contestant.result().unwrap();
            square.check(f64::from_output(&found).unwrap()).unwrap();
        }
        let workload = square.workload(gpus);
        let n_run = workload
            .variants
            .iter()
            .filter(|variant| variant.adapter.is_some());
        assert_eq!(n_run.count() + workload.left_out.len(), gpus.len());
    }
}
