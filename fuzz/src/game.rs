//! Games of all kinds with hostile payoffs, and their solvers.
//!
//! Method: the input chooses a matrix game, a bimatrix game, a normal form or a tree, with payoffs
//! that may be NaN, infinite, huge or tiny, and arrays that may not fit. A game that is accepted
//! must be the same after it is written and read again. A few iterations of any configuration must
//! end in probabilities, and NashConv must not be negative beyond its rounding error. Proofs of
//! tiny games, within a short deadline, are checked in fractions.
//! Limits: games of at most 4 × 4 cells, 3 players, or 24 nodes.

use std::time::Duration;

use games::exact::{self, Dominance, Objective, Prover};
use games::extensive::{CompiledGame, Tree, TreeBuilder};
use games::files;
use games::ndarray::{Array2, ArrayD};
use games::{
    Bimatrix, Discount, Error, Game, MatrixGame, NormalForm, Profile, Rational, Rule, SolverConfig,
    StrategicGame, Updates, best_response, nash_conv, solve,
};

use crate::sample;
use crate::source::Source;

/// Most actions of a player of a strategic game.
const MAX_ACTIONS: usize = 4;
/// Most nodes of a tree.
const MAX_NODES: usize = 24;
/// Most iterations of a solver.
const MAX_ITERATIONS: usize = 8;
/// Largest absolute value of a payoff that every game accepts.
const MAX_PAYOFF: f64 = 1e150;
/// Time limit of a proof.
const PROOF_TIME: Duration = Duration::from_millis(2);
/// Time limit of a proof of an input that has all checks. It is an error to reach it.
const LONG_PROOF_TIME: Duration = Duration::from_secs(10);
/// Number of inputs of which one has proofs. A proof takes up to `PROOF_TIME`.
const PROOFS: u64 = 32;
/// Tolerance of the sum of the probabilities of a strategy.
const SUM_TOLERANCE: f64 = 1e-9;

/// Builds a game and checks its files and solvers.
///
/// # Panics
/// On a fault of the code under test.
pub fn run(bytes: &[u8]) {
    let is_proved = sample::is_drawn(bytes, PROOFS);
    let mut source = Source::new(bytes);
    match source.below(8) {
        0..3 => matrix(&mut source, is_proved),
        3..5 => bimatrix(&mut source, is_proved),
        5 => normal_form(&mut source, is_proved),
        _ => tree(&mut source, is_proved),
    }
}

fn matrix(source: &mut Source<'_>, is_proved: bool) {
    let payoffs = payoffs(source);
    let is_valid = is_valid(payoffs.iter(), payoffs.shape());
    let game = match MatrixGame::zero_sum(payoffs) {
        Ok(game) => game,
        Err(error) => return check_error(&error, is_valid),
    };
    assert!(is_valid);
    check_strategic(&game);
    learn(source, &game);
    if !is_proved {
        return;
    }
    match prover().exact(&game) {
        Ok(solution) => {
            assert!(!solution.to_string().is_empty());
            let [rows, cols] = &solution.strategies;
            for row in 0..game.n_rows() {
                let gain: Rational = (0..game.n_cols())
                    .map(|col| game.payoff(0, &[row, col]) * &cols[col])
                    .sum();
                assert!(gain <= solution.value, "row {row} gains: {solution}");
            }
            for col in 0..game.n_cols() {
                let gain: Rational = (0..game.n_rows())
                    .map(|row| game.payoff(0, &[row, col]) * &rows[row])
                    .sum();
                assert!(gain >= solution.value, "column {col} gains: {solution}");
            }
        }
        Err(error) => check_unproved(&error),
    }
}

fn bimatrix(source: &mut Source<'_>, is_proved: bool) {
    let (a, b) = (payoffs(source), payoffs(source));
    let is_valid = a.shape() == b.shape() && is_valid(a.iter().chain(&b), a.shape());
    let game = match Bimatrix::new(a, b) {
        Ok(game) => game,
        Err(error) => return check_error(&error, is_valid),
    };
    assert!(is_valid);
    check_strategic(&game);
    learn(source, &game);
    if !is_proved {
        return;
    }
    let found = match source.below(4) {
        0 => prover().lemke_howson_all(&game),
        1 => prover().all_equilibria(&game),
        _ => {
            let label = source.below(2 * MAX_ACTIONS + 1);
            prover().lemke_howson(&game, label).map(|found| vec![found])
        }
    };
    match found {
        Ok(found) => {
            assert!(!found.is_empty(), "every game has an equilibrium");
            for equilibrium in &found {
                exact::verify(&game, equilibrium).expect("an equilibrium can be verified");
            }
        }
        Err(error) => check_unproved(&error),
    }
}

