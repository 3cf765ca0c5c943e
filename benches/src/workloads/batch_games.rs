//! Regret matching in many small games, S0's own among them.
//!
//! Role: the workload `batch-games`. Rungs: `loops`, the textbook's; `host`, a batch on one thread; `threads`, on all. The
//! rival is OpenSpiel, which learns in Python one game at a time, and so does a few of the games.
//! Method: both players learn at once from mixed strategies, and the average counts every iteration alike.
//! Shapes: gains are `[games, 3, 3]`, f32 numbers computed with in f64; the result is the rows' and then the columns'
//! average strategy of each game.
//! Source: S0, "Approximate Nash Equilibrium by Regret Matching"; Hart and Mas-Colell 2000.

use crate::figure::{Figure, Line, Panel, Point};
use crate::program::Law;
use crate::rivals::{Job, script};
use crate::workload::{Extent, OutputElement, Part, Problem, Rung, Task, Work, Workload};
use anyhow::{Result, ensure};
use games::ndarray::{Array3, arr2};
use games::{Batch, Dynamics, MatrixGame, Run, Updates};
use gpu_wgsl::Gpu;
use rayon::ThreadPoolBuilder;
use tensor_core::compare::{Bound, compare};

/// Actions of each player.
const N: usize = 3;
/// Games, and how many of them the slow rival does.
const N_GAMES: usize = 100_000;
const N_FEW: usize = 5;
/// Iterations in each game, as in S0.
const STEPS: usize = 500;
/// How near probabilities must lie.
const BOUND: f64 = 1e-5;
/// S0's game, which is the first; random ones follow.
pub(crate) const CRASH: [[f64; N]; N] = [[0.0, -1.0, 2.0], [1.0, 0.0, -1.0], [-2.0, 1.0, 0.0]];

/// Gives the task.
#[must_use]
pub fn task() -> Task {
    Task {
        name: "batch-games",
        size: size(N_GAMES),
        needs_labels: false,
        program: None,
        prepare: Box::new(|_| Ok(Box::new(Games::new(N_GAMES)?))),
    }
}

fn size(n_games: usize) -> String {
    format!("{N}x{N}x{n_games}")
}

/// The games, and what learning in them comes to.
#[derive(Debug)]
pub struct Games {
    gains: Vec<f32>,
    batch: Batch,
    truth: Vec<f64>,
}

/// Regret matching in one game, as textbooks have it; both players' arrays, the rows' first.
#[derive(Clone, Debug)]
pub(crate) struct Textbook {
    gains: [[f64; N]; N],
    iteration: u32,
    strategies: [[f64; N]; 2],
    regrets: [[f64; N]; 2],
    sums: [[f64; N]; 2],
}

impl Textbook {
    pub(crate) fn new(gains: [[f64; N]; N]) -> Self {
        Self {
            gains,
            iteration: 0,
            strategies: [[1.0 / N as f64; N]; 2],
            regrets: [[0.0; N]; 2],
            sums: [[0.0; N]; 2],
        }
    }

    pub(crate) fn advance(&mut self, iterations: usize) {
        for _ in 0..iterations {
            self.iterate();
        }
    }

    fn iterate(&mut self) {
        self.iteration += 1;
        let mut values = [[0.0; N]; 2];
        for row in 0..N {
            for col in 0..N {
                values[0][row] += self.gains[row][col] * self.strategies[1][col];
                values[1][col] -= self.gains[row][col] * self.strategies[0][row];
            }
        }
        for player in 0..2 {
            let (strategy, values) = (&mut self.strategies[player], values[player]);
            let worth: f64 = (0..N).map(|action| values[action] * strategy[action]).sum();
            let mut total = 0.0;
            for action in 0..N {
                self.sums[player][action] += strategy[action];
                self.regrets[player][action] += values[action] - worth;
                total += self.regrets[player][action].max(0.0);
            }
            for (p, regret) in strategy.iter_mut().zip(self.regrets[player]) {
                *p = if total > 0.0 {
                    regret.max(0.0) / total
                } else {
                    1.0 / N as f64
                };
            }
        }
    }

    /// Gives the average strategies; there must have been an iteration.
    pub(crate) fn average(&self) -> [[f64; N]; 2] {
        self.sums
            .map(|sums| sums.map(|sum| sum / f64::from(self.iteration)))
    }

    /// Gives S0's estimate of the error, twice the largest sum of regrets over the iterations.
    pub(crate) fn estimate(&self) -> f64 {
        let largest = self
            .regrets
            .iter()
            .flatten()
            .copied()
            .fold(f64::NEG_INFINITY, f64::max);
        2.0 * largest / f64::from(self.iteration)
    }
}

