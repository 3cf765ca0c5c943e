//! Elimination of dominated actions; every step is checked from the payoffs alone.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests stand outside of test functions"
)]

use games::exact::{Dominance, Elimination, eliminate_dominated};
use games::ndarray::{Array2, ArrayD, array};
use games::{Bimatrix, Error, MatrixGame, NormalForm, Rational, StrategicGame, exact};
use num_traits::{One, Signed, Zero};
use proptest::prelude::*;
use proptest::test_runner::Config;

fn game(rows: Array2<i32>, cols: Array2<i32>) -> Bimatrix {
    Bimatrix::new(rows, cols).unwrap()
}

/// Returns the gain of a strategy over an action for every remaining combination of the other
/// players' actions.
fn gains(
    game: &impl StrategicGame,
    surviving: &[Vec<usize>],
    player: usize,
    action: usize,
    by: &[Rational],
) -> Vec<Rational> {
    let mut cells: Vec<Vec<usize>> = vec![vec![]];
    for (other, actions) in surviving.iter().enumerate() {
        let actions = if other == player {
            &vec![action]
        } else {
            actions
        };
        let longer = |cell: &Vec<usize>| {
            let cell = cell.clone();
            actions
                .iter()
                .map(move |&action| [&cell[..], &[action]].concat())
        };
        cells = cells.iter().flat_map(longer).collect();
    }
    let gain = |cell: Vec<usize>| {
        let mixed = by.iter().enumerate().map(|(own, share)| {
            let mut cell = cell.clone();
            cell[player] = own;
            game.payoff(player, &cell) * share
        });
        mixed.sum::<Rational>() - game.payoff(player, &cell)
    };
    cells.into_iter().map(gain).collect()
}

/// Eliminates dominated actions. Checks each step by its dominating strategy, and each survivor
/// independently.
fn checked(game: &impl StrategicGame, dominance: Dominance) -> Elimination {
    let found = eliminate_dominated(game, dominance).unwrap();
    let mut surviving: Vec<Vec<usize>> = game
        .shape()
        .iter()
        .map(|&side| (0..side).collect())
        .collect();
    for step in &found.steps {
        assert!(step.by.iter().sum::<Rational>().is_one());
        assert!(!step.by.iter().any(Signed::is_negative));
        assert!(step.by[step.action].is_zero());
        let has = |action: usize| surviving[step.player].contains(&action);
        assert!(has(step.action));
        assert!((0..step.by.len()).all(|action| step.by[action].is_zero() || has(action)));
        let gains = gains(game, &surviving, step.player, step.action, &step.by);
        if dominance == Dominance::WeakByPure {
            assert!(!gains.iter().any(Signed::is_negative));
            assert!(gains.iter().any(Signed::is_positive));
        } else {
            assert!(gains.iter().all(Signed::is_positive));
        }
        surviving[step.player].retain(|&action| action != step.action);
    }
    assert_eq!(found.surviving, surviving);
    assert!(surviving.iter().all(|actions| !actions.is_empty()));
    found
}

#[test]
fn prisoners_confess() {
    let dilemma = game(array![[3, 0], [5, 1]], array![[3, 5], [0, 1]]);
    for dominance in [
        Dominance::Strict,
        Dominance::StrictByPure,
        Dominance::WeakByPure,
    ] {
        let found = checked(&dilemma, dominance);
        assert_eq!(found.surviving, [[1], [1]]);
        assert_eq!(found.steps.len(), 2);
    }
}

#[test]
fn a_mix_dominates_where_no_action_does() {
    let rows = array![[3, 0], [0, 3], [1, 1]];
    let indifferent = game(rows, Array2::zeros((3, 2)));
    assert_eq!(
        checked(&indifferent, Dominance::StrictByPure).surviving,
        [vec![0, 1, 2], vec![0, 1]]
    );
    let found = checked(&indifferent, Dominance::Strict);
    assert_eq!(found.surviving, [vec![0, 1], vec![0, 1]]);
    assert_eq!((found.steps[0].player, found.steps[0].action), (0, 2));
    let half = Rational::new(1.into(), 2.into());
    assert_eq!(found.steps[0].by, [half.clone(), half, Rational::zero()]);
}

#[test]
fn a_mix_that_is_only_as_good_does_not_dominate() {
    let game = game(array![[2, 0], [0, 2], [1, 1]], Array2::zeros((3, 2)));
    assert!(checked(&game, Dominance::Strict).steps.is_empty());
    // Dominance by one part in 2^40, a difference that f64 represents exactly.
    let edge = 1.0 - 2_f64.powi(-40);
    let close = Bimatrix::new(
        array![[2.0, 0.0], [0.0, 2.0], [edge, edge]],
        Array2::<f64>::zeros((3, 2)),
    );
    assert_eq!(checked(&close.unwrap(), Dominance::Strict).steps.len(), 1);
}

#[test]
fn elimination_goes_on_where_others_gave_up_actions() {
    let rows = array![[1, 1, 0], [0, 0, 2]];
    let cols = array![[0, 2, 1], [3, 1, 0]];
    let found = checked(&game(rows, cols), Dominance::Strict);
    assert_eq!(found.surviving, [[0], [1]]);
    let order: Vec<(usize, usize)> = found
        .steps
        .iter()
        .map(|step| (step.player, step.action))
        .collect();
    assert_eq!(order, [(1, 2), (0, 1), (1, 0)]);
}

