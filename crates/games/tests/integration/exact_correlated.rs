//! Correlated and coarse correlated equilibria: against another solver, and against their
//! definitions.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests stand outside of test functions"
)]

use crate::support;
use games::exact::{
    CorrelatedEquilibrium, Objective, coarse_correlated_equilibrium, coarse_correlated_regret,
    correlated_equilibrium, correlated_regret,
};
use games::ndarray::{self, Array2, ArrayD, array};
use games::{Bimatrix, Error, MatrixGame, NormalForm, Number, Rational, StrategicGame, exact};
use num_traits::{One, Signed, Zero};
use serde_json::Value;
use tensor_core::compare::{Tolerance, assert_close};

fn chicken() -> Bimatrix {
    Bimatrix::new(array![[6, 2], [7, 0]], array![[6, 7], [2, 0]]).unwrap()
}

fn rational(numerator: i64, denominator: i64) -> Rational {
    Rational::new(numerator.into(), denominator.into())
}

fn floats(fractions: &[Rational]) -> Vec<f64> {
    fractions.iter().map(Number::nearest).collect()
}

/// Checks payoffs and regrets of an equilibrium in fractions, from the payoffs alone.
fn check(game: &impl StrategicGame, found: &CorrelatedEquilibrium, is_coarse: bool) {
    let shape = game.shape().to_vec();
    let cells: Vec<Vec<usize>> = ndarray::indices(shape.clone())
        .into_iter()
        .map(|at| ndarray::Dimension::slice(&at).to_vec())
        .collect();
    let shares = &found.distribution;
    assert_eq!(shares.len(), cells.len());
    assert!(shares.iter().sum::<Rational>().is_one());
    assert!(!shares.iter().any(Signed::is_negative));
    for player in 0..shape.len() {
        let value = |recommended: Option<usize>, instead: Option<usize>| -> Rational {
            let cells = cells.iter().zip(shares);
            let is_recommended = |cell: &[usize]| recommended.is_none_or(|it| cell[player] == it);
            let drawn = cells.filter(|(cell, _)| is_recommended(cell));
            let value = drawn.map(|(cell, share)| {
                let mut cell = cell.clone();
                cell[player] = instead.unwrap_or(cell[player]);
                game.payoff(player, &cell) * share
            });
            value.sum()
        };
        assert_eq!(found.payoffs[player], value(None, None));
        for other in 0..shape[player] {
            if is_coarse {
                assert!(value(None, Some(other)) <= value(None, None));
            } else {
                for recommended in 0..shape[player] {
                    let own = Some(recommended);
                    assert!(value(own, Some(other)) <= value(own, None));
                }
            }
        }
    }
}

#[test]
fn chicken_is_best_played_by_aumanns_traffic_light() {
    let best = correlated_equilibrium(&chicken(), &Objective::Welfare).unwrap();
    check(&chicken(), &best, false);
    assert_eq!(best.objective, rational(21, 2));
    let shares = [(1, 2), (1, 4), (1, 4), (0, 1)].map(|(n, d)| rational(n, d));
    assert_eq!(best.distribution, shares);
    assert_eq!(best.payoffs, [rational(21, 4), rational(21, 4)]);
    assert_eq!(Objective::default(), Objective::Welfare);
}

#[test]
fn a_player_that_counts_alone_gets_its_favourite() {
    let favourite = |weights| {
        let objective = Objective::Weighted(weights);
        let best = correlated_equilibrium(&chicken(), &objective).unwrap();
        check(&chicken(), &best, false);
        best.payoffs
    };
    let [zero, one] = [Rational::zero(), Rational::one()];
    assert_eq!(
        favourite(vec![one.clone(), zero.clone()]),
        [rational(7, 1), rational(2, 1)]
    );
    assert_eq!(favourite(vec![zero, one]), [rational(2, 1), rational(7, 1)]);
}

#[test]
fn any_equilibrium_is_an_equilibrium() {
    for game in [chicken(), Bimatrix::from(penalty_shots())] {
        let any = correlated_equilibrium(&game, &Objective::Any).unwrap();
        check(&game, &any, false);
        assert!(any.objective.is_zero());
        let any = coarse_correlated_equilibrium(&game, &Objective::Any).unwrap();
        check(&game, &any, true);
    }
}

