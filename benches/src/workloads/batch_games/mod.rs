//! Regret matching in many small games, one of which is the blog note's example.
//!
//! Role: the workload `batch-games`. Variants: `loops`, the textbook algorithm; `host`, a batch on
//! one thread; `threads`, on all threads; `wgsl`, in f32 on a GPU. The rival is OpenSpiel, which
//! learns in Python one game at a time and therefore only does a few of the games.
//! Method: both players update simultaneously from mixed strategies, and the average weights all
//! iterations equally.
//! Shapes: payoffs (`gains`) are `[games, 3, 3]`, f32 numbers converted to f64 for the computation;
//! the result is the average strategies of the row and the column player of each game.
//! Accuracy: in f64 every probability is within 1e-5 of the oracle's. In f32 some paths diverge
//! from the oracle's: if all regrets of a player are nearly zero at the same time, the next
//! strategy depends on a rounding. In f32, 90 % of the games, and the note's example, must be
//! within this tolerance, and NashConv of no game may exceed the oracle's by more than `WORSE`.
//! Source: the blog note "Approximate Nash Equilibrium by Regret Matching"; Hart and Mas-Colell
//! 2000.

mod figure;
mod textbook;

use super::matrix_game::nash_conv;
use anyhow::{Context, Result, ensure};
use games::ndarray::Array3;
use games::{Batch, SolverConfig, Updates, gpu};
use gpu_wgsl::{Buffer, Gpu};
use harness::program::InputDistribution;
use harness::rivals::BaselineArguments;
use harness::script;
use harness::workload::{
    DeviceResult, Extent, Output, OutputElement, Portion, Problem, Task, Variant, Work, Workload,
};
use rayon::ThreadPoolBuilder;
use tensor_core::compare::{Tolerance, compare};

pub(crate) use textbook::Textbook;

/// Number of actions of each player.
const N: usize = 3;
/// Number of games.
const N_GAMES: usize = 100_000;
/// Number of games that the slow rival solves.
const N_FEW: usize = 5;
/// Iterations in each game, as in the note.
const STEPS: usize = 500;
/// Absolute tolerance of probabilities.
const BOUND: f64 = 1e-5;
/// Minimum share of the games in f32 whose probabilities are within [`BOUND`].
const LEAST_NEAR: f64 = 0.9;
/// Tolerance for the difference of the sum of a strategy in f32 from 1. An average accumulates
/// [`STEPS`] roundings; in a million random games the difference was at most 6.2e-6.
const ROUNDING: f64 = 1e-5;
/// Maximum difference by which NashConv in f32 may exceed the oracle's. In a million random games
/// the difference was at most 0.0098.
const WORSE: f64 = 0.02;
/// The note's example, rock-paper-scissors with crash; it is the first game, followed by random
/// ones.
pub(crate) const CRASH: [[f64; N]; N] = [[0.0, -1.0, 2.0], [1.0, 0.0, -1.0], [-2.0, 1.0, 0.0]];

/// Returns the task.
#[must_use]
pub fn task() -> Task {
    let size = format!("{N}x{N}x{N_GAMES}");
    Task::new("batch-games", "S0", size, || Games::new(N_GAMES))
}

/// The games with the expected average strategies.
#[derive(Debug)]
pub struct Games {
    gains: Vec<f32>,
    batch: Batch,
    truth: Vec<f64>,
}

/// Average strategies on a device, split into several buffers. A buffer has shape `[2 N, games]`,
/// with a row of probabilities for each action of the row player and then of the column player.
struct Averages(Vec<Buffer<f32>>);

impl DeviceResult for Averages {
    fn read(&self, gpu: &Gpu) -> Result<Output> {
        let mut averages = vec![];
        for part in &self.0 {
            let by_action = gpu.read(part)?;
            let n_games = by_action.len() / (2 * N);
            // Transpose from `[action, game]` to `[game, action]`.
            let places = (0..n_games).flat_map(|game| (0..2 * N).map(move |item| (item, game)));
            averages.extend(places.map(|(item, game)| by_action[item * n_games + game]));
        }
        Ok(Output::F32(averages))
    }
}

