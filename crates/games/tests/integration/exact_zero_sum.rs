//! Zero-sum matrix games, solved with proofs. The tests verify results from the payoffs alone.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests stand outside of test functions"
)]

use crate::support;
use games::exact::MatrixSolution;
use games::ndarray::{Array2, array};
use games::{Error, MatrixGame, Number, Rational, StrategicGame, exact};
use num_traits::{One, Signed, Zero};
use proptest::prelude::*;
use proptest::test_runner::Config;
use serde_json::Value;

fn game<T: Number>(gains: Array2<T>) -> MatrixGame {
    MatrixGame::zero_sum(gains).unwrap()
}

fn rational(numerator: i64, denominator: i64) -> Rational {
    Rational::new(numerator.into(), denominator.into())
}

/// Solves a game and checks, by best responses in fractions, that both strategies guarantee the
/// value.
fn proved(game: &MatrixGame) -> MatrixSolution {
    let solution = exact(game).unwrap();
    let [row, col] = &solution.strategies;
    for strategy in [row, col] {
        assert!(strategy.iter().sum::<Rational>().is_one());
        assert!(!strategy.iter().any(Signed::is_negative));
    }
    assert_eq!((row.len(), col.len()), (game.n_rows(), game.n_cols()));
    let gain = |i: usize, j: usize| game.payoff(0, &[i, j]);
    let against = |i: usize| {
        (0..col.len())
            .map(|j| gain(i, j) * &col[j])
            .sum::<Rational>()
    };
    let held = |j: usize| {
        (0..row.len())
            .map(|i| gain(i, j) * &row[i])
            .sum::<Rational>()
    };
    assert_eq!(
        (0..row.len()).map(against).max(),
        Some(solution.value.clone())
    );
    assert_eq!((0..col.len()).map(held).min(), Some(solution.value.clone()));
    solution
}

fn fractions(texts: &Value) -> Vec<Rational> {
    let texts = texts.as_array().unwrap().iter();
    texts
        .map(|text| text.as_str().unwrap().parse().unwrap())
        .collect()
}

#[test]
fn games_of_the_reference_are_solved_to_the_fraction() {
    let reference = support::reference();
    let games = reference["matrix_games"].as_array().unwrap();
    assert_eq!(games.len(), 6);
    for given in games {
        let rows: Vec<Vec<i64>> = serde_json::from_value(given["A"].clone()).unwrap();
        let shape = (rows.len(), rows[0].len());
        let gains = Array2::from_shape_vec(shape, rows.concat()).unwrap();
        let solution = proved(&game(gains));
        assert_eq!(solution.value.to_string(), given["value"].as_str().unwrap());
        assert_eq!(
            solution.strategies[0],
            fractions(&given["row"]),
            "{}",
            given["name"]
        );
        assert_eq!(
            solution.strategies[1],
            fractions(&given["col"]),
            "{}",
            given["name"]
        );
        let is_unique = given["unique"].as_bool().unwrap();
        assert_eq!(solution.unique, [is_unique; 2], "{}", given["name"]);
    }
}

#[test]
fn a_solution_is_written_as_one_line() {
    let crash = proved(&game(array![[0, -1, 2], [1, 0, -1], [-2, 1, 0]]));
    assert_eq!(crash.to_string(), "value 0, unique, 1/4 1/2 1/4");
    let wide = proved(&game(array![[2, 2, 0], [0, 0, 2]]));
    assert_eq!(
        wide.to_string(),
        "value 1; row unique, 1/2 1/2; column not unique, 1/2 0 1/2"
    );
    let constant = proved(&game(array![[7, 7], [7, 7]]));
    assert_eq!(constant.to_string(), "value 7, not unique, 1 0");
    let mixed = proved(&game(array![[3, 0], [1, 2]]));
    assert_eq!(
        mixed.to_string(),
        "value 3/2; row unique, 1/4 3/4; column unique, 1/2 1/2"
    );
}

#[test]
fn constant_games_have_any_strategy() {
    for (rows, cols) in [(1, 1), (1, 4), (4, 1), (3, 3)] {
        for gain in [0.0, -2.5, 1e150, 1e-150] {
            let solution = proved(&game(Array2::from_elem((rows, cols), gain)));
            assert_eq!(solution.value, gain.exact().unwrap());
            assert_eq!(solution.unique, [rows == 1, cols == 1]);
        }
    }
}

#[test]
fn one_row_or_column_leaves_the_other_player_the_best() {
    let one_row = proved(&game(array![[3, -1, 4, -1, 5]]));
    assert_eq!(one_row.value, rational(-1, 1));
    assert_eq!(one_row.unique, [true, false]);
    let one_col = proved(&game(array![[3], [1], [4], [1]]));
    assert_eq!(one_col.value, rational(4, 1));
    assert_eq!(one_col.unique, [true, true]);
    assert!(one_col.strategies[0][2].is_one());
}

