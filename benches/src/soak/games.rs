//! Batches of random zero-sum games, solved by random configurations.
//!
//! Method: a step draws a shape, payoffs (some of them whole numbers, for ties, some large or with
//! a large constant), a rule, an order of updates and a number of iterations, and solves the batch.
//! Of every game it checks that
//! - both strategies are probability distributions,
//! - NashConv is that of [`best_response`], within the bounds on rounding of both,
//! - the value is that of the best response, within the rounding of a sum over the actions,
//! - NashConv is within the bound of the rule, for regret matching with simultaneous updates and a
//!   uniform average: the sum over the players of `range √(actions / iterations)`.
//!
//! Of some games it checks that the value is within NashConv of the exact value, and that the game
//! alone has the bits that it has in the batch.
//! Source: of the bound, Hart and Mas-Colell 2000, "A Simple Adaptive Procedure Leading to
//! Correlated Equilibrium"; for clipped regrets Tammelin, Burch, Johanson and Bowling 2015,
//! "Solving Heads-up Limit Texas Hold'em".

use anyhow::{Context as _, Result, ensure};
use games::ndarray::{Array3, Axis};
use games::{
    Batch, BatchSolution, Discount, Game as _, MatrixGame, Number as _, Rule, SolverConfig,
    Updates, best_response, exact,
};

use super::draws::Draws;
use super::{Counts, Job, Worker};

/// Largest number of games of a batch: several groups of SIMD lanes, and a group that is not full.
const MOST_GAMES: usize = 200;
/// Largest number of rows and of columns.
const MOST_ACTIONS: usize = 9;
/// Largest number of iterations.
const MOST_ITERATIONS: usize = 400;
/// Number of games of a batch that are solved exactly and alone.
const N_EXACT: usize = 4;
/// Tolerance of the sum of probabilities.
const SUM_TOLERANCE: f64 = 1e-9;
/// Rounding errors per action of a value, as a share of the largest payoff.
const VALUE_ROUNDING: f64 = 4.0 * f64::EPSILON;

/// Returns the job.
pub(super) fn jobs() -> Vec<Job> {
    vec![Job::new("games", || Ok(Games))]
}

/// The state of the job: the solver has none.
struct Games;

impl Worker for Games {
    fn step(&mut self, seed: u64, counts: &mut Counts) -> Result<()> {
        let mut draws = Draws::new(seed);
        let gains = gains(&mut draws);
        let range = range(&gains);
        let config = config(&mut draws, range);
        let shape = gains.dim();
        let described = || format!("batch of {shape:?}, {config:?}");
        let batch = Batch::zero_sum(gains).with_context(described)?;
        let solution = batch.solve(&config).with_context(described)?;
        for game in 0..shape.0 {
            check(&batch, &solution, game, &config)
                .with_context(|| format!("game {game} of a {}", described()))?;
        }
        for _ in 0..N_EXACT.min(shape.0) {
            let game = draws.integer(0, shape.0 - 1);
            check_exactly(&batch, &solution, game, &config)
                .with_context(|| format!("game {game} of a {}", described()))?;
            counts.add("exact solutions", 1);
        }
        counts.add("games", shape.0);
        Ok(())
    }
}

/// Draws the payoffs of a batch.
fn gains(draws: &mut Draws) -> Array3<f64> {
    let n_games = draws.integer(1, MOST_GAMES);
    let [n_rows, n_cols] = [(); 2].map(|()| draws.integer(1, MOST_ACTIONS));
    let is_whole = draws.happens(0.3);
    let scale = draws.choice(&[1e-6, 1.0, 1.0, 1.0, 1e9]);
    let constant = draws.choice(&[0.0, 0.0, 0.0, 1e3]);
    Array3::from_shape_simple_fn((n_games, n_rows, n_cols), || {
        let gain = draws.between(-4.0, 4.0);
        scale * (if is_whole { gain.round() } else { gain } + constant)
    })
}

/// Draws a configuration for payoffs of a range.
fn config(draws: &mut Draws, range: f64) -> SolverConfig {
    // A rate and a step in units of 1 / payoff; games of equal payoffs have any.
    let unit = if range > 0.0 { 1.0 / range } else { 1.0 };
    let share = draws.between(0.05, 0.99);
    let config = match draws.integer(0, 8) {
        0 => SolverConfig::regret_matching(),
        1 => SolverConfig::regret_matching_plus(),
        2 => SolverConfig::predictive_regret_matching(),
        3 => SolverConfig::predictive_regret_matching_plus(),
        4 => SolverConfig::discounted(1.5, 0.0, 2.0),
        5 => SolverConfig::linear(),
        6 => SolverConfig::fictitious_play(),
        7 => SolverConfig::replicator(share * unit),
        _ => SolverConfig {
            rule: Rule::Hedge {
                rate: Some(share * unit),
            },
            ..SolverConfig::hedge()
        },
    };
    let config = match draws.integer(0, 2) {
        0 => config.updates(Updates::Simultaneous).average(0.0),
        1 => config.updates(Updates::Simultaneous),
        _ => config.updates(Updates::Alternating),
    };
    config.iterations(draws.integer(1, MOST_ITERATIONS) as u64)
}

