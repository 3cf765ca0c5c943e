//! The reduced strategic form against its tree, and games of constant sum.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests stand outside of test functions"
)]

use crate::support::fractions::nash_conv_of_tree;
use games::exact::all_equilibria;
use games::extensive::{Kuhn, Sequences, StrategicForm, Tree, TreeBuilder};
use games::ndarray::array;
use games::{
    Bimatrix, Error, MatrixGame, NormalForm, Number, Profile, Rational, SolverConfig,
    StrategicGame, exact, nash_conv, solve,
};
use num_traits::{One, Zero};
use tensor_core::rng::Philox;

fn names(n: usize) -> Vec<String> {
    vec![String::new(); n]
}

/// Returns a random tree in which the first player may move twice. The second player sees the first
/// player's first action in about half of these trees, and nothing in the others.
fn small_tree(random: &Philox) -> Tree {
    let mut builder = TreeBuilder::new(String::new(), names(2));
    let first = builder.information_set(0, "", names(2)).unwrap();
    let again = builder.information_set(0, "", names(2)).unwrap();
    let reply = builder.information_set(1, "", names(2)).unwrap();
    let other = builder.information_set(1, "", names(2)).unwrap();
    let sees = random.word(0).is_multiple_of(2);
    let mut at = 1;
    let mut end = |builder: &mut TreeBuilder| {
        at += 2;
        let payoff = |at| i64::from(random.word(at) % 7);
        builder.terminal(&[payoff(at), payoff(at + 1)]).unwrap();
    };
    builder.chance(&[1, 2], || names(2)).unwrap();
    end(&mut builder);
    builder.decision(first, 2).unwrap();
    builder.decision(again, 2).unwrap();
    for _ in 0..2 {
        builder.decision(reply, 2).unwrap();
        end(&mut builder);
        end(&mut builder);
    }
    builder
        .decision(if sees { other } else { reply }, 2)
        .unwrap();
    end(&mut builder);
    end(&mut builder);
    builder.finish().unwrap()
}

#[test]
fn equilibria_of_the_strategic_form_are_equilibria_of_the_tree() {
    let mut n_equilibria = 0;
    for seed in 0..40 {
        let tree = small_tree(&Philox::new(seed));
        let form = StrategicForm::new(&tree).unwrap();
        assert_eq!(
            form.game().shape()[0],
            3,
            "again is reached after one action alone"
        );
        let game = Bimatrix::try_from(form.game().clone()).unwrap();
        let all = all_equilibria(&game).unwrap();
        assert!(!all.is_empty());
        n_equilibria += all.len();
        for equilibrium in all {
            let behaviour = |player: usize| form.behaviour(player, &equilibrium.strategies[player]);
            let strategies = [behaviour(0), behaviour(1)];
            let sums = |player: usize| {
                let decisions = form.sequences().decisions(player).iter();
                decisions
                    .map(|decision| {
                        strategies[player][decision.actions()]
                            .iter()
                            .sum::<Rational>()
                    })
                    .all(|sum| sum.is_one())
            };
            assert!(sums(0) && sums(1));
            // Rounded to floats the profile is within rounding of an equilibrium.
            let profile: Profile = strategies
                .iter()
                .map(|strategy| strategy.iter().map(Number::nearest).collect())
                .collect();
            let gain = nash_conv_of_tree(form.sequences(), &profile);
            assert!(
                gain <= Rational::from_float(1e-14).unwrap(),
                "seed {seed}: {gain}"
            );
        }
    }
    assert!(n_equilibria > 80, "{n_equilibria}");
}

#[test]
fn plans_of_kuhn_poker_are_counted_and_its_value_is_that_of_the_tree() {
    let tree = Tree::from_game(&Kuhn).unwrap();
    let form = StrategicForm::new(&tree).unwrap();
    // With each of three cards: bet, check and fold, check and call; and two answers to either of
    // two actions.
    assert_eq!(form.game().shape(), [3_usize.pow(3), 2_usize.pow(6)]);
    assert_eq!(form.plans(0).len(), 27);
    let game = MatrixGame::try_from(form.game().clone()).unwrap();
    let value = exact(&game).unwrap().value;
    assert_eq!(value, exact(&tree).unwrap().value);
}

#[test]
fn trees_of_any_number_of_players_have_a_strategic_form() {
    for n_players in [1, 3] {
        let mut builder = TreeBuilder::new("chain".into(), names(n_players));
        let sets: Vec<u32> = (0..n_players)
            .map(|player| {
                builder
                    .information_set(player, "", vec!["stop".into(), "go".into()])
                    .unwrap()
            })
            .collect();
        for (number, &set) in sets.iter().enumerate() {
            builder.decision(set, 2).unwrap();
            builder
                .terminal(&vec![i64::try_from(number).unwrap(); n_players])
                .unwrap();
        }
        builder.terminal(&vec![10; n_players]).unwrap();
        let form = StrategicForm::new(&builder.finish().unwrap()).unwrap();
        let game: &NormalForm = form.game();
        assert_eq!(game.shape(), vec![2; n_players]);
        assert_eq!(game.labels().actions[0], ["stop", "go"]);
        assert_eq!(
            game.payoff(0, &vec![1; n_players]),
            Rational::from_integer(10.into())
        );
        assert!(game.payoff(0, &vec![0; n_players]).is_zero());
    }
}