#[test]
fn a_saddle_point_is_found() {
    let solution = proved(&game(array![[4, 3, 5], [6, 2, 1], [0, 1, 9]]));
    assert_eq!(solution.value, rational(3, 1));
    assert_eq!(
        solution.strategies[0],
        [1, 0, 0].map(|share| rational(share, 1))
    );
    assert_eq!(
        solution.strategies[1],
        [0, 1, 0].map(|share| rational(share, 1))
    );
    assert_eq!(solution.unique, [true, true]);
}

#[test]
fn duplicated_actions_are_not_unique() {
    let solution = proved(&game(array![[1, -1, -1], [-1, 1, 1], [1, -1, -1]]));
    assert_eq!(solution.value, rational(0, 1));
    assert_eq!(solution.unique, [false, false]);
}

#[test]
fn a_degenerate_optimum_can_be_unique() {
    // The column player mixes evenly; the third row is as good as the others, and yet it can't be
    // played.
    let solution = proved(&game(array![[1, -1], [-1, 1], [0, 0]]));
    assert_eq!(solution.unique, [false, true]);
    let solution = proved(&game(array![[1, -1, 0], [-1, 1, 0]]));
    assert_eq!(solution.unique, [true, false]);
    // Row 0 alone guarantees 0; columns 0 and 1 both hold it there, but only one mix holds rows 1
    // and 2 as well.
    let solution = proved(&game(array![[0, 0, 1], [1, -1, 0], [-1, 1, 0]]));
    assert_eq!(
        solution.strategies[1],
        [rational(1, 2), rational(1, 2), rational(0, 1)]
    );
    assert!(solution.unique[1]);
}

#[test]
fn fractions_are_solved_as_they_were_given() {
    let third = rational(1, 3);
    let zero = Rational::zero();
    let solution = proved(&game(array![[third.clone(), zero.clone()], [zero, third]]));
    assert_eq!(solution.value, rational(1, 6));
    assert_eq!(solution.to_string(), "value 1/6, unique, 1/2 1/2");
}

#[test]
fn floats_are_the_dyadic_fractions_that_they_are() {
    let solution = proved(&game(array![[0.1, 0.0], [0.0, 0.2]]));
    let [low, high] = [0.1, 0.2].map(|gain: f64| gain.exact().unwrap());
    assert_eq!(solution.value, &low * &high / (&low + &high));
    assert_ne!(solution.value, rational(1, 15));
    assert_eq!(solution.unique, [true, true]);
}

#[test]
fn payoffs_of_hostile_scales_are_solved() {
    let tiny = proved(&game(array![[1e150, 1e-150], [-1e-150, 1.0]]));
    assert!(tiny.value > 1e-150.exact().unwrap());
    let hidden = proved(&game(array![
        [1.0, 1.0 + f64::EPSILON],
        [1.0 + f64::EPSILON, 1.0]
    ]));
    assert_eq!(hidden.value, rational((1 << 53) + 1, 1 << 53));
    let sizes = [1e150, 1.0, 1e-150, -1e-150, -1.0, -1e150];
    for shift in 0..6 {
        let gains =
            Array2::from_shape_fn((4, 4), |(i, j)| sizes[(i * i + 2 * j * (i + shift)) % 6]);
        proved(&game(gains));
    }
    let subnormal = 5e-324;
    let smallest = proved(&game(array![[subnormal, 0.0], [0.0, subnormal]]));
    assert_eq!(smallest.value, subnormal.exact().unwrap() / rational(2, 1));
}

#[test]
fn denominators_that_the_primes_divide_are_no_obstacle() {
    // The proof computes modulo primes just below 2^61.
    let prime = (1_i64 << 61) - 1;
    let gains = array![
        [rational(1, prime), rational(0, 1)],
        [rational(0, 1), rational(prime, 1)]
    ];
    let solution = proved(&game(gains));
    assert_eq!(solution.unique, [true, true]);
}

#[test]
fn fifty_actions_of_small_integers_are_solved() {
    let mut state = 1_u64;
    let mut draw = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        i32::try_from(state >> 60).unwrap() - 8
    };
    let solution = proved(&game(Array2::from_shape_simple_fn((50, 50), &mut draw)));
    assert_eq!(solution.unique, [true, true]);
    proved(&game(Array2::from_shape_simple_fn((20, 60), &mut draw)));
}

#[test]
fn twenty_actions_of_random_floats_are_solved() {
    let mut state = 1_u64;
    let mut draw = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    let solution = proved(&game(Array2::from_shape_simple_fn((20, 20), &mut draw)));
    assert_eq!(solution.unique, [true, true]);
}

#[test]
fn games_too_large_for_a_proof_are_rejected() {
    let large = game(Array2::from_elem((1025, 1024), 0.0));
    assert_eq!(
        exact(&large).unwrap_err(),
        Error::TooLarge {
            operation: "exact",
            what: "number of coefficients",
            needed: 1025 * 1024,
            limit: 1 << 20,
        }
    );
}

