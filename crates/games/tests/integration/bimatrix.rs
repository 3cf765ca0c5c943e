//! Equilibria of bimatrix games: reference solutions, degenerate games, and an oracle that works
//! without pivots.
#![expect(
    clippy::unwrap_used,
    reason = "a setup that fails is a test that fails"
)]

use crate::support;
use games::exact::{
    CorrelatedEquilibrium, Dominated, Equilibrium, MAX_LABELS, MatrixSolution, Objective,
    TreeSolution, all_equilibria, components, lemke_howson, lemke_howson_all, verify,
};
use games::extensive::{Chance, TreeBuilder};
use games::ndarray::{Array2, array};
use games::{Bimatrix, Error, MatrixGame, Number, Rational, StrategicGame, exact};
use num_rational::Ratio;
use num_traits::{One, Signed, Zero};
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use tensor_core::rng::Philox;

/// A fraction of 128-bit integers, in which [`oracle`] computes.
type Small = Ratio<i128>;

fn fraction(text: &str) -> Rational {
    text.parse().unwrap()
}

fn strategy(text: &str) -> Vec<Rational> {
    text.split_whitespace().map(fraction).collect()
}

/// Parses profiles from lines of both strategies, such as `1 0 | 1/2 1/2`.
fn profiles(lines: &[&str]) -> BTreeSet<[Vec<Rational>; 2]> {
    let profile = |line: &&str| {
        let (row, col) = line.split_once('|').unwrap();
        [strategy(row), strategy(col)]
    };
    let profiles: BTreeSet<_> = lines.iter().map(profile).collect();
    assert_eq!(profiles.len(), lines.len());
    profiles
}

fn found(game: &Bimatrix) -> BTreeSet<[Vec<Rational>; 2]> {
    let equilibria = all_equilibria(game).unwrap();
    let n_equilibria = equilibria.len();
    let profiles: BTreeSet<_> = equilibria.into_iter().map(|one| one.strategies).collect();
    assert_eq!(profiles.len(), n_equilibria, "an equilibrium came twice");
    profiles
}

/// Returns whether no player gains by another action, by the definition alone.
fn is_equilibrium(game: &Bimatrix, equilibrium: &Equilibrium) -> bool {
    let [x, y] = &equilibrium.strategies;
    let shape = game.shape();
    let sums = [x, y].map(|strategy| strategy.iter().sum::<Rational>());
    let are_distributions = sums.iter().all(Rational::is_one)
        && x.iter()
            .chain(y)
            .all(|probability| !probability.is_negative());
    let value = |player: usize, action: usize| -> Rational {
        let opponent = &equilibrium.strategies[1 - player];
        let terms = opponent.iter().enumerate().filter(|(_, p)| !p.is_zero());
        let cell = |other| {
            if player == 0 {
                [action, other]
            } else {
                [other, action]
            }
        };
        terms
            .map(|(other, p)| p * game.payoff(player, &cell(other)))
            .sum()
    };
    are_distributions
        && (0..2).all(|player| {
            let values: Vec<_> = (0..shape[player])
                .map(|action| value(player, action))
                .collect();
            let strategy = &equilibrium.strategies[player];
            let payoff: Rational = strategy
                .iter()
                .zip(&values)
                .map(|(p, value)| p * value)
                .sum();
            payoff == equilibrium.payoffs[player] && values.iter().all(|value| *value <= payoff)
        })
}