impl Games {
    /// Draws the games, and computes the expected strategies by the textbook algorithm.
    ///
    /// # Errors
    /// The batch is invalid, which does not occur for these games.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "small integers are exact in f32"
    )]
    pub fn new(n_games: usize) -> Result<Self> {
        let mut gains = InputDistribution::Centred.draw(N * N * n_games, 0);
        for (gain, crash) in gains.iter_mut().zip(CRASH.as_flattened()) {
            // Replaces the first game by the note's example.
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

    /// Writes the average strategies of each game to `out`, computed by the textbook algorithm in
    /// one game after the other.
    fn learn(&self, out: &mut [f64]) {
        let games = self.batch.row_payoffs().outer_iter();
        for (game, out) in games.zip(out.chunks_exact_mut(2 * N)) {
            let gains = std::array::from_fn(|row| std::array::from_fn(|col| game[[row, col]]));
            let mut learning = Textbook::new(gains);
            learning.advance(STEPS);
            out.copy_from_slice(learning.average().as_flattened());
        }
    }

    fn extent(&self) -> Extent {
        let n_games = self.batch.row_payoffs().dim().0;
        Extent {
            part: Portion::whole(n_games),
            work: Work::Games(n_games as f64),
            bytes: ((N * N + 2 * N) * n_games * size_of::<f64>()) as f64,
        }
    }

    fn variant<'a>(
        &self,
        executor: &'static str,
        work: impl FnMut(&mut Vec<f64>) -> Result<()> + 'a,
    ) -> Variant<'a> {
        Variant::on_cpu(executor, self.extent(), self.truth.len(), work)
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

    /// Returns the variant of a device, in f32.
    fn on_gpu<'a>(&'a self, gpu: &'a Gpu) -> Variant<'a> {
        let whole = self.extent();
        // Numbers in f32 are half as long as in f64.
        let extent = Extent {
            bytes: 0.5 * whole.bytes,
            ..whole
        };
        let variant = Variant::called_on_gpu(gpu, extent, || {
            let games = gpu::Games::upload(gpu, &self.batch)?;
            Ok(move || Ok(Averages(games.learn(&textbook())?)))
        });
        variant.with_note(format!(
            "in f32: at least {:.0} % of games, including the first one, are within {BOUND:e} of f64, and NashConv of none is \
             more than {WORSE} above that of f64",
            100.0 * LEAST_NEAR
        ))
    }

    fn check(&self, result: &Output, part: Portion) -> Result<()> {
        if let Output::F32(result) = result {
            return self.check_f32(result, part);
        }
        let result = f64::from_output(result)?;
        ensure_len(result.len(), part)?;
        compare(result, &self.truth[..result.len()], &tolerance())?;
        Ok(())
    }

    /// Checks a result in f32. The learning path of a game is allowed to diverge from the oracle's,
    /// provided that the resulting strategies are about as good.
    fn check_f32(&self, result: &[f32], part: Portion) -> Result<()> {
        ensure_len(result.len(), part)?;
        let truths = self.truth.chunks_exact(2 * N);
        let mut n_near = 0;
        for (game, (found, truth)) in result.chunks_exact(2 * N).zip(truths).enumerate() {
            match compare(found, truth, &tolerance()) {
                Ok(_) => n_near += 1,
                Err(mismatch) if game == 0 => return Err(mismatch).context("game 0"),
                Err(_) => (),
            }
            self.ensure_as_good(game, found, truth)
                .with_context(|| format!("game {game}"))?;
        }
        ensure!(
            n_near as f64 >= LEAST_NEAR * part.rows as f64,
            "{n_near} of {} games are within {BOUND:e} of the oracle (at least {LEAST_NEAR} of them must be)",
            part.rows
        );
        Ok(())
    }

    /// Returns an error if NashConv of the strategies found in a game exceeds that of the expected
    /// strategies by more than [`WORSE`].
    fn ensure_as_good(&self, game: usize, found: &[f32], truth: &[f64]) -> Result<()> {
        let mut strategies: Vec<f64> = found.iter().copied().map(f64::from).collect();
        for strategy in strategies.chunks_exact_mut(N) {
            let sum: f64 = strategy.iter().sum();
            ensure!(
                strategy.iter().all(|&p| p >= 0.0) && (sum - 1.0).abs() <= ROUNDING,
                "{strategy:?} is not a probability distribution"
            );
            strategy.iter_mut().for_each(|p| *p /= sum);
        }
        let gain = |row: usize, col: usize| f64::from(self.gains[(game * N + row) * N + col]);
        let [found, truth] = [&strategies[..], truth].map(|strategies| {
            let (rows, cols) = strategies.split_at(N);
            nash_conv(gain, rows, cols)
        });
        ensure!(
            found <= truth + WORSE,
            "NashConv is {found} (oracle: {truth}; at most {WORSE} more)"
        );
        Ok(())
    }
}