impl Games {
    /// Draws so many games, and learns in each.
    ///
    /// # Errors
    /// None but the batch's own, of which these games have no cause.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "small integers are f32 numbers"
    )]
    pub fn new(n_games: usize) -> Result<Self> {
        let mut gains = Law::Centred.draw(N * N * n_games, 0);
        for (gain, crash) in gains.iter_mut().zip(CRASH.as_flattened()) {
            *gain = *crash as f32;
        }
        let shaped = Array3::from_shape_vec((n_games, N, N), gains.clone())?;
        let mut games = Self {
            gains,
            batch: Batch::zero_sum(shaped)?,
            truth: vec![0.0; 2 * N * n_games],
        };
        let mut truth = std::mem::take(&mut games.truth);
        games.learn(&mut truth);
        games.truth = truth;
        Ok(games)
    }

    /// Learns in one game after the other.
    fn learn(&self, out: &mut [f64]) {
        let games = self.batch.gains().outer_iter();
        for (game, out) in games.zip(out.chunks_exact_mut(2 * N)) {
            let gains = std::array::from_fn(|row| std::array::from_fn(|col| game[[row, col]]));
            let mut learning = Textbook::new(gains);
            learning.advance(STEPS);
            out.copy_from_slice(learning.average().as_flattened());
        }
    }

    fn extent(&self) -> Extent {
        let n_games = self.batch.gains().dim().0;
        Extent {
            part: Part::whole(n_games),
            work: Work::Games(n_games as f64),
            bytes: ((N * N + 2 * N) * n_games * size_of::<f64>()) as f64,
        }
    }

    fn rung<'a>(
        &self,
        executor: &'static str,
        work: impl FnMut(&mut Vec<f64>) -> Result<()> + 'a,
    ) -> Rung<'a> {
        Rung::on_cpu(executor, self.extent(), self.truth.len(), work)
    }

    fn solve(&self, out: &mut [f64]) -> Result<()> {
        let solution = self.batch.solve(&textbook())?;
        let strategies = solution.rows.outer_iter().zip(solution.cols.outer_iter());
        for (out, (row, col)) in out.chunks_exact_mut(2 * N).zip(strategies) {
            let (rows, cols) = out.split_at_mut(N);
            rows.iter_mut().zip(row).for_each(|(out, p)| *out = *p);
            cols.iter_mut().zip(col).for_each(|(out, p)| *out = *p);
        }
        Ok(())
    }

    fn check(&self, result: &[f64], part: Part) -> Result<()> {
        ensure!(
            result.len() == 2 * N * part.rows,
            "{} probabilities of {} games",
            result.len(),
            part.rows
        );
        let bound = Bound::exact().or_absolute(BOUND);
        compare(result, &self.truth[..result.len()], &bound)?;
        Ok(())
    }
}

/// What is learnt by: S0's rule in the textbook's order.
fn textbook() -> Dynamics {
    let dynamics = Dynamics::regret_matching().updates(Updates::Simultaneous);
    dynamics.iterations(STEPS as u64)
}

/// Shows S0's game, where `average` is what learning in it came to.
fn figure(average: &[f64]) -> Result<Figure> {
    let mut learning = Textbook::new(CRASH);
    let game = MatrixGame::zero_sum(arr2(&CRASH))?;
    let dynamics = Dynamics::default();
    let mut run = Run::new(&game, &dynamics)?;
    let [mut played, mut averaged] = [0, 1].map(|_| [vec![], vec![]]);
    let (mut last, mut total) = (vec![0.0; N], 0.0);
    for step in 1..=STEPS {
        played[0].push(on_simplex(&learning.strategies[0]));
        learning.advance(1);
        averaged[0].push(on_simplex(&learning.average()[0]));
        run.advance(1);
        let average = &run.average()[0];
        averaged[1].push(on_simplex(average));
        // What was played is what the weighted sum grew by.
        let weight = (step as f64).powf(dynamics.average);
        let pairs = average.iter().zip(&last);
        let strategy = pairs.map(|(now, last)| now + total * (now - last) / weight);
        played[1].push(on_simplex(&strategy.collect::<Vec<_>>()));
        (last, total) = (average.clone(), total + weight);
    }
    let panel = |title: &str, paths: [Vec<(f64, f64)>; 2]| {
        let names = ["regret matching", "predictive RM+, alternating, t²"];
        let lines = names.into_iter().zip(paths);
        let lines = lines.map(|(name, path)| Line::through(name, path));
        Panel {
            x: title.to_owned(),
            is_map: true,
            points: places(),
            lines: lines.chain([edges()]).collect(),
            ..Panel::default()
        }
    };
    Ok(Figure {
        caption: format!(
            "Rock-paper-scissors with crash, {STEPS} iterations: the rows' strategies as points of a triangle whose corners are \
             the actions, and the equilibrium as the dot inside. Left what is played, right the averages; that of regret \
             matching ends at {:.3}, {:.3}, {:.3}.",
            average[0], average[1], average[2]
        ),
        panels: vec![panel("played", played), panel("average", averaged)],
    })
}