#[test]
fn the_reference_games_have_the_equilibria_of_the_reference() {
    let reference = support::reference();
    let games = reference["bimatrix_games"].as_array().unwrap();
    assert!(!games.is_empty());
    for game in games {
        let payoffs = |name: &str| {
            let rows = game[name].as_array().unwrap();
            let cell = |at: (usize, usize)| rows[at.0][at.1].as_i64().unwrap();
            Array2::from_shape_fn((rows.len(), rows[0].as_array().unwrap().len()), cell)
        };
        let fractions = |value: &serde_json::Value| -> Vec<Rational> {
            let texts = value.as_array().unwrap().iter();
            texts.map(|text| fraction(text.as_str().unwrap())).collect()
        };
        let lists = game["extreme_equilibria"].as_array().unwrap().iter();
        let mut expected: Vec<[Vec<Rational>; 3]> = lists
            .map(|one| [0, 1, 2].map(|part| fractions(&one[part])))
            .collect();
        expected.sort();
        let bimatrix = Bimatrix::new(payoffs("A"), payoffs("B")).unwrap();
        let actual = all_equilibria(&bimatrix).unwrap().into_iter();
        let mut actual: Vec<_> = actual
            .map(
                |Equilibrium {
                     strategies: [x, y],
                     payoffs,
                 }| [x, y, payoffs.to_vec()],
            )
            .collect();
        actual.sort();
        assert_eq!(actual, expected, "{}", game["name"]);
    }
}

/// The game of issue 82 of Nashpy, whose players minimise. Nashpy's support enumeration finds 5 of
/// the 8 extreme equilibria.
#[test]
fn a_degenerate_game_of_three_by_five_has_eight_extreme_equilibria() {
    let costs = array![[0, 0, 6, 0, 0], [0, 0, 3, 2, 1], [4, 3, 0, 0, 1]];
    let other_costs = array![[3, 0, 2, 1, 0], [0, 2, 0, 0, 4], [4, 0, 2, 4, 4]];
    let game = Bimatrix::new(-costs, -other_costs).unwrap();
    let expected = profiles(&[
        "1 0 0 | 0 1 0 0 0",
        "1 0 0 | 0 0 0 0 1",
        "2/3 1/3 0 | 0 1 0 0 0",
        "1/3 1/2 1/6 | 0 4/9 2/9 1/3 0",
        "0 1/2 1/2 | 0 1/2 1/2 0 0",
        "0 1 0 | 3/7 0 4/7 0 0",
        "0 1 0 | 1 0 0 0 0",
        "0 1 0 | 3/8 0 1/4 3/8 0",
    ]);
    assert_eq!(found(&game), expected);
}

/// The game of issue 39 of Nashpy. In the issue, Nashpy's support enumeration finds no equilibrium;
/// a later version finds one equilibrium.
#[test]
fn a_zero_sum_game_has_all_pairs_of_optimal_vertices() {
    let gains = array![[0, 1, 0, -1], [-1, 0, 1, 1], [0, -1, 0, 1], [1, -1, -1, 0]];
    let game = Bimatrix::new(gains.clone(), -gains).unwrap();
    let equilibria = found(&game);
    // The game is symmetric, so both players have the same optimal strategies, and any two of them
    // are an equilibrium.
    let rows: BTreeSet<_> = equilibria.iter().map(|[x, _]| x).collect();
    let cols: BTreeSet<_> = equilibria.iter().map(|[_, y]| y).collect();
    assert_eq!(rows, cols);
    assert_eq!((rows.len(), equilibria.len()), (2, 4));
    assert_eq!(equilibria, oracle(&game).equilibria);
}

/// The game of issue 231 of Nashpy, whose support enumeration finds no equilibrium.
#[test]
fn a_tournament_of_six_has_one_equilibrium() {
    let gains = array![
        [0, -1, -1, -1, 1, -1],
        [1, 0, 1, -1, -1, -1],
        [1, -1, 0, -1, -1, 1],
        [1, 1, 1, 0, -1, -1],
        [-1, 1, 1, 1, 0, -1],
        [1, 1, -1, 1, 1, 0],
    ];
    let game = Bimatrix::new(gains.clone(), -gains).unwrap();
    let only = "0 0 1/3 0 1/3 1/3 | 0 0 1/3 0 1/3 1/3";
    assert_eq!(found(&game), profiles(&[only]));
}