fn normal_form(source: &mut Source<'_>, is_proved: bool) {
    let n_players = source.below(4);
    let n_tables = match source.byte() {
        0..8 => source.below(4),
        _ => n_players,
    };
    let shape = shape(source, n_players);
    let mut is_valid = n_tables == n_players && n_players > 0;
    let mut tables = vec![];
    for _ in 0..n_tables {
        let shape = match source.byte() {
            0..8 => self::shape(source, n_players),
            _ => shape.clone(),
        };
        let len = shape.iter().product();
        let numbers: Vec<f64> = (0..len).map(|_| source.hostile()).collect();
        is_valid &= self::is_valid(numbers.iter(), &shape);
        is_valid &= tables
            .first()
            .is_none_or(|first: &ArrayD<f64>| first.shape() == shape);
        let table = ArrayD::from_shape_vec(shape, numbers);
        tables.push(table.expect("there is a number for each cell"));
    }
    let game = match NormalForm::new(n_players, tables) {
        Ok(game) => game,
        Err(error) => return check_error(&error, is_valid),
    };
    assert!(is_valid);
    check_strategic(&game);
    let written = files::read_nfg(files::write_nfg(&game));
    assert_eq!(written.ok(), Some(game.clone()));
    learn(source, &game);
    if !is_proved {
        return;
    }
    match source.bool() {
        true => {
            let found = prover().correlated_equilibrium(&game, &Objective::Welfare);
            match found {
                Ok(found) => {
                    let sum: Rational = found.distribution.iter().sum();
                    assert_eq!(sum, Rational::from_integer(1.into()));
                }
                Err(error) => check_unproved(&error),
            }
        }
        false => {
            let found = prover().eliminate_dominated(&game, Dominance::Strict);
            match found {
                Ok(found) => assert!(found.surviving.iter().all(|actions| !actions.is_empty())),
                Err(error) => check_unproved(&error),
            }
        }
    }
}

fn tree(source: &mut Source<'_>, is_proved: bool) {
    let Some(tree) = built(source) else {
        return;
    };
    let text = files::write_efg(&tree);
    let again = files::read_efg(&text).expect("a written tree can be read");
    // Sets are numbered in the order of the file, in which the second tree is.
    let text = files::write_efg(&again);
    assert_eq!(files::read_efg(text).ok(), Some(again));
    match CompiledGame::from_tree(&tree) {
        Ok(game) => learn::<CompiledGame>(source, &game),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if !is_proved {
        return;
    }
    match prover().exact(&tree) {
        Ok(solution) => assert!(!solution.to_string().is_empty()),
        Err(error) => check_unproved(&error),
    }
}

/// Builds a tree whose nodes the input chooses; `None` if it is not valid.
fn built(source: &mut Source<'_>) -> Option<Tree> {
    let n_players = source.below(4);
    let names = (0..n_players).map(|player| format!("{player}\"\\\n"));
    let mut builder = TreeBuilder::new("t\"".to_owned(), names.collect());
    let n_sets = source.below(6);
    let mut n_actions = vec![];
    for _ in 0..n_sets {
        let player = source.below(n_players + 1);
        let actions: Vec<String> = (0..source.below(4)).map(|at| at.to_string()).collect();
        let len = actions.len();
        match builder.information_set(player, "s", actions) {
            Ok(_) => n_actions.push(len),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    for node in 0..MAX_NODES {
        let is_end = node + builder.n_missing() >= MAX_NODES;
        let added = match source.byte() {
            byte @ 0..96 if !is_end => {
                let weights: Vec<f64> = (0..byte % 4).map(|_| source.hostile()).collect();
                builder.chance(&weights, || {
                    (0..weights.len()).map(|at| at.to_string()).collect()
                })
            }
            byte @ 96..200 if !is_end => {
                let set = usize::from(byte) % (n_actions.len() + 1);
                let n_actions = n_actions.get(set).copied().unwrap_or(1);
                let set = u32::try_from(set).expect("there are few sets");
                builder.decision(set, n_actions)
            }
            byte => {
                let n_payoffs = if byte == 255 { 1 } else { n_players };
                let payoffs: Vec<f64> = (0..n_payoffs).map(|_| source.hostile()).collect();
                builder.terminal(&payoffs)
            }
        };
        if let Err(error) = added {
            assert!(!error.to_string().is_empty());
        }
        if builder.n_missing() == 0 {
            break;
        }
    }
    match builder.finish() {
        Ok(tree) => Some(tree),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            None
        }
    }
}

/// Returns the numbers of actions of some players, rarely 0.
fn shape(source: &mut Source<'_>, n_players: usize) -> Vec<usize> {
    let actions = |source: &mut Source<'_>| match source.byte() {
        0..8 => 0,
        byte => 1 + usize::from(byte) % (MAX_ACTIONS - 1),
    };
    (0..n_players).map(|_| actions(source)).collect()
}

fn payoffs(source: &mut Source<'_>) -> Array2<f64> {
    let shape = shape(source, 2);
    let numbers = (0..shape[0] * shape[1]).map(|_| source.hostile());
    let payoffs = Array2::from_shape_vec((shape[0], shape[1]), numbers.collect());
    payoffs.expect("there is a number for each cell")
}

/// Returns whether a game with these payoffs has to be accepted.
fn is_valid<'a>(mut payoffs: impl Iterator<Item = &'a f64>, shape: &[usize]) -> bool {
    !shape.contains(&0) && payoffs.all(|payoff| payoff.abs() <= MAX_PAYOFF)
}