/// Returns the largest range of the payoffs of a game.
fn range(gains: &Array3<f64>) -> f64 {
    let of_game = |game: games::ndarray::ArrayView2<'_, f64>| {
        let ends = game
            .iter()
            .fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], &gain| {
                [low.min(gain), high.max(gain)]
            });
        ends[1] - ends[0]
    };
    gains.axis_iter(Axis(0)).map(of_game).fold(0.0, f64::max)
}

/// Returns a game of a batch.
fn game_of(batch: &Batch, game: usize) -> Result<MatrixGame> {
    let gains = batch.row_payoffs().index_axis(Axis(0), game);
    Ok(MatrixGame::zero_sum(gains.to_owned())?)
}

/// Returns the largest absolute payoff of a game.
fn largest(game: &MatrixGame) -> f64 {
    let payoffs = game.row_payoffs().iter();
    payoffs.fold(0.0, |largest, payoff| payoff.abs().max(largest))
}

/// Checks the strategies of a game, and their evaluation.
fn check(batch: &Batch, solution: &BatchSolution, at: usize, config: &SolverConfig) -> Result<()> {
    let game = game_of(batch, at)?;
    let profile = vec![
        solution.rows.row(at).to_vec(),
        solution.cols.row(at).to_vec(),
    ];
    for strategy in &profile {
        let sum: f64 = strategy.iter().sum();
        let is_distribution =
            strategy.iter().all(|&p| p >= 0.0) && (sum - 1.0).abs() <= SUM_TOLERANCE;
        ensure!(
            is_distribution,
            "{strategy:?} is not a probability distribution"
        );
    }
    let response = best_response(&game, &profile)?;
    let (found, rounding) = (solution.nash_conv[at], solution.rounding[at]);
    let expected = response.nash_conv();
    let tolerance = rounding + response.rounding;
    ensure!(
        (found - expected).abs() <= tolerance,
        "NashConv is {found} (expected {expected} within {tolerance})"
    );
    let (value, expected) = (solution.values[at], response.values[0]);
    let n_actions = (game.n_rows() + game.n_cols()) as f64;
    let tolerance = VALUE_ROUNDING * n_actions * largest(&game);
    ensure!(
        (value - expected).abs() <= tolerance,
        "the value is {value} (expected {expected} within {tolerance})"
    );
    if let Some(bound) = nash_conv_bound(&game, config) {
        ensure!(
            found <= bound + rounding,
            "NashConv is {found} (expected at most {bound} by the rule's bound)"
        );
    }
    Ok(())
}

/// Returns the bound on NashConv of regret matching, with simultaneous updates and a uniform
/// average; `None` for all other configurations.
fn nash_conv_bound(game: &MatrixGame, config: &SolverConfig) -> Option<f64> {
    let is_bounded = matches!(
        config.rule,
        Rule::RegretMatching {
            discount: Discount::None | Discount::Clip,
            predictive: false,
        }
    );
    let is_uniform = config.updates == Updates::Simultaneous && config.average == 0.0;
    let n_iterations = config.stop.iterations as f64;
    let regret = |n_actions: usize| game.range() * (n_actions as f64 / n_iterations).sqrt();
    (is_bounded && is_uniform).then(|| regret(game.n_rows()) + regret(game.n_cols()))
}

/// Checks the value of a game against the exact one, and the game alone against the batch.
fn check_exactly(
    batch: &Batch,
    solution: &BatchSolution,
    at: usize,
    config: &SolverConfig,
) -> Result<()> {
    let game = game_of(batch, at)?;
    let truth = exact(&game)?.value.nearest();
    let value = solution.values[at];
    let n_actions = (game.n_rows() + game.n_cols()) as f64;
    let rounding = VALUE_ROUNDING * n_actions * largest(&game);
    let tolerance = solution.nash_conv[at] + solution.rounding[at] + rounding;
    ensure!(
        (value - truth).abs() <= tolerance,
        "the value is {value} (exact {truth}; NashConv allows {tolerance})"
    );
    let payoffs = batch.row_payoffs();
    let alone = payoffs.slice_axis(Axis(0), (at..at + 1).into()).to_owned();
    let alone = Batch::zero_sum(alone)?.solve(config)?;
    let is_equal = alone.rows.row(0) == solution.rows.row(at)
        && alone.cols.row(0) == solution.cols.row(at)
        && alone.values[0].to_bits() == value.to_bits();
    ensure!(
        is_equal,
        "the game alone has other strategies than in the batch"
    );
    Ok(())
}