/// Gives the place of a strategy in a triangle of sides 1.
fn on_simplex(strategy: &[f64]) -> (f64, f64) {
    let height = 0.75_f64.sqrt();
    (strategy[2] + 0.5 * strategy[1], height * strategy[1])
}

fn places() -> Vec<Point> {
    let named = [
        ("rock", [1.0, 0.0, 0.0]),
        ("paper", [0.0, 1.0, 0.0]),
        ("scissors", [0.0, 0.0, 1.0]),
        ("", [0.25, 0.5, 0.25]),
    ];
    named
        .map(|(name, strategy)| Point::new(name, on_simplex(&strategy)))
        .into()
}

fn edges() -> Line {
    let corners = [
        [1.0, 0.0, 0.0],
        [0.0, 1.0, 0.0],
        [0.0, 0.0, 1.0],
        [1.0, 0.0, 0.0],
    ];
    Line::through("", corners.map(|corner| on_simplex(&corner))).as_reference()
}

impl Problem for Games {
    fn workload<'a>(&'a self, _gpus: &'a [Gpu]) -> Workload<'a> {
        let n_games = self.batch.gains().dim().0;
        let few = Part {
            rows: N_FEW.min(n_games),
            of: n_games,
        };
        let one_thread = ThreadPoolBuilder::new().num_threads(1).build();
        let mut jobs = Job::each(
            &["open_spiel"],
            script!("batch_games.py"),
            &[
                ("games", few.rows),
                ("rows", N),
                ("cols", N),
                ("steps", STEPS),
            ],
            &[("gains", &self.gains[..N * N * few.rows])],
        );
        jobs.iter_mut().for_each(|job| job.part = Some(few));
        Workload {
            name: "batch-games",
            source: "S0",
            size: size(n_games),
            whole: self.extent(),
            n_losses: 0,
            figure: Some(Box::new(|result| figure(f64::of(result)?))),
            rungs: vec![
                self.rung("loops", |out| {
                    self.learn(out);
                    Ok(())
                }),
                self.rung("host", move |out| match &one_thread {
                    Ok(pool) => pool.install(|| self.solve(out)),
                    Err(error) => anyhow::bail!("no thread: {error}"),
                }),
                self.rung("threads", |out| self.solve(out)),
            ],
            rivals: jobs,
            left_out: Vec::new(),
            check: Box::new(|result, part| self.check(f64::of(result)?, part)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensor_core::compare::assert_close;

    #[test]
    fn the_oracle_follows_the_reference() {
        let reference: serde_json::Value = serde_json::from_str(include_str!(
            "../../../crates/games/testdata/games-reference.json"
        ))
        .unwrap();
        let traces = reference["rps_crash_traces"].as_array().unwrap();
        let is_ours =
            |trace: &&serde_json::Value| trace["variant"] == "textbook_rm_simultaneous_uniform";
        let trace = traces.iter().find(is_ours).unwrap()["trace"]
            .as_array()
            .unwrap();
        let mut learning = Textbook::new(CRASH);
        for row in trace
            .iter()
            .filter(|row| row["iteration"].as_u64() <= Some(1000))
        {
            while Some(u64::from(learning.iteration)) < row["iteration"].as_u64() {
                learning.iterate();
            }
            for (player, key) in ["row", "col"].into_iter().enumerate() {
                let expected = row[key].as_array().unwrap();
                let expected: Vec<f64> = expected.iter().filter_map(|p| p.as_f64()).collect();
                let bound = Bound::exact().or_absolute(1e-12);
                assert_close(learning.average()[player], expected, bound);
            }
        }
    }

    #[test]
    fn the_batch_is_right_and_a_changed_game_is_not() {
        let games = Games::new(40).unwrap();
        let mut out = vec![0.0; games.truth.len()];
        games.solve(&mut out).unwrap();
        assert!(games.check(&out, Part::whole(40)).is_ok());
        let few = Part { rows: 3, of: 40 };
        assert!(games.check(&out[..18], few).is_ok());
        assert!(games.check(&out, few).is_err());
        out[7] += 2e-5;
        assert!(games.check(&out, Part::whole(40)).is_err());
    }
}