fn check_error(error: &Error, is_valid: bool) {
    assert!(!error.to_string().is_empty());
    assert!(!is_valid, "a valid game is rejected: {error}");
}

fn prover() -> Prover<'static> {
    Prover::new().time_limit(match sample::checks_all() {
        true => LONG_PROOF_TIME,
        false => PROOF_TIME,
    })
}

/// Checks the error of a proof, which must have enough time if all checks are required.
fn check_unproved(error: &Error) {
    let is_late = matches!(error, Error::DeadlineReached { .. });
    assert!(!(is_late && sample::checks_all()), "{error}");
    assert!(!error.to_string().is_empty());
}

/// Checks that a written game has the same payoffs.
fn check_strategic(game: &impl StrategicGame) {
    let again = files::read_nfg(files::write_nfg(game)).expect("a written game can be read");
    assert_eq!(again.shape(), game.shape());
    let n_players = game.shape().len();
    let mut cell = vec![0; n_players];
    loop {
        for player in 0..n_players {
            assert_eq!(again.payoff(player, &cell), game.payoff(player, &cell));
        }
        // The next cell, in row-major order.
        let Some(at) = (0..n_players).rfind(|&at| cell[at] + 1 < game.shape()[at]) else {
            return;
        };
        cell[at] += 1;
        cell[at + 1..].fill(0);
    }
}

/// Chooses a configuration, mostly a valid configuration.
fn config(source: &mut Source<'_>, range: f64) -> SolverConfig {
    let config = match source.byte() % 16 {
        0 => SolverConfig::regret_matching(),
        1 => SolverConfig::regret_matching_plus(),
        2 => SolverConfig::predictive_regret_matching(),
        3 => SolverConfig::predictive_regret_matching_plus(),
        4 => SolverConfig::linear(),
        5 => SolverConfig::hedge(),
        6 => SolverConfig::fictitious_play(),
        7 => SolverConfig::replicator(source.hostile()),
        8 => SolverConfig::replicator(1.0 / range),
        9 => SolverConfig::discounted(source.hostile(), source.hostile(), source.hostile()),
        10 => SolverConfig {
            rule: Rule::Hedge {
                rate: Some(source.hostile()),
            },
            ..SolverConfig::hedge()
        },
        11 => SolverConfig {
            rule: Rule::RegretMatching {
                discount: Discount::Powers {
                    alpha: source.dyadic(),
                    beta: source.dyadic(),
                },
                predictive: true,
            },
            ..SolverConfig::default()
        },
        _ => SolverConfig::default(),
    };
    let config = match source.byte() {
        0..32 => config.average(source.hostile()),
        32..64 => config.tolerance(source.hostile()),
        64..96 => config.without_polish(),
        _ => config,
    };
    let updates = match source.bool() {
        true => Updates::Simultaneous,
        false => Updates::Alternating,
    };
    let iterations = source.below(MAX_ITERATIONS + 1);
    config.updates(updates).iterations(iterations as u64)
}

/// Runs a solver, and evaluates its profile and a hostile one.
fn learn<G: Game>(source: &mut Source<'_>, game: &G) {
    let config = config(source, game.range());
    match solve(game, &config) {
        Ok(solution) => {
            check_profile(game, &solution.strategies);
            assert!(solution.nash_conv >= -solution.rounding, "{solution:?}");
            assert!(solution.rounding >= 0.0, "{solution:?}");
            assert!(solution.iterations <= MAX_ITERATIONS as u64);
            assert!(
                solution.values.iter().all(|value| value.is_finite()),
                "{solution:?}"
            );
            let found = nash_conv(game, &solution.strategies);
            let found = found.expect("a solution is a profile");
            assert!(
                (found - solution.nash_conv).abs() <= 2.0 * solution.rounding,
                "{solution:?}"
            );
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    let hostile: Profile = (0..game.n_players())
        .map(|player| {
            let n: usize = game.choices(player).iter().sum();
            (0..n).map(|_| source.hostile()).collect()
        })
        .collect();
    match best_response(game, &hostile) {
        Ok(responses) => {
            check_profile(game, &responses.strategies);
            let is_gain = |gain: &f64| *gain >= 0.0;
            assert!(responses.gains.iter().all(is_gain), "{responses:?}");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Panics unless a profile has a probability distribution for each choice.
fn check_profile<G: Game>(game: &G, profile: &[Vec<f64>]) {
    assert_eq!(profile.len(), game.n_players());
    for (player, strategies) in profile.iter().enumerate() {
        let mut rest = &strategies[..];
        for n_actions in game.choices(player) {
            let (strategy, after) = rest.split_at(n_actions);
            rest = after;
            let sum: f64 = strategy.iter().sum();
            let is_distribution =
                strategy.iter().all(|&p| p >= 0.0) && (sum - 1.0).abs() <= SUM_TOLERANCE;
            assert!(is_distribution, "player {player}: {strategy:?}");
        }
        assert!(rest.is_empty());
    }
}