/// Counts the extreme optimal strategies of the row player: the optimal strategies that are the
/// only solution of `Σ x_i = 1` and `n - 1` of the equations `x_i = 0` and `(x A)_j = value`, for
/// `n` rows.
fn n_extreme_optima(game: &MatrixGame, value: &Rational) -> usize {
    let n = game.n_rows();
    let excess = |x: &[Rational], j: usize| -> Rational {
        let gains = x
            .iter()
            .enumerate()
            .map(|(i, x)| game.payoff(0, &[i, j]) * x);
        gains.sum::<Rational>() - value
    };
    let n_equations = n + game.n_cols();
    let mut found: Vec<Vec<Rational>> = vec![];
    for chosen in 0_u32..1 << n_equations {
        if chosen.count_ones() as usize != n - 1 {
            continue;
        }
        let row = |equation: usize| {
            let coefficient = |i: usize| match equation.checked_sub(n) {
                Some(j) => game.payoff(0, &[i, j]) - value,
                None => rational(i64::from(i == equation), 1),
            };
            (0..n)
                .map(coefficient)
                .chain([Rational::zero()])
                .collect::<Vec<_>>()
        };
        let mut system = vec![vec![Rational::one(); n + 1]];
        system.extend((0..n_equations).filter(|at| chosen >> at & 1 == 1).map(row));
        let Some(x) = solved(system) else { continue };
        let is_optimal = !x.iter().any(Signed::is_negative)
            && !(0..game.n_cols()).any(|j| excess(&x, j).is_negative());
        if is_optimal && !found.contains(&x) {
            found.push(x);
        }
    }
    found.len()
}

/// Solves a square system of equations; returns `None` if the system is singular.
fn solved(mut rows: Vec<Vec<Rational>>) -> Option<Vec<Rational>> {
    let n = rows.len();
    for at in 0..n {
        let pivot = (at..n).find(|&row| !rows[row][at].is_zero())?;
        rows.swap(at, pivot);
        let scale = rows[at][at].clone();
        for entry in &mut rows[at] {
            *entry /= &scale;
        }
        let pivot = rows[at].clone();
        for row in (0..n).filter(|&row| row != at) {
            let factor = rows[row][at].clone();
            for (entry, pivot) in rows[row].iter_mut().zip(&pivot) {
                *entry -= &factor * pivot;
            }
        }
    }
    Some(rows.into_iter().map(|row| row[n].clone()).collect())
}

fn small_game() -> impl Strategy<Value = MatrixGame> {
    let shape = (1_usize..5, 1_usize..5, 1_i32..4);
    shape.prop_flat_map(|(rows, cols, size)| {
        let gains = prop::collection::vec(-size..=size, rows * cols);
        gains.prop_map(move |gains| game(Array2::from_shape_vec((rows, cols), gains).unwrap()))
    })
}

proptest! {
    #![proptest_config(Config { cases: 200, failure_persistence: None, ..Config::default() })]

    #[test]
    fn small_games_are_proved_and_unique_where_one_vertex_is_optimal(game in small_game()) {
        let solution = proved(&game);
        let turned = Array2::from_shape_fn((game.n_cols(), game.n_rows()), |(j, i)| {
            -game.payoff(0, &[i, j])
        });
        let turned = MatrixGame::zero_sum(turned).unwrap();
        prop_assert_eq!(solution.unique[0], n_extreme_optima(&game, &solution.value) == 1);
        prop_assert_eq!(solution.unique[1], n_extreme_optima(&turned, &-&solution.value) == 1);
        prop_assert_eq!(proved(&turned).value, -solution.value);
    }
}

proptest! {
    // Proofs with numbers of a thousand bits are slow, so there are few cases.
    #![proptest_config(Config { cases: 50, failure_persistence: None, ..Config::default() })]

    #[test]
    fn payoffs_of_any_size_are_proved(
        gains in prop::collection::vec((-1.0..1.0, -149..149), 9)
    ) {
        let gains = gains.into_iter().map(|(mantissa, power)| mantissa * 10_f64.powi(power));
        let gains: Vec<f64> = gains.collect();
        proved(&game(Array2::from_shape_vec((3, 3), gains).unwrap()));
    }
}

/// The largest documented size, 1024 actions, takes a minute in the dev profile, so it is tested
/// only with `VERIFY_FULL=1`.
#[test]
fn random_floats_are_proved_at_hundreds_of_actions() {
    let is_full = std::env::var_os("VERIFY_FULL").is_some_and(|value| value == "1");
    let side = if is_full { 1024 } else { 96 };
    let game = support::random_game([side, side], 77);
    let found = exact(&game).unwrap();
    assert_eq!(found.unique, [true, true]);
    let learnt = games::solve(&game, &games::SolverConfig::default().tolerance(1e-9)).unwrap();
    assert!((found.value.nearest() - learnt.value).abs() <= 1e-9);
}