/// The game of issues 64 and 83 of Nashpy, whose Lemke–Howson algorithm misses the middle
/// equilibrium and fails for one label.
#[test]
fn games_that_lose_a_path_to_ties_or_rounding_are_solved_from_every_label() {
    let degenerate = Bimatrix::new(
        array![[3, 3], [2, 5], [0, 6]],
        array![[3, 2], [2, 6], [3, 1]],
    )
    .unwrap();
    let expected = profiles(&["1 0 0 | 1 0", "4/5 1/5 0 | 2/3 1/3", "0 1/3 2/3 | 1/3 2/3"]);
    assert_eq!(found(&degenerate), expected);
    let tall = Bimatrix::new(
        array![
            [9.5, -7.8],
            [-9.6, 0.3],
            [-7.1, -1.4],
            [5.9, 7.6],
            [9.0, 0.3],
            [7.5, 6.9],
            [-3.1, 3.6],
            [-8.4, -3.7]
        ],
        array![
            [0.2, 0.6],
            [0.4, 0.1],
            [0.9, 0.0],
            [0.4, 0.1],
            [0.1, 0.2],
            [0.2, 0.1],
            [0.8, 1.0],
            [0.2, 0.4]
        ],
    )
    .unwrap();
    let equilibria = all_equilibria(&tall).unwrap();
    assert_eq!(equilibria.len(), 1);
    assert_eq!(lemke_howson_all(&tall).unwrap(), equilibria);
}

#[test]
fn where_nobody_minds_every_pair_of_actions_is_extreme() {
    for (n_rows, n_cols) in [(1, 1), (1, 4), (3, 1), (2, 3), (5, 4)] {
        let constant = |value| Array2::from_elem((n_rows, n_cols), value);
        let game = Bimatrix::new(constant(0), constant(7)).unwrap();
        let equilibria = all_equilibria(&game).unwrap();
        let pairs = (0..n_rows).flat_map(|row| (0..n_cols).map(move |col| [row, col]));
        let pure = |n: usize, at: usize| -> Vec<Rational> {
            (0..n)
                .map(|action| i32::from(action == at).exact().unwrap())
                .collect()
        };
        let pairs = pairs.map(|[row, col]| [pure(n_rows, row), pure(n_cols, col)]);
        let strategies = equilibria.iter().map(|one| one.strategies.clone());
        assert!(strategies.eq(pairs), "{n_rows} by {n_cols}, in order");
        assert!(
            equilibria
                .iter()
                .all(|one| one.payoffs == [0, 7].map(|pay| pay.exact().unwrap()))
        );
        assert_eq!(components(&equilibria).len(), 1);
    }
}

/// The battle of the sexes with two copies of the row player's first action. Each equilibrium that
/// plays this action occurs once for each copy, and both are in one component.
#[test]
fn a_repeated_action_leads_to_lines_of_equilibria() {
    let game = Bimatrix::new(
        array![[3, 0], [3, 0], [0, 2]],
        array![[2, 0], [2, 0], [0, 3]],
    )
    .unwrap();
    let expected = profiles(&[
        "1 0 0 | 1 0",
        "0 1 0 | 1 0",
        "3/5 0 2/5 | 2/5 3/5",
        "0 3/5 2/5 | 2/5 3/5",
        "0 0 1 | 0 1",
    ]);
    assert_eq!(found(&game), expected);
    let equilibria = all_equilibria(&game).unwrap();
    assert_eq!(components(&equilibria), [vec![0, 2], vec![1, 3], vec![4]]);
}

#[test]
fn coordination_has_an_equilibrium_for_each_set_of_actions() {
    for n in 1..=8 {
        let game = Bimatrix::new(Array2::<i32>::eye(n), Array2::<i32>::eye(n)).unwrap();
        let uniform = |set: usize| -> Vec<Rational> {
            let share = 1.exact().unwrap() / set.count_ones().exact().unwrap();
            let chance = |action| {
                if set >> action & 1 == 1 {
                    share.clone()
                } else {
                    Rational::zero()
                }
            };
            (0..n).map(chance).collect()
        };
        let expected = (1..1 << n)
            .map(|set| [uniform(set), uniform(set)])
            .collect();
        assert_eq!(found(&game), expected);
        // Every path from a label ends where both play that action.
        assert_eq!(lemke_howson_all(&game).unwrap().len(), n);
    }
}