fn tolerance() -> Tolerance {
    Tolerance::exact().or_absolute(BOUND)
}

fn ensure_len(len: usize, part: Portion) -> Result<()> {
    ensure!(
        len == 2 * N * part.rows,
        "result has {len} probabilities (expected those of {} games)",
        part.rows
    );
    Ok(())
}

/// Returns the solver's configuration for regret matching, the note's rule, with the textbook's
/// simultaneous updates.
fn textbook() -> SolverConfig {
    let config = SolverConfig::regret_matching().updates(Updates::Simultaneous);
    config.iterations(STEPS as u64)
}

impl Problem for Games {
    fn workload<'a>(&'a self, gpus: &'a [Gpu]) -> Workload<'a> {
        let n_games = self.batch.row_payoffs().dim().0;
        let few = Portion {
            rows: N_FEW.min(n_games),
            of: n_games,
        };
        let one_thread = ThreadPoolBuilder::new().num_threads(1).build();
        let mut jobs = BaselineArguments::each(
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
        let on_cpu = [
            self.variant("loops", |out| {
                self.learn(out);
                Ok(())
            }),
            self.variant("host", move |out| match &one_thread {
                Ok(pool) => pool.install(|| self.solve(out)),
                Err(error) => anyhow::bail!("cannot start a thread: {error}"),
            }),
            self.variant("threads", |out| self.solve(out)),
        ];
        Workload::new(self.extent(), |result, part| self.check(result, part))
            .with_variants(on_cpu)
            .with_variants(gpus.iter().map(|gpu| self.on_gpu(gpu)))
            .with_figure(figure::figure)
            .with_rivals(jobs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpu_wgsl::check::every_adapter;

    #[test]
    fn the_batch_is_right_and_a_changed_game_is_not() {
        let games = Games::new(40).unwrap();
        let check = |out: &[f64], part| games.check(&Output::F64(out.to_vec()), part);
        let mut out = vec![0.0; games.truth.len()];
        games.solve(&mut out).unwrap();
        assert!(check(&out, Portion::whole(40)).is_ok());
        let few = Portion { rows: 3, of: 40 };
        assert!(check(&out[..18], few).is_ok());
        assert!(check(&out, few).is_err());
        out[7] += 2e-5;
        assert!(check(&out, Portion::whole(40)).is_err());
    }

    /// Number of games of the tests in f32.
    const N_TESTED: usize = 200;

    /// Returns the strategies of a batch learnt by another configuration, in the form of a device's
    /// result.
    fn learnt(games: &Games, config: &SolverConfig) -> Vec<f32> {
        let solution = games.batch.solve(config).unwrap();
        let strategies = solution.rows.outer_iter().zip(solution.cols.outer_iter());
        let of_game = strategies.flat_map(|(row, col)| [row.to_vec(), col.to_vec()].concat());
        rounded(of_game)
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "results of a device are rounded to f32"
    )]
    fn rounded(numbers: impl IntoIterator<Item = f64>) -> Vec<f32> {
        numbers.into_iter().map(|number| number as f32).collect()
    }

    /// Moves a probability larger than the tolerance from the row player's most likely action to
    /// the next action.
    fn push(strategies: &mut [f32]) {
        let rows = &mut strategies[..N];
        let likeliest = (0..N).max_by(|&a, &b| rows[a].total_cmp(&rows[b])).unwrap();
        rows[likeliest] -= 3e-5;
        rows[(likeliest + 1) % N] += 3e-5;
    }

    /// Returns the error of the check of f32 results as text; empty if the check passes.
    fn verdict(games: &Games, result: Vec<f32>) -> String {
        let checked = games.check(&Output::F32(result), Portion::whole(N_TESTED));
        checked.map_or_else(|error| format!("{error:#}"), |()| String::new())
    }

    #[test]
    fn learning_otherwise_is_rejected_in_f32() {
        let games = Games::new(N_TESTED).unwrap();
        let right = learnt(&games, &textbook());
        assert_eq!(verdict(&games, right.clone()), "");
        let swapped = right.chunks_exact(2 * N).flat_map(|game| {
            let (rows, cols) = game.split_at(N);
            [cols, rows].concat()
        });
        // Exchanging the players does not change the result of the first game, because this game is
        // symmetric. Every wrong result must therefore also be rejected with the right result of
        // the first game.
        for (other, result) in [
            (
                "an iteration less",
                learnt(&games, &textbook().iterations(STEPS as u64 - 1)),
            ),
            ("another average", learnt(&games, &textbook().average(1.0))),
            (
                "alternating",
                learnt(&games, &textbook().updates(Updates::Alternating)),
            ),
            ("swapped players", swapped.collect()),
        ] {
            assert_ne!(verdict(&games, result.clone()), "", "{other}");
            let but_first = [&right[..2 * N], &result[2 * N..]].concat();
            let said = verdict(&games, but_first);
            assert!(
                said.contains("games are within") || said.contains("NashConv"),
                "{other}: {said}"
            );
        }
    }

    #[test]
    fn in_f32_few_games_may_stray_a_little_and_none_far() {
        let games = Games::new(N_TESTED).unwrap();
        let right = rounded(games.truth.iter().copied());
        let pushed = |pushed: std::ops::Range<usize>| {
            let mut result = right.clone();
            let strayed = &mut result[2 * N * pushed.start..2 * N * pushed.end];
            strayed.chunks_exact_mut(2 * N).for_each(push);
            verdict(&games, result)
        };
        let n_tenth = N_TESTED / 10;
        assert_eq!(pushed(1..1 + n_tenth), "");
        assert!(pushed(1..2 + n_tenth).contains("games are within"));
        assert!(pushed(1..1 + n_tenth * 3 / 2).contains("games are within"));
        assert!(pushed(0..1).contains("game 0"));
        let last = |strategies: [f32; 2 * N]| {
            let mut result = right.clone();
            result[2 * N * (N_TESTED - 1)..].copy_from_slice(&strategies);
            verdict(&games, result)
        };
        // At most one pure profile per game is as good as the oracle's.
        let pure = |action: usize| std::array::from_fn(|at| f32::from(u8::from(at % N == action)));
        let n_refused = (0..N).filter(|&action| last(pure(action)).contains("NashConv"));
        assert!(n_refused.count() >= 2);
        let thirds = [1.0 / 3.0; 2 * N];
        for (at, wrong) in [(0, f32::NAN), (1, -1.0 / 3.0), (2, 0.0), (5, 0.3334)] {
            let mut strategies = thirds;
            strategies[at] = wrong;
            assert!(
                last(strategies).contains("not a probability distribution"),
                "{wrong}"
            );
        }
        assert!(verdict(&games, right[1..].to_vec()).contains("expected those of"));
    }

    #[test]
    fn devices_pass_the_check_and_fail_it_with_an_iteration_less() {
        const N_GAMES: usize = 2000;
        let games = Games::new(N_GAMES).unwrap();
        let gpus = every_adapter();
        let workload = games.workload(gpus);
        let figure = workload.figure.unwrap();
        let on_devices = workload
            .variants
            .into_iter()
            .filter(|variant| variant.executor == "wgsl");
        let mut n_run = 0;
        for (variant, gpu) in on_devices.zip(gpus) {
            assert_eq!(
                variant.adapter.map(|adapter| &adapter.name),
                Some(&gpu.adapter().name)
            );
            let mut contestant = (variant.start)().unwrap();
            contestant.run(1).unwrap();
            let result = contestant.result().unwrap();
            (workload.check)(&result, Portion::whole(N_GAMES)).unwrap();
            figure(&result).unwrap();
            let shorter = textbook().iterations(STEPS as u64 - 1);
            let uploaded = gpu::Games::upload(gpu, &games.batch).unwrap();
            let shorter = Averages(uploaded.learn(&shorter).unwrap())
                .read(gpu)
                .unwrap();
            (workload.check)(&shorter, Portion::whole(N_GAMES)).unwrap_err();
            n_run += 1;
        }
        assert_eq!(n_run, gpus.len());
    }
}