fn penalty_shots() -> MatrixGame {
    MatrixGame::zero_sum(array![[58, 95], [93, 70]]).unwrap()
}

#[test]
fn correlation_gains_nothing_in_zero_sum_games() {
    let game = penalty_shots();
    let value = exact(&game).unwrap().value;
    let one = Objective::Weighted(vec![Rational::one(), Rational::zero()]);
    let best = correlated_equilibrium(&game, &one).unwrap();
    assert_eq!(best.payoffs, [value.clone(), -value.clone()]);
    let coarse = coarse_correlated_equilibrium(&game, &one).unwrap();
    assert_eq!(coarse.payoffs, [value.clone(), -value]);
}

#[test]
fn nash_equilibria_of_the_reference_are_no_better() {
    for given in support::reference()["bimatrix_games"].as_array().unwrap() {
        let matrix = |name: &str| {
            let rows: Vec<Vec<i64>> = serde_json::from_value(given[name].clone()).unwrap();
            Array2::from_shape_vec((rows.len(), rows[0].len()), rows.concat()).unwrap()
        };
        let game = Bimatrix::new(matrix("A"), matrix("B")).unwrap();
        let best = correlated_equilibrium(&game, &Objective::Welfare).unwrap();
        check(&game, &best, false);
        let coarse = coarse_correlated_equilibrium(&game, &Objective::Welfare).unwrap();
        check(&game, &coarse, true);
        assert!(best.objective <= coarse.objective);
        for nash in given["extreme_equilibria"].as_array().unwrap() {
            let payoffs = nash[2].as_array().unwrap().iter();
            let payoffs = payoffs.map(|text| text.as_str().unwrap().parse::<Rational>().unwrap());
            assert!(
                payoffs.sum::<Rational>() <= best.objective,
                "{}",
                given["name"]
            );
        }
    }
}

fn golden() -> Vec<(NormalForm, Value)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/correlated.json");
    let all: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let game = |given: &Value| {
        let shape: Vec<usize> = serde_json::from_value(given["shape"].clone()).unwrap();
        let tables: Vec<Vec<i64>> = serde_json::from_value(given["payoffs"].clone()).unwrap();
        let table = |table| ArrayD::from_shape_vec(shape.clone(), table).unwrap();
        NormalForm::new(shape.len(), tables.into_iter().map(table).collect()).unwrap()
    };
    all.into_iter().map(|given| (game(&given), given)).collect()
}

#[test]
fn objectives_agree_with_another_solver() {
    let golden = golden();
    assert_eq!(golden.len(), 21);
    for (game, given) in golden {
        let weights: Vec<i64> = serde_json::from_value(given["weights"].clone()).unwrap();
        let weights = weights.into_iter().map(|weight| rational(weight, 1));
        let weighted = Objective::Weighted(weights.collect());
        for (name, objective) in [("welfare", Objective::Welfare), ("weighted", weighted)] {
            let best = correlated_equilibrium(&game, &objective).unwrap();
            check(&game, &best, false);
            let coarse = coarse_correlated_equilibrium(&game, &objective).unwrap();
            check(&game, &coarse, true);
            let expected = [
                given[name].as_f64().unwrap(),
                given[format!("coarse_{name}")].as_f64().unwrap(),
            ];
            // The other solver's tolerance is 1e-7; it meets these games to a few ulps.
            let bound = Tolerance::relative(8).or_absolute(1e-13);
            assert_close(floats(&[best.objective, coarse.objective]), expected, bound);

            let regret = correlated_regret(&game, &floats(&best.distribution)).unwrap();
            assert!(regret <= 1e-14, "{regret:e}");
            let regret = coarse_correlated_regret(&game, &floats(&coarse.distribution)).unwrap();
            assert!(regret <= 1e-14, "{regret:e}");
        }
    }
}