/// The oracle's results for a game.
struct Known {
    equilibria: BTreeSet<[Vec<Rational>; 2]>,
    is_degenerate: bool,
}

/// Finds all extreme equilibria by solving every square system of constraints in fractions.
fn oracle(game: &Bimatrix) -> Known {
    let sides = [0, 1].map(|player| corners(game, player));
    let (n_rows, n_cols) = (game.shape()[0], game.shape()[1]);
    let all = (1_u32 << (n_rows + n_cols)) - 1;
    let wide = |strategy: &[Small]| -> Vec<Rational> {
        let part = |p: &Small| Rational::new((*p.numer()).into(), (*p.denom()).into());
        strategy.iter().map(part).collect()
    };
    let [rows, cols] = &sides;
    let pairs = rows
        .iter()
        .flat_map(|row| cols.iter().map(move |col| (row, col)));
    let complete = pairs.filter(|((_, x), (_, y))| x | y == all);
    Known {
        equilibria: complete
            .map(|((x, _), (y, _))| [wide(x), wide(y)])
            .collect(),
        is_degenerate: [(rows, n_rows), (cols, n_cols)]
            .iter()
            .any(|(corners, n_own)| {
                corners
                    .iter()
                    .any(|(_, tight)| tight.count_ones() as usize > *n_own)
            }),
    }
}

/// Returns the vertices of `{strategies, v ≥ value of each action of the opponent}`, with the
/// labels that are tight at each vertex.
fn corners(game: &Bimatrix, player: usize) -> BTreeSet<(Vec<Small>, u32)> {
    let (n_rows, n_cols) = (game.shape()[0], game.shape()[1]);
    let (n_own, n_others) = if player == 0 {
        (n_rows, n_cols)
    } else {
        (n_cols, n_rows)
    };
    let (own_label, other_label) = if player == 0 {
        (0, n_rows)
    } else {
        (n_rows, 0)
    };
    // Each constraint is a row `c · (strategy, v) ≥ 0`, tight where it is 0, with its label.
    let mut constraints: Vec<(usize, Vec<Small>)> = Vec::new();
    for own in 0..n_own {
        let mut row = vec![Small::zero(); n_own + 1];
        row[own] = Small::one();
        constraints.push((own_label + own, row));
    }
    for other in 0..n_others {
        let payoff = |own| {
            let cell = if player == 0 {
                [own, other]
            } else {
                [other, own]
            };
            let payoff = game.payoff(1 - player, &cell);
            let part = |part: &num_bigint::BigInt| i128::try_from(part).unwrap();
            -Small::new(part(payoff.numer()), part(payoff.denom()))
        };
        let row = (0..n_own).map(payoff).chain([Small::one()]).collect();
        constraints.push((other_label + other, row));
    }
    let subsets = (0_u32..1 << constraints.len()).filter(|set| set.count_ones() as usize == n_own);
    let mut corners = BTreeSet::new();
    for subset in subsets {
        let chosen = (0..constraints.len()).filter(|at| subset >> at & 1 == 1);
        let mut system: Vec<Vec<Small>> = chosen
            .map(|at| [&constraints[at].1[..], &[Small::zero()]].concat())
            .collect();
        let mut sum = vec![Small::one(); n_own + 2];
        sum[n_own] = Small::zero();
        system.push(sum);
        let Some(point) = solve(system) else { continue };
        let rest = |row: &[Small]| -> Small { row.iter().zip(&point).map(|(c, z)| c * z).sum() };
        let rests: Vec<_> = constraints
            .iter()
            .map(|(label, row)| (label, rest(row)))
            .collect();
        if rests.iter().all(|(_, rest)| !rest.is_negative()) {
            let tight = rests.iter().filter(|(_, rest)| rest.is_zero());
            let labels = tight.fold(0, |set, (label, _)| set | 1 << **label);
            corners.insert((point[..n_own].to_vec(), labels));
        }
    }
    corners
}