#[test]
fn weak_dominance_depends_on_the_order() {
    let rows = array![[1, 1], [1, 0], [0, 0]];
    let cols = array![[0, 0], [1, 2], [1, 0]];
    let found = checked(&game(rows.clone(), cols.clone()), Dominance::WeakByPure);
    assert_eq!(found.surviving, [vec![0], vec![0, 1]]);
    // The same game with the players in the other order.
    let turned = game(cols.reversed_axes(), rows.reversed_axes());
    let found = checked(&turned, Dominance::WeakByPure);
    assert_eq!(found.surviving[1], [0]);
}

#[test]
fn equal_actions_survive() {
    let same = game(Array2::from_elem((3, 2), 4), Array2::from_elem((3, 2), -1));
    for dominance in [
        Dominance::Strict,
        Dominance::StrictByPure,
        Dominance::WeakByPure,
    ] {
        let found = checked(&same, dominance);
        assert_eq!(found.surviving, [vec![0, 1, 2], vec![0, 1]]);
    }
}

#[test]
fn a_guess_of_two_thirds_of_the_mean_ends_at_the_lowest() {
    // Three players name a number from 0 to 4. The players nearest to two thirds of the mean share
    // a prize of 60.
    let payoff = |player: usize, cell: &[usize]| {
        let total: usize = cell.iter().sum();
        let distance = |named: usize| (9 * named).abs_diff(2 * total);
        let nearest = cell.iter().map(|&named| distance(named)).min().unwrap();
        let winners = cell
            .iter()
            .filter(|&&named| distance(named) == nearest)
            .count();
        if distance(cell[player]) == nearest {
            60 / winners
        } else {
            0
        }
    };
    let table = |player| {
        ArrayD::from_shape_fn(vec![5; 3], |at| {
            u32::try_from(payoff(player, &[at[0], at[1], at[2]])).unwrap()
        })
    };
    let game = NormalForm::new(3, (0..3).map(table).collect()).unwrap();
    let found = checked(&game, Dominance::WeakByPure);
    assert_eq!(found.surviving, [[0], [0], [0]]);
    checked(&game, Dominance::Strict);
}

#[test]
fn a_player_alone_keeps_its_best_actions() {
    let alone = ArrayD::from_shape_vec(vec![4], vec![1, 5, 2, 5]).unwrap();
    let game = NormalForm::new(1, vec![alone]).unwrap();
    assert_eq!(checked(&game, Dominance::Strict).surviving, [[1, 3]]);
}

#[test]
fn payoffs_of_hostile_scales_are_compared_exactly() {
    let rows = array![[1e150, 1e-150], [1e150, 2e-150], [0.0, 3e-150]];
    let cols = Array2::<f64>::zeros((3, 2));
    let game = Bimatrix::new(rows, cols).unwrap();
    assert_eq!(
        checked(&game, Dominance::WeakByPure).surviving,
        [vec![1, 2], vec![0, 1]]
    );
    checked(&game, Dominance::Strict);
}

#[test]
fn games_too_large_are_rejected() {
    let large = MatrixGame::zero_sum(Array2::from_elem((325, 324), 0)).unwrap();
    let rejected = eliminate_dominated(&large, Dominance::Strict).unwrap_err();
    assert!(matches!(rejected, Error::TooLarge { needed, .. } if needed == 325 * 324 * 649));
}

fn random_game() -> impl Strategy<Value = Bimatrix> {
    (2_usize..5, 2_usize..5).prop_flat_map(|(n_rows, n_cols)| {
        let payoffs = || prop::collection::vec(-3..=3_i32, n_rows * n_cols);
        (payoffs(), payoffs()).prop_map(move |(rows, cols)| {
            let table = |payoffs| Array2::from_shape_vec((n_rows, n_cols), payoffs).unwrap();
            game(table(rows), table(cols))
        })
    })
}

proptest! {
    #![proptest_config(Config { cases: 100, failure_persistence: None, ..Config::default() })]

    #[test]
    fn steps_hold_and_survivors_are_best_against_something(game in random_game()) {
        let found = checked(&game, Dominance::Strict);
        for (player, actions) in found.surviving.iter().enumerate() {
            let others = &found.surviving[1 - player];
            for &action in actions {
                // The gains of the other actions over this action. A belief under which no gain is
                // positive shows that the action is not dominated.
                let unit = |own: usize| {
                    let share = |at| if at == own { Rational::one() } else { Rational::zero() };
                    (0..game.shape()[player]).map(share).collect::<Vec<_>>()
                };
                let rivals = actions.iter().filter(|&&rival| rival != action);
                let over = |&rival: &usize| gains(&game, &found.surviving, player, action, &unit(rival));
                let table: Vec<Vec<Rational>> = rivals.map(over).collect();
                if table.is_empty() {
                    continue;
                }
                let shape = (table.len(), others.len());
                let table = Array2::from_shape_vec(shape, table.concat()).unwrap();
                let belief = &exact(&MatrixGame::zero_sum(table.clone()).unwrap()).unwrap().strategies[1];
                for row in table.rows() {
                    let gain: Rational = row.iter().zip(belief).map(|(gain, share)| gain * share).sum();
                    prop_assert!(!gain.is_positive());
                }
            }
        }
        let weak = checked(&game, Dominance::WeakByPure);
        let pure = checked(&game, Dominance::StrictByPure);
        prop_assert!(pure.steps.len() <= found.steps.len().min(weak.steps.len()));
    }
}
