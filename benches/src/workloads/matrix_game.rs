//! Large zero-sum games, to a NashConv of a millionth of the range of gains.
//!
//! Role: the workload `matrix-game`. Rungs: `unpolished`, learning alone; `host`, learning until linear algebra can end it.
//! Rivals: SciPy, which solves the linear program by the simplex method, and the same learning in NumPy.
//! Method: any pair of strategies that is good enough is right; they are judged by plain loops.
//! Shapes: gains are `[n, n]`, uniform in [-1, 1); the result is the rows' strategy and then the columns'.
//! Source: S0, "Approximate Nash Equilibrium by Regret Matching".

use super::convergence;
use crate::figure::Figure;
use crate::program::Law;
use crate::rivals::{Job, script};
use crate::workload::{Extent, OutputElement, Part, Problem, Rung, Task, Work, Workload};
use anyhow::{Result, ensure};
use games::ndarray::Array2;
use games::{Dynamics, MatrixGame, Updates, solve};
use gpu_wgsl::Gpu;

/// Sides of the matrices.
const SIDES: [usize; 3] = [100, 400, 1000];
/// NashConv over the range of gains that is asked for.
const ACCURACY: f64 = 1e-6;
/// How far a probability may be below 0, and their sum from 1.
const ROUNDING: f64 = 1e-9;
/// What our own judgement of the last iteration may be off from that of plain loops, relative to it.
const JUDGEMENT: f64 = 1e-6;
/// Iterations that are enough.
const MANY: u64 = 1_000_000;
/// Iterations that the picture shows, of the smallest game.
const SHOWN: u64 = 10_000;

/// Gives the tasks.
#[must_use]
pub fn tasks() -> Vec<Task> {
    let task = |side: usize| Task {
        name: "matrix-game",
        size: format!("{side}x{side}"),
        needs_labels: false,
        program: None,
        prepare: Box::new(move |_| Ok(Box::new(Square::new(side)?))),
    };
    SIDES.map(task).into()
}

/// A random game.
#[derive(Debug)]
pub struct Square {
    side: usize,
    gains: Vec<f32>,
    game: MatrixGame,
    /// The largest gain less the smallest.
    range: f64,
}

impl Square {
    /// Draws a game.
    ///
    /// # Errors
    /// It has no rows.
    pub fn new(side: usize) -> Result<Self> {
        let gains = Law::Centred.draw(side * side, 0);
        let game = MatrixGame::zero_sum(Array2::from_shape_vec([side; 2], gains.clone())?)?;
        let ends = |(low, high): (f64, f64), &gain: &f64| (low.min(gain), high.max(gain));
        let (low, high) = game
            .gains()
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
        Extent {
            part: Part::whole(1),
            work: Work::Games(1.0),
            bytes: (self.side * (self.side + 2) * size_of::<f64>()) as f64,
        }
    }

    fn rung(&self, executor: &'static str, dynamics: Dynamics) -> Rung<'_> {
        let dynamics = dynamics.iterations(MANY).until(ACCURACY * self.range);
        Rung::on_cpu(executor, self.extent(), 0, move |out: &mut Vec<f64>| {
            *out = solve(&self.game, &dynamics)?.strategies.concat();
            Ok(())
        })
    }

    fn check(&self, result: &[f64]) -> Result<()> {
        ensure!(
            result.len() == 2 * self.side,
            "{} probabilities for {} actions",
            result.len(),
            2 * self.side
        );
        let (rows, cols) = result.split_at(self.side);
        for strategy in [rows, cols] {
            let sum: f64 = strategy.iter().sum();
            ensure!(
                strategy.iter().all(|&p| p >= -ROUNDING) && (sum - 1.0).abs() <= ROUNDING,
                "a strategy is no distribution, its sum is {sum}"
            );
        }
        let found = self.nash_conv(rows, cols) / self.range;
        ensure!(
            found <= ACCURACY * (1.0 + JUDGEMENT),
            "NashConv over the range of gains is {found:e}, it must be {ACCURACY:e} at most"
        );
        Ok(())
    }

    /// NashConv by plain loops.
    fn nash_conv(&self, rows: &[f64], cols: &[f64]) -> f64 {
        let gain = |row: usize, col: usize| f64::from(self.gains[row * self.side + col]);
        let sides = || 0..self.side;
        let of_row = |row| sides().map(|col| gain(row, col) * cols[col]).sum::<f64>();
        let of_col = |col| sides().map(|row| gain(row, col) * rows[row]).sum::<f64>();
        let best_row = sides().map(of_row).fold(f64::NEG_INFINITY, f64::max);
        best_row - sides().map(of_col).fold(f64::INFINITY, f64::min)
    }

    /// Shows how the ways to learn converge.
    fn figure(&self) -> Result<Figure> {
        let textbook = Dynamics::regret_matching().updates(Updates::Simultaneous);
        let ways = [
            ("regret matching", textbook),
            ("RM+", Dynamics::regret_matching_plus()),
            (
                "predictive RM+",
                Dynamics::predictive_regret_matching_plus(),
            ),
            (
                "discounted RM(1.5, 0, 2)",
                Dynamics::discounted(1.5, 0.0, 2.0),
            ),
            ("Hedge", Dynamics::hedge()),
            ("fictitious play", Dynamics::fictitious_play()),
        ];
        let caption = format!(
            "NashConv of the average profile in a random game of {side} by {side} actions, by best responses; left by \
             iterations, right by the time that they took. Regret matching, Hedge and fictitious play as in textbooks: both \
             players learn at once, and averages are uniform.",
            side = self.side
        );
        convergence::figure(&self.game, caption, SHOWN, &ways)
    }
}

impl Problem for Square {
    fn workload<'a>(&'a self, _gpus: &'a [Gpu]) -> Workload<'a> {
        Workload {
            name: "matrix-game",
            source: "S0",
            size: format!("{0}x{0}", self.side),
            whole: self.extent(),
            n_losses: 0,
            figure: if self.side == SIDES[0] {
                Some(Box::new(|_| self.figure()))
            } else {
                None
            },
            rungs: vec![
                self.rung("unpolished", Dynamics::default().unpolished()),
                self.rung("host", Dynamics::default()),
            ],
            rivals: Job::each(
                &["numpy", "scipy"],
                script!("matrix_game.py"),
                &[("rows", self.side), ("cols", self.side)],
                &[("gains", &self.gains)],
            ),
            left_out: Vec::new(),
            check: Box::new(|result, _| self.check(f64::of(result)?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_strategies_that_are_good_enough_pass() {
        let square = Square::new(20).unwrap();
        let dynamics = Dynamics::default().until(ACCURACY * square.range);
        let found = solve(&square.game, &dynamics).unwrap().strategies.concat();
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
}