/// Solves a square system whose right side is the last column; returns `None` if the system is
/// singular.
fn solve(mut system: Vec<Vec<Small>>) -> Option<Vec<Small>> {
    for at in 0..system.len() {
        let pivot = (at..system.len()).find(|&row| !system[row][at].is_zero())?;
        system.swap(at, pivot);
        let inverse = system[at][at].recip();
        let pivot_row: Vec<Small> = system[at].iter().map(|entry| entry * inverse).collect();
        for (row, entries) in system.iter_mut().enumerate() {
            let factor = entries[at];
            if row == at {
                entries.clone_from(&pivot_row);
            } else if !factor.is_zero() {
                for (entry, across) in entries.iter_mut().zip(&pivot_row) {
                    *entry -= factor * across;
                }
            }
        }
    }
    system.into_iter().map(|row| row.last().copied()).collect()
}

/// Returns a random game, with 1 to 6 actions of each player and payoffs of one of six kinds, and
/// whether the payoffs are floats.
fn random_game(number: u64) -> (Bimatrix, bool) {
    let random = Philox::new(7).stream(number);
    let side = |at| 1 + random.word(at) as usize % 6;
    let shape = (side(0), side(1));
    let is_float = number % 6 == 5;
    let payoff = |at: u64| -> Rational {
        let integer = |size: i64| i64::from(random.word(at)) % (2 * size + 1) - size;
        match number % 6 {
            0 => integer(1).exact().unwrap(),
            1 => integer(2).exact().unwrap(),
            2 => integer(9).exact().unwrap(),
            3 => integer(99).exact().unwrap(),
            4 => Rational::new(integer(6).into(), (1 + random.word(at + 1) % 4).into()),
            _ => random.normal(at).exact().unwrap(),
        }
    };
    let payoffs = |first: usize| {
        let at = |(row, col)| (first + 2 * (row * shape.1 + col)) as u64;
        Array2::from_shape_fn(shape, |cell| payoff(at(cell)))
    };
    (Bimatrix::new(payoffs(2), payoffs(102)).unwrap(), is_float)
}

#[test]
fn a_thousand_random_games_are_solved_by_both_methods() {
    let (mut n_by_oracle, mut n_degenerate) = (0, 0);
    for number in 0..1000 {
        let (game, is_float) = random_game(number);
        let equilibria = all_equilibria(&game).unwrap();
        for equilibrium in &equilibria {
            assert!(is_equilibrium(&game, equilibrium), "game {number}");
            verify(&game, equilibrium).unwrap();
        }
        let n_labels = game.shape().iter().sum();
        for label in 0..n_labels {
            let end = lemke_howson(&game, label).unwrap();
            assert!(equilibria.contains(&end), "game {number}, label {label}");
        }
        // Random floats form a degenerate game with probability almost zero.
        let mut is_degenerate = !is_float;
        if !is_float && n_labels <= 9 {
            let known = oracle(&game);
            assert_eq!(found(&game), known.equilibria, "game {number}");
            is_degenerate = known.is_degenerate;
            n_by_oracle += 1;
            n_degenerate += usize::from(is_degenerate);
        }
        assert!(is_degenerate || equilibria.len() % 2 == 1, "game {number}");
    }
    // The sample contains enough games of both kinds.
    assert!(
        n_degenerate > 200 && n_by_oracle - n_degenerate > 100,
        "{n_degenerate} of {n_by_oracle}"
    );
}

fn square<T>(n: usize, seed: u64, draw: impl Fn(&Philox, u64) -> T) -> [Array2<T>; 2] {
    [0, 1].map(|player| {
        let random = Philox::new(seed).stream(player);
        Array2::from_shape_fn((n, n), |(row, col)| draw(&random, (row * n + col) as u64))
    })
}