#[test]
fn too_many_plans_are_an_error() {
    let mut builder = TreeBuilder::new(String::new(), names(1));
    builder.chance(&[1; 30], || names(30)).unwrap();
    for _ in 0..30 {
        let set = builder.information_set(0, "", names(2)).unwrap();
        builder.decision(set, 2).unwrap();
        builder.terminal(&[1]).unwrap();
        builder.terminal(&[2]).unwrap();
    }
    let fault = StrategicForm::new(&builder.finish().unwrap()).unwrap_err();
    assert!(
        matches!(fault, Error::TooLarge { limit: 65_536, .. }),
        "{fault}"
    );
}

#[test]
fn forms_of_too_many_digits_or_choices_are_errors() {
    let limit_of = |builder: TreeBuilder| {
        let fault = StrategicForm::new(&builder.finish().unwrap()).unwrap_err();
        let Error::TooLarge { what, limit, .. } = fault else {
            panic!("{fault}");
        };
        (what, limit)
    };
    let mut long = TreeBuilder::new(String::new(), names(1));
    long.chance(&[1, 1], || names(2)).unwrap();
    for power in [1, 50_000] {
        let denominator = num_bigint::BigInt::from(3).pow(power);
        long.terminal(&[Rational::new(1.into(), denominator)])
            .unwrap();
    }
    let bits = "number of bits of a payoff or of the common denominator";
    assert_eq!(limit_of(long), (bits, 1 << 16));
    // Half of the outcomes of each move of chance end the game, the other half lead to the next.
    let mut deep = TreeBuilder::new(String::new(), names(1));
    for _ in 0..257 {
        deep.chance(&[1, 1], || names(2)).unwrap();
        deep.terminal(&[1]).unwrap();
    }
    deep.terminal(&[2]).unwrap();
    let moves = "number of chance moves on a path";
    assert_eq!(limit_of(deep), (moves, 256));
    // 2^16 plans, each with an entry for each of 300 sets.
    let mut wide = TreeBuilder::new(String::new(), names(1));
    wide.chance(&[1; 300], || names(300)).unwrap();
    for at in 0..300 {
        let n_actions = if at < 16 { 2 } else { 1 };
        let set = wide.information_set(0, "", names(n_actions)).unwrap();
        wide.decision(set, n_actions).unwrap();
        for _ in 0..n_actions {
            wide.terminal(&[1]).unwrap();
        }
    }
    assert_eq!(limit_of(wide), ("number of choices in plans", 1 << 24));
}

#[test]
fn games_of_constant_sum_are_solved_as_games_of_sum_zero() {
    // Points of three rounds, which always sum to 3.
    let points = array![[3, 1, 0], [0, 2, 3], [1, 1, 2]];
    let rest = points.mapv(|point| 3 - point);
    let general = Bimatrix::new(points, rest).unwrap();
    let game = MatrixGame::try_from(general.clone()).unwrap();
    assert_eq!(game.sum(), &Rational::from_integer(3.into()));
    assert_eq!(Bimatrix::from(game.clone()), general);
    assert!(!game.is_zero_sum() && game.constant_sum() == general.constant_sum());
    let proved = exact(&game).unwrap();
    let strategies: Profile = proved
        .strategies
        .iter()
        .map(|strategy| strategy.iter().map(Number::nearest).collect())
        .collect();
    assert!(nash_conv(&general, &strategies).unwrap() < 1e-15);
    let learnt = solve(&game, &SolverConfig::default().tolerance(1e-9)).unwrap();
    let value = proved.value.nearest();
    assert!(
        (learnt.values[0] - value).abs() < 1e-9 && (learnt.values[1] - (3.0 - value)).abs() < 1e-9
    );
    for player in 0..2 {
        let (mut ours, mut theirs) = ([0.0; 3], [0.0; 3]);
        game.action_values(player, &strategies, &mut ours);
        general.action_values(player, &strategies, &mut theirs);
        for (our, their) in ours.iter().zip(theirs) {
            assert!((our - their).abs() < 1e-14);
        }
    }
    let other = Bimatrix::new(array![[1, 2]], array![[1, 1]]).unwrap();
    let fault = MatrixGame::try_from(other).unwrap_err();
    assert_eq!(
        fault,
        Error::NotConstantSum {
            operation: "MatrixGame::try_from",
            cell: vec![0, 1]
        }
    );
}

#[test]
fn a_tree_of_constant_sum_has_the_value_of_the_tree_shifted_to_zero() {
    let tree = |sum: i64| {
        let mut builder = TreeBuilder::new(String::new(), names(2));
        let first = builder.information_set(0, "", names(2)).unwrap();
        let second = builder.information_set(1, "", names(2)).unwrap();
        builder.decision(first, 2).unwrap();
        for payoffs in [[5, 1], [2, 4]] {
            builder.decision(second, 2).unwrap();
            for payoff in payoffs {
                builder.terminal(&[payoff, sum - payoff]).unwrap();
            }
        }
        builder.finish().unwrap()
    };
    let (zero, sixteen) = (exact(&tree(0)).unwrap(), exact(&tree(16)).unwrap());
    assert_eq!(zero.strategies, sixteen.strategies);
    assert_eq!(
        (zero.value.to_string(), sixteen.value.to_string()),
        ("3".into(), "3".into())
    );
    assert_eq!(
        (zero.sum.to_string(), sixteen.sum.to_string()),
        ("0".into(), "16".into())
    );
    let form = Sequences::new(&tree(16)).unwrap();
    assert_eq!(exact(&form).unwrap().value, zero.value);
}