#[test]
fn regrets_are_those_counted_by_hand() {
    // A player who is recommended to dare gains 1 if the other swerves and loses 2 if not; the
    // other recommendations are similar.
    let uniform = [0.25; 4];
    let swap = 0.25 * (7.0 - 6.0 + 0.0 - 2.0_f64).max(0.0) + 0.25 * (6.0 - 7.0 + 2.0 - 0.0);
    assert_eq!(correlated_regret(&chicken(), &uniform), Ok(swap));
    let mean = (6.0 + 2.0 + 7.0 + 0.0) / 4.0;
    let coarse = (6.0 + 2.0) / 2.0 - mean;
    assert_eq!(coarse_correlated_regret(&chicken(), &uniform), Ok(coarse));
    // Both dare: each player would rather swerve, with or without a recommendation.
    let crash = [0.0, 0.0, 0.0, 1.0];
    assert_eq!(correlated_regret(&chicken(), &crash), Ok(2.0));
    assert_eq!(coarse_correlated_regret(&chicken(), &crash), Ok(2.0));
}

#[test]
fn one_player_and_nothing_to_choose_are_games_too() {
    let alone = ArrayD::from_shape_vec(vec![3], vec![1, 5, 2]).unwrap();
    let game = NormalForm::new(1, vec![alone]).unwrap();
    let best = correlated_equilibrium(&game, &Objective::Weighted(vec![rational(-1, 1)])).unwrap();
    assert_eq!(best.payoffs, [rational(5, 1)]);
    for shape in [(1, 1), (2, 2), (1, 3)] {
        let constant = |payoff| Array2::from_elem(shape, payoff);
        let game = Bimatrix::new(constant(3), constant(-4)).unwrap();
        for objective in [Objective::Welfare, Objective::Any] {
            let best = correlated_equilibrium(&game, &objective).unwrap();
            check(&game, &best, false);
            assert_eq!(best.payoffs, [rational(3, 1), rational(-4, 1)]);
        }
    }
}

#[test]
fn payoffs_of_hostile_scales_are_solved() {
    let game = Bimatrix::new(
        array![[6e150 / 10.0, 2e-150], [7e149, 0.0]],
        array![[6e-150, 7e-150], [2e-150, 0.0]],
    )
    .unwrap();
    for objective in [Objective::Welfare, Objective::Any] {
        check(
            &game,
            &correlated_equilibrium(&game, &objective).unwrap(),
            false,
        );
        check(
            &game,
            &coarse_correlated_equilibrium(&game, &objective).unwrap(),
            true,
        );
    }
}

#[test]
fn weights_and_distributions_that_do_not_fit_are_rejected() {
    let three = Objective::Weighted(vec![Rational::one(); 3]);
    assert_eq!(
        correlated_equilibrium(&chicken(), &three).unwrap_err(),
        Error::ShapeMismatch {
            operation: "exact::correlated_equilibrium",
            expected: vec![2],
            actual: vec![3],
        }
    );
    let no_value = Objective::Weighted(vec![Rational::new_raw(1.into(), 0.into()); 2]);
    for rejected in [
        correlated_equilibrium(&chicken(), &no_value),
        coarse_correlated_equilibrium(&chicken(), &no_value),
    ] {
        assert!(matches!(
            rejected,
            Err(Error::ParameterInvalid {
                parameter: "weight",
                ..
            })
        ));
    }
    let bad: [&[f64]; 6] = [
        &[],
        &[1.0],
        &[0.5, 0.5, 0.5, -0.5],
        &[0.5, 0.5, 0.5, 0.5],
        &[f64::NAN, 0.0, 0.0, 1.0],
        &[f64::INFINITY, 0.0, 0.0, 1.0],
    ];
    for distribution in bad {
        for rejected in [
            correlated_regret(&chicken(), distribution),
            coarse_correlated_regret(&chicken(), distribution),
        ] {
            assert!(matches!(rejected, Err(Error::DistributionInvalid { .. })));
        }
    }
}

#[test]
fn games_too_large_for_a_proof_are_rejected() {
    let large = Bimatrix::from(MatrixGame::zero_sum(Array2::from_elem((102, 102), 0)).unwrap());
    let rejected = correlated_equilibrium(&large, &Objective::Any).unwrap_err();
    assert!(matches!(rejected, Error::TooLarge { needed, .. } if needed == 102 * 102 * 202));
}