fn integers(n: usize, seed: u64, size: i64) -> Bimatrix {
    let draw = |random: &Philox, at| i64::from(random.word(at)) % (2 * size + 1) - size;
    let [rows, cols] = square(n, seed, draw);
    Bimatrix::new(rows, cols).unwrap()
}

fn normal(n: usize, seed: u64) -> Bimatrix {
    let [rows, cols] = square(n, seed, |random, at| random.normal(at));
    Bimatrix::new(rows, cols).unwrap()
}

#[test]
fn large_games_are_solved_from_a_label() {
    for seed in 0..5 {
        for game in [
            integers(20, seed, 99),
            integers(20, seed, 1),
            normal(20, seed),
        ] {
            let end = lemke_howson(&game, usize::try_from(seed).unwrap() * 9).unwrap();
            assert!(is_equilibrium(&game, &end));
        }
    }
    let end = lemke_howson(&integers(50, 1, 9), 99).unwrap();
    assert!(is_equilibrium(&integers(50, 1, 9), &end));
}

#[test]
fn all_equilibria_of_games_of_twelve_hold_the_ends_of_all_paths() {
    for game in [integers(12, 1, 99), integers(12, 1, 9), normal(12, 1)] {
        let equilibria = all_equilibria(&game).unwrap();
        assert!(equilibria.iter().all(|one| is_equilibrium(&game, one)));
        let ends = lemke_howson_all(&game).unwrap();
        assert!(ends.iter().all(|end| equilibria.contains(end)));
    }
    assert_eq!(all_equilibria(&normal(12, 1)).unwrap().len() % 2, 1);
}

#[test]
fn a_shift_and_a_scale_of_payoffs_change_payoffs_alone() {
    let game = integers(5, 3, 4);
    let payoffs = |player: usize, scale: f64, shift: f64| {
        let floats = game.payoffs(player).to_vec();
        Array2::from_shape_vec((5, 5), floats).unwrap() * scale + shift
    };
    // Both scales are powers of two, so that nothing is rounded.
    let huge = 2_f64.powi(490);
    let tiny = 2_f64.powi(-1070);
    let other = Bimatrix::new(payoffs(0, huge, 0.0), payoffs(1, tiny, 0.0)).unwrap();
    let shifted = Bimatrix::new(payoffs(0, 1.0, -9.0), payoffs(1, 0.5, 1e6)).unwrap();
    let expected = found(&game);
    assert_eq!(found(&other), expected);
    assert_eq!(found(&shifted), expected);
    assert_eq!(
        lemke_howson(&other, 2).unwrap().strategies,
        lemke_howson(&game, 2).unwrap().strategies
    );
}

/// Payoffs from 1e-320 to 1e150 need more digits than floats and 128-bit integers have; only
/// integers of any size can decide the signs.
#[test]
fn payoffs_of_very_different_sizes_are_compared_exactly() {
    let game = Bimatrix::new(
        array![[1e150, 0.0], [1e150, 1e-300], [0.0, 1e-310]],
        array![[1.0, 1.0 + f64::EPSILON], [1.0, 1.0], [0.0, 1e-320]],
    )
    .unwrap();
    let equilibria = all_equilibria(&game).unwrap();
    assert!(equilibria.iter().all(|one| is_equilibrium(&game, one)));
    assert!(
        lemke_howson_all(&game)
            .unwrap()
            .iter()
            .all(|end| equilibria.contains(end))
    );
    // The second row never does worse than the first, and the columns are equally good against it.
    let pure = "0 1 0 | 1 0";
    assert!(profiles(&[pure]).is_subset(&found(&game)));
}

#[test]
fn what_is_no_equilibrium_is_rejected_with_the_reason() {
    let game = Bimatrix::new(array![[3, 0], [0, 2]], array![[2, 0], [0, 3]]).unwrap();
    let right = all_equilibria(&game).unwrap().remove(1);
    verify(&game, &right).unwrap();
    let with = |row: &str, payoff: &str| {
        let mut wrong = right.clone();
        wrong.strategies[0] = strategy(row);
        wrong.payoffs[0] = fraction(payoff);
        verify(&game, &wrong).unwrap_err()
    };
    let fault = |error| match error {
        Error::ProfileInvalid {
            player: 0, fault, ..
        } => fault,
        other => panic!("{other}"),
    };
    assert_eq!(
        fault(with("1", "6/5")),
        "wrong number of probabilities (1; expected 2)"
    );
    assert_eq!(fault(with("3/2 -1/2", "6/5")), "negative at action 1");
    assert_eq!(fault(with("3/5 1/5", "6/5")), "not of sum 1");
    let no_value = Rational::new_raw(1.into(), 0.into());
    let mut wrong = right.clone();
    wrong.strategies[0][1] = no_value.clone();
    let rejected = fault(verify(&game, &wrong).unwrap_err());
    assert_eq!(rejected, "denominator 0 at action 1");
    let mut wrong = right.clone();
    wrong.payoffs[0] = no_value;
    let rejected = fault(verify(&game, &wrong).unwrap_err());
    assert_eq!(rejected, "the stated payoff has denominator 0");
    let action = |error| match error {
        Error::NotEquilibrium { player, action, .. } => [player, action],
        other => panic!("{other}"),
    };
    assert_eq!(action(with("3/5 2/5", "1")), [0, 0]);
    assert_eq!(action(with("3/5 2/5", "2")), [0, 0]);
    assert_eq!(action(with("4/5 1/5", "6/5")), [1, 0]);
}

#[test]
fn labels_and_sizes_beyond_the_limits_are_rejected() {
    let game = integers(3, 1, 9);
    assert!(matches!(
        lemke_howson(&game, 6),
        Err(Error::ParameterInvalid {
            parameter: "label",
            ..
        })
    ));
    let wide = Array2::<i32>::zeros((1, MAX_LABELS));
    assert!(matches!(
        all_equilibria(&Bimatrix::new(wide.clone(), wide).unwrap()),
        Err(Error::TooLarge {
            needed: 129,
            limit: 128,
            ..
        })
    ));
    assert!(matches!(
        all_equilibria(&normal(24, 1)),
        Err(Error::TooLarge {
            what: "bases of a polytope",
            ..
        })
    ));
}

#[test]
fn payoffs_of_too_many_digits_are_rejected() {
    // Four pairwise coprime denominators of 3,000 bits.
    let number =
        |add: u32| Rational::new(1.into(), (num_bigint::BigInt::from(1) << 3000_u32) + add);
    let payoffs = || games::ndarray::array![[number(1), number(3)], [number(5), number(7)]];
    let game = Bimatrix::new(payoffs(), payoffs()).unwrap();
    assert!(matches!(all_equilibria(&game), Err(Error::TooLarge { .. })));
    assert!(matches!(
        lemke_howson(&game, 0),
        Err(Error::TooLarge { .. })
    ));
    assert!(matches!(
        lemke_howson_all(&game),
        Err(Error::TooLarge { .. })
    ));
}

/// Returns the ratios of neighbouring Fibonacci numbers of 20,000 digits, the smaller ratio first.
/// Their continued fractions share almost all of their thousands of terms.
fn long_neighbours() -> [Rational; 2] {
    const N_BITS: u64 = 66_439;
    let (mut n, mut m) = (num_bigint::BigInt::one(), num_bigint::BigInt::one());
    while m.bits() < N_BITS {
        // Two steps of the sequence: every second ratio is below the golden ratio.
        (n, m) = (2 * &n + &m, &n + m);
    }
    [(n.clone(), m.clone()), (&n + m, n)].map(|(top, bottom)| Rational::new_raw(top, bottom))
}

#[test]
fn games_of_long_fractions_fit_a_small_stack() {
    on_a_small_stack(|| {
        let [a, b] = long_neighbours();
        let payoffs = || array![[a.clone(), b.clone()], [b.clone(), a.clone()]];
        // The second row dominates the first.
        let column = array![[a.clone()], [b.clone()]];
        let matrix = MatrixGame::zero_sum(column).unwrap();
        assert!(exact(&matrix).unwrap().to_string().contains("unique, 0 1;"));
        // The sum is 2a in one cell and a + b in the next.
        let game = Bimatrix::new(
            payoffs(),
            array![[a.clone(), a.clone()], [b.clone(), b.clone()]],
        );
        assert_eq!(game.unwrap().constant_sum(), None);
        // Probabilities need not sum to 1 here.
        let equilibrium = |[row, col]: [&Rational; 2]| Equilibrium {
            strategies: [vec![row.clone()], vec![col.clone()]],
            payoffs: [a.clone(), b.clone()],
        };
        let twice = Rational::new_raw(a.numer() * 2, a.denom() * 2);
        let pairs = [[&a, &a], [&b, &b], [&twice, &b]];
        assert_eq!(components(&pairs.map(equilibrium)), [[0, 1, 2]]);
        let pairs = [[&a, &a], [&b, &b], [&twice, &a]];
        assert_eq!(components(&pairs.map(equilibrium)), [vec![0, 2], vec![1]]);
    });
}

#[test]
fn equality_and_hashes_of_long_fractions_fit_a_small_stack() {
    fn check<T: PartialEq>(of: impl Fn(&Rational) -> T) {
        let [a, b] = long_neighbours();
        let twice = Rational::new_raw(a.numer() * 2, a.denom() * 2);
        let name = std::any::type_name::<T>();
        assert!(of(&a) != of(&b), "{name}");
        assert!(of(&a) == of(&twice), "{name}");
    }
    on_a_small_stack(|| {
        let equilibrium = |number: &Rational| Equilibrium {
            strategies: [vec![number.clone()], vec![]],
            payoffs: Default::default(),
        };
        check(equilibrium);
        check(|number| {
            let mut hasher = DefaultHasher::new();
            equilibrium(number).hash(&mut hasher);
            hasher.finish()
        });
        check(|number| MatrixSolution {
            value: number.clone(),
            strategies: [vec![], vec![]],
            unique: [true; 2],
        });
        check(|number| TreeSolution {
            value: Rational::zero(),
            sum: Rational::zero(),
            strategies: vec![vec![number.clone()]],
        });
        check(|number| CorrelatedEquilibrium {
            distribution: vec![number.clone()],
            payoffs: vec![],
            objective: Rational::zero(),
        });
        check(|number| Objective::Weighted(vec![number.clone()]));
        check(|number| Dominated {
            player: 0,
            action: 0,
            by: vec![number.clone()],
        });
        check(|number| Chance {
            actions: vec![],
            probabilities: vec![number.clone()],
        });
        check(|number| MatrixGame::zero_sum(array![[number.clone()]]).unwrap());
        check(|number| {
            let mut builder = TreeBuilder::new(String::new(), vec![String::new()]);
            builder.terminal(std::slice::from_ref(number)).unwrap();
            builder.finish().unwrap()
        });
    });
}

#[test]
fn fractions_without_a_value_equal_each_other_only() {
    let with_payoff = |top: i32, bottom: i32| Equilibrium {
        strategies: [vec![], vec![]],
        payoffs: [
            Rational::new_raw(top.into(), bottom.into()),
            Rational::zero(),
        ],
    };
    let hash = |equilibrium: &Equilibrium| {
        let mut hasher = DefaultHasher::new();
        equilibrium.hash(&mut hasher);
        hasher.finish()
    };
    let (without, zero) = (with_payoff(1, 0), with_payoff(0, 1));
    assert_eq!(without, with_payoff(2, 0));
    assert_eq!(hash(&without), hash(&with_payoff(2, 0)));
    assert_ne!(without, zero);
}

/// Runs a function on a stack that a recursion over the terms of long continued fractions
/// overflows.
fn on_a_small_stack(work: impl FnOnce() + Send + 'static) {
    const STACK_BYTES: usize = 2 << 20;
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
    thread.spawn(work).unwrap().join().unwrap();
}
